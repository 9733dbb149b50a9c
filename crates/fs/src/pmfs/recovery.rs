//! Mounting and unmounting an image.
//!
//! Mount: superblock (or its copy) → journal: undo what has no commit → an older format becomes this one → inode table → block
//! map: the saved one, which is made invalid at once, or a scan → truncate list: finish what was promised → mount time → cleaner.
//!
//! The block map comes before the truncate list, because replaying the list frees blocks.

use std::mem::offset_of;
use std::ops::RangeInclusive;
use std::sync::Arc;

use media::event::Mark;
use media::nvmm::Region;
use sim::{ByteRun, Mutex, Run, TaskSpec};

use super::alloc::BlockMap;
use super::inode::{InodeTable, is_free_slot};
use super::journal::{self, Journal, next_generation};
use super::layout::{
    BLOCK, BLOCK_MAP_INO, BLOCK_SHIFT, ENTRY, INODE_SLOT, JOURNAL_DESCRIPTOR, JournalDescriptor, LogEntry,
    MAX_IMAGE, NOTHING_SAVED, ROOT_INO, RawInode, Superblock, TABLE_INODE, entry, jd, sb,
};
use super::map::{FILL_MAX, Tree, fill_entries};
use super::mutant;
use super::superblock;
use super::times::seconds;
use super::truncate::TruncateList;
use super::{BACKGROUND, RENAME, Settings, Volume};
use base::dax::DirectMaps;
use base::error::{Error, Result};
use base::persist::attributes::blocks_of;
use base::persist::free_map::FreeMap;
use design::FsError;
use design::Mutant;

/// Bytes of an extent of the saved block map: first and last block.
const EXTENT: u64 = 16;

/// Why an image cannot be mounted.
pub(crate) fn damaged(error: Error) -> FsError {
    match error {
        Error::Media(error) => FsError::Media(error),
        other => FsError::Damaged { design: "pmfs", what: other.to_string() },
    }
}

/// Grows an image to its region, with the block map of the whole; returns the size before.
pub(crate) fn grow(region: &Arc<Region>) -> Result<u64, FsError> {
    let settings = Settings::for_recovery(true);
    let remount = || Volume::mount(region, settings)?.unmount().map_err(damaged);
    remount()?;
    let (superblock, _) = superblock::load(region)?;
    let size = (region.len() / BLOCK * BLOCK).min(MAX_IMAGE);
    if size > superblock.size {
        superblock::resize(region, &superblock, size).map_err(damaged)?;
        remount()?;
    }
    Ok(superblock.size)
}

/// Replays the journal: undoes transactions without a commit, newest first, and leaves the journal empty. Returns how many
/// entries were undone.
///
/// The last step is one store that empties the journal and changes its generation: entries beyond the tail become invalid. They may
/// be there even if the journal is empty, because a crash can leave entries of a transaction without the tail behind them, and the
/// next transaction begins at the same place. When all generations have been used, numbers are about to be reused: then every entry
/// is wiped while the journal is empty under the last generation, which is a state from which recovery does the same again.
pub(crate) fn recover_journal(region: &Region, size: u64, mutant: Option<Mutant>) -> Result<u64, FsError> {
    let descriptor: JournalDescriptor = region.read(JOURNAL_DESCRIPTOR)?;
    if let Some(what) = superblock::journal_fault(&descriptor, size) {
        return Err(FsError::Damaged { design: "pmfs", what });
    }
    let last = descriptor.generation == u16::MAX;
    if descriptor.head == descriptor.tail && !last && !has_entries_beyond(region, &descriptor)? {
        return Ok(0);
    }
    let undone = undo_backwards(region, &descriptor, mutant).map_err(damaged)?;
    region.fence();
    if last {
        store_empty(region, &descriptor, u16::MAX)?;
        journal::wipe(region, descriptor.base, descriptor.size / ENTRY as u32).map_err(damaged)?;
    }
    store_empty(region, &descriptor, next_generation(descriptor.generation))?;
    Ok(undone)
}

/// Whether a crash has left entries beyond the tail of an empty journal that the next transactions would make valid: those of its
/// generation, and those of the next from the beginning of the ring. An entry that cannot be read is written before it is valid.
fn has_entries_beyond(region: &Region, descriptor: &JournalDescriptor) -> Result<bool, FsError> {
    let superblock: Superblock = region.read(0)?;
    if superblock.mount_time == 0 || superblock.saved_extents != 0 {
        // Never mounted, or unmounted.
        return Ok(false);
    }
    let (tail, entries) = (u64::from(descriptor.tail) / ENTRY, u64::from(descriptor.size) / ENTRY);
    let is_of = |index: u64, generation: u16| {
        let at = descriptor.base + index * ENTRY + offset_of!(LogEntry, generation) as u64;
        region.load_u16(at) == Ok(generation)
    };
    let next = next_generation(descriptor.generation);
    Ok((tail..entries).any(|index| is_of(index, descriptor.generation))
        || (0..tail).any(|index| is_of(index, next)))
}

