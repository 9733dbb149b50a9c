//! Mounting: replay of the journal, orphans that a crash left, repair of what has no journal.
//!
//! The log itself is replayed by `journal/recovery.rs`, and what its fast commits change by `fast_commit.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::vfs::Timestamp;
use media::block::{BlockDevice, Queue};

use super::journal::Journal;
use super::journal::credits::TRUNCATE_CREDITS;
use super::journal::recovery::Care;
use super::layout::{ROOT_INO, STATE_CLEAN, Superblock, compat, incompat};
use super::orphan_file::Slot;
use super::{Settings, Volume, damaged, repair, superblock};
use base::error::{Error, Result};
use design::FsError;

/// The latest revision of the format (`EXT4_MAX_SUPP_REV`).
const MOST_REVISION: u32 = 1;

impl Volume {
    /// Mounts: replays the journal and frees orphans, or repairs an image that has no journal; marks the image as in use.
    pub(crate) fn mount(device: &Arc<dyn BlockDevice>, settings: Settings) -> Result<Arc<Self>, FsError> {
        let repaired = Self::repair_unjournaled(device, &settings)?;
        let mut volume = Self::open_to_replay(device, &settings)?;
        if volume.settings.skips_log {
            return Ok(Self::without_log(volume));
        }
        volume.check_writable()?;
        let journaled = volume.superblock.lock().has_compat(compat::HAS_JOURNAL);
        if journaled {
            let log = volume.find_journal()?;
            let (replayed, map, format, superblock) = volume.recover_journal(&log, Care::Refuse)?;
            if replayed.end.is_some() || volume.torn {
                let notes = std::mem::take(&mut volume.notes);
                let errors = volume.superblock.lock().clone();
                volume = Self::open(device, settings)?;
                volume.superblock.lock().keep_errors(&errors);
                volume.notes = notes;
            }
            volume.notes.extend(replayed.note());
            let queues = (Queue::new(log.device), Queue::new(Arc::clone(device)));
            let mode = (volume.settings.data, volume.settings.mutant);
            volume.journal = Some(Journal::new(queues, map, format, superblock, mode));
        }
        let note = volume.superblock.lock().error_note();
        volume.notes.extend(note);
        volume.notes.extend(repaired);
        // What a mount refuses it does not change.
        volume.check_root()?;
        let orphans =
            (volume.orphan_list().map_err(damaged)?, volume.present_orphan_slots().map_err(damaged)?);
        volume.mark_in_use(journaled).map_err(damaged)?;
        let freed = volume.clean_orphans(orphans).map_err(damaged)?;
        if freed > 0 {
            volume.notes.push(format!("{freed} inodes without names were freed or cut"));
        }
        volume.mounted.store(true, Relaxed);
        let volume = Arc::new(volume);
        volume.start_writeback();
        Ok(volume)
    }

    /// The image as it lies on the device, whatever its log has.
    fn without_log(mut volume: Self) -> Arc<Self> {
        if volume.superblock.lock().needs_recovery() {
            let what =
                "noload: the journal was not replayed: names, attributes and contents may be old or torn";
            volume.notes.push(what.to_owned());
        }
        volume.mounted.store(true, Relaxed);
        Arc::new(volume)
    }

    /// What a mount for writing refuses beside what it cannot read: a primary superblock that is damaged and a revision of the
    /// format that is not known, as the kernel does, bitmaps and tables over each other, and a journal over these.
    fn check_writable(&self) -> Result<(), FsError> {
        if self.settings.read_only || self.settings.discards || self.settings.repairs {
            return Ok(());
        }
        let refuse = |what: String| Err(damaged(Error::Corrupt(what)));
        if let Some(note) = self.notes.first() {
            return refuse(note.clone());
        }
        let revision = self.superblock.lock().rev_level.get();
        if revision > MOST_REVISION {
            return refuse(format!("revision {revision} of the format; there are 0 and 1"));
        }
        if let Some(block) = super::map::journal_over_metadata(self) {
            return refuse(format!("block {block} of the journal lies in metadata"));
        }
        match superblock::overlap(&self.geo, &self.groups.lock().descriptors).first() {
            Some((group, _)) => {
                refuse(format!("group {group}: a bitmap or an inode table lies over another one"))
            }
            None => Ok(()),
        }
    }

    /// As the kernel, no mount takes an image whose root is no directory.
    fn check_root(&self) -> Result<(), FsError> {
        let root = self.inode(ROOT_INO).map_err(damaged)?;
        let state = root.state.read();
        let is_one = state.raw.is_dir() && state.raw.size() > 0 && state.sectors(self.geo.block_bytes) > 0;
        if is_one { Ok(()) } else { Err(damaged(Error::Corrupt("the root is no directory".to_owned()))) }
    }

    /// Repairs an image that has no journal and was not unmounted; says what was done.
    fn repair_unjournaled(
        device: &Arc<dyn BlockDevice>,
        settings: &Settings,
    ) -> Result<Vec<String>, FsError> {
        let found = superblock::load_to_replay(device, settings)?;
        let superblock = found.superblock;
        let journaled = superblock.has_compat(compat::HAS_JOURNAL);
        // With a backup only a person repairs.
        if journaled || !superblock.needs_recovery() || settings.skips_log || found.note.is_some() {
            return Ok(Vec::new());
        }
        let mut volume = Self::open(device, Settings { repairs: true, ..settings.clone() })?;
        let done = repair::repair(&volume, false).map_err(damaged)?.join(", ");
        let done = if done.is_empty() { "nothing was wrong" } else { &done };
        let mut notes = std::mem::take(&mut volume.notes);
        notes.push(format!("it was not unmounted, and has no journal; it was checked and repaired: {done}"));
        Ok(notes)
    }

    /// Marks the image as mounted: not clean, or in need of recovery.
    fn mark_in_use(&self, journaled: bool) -> Result<()> {
        self.update_superblock(|superblock| {
            superblock.mnt_count = superblock.mnt_count.get().wrapping_add(1).into();
            superblock.mtime = (Timestamp::now().secs as u32).into();
            if journaled {
                superblock.feature_incompat = (superblock.feature_incompat.get() | incompat::RECOVER).into();
            } else {
                superblock.state = (superblock.state.get() & !STATE_CLEAN).into();
            }
        })
    }

    /// The list as a crash left it. It must end, and lead to inodes.
    pub(crate) fn orphan_list(&self) -> Result<Vec<u64>> {
        let mut list = Vec::new();
        let mut next = u64::from(self.superblock.lock().last_orphan.get());
        while next != 0 {
            if list.len() as u64 >= self.geo.inodes() || list.contains(&next) || !self.geo.may_be_orphan(next)
            {
                return Err(self.corrupt(format!("the list of orphans does not end: inode {next}")));
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
        self.orphans.set(list);
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
        if self.superblock.lock().has_orphan_file_to_read() {
            let handle = self.begin(1)?;
            self.change_superblock(&handle, Superblock::leave_orphan_file)?;
        }
        Ok(all.len() as u64)
    }
}
