//! What a person's computer does to its files: five programs at once, each by a published pattern. Stand-ins for recorded desktops
//! and a telephone where their traces are not at hand; none of them is such a trace, and none has its name.
//!
//! | program | an episode |
//! |---|---|
//! | browser | makes a file of 8 to 64 KiB in its cache, reads it one to three times; removes it 10 to 100 episodes later |
//! | database | changes two to six pages of 4 KiB as SQLite does with a rollback journal: 3 syncs, the journal is removed |
//! | log | appends 40 to 200 bytes; of 200 such appends one is synced |
//! | editor | writes a new version of 4 to 40 KiB, syncs it, renames it over the old one |
//! | build | reads a source of 1 to 100 KiB, writes an object of 2 to 50 KiB anew; of four objects one is removed later |
//! | telephone | changes one to five pages of a database whose journal mostly stays, between many tiny appends that nothing syncs |
//!
//! Shares are of calls that read, write, sync and unlink: an episode is chosen by its share over the calls that it has in the mean.
//! Those of the telephone follow the counts of calls and sizes of MobiBench's trace of Facebook: 14,429 writes (5,568 are of 1
//! byte, 2,738 of 36, 2,103 of 4, 1,807 of 4,096, 679 of 1,024, 404 of 256 and 316 of 4,616), 9,907 reads, 997 syncs of which 316
//! are of the directory, 54 unlinks; spread over so many transactions as it has syncs of the directory.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::RngExt as _;
use sim::{Bytes, Rng};
use vfs::{Errno, Fd, OpenFlags, RenameFlags, Syscalls, Whence};

use super::control::{Control, Does, Failure, Kind, Tally};
use super::run::{self, Place, Plan, Run};
use super::variables::{MAX_CLIENTS, Reader, Values};
use crate::charges::GENERATOR;
use crate::suite::{How, Job, JobError, LoadError, Processes, Settings, Workload};
use crate::tree::CallFailed;

pub(super) const DETAIL: &str = "\
Each client is a computer of its own below cK, on which programs take turns: a browser's cache, a database, logs, an editor, builds;
mobile is a telephone's database. Made from published patterns and counts; it is no recorded trace.

  clients     how many there are (--threads)
  sources     files that builds read
  databases   of 1 MiB each
  episodes    how many each client makes; 0: until the time is over

An operation is an episode of a program.
";

/// Bytes of a read or write of a whole file.
const PIECE: usize = 4096;
/// Bytes of a database, and of a log before it begins anew.
const LARGE: u64 = 1 << 20;
/// Objects of builds.
const OBJECTS: u64 = 200;
/// Documents of the editor, and logs.
const DOCUMENTS: u64 = 50;
const LOGS: u64 = 4;

const BROWSER: usize = 0;
const DATABASE: usize = 1;
const LOG: usize = 2;
const EDITOR: usize = 3;
const BUILD: usize = 4;
const TELEPHONE: usize = 5;
const KINDS: &[Kind] = &[
    Kind { name: "browser", does: Does::Writes },
    Kind { name: "database", does: Does::Writes },
    Kind { name: "log", does: Does::Writes },
    Kind { name: "editor", does: Does::Writes },
    Kind { name: "build", does: Does::Writes },
    Kind { name: "telephone", does: Does::Writes },
];
/// Calls of an episode that read, write, sync or unlink, in the mean: from the sizes above.
const CALLS: [f64; 6] = [29.0, 26.0, 1.0, 7.0, 20.0, 1.0];

/// A computer.
#[derive(Debug)]
pub(super) struct Computer {
    name: &'static str,
    /// Shares of calls.
    shares: [f64; 6],
    syncs: bool,
}

pub(super) static DESKTOP_A: Computer =
    Computer { name: "desktop-a", shares: [0.30, 0.15, 0.20, 0.05, 0.30, 0.0], syncs: true };
pub(super) static DESKTOP_B: Computer =
    Computer { name: "desktop-b", shares: [0.20, 0.25, 0.20, 0.05, 0.30, 0.0], syncs: true };
pub(super) static DESKTOP_NOSYNC: Computer =
    Computer { name: "desktop-nosync", shares: [0.10, 0.0, 0.30, 0.05, 0.55, 0.0], syncs: false };
pub(super) static MOBILE: Computer =
    Computer { name: "mobile", shares: [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], syncs: true };