/// Stores tail and generation in one word: the journal is empty.
fn store_empty(region: &Region, descriptor: &JournalDescriptor, generation: u16) -> Result<(), FsError> {
    region.mark(Mark::Commit { at: jd::TAIL_WORD, needs: &[] });
    region.store_u64(jd::TAIL_WORD, u64::from(descriptor.head) | u64::from(generation) << 32)?;
    region.flush(jd::TAIL_WORD, 8);
    region.fence();
    Ok(())
}

fn undo_backwards(region: &Region, descriptor: &JournalDescriptor, mutant: Option<Mutant>) -> Result<u64> {
    let entries = descriptor.size / ENTRY as u32;
    let skipped = u32::from(mutant == Some(mutant::UNDO_SKIPS_OLDEST));
    let head = (descriptor.head / ENTRY as u32 + skipped) % entries;
    let mut at = descriptor.tail / ENTRY as u32;
    let mut generation = descriptor.generation;
    let (mut ended, mut undone) = (None, 0);
    while at != head {
        if at == 0 {
            at = entries;
            generation = if generation == 1 { u16::MAX } else { generation - 1 };
        }
        at -= 1;
        let logged: LogEntry = region.read(descriptor.base + u64::from(at) * ENTRY)?;
        if logged.generation != generation {
            continue;
        }
        if logged.kind & (entry::COMMIT | entry::ABORT) != 0 {
            ended = Some(logged.transaction);
        } else if ended != Some(logged.transaction) {
            undo(region, &logged)?;
            undone += 1;
        }
    }
    Ok(undone)
}

fn undo(region: &Region, logged: &LogEntry) -> Result<()> {
    let old = logged.old.get(..usize::from(logged.len));
    let old = old.ok_or_else(|| Error::Corrupt(format!("log entry with {} old bytes", logged.len)))?;
    region.store(logged.target, old)?;
    region.flush(logged.target, old.len() as u64);
    Ok(())
}

impl Volume {
    /// Mounts the image of a region.
    pub(crate) fn mount(region: &Arc<Region>, settings: Settings) -> Result<Self, FsError> {
        let volume = Self::recover(region, settings)?;
        volume.stamp_mount_time().map_err(damaged)?;
        volume.start_cleaner();
        Ok(volume)
    }

    /// Everything that mounting does before the image may be used: afterwards it is consistent.
    pub(crate) fn recover(region: &Arc<Region>, settings: Settings) -> Result<Self, FsError> {
        region.mark(Mark::RecoveryBegin);
        let (superblock, from_copy) = superblock::load(region)?;
        if from_copy {
            superblock::restore_from_copy(region, &superblock).map_err(damaged)?;
        }
        recover_journal(region, superblock.size, settings.mutant)?;
        superblock::convert(region, &superblock).map_err(damaged)?;
        let superblock = superblock.with_dynamic_of(region);
        let volume = Self::load(region, &superblock, settings).map_err(damaged)?;
        volume.replay_truncates().map_err(damaged)?;
        region.mark(Mark::RecoveryEnd);
        Ok(volume)
    }

    pub(super) fn load(region: &Arc<Region>, superblock: &Superblock, settings: Settings) -> Result<Self> {
        let descriptor: JournalDescriptor = region.read(JOURNAL_DESCRIPTOR)?;
        let table: RawInode = region.read(TABLE_INODE)?;
        let mut volume = Self {
            region: Arc::clone(region),
            journal: Arc::new(Journal::open(region, &descriptor)),
            blocks: BlockMap::new(FreeMap::new(superblock.size / BLOCK), region),
            inodes: InodeTable::new(region, superblock.size, table.block_shift()),
            maps: DirectMaps::default(),
            truncates: TruncateList::new(),
            renames: Mutex::new(&RENAME, ()),
            settings,
            cleaner: Mutex::new(&BACKGROUND, None),
        };
        Tree::of(&table).visit(region, &mut |visited| match visited.block {
            // Every slot gets an object in DRAM, so a check at each access is not enough.
            Some(_) if region.len() - visited.offset < 1 << visited.shift => Err(Error::Corrupt(format!(
                "inode table: the block at {} ends outside the image",
                visited.offset
            ))),
            Some(block) => volume.load_table_block(block, visited.offset),
            None => Ok(()),
        })?;
        let root = volume.raw(volume.inodes.get(ROOT_INO)?)?;
        if !super::namei::is_dir(&root) || root.links < 2 {
            return Err(Error::Corrupt("the root is not a directory".to_owned()));
        }
        let first = (descriptor.base + u64::from(descriptor.size)) / BLOCK;
        let map = match volume.saved_block_map(superblock, first)? {
            Some(map) => map,
            None => volume.scan_blocks(superblock.size / BLOCK, first, &table)?,
        };
        // Checked before any change: a list that cannot be followed makes the mount fail.
        volume.load_truncate_list()?;
        if volume.has(mutant::REPLAY_BEFORE_BLOCK_MAP) {
            volume.replay_truncates()?;
        }
        volume.blocks = BlockMap::new(map, region);
        volume.forget_saved_map()?;
        Ok(volume)
    }

