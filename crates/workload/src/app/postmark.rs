//! PostMark: transactions on many small files, as a mail or news server makes them (Katcher, TR3022, Network Appliance, 1997).
//!
//! The calls were read from Debian's postmark 1.53 (`strace`), which writes and reads through stdio: in pieces of 4,096 bytes,
//! whatever its block sizes are.
//!
//! | operation | calls |
//! |---|---|
//! | create | open (new or emptied), fstat, writes, close |
//! | append | open (append), lseek to the end, fstat, writes, close |
//! | read | open, fstat, reads as far as the size goes, close |
//! | delete | unlink |
//!
//! A transaction is two operations: a read or an append, then a create or a delete. Sizes are uniform; an append makes a file at
//! most as long as the longest. Random numbers are Weir's own: counts agree with the program's in the mean, not one by one.

use std::sync::Arc;

use rand::RngExt as _;
use sim::{Bytes, Rng, Seed};
use vfs::{OpenFlags, Syscalls, Whence};

use super::control::{Control, Does, Failure, Kind, Tally};
use super::run::{self, Place, Plan, Run};
use super::variables::{MAX_CLIENTS, Reader, Values};
use crate::charges::GENERATOR;
use crate::suite::{Growth, How, Job, JobError, LoadError, Processes, Settings, Workload};
use crate::tree::CallFailed;

pub(super) const DETAIL: &str = "\
Each client has files of its own below cK and makes transactions on them: it reads a random file or appends to one, then makes a
new file or removes a random one. Nothing is synced. The defaults are the program's.

  clients         how many there are (--threads)
  number          files of a client at the beginning
  transactions    how many each client makes; 0: until the time is over
  subdirectories  over which its files are spread; 0: none
  smallest, largest
                  sizes of new files, uniform
  bias_read       of ten transactions so many read; the others append
  bias_create     of ten transactions so many make a file; the others remove one
  whole           also make the files and remove them at the end within the measured time, as the program does

An operation is a read, an append, a creation or a removal.
";

/// Bytes of a stdio buffer.
const PIECE: usize = 4096;
/// Files or transactions beyond this are a mistake.
const MOST: u64 = 100_000_000;

const CREATE: usize = 0;
const READ: usize = 1;
const APPEND: usize = 2;
const DELETE: usize = 3;
const KINDS: &[Kind] = &[
    Kind { name: "create", does: Does::Writes },
    Kind { name: "read", does: Does::Reads },
    Kind { name: "append", does: Does::Writes },
    Kind { name: "delete", does: Does::Other },
];

/// All variables, checked.
#[derive(Clone, Debug)]
struct Postmark {
    clients: u64,
    number: u64,
    transactions: u64,
    subdirectories: u64,
    sizes: (u64, u64),
    bias_read: u64,
    bias_create: u64,
    whole: bool,
    values: Values,
}

pub(super) fn load(settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let mut reader = Reader::new("postmark", "clients", settings);
    let longest = 1 << 30;
    let found = Postmark {
        clients: reader.count("clients", 1, 1..=MAX_CLIENTS)?,
        number: reader.count("number", 500, 1..=MOST)?,
        transactions: reader.count("transactions", 0, 0..=MOST)?,
        subdirectories: reader.count("subdirectories", 0, 0..=1_000_000)?,
        sizes: (reader.bytes("smallest", 500, 1..=longest)?, reader.bytes("largest", 10_000, 1..=longest)?),
        bias_read: reader.count("bias_read", 5, 0..=10)?,
        bias_create: reader.count("bias_create", 5, 0..=10)?,
        whole: reader.flag("whole", false)?,
        values: reader.finish()?,
    };
    let (smallest, largest) = found.sizes;
    if smallest > largest {
        let told = format!("app/postmark: smallest={smallest} is more than largest={largest}");
        return Err(LoadError::Wrong(told));
    }
    if found.whole && found.transactions == 0 {
        return Err(LoadError::Wrong("app/postmark: whole=true takes a number of transactions".to_owned()));
    }
    Ok(Arc::new(found))
}

