//! The shape of a fileset: directories, files and empty leaf directories, their paths and sizes.
//!
//! Construction follows Filebench. With n entries and a mean width w the mean depth is ln n / ln w. Every
//! directory draws a depth D and a width W around these means. One below level D holds W files; any other
//! holds W directories; the root (level 1) goes on until there are enough files. So files stand in leaf
//! directories only, never in the root, and a width above the number of files makes one directory of them
//! all. Entries are numbered in the order of construction, which is the order in which the rotors of
//! [`super::pick`] meet them.
//!
//! Names are decimal numbers of eight digits, counted from 1 in each directory, so a path follows from
//! indices and no string is kept. Where Filebench would give a file and an empty directory of one directory
//! the same name, Weir numbers on.
//!
//! ```text
//! path/name            root, level 1
//! ├── 00000001         level 2
//! │   ├── 00000001     level 3, a leaf: files 0, 1, 2 …
//! │   └── 00000002     …
//! └── 00000002
//! ```

use sim::math;
use std::fmt;

use rand::Rng;
use thiserror::Error;

use crate::filebench::distribution::{Distribution, Kind};
use crate::filebench::program::{Amount, Fileset};

/// The most files or empty directories of a fileset: as many as eight digits can name.
pub(crate) const MAX_FILES: u64 = 99_999_999;

/// The most directories on a path: more do not fit into the 4096 bytes that a path may have.
const MAX_LEVELS: u32 = 400;

/// An entry of a fileset, numbered within its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// A file.
    File(u32),
    /// An empty directory that can be made and removed.
    LeafDirectory(u32),
    /// A directory of the tree; 0 is the root.
    Directory(u32),
}

/// A fileset whose shape cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// More entries than names.
    #[error("{0} entries, but names of eight digits end at {MAX_FILES}; lower entries or leafdirs")]
    TooMany(u64),
    /// Directories nest too deep for a path.
    #[error("directories nest deeper than {MAX_LEVELS} levels; raise dirwidth or lower dirdepthrv")]
    TooDeep,
    /// More directories than the tree can number.
    #[error("the tree needs more than {MAX_FILES} directories; raise dirwidth")]
    TooManyDirectories,
}

/// A directory; its own files and empty directories are consecutive.
#[derive(Clone, Copy, Debug)]
struct Directory {
    parent: u32,
    serial: u32,
    first_file: u32,
    first_leafdir: u32,
    /// The serial of the first empty directory, after those of the files.
    leafdir_serial: u32,
}

/// The shape of a fileset.
#[derive(Clone, Debug)]
pub struct Tree {
    base: String,
    directories: Vec<Directory>,
    /// The directory of each file.
    files: Vec<u32>,
    /// The directory of each empty directory.
    leafdirs: Vec<u32>,
    sizes: Sizes,
    levels: u32,
    mean_width: f64,
    mean_depth: f64,
}

#[derive(Clone, Debug)]
enum Sizes {
    Same(u64),
    Each(Vec<u64>),
}

/// What Filebench reports of a fileset that it has built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of files.
    pub files: u64,
    /// The mean width that was asked for.
    pub mean_width: f64,
    /// The mean depth that follows from it.
    pub mean_depth: f64,
    /// Number of empty directories.
    pub leafdirs: u64,
    /// Nominal size of all files together, in bytes.
    pub bytes: u64,
}

impl fmt::Display for Summary {
    /// As Filebench says it, without the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, leafdirs) = (self.files, self.leafdirs);
        let (width, depth) = (self.mean_width, self.mean_depth);
        let megabytes = self.bytes as f64 / 1_048_576.0;
        write!(f, "{files} files, avg. dir. width = {width:.0}, avg. dir. depth = {depth:.1}, ")?;
        write!(f, "{leafdirs} leafdirs, {megabytes:.3} MB total size")
    }
}

