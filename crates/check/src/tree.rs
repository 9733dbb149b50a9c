//! A file system as programs see it. The model and a design are compared in this form.

use std::collections::BTreeMap;
use std::sync::Arc;

use vfs::{FileKind, Timestamp};

/// What can be seen of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // as their names say
pub struct Entry {
    pub kind: FileKind,
    pub perm: u32,
    pub owner: (u32, u32),
    pub rdev: u64,
    pub nlink: u32,
    /// The first path that leads to the same inode.
    pub same_as: String,
    /// Last access, if it is known: a design knows all times, a model those that were set and have not changed since.
    pub atime: Option<Timestamp>,
    /// Last change of contents, if it is known.
    pub mtime: Option<Timestamp>,
    /// Extended attributes by name.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// Bytes of a file, target of a symbolic link.
    pub content: Arc<Vec<u8>>,
}

impl Entry {
    /// How it differs from what is expected, contents aside; times that are not expected may be any.
    pub fn difference(&self, expected: &Self) -> Option<String> {
        let bare = |entry: &Self| Self {
            content: Arc::default(),
            atime: entry.atime.filter(|_| expected.atime.is_some()),
            mtime: entry.mtime.filter(|_| expected.mtime.is_some()),
            ..entry.clone()
        };
        let (seen, expected) = (bare(self), bare(expected));
        (seen != expected).then(|| format!("{seen:?}, expected {expected:?}"))
    }
}

/// By path; the root is "".
pub type Tree = BTreeMap<String, Entry>;

/// The same without the times that are known: for comparing what was seen before with what is seen now.
pub fn without_times(mut tree: Tree) -> Tree {
    for entry in tree.values_mut() {
        (entry.atime, entry.mtime) = (None, None);
    }
    tree
}

/// The first difference between what was seen and what was expected.
pub fn difference(seen: &Tree, expected: &Tree) -> Option<String> {
    difference_by(seen, expected, None, 1)
}

/// The same, where each aligned `unit` of bytes of a file may also be that of another tree.
pub(crate) fn difference_by(
    seen: &Tree,
    expected: &Tree,
    other_tree: Option<&Tree>,
    unit: usize,
) -> Option<String> {
    if let Some(path) = seen.keys().find(|path| !expected.contains_key(*path)) {
        return Some(format!("\"{path}\" should not be there"));
    }
    expected.iter().find_map(|(path, entry)| {
        let Some(other) = seen.get(path) else { return Some(format!("\"{path}\" is missing")) };
        if let Some(what) = other.difference(entry) {
            return Some(format!("\"{path}\": {what}"));
        }
        let alternative = other_tree.and_then(|tree| tree.get(path)).map(|entry| &entry.content[..]);
        content_difference(&other.content, &entry.content, alternative, unit)
            .map(|what| format!("\"{path}\": {what}"))
    })
}

/// Each aligned unit must be that of the expected content or of the alternative. A unit in which the alternative ends goes on with
/// zeros, as in its block.
fn content_difference(
    seen: &[u8],
    expected: &[u8],
    alternative: Option<&[u8]>,
    unit: usize,
) -> Option<String> {
    if seen.len() != expected.len() {
        return Some(format!("{} bytes, expected {}", seen.len(), expected.len()));
    }
    if seen == expected {
        return None;
    }
    (0..seen.len()).step_by(unit).find_map(|at| {
        let range = at..seen.len().min(at.saturating_add(unit));
        let mine = &seen[range.clone()];
        let fits = |content: &[u8]| {
            let there = content.get(at..content.len().min(at + mine.len())).unwrap_or_default();
            !there.is_empty() && mine.starts_with(there) && mine[there.len()..].iter().all(|byte| *byte == 0)
        };
        let allowed = fits(expected) || alternative.is_some_and(fits);
        (!allowed).then(|| format!("bytes at {at} are {mine:?}, expected {:?}", &expected[range.clone()]))
    })
}

/// A number that tells trees apart, but for their times.
pub fn fingerprint(tree: &Tree) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    for (path, entry) in tree {
        (path, entry.kind, entry.perm, entry.owner, entry.rdev, entry.nlink).hash(&mut hasher);
        (&entry.same_as, &entry.content, &entry.xattrs).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_old_or_new_as_a_whole_and_zero_beyond_the_end() {
        let (old, new) = ([7_u8; 13], [9_u8; 24]);
        let differs = |seen: &[u8]| content_difference(seen, &new, Some(&old), 8).is_some();
        let mut seen = new;
        seen[8..13].fill(7);
        assert!(differs(&seen), "old bytes, new bytes after them in the same word");
        seen[13..16].fill(0);
        assert!(!differs(&seen), "the old word, which ended in it");
        seen[16..24].fill(0);
        assert!(differs(&seen), "a word that there was not");
    }
}
