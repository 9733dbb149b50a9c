//! The index of a directory: a tree of hashes over its blocks (`dir_index`).
//!
//! ```text
//! root (block 0):  `.` | `..`, whose record covers the rest | info: version, levels | limit, count, block | hash, block …
//! node:            a record of inode 0 that covers the block               | limit, count, block | hash, block …
//! leaf:            records, in any order
//! ```
//!
//! An entry leads to names whose hashes are at least its own and below the next. The lowest bit of an entry's hash says that the
//! leaf before it ends with a name of the same hash: a search goes on there.

use super::Volume;
use super::inode::{Inode, InodeState};
use super::journal::Handle;
use super::layout::{crc32c, flag, le16, le32, put16, put32};
use super::records::{Place, put_into, record_bytes, records};
use base::error::{Error, Result};

/// Where the info of the root lies, and its length.
const INFO: usize = 24;
const INFO_BYTES: usize = 8;
/// A flag of the root that says that only later code can read the index.
const INCOMPATIBLE: u8 = 1;
/// Where entries begin in the root and in a node.
const ROOT_ENTRIES: usize = INFO + INFO_BYTES;
const NODE_ENTRIES: usize = 8;
const ENTRY_BYTES: usize = 8;
/// Length of what holds the checksum behind the last possible entry.
const TAIL_BYTES: usize = 8;
/// Most levels of nodes below the root (without `large_dir`).
const MOST_LEVELS: u8 = 1;

/// A node of the index, in memory.
#[derive(Clone, Debug)]
struct Node {
    /// Its block on the device.
    block: u64,
    root: bool,
    /// Hash and block of the directory; the first has no hash.
    entries: Vec<(u32, u32)>,
    /// Which entry the search took.
    taken: usize,
}

fn entries_at(root: bool) -> usize {
    if root { ROOT_ENTRIES } else { NODE_ENTRIES }
}

fn limit(volume: &Volume, root: bool) -> usize {
    let tail = if volume.geo.metadata_csum { TAIL_BYTES } else { 0 };
    (volume.geo.block_bytes as usize - entries_at(root) - tail) / ENTRY_BYTES
}

/// Whether a record at `at` of a block is one of the two in the root of an index.
pub(crate) fn is_root(block: &[u8], at: usize) -> bool {
    at <= 12 && usize::from(le16(block, 4)) == 12 && usize::from(le16(block, 16)) == block.len() - 12
}

/// Gives `.` and `..` of the root of an index the lengths that they have there, whatever they say; nothing where a block is no
/// such root.
pub(crate) fn mend_root_records(volume: &Volume, block: &mut [u8]) {
    let at = entries_at(true);
    let (most, count) = (usize::from(le16(block, at)), usize::from(le16(block, at + 2)));
    let has_dots = block[6] == 1 && block[8] == b'.' && block[18] == 2 && block[20..22] == *b"..";
    let has_info = le32(block, INFO) == 0 && usize::from(block[INFO + 5]) == INFO_BYTES;
    if has_dots && has_info && most == limit(volume, true) && (1..=most).contains(&count) {
        let rest = block.len() - 12;
        put16(block, 4, 12);
        put16(block, 16, rest as u16);
    }
}

/// Writes the checksum of a root or node.
pub(crate) fn seal(volume: &Volume, seed: u32, block: &mut [u8], root: bool) {
    if !volume.geo.metadata_csum {
        return;
    }
    let at = entries_at(root);
    let tail = at + limit(volume, root) * ENTRY_BYTES;
    let count = usize::from(le16(block, at + 2)).min(limit(volume, root));
    put32(block, tail, 0);
    let checksum = node_checksum(seed, block, at + count * ENTRY_BYTES, tail);
    put32(block, tail + 4, checksum);
}

fn node_checksum(seed: u32, block: &[u8], used: usize, tail: usize) -> u32 {
    let checksum = crc32c(crc32c(seed, &block[..used]), &block[tail..tail + 4]);
    crc32c(checksum, &[0; 4])
}

