//! Read = last write: random operations of several tasks against bytes in memory, with pools of a few pages, journals of the
//! smallest size, sleeps that let ages pass, and remounts.

use std::sync::Arc;

use rand::RngExt;
use sim::{Bytes, Clock, Nanos, Rng, Seed, TaskSpec};
use vfs::{FallocateMode, Ino, IoFlags, RenameFlags, SetAttr};

use crate::hinfs::support::{DESIGNS, Mounted, PAGE, free_region, run};

const EDGES: [u64; 14] = [0, 1, 63, 64, 65, 100, 2048, 4095, 4096, 4097, 8191, 8192, 12_288, 20_000];
const MOST: usize = 60_000;

/// A file and what it must contain.
struct Twin {
    name: String,
    ino: Ino,
    bytes: Vec<u8>,
    generation: u64,
}

impl Twin {
    fn new(mounted: &Mounted, name: String) -> Self {
        let ino = mounted.create(&name);
        Self { name, ino, bytes: Vec::new(), generation: 0 }
    }

    fn check(&self, mounted: &Mounted, what: &str) {
        assert_eq!(mounted.size(self.ino), self.bytes.len() as u64, "{}: size after {what}", self.name);
        let seen = mounted.read(self.ino, 0, MOST + PAGE);
        let differs = seen.iter().zip(&self.bytes).position(|(seen, expected)| seen != expected);
        assert_eq!(differs, None, "{}: first byte that differs after {what}", self.name);
        assert_eq!(seen.len(), self.bytes.len());
    }

    fn check_part(&self, mounted: &Mounted, rng: &mut Rng, what: &str) {
        let (at, len) = (edge(rng) as usize, edge(rng) as usize);
        let from = self.bytes.len().min(at);
        let expected = &self.bytes[from..self.bytes.len().min(from.max(at) + len)];
        assert!(
            mounted.read(self.ino, at as u64, len) == expected,
            "{}: read {at}+{len} after {what}",
            self.name
        );
    }

    /// One random operation; says which.
    fn step(&mut self, mounted: &Mounted, rng: &mut Rng) -> String {
        let (fs, tag) = (&mounted.fs, rng.random_range(1..=255u8));
        match rng.random_range(0..100) {
            0..50 => {
                let append = rng.random_range(0..3) == 0;
                let at = if append { self.bytes.len() } else { edge(rng) as usize };
                let len = (edge(rng) as usize).min(MOST - at.min(MOST));
                let mut flags = if append { IoFlags::APPEND } else { IoFlags::empty() };
                flags |= if rng.random_range(0..8) == 0 { IoFlags::SYNC } else { IoFlags::empty() };
                fs.write(self.ino, at as u64, &vec![tag; len], flags).expect("write");
                if len > 0 {
                    self.bytes.resize(self.bytes.len().max(at + len), 0);
                    self.bytes[at..at + len].fill(tag);
                }
                format!("write {at}+{len} {flags:?}")
            }
            50..62 => {
                mounted.fsync(self.ino);
                "fsync".into()
            }
            62..70 => {
                let size = edge(rng);
                mounted.truncate(self.ino, size);
                self.bytes.resize(size as usize, 0);
                format!("truncate {size}")
            }
            70..76 => self.fallocate(mounted, rng),
            76..82 => {
                let (root, other) = (fs.root(), format!("{}.moved", self.name));
                fs.rename(
                    (root, self.name.as_bytes()),
                    (root, other.as_bytes()),
                    RenameFlags::empty().into(),
                )
                .expect("there");
                fs.link(self.ino, root, self.name.as_bytes()).expect("back");
                mounted.unlink(&other);
                "rename and link back".into()
            }
            82..86 => {
                fs.setattr(self.ino, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).expect("chmod");
                fs.accessed(self.ino).expect("accessed");
                "chmod".into()
            }
            86..90 => {
                mounted.unlink(&self.name);
                *self = Self { generation: self.generation + 1, ..Self::new(mounted, self.name.clone()) };
                "unlink and create".into()
            }
            90..92 => {
                mounted.open(self.ino);
                mounted.unlink(&self.name);
                let before = std::mem::replace(self, Self::new(mounted, self.name.clone()));
                before.check(mounted, "unlink while open");
                fs.release(before.ino);
                "unlink while open and create".into()
            }
            92..93 => {
                fs.sync().expect("sync");
                "sync".into()
            }
            _ => {
                let span = [1_000, 50_000, 2_000_000_000, 7_000_000_000][rng.random_range(0..4)];
                if sim::clock() == Clock::Virtual {
                    sim::sleep(Nanos(span));
                }
                format!("sleep {span}")
            }
        }
    }

