//! Repair of an image by what fsck found, in the manner of e2fsck: nothing that can still be read is given up.
//!
//! | violation | becomes right by |
//! |---|---|
//! | the superblocks differ | copying the one that is used |
//! | an impossible state of an inode, a name of a free one | live if it can be read alone, else free, without the name |
//! | an inode without a name that waits to be freed | free |
//! | a wrong checksum or number of the fixed part | the right one; the kind is that of the entries of the log |
//! | a last entry of a log that is torn, or a tail in the midst of it | the tail before it, or behind it |
//! | another damaged entry, page pointer, head or tail | the log without what cannot be read (`salvage.rs`) |
//! | a block that several files have | a hole in all but the one whose entry is the youngest |
//! | a block with two uses of which none is data | that of the table, else of the first log, else of the first attributes |
//! | attributes outside the image, or unsound | no attributes |
//! | a symbolic link without a target | an empty file |
//! | a second name of a directory | an entry that removes it |
//! | `..` missing or leading elsewhere, a wrong link count | an entry that says what was counted |
//! | an inode without a name | `lost+found/#NUMBER` |
//! | a root that is no directory | a directory, with what its log still says |
//! | a chunk of an inode table where none can be | the one that belongs there, if it is found; else the table ends before it |
//! | a damaged record of a journal | no change to be undone |
//! | what unmounting saved | nothing saved: the next mount scans |
//!
//! So a repair leaves no violation, but where there is no block for an entry. What cannot be kept is said in a line of its own. Not
//! repaired: two damaged superblocks.
//!
//! The image is not mounted: a mount needs every log. Entries are appended as a mount does, so a repair that is interrupted leaves
//! an image that can be repaired again.

use std::ops::RangeInclusive;
use std::sync::Arc;

use media::fault::Fault;
use media::nvmm::Region;
use media::nvmm::null::Null;
use sim::{Bytes, LINE_BYTES};
use vfs::{FileKind, NewInode, Owner};

use super::alloc::{Extent, Need};
use super::fsck::{Examined, examine};
use super::inode::{Loaded, replay};
use super::journal;
use super::layout::{
    BLOCK, CLEAN, COPY, Geometry, INODE_BYTES, NOTHING_SAVED, ROOT_INO, RawInode, WriteEntry, ino, kind,
    state, state_word,
};
use super::log::Reader;
use super::namei::Node;
use super::recovery::{chunks, damaged, store_clean};
use super::salvage::{Rest, mend_tables, store_sealed, with_kind};
use super::{Settings, Volume, superblock};
use base::error::{Error, Result};
use design::FsError;

/// What makes a violation right. Inodes by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    Superblocks,
    /// The state of an inode.
    State(u64, u32),
    /// The fixed part of an inode.
    Seal(u64, RawInode),
    /// The log ends with its readable rest.
    Log(u64, Rest),
    /// The root is a directory.
    Root,
    /// The log ends at this position.
    Tail(u64, u64),
    NoAttributes(u64),
    /// A page of a file.
    Hole(u64, u64),
    NoName {
        dir: u64,
        name: Vec<u8>,
    },
    /// `..` and the links of a directory.
    Directory {
        dir: u64,
        parent: u64,
        links: u32,
    },
    Links(u64, u32),
    Lost(u64),
    Saved,
}

/// Most passes: a repair can show the next fault, which what it hid had hidden.
const PASSES: usize = 40;

/// What a repair does.
#[derive(Default)]
struct Done {
    lines: Vec<String>,
    /// Those among them that may give up what can be read: nothing leads to it any more.
    losses: Vec<String>,
}

/// Repairs an image; says what was done. What may give up more than what cannot be read is tried on a copy in memory, and done only
/// `at_any_loss`.
pub(crate) fn repair(region: &Arc<Region>, at_any_loss: bool) -> Result<Vec<String>, FsError> {
    if !at_any_loss {
        let losses = carry_out(&copy_of(region)?)?.losses;
        if !losses.is_empty() {
            let what = format!(
                "a repair may lose names and contents that can be read, so nothing was changed ({}); copy what can be read first, \
                 then `weir fsck --repair --force-loss`",
                losses.join("; ")
            );
            return Err(FsError::WouldLose { what });
        }
    }
    Ok(carry_out(region)?.lines)
}

