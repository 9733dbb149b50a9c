//! Loops of loads and stores over a region: latency and bandwidth of a medium by pattern, size and threads, as LATTester measures
//! them (Yang et al., FAST 2020).
//!
//! Each thread has a core and a stretch of the region of its own. It goes through the stretch in steps of `size` from a place that
//! is drawn, or draws each place, and repeats one access until the window of virtual time is over. Threads that began at the same
//! place of their stretches would go from one module to the next together, which those of an operating system do not. What is
//! reported is what all threads did in the window.
//!
//! | access | one of it |
//! |---|---|
//! | `read` | [`Region::load`], with a fence [`Region::fence`]: the next one does not overlap with it |
//! | `nt` | [`Region::nt_store`], [`Region::fence`] |
//! | `clwb` | [`Region::store`], [`Region::flush`]; with a fence [`Region::store_cached`], and [`Region::fence`] |
//! | `store` | [`Region::store`] |
//! | `mixRW` | of each R + W accesses R are `read` and W are `nt`: `mix11`, `mix41` |
//!
//! LATTester measures latency so, and bandwidth without fences (`memaccess.h`: `SIZEBTST_FENCE` is empty).
//!
//! The processor's part is free, so that the loop shows the medium alone, unless a machine is given. No loop copies: it loads into
//! registers and stores from one. The region is in no cache, and
//! tasks do not share cores: a machine's caches and scheduling are left out, and it has as many cores as threads.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use media::{MediaError, Medium, Region};
use rand::RngExt as _;
use sim::{Bytes, Machine, Nanos, Seed, Setup, TaskSpec, Work};

use crate::environment;
use crate::error::Error;
use crate::machine::MachinePreset;

/// The window of virtual time that is measured.
pub const WINDOW: Nanos = Nanos(4_000_000);
/// The stretch of the region that a thread has.
pub(crate) const STRETCH: Bytes = Bytes(8 << 20);
/// More threads than this are a mistake.
pub const MOST_THREADS: u64 = 1_024;

/// So many accesses of all threads that take no time together are a loop without end.
const PATIENCE: u64 = 100_000;

/// Why `dram` has no loop.
const FREE: &str = "accesses take no time: dram charges nothing, and these loops leave copies out, so that fences and \
                    flushes would be all that is measured; --loaded, --max, --chase, --stream and --cold measure the memory of \
                    a machine";

/// What a loop does.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The medium with its parameters.
    pub medium: Medium,
    /// In which order.
    pub pattern: Pattern,
    /// What each access is.
    pub access: Access,
    /// Bytes of an access.
    pub size: Bytes,
    /// Threads, each on a core of its own.
    pub threads: u64,
    /// Whether a store waits until it is durable.
    pub fence: bool,
    /// Who prices the processor's part; none: nobody.
    pub machine: Option<MachinePreset>,
    /// Virtual time that is measured.
    pub window: Nanos,
    /// Where the random places start.
    pub seed: u64,
}

/// The order of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One after the other, and again from the start.
    Sequential,
    /// Drawn for each access, on multiples of its size.
    Random,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store past the caches.
    NtStore,
    /// A store, and its write-back.
    Flush,
    /// A store into the caches.
    Store,
    /// So many loads, then so many stores past the caches.
    Mix(u8, u8),
}

/// What a loop gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Accesses of all threads in the window.
    pub accesses: u64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Time of one access of a thread, in nanoseconds; none where none ended.
    pub access_ns: Option<f64>,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "seq" => Ok(Self::Sequential),
            "rand" => Ok(Self::Random),
            _ => Err(format!("\"{text}\" is no pattern: seq or rand")),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Sequential { "seq" } else { "rand" })
    }
}

