//! Calls of this host's kernel, measured live: the CPU time of a call on tmpfs, below which there is nothing, and on ext4.
//!
//! Each round works in a new folder; of several rounds the least time of each call counts, since whatever else the host does only
//! adds to it. Times are of the calling thread alone ([`sim::cpu_time`]). The kernel writes back in other threads, whose time is
//! not
//! in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use sim::Nanos;

use crate::error::Error;

/// The kinds of file system whose calls are measured, as rows name them in `design`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `tm`.
    Tmpfs,
    /// `ex`.
    Ext4,
}

impl Kind {
    /// Of the word in a row.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "tm" => Some(Self::Tmpfs),
            "ex" => Some(Self::Ext4),
            _ => None,
        }
    }

    /// A directory of this host on such a file system: of those where programs put what is temporary.
    pub fn directory(self) -> Option<PathBuf> {
        let places = [PathBuf::from("/dev/shm"), std::env::temp_dir(), PathBuf::from("/var/tmp")];
        places.into_iter().find(|place| Self::at(place) == Some(self))
    }

    /// The file system at `path`, if it is one of these.
    pub fn at(path: &Path) -> Option<Self> {
        match rustix::fs::statfs(path).ok()?.f_type as u64 {
            0x0102_1994 => Some(Self::Tmpfs),
            0xef53 => Some(Self::Ext4),
            _ => None,
        }
    }
}

/// Nanoseconds of CPU time of a call, by its name in rows.
pub type Calls = BTreeMap<&'static str, f64>;

/// Calls of each kind in a round.
const CALLS: u32 = 2_000;
/// Calls that leave an object each.
const FEW: u32 = CALLS / 4;
/// Syncs, each of which waits for the disk.
const SYNCS: u32 = 50;

/// Measures every call in `directory`; the least of `rounds`.
pub fn measure(directory: &Path, rounds: u32) -> Result<Calls, Error> {
    let mut least = Calls::new();
    for round in 0..rounds.max(1) {
        let folder = Folder::new(directory, round)?;
        let calls = folder.round().map_err(|errno| Error::Io {
            action: "measure calls of the kernel in",
            path: directory.to_owned(),
            source: errno.into(),
        })?;
        for (name, ns) in calls {
            let known = least.entry(name).or_insert(ns);
            *known = known.min(ns);
        }
    }
    Ok(least)
}

