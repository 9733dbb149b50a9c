//! Paths that a design resolves itself.
//!
//! A design whose names are in DRAM needs no second copy of them: [`Paths::stat`] goes through its own, so no reference of a
//! dentry is taken, whose count every lookup of one file would change. What it leaves open, the walk of `walk.rs` answers: links,
//! `..`, and all errors.
//!
//! As with the kernel's walk, a directory that moves while a path is walked may lead to what was put there afterwards. But a number
//! that was given away anew leads nowhere: a design that gives numbers again has to notice.

use crate::attr::{Attr, Ino};
use crate::credentials::Subject;

/// Longest name, in bytes.
pub const NAME_MAX: usize = 255;
/// Longest path, in bytes (the kernel's limit of 4096 counts the zero at the end).
pub const PATH_MAX: usize = 4095;

/// A design that resolves paths itself.
pub trait Paths: Send + Sync {
    /// The attributes of what the names lead to, each from the directory before, the first from `from`; `searches` says whether
    /// the caller may search a directory. None where a name is missing, a directory is none or must not be searched: the caller
    /// finds out why.
    fn stat(&self, from: Ino, names: Names<'_>, searches: &dyn Fn(&Subject) -> bool) -> Option<Attr>;
}

/// The names of a path, without slashes.
#[derive(Clone, Debug)]
pub struct Names<'p>(&'p [u8]);

impl<'p> Names<'p> {
    /// Those of a path; none if a walk may have to do more than search directories: with `.`, `..` or a slash at the end, without
    /// any name, or where a limit is passed.
    pub(crate) fn of(path: &'p [u8]) -> Option<Self> {
        if path.len() > PATH_MAX || path.last().is_none_or(|last| *last == b'/') {
            return None;
        }
        let plain = |name: &[u8]| name != b"." && name != b".." && name.len() <= NAME_MAX;
        path.split(|byte| *byte == b'/').all(plain).then_some(Self(path))
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
        let long = [b'n'; NAME_MAX + 1];
        assert!(Names::of(&long).is_none() && Names::of(&long[1..]).is_some());
    }
}