impl FromStr for Access {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.strip_prefix("mix").map(str::as_bytes);
        match (text, parts) {
            ("read", _) => Ok(Self::Read),
            ("nt", _) => Ok(Self::NtStore),
            ("clwb", _) => Ok(Self::Flush),
            ("store", _) => Ok(Self::Store),
            (_, Some([reads @ b'1'..=b'9', writes @ b'1'..=b'9'])) => {
                Ok(Self::Mix(reads - b'0', writes - b'0'))
            }
            _ => Err(format!(
                "\"{text}\" is no access: read, nt, clwb, store, or mixRW with R loads and W stores, as mix11"
            )),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.write_str("read"),
            Self::NtStore => f.write_str("nt"),
            Self::Flush => f.write_str("clwb"),
            Self::Store => f.write_str("store"),
            Self::Mix(reads, writes) => write!(f, "mix{reads}{writes}"),
        }
    }
}

impl Loop {
    /// The loop in words: `optane.100 seq nt 256 B, 4 threads`.
    pub fn title(&self) -> String {
        let Self { medium, pattern, access, size, threads, .. } = self;
        format!("{} {pattern} {access} {} B, threads {threads}", medium.name(), size.0)
    }

    /// What cannot be measured.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Setting(format!("{}: {what}", self.title())));
        if !(1..=STRETCH.0).contains(&self.size.0) {
            return wrong(format!("an access has 1 B to {STRETCH}, the stretch of a thread"));
        }
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return wrong(format!("there are 1 to {MOST_THREADS} threads"));
        }
        if self.window == Nanos::ZERO {
            return wrong("a window of no time measures nothing".to_owned());
        }
        Ok(())
    }

    /// Memory that it takes.
    pub fn memory(&self) -> Bytes {
        Bytes(STRETCH.0 * self.threads)
    }

    /// Runs the loop under the virtual clock.
    pub fn run(&self) -> Result<Measured, Error> {
        self.check()?;
        let failed = |error: String| Error::Cell { cell: self.title(), what: error };
        if self.medium.kind().name() == "dram" {
            return Err(failed(FREE.to_owned()));
        }
        let model = self.medium.build().map_err(|error| failed(error.to_string()))?;
        let region = Region::anonymous(self.memory(), model).map_err(|error| failed(error.to_string()))?;
        let (region, work) = (Arc::new(region), self.clone());
        let done = sim::run(&Setup::virtual_clock(self.processor(), Seed(1)), move || work.tasks(&region));
        let accesses = done.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
        let (all, seconds) = (accesses as f64, self.window.0 as f64 / 1e9);
        let access_ns = (accesses > 0).then(|| self.window.0 as f64 * self.threads as f64 / all);
        Ok(Measured { accesses, bytes_per_s: all * self.size.0 as f64 / seconds, access_ns })
    }

    /// The machine of the loop: see the head of the module.
    fn processor(&self) -> Machine {
        let free =
            Machine { work_ps: [0; Work::MAX], copy_ps_per_byte: 0, dram_ps_per_byte: 0, ..Machine::unit() };
        Machine {
            sockets: 1,
            cores_per_socket: self.threads as u16,
            two_threads_per_mille: None,
            caches: None,
            scheduling: None,
            copy_ps_per_byte: 0,
            dram_ps_per_byte: 0,
            ..self.machine.as_ref().map_or(free, |preset| preset.machine.clone())
        }
    }

    /// Accesses that the threads did in the window.
    fn tasks(&self, region: &Arc<Region>) -> Result<u64, String> {
        let done = Arc::new(AtomicU64::new(0));
        let wrong = Arc::new(OnceLock::new());
        let tasks: Vec<_> = (0..self.threads)
            .map(|thread| {
                let (region, done, wrong) = (Arc::clone(region), Arc::clone(&done), Arc::clone(&wrong));
                let work = self.clone();
                let spec = TaskSpec::named(format!("medium {thread}")).on_core(thread as u16);
                sim::spawn(spec, move || match work.thread(&region, thread) {
                    Ok(count) => _ = done.fetch_add(count, Relaxed),
                    Err(error) => _ = wrong.set(error),
                })
            })
            .collect();
        tasks.into_iter().for_each(sim::JoinHandle::join);
        let failure = Arc::into_inner(wrong).and_then(OnceLock::into_inner);
        failure.map_or(Ok(done.load(Relaxed)), Err)
    }

    /// The loop of a thread: how many accesses ended in the window.
    fn thread(&self, region: &Region, thread: u64) -> Result<u64, String> {
        let mut rng = Seed(self.seed).derive("medium", thread).rng();
        let mut buffer = vec![7; self.size.as_usize()];
        let places = STRETCH.0 / self.size.0;
        let start = rng.random_range(0..places);
        let (mut done, mut turn, mut last) = (0, 0, Nanos::ZERO);
        let patience = (PATIENCE / self.threads).max(1);
        loop {
            let place = match self.pattern {
                Pattern::Sequential => (start + turn) % places,
                Pattern::Random => rng.random_range(0..places),
            };
            turn += 1;
            let at = thread * STRETCH.0 + place * self.size.0;
            self.access(region, at, turn, &mut buffer).map_err(|error| error.to_string())?;
            let now = sim::now();
            if now > self.window {
                return Ok(done);
            }
            done += 1;
            if turn % patience == 0 && std::mem::replace(&mut last, now) == now {
                return Err(
                    "accesses take no time: neither the medium nor a machine has a price for them".to_owned()
                );
            }
        }
    }

    /// The access of a turn, from 1 on.
    fn access(&self, region: &Region, at: u64, turn: u64, buffer: &mut [u8]) -> Result<(), MediaError> {
        match self.access {
            Access::Read => region.load(at, buffer)?,
            Access::Mix(reads, writes) if turn % u64::from(reads + writes) < u64::from(reads) => {
                return region.load(at, buffer);
            }
            Access::NtStore | Access::Mix(..) => region.nt_store(at, buffer)?,
            Access::Store => return region.store(at, buffer),
            Access::Flush => {
                if self.fence {
                    region.store_cached(at, buffer)?;
                } else {
                    region.store(at, buffer)?;
                }
                region.flush(at, self.size.0);
            }
        }
        if self.fence {
            region.fence();
        }
        Ok(())
    }
}

