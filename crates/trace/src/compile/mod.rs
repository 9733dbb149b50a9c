//! A trace as a program that can be replayed in any order which gives the same results.
//!
//! # Resources
//!
//! Every step may wait for steps of other threads. The rules are those of ordering by resource (Weiss et al., "ROOT: replaying
//! multithreaded traces with resource-oriented ordering", SOSP 2013), in the order in which the trace has its records:
//!
//! | resource | rule |
//! |---|---|
//! | thread | its steps in their order |
//! | handle | opened before it is used, used before it is closed |
//! | position of an open file | one step after the other |
//! | inode | what changes it, alone; what reads it between two changes, at the same time |
//! | name in a directory | likewise; a name that was not there belongs to the time between two changes too |
//! | names of a directory | a listing comes after the changes before it and before those after it |
//! | locks of an inode | one step after the other |
//! | threads | fork before the child's first step; its last before the end of the wait; its exec before a vfork ends |
//!
//! A wait is left out where an earlier one implies it (`order.rs`). Pipes, sockets and futexes order nothing: recorders do not
//! store them, and the resources of files order what file systems can see.
//!
//! # One pass, bounded memory
//!
//! [`compile`] hands each step to a [`Sink`] as soon as it is known: [`Program`] keeps them all, [`Packed`] writes them to a file,
//! which [`Program::load`] reads. What stays in memory are names, inodes and what is open, not calls.

mod order;
mod packed;
mod program;

use rustc_hash::{FxHashMap, FxHashSet};

pub use order::Wait;
pub use packed::Packed;
pub use program::{Program, ThreadSteps};

use crate::call::{Call, Field, Op};
use crate::error::{Error, Result};
use crate::import::strace::MOVED_OUTSIDE;
use crate::losses::Losses;
use crate::reader::{Ending, Reader};
use crate::record::{Entry, Kind, Record, Thread, Timed, Times};
use crate::state::{Effect, ROOT, Refused, State, Use};
use crate::words::{CREAT, EXCL, TRUNC};
use order::{Handles, Order};

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who: the number of the thread in the trace.
    pub thread: u32,
    /// What. Paths are numbers of [`Program::paths`], descriptors handles: numbers that are given once, from 0 on. A descriptor is
    /// none where the call was on one that was not open (its result is `-EBADF`); of a `close`, also where another process still
    /// has the handle: then nothing is to be done.
    pub call: Call<u32, u32>,
    /// The handle that a successful `open` or `dup` gives.
    pub opens: Option<u32>,
    /// The program did not make this call itself: a handle that was open from the beginning, or that the end of a process, exec
    /// or dup2 closes.
    pub implied: bool,
    /// It is on a FIFO, a socket or a device. A replay does not make it: what it moves is not in any file, and to open it may
    /// wait for ever.
    pub no_file: bool,
    /// The result in the trace, or −errno. Of `open` and `dup` that succeeded it is 0.
    pub result: i64,
    /// When it happened. [`Times::cpu_ns`] with [`Summary::level_ns`] is what the thread computed before.
    pub times: Times,
    /// The line of the trace, for messages.
    pub line: u64,
}

/// What is known when all steps are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Steps, the implied ones among them.
    pub steps: u64,
    /// Calls of the trace that became steps.
    pub calls: u64,
    /// Waits of steps for other threads.
    pub waits: u64,
    /// Handles that are opened.
    pub handles: u32,
    /// Calls left out because no call had opened their descriptor; 0 unless the options allow it.
    pub unopened: u64,
    /// Calls whose result contradicts what the trace has shown before: a replay will differ there.
    pub contradictions: u64,
    /// Calls that the recorder has lost.
    pub lost: u64,
    /// What is missing and why, as far as the recorder has said it.
    pub losses: Losses,
    /// Reads and writes that the recorder has seen and not stored because their files are outside the roots.
    pub outside: u64,
    /// Whether the gaps say what the threads computed: not where the recorder's own work is in them and cannot be told from it.
    pub tells_computing: bool,
    /// The last whole line of a trace that has no end.
    pub cut_after: Option<u64>,
    /// What the recorder costs of each gap ([`Times::cpu_ns`]).
    pub level_ns: u64,
    /// The length of the trace.
    pub span_ns: u64,
    /// Whether listings can be compared: the trace says of a directory that was listed which names it had before, and has the sizes
    /// of a program's entries, not those of requests to a mount.
    pub listed: bool,
}

