//! Files that are mapped for writing. No call shows what a program stores through a mapping; so the file itself is looked at when
//! an msync of it has returned, and when everything has ended, and the pages that differ from the last look are kept.
//!
//! strace lets a thread wait after each msync, and prints its line before that. A look that ends within this time is of the moment
//! of the msync; a later one may have seen what was stored after it, and is not kept, nor is one of a process with more threads,
//! which do not wait. (A signal that stops the process is no way: with `--seccomp-bpf` strace injects none, and without that filter
//! each call of any kind would cost two stops.) Other processes that have the file mapped do not wait either.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::contents::Writer;

/// The time that a thread waits after an msync.
pub(super) const WAITS_NS: u64 = 20_000_000;
/// Larger files are not looked at.
const FILE_MAX: u64 = 64 << 20;
const PAGE: usize = 4096;

/// A file of the host: device and inode.
pub(super) type Id = (u64, u64);

/// Files that are or were mapped for writing.
#[derive(Debug, Default)]
pub(super) struct Watched(BTreeMap<Id, Seen>);

/// A file as it was seen last.
#[derive(Debug, Default)]
struct Seen {
    path: PathBuf,
    /// As the trace has it.
    name: Box<[u8]>,
    bytes: Vec<u8>,
}

impl Watched {
    /// A file is mapped for writing, which the trace calls so.
    pub(super) fn watch(&mut self, path: &[u8], name: Box<[u8]>) -> Option<Id> {
        let path = Path::new(OsStr::from_bytes(path)).to_owned();
        let id = id(&fs::symlink_metadata(&path).ok().filter(Metadata::is_file)?);
        let seen = self.0.entry(id).or_default();
        (seen.path, seen.name) = (path, name);
        Some(id)
    }

    /// Looks at a file when an msync has returned, before which so many calls had, in a process of so many threads.
    pub(super) fn msynced(
        &mut self,
        id: Id,
        (calls, threads): (u64, usize),
        (at_ns, duration_ns): (u64, u64),
        writer: Option<&mut Writer>,
    ) -> io::Result<()> {
        let until_ns = at_ns.saturating_add(duration_ns).saturating_add(WAITS_NS);
        let (Some(seen), Some(writer)) = (self.0.get_mut(&id).filter(|_| threads == 1), writer) else {
            return Ok(());
        };
        seen.look(id, calls, writer, Some(until_ns))
    }

    /// Looks at all of them when everything has ended.
    pub(super) fn look_at_all(&mut self, calls: u64, writer: &mut Writer) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|(id, seen)| seen.look(*id, calls, writer, None))
    }
}

impl Seen {
    /// Looks at the file, until a time of the host's clock.
    fn look(
        &mut self,
        as_mapped: Id,
        calls: u64,
        writer: &mut Writer,
        until_ns: Option<u64>,
    ) -> io::Result<()> {
        // What is there no more, or is another file now, is named as mapped and not seen.
        let Some(bytes) = read(&self.path, as_mapped) else { return Ok(()) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        if until_ns.is_some_and(|until_ns| now >= u128::from(until_ns)) {
            return Ok(());
        }
        let mut parts = Vec::new();
        for part in differing(&self.bytes, &bytes) {
            parts.push((part.start as u64, &bytes[part]));
        }
        writer.sample(calls, &self.name, &parts)?;
        self.bytes = bytes;
        Ok(())
    }
}

fn id(about: &Metadata) -> Id {
    (about.dev(), about.ino())
}

fn read(path: &Path, as_mapped: Id) -> Option<Vec<u8>> {
    let about = fs::symlink_metadata(path).ok()?;
    if !about.is_file() || id(&about) != as_mapped || about.len() > FILE_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Runs of pages in which a file differs from what it was; what it had not was zeros.
fn differing(old: &[u8], new: &[u8]) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for (at, page) in new.chunks(PAGE).enumerate() {
        let (from, to) = (at * PAGE, at * PAGE + page.len());
        let before = old.get(from..to.min(old.len())).unwrap_or_default();
        if page.starts_with(before) && page[before.len()..].iter().all(|byte| *byte == 0) {
            continue;
        }
        match all.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => all.push(from..to),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::differing;

    #[test]
    fn only_pages_that_differ_are_kept() {
        let mut new = vec![0; 5 * 4096 + 10];
        assert!(differing(&[], &new).is_empty(), "zeros where nothing was are none");
        new[4096] = 1;
        new[3 * 4096 - 1] = 1;
        new[5 * 4096 + 9] = 1;
        assert_eq!(differing(&[], &new), [4096..3 * 4096, 5 * 4096..5 * 4096 + 10]);
        let old = new.clone();
        assert!(differing(&old, &new).is_empty());
        new[4096] = 0;
        assert_eq!(
            differing(&old, &new).first(),
            Some(&(4096..2 * 4096)),
            "also where it becomes zeros again"
        );
    }
}
