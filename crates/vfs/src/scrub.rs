//! Reading everything that a mounted file system holds, so that damage is found before it is needed.
//!
//! Names, attributes, the targets of links and the contents of files are read once; a file with several names under the first that
//! is found. Contents are read from the medium and compared with checksums as far as the design has some
//! ([`FileSystem::verify`]). Other calls may be made meanwhile: what is removed before it is read is left out.

use std::collections::BTreeSet;

use crate::attr::{Attr, FileKind, Ino};
use crate::errno::{Errno, Result};
use crate::file_system::FileSystem;
use crate::flags::SeekTo;

/// Bytes of a file that are read at a time, and those to which damage is narrowed down.
const PIECE: u64 = 1 << 20;
const LEAST: u64 = 4096;

/// What cannot be read, or is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Path from the root, with a slash before each name.
    pub path: Vec<u8>,
    /// Bytes of the contents: the first, and how many. None: the inode, or the names in a directory.
    pub range: Option<(u64, u64)>,
    /// What the design said.
    pub errno: Errno,
}

/// What a scrub has read and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Inodes of all kinds.
    pub inodes: u64,
    /// Bytes of contents that were read.
    pub read: u64,
    /// Of these, bytes that were compared with checksums.
    pub compared: u64,
    /// Damage, in the order of reading.
    pub damaged: Vec<Damaged>,
}

/// Reads everything below the root. `progress` is called with what was done so far after each inode, and within large files.
pub fn scrub(fs: &dyn FileSystem, progress: &mut dyn FnMut(&Scrubbed)) -> Scrubbed {
    // What is not dropped was read from the medium, or is written to it later.
    let _ = fs.drop_caches();
    let mut scrub = Scrub { fs, done: Scrubbed::default(), linked: BTreeSet::new(), progress };
    let mut directories = vec![(fs.root(), Vec::new())];
    while let Some((directory, path)) = directories.pop() {
        scrub.done.inodes += u64::from(path.is_empty());
        for name in scrub.names(directory, &path) {
            let below = [&path[..], b"/", &name].concat();
            match fs.lookup(directory, &name) {
                Ok(attr) if attr.kind == FileKind::Directory => {
                    scrub.done.inodes += 1;
                    scrub.note(&below, None, scrub_attributes(fs, &attr));
                    directories.push((attr.ino, below));
                }
                Ok(attr) => scrub.inode(&attr, &below),
                Err(errno) => scrub.note(&below, None, Err(errno)),
            }
        }
    }
    scrub.done
}

/// Extended attributes, and the target of a link.
fn scrub_attributes(fs: &dyn FileSystem, attr: &Attr) -> Result<()> {
    if attr.kind == FileKind::Symlink {
        fs.readlink(attr.ino)?;
    }
    let names = match fs.listxattr(attr.ino) {
        Err(Errno::EOPNOTSUPP) => return Ok(()),
        names => names?,
    };
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        match fs.getxattr(attr.ino, name) {
            Err(Errno::ENODATA) | Ok(_) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

struct Scrub<'a> {
    fs: &'a dyn FileSystem,
    done: Scrubbed,
    /// Inodes with several names that were read.
    linked: BTreeSet<Ino>,
    progress: &'a mut dyn FnMut(&Scrubbed),
}

impl Scrub<'_> {
    fn names(&mut self, directory: Ino, path: &[u8]) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        let listed = self.fs.readdir(directory, 0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                names.push(entry.name.to_vec());
            }
            true
        });
        self.note(path, None, listed);
        names
    }

    /// Notes an error; what was removed meanwhile is none.
    fn note(&mut self, path: &[u8], range: Option<(u64, u64)>, came: Result<()>) {
        let Err(errno) = came else { return };
        if errno == Errno::ENOENT {
            return;
        }
        if let (Some((start, len)), Some(last)) = (range, self.done.damaged.last_mut())
            && last.path == path
            && last.errno == errno
            && let Some((first, before)) = &mut last.range
            && *first + *before == start
        {
            *before += len;
            return;
        }
        self.done.damaged.push(Damaged { path: path.to_vec(), range, errno });
    }

    fn inode(&mut self, attr: &Attr, path: &[u8]) {
        if attr.nlink > 1 && !self.linked.insert(attr.ino) {
            return;
        }
        self.done.inodes += 1;
        let attributes = scrub_attributes(self.fs, attr);
        self.note(path, None, attributes);
        if attr.kind == FileKind::Regular {
            self.contents(attr, path);
        }
        (self.progress)(&self.done);
    }

    fn contents(&mut self, attr: &Attr, path: &[u8]) {
        let mut at = 0;
        while at < attr.size {
            // Holes have no bytes on the medium; where the design cannot tell them, all is data.
            let start = match self.fs.seek(attr.ino, at, SeekTo::Data) {
                Err(Errno::ENXIO) => return,
                found => found.unwrap_or(at),
            };
            let end = self.fs.seek(attr.ino, start, SeekTo::Hole).unwrap_or(attr.size).max(start + 1);
            let end = end.min(attr.size);
            at = start;
            while at < end {
                let piece = PIECE.min(end - at);
                self.piece(attr.ino, path, at, piece);
                at += piece;
                if at < end {
                    (self.progress)(&self.done);
                }
            }
        }
    }

    /// Reads a piece; where that fails, block by block.
    fn piece(&mut self, ino: Ino, path: &[u8], at: u64, len: u64) {
        match self.fs.verify(ino, at, len) {
            Ok(verified) => {
                self.done.read += verified.read;
                self.done.compared += verified.compared;
            }
            Err(errno) if len <= LEAST => self.note(path, Some((at, len)), Err(errno)),
            Err(_) => {
                let end = at + len;
                let mut block = at;
                while block < end {
                    let next = (block / LEAST + 1) * LEAST;
                    self.piece(ino, path, block, next.min(end) - block);
                    block = next;
                }
            }
        }
    }
}
