//! The tree of names of an image, as fsck and repair of every design judge it: which names lead where, and what each inode says of
//! its links and its parent.
//!
//! A design adds every inode in use, then every name but `.` and `..`, and asks for the faults. Which predicate a fault violates,
//! and what makes it right, the design knows.

use std::collections::BTreeMap;
use std::fmt;

use vfs::FileKind;

/// An inode in use. `P` is where a name lies.
#[derive(Clone, Debug)]
pub struct Node<P> {
    /// What kind of file it is.
    pub kind: FileKind,
    /// Links, as the inode has them.
    pub links: u32,
    /// Where `..` of a directory leads, if it is there.
    pub dotdot: Option<u64>,
    /// How many names lead to it.
    names: u32,
    /// Names of a directory: in which directory, and where.
    named_in: Vec<(u64, P)>,
    /// Names in it that lead to directories.
    subdirs: u32,
}

/// What is wrong with an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No name leads to it, and it has so many links.
    Nameless {
        /// The links that it counts.
        links: u32,
    },
    /// It has other links than names; a directory: than two and one for each subdirectory.
    Links {
        /// The links that it counts.
        has: u32,
        /// The names that it has.
        expected: u32,
    },
    /// A directory has more than one name.
    Names(u32),
    /// `..` of a directory leads to another directory than the one that has its name.
    Parent {
        /// The parent that the directory records.
        says: u64,
        /// The directory that names it.
        named_in: u64,
    },
    /// Directories lie below each other in a circle; it is the lowest of them.
    Circle,
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nameless { .. } => write!(to, "has no name"),
            Self::Links { has, expected } => write!(to, "{has} links, expected {expected}"),
            Self::Names(names) => write!(to, "a directory with {names} names"),
            Self::Parent { says, named_in } => write!(to, ".. leads to {says}, its name is in {named_in}"),
            Self::Circle => write!(to, "a directory that is below itself, and not below the root"),
        }
    }
}

/// All inodes of an image and the names that lead to them.
#[derive(Clone, Debug)]
pub struct NameTree<P> {
    root: u64,
    /// The inodes by number.
    pub nodes: BTreeMap<u64, Node<P>>,
}

impl<P: Clone> NameTree<P> {
    /// Makes a tree that has no node but is about to get this root.
    pub fn new(root: u64) -> Self {
        Self { root, nodes: BTreeMap::new() }
    }

    /// Adds an inode with the links that it has, and where its `..` leads.
    pub fn insert(&mut self, number: u64, kind: FileKind, links: u32, dotdot: Option<u64>) {
        let node = Node { kind, links, dotdot, names: 0, named_in: Vec::new(), subdirs: 0 };
        self.nodes.insert(number, node);
    }

    /// Adds a name in directory `dir` that leads to `child`; false: no inode has this number.
    pub fn add_name(&mut self, dir: u64, child: u64, place: P) -> bool {
        let Some(node) = self.nodes.get_mut(&child) else { return false };
        node.names += 1;
        if node.is_dir() {
            node.named_in.push((dir, place));
            self.nodes.entry(dir).and_modify(|dir| dir.subdirs += 1);
        }
        true
    }

    /// Forgets a name of an inode that is no directory.
    pub fn drop_name(&mut self, child: u64) {
        self.nodes.entry(child).and_modify(|node| node.names = node.names.saturating_sub(1));
    }

    /// Whether it is a directory.
    pub fn is_dir(&self, number: u64) -> bool {
        self.nodes.get(&number).is_some_and(Node::is_dir)
    }

    /// Returns the numbers of all directories.
    pub fn directories(&self) -> impl Iterator<Item = u64> {
        self.nodes.iter().filter(|(_, node)| node.is_dir()).map(|(number, _)| *number)
    }

    /// The inodes without a name.
    pub fn nameless(&self) -> impl Iterator<Item = u64> {
        self.nodes.iter().filter(|(number, node)| node.names == 0 && **number != self.root).map(|(at, _)| *at)
    }

    /// The directory that has the name which a directory keeps.
    pub fn parent_of(&self, dir: u64) -> Option<u64> {
        if dir == self.root {
            return Some(dir);
        }
        let node = self.nodes.get(&dir)?;
        node.named_in.get(node.kept()).map(|(parent, _)| *parent)
    }

    /// The links that an inode should have.
    pub fn links_of(&self, number: u64) -> u32 {
        self.nodes.get(&number).map_or(0, |node| if node.is_dir() { 2 + node.subdirs } else { node.names })
    }

    /// Takes all names of a directory but the one that it keeps, and those of the root: the directory, which has the name, where.
    pub fn take_second_names(&mut self) -> Vec<(u64, u64, P)> {
        let dirs: Vec<_> = self.directories().collect();
        dirs.into_iter().flat_map(|dir| self.take_names(dir, dir != self.root)).collect()
    }

    /// Takes the names of a directory; `but_one`: all but the one that it keeps.
    pub fn take_names(&mut self, dir: u64, but_one: bool) -> Vec<(u64, u64, P)> {
        let Some(node) = self.nodes.get_mut(&dir) else { return Vec::new() };
        let mut names = std::mem::take(&mut node.named_in);
        if but_one && !names.is_empty() {
            node.named_in = names;
            let kept = node.kept();
            names = std::mem::take(&mut node.named_in);
            node.named_in = vec![names.remove(kept)];
        }
        node.names = node.named_in.len() as u32;
        for (parent, _) in &names {
            self.nodes.entry(*parent).and_modify(|parent| parent.subdirs -= 1);
        }
        names.into_iter().map(|(parent, place)| (dir, parent, place)).collect()
    }

