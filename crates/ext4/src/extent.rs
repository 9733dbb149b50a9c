//! Extent trees: a B+tree of runs of blocks, whose root lies in the inode (ext4).
//!
//! ```text
//! header (magic, entries, max, depth) | entries of 12 bytes | checksum of the node, in blocks
//! ```
//!
//! The key of an entry that leads to a node is the first block of the file that the node maps. Blocks for splits are allocated
//! before anything is changed, so that a change that finds no space has changed nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use sim::Run;

use super::Volume;
use super::inode::{Inode, InodeState};
use super::journal::{Handle, Journal};
use super::layout::{crc32c, le16, le32, put16, put32};
use super::runs::{Extent, Mapped, Visited};
use base::error::{Error, Result};

const MAGIC: u16 = 0xf30a;
const ENTRY_BYTES: usize = 12;
/// Deepest tree: what a file of 2^32 blocks can need.
const MOST_DEPTH: u16 = 5;
/// Depth of a tree that a repair reads, to write it anew.
const MOST_READ_DEPTH: u16 = 32;
/// Extents that one transaction takes away at most: each may touch the bitmap and descriptor of another group.
const STEP_EXTENTS: usize = 16;

/// Where a node lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Root,
    Block(u64),
}

/// A node's entries.
#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Extent>),
    /// Keys and blocks.
    Index(u16, Vec<(u32, u64)>),
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(extents) => extents.len(),
            Self::Index(_, children) => children.len(),
        }
    }

    fn first(&self) -> Option<u32> {
        match self {
            Self::Leaf(extents) => extents.first().map(|extent| extent.index),
            Self::Index(_, children) => children.first().map(|(key, _)| *key),
        }
    }

    fn write(&self, to: &mut [u8], capacity: usize) {
        let depth = if let Self::Index(depth, _) = self { *depth } else { 0 };
        put16(to, 0, MAGIC);
        put16(to, 2, self.len() as u16);
        put16(to, 4, capacity as u16);
        put16(to, 6, depth);
        let entries = to[ENTRY_BYTES..].chunks_exact_mut(ENTRY_BYTES);
        match self {
            Self::Leaf(extents) => entries.zip(extents).for_each(|(to, extent)| extent.write(to)),
            Self::Index(_, children) => entries.zip(children).for_each(|(to, (key, block))| {
                put32(to, 0, *key);
                put32(to, 4, *block as u32);
                put16(to, 8, (*block >> 32) as u16);
                put16(to, 10, 0);
            }),
        }
    }

    /// Takes the upper part away: all but the last entry stay when the new one is the last, else half of them.
    fn split_off(&mut self, at_end: bool) -> Self {
        let keep = if at_end { self.len() - 1 } else { self.len() / 2 };
        match self {
            Self::Leaf(extents) => Self::Leaf(extents.split_off(keep)),
            Self::Index(depth, children) => Self::Index(*depth, children.split_off(keep)),
        }
    }
}

/// The root of an empty tree, for a new inode.
pub(crate) fn init(block: &mut [u8; 60]) {
    block.fill(0);
    Node::Leaf(Vec::new()).write(block, ROOT_ENTRIES);
}

const ROOT_ENTRIES: usize = 4;

/// A tree that is being looked at or changed.
struct Tree<'a> {
    volume: &'a Volume,
    inode: &'a Inode,
    seed: u32,
    /// Blocks allocated for splits.
    spare: Vec<u64>,
    /// What is inserted is joined with its neighbours.
    joins: bool,
}

impl<'a> Tree<'a> {
    fn of(volume: &'a Volume, inode: &'a Inode, state: &InodeState) -> Self {
        Self { volume, inode, seed: state.seed(volume, inode.ino), spare: Vec::new(), joins: true }
    }

    fn capacity(&self, at: At) -> usize {
        match at {
            At::Root => ROOT_ENTRIES,
            At::Block(_) => (self.volume.geo.block_bytes as usize - ENTRY_BYTES) / ENTRY_BYTES,
        }
    }

