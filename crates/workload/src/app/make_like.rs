//! `make -j1` of a tree of C sources as a kernel's build makes it: generated, no recorded build.
//!
//! What a compilation calls within the tree was read from gcc 12 with `-c -I… -MD` and a temporary directory there (strace), and
//! from the rules of Linux's `scripts/Makefile.build`, which lets `fixdep` turn a list of dependencies into a file of the command.
//!
//! | step | calls |
//! |---|---|
//! | make | stat of the object, which is missing, and of the source |
//! | driver | temporary assembly: open (new), close |
//! | compiler | source and each header: open (some first where they are not: `ENOENT`), fstat, read, close |
//! | | before each open of a header: stat of a precompiled one, which is missing |
//! | | assembly and list of dependencies: open, writes of 4 KiB, close |
//! | assembler | assembly: open, fstat, reads, close; object: open, writes of 4 KiB, close |
//! | driver | unlink of the assembly |
//! | fixdep | dependencies: open, fstat, reads, close; command's file: open, writes, close, rename; unlink of the dependencies |
//!
//! Nothing is synced. To build a tree of your own, record and replay it (`docs/traces.md`).

use std::sync::Arc;

use rand::RngExt as _;
use sim::{Bytes, Nanos, Rng, Seed};
use vfs::{Errno, Fd, OpenFlags, RenameFlags, Syscalls};

use super::control::{Control, Does, Failure, Kind, Tally};
use super::run::{self, Place, Plan, Run};
use super::variables::{MAX_CLIENTS, Reader, Values};
use crate::charges::GENERATOR;
use crate::suite::{How, Job, JobError, LoadError, Processes, Settings, Workload};
use crate::tree::{CallFailed, write_text};

pub(super) const DETAIL: &str = "\
Each client compiles the sources of a tree of its own, one after the other, as make -j1 does in a kernel's tree: generated calls, no
recorded build. Nothing is synced.

  clients     how many there are (--threads)
  objects     sources, each compiled to an object
  headers     in the tree, which all sources share
  includes    headers that a compilation opens
  misses      directories of ten lookups in which a header is not found first
  compile_us  what compiling and assembling a source computes
  passes      of each client; a pass after the first writes all objects again; 0: until the time is over

An operation is an object.
";

/// Bytes of a read and of a write, as of stdio.
const PIECE: usize = 4096;
/// Bytes of a read: of a source all of it, of assembly less.
const READ: usize = 64 << 10;
const ASSEMBLER_READ: usize = 32 << 10;
/// Directories of headers.
const DIRECTORIES: u64 = 4;
/// Objects of a directory of sources.
const OF_DIRECTORY: u64 = 20;
/// Sizes, in bytes: sources and headers of about the mean of Linux's, objects, assembly, lists of dependencies.
const SOURCE: std::ops::RangeInclusive<u64> = 2000..=40_000;
const HEADER: std::ops::RangeInclusive<u64> = 300..=12_000;
const OBJECT: std::ops::RangeInclusive<u64> = 10 << 10..=100 << 10;
const ASSEMBLY: std::ops::RangeInclusive<u64> = 20 << 10..=300 << 10;
const DEPENDENCIES: std::ops::RangeInclusive<u64> = 1 << 10..=60 << 10;

const KINDS: &[Kind] = &[Kind { name: "object", does: Does::Writes }];

/// All variables, checked.
#[derive(Clone, Debug)]
struct Make {
    clients: u64,
    objects: u64,
    headers: u64,
    includes: u64,
    misses: u64,
    compile: Nanos,
    passes: u64,
    values: Values,
}

pub(super) fn load(settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let mut reader = Reader::new("make-like", "clients", settings);
    let clients = reader.count("clients", 1, 1..=MAX_CLIENTS)?;
    let objects = reader.count("objects", 200, 1..=1_000_000)?;
    let headers = reader.count("headers", 800, 1..=1_000_000)?;
    let made = Make {
        clients,
        objects,
        headers,
        includes: reader.count("includes", headers.min(400), 0..=headers)?,
        misses: reader.count("misses", 10, 0..=10 * (DIRECTORIES - 1))?,
        compile: Nanos::from_micros(reader.count("compile_us", 200_000, 0..=60_000_000)?),
        passes: reader.count("passes", 1, 0..=1_000_000)?,
        values: reader.finish()?,
    };
    Ok(Arc::new(made))
}