/// All variables, checked.
#[derive(Clone, Debug)]
struct Desktop {
    computer: &'static Computer,
    clients: u64,
    sources: u64,
    databases: u64,
    episodes: u64,
    values: Values,
}

pub(super) fn load(computer: &'static Computer, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let mut reader = Reader::new(computer.name, "clients", settings);
    Ok(Arc::new(Desktop {
        computer,
        clients: reader.count("clients", 1, 1..=MAX_CLIENTS)?,
        sources: reader.count("sources", 300, 1..=1_000_000)?,
        databases: reader.count("databases", 8, 1..=10_000)?,
        episodes: reader.count("episodes", 0, 0..=1 << 40)?,
        values: reader.finish()?,
    }))
}

impl Workload for Desktop {
    fn settings(&self) -> String {
        format!("app/{} {:?}", self.computer.name, self.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.values.clone()
    }

    /// Each file as long as it may become.
    fn data_bytes(&self) -> u64 {
        let files = self.sources * 104 + OBJECTS * 52 + DOCUMENTS * 2 * 40 + 100 * 64;
        self.clients * (files * 1024 + (self.databases + LOGS + 1) * 2 * LARGE)
    }

    fn small_files(&self) -> u64 {
        self.clients * (self.sources + OBJECTS + DOCUMENTS + 2 * self.databases + 200)
    }

    fn tasks(&self) -> u64 {
        self.clients
    }

    fn ends(&self) -> bool {
        self.episodes > 0
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["sources", "databases", "clients"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Ok(Arc::new(Run::new(Arc::new(self.clone()), how, processes)))
    }
}

impl Plan for Desktop {
    fn name(&self) -> &'static str {
        self.computer.name
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.clients
    }

    fn buffer(&self) -> Bytes {
        Bytes(2 * PIECE as u64)
    }

    fn prepare(&self, how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        for client in 0..self.clients {
            let home = format!("c{client}");
            for path in ["", "/cache", "/db", "/log", "/doc", "/src", "/obj"] {
                let path = format!("{home}{path}");
                calls.mkdir(path.as_bytes(), 0o755).map_err(CallFailed::of("mkdir", &path))?;
            }
            let of = Of { calls, home };
            let mut rng = how.seed.derive("app.desktop.files", client).rng();
            for number in 0..self.sources {
                of.new_file(&format!("src/{number}"), rng.random_range(1 << 10..=100 << 10))?;
            }
            (0..self.databases).try_for_each(|number| of.new_file(&format!("db/{number}"), LARGE))?;
            (0..DOCUMENTS).try_for_each(|number| of.new_file(&format!("doc/{number}"), 16 << 10))?;
        }
        Ok(())
    }

    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        Box::new(Client {
            rng: place.how.seed.derive("app.desktop", client).rng(),
            home: format!("c{client}"),
            calls: place.processes.start(),
            left: if self.episodes > 0 { self.episodes } else { u64::MAX },
            cached: VecDeque::new(),
            next: 0,
            plan: self,
        })
    }
}

type Done<T = ()> = Result<T, CallFailed>;

/// Calls on files of one computer.
struct Of<'a> {
    calls: &'a dyn Syscalls,
    home: String,
}

const TEXT: [u8; 2 * PIECE] = [b'x'; 2 * PIECE];

impl Of<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.home)
    }

    fn open(&self, name: &str, flags: OpenFlags) -> Done<Fd> {
        let path = self.path(name);
        self.calls.open(path.as_bytes(), flags, 0o644).map_err(CallFailed::of("open", &path))
    }

    fn create(&self, name: &str) -> Done<Fd> {
        self.open(name, OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE)
    }

    fn close(&self, fd: Fd, name: &str) -> Done {
        self.calls.close(fd).map_err(CallFailed::of("close", name))
    }

    fn fsync(&self, fd: Fd, name: &str) -> Done {
        self.calls.fsync(fd).map_err(CallFailed::of("fsync", name))
    }

    fn unlink(&self, name: &str) -> Done {
        let path = self.path(name);
        self.calls.unlink(path.as_bytes()).map_err(CallFailed::of("unlink", &path))
    }

    /// Writes up to two pieces.
    fn write(&self, fd: Fd, name: &str, len: usize) -> Done {
        whole(self.calls.write(fd, &TEXT[..len]), len).map_err(CallFailed::of("write", name))
    }

    fn pwrite(&self, fd: Fd, name: &str, len: usize, at: u64) -> Done {
        whole(self.calls.pwrite(fd, &TEXT[..len], at), len).map_err(CallFailed::of("pwrite", name))
    }

    fn pread(&self, fd: Fd, name: &str, len: usize, at: u64) -> Done {
        let mut buffer = [0; PIECE];
        whole(self.calls.pread(fd, &mut buffer[..len], at), len).map_err(CallFailed::of("pread", name))
    }

    /// Writes in whole pieces.
    fn fill(&self, fd: Fd, name: &str, len: u64) -> Done {
        let mut left = len as usize;
        while left > 0 {
            self.write(fd, name, left.min(PIECE))?;
            left -= left.min(PIECE);
        }
        Ok(())
    }

    fn new_file(&self, name: &str, len: u64) -> Done {
        let fd = self.create(name)?;
        self.fill(fd, name, len)?;
        self.close(fd, name)
    }

    fn read_all(&self, name: &str) -> Done {
        let (fd, mut buffer) = (self.open(name, OpenFlags::READ)?, [0; PIECE]);
        while self.calls.read(fd, &mut buffer).map_err(CallFailed::of("read", name))? > 0 {}
        self.close(fd, name)
    }
}

