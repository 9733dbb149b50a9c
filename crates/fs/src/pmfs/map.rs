//! The block tree of a file: a radix tree of 4-KiB nodes with 512 pointers.
//!
//! ```text
//! height 0   root ──► data block 0
//! height 1   root ──► node ──► 512 data blocks
//! height 2   root ──► node ──► 512 nodes ──► 512² data blocks          (up to height 4: 512⁴)
//! ```
//!
//! A null pointer anywhere is a hole. Blocks are counted in units of the inode's own data block size.
//!
//! Growing a file changes existing nodes under the journal: from the first null slot to the end of the range. New nodes are
//! not logged, only flushed, since nothing leads to them before the commit; that holds for later changes by the same
//! transaction, too.

use std::ops::{Range, RangeInclusive};

use media::event::Mark;
use media::nvmm::Region;
use sim::{ByteRun, Run, Work, ran};

use super::Volume;
use super::journal::Transaction;
use super::layout::{BLOCK, BLOCK_SHIFT, ENTRY_PAYLOAD, FANOUT, FANOUT_SHIFT, MAX_HEIGHT, RawInode};
use super::parts;
use base::error::{Error, Result};

/// Most blocks that one [`Tree::fill`] may be asked for: its transaction stays small.
pub(crate) const FILL_MAX: u64 = FANOUT;

/// Root, height and block size of a block tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) root: u64,
    pub(crate) height: u8,
    /// log2 of the data block size.
    pub(crate) shift: u32,
}

/// What [`Tree::fill`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Blocks of the range, from its start, that are mapped now; fewer than asked when space ran out.
    pub(crate) mapped: u64,
    /// Data blocks that were added.
    pub(crate) added: u64,
}

/// A block that was taken out of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) offset: u64,
    /// log2 of its size.
    pub(crate) shift: u32,
    /// The word that led to it, or to what did.
    pub(crate) pointer: u64,
}

/// Log entries that filling `blocks` blocks can need, besides the inode's own.
pub(crate) fn fill_entries(blocks: u64) -> u32 {
    (blocks / 6 + 7) as u32
}

impl Tree {
    /// The tree of an inode.
    pub(crate) fn of(raw: &RawInode) -> Self {
        Self { root: raw.root, height: raw.height.min(MAX_HEIGHT), shift: raw.block_shift() }
    }

    /// Blocks that a tree of `height` can map.
    pub(crate) fn capacity(height: u8) -> u64 {
        1 << (FANOUT_SHIFT * u32::from(height))
    }

    /// The largest size of a file whose data blocks have 2 to the `shift` bytes. The kernel counts in 63 bits.
    pub(crate) fn most_bytes(shift: u32) -> u64 {
        let bytes = u128::from(Self::capacity(MAX_HEIGHT)) << shift;
        bytes.min(i64::MAX as u128) as u64
    }

    /// Where `block` lies, or none for a hole.
    #[inline]
    pub(crate) fn lookup(&self, region: &Region, block: u64) -> Result<Option<u64>> {
        let _part = sim::part(&parts::FIND_BLOCK);
        if self.root == 0 || block >= Self::capacity(self.height) {
            return Ok(None);
        }
        ran::did(Work::NODE, u64::from(self.height) + 1);
        sim::work(Work::STEP, u64::from(self.height) + 1);
        let mut at = self.root;
        for level in (0..u32::from(self.height)).rev() {
            let index = block >> (FANOUT_SHIFT * level) & (FANOUT - 1);
            at = region.load_u64(inside(region, at)? + 8 * index)?;
            if at == 0 {
                return Ok(None);
            }
        }
        inside(region, at).map(Some)
    }

    /// The mapped blocks of a run, which one lowest node holds: (where its pointer is, block) each.
    /// `root_slot` is where the inode keeps the root.
    pub(crate) fn slots(
        &self,
        region: &Region,
        root_slot: u64,
        Run { first, count }: Run,
    ) -> Result<Vec<(u64, u64)>> {
        if self.root == 0 || first >= Self::capacity(self.height) {
            return Ok(Vec::new());
        }
        if self.height == 0 {
            return Ok(ran::collected([(root_slot, self.root)]));
        }
        let node = Self { height: self.height - 1, ..*self }.lookup(region, first >> FANOUT_SHIFT)?;
        let Some(node) = node else { return Ok(Vec::new()) };
        let index = first % FANOUT;
        let slots = (index..(index + count).min(FANOUT)).map(|index| node + 8 * index);
        let pairs = slots.map(|slot| Ok((slot, region.load_u64(slot)?)));
        pairs.filter(|pair| pair.as_ref().map_or(true, |(_, block)| *block != 0)).collect()
    }

