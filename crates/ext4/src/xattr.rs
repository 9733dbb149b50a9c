//! Extended attributes: behind the fields of an inode, and in one block of their own.
//!
//! ```text
//! inode:  magic u32 | entries … | 0 0 | values, from the end
//! block:  magic, references, blocks, hash, checksum (32 bytes) | entries, sorted | 0 0 | values, from the end
//! entry:  name length u8, prefix u8, offset of the value u16, inode u32, size u32, hash u32, name filled up to 4
//! ```
//!
//! Offsets of values count from the first entry in an inode and from the block's beginning in a block. A new set of attributes
//! is laid out as a whole: small ones in the inode while they fit, the others in the block. A block that several inodes share
//! (the kernel shares equal ones) is never changed: the inode gets its own.

use sim::map::TreeMap;
use sim::ran;

use ::vfs::XattrMode;
use zerocopy::{FromBytes, IntoBytes};

use super::inode::{Inode, InodeState, change_time};
use super::journal::Handle;
use super::layout::{
    EXTRA_ISIZE, OLD_INODE_BYTES, RAW_INODE_BYTES, RawInode, crc32c, flag, le16, le32, put16, put32,
};
use super::{Volume, acl};
use base::error::{Error, Result};

pub(crate) const MAGIC: u32 = 0xea02_0000;
const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 16;
const CREDITS: u32 = 16;
/// Where the flags of an inode lie.
const INODE_FLAGS: usize = 32;

/// Prefixes that a number stands for.
const PREFIXES: [(u8, &[u8]); 6] = [
    (1, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
    (7, b"system."),
];

/// Attributes by prefix and name, in the order in which a block has them.
pub(crate) type Attributes = TreeMap<(u8, usize, Vec<u8>), Vec<u8>>;

/// The prefixes that are the whole name of a list of access control.
const LISTS: [u8; 2] = [2, 3];

/// The key of a name: prefix, length and the rest, which is the order of a block.
fn key(name: &[u8]) -> Option<(u8, usize, Vec<u8>)> {
    let is_of = |number: u8, prefix: &[u8]| {
        if LISTS.contains(&number) { name == prefix } else { name.starts_with(prefix) }
    };
    let (number, prefix) = PREFIXES.iter().find(|(number, prefix)| is_of(*number, prefix))?;
    let rest = ran::copied(&name[prefix.len()..]);
    Some((*number, rest.len(), rest))
}

fn full_name((number, _, rest): &(u8, usize, Vec<u8>)) -> Vec<u8> {
    let prefix = PREFIXES.iter().find(|(known, _)| known == number).map_or(&b""[..], |(_, prefix)| prefix);
    ran::allocate(1);
    ran::bytes((prefix.len() + rest.len()) as u64);
    [prefix, rest].concat()
}

/// All bytes of an inode.
fn whole_inode(state: &InodeState) -> Vec<u8> {
    ran::allocate(1);
    ran::bytes((RAW_INODE_BYTES + state.extra.len()) as u64);
    [state.raw.as_bytes(), &state.extra].concat()
}

fn entry_bytes(name: usize) -> usize {
    ENTRY_BYTES + name.next_multiple_of(4)
}

fn value_bytes(value: usize) -> usize {
    value.next_multiple_of(4)
}

/// Gives lists of access control the form of the device where an early Weir stored that of the call; says whether one had it.
fn convert_lists(all: &mut Attributes) -> bool {
    let mut converted = false;
    for (_, value) in all.iter_mut().filter(|((prefix, ..), _)| LISTS.contains(prefix)) {
        if let Some(list) = acl::to_device(value) {
            (*value, converted) = (list, true);
        }
    }
    converted
}

/// The attributes of `bytes` with sound lists of access control in the form of the device; none where they have no others.
fn mended_lists(bytes: &[u8], at: usize, base: usize) -> Option<Attributes> {
    let mut all = Attributes::new();
    parse(bytes, at, base, &mut all).ok()?;
    let converted = convert_lists(&mut all);
    let count = all.len();
    all.retain(|(prefix, ..), list| !LISTS.contains(prefix) || acl::to_call(list).is_some());
    (converted || all.len() < count).then_some(all)
}

/// An entry, and its value where it lies in the bytes.
struct Entry<'a> {
    prefix: u8,
    name: &'a [u8],
    value: &'a [u8],
    value_at: usize,
    hash: u32,
}

