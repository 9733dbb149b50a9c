//! Earlier contents of files, for designs that buffer data: to which versions a crash may go back.

use std::collections::BTreeMap;
use std::sync::Arc;

use vfs::{Atomicity, Durability, Promises, SyncScope};

use crate::model::{Id, Model};
use crate::op::Op;
use crate::tree::Tree;

/// The oldest versions to which a crash may go back.
#[derive(Clone, Copy, Debug)]
struct Floor {
    /// The first version whose size may be seen.
    size: usize,
    /// The first version whose bytes may be seen.
    bytes: usize,
}

/// The files of a program, by the model's inode numbers, under a design's clauses. Version 0 is the state before the first
/// operation, version `n` the state after operation `n`.
#[derive(Debug)]
pub(crate) struct History {
    promises: Promises,
    /// Bytes that a crash does not part: each aligned unit is as it was in one version.
    unit: usize,
    /// For each version: contents, also of files without a name; the file that each path leads to; floors once the operation has
    /// returned.
    contents: Vec<BTreeMap<Id, Arc<Vec<u8>>>>,
    paths: Vec<BTreeMap<String, Id>>,
    floors: Vec<BTreeMap<Id, Floor>>,
    /// For each version: the first one whose names and attributes a crash may show.
    metadata_floors: Vec<usize>,
    synced: Option<Synced>,
}

/// What is durable of each version, where stores of mappings are so after a sync only.
#[derive(Debug)]
struct Synced {
    model: Model,
    contents: Vec<BTreeMap<Id, Arc<Vec<u8>>>>,
    /// Whether the operation before a version may leave a mix of old and new when it is interrupted.
    tears: Vec<bool>,
}

impl History {
    /// Of a design with these promises; no version yet.
    pub(super) fn of(promises: Promises) -> Self {
        let (contents, paths, floors, metadata_floors) = Default::default();
        Self { promises, unit: 1, contents, paths, floors, metadata_floors, synced: None }
    }

    /// Contents are changed in place, in memory: a crash parts no word.
    pub(super) fn judge_by_words(&mut self) {
        self.unit = 8;
    }

    /// A sync of what mappings have stored is atomic. So far all is durable.
    pub(super) fn know_synced(&mut self, model: &Model) {
        self.judge_by_words();
        let contents = vec![model.contents(); self.contents.len()];
        let tears = vec![false; contents.len()];
        self.synced = Some(Synced { model: model.clone(), contents, tears });
    }

    /// The first version whose names and attributes a crash may show when `done` operations have returned.
    pub(super) fn metadata_floor(&self, done: usize) -> usize {
        self.metadata_floors[done]
    }

    /// Adds the version after an operation, with the file that the operation named if it succeeded: a failed operation makes
    /// nothing durable. Without an operation, everything so far is durable.
    pub(super) fn push(&mut self, model: &Model, op: Option<(&Op, Option<Id>)>) {
        let version = self.contents.len();
        if let (Some(synced), Some((op, about))) = (&mut self.synced, op) {
            synced.model.follow(op, about, model);
            synced.contents.push(synced.model.contents());
            synced.tears.push(op.changes_data() && self.promises.write != Atomicity::Whole);
        }
        let paths = model.files();
        // What is written to a file without a name may be seen when its name comes back.
        let contents = model.contents();
        let before = self.floors.last();
        let floor = |id: &Id| {
            let now = Floor { size: version, bytes: version };
            let old = before.and_then(|floors| floors.get(id)).copied().unwrap_or(now);
            match op {
                None | Some((Op::Sync | Op::Remount, _)) => now,
                Some((Op::Fsync(_) | Op::Msync(_), of)) if of == Some(*id) => now,
                Some((Op::Truncate(..), of)) if of == Some(*id) && self.promises.truncate_syncs => now,
                Some((Op::Rename(..) | Op::Link(..) | Op::LinkOpened(..), of))
                    if of == Some(*id) && self.promises.size_is_durable_with_names =>
                {
                    Floor { size: version, ..old }
                }
                Some(_) => old,
            }
        };
        let durable = match op {
            None | Some((Op::Sync | Op::Remount, _)) => true,
            Some((Op::Fsync(_), of)) => of.is_some() && self.promises.sync == SyncScope::FileAndMetadata,
            Some(_) => self.promises.metadata == Durability::OnReturn,
        };
        let earlier = self.metadata_floors.last().copied().unwrap_or(version);
        self.metadata_floors.push(if durable { version } else { earlier });
        // A file that was removed may come back as it was.
        let known = before.into_iter().flat_map(BTreeMap::keys).chain(contents.keys());
        let floors = known.map(|id| (*id, floor(id))).collect();
        self.floors.push(floors);
        self.contents.push(contents);
        self.paths.push(paths);
    }

    /// Returns an error when a crash cannot leave `seen`, given the tree `expected` of `version`, when `done` operations have
    /// returned and operations up to version `last` may have had an effect.
    pub(super) fn judge(
        &self,
        (seen, expected): (&Tree, &Tree),
        version: usize,
        (done, last): (usize, usize),
    ) -> Result<(), String> {
        if let Some(path) = seen.keys().find(|path| !expected.contains_key(*path)) {
            return Err(format!("\"{path}\" should not be there"));
        }
        for (path, entry) in expected {
            let Some(other) = seen.get(path) else { return Err(format!("\"{path}\" is missing")) };
            other.difference(entry).map_or(Ok(()), |what| Err(format!("\"{path}\": {what}")))?;
            let Some(id) = self.paths[version].get(path) else {
                if other.content != entry.content {
                    return Err(format!("\"{path}\": contents {:?}", other.content));
                }
                continue;
            };
            self.judge_file(*id, &other.content, done, last).map_err(|what| format!("\"{path}\": {what}"))?;
        }
        Ok(())
    }

