//! Directories: blocks of records, searched one after the other or by the index of `htree.rs`.
//!
//! ```text
//! inode u32 | length of the record u16 | length of the name u8 | kind u8 | name, filled up to 4
//! ```
//!
//! A record with inode 0 is free; a removed one joins the record before it. With checksums the last twelve bytes of a block look
//! like a free record and hold the checksum.
//!
//! readdir goes in the order of hashes wherever an index is or may come, so that an entry is given once although blocks are
//! split meanwhile; the cursor is the hash. In a directory that is long and not indexed records never move, and the cursor is
//! the position.

use sim::Run;
use vfs::{DirEntry, FileKind, Ino};

use super::Volume;
use super::hash::{Hash, hash};
use super::htree;
use super::inode::{Inode, InodeState};
use super::journal::Handle;
use super::layout::{crc32c, entry_kind, flag, kind_of_entry, le32, put16, put32};
use super::records::{Place, Target, put_at, put_record, records, room_in};
use super::runs::Mapped;
use base::error::{Error, Result};

/// Length of the record at the end of a block that holds its checksum.
const TAIL_BYTES: usize = 12;
const TAIL_KIND: u8 = 0xde;

impl Volume {
    /// Where the records of a directory block end.
    pub(crate) fn records_end(&self) -> usize {
        self.geo.block_bytes as usize - if self.geo.metadata_csum { TAIL_BYTES } else { 0 }
    }

    /// The byte of a record that says the kind.
    pub(crate) fn kind_byte(&self, kind: FileKind) -> u8 {
        if self.geo.filetype { entry_kind(kind) } else { 0 }
    }

    /// Writes the checksum of a directory block.
    pub(crate) fn seal_dir(&self, seed: u32, block: &mut [u8]) {
        if self.geo.metadata_csum {
            let end = self.records_end();
            put_record(block, end, TAIL_BYTES, &[], (0, TAIL_KIND));
            let checksum = crc32c(seed, &block[..end]);
            put32(block, end + 8, checksum);
        }
    }

    /// Whether the checksum of a directory block is right.
    pub(crate) fn dir_is_sealed(&self, seed: u32, block: &[u8]) -> bool {
        let end = self.records_end();
        if !self.geo.metadata_csum {
            return true;
        }
        let head = [0, 0, 0, 0, TAIL_BYTES as u8, 0, 0, TAIL_KIND];
        block[end..end + 8] == head && le32(block, end + 8) == crc32c(seed, &block[..end])
    }

    /// How many blocks a directory has.
    pub(crate) fn dir_blocks(&self, state: &InodeState) -> u64 {
        state.raw.size() / u64::from(self.geo.block_bytes)
    }

    /// The block on the device of a directory's block.
    pub(crate) fn dir_block(&self, inode: &Inode, state: &InodeState, index: u64) -> Result<u64> {
        match self.map(inode, state, index, 1)? {
            Mapped::Blocks { start, unwritten: false, .. } => Ok(start),
            _ => Err(inode.damaged(self, "the directory has a hole")),
        }
    }

    /// A new block at the end of a directory; the caller fills it, seals it and writes the inode.
    pub(crate) fn grow_dir(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
    ) -> Result<(u64, u64)> {
        let index = self.dir_blocks(state);
        let block = self.map_new(handle, inode, state, Run::new(index, 1), false)?.first;
        state.raw.set_size((index + 1) * u64::from(self.geo.block_bytes));
        Ok((index, block))
    }

    /// Looks for a name in one block.
    pub(crate) fn find_in_block(&self, inode: &Inode, block: u64, name: &[u8]) -> Result<Option<Place>> {
        let mut walked = 0;
        let found = self.look(block, |bytes| {
            for record in records(bytes, self.records_end()) {
                walked += 1;
                let record = record?;
                if record.ino != 0 && record.name == name {
                    let (ino, kind) = (u64::from(record.ino), kind_of_entry(record.kind));
                    return Ok(Some(Place { block, at: record.at, ino, kind }));
                }
            }
            Ok(None)
        })?;
        sim::work(sim::Work::STEP, 8);
        sim::ran::node(walked);
        found.map_err(|what: &str| inode.damaged(self, what))
    }

