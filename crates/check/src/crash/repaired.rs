//! What a repair must have kept, where a crash may leave an image that contradicts itself ([`vfs::Promises::repaired`]).
//!
//! A file was durable after an operation when that was a sync, a remount, or an fsync of it. If no later operation names it, one of
//! its links or a directory above it, it must be there with its attributes and contents:
//!
//! | names in the directories on its path | it is |
//! |---|---|
//! | unchanged since | at its path |
//! | changed by some operation since | at its path or in `lost+found`; if names may tear, in its directory under a torn name |
//!
//! Names may tear ([`vfs::Promises::names_may_tear`]) where a change of one name moves the records of others: a record that comes
//! to lie in two sectors may then have a name that is half its own. Nothing tells a repair so, and e2fsck keeps such a name.
//!
//! A directory that no operation has changed or named is where it was. Counts of links are not judged: stale names may lead to a
//! file once more. Nothing else is judged here; that the image is sound and can be used, the explorer checks.

use super::record::States;
use crate::op::{File, Op, split};
use crate::tree::{Entry, Tree};
use vfs::FileKind;

/// Judges what is seen after operations up to version `last` may have had an effect; `tears`: names may tear.
pub(super) fn judge(
    (seen, tears): (&Tree, bool),
    ops: &[Op],
    states: &States,
    (done, last): (usize, usize),
) -> Result<(), String> {
    let floor = states.history().metadata_floor(done);
    judge_since((seen, tears), (&states.trees[floor], &ops[floor..last]), &|_| true)?;
    for (at, op) in ops[..done].iter().enumerate().skip(floor) {
        if let Op::Fsync(File::At(path)) = op {
            let since = (&states.trees[at + 1], &ops[at + 1..last]);
            judge_since((seen, tears), since, &|other| other == path)?;
        }
    }
    Ok(())
}

/// Judges the paths that are wanted of a tree that was durable before these operations.
fn judge_since(
    (seen, tears): (&Tree, bool),
    (tree, ops): (&Tree, &[Op]),
    wanted: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    let Some(named) = ops.iter().map(paths_of).collect::<Option<Vec<_>>>() else { return Ok(()) };
    let named: Vec<&str> = named.concat();
    let changed: Vec<&str> =
        ops.iter().filter(|op| changes_names(op)).flat_map(|op| parents_of(op)).collect();
    for (path, entry) in tree.iter().filter(|(path, _)| !path.is_empty() && wanted(path)) {
        let is_dir = entry.kind == FileKind::Directory;
        let is_named = |path: &str| named.iter().any(|other| is_at_or_below(path, other));
        let links = || tree.iter().filter(|(_, other)| other.same_as == entry.same_as);
        let touched = is_named(path) || !is_dir && links().any(|(link, _)| is_named(link));
        if touched || is_dir && changed.contains(&&**path) {
            continue;
        }
        let moved = ancestors(path).any(|dir| changed.contains(&dir));
        let found = seen.get(path).filter(|other| same(other, entry));
        let dir = split(path).0;
        let is_torn = |path: &str| split(path).0 == dir && !tree.contains_key(path) && !named.contains(&path);
        let torn = tears && changed.contains(&dir);
        let is_lost = |path: &str| path.starts_with("lost+found/") || torn && is_torn(path);
        let lost = || seen.iter().any(|(path, other)| is_lost(path) && same(other, entry));
        if found.is_none() && !(moved && lost()) {
            let now = seen.get(path).map_or("is missing".to_owned(), |other| {
                let bytes = if other.content == entry.content { "the same bytes" } else { "other bytes" };
                format!("is {:?} {:o} {:?}, {bytes}", other.kind, other.perm, other.owner)
            });
            return Err(format!("\"{path}\", which was synced and not named since, {now}"));
        }
    }
    Ok(())
}

fn is_at_or_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether two entries are the same file, whatever its names.
fn same(seen: &Entry, expected: &Entry) -> bool {
    let plain = Entry { nlink: expected.nlink, same_as: expected.same_as.clone(), ..seen.clone() };
    plain.difference(expected).is_none() && seen.content == expected.content
}

/// The directories above a path, the root included.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let path = rest?;
        let dir = split(path).0;
        rest = (!dir.is_empty()).then_some(dir);
        Some(dir)
    })
}

