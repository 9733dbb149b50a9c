//! The tree of a copy before the program begins.

use rustc_hash::FxHashMap;
use trace::record::{Entry, Kind};
use vfs::{Errno, Fd, FileKind, OpenFlags, SetAttr, Syscalls};

use super::call::Aligned;
use super::copy::Copy;
use super::load::Loaded;
use crate::tree::CallFailed;

/// Bytes that are written at once.
const PIECE: u64 = 1 << 20;

/// Makes what must exist before the first step: the roots of a copy, then its entries. A copy that has not the first of its tree
/// makes what is its own.
pub(super) fn make(
    loaded: &Loaded,
    copy: &Copy,
    calls: &dyn Syscalls,
    data: &Aligned,
) -> Result<(), CallFailed> {
    let is_first = copy.suffix.is_empty();
    if is_first {
        for root in [&copy.root, &copy.outside] {
            calls.mkdir(root.as_bytes(), 0o755).map_err(CallFailed::of("mkdir", root))?;
        }
    }
    let cuts = cuts(loaded);
    let own = |entry: &&Entry| is_first || cuts.contains_key(&*entry.path);
    let entries = || loaded.program.initial.iter().filter(own);
    let path_of = |entry: &Entry| copy.absolute(&entry.path, cuts.get(&*entry.path).copied().unwrap_or(0));
    let mut groups: FxHashMap<u64, Vec<u8>> = FxHashMap::default();
    for entry in entries() {
        let path = path_of(entry);
        if entry.path.is_empty() {
            continue;
        }
        let made = match groups.get(&entry.group).filter(|_| entry.group != 0) {
            // Its directory may come later than the file's first name.
            Some(first) => with_parents(calls, &path, || calls.link(first, &path)),
            None => with_parents(calls, &path, || one(calls, entry, &path, data)),
        };
        made.map_err(CallFailed::of("making", &path.escape_ascii().to_string()))?;
        groups.entry(entry.group).or_insert(path);
    }
    // Last, because a directory without the right to write would take no entry, and a write takes set-user-id away.
    for entry in entries().filter(|entry| entry.kind != Kind::Symlink) {
        let (path, set) = (path_of(entry), SetAttr { perm: Some(entry.mode & 0o7777), ..SetAttr::default() });
        calls.setattr(&path, &set).map_err(CallFailed::of("chmod", &path.escape_ascii().to_string()))?;
    }
    Ok(())
}

/// Of entries that a copy in a shared tree has for itself, where the suffix goes.
fn cuts(loaded: &Loaded) -> FxHashMap<&[u8], u32> {
    let program = &loaded.program;
    let changed: FxHashMap<&[u8], u32> = program
        .paths
        .iter()
        .zip(&loaded.plan.cuts)
        .filter(|(_, cut)| **cut > 0)
        .map(|(path, cut)| (&path[..*cut as usize], *cut))
        .collect();
    let cut = |entry: &'_ Entry| {
        let ends = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([entry.path.len()]).find_map(|end| changed.get(&entry.path[..end]).copied())
    };
    program.initial.iter().filter_map(|entry| Some((&*entry.path, cut(entry)?))).collect()
}

/// Makes the directories on the way where they are missing.
fn with_parents(
    calls: &dyn Syscalls,
    path: &[u8],
    make: impl Fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    match make() {
        Err(Errno::ENOENT) => {}
        done => return done,
    }
    let ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in ends {
        match calls.mkdir(&path[..end], 0o755) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    make()
}

fn one(calls: &dyn Syscalls, entry: &Entry, path: &[u8], data: &Aligned) -> Result<(), Errno> {
    match entry.kind {
        Kind::File => file(calls, path, entry.size, data),
        Kind::Directory => match calls.mkdir(path, 0o700) {
            // It was made on the way to another entry.
            Err(Errno::EEXIST) => Ok(()),
            made => made,
        },
        Kind::Symlink => {
            // One of which the trace does not say what it contains leads nowhere.
            let target = entry.target.as_deref().filter(|target| !target.is_empty()).unwrap_or(b"unknown");
            calls.symlink(target, path)
        }
        Kind::Socket => calls.mknod(path, FileKind::Socket, 0o600, 0),
        // What stands for a device must not be one.
        Kind::Fifo | Kind::Character | Kind::Block => calls.mknod(path, FileKind::Fifo, 0o600, 0),
    }
}

fn file(calls: &dyn Syscalls, path: &[u8], size: u64, data: &Aligned) -> Result<(), Errno> {
    let fd = calls.open(path, OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUSIVE, 0o600)?;
    let filled = fill(calls, fd, size, data);
    calls.close(fd)?;
    filled
}

fn fill(calls: &dyn Syscalls, fd: Fd, size: u64, data: &Aligned) -> Result<(), Errno> {
    let mut at = 0;
    while at < size {
        let piece = data.first(PIECE.min(size - at));
        match calls.pwrite(fd, piece, at)? {
            0 => return Err(Errno::EIO),
            written => at += written as u64,
        }
    }
    Ok(())
}
