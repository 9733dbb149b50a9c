//! Paths that a design resolves itself.
//!
//! A design whose names are in DRAM needs no second copy of them to find a file, and one that gives each inode number once needs no
//! count of those who use a directory: a number that has gone leads nowhere. So a path goes through the names of the design, and no
//! reference of a dentry is taken, whose count every call in one directory, or on one file, would change.
//!
//! | call | the design resolves | then |
//! |---|---|---|
//! | `stat`, `lstat` | the path | that is the answer |
//! | a change | all names but the last | the last is claimed by the number of the directory, then as after a walk |
//! | any other | nothing | `walk.rs` resolves all |
//!
//! A change is an `open` with `O_CREAT`, `mknod`, `symlink`, `unlink`, `rename`, or `link` to its new name.
//!
//! ```text
//!   path ──Paths::parent──► directory and its rights ──claim──► name, what it leads to ──check, change──► done
//!     │ none                            │ an error                        │ an error
//!     └────────────────► walk from the beginning ◄────────────────────────┘
//! ```
//!
//! What the design leaves open the walk answers, and so it does for what fails: links, `.`, `..`, a slash at the end, all errors,
//! and names that lead to directories, whose vnodes know the vnode above. A call that has failed has changed nothing, so it may be
//! made again. `mkdir` and `rmdir` are left to the walk, too: they lead to directories.
//!
//! The cache of names stays as it is: each change of a name claims it there, so the cache agrees with the design, what was
//! checked is what is changed, and an inode has one vnode. What a change tells the vnode of its directory (the time of access is
//! older now), it tells by the number (`directory.rs`).
//!
//! As with the kernel's walk, a directory that moves while a path is walked to a file may lead to what was put there afterwards. A
//! path to a directory in which a name changes is walked again if one has moved meanwhile. Rights are those that the directory had
//! when the path led to it.
//!
//! A mount that stands for a kernel resolves no path so, and neither does one of a comparison of designs
//! ([`crate::MountOptions::own_paths`]).

use crate::attr::{Attr, Ino};
use crate::credentials::Subject;

/// Longest name, in bytes.
pub const NAME_MAX: usize = 255;
/// Longest path, in bytes (the kernel's limit of 4096 counts the zero at the end).
pub const PATH_MAX: usize = 4095;

/// A directory to which a path leads, in which a call may work without a reference to it.
#[derive(Clone, Copy, Debug)]
pub struct Parent {
    /// Its number.
    pub ino: Ino,
    /// What permission depends on.
    pub subject: Subject,
}

/// A design that resolves paths itself. It gives each inode number once: a call with the number of a directory that was removed
/// meanwhile answers `ENOENT`, and never works in another one.
pub trait Paths: Send + Sync {
    /// The attributes of what the names lead to, each from the directory before, the first from `from`; `searches` says whether
    /// the caller may search a directory. None where a name is missing, a directory is none or must not be searched: the caller
    /// finds out why.
    fn stat(&self, from: Ino, names: Names<'_>, searches: &dyn Fn(&Subject) -> bool) -> Option<Attr>;

    /// The directory that the names lead to in the same way, which the caller may search, too; `from` itself without any name.
    fn parent(&self, from: Ino, names: Names<'_>, searches: &dyn Fn(&Subject) -> bool) -> Option<Parent>;
}

/// The names of a path, without slashes.
#[derive(Clone, Debug)]
pub struct Names<'p>(&'p [u8]);

impl<'p> Names<'p> {
    /// Those of a path; none if a walk may have to do more than search directories: with `.`, `..` or a slash at the end, without
    /// any name, with a zero byte, or where a limit is passed.
    pub(crate) fn of(path: &'p [u8]) -> Option<Self> {
        if path.len() > PATH_MAX || path.last().is_none_or(|last| *last == b'/') {
            return None;
        }
        let plain =
            |name: &[u8]| name != b"." && name != b".." && name.len() <= NAME_MAX && !name.contains(&0);
        path.split(|byte| *byte == b'/').all(plain).then_some(Self(path))
    }

    /// All but the last of such a path, and the last.
    pub(crate) fn before_last(path: &'p [u8]) -> Option<(Self, &'p [u8])> {
        let Self(path) = Self::of(path)?;
        let last = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (before, last) = path.split_at(last);
        Some((Self(before), last))
    }
}

impl<'p> Iterator for Names<'p> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        let start = self.0.iter().position(|byte| *byte != b'/')?;
        let rest = &self.0[start..];
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(&rest[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_have_names_and_others_are_left_to_the_walk() {
        let names = |path: &'static [u8]| Names::of(path).map(Iterator::collect::<Vec<_>>);
        assert_eq!(names(b"//a/b//c"), Some(vec![b"a".as_slice(), b"b", b"c"]));
        assert_eq!(names(b"a"), Some(vec![b"a".as_slice()]));
        for other in [b"".as_slice(), b"/", b"a/", b"a/../b", b"./a", b"a/."] {
            assert!(names(other).is_none(), "{other:?}");
        }
        assert!(names(b"a/b\0c").is_none(), "no system call can carry it");
        let long = [b'n'; NAME_MAX + 1];
        assert!(Names::of(&long).is_none() && Names::of(&long[1..]).is_some());
    }

    #[test]
    fn the_last_name_of_a_path_stands_apart_from_those_before_it() {
        let split = |path| Names::before_last(path).map(|(names, last)| (names.collect::<Vec<_>>(), last));
        assert_eq!(split(b"//a/b//c"), Some((vec![b"a".as_slice(), b"b"], b"c".as_slice())));
        assert_eq!(split(b"a"), Some((vec![], b"a".as_slice())));
        assert_eq!((split(b"/a"), split(b"a/")), (Some((vec![], b"a".as_slice())), None));
    }
}
