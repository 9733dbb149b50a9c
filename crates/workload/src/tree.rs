//! Trees of directories through system calls, for preparing, checking and clearing up.

use std::collections::BTreeMap;

use vfs::{DirEntry, Errno, FileKind, OpenFlags, Syscalls};

/// A call that failed, on which path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} of {path}: {errno}")]
pub(crate) struct CallFailed {
    pub(crate) call: &'static str,
    pub(crate) path: String,
    pub(crate) errno: Errno,
}

impl CallFailed {
    /// What turns the error of `call` on `path` into this.
    pub(crate) fn of(call: &'static str, path: &str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self { call, path: path.to_owned(), errno }
    }
}

/// The longest piece of [`write_text`].
const TEXT: usize = 64 << 10;

/// Makes a file of `size` bytes of text, written in pieces of `piece` bytes, 64 KiB at most.
pub(crate) fn write_text(
    calls: &dyn Syscalls,
    path: &str,
    size: u64,
    piece: usize,
) -> Result<(), CallFailed> {
    static BYTES: [u8; TEXT] = [b'x'; TEXT];
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
    let fd = calls.open(path.as_bytes(), flags, 0o644).map_err(CallFailed::of("open", path))?;
    let mut left = size as usize;
    while left > 0 {
        let wrote = calls.write(fd, &BYTES[..left.min(piece)]).map_err(CallFailed::of("write", path))?;
        if wrote == 0 {
            return Err(CallFailed::of("write", path)(Errno::EIO));
        }
        left -= wrote.min(left);
    }
    calls.close(fd).map_err(CallFailed::of("close", path))
}

/// Removes a directory and everything below it.
pub(crate) fn remove(calls: &dyn Syscalls, root: &str) -> Result<(), CallFailed> {
    let mut pending = vec![(root.to_owned(), false)];
    while let Some((path, emptied)) = pending.pop() {
        if emptied {
            calls.rmdir(path.as_bytes()).map_err(CallFailed::of("rmdir", &path))?;
            continue;
        }
        let names = names_in(calls, &path).map_err(CallFailed::of("readdir", &path))?;
        pending.push((path.clone(), true));
        for (name, is_directory) in names {
            let inner = format!("{path}/{name}");
            if is_directory {
                pending.push((inner, false));
            } else {
                calls.unlink(inner.as_bytes()).map_err(CallFailed::of("unlink", &inner))?;
            }
        }
    }
    Ok(())
}

/// Every file with its size, and every directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left(BTreeMap<String, Option<u64>>);

impl Left {
    /// In words, the first name at which another tree differs.
    pub(crate) fn first_difference(&self, other: &Self) -> Option<String> {
        let words = |tree: &Self, name: &String| match tree.0.get(name) {
            None => "is not there".to_owned(),
            Some(None) => "is a directory".to_owned(),
            Some(Some(size)) => format!("has {size} bytes"),
        };
        let mut names = self.0.keys().chain(other.0.keys());
        let name = names.find(|name| self.0.get(*name) != other.0.get(*name))?;
        Some(format!("{name} {}, and was left such that it {}", words(other, name), words(self, name)))
    }
}

/// What is below the root.
pub(crate) fn left(calls: &dyn Syscalls) -> Result<Left, CallFailed> {
    let (mut found, mut pending) = (Left::default(), vec![".".to_owned()]);
    while let Some(path) = pending.pop() {
        for (name, is_directory) in names_in(calls, &path).map_err(CallFailed::of("readdir", &path))? {
            let inner = format!("{path}/{name}");
            if is_directory {
                pending.push(inner.clone());
                found.0.insert(inner, None);
            } else {
                let attr = calls.lstat(inner.as_bytes()).map_err(CallFailed::of("stat", &inner))?;
                found.0.insert(inner, Some(attr.size));
            }
        }
    }
    Ok(found)
}

/// The names in a directory, each with whether it is a directory.
fn names_in(calls: &dyn Syscalls, path: &str) -> vfs::Result<Vec<(String, bool)>> {
    let mut names = Vec::new();
    let fd = calls.open(path.as_bytes(), OpenFlags::READ | OpenFlags::DIRECTORY, 0)?;
    let read = calls.getdents(fd, &mut |entry: DirEntry<'_>| {
        if entry.name != b"." && entry.name != b".." {
            names.push((String::from_utf8_lossy(entry.name).into_owned(), entry.kind));
        }
        true
    });
    calls.close(fd)?;
    read?;
    let mut known = Vec::with_capacity(names.len());
    for (name, kind) in names {
        let kind = match kind {
            Some(kind) => kind,
            None => calls.lstat(format!("{path}/{name}").as_bytes())?.kind,
        };
        known.push((name, kind == FileKind::Directory));
    }
    Ok(known)
}