/// A new folder, which goes away with what is in it.
struct Folder {
    path: PathBuf,
    opened: OwnedFd,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left where its name says whose it is.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The calls of a round that are timed.
#[derive(Default)]
struct Timed(Vec<(&'static str, f64)>);

impl Timed {
    /// Times `count` calls, each with its number.
    fn time(
        &mut self,
        name: &'static str,
        count: u32,
        mut call: impl FnMut(u32) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let start = now();
        (0..count).try_for_each(&mut call)?;
        self.0.push((name, (now().0 - start.0) as f64 / f64::from(count)));
        Ok(())
    }
}

/// CPU time of this thread.
fn now() -> Nanos {
    sim::cpu_time().expect("outside of a run there is the real clock")
}

const FILE: Mode = Mode::from_raw_mode(0o600);
const NEW: OFlags = OFlags::CREATE.union(OFlags::RDWR);

impl Folder {
    fn new(directory: &Path, round: u32) -> Result<Self, Error> {
        let path = directory.join(format!(".weir-calls-{}-{round}", std::process::id()));
        let failed = |source| Error::Io { action: "make the folder", path: path.clone(), source };
        std::fs::create_dir(&path).map_err(failed)?;
        let opened = rustix::fs::open(&path, OFlags::DIRECTORY, Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        Ok(Self { path, opened })
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.opened, name, flags, FILE)
    }

    fn mkdir(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::mkdirat(&self.opened, name, Mode::from_raw_mode(0o700))
    }

    fn stat(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::statat(&self.opened, name, AtFlags::empty()).map(drop)
    }

    fn unlink(&self, name: &str, flags: AtFlags) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.opened, name, flags)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        rustix::fs::renameat(&self.opened, from, &self.opened, to)
    }

    /// Every call, once round.
    fn round(&self) -> Result<Vec<(&'static str, f64)>, Errno> {
        ["t", "t/a", "t/a/b", "t/a/b/c", "t/d", "t/e"].into_iter().try_for_each(|name| self.mkdir(name))?;
        drop(self.open("t/a/b/c/f", NEW)?);
        let mut timed = Timed::default();
        self.calls_of_one_file(&mut timed)?;
        self.calls_on_names(&mut timed)?;
        self.calls_on_new_files(&mut timed)?;
        self.calls_on_a_long_file(&mut timed)?;
        Ok(timed.0)
    }

    /// Calls on a file of 1 MiB that is in the page cache.
    fn calls_of_one_file(&self, timed: &mut Timed) -> Result<(), Errno> {
        let (file, mut buffer) = (self.open("t/f", NEW)?, vec![7; 16 << 10]);
        let block = |call: u32, of: u32, size: u64| u64::from(call % of) * size;
        for number in 0..256 {
            write_at(&file, &buffer[..4096], block(number, 256, 4096))?;
        }
        timed.time("getppid", CALLS * 5, |_| {
            std::hint::black_box(rustix::process::getppid());
            Ok(())
        })?;
        timed.time("stat2", CALLS, |_| self.stat("t/f"))?;
        timed.time("stat5", CALLS, |_| self.stat("t/a/b/c/f"))?;
        timed.time("open_close", CALLS, |_| self.open("t/f", OFlags::RDWR).map(drop))?;
        timed.time("pread1", CALLS, |_| read_at(&file, &mut buffer[..1], 0))?;
        timed
            .time("pread4k_1m", CALLS, |call| read_at(&file, &mut buffer[..4096], block(call, 256, 4096)))?;
        timed.time("pread16k_1m", CALLS, |call| read_at(&file, &mut buffer, block(call, 64, 16 << 10)))?;
        timed.time("pwrite4k_1m", CALLS, |call| write_at(&file, &buffer[..4096], block(call, 256, 4096)))?;
        timed.time("pwrite1k_1m", CALLS, |call| write_at(&file, &buffer[..1024], block(call, 256, 4096)))?;
        timed.time("pwrite4k_fsync", SYNCS, |_| {
            write_at(&file, &buffer[..4096], 0)?;
            rustix::fs::fsync(&file)
        })
    }

    /// Calls that make, move and remove names.
    fn calls_on_names(&self, timed: &mut Timed) -> Result<(), Errno> {
        let no_flags = AtFlags::empty();
        timed.time("creat_close", CALLS, |call| self.open(&format!("t/d/f{call}"), NEW).map(drop))?;
        timed.time("rename_same", CALLS, |call| {
            self.rename(&format!("t/d/f{call}"), &format!("t/d/g{call}"))
        })?;
        timed.time("rename_cross", CALLS, |call| {
            self.rename(&format!("t/d/g{call}"), &format!("t/e/g{call}"))
        })?;
        timed.time("unlink_empty", CALLS, |call| self.unlink(&format!("t/e/g{call}"), no_flags))?;
        timed.time("mkdir", FEW, |call| self.mkdir(&format!("t/e/d{call}")))?;
        timed.time("rmdir", FEW, |call| self.unlink(&format!("t/e/d{call}"), AtFlags::REMOVEDIR))
    }

    /// Calls on files that are new to them.
    fn calls_on_new_files(&self, timed: &mut Timed) -> Result<(), Errno> {
        let open = |number| self.open(&format!("t/e/a{number}"), NEW);
        let files = (0..FEW).map(open).collect::<Result<Vec<_>, _>>()?;
        let (of, mut buffer) = (|call: u32| &files[call as usize], vec![7; 16 << 10]);
        timed.time("append1k_fresh", FEW, |call| write_at(of(call), &buffer[..1024], 0))?;
        timed.time("append1k_second", FEW, |call| write_at(of(call), &buffer[..1024], 1024))?;
        timed.time("append16k", FEW, |call| write_at(of(call), &buffer, 2048))?;
        timed.time("read1k_each", FEW, |call| read_at(of(call), &mut buffer[..1024], 0))?;
        timed.time("read16k_each", FEW, |call| read_at(of(call), &mut buffer, 0))?;
        drop(files);
        timed.time("unlink_18k", FEW, |call| self.unlink(&format!("t/e/a{call}"), AtFlags::empty()))
    }

    /// Growing and shrinking a file by a block at a time.
    fn calls_on_a_long_file(&self, timed: &mut Timed) -> Result<(), Errno> {
        let (file, buffer) = (self.open("t/app", NEW)?, vec![7; 4096]);
        timed.time("append4k_onefile", CALLS, |call| write_at(&file, &buffer, u64::from(call) * 4096))?;
        timed.time("truncate4k", CALLS, |call| {
            rustix::fs::ftruncate(&file, u64::from(CALLS - 1 - call) * 4096)
        })
    }
}

/// A short answer would measure less work than the row means.
fn whole(done: usize, wanted: usize) -> Result<(), Errno> {
    if done == wanted { Ok(()) } else { Err(Errno::IO) }
}

fn read_at(file: impl AsFd, buffer: &mut [u8], at: u64) -> Result<(), Errno> {
    let wanted = buffer.len();
    whole(rustix::io::pread(file, buffer, at)?, wanted)
}

fn write_at(file: impl AsFd, buffer: &[u8], at: u64) -> Result<(), Errno> {
    whole(rustix::io::pwrite(file, buffer, at)?, buffer.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_rows_name_is_measured_and_nothing_is_left() {
        let place = tempfile::tempdir().unwrap();
        let calls = measure(place.path(), 1).unwrap();
        let rows = super::super::Rows::calibration().unwrap().rows;
        let named: Vec<_> = rows.iter().filter(|row| row.id.starts_with("host.")).collect();
        assert_eq!(named.len(), 48);
        for row in named {
            assert!(calls.contains_key(&*row.what), "{}", row.what);
            assert!(row.design.as_deref().and_then(Kind::of).is_some(), "{}", row.id);
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