    /// Maps every hole of a run to a new block, in transaction `tx`, in which the caller has logged the
    /// inode's first half. `fresh` is called for each new block (index, offset). The caller stores the tree into its inode, or
    /// rolls the transaction back ([`Volume::roll_back`]), which also gives back what was taken.
    pub(crate) fn fill(
        &mut self,
        volume: &Volume,
        tx: &mut Transaction,
        Run { first, count }: Run,
        fresh: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Filled> {
        let _scope = sim::scope(media::charges::METADATA);
        let last = first + count - 1;
        if last >= Self::capacity(MAX_HEIGHT) {
            return Err(Error::TooLarge);
        }
        let mut fill = Fill { volume, tx, shift: self.shift, base: 0, added: 0, fresh };
        if !self.grow(&mut fill, last)? {
            return Ok(Filled::default());
        }
        let end = match self.height {
            0 => fill.single(&mut self.root)?,
            height => {
                let root_is_new = fill.tx.nodes.contains(&self.root);
                fill.node(self.root, height, first..=last, root_is_new)?
            }
        };
        Ok(Filled { mapped: end.saturating_sub(first), added: fill.added })
    }

    /// Log entries that filling the holes of a run needs in a transaction which has made `new_nodes`.
    pub(crate) fn fill_need(
        &self,
        region: &Region,
        new_nodes: &[u64],
        Run { first, count }: Run,
    ) -> Result<u32> {
        if self.root == 0 || self.height == 0 || first >= Self::capacity(self.height) {
            return Ok(0);
        }
        let last = (first + count - 1).min(Self::capacity(self.height) - 1);
        need_below(region, new_nodes, (self.root, self.height), first..=last)
    }

    /// Makes the tree high enough for block `last`. False when there is no space for a node.
    fn grow(&mut self, fill: &mut Fill<'_>, last: u64) -> Result<bool> {
        if self.root == 0 {
            self.height = 0;
        }
        while last >= Self::capacity(self.height) {
            if self.root != 0 || self.height + 1 == height_for(last) {
                let Some(node) = fill.new_node()? else { return Ok(false) };
                if self.root != 0 {
                    fill.volume.region.store_u64(node, self.root)?;
                    fill.volume.region.flush(node, 8);
                }
                self.root = node;
            }
            self.height += 1;
        }
        Ok(true)
    }

    /// Takes blocks, behind which none is mapped, out of the tree, whose root lies at `root_slot`: their pointers are zeroed,
    /// durably after the next fence, and they are added to `freed` together with the nodes that became empty. Returns how many
    /// data blocks they are.
    pub(crate) fn cut(
        &mut self,
        region: &Region,
        root_slot: u64,
        blocks: Range<u64>,
        freed: &mut Vec<Freed>,
    ) -> Result<u64> {
        let mut cut = Cut { freed, data: 0 };
        let top = (self.root, self.height, root_slot);
        if self.root != 0 && cut_below(region, *self, top, blocks, &mut cut)? {
            self.root = 0;
            self.height = 0;
        }
        Ok(cut.data)
    }

    /// Gives every node and data block of the tree to `visit`, children before their node. A tree that has more of them than
    /// the region has blocks leads back into itself: an error.
    pub(crate) fn visit(&self, region: &Region, visit: &mut dyn FnMut(Visited) -> Result<()>) -> Result<()> {
        self.visit_bounded(region, 0..u64::MAX, visit)
    }

    /// Reads what a [`Self::cut`] of these blocks reads: fails where that would.
    pub(crate) fn check(&self, region: &Region, blocks: Range<u64>) -> Result<()> {
        self.visit_bounded(region, blocks, &mut |_| Ok(()))
    }

    fn visit_bounded(
        &self,
        region: &Region,
        blocks: Range<u64>,
        visit: &mut dyn FnMut(Visited) -> Result<()>,
    ) -> Result<()> {
        let mut left = region.len() / BLOCK;
        let mut bounded = |visited| {
            left =
                left.checked_sub(1).ok_or_else(|| Error::Corrupt("a tree leads back into itself".into()))?;
            visit(visited)
        };
        if self.root == 0 {
            return Ok(());
        }
        visit_below(region, *self, (self.root, self.height), (0, blocks), &mut bounded)
    }

    /// Gives the mapped data blocks from `first` on to `visit`, in order, without a step for each block of a hole.
    pub(crate) fn visit_from(
        &self,
        region: &Region,
        first: u64,
        visit: &mut dyn FnMut(Visited) -> Result<()>,
    ) -> Result<()> {
        let mut data_only = |visited: Visited| match visited.block {
            Some(block) if block >= first => visit(visited),
            _ => Ok(()),
        };
        if self.root == 0 || first >= Self::capacity(self.height) {
            return Ok(());
        }
        visit_below(region, *self, (self.root, self.height), (0, first..u64::MAX), &mut data_only)
    }
}

/// Checks a pointer: what it leads to begins inside the region.
#[inline]
fn inside(region: &Region, pointer: u64) -> Result<u64> {
    if pointer < region.len() {
        Ok(pointer)
    } else {
        Err(Error::Corrupt(format!("a pointer to {pointer}, which is outside the image")))
    }
}

/// A block of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visited {
    /// Its offset in the image.
    pub(crate) offset: u64,
    /// log2 of its size.
    pub(crate) shift: u32,
    /// For a data block, its number in the file.
    pub(crate) block: Option<u64>,
}

