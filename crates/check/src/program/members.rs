//! Whether a tree that was seen is one that a model allows: the test that a model is not stronger than a file system.
//!
//! All legal sets of the point are gone through, of programs that have few. A tree is that of a set if the names, kinds and targets
//! are, and each unit of each file is as the set has it, or as the piece of data that would persist next in its page leaves it: any
//! units of that may have persisted.

use std::collections::BTreeMap;

use trace::contents::ContentsError;
use trace::record::Kind;
use vfs::FileKind;

use super::Bits;
use super::closure::{Closure, spread};
use super::model::Model;
use super::operations::{BLOCK, Change, Operations};
use super::points::{Point, point_at, some};
use super::states::State;
use super::story::Story;
use super::tree::Trees;
use crate::names;
use crate::tree::Tree;

/// More legal sets than so many are not gone through.
pub(super) const SETS: usize = 1 << 15;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Membership<'a> {
    /// The program.
    pub story: &'a Story,
    /// Its operations.
    pub operations: &'a Operations,
    /// The model.
    pub model: &'a Model,
}

impl Membership<'_> {
    /// Whether the model allows a tree just before a moment; none: there are too many sets.
    pub fn has(&self, at_ns: u64, tree: &Tree) -> Result<Option<bool>, ContentsError> {
        let point = point_at(self.operations, self.model, at_ns);
        let mut closure = Closure::new(self.operations, self.model, &point.loose, &point.free);
        let Some(sets) = closure.all(&point.covered, SETS) else { return Ok(None) };
        let mut trees = Trees::new(self.story, self.operations, self.model.stale, self.model.tear);
        for places in sets {
            let set = spread(&point.covered, &point.free, &places);
            if self.is_of(&point, &set, &mut trees, tree)? {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    fn is_of(
        &self,
        point: &Point,
        set: &Bits,
        trees: &mut Trees<'_>,
        tree: &Tree,
    ) -> Result<bool, ContentsError> {
        let found = trees.names(set);
        let shown = |path: &[u32]| {
            let parts = path.iter().map(|name| names::shown(&self.story.names[*name as usize]));
            parts.collect::<Vec<_>>().join("/")
        };
        let expected: BTreeMap<String, u32> =
            found.paths.iter().map(|(path, inode)| (shown(path), *inode)).collect();
        if expected.len() != tree.len() || !expected.keys().eq(tree.keys()) {
            return Ok(false);
        }
        let state = State { set: set.clone(), torn: None };
        let next = State { set: self.with_next(point, set), torn: None };
        for (path, inode) in &expected {
            let (seen, own) = (&tree[path], trees.found(*inode, &state));
            let is_file = own.about.kind == Kind::File;
            let is_link = own.about.kind == Kind::Symlink;
            let alike = match seen.kind {
                FileKind::Regular => is_file && own.size() == seen.content.len() as u64,
                FileKind::Directory => own.about.kind == Kind::Directory,
                FileKind::Symlink => is_link && own.about.target.as_deref() == Some(&seen.content[..]),
                _ => !is_file && !is_link,
            };
            if !alike {
                return Ok(false);
            }
            if is_file {
                let torn = trees.found(*inode, &next);
                let (old, new) = (whole(&own)?, whole(&torn)?);
                let unit = if self.model.tear == 0 { BLOCK as usize } else { self.model.tear as usize };
                let as_one_is = |at: usize| {
                    let part =
                        |bytes: &[u8]| bytes.get(at..(at + unit).min(seen.content.len())).map(<[u8]>::to_vec);
                    let seen = part(&seen.content);
                    seen == part(&old) || seen == part(&new)
                };
                if !(0..seen.content.len()).step_by(unit).all(as_one_is) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The set with the piece of each page that would persist next.
    fn with_next(&self, point: &Point, set: &Bits) -> Bits {
        let mut next = set.clone();
        for number in &point.free {
            let micro = &self.operations.all[*number as usize];
            let lacks = |needed: &u32| some(*needed).is_some_and(|needed| !set.has(needed));
            let is_data = matches!(micro.change, Change::Data { .. });
            let is_shared = self.model.shares && micro.shared.is_some();
            if is_data
                && !is_shared
                && !set.has(*number)
                && !micro.needs.iter().any(lacks)
                && !lacks(&micro.page)
            {
                next.add(*number);
            }
        }
        next
    }
}

fn whole(found: &super::tree::Found<'_>) -> Result<Vec<u8>, ContentsError> {
    let mut bytes = vec![0; found.size() as usize];
    found.contents(&mut |at, part| {
        bytes[at as usize..at as usize + part.len()].copy_from_slice(part);
        Ok::<(), ContentsError>(())
    })?;
    Ok(bytes)
}