/// Takes what [`compile`] makes, in the order of the trace.
pub trait Sink {
    /// A thread, before its first step.
    fn thread(&mut self, thread: &Thread) -> Result<()>;
    /// The next path; their numbers are 0, 1, 2 …
    fn path(&mut self, path: &[u8]) -> Result<()>;
    /// A step, and what it waits for.
    fn step(&mut self, step: &Step, waits: &[Wait]) -> Result<()>;
    /// Something that must exist before the first step, directories before what is in them. After all steps.
    fn initial(&mut self, entry: &Entry) -> Result<()>;
    /// Something that exists after the last step, directories before what is in them. After what must exist before the first.
    fn last(&mut self, entry: &Entry) -> Result<()>;
    /// The end.
    fn end(&mut self, summary: &Summary) -> Result<()>;
}

/// How to compile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Leave out calls on descriptors that no call has opened, and take traces that have lost calls.
    pub allow_drops: bool,
}

/// Compiles a trace. A trace that was cut is compiled as far as it goes ([`Summary::cut_after`]).
pub fn compile(mut reader: Reader, options: Options, sink: &mut dyn Sink) -> Result<Summary> {
    let mut compiler = Compiler::new(options);
    // Of a trace without end it is not known.
    compiler.summary.tells_computing = !is_traced(&reader);
    while let Some(record) = reader.next()? {
        compiler.record(&record, &reader, sink)?;
    }
    compiler.finish(&reader, sink)
}

struct Compiler {
    options: Options,
    state: State,
    order: Order,
    effect: Effect,
    paths: FxHashMap<Box<[u8]>, u32>,
    /// Dense numbers of the state's handles that are open.
    handles: FxHashMap<u32, u32>,
    /// The state's handles that lead to no file.
    no_files: FxHashSet<u32>,
    waits: Vec<Wait>,
    summary: Summary,
}

impl Compiler {
    fn new(options: Options) -> Self {
        Self {
            options,
            state: State::new(),
            order: Order::default(),
            effect: Effect::default(),
            paths: FxHashMap::default(),
            handles: FxHashMap::default(),
            no_files: FxHashSet::default(),
            waits: Vec::new(),
            summary: Summary::default(),
        }
    }

    fn record(&mut self, record: &Record, reader: &Reader, sink: &mut dyn Sink) -> Result<()> {
        let mut effect = std::mem::take(&mut self.effect);
        let applied = self.state.apply(record, &mut effect);
        let done = match applied {
            Ok(()) => self.applied(record, &effect, reader, sink),
            Err(Refused::Unopened(_) | Refused::Unsent(_)) if self.options.allow_drops => {
                self.summary.unopened += 1;
                Ok(())
            }
            Err(refused) => Err(reader.wrong(Self::advice(record, &refused))),
        };
        self.effect = effect;
        done
    }

    fn advice(record: &Record, refused: &Refused) -> String {
        let call = match record {
            Record::Call(timed) => timed.call.op.name(),
            _ => "a record",
        };
        let what = refused.sentence(call);
        match refused {
            Refused::Unopened(_) | Refused::Unsent(_) => {
                format!("{what}; --allow-drops leaves such calls out, and counts them")
            }
            Refused::Unknown(_) => what,
        }
    }

    fn applied(
        &mut self,
        record: &Record,
        effect: &Effect,
        reader: &Reader,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        match record {
            Record::Thread(thread) => {
                self.order.thread(thread.number);
                sink.thread(thread)?;
            }
            Record::Fork(fork) => self.order.fork(fork),
            Record::Inherited(open) => {
                let mut call = Call::new(Op::Open);
                call.path = Some(open.path.clone());
                call.flags = open.flags & !(CREAT | EXCL | TRUNC);
                let timed = Timed { thread: open.thread, times: Times::default(), call, result: 0 };
                self.step(&timed, effect, (true, reader.line()), sink)?;
                self.seek(&timed, open.position, effect, reader.line(), sink)?;
            }
            Record::Call(timed) => {
                self.summary.calls += 1;
                self.call(timed, effect, reader.line(), sink)?;
            }
            Record::Exit(exit) => {
                self.implied_closes(exit.thread, effect, reader.line(), sink)?;
                self.order.exit(exit.thread);
            }
            Record::Sent(sent) => {
                let mut call = Call::new(Op::Dup);
                call.fd = Some(sent.fd);
                let timed = Timed { thread: sent.thread, times: Times::default(), call, result: 0 };
                self.step(&timed, effect, (true, reader.line()), sink)?;
            }
            Record::Received(received) => {
                self.implied_closes(received.thread, effect, reader.line(), sink)?;
            }
            Record::End(end) => {
                (self.summary.level_ns, self.summary.span_ns) = (end.level_ns, end.at_ns);
                self.summary.tells_computing = !is_traced(reader) || end.tells_computing();
            }
            Record::Count(count) if *count.what == *MOVED_OUTSIDE.as_bytes() => {
                self.summary.outside += count.count;
            }
            Record::Entry(_) | Record::Count(_) | Record::Loss(_) => {}
        }
        Ok(())
    }

