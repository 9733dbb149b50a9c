//! Promises that need no checker, on trees in memory. They are stricter than many programs need: a log whose torn end its reader
//! cuts off breaks `atomic`, and a program that repairs itself breaks `prefix`.
//!
//! | promise | a recovered tree keeps it if |
//! |---|---|
//! | durable | each file that was changed before an acknowledgement is as it was then, or as it was later |
//! | durable-prefix | the same, or it begins with what it was then: a log whose torn end its reader cuts off |
//! | atomic | each file is as some call has left it under this name |
//! | prefix | the tree is the one that some call has left |
//! | no-garbage | no block is zeros, or old bytes of the disk, where no call has left it so |

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use trace::record::Kind;
use vfs::FileKind;

use super::Bits;
use super::checker::Verdict;
use super::folder::FolderError;
use super::judge::{Asked, Oracle};
use super::operations::{BLOCK, Change, Operations};
use super::states::State;
use super::story::{Inode, Story};
use super::tree::{Names, Trees};
use crate::names;
use crate::tree::Tree;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promised {
    /// What was told is there.
    Durable,
    /// As durable, but a file may have more behind what was told.
    DurablePrefix,
    /// Each file is one of its versions.
    Atomic,
    /// The tree is one of its versions.
    Prefix,
    /// No bytes that were never written.
    NoGarbage,
}

impl Promised {
    /// Those that are judged where none is named.
    pub const USUAL: [Self; 4] = [Self::Durable, Self::Atomic, Self::Prefix, Self::NoGarbage];

    /// All of them, by their words.
    pub const NAMED: [(&str, Self); 5] = [
        ("durable", Self::Durable),
        ("durable-prefix", Self::DurablePrefix),
        ("atomic", Self::Atomic),
        ("prefix", Self::Prefix),
        ("no-garbage", Self::NoGarbage),
    ];
}

/// What a file is: a hash of all of it, and of each block. Directories have no blocks.
#[derive(Clone, Debug)]
struct Version {
    whole: u64,
    blocks: Vec<u64>,
    /// Of a file the bytes behind the last whole block.
    tail: Option<Vec<u8>>,
    /// All bytes, of a recovered file that may be asked what it begins with.
    content: Vec<u8>,
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole
    }
}

impl Eq for Version {}

impl Version {
    /// `kind` is 0 of a file, 1 of a directory, 2 of a symbolic link, 3 of anything else.
    fn new((kind, mode): (u8, u32), content: &[u8], attributes: &[(String, Vec<u8>)]) -> Self {
        let whole = hash((kind, mode & 0o7777, content, attributes));
        let blocks = if kind == 0 { content.chunks(BLOCK as usize).map(hash).collect() } else { Vec::new() };
        let tail = (kind == 0).then(|| content[content.len() - content.len() % BLOCK as usize..].to_vec());
        Self { whole, blocks, tail, content: Vec::new() }
    }

    /// Whether this file, whose bytes are known, begins with what another one was.
    fn begins_with(&self, known: &Self) -> bool {
        let (Some(_), Some(tail)) = (&self.tail, &known.tail) else { return false };
        let whole = known.blocks.len() - usize::from(!tail.is_empty());
        let has = self.blocks.get(..whole).is_some_and(|blocks| blocks == &known.blocks[..whole]);
        has && self.content.get(whole * BLOCK as usize..).is_some_and(|rest| rest.starts_with(tail))
    }
}

/// The version of each path, without the root.
type Versions = BTreeMap<String, Arc<Version>>;

/// The versions of a path, each from a call on; none where it is not there.
type History = Vec<(usize, Option<Arc<Version>>)>;

/// Judges by promises.
pub struct ByPromises<'a> {
    story: &'a Story,
    promised: Vec<Promised>,
    /// By path: what it was from which call on; call 0 is the beginning, and a path that is not there has none.
    history: BTreeMap<String, History>,
    /// The trees that calls have left.
    trees: FxHashSet<u64>,
    /// Inodes that no operation changes.
    fixed: FxHashMap<Inode, Arc<Version>>,
    /// By acknowledgement: how many calls had ended when it began.
    told_after: Vec<usize>,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn hash_of(versions: &Versions) -> u64 {
    versions.iter().map(|(path, version)| hash((path, version.whole))).fold(0, u64::wrapping_add)
}