impl Tree {
    /// Draws the shape of `fileset`, then the sizes of its files.
    pub fn build<R: Rng + ?Sized>(fileset: &Fileset, rng: &mut R) -> Result<Self, TreeError> {
        let entries = count(&fileset.entries, rng)?;
        let leafdirs = count(&fileset.leafdirs, rng)?;
        let mut builder = Builder::new(fileset, entries, leafdirs);
        builder.grow(rng)?;
        let mut tree = builder.tree;
        if let Amount::Drawn(distribution) = &fileset.size {
            tree.sizes = Sizes::Each((0..entries).map(|_| distribution.sample_u64(rng)).collect());
        }
        Ok(tree)
    }

    /// Number of files.
    pub fn files(&self) -> u32 {
        self.files.len() as u32
    }

    /// Number of empty directories.
    pub(crate) fn leaf_directories(&self) -> u32 {
        self.leafdirs.len() as u32
    }

    /// Number of directories of the tree, the root included. A parent always has a lower number than its
    /// children.
    pub fn directories(&self) -> u32 {
        self.directories.len() as u32
    }

    /// The nominal size of a file, in bytes.
    pub fn size_of(&self, file: u32) -> u64 {
        match &self.sizes {
            Sizes::Same(size) => *size,
            Sizes::Each(sizes) => sizes[file as usize],
        }
    }

    /// The number of the directory that holds `entry`; none for the root.
    pub fn parent(&self, entry: Entry) -> Option<u32> {
        match entry {
            Entry::File(index) => Some(self.files[index as usize]),
            Entry::LeafDirectory(index) => Some(self.leafdirs[index as usize]),
            Entry::Directory(0) => None,
            Entry::Directory(index) => Some(self.directories[index as usize].parent),
        }
    }

    /// Writes the path of `entry` into `path`, which is overwritten.
    ///
    /// Nothing is allocated when `path` has room for `Self::longest_path` bytes.
    pub fn path_of(&self, entry: Entry, path: &mut String) {
        path.clear();
        path.push_str(&self.base);
        match entry {
            Entry::Directory(index) => self.push_directory(index, path),
            Entry::File(index) => {
                let home = self.files[index as usize];
                self.push_directory(home, path);
                push_serial(path, index - self.directories[home as usize].first_file + 1);
            }
            Entry::LeafDirectory(index) => {
                let home = self.leafdirs[index as usize];
                self.push_directory(home, path);
                let directory = &self.directories[home as usize];
                push_serial(path, directory.leafdir_serial + (index - directory.first_leafdir));
            }
        }
    }

    fn push_directory(&self, index: u32, path: &mut String) {
        if index > 0 {
            let directory = &self.directories[index as usize];
            self.push_directory(directory.parent, path);
            push_serial(path, directory.serial);
        }
    }

    /// An upper bound of the length of any path, in bytes.
    pub(crate) fn longest_path(&self) -> usize {
        self.base.len() + (self.levels as usize + 1) * 9
    }

    /// What Filebench reports of the fileset.
    pub fn summary(&self) -> Summary {
        let bytes = match &self.sizes {
            Sizes::Same(size) => size.saturating_mul(u64::from(self.files())),
            Sizes::Each(sizes) => sizes.iter().sum(),
        };
        Summary {
            files: u64::from(self.files()),
            mean_width: self.mean_width,
            mean_depth: self.mean_depth,
            leafdirs: u64::from(self.leaf_directories()),
            bytes,
        }
    }

    /// Memory that the tree takes, in bytes.
    pub fn memory(&self) -> usize {
        let sizes = match &self.sizes {
            Sizes::Same(_) => 0,
            Sizes::Each(sizes) => sizes.len() * size_of::<u64>(),
        };
        let homes = (self.files.len() + self.leafdirs.len()) * size_of::<u32>();
        self.directories.len() * size_of::<Directory>() + homes + sizes
    }
}

/// `/` and eight digits.
fn push_serial(path: &mut String, serial: u32) {
    let mut text = *b"/00000000";
    let mut left = serial;
    for digit in text[1..].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    path.push_str(std::str::from_utf8(&text).expect("digits are ASCII"));
}

fn count<R: Rng + ?Sized>(amount: &Amount, rng: &mut R) -> Result<u32, TreeError> {
    let entries = amount.draw(rng);
    if entries > MAX_FILES { Err(TreeError::TooMany(entries)) } else { Ok(entries as u32) }
}

