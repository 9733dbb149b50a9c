//! The rules of renaming that hold in every file system, as pure functions: `Process` asks them before it calls a design, and a
//! design again under its own locks.
//!
//! | rule | function |
//! |---|---|
//! | what must be at the new name, and whether there is anything to do | [`check_target`] |
//! | a directory does not go below itself; what is replaced does not hold what is moved | [`check_subtrees`] |
//! | a directory replaces a directory, and any other file another file | [`check_kinds`] |
//! | of two directories an ancestor is locked first, or else the lower number | [`is_locked_first`] |
//! | of two files that names lead to a directory is locked first, or else the lower number | [`place_of_lock`] |

use crate::errno::Errno;
use crate::flags::RenameFlags;

/// Why a rename is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The new name exists, and [`RenameFlags::NOREPLACE`] forbids that.
    Exists,
    /// The new name does not exist, and [`RenameFlags::EXCHANGE`] needs it.
    Missing,
    /// A directory would go below itself.
    IntoItself,
    /// The directory that would be replaced is not empty: what is moved lies below it.
    NotEmpty,
    /// A directory would replace another file.
    NotDirectory,
    /// Another file would replace a directory.
    IsDirectory,
}

impl From<Refusal> for Errno {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Exists => Self::EEXIST,
            Refusal::Missing => Self::ENOENT,
            Refusal::IntoItself => Self::EINVAL,
            Refusal::NotEmpty => Self::ENOTEMPTY,
            Refusal::NotDirectory => Self::ENOTDIR,
            Refusal::IsDirectory => Self::EISDIR,
        }
    }
}

/// Checks what the new name leads to, if it exists; false: both names lead to one inode, and nothing happens.
pub fn check_target<T: PartialEq>(flags: RenameFlags, moved: T, target: Option<T>) -> Result<bool, Refusal> {
    match target {
        Some(_) if flags.contains(RenameFlags::NOREPLACE) => Err(Refusal::Exists),
        None if flags.contains(RenameFlags::EXCHANGE) => Err(Refusal::Missing),
        target => Ok(target != Some(moved)),
    }
}

/// Checks that nothing goes below itself: neither may what is moved from directory `from` be above directory `to`, nor what is at
/// the new name be above `from`. `is_below(dir, above)`: whether `above` is `dir` or a directory above it.
pub fn check_subtrees<T: Copy, E: From<Refusal>>(
    flags: RenameFlags,
    (from, to): (T, T),
    (moved, target): (T, Option<T>),
    mut is_below: impl FnMut(T, T) -> Result<bool, E>,
) -> Result<(), E> {
    if is_below(to, moved)? {
        return Err(Refusal::IntoItself.into());
    }
    match target {
        Some(target) if is_below(from, target)? => match flags.contains(RenameFlags::EXCHANGE) {
            true => Err(Refusal::IntoItself.into()),
            false => Err(Refusal::NotEmpty.into()),
        },
        _ => Ok(()),
    }
}

/// Checks that one file may take the place of another. Whether a directory that is replaced is empty only its design can say.
pub fn check_kinds(flags: RenameFlags, moved_is_dir: bool, target_is_dir: bool) -> Result<(), Refusal> {
    match (moved_is_dir, target_is_dir) {
        _ if flags.contains(RenameFlags::EXCHANGE) => Ok(()),
        (true, false) => Err(Refusal::NotDirectory),
        (false, true) => Err(Refusal::IsDirectory),
        _ => Ok(()),
    }
}

/// Whether `above` is directory `dir` or above it. `parent_of` gives the directory above one, the root for the root; none: after
/// `most` directories, as many as there are, the way up has not ended, and the directories go in a circle.
pub fn is_below<E>(
    mut dir: u64,
    above: u64,
    most: u64,
    mut parent_of: impl FnMut(u64) -> Result<u64, E>,
) -> Result<Option<bool>, E> {
    for _ in 0..most {
        if dir == above {
            return Ok(Some(true));
        }
        let parent = parent_of(dir)?;
        if parent == dir {
            return Ok(Some(false));
        }
        dir = parent;
    }
    Ok(None)
}

/// Whether directory `one` is locked before directory `other`: one above it, or else with the lower number.
pub fn is_locked_first<E>(
    one: u64,
    other: u64,
    mut is_below: impl FnMut(u64, u64) -> Result<bool, E>,
) -> Result<bool, E> {
    Ok(is_below(other, one)? || (!is_below(one, other)? && one < other))
}

/// The place of an inode in the order in which two that names lead to are locked: a directory before another file, for which a
/// task that has the directory may wait, then by number.
pub fn place_of_lock(is_dir: bool, number: u64) -> (bool, u64) {
    (!is_dir, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the tree 1 ─ 2 ─ 3, 1 ─ 4.
    fn below(dir: u64, above: u64) -> Result<bool, Refusal> {
        let parent_of = |dir| Ok(if dir == 3 { 2 } else { 1 });
        is_below(dir, above, 4, parent_of).map(|is| is.expect("no circle"))
    }

    #[test]
    fn a_directory_is_below_itself_and_its_ancestors_and_a_circle_is_told() {
        let pairs = [(3, 3), (3, 2), (3, 1), (1, 1), (2, 3), (4, 2), (1, 4)];
        assert_eq!(
            pairs.map(|(dir, above)| below(dir, above)),
            [true, true, true, true, false, false, false].map(Ok)
        );
        assert_eq!(is_below(5, 9, 2, |dir| Ok::<_, ()>(11 - dir)), Ok(None));
    }

    #[test]
    fn an_ancestor_is_locked_first_and_else_the_lower_number() {
        let first = |one, other| is_locked_first(one, other, below);
        assert_eq!([first(1, 3), first(3, 1), first(3, 4), first(4, 3)], [true, false, true, false].map(Ok));
        assert!(place_of_lock(true, 9) < place_of_lock(false, 2));
    }

    #[test]
    fn what_would_go_below_itself_or_hold_the_source_is_refused() {
        let check = |flags, dirs, files| check_subtrees(flags, dirs, files, below);
        let (plain, exchange) = (RenameFlags::empty(), RenameFlags::EXCHANGE);
        assert_eq!(check(plain, (1, 3), (2, None)), Err(Refusal::IntoItself));
        assert_eq!(check(plain, (3, 1), (9, Some(2))), Err(Refusal::NotEmpty));
        assert_eq!(check(exchange, (3, 1), (9, Some(2))), Err(Refusal::IntoItself));
        assert_eq!(check(plain, (2, 4), (3, None)), Ok(()));
    }

    #[test]
    fn flags_and_kinds_decide_what_may_be_at_the_new_name() {
        let (plain, keep) = (RenameFlags::empty(), RenameFlags::NOREPLACE);
        assert_eq!(check_target(keep, 1, Some(1)), Err(Refusal::Exists));
        assert_eq!(check_target(RenameFlags::EXCHANGE, 1, None), Err(Refusal::Missing));
        assert_eq!([check_target(plain, 1, Some(1)), check_target(plain, 1, Some(2))], [Ok(false), Ok(true)]);
        assert_eq!(check_kinds(plain, true, false), Err(Refusal::NotDirectory));
        assert_eq!(check_kinds(plain, false, true), Err(Refusal::IsDirectory));
        assert_eq!(check_kinds(RenameFlags::EXCHANGE, true, false), Ok(()));
    }
}
