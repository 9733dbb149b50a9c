//! What a saved index has of each inode (`format/saved.rs`), and the inode in DRAM.

use std::ops::Range;

use vfs::FileKind;

use super::inode::{Attribute, Body, State};
use super::lines::{inode_lines, name_lines};
use super::map::{Place, Run};
use crate::format::inline::Patches;
use crate::format::layout::{BITS_48, BLOCK};
use crate::format::record::{AddId, Id};
use crate::format::tree::Stamped;

/// A name in a directory: what it leads to, and its add.
pub(crate) type Named = (Vec<u8>, u64, AddId);

/// What an inode has besides attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Blocks, and bytes of these that lie in records.
    File(Vec<Run>, Vec<(u64, Patches)>),
    /// Names.
    Dir(Vec<Named>),
    /// A target.
    Symlink(Vec<u8>),
    /// Nothing.
    Node,
}

/// All that is kept of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ino: u64,
    /// Mode, user, group, device number, links.
    words: [u32; 5],
    size: u64,
    birth: u64,
    /// Access, modification, change.
    times: [Stamped; 3],
    /// Of a directory: the one above it.
    pub(crate) parent: u64,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    kept: Kept,
}

/// Bytes that are read one after the other.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    fn half(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Bytes after their number.
    fn counted(&mut self) -> Option<Vec<u8>> {
        let len = self.half()? as usize;
        self.bytes(len).map(<[u8]>::to_vec)
    }
}

fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// All blocks of the largest file.
const ALL: Range<u64> = 0..(BITS_48 + 1) / BLOCK;

impl Entry {
    /// What is kept of an inode, `parent` of a directory.
    pub(crate) fn of(state: &State, parent: u64) -> Self {
        let kept = match &state.body {
            Body::File(blocks) => {
                let runs = blocks.runs(ALL).filter(|run| run.place.is_some()).collect();
                Kept::File(runs, blocks.all_patches())
            }
            Body::Dir(dir) => {
                let mut names = Vec::with_capacity(dir.len());
                dir.each(|name, known| names.push((name.to_vec(), known.ino, known.add)));
                Kept::Dir(names)
            }
            Body::Symlink(target) => Kept::Symlink(target.to_vec()),
            Body::Node => Kept::Node,
        };
        Self {
            ino: state.ino,
            words: [state.mode, state.uid, state.gid, state.rdev, state.links],
            size: state.size,
            birth: state.birth,
            times: [state.atime, state.mtime, state.ctime],
            parent: if state.is_dir() { parent } else { 0 },
            xattrs: state.xattrs.iter().map(|(name, it)| (name.clone(), it.value.clone())).collect(),
            kept,
        }
    }

    /// The inode in DRAM.
    pub(crate) fn state(&self) -> State {
        let body = match &self.kept {
            Kept::File(runs, patches) => {
                let mut map = super::map::BlockMap::default();
                for run in runs {
                    let Some(Place { block, unwritten }) = run.place else { continue };
                    for at in 0..run.count {
                        map.set(run.file + at, Some(Place { block: block + at, unwritten }));
                    }
                }
                for (block, patches) in patches {
                    map.set_patches(*block, patches.clone());
                }
                // The pool has counted the lines of all its records at once.
                map.take_change();
                Body::File(map)
            }
            Kept::Dir(names) => {
                let dir = super::dir::Dir::default();
                for (name, ino, add) in names {
                    dir.insert(name, *ino, *add);
                }
                Body::Dir(std::sync::Arc::new(dir))
            }
            Kept::Symlink(target) => Body::Symlink(target.as_slice().into()),
            Kept::Node => Body::Node,
        };
        let [mode, uid, gid, rdev, links] = self.words;
        let [atime, mtime, ctime] = self.times;
        let attribute = |value: &Vec<u8>| Attribute { value: value.clone(), since: 0 };
        State {
            mode,
            uid,
            gid,
            rdev,
            links,
            size: self.size,
            birth: self.birth,
            atime,
            mtime,
            ctime,
            xattrs: self.xattrs.iter().map(|(name, value)| (name.clone(), attribute(value))).collect(),
            ..State::new(self.ino, body)
        }
    }

