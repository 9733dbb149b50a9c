//! Trees of directories through system calls, for preparing and clearing up.

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
