//! Inodes without names: while they are open, and while they are being cut or freed.
//!
//! With a journal they form a list on the device, from the superblock through the deletion times, so that a mount after a crash
//! finishes what was begun. Without one there is no list, and e2fsck finds them.
//!
//! A task changes the list in memory first, and the superblock or an inode on the device afterwards, with no lock over both. So
//! what is written there is taken from the list at that moment, under the lock of the superblock or the page: whichever of two
//! tasks writes last, it writes what the list has become.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::vfs::{FileKind, Timestamp};
use sim::{LockClass, Mutex, MutexGuard};

use super::Volume;
use super::inode::{Inode, InodeState};
use super::journal::Handle;
use super::layout::{Superblock, put16, put32, ro_compat};
use super::map::TRUNCATE_CREDITS;
use super::mutant;
use super::orphan_file::Slot;
use crate::error::{Error, Result};

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

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changes.lock()
    }

    /// Waits for the task that changes it, as one does that is to look at it (Linux: `s_orphan_lock`).
    pub(crate) fn pass(&self) {
        drop(self.change());
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
    fn remove(&self, ino: u64) -> Option<u64> {
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
            && self.sectors(volume) <= attributes
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
        let changes = self.orphans.change();
        self.orphans.list.write().insert(0, inode.ino);
        drop(changes);
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
        let changes = self.orphans.change();
        let Some(before) = self.orphans.remove(inode.ino) else { return Ok(()) };
        drop(changes);
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
                let (checksum, wide) = self.inode_checksum(ino, inode);
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
        if state.raw.links.get() > 0 || state.opens > 0 || state.gone {
            return Ok(());
        }
        state.gone = true;
        self.drop_delayed(&mut state, (0, u64::MAX));
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
            self.forget_cut(inode, from)?;
            let done = self.unmap(&handle, inode, state, (from, u64::MAX))?;
            self.store_inode(&handle, inode, state)?;
            if done {
                return Ok(());
            }
        }
    }

    /// The list as a crash left it. It must end, and lead to inodes.
    pub(crate) fn orphan_list(&self) -> Result<Vec<u64>> {
        let mut list = Vec::new();
        let mut next = u64::from(self.superblock.lock().last_orphan.get());
        while next != 0 {
            if list.len() as u64 >= self.geo.inodes() || list.contains(&next) || next > self.geo.inodes() {
                return Err(self.corrupt("the list of orphans does not end".to_owned()));
            }
            list.push(next);
            let (raw, _) = self.read_inode(next)?;
            next = u64::from(raw.dtime.get());
        }
        if !list.is_empty() && self.journal.is_none() {
            // Left behind by a mount with a journal; nothing here would take them off.
            return Err(Error::Corrupt("there are orphans, but no journal".to_owned()));
        }
        Ok(list)
    }

    /// After a crash: frees or cuts what is on the list and in the kernel's file; says how many.
    pub(crate) fn clean_orphans(&self, (list, slots): (Vec<u64>, BTreeMap<u64, Slot>)) -> Result<u64> {
        let all: Vec<u64> = list.iter().chain(slots.keys()).copied().collect();
        let changes = self.orphans.change();
        *self.orphans.list.write() = list;
        drop(changes);
        *self.orphan_slots.lock() = slots;
        for ino in &all {
            let inode = self.inode(*ino)?;
            let mut state = inode.change();
            state.orphan = true;
            if state.raw.links.get() == 0 {
                drop(state);
                self.reap(&inode)?;
                continue;
            }
            let end = state.raw.size().div_ceil(u64::from(self.geo.block_bytes));
            if state.has_map(self) {
                self.cut(&inode, &mut state, end)?;
            }
            let handle = self.begin(TRUNCATE_CREDITS)?;
            self.remove_orphan(&handle, &inode, &mut state)?;
            self.store_inode(&handle, &inode, &mut state)?;
        }
        if self.superblock.lock().has_ro_compat(ro_compat::ORPHAN_PRESENT) {
            let handle = self.begin(1)?;
            self.change_superblock(&handle, Superblock::leave_orphan_file)?;
        }
        Ok(all.len() as u64)
    }
}
