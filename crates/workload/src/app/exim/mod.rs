//! Exim: a mail server that takes messages by SMTP, spools them, and appends them to mailboxes.
//!
//! As FxMark ran it (Min et al., USENIX ATC 2016; MOSBENCH): clients connect, send messages to a mailbox each, and connect again.
//! For each connection there is a process, C; for each message one that delivers it, D, beside the next message; and in it one that
//! appends to the mailbox, T. What each calls was read from Exim 4.96 (`message`).
//!
//! ```text
//! connect ─ fork C ─▷ receive ─ fork D ─▷ receive … ─▷ quit ─▷ connect
//!                               └─▷ look, journal ─ fork T ─▷ append ─▷ remove from the spool
//! ```
//!
//! Messages of one second share a directory of the spool (`spool=second`, as Exim is), or those of one process do (`pid`, as the
//! study changed it), or all (`single`).
//!
//! A fork is work of its process, and takes two locks of the kernel where the machine stands for a kernel: those of the list of
//! tasks and of the process numbers.
//!
//! A mailbox that is locked is waited for; Exim tries again after three seconds. A client whose deliveries are `BACKLOG_MAX`
//! behind waits for one: Exim has no such limit, and a run must have one.
//!
//! Lock order: `app.exim.backlog` over nothing; `kernel.pid`, then nothing; `kernel.tasklist`, then nothing.

mod message;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sim::{Bytes, LockClass, Mutex, Nanos, Semaphore, TaskSpec, Work};
use vfs::{Fd, OpenFlags, Owner, Syscalls};

use super::control::{Control, Does, Failure, Kind, Tally};
use super::run::{self, Place, Plan, Run};
use super::variables::{MAX_CLIENTS, Reader, Values};
use crate::suite::{Growth, How, Job, JobError, LoadError, Processes, Settings, Workload};
use crate::tree::CallFailed;

pub(super) static TASK_LIST: LockClass = LockClass::new("kernel.tasklist");
pub(super) static PROCESS_IDS: LockClass = LockClass::new("kernel.pid");
pub(super) static BACKLOG: LockClass = LockClass::new("app.exim.backlog");

pub(super) const DETAIL: &str = "\
Clients send messages to a mailbox each. A message is 4 files made, 1 renamed, 4 removed, 5 syncs (one of a directory), 12 writes of
1.5 KB in all (3 of them appends to the log of all), 5 locks, 2 forks; docs/applications.md has every call.

  cores       on how many cores the clients are (--threads); they take them in turn
  clients     connections at once; 0: one for each core
  messages    of each connection
  spool       second: messages of one second share a directory, as Exim is; pid: those of one process, as FxMark's; single: all do
  period      the second of spool=second
  fsync, log  whether files are synced, and whether there is a log of all messages
  receive_us, deliver_us, transport_us
              what the three processes of a message compute
  fork_us     what a fork takes the process that forks
  movable     whether a delivery may go to a free core; else it stays on that of its connection

An operation is a message that is in its mailbox and gone from the spool. Where clients share cores, take a machine that has
[scheduling]; on others two tasks of a core run at once.
";

/// Deliveries of a client that are under way at once.
const BACKLOG_MAX: u64 = 64;
/// Directories of the spool: a letter or digit each.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Seconds since 1970 at the beginning: November 2023, for names of six digits.
const EPOCH: u64 = 1_700_000_000;

/// Lines of lists that a fork, or the end of a process, changes and another core had last.
///
/// In `copy_process` and `release_task` of Linux (kernel/fork.c, kernel/exit.c) the task's siblings and the neighbours in the list
/// of all tasks change under `tasklist_lock`, and the hash chains of its number, group and session; in `alloc_pid` and `free_pid`
/// (kernel/pid.c) the map of numbers and a hash chain under `pidmap_lock`.
const TASK_LINES: u64 = 4;
const ID_LINES: u64 = 2;

const MESSAGE: usize = 0;
const RECEIVE: usize = 1;
const DELIVER: usize = 2;
const KINDS: &[Kind] = &[
    Kind { name: "message", does: Does::Writes },
    Kind { name: "receive", does: Does::Part },
    Kind { name: "deliver", does: Does::Part },
];

/// Which messages share a directory of the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spool {
    Second,
    Pid,
    Single,
}

const SPOOLS: &[(&str, Spool)] = &[("second", Spool::Second), ("pid", Spool::Pid), ("single", Spool::Single)];

/// All variables, checked.
#[derive(Debug)]
struct Exim {
    cores: u64,
    clients: u64,
    messages: u64,
    spool: Spool,
    period: Nanos,
    fsync: bool,
    log: bool,
    receive: Nanos,
    deliver: Nanos,
    transport: Nanos,
    fork: Nanos,
    movable: bool,
    values: Values,
    kernel: Kernel,
}

/// What all processes of a machine share.
#[derive(Debug)]
struct Kernel {
    tasks: Mutex<()>,
    ids: Mutex<()>,
    next: AtomicU32,
}