    fn fallocate(&mut self, mounted: &Mounted, rng: &mut Rng) -> String {
        let (at, len) = (edge(rng), edge(rng).max(1));
        let keep = FallocateMode::KEEP_SIZE;
        let modes =
            [FallocateMode::empty(), keep, FallocateMode::ZERO_RANGE, FallocateMode::PUNCH_HOLE | keep];
        let mode = modes[rng.random_range(0..4)];
        mounted.fs.fallocate(self.ino, mode, at, len).expect("fallocate");
        let end = (at + len) as usize;
        if !mode.contains(keep) {
            self.bytes.resize(self.bytes.len().max(end), 0);
        }
        if mode.intersects(FallocateMode::PUNCH_HOLE | FallocateMode::ZERO_RANGE) {
            let size = self.bytes.len();
            self.bytes[size.min(at as usize)..size.min(end)].fill(0);
        }
        format!("fallocate {mode:?} {at}+{len}")
    }
}

fn edge(rng: &mut Rng) -> u64 {
    EDGES[rng.random_range(0..EDGES.len())]
        + if rng.random_range(0..4) == 0 { rng.random_range(0..300) } else { 0 }
}

/// One task: its own files, and its own bytes of a file that all write to.
fn work(
    mounted: &Mounted,
    twins: &mut [Twin],
    shared: (Ino, &mut Vec<u8>),
    number: u64,
    rng: &mut Rng,
    steps: usize,
) {
    let (common, own) = shared;
    for step in 0..steps {
        let twin = rng.random_range(0..twins.len());
        let what = format!("step {step}, {}", twins[twin].step(mounted, rng));
        twins[twin].check_part(mounted, rng, &what);
        if step % 8 == 0 {
            twins[twin].check(mounted, &what);
        }
        // Task n owns the bytes from 1000 n on: several tasks share each block, none a byte.
        let (at, len) = (rng.random_range(0..1000usize), rng.random_range(1..400));
        let (end, tag) = ((at + len).min(1000), rng.random_range(1..=255));
        let flags = if step % 10 == 0 { IoFlags::SYNC } else { IoFlags::empty() };
        mounted.fs.write(common, number * 1000 + at as u64, &vec![tag; end - at], flags).expect("write");
        own[at..end].fill(tag);
        assert!(
            mounted.read(common, number * 1000, 1000) == own[..],
            "shared file, task {number}, step {step}"
        );
    }
    for twin in twins {
        twin.check(mounted, "all steps");
    }
}

fn exercise(
    clock: Clock,
    design: &'static str,
    given: &'static [(&str, &str)],
    seed: u64,
    (tasks, rounds, steps): (u64, u64, usize),
) {
    run(clock, seed, move || {
        let mut mounted = Arc::new(Mounted::new(design, free_region(Bytes::mib(8)), given));
        let common = mounted.create("common");
        mounted.truncate(common, tasks * 1000);
        let mut states: Vec<_> = (0..tasks)
            .map(|task| {
                let twins: Vec<_> = (0..3).map(|n| Twin::new(&mounted, format!("{task}.{n}"))).collect();
                (twins, vec![0u8; 1000])
            })
            .collect();
        for round in 0..rounds {
            let handles: Vec<_> = (0..tasks)
                .zip(states)
                .map(|(task, (mut twins, mut own))| {
                    let mounted = Arc::clone(&mounted);
                    sim::spawn(TaskSpec::named(format!("task {task}")).on_core(task as u16), move || {
                        let mut rng = Seed(seed).derive("hinfs.random", round * 100 + task).rng();
                        work(&mounted, &mut twins, (common, &mut own), task, &mut rng, steps);
                        (twins, own)
                    })
                })
                .collect();
            states = handles.into_iter().map(sim::JoinHandle::join).collect();
            let used = mounted.counter("pages_used");
            assert!(used <= mounted.counter("pages"), "{used} pages");
            mounted.fs.sync().expect("sync");
            let left = ["pages_used", "blocks_listed", "transactions_open"].map(|name| mounted.counter(name));
            assert_eq!(left, [0; 3], "after a sync nothing is buffered, listed or open");
            let alone = Arc::get_mut(&mut mounted).expect("the tasks have ended");
            alone.remount();
            for (task, (twins, own)) in (0..).zip(&states) {
                for twin in twins {
                    twin.check(alone, "a remount");
                }
                assert!(alone.read(common, task * 1000, 1000) == own[..]);
            }
        }
        Arc::into_inner(mounted).expect("the tasks have ended").end();
    });
}

