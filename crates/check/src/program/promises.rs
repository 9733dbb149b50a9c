//! Promises that need no checker, on trees in memory. They are stricter than many programs need: a log whose torn end its reader
//! cuts off breaks `atomic`, and a program that repairs itself breaks `prefix`.
//!
//! | promise | a recovered tree keeps it if |
//! |---|---|
//! | durable | each file that was changed before an acknowledgement is as it was then, or as it was later |
//! | atomic | each file is as some call has left it under this name |
//! | prefix | the tree is the one that some call has left |
//! | no-garbage | no block is zeros, or old bytes of the disk, where no call has left it so |

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use trace::record::Kind;

use super::Bits;
use super::checker::Verdict;
use super::folder::FolderError;
use super::judge::{Asked, Oracle};
use super::operations::{BLOCK, Operations};
use super::states::State;
use super::story::{Inode, Story};
use super::tree::{Names, Trees};
use crate::tree::Tree;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promised {
    /// What was told is there.
    Durable,
    /// Each file is one of its versions.
    Atomic,
    /// The tree is one of its versions.
    Prefix,
    /// No bytes that were never written.
    NoGarbage,
}

impl Promised {
    /// All of them, by their words.
    pub const NAMED: [(&str, Self); 4] = [
        ("durable", Self::Durable),
        ("atomic", Self::Atomic),
        ("prefix", Self::Prefix),
        ("no-garbage", Self::NoGarbage),
    ];
}

/// A path, as numbers of names.
type Path = Vec<u32>;

/// What a file is: a hash of all of it, and of each block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    whole: u64,
    blocks: Vec<u64>,
}

/// The tree after a call: each path's version. Directories have one without blocks.
type Versions = BTreeMap<Path, Version>;

/// Judges by promises.
pub struct ByPromises<'a> {
    story: &'a Story,
    promised: Vec<Promised>,
    /// Before the first call, and after each.
    versions: Vec<Versions>,
    /// By acknowledgement: how many calls had ended when it began.
    told_after: Vec<usize>,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn version(trees: &Trees<'_>, inode: Inode, state: &State) -> Result<Version, FolderError> {
    let found = trees.found(inode, state);
    let about = hash(&found.about);
    if found.about.kind != Kind::File {
        return Ok(Version { whole: about, blocks: Vec::new() });
    }
    let mut bytes = vec![0; found.size() as usize];
    found.contents(&mut |at, part| {
        bytes[at as usize..at as usize + part.len()].copy_from_slice(part);
        Ok::<(), FolderError>(())
    })?;
    let blocks = bytes.chunks(BLOCK as usize).map(hash).collect();
    Ok(Version { whole: hash((about, &bytes)), blocks })
}

fn versions(trees: &Trees<'_>, names: &Names, state: &State) -> Result<Versions, FolderError> {
    names.paths.iter().map(|(path, inode)| Ok((path.clone(), version(trees, *inode, state)?))).collect()
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
        let names = trees.names(&state.set);
        let mut all = vec![versions(&trees, &names, &state)?];
        let mut ends = Vec::new();
        for (number, micro) in operations.all.iter().enumerate() {
            state.set.add(number as u32);
            if operations.all.get(number + 1).is_none_or(|next| next.call != micro.call) {
                let names = trees.names(&state.set);
                all.push(versions(&trees, &names, &state)?);
                ends.push(micro.end_ns);
            }
        }
        let told_after =
            operations.acks.iter().map(|ack| ends.iter().filter(|end| **end < ack.at_ns).count()).collect();
        Ok(Self { story, promised: promised.to_vec(), versions: all, told_after })
    }

    fn shown(&self, path: &Path) -> String {
        let parts = path.iter().map(|name| String::from_utf8_lossy(&self.story.names[*name as usize]));
        parts.collect::<Vec<_>>().join("/")
    }

    fn wrong(&self, promise: Promised, seen: &Versions, acks: usize) -> Option<String> {
        match promise {
            Promised::Prefix => {
                let is_one = self.versions.iter().any(|versions| versions == seen);
                (!is_one).then(|| "the tree is none that a call has left".to_owned())
            }
            Promised::Atomic => {
                let odd = seen.iter().find(|(path, version)| {
                    !self
                        .versions
                        .iter()
                        .any(|versions| versions.get(*path).is_some_and(|known| known == *version))
                });
                odd.map(|(path, _)| format!("{} is as no call has left it", self.shown(path)))
            }
            Promised::NoGarbage => self.garbage(seen),
            Promised::Durable => self.gone(seen, acks),
        }
    }

    fn garbage(&self, seen: &Versions) -> Option<String> {
        let (zeros, stale) =
            (hash(&[0_u8; BLOCK as usize][..]), hash(&[super::tree::STALE; BLOCK as usize][..]));
        for (path, version) in seen {
            for (at, block) in
                version.blocks.iter().enumerate().filter(|(_, block)| **block == zeros || **block == stale)
            {
                let known = |versions: &Versions| {
                    versions.get(path).is_some_and(|known| known.blocks.get(at) == Some(block))
                };
                if !self.versions.iter().any(known) {
                    let what = if *block == zeros { "zeros" } else { "old bytes of the disk" };
                    return Some(format!("{} has {what} that were never written", self.shown(path)));
                }
            }
        }
        None
    }

    fn gone(&self, seen: &Versions, acks: usize) -> Option<String> {
        let last = self.told_after.get(..acks)?.last().copied()?;
        let paths: BTreeSet<&Path> = self.versions[..=last].iter().flat_map(BTreeMap::keys).collect();
        for path in paths {
            let changed =
                (1..=last).rev().find(|at| self.versions[*at].get(path) != self.versions[at - 1].get(path));
            if changed.is_some()
                && !self.versions[last..].iter().any(|versions| versions.get(path) == seen.get(path))
            {
                return Some(format!("{} is older than what was told", self.shown(path)));
            }
        }
        None
    }
}

impl Oracle for ByPromises<'_> {
    fn judge(&self, of: &Asked<'_>) -> Result<Verdict, FolderError> {
        let seen = versions(of.trees, of.names, of.state)?;
        let wrong = self.promised.iter().find_map(|promise| self.wrong(*promise, &seen, of.acks));
        Ok(wrong.map_or(Verdict::Sound, Verdict::Broken))
    }

    fn judge_seen(&self, _: &Tree, _: usize, _: usize) -> Result<Verdict, FolderError> {
        Ok(Verdict::Nothing)
    }
}
