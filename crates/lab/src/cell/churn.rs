//! A churn: files that come and go before a workload, so that it meets a file system that has been used, and not a new one.
//!
//! A new region has room that nothing has held: a log has not come to its end, no cleaner has run, and free blocks lie in one
//! piece. Later calls of a design meet storage that has been written more than once. A cell with a churn stores `churn` times
//! the size of its region first, counted at the medium (`bytes_stored` and `bytes_nt_stored`), and fails if less was stored.
//!
//! ```text
//! mkfs ─ mount ─ churn: its files are made ─ changes until enough is stored ─ sync ─ workload's files ─ [ window ]
//! ```
//!
//! * It comes before the workload makes its files, which so lie where a used file system has room; nothing of them is moved
//!   or counted before their time.
//! * Its files stay, a [`LIVE`]th of the region: a cleaner in the measured time has live data to carry. With the workload's
//!   files at most half of most regions is live.
//! * Half of the bytes are stored by small changes, half by blocks. The records of a log may lie apart from data: after a
//!   churn of 2 each of the two kinds has stored the size of the region once, however much a design stores for either.
//! * Small: an empty file is created and another removed, and 64 bytes are overwritten. These leave the records that name
//!   changes, and the smallest change of data. Blocks: 4 KiB are overwritten, which a design copies, journals or replaces as
//!   a whole.
//! * It has as many tasks as the workload, on as many cores, at most one for each [`SHARE`] of the region: designs keep logs
//!   and free lists by core, and those that the workload uses are worn.
//! * It syncs after each batch: a design that buffers in DRAM stores all that it was given, and not the last version alone.
//!
//! A call that is refused for want of space is counted and left out; the sample has the count, and a note. Any other error
//! fails the cell. All of it is drawn from the run's seed and none of it is in the measured time; no name is longer than nine
//! bytes, and nothing is reserved (`fallocate`), which some designs have not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rand::RngExt as _;
use results::Sample;
use sim::ledger::Snapshot;
use sim::{Bytes, KIB, MIB, Rng, Seed, TaskSpec};
use vfs::{Errno, Fd, OpenFlags, Syscalls};

/// The part of the region that the files of a churn fill: one in four.
pub(crate) const LIVE: u64 = 4;
/// The least of the region for each task, and of all.
pub(crate) const SHARE: u64 = 8 * MIB;
/// The folder of all files.
const FOLDER: &str = "/churn";
/// A file of blocks.
const FILE: u64 = 256 * KIB;
/// The bytes that one call stores when a file is made, and that one overwrites.
const BLOCK: u64 = 4 * KIB;
/// The smallest overwrite.
const LINE: u64 = 64;
/// There is one small file for so much of the files of blocks.
const FOR_EACH_SMALL: u64 = 32 * KIB;
/// Changes from one look at the counters to the next.
const BATCH: u64 = 128;

/// A churn that is to be done.
#[derive(Clone, Debug)]
pub(super) struct Churn {
    /// The size of the region.
    pub(super) region: Bytes,
    /// The bytes that it is to store to the medium.
    pub(super) stores: Bytes,
    /// The tasks and cores of the workload.
    pub(super) tasks: u64,
    /// The seed of its random numbers.
    pub(super) seed: Seed,
    /// Ends it early when it is set.
    pub(super) interrupt: Arc<AtomicBool>,
    /// It gives up after so many changes.
    pub(super) most: u64,
}

/// A churn that was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Churned {
    /// Bytes that were stored to the medium.
    pub(super) stored: u64,
    /// Changes that were asked for.
    pub(super) changes: u64,
    /// Those that were refused for want of space.
    pub(super) refused: u64,
}

/// A churn gives up when a design stores less than this for a change: it keeps what it is given in DRAM.
pub(super) fn most_changes(stores: Bytes) -> u64 {
    stores.0 / LINE
}

/// Counts the files and folders that a churn has in a region, at most.
pub(crate) fn files_in(region: u64) -> u64 {
    let files = region / LIVE;
    1 + files / FILE + files / (FOR_EACH_SMALL + BLOCK) + 2 * (region / SHARE).max(1)
}