/// `keeps`: with all bytes.
fn version(trees: &Trees<'_>, inode: Inode, state: &State, keeps: bool) -> Result<Arc<Version>, FolderError> {
    let found = trees.found(inode, state);
    let mut attributes = Vec::new();
    for (name, value) in &found.about.attributes {
        let mut bytes = vec![0; value.len as usize];
        trees.story().blobs.copy(*value, &mut bytes)?;
        attributes.push((names::shown(name), bytes));
    }
    let mut content = found.about.target.clone().map(Vec::from).unwrap_or_default();
    let kind = match found.about.kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Symlink => 2,
        _ => 3,
    };
    if kind == 0 {
        content = vec![0; found.size() as usize];
        found.contents(&mut |at, part| {
            content[at as usize..at as usize + part.len()].copy_from_slice(part);
            Ok::<(), FolderError>(())
        })?;
    }
    let mut version = Version::new((kind, found.about.mode), &content, &attributes);
    if keeps {
        version.content = content;
    }
    Ok(Arc::new(version))
}

fn path_of(story: &Story, components: &[u32]) -> String {
    let parts = components.iter().map(|name| names::shown(&story.names[*name as usize]));
    parts.collect::<Vec<_>>().join("/")
}

/// The versions of a state; those of inodes in `known` are taken from there.
fn versions(
    trees: &Trees<'_>,
    names: &Names,
    state: &State,
    (known, keeps): (&FxHashMap<Inode, Arc<Version>>, bool),
) -> Result<Versions, FolderError> {
    let mut all = Versions::new();
    for (path, inode) in names.paths.iter().filter(|(path, _)| !path.is_empty()) {
        let version =
            known.get(inode).map_or_else(|| version(trees, *inode, state, keeps), |own| Ok(Arc::clone(own)));
        all.insert(path_of(trees.story(), path), version?);
    }
    Ok(all)
}

impl<'a> ByPromises<'a> {
    /// Runs through a program without a crash.
    pub fn new(
        story: &'a Story,
        operations: &'a Operations,
        promised: &[Promised],
    ) -> Result<Self, FolderError> {
        let mut trees = Trees::new(story, operations, false, 0);
        let mut state = State { set: Bits::new(operations.all.len()), torn: None };
        let mut known = FxHashMap::default();
        for inode in 0..story.inodes.len() as Inode {
            known.insert(inode, version(&trees, inode, &state, false)?);
        }
        let fixed = known.iter().filter(|(inode, _)| !operations.of_inode.contains_key(*inode));
        let fixed = fixed.map(|(inode, version)| (*inode, Arc::clone(version))).collect();
        let promised = promised.to_vec();
        let (history, told_after) = (BTreeMap::new(), Vec::new());
        let mut all = Self { story, promised, history, trees: FxHashSet::default(), fixed, told_after };
        let mut now = Versions::new();
        let new = versions(&trees, &trees.names_of(&state.set), &state, (&known, false))?;
        all.left(0, &mut now, new);
        let (mut ends, mut is_named, mut touched) = (Vec::new(), false, Vec::new());
        for (number, micro) in operations.all.iter().enumerate() {
            state.set.add(number as u32);
            touched.push(micro.inode);
            is_named |= matches!(micro.change, Change::Names { .. });
            if operations.all.get(number + 1).is_some_and(|next| next.call == micro.call) {
                continue;
            }
            ends.push(micro.end_ns);
            touched.dedup();
            for inode in touched.drain(..) {
                known.insert(inode, version(&trees, inode, &state, false)?);
            }
            let names = trees.names(&state.set);
            let mut new = now.clone();
            if std::mem::take(&mut is_named) {
                new = versions(&trees, &names, &state, (&known, false))?;
            } else {
                for (path, inode) in names.paths.iter().filter(|(_, inode)| *inode == micro.inode) {
                    new.insert(path_of(story, path), Arc::clone(&known[inode]));
                }
            }
            all.left(ends.len(), &mut now, new);
        }
        let before = |at_ns: u64| ends.iter().filter(|end| **end < at_ns).count();
        all.told_after = operations.acks.iter().map(|ack| before(ack.at_ns)).collect();
        Ok(all)
    }

    /// A call has left a tree.
    fn left(&mut self, call: usize, now: &mut Versions, new: Versions) {
        self.trees.insert(hash_of(&new));
        for (path, version) in &new {
            if now.get(path) != Some(version) {
                self.history.entry(path.clone()).or_default().push((call, Some(Arc::clone(version))));
            }
        }
        for path in now.keys().filter(|path| !new.contains_key(*path)) {
            self.history.entry(path.clone()).or_default().push((call, None));
        }
        *now = new;
    }