/// Runs loops on `jobs` host threads (0: one for each core) while `goes_on` says so; `done` is told of each. What was measured is
/// in
/// the order of the loops, none where a loop did not run.
pub fn side_by_side(
    loops: &[&Loop],
    jobs: usize,
    goes_on: &(dyn Fn() -> bool + Sync),
    done: &(dyn Fn() + Sync),
) -> Vec<Option<Result<Measured, Error>>> {
    each(loops, jobs, goes_on, done, &|work| work.run())
}

/// As [`side_by_side`], of measurements of any kind.
pub fn each<W: Sync, T: Send>(
    all: &[W],
    jobs: usize,
    goes_on: &(dyn Fn() -> bool + Sync),
    done: &(dyn Fn() + Sync),
    run: &(dyn Fn(&W) -> T + Sync),
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<_>> = Mutex::new(all.iter().map(|_| None).collect());
    let worker = || {
        while goes_on() {
            let at = next.fetch_add(1, Relaxed);
            let Some(work) = all.get(at) else { return };
            let measured = run(work);
            found.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(measured);
            done();
        }
    };
    let jobs = if jobs == 0 { environment::cores() } else { jobs };
    std::thread::scope(|scope| (0..jobs).for_each(|_| _ = scope.spawn(worker)));
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_written_as_it_is_read() {
        for text in ["read", "nt", "clwb", "store", "mix11", "mix41"] {
            assert_eq!(text.parse::<Access>().unwrap().to_string(), text);
        }
        for text in ["mix", "mix1", "mix01", "mix111", "write"] {
            assert!(text.parse::<Access>().is_err(), "{text}");
        }
        assert!("seq".parse::<Pattern>().is_ok() && "sequential".parse::<Pattern>().is_err());
    }
}