/// The height that a new tree for block `last` gets.
fn height_for(last: u64) -> u8 {
    (0..=MAX_HEIGHT).find(|height| last < Tree::capacity(*height)).unwrap_or(MAX_HEIGHT)
}

fn visit_below(
    region: &Region,
    tree: Tree,
    (at, height): (u64, u8),
    (base, blocks): (u64, Range<u64>),
    visit: &mut dyn FnMut(Visited) -> Result<()>,
) -> Result<()> {
    inside(region, at)?;
    if height == 0 {
        return visit(Visited { offset: at, shift: tree.shift, block: Some(base) });
    }
    let span = Tree::capacity(height - 1);
    let within = blocks.start.saturating_sub(base)..blocks.end.saturating_sub(base);
    for index in slots(&within, span) {
        let child = region.load_u64(at + 8 * index)?;
        if child != 0 {
            visit_below(region, tree, (child, height - 1), (base + index * span, blocks.clone()), visit)?;
        }
    }
    visit(Visited { offset: at, shift: BLOCK_SHIFT, block: None })
}

/// What a cut has taken out of a tree.
struct Cut<'a> {
    freed: &'a mut Vec<Freed>,
    /// Data blocks among them.
    data: u64,
}

/// The slots of a node that lead to blocks, which are counted within its subtree; each has room for `span` of them.
fn slots(blocks: &Range<u64>, span: u64) -> Range<u64> {
    (blocks.start / span).min(FANOUT)..blocks.end.div_ceil(span).min(FANOUT)
}

/// Cuts blocks (counted within this subtree, to which `pointer` leads), behind which it has none. True when nothing is left of it.
fn cut_below(
    region: &Region,
    tree: Tree,
    (at, height, pointer): (u64, u8, u64),
    blocks: Range<u64>,
    cut: &mut Cut<'_>,
) -> Result<bool> {
    inside(region, at)?;
    let from = blocks.start;
    if height == 0 {
        if from == 0 {
            ran::push(cut.freed, Freed { offset: at, shift: tree.shift, pointer });
            cut.data += 1;
        }
        return Ok(from == 0);
    }
    let span = Tree::capacity(height - 1);
    let slots = slots(&blocks, span);
    let first = slots.start;
    let mut zeroed = None;
    for index in slots {
        let slot = at + 8 * index;
        let child = region.load_u64(slot)?;
        // A node that is freed entirely keeps its pointers: no pointer leads to it once its parent has changed.
        let cleared = if from > 0 { slot } else { pointer };
        let below = from.saturating_sub(index * span)..blocks.end.saturating_sub(index * span);
        if child != 0 && cut_below(region, tree, (child, height - 1, cleared), below, cut)? && from > 0 {
            region.mark(Mark::Commit { at: slot, needs: &[] });
            region.store_u64(slot, 0)?;
            zeroed = Some(index);
        }
    }
    if let Some(last) = zeroed {
        region.flush(at + 8 * first, 8 * (last + 1 - first));
    }
    let empty = from == 0
        || (0..=first)
            .take(FANOUT as usize)
            .all(|index| region.load_u64(at + 8 * index).is_ok_and(|child| child == 0));
    if empty {
        ran::push(cut.freed, Freed { offset: at, shift: BLOCK_SHIFT, pointer });
    }
    Ok(empty)
}

/// Entries for some blocks, counted within the subtree at `at`.
fn need_below(
    region: &Region,
    new_nodes: &[u64],
    (at, height): (u64, u8),
    blocks: RangeInclusive<u64>,
) -> Result<u32> {
    let (first, last) = blocks.into_inner();
    let span = Tree::capacity(height - 1);
    let (low, high) = (first / span, last / span);
    let (mut need, mut logged) = (0, new_nodes.contains(&at));
    sim::work(Work::STEP, high - low + 1);
    for index in low..=high {
        let child = region.load_u64(at + 8 * index)?;
        if child == 0 && !logged {
            need += (8 * (high - index + 1)).div_ceil(ENTRY_PAYLOAD as u64) as u32;
            logged = true;
        }
        if child != 0 && height > 1 {
            let (from, to) = (index * span, index * span + span - 1);
            let below = first.max(from) - from..=last.min(to) - from;
            need += need_below(region, new_nodes, (child, height - 1), below)?;
        }
    }
    Ok(need)
}