/// The bytes of an image that can be read, in memory of this process. What holds nothing takes none.
fn copy_of(region: &Region) -> Result<Arc<Region>, FsError> {
    let copy = Region::anonymous(Bytes(region.len()), Box::new(Null))?;
    let mut page = vec![0; BLOCK as usize];
    for at in (0..region.len()).step_by(BLOCK as usize) {
        let page = &mut page[..BLOCK.min(region.len() - at) as usize];
        // A line that cannot be read cannot be read there either.
        for (at, line) in (at..).step_by(LINE_BYTES).zip(page.chunks_mut(LINE_BYTES)) {
            if region.peek(at, line).is_err() {
                copy.inject(Fault::Poison { offset: at });
                line.fill(0);
            }
        }
        if page.iter().any(|byte| *byte != 0) {
            copy.store(at, page)?;
        }
    }
    Ok(Arc::new(copy))
}

fn carry_out(region: &Arc<Region>) -> Result<Done, FsError> {
    let (superblock, _) = superblock::load(region)?;
    let geometry = Geometry::of(&superblock);
    let mut done = Done::default();
    for shard in 0..geometry.shards {
        match journal::recover(region, &geometry, shard, None) {
            Ok(0) => {}
            Ok(_) => done.lines.push(format!("journal of shard {shard}: an unfinished change was undone")),
            Err(Error::Corrupt(what)) => {
                journal::give_up(region, &geometry, shard).map_err(damaged)?;
                done.lines.push(format!("{what}: the change is not undone"));
            }
            Err(error) => return Err(damaged(error)),
        }
    }
    let tables = mend_tables(region, &geometry).map_err(damaged)?;
    done.losses.extend(tables.iter().filter(|mended| mended.loses).map(|mended| mended.what.clone()));
    done.lines.extend(tables.into_iter().map(|mended| mended.what));
    if region.load_u64(CLEAN)? == 0 {
        store_clean(region, NOTHING_SAVED).map_err(damaged)?;
    }
    for _ in 0..PASSES {
        let examined = examine(region);
        if examined.fixes.is_empty() {
            break;
        }
        // What unmounting saved speaks of what is being changed.
        store_clean(region, NOTHING_SAVED).map_err(damaged)?;
        let repair = Repair::new(region, geometry, &examined).map_err(damaged)?;
        if !repair.apply(&examined.fixes, &mut done).map_err(damaged)? {
            break;
        }
    }
    Ok(done)
}

/// One pass.
struct Repair<'a> {
    region: &'a Region,
    geometry: Geometry,
    /// Not mounted: it has the blocks and numbers that are free, if all of them are known, and none otherwise.
    volume: Arc<Volume>,
}

impl<'a> Repair<'a> {
    fn new(region: &'a Arc<Region>, geometry: Geometry, examined: &Examined) -> Result<Self> {
        let volume = Volume::empty(region, geometry, Settings { cleaning: false, mutant: None })?;
        for (first, last) in examined.free_blocks.iter().cloned().map(RangeInclusive::into_inner) {
            volume.blocks.put(Extent { offset: first * BLOCK, blocks: last - first + 1 })?;
        }
        examined.free_inodes.iter().for_each(|number| volume.inodes.put(*number));
        Ok(Self { region, geometry, volume })
    }

