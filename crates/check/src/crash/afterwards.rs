//! What a recovered file system must still do: every object can be used and removed, and all blocks become free.

use std::collections::BTreeMap;

use vfs::{Errno, FileKind, FileSystem, Ino, IoFlags, SetAttr};

use crate::names;
use crate::op::{NEW, find, split};
use crate::tree::Tree;

/// Creates and deletes a file in every directory, extends every file, then removes everything. Returns how many blocks are free
/// afterwards.
pub(crate) fn use_everything(fs: &dyn FileSystem, tree: &Tree) -> Result<u64, String> {
    let inos: BTreeMap<&str, Ino> = tree
        .keys()
        .map(|path| {
            let ino = find(fs, path).map_err(|errno| format!("\"{path}\": {}", errno.name()))?;
            Ok((path.as_str(), ino))
        })
        .collect::<Result<_, String>>()?;
    for (path, entry) in tree {
        let ino = inos[path.as_str()];
        let failed = |errno: Errno| format!("\"{path}\" cannot be used: {}", errno.name());
        if entry.kind == FileKind::Directory {
            fs.create(ino, b"usable?", &NEW).map_err(failed)?;
            fs.unlink(ino, b"usable?").map_err(failed)?;
        } else if entry.kind == FileKind::Regular {
            let size = entry.content.len() as u64;
            check_extension(fs, ino, size).map_err(|what| format!("\"{path}\": {what}"))?;
        }
    }
    for (path, entry) in tree.iter().rev().filter(|(path, _)| !path.is_empty()) {
        let (dir, name) = split(path);
        let remove = if entry.kind == FileKind::Directory { FileSystem::rmdir } else { FileSystem::unlink };
        remove(fs, inos[dir], &names::bytes(name))
            .map_err(|errno| format!("\"{path}\" cannot be removed: {}", errno.name()))?;
    }
    fs.statfs().map(|space| space.blocks_free).map_err(|errno| format!("statfs: {}", errno.name()))
}

/// Extending a file shows zeros.
fn check_extension(fs: &dyn FileSystem, ino: Ino, size: u64) -> Result<(), String> {
    let set = SetAttr { size: Some(size + 9000), ..SetAttr::default() };
    fs.setattr(ino, &set).map_err(|errno| format!("extend: {}", errno.name()))?;
    let mut bytes = vec![0xEE; 9000];
    let read = fs.read(ino, size, &mut bytes, IoFlags::empty());
    match read.map_err(|errno| format!("read: {}", errno.name()))? {
        9000 if bytes == [0; 9000] => Ok(()),
        _ => Err("an extension shows stale bytes".to_owned()),
    }
}
