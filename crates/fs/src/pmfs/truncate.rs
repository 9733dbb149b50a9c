//! The truncate list: inodes whose truncation or removal has been promised and may not be finished.
//!
//! ```text
//! head (byte 272) ──► item behind inode A {size, next} ──► item behind inode B {size, 0}
//! ```
//!
//! A file that is removed while it is open stays on the list until its last close.
//!
//! An inode is put on the list before the work and taken off after it; both are one 8-byte store. Mounting after a crash
//! replays the list: an inode with links gets the item's size, one without is freed. Replaying is idempotent.
//!
//! If the medium fails during the work, an inode without links stays on the list, and the next sync or mount frees it. If an
//! inode with links can be neither cut nor taken off the list, the volume refuses all changes ([`super::journal::Journal::fail`])
//! and the next mount cuts it.
//!
//! Lock order: after the inode's own lock; a leaf besides.

use std::collections::BTreeSet;

use media::event::Mark;
use media::nvmm::Region;
use sim::sync::{AtomicBool, Ordering};
use sim::{ByteRun, LockClass, Mutex};
use vfs::Timestamp;

use super::Volume;
use super::inode::{Inode, InodeState};
use super::layout::{BLOCK_SHIFT, FLAG_BEYOND_EOF, INODE_BYTES, RawInode, TRUNCATE_HEAD, TruncateItem, ino};
use super::map::{Freed, Tree};
use super::mutant;
use base::error::{Error, Result};
use base::persist::attributes::blocks_of;

pub(super) static TRUNCATE: LockClass = LockClass::new("pmfs.truncate").under(&[&super::inode::INODE]);

/// The list in DRAM: inode numbers from the head on.
pub(crate) struct TruncateList {
    order: Mutex<Vec<u64>>,
    /// The medium has failed while an inode without names was freed: it is on the list still.
    unfreed: AtomicBool,
}

impl TruncateList {
    pub(crate) fn new() -> Self {
        Self { order: Mutex::new(&TRUNCATE, Vec::new()), unfreed: AtomicBool::new(false) }
    }
}

/// Offset of the `next` field of the item behind an inode.
fn next_field(inode_offset: u64) -> u64 {
    inode_offset + INODE_BYTES + 8
}

/// The inode numbers on the list of an image, from the head on; stops at the first that is met twice.
pub(crate) fn read_list(region: &Region, offset_of: &dyn Fn(u64) -> Result<u64>) -> Result<Vec<u64>> {
    let (mut list, mut known) = (Vec::new(), BTreeSet::new());
    let mut next = region.load_u64(TRUNCATE_HEAD + 8)?;
    while next != 0 {
        if !known.insert(next) {
            return Err(Error::Corrupt(format!("truncate list: inode {next} is on it twice")));
        }
        list.push(next);
        next = region.load_u64(next_field(offset_of(next)?))?;
    }
    Ok(list)
}

impl Volume {
    /// Takes over the list of the image. An inode on it may be free already, but must not have blocks, because the scan has not
    /// marked them.
    pub(crate) fn load_truncate_list(&self) -> Result<()> {
        let list = read_list(&self.region, &|ino| Ok(self.inodes.get(ino)?.offset))?;
        for ino in &list {
            let raw = self.raw(self.inodes.get(*ino)?)?;
            if raw.is_free() && (raw.root, raw.xattr) != (0, 0) {
                return Err(Error::Corrupt(format!("truncate list: inode {ino} is free and has blocks")));
            }
        }
        *self.truncates.order.lock() = list;
        Ok(())
    }

    /// Notes that an inode on the list could not be freed.
    pub(crate) fn note_unfreed(&self) {
        self.truncates.unfreed.store(true, Ordering::Relaxed);
    }

    /// The inodes on the list, if one of them could not be freed since the last call.
    pub(crate) fn take_unfreed(&self) -> Vec<u64> {
        match self.truncates.unfreed.swap(false, Ordering::Relaxed) {
            true => self.truncates.order.lock().clone(),
            false => Vec::new(),
        }
    }

