//! A trace from its file, and what a replay must know of it before it begins.
//!
//! A plan loads the workload of each of its cells, and a large trace takes a minute to compile: each file is compiled once a
//! process, and kept.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustc_hash::{FxHashMap, FxHashSet};
use trace::call::Op;
use trace::compile::{Options, Program, Wait};
use trace::words;

use super::variables::{Order, Pace, Variables};

/// A trace, ready to be replayed.
#[derive(Debug)]
pub(super) struct Loaded {
    /// What messages call it.
    pub(super) file: String,
    /// Tells traces apart that have the same name.
    pub(super) digest: String,
    pub(super) program: Program,
    pub(super) plan: Plan,
}

/// Tasks that can exist at once: each has a stack, and under the real clock a thread.
const TASKS_MAX: u64 = 16_384;

impl Loaded {
    /// What cannot be done with this trace.
    pub(super) fn check(&self, variables: &Variables) -> Result<(), String> {
        let summary = &self.program.summary;
        if summary.calls == 0 {
            return Err(format!("{}: the trace has no call to replay", self.file));
        }
        if variables.pace == Pace::Timed && summary.level_ns > 0 {
            return Err(format!(
                "{}: pace=timed: its times are those of a program slowed down by strace; use pace=think, which takes the \
                 program's computing from it, or pace=asap",
                self.file
            ));
        }
        let threads = match variables.order {
            Order::Resource => self.plan.roots.len() as u64,
            Order::Thread | Order::Total => self.program.threads.len() as u64,
        };
        let tasks = threads * u64::from(variables.copies);
        if tasks > TASKS_MAX {
            return Err(format!(
                "{}: {tasks} threads would begin at once, more than {TASKS_MAX}: take fewer copies, or order=resource",
                self.file
            ));
        }
        Ok(())
    }
}

type Key = (PathBuf, u64, Option<SystemTime>, bool);

/// What this process has loaded.
static LOADED: Mutex<Vec<(Key, Arc<Loaded>)>> = Mutex::new(Vec::new());

/// Loads a trace or a compiled one, unless that was done.
pub(super) fn load(path: &Path, allow_drops: bool) -> trace::Result<Arc<Loaded>> {
    let name = path.display().to_string();
    let about = std::fs::metadata(path).map_err(|error| trace::Error::io(&name, error))?;
    let key = (path.to_owned(), about.len(), about.modified().ok(), allow_drops);
    let mut known = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, loaded)) = known.iter().find(|(one, _)| *one == key) {
        return Ok(Arc::clone(loaded));
    }
    let digest = digest(path).map_err(|error| trace::Error::io(&name, error))?;
    let program = Program::open(path, Options { allow_drops })?;
    let plan = Plan::of(&program);
    let loaded = Arc::new(Loaded { file: name, digest, program, plan });
    known.push((key, Arc::clone(&loaded)));
    Ok(loaded)
}

/// Length and CRC-32C of a file.
fn digest(path: &Path) -> io::Result<String> {
    let (mut file, mut buffer) = (File::open(path)?, vec![0; 1 << 18]);
    let (mut len, mut sum) = (0, 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(format!("{len}-{sum:08x}"));
        }
        sum = crc32c::crc32c_append(sum, &buffer[..read]);
        len += read as u64;
    }
}

/// A thread that another starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The other's step: its fork, during which the thread begins, or the one after which it does.
    pub(super) step: u32,
    /// The place of the one that starts.
    pub(super) thread: usize,
}

/// What is known of a program before it begins.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Threads that nothing must precede.
    pub(super) roots: Vec<usize>,
    /// Of each thread, those that begin during one of its steps, in the order of its steps.
    pub(super) forks: Vec<Vec<Start>>,
    /// Of each thread, those that begin after one of its steps, in the order of its steps.
    pub(super) starts: Vec<Vec<Start>>,
    /// Of each thread, its process.
    pub(super) process: Vec<usize>,
    pub(super) processes: usize,
    /// Whether another thread waits for a step, by number.
    pub(super) awaited: Vec<bool>,
    /// Handles of directories.
    pub(super) directories: FxHashSet<u32>,
    /// Of each path, where the part ends by which a copy in a shared tree must tell its own files apart; 0: nowhere.
    pub(super) cuts: Vec<u32>,
    pub(super) sizes: Sizes,
}

/// How large it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    /// Bytes of files that exist before it begins.
    pub(super) initial_bytes: u64,
    /// Names that exist before, or may be made.
    pub(super) names: u64,
    /// By how much its files may grow.
    pub(super) written_bytes: u64,
    /// The longest that one call moves.
    pub(super) longest: u64,
}

impl Plan {
    fn of(program: &Program) -> Self {
        let none = vec![Vec::new(); program.threads.len()];
        let mut plan = Self { forks: none.clone(), starts: none, ..Self::default() };
        plan.find_starts(program);
        plan.find_processes(program);
        plan.awaited = vec![false; program.steps().len()];
        for number in 0..program.steps().len() as u32 {
            for wait in program.waits(number) {
                if let Some(step) = step_of(program, *wait) {
                    plan.awaited[step as usize] = true;
                }
            }
        }
        for step in program.steps() {
            let is_listed = step.call.op == Op::Getdents;
            let is_opened = step.call.op == Op::Open && step.call.has(words::DIRECTORY);
            let handle = if is_listed { step.call.fd } else { step.opens.filter(|_| is_opened) };
            plan.directories.extend(handle);
        }
        plan.cuts = cuts(program);
        plan.sizes = Sizes::of(program);
        plan
    }