/// The paths that an operation names; none for one on a file that was opened before.
fn paths_of(op: &Op) -> Option<Vec<&str>> {
    Some(match op {
        Op::Create(path)
        | Op::Mkdir(path)
        | Op::Mknod(path, ..)
        | Op::Symlink(path, _)
        | Op::Unlink(path)
        | Op::Rmdir(path)
        | Op::Chmod(path, _)
        | Op::Chown(path, ..)
        | Op::ChmodChown(path, ..)
        | Op::Utimes(path, ..)
        | Op::SetXattr(path, ..)
        | Op::RemoveXattr(path, _)
        | Op::Write(File::At(path), ..)
        | Op::Truncate(File::At(path), _)
        | Op::Fallocate(File::At(path), ..)
        | Op::Clone(_, (File::At(path), _), _) => vec![path],
        Op::Link(from, to) | Op::Rename(from, to, _) => vec![from, to],
        Op::Read(..)
        | Op::ReadDir(_)
        | Op::Fsync(_)
        | Op::Sync
        | Op::Remount
        | Op::Open(..)
        | Op::Map(..)
        | Op::Load(..)
        | Op::Msync(_) => Vec::new(),
        Op::Write(..)
        | Op::Truncate(..)
        | Op::Fallocate(..)
        | Op::Clone(..)
        | Op::Close(_)
        | Op::Nameless(_)
        | Op::LinkOpened(..)
        | Op::Store(..)
        | Op::Unmap(_) => return None,
    })
}

fn changes_names(op: &Op) -> bool {
    matches!(
        op,
        Op::Create(_)
            | Op::Mkdir(_)
            | Op::Mknod(..)
            | Op::Symlink(..)
            | Op::Unlink(_)
            | Op::Rmdir(_)
            | Op::Link(..)
            | Op::Rename(..)
    )
}

/// The directories in which an operation changes names.
fn parents_of(op: &Op) -> Vec<&str> {
    match op {
        Op::Link(_, to) => vec![split(to).0],
        _ => paths_of(op).unwrap_or_default().into_iter().map(|path| split(path).0).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::op::Pattern;

    fn durable() -> Tree {
        let mut model = Model::new(0o755, (0, 0));
        for op in [
            Op::Mkdir("A".into()),
            Op::Create("A/foo".into()),
            Op::Write(File::At("A/foo".into()), Some(0), Pattern { len: 100, tag: 1 }),
        ] {
            model.run(&op, None).expect("the program succeeds");
        }
        model.tree()
    }

    fn judged(seen: &Tree, ops: &[Op]) -> bool {
        judge_since((seen, false), (&durable(), ops), &|_| true).is_ok()
    }

    #[test]
    fn a_file_that_no_call_has_named_is_kept_and_one_that_was_named_need_not_be() {
        let mut without = durable();
        without.remove("A/foo");
        assert!(judged(&durable(), &[]) && !judged(&without, &[]));
        assert!(!judged(&without, &[Op::Create("bar".into())]));
        let write = Op::Write(File::At("A/foo".into()), Some(0), Pattern { len: 1, tag: 2 });
        assert!(judged(&without, &[write]));
        assert!(judged(&without, &[Op::Rename("A".into(), "B".into(), vfs::RenameFlags::empty())]));
    }

    #[test]
    fn a_file_whose_directory_was_changed_may_be_in_lost_and_found() {
        let mut moved = durable();
        let foo = moved.remove("A/foo").expect("foo");
        moved.insert("lost+found/#12".into(), foo);
        assert!(judged(&moved, &[Op::Create("A/bar".into())]));
        assert!(!judged(&moved, &[Op::Create("A/C/bar".into())]), "A is as it was");
    }

    #[test]
    fn a_torn_name_is_allowed_only_where_names_may_tear_and_in_the_directory_that_was_changed() {
        let torn = |path: &str| {
            let mut tree = durable();
            let foo = tree.remove("A/foo").expect("foo");
            tree.insert(path.into(), foo);
            tree
        };
        let judged_torn = |seen: &Tree, op| judge_since((seen, true), (&durable(), &[op]), &|_| true).is_ok();
        let (here, elsewhere) = (torn("A/fo\u{f7ff}"), torn("fo\u{f7ff}"));
        assert!(judged_torn(&here, Op::Create("A/bar".into())));
        assert!(!judged(&here, &[Op::Create("A/bar".into())]), "no record moves");
        assert!(!judged_torn(&here, Op::Create("bar".into())), "A is as it was");
        assert!(!judged_torn(&elsewhere, Op::Rename("A/x".into(), "y".into(), vfs::RenameFlags::empty())));
    }
}