impl Workload for Make {
    fn settings(&self) -> String {
        format!("app/make-like {:?}", self.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.values.clone()
    }

    /// Sources, headers and objects, each as long as it may be, and the temporary files of one compilation.
    fn data_bytes(&self) -> u64 {
        let object = SOURCE.end() + OBJECT.end() + DEPENDENCIES.end() + 3 * PIECE as u64;
        let header = HEADER.end() + PIECE as u64;
        let each = self.objects * object + self.headers * header + ASSEMBLY.end() + DEPENDENCIES.end();
        self.clients.saturating_mul(each)
    }

    fn small_files(&self) -> u64 {
        self.clients * (3 * self.objects + self.headers + self.objects / OF_DIRECTORY + 16)
    }

    fn tasks(&self) -> u64 {
        self.clients
    }

    fn ends(&self) -> bool {
        self.passes > 0
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["objects", "headers", "clients"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Ok(Arc::new(Run::new(Arc::new(self.clone()), how, processes)))
    }
}

fn header_path(client: u64, directory: u64, header: u64) -> String {
    format!("c{client}/include/i{directory}/h{header}.h")
}

fn source_stem(client: u64, object: u64) -> String {
    format!("c{client}/d{}/s{object}", object / OF_DIRECTORY)
}

impl Plan for Make {
    fn name(&self) -> &'static str {
        "make-like"
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.clients
    }

    fn buffer(&self) -> Bytes {
        Bytes(READ as u64)
    }

    fn prepare(&self, how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        let mkdir = |path: &str| calls.mkdir(path.as_bytes(), 0o755).map_err(CallFailed::of("mkdir", path));
        for client in 0..self.clients {
            let mut rng = how.seed.derive("app.make-like.tree", client).rng();
            ["", "/tmp", "/include"].iter().try_for_each(|below| mkdir(&format!("c{client}{below}")))?;
            (0..DIRECTORIES).try_for_each(|number| mkdir(&format!("c{client}/include/i{number}")))?;
            for header in 0..self.headers {
                let path = header_path(client, header % DIRECTORIES, header);
                write_text(calls, &path, rng.random_range(HEADER), PIECE)?;
            }
            for object in 0..self.objects {
                if object % OF_DIRECTORY == 0 {
                    mkdir(&format!("c{client}/d{}", object / OF_DIRECTORY))?;
                }
                let path = format!("{}.c", source_stem(client, object));
                write_text(calls, &path, rng.random_range(SOURCE), PIECE)?;
            }
        }
        Ok(())
    }

    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        let passes = if self.passes > 0 { self.passes } else { u64::MAX };
        Box::new(Client {
            left: passes.saturating_mul(self.objects),
            seed: place.how.seed,
            rng: place.how.seed.derive("app.make-like", client).rng(),
            calls: place.processes.start(),
            buffer: vec![0; READ],
            number: client,
            plan: self,
        })
    }
}

/// A make.
struct Client {
    plan: Arc<Make>,
    number: u64,
    /// Compilations that are left.
    left: u64,
    seed: Seed,
    rng: Rng,
    calls: Arc<dyn Syscalls>,
    buffer: Vec<u8>,
}

impl Client {
    fn open(&self, path: &str) -> Result<Fd, CallFailed> {
        self.calls.open(path.as_bytes(), OpenFlags::READ, 0).map_err(CallFailed::of("open", path))
    }