/// A call that must do all that it was asked for.
fn whole(done: vfs::Result<usize>, len: usize) -> vfs::Result<()> {
    done.and_then(|done| if done == len { Ok(()) } else { Err(Errno::EIO) })
}

/// A computer at work.
struct Client {
    plan: Arc<Desktop>,
    calls: Arc<dyn Syscalls>,
    home: String,
    rng: Rng,
    left: u64,
    /// Files of the browser's cache, and when each is removed.
    cached: VecDeque<(u64, u64)>,
    /// The number of the next one.
    next: u64,
}

impl Client {
    fn choose(&mut self) -> usize {
        let weights: Vec<f64> =
            self.plan.computer.shares.iter().zip(CALLS).map(|(share, calls)| share / calls).collect();
        let mut at = self.rng.random_range(0.0..weights.iter().sum::<f64>());
        let found = weights.iter().position(|weight| {
            at -= weight;
            at < 0.0
        });
        found.unwrap_or(if weights[TELEPHONE] > 0.0 { TELEPHONE } else { LOG })
    }

    fn browse(&mut self, of: &Of<'_>) -> Done {
        let (number, rng) = (self.next, &mut self.rng);
        self.next += 1;
        // A quarter of a uniform square: small ones are more frequent, the mean is near 24 KiB.
        let share: f64 = rng.random_range(0.0..1.0);
        let (head, len) = (rng.random_range(200..600), 8192 + (share * share * 57_344.0) as u64);
        let name = format!("cache/{number}");
        let fd = of.create(&name)?;
        of.write(fd, &name, head)?;
        of.fill(fd, &name, len)?;
        of.close(fd, &name)?;
        (0..rng.random_range(1..=3)).try_for_each(|_| of.read_all(&name))?;
        let until = number + rng.random_range(10..=100);
        let at = self.cached.partition_point(|(_, before)| *before <= until);
        self.cached.insert(at, (number, until));
        while self.cached.front().is_some_and(|(_, until)| *until <= number)
            && let Some((gone, _)) = self.cached.pop_front()
        {
            of.unlink(&format!("cache/{gone}"))?;
        }
        Ok(())
    }

    /// A page, of which a fifth are changed in four of five cases.
    fn page(&mut self) -> u64 {
        let pages = LARGE / PIECE as u64;
        let most = if self.rng.random_range(0..5) < 4 { pages / 5 } else { pages };
        self.rng.random_range(0..most) * PIECE as u64
    }

    fn transact(&mut self, of: &Of<'_>) -> Done {
        let name = format!("db/{}", self.rng.random_range(0..self.plan.databases));
        let journal = format!("{name}-journal");
        let pages: Vec<u64> = (0..self.rng.random_range(2..=6)).map(|_| self.page()).collect();
        let (db, log) = (of.open(&name, OpenFlags::READ | OpenFlags::WRITE)?, of.create(&journal)?);
        of.write(log, &journal, 512)?;
        for page in &pages {
            of.pread(db, &name, PIECE, *page)?;
            [4, PIECE, 4].into_iter().try_for_each(|len| of.write(log, &journal, len))?;
        }
        of.fsync(log, &journal)?;
        of.pwrite(log, &journal, 12, 0)?;
        of.fsync(log, &journal)?;
        pages.iter().try_for_each(|page| of.pwrite(db, &name, PIECE, *page))?;
        of.fsync(db, &name)?;
        of.close(log, &journal)?;
        of.unlink(&journal)?;
        of.close(db, &name)
    }