/// Bytes that the run has stored to its medium.
fn stored(ledger: &Snapshot) -> u64 {
    ledger.count_all(&media::charges::BYTES_STORED) + ledger.count_all(&media::charges::BYTES_NT_STORED)
}

impl Churn {
    /// Makes the files in the folder of the churn, and changes them until enough is stored. `start` starts a process.
    ///
    /// # Errors
    /// A sentence that the cell's name is put before: a call has failed, or less was stored than asked for.
    pub(super) fn run(&self, start: impl Fn() -> Arc<dyn Syscalls>) -> Result<Churned, String> {
        let main = start();
        main.mkdir(FOLDER.as_bytes(), 0o755).map_err(|errno| said("mkdir", FOLDER, errno))?;
        let tasks = self.tasks.clamp(1, (self.region.0 / SHARE).max(1));
        let before = stored(&Snapshot::of_run());
        let shared = Arc::new(Shared { churn: self.clone(), before, changes: AtomicU64::new(0) });
        let spawn = |task: u64| {
            let (shared, calls) = (Arc::clone(&shared), start());
            let spec = TaskSpec::named(format!("churn-{task}")).on_core(u16::try_from(task).unwrap_or(0));
            sim::spawn(spec, move || Task::new(&shared, &*calls, (task, tasks))?.work())
        };
        let running: Vec<_> = (0..tasks).map(spawn).collect();
        // All are joined before the first error is told.
        let ended: Vec<Result<u64, String>> = running.into_iter().map(sim::JoinHandle::join).collect();
        let refused = ended.into_iter().sum::<Result<u64, String>>()?;
        main.sync().map_err(|errno| said("sync", "", errno))?;
        let churned = Churned {
            stored: stored(&Snapshot::of_run()) - before,
            changes: shared.changes.load(Relaxed),
            refused,
        };
        self.judge(&churned)
    }

    /// A churn that stored less than it was to is none.
    fn judge(&self, churned: &Churned) -> Result<Churned, String> {
        if churned.stored >= self.stores.0 || self.interrupt.load(Relaxed) {
            return Ok(*churned);
        }
        let Churned { stored, changes, refused } = *churned;
        Err(format!(
            "the churn has stored {} of {}: {changes} changes were asked for, and {refused} of them refused for want of space; \
             give it a larger --region (in a plan: region), or no churn",
            Bytes(stored),
            self.stores
        ))
    }
}

impl Churned {
    /// Puts what happened into the sample of what came after it.
    pub(super) fn put(&self, sample: &mut Sample) {
        let Self { stored, changes, refused } = *self;
        let counters = [("stored_bytes", stored), ("changes", changes), ("refused", refused)];
        sample.counters.extend(counters.map(|(name, count)| (format!("churn.{name}"), count)));
        if refused > 0 {
            sample.notes.push(format!(
                "the churn before it was refused {refused} of {changes} changes for want of space"
            ));
        }
    }
}

/// The state that the tasks share.
struct Shared {
    churn: Churn,
    /// The bytes that were stored before the churn.
    before: u64,
    /// Changes of all tasks.
    changes: AtomicU64,
}

impl Shared {
    fn is_enough(&self) -> bool {
        self.churn.interrupt.load(Relaxed)
            || self.changes.load(Relaxed) >= self.churn.most
            || stored(&Snapshot::of_run()) - self.before >= self.churn.stores.0
    }
}

/// One task with its files.
struct Task<'a> {
    shared: &'a Shared,
    calls: &'a dyn Syscalls,
    folder: String,
    rng: Rng,
    blocks: Vec<Fd>,
    /// The small files by their numbers, which are their names.
    small: Vec<u64>,
    /// The number of the next small file.
    next: u64,
    refused: u64,
}