impl Workload for Postmark {
    fn settings(&self) -> String {
        format!("app/postmark {:?}", self.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.values.clone()
    }

    /// Each file as long as it may become.
    fn data_bytes(&self) -> u64 {
        let each = self.sizes.1.next_multiple_of(PIECE as u64);
        self.clients.saturating_mul(self.number).saturating_mul(each)
    }

    fn small_files(&self) -> u64 {
        self.clients.saturating_mul(self.number + self.subdirectories)
    }

    /// Where more files are made than removed.
    fn growth(&self) -> Growth {
        match self.bias_create {
            0..=5 => Growth::None,
            _ => Growth::PerOperation(self.sizes.1),
        }
    }

    fn tasks(&self) -> u64 {
        self.clients
    }

    fn ends(&self) -> bool {
        self.transactions > 0
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["number", "largest", "clients"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Ok(Arc::new(Run::new(Arc::new(self.clone()), how, processes)))
    }
}

impl Postmark {
    /// The files of a client as it begins: made by [`Plan::prepare`], unless they are made in the measured time.
    fn files(&self, client: u64, seed: Seed) -> Files {
        let rng = seed.derive("app.postmark", client).rng();
        Files { plan: self.clone(), client, rng, next: 0, all: Vec::new() }
    }

    fn directory(&self, client: u64, number: u64) -> String {
        match self.subdirectories {
            0 => format!("c{client}"),
            many => format!("c{client}/s{}", number % many),
        }
    }
}

impl Plan for Postmark {
    fn name(&self) -> &'static str {
        "postmark"
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.clients
    }

    fn buffer(&self) -> Bytes {
        Bytes(PIECE as u64)
    }

    fn prepare(&self, how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        let mkdir = |path: &str| calls.mkdir(path.as_bytes(), 0o700).map_err(CallFailed::of("mkdir", path));
        for client in 0..self.clients {
            mkdir(&format!("c{client}"))?;
            (0..self.subdirectories).try_for_each(|number| mkdir(&self.directory(client, number)))?;
            if !self.whole {
                let mut files = self.files(client, how.seed);
                (0..self.number).try_for_each(|_| files.create(calls).map(drop))?;
            }
        }
        Ok(())
    }

    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        let mut files = self.files(client, place.how.seed);
        let phase = if self.whole { Phase::Making } else { Phase::Transactions };
        if !self.whole {
            for _ in 0..self.number {
                files.draw();
            }
        }
        let left = if self.transactions > 0 { self.transactions } else { u64::MAX };
        Box::new(Client { files, calls: place.processes.start(), phase, left, buffer: vec![b'x'; PIECE] })
    }
}

/// Files of a client.
struct Files {
    plan: Postmark,
    client: u64,
    rng: Rng,
    /// The number of the next file.
    next: u64,
    /// Number and size of each.
    all: Vec<(u64, u64)>,
}

impl Files {
    /// The number and size of a new file.
    fn draw(&mut self) -> (u64, u64) {
        let (smallest, largest) = self.plan.sizes;
        let file = (self.next, self.rng.random_range(smallest..=largest));
        self.next += 1;
        self.all.push(file);
        file
    }

    fn path(&self, number: u64) -> String {
        format!("{}/{number}", self.plan.directory(self.client, number))
    }

    fn create(&mut self, calls: &dyn Syscalls) -> Result<u64, CallFailed> {
        let (number, size) = self.draw();
        let path = self.path(number);
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let fd = calls.open(path.as_bytes(), flags, 0o666).map_err(CallFailed::of("open", &path))?;
        calls.fstat(fd).map_err(CallFailed::of("fstat", &path))?;
        write(calls, fd, &path, size)?;
        calls.close(fd).map_err(CallFailed::of("close", &path))?;
        Ok(size)
    }

    fn append(&mut self, calls: &dyn Syscalls, at: usize) -> Result<u64, CallFailed> {
        let (number, size) = self.all[at];
        let room = self.plan.sizes.1.saturating_sub(size).max(1);
        let (len, path) = (self.rng.random_range(1..=room), self.path(number));
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::APPEND;
        let fd = calls.open(path.as_bytes(), flags, 0o666).map_err(CallFailed::of("open", &path))?;
        calls.lseek(fd, 0, Whence::End).map_err(CallFailed::of("lseek", &path))?;
        calls.fstat(fd).map_err(CallFailed::of("fstat", &path))?;
        write(calls, fd, &path, len)?;
        calls.close(fd).map_err(CallFailed::of("close", &path))?;
        self.all[at].1 += len;
        Ok(len)
    }

