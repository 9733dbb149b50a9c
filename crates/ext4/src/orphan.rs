//! Inodes without names: while they are open, and while they are being cut or freed.
//!
//! With a journal they form a list on the device, from the superblock through the deletion times, so that a mount after a crash
//! finishes what was begun. Without one there is no list, and e2fsck finds them.
//!
//! A task changes the list in memory first, and the superblock or an inode on the device afterwards, with no lock over both. So
//! what is written there is taken from the list at that moment, under the lock of the superblock or the page: whichever of two
//! tasks writes last, it writes what the list has become.

use std::sync::Arc;

use ::vfs::{FileKind, Timestamp};
use sim::{LockClass, Mutex};

use super::Volume;
use super::inode::{Inode, InodeState};
use super::journal::Handle;
use super::journal::credits::TRUNCATE_CREDITS;
use super::layout::{put16, put32};
use super::mutant;
use base::error::Result;

/// The list in memory, the head of the list on the device first. A look takes a lock of the host, which is no lock of the
/// modelled machine.
pub(crate) struct Orphans {
    /// A task that changes it has it.
    changes: Mutex<()>,
    list: parking_lot::RwLock<Vec<u64>>,
}

impl Orphans {
    /// None, with a lock of this class.
    pub(crate) fn new(class: &'static LockClass) -> Self {
        Self { changes: Mutex::new(class, ()), list: parking_lot::RwLock::default() }
    }

    /// Waits for the task that changes it, as one does that is to look at it (Linux: `s_orphan_lock`).
    pub(crate) fn pass(&self) {
        drop(self.changes.lock());
    }

    /// The list as a crash left it.
    pub(super) fn set(&self, list: Vec<u64>) {
        let _changes = self.changes.lock();
        *self.list.write() = list;
    }

    /// Puts an inode at the head.
    fn put(&self, ino: u64) {
        let _changes = self.changes.lock();
        let mut list = self.list.write();
        let grows = list.len() == list.capacity();
        list.insert(0, ino);
        drop(list);
        sim::ran::allocate(u64::from(grows));
    }

    /// The first inode, or 0.
    fn head(&self) -> u32 {
        self.list.read().first().map_or(0, |first| *first as u32)
    }

    /// The inode after `ino`, 0 for the last; none if it is not on the list.
    fn after(&self, ino: u64) -> Option<u32> {
        let list = self.list.read();
        let place = list.iter().position(|other| *other == ino)?;
        Some(list.get(place + 1).map_or(0, |next| *next as u32))
    }

    /// Takes an inode off, if it is there; the one before it, 0 for the head.
    fn take(&self, ino: u64) -> Option<u64> {
        let _changes = self.changes.lock();
        let mut list = self.list.write();
        let place = list.iter().position(|other| *other == ino)?;
        list.remove(place);
        Some(place.checked_sub(1).map_or(0, |before| list[before]))
    }
}

impl InodeState {
    /// Whether the inode's map leads to blocks: files, directories, and symbolic links that do not fit into the inode.
    pub(crate) fn has_map(&self, volume: &Volume) -> bool {
        match self.raw.kind() {
            Some(FileKind::Regular | FileKind::Directory) => true,
            Some(FileKind::Symlink) => !self.is_short_link(volume),
            _ => false,
        }
    }

    /// Whether it is a symbolic link whose target lies in the inode.
    pub(crate) fn is_short_link(&self, volume: &Volume) -> bool {
        let attributes = if self.raw.file_acl() != 0 { u64::from(volume.geo.block_bytes / 512) } else { 0 };
        self.raw.kind() == Some(FileKind::Symlink)
            && self.sectors(volume.geo.block_bytes) <= attributes
            && self.raw.size() < 60
    }
}

impl Volume {
    /// Puts an inode on the list. The caller writes the inode.
    pub(crate) fn add_orphan(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
    ) -> Result<()> {
        if self.journal.is_none() || state.orphan || self.has(mutant::ORPHAN_NOT_LISTED) {
            return Ok(());
        }
        let _part = sim::part(&super::parts::ORPHAN);
        self.orphans.put(inode.ino);
        state.orphan = true;
        self.store_first_orphan(handle)
    }

