//! Small files as Bonnie++ has them: made, looked at and read, removed; in order and at random.
//!
//! | pass | calls |
//! |---|---|
//! | create | mkdir of all, chdir; for each file open (new), writes, close; then sync |
//! | stat, sequential | of each directory: chdir, open, fstat, getdents; for each name stat, open, read, close |
//! | stat, random | for each name in random order: stat, open, read, close |
//! | delete, sequential | of each directory: as stat, and unlink for each name; chdir, rmdir; then sync |
//! | delete, random | unlink of each name in another random order; rmdir of all; sync |
//!
//! A name is a number of ten digits to the base of 16 and up to twelve letters and digits: the number first where files come in
//! order, last where they do not. Files of a directory have neighbouring numbers.

use std::sync::Arc;

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use sim::{Nanos, Seed};
use vfs::{OpenFlags, Syscalls};

use super::options::Options;
use super::run::SMALL;
use crate::app::control::{Control, Failure, Tally};
use crate::app::listing::Listing;
use crate::charges::GENERATOR;
use crate::tree::CallFailed;

const DIRECTORY: &str = "Bonnie.small";
/// Letters and digits behind or before a number, at most.
const EXTRA: usize = 12;
const CHARACTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Where operations are noted: in a run, or nowhere in passes that come before it.
pub(super) struct Noting<'a> {
    control: Option<&'a Arc<Control>>,
    tally: &'a mut Tally,
    seed: Seed,
}

/// The same for a task of its own.
pub(super) struct OwnNoting {
    control: Option<Arc<Control>>,
    tally: Tally,
    seed: Seed,
}

impl OwnNoting {
    pub(super) fn borrowed(&mut self) -> Noting<'_> {
        Noting { control: self.control.as_ref(), tally: &mut self.tally, seed: self.seed }
    }

    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    pub(super) fn into_tally(self) -> Tally {
        self.tally
    }
}

impl<'a> Noting<'a> {
    pub(super) fn new(control: Option<&'a Arc<Control>>, tally: &'a mut Tally, seed: Seed) -> Self {
        Self { control, tally, seed }
    }

    pub(super) fn of_a_task(&self) -> OwnNoting {
        OwnNoting { control: self.control.cloned(), tally: Tally::default(), seed: self.seed }
    }

    pub(super) fn seed(&self) -> Seed {
        self.seed
    }

    pub(super) fn is_over(&self) -> bool {
        self.control.is_some_and(|control| control.is_over())
    }

    pub(super) fn note(&mut self, kind: usize, bytes: u64, started: Nanos) {
        if let Some(control) = self.control {
            control.note(self.tally, kind, bytes, started);
        }
    }

    pub(super) fn add(&mut self, name: &'static str, count: u64) {
        self.tally.add(name, count);
    }

    pub(super) fn merge(&mut self, other: &Tally) {
        self.tally.merge(other);
    }
}

/// All files of a part, in order or at random.
struct Files {
    names: Vec<String>,
    sizes: Vec<u64>,
}

impl Files {
    fn draw(options: &Options, seed: Seed, is_random: bool) -> Self {
        let mut rng = seed.derive("bonnie.small", u64::from(is_random)).rng();
        let of_directory = options.files.checked_div(options.directories).map_or(u64::MAX, |many| many + 1);
        let (mut names, mut sizes) = (Vec::new(), Vec::new());
        for number in 0..options.files {
            let extra: String = (0..rng.random_range(0..=EXTRA))
                .map(|_| char::from(CHARACTERS[rng.random_range(0..CHARACTERS.len())]))
                .collect();
            let name =
                if is_random { format!("{extra}{number:010x}") } else { format!("{number:010x}{extra}") };
            names.push(match options.directories {
                0 => name,
                _ => format!("{:05}/{name}", number / of_directory),
            });
            sizes.push(rng.random_range(options.sizes.0..=options.sizes.1));
        }
        Self { names, sizes }
    }

    /// The names in an order of their own.
    fn shuffled(&self, seed: Seed, pass: u64) -> Vec<&str> {
        let mut order: Vec<&str> = self.names.iter().map(String::as_str).collect();
        order.shuffle(&mut seed.derive("bonnie.small.order", pass).rng());
        order
    }
}

/// The pass of this number: creates, looks and removes in order, then the same at random.
pub(super) fn pass(
    number: usize,
    options: &Options,
    calls: &dyn Syscalls,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    let is_random = number >= SMALL + 3;
    let files = Files::draw(options, note.seed(), is_random);
    match (number - SMALL) % 3 {
        0 => create(number, options, &files, calls, note),
        1 => {
            chdir(calls, DIRECTORY)?;
            let mut buffer = vec![0; options.chunk as usize];
            let kind = number;
            let mut look = |name: &str, calls: &dyn Syscalls, note: &mut Noting<'_>| {
                let started = sim::now();
                let bytes = look_at(calls, name, &mut buffer)?;
                note.note(kind, bytes, started);
                Ok(())
            };
            for_each(number, options, &files, calls, note, &mut look)?;
            chdir(calls, "..")
        }
        _ => delete(number, options, &files, calls, note),
    }
}