/// One run of [`Tree::fill`].
struct Fill<'a> {
    volume: &'a Volume,
    tx: &'a mut Transaction,
    shift: u32,
    /// Number in the file of the first block of the node at hand.
    base: u64,
    added: u64,
    fresh: &'a mut dyn FnMut(u64, u64) -> Result<()>,
}

impl Fill<'_> {
    /// A zeroed node, not yet linked. None when no block is left.
    fn new_node(&mut self) -> Result<Option<u64>> {
        match self.volume.blocks.take() {
            Ok(node) => {
                ran::push(&mut self.tx.taken, (node, BLOCK_SHIFT));
                ran::push(&mut self.tx.nodes, node);
                self.volume.region.nt_zero(node, BLOCK)?;
                Ok(Some(node))
            }
            Err(Error::NoSpace) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A tree of height 0: the root is the data block.
    fn single(&mut self, root: &mut u64) -> Result<u64> {
        if *root == 0 {
            let mut block = [0];
            if self.volume.blocks.take_many(self.shift, &mut block) == 0 {
                return Ok(0);
            }
            self.tx.taken.push((block[0], self.shift));
            *root = block[0];
            self.added += 1;
            (self.fresh)(0, *root)?;
        }
        Ok(1)
    }

    /// Fills the range below a node; returns the end of what is mapped of it, in blocks of the file.
    fn node(&mut self, at: u64, height: u8, blocks: RangeInclusive<u64>, is_new: bool) -> Result<u64> {
        if height == 1 {
            return self.leaf(at, blocks, is_new);
        }
        let (first, last) = blocks.into_inner();
        let span = Tree::capacity(height - 1);
        let base = self.base;
        let (low, high) = ((first - base) / span, (last - base) / span);
        let mut logged = is_new;
        let mut end = first;
        for index in low..=high {
            let slot = at + 8 * index;
            let mut child = self.volume.region.load_u64(slot)?;
            let child_is_new = child == 0;
            if child_is_new {
                if !logged {
                    self.volume.journal.log(self.tx, &[ByteRun::new(slot, 8 * (high - index + 1))])?;
                    logged = true;
                }
                let Some(node) = self.new_node()? else { return Ok(end) };
                child = node;
            }
            self.base = base + index * span;
            let child_last = last.min(self.base + span - 1);
            let unlogged = self.tx.nodes.contains(&child);
            end = self.node(child, height - 1, first.max(self.base)..=child_last, unlogged)?;
            if child_is_new {
                self.volume.region.store_u64(slot, child)?;
                self.volume.region.flush(slot, 8);
            }
            if end <= child_last {
                break;
            }
        }
        self.base = base;
        Ok(end)
    }

    /// Fills slots of the lowest node.
    fn leaf(&mut self, at: u64, blocks: RangeInclusive<u64>, is_new: bool) -> Result<u64> {
        let (first, last) = blocks.into_inner();
        let region = &self.volume.region;
        let (low, high) = (first - self.base, last - self.base);
        let mut holes = [0u16; FANOUT as usize];
        let mut count = 0;
        for index in low..=high {
            if region.load_u64(at + 8 * index)? == 0 {
                holes[count] = index as u16;
                count += 1;
            }
        }
        sim::work(Work::STEP, high - low + 1);
        let Some(&first_hole) = holes[..count].first() else { return Ok(last + 1) };
        let mut blocks = [0u64; FANOUT as usize];
        let taken = self.volume.blocks.take_many(self.shift, &mut blocks[..count]);
        if taken == 0 {
            return Ok(self.base + u64::from(first_hole));
        }
        ran::extend(&mut self.tx.taken, blocks[..taken].iter().map(|block| (*block, self.shift)));
        let slots = u64::from(holes[taken - 1] - first_hole) + 1;
        let range = ByteRun::new(at + 8 * u64::from(first_hole), 8 * slots);
        if !is_new {
            self.volume.journal.log(self.tx, &[range])?;
        }
        for (&index, &block) in holes.iter().zip(&blocks[..taken]) {
            region.store_u64(at + 8 * u64::from(index), block)?;
            (self.fresh)(self.base + u64::from(index), block)?;
        }
        if is_new {
            region.flush(range.at, range.len);
        }
        self.added += taken as u64;
        Ok(if taken == count { last + 1 } else { self.base + u64::from(holes[taken]) })
    }
}