    /// The block map that a clean unmount has left; none when there is none, or when it is not plausible.
    fn saved_block_map(&self, superblock: &Superblock, first: u64) -> Result<Option<FreeMap>> {
        let raw = self.raw(self.inodes.get(BLOCK_MAP_INO)?)?;
        let blocks = superblock.size / BLOCK;
        if raw.root == 0 || [0, NOTHING_SAVED].contains(&superblock.saved_extents) {
            return Ok(None);
        }
        let mut map = FreeMap::new(blocks);
        let mut next = first;
        let tree = Tree::of(&raw);
        for number in 0..superblock.saved_extents {
            let Some(saved) = saved_extent(&self.region, &tree, number)? else { return Ok(None) };
            let (low, high) = saved.into_inner();
            let in_order = if number == 0 { low == 0 && high + 1 >= first } else { low > next };
            if high < low || high >= blocks || !in_order {
                return Ok(None);
            }
            (next..low).for_each(|block| {
                map.put(block);
            });
            next = high + 1;
        }
        (next..blocks).for_each(|block| {
            map.put(block);
        });
        // The map itself is about to be freed.
        let mut own = true;
        tree.visit(&self.region, &mut |visited| {
            own &= visited.offset >= first * BLOCK && map.put(visited.offset / BLOCK);
            Ok(())
        })?;
        Ok(own.then_some(map))
    }

    /// Marks what the inode table and all live inodes reach.
    fn scan_blocks(&self, blocks: u64, first: u64, table: &RawInode) -> Result<FreeMap> {
        let mut map = FreeMap::new(blocks);
        map.put_run(first, blocks.saturating_sub(first));
        mark_tree(&self.region, table, &mut map, TABLE_INODE)?;
        let (slots, _) = self.inodes.counts();
        for slot in 1..slots {
            let number = slot * INODE_SLOT;
            let inode = self.inodes.get(number)?;
            if number != BLOCK_MAP_INO && !is_free_slot(&self.region, inode.offset)? {
                mark_tree(&self.region, &self.raw(inode)?, &mut map, number)?;
            }
        }
        Ok(map)
    }

    /// Makes the saved map invalid, so that a crash from here on leads to a scan.
    fn forget_saved_map(&self) -> Result<()> {
        let inode = self.inodes.get(BLOCK_MAP_INO)?;
        let raw = self.raw(inode)?;
        let superblock: Superblock = self.region.read(0)?;
        if (raw.root, raw.size, raw.blocks) == (0, 0, 0) && superblock.saved_extents == 0 {
            return Ok(());
        }
        let mut tx = self.journal.begin(2)?;
        let work = (|| {
            self.journal.log(&mut tx, &[inode.half(), ByteRun::new(sb::FAST_MOUNT, sb::FAST_MOUNT_LEN)])?;
            self.store_half(inode, &RawInode { root: 0, height: 0, size: 0, blocks: 0, ..raw })?;
            Superblock { saved_extents: 0, ..superblock }.store_fast_mount(&self.region)
        })();
        self.end(tx, work)
    }

    fn stamp_mount_time(&self) -> Result<()> {
        let now = u64::from(seconds());
        self.region.mark(Mark::Commit { at: sb::TIMES, needs: &[] });
        self.region.store_u64(sb::TIMES, now | now << 32)?;
        self.region.flush(sb::TIMES, 8);
        self.region.fence();
        Ok(())
    }

    fn start_cleaner(&self) {
        let journal = Arc::clone(&self.journal);
        let task = sim::spawn(TaskSpec::named("pmfs cleaner").background().movable(), move || {
            // A medium that fails under the cleaner fails under the next transaction, too, which reports it.
            let _ = journal.clean_until_stopped();
        });
        *self.cleaner.lock() = Some(task);
    }