    fn wrong(&self, promise: Promised, seen: &Versions, acks: usize) -> Option<String> {
        match promise {
            Promised::Prefix => {
                let is_one = self.trees.contains(&hash_of(seen));
                (!is_one).then(|| "the tree is none that a call has left".to_owned())
            }
            Promised::Atomic => {
                let odd = seen.iter().find(|(path, version)| {
                    !self.versions_of(path).any(|(_, known)| known.as_ref() == Some(*version))
                });
                odd.map(|(path, _)| format!("{path} is as no call has left it"))
            }
            Promised::NoGarbage => self.garbage(seen),
            Promised::Durable => self.gone(seen, acks, false),
            Promised::DurablePrefix => self.gone(seen, acks, true),
        }
    }

    fn versions_of(&self, path: &str) -> impl Iterator<Item = &(usize, Option<Arc<Version>>)> {
        self.history.get(path).into_iter().flatten()
    }

    fn garbage(&self, seen: &Versions) -> Option<String> {
        let (zeros, stale) =
            (hash(&[0_u8; BLOCK as usize][..]), hash(&[super::tree::STALE; BLOCK as usize][..]));
        for (path, version) in seen {
            for (at, block) in
                version.blocks.iter().enumerate().filter(|(_, block)| **block == zeros || **block == stale)
            {
                let has = |known: &Version| known.blocks.get(at) == Some(block);
                if !self.versions_of(path).any(|(_, known)| known.as_deref().is_some_and(has)) {
                    let what = if *block == zeros { "zeros" } else { "old bytes of the disk" };
                    return Some(format!("{path} has {what} that were never written"));
                }
            }
        }
        None
    }

    /// A path that had changed before the last acknowledgement, and is older than then.
    /// `prefix`: a file that begins with what it was then is not.
    fn gone(&self, seen: &Versions, acks: usize, prefix: bool) -> Option<String> {
        let last = self.told_after.get(..acks)?.last().copied()?;
        let mut of_files = self.history.iter().filter(|(path, _)| self.story.told_in.as_ref() != Some(*path));
        let older = of_files.find(|(path, history)| {
            let Some(then) = history.iter().rposition(|(call, _)| *call <= last) else { return false };
            // What was there from the beginning need not be as it was told: nothing was done to it.
            let is_changed = history[then].0 > 0;
            let begins = |known: &Arc<Version>| seen.get(*path).is_some_and(|seen| seen.begins_with(known));
            is_changed
                && !history[then..].iter().any(|(_, known)| known.as_ref() == seen.get(*path))
                && !(prefix && history[then].1.as_ref().is_some_and(begins))
        });
        older.map(|(path, _)| format!("{path} is older than what was told"))
    }

    /// Whether a promise needs the bytes of recovered files.
    fn keeps(&self) -> bool {
        self.promised.contains(&Promised::DurablePrefix)
    }

    fn judged(&self, seen: &Versions, acks: usize) -> Verdict {
        let wrong = self.promised.iter().find_map(|promise| self.wrong(*promise, seen, acks));
        wrong.map_or(Verdict::Sound, Verdict::Broken)
    }
}

impl Oracle for ByPromises<'_> {
    fn judge(&self, of: &Asked<'_>) -> Result<Verdict, FolderError> {
        // Canaries are other programs with inodes of the same numbers.
        let none = FxHashMap::default();
        let known = if std::ptr::eq(of.trees.story(), self.story) { &self.fixed } else { &none };
        Ok(self.judged(&versions(of.trees, of.names, of.state, (known, self.keeps()))?, of.acks))
    }

    fn judge_seen(&self, tree: &Tree, acks: usize, _: usize) -> Result<Verdict, FolderError> {
        let seen = tree.iter().filter(|(path, _)| !path.is_empty()).map(|(path, entry)| {
            let kind = match entry.kind {
                FileKind::Regular => 0,
                FileKind::Directory => 1,
                FileKind::Symlink => 2,
                _ => 3,
            };
            let content = if kind == 0 || kind == 2 { &entry.content[..] } else { &[] };
            let attributes: Vec<(String, Vec<u8>)> =
                entry.xattrs.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            let mut version = Version::new((kind, entry.perm), content, &attributes);
            if self.keeps() {
                version.content = content.to_vec();
            }
            (path.clone(), Arc::new(version))
        });
        Ok(self.judged(&seen.collect(), acks))
    }
}