/// Takes the entries from `at` on one by one; values count from `base`. Returns where the entries end. An error in words.
fn walk<'a>(
    bytes: &'a [u8],
    mut at: usize,
    base: usize,
    take: &mut dyn FnMut(Entry<'a>) -> Result<(), &'static str>,
) -> Result<usize, &'static str> {
    loop {
        let Some(head) = bytes.get(at..at + 4) else { return Err("attributes have no end") };
        if head == [0; 4] {
            return Ok(at + 4);
        }
        let name_len = usize::from(head[0]);
        let Some(entry) = bytes.get(at..at + ENTRY_BYTES + name_len) else {
            return Err("an attribute has no end");
        };
        let (offset, inode, size) = (usize::from(le16(entry, 2)), le32(entry, 4), le32(entry, 8) as usize);
        if inode != 0 {
            return Err("an attribute keeps its value in an inode, which is not supported");
        }
        // The kernel takes no list with such a name.
        if entry[ENTRY_BYTES..].contains(&0) {
            return Err("the name of an attribute has a zero byte");
        }
        let value_at = base + offset;
        let value =
            if size == 0 { Some(&[][..]) } else { bytes.get(value_at..value_at.saturating_add(size)) };
        let whole = value_at.saturating_add(value_bytes(size)) <= bytes.len();
        let Some(value) = value.filter(|_| size == 0 || whole) else {
            return Err("the value of an attribute lies outside");
        };
        take(Entry {
            prefix: entry[1],
            name: &entry[ENTRY_BYTES..],
            value,
            value_at,
            hash: le32(entry, 12),
        })?;
        at += entry_bytes(name_len);
    }
}

/// The inodes in which entries from `at` on keep their values.
fn value_inodes(bytes: &[u8], mut at: usize) -> Vec<u64> {
    let mut inodes = Vec::new();
    while let Some(entry) = bytes.get(at..at + ENTRY_BYTES).filter(|entry| entry[..4] != [0; 4]) {
        inodes.push(u64::from(le32(entry, 4)));
        at += entry_bytes(entry[0].into());
    }
    inodes
}

/// An inode that keeps the value of an attribute of another, and says so: the image has the feature `ea_inode`, whatever its
/// superblock says.
pub(crate) fn value_inode(volume: &Volume) -> Option<u64> {
    (1..=volume.geo.inodes()).find_map(|ino| {
        let (raw, extra) = volume.read_inode(ino).ok().filter(|(raw, _)| raw.links.get() > 0)?;
        let state = InodeState::of(raw, extra);
        let mut inodes =
            volume.inode_attributes(&state).map_or_else(Vec::new, |bytes| value_inodes(&bytes, 4));
        let block = state.raw.file_acl();
        if block > volume.geo.first_data_block && block < volume.geo.blocks {
            let of_block = |bytes: &[u8]| match le32(bytes, 0) {
                MAGIC => value_inodes(bytes, HEADER_BYTES),
                _ => Vec::new(),
            };
            inodes.extend(volume.look(block, of_block).ok()?);
        }
        inodes.into_iter().find(|ino| *ino != 0 && keeps_value(volume, *ino).unwrap_or(false))
    })
}

/// Whether the flags of an inode say that it keeps the value of an attribute.
fn keeps_value(volume: &Volume, ino: u64) -> Result<bool> {
    let (block, at) = volume.inode_at(ino)?;
    volume.look(block, |bytes| le32(bytes, at + INODE_FLAGS) & flag::KEEPS_VALUE != 0)
}