impl Kernel {
    fn new() -> Self {
        Self {
            tasks: Mutex::new(&TASK_LIST, ()),
            ids: Mutex::new(&PROCESS_IDS, ()),
            next: AtomicU32::new(1000),
        }
    }

    fn change_lists(&self) {
        // The locks of a kernel stand beside a file system where the machine has the version of one.
        if sim::linux().is_some() {
            for (lock, lines) in [(&self.ids, ID_LINES), (&self.tasks, TASK_LINES)] {
                let _held = lock.lock();
                sim::work(Work::MISS, lines);
            }
        }
    }

    /// The number of a new process, whose parent computes for `span`.
    fn fork(&self, span: Nanos) -> u32 {
        sim::compute_for(span);
        self.change_lists();
        self.next.fetch_add(1, Relaxed)
    }

    fn exit(&self) {
        self.change_lists();
    }
}

pub(super) fn load(settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let mut reader = Reader::new("exim", "cores", settings);
    let us = Nanos::from_micros;
    let exim = Exim {
        cores: reader.count("cores", 1, 1..=MAX_CLIENTS)?,
        clients: reader.count("clients", 160, 0..=MAX_CLIENTS)?,
        messages: reader.count("messages", 100, 1..=3844)?,
        spool: reader.word("spool", SPOOLS)?,
        period: reader.time("period", Nanos::from_secs(1))?.max(Nanos(1)),
        fsync: reader.flag("fsync", true)?,
        log: reader.flag("log", true)?,
        receive: us(reader.count("receive_us", 500, 0..=1_000_000)?),
        deliver: us(reader.count("deliver_us", 500, 0..=1_000_000)?),
        transport: us(reader.count("transport_us", 150, 0..=1_000_000)?),
        fork: us(reader.count("fork_us", 150, 0..=1_000_000)?),
        movable: reader.flag("movable", false)?,
        values: reader.finish()?,
        kernel: Kernel::new(),
    };
    let clients = if exim.clients == 0 { exim.cores } else { exim.clients };
    Ok(Arc::new(Loaded(Arc::new(Exim { clients, ..exim }))))
}

/// The workload, which its runs share.
#[derive(Debug)]
struct Loaded(Arc<Exim>);

impl Workload for Loaded {
    fn settings(&self) -> String {
        format!("app/exim {:?}", self.0.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.0.values.clone()
    }

    /// Mailboxes, and messages under way: each has four files of a block.
    fn data_bytes(&self) -> u64 {
        self.0.clients * (1 + 4 * BACKLOG_MAX) * 4096
    }

    fn small_files(&self) -> u64 {
        self.0.clients * (1 + 4 * BACKLOG_MAX) + 4 * DIGITS.len() as u64
    }

    /// What a message leaves in its mailbox and the log.
    fn growth(&self) -> Growth {
        Growth::PerOperation(1024)
    }

    fn tasks(&self) -> u64 {
        self.0.clients
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["clients"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        let (cores, has) = (self.0.cores, u64::from(how.cores.count()));
        if cores > has {
            return Err(JobError::Failed(format!(
                "app/exim: the machine has {has} cores, and cores={cores} are wanted: take a larger one (--machine)"
            )));
        }
        // Locks and process numbers are those of one run.
        let exim = Exim { values: self.0.values.clone(), kernel: Kernel::new(), ..*self.0 };
        Ok(Arc::new(Run::new(Arc::new(exim), how, processes)))
    }
}

impl Exim {
    /// The directory of a message's files below `input` and `msglog`, with a slash before it.
    fn directory(&self, second: u64, pid: u32) -> String {
        let digit = match self.spool {
            Spool::Second => second,
            Spool::Pid => u64::from(pid),
            Spool::Single => return String::new(),
        };
        format!("/{}", DIGITS[(digit % 62) as usize] as char)
    }
}

/// A number in so many digits of base 62.
fn base62(mut number: u64, digits: usize) -> String {
    let mut text = vec![b'0'; digits];
    for place in text.iter_mut().rev() {
        *place = DIGITS[(number % 62) as usize];
        number /= 62;
    }
    String::from_utf8_lossy(&text).into_owned()
}

impl Plan for Exim {
    fn name(&self) -> &'static str {
        "exim"
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.clients
    }

    fn cores(&self) -> u64 {
        self.cores
    }

    fn is_bound(&self) -> bool {
        true
    }

    fn buffer(&self) -> Bytes {
        Bytes(4096)
    }

    fn prepare(&self, _how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        let mkdir = |path: &str| calls.mkdir(path.as_bytes(), 0o750).map_err(CallFailed::of("mkdir", path));
        let make = |path: &str| {
            let made = calls.open(path.as_bytes(), OpenFlags::WRITE | OpenFlags::CREATE, 0o640);
            made.and_then(|fd| calls.close(fd)).map_err(CallFailed::of("open", path))
        };
        for path in ["spool", "spool/input", "spool/msglog", "spool/log", "spool/db", "mail"] {
            mkdir(path)?;
        }
        for digit in DIGITS.iter().filter(|_| self.spool != Spool::Single) {
            mkdir(&format!("spool/input/{}", *digit as char))?;
            mkdir(&format!("spool/msglog/{}", *digit as char))?;
        }
        make(LOG)?;
        make(message::RETRY_LOCK)?;
        Ok((0..self.clients).try_for_each(|client| make(&mailbox(client)))?)
    }

    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        Box::new(Client {
            mailbox: mailbox(client).into(),
            core: place.core,
            processes: Arc::clone(place.processes),
            connection: None,
            sent: 0,
            backlog: Arc::new(Semaphore::new(&BACKLOG, BACKLOG_MAX)),
            exim: self,
        })
    }
}

