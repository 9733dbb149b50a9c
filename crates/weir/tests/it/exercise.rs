//! One file through a mount, and the bytes that it should hold: calls, a shared map and holes in any order.
//!
//! The kernel keeps pages of a mounted file that programs read, write and map, and the design knows only what has been written
//! back. Whatever the order, each byte must be the one that was written last, by whatever way. It takes root and `/dev/fuse`.
//!
//! `WEIR_EXERCISE_STEPS` and `WEIR_EXERCISE_SEED` make a campaign of it.

use crate::shared::evidence;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use media::MediaError;
use media::nvmm::null::Null;
use media::nvmm::{Access, Region};
use rand::RngExt;
use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use rustix::io::Errno;
use sim::{Rng, Seed};

use crate::shared::place::{DESIGNS, Place, can_mount, wanted};

/// No step begins beyond.
const REACH: u64 = 300_000;

/// Length of the map: more than a file ever has. Only what the file has is touched.
const MAP: u64 = 512 << 10;

/// Steps that a failure tells of.
const TOLD: usize = 24;

/// Ways in which a step uses the file; some come more often.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Append,
    Read,
    Map,
    Store,
    Load,
    Resize,
    Allocate(FallocateFlags),
    Copy,
    Seek,
    Sync,
    Reopen,
    Evict,
}

/// A file, a map of it, and what it should hold.
struct Exercise {
    path: PathBuf,
    file: File,
    map: Option<Region>,
    bytes: Vec<u8>,
    rng: Rng,
    told: VecDeque<String>,
}

fn opened(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("the file opens")
}

fn mapped(path: &Path) -> Region {
    loop {
        match Region::file(path, None, Access::ReadWrite, Box::new(Null)) {
            // A program that another test has just started keeps the lock of the last map until it runs.
            Err(MediaError::InUse) => thread::yield_now(),
            mapped => return mapped.expect("the file is mapped"),
        }
    }
}

impl Exercise {
    fn new(path: PathBuf, seed: Seed) -> Self {
        let file = opened(&path);
        Self { path, file, map: None, bytes: Vec::new(), rng: seed.rng(), told: VecDeque::new() }
    }

    fn step(&mut self) -> Step {
        let zero = FallocateFlags::ZERO_RANGE;
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match self.rng.random_range(0..24) {
            0..4 => Step::Write,
            4 => Step::Append,
            5..7 => Step::Read,
            7 => Step::Map,
            8..11 => Step::Store,
            11..13 => Step::Load,
            13..15 => Step::Resize,
            15 => Step::Allocate(punch),
            16 => Step::Allocate(zero),
            17 => Step::Allocate(FallocateFlags::empty()),
            18 => Step::Allocate(FallocateFlags::KEEP_SIZE),
            19 => Step::Copy,
            20 => Step::Seek,
            21 => Step::Sync,
            22 => Step::Reopen,
            _ => Step::Evict,
        }
    }

    fn offset(&mut self) -> usize {
        let any = self.rng.random_range(0..REACH) as usize;
        if self.rng.random_range(0..3) == 0 { any & !4095 } else { any }
    }

    fn len(&mut self) -> usize {
        let usual = [1, 7, 64, 100, 4096, 4097, 8192, 20_000, 65_536];
        let any = self.rng.random_range(1..70_000);
        usual.get(self.rng.random_range(0..12)).copied().unwrap_or(any)
    }

    fn data(&mut self, len: usize) -> Vec<u8> {
        let first: u8 = self.rng.random_range(1..=255);
        (0..len).map(|at| first.wrapping_add((at / 61) as u8).max(1)).collect()
    }

    /// Takes one step; complains when the file is not what it should be.
    fn take(&mut self) -> Result<(), String> {
        let (step, at, len) = (self.step(), self.offset(), self.len());
        self.told.push_back(format!("{step:?} at {at}, {len} bytes; the file has {}", self.bytes.len()));
        if self.told.len() > TOLD {
            self.told.pop_front();
        }
        self.act(step, at, len)?;
        let size = fs::metadata(&self.path).expect("stat").len();
        if size == self.bytes.len() as u64 { Ok(()) } else { Err(format!("stat says {size} bytes")) }
    }

