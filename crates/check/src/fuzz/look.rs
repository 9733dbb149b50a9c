//! Reads everything in a mounted design whose image may hold anything, within a bound.

use std::collections::BTreeSet;

use vfs::{Errno, FileKind, FileSystem, Ino, IoFlags, SeekTo};

/// Names that are looked at.
const NAMES_MAX: usize = 1_000;
/// Bytes of a file that are read, at its start and at its end.
const READ: usize = 16_384;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Calls that failed: their names and errors.
    pub(super) errors: BTreeSet<(&'static str, &'static str)>,
    pub(super) inos: BTreeSet<Ino>,
    names: usize,
}

impl Seen {
    fn note<T>(&mut self, call: &'static str, done: Result<T, Errno>) -> Option<T> {
        done.map_err(|errno| self.errors.insert((call, errno.name()))).ok()
    }
}

/// Lists, looks up and reads what can be reached from the root, each inode once.
pub(super) fn look(fs: &dyn FileSystem) -> Seen {
    let mut seen = Seen::default();
    let mut left = vec![fs.root()];
    while let Some(ino) = left.pop() {
        if seen.names >= NAMES_MAX || !seen.inos.insert(ino) {
            continue;
        }
        let Some(attr) = seen.note("getattr", fs.getattr(ino)) else { continue };
        match attr.kind {
            FileKind::Directory => left.extend(list(fs, &mut seen, ino)),
            FileKind::Symlink => drop(seen.note("readlink", fs.readlink(ino))),
            FileKind::Regular => read(fs, &mut seen, ino, attr.size),
            _ => {}
        }
        let names = seen.note("listxattr", fs.listxattr(ino).or_else(not_there)).unwrap_or_default();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            seen.note("getxattr", fs.getxattr(ino, name));
        }
    }
    seen
}

/// A design may leave calls out.
fn not_there(errno: Errno) -> Result<Vec<u8>, Errno> {
    if errno == Errno::EOPNOTSUPP { Ok(Vec::new()) } else { Err(errno) }
}

fn list(fs: &dyn FileSystem, seen: &mut Seen, dir: Ino) -> Vec<Ino> {
    let (mut names, most) = (Vec::new(), NAMES_MAX - seen.names);
    let listed = fs.readdir(dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        names.len() < most
    });
    seen.note("readdir", listed);
    seen.names += names.len();
    names.retain(|name| name != b"." && name != b"..");
    names.iter().filter_map(|name| Some(seen.note("lookup", fs.lookup(dir, name))?.ino)).collect()
}

fn read(fs: &dyn FileSystem, seen: &mut Seen, ino: Ino, size: u64) {
    let mut buffer = vec![0; READ];
    seen.note("read", fs.read(ino, 0, &mut buffer, IoFlags::empty()));
    seen.note("read", fs.read(ino, size.saturating_sub(READ as u64), &mut buffer, IoFlags::empty()));
    for to in [SeekTo::Data, SeekTo::Hole] {
        let found = fs.seek(ino, 0, to);
        seen.note("seek", if found == Err(Errno::ENXIO) { Ok(0) } else { found });
    }
}