/// Reads entries from `at` on; values count from `base`. An error in words.
fn parse(bytes: &[u8], at: usize, base: usize, into: &mut Attributes) -> Result<(), &'static str> {
    walk(bytes, at, base, &mut |entry| {
        // Of a name that is in the inode and in the block, Linux finds that in the inode, which is read first.
        let key = (entry.prefix, entry.name.len(), ran::copied(entry.name));
        if !into.contains_key(&key) {
            into.insert(key, ran::copied(entry.value));
        }
        Ok(())
    })
    .map(drop)
}

/// Whether an attribute has a number of its prefix: in a block (values count from its begin) each must.
fn is_named(entry: &Entry<'_>, base: usize) -> bool {
    base > 0 || entry.prefix != 0
}

/// The attributes before the first that cannot be, without those whose hash is wrong; values count from `base`.
fn sound_part(bytes: &[u8], at: usize, base: usize) -> Attributes {
    let mut all = Attributes::new();
    let mut end = at;
    // What cannot be ends them.
    let _ = walk(bytes, at, base, &mut |entry| {
        end += entry_bytes(entry.name.len());
        let hashed = entry.hash == entry_hash(entry.name, entry.value) || base == at && entry.hash == 0;
        if hashed && is_named(&entry, base) && (entry.value.is_empty() || entry.value_at >= end) {
            all.insert((entry.prefix, entry.name.len(), entry.name.to_vec()), entry.value.to_vec());
        }
        Ok(())
    });
    all
}

/// Checks, as e2fsck does, what a reader takes on trust: that the hash of each entry is right, and that no value lies over
/// another or over the entries. An entry of an inode, whose values count from `at`, may have no hash.
fn check(bytes: &[u8], at: usize, base: usize) -> Result<(), &'static str> {
    let mut values = Vec::new();
    let end = walk(bytes, at, base, &mut |entry| {
        let hashed = (base == at && entry.hash == 0)
            || entry.hash == entry_hash(entry.name, entry.value)
            || entry.hash == signed_entry_hash(entry.name, entry.value);
        if !entry.value.is_empty() {
            values.push((entry.value_at, entry.value_at + value_bytes(entry.value.len())));
        }
        if !is_named(&entry, base) {
            return Err("the name of an attribute has no prefix");
        }
        if hashed { Ok(()) } else { Err("an attribute has a wrong hash") }
    })?;
    values.sort_unstable();
    let after = std::iter::once(end).chain(values.iter().map(|(_, end)| *end));
    match after.zip(&values).all(|(end, (start, _))| end <= *start) {
        true => Ok(()),
        false => Err("the values of attributes overlap"),
    }
}

/// Lays attributes out in `bytes`, entries from `at` on, values down from the end and counted from `base`. The caller has
/// checked that they fit.
fn lay_out<'a>(
    bytes: &mut [u8],
    mut at: usize,
    base: usize,
    hashes: bool,
    attributes: impl Iterator<Item = (&'a (u8, usize, Vec<u8>), &'a Vec<u8>)>,
) -> u32 {
    let (mut end, mut all) = (bytes.len(), 0_u32);
    for ((prefix, name_len, name), value) in attributes {
        let hash = entry_hash(name, value);
        if !value.is_empty() {
            end -= value_bytes(value.len());
            bytes[end..end + value.len()].copy_from_slice(value);
        }
        bytes[at] = *name_len as u8;
        bytes[at + 1] = *prefix;
        put16(bytes, at + 2, if value.is_empty() { 0 } else { (end - base) as u16 });
        put32(bytes, at + 8, value.len() as u32);
        put32(bytes, at + 12, if hashes { hash } else { 0 });
        bytes[at + ENTRY_BYTES..at + ENTRY_BYTES + name_len].copy_from_slice(name);
        at += entry_bytes(*name_len);
        all = all.rotate_left(16) ^ hash;
    }
    all
}