    /// Reads a file in pieces, the last of which is not a whole one.
    fn read(&mut self, path: &str, piece: usize) -> Result<(), CallFailed> {
        let fd = self.open(path)?;
        self.calls.fstat(fd).map_err(CallFailed::of("fstat", path))?;
        let buffer = &mut self.buffer[..piece];
        while self.calls.read(fd, buffer).map_err(CallFailed::of("read", path))? == piece {}
        self.calls.close(fd).map_err(CallFailed::of("close", path))
    }

    /// A call that looks for a file that need not be there.
    fn may_miss<T>(call: &'static str, path: &str, found: &vfs::Result<T>) -> Result<(), CallFailed> {
        match found {
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(CallFailed::of(call, path)(*errno)),
        }
    }

    /// Opens a header, in the directories before its own, too.
    fn include(&mut self, header: u64) -> Result<(), CallFailed> {
        let (own, mut misses) = (header % DIRECTORIES, self.plan.misses / 10);
        misses += u64::from(self.rng.random_range(0..10) < self.plan.misses % 10);
        let precompiled = |path: &str| {
            let path = format!("{path}.gch");
            Self::may_miss("stat", &path, &self.calls.stat(path.as_bytes()))
        };
        for step in 1..=misses.min(DIRECTORIES - 1) {
            let path = header_path(self.number, (own + step) % DIRECTORIES, header);
            precompiled(&path)?;
            Self::may_miss("open", &path, &self.calls.open(path.as_bytes(), OpenFlags::READ, 0))?;
        }
        let path = header_path(self.number, own, header);
        precompiled(&path)?;
        self.read(&path, READ)
    }

    /// Compiles a source; bytes written.
    fn compile(&mut self, object: u64) -> Result<u64, CallFailed> {
        let stem = source_stem(self.number, object);
        let (source, target) = (format!("{stem}.c"), format!("{stem}.o"));
        let calls = Arc::clone(&self.calls);
        Self::may_miss("stat", &target, &calls.stat(target.as_bytes()))?;
        calls.stat(source.as_bytes()).map_err(CallFailed::of("stat", &source))?;
        // The same headers in each pass.
        let mut chosen = self.seed.derive("app.make-like.includes", object).rng();
        let first = chosen.random_range(0..self.plan.headers);
        let (object_bytes, assembly_bytes) = (chosen.random_range(OBJECT), chosen.random_range(ASSEMBLY));
        let listed = chosen.random_range(DEPENDENCIES);
        let (assembly, list) = (format!("c{}/tmp/cc{object}.s", self.number), format!("{stem}.o.d"));
        let (draft, command) = (format!("{stem}.o.cmd.tmp"), format!("{stem}.o.cmd"));
        let new = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
        let fd = calls.open(assembly.as_bytes(), new, 0o600).map_err(CallFailed::of("open", &assembly))?;
        calls.close(fd).map_err(CallFailed::of("close", &assembly))?;
        self.read(&source, READ)?;
        (0..self.plan.includes).try_for_each(|step| self.include((first + step) % self.plan.headers))?;
        sim::compute_for(self.plan.compile);
        write_text(&*calls, &assembly, assembly_bytes, PIECE)?;
        write_text(&*calls, &list, listed, PIECE)?;
        self.read(&assembly, ASSEMBLER_READ)?;
        write_text(&*calls, &target, object_bytes, PIECE)?;
        calls.unlink(assembly.as_bytes()).map_err(CallFailed::of("unlink", &assembly))?;
        self.read(&list, READ)?;
        write_text(&*calls, &draft, listed, PIECE)?;
        let renamed = calls.rename(draft.as_bytes(), command.as_bytes(), RenameFlags::empty());
        renamed.map_err(CallFailed::of("rename", &draft))?;
        calls.unlink(list.as_bytes()).map_err(CallFailed::of("unlink", &list))?;
        Ok(assembly_bytes + object_bytes + 2 * listed)
    }
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
        sim::work(GENERATOR, 1);
        let (started, object) = (sim::now(), (self.plan.objects - 1) - left % self.plan.objects);
        let bytes = self.compile(object)?;
        self.left = left;
        control.note(tally, 0, bytes, started);
        Ok(true)
    }
}
