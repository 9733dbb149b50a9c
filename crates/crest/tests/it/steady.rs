//! Crest in its steady state, where the log has passed the end of its pool: the longest call, and what the cleaner has in DRAM.
//!
//! `WEIR_CREST_MIB=64,256` measures larger pools, and `WEIR_CREST_AT_ONCE=1` the cleaner of all logs alone.

use std::sync::Arc;

use check::NEW;
use crest::format::mutant;
use sim::{Bytes, Nanos, Seed, Setup, TaskSpec};
use vfs::{FileSystem, IoFlags};

use crate::support::{assert_sound, counted, machine, made, options, region};

const SEED: u64 = 20_261_129;
/// Files that stay.
const LIVE: u64 = 1000;

/// Resident memory of this process, in KiB: now, and at most since this was asked last.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    };
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    (of("VmRSS:"), of("VmHWM:"))
}

/// Calls, the longest of them, and the time of all.
#[derive(Clone, Copy, Default)]
struct Calls {
    number: u64,
    longest: Nanos,
    all: Nanos,
    /// Lines that they have copied.
    copied: u64,
}

impl Calls {
    fn time<T>(&mut self, call: impl FnOnce() -> vfs::Result<T>) {
        let began = sim::now();
        call().map(drop).expect("the pool has room");
        let took = sim::now().since(began);
        self.number += 1;
        self.longest = self.longest.max(took);
        self.all = Nanos(self.all.0 + took.0);
    }
}

/// Files of a directory that come and go, and a block that is overwritten, until so many lines were written. `shared`: all tasks work in
/// one directory.
fn churn(fs: &dyn FileSystem, task: u64, lines: u64, shared: bool) -> Calls {
    let own =
        |fs: &dyn FileSystem| fs.mkdir(fs.root(), format!("{task}").as_bytes(), &NEW).expect("room").ino;
    let dir = if shared { fs.root() } else { own(fs) };
    for number in 0..LIVE {
        fs.create(dir, format!("live {task} {number}").as_bytes(), &NEW).expect("room");
    }
    let file = fs.create(dir, format!("file {task}").as_bytes(), &NEW).expect("room").ino;
    fs.write(file, 0, &[1; 8192], IoFlags::empty()).expect("room");
    let mut calls = Calls::default();
    // Lines: 2 of a create, 1 of an unlink and of an overwrite.
    for round in 0..lines / 4 {
        let name = format!("live {task} {}", round * 7919 % LIVE);
        calls.time(|| fs.unlink(dir, name.as_bytes()));
        calls.time(|| fs.create(dir, name.as_bytes(), &NEW));
        calls.time(|| fs.write(file, 0, &[2; 4096], IoFlags::empty()));
    }
    calls.copied = counted("crest.copied");
    calls
}

/// A churn by so many tasks that writes the lines of the pool and a quarter: the calls of all, and the KiB that were resident at most
/// beyond those at the end.
fn measured(size: Bytes, tasks: u16, shared: bool) -> (Calls, u64) {
    let run = sim::run(&Setup::virtual_clock(machine(tasks), Seed(SEED)), move || {
        let region = region(size);
        // With all rules, debug builds survey the whole log now and then, which takes memory.
        let tasks_given = tasks.to_string();
        let mut given = vec![("shards", &*tasks_given)];
        if std::env::var_os("WEIR_CREST_AT_ONCE").is_some() {
            given.push(("without", "steps"));
        }
        let fs = made(&region, &options(&given, Some(mutant::CUTS_NEVER_DIE)));
        resident();
        let lines = size.0 / 64 * 5 / 4 / u64::from(tasks);
        let spawn = |task: u16| {
            let fs = Arc::clone(&fs);
            let spec = TaskSpec::named(format!("task {task}")).on_core(task);
            sim::spawn(spec, move || churn(&*fs, u64::from(task), lines, shared))
        };
        let spawned: Vec<_> = (0..tasks).map(spawn).collect();
        let mut all = Calls::default();
        for calls in spawned.into_iter().map(sim::JoinHandle::join) {
            all.number += calls.number;
            all.longest = all.longest.max(calls.longest);
            all.all = Nanos(all.all.0 + calls.all.0);
            all.copied += calls.copied;
        }
        let (now, most) = resident();
        fs.unmount().expect("unmount");
        assert_sound(&region);
        (all, most.saturating_sub(now))
    });
    run.expect("the run ends")
}

/// Sizes of pools in MiB.
fn sizes() -> Vec<u64> {
    let given = std::env::var("WEIR_CREST_MIB").unwrap_or_else(|_| "16".to_owned());
    given.split(',').map(|one| one.parse().expect("a number of MiB")).collect()
}

#[test]
fn no_call_takes_long_when_the_log_has_passed_the_end_of_the_pool() {
    let ways = |mib| [(mib, 1, false), (mib, 4, false), (mib, 4, true)];
    for (mib, tasks, shared) in sizes().into_iter().flat_map(ways) {
        let (Calls { number, longest, all, copied }, extra) = measured(Bytes::mib(mib), tasks, shared);
        let place = if shared { "one directory" } else { "own directories" };
        let mean = Nanos(all.0 / number);
        println!(
            "{mib} MiB, {tasks} tasks, {place}: {number} calls, mean {mean}, longest {longest}, {copied} lines copied, {extra} KiB beyond the end"
        );
        assert!(longest < Nanos::from_millis(1), "{mib} MiB, {tasks} tasks, {place}: a call took {longest}");
    }
}