/// The hash of an entry, by which the kernel finds equal blocks: the name by bytes, the value by words.
fn entry_hash(name: &[u8], value: &[u8]) -> u32 {
    hash_value(name.iter().fold(0, |hash: u32, byte| hash.rotate_left(5) ^ u32::from(*byte)), value)
}

/// The same as kernels before Linux 6.3 made it where a `char` has a sign; it differs for names that are not ASCII.
fn signed_entry_hash(name: &[u8], value: &[u8]) -> u32 {
    let signed = |byte: &u8| i32::from(byte.cast_signed()).cast_unsigned();
    hash_value(name.iter().fold(0, |hash: u32, byte| hash.rotate_left(5) ^ signed(byte)), value)
}

fn hash_value(hash: u32, value: &[u8]) -> u32 {
    value.chunks(4).fold(hash, |hash, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        hash.rotate_left(16) ^ u32::from_le_bytes(word)
    })
}

impl Volume {
    /// Where attributes begin in an inode, if they have a place there: behind its fields, of which an old one has fewer than
    /// [`super::layout::RawInode`] (before Linux 4.5: 28 bytes of extra ones). One that counts none has not used that space yet.
    fn inode_room(&self, state: &InodeState) -> Option<usize> {
        let fields = usize::from(state.raw.extra_isize.get());
        let at = OLD_INODE_BYTES + fields;
        (fields > 0 && at + 8 <= self.geo.inode_bytes).then_some(at)
    }

    /// Gives a large inode that has not used its space behind the old fields all fields of a new one (Linux does so at the first
    /// look: `ext4_iget`).
    fn use_extra_space(&self, state: &mut InodeState) {
        if self.geo.inode_bytes < RAW_INODE_BYTES || state.raw.extra_isize.get() != 0 {
            return;
        }
        let mut whole = [0; RAW_INODE_BYTES];
        whole[..OLD_INODE_BYTES].copy_from_slice(&state.raw.as_bytes()[..OLD_INODE_BYTES]);
        state.raw = RawInode::read_from_bytes(&whole).expect("the size is right");
        state.raw.extra_isize = EXTRA_ISIZE.into();
        state.extra.fill(0);
    }

    /// The bytes of an inode from where attributes begin, magic included, if it has some.
    fn inode_attributes(&self, state: &InodeState) -> Option<Vec<u8>> {
        let at = self.inode_room(state)?;
        let whole = whole_inode(state);
        Some(ran::copied(&whole[at..])).filter(|bytes| le32(bytes, 0) == MAGIC)
    }

    /// Makes these the bytes behind the fields of an inode; what they do not reach is zero.
    fn set_inode_attributes(&self, state: &mut InodeState, bytes: &[u8]) {
        let Some(at) = self.inode_room(state) else { return };
        let mut whole = whole_inode(state);
        whole[at..].fill(0);
        whole[at..at + bytes.len()].copy_from_slice(bytes);
        state.raw = RawInode::read_from_bytes(&whole[..RAW_INODE_BYTES]).expect("the size is right");
        state.extra.copy_from_slice(&whole[RAW_INODE_BYTES..]);
    }

    /// The bytes of an inode that hold these attributes; none for no attributes.
    fn laid_out_in_inode(&self, state: &InodeState, attributes: &Attributes) -> Vec<u8> {
        match self.inode_room(state) {
            Some(at) if !attributes.is_empty() => {
                let mut bytes = ran::zeroed(self.geo.inode_bytes - at);
                put32(&mut bytes, 0, MAGIC);
                lay_out(&mut bytes, 4, 4, false, attributes.iter());
                bytes
            }
            _ => Vec::new(),
        }
    }