    fn read(&self, calls: &dyn Syscalls, at: usize, buffer: &mut [u8]) -> Result<u64, Failure> {
        let (number, size) = self.all[at];
        let path = self.path(number);
        let fd = calls.open(path.as_bytes(), OpenFlags::READ, 0).map_err(CallFailed::of("open", &path))?;
        calls.fstat(fd).map_err(CallFailed::of("fstat", &path))?;
        let mut left = size;
        while left > 0 {
            let read = calls.read(fd, buffer).map_err(CallFailed::of("read", &path))? as u64;
            if read != left.min(PIECE as u64) {
                let told = format!("read of {path}: {read} bytes, where {left} of {size} are left");
                return Err(Failure::new(told, None));
            }
            left -= read;
        }
        calls.close(fd).map_err(CallFailed::of("close", &path))?;
        Ok(size)
    }

    fn delete(&mut self, calls: &dyn Syscalls, at: usize) -> Result<u64, CallFailed> {
        let (number, _) = self.all.swap_remove(at);
        let path = self.path(number);
        calls.unlink(path.as_bytes()).map_err(CallFailed::of("unlink", &path))?;
        Ok(0)
    }
}

/// Writes so many bytes in the pieces of a stdio stream.
fn write(calls: &dyn Syscalls, fd: vfs::Fd, path: &str, len: u64) -> Result<(), CallFailed> {
    const TEXT: [u8; PIECE] = [b'x'; PIECE];
    let mut left = len as usize;
    while left > 0 {
        let wrote = calls.write(fd, &TEXT[..left.min(PIECE)]).map_err(CallFailed::of("write", path))?;
        left -= wrote.min(left);
        if wrote == 0 {
            return Err(CallFailed::of("write", path)(vfs::Errno::EIO));
        }
    }
    Ok(())
}

/// Where the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Making,
    Transactions,
    Removing,
}

/// A client.
struct Client {
    files: Files,
    calls: Arc<dyn Syscalls>,
    phase: Phase,
    /// Transactions that are left.
    left: u64,
    buffer: Vec<u8>,
}

impl Client {
    /// Makes an operation, and notes it.
    fn noted(&mut self, control: &Control, tally: &mut Tally, kind: usize, at: usize) -> Result<(), Failure> {
        sim::work(GENERATOR, 1);
        let (calls, started) = (&*self.calls, sim::now());
        let bytes = match kind {
            CREATE => self.files.create(calls)?,
            READ => self.files.read(calls, at, &mut self.buffer)?,
            APPEND => self.files.append(calls, at)?,
            _ => self.files.delete(calls, at)?,
        };
        control.note(tally, kind, bytes, started);
        Ok(())
    }

    fn any(&mut self) -> Option<usize> {
        let count = self.files.all.len();
        (count > 0).then(|| self.files.rng.random_range(0..count))
    }

    fn transaction(&mut self, control: &Control, tally: &mut Tally) -> Result<(), Failure> {
        let (read, create) = (self.files.plan.bias_read, self.files.plan.bias_create);
        let reads = self.files.rng.random_range(0..10) < read;
        if let Some(at) = self.any() {
            self.noted(control, tally, if reads { READ } else { APPEND }, at)?;
        }
        let creates = self.files.rng.random_range(0..10) < create;
        match self.any().filter(|_| !creates) {
            Some(at) => self.noted(control, tally, DELETE, at),
            None => self.noted(control, tally, CREATE, 0),
        }
    }
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        match self.phase {
            Phase::Making if (self.files.all.len() as u64) < self.files.plan.number => {
                self.noted(control, tally, CREATE, 0)?;
            }
            Phase::Making => self.phase = Phase::Transactions,
            Phase::Transactions if self.left > 0 => {
                self.left -= 1;
                self.transaction(control, tally)?;
                tally.add("postmark.transactions", 1);
            }
            Phase::Transactions if self.files.plan.whole => self.phase = Phase::Removing,
            Phase::Transactions => return Ok(false),
            Phase::Removing => match self.files.all.len().checked_sub(1) {
                Some(last) => self.noted(control, tally, DELETE, last)?,
                None => return Ok(false),
            },
        }
        Ok(true)
    }
}
