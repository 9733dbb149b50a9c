//! The tree of a copy after the program has ended, beside that which the trace says it has left: names, kinds, sizes, links.

use std::collections::BTreeMap;

use trace::record::Kind;
use vfs::{DirEntry, Errno, FileKind, OpenFlags, Syscalls};

use super::copy::Copy;
use super::load::Loaded;

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    File(u64),
    Directory,
    Symlink(Option<Vec<u8>>),
    Other(FileKind),
}

type Tree = BTreeMap<Vec<u8>, Found>;

/// Says what differs, the first few names.
pub(super) fn compare(loaded: &Loaded, copy: &Copy, calls: &dyn Syscalls) -> Result<(), String> {
    let wanted: Tree = loaded.program.last.iter().map(|entry| (entry.path.to_vec(), of(entry))).collect();
    let found = walk(calls, copy.root.as_bytes())
        .map_err(|(path, errno)| format!("looking at {}: {errno}", path.escape_ascii()))?;
    let mut differing = Vec::new();
    for (path, what) in &wanted {
        match found.get(path) {
            Some(other) if is_same(what, other) => {}
            Some(other) => differing.push(format!("{} is {other:?}, not {what:?}", path.escape_ascii())),
            None => differing.push(format!("{} is missing", path.escape_ascii())),
        }
    }
    let more = found.keys().filter(|path| !wanted.contains_key(*path));
    differing.extend(more.map(|path| format!("{} should not be there", path.escape_ascii())));
    match differing.len() {
        0 => Ok(()),
        count => {
            differing.truncate(5);
            Err(format!(
                "the tree differs from that of the program in {count} names: {}",
                differing.join("; ")
            ))
        }
    }
}

/// What a link contains, a trace may not say.
fn is_same(wanted: &Found, found: &Found) -> bool {
    matches!((wanted, found), (Found::Symlink(None), Found::Symlink(_))) || wanted == found
}

fn of(entry: &trace::record::Entry) -> Found {
    match entry.kind {
        Kind::File => Found::File(entry.size),
        Kind::Directory => Found::Directory,
        Kind::Symlink => Found::Symlink(entry.target.as_ref().map(|target| target.to_vec())),
        Kind::Socket => Found::Other(FileKind::Socket),
        Kind::Fifo | Kind::Character | Kind::Block => Found::Other(FileKind::Fifo),
    }
}

fn walk(calls: &dyn Syscalls, root: &[u8]) -> Result<Tree, (Vec<u8>, Errno)> {
    let (mut tree, mut open) = (Tree::new(), vec![Vec::new()]);
    while let Some(directory) = open.pop() {
        let full = [root, b"/", &directory].concat();
        for name in names(calls, &full).map_err(|errno| (full.clone(), errno))? {
            let path = if directory.is_empty() { name } else { [&directory, &b"/"[..], &name].concat() };
            let full = [root, b"/", &path].concat();
            let what = look(calls, &full).map_err(|errno| (full.clone(), errno))?;
            if what == Found::Directory {
                open.push(path.clone());
            }
            tree.insert(path, what);
        }
    }
    Ok(tree)
}

fn look(calls: &dyn Syscalls, path: &[u8]) -> Result<Found, Errno> {
    let attr = calls.lstat(path)?;
    Ok(match attr.kind {
        FileKind::Regular => Found::File(attr.size),
        FileKind::Directory => Found::Directory,
        FileKind::Symlink => Found::Symlink(Some(calls.readlink(path)?)),
        // What stands for a device is a FIFO, but for one that the program has made.
        FileKind::CharDevice | FileKind::BlockDevice => Found::Other(FileKind::Fifo),
        kind => Found::Other(kind),
    })
}

fn names(calls: &dyn Syscalls, path: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
    let fd = calls.open(path, OpenFlags::READ | OpenFlags::DIRECTORY, 0)?;
    let mut names = Vec::new();
    let read = calls.getdents(fd, &mut |entry: DirEntry<'_>| {
        if entry.name != b"." && entry.name != b".." {
            names.push(entry.name.to_vec());
        }
        true
    });
    calls.close(fd)?;
    read.map(|()| names)
}
