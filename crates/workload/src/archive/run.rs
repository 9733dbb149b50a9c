//! The programs as a workload: each client has a tree or an archive of its own.

use std::sync::{Arc, OnceLock};

use sim::{Bytes, Clock, Nanos, Rate, Seed};
use vfs::Syscalls;

use super::options::{BUFFER, Options, Program};
use super::{tar, tree, zip};
use crate::app::control::{Control, Does, Failure, Kind, Tally};
use crate::app::run::{self, Place, Plan};
use crate::charges::GENERATOR;
use crate::suite::{How, Measured};
use crate::tree::CallFailed;

pub(super) const FILE: usize = 0;
pub(super) const DIRECTORY: usize = 1;
const KINDS: &[Kind] =
    &[Kind { name: "file", does: Does::Other }, Kind { name: "directory", does: Does::Other }];

/// Where operations of a client are noted.
pub(super) struct Noting<'a> {
    control: &'a Arc<Control>,
    tally: &'a mut Tally,
}

impl Noting<'_> {
    pub(super) fn done(&mut self, kind: usize, bytes: u64, started: Nanos) {
        self.control.note(self.tally, kind, bytes, started);
    }

    pub(super) fn is_over(&self) -> bool {
        self.control.is_over()
    }

    pub(super) fn read(&mut self, bytes: u64) {
        self.tally.add("archive.read_bytes", bytes);
    }

    pub(super) fn wrote(&mut self, bytes: u64) {
        self.tally.add("archive.written_bytes", bytes);
    }

    /// An entry that is neither a file nor a directory.
    pub(super) fn skipped(&mut self) {
        self.tally.add("archive.skipped", 1);
    }
}

/// An operation begins.
pub(super) fn begin() -> Nanos {
    sim::work(GENERATOR, 1);
    sim::now()
}

/// What so many bytes take at this rate. Under the real clock they are computed.
pub(super) fn compute(rate: Rate, bytes: u64) {
    if sim::clock() == Clock::Virtual {
        sim::compute_for(rate.time(Bytes(bytes)));
    }
}

/// The programs on one subject.
#[derive(Debug)]
pub(super) struct Load {
    options: Options,
    seed: OnceLock<Seed>,
}

impl Load {
    pub(super) fn new(options: Options) -> Self {
        Self { options, seed: OnceLock::new() }
    }

    fn archive(&self, client: u64) -> String {
        format!("archive{client}.{}", self.options.program.ending())
    }

    fn entries(&self, seed: Seed, client: u64) -> Vec<tree::Entry> {
        tree::entries(&self.options.shape, seed, client)
    }

    /// Makes an archive that is unpacked.
    fn make_archive(&self, seed: Seed, client: u64, calls: &dyn Syscalls) -> Result<(), Failure> {
        let name = self.archive(client);
        let entries = || self.entries(seed, client);
        let made = match (&self.options.given, self.options.program) {
            (Some(given), _) => return Ok(tree::write_whole(calls, &name, &given.bytes)?),
            (None, Program::Unzip) => zip::in_memory(seed, client, &entries(), self.options.codec),
            (None, _) => tar::in_memory(seed, client, &entries()),
        };
        Ok(tree::write_whole(calls, &name, &made.map_err(tar::at(&name))?)?)
    }
}

fn mkdir(calls: &dyn Syscalls, path: &str) -> Result<(), Failure> {
    Ok(calls.mkdir(path.as_bytes(), 0o755).map_err(CallFailed::of("mkdir", path))?)
}

impl Plan for Load {
    fn suite(&self) -> &'static str {
        "archive"
    }

    fn name(&self) -> &'static str {
        self.options.name
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.options.clients
    }

    fn buffer(&self) -> Bytes {
        BUFFER
    }

    fn prepare(&self, how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        let seed = *self.seed.get_or_init(|| how.seed);
        for client in 0..self.options.clients {
            mkdir(calls, &format!("c{client}"))?;
            if self.options.program.unpacks() {
                self.make_archive(seed, client, calls)?;
            } else {
                tree::make(calls, seed, client, &self.entries(seed, client))?;
            }
        }
        Ok(())
    }

    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        Box::new(Client { plan: self, number: client, calls: place.processes.start(), is_done: false })
    }

    fn conclude(&self, measured: &mut Measured) -> Result<(), Failure> {
        let count = |name: &str| measured.counters.get(name).copied().unwrap_or(0);
        let (read, written) = (count("archive.read_bytes"), count("archive.written_bytes"));
        let skipped = count("archive.skipped");
        (measured.read_bytes, measured.written_bytes) = (read, written);
        if skipped > 0 {
            measured
                .notes
                .push(format!("{skipped} entries that are neither files nor directories were left out"));
        }
        Ok(())
    }

    /// Every file of the generated tree, in the archive or as it was unpacked.
    fn verify(&self, calls: &dyn Syscalls) -> Result<(), Failure> {
        let Some(seed) = self.seed.get().copied().filter(|_| self.options.given.is_none()) else {
            return Ok(());
        };
        for client in 0..self.options.clients {
            let entries = self.entries(seed, client);
            let mut wanted = entries.iter().filter(|entry| entry.size.is_some());
            if self.options.program.unpacks() {
                wanted.try_for_each(|entry| {
                    let found = tree::read_whole(calls, &format!("c{client}/{}", entry.path))?;
                    same(&entry.path, &found, &tree::content(seed, client, entry))
                })?;
                continue;
            }
            let archive = format!("c{client}/{}", self.archive(client));
            let bytes = tree::read_whole(calls, &archive)?;
            let packed = tar::files(&bytes, self.options.program).map_err(tar::at(&archive))?;
            for (path, content) in packed {
                match wanted.next() {
                    Some(entry) if entry.path == path => {
                        same(&path, &content, &tree::content(seed, client, entry))?;
                    }
                    _ => {
                        return Err(Failure::new(format!("{archive} holds {path} in the wrong place"), None));
                    }
                }
            }
            if let Some(entry) = wanted.next() {
                return Err(Failure::new(format!("{archive} does not hold {}", entry.path), None));
            }
        }
        Ok(())
    }
}

fn same(path: &str, found: &[u8], wanted: &[u8]) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    let first = found.iter().zip(wanted).position(|(a, b)| a != b).unwrap_or(found.len().min(wanted.len()));
    Err(Failure::new(format!("{path} differs from byte {first} on"), None))
}

/// A program.
struct Client {
    plan: Arc<Load>,
    number: u64,
    calls: Arc<dyn Syscalls>,
    is_done: bool,
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(false);
        }
        let options = &self.plan.options;
        let (calls, mut note) = (&*self.calls, Noting { control, tally });
        let (name, below) = (self.plan.archive(self.number), format!("c{}", self.number));
        let (root, inside, outside) =
            (format!("tree{}", self.number), format!("{below}/{name}"), format!("../{name}"));
        if options.program.unpacks() {
            calls.chdir(below.as_bytes()).map_err(CallFailed::of("chdir", &below))?;
        }
        match options.program {
            Program::Tar => tar::pack(calls, &root, &inside, &mut note)?,
            Program::Zip => zip::pack(calls, &root, &inside, options.codec, &mut note)?,
            Program::Untar => tar::unpack(calls, &outside, &mut note)?,
            Program::Unzip => zip::unpack(calls, &outside, options.codec, &mut note)?,
        }
        Ok(true)
    }
}