impl<'a> Task<'a> {
    /// Makes the files of task number `task` of `tasks`.
    fn new(shared: &'a Shared, calls: &'a dyn Syscalls, (task, tasks): (u64, u64)) -> Result<Self, String> {
        let folder = format!("{FOLDER}/{task}");
        let files = shared.churn.region.0 / LIVE / tasks;
        // A small file is told as a block.
        let small = files / (FOR_EACH_SMALL + BLOCK);
        let blocks = ((files - small * BLOCK) / FILE).max(1);
        let rng = shared.churn.seed.derive("churn", task).rng();
        let mut made =
            Self { shared, calls, folder, rng, blocks: Vec::new(), small: Vec::new(), next: 0, refused: 0 };
        calls.mkdir(made.folder.as_bytes(), 0o755).map_err(|errno| said("mkdir", &made.folder, errno))?;
        for number in 0..blocks {
            let path = format!("{}/b{number}", made.folder);
            let told = |call| {
                let path = path.clone();
                move |errno| said(call, &path, errno)
            };
            let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
            let fd = calls.open(path.as_bytes(), flags, 0o644).map_err(told("open"))?;
            for offset in (0..FILE).step_by(BLOCK as usize) {
                whole(calls.pwrite(fd, &[number as u8; BLOCK as usize], offset), BLOCK)
                    .map_err(told("pwrite"))?;
            }
            made.blocks.push(fd);
        }
        for number in 0..small {
            made.create(number).map_err(|errno| said("open", &made.name(number), errno))?;
            made.small.push(number);
        }
        made.next = small;
        Ok(made)
    }

    fn name(&self, number: u64) -> String {
        format!("{}/s{number}", self.folder)
    }

    fn create(&self, number: u64) -> Result<(), Errno> {
        let flags = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::WRITE;
        self.calls.close(self.calls.open(self.name(number).as_bytes(), flags, 0o644)?)
    }

    /// Makes changes until enough is stored; how many were refused.
    fn work(mut self) -> Result<u64, String> {
        let mut by_kind = [0_u64; 2];
        let mut before = stored(&Snapshot::of_task());
        while !self.shared.is_enough() {
            let kind = usize::from(by_kind[1] < by_kind[0]);
            for _ in 0..BATCH {
                let changed = if kind == 0 { self.small_change() } else { self.overwrite(BLOCK) };
                self.admit(changed)?;
            }
            self.shared.changes.fetch_add(BATCH, Relaxed);
            self.calls.sync().map_err(|errno| said("sync", "", errno))?;
            let now = stored(&Snapshot::of_task());
            by_kind[kind] += now - before;
            before = now;
        }
        for fd in &self.blocks {
            self.calls.close(*fd).map_err(|errno| said("close", &self.folder, errno))?;
        }
        Ok(self.refused)
    }