const TINY: &[(&str, &str)] =
    &[("jsize", "64k"), ("buffer", "8k"), ("medium_write", "200ns"), ("writeback_tasks", "1")];
const SMALL: &[(&str, &str)] = &[("jsize", "64k"), ("buffer", "64k"), ("medium_write", "200ns")];
const WIDE: &[(&str, &str)] =
    &[("jsize", "64k"), ("buffer", "256k"), ("medium_write", "200ns"), ("new_blocks", "lazy")];
const SYNC: &[(&str, &str)] =
    &[("jsize", "64k"), ("buffer", "16k"), ("medium_write", "200ns"), ("sync", "true")];

#[test]
fn reads_return_the_last_write_under_the_virtual_clock() {
    let seeds = std::env::var("WEIR_HINFS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    for design in DESIGNS {
        for given in [TINY, SMALL, WIDE, SYNC] {
            for seed in 0..seeds {
                exercise(Clock::Virtual, design, given, seed, (1 + seed % 5, 3, 60));
            }
        }
    }
}

#[test]
fn reads_return_the_last_write_on_real_threads() {
    for design in DESIGNS {
        for given in [TINY, SMALL] {
            exercise(Clock::Real, design, given, 1, (4, 2, 80));
        }
    }
}

#[test]
fn a_full_disk_cuts_writes_short_and_loses_nothing() {
    for design in DESIGNS {
        for pages in ["8k", "1MiB"] {
            run(Clock::Virtual, 1, move || {
                let given = [("jsize", "64k"), ("buffer", pages), ("medium_write", "200ns")];
                let mut mounted = Mounted::new(design, free_region(Bytes::mib(2)), &given);
                let mut files = Vec::new();
                'full: for number in 0..100u8 {
                    let (file, mut size) = (mounted.create(&format!("{number}")), 0);
                    files.push(file);
                    for part in 0..4 {
                        let written =
                            mounted.fs.write(file, size, &vec![number + 1; 30_000], IoFlags::empty());
                        let bytes = written.map_or(0, |written| written.bytes);
                        size += bytes as u64;
                        assert_eq!(mounted.size(file), size, "{design}, {pages}: file {number}, part {part}");
                        if bytes < 30_000 {
                            break 'full;
                        }
                    }
                }
                let far = mounted.fs.write(files[0], 10_000_000, &[1; 10], IoFlags::empty());
                assert_eq!(far.map(|_| ()), Err(vfs::Errno::ENOSPC));
                assert_eq!(mounted.size(files[0]), 120_000, "a write that failed has not moved the end");
                let sizes: Vec<_> = files.iter().map(|file| mounted.size(*file)).collect();
                mounted.remount();
                for (number, (file, size)) in files.iter().zip(sizes).enumerate() {
                    assert_eq!(mounted.size(*file), size);
                    assert!(
                        mounted.read(*file, 0, 130_000) == vec![number as u8 + 1; size as usize],
                        "file {number}"
                    );
                }
                (0..files.len()).for_each(|number| mounted.unlink(&format!("{number}")));
                mounted.end();
            });
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let once = || {
        run(Clock::Virtual, 5, || {
            let mounted = Arc::new(Mounted::paper("hinfs", 8, &[("jsize", "64k")]));
            let handles: Vec<_> = (0..4u64)
                .map(|task| {
                    let mounted = Arc::clone(&mounted);
                    sim::spawn(TaskSpec::named("task").on_core(task as u16), move || {
                        let mut rng = Seed(5).derive("hinfs.same", task).rng();
                        let mut twin = Twin::new(&mounted, format!("{task}"));
                        (0..60).for_each(|_| drop(twin.step(&mounted, &mut rng)));
                    })
                })
                .collect();
            handles.into_iter().for_each(sim::JoinHandle::join);
            (sim::now(), mounted.fs.counters())
        })
    };
    assert_eq!(once(), once());
}