    /// Applies fixes; whether any could be.
    fn apply(&self, fixes: &[Fix], done: &mut Done) -> Result<bool> {
        let before = done.lines.len();
        for fix in fixes {
            match self.apply_one(fix) {
                Ok(what) => {
                    if matches!(fix, Fix::Log(_, rest) if rest.passes_pages()) {
                        done.losses.push(what.clone());
                    }
                    done.lines.push(what);
                }
                // What needs an inode that cannot be read, or a block for its entry where none is free, stays as it is.
                Err(Error::NoSpace | Error::Corrupt(_) | Error::NoEntry) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done.lines.len() > before)
    }

    fn apply_one(&self, fix: &Fix) -> Result<String> {
        match fix {
            Fix::Superblocks => self.copy_superblock(),
            Fix::State(number, state) => self.set_state(*number, *state),
            Fix::Seal(number, raw) => {
                store_sealed(self.region, self.place_of(*number)?, raw)?;
                Ok(format!(
                    "inode {number}: has its number, a kind and a checksum: owner and mode may be others than before"
                ))
            }
            Fix::Log(number, rest) => self.store_rest(*number, rest),
            Fix::Root => self.make_root(),
            Fix::Tail(number, tail) => {
                self.store(*number, ino::TAIL, *tail)?;
                Ok(format!("inode {number}: its log ends at {tail}: what followed was torn"))
            }
            Fix::NoAttributes(number) => {
                self.store(*number, ino::XATTR, 0)?;
                Ok(format!("inode {number}: its extended attributes are gone"))
            }
            Fix::Hole(number, page) => {
                let (at, _, mut loaded) = self.inode(*number)?;
                let (size, time) = (loaded.facts.size, loaded.facts.mtime);
                let entry = WriteEntry {
                    kind: kind::WRITE,
                    first: *page,
                    pages: 1,
                    size,
                    time,
                    ..WriteEntry::default()
                };
                let mut append = self.volume.begin_append(&loaded.log, Need::Removal);
                self.volume.append(&mut append, &entry)?;
                self.volume.commit_append(at, &mut loaded.log, append)?;
                Ok(format!("inode {number}: page {page} is a hole: its block has another use"))
            }
            Fix::NoName { dir, name } => {
                self.append(*dir, (name, 0), None)?;
                let name = String::from_utf8_lossy(name);
                Ok(format!("directory {dir}: the name {name} is gone"))
            }
            Fix::Directory { dir, parent, links } => {
                self.append(*dir, (b"..", *parent), Some(*links))?;
                Ok(format!("directory {dir}: .. leads to {parent}, {links} links"))
            }
            Fix::Links(number, links) => {
                let (at, _, mut loaded) = self.inode(*number)?;
                let mut append = self.volume.begin_append(&loaded.log, Need::Removal);
                self.volume.write_links(&mut append, (*links, loaded.facts.ctime))?;
                self.volume.commit_append(at, &mut loaded.log, append)?;
                Ok(format!("inode {number}: has {links} links"))
            }
            Fix::Lost(number) => self.give_name(*number),
            Fix::Saved => Ok("what unmounting saved is forgotten: the next mount scans".to_owned()),
        }
    }

    fn copy_superblock(&self) -> Result<String> {
        let (superblock, from_copy) =
            superblock::load(self.region).map_err(|error| Error::Corrupt(error.to_string()))?;
        superblock::store(self.region, if from_copy { 0 } else { COPY }, &superblock)?;
        Ok("superblock: the other copy was made again".to_owned())
    }

    fn place_of(&self, number: u64) -> Result<u64> {
        place_of(self.region, &self.geometry, number)
    }

    /// An inode as it is now: where it lies, and what its log leads to.
    fn inode(&self, number: u64) -> Result<(u64, RawInode, Loaded)> {
        let at = self.place_of(number)?;
        let raw: RawInode = self.region.read(at)?;
        let loaded = replay(self.region, &self.geometry, number, &raw)?;
        Ok((at, raw, loaded))
    }

    /// Stores a word of an inode; durable on return.
    fn store(&self, number: u64, field: u64, value: u64) -> Result<()> {
        let at = self.place_of(number)? + field;
        self.region.store_u64(at, value)?;
        self.region.flush(at, 8);
        self.region.fence();
        Ok(())
    }

    fn set_state(&self, number: u64, new: u32) -> Result<String> {
        let raw: RawInode = self.region.read(self.place_of(number)?)?;
        self.store(number, ino::STATE, state_word(raw.generation(), new))?;
        Ok(format!("inode {number}: is {}", if new == state::LIVE { "live" } else { "free" }))
    }

    fn store_rest(&self, number: u64, rest: &Rest) -> Result<String> {
        rest.store(self.region, &self.geometry)?;
        let at = self.place_of(number)? + ino::HEAD;
        self.region.store_u64(at, rest.head)?;
        self.region.store_u64(at + 8, rest.tail)?;
        self.region.flush(at, 16);
        self.region.fence();
        Ok(match rest.head {
            0 => format!("inode {number}: nothing of its log can be read: what it held is lost"),
            _ => format!(
                "inode {number}: its log has what can be read of it, to {}: the rest is lost",
                rest.tail
            ),
        })
    }

    /// Makes the root a directory; the names to which its log leads are found next.
    fn make_root(&self) -> Result<String> {
        let at = self.place_of(ROOT_INO)?;
        let raw: RawInode = self.region.read(at)?;
        let perm = if raw.mode == 0 { 0o755 } else { raw.mode };
        store_sealed(
            self.region,
            at,
            &with_kind(ROOT_INO, &RawInode { mode: perm, ..raw }, FileKind::Directory),
        )?;
        self.store(ROOT_INO, ino::STATE, state_word(raw.generation(), state::LIVE))?;
        Ok("the root is a directory".to_owned())
    }

    /// Appends the entry of a name to a directory, which has `links` then, or as many as before.
    fn append(&self, dir: u64, name: (&[u8], u64), links: Option<u32>) -> Result<()> {
        let (at, _, mut loaded) = self.inode(dir)?;
        let mut append = self.volume.begin_append(&loaded.log, Need::Removal);
        let links = links.unwrap_or(loaded.facts.links);
        self.volume.write_name(&mut append, (links, loaded.facts.mtime), name)?;
        self.volume.commit_append(at, &mut loaded.log, append)
    }

    /// Gives an inode a name in `lost+found`, which is made when there is none. The next pass counts links. A name that is taken is
    /// not taken away.
    fn give_name(&self, number: u64) -> Result<String> {
        let mut tries = (0..).map(|number| if number == 0 { String::new() } else { format!("~{number}") });
        let (_, _, root) = self.inode(ROOT_INO)?;
        let (place, dir) = loop {
            let place = format!("lost+found{}", tries.next().unwrap_or_default());
            match root.names.find(self.region, place.as_bytes())? {
                Some((_, known)) => {
                    if self.inode(known.ino).is_ok_and(|(_, _, loaded)| loaded.facts.is_dir()) {
                        break (place, known.ino);
                    }
                }
                None => {
                    let new = NewInode { perm: 0o700, owner: Owner { uid: 0, gid: 0 } };
                    let node = Node { kind: FileKind::Directory, rdev: 0, new: &new, target: &[] };
                    let made = self.volume.make(ROOT_INO, place.as_bytes(), node)?.ino.0;
                    break (place, made);
                }
            }
        };
        let (_, _, lost) = self.inode(dir)?;
        let mut name = format!("#{number}");
        while lost.names.find(self.region, name.as_bytes())?.is_some() {
            name.push('~');
        }
        self.append(dir, (name.as_bytes(), number), None)?;
        Ok(format!("inode {number}: is {place}/{name} now"))
    }
}

/// Where an inode lies.
pub(crate) fn place_of(region: &Region, geometry: &Geometry, number: u64) -> Result<u64> {
    let (shard, slot) = (number % geometry.shards, number / geometry.shards);
    let chunks = chunks(region, geometry, shard)?;
    let per_chunk = geometry.slots_per_chunk();
    let chunk = chunks.get((slot / per_chunk) as usize);
    let chunk = chunk.ok_or_else(|| Error::Corrupt(format!("no inode {number}")))?;
    Ok(chunk + slot % per_chunk * INODE_BYTES)
}

/// The position of a torn last entry of a log.
pub(crate) fn torn_tail(region: &Region, geometry: &Geometry, number: u64, raw: &RawInode) -> Option<u64> {
    let mut reader = Reader::new(region, geometry, number, (raw.head, raw.tail)).ok()?;
    loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Err(Error::Corrupt(_)) => return reader.torn_at(),
            Ok(None) | Err(_) => return None,
        }
    }
}