    /// Looks for a name.
    pub(crate) fn find(&self, inode: &Inode, state: &InodeState, name: &[u8]) -> Result<Option<Place>> {
        if !state.raw.is_dir() {
            return Err(Error::NotDirectory);
        }
        if state.raw.has(flag::INDEX) && name != b"." && name != b".." {
            return htree::find(self, inode, state, name);
        }
        for index in 0..self.dir_blocks(state) {
            // The first record of an index's root and nodes covers the rest of their block.
            let found = self.find_in_block(inode, self.dir_block(inode, state, index)?, name)?;
            if found.is_some() || state.raw.has(flag::INDEX) {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The hash of a name in this file system's own version.
    pub(crate) fn name_hash(&self, name: &[u8], version: u8) -> Option<Hash> {
        hash(name, version, self.geo.unsigned_hash, self.geo.hash_seed)
    }

    /// Adds a name that is not there. The caller writes the inode.
    pub(crate) fn add_name(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        name: &[u8],
        target: Target,
    ) -> Result<()> {
        let entry = (target.ino as u32, self.kind_byte(target.kind));
        if state.raw.has(flag::INDEX) {
            return htree::add(self, handle, inode, state, name, entry);
        }
        let blocks = self.dir_blocks(state);
        for index in 0..blocks {
            let block = self.dir_block(inode, state, index)?;
            if self.put_name(handle, inode, state, block, name, entry)? {
                return Ok(());
            }
        }
        if blocks == 1 && self.geo.dir_index && self.name_hash(name, self.geo.hash_version).is_some() {
            htree::make(self, handle, inode, state)?;
            return htree::add(self, handle, inode, state, name, entry);
        }
        let (_, block) = self.grow_dir(handle, inode, state)?;
        let seed = state.seed(self, inode.ino);
        self.change_new(handle, block, |bytes| {
            put_record(bytes, 0, self.records_end(), name, entry);
            self.seal_dir(seed, bytes);
        })
    }

    /// Puts a record into a block where there is room; false if there is none.
    pub(crate) fn put_name(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &InodeState,
        block: u64,
        name: &[u8],
        entry: (u32, u8),
    ) -> Result<bool> {
        let _part = sim::part(&super::parts::DENTRY);
        let end = self.records_end();
        let room = self.look(block, |bytes| room_in(bytes, end, name))?;
        let Some(room) = room.map_err(|what| inode.damaged(self, what))? else { return Ok(false) };
        let seed = state.seed(self, inode.ino);
        // The directory is locked: the room is still there.
        self.change(handle, block, |bytes| {
            put_at(bytes, room, name, entry);
            self.seal_dir(seed, bytes);
        })?;
        Ok(true)
    }

    /// Removes the record at a place.
    pub(crate) fn remove_name(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &InodeState,
        place: Place,
    ) -> Result<()> {
        let _part = sim::part(&super::parts::DENTRY);
        let (seed, end) = (state.seed(self, inode.ino), self.records_end());
        let removed = self.change(handle, place.block, |bytes| {
            let (mut before, mut found) = (None, None);
            for record in records(bytes, end) {
                let record = record?;
                if record.at == place.at {
                    found = Some(record.len);
                    break;
                }
                before = Some(record.at);
            }
            let len = found.ok_or("a directory record has vanished")?;
            match before {
                Some(before) => put16(bytes, before + 4, (place.at + len - before) as u16),
                None => put32(bytes, place.at, 0),
            }
            self.seal_dir(seed, bytes);
            Ok(())
        })?;
        removed.map_err(|what: &str| inode.damaged(self, what))
    }

    /// Lets the record at a place lead elsewhere.
    pub(crate) fn redirect_name(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &InodeState,
        place: Place,
        target: Target,
    ) -> Result<()> {
        let _part = sim::part(&super::parts::DENTRY);
        let kind = self.kind_byte(target.kind);
        let seed = state.seed(self, inode.ino);
        let indexed = state.raw.has(flag::INDEX);
        self.change(handle, place.block, |bytes| {
            put32(bytes, place.at, target.ino as u32);
            bytes[place.at + 7] = kind;
            // `..` of an indexed directory lies in the root of the index, whose checksum is another.
            if indexed && htree::is_root(bytes, place.at) {
                htree::seal(self, seed, bytes, true);
            } else {
                self.seal_dir(seed, bytes);
            }
        })
    }

    /// Fills the first block of a new directory. The caller writes the inode.
    pub(crate) fn init_dir(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        parent: u64,
    ) -> Result<()> {
        let _part = sim::part(&super::parts::DENTRY);
        let (_, block) = self.grow_dir(handle, inode, state)?;
        let (seed, kind) = (state.seed(self, inode.ino), self.kind_byte(FileKind::Directory));
        let end = self.records_end();
        self.change_new(handle, block, |bytes| {
            put_record(bytes, 0, 12, b".", (inode.ino as u32, kind));
            put_record(bytes, 12, end - 12, b"..", (parent as u32, kind));
            self.seal_dir(seed, bytes);
        })
    }

    /// Whether a directory has no names but `.` and `..`.
    pub(crate) fn dir_is_empty(&self, inode: &Inode, state: &InodeState) -> Result<bool> {
        for index in 0..self.dir_blocks(state) {
            let block = self.dir_block(inode, state, index)?;
            let named = self.look(block, |bytes| {
                for record in records(bytes, self.records_end()) {
                    let record = record?;
                    if record.ino != 0 && record.name != b"." && record.name != b".." {
                        return Ok(true);
                    }
                }
                Ok(false)
            })?;
            // Nodes of an index are one record of inode 0, whatever follows in it.
            if named.map_err(|what: &str| inode.damaged(self, what))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives the entries of a directory from `cursor` on to `sink` until it answers false.
    pub(crate) fn read_dir(
        &self,
        inode: &Inode,
        state: &InodeState,
        cursor: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        if !state.raw.is_dir() {
            return Err(Error::NotDirectory);
        }
        let hashed = state.raw.has(flag::INDEX) || self.geo.dir_index && self.dir_blocks(state) == 1;
        if hashed {
            self.read_hashed(inode, state, cursor, sink)
        } else {
            self.read_plain(inode, state, cursor, sink)
        }
    }

    fn read_plain(
        &self,
        inode: &Inode,
        state: &InodeState,
        cursor: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let block_bytes = u64::from(self.geo.block_bytes);
        for index in cursor / block_bytes..self.dir_blocks(state) {
            let bytes = self.dir_bytes(inode, state, index)?;
            for record in records(&bytes, self.records_end()) {
                let record = record.map_err(|what| inode.damaged(self, what))?;
                let at = index * block_bytes + record.at as u64;
                if record.ino == 0 || at < cursor {
                    continue;
                }
                let (ino, kind) = (Ino(u64::from(record.ino)), kind_of_entry(record.kind));
                if !sink(DirEntry { ino, kind, name: record.name, next: at + record.len as u64 }) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A copy of a directory's block: the sink may do anything.
    fn dir_bytes(&self, inode: &Inode, state: &InodeState, index: u64) -> Result<Vec<u8>> {
        let block = self.dir_block(inode, state, index)?;
        self.look(block, sim::ran::copied)
    }

    fn read_hashed(
        &self,
        inode: &Inode,
        state: &InodeState,
        cursor: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        for (number, name) in [(0_u64, &b"."[..]), (1, &b".."[..])] {
            if cursor > number {
                continue;
            }
            let place =
                self.find(inode, state, name)?.ok_or_else(|| inode.damaged(self, "no `.` or `..`"))?;
            let entry =
                DirEntry { ino: Ino(place.ino), kind: Some(FileKind::Directory), name, next: number + 1 };
            if !sink(entry) {
                return Ok(());
            }
        }
        let mut from = cursor.max(FIRST_KEY);
        let version = htree::version(self, inode, state)?;
        let mut major = major_of(from);
        loop {
            let (leaves, behind) = htree::leaves_of(self, inode, state, major)?;
            for (number, (leaf, first)) in leaves.into_iter().enumerate() {
                if number > 0 {
                    from = from.max(key_of(Hash { major: first, minor: 0 }));
                }
                if !self.read_leaf(inode, state, (leaf, version), from, sink)? {
                    return Ok(());
                }
            }
            let Some(next) = behind else { return Ok(()) };
            // With its lowest bit, which leads past the leaf before.
            major = next;
            from = from.max(key_of(Hash { major: next, minor: 0 }));
        }
    }

    /// Shows the names of a leaf in the order of their hashes; false: the reader has enough.
    fn read_leaf(
        &self,
        inode: &Inode,
        state: &InodeState,
        (leaf, version): (u64, u8),
        from: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<bool> {
        let bytes = self.dir_bytes(inode, state, leaf)?;
        let mut entries = Vec::new();
        for record in records(&bytes, self.records_end()) {
            let record = record.map_err(|what| inode.damaged(self, what))?;
            if record.ino == 0 || record.name == b"." || record.name == b".." {
                continue;
            }
            let hash = self.name_hash(record.name, version).unwrap_or_default();
            sim::ran::push(&mut entries, (key_of(hash), record));
        }
        let names = entries.len() as u64;
        sim::ran::node(names * u64::from(names.checked_ilog2().unwrap_or(0)));
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.name.cmp(b.1.name)));
        for (key, record) in entries.iter().filter(|(key, _)| *key >= from) {
            let (ino, kind) = (Ino(u64::from(record.ino)), kind_of_entry(record.kind));
            if !sink(DirEntry { ino, kind, name: record.name, next: key + 1 }) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The first cursor of an entry by hash; those below are `.` and `..`.
const FIRST_KEY: u64 = 2;

/// The cursor of a hash: 31 bits of the first word, which is even, and the second.
fn key_of(hash: Hash) -> u64 {
    (u64::from(hash.major >> 1) << 32 | u64::from(hash.minor)) + FIRST_KEY
}

fn major_of(key: u64) -> u32 {
    (((key - FIRST_KEY) >> 32) as u32) << 1
}