    fn log(&mut self, of: &Of<'_>) -> Done {
        let name = format!("log/{}", self.rng.random_range(0..LOGS));
        let fd = of.open(&name, OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::APPEND)?;
        let end = self.calls.lseek(fd, 0, Whence::End).map_err(CallFailed::of("lseek", &name))?;
        if end >= LARGE {
            self.calls.ftruncate(fd, 0).map_err(CallFailed::of("ftruncate", &name))?;
        }
        of.write(fd, &name, self.rng.random_range(40..=200))?;
        if self.plan.computer.syncs && self.rng.random_range(0..200) == 0 {
            of.fsync(fd, &name)?;
        }
        of.close(fd, &name)
    }

    fn edit(&mut self, of: &Of<'_>) -> Done {
        let name = format!("doc/{}", self.rng.random_range(0..DOCUMENTS));
        let draft = format!("{name}~");
        let fd = of.create(&draft)?;
        of.fill(fd, &draft, self.rng.random_range(4 << 10..=40 << 10))?;
        if self.plan.computer.syncs {
            of.fsync(fd, &draft)?;
        }
        of.close(fd, &draft)?;
        let (from, to) = (of.path(&draft), of.path(&name));
        let renamed = self.calls.rename(from.as_bytes(), to.as_bytes(), RenameFlags::empty());
        renamed.map_err(CallFailed::of("rename", &from))
    }

    fn build(&mut self, of: &Of<'_>) -> Done {
        of.read_all(&format!("src/{}", self.rng.random_range(0..self.plan.sources)))?;
        let name = format!("obj/{}", self.rng.random_range(0..OBJECTS));
        of.new_file(&name, self.rng.random_range(2 << 10..=50 << 10))?;
        if self.rng.random_range(0..4) == 0 {
            of.unlink(&name)?;
        }
        Ok(())
    }

    /// One of 316 transactions of a telephone, with what comes between two of them.
    fn telephone(&mut self, of: &Of<'_>) -> Done {
        let name = format!("db/{}", self.rng.random_range(0..self.plan.databases));
        let (stream, journal) = ("log/stream", format!("{name}-journal"));
        let fd = of.open(stream, OpenFlags::WRITE | OpenFlags::CREATE)?;
        for (times, len) in [(17, 1), (9, 36)] {
            (0..times).try_for_each(|_| of.write(fd, stream, len))?;
        }
        of.close(fd, stream)?;
        let pages: Vec<u64> = (0..self.rng.random_range(1..=5)).map(|_| self.page()).collect();
        let db = of.open(&name, OpenFlags::READ | OpenFlags::WRITE)?;
        for _ in 0..31 {
            let at = self.page();
            of.pread(db, &name, 512, at)?;
        }
        let log = of.open(&journal, OpenFlags::WRITE | OpenFlags::CREATE)?;
        of.write(log, &journal, 4616)?;
        for _ in &pages {
            [4, PIECE, 4].into_iter().try_for_each(|len| of.write(log, &journal, len))?;
        }
        of.fsync(log, &journal)?;
        let directory = of.open("db", OpenFlags::READ | OpenFlags::DIRECTORY)?;
        of.fsync(directory, "db")?;
        of.close(directory, "db")?;
        pages.iter().try_for_each(|page| of.pwrite(db, &name, PIECE, *page))?;
        for len in [1024, 1024, 256] {
            let at = self.page();
            of.pwrite(db, &name, len, at)?;
        }
        of.fsync(db, &name)?;
        of.close(log, &journal)?;
        if self.rng.random_range(0..316) < 54 {
            of.unlink(&journal)?;
        }
        of.close(db, &name)
    }
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        sim::work(GENERATOR, 1);
        let (kind, started) = (self.choose(), sim::now());
        let calls = Arc::clone(&self.calls);
        let of = Of { calls: &*calls, home: self.home.clone() };
        match kind {
            BROWSER => self.browse(&of)?,
            DATABASE => self.transact(&of)?,
            LOG => self.log(&of)?,
            EDITOR => self.edit(&of)?,
            BUILD => self.build(&of)?,
            _ => self.telephone(&of)?,
        }
        control.note(tally, kind, 0, started);
        Ok(true)
    }
}