    /// Lets the superblock lead to the head of the list.
    fn store_first_orphan(&self, handle: &Handle<'_>) -> Result<()> {
        self.change_superblock(handle, |superblock| superblock.last_orphan = self.orphans.head().into())
    }

    /// Takes an inode off the list. The caller writes the inode.
    pub(crate) fn remove_orphan(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
    ) -> Result<()> {
        if !state.orphan {
            return Ok(());
        }
        let _part = sim::part(&super::parts::ORPHAN);
        let slot = self.orphan_slots.lock().remove(&inode.ino);
        if let Some(slot) = slot {
            state.orphan = false;
            return self.free_orphan_slot(handle, slot);
        }
        let Some(before) = self.orphans.take(inode.ino) else { return Ok(()) };
        state.orphan = false;
        state.raw.dtime = 0.into();
        match before {
            0 => self.store_first_orphan(handle),
            before => self.store_next_orphan(handle, before),
        }
    }

    /// Lets an inode on the device lead to the one after it in the list, unless it has left the list meanwhile.
    fn store_next_orphan(&self, handle: &Handle<'_>, ino: u64) -> Result<()> {
        let (block, at) = self.inode_at(ino)?;
        let len = self.geo.inode_bytes;
        self.change(handle, block, |bytes| {
            let Some(next) = self.orphans.after(ino) else { return };
            let inode = &mut bytes[at..at + len];
            put32(inode, 0x14, next);
            if self.geo.metadata_csum {
                let (checksum, wide) = self.geo.inode_checksum(ino, inode);
                put16(inode, 0x7c, checksum as u16);
                if wide {
                    put16(inode, 0x82, (checksum >> 16) as u16);
                }
            }
        })
    }

    /// Before the inode is laid out in its block, whose lock the caller holds: what follows it in the list.
    pub(crate) fn link_orphan(&self, ino: u64, state: &mut InodeState) {
        if state.orphan {
            state.raw.dtime = self.orphans.after(ino).unwrap_or_default().into();
        }
    }

    /// Frees an inode without links that is not open.
    pub(crate) fn reap(&self, inode: &Arc<Inode>) -> Result<()> {
        let mut state = inode.change();
        if state.raw.links.get() > 0 || state.gone || !inode.opens.lose_name() {
            return Ok(());
        }
        (state.gone, state.kept_open) = (true, false);
        self.drop_delayed(&mut state, 0..u64::MAX);
        state.delayed.disk_size = None;
        if state.has_map(self) {
            self.cut(inode, &mut state, 0)?;
        }
        let handle = self.begin(TRUNCATE_CREDITS)?;
        self.drop_attribute_block(&handle, &mut state)?;
        self.remove_orphan(&handle, inode, &mut state)?;
        state.raw.dtime = (Timestamp::now().secs as u32).into();
        state.raw.set_size(0);
        let directory = state.raw.is_dir();
        self.store_inode(&handle, inode, &mut state)?;
        self.free_inode(&handle, inode.ino, directory)?;
        drop(handle);
        self.maps.forget(inode.ino);
        self.forget_inode(inode);
        Ok(())
    }

    /// Frees the blocks of a file from block `from` on, in as many transactions as it takes, and forgets their pages.
    pub(crate) fn cut(&self, inode: &Inode, state: &mut InodeState, from: u64) -> Result<()> {
        loop {
            let handle = self.begin(TRUNCATE_CREDITS)?;
            // In the first round; then there are none.
            if !inode.has_no_page() {
                self.write_for_commit(inode.mapping())?;
                self.cache.forget(inode.mapping(), from, u64::MAX);
            }
            let done = self.unmap(&handle, inode, state, from..u64::MAX)?;
            self.store_inode(&handle, inode, state)?;
            if done {
                return Ok(());
            }
        }
    }
}