    fn act(&mut self, step: Step, at: usize, len: usize) -> Result<(), String> {
        // What the file has from there on.
        let there = self.bytes.len().saturating_sub(at).min(len);
        match step {
            Step::Write => self.write(at, len),
            Step::Append => self.append(len),
            Step::Read => self.read(at, len, there)?,
            Step::Map => self.map(),
            Step::Store => self.store(at, there),
            Step::Load => self.load(at, there)?,
            Step::Resize => {
                self.file.set_len(at as u64).expect("resize");
                self.bytes.resize(at, 0);
            }
            Step::Allocate(how) => self.allocate(how, at, len),
            Step::Copy => self.copy(at, there),
            Step::Seek => self.seek(at)?,
            Step::Sync => self.sync(),
            Step::Reopen => self.file = opened(&self.path),
            Step::Evict => {
                self.file.sync_data().expect("fdatasync");
                rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed).expect("fadvise");
            }
        }
        Ok(())
    }

    /// Complains when `seen`, read at `at`, is not what the file should hold there, `len` bytes.
    fn same(&self, at: usize, seen: &[u8], len: usize) -> Result<(), String> {
        if seen.len() != len {
            return Err(format!("{} bytes at {at} instead of {len}", seen.len()));
        }
        let expected = self.bytes.get(at..at + len).unwrap_or_default();
        let wrong = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
        wrong.map_or(Ok(()), |wrong| {
            Err(format!("byte {} is {:#x} instead of {:#x}", at + wrong, seen[wrong], expected[wrong]))
        })
    }

    fn write(&mut self, at: usize, len: usize) {
        let data = self.data(len);
        self.file.write_all_at(&data, at as u64).expect("write");
        self.bytes.resize(self.bytes.len().max(at + len), 0);
        self.bytes[at..at + len].copy_from_slice(&data);
    }

    fn append(&mut self, len: usize) {
        let data = self.data(len.min(MAP as usize - self.bytes.len()));
        let mut end = OpenOptions::new().append(true).open(&self.path).expect("opens");
        end.write_all(&data).expect("append");
        self.bytes.extend(data);
    }

    fn read(&mut self, at: usize, len: usize, there: usize) -> Result<(), String> {
        let mut seen = vec![0; len];
        let read = self.file.read_at(&mut seen, at as u64).expect("read");
        self.same(at, &seen[..read], there)
    }

    fn store(&mut self, at: usize, len: usize) {
        let data = self.data(len);
        if let Some(map) = self.map.as_ref().filter(|_| len > 0) {
            map.store(at as u64, &data).expect("inside the map");
            self.bytes[at..at + len].copy_from_slice(&data);
        }
    }

    fn load(&mut self, at: usize, len: usize) -> Result<(), String> {
        let Some(map) = self.map.as_ref().filter(|_| len > 0) else { return Ok(()) };
        let mut seen = vec![0; len];
        map.peek(at as u64, &mut seen).expect("inside the map");
        self.same(at, &seen, len)
    }

    /// Maps the file anew, or no longer. The map is longer than the file: it must be that long for a moment.
    fn map(&mut self) {
        self.map = None;
        if self.rng.random_range(0..4) > 0 {
            self.file.set_len(MAP).expect("grow");
            self.map = Some(mapped(&self.path));
            self.file.set_len(self.bytes.len() as u64).expect("cut");
        }
    }

    fn allocate(&mut self, how: FallocateFlags, at: usize, len: usize) {
        rustix::fs::fallocate(&self.file, how, at as u64, len as u64).expect("fallocate");
        if !how.contains(FallocateFlags::KEEP_SIZE) {
            self.bytes.resize(self.bytes.len().max(at + len), 0);
        }
        if how.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            let end = self.bytes.len();
            self.bytes[at.min(end)..(at + len).min(end)].fill(0);
        }
    }

    fn copy(&mut self, at: usize, len: usize) {
        let to = self.offset();
        if len == 0 || at.abs_diff(to) < len {
            return;
        }
        let (mut from, mut into) = (at as u64, to as u64);
        let end = from + len as u64;
        while from < end {
            let (left, file) = ((end - from) as usize, &self.file);
            let copied = rustix::fs::copy_file_range(file, Some(&mut from), file, Some(&mut into), left);
            assert_ne!(copied.expect("copy_file_range"), 0);
        }
        self.bytes.resize(self.bytes.len().max(to + len), 0);
        self.bytes.copy_within(at..at + len, to);
    }

    /// What is told to be a hole holds zeros.
    fn seek(&self, at: usize) -> Result<(), String> {
        let reader = File::open(&self.path).expect("opens");
        let end = self.bytes.len() as u64;
        let (mut from, mut holes) = (at as u64, Vec::new());
        while from < end {
            let hole = rustix::fs::seek(&reader, SeekFrom::Hole(from)).map_err(|errno| errno.to_string())?;
            let data = match rustix::fs::seek(&reader, SeekFrom::Data(hole)) {
                Err(Errno::NXIO) => end,
                found => found.map_err(|errno| errno.to_string())?,
            };
            holes.push(hole as usize..data as usize);
            from = data;
        }
        let wrong = holes.into_iter().find(|hole| self.bytes[hole.clone()].iter().any(|byte| *byte != 0));
        wrong.map_or(Ok(()), |hole| Err(format!("data in {hole:?}, which is told to be a hole")))
    }

    fn sync(&mut self) {
        match (self.rng.random_range(0..3), &self.map) {
            (0, Some(map)) => map.sync().expect("msync"),
            (1, _) => self.file.sync_data().expect("fdatasync"),
            _ => self.file.sync_all().expect("fsync"),
        }
    }
}