/// A number that is always the same, or drawn for each directory.
enum Around {
    Exactly(f64),
    Drawn(Distribution),
    Given(Amount),
}

impl Around {
    fn new(mean: f64, gamma: f64) -> Self {
        let kind = Kind::Gamma { shape: gamma, mean, offset: 0.0 };
        Distribution::new(kind).map_or(Self::Exactly(mean), Self::Drawn)
    }

    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match self {
            Self::Exactly(mean) => *mean,
            Self::Drawn(distribution) => distribution.sample(rng),
            Self::Given(amount) => amount.draw_f64(rng),
        }
    }
}

/// A directory that is being filled.
struct Frame {
    directory: u32,
    level: u32,
    leaf: bool,
    /// How many entries it takes of each kind; the root takes all.
    width: u64,
    /// How many it has taken of the present kind.
    taken: u64,
    next_serial: u32,
    filling: Filling,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Filling {
    Files,
    LeafDirectories,
}

struct Builder {
    tree: Tree,
    entries: u32,
    leafdirs: u32,
    width: Around,
    depth: Around,
}

impl Builder {
    fn new(fileset: &Fileset, entries: u32, leafdirs: u32) -> Self {
        let mean_width = fileset.dirwidth.mean().floor();
        let total = f64::from(entries) + f64::from(leafdirs);
        let mean_depth = (math::ln(total) / math::ln(mean_width)).max(0.0);
        let width = match &fileset.dirwidth {
            Amount::Fixed(_) => Around::new(mean_width, fileset.dirgamma),
            drawn @ Amount::Drawn(_) => Around::Given(drawn.clone()),
        };
        let depth = match &fileset.dirdepth {
            Some(depth) => Around::Given(depth.clone()),
            None => Around::new(mean_depth, fileset.dirgamma),
        };
        let tree = Tree {
            base: format!("{}/{}", fileset.path, fileset.name),
            directories: Vec::new(),
            files: Vec::with_capacity(entries as usize),
            leafdirs: Vec::with_capacity(leafdirs as usize),
            sizes: Sizes::Same(fileset.size.fixed().unwrap_or(0)),
            levels: 1,
            mean_width,
            mean_depth,
        };
        Self { tree, entries, leafdirs, width, depth }
    }

    /// Depth first, as Filebench's recursion, with the stack on the heap.
    fn grow<R: Rng + ?Sized>(&mut self, rng: &mut R) -> Result<(), TreeError> {
        let mut stack = vec![self.directory(None, rng)?];
        while let Some(frame) = stack.last_mut() {
            if self.is_complete(frame) {
                if frame.filling == Filling::Files {
                    (frame.filling, frame.taken) = (Filling::LeafDirectories, 0);
                    let directory = &mut self.tree.directories[frame.directory as usize];
                    directory.first_leafdir = self.tree.leafdirs.len() as u32;
                    directory.leafdir_serial = frame.next_serial;
                } else {
                    stack.pop();
                }
                continue;
            }
            frame.taken += 1;
            if frame.leaf {
                frame.next_serial += 1;
                self.homes(frame.filling).push(frame.directory);
            } else {
                let serial = frame.next_serial;
                frame.next_serial += 1;
                let parent = (frame.directory, frame.level, serial);
                stack.push(self.directory(Some(parent), rng)?);
            }
        }
        Ok(())
    }

    fn is_complete(&self, frame: &Frame) -> bool {
        let enough = match frame.filling {
            Filling::Files => self.tree.files.len() as u32 >= self.entries,
            Filling::LeafDirectories => self.tree.leafdirs.len() as u32 >= self.leafdirs,
        };
        enough || (frame.level > 1 && frame.taken >= frame.width)
    }

    fn homes(&mut self, filling: Filling) -> &mut Vec<u32> {
        match filling {
            Filling::Files => &mut self.tree.files,
            Filling::LeafDirectories => &mut self.tree.leafdirs,
        }
    }