    /// All attributes of an inode.
    pub(crate) fn attributes(&self, inode: &Inode, state: &InodeState) -> Result<Attributes> {
        let mut all = Attributes::new();
        if let Some(bytes) = self.inode_attributes(state) {
            parse(&bytes, 4, 4, &mut all).map_err(|what| inode.damaged(self, what))?;
        }
        let block = state.raw.file_acl();
        if block != 0 {
            self.check_data_blocks(inode, block, 1)?;
            let parsed = self.look(block, |bytes| {
                if le32(bytes, 0) != MAGIC || le32(bytes, 8) != 1 {
                    return Err("its block of attributes has no magic");
                }
                if self.geo.metadata_csum && le32(bytes, 16) != self.attribute_checksum(block, bytes) {
                    return Err("its block of attributes has a wrong checksum");
                }
                parse(bytes, HEADER_BYTES, 0, &mut all)
            })?;
            parsed.map_err(|what| inode.damaged(self, what))?;
        }
        Ok(all)
    }

    /// Checks all attributes of an inode, hashes, the places of values and the form of lists too.
    pub(crate) fn check_attributes(&self, inode: &Inode, state: &InodeState) -> Result<()> {
        let all = self.attributes(inode, state)?;
        let lists = all.iter().filter(|((prefix, ..), _)| LISTS.contains(prefix));
        if let Some(what) = lists.map(|(_, list)| list).find_map(|list| acl::fault(list)) {
            return Err(inode.damaged(self, what));
        }
        if let Some(bytes) = self.inode_attributes(state) {
            check(&bytes, 4, 4).map_err(|what| inode.damaged(self, what))?;
        }
        let block = state.raw.file_acl();
        if block != 0 {
            let checked = self.look(block, |bytes| check(bytes, HEADER_BYTES, 0))?;
            checked.map_err(|what| inode.damaged(self, what))?;
        }
        Ok(())
    }

    /// Gives the lists of access control in an inode the form of the device, and drops what is none; says whether one was mended.
    pub(crate) fn mend_lists(&self, state: &mut InodeState) -> bool {
        let Some(bytes) = self.inode_attributes(state) else { return false };
        let Some(all) = mended_lists(&bytes, 4, 4) else { return false };
        let mended = self.laid_out_in_inode(state, &all);
        self.set_inode_attributes(state, &mended);
        true
    }

    /// The same in a block of attributes.
    pub(crate) fn mend_lists_of_block(&self, handle: &Handle<'_>, block: u64) -> Result<bool> {
        let Some(all) = self.look(block, |bytes| mended_lists(bytes, HEADER_BYTES, 0))? else {
            return Ok(false);
        };
        self.change(handle, block, |bytes| {
            bytes[HEADER_BYTES..].fill(0);
            self.fill_block(block, bytes, &all);
        })?;
        Ok(true)
    }

    /// Writes attributes and the hash and checksum of their block, which is zero behind its header.
    fn fill_block(&self, block: u64, bytes: &mut [u8], attributes: &Attributes) {
        let hash = lay_out(bytes, HEADER_BYTES, 0, true, attributes.iter());
        put32(bytes, 12, hash);
        if self.geo.metadata_csum {
            let checksum = self.attribute_checksum(block, bytes);
            put32(bytes, 16, checksum);
        }
    }

    /// Gives up those attributes in an inode that are not sound; says whether it did.
    pub(crate) fn drop_damaged_attributes(&self, state: &mut InodeState) -> bool {
        let Some(bytes) = self.inode_attributes(state) else { return false };
        let damaged = check(&bytes, 4, 4).is_err();
        if damaged {
            let left = self.laid_out_in_inode(state, &sound_part(&bytes, 4, 4));
            self.set_inode_attributes(state, &left);
        }
        damaged
    }

    /// The same in a block, which keeps its references; false where none is left, or it is no block of attributes.
    pub(crate) fn salvage_attributes(&self, handle: &Handle<'_>, block: u64) -> Result<bool> {
        let left = self.look(block, |bytes| match le32(bytes, 0) == MAGIC && le32(bytes, 8) == 1 {
            true => sound_part(bytes, HEADER_BYTES, 0),
            false => Attributes::new(),
        })?;
        if left.is_empty() {
            return Ok(false);
        }
        self.change(handle, block, |bytes| {
            bytes[HEADER_BYTES..].fill(0);
            self.fill_block(block, bytes, &left);
        })?;
        Ok(true)
    }