    fn damaged(&self, what: &str) -> Error {
        self.inode.damaged(self.volume, what)
    }

    /// Reads a node; `depth` is what its parent says.
    fn read(&self, state: &InodeState, at: At, depth: Option<u16>) -> Result<Node> {
        match at {
            At::Root => self.parse(&state.raw.block, at, depth),
            At::Block(block) => {
                self.volume.check_data_blocks(self.inode, block, 1)?;
                self.volume.look(block, |bytes| self.parse(bytes, at, depth))?
            }
        }
    }

    /// Depth of a node and how many entries it has; `depth` is what its parent says. A repair takes that, and what the node is said
    /// to have room for from its place.
    fn header(&self, bytes: &[u8], at: At, depth: Option<u16>) -> Option<(u16, usize)> {
        let (entries, own) = (usize::from(le16(bytes, 2)), le16(bytes, 6));
        let repairs = self.volume.settings.repairs;
        let possible = le16(bytes, 0) == MAGIC
            && entries <= self.capacity(at)
            && (repairs || self.has_room(bytes, at))
            && depth.unwrap_or(own) <= if repairs { MOST_READ_DEPTH } else { MOST_DEPTH }
            && (repairs || depth.is_none_or(|depth| depth == own));
        possible.then_some((depth.unwrap_or(own), entries))
    }

    /// Whether a node says that it has room for as many entries as it can have. A mount takes what the kernel takes, a check what
    /// e2fsck does: at most two less.
    fn has_room(&self, bytes: &[u8], at: At) -> bool {
        let (entries, max) = (usize::from(le16(bytes, 2)), usize::from(le16(bytes, 4)));
        let least = if self.volume.mounted.load(Relaxed) { 1 } else { self.capacity(at) - 2 };
        (least.max(entries)..=self.capacity(at)).contains(&max)
    }

    /// Whether the checksum of a node with a possible header is right.
    fn is_sealed(&self, bytes: &[u8], at: At) -> bool {
        if at == At::Root || !self.volume.geo.metadata_csum {
            return true;
        }
        let tail = ENTRY_BYTES * (1 + usize::from(le16(bytes, 4)).min(self.capacity(at)));
        le32(bytes, tail) == crc32c(self.seed, &bytes[..tail])
    }

    fn parse(&self, bytes: &[u8], at: At, depth: Option<u16>) -> Result<Node> {
        let Some((own, entries)) = self.header(bytes, at, depth) else {
            return Err(self.damaged("the header of an extent node is not possible"));
        };
        if !self.is_sealed(bytes, at) {
            return Err(self.damaged("an extent node has a wrong checksum"));
        }
        let entries = bytes[ENTRY_BYTES..].chunks_exact(ENTRY_BYTES).take(entries);
        if own > 0 {
            let children = sim::ran::collected(entries.map(child_at));
            if children.is_empty() || !children.is_sorted_by(|a, b| a.0 < b.0) {
                return Err(self.damaged("the entries of an extent node are out of order"));
            }
            return Ok(Node::Index(own, children));
        }
        let extents = sim::ran::collected(entries.map(Extent::read));
        let ordered = extents.iter().all(|extent| extent.len > 0)
            && extents.is_sorted_by(|a, b| a.end() <= u64::from(b.index));
        if ordered {
            Ok(Node::Leaf(extents))
        } else {
            Err(self.damaged("extents overlap or are out of order"))
        }
    }

    fn write(&self, handle: &Handle<'_>, state: &mut InodeState, at: At, node: &Node) -> Result<()> {
        let capacity = self.capacity(at);
        match at {
            At::Root => {
                node.write(&mut state.raw.block, capacity);
                Ok(())
            }
            At::Block(block) => self.volume.change_new(handle, block, |bytes| {
                node.write(bytes, capacity);
                if self.volume.geo.metadata_csum {
                    let tail = ENTRY_BYTES * (1 + capacity);
                    let checksum = crc32c(self.seed, &bytes[..tail]);
                    put32(bytes, tail, checksum);
                }
            }),
        }
    }