    /// Puts an inode on the list, which is to have `size`; durable on return. The caller holds its lock.
    pub(crate) fn truncate_add(&self, inode: &Inode, size: u64) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let mut order = self.truncates.order.lock();
        if order.contains(&inode.ino) {
            return Ok(());
        }
        let next = order.first().copied().unwrap_or(0);
        let at = inode.offset + INODE_BYTES;
        let stale = if self.has(mutant::STALE_TRUNCATE_SIZE) { self.region.load_u64(at)? } else { 0 };
        let size = if stale > 0 { stale } else { size };
        self.region.write(at, &TruncateItem { size, next })?;
        self.region.flush(at, size_of::<TruncateItem>() as u64);
        self.region.fence();
        let needs = [ByteRun::new(at, size_of::<TruncateItem>() as u64)];
        self.region.mark(Mark::Commit { at: TRUNCATE_HEAD + 8, needs: &needs });
        self.region.store_u64(TRUNCATE_HEAD + 8, inode.ino)?;
        self.region.flush(TRUNCATE_HEAD + 8, 8);
        self.region.fence();
        sim::ran::allocate(u64::from(order.len() == order.capacity()));
        order.insert(0, inode.ino);
        Ok(())
    }

    /// Changes the size that an inode on the list is to have; durable with the log of the transaction that follows, which fences.
    /// The caller holds its lock.
    pub(crate) fn truncate_resize(&self, inode: &Inode, size: u64) -> Result<()> {
        let at = inode.offset + INODE_BYTES;
        self.region.store_u64(at, size)?;
        self.region.flush(at, 8);
        Ok(())
    }

    /// Takes an inode off the list, if it is on it; durable on return.
    pub(crate) fn truncate_remove(&self, inode: &Inode) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let mut order = self.truncates.order.lock();
        let Some(place) = order.iter().position(|ino| *ino == inode.ino) else { return Ok(()) };
        let next = order.get(place + 1).copied().unwrap_or(0);
        let field = match place.checked_sub(1) {
            None => TRUNCATE_HEAD + 8,
            Some(before) => next_field(self.inodes.get(order[before])?.offset),
        };
        self.region.fence();
        self.region.mark(Mark::Commit { at: field, needs: &[] });
        self.region.store_u64(field, next)?;
        self.region.flush(field, 8);
        self.region.fence();
        order.remove(place);
        Ok(())
    }

    /// Changes the size of a file whose lock the caller holds for writing; durable on return. Also frees blocks beyond the end
    /// when the size stays the same.
    pub(crate) fn set_size(&self, inode: &Inode, raw: &mut RawInode, size: u64) -> Result<()> {
        if size > Tree::most_bytes(raw.block_shift()) {
            return Err(Error::TooLarge);
        }
        if size > raw.size || size == raw.size && raw.flags & FLAG_BEYOND_EOF == 0 {
            self.zero_gap(raw, size)?;
            self.region.fence();
            self.store_size(inode, raw, size, &[])?;
            self.region.fence();
            return Ok(());
        }
        if raw.links == 0 {
            // It is already on the list to be freed: recovery frees it, with any size.
            return self.shrink(inode, raw, size, u64::MAX).inspect_err(|_| self.journal.fail());
        }
        // A tree that cannot be read now could not be cut later.
        let tree = Tree::of(raw);
        let is_beyond = raw.flags & FLAG_BEYOND_EOF != 0;
        let end = if is_beyond { u64::MAX } else { raw.size.div_ceil(1 << tree.shift) };
        tree.check(&self.region, size.div_ceil(1 << tree.shift)..end)?;
        self.truncate_add(inode, size)?;
        let cut = self.shrink(inode, raw, size, end).and_then(|()| self.truncate_remove(inode));
        // The next mount will cut the file as the list says, so no write may change it until then.
        cut.inspect_err(|_| self.journal.fail())
    }

    /// The work of a truncation: size, blocks, and the bytes beyond the end in its last block; the blocks are free then. When the
    /// medium fails it is tried once more from the start, which finds the rest. No block from `end` on is mapped.
    pub(crate) fn shrink(&self, inode: &Inode, raw: &mut RawInode, size: u64, end: u64) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let mut freed = Vec::new();
        let done = self.cut(inode, raw, size, (end, &mut freed));
        done.or_else(|_| self.cut_again(inode, raw, size, &mut freed))?;
        self.free_blocks(freed)
    }

    #[cold]
    fn cut_again(&self, inode: &Inode, raw: &mut RawInode, size: u64, freed: &mut Vec<Freed>) -> Result<()> {
        *raw = self.raw(inode)?;
        raw.blocks = self.count_blocks(raw)?;
        self.cut(inode, raw, size, (u64::MAX, freed))?;
        freed.sort_unstable_by_key(|block| block.offset);
        freed.dedup_by_key(|block| block.offset);
        Ok(())
    }

    fn cut(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        size: u64,
        (end, freed): (u64, &mut Vec<Freed>),
    ) -> Result<()> {
        self.store_size(inode, raw, size, &[])?;
        self.cut_beyond(inode, raw, end, freed)
    }

    /// Cuts off the blocks beyond the end of a file, of which none from `end` on is mapped, and which are `freed` then; zeroes the
    /// rest of its last block.
    fn cut_beyond(&self, inode: &Inode, raw: &mut RawInode, end: u64, freed: &mut Vec<Freed>) -> Result<()> {
        let size = raw.size;
        let mut tree = Tree::of(raw);
        let root = inode.offset + ino::ROOT;
        let cut = tree.cut(&self.region, root, size.div_ceil(1 << tree.shift)..end, freed)?;
        self.region.fence();
        (raw.root, raw.height) = (tree.root, tree.height);
        raw.flags &= !FLAG_BEYOND_EOF;
        self.region.mark(Mark::Commit { at: inode.offset + ino::TREE, needs: &[] });
        self.region.store_pair(inode.offset + ino::TREE, raw.tree_pair())?;
        raw.blocks = raw.blocks.saturating_sub((cut << tree.shift >> BLOCK_SHIFT) as u32);
        self.region.mark(Mark::Commit { at: inode.offset + ino::BLOCKS, needs: &[] });
        self.region.store_u32(inode.offset + ino::BLOCKS, raw.blocks)?;
        self.region.flush(inode.offset, ino::HALF);
        self.zero_tail(raw, size)?;
        self.region.fence();
        Ok(())
    }

    /// Zeroes the bytes from `size` to the end of its block, when that block exists.
    pub(crate) fn zero_tail(&self, raw: &RawInode, size: u64) -> Result<()> {
        let tree = Tree::of(raw);
        let within = size & ((1 << tree.shift) - 1);
        if within == 0 {
            return Ok(());
        }
        if let Some(at) = tree.lookup(&self.region, size >> tree.shift)? {
            self.region.nt_zero(at + within, (1 << tree.shift) - within)?;
        }
        Ok(())
    }

    /// Makes the mapped bytes from the end of the file up to `to` read as zeros, because they become part of it. Bytes beyond
    /// the end are arbitrary: a crash may have left data of an uncommitted write there.
    pub(crate) fn zero_gap(&self, raw: &RawInode, to: u64) -> Result<()> {
        let (tree, from) = (Tree::of(raw), raw.size);
        let block_end = ((from >> tree.shift) + 1) << tree.shift;
        if from & ((1 << tree.shift) - 1) != 0
            && let Some(at) = tree.lookup(&self.region, from >> tree.shift)?
        {
            let within = from & ((1 << tree.shift) - 1);
            self.region.nt_zero(at + within, to.min(block_end).saturating_sub(from))?;
        }
        if raw.flags & FLAG_BEYOND_EOF == 0 {
            return Ok(());
        }
        self.visit_zeroing(&tree, from.div_ceil(1 << tree.shift), to)
    }

    /// Zeroes what is mapped from block `first` up to byte `to`.
    fn visit_zeroing(&self, tree: &Tree, first: u64, to: u64) -> Result<()> {
        tree.visit_from(&self.region, first, &mut |visited| {
            let start = visited.block.unwrap_or(first) << tree.shift;
            Ok(self.region.nt_zero(visited.offset, to.saturating_sub(start).min(1 << tree.shift))?)
        })
    }

    /// Size and the seconds of ctime and mtime in one store, or in a transaction when the inode leaves its era; durable after the
    /// next fence. `needs` are bytes of data that the size makes part of the file.
    pub(crate) fn store_size(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        size: u64,
        needs: &[ByteRun],
    ) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        raw.size = size;
        let now = Timestamp::now();
        if raw.leaves_era(now) {
            return self.log_and_store_half(inode, raw, now);
        }
        raw.touch(now);
        self.store_extras(inode, raw)?;
        self.region.mark(Mark::Commit { at: inode.offset + ino::SIZE, needs });
        self.region.store_pair(inode.offset + ino::SIZE, [size, raw.times_word()])?;
        self.region.flush(inode.offset + ino::SIZE, 16);
        Ok(())
    }

    /// Counts the blocks of an inode, where its own count may be that of before a cut.
    fn count_blocks(&self, raw: &RawInode) -> Result<u32> {
        let (tree, mut blocks) = (Tree::of(raw), 0_u64);
        tree.visit(&self.region, &mut |visited| {
            blocks += if visited.block.is_some() { 1 << tree.shift >> BLOCK_SHIFT } else { 0 };
            Ok(())
        })?;
        Ok(blocks as u32 + blocks_of(&self.region, raw.xattr)?.len() as u32)
    }

    /// Finishes what the list of the image promises, which was loaded.
    pub(crate) fn replay_truncates(&self) -> Result<usize> {
        let list = self.truncates.order.lock().clone();
        for &ino in &list {
            let inode = self.inodes.get(ino)?;
            let mut raw = self.raw(inode)?;
            if raw.links == 0 {
                self.free_inode(inode)?;
            } else {
                let item: TruncateItem = self.region.read(inode.offset + INODE_BYTES)?;
                // The journal may have undone a growth that the item counts (a removal that joined it): only ever cut.
                if item.size < raw.size {
                    self.store_size(inode, &mut raw, item.size, &[])?;
                }
                // A crash may have come between the cut and the new count.
                raw.blocks = self.count_blocks(&raw)?;
                let mut freed = Vec::new();
                self.cut_beyond(inode, &mut raw, u64::MAX, &mut freed)?;
                self.free_blocks(freed)?;
                self.truncate_remove(inode)?;
            }
        }
        Ok(list.len())
    }

    /// Opens an inode that has a name or is open; waits for its lock only where it is not known to have a name.
    pub(crate) fn open_inode(&self, inode: &Inode) -> Result<()> {
        if inode.opens.add() {
            return Ok(());
        }
        let state = self.lock(inode);
        self.live_or_open(inode, &state)?;
        inode.opens.add_locked();
        Ok(())
    }

    /// The inode, which the caller has locked, if it has a name or is open.
    #[inline]
    pub(crate) fn live_or_open(&self, inode: &Inode, _: &InodeState) -> Result<RawInode> {
        let raw = self.raw(inode)?;
        if raw.links == 0 && !inode.opens.is_open() { Err(Error::NoEntry) } else { Ok(raw) }
    }
}