    /// Puts an inherited descriptor where it was.
    fn seek(
        &mut self,
        opened: &Timed,
        position: u64,
        effect: &Effect,
        line: u64,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let (Some(handle), true) = (effect.opened, position > 0) else { return Ok(()) };
        let mut call = Call::new(Op::Lseek);
        (call.offset, call.flags) = (position.cast_signed(), 1);
        let timed = Timed { call, result: position.cast_signed(), ..opened.clone() };
        let moved = Effect { fd: Some(handle), ..Effect::default() };
        self.step(&timed, &moved, (true, line), sink)
    }

    fn call(&mut self, timed: &Timed, effect: &Effect, line: u64, sink: &mut dyn Sink) -> Result<()> {
        match timed.call.op {
            Op::Fork => self.order.forked(timed.thread, timed.call.mode),
            Op::Wait if timed.result >= 0 => self.order.joined(timed.thread, timed.call.mode),
            _ => {}
        }
        // What dup2 closes goes before the number is used again; what exec closes goes with the exec.
        if timed.call.op != Op::Close {
            self.implied_closes(timed.thread, effect, line, sink)?;
        }
        self.step(timed, effect, (false, line), sink)
    }

    /// Closes what no process has any more.
    fn implied_closes(&mut self, thread: u32, effect: &Effect, line: u64, sink: &mut dyn Sink) -> Result<()> {
        for handle in &effect.closed {
            let call = Call::new(Op::Close);
            let timed = Timed { thread, times: Times::default(), call, result: 0 };
            let closes = Effect { closed: vec![*handle], ..Effect::default() };
            self.step(&timed, &closes, (true, line), sink)?;
        }
        Ok(())
    }

    /// Whether a call is on what is no file, by its descriptors; an open, by the inode that it has found.
    fn is_no_file(&mut self, timed: &Timed, effect: &Effect) -> bool {
        if let Some(opened) = effect.opened.filter(|opened| self.state.is_no_file(*opened)) {
            self.no_files.insert(opened);
        }
        let is_found = |(node, _): &(u32, Use)| self.state.is_no_file_at(*node);
        let is_refused =
            timed.call.op == Op::Open && timed.result < 0 && effect.objects.first().is_some_and(is_found);
        let of_close = effect.closed.first().filter(|_| timed.call.op == Op::Close).copied();
        let handles = [effect.opened, effect.fd, of_close];
        let is_one = handles.into_iter().flatten().any(|handle| self.no_files.contains(&handle));
        if let Some(closed) = of_close {
            self.no_files.remove(&closed);
        }
        is_refused || is_one
    }

    /// A copy between a file and what is none moves the file's bytes only.
    fn halved(&self, timed: &Timed, effect: &mut Effect) -> Option<Timed> {
        let is_none = |handle: Option<u32>| handle.is_some_and(|handle| self.no_files.contains(&handle));
        let mut half = timed.clone();
        let call = &mut half.call;
        match (is_none(effect.fd), is_none(effect.fd2)) {
            (true, false) => {
                (call.op, call.fd, call.fd2, call.offset) = (Op::ReceiveFile, call.fd2, None, call.offset2);
                (effect.fd, effect.fd2) = (effect.fd2, None);
            }
            (false, true) => {
                (call.op, call.fd2) = (Op::SendFile, None);
                effect.fd2 = None;
            }
            _ => return None,
        }
        Some(half)
    }

    fn step(
        &mut self,
        timed: &Timed,
        effect: &Effect,
        (implied, line): (bool, u64),
        sink: &mut dyn Sink,
    ) -> Result<()> {
        if timed.call.op == Op::Copy && !self.no_files.is_empty() {
            let mut effect = effect.clone();
            if let Some(half) = self.halved(timed, &mut effect) {
                return self.step(&half, &effect, (implied, line), sink);
            }
        }
        let no_file = self.is_no_file(timed, effect);
        let mut call = self.numbered(&timed.call, sink)?;
        let is_close = timed.call.op == Op::Close;
        let fd = if is_close { effect.closed.first().copied() } else { effect.fd };
        (call.fd, call.fd2) = (self.dense(fd), self.dense(effect.fd2));
        let opens = effect.opened.map(|handle| self.new_handle(handle));
        let result = if opens.is_some() { 0 } else { timed.result };
        let used = if is_close { [None, None] } else { [call.fd, call.fd2] };
        let uses = Handles { used, opened: opens, closed: call.fd.filter(|_| is_close) };
        self.order.step(timed.thread, uses, effect, &mut self.waits);
        if let Some(handle) = fd.filter(|_| is_close) {
            self.handles.remove(&handle);
        }
        let step =
            Step { thread: timed.thread, call, opens, implied, no_file, result, times: timed.times, line };
        self.summary.steps += 1;
        self.summary.waits += self.waits.len() as u64;
        sink.step(&step, &self.waits)
    }