    /// A thread begins during its parent's fork. One whose fork is not in the trace, or not where a fork can be, is started by the
    /// last of the steps that its first one waits for: it could not begin earlier.
    fn find_starts(&mut self, program: &Program) {
        let mut forked = vec![false; program.threads.len()];
        for (parent, thread) in program.threads.iter().enumerate() {
            for (own, pair) in (1..).zip(thread.steps.windows(2)) {
                let call = &program.get(pair[1]).call;
                let child = program.thread_at(call.mode).filter(|_| call.op == Op::Fork);
                // All that the parent does before must be possible without the child.
                let may_begin = |child: &usize| program.threads[*child].steps.first() > Some(&pair[0]);
                if let Some(child) = child.filter(may_begin).filter(|child| !forked[*child]) {
                    forked[child] = true;
                    self.forks[parent].push(Start { step: own, thread: child });
                }
            }
        }
        for (at, thread) in program.threads.iter().enumerate().filter(|(at, _)| !forked[*at]) {
            let Some(first) = thread.steps.first() else { continue };
            let waits = program.waits(*first).iter().filter(|wait| step_of(program, **wait).is_some());
            let last = waits.max_by_key(|wait| step_of(program, **wait));
            match last.and_then(|wait| Some((wait.step, program.thread_at(wait.thread)?))) {
                Some((step, by)) => self.starts[by].push(Start { step, thread: at }),
                None => self.roots.push(at),
            }
        }
        self.starts.iter_mut().for_each(|starts| starts.sort_by_key(|start| start.step));
    }

    fn find_processes(&mut self, program: &Program) {
        let mut known = FxHashMap::default();
        for thread in &program.threads {
            let next = known.len();
            self.process.push(*known.entry(thread.thread.pid).or_insert(next));
        }
        self.processes = known.len();
    }
}

/// The number of the step that is waited for; none where a trace that was cut lacks it.
pub(super) fn step_of(program: &Program, wait: Wait) -> Option<u32> {
    let thread = program.threads.get(program.thread_at(wait.thread)?)?;
    thread.steps.get(wait.step as usize).copied()
}

/// Whether a successful call changes what its path names, or names it.
fn changes(op: Op, flags: u32) -> (bool, bool) {
    match op {
        Op::Open => (flags & (words::ACCESS | words::CREAT | words::TRUNC) != 0, false),
        Op::Truncate
        | Op::Unlink
        | Op::Rmdir
        | Op::Mkdir
        | Op::Mknod
        | Op::Symlink
        | Op::Chmod
        | Op::Chown
        | Op::Lchown
        | Op::Utimes
        | Op::Lutimes
        | Op::Setxattr
        | Op::Lsetxattr
        | Op::Removexattr
        | Op::Lremovexattr => (true, false),
        Op::Rename => (true, true),
        Op::Link | Op::LinkFd => (false, true),
        _ => (false, false),
    }
}

/// Where each path has its first component that leads to something which the program changes.
fn cuts(program: &Program) -> Vec<u32> {
    let mut changed: FxHashSet<&[u8]> = FxHashSet::default();
    for step in program.steps().iter().filter(|step| step.result >= 0 || step.call.op == Op::Open) {
        let (first, second) = changes(step.call.op, step.call.flags);
        changed.extend(first.then(|| trimmed(program.path_of(step.call.path))));
        changed.extend(second.then(|| trimmed(program.path_of(step.call.path2))));
    }
    let cut = |path: &[u8]| {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut ends = ends.chain([path.len()]).filter(|end| *end > 0);
        ends.find(|end| changed.contains(&path[..*end])).unwrap_or(0) as u32
    };
    program.paths.iter().map(|path| cut(path)).collect()
}

fn trimmed(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

impl Sizes {
    fn of(program: &Program) -> Self {
        let mut sizes = Self {
            // Names of one file are all counted: too large a region costs nothing.
            initial_bytes: program.initial.iter().map(|entry| entry.size).sum(),
            names: (program.initial.len() + program.paths.len()) as u64,
            ..Self::default()
        };
        let mut ends: FxHashMap<u32, u64> = FxHashMap::default();
        let mut open: FxHashMap<u32, (u32, u64, bool)> = FxHashMap::default();
        for step in program.steps().iter().filter(|step| step.result >= 0) {
            let (call, done) = (&step.call, step.result as u64);
            if call.op.reads() || call.op.writes() {
                sizes.longest = sizes.longest.max(call.len.min(done.max(LONGEST)));
            }
            if let Some(handle) = step.opens {
                let file = match call.op {
                    Op::Dup => call.fd.and_then(|fd| open.get(&fd).copied()),
                    _ => call.path.map(|path| (path, 0, call.has(words::APPEND))),
                };
                open.extend(file.map(|file| (handle, file)));
                continue;
            }
            let to = if matches!(call.op, Op::Copy | Op::Clone) { call.fd2 } else { call.fd };
            let Some((path, position, appends)) = to.and_then(|handle| open.get_mut(&handle)) else {
                continue;
            };
            let end = ends.entry(*path).or_default();
            match call.op {
                Op::Lseek => *position = done,
                Op::Read => *position += done,
                Op::Write | Op::ReceiveFile | Op::Copy => {
                    let start = if *appends { *end } else { *position };
                    *position = start + done;
                    *end = (*end).max(*position);
                }
                Op::Pwrite => *end = (*end).max((call.offset.max(0) as u64).saturating_add(done)),
                Op::Fallocate => *end = (*end).max((call.offset.max(0) as u64).saturating_add(call.len)),
                _ => {}
            }
        }
        sizes.written_bytes = ends.values().fold(0_u64, |sum, end| sum.saturating_add(*end));
        sizes
    }
}

/// A read into a buffer that is longer than what it gets, and than this, is made with a shorter buffer.
pub(super) const LONGEST: u64 = 1 << 20;
