//! What a user sees, and the calls' effect on it: the state with which an image is compared.

use std::collections::BTreeMap;

use fs::crest::format::layout::ROOT_INO;

use super::image::CELLS;

/// All that a user sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub names: BTreeMap<(u64, u8), u64>,
    pub files: BTreeMap<u64, File>,
}

/// An inode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct File {
    pub mode: u16,
    pub uid: u32,
    pub links: u32,
    pub cells: Vec<u32>,
    pub atime: u64,
    pub mtime: u64,
    pub ctime: u64,
    pub born: u64,
    pub target: Vec<u8>,
    pub xattr: Option<u8>,
}

impl View {
    pub(crate) fn new(time: u64) -> Self {
        let root = File { mode: 0o40_755, ..File::born(time) };
        Self { names: BTreeMap::new(), files: BTreeMap::from([(ROOT_INO, root)]) }
    }

    pub(crate) fn file(&mut self, ino: u64) -> &mut File {
        self.files.get_mut(&ino).expect("a call changes inodes that live")
    }

    /// The directory's times change.
    pub(crate) fn touch(&mut self, dir: u64, time: u64) {
        let dir = self.file(dir);
        (dir.mtime, dir.ctime) = (time, time);
    }

    pub(crate) fn add(&mut self, key: (u64, u8), ino: u64, time: u64) {
        self.names.insert(key, ino);
        self.file(ino).links += 1;
        self.file(ino).ctime = time;
        self.touch(key.0, time);
    }

    pub(crate) fn remove(&mut self, key: (u64, u8), time: u64) {
        let ino = self.names.remove(&key).expect("a call removes names that are there");
        self.file(ino).links -= 1;
        self.file(ino).ctime = time;
        self.touch(key.0, time);
        if self.file(ino).links == 0 {
            self.files.remove(&ino);
        }
    }
}

impl File {
    pub(crate) fn born(time: u64) -> Self {
        Self { atime: time, mtime: time, ctime: time, born: time, ..Self::default() }
    }

    pub(crate) fn changed(&mut self, time: u64) {
        (self.mtime, self.ctime) = (time, time);
    }

    pub(crate) fn write(&mut self, cell: usize, values: &[u32], time: u64) {
        let end = self.cells.len().max(cell + values.len());
        self.cells.resize(end, 0);
        self.cells[cell..cell + values.len()].copy_from_slice(values);
        self.changed(time);
    }

    pub(crate) fn punch(&mut self, block: usize, time: u64) {
        let end = self.cells.len();
        let cells = (block * CELLS).min(end)..((block + 1) * CELLS).min(end);
        self.cells[cells].fill(0);
        self.changed(time);
    }
}