    /// Allocates what inserting an extent at `index` may need: a block for each node on the way that is full, from the leaf up.
    fn reserve(
        &mut self,
        handle: &Handle<'_>,
        state: &mut InodeState,
        index: u32,
        extents: usize,
    ) -> Result<()> {
        let (mut at, mut depth, mut needed) = (At::Root, None, 0);
        loop {
            let node = self.read(state, at, depth)?;
            let full = node.len() + extents > self.capacity(at);
            needed = if full { needed + 1 } else { 0 };
            match node {
                Node::Leaf(_) => break,
                Node::Index(own, children) => {
                    at = At::Block(children[child_of(&children, index)].1);
                    depth = Some(own - 1);
                }
            }
        }
        while self.spare.len() < needed {
            let goal = self.volume.goal(self.inode, state, u64::from(index));
            match self.volume.allocate_blocks(handle, goal, 1) {
                Ok((block, _)) => self.spare.push(block),
                Err(error) => {
                    self.give_back(handle)?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn give_back(&mut self, handle: &Handle<'_>) -> Result<()> {
        for block in std::mem::take(&mut self.spare) {
            self.volume.free_blocks(handle, block, 1, false)?;
        }
        Ok(())
    }

    fn take_spare(&mut self, state: &mut InodeState) -> Result<u64> {
        let block =
            self.spare.pop().ok_or_else(|| self.damaged("an extent tree split more nodes than were full"))?;
        state.add_blocks(self.volume, 1);
        Ok(block)
    }

    /// Inserts into the tree. Spare blocks must be there.
    fn insert(&mut self, handle: &Handle<'_>, state: &mut InodeState, new: Extent) -> Result<()> {
        let root = self.read(state, At::Root, None)?;
        let (root, _) = self.insert_into(handle, state, root, new)?;
        if root.len() <= ROOT_ENTRIES {
            return self.write(handle, state, At::Root, &root);
        }
        let (depth, first) = (if let Node::Index(depth, _) = &root { *depth } else { 0 }, root.first());
        let block = self.take_spare(state)?;
        self.write(handle, state, At::Block(block), &root)?;
        let children = sim::ran::collected([(first.unwrap_or_default(), block)]);
        self.write(handle, state, At::Root, &Node::Index(depth + 1, children))
    }

    /// The node with the extent in it, perhaps with one entry too many; whether the new entry is its last.
    fn insert_into(
        &mut self,
        handle: &Handle<'_>,
        state: &mut InodeState,
        node: Node,
        new: Extent,
    ) -> Result<(Node, bool)> {
        match node {
            Node::Leaf(mut extents) => {
                let place = extents.partition_point(|extent| extent.index < new.index);
                let overlaps = extents.get(place).is_some_and(|next| u64::from(next.index) < new.end())
                    || place > 0 && extents[place - 1].end() > u64::from(new.index);
                if overlaps {
                    return Err(self.damaged("an extent would overlap another"));
                }
                sim::ran::allocate(u64::from(extents.len() == extents.capacity()));
                extents.insert(place, new);
                if self.joins {
                    join_around(&mut extents, place);
                }
                let last = extents.last().is_some_and(|extent| extent.end() == new.end());
                Ok((Node::Leaf(extents), last))
            }
            Node::Index(depth, mut children) => {
                let place = child_of(&children, new.index);
                let at = At::Block(children[place].1);
                let child = self.read(state, at, Some(depth - 1))?;
                let (mut child, mut last) = self.insert_into(handle, state, child, new)?;
                if child.len() > self.capacity(at) {
                    let upper = child.split_off(last && place + 1 == children.len());
                    let block = self.take_spare(state)?;
                    self.write(handle, state, At::Block(block), &upper)?;
                    sim::ran::allocate(u64::from(children.len() == children.capacity()));
                    children.insert(place + 1, (upper.first().unwrap_or_default(), block));
                }
                self.write(handle, state, at, &child)?;
                children[place].0 = child.first().unwrap_or_default();
                last &= place + 2 >= children.len();
                Ok((Node::Index(depth, children), last))
            }
        }
    }

    /// Rewrites the leaf that holds block `index` of the file.
    fn rewrite_leaf(
        &self,
        handle: &Handle<'_>,
        state: &mut InodeState,
        index: u32,
        change: &dyn Fn(&mut Vec<Extent>),
    ) -> Result<()> {
        let (mut at, mut depth) = (At::Root, None);
        loop {
            match self.read(state, at, depth)? {
                Node::Leaf(mut extents) => {
                    change(&mut extents);
                    return self.write(handle, state, at, &Node::Leaf(extents));
                }
                Node::Index(own, children) => {
                    at = At::Block(children[child_of(&children, index)].1);
                    depth = Some(own - 1);
                }
            }
        }
    }

    /// Makes block `index` of the file the first of its extent, if it is in one.
    fn split_at(&mut self, handle: &Handle<'_>, state: &mut InodeState, index: u64) -> Result<()> {
        let Ok(index) = u32::try_from(index) else { return Ok(()) };
        let Some(found) = self.find(state, index)?.0 else { return Ok(()) };
        if found.index == index {
            return Ok(());
        }
        self.reserve(handle, state, index, 1)?;
        let left = Extent { len: index - found.index, ..found };
        let right = Extent {
            index,
            len: found.len - left.len,
            start: found.start + u64::from(left.len),
            unwritten: found.unwritten,
        };
        self.rewrite_leaf(handle, state, index, &|extents| {
            extents.iter_mut().filter(|extent| extent.index == found.index).for_each(|extent| *extent = left);
        })?;
        self.joins = false;
        let inserted = self.insert(handle, state, right);
        self.joins = true;
        inserted?;
        self.give_back(handle)
    }

    /// The extent that holds a block of the file; and the first block after it, or in a hole the first that is mapped.
    fn find(&self, state: &InodeState, index: u32) -> Result<(Option<Extent>, u64)> {
        let (mut at, mut depth, mut bound) = (At::Root, None, u64::from(u32::MAX));
        loop {
            sim::work(sim::Work::STEP, 2);
            match self.read(state, at, depth)? {
                Node::Leaf(extents) => {
                    let place = extents.partition_point(|extent| extent.end() <= u64::from(index));
                    return Ok(match extents.get(place) {
                        Some(extent) if extent.index <= index => (Some(*extent), extent.end()),
                        Some(extent) => (None, u64::from(extent.index)),
                        None => (None, bound),
                    });
                }
                Node::Index(own, children) => {
                    let place = child_of(&children, index);
                    if let Some((next, _)) = children.get(place + 1) {
                        bound = u64::from(*next);
                    }
                    at = At::Block(children[place].1);
                    depth = Some(own - 1);
                }
            }
        }
    }

    /// Takes extents from `from` to before `to` out of a node, from the right; what they mapped is added to `gone`. Blocks of
    /// nodes that become empty are added to `nodes`.
    fn remove_from(
        &self,
        handle: &Handle<'_>,
        state: &mut InodeState,
        node: Node,
        Range { start: from, end: to }: Range<u64>,
        out: &mut Removed,
    ) -> Result<Node> {
        match node {
            Node::Leaf(mut extents) => {
                for place in (0..extents.len()).rev() {
                    let extent = extents[place];
                    if extent.end() <= from || u64::from(extent.index) >= to || out.is_full() {
                        continue;
                    }
                    // The borders were made borders of extents, but for what lies before `from` of a truncated file.
                    let keep = from.saturating_sub(u64::from(extent.index)) as u32;
                    let keep = keep.max(extent.len - out.room.min(extent.len.into()) as u32);
                    out.room -= u64::from(extent.len - keep);
                    sim::ran::push(&mut out.gone, (extent.start + u64::from(keep), extent.len - keep));
                    if keep > 0 {
                        extents[place].len = keep;
                    } else {
                        extents.remove(place);
                    }
                }
                Ok(Node::Leaf(extents))
            }
            Node::Index(depth, mut children) => {
                for place in (0..children.len()).rev() {
                    let (key, block) = children[place];
                    let end = children.get(place + 1).map_or(u64::MAX, |(next, _)| u64::from(*next));
                    if u64::from(key) >= to || end <= from || out.is_full() {
                        continue;
                    }
                    let child = self.read(state, At::Block(block), Some(depth - 1))?;
                    let before = (child.len(), out.gone.len());
                    let child = self.remove_from(handle, state, child, from..to, out)?;
                    match child.first() {
                        None => {
                            children.remove(place);
                            sim::ran::push(&mut out.nodes, block);
                        }
                        Some(first) => {
                            if (child.len(), out.gone.len()) != before {
                                self.write(handle, state, At::Block(block), &child)?;
                            }
                            children[place].0 = first;
                        }
                    }
                }
                Ok(if children.is_empty() { Node::Leaf(Vec::new()) } else { Node::Index(depth, children) })
            }
        }
    }
}

/// The blocks that one transaction takes away.
struct Removed {
    gone: Vec<(u64, u32)>,
    nodes: Vec<u64>,
    /// Blocks that may still go.
    room: u64,
}

impl Removed {
    fn is_full(&self) -> bool {
        self.gone.len() >= STEP_EXTENTS || self.room == 0
    }
}

/// Key and block of an entry that leads to a node.
fn child_at(from: &[u8]) -> (u32, u64) {
    (le32(from, 0), u64::from(le32(from, 4)) | u64::from(le16(from, 8)) << 32)
}

/// The child that would hold block `index`.
fn child_of(children: &[(u32, u64)], index: u32) -> usize {
    children.partition_point(|(key, _)| *key <= index).saturating_sub(1)
}

/// Joins the extent at `place` with its neighbours where they are one run.
fn join_around(extents: &mut Vec<Extent>, place: usize) {
    if let Some(joined) = extents.get(place + 1).and_then(|next| extents[place].joined(next)) {
        extents[place] = joined;
        extents.remove(place + 1);
    }
    if place > 0
        && let Some(joined) = extents[place - 1].joined(&extents[place])
    {
        extents[place - 1] = joined;
        extents.remove(place);
    }
}

/// What a file has at block `index`.
pub(crate) fn lookup(volume: &Volume, inode: &Inode, state: &InodeState, index: u64) -> Result<Mapped> {
    let Ok(number) = u32::try_from(index) else { return Ok(Mapped::Hole(u64::MAX - index)) };
    let (found, until) = Tree::of(volume, inode, state).find(state, number)?;
    let Some(extent) = found else {
        return Ok(Mapped::Hole(if until > index { until - index } else { u64::MAX - index }));
    };
    volume.check_data_blocks(inode, extent.start, u64::from(extent.len))?;
    let inside = u64::from(number - extent.index);
    let unwritten = extent.unwritten;
    Ok(Mapped::Blocks { start: extent.start + inside, len: u64::from(extent.len) - inside, unwritten })
}

/// Adds an extent where there is a hole. One that finds no space has changed nothing.
pub(crate) fn insert(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    new: Extent,
) -> Result<()> {
    let mut tree = Tree::of(volume, inode, state);
    tree.reserve(handle, state, new.index, 1)?;
    tree.insert(handle, state, new)?;
    tree.give_back(handle)
}

/// Takes blocks away. Returns how many were freed, nodes included, and whether all are gone.
pub(crate) fn remove(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    Range { start: from, end: to }: Range<u64>,
    metadata: bool,
) -> Result<(u64, bool)> {
    let mut tree = Tree::of(volume, inode, state);
    if u32::try_from(to).is_ok() {
        tree.split_at(handle, state, to)?;
    }
    let journal = volume.journal.as_ref().filter(|_| metadata);
    let room = journal.map_or(u64::MAX, Journal::revokes_of_one_change);
    let mut out = Removed { gone: Vec::new(), nodes: Vec::new(), room };
    let root = tree.read(state, At::Root, None)?;
    let root = tree.remove_from(handle, state, root, from..to, &mut out)?;
    tree.write(handle, state, At::Root, &root)?;
    let mut freed = 0;
    for (start, len) in &out.gone {
        volume.check_data_blocks(inode, *start, u64::from(*len))?;
        volume.free_blocks(handle, *start, *len, metadata)?;
        freed += u64::from(*len);
    }
    for block in &out.nodes {
        volume.free_blocks(handle, *block, 1, true)?;
        freed += 1;
    }
    Ok((freed, !out.is_full()))
}

/// Makes the borders of a range borders of extents, so that [`convert`] of the range needs no space.
pub(crate) fn isolate(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    Range { start: from, end: to }: Range<u64>,
) -> Result<()> {
    let mut tree = Tree::of(volume, inode, state);
    tree.split_at(handle, state, from)?;
    tree.split_at(handle, state, to)
}

/// Makes the unwritten blocks of a range written; their content is the caller's.
pub(crate) fn convert(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    Range { start: from, end: to }: Range<u64>,
) -> Result<()> {
    isolate(volume, handle, inode, state, from..to)?;
    let tree = Tree::of(volume, inode, state);
    let mut at = from;
    while at < to {
        let (found, until) = tree.find(state, at as u32)?;
        if let Some(found) = found.filter(|extent| extent.unwritten && u64::from(extent.index) >= from) {
            tree.rewrite_leaf(handle, state, found.index, &|extents| {
                if let Some(place) = extents.iter().position(|extent| extent.index == found.index) {
                    extents[place].unwritten = false;
                    join_around(extents, place);
                }
            })?;
        }
        at = until.max(at + 1);
    }
    Ok(())
}

/// Shows everything that a file's tree leads to.
pub(crate) fn visit(
    volume: &Volume,
    inode: &Inode,
    state: &InodeState,
    seen: &mut dyn FnMut(Visited) -> Result<()>,
) -> Result<()> {
    let tree = Tree::of(volume, inode, state);
    let (mut open, mut end) = (vec![(At::Root, None, None)], 0);
    while let Some((at, depth, key)) = open.pop() {
        let node = tree.read(state, at, depth)?;
        if key.is_some() && node.first() != key {
            return Err(tree.damaged("the key of an extent node is not that of its first entry"));
        }
        match node {
            Node::Leaf(extents) => {
                for extent in extents {
                    if u64::from(extent.index) < end {
                        return Err(tree.damaged("extents of two nodes overlap or are out of order"));
                    }
                    end = extent.end();
                    let blocks = Run::new(extent.start, u64::from(extent.len));
                    seen(Visited::Data(u64::from(extent.index), blocks, extent.unwritten))?;
                }
            }
            Node::Index(own, children) => {
                for (key, block) in children.into_iter().rev() {
                    seen(Visited::Map(block))?;
                    open.push((At::Block(block), Some(own - 1), Some(key)));
                }
            }
        }
    }
    Ok(())
}

/// What can be saved of a tree that may be damaged.
#[derive(Debug)]
pub(crate) struct Salvaged {
    /// In order, inside the file system, and none over another.
    pub(crate) extents: Vec<Extent>,
    /// The blocks of nodes.
    pub(crate) nodes: Vec<u64>,
    /// Nothing is wrong with the tree.
    pub(crate) sound: bool,
}

impl Salvaged {
    /// Gives what is saved as a walk over the tree does.
    pub(crate) fn visited(&self) -> impl Iterator<Item = Visited> {
        let data = self.extents.iter().map(|extent| {
            let blocks = Run::new(extent.start, u64::from(extent.len));
            Visited::Data(u64::from(extent.index), blocks, extent.unwritten)
        });
        self.nodes.iter().map(|node| Visited::Map(*node)).chain(data)
    }
}

/// Reads a tree and leaves out the nodes and extents that cannot be.
pub(crate) fn salvage(volume: &Volume, inode: &Inode, state: &InodeState) -> Salvaged {
    let tree = Tree::of(volume, inode, state);
    let mut saved = Salvaged { extents: Vec::new(), nodes: Vec::new(), sound: true };
    tree.salvage_node(&state.raw.block, (At::Root, None, None), 1 << 32, &mut saved);
    saved
}

impl Tree<'_> {
    /// Depth is that which the parent says, and so is the key. `end`: the block of the file before which the node ends.
    fn salvage_node(
        &self,
        bytes: &[u8],
        (at, depth, key): (At, Option<u16>, Option<u32>),
        end: u64,
        saved: &mut Salvaged,
    ) {
        let Some((own, entries)) = self.header(bytes, at, depth) else {
            saved.sound = false;
            return;
        };
        saved.sound &= self.has_room(bytes, at) && self.is_sealed(bytes, at) && own == le16(bytes, 6);
        saved.sound &= (own == 0 || entries > 0) && own <= MOST_DEPTH;
        saved.sound &= key.is_none_or(|key| entries > 0 && le32(bytes, ENTRY_BYTES) == key);
        let entries = bytes[ENTRY_BYTES..].chunks_exact(ENTRY_BYTES).take(entries);
        if own == 0 {
            return self.salvage_leaf(&entries.map(Extent::read).collect::<Vec<_>>(), end, saved);
        }
        let geo = &self.volume.geo;
        let children: Vec<(u32, u64)> = entries.map(child_at).collect();
        for (number, (key, block)) in children.iter().enumerate() {
            let inside = *block > geo.first_data_block && *block < geo.blocks;
            let few = (saved.nodes.len() as u64) < geo.blocks;
            // Where the next one begins is said by its key and by itself; of two that differ one is wrong.
            let next = children.get(number + 1).map(|(key, block)| (*key).max(self.first_of(*block)));
            let end = next.map_or(end, |next| end.min(next.into()));
            match self.volume.look(*block, <[u8]>::to_vec) {
                Ok(bytes) if inside && few => {
                    saved.nodes.push(*block);
                    self.salvage_node(&bytes, (At::Block(*block), Some(own - 1), Some(*key)), end, saved);
                }
                _ => saved.sound = false,
            }
        }
    }

    /// The key of the first entry of a node; 0 if it is none.
    fn first_of(&self, block: u64) -> u32 {
        let first = |bytes: &[u8]| if le16(bytes, 0) == MAGIC { le32(bytes, ENTRY_BYTES) } else { 0 };
        self.volume.look(block, first).unwrap_or(0)
    }

    /// Takes the extents of a leaf that are in order; one that ends behind the beginning of the next, or behind the leaf, is cut
    /// there. One whose key is wrong costs no other.
    fn salvage_leaf(&self, all: &[Extent], end: u64, saved: &mut Salvaged) {
        let geo = &self.volume.geo;
        let before = saved.extents.last().map_or(0, Extent::end);
        let may_be = |extent: &Extent| {
            extent.len > 0
                && (before..end).contains(&u64::from(extent.index))
                && extent.start >= geo.first_data_block.max(1)
                && extent.start + u64::from(extent.len) <= geo.blocks
                && u32::try_from(extent.end()).is_ok()
        };
        let possible: Vec<Extent> = all.iter().copied().filter(may_be).collect();
        let mut kept = longest_in_order(&possible);
        saved.sound &= kept.len() == all.len();
        let ends: Vec<u64> = kept.iter().skip(1).map(|next| u64::from(next.index)).chain([end]).collect();
        for (extent, end) in kept.iter_mut().zip(ends) {
            saved.sound &= extent.end() <= end;
            extent.len = u64::from(extent.len).min(end - u64::from(extent.index)) as u32;
        }
        saved.extents.append(&mut kept);
    }
}

/// The extents with the most blocks whose keys increase; of as many blocks those that end with the smallest key.
fn longest_in_order(all: &[Extent]) -> Vec<Extent> {
    if all.is_sorted_by(|a, b| a.index < b.index) {
        return all.to_vec();
    }
    // By the key that a row ends with, its blocks and its last extent; and the extent before each in its row.
    let (mut rows, mut before) = (BTreeMap::<u32, (u64, usize)>::new(), vec![None; all.len()]);
    for (at, extent) in all.iter().enumerate() {
        let shorter = rows.range(..extent.index).next_back().map(|(_, row)| *row);
        before[at] = shorter.map(|(_, last)| last);
        let blocks = shorter.map_or(0, |(blocks, _)| blocks) + u64::from(extent.len);
        if rows.get(&extent.index).is_none_or(|(others, _)| *others < blocks) {
            // Of rows that end with greater keys only those with more blocks count.
            rows.retain(|key, (others, _)| *key < extent.index || *others > blocks);
            rows.insert(extent.index, (blocks, at));
        }
    }
    let last = rows.last_key_value().map(|(_, (_, last))| *last);
    let mut kept: Vec<Extent> = std::iter::successors(last, |at| before[*at]).map(|at| all[at]).collect();
    kept.reverse();
    kept
}

/// Gives an inode a tree of these extents, which are in order. `take` finds a block for a node; returns how many were taken.
pub(crate) fn rebuild(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    extents: &[Extent],
    take: &mut dyn FnMut() -> Result<u64>,
) -> Result<u64> {
    let tree = Tree::of(volume, inode, state);
    let capacity = tree.capacity(At::Block(0));
    if extents.len() <= ROOT_ENTRIES {
        tree.write(handle, state, At::Root, &Node::Leaf(sim::ran::collected(extents.iter().copied())))?;
        return Ok(0);
    }
    let mut taken = 0;
    let mut put = |node: Node| {
        let block = take()?;
        taken += 1;
        tree.write(handle, state, At::Block(block), &node)?;
        Ok((node.first().unwrap_or_default(), block))
    };
    let leaves =
        extents.chunks(capacity).map(|some| put(Node::Leaf(sim::ran::collected(some.iter().copied()))));
    let (mut children, mut depth) = (leaves.collect::<Result<Vec<_>>>()?, 1);
    while children.len() > ROOT_ENTRIES {
        let index = |some: &[_]| Node::Index(depth, sim::ran::collected(some.iter().copied()));
        let nodes = children.chunks(capacity).map(|some| put(index(some)));
        (children, depth) = (nodes.collect::<Result<Vec<_>>>()?, depth + 1);
    }
    tree.write(handle, state, At::Root, &Node::Index(depth, children))?;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the length on the medium says is what was written: 32,768 and less are written blocks, all above is unwritten.
    #[test]
    fn runs_join_to_no_more_blocks_than_the_format_can_say() {
        for (unwritten, most) in [(false, 32_768), (true, 32_767)] {
            let run = |index, len| Extent { index, len, start: 100 + u64::from(index), unwritten };
            for first in [1, 16_384, most - 1] {
                let joined = run(0, first).joined(&run(first, most - first)).expect("it can be said");
                let mut bytes = [0; ENTRY_BYTES];
                joined.write(&mut bytes);
                assert_eq!((joined.len, Extent::read(&bytes)), (most, joined));
                assert_eq!(run(0, first).joined(&run(first, most - first + 1)), None, "{first}, {unwritten}");
            }
        }
    }
}
