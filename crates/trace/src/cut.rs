//! A part of a trace that is a trace: by time, by process, by count of calls.
//!
//! Calls that are left out are applied to the state all the same. Before the first kept call that depends on what they have made,
//! the part gets it as something that existed (`S`), as an open descriptor with its position (`D`), as a thread (`T`). A file that
//! had been removed while it was open gets a name again.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::call::{Call, Field, Op};
use crate::error::Result;
use crate::reader::Reader;
use crate::record::{End, Entry, Exit, Fork, Head, Inherited, Received, Record, Sent, Thread, Timed, Times};
use crate::state::{Binding, Effect, State, Use};
use crate::words::{CLOEXEC, CREAT, EXCL, TRUNC};

/// What is kept: a call must satisfy all that is set.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Calls that begin at this time or later, in nanoseconds from the beginning.
    pub from_ns: Option<u64>,
    /// Calls that begin before this time.
    pub until_ns: Option<u64>,
    /// Calls of these processes of the recorded host; empty: of all.
    pub processes: Vec<u32>,
    /// Calls from this number on, the first is 1.
    pub first_call: Option<u64>,
    /// Calls up to this number.
    pub last_call: Option<u64>,
}

/// Keeps a part of a trace; `write` gets its records, the last is its end. Gives its head.
pub fn cut(mut reader: Reader, part: &Part, write: &mut dyn FnMut(&Record) -> Result<()>) -> Result<End> {
    let mut cutting = Cutting::new(part.clone());
    while let Some(record) = reader.next()? {
        // What the rest lacks, the part may lack, too: losses stand at the end.
        if !cutting.is_over() || matches!(record, Record::Loss(_) | Record::End(_)) {
            cutting.record(record, write)?;
        }
    }
    let dropped = reader.lost();
    let at_ns = cutting.last_ns.saturating_sub(cutting.begin_ns);
    Ok(End { at_ns, dropped, level_ns: cutting.level_ns, noise_ns: cutting.noise_ns, ..End::default() })
}

/// The head of a part.
pub fn head(head: &Head, part: &Part) -> Head {
    let mut head = head.clone();
    // Contents are kept by the numbers of calls, which a part changes.
    head.keys.retain(|(key, _)| **key != *crate::contents::KEY.as_bytes());
    let mut words = Vec::new();
    let mut word =
        |name: &str, value: Option<u64>| words.extend(value.map(|value| format!("{name}={value}")));
    word("from_ns", part.from_ns);
    word("until_ns", part.until_ns);
    word("first_call", part.first_call);
    word("last_call", part.last_call);
    words.extend(part.processes.iter().map(|pid| format!("process={pid}")));
    head.set("cut", words.join(" ").as_bytes());
    head
}

struct Cutting {
    part: Part,
    state: State,
    effect: Effect,
    threads: FxHashMap<u32, Thread>,
    /// Each thread's clock in the whole trace.
    clocks: FxHashMap<u32, u64>,
    /// Likewise in the part: the end of its last kept record.
    kept_clocks: FxHashMap<u32, u64>,
    names: FxHashSet<Binding>,
    /// Handles that the part has, by table and number.
    open: FxHashSet<(u32, i32, u32)>,
    begin_ns: u64,
    last_ns: u64,
    calls: u64,
    level_ns: u64,
    noise_ns: Option<u64>,
    /// Descriptors on their way, by their number.
    sent: FxHashSet<u32>,
    over: bool,
}

type Write<'a> = &'a mut dyn FnMut(&Record) -> Result<()>;

impl Cutting {
    fn new(part: Part) -> Self {
        Self {
            begin_ns: part.from_ns.unwrap_or(0),
            part,
            state: State::new(),
            effect: Effect::default(),
            threads: FxHashMap::default(),
            clocks: FxHashMap::default(),
            kept_clocks: FxHashMap::default(),
            names: FxHashSet::default(),
            open: FxHashSet::default(),
            last_ns: 0,
            calls: 0,
            level_ns: 0,
            noise_ns: None,
            sent: FxHashSet::default(),
            over: false,
        }
    }

    /// Whether no later record can be kept.
    fn is_over(&self) -> bool {
        self.over
    }

    fn record(&mut self, record: Record, write: Write<'_>) -> Result<()> {
        match record {
            Record::Call(timed) => self.call(timed, write),
            Record::Exit(exit) => self.exit(exit, write),
            Record::Fork(fork) => self.fork(fork, write),
            Record::Count(_) | Record::Loss(_) => write(&record),
            Record::End(end) => {
                self.level_ns = end.level_ns;
                // Where the computing of the whole cannot be told, that of a part cannot.
                self.noise_ns = end.noise_ns.filter(|_| !end.tells_computing());
                Ok(())
            }
            Record::Sent(sent) => self.sent(sent, write),
            Record::Received(received) => self.received(received, write),
            Record::Thread(thread) => {
                self.apply(&Record::Thread(thread.clone()));
                if self.kept_clocks.contains_key(&thread.number) {
                    write(&Record::Thread(thread.clone()))?;
                }
                self.threads.insert(thread.number, thread);
                Ok(())
            }
            other => {
                self.apply(&other);
                Ok(())
            }
        }
    }