    /// Of each circle of directories that lie below each other, the lowest.
    pub fn circles(&self) -> Vec<u64> {
        let (mut circles, mut seen_from) = (Vec::new(), BTreeMap::new());
        for start in self.directories() {
            let mut at = Some(start);
            while let Some(dir) = at.filter(|dir| !seen_from.contains_key(dir)) {
                seen_from.insert(dir, start);
                at = self.parent_of(dir).filter(|parent| *parent != dir || dir != self.root);
            }
            // The way up has come to where it was.
            if let Some(dir) = at.filter(|dir| seen_from.get(dir) == Some(&start)) {
                let next = |at: &u64| self.parent_of(*at).filter(|above| *above != dir);
                circles.extend(std::iter::successors(Some(dir), next).min());
            }
        }
        circles
    }

    /// Everything that is wrong, by number; circles at the end.
    pub fn faults(&self) -> Vec<(u64, Fault)> {
        let mut faults = Vec::new();
        for (number, node) in &self.nodes {
            let is_root = *number == self.root;
            let (names, expected) = (node.names + u32::from(is_root), self.links_of(*number));
            if names == 0 {
                faults.push((*number, Fault::Nameless { links: node.links }));
                continue;
            }
            if node.links != expected {
                faults.push((*number, Fault::Links { has: node.links, expected }));
            }
            if node.is_dir() && names > 1 {
                faults.push((*number, Fault::Names(names)));
            }
            if let (Some(says), Some(named_in)) = (node.dotdot, self.parent_of(*number))
                && node.is_dir()
                && says != named_in
            {
                faults.push((*number, Fault::Parent { says, named_in }));
            }
        }
        faults.extend(self.circles().into_iter().map(|dir| (dir, Fault::Circle)));
        faults
    }
}

impl<P> Node<P> {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Whether a directory names it.
    pub fn has_name(&self) -> bool {
        self.names > 0
    }

    /// Which name a directory keeps: that in the directory to which `..` leads, or the first.
    fn kept(&self) -> usize {
        self.named_in.iter().position(|(dir, _)| Some(*dir) == self.dotdot).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u64 = 1;

    /// Directories with links and `..`, then names: in which directory, to what. Inode 9 is a file with one link.
    fn faults(dirs: &[(u64, u32, u64)], names: &[(u64, u64)]) -> Vec<(u64, Fault)> {
        tree(dirs, names).faults()
    }

    fn tree(dirs: &[(u64, u32, u64)], names: &[(u64, u64)]) -> NameTree<usize> {
        let mut tree = NameTree::new(ROOT);
        for (dir, links, dotdot) in dirs {
            tree.insert(*dir, FileKind::Directory, *links, Some(*dotdot));
        }
        tree.insert(9, FileKind::Regular, 1, None);
        for (place, (dir, child)) in names.iter().enumerate() {
            assert!(tree.add_name(*dir, *child, place));
        }
        tree
    }

    #[test]
    fn a_sound_tree_has_no_fault_and_each_fault_is_told_by_itself() {
        let sound = [(1, 3, 1), (2, 2, 1)];
        assert_eq!(faults(&sound, &[(1, 2), (2, 9)]), []);
        assert_eq!(faults(&sound, &[(1, 2)]), [(9, Fault::Nameless { links: 1 })]);
        let has_more = Fault::Links { has: 1, expected: 2 };
        assert_eq!(faults(&sound, &[(1, 2), (2, 9), (1, 9)]), [(9, has_more)]);
        let elsewhere = Fault::Parent { says: 2, named_in: 1 };
        assert_eq!(faults(&[(1, 3, 1), (2, 2, 2)], &[(1, 2), (2, 9)]), [(2, elsewhere)]);
        assert!(!tree(&sound, &[]).add_name(1, 77, 0));
    }

    #[test]
    fn a_directory_keeps_the_name_to_which_its_parent_leads() {
        let mut twice = tree(&[(1, 4, 1), (2, 3, 1), (3, 2, 2)], &[(1, 2), (1, 3), (2, 3), (1, 9), (2, 1)]);
        let found = twice.faults();
        assert!(found.contains(&(3, Fault::Names(2))) && found.contains(&(1, Fault::Names(2))), "{found:?}");
        assert_eq!(twice.take_second_names(), [(1, 2, 4), (3, 1, 1)]);
        assert_eq!((twice.parent_of(3), twice.links_of(1), twice.links_of(2)), (Some(2), 3, 3));
    }

    #[test]
    fn circles_are_told_by_their_lowest_and_what_hangs_on_them_is_in_none() {
        let dirs = [(1, 2, 1), (2, 3, 4), (3, 2, 2), (4, 4, 2), (5, 2, 4), (6, 3, 6)];
        let mut tree = tree(&dirs, &[(4, 2), (2, 4), (4, 5), (5, 3), (6, 6), (1, 9)]);
        assert_eq!(tree.circles(), [2, 6]);
        assert_eq!(tree.take_names(6, false), [(6, 6, 4)]);
        assert_eq!((tree.circles(), tree.nameless().collect::<Vec<_>>()), (vec![2], vec![6]));
    }
}