    fn admit(&mut self, changed: Result<(), (&'static str, Errno)>) -> Result<(), String> {
        match changed {
            Ok(()) => Ok(()),
            Err((_, Errno::ENOSPC)) => {
                self.refused += 1;
                Ok(())
            }
            Err((call, errno)) => Err(said(call, &self.folder, errno)),
        }
    }

    /// A file takes the place of another, and 64 bytes change. The new one comes first: where it is refused, the other stays.
    fn small_change(&mut self) -> Result<(), (&'static str, Errno)> {
        let place = self.rng.random_range(0..self.small.len());
        let number = self.next;
        self.create(number).map_err(|errno| ("open", errno))?;
        self.next += 1;
        let old = std::mem::replace(&mut self.small[place], number);
        if let Err(errno) = self.calls.unlink(self.name(old).as_bytes()) {
            self.small.push(old);
            return Err(("unlink", errno));
        }
        self.overwrite(LINE)
    }

    /// Overwrites `len` bytes at a multiple of `len`.
    fn overwrite(&mut self, len: u64) -> Result<(), (&'static str, Errno)> {
        let fd = self.blocks[self.rng.random_range(0..self.blocks.len())];
        let offset = self.rng.random_range(0..FILE / len) * len;
        let data = [self.rng.random::<u8>(); BLOCK as usize];
        whole(self.calls.pwrite(fd, &data[..len as usize], offset), len).map_err(|errno| ("pwrite", errno))
    }
}

/// A short write is for want of space.
fn whole(written: Result<usize, Errno>, len: u64) -> Result<(), Errno> {
    if written? as u64 == len { Ok(()) } else { Err(Errno::ENOSPC) }
}

fn said(call: &str, path: &str, errno: Errno) -> String {
    let full = if errno == Errno::ENOSPC { ": the region is too small for its files" } else { "" };
    format!("the churn before the workload: {call} {path}: {}{full}", errno.name())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use media::{Region, Storage};
    use sim::{Machine, Setup};
    use vfs::{Credentials, Mount, MountOptions, Process};

    use super::*;
    use crate::plan::matrix::{design, resolve};

    const REGION: Bytes = Bytes::mib(32);

    fn churn(most: u64) -> Churn {
        let interrupt = Arc::default();
        Churn { region: REGION, stores: REGION, tasks: 3, seed: Seed(7), interrupt, most }
    }

    /// Runs `work` on a new file system of a design.
    fn on<T: Send + 'static>(name: &'static str, work: impl FnOnce(&Arc<Mount>) -> T + Send + 'static) -> T {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(7));
        let work = move || {
            let model = media::Medium::named("dram").unwrap().build().unwrap();
            let region = Arc::new(Region::anonymous(REGION, model).unwrap());
            let design = design(name).unwrap();
            let (storage, options) = (Storage::from(&region), resolve(design, &BTreeMap::default()).unwrap());
            design.format().mkfs(&storage, &options).unwrap();
            let mounted = design.mount(&storage, &options).unwrap();
            work(&Mount::new(mounted, MountOptions::default()).unwrap())
        };
        sim::run(&setup, work).unwrap()
    }

    fn process(mount: &Arc<Mount>) -> Arc<dyn Syscalls> {
        Arc::new(Process::new(Arc::clone(mount), Credentials::root()))
    }

    #[test]
    fn a_churn_leaves_files_of_at_most_a_quarter_of_the_region() {
        let (churned, sizes) = on("pmfs", |mount| {
            let churned = churn(most_changes(REGION)).run(|| process(mount)).unwrap();
            let calls = process(mount);
            let mut sizes = Vec::new();
            for task in 0..3 {
                let folder = format!("{FOLDER}/{task}");
                let fd = calls.open(folder.as_bytes(), OpenFlags::READ | OpenFlags::DIRECTORY, 0).unwrap();
                let mut names = Vec::new();
                calls
                    .getdents(fd, &mut |entry| {
                        names.push(entry.name.to_vec());
                        true
                    })
                    .unwrap();
                names.retain(|name| !name.starts_with(b"."));
                let path = |name: &Vec<u8>| [folder.as_bytes(), b"/", name].concat();
                sizes.extend(names.iter().map(|name| calls.stat(&path(name)).unwrap().size));
            }
            (churned, sizes)
        });
        assert!(churned.stored >= REGION.0 && churned.refused == 0, "{churned:?}");
        let live: u64 = sizes.iter().map(|size| size.next_multiple_of(BLOCK).max(BLOCK)).sum();
        assert!((REGION.0 / LIVE / 2..=REGION.0 / LIVE).contains(&live), "{live} bytes are live");
    }

    /// The canaries: a churn that ends too soon, and one on a file system that has no room for it.
    #[test]
    fn a_churn_that_stores_too_little_fails() {
        let told = on("pmfs", |mount| churn(2 * BATCH).run(|| process(mount)).unwrap_err());
        assert!(told.contains("has stored") && told.contains("of 32 MiB"), "{told}");
        let told = on("pmfs", |mount| {
            let calls = process(mount);
            let fd = calls.open(b"/full", OpenFlags::CREATE | OpenFlags::WRITE, 0o644).unwrap();
            let bytes = vec![1; 1 << 16];
            while calls.write(fd, &bytes) == Ok(bytes.len()) {}
            churn(most_changes(REGION)).run(|| process(mount)).unwrap_err()
        });
        assert!(told.contains("ENOSPC") && told.contains("too small"), "{told}");
    }
}