    /// Whether the content that a file has in this version is durable. A file without a history counts as durable.
    pub(crate) fn is_durable(&self, path: &str, version: usize) -> bool {
        let Some(id) = self.paths[version].get(path) else { return true };
        let floor = self.floors[version].get(id).map_or(version, |floor| floor.size.min(floor.bytes));
        self.contents[floor..=version].windows(2).all(|pair| pair[0].get(id) == pair[1].get(id))
    }

    /// The size must be one that the file had since its floor. Each byte, or word, must be one that the file had at that place
    /// since then, in a version of at least that size: never garbage, nor a zero that was never written.
    fn judge_file(&self, id: Id, seen: &[u8], done: usize, last: usize) -> Result<(), String> {
        if let Some(synced) = &self.synced {
            let is_of = |version: usize| synced.contents[version].get(&id).is_some_and(|all| **all == seen);
            if is_of(done) || is_of(last) {
                return Ok(());
            }
            if !synced.tears[last] {
                return Err("contents of which a part is not synced, or a part of a sync".to_owned());
            }
        }
        let now = Floor { size: done, bytes: done };
        let (contents, floor) = match &self.synced {
            Some(synced) => (&synced.contents, now),
            None => (&self.contents, self.floors[done].get(&id).copied().unwrap_or(now)),
        };
        let since = |from: usize| (from..=last).filter_map(|version| contents[version].get(&id));
        let mut sizes = since(floor.size).map(|content| content.len());
        if !sizes.any(|size| size == seen.len()) {
            let sizes: Vec<_> = since(floor.size).map(|content| content.len()).collect();
            return Err(format!("{} bytes, allowed are {sizes:?}", seen.len()));
        }
        if self.promises.stale_data {
            return Ok(());
        }
        let known: Vec<_> = since(floor.bytes).collect();
        if known.iter().any(|content| content.get(..seen.len()) == Some(seen)) {
            return Ok(());
        }
        let was = |at: usize, part: &[u8]| {
            known.iter().any(|content| content.get(at..at + part.len()) == Some(part))
        };
        let never = |(number, part): (usize, &[u8])| {
            let (at, end) = (number * self.unit, number * self.unit + part.len());
            // The rest of a word in which a file once ended is from another version.
            let ended = known.iter().any(|content| (at + 1..end).contains(&content.len()));
            let known = |(index, byte): (usize, &u8)| was(at + index, std::slice::from_ref(byte));
            !(was(at, part) || ended && part.iter().enumerate().all(known))
        };
        match seen.chunks(self.unit).enumerate().position(never) {
            None => Ok(()),
            Some(number) => {
                let at = number * self.unit;
                Err(format!("byte {at} is {:#x}, which it never was since it was synced", seen[at]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{File, Pattern};

    const BUFFERED: Promises = Promises { data: Durability::OnSync, ..Promises::STRICT };

    /// The history of a program, and its trees.
    fn run(program: &[Op]) -> (History, Vec<Tree>) {
        let mut model = Model::new(0o755, (0, 0));
        let mut trees = vec![model.tree()];
        let mut history = History::of(BUFFERED);
        history.push(&model, None);
        for op in program {
            let about = model.subject(op);
            model.run(op, None).expect("the program succeeds");
            trees.push(model.tree());
            history.push(&model, Some((op, about)));
        }
        (history, trees)
    }

    /// Whether a crash after the whole program may show what a version shows of the files, under the names of the last.
    fn may_show(program: &[Op], version: usize) -> bool {
        let (history, trees) = run(program);
        let last = program.len();
        let old = &trees[version]["foo"].content;
        let mut seen = trees[last].clone();
        seen.get_mut("foo").expect("the program leaves foo").content = Arc::clone(old);
        history.judge((&seen, &trees[last]), last, (last, last)).is_ok()
    }

    fn program(last: &[Op]) -> Vec<Op> {
        let foo = File::At("foo".into());
        let append = |tag| Op::Write(foo.clone(), None, Pattern { len: 100, tag });
        let mut program = vec![Op::Create("foo".into()), append(1), append(2)];
        program.extend_from_slice(last);
        program
    }

    #[test]
    fn what_was_buffered_may_be_lost_and_what_was_synced_may_not() {
        let foo = || File::At("foo".into());
        assert!((1..=3).all(|version| may_show(&program(&[]), version)));
        for sync in [Op::Fsync(foo()), Op::Sync, Op::Truncate(foo(), 200)] {
            let synced = program(std::slice::from_ref(&sync));
            assert!(!may_show(&synced, 2) && !may_show(&synced, 1), "{sync:?}");
            assert!(may_show(&synced, 4), "{sync:?}");
        }
        let linked = program(&[Op::Link("foo".into(), "bar".into())]);
        assert!(!may_show(&linked, 2), "a new link makes the size durable");
    }

    #[test]
    fn a_byte_that_nobody_wrote_is_seen() {
        let (history, trees) = run(&program(&[]));
        let mut seen = trees[3].clone();
        let foo = seen.get_mut("foo").expect("foo");
        Arc::make_mut(&mut foo.content)[150] = 0;
        let what = history.judge((&seen, &trees[3]), 3, (3, 3)).expect_err("a zero in the middle");
        assert!(what.contains("byte 150 is 0x0"), "{what}");
    }
}