    /// What cannot be applied, because no call opened the descriptor, is passed on as it is.
    fn apply(&mut self, record: &Record) {
        let _ = self.state.apply(record, &mut self.effect);
    }

    fn is_of_process(&self, thread: u32) -> bool {
        let processes = &self.part.processes;
        processes.is_empty()
            || self.threads.get(&thread).is_some_and(|thread| processes.contains(&thread.pid))
    }

    fn is_in_time(&self, start_ns: u64) -> bool {
        self.part.from_ns.is_none_or(|from| start_ns >= from)
            && self.part.until_ns.is_none_or(|until| start_ns < until)
    }

    fn keeps(&mut self, thread: u32, start_ns: u64) -> bool {
        self.calls += 1;
        let (first, last) = (self.part.first_call.unwrap_or(1), self.part.last_call.unwrap_or(u64::MAX));
        self.over = self.calls >= last;
        (first..=last).contains(&self.calls) && self.is_in_time(start_ns) && self.is_of_process(thread)
    }

    /// When a record of a thread begins and ends; the thread's clock moves to its end.
    fn advance(&mut self, thread: u32, times: &Times) -> (u64, u64) {
        let clock = self.clocks.entry(thread).or_default();
        let start = *clock + times.gap_ns;
        *clock = start + times.duration_ns;
        (start, *clock)
    }

    /// The times in the part: a gap does not begin before the part does.
    fn times(&mut self, thread: u32, times: &Times, (start, end): (u64, u64)) -> Times {
        if self.last_ns == 0 && self.part.from_ns.is_none() {
            // Cut by count or process: the part begins where its first call's gap does.
            self.begin_ns = start.saturating_sub(times.gap_ns);
        }
        let since = self.kept_clocks.insert(thread, end).unwrap_or(self.begin_ns);
        self.last_ns = self.last_ns.max(end);
        let gap_ns = start.saturating_sub(since);
        Times { gap_ns, other_ns: times.other_ns.min(gap_ns), ..*times }
    }

    fn call(&mut self, timed: Timed, write: Write<'_>) -> Result<()> {
        let span = self.advance(timed.thread, &timed.times);
        if !self.keeps(timed.thread, span.0) {
            self.apply(&Record::Call(timed));
            return Ok(());
        }
        self.say_thread(timed.thread, write)?;
        self.say_descriptors(&timed, write)?;
        self.say_names(&timed.call, timed.result >= 0, write)?;
        let times = self.times(timed.thread, &timed.times, span);
        let record = Record::Call(Timed { times, ..timed });
        self.apply(&record);
        let made = self.effect.names.iter().filter(|(_, how)| *how == Use::Changes).map(|(key, _)| *key);
        self.names.extend(made);
        let Record::Call(timed) = &record else { return Ok(()) };
        if let (Some(handle), Some(table)) = (self.effect.opened, self.state.table(timed.thread)) {
            self.open.insert((table, timed.result as i32, handle));
        }
        write(&record)
    }

    fn exit(&mut self, exit: Exit, write: Write<'_>) -> Result<()> {
        let span = self.advance(exit.thread, &exit.times);
        self.apply(&Record::Exit(exit));
        if !self.kept_clocks.contains_key(&exit.thread) || !self.is_in_time(span.0) {
            return Ok(());
        }
        let times = self.times(exit.thread, &exit.times, span);
        write(&Record::Exit(Exit { times, ..exit }))
    }

    fn fork(&mut self, fork: Fork, write: Write<'_>) -> Result<()> {
        let at = self.clocks.get(&fork.parent).copied().unwrap_or(0) + fork.after_ns;
        self.clocks.insert(fork.child, at);
        self.apply(&Record::Fork(fork));
        let parent = self.kept_clocks.get(&fork.parent).copied();
        let (Some(parent), true) = (parent, self.is_in_time(at) && self.is_of_process(fork.child)) else {
            return Ok(());
        };
        self.kept_clocks.insert(fork.child, at);
        if let Some(thread) = self.threads.get(&fork.child) {
            write(&Record::Thread(thread.clone()))?;
        }
        let tables = (self.state.table(fork.parent), self.state.table(fork.child));
        if let (Some(from), Some(to)) = tables {
            let copied: Vec<_> = self.open.iter().filter(|(table, ..)| *table == from).copied().collect();
            self.open.extend(copied.into_iter().map(|(_, fd, handle)| (to, fd, handle)));
        }
        write(&Record::Fork(Fork { after_ns: at.saturating_sub(parent), ..fork }))
    }