/// The entries of a node, hash and block of each: as they lie in its block, once that was looked at.
struct Entries<'a> {
    bytes: &'a [u8],
    count: usize,
    /// Blocks of the directory.
    blocks: u64,
}

impl Entries<'_> {
    fn get(&self, number: usize) -> Result<(u32, u32), &'static str> {
        let at = number * ENTRY_BYTES;
        let block = le32(self.bytes, at + 4) & 0x0fff_ffff;
        if block == 0 || u64::from(block) >= self.blocks {
            return Err("an index node leads out of the directory");
        }
        Ok((self.hash(number), block))
    }

    /// The first has none.
    fn hash(&self, number: usize) -> u32 {
        if number == 0 { 0 } else { le32(self.bytes, number * ENTRY_BYTES) }
    }

    /// The entry for a hash.
    fn place(&self, major: u32) -> usize {
        let (mut first, mut end) = (1, self.count);
        while first < end {
            let middle = first.midpoint(end);
            if self.hash(middle) <= major {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        first - 1
    }
}

/// Looks at a node.
fn look_at_node<T>(
    volume: &Volume,
    inode: &Inode,
    state: &InodeState,
    (index, block): (u64, u64),
    what: impl FnOnce(Entries<'_>) -> Result<T, &'static str>,
) -> Result<T> {
    let root = index == 0;
    let seed = state.seed(volume, inode.ino);
    let looked = volume.look(block, |bytes| {
        let at = entries_at(root);
        let (most, count) = (usize::from(le16(bytes, at)), usize::from(le16(bytes, at + 2)));
        if most != limit(volume, root) || count == 0 || count > most {
            return Err("an index node has an impossible number of entries");
        }
        let tail = at + most * ENTRY_BYTES;
        let checksum = || node_checksum(seed, bytes, at + count * ENTRY_BYTES, tail);
        if volume.geo.metadata_csum && le32(bytes, tail + 4) != checksum() {
            return Err("an index node has a wrong checksum");
        }
        what(Entries { bytes: &bytes[at..], count, blocks: volume.dir_blocks(state) })
    })?;
    looked.map_err(|what| inode.damaged(volume, what))
}

fn read_node(volume: &Volume, inode: &Inode, state: &InodeState, index: u64) -> Result<Node> {
    let block = volume.dir_block(inode, state, index)?;
    sim::ran::allocate(1);
    let entries = look_at_node(volume, inode, state, (index, block), |entries| {
        let mut all = Vec::with_capacity(entries.count);
        for number in 0..entries.count {
            all.push(entries.get(number)?);
        }
        Ok(all)
    })?;
    sim::ran::bytes((entries.len() * ENTRY_BYTES) as u64);
    Ok(Node { block, root: index == 0, entries, taken: 0 })
}

/// Whether a block of an indexed directory belongs to the index.
pub(crate) fn is_index_block(bytes: &[u8], index: u64) -> bool {
    index == 0 || le32(bytes, 0) == 0 && usize::from(le16(bytes, 4)) == bytes.len()
}

/// Complains about an index of which a node cannot be.
pub(crate) fn check(volume: &Volume, inode: &Inode, state: &InodeState) -> Result<()> {
    let (_, levels) = info(volume, inode, state)?;
    let root = read_node(volume, inode, state, 0)?;
    let nodes = if levels > 0 { &root.entries[..] } else { &[] };
    nodes.iter().try_for_each(|(_, index)| read_node(volume, inode, state, u64::from(*index)).map(drop))
}

/// Version of the hash, and levels of nodes below the root.
fn info(volume: &Volume, inode: &Inode, state: &InodeState) -> Result<(u8, u8)> {
    let block = volume.dir_block(inode, state, 0)?;
    let (version, len, levels, plain) = volume.look(block, |bytes| {
        let plain = le32(bytes, INFO) == 0 && bytes[INFO + 7] & INCOMPATIBLE == 0;
        (bytes[INFO + 4], bytes[INFO + 5], bytes[INFO + 6], plain)
    })?;
    let known = volume.name_hash(b"", version).is_some();
    if plain && known && usize::from(len) == INFO_BYTES && levels <= MOST_LEVELS {
        return Ok((version, levels));
    }
    Err(inode.damaged(volume, "the root of its index is not possible"))
}

/// The version of the hash by which a directory is, or would be, indexed.
pub(crate) fn version(volume: &Volume, inode: &Inode, state: &InodeState) -> Result<u8> {
    if state.raw.has(flag::INDEX) { Ok(info(volume, inode, state)?.0) } else { Ok(volume.geo.hash_version) }
}

/// The way to the leaf for a hash, from the root down.
fn probe(volume: &Volume, inode: &Inode, state: &InodeState, major: u32) -> Result<Vec<Node>> {
    let (_, levels) = info(volume, inode, state)?;
    sim::ran::allocate(1);
    let mut path = Vec::with_capacity(2);
    let mut index = 0;
    for _ in 0..=levels {
        let mut node = read_node(volume, inode, state, index)?;
        node.taken = node.entries[1..].partition_point(|(hash, _)| *hash <= major);
        index = u64::from(node.entries[node.taken].1);
        sim::work(sim::Work::STEP, u64::from(node.entries.len().ilog2()) + 1);
        sim::ran::push(&mut path, node);
    }
    Ok(path)
}

/// The leaf for a hash, and the hash of the one behind it.
fn descend(volume: &Volume, inode: &Inode, state: &InodeState, major: u32) -> Result<(u64, Option<u32>)> {
    let (_, levels) = info(volume, inode, state)?;
    let (mut index, mut behind) = (0, None);
    for _ in 0..=levels {
        let block = volume.dir_block(inode, state, index)?;
        let (taken, next, count) = look_at_node(volume, inode, state, (index, block), |entries| {
            let place = entries.place(major);
            let next = (place + 1 < entries.count).then(|| entries.hash(place + 1));
            Ok((entries.get(place)?.1, next, entries.count))
        })?;
        sim::work(sim::Work::STEP, u64::from(count.ilog2()) + 1);
        (index, behind) = (u64::from(taken), next.or(behind));
    }
    Ok((index, behind))
}

fn leaf(path: &[Node]) -> u64 {
    path.last().map_or(0, |node| u64::from(node.entries[node.taken].1))
}

/// The hash of the leaf behind the one that the path leads to.
fn next_hash(path: &[Node]) -> Option<u32> {
    path.iter().rev().find_map(|node| node.entries.get(node.taken + 1).map(|(hash, _)| *hash))
}

/// Leaves with the first hash of each, and the first hash behind them.
pub(crate) type Leaves = (Vec<(u64, u32)>, Option<u32>);

/// Leaves in the order of their hashes, each with its first hash, from the one with names of `major` on, as far as one node of the
/// index leads; and the first hash behind them.
pub(crate) fn leaves_of(volume: &Volume, inode: &Inode, state: &InodeState, major: u32) -> Result<Leaves> {
    if !state.raw.has(flag::INDEX) {
        return Ok((sim::ran::collected([(0, major)]), None));
    }
    let mut path = probe(volume, inode, state, major)?;
    let Some(node) = path.last_mut() else { return Ok((Vec::new(), None)) };
    let leaves = node.entries[node.taken..].iter().map(|(hash, block)| (u64::from(*block), *hash));
    let leaves = sim::ran::collected(leaves);
    node.taken = node.entries.len() - 1;
    // Names of one hash may go on in the next leaf: a reader of this one then takes both, one after the other.
    Ok((leaves, next_hash(&path).filter(|next| *next > major)))
}

/// Looks for a name.
pub(crate) fn find(volume: &Volume, inode: &Inode, state: &InodeState, name: &[u8]) -> Result<Option<Place>> {
    let (version, _) = info(volume, inode, state)?;
    let hash = volume.name_hash(name, version).unwrap_or_default();
    let mut major = hash.major;
    loop {
        let (leaf, behind) = descend(volume, inode, state, major)?;
        let block = volume.dir_block(inode, state, leaf)?;
        if let Some(place) = volume.find_in_block(inode, block, name)? {
            return Ok(Some(place));
        }
        match behind {
            Some(next) if next == hash.major | 1 && next > major => major = next,
            _ => return Ok(None),
        }
    }
}

fn write_node(volume: &Volume, handle: &Handle<'_>, seed: u32, node: &Node, fresh: bool) -> Result<()> {
    let write = |bytes: &mut [u8]| {
        let at = entries_at(node.root);
        if fresh {
            let len = bytes.len() as u16;
            put16(bytes, 4, len);
        }
        for (number, (hash, block)) in node.entries.iter().enumerate() {
            put32(bytes, at + number * ENTRY_BYTES, *hash);
            put32(bytes, at + number * ENTRY_BYTES + 4, *block);
        }
        put16(bytes, at, limit(volume, node.root) as u16);
        put16(bytes, at + 2, node.entries.len() as u16);
        seal(volume, seed, bytes, node.root);
    };
    if fresh {
        volume.change_new(handle, node.block, write)
    } else {
        volume.change(handle, node.block, write)
    }
}

/// Gives a directory of one full block an index: its names move to a second block.
pub(crate) fn make(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
) -> Result<()> {
    let root = volume.dir_block(inode, state, 0)?;
    let (index, leaf) = volume.grow_dir(handle, inode, state)?;
    let (seed, end) = (state.seed(volume, inode.ino), volume.records_end());
    let old = volume.look(root, sim::ran::copied)?;
    let moved = volume.change_new(handle, leaf, |bytes| {
        put16(bytes, 4, end as u16);
        for record in records(&old, end) {
            let record = record?;
            if record.ino != 0 && record.name != b"." && record.name != b".." {
                put_into(bytes, end, record.name, (record.ino, record.kind))?;
            }
        }
        volume.seal_dir(seed, bytes);
        Ok(())
    })?;
    moved.map_err(|what: &str| inode.damaged(volume, what))?;
    let version = volume.geo.hash_version;
    volume.change(handle, root, |bytes| {
        let len = bytes.len();
        put16(bytes, 16, (len - 12) as u16);
        bytes[INFO..].fill(0);
        bytes[INFO + 4] = version;
        bytes[INFO + 5] = INFO_BYTES as u8;
    })?;
    let node = Node { block: root, root: true, entries: sim::ran::collected([(0, index as u32)]), taken: 0 };
    write_node(volume, handle, seed, &node, false)?;
    state.raw.flags = (state.raw.flags.get() | flag::INDEX).into();
    Ok(())
}

/// Adds a name.
pub(crate) fn add(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    name: &[u8],
    entry: (u32, u8),
) -> Result<()> {
    let (version, _) = info(volume, inode, state)?;
    let hash = volume.name_hash(name, version).unwrap_or_default();
    let path = probe(volume, inode, state, hash.major)?;
    let block = volume.dir_block(inode, state, leaf(&path))?;
    if volume.put_name(handle, inode, state, block, name, entry)? {
        return Ok(());
    }
    let seed = state.seed(volume, inode.ino);
    let mut path = path;
    let node = path.last().expect("a path has its root");
    if node.entries.len() == limit(volume, node.root) {
        split_node(volume, handle, inode, state, &mut path)?;
    }
    let node = path.last_mut().expect("a path has its root");
    let (at, split) = split_leaf(volume, handle, inode, state, (leaf_block(node), block), version)?;
    sim::ran::allocate(u64::from(node.entries.len() == node.entries.capacity()));
    node.entries.insert(node.taken + 1, (split, at.0 as u32));
    write_node(volume, handle, seed, node, false)?;
    let target = if hash.major >= split & !1 { at.1 } else { block };
    if volume.put_name(handle, inode, state, target, name, entry)? {
        return Ok(());
    }
    // The half that the name belongs to may still be too full for a long name: once more.
    add(volume, handle, inode, state, name, entry)
}

fn leaf_block(node: &Node) -> u64 {
    u64::from(node.entries[node.taken].1)
}

/// Splits the last node of the path, which is full; or lets the root have a level more.
fn split_node(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    path: &mut Vec<Node>,
) -> Result<()> {
    let seed = state.seed(volume, inode.ino);
    if path.len() == 1 {
        let (index, block) = volume.grow_dir(handle, inode, state)?;
        let root = &mut path[0];
        let entries = std::mem::replace(&mut root.entries, sim::ran::collected([(0, index as u32)]));
        let node = Node { block, root: false, entries, taken: root.taken };
        root.taken = 0;
        write_node(volume, handle, seed, &node, true)?;
        volume.change(handle, root.block, |bytes| bytes[INFO + 6] += 1)?;
        write_node(volume, handle, seed, root, false)?;
        sim::ran::push(path, node);
        return Ok(());
    }
    if path[0].entries.len() == limit(volume, true) {
        // The index is full (EXT4: ENOSPC without large_dir).
        return Err(Error::NoSpace);
    }
    let (index, block) = volume.grow_dir(handle, inode, state)?;
    let lower = path.last_mut().expect("two levels");
    let half = lower.entries.len() / 2;
    sim::ran::allocate(1);
    let mut entries = lower.entries.split_off(half);
    let first = entries[0].0;
    entries[0].0 = 0;
    let mut upper = Node { block, root: false, entries, taken: 0 };
    write_node(volume, handle, seed, lower, false)?;
    write_node(volume, handle, seed, &upper, true)?;
    let in_upper = lower.taken >= half;
    if in_upper {
        upper.taken = lower.taken - half;
        *lower = upper;
    }
    let root = &mut path[0];
    sim::ran::allocate(u64::from(root.entries.len() == root.entries.capacity()));
    root.entries.insert(root.taken + 1, (first, index as u32));
    root.taken += usize::from(in_upper);
    write_node(volume, handle, seed, root, false)
}

/// Moves the upper half of a full leaf to a new one. Returns the new leaf (block of the directory, of the device) and its hash.
fn split_leaf(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    (_, block): (u64, u64),
    version: u8,
) -> Result<((u64, u64), u32)> {
    let (seed, end) = (state.seed(volume, inode.ino), volume.records_end());
    let old = volume.look(block, sim::ran::copied)?;
    let mut names = Vec::new();
    for record in records(&old, end) {
        let record = record.map_err(|what| inode.damaged(volume, what))?;
        if record.ino != 0 {
            let hash = volume.name_hash(record.name, version).unwrap_or_default();
            sim::ran::push(&mut names, (hash.major, record.name, (record.ino, record.kind)));
        }
    }
    names.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(b.1)));
    if names.len() < 2 {
        return Err(inode.damaged(volume, "a full directory block has fewer than two names"));
    }
    let (mut bytes, mut cut) = (0, names.len() - 1);
    for (number, (_, name, _)) in names.iter().enumerate() {
        bytes += record_bytes(name);
        if bytes > end / 2 {
            cut = number.clamp(1, names.len() - 1);
            break;
        }
    }
    let (at, new) = volume.grow_dir(handle, inode, state)?;
    let continued = u32::from(names[cut].0 == names[cut - 1].0);
    let split = names[cut].0 | continued;
    sim::ran::allocate(1);
    let upper = names.split_off(cut);
    let fill = |bytes: &mut [u8], names: &[(u32, &[u8], (u32, u8))]| {
        bytes.fill(0);
        put16(bytes, 4, end as u16);
        for (_, name, entry) in names {
            let _ = put_into(bytes, end, name, *entry);
        }
        volume.seal_dir(seed, bytes);
    };
    volume.change_new(handle, new, |bytes| fill(bytes, &upper))?;
    volume.change(handle, block, |bytes| fill(bytes, &names))?;
    Ok(((at, new), split))
}