    fn dense(&self, handle: Option<u32>) -> Option<u32> {
        handle.and_then(|handle| self.handles.get(&handle).copied())
    }

    fn new_handle(&mut self, handle: u32) -> u32 {
        let number = self.summary.handles;
        self.summary.handles += 1;
        self.handles.insert(handle, number);
        number
    }

    /// The call with numbers in place of paths. Names of attributes and contents of links are numbered with the paths.
    fn numbered(&mut self, call: &Call, sink: &mut dyn Sink) -> Result<Call<u32, u32>> {
        let path = |_: Field, path: Box<[u8]>| -> Result<u32> {
            if let Some(number) = self.paths.get(&path) {
                return Ok(*number);
            }
            let number = self.paths.len() as u32;
            sink.path(&path)?;
            self.paths.insert(path, number);
            Ok(number)
        };
        call.clone().try_map(path, |_| Ok(0))
    }

    fn finish(mut self, reader: &Reader, sink: &mut dyn Sink) -> Result<Summary> {
        if reader.lost() > 0 && !self.options.allow_drops {
            return Err(Error::Lossy {
                file: reader.file().to_owned(),
                what: lacks(reader.lost(), reader.losses()),
            });
        }
        (self.summary.lost, self.summary.losses) = (reader.lost(), reader.losses().clone());
        if let Ending::Cut(line) = reader.ending() {
            self.summary.cut_after = Some(line);
        }
        self.summary.contradictions = self.state.tree.contradictions;
        let has_names = matches!(reader.head().get("snapshot"), Some(b"touched" | b"all"));
        self.summary.listed = has_names && reader.head().get("design").is_none();
        initial_entries(&self.state, &mut |entry| sink.initial(entry))?;
        last_entries(&mut self.state, &mut |entry| sink.last(entry))?;
        sink.end(&self.summary)?;
        Ok(self.summary)
    }
}

/// Whether what recording costs is in the gaps.
fn is_traced(reader: &Reader) -> bool {
    reader.head().get("clock") == Some(b"traced")
}

/// The sentence of a trace that has lost calls.
pub fn lacks(lost: u64, losses: &Losses) -> String {
    let names = losses.names().map_or_else(String::new, |names| format!(" ({names})"));
    format!("{lost} calls are missing{names}: a replay would differ from the program")
}

/// What existed before the trace began, parents first.
fn initial_entries(state: &State, give: &mut dyn FnMut(&Entry) -> Result<()>) -> Result<()> {
    for (number, node) in state.tree.nodes.iter().enumerate().skip(2) {
        let Some(origin) = node.origin else { continue };
        let group = if node.origins.is_empty() { 0 } else { number as u64 };
        for key in std::iter::once(&origin).chain(&node.origins) {
            give(&Entry {
                kind: node.kind,
                mode: node.mode,
                size: node.initial_size,
                group,
                path: state.tree.path_at_start(*key).into(),
                target: node.target.clone(),
            })?;
        }
    }
    Ok(())
}

/// What exists when the trace has ended, as far as it has shown it: parents first, names of a directory sorted. Of several names of
/// one file each is given, with the number of the file as its group.
fn last_entries(state: &mut State, give: &mut dyn FnMut(&Entry) -> Result<()>) -> Result<()> {
    let mut open: Vec<(u32, Vec<u8>)> = vec![(ROOT, Vec::new())];
    while let Some((directory, path)) = open.pop() {
        let mut below = Vec::new();
        for key in state.tree.children(directory) {
            let Some(number) = state.tree.get(key) else { continue };
            let mut inner = path.clone();
            if !inner.is_empty() {
                inner.push(b'/');
            }
            inner.extend_from_slice(state.tree.text(key));
            below.push((inner, number));
        }
        below.sort_unstable();
        for (path, number) in &below {
            let node = state.tree.node(*number);
            give(&Entry {
                kind: node.kind,
                mode: node.mode,
                size: node.size,
                group: u64::from(*number),
                path: path.as_slice().into(),
                target: node.target.clone(),
            })?;
        }
        let directories = below.into_iter().rev().filter(|(_, number)| is_directory(state, *number));
        let directories: Vec<_> = directories.map(|(path, number)| (number, path)).collect();
        open.extend(directories);
    }
    Ok(())
}

fn is_directory(state: &State, number: u32) -> bool {
    state.tree.nodes.get(number as usize).is_some_and(|node| node.kind == Kind::Directory)
}
