//! Crest in its steady state, where the log has passed the end of its pool: the longest call, what the cleaner has in DRAM, and a mount
//! after a crash.
//!
//! `WEIR_CREST_MIB=64,256` measures larger pools, `WEIR_CREST_TASKS=1` with so many tasks, `WEIR_CREST_BULK=1` fills the log with
//! attributes of 7,000 bytes and then makes 20,000 rounds of small calls, and `WEIR_CREST_AT_ONCE=1` measures the cleaner of all logs
//! alone.

use std::sync::Arc;

use check::NEW;
use crest::format::mutant;
use design::Options;
use media::nvmm::Region;
use sim::{Bytes, Nanos, Seed, Setup, TaskSpec};
use vfs::{FileSystem, Ino, IoFlags, XattrMode};

use crate::support::{assert_sound, counted, machine, made, mounted, numbers, options, region};

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

/// The time that this process has had a processor, in ms: a multiple of 10.
fn processor_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // User and system time, in ticks of a hundredth of a second.
    fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10
}

/// Calls, the longest of them, and the time of all.
#[derive(Clone, Copy, Default)]
struct Calls {
    number: u64,
    longest: Nanos,
    all: Nanos,
    /// Lines that they have copied.
    copied: u64,
    /// Zones that were emptied in steps, and runs of the cleaner of all logs.
    emptied: u64,
    cleaned: u64,
}

/// What a mount after a crash takes.
struct Mounted {
    time: Nanos,
    processor_ms: u64,
    /// KiB that were resident at most beyond those before it, and those that stay.
    most: u64,
    stay: u64,
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

    fn add(mut self, other: Self) -> Self {
        self.number += other.number;
        self.longest = self.longest.max(other.longest);
        self.all = Nanos(self.all.0 + other.all.0);
        self.copied += other.copied;
        self.emptied += other.emptied;
        self.cleaned += other.cleaned;
        self
    }
}

/// Attributes of a file that are set anew until so many lines were written; the longest call counts.
fn fill(fs: &dyn FileSystem, file: Ino, lines: u64, calls: &mut Calls) {
    let (mut filling, mut value) = (Calls::default(), [0; 7000]);
    for round in 0..lines / (value.len() as u64 / 64) {
        // Those of one value are kept until all of the log is cleaned.
        value[..8].copy_from_slice(&round.to_le_bytes());
        filling.time(|| fs.setxattr(file, b"user.bulk", &value, XattrMode::Set));
    }
    calls.longest = calls.longest.max(filling.longest);
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
    let mut rounds = lines / 4;
    if std::env::var_os("WEIR_CREST_BULK").is_some() {
        fill(fs, file, lines, &mut calls);
        rounds = 20_000;
    }
    for round in 0..rounds {
        let name = format!("live {task} {}", round * 7919 % LIVE);
        calls.time(|| fs.unlink(dir, name.as_bytes()));
        calls.time(|| fs.create(dir, name.as_bytes(), &NEW));
        calls.time(|| fs.write(file, 0, &[2; 4096], IoFlags::empty()));
    }
    calls.copied = counted("crest.copied");
    (calls.emptied, calls.cleaned) = (counted("crest.emptied"), counted("crest.cleaned"));
    calls
}

/// A churn by so many tasks that writes the lines of the pool and a quarter, and a crash: the calls of all, the KiB that were resident
/// at most beyond those at the end, and the mount.
fn measured(size: Bytes, tasks: u16, shared: bool) -> (Calls, u64, Mounted) {
    let run = sim::run(&Setup::virtual_clock(machine(tasks), Seed(SEED)), move || {
        let region = region(size);
        let tasks_given = tasks.to_string();
        let mut given = vec![("shards", &*tasks_given)];
        if std::env::var_os("WEIR_CREST_AT_ONCE").is_some() {
            given.push(("without", "steps"));
        }
        // With all rules, debug builds survey the whole log now and then, which takes memory.
        let fs = made(&region, &options(&given, Some(mutant::CUTS_NEVER_DIE)));
        resident();
        let lines = size.0 / 64 * 5 / 4 / u64::from(tasks);
        let spawn = |task: u16| {
            let fs = Arc::clone(&fs);
            let spec = TaskSpec::named(format!("task {task}")).on_core(task);
            sim::spawn(spec, move || churn(&*fs, u64::from(task), lines, shared))
        };
        let spawned: Vec<_> = (0..tasks).map(spawn).collect();
        let all = spawned.into_iter().map(sim::JoinHandle::join).fold(Calls::default(), Calls::add);
        let (now, most) = resident();
        // All is durable, so this is what a crash leaves.
        drop(fs);
        let mount = mounted_after_crash(&region, &options(&given, None));
        assert_sound(&region);
        (all, most.saturating_sub(now), mount)
    });
    run.expect("the run ends")
}

fn mounted_after_crash(region: &Arc<Region>, options: &Options) -> Mounted {
    let ((before, _), began, cpu) = (resident(), sim::now(), processor_ms());
    let fs = mounted(region, options);
    let (time, processor_ms) = (sim::now().since(began), processor_ms() - cpu);
    let (now, most) = resident();
    fs.unmount().expect("unmount");
    Mounted { time, processor_ms, most: most.saturating_sub(before), stay: now.saturating_sub(before) }
}

#[test]
fn no_call_takes_long_when_the_log_has_passed_the_end_of_the_pool() {
    let tasks = numbers("WEIR_CREST_TASKS", &[1, 4]);
    let ways = |mib: u64| tasks.iter().map(move |tasks| (mib, *tasks as u16));
    for (mib, tasks) in numbers("WEIR_CREST_MIB", &[16]).into_iter().flat_map(ways) {
        for shared in [false, true].into_iter().take(tasks.into()) {
            let (calls, extra, mount) = measured(Bytes::mib(mib), tasks, shared);
            let Calls { number, longest, all, copied, emptied, cleaned } = calls;
            let place = if shared { "one directory" } else { "own directories" };
            let mean = Nanos(all.0 / number);
            println!(
                "{mib} MiB, {tasks} tasks, {place}: {number} calls, mean {mean}, longest {longest}, {copied} lines copied, {emptied} zones in steps, {cleaned} times at once, {extra} KiB beyond the end"
            );
            let Mounted { time, processor_ms, most, stay } = mount;
            println!(
                "    mount after a crash: {time}, {processor_ms} ms of a processor, {most} KiB at most, {stay} KiB stay"
            );
            assert!(
                longest < Nanos::from_millis(1),
                "{mib} MiB, {tasks} tasks, {place}: a call took {longest}"
            );
        }
    }
}