    /// A descriptor is sent by a thread that the part has. One that was sent before the part is said where it is used.
    fn sent(&mut self, sent: Sent, write: Write<'_>) -> Result<()> {
        let mut call = Call::new(Op::Dup);
        call.fd = Some(sent.fd);
        let timed = Timed { thread: sent.thread, times: Times::default(), call, result: 0 };
        let is_kept = self.kept_clocks.contains_key(&sent.thread);
        if is_kept {
            self.say_descriptors(&timed, write)?;
        }
        self.apply(&Record::Sent(sent));
        if !is_kept {
            return Ok(());
        }
        self.sent.insert(sent.number);
        write(&Record::Sent(sent))
    }

    fn received(&mut self, received: Received, write: Write<'_>) -> Result<()> {
        self.apply(&Record::Received(received));
        if !self.sent.remove(&received.number) || !self.is_of_process(received.thread) {
            return Ok(());
        }
        self.say_thread(received.thread, write)?;
        self.kept_clocks.entry(received.thread).or_insert(self.begin_ns);
        if let (Some(handle), Some(table)) = (self.effect.fd, self.state.table(received.thread)) {
            self.open.insert((table, received.fd, handle));
        }
        write(&Record::Received(received))
    }

    fn say_thread(&mut self, thread: u32, write: Write<'_>) -> Result<()> {
        match self.threads.get(&thread) {
            Some(known) if !self.kept_clocks.contains_key(&thread) => write(&Record::Thread(known.clone())),
            _ => Ok(()),
        }
    }

    /// Descriptors that calls before the part have opened. An exec needs all of them: it closes some.
    fn say_descriptors(&mut self, timed: &Timed, write: Write<'_>) -> Result<()> {
        let Some(table) = self.state.table(timed.thread) else { return Ok(()) };
        let needed = [timed.call.fd, timed.call.fd2];
        for (fd, handle, cloexec) in self.state.descriptors(timed.thread) {
            if !needed.contains(&Some(fd)) || !self.open.insert((table, fd, handle)) {
                continue;
            }
            let Some((_, file)) = self.state.file_of(handle) else { continue };
            let file = *file;
            let Some(key) = file.key else { continue };
            self.say_name(key, write)?;
            let path = self.state.tree.path_now(key).into();
            let flags = file.flags & !(CREAT | EXCL | TRUNC | CLOEXEC) | if cloexec { CLOEXEC } else { 0 };
            let open = Inherited { thread: timed.thread, fd, path, flags, position: file.position };
            write(&Record::Inherited(open))?;
        }
        Ok(())
    }

    /// What is on the paths of a call.
    fn say_names(&mut self, call: &Call, done: bool, write: Write<'_>) -> Result<()> {
        let mut visits = Vec::new();
        let follow = call.op.follows();
        let paths = [(&call.path, Field::Path), (&call.path2, Field::Path2)];
        for (path, field) in paths {
            let Some(path) = path.as_ref().filter(|_| call.op.fields().contains(&field)) else { continue };
            self.state.tree.resolve(path, (follow, false), &mut visits);
        }
        if let (Op::Getdents, true) = (call.op, done) {
            visits.extend(self.listed(call));
        }
        visits.into_iter().try_for_each(|key| self.say_name(key, write))
    }

    /// The names in the directory that a call lists.
    fn listed(&self, call: &Call) -> Vec<Binding> {
        let handles = self.open.iter().filter(|(_, fd, _)| Some(*fd) == call.fd);
        let mut names: Vec<Binding> = handles
            .filter_map(|(.., handle)| self.state.file_of(*handle))
            .flat_map(|(_, file)| self.state.tree.children(file.node))
            .collect();
        names.sort_unstable();
        names
    }

    fn say_name(&mut self, key: Binding, write: Write<'_>) -> Result<()> {
        let Some(node) = self.state.tree.get(key).filter(|_| !self.names.contains(&key)) else {
            return Ok(());
        };
        // What it is in, first.
        if let Some(parent) = self.state.tree.name_of(key.0) {
            self.say_name(parent, write)?;
        }
        self.names.insert(key);
        let path = self.state.tree.path_now(key).into();
        let of = self.state.tree.node(node);
        let group = if of.origins.is_empty() { 0 } else { u64::from(node) };
        write(&Record::Entry(Entry {
            kind: of.kind,
            mode: of.mode,
            size: of.size,
            group,
            path,
            target: of.target.clone(),
        }))
    }
}