    /// Whether the attributes in a block are sound, and how many references it counts; nothing where its checksum is wrong.
    pub(crate) fn look_at_attributes(&self, block: u64) -> Result<(bool, Option<u32>)> {
        self.look(block, |bytes| {
            let sound =
                le32(bytes, 0) == MAGIC && le32(bytes, 8) == 1 && check(bytes, HEADER_BYTES, 0).is_ok();
            let sealed = !self.geo.metadata_csum || le32(bytes, 16) == self.attribute_checksum(block, bytes);
            (sound, sealed.then(|| le32(bytes, 4)))
        })
    }

    fn attribute_checksum(&self, block: u64, bytes: &[u8]) -> u32 {
        let checksum = crc32c(self.geo.checksum_seed, &block.to_le_bytes());
        let checksum = crc32c(crc32c(checksum, &bytes[..16]), &[0; 4]);
        crc32c(checksum, &bytes[20..])
    }

    /// The value of an attribute.
    pub(crate) fn get_attribute(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>> {
        let inode = self.inode(ino)?;
        let state = inode.state.read();
        state.check_live()?;
        let key = key(name).ok_or(Error::NoAttribute)?;
        let value = self.attributes(&inode, &state)?.remove(&key).ok_or(Error::NoAttribute)?;
        if !LISTS.contains(&key.0) {
            return Ok(value);
        }
        acl::to_call(&value).ok_or(Error::Invalid("the stored list of access control is none; run fsck"))
    }

    /// All names, each ended by a zero byte.
    pub(crate) fn list_attributes(&self, ino: u64) -> Result<Vec<u8>> {
        let inode = self.inode(ino)?;
        let state = inode.state.read();
        state.check_live()?;
        let all = self.attributes(&inode, &state)?;
        // Of a prefix that is not known nothing can be said, as in Linux.
        let known = all.keys().filter(|(prefix, ..)| PREFIXES.iter().any(|(number, _)| number == prefix));
        Ok(ran::collected(known.flat_map(|key| full_name(key).into_iter().chain([0]))))
    }

    /// Sets an attribute.
    pub(crate) fn set_attribute(&self, ino: u64, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let key = key(name).ok_or(Error::NotSupported("a name of this kind"))?;
        let value = match LISTS.contains(&key.0) {
            true => acl::to_device(value).ok_or(Error::Invalid("not a list of access control"))?,
            false => ran::copied(value),
        };
        self.with_space(|| {
            self.change_attributes(ino, &|all| {
                match (mode, all.contains_key(&key)) {
                    (XattrMode::Create, true) => return Err(Error::Exists),
                    (XattrMode::Replace, false) => return Err(Error::NoAttribute),
                    _ => {}
                }
                all.insert((key.0, key.1, ran::copied(&key.2)), ran::copied(&value));
                Ok(())
            })
        })
    }

    /// Removes an attribute.
    pub(crate) fn remove_attribute(&self, ino: u64, name: &[u8]) -> Result<()> {
        let key = key(name).ok_or(Error::NoAttribute)?;
        self.with_space(|| {
            self.change_attributes(ino, &|all| all.remove(&key).map(drop).ok_or(Error::NoAttribute))
        })
    }

    fn change_attributes(&self, ino: u64, change: &dyn Fn(&mut Attributes) -> Result<()>) -> Result<()> {
        let inode = self.inode(ino)?;
        let mut state = inode.change_beside();
        state.check_live()?;
        if state.raw.has(flag::IMMUTABLE | flag::APPEND) {
            return Err(Error::NotPermitted);
        }
        let mut all = self.attributes(&inode, &state)?;
        change(&mut all)?;
        convert_lists(&mut all);
        self.use_extra_space(&mut state);
        let (inside, outside) = self.divide(&state, &all)?;
        let handle = self.begin(CREDITS)?;
        self.put_block(&handle, &inode, &mut state, &outside)?;
        let bytes = self.laid_out_in_inode(&state, &inside);
        self.set_inode_attributes(&mut state, &bytes);
        state.raw.set_ctime(change_time());
        self.use_attributes(&handle)?;
        self.store_inode(&handle, &inode, &mut state)
    }

    /// Which attributes go into the inode, the smallest first, and which into the block; `NoSpace` when they do not fit.
    fn divide(&self, state: &InodeState, all: &Attributes) -> Result<(Attributes, Attributes)> {
        // The end of the entries takes four bytes, and so does the magic of an inode's.
        let mut room = self.inode_room(state).map_or(0, |at| self.geo.inode_bytes - at - 8);
        let mut by_size = ran::collected(all.iter());
        let size = |len: usize, value: &[u8]| entry_bytes(len) + value_bytes(value.len());
        by_size.sort_unstable_by(|((a_prefix, a_len, a), a_value), ((b_prefix, b_len, b), b_value)| {
            let a = (size(*a_len, a_value), a_prefix, a);
            a.cmp(&(size(*b_len, b_value), b_prefix, b))
        });
        let (mut inside, mut outside) = (Attributes::new(), Attributes::new());
        let mut taken = HEADER_BYTES + 4;
        for (key, value) in by_size {
            let needed = entry_bytes(key.1) + value_bytes(value.len());
            if needed <= room {
                room -= needed;
                inside.insert((key.0, key.1, ran::copied(&key.2)), ran::copied(value));
            } else {
                room = 0;
                taken += needed;
                outside.insert((key.0, key.1, ran::copied(&key.2)), ran::copied(value));
            }
        }
        if !outside.is_empty() && taken > self.geo.block_bytes as usize {
            return Err(Error::NoSpace);
        }
        Ok((inside, outside))
    }

    /// Makes the block hold these attributes, or frees it.
    fn put_block(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        attributes: &Attributes,
    ) -> Result<()> {
        if attributes.is_empty() {
            return self.drop_attribute_block(handle, state);
        }
        let old = state.raw.file_acl();
        let own = old != 0 && self.look(old, |bytes| le32(bytes, 4))? == 1;
        let block = if own {
            old
        } else {
            let goal = self.goal(inode, state, 0);
            let (block, _) = self.allocate_blocks(handle, goal, 1)?;
            self.drop_attribute_block(handle, state)?;
            state.raw.set_file_acl(block);
            state.add_blocks(self, 1);
            block
        };
        self.change_new(handle, block, |bytes| {
            put32(bytes, 0, MAGIC);
            put32(bytes, 4, 1);
            put32(bytes, 8, 1);
            self.fill_block(block, bytes, attributes);
        })
    }

    /// Gives up an inode's block of attributes: frees it, or takes one reference from one that is shared.
    pub(crate) fn drop_attribute_block(&self, handle: &Handle<'_>, state: &mut InodeState) -> Result<()> {
        let block = state.raw.file_acl();
        if block == 0 {
            return Ok(());
        }
        state.raw.set_file_acl(0);
        state.add_blocks(self, -1);
        if self.look(block, |bytes| le32(bytes, 4))? <= 1 {
            return self.free_blocks(handle, block, 1, true);
        }
        let references = self.look(block, |bytes| le32(bytes, 4))? - 1;
        self.set_attribute_references(handle, block, references)
    }

    /// Sets how many inodes have a block of attributes.
    pub(crate) fn set_attribute_references(
        &self,
        handle: &Handle<'_>,
        block: u64,
        references: u32,
    ) -> Result<()> {
        self.change(handle, block, |bytes| {
            put32(bytes, 4, references);
            if self.geo.metadata_csum {
                let checksum = self.attribute_checksum(block, bytes);
                put32(bytes, 16, checksum);
            }
        })
    }
}