fn chdir(calls: &dyn Syscalls, path: &str) -> Result<(), Failure> {
    Ok(calls.chdir(path.as_bytes()).map_err(CallFailed::of("chdir", path))?)
}

fn directories(options: &Options) -> impl Iterator<Item = String> + use<> {
    (0..options.directories).map(|number| format!("{number:05}"))
}

fn create(
    kind: usize,
    options: &Options,
    files: &Files,
    calls: &dyn Syscalls,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    let mkdir = |path: &str| calls.mkdir(path.as_bytes(), 0o700).map_err(CallFailed::of("mkdir", path));
    mkdir(DIRECTORY)?;
    chdir(calls, DIRECTORY)?;
    directories(options).try_for_each(|path| mkdir(&path))?;
    let chunk = vec![0; options.chunk as usize];
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
    for (name, size) in files.names.iter().zip(&files.sizes) {
        if note.is_over() {
            break;
        }
        sim::work(GENERATOR, 1);
        let started = sim::now();
        let fd = calls.open(name.as_bytes(), flags, 0o600).map_err(CallFailed::of("open", name))?;
        let mut left = *size as usize;
        while left > 0 {
            let wrote =
                calls.write(fd, &chunk[..left.min(chunk.len())]).map_err(CallFailed::of("write", name))?;
            if wrote == 0 {
                return Err(CallFailed::of("write", name)(vfs::Errno::ENOSPC).into());
            }
            left -= wrote;
        }
        calls.close(fd).map_err(CallFailed::of("close", name))?;
        note.note(kind, *size, started);
    }
    calls.sync().map_err(CallFailed::of("sync", "/"))?;
    chdir(calls, "..")
}

/// What happens to each file, by its name in the working directory.
type Each<'a> = dyn FnMut(&str, &dyn Syscalls, &mut Noting<'_>) -> Result<(), Failure> + 'a;

fn for_each(
    number: usize,
    options: &Options,
    files: &Files,
    calls: &dyn Syscalls,
    note: &mut Noting<'_>,
    each: &mut Each<'_>,
) -> Result<(), Failure> {
    if number >= SMALL + 3 {
        for name in files.shuffled(note.seed(), number as u64) {
            if note.is_over() {
                break;
            }
            sim::work(GENERATOR, 1);
            each(name, calls, note)?;
        }
        return Ok(());
    }
    if options.directories == 0 {
        return listed(calls, note, each);
    }
    for directory in directories(options) {
        chdir(calls, &directory)?;
        listed(calls, note, each)?;
        chdir(calls, "..")?;
    }
    Ok(())
}

/// Every file of the working directory in the order in which it is read.
fn listed(calls: &dyn Syscalls, note: &mut Noting<'_>, each: &mut Each<'_>) -> Result<(), Failure> {
    let fd = Listing::open(calls, b".").map_err(CallFailed::of("open", "."))?;
    let mut listing = Listing::default();
    while listing.fill(calls, fd).map_err(CallFailed::of("getdents", "."))? {
        for name in listing.names().filter(|name| !name.starts_with(b".")) {
            if note.is_over() {
                break;
            }
            sim::work(GENERATOR, 1);
            each(&String::from_utf8_lossy(name), calls, note)?;
        }
    }
    Ok(calls.close(fd).map_err(CallFailed::of("close", "."))?)
}

/// Looks at a file, and reads it if it holds anything.
fn look_at(calls: &dyn Syscalls, name: &str, buffer: &mut [u8]) -> Result<u64, Failure> {
    let size = calls.stat(name.as_bytes()).map_err(CallFailed::of("stat", name))?.size;
    if size == 0 {
        return Ok(0);
    }
    let fd = calls.open(name.as_bytes(), OpenFlags::READ, 0).map_err(CallFailed::of("open", name))?;
    let mut left = size;
    while left > 0 {
        let wanted = buffer.len().min(left as usize);
        let read = calls.read(fd, &mut buffer[..wanted]).map_err(CallFailed::of("read", name))?;
        if read != wanted {
            let told = format!("read of {name}: {read} bytes, where {left} of {size} are left");
            return Err(Failure::new(told, None));
        }
        left -= read as u64;
    }
    calls.close(fd).map_err(CallFailed::of("close", name))?;
    Ok(size)
}

fn delete(
    kind: usize,
    options: &Options,
    files: &Files,
    calls: &dyn Syscalls,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    chdir(calls, DIRECTORY)?;
    let mut unlink = |name: &str, calls: &dyn Syscalls, note: &mut Noting<'_>| {
        let started = sim::now();
        calls.unlink(name.as_bytes()).map_err(CallFailed::of("unlink", name))?;
        note.note(kind, 0, started);
        Ok(())
    };
    for_each(kind, options, files, calls, note, &mut unlink)?;
    if note.is_over() {
        return Ok(());
    }
    let rmdir = |path: &str| calls.rmdir(path.as_bytes()).map_err(CallFailed::of("rmdir", path));
    directories(options).try_for_each(|path| rmdir(&path))?;
    chdir(calls, "..")?;
    rmdir(DIRECTORY)?;
    Ok(calls.sync().map_err(CallFailed::of("sync", "/"))?)
}