const LOG: &str = "spool/log/mainlog";

fn mailbox(client: u64) -> String {
    format!("mail/{}", client + 1)
}

/// Process C of a connection. Its deliveries write the log through the open file that they have from it.
struct Connection {
    calls: Arc<dyn Syscalls>,
    log: Option<Fd>,
    pid: u32,
    owner: Owner,
    /// It and its deliveries; the last closes the log.
    users: AtomicU32,
}

impl Connection {
    fn open(exim: &Exim, calls: Arc<dyn Syscalls>) -> Result<Self, Failure> {
        let pid = exim.kernel.fork(exim.fork);
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::APPEND;
        let log = exim.log.then(|| calls.open(LOG.as_bytes(), flags, 0o640)).transpose();
        let log = log.map_err(CallFailed::of("open", LOG))?;
        let owner = calls.stat(b".").map_err(CallFailed::of("stat", "."))?.owner;
        Ok(Self { calls, log, pid, owner, users: AtomicU32::new(1) })
    }

    fn leave(&self, exim: &Exim) {
        exim.kernel.exit();
        if self.users.fetch_sub(1, Relaxed) == 1
            && let Some(log) = self.log
        {
            // Each write of it has told its error.
            let _ = self.calls.close(log);
        }
    }
}

/// A client, with the process that serves it.
struct Client {
    exim: Arc<Exim>,
    mailbox: Arc<str>,
    core: u16,
    processes: Arc<dyn Processes>,
    connection: Option<Arc<Connection>>,
    /// Messages of the connection.
    sent: u64,
    /// A permit for each delivery that may begin.
    backlog: Arc<Semaphore>,
}

impl Client {
    fn connection(&mut self) -> Result<Arc<Connection>, Failure> {
        if let Some(open) = &self.connection {
            return Ok(Arc::clone(open));
        }
        let opened = Arc::new(Connection::open(&self.exim, self.processes.start())?);
        self.connection = Some(Arc::clone(&opened));
        Ok(opened)
    }

    fn quit(&mut self) {
        self.sent = 0;
        if let Some(connection) = self.connection.take() {
            connection.leave(&self.exim);
        }
    }

    /// Starts the delivery of a message that began to arrive at `started`.
    fn deliver(&self, message: message::Message, control: &Arc<Control>, started: Nanos) {
        let (exim, control, backlog) =
            (Arc::clone(&self.exim), Arc::clone(control), Arc::clone(&self.backlog));
        let process = self.processes.start();
        exim.kernel.fork(exim.fork);
        message.connection.users.fetch_add(1, Relaxed);
        let spec = TaskSpec::named("exim delivery").on_core(self.core).with_buffer(Bytes(4096));
        let spec = if exim.movable { spec.movable() } else { spec.pinned() };
        // The client waits for its permits.
        drop(sim::spawn(spec, move || {
            let (mut tally, begun) = (Tally::default(), sim::now());
            match message.deliver(&exim, &*process, &control) {
                Ok(true) => {
                    control.note(&mut tally, DELIVER, 0, begun);
                    control.note(&mut tally, MESSAGE, message::WRITTEN, started);
                }
                Ok(false) => {}
                Err(failure) => control.fail(failure),
            }
            message.connection.leave(&exim);
            control.ended(&tally);
            // What a delivery that was not completed has open is closed before the client goes on.
            drop(process);
            backlog.release(1);
        }));
    }
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        let started = sim::now();
        let connection = self.connection()?;
        let message = message::Message::receive(&self.exim, &connection, self.sent, &self.mailbox)?;
        control.note(tally, RECEIVE, 0, started);
        if !self.backlog.try_acquire(1) {
            tally.add("exim.backlog_waits", 1);
            self.backlog.acquire(1);
        }
        self.deliver(message, control, started);
        message::look_for_space(&*connection.calls)?;
        self.sent += 1;
        if self.sent == self.exim.messages {
            self.quit();
        }
        Ok(true)
    }

    fn finish(&mut self, _tally: &mut Tally) {
        self.quit();
        self.backlog.acquire(BACKLOG_MAX);
    }
}