    /// Leaves a clean image: journal empty, block map saved. Background work ends even when that fails.
    pub(crate) fn unmount(&self) -> Result<()> {
        let saved = self.save_block_map();
        let stopped = self.journal.stop();
        let cleaner = self.cleaner.lock().take();
        if let Some(cleaner) = cleaner {
            cleaner.join();
        }
        saved.and(stopped)?;
        if self.has(mutant::COPY_NOT_WRITTEN) {
            return Ok(());
        }
        superblock::refresh_copy(&self.region)
    }

    /// Saves the block map into its inode. Without space for it nothing is saved, and the next mount scans.
    fn save_block_map(&self) -> Result<()> {
        if self.blocks.is_doubted() {
            return self.forget_saved_map();
        }
        let inode = self.inodes.get(BLOCK_MAP_INO)?;
        let mut raw = self.raw(inode)?;
        let wanted = self.blocks.snapshot().used_runs().len() as u64 + 16;
        // Storing the map takes blocks, which may split runs: room for twice as many extents is always enough.
        let blocks = (2 * wanted * EXTENT).div_ceil(BLOCK);
        let mut block = 0;
        while block < blocks {
            let count = (blocks - block).min(FILL_MAX - block % FILL_MAX);
            let mut tx = self.begin_growth(inode, fill_entries(count))?;
            let mut tree = Tree::of(&raw);
            let filled = tree.fill(self, &mut tx, Run::new(block, count), &mut |_, _| Ok(()));
            let stored = filled.and_then(|filled| {
                self.store_growth(inode, &mut raw, &tree, filled, (block + filled.mapped) * BLOCK)?;
                Ok(filled.mapped)
            });
            if self.end(tx, stored)? < count {
                return self.save_nothing();
            }
            block += count;
        }
        let runs = self.blocks.snapshot().used_runs();
        if runs.len() as u64 * EXTENT > blocks * BLOCK {
            return self.save_nothing();
        }
        let tree = Tree::of(&raw);
        for (number, run) in (0u64..).zip(&runs) {
            let byte = number * EXTENT;
            let at = tree.lookup(&self.region, byte / BLOCK)?;
            let at = at
                .ok_or_else(|| Error::Corrupt("the block map was just mapped and has a hole".to_owned()))?
                + byte % BLOCK;
            self.region.store_pair(at, [*run.start(), *run.end()])?;
            self.region.flush(at, EXTENT);
        }
        // The log of that transaction fences before anything can lead to the map.
        self.store_counts(runs.len() as u64)
    }

    /// There is no room for the map.
    fn save_nothing(&self) -> Result<()> {
        self.forget_saved_map()?;
        self.store_counts(NOTHING_SAVED)
    }

    /// The "fast mount" group of the superblock: with it the saved map becomes valid.
    fn store_counts(&self, saved_extents: u64) -> Result<()> {
        let superblock: Superblock = self.region.read(0)?;
        let (inodes, inodes_free) = self.inodes.counts();
        let mut tx = self.journal.begin(2)?;
        let logged = self.journal.log(&mut tx, &[ByteRun::new(sb::FAST_MOUNT, sb::FAST_MOUNT_LEN)]);
        let counted = Superblock {
            write_time: seconds(),
            saved_extents,
            free_blocks: self.blocks.free(),
            inodes: inodes as u32,
            inodes_free: inodes_free as u32,
            inodes_used: (inodes - inodes_free) as u32,
            inode_hint: 0,
            ..superblock
        };
        self.end(tx, logged.and_then(|()| counted.store_fast_mount(&self.region)))
    }
}

/// Extent `number` of a saved block map; none when the map has a hole there.
pub(super) fn saved_extent(region: &Region, tree: &Tree, number: u64) -> Result<Option<RangeInclusive<u64>>> {
    let byte = number * EXTENT;
    let Some(at) = tree.lookup(region, byte >> tree.shift)? else { return Ok(None) };
    let at = at + (byte & ((1 << tree.shift) - 1));
    Ok(Some(region.load_u64(at)?..=region.load_u64(at + 8)?))
}

/// Takes the blocks of an inode out of the map: its tree, and its attributes.
fn mark_tree(region: &Region, raw: &RawInode, map: &mut FreeMap, number: u64) -> Result<()> {
    let mut mark = |offset: u64, shift: u32| {
        let first = offset / BLOCK;
        for block in first..first + (1 << (shift - BLOCK_SHIFT)) {
            if !map.take(block) {
                return Err(Error::Corrupt(format!(
                    "inode {number}: block {block} is used twice or outside the image"
                )));
            }
        }
        Ok(())
    };
    blocks_of(region, raw.xattr)?.into_iter().try_for_each(|block| mark(block, BLOCK_SHIFT))?;
    Tree::of(raw).visit(region, &mut |visited| mark(visited.offset, visited.shift))
}