#[test]
fn calls_maps_and_holes_of_a_file_agree_whatever_their_order() {
    let (steps, seed) = (wanted("WEIR_EXERCISE_STEPS", 1_500), wanted("WEIR_EXERCISE_SEED", 1));
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        for cache in ["cache=pages", "cache=direct"] {
            let place = Place::new(design);
            place.mount(cache);
            let path = place.dir().join("file");
            let mut exercise = Exercise::new(path.clone(), Seed(seed).derive(design, 0));
            for number in 0..steps {
                let taken = exercise.take();
                let told = exercise.told.make_contiguous();
                let before = || {
                    format!("{design}, {cache}, seed {seed}, step {number}, after\n  {}", told.join("\n  "))
                };
                taken.unwrap_or_else(|wrong| panic!("{wrong}: {}", before()));
            }
            let bytes = std::mem::take(&mut exercise.bytes);
            drop(exercise);
            assert!(fs::read(&path).expect("reads") == bytes, "{design}, {cache}, seed {seed}: at the end");
            place.umount();
            place.check();
            place.mount("ro");
            assert!(
                fs::read(&path).expect("reads") == bytes,
                "{design}, {cache}, seed {seed}: mounted again"
            );
            place.umount();
        }
        println!("{design}: {steps} steps with either cache, nothing differs");
        evidence::record("mount/contents", design, (2 * steps as usize, "steps"), 0, Some(seed));
    }
}

/// A file of 1 MiB without blocks.
fn hole(path: &Path) {
    File::create(path).and_then(|file| file.set_len(1 << 20)).expect("a file");
}

fn first_data(path: &Path) -> Result<u64, Errno> {
    rustix::fs::seek(File::open(path).expect("opens"), SeekFrom::Data(0))
}

#[test]
fn what_a_map_has_stored_is_no_hole_and_holes_are_told_when_the_map_has_gone() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        for cache in ["cache=pages", "cache=direct"] {
            let place = Place::new(design);
            place.mount(cache);
            let path = place.dir().join("file");
            hole(&path);
            assert_eq!(first_data(&path), Err(Errno::NXIO), "{design}, {cache}: nothing was written");
            let map = mapped(&path);
            map.store(500_000, &[7; 10]).expect("inside");
            assert!(first_data(&path).is_ok_and(|data| data <= 500_000), "{design}, {cache}");
            let copy = place.dir().join("copy");
            assert!(
                Command::new("cp")
                    .arg("--sparse=auto")
                    .args([&path, &copy])
                    .status()
                    .expect("cp runs")
                    .success()
            );
            assert!(
                fs::read(&copy).expect("reads") == fs::read(&path).expect("reads"),
                "{design}, {cache}: cp"
            );
            drop(map);
            // The kernel tells of a close when it has time.
            let told = (0..300_000).any(|_| {
                thread::sleep(Duration::from_millis(1));
                first_data(&path).is_ok_and(|data| (496_000..=500_000).contains(&data))
            });
            assert!(told, "{design}, {cache}: {:?}", first_data(&path));
            place.umount();
        }
    }
}