    /// The blocks of the file.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Place> {
        let runs = if let Kept::File(runs, _) = &self.kept { &**runs } else { &[] };
        runs.iter().flat_map(|run| {
            let places =
                |first: Place| (0..run.count).map(move |at| Place { block: first.block + at, ..first });
            run.place.into_iter().flat_map(places)
        })
    }

    /// Whether a name leads to it.
    pub(crate) fn is_named(&self) -> bool {
        self.words[4] > 0
    }

    /// Lines that its metadata and the names in it may take.
    pub(crate) fn lines(&self) -> u64 {
        let (target, names) = match &self.kept {
            Kept::Symlink(target) => (target.len(), &[][..]),
            Kept::Dir(names) => (0, &**names),
            _ => (0, &[][..]),
        };
        let xattrs = self.xattrs.iter().map(|(name, value)| (&**name, &**value));
        inode_lines(target, xattrs) + names.iter().map(|(name, ..)| name_lines(name)).sum::<u64>()
    }

    /// Lines of records with bytes of its blocks.
    pub(crate) fn inlines(&self) -> u64 {
        let patches = if let Kept::File(_, patches) = &self.kept { &**patches } else { &[] };
        patches.iter().map(|(_, patches)| patches.lines()).sum()
    }

    /// The same with names in an order of their own: a directory in DRAM has them in any.
    #[must_use]
    pub(crate) fn sorted(mut self) -> Self {
        if let Kept::Dir(names) = &mut self.kept {
            names.sort_unstable();
        }
        self
    }

    /// Its bytes: their number, then they.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        let word = |out: &mut Vec<u8>, word: u64| out.extend_from_slice(&word.to_le_bytes());
        let half = |out: &mut Vec<u8>, half: u32| out.extend_from_slice(&half.to_le_bytes());
        word(&mut out, self.ino);
        for value in self.words {
            half(&mut out, value);
        }
        for value in [self.size, self.birth, self.parent] {
            word(&mut out, value);
        }
        for Stamped { stamp, explicit, value } in self.times {
            word(&mut out, stamp);
            word(&mut out, value);
            out.push(u8::from(explicit));
        }
        half(&mut out, self.xattrs.len() as u32);
        for (name, value) in &self.xattrs {
            put_counted(&mut out, name);
            put_counted(&mut out, value);
        }
        match &self.kept {
            Kept::File(runs, patches) => {
                half(&mut out, runs.len() as u32);
                for run in runs {
                    let (block, unwritten) =
                        run.place.map_or((0, false), |place| (place.block, place.unwritten));
                    word(&mut out, run.file);
                    word(&mut out, run.count << 1 | u64::from(unwritten));
                    word(&mut out, block);
                }
                half(&mut out, patches.len() as u32);
                for (block, patches) in patches {
                    word(&mut out, *block);
                    patches.encode(&mut out);
                }
            }
            Kept::Dir(names) => {
                half(&mut out, names.len() as u32);
                for (name, ino, (id, index)) in names {
                    word(&mut out, *ino);
                    word(&mut out, id.0);
                    out.push(*index);
                    out.push(name.len() as u8);
                    out.extend_from_slice(name);
                }
            }
            Kept::Symlink(target) => put_counted(&mut out, target),
            Kept::Node => {}
        }
        let len = out.len() as u32 - 4;
        out[..4].copy_from_slice(&len.to_le_bytes());
        out
    }

    /// The entry of these bytes, without their number; none if they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = Input(bytes);
        let ino = input.word()?;
        let mut words = [0; 5];
        for word in &mut words {
            *word = input.half()?;
        }
        let (size, birth, parent) = (input.word()?, input.word()?, input.word()?);
        let mut times = [Stamped::default(); 3];
        for time in &mut times {
            let (stamp, value) = (input.word()?, input.word()?);
            *time = Stamped { stamp, value, explicit: input.byte()? != 0 };
        }
        let xattrs =
            (0..input.half()?).map(|_| Some((input.counted()?, input.counted()?))).collect::<Option<_>>()?;
        let kept = match FileKind::from_mode(words[0]) {
            Some(FileKind::Regular) => {
                let runs = (0..input.half()?).map(|_| run(&mut input)).collect::<Option<_>>()?;
                Kept::File(runs, (0..input.half()?).map(|_| patches(&mut input)).collect::<Option<_>>()?)
            }
            Some(FileKind::Directory) => {
                Kept::Dir((0..input.half()?).map(|_| name(&mut input)).collect::<Option<_>>()?)
            }
            Some(FileKind::Symlink) => Kept::Symlink(input.counted()?),
            _ => Kept::Node,
        };
        Some(Self { ino, words, size, birth, times, parent, xattrs, kept })
    }
}

/// A block, and its bytes that lie in records.
fn patches(input: &mut Input<'_>) -> Option<(u64, Patches)> {
    let block = input.word()?;
    let records = (0..input.half()?).map(|_| Some(input.half()? as usize..input.half()? as usize));
    let records = records.collect::<Option<_>>()?;
    let runs = (0..input.half()?).map(|_| Some((input.half()? as usize, input.counted()?)));
    Some((block, Patches::of(records, runs.collect::<Option<_>>()?)?))
}

fn run(input: &mut Input<'_>) -> Option<Run> {
    let (file, count, block) = (input.word()?, input.word()?, input.word()?);
    Some(Run { file, count: count >> 1, place: Some(Place { block, unwritten: count & 1 != 0 }) })
}

fn name(input: &mut Input<'_>) -> Option<Named> {
    let (ino, id, index, len) = (input.word()?, input.word()?, input.byte()?, input.byte()?);
    Some((input.bytes(usize::from(len))?.to_vec(), ino, (Id(id), index)))
}