    /// Adds a directory below `parent` (its number and level, the serial in it), or the root.
    fn directory<R: Rng + ?Sized>(
        &mut self,
        parent: Option<(u32, u32, u32)>,
        rng: &mut R,
    ) -> Result<Frame, TreeError> {
        let (parent, level, serial) =
            parent.map_or((0, 1, 0), |(parent, level, serial)| (parent, level + 1, serial));
        if level > MAX_LEVELS {
            return Err(TreeError::TooDeep);
        }
        let directory = self.tree.directories.len() as u32;
        if u64::from(directory) > MAX_FILES {
            return Err(TreeError::TooManyDirectories);
        }
        let depth = self.depth.draw(rng).floor().max(1.0);
        let width = self.width.draw(rng).ceil().max(1.0);
        let first_file = self.tree.files.len() as u32;
        let first_leafdir = self.tree.leafdirs.len() as u32;
        self.tree.directories.push(Directory {
            parent,
            serial,
            first_file,
            first_leafdir,
            leafdir_serial: 1,
        });
        self.tree.levels = self.tree.levels.max(level);
        let leaf = level > 1 && f64::from(level) >= depth;
        Ok(Frame {
            directory,
            level,
            leaf,
            width: width as u64,
            taken: 0,
            next_serial: 1,
            filling: Filling::Files,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::filebench::span::Span;

    fn fileset(entries: u64, dirwidth: u64) -> Fileset {
        Fileset {
            name: "set".into(),
            path: "/tmp".into(),
            entries: Amount::Fixed(entries),
            leafdirs: Amount::Fixed(0),
            dirwidth: Amount::Fixed(dirwidth),
            dirdepth: None,
            dirgamma: 1.5,
            size: Amount::Fixed(1024),
            prealloc_percent: 0,
            paralloc: false,
            reuse: false,
            trusttree: false,
            readonly: false,
            writeonly: false,
            span: Span::default(),
        }
    }

    fn build(fileset: &Fileset) -> Tree {
        Tree::build(fileset, &mut Xoshiro256PlusPlus::seed_from_u64(42)).unwrap()
    }

    fn path(tree: &Tree, entry: Entry) -> String {
        let mut path = String::new();
        tree.path_of(entry, &mut path);
        path
    }

    #[test]
    fn every_file_has_a_path_of_its_own_below_the_root_directory() {
        let tree = build(&fileset(10_000, 20));
        let mut paths = BTreeSet::new();
        for file in 0..tree.files() {
            let path = path(&tree, Entry::File(file));
            assert!(path.starts_with("/tmp/set/"), "{path}");
            assert!(path.matches('/').count() >= 4, "{path} stands in the root");
            assert!(path.len() <= tree.longest_path());
            paths.insert(path);
        }
        for directory in 0..tree.directories() {
            paths.insert(path(&tree, Entry::Directory(directory)));
        }
        assert_eq!(paths.len(), 10_000 + tree.directories() as usize);
    }

    #[test]
    fn parents_come_before_their_children_and_hold_their_paths() {
        let tree = build(&fileset(3_000, 5));
        for directory in 1..tree.directories() {
            let parent = tree.parent(Entry::Directory(directory)).unwrap();
            assert!(parent < directory);
            let (inner, outer) =
                (path(&tree, Entry::Directory(directory)), path(&tree, Entry::Directory(parent)));
            assert_eq!(inner.rsplit_once('/').unwrap().0, outer);
        }
    }

    #[test]
    fn without_gamma_the_tree_has_exactly_the_mean_width_and_depth() {
        let mut fileset = fileset(400, 20);
        fileset.dirgamma = 0.0;
        let tree = build(&fileset);
        // ln 400 / ln 20 = 2: level 2 is a leaf of 20 files
        assert_eq!(tree.directories(), 21);
        assert_eq!(path(&tree, Entry::File(0)), "/tmp/set/00000001/00000001");
        assert_eq!(path(&tree, Entry::File(399)), "/tmp/set/00000020/00000020");
    }

    #[test]
    fn a_huge_width_makes_one_directory_of_all_files() {
        let tree = build(&fileset(10_000, 1_000_000));
        assert_eq!(tree.directories(), 2);
        assert_eq!(path(&tree, Entry::File(9_999)), "/tmp/set/00000001/00010000");
    }

    #[test]
    fn a_single_file_stands_in_the_first_directory() {
        let mut single = fileset(1, 10);
        single.dirgamma = 0.0;
        assert_eq!(path(&build(&single), Entry::File(0)), "/tmp/set/00000001/00000001");
    }

    #[test]
    fn mean_directory_width_is_near_the_asked_one() {
        let tree = build(&fileset(100_000, 20));
        let leaves: BTreeSet<u32> =
            (0..tree.files()).map(|file| tree.parent(Entry::File(file)).unwrap()).collect();
        let width = 100_000.0 / leaves.len() as f64;
        assert!((15.0..26.0).contains(&width), "{width}");
    }

    #[test]
    fn empty_directories_are_leaves_with_names_of_their_own() {
        let mut both = fileset(500, 10);
        both.leafdirs = Amount::Fixed(300);
        let tree = build(&both);
        assert_eq!((tree.files(), tree.leaf_directories()), (500, 300));
        let mut paths: Vec<String> = (0..500).map(|file| path(&tree, Entry::File(file))).collect();
        paths.extend((0..300).map(|leaf| path(&tree, Entry::LeafDirectory(leaf))));
        paths.extend((0..tree.directories()).map(|directory| path(&tree, Entry::Directory(directory))));
        let distinct: BTreeSet<&String> = paths.iter().collect();
        assert_eq!(distinct.len(), paths.len());
    }

    #[test]
    fn sizes_are_drawn_once_and_do_not_change_the_shape() {
        let plain = build(&fileset(1_000, 20));
        let mut drawn = fileset(1_000, 20);
        let kind = Kind::Gamma { shape: 1.5, mean: 131_072.0, offset: 0.0 };
        drawn.size = Amount::Drawn(Arc::new(Distribution::new(kind).unwrap()));
        let tree = build(&drawn);
        assert_eq!(path(&plain, Entry::File(777)), path(&tree, Entry::File(777)));
        let mean = tree.summary().bytes as f64 / 1_000.0;
        assert!((mean - 131_072.0).abs() < 15_000.0, "{mean}");
        assert_eq!(tree.size_of(5), tree.size_of(5));
    }

    #[test]
    fn a_fileset_of_five_gigabytes_takes_a_few_bytes_a_file() {
        let kind = Kind::Gamma { shape: 1.5, mean: 16_384.0, offset: 0.0 };
        let mut big = fileset(327_680, 20);
        big.size = Amount::Drawn(Arc::new(Distribution::new(kind).unwrap()));
        let tree = build(&big);
        let bytes = tree.memory() as f64 / 327_680.0;
        assert!(bytes < 20.0, "{bytes}");
    }

    #[test]
    fn the_summary_is_worded_like_filebench() {
        assert_eq!(
            build(&fileset(10_000, 20)).summary().to_string(),
            "10000 files, avg. dir. width = 20, avg. dir. depth = 3.1, 0 leafdirs, 9.766 MB total size"
        );
    }

    #[test]
    fn paths_are_written_without_allocation() {
        let tree = build(&fileset(10_000, 20));
        let mut path = String::with_capacity(tree.longest_path());
        let (start, room) = (path.as_ptr(), path.capacity());
        for file in 0..tree.files() {
            tree.path_of(Entry::File(file), &mut path);
        }
        assert_eq!((path.as_ptr(), path.capacity()), (start, room));
    }

    #[test]
    fn same_seed_builds_the_same_tree() {
        let (one, two) = (build(&fileset(5_000, 20)), build(&fileset(5_000, 20)));
        assert_eq!(one.directories(), two.directories());
        assert_eq!(path(&one, Entry::File(4_999)), path(&two, Entry::File(4_999)));
    }

    #[test]
    fn a_depth_that_never_ends_is_an_error_and_not_a_crash() {
        let mut deep = fileset(10, 2);
        deep.dirdepth = Some(Amount::Fixed(1_000_000));
        let error = Tree::build(&deep, &mut Xoshiro256PlusPlus::seed_from_u64(1)).unwrap_err();
        assert_eq!(error, TreeError::TooDeep);
    }
}
