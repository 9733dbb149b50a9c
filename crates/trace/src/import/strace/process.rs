//! Threads and processes: who begins, who ends, who waits.

use std::io::{self, Write};

use super::line::{Outcome, parse};
use super::place::Place;
use super::{HELD_MAX, Half, Importer, Runner, args};
use crate::call::{Call, Op};
use crate::record::{Shares, Status};

/// Whether a call makes a thread or process.
pub(super) fn makes_thread(name: &[u8]) -> bool {
    matches!(name, b"clone" | b"clone3" | b"fork" | b"vfork")
}

/// What a new thread shares, and whether the working directory and the root are among it.
fn shared(name: &[u8], args: &[u8]) -> (Shares, bool) {
    let has = |word| args::has(args, word);
    let shares = Shares {
        process: has("CLONE_THREAD"),
        files: has("CLONE_FILES"),
        vfork: name == b"vfork" || has("CLONE_VFORK"),
    };
    (shares, has("CLONE_FS"))
}

/// The number of the thread whose lines have none. Without `-f` there is one thread; with it strace leaves the number out as long
/// as there is only one, where it does not write to a file.
const UNNUMBERED: u32 = 1;

impl<W: Write> Importer<W> {
    /// Whose line it is.
    pub(super) fn tid_of(&mut self, printed: Option<u32>) -> io::Result<u32> {
        let Some(tid) = printed else {
            // One that was made and has not shown itself is none yet for strace either.
            let shown = self.threads.iter().filter(|(tid, _)| !self.silent.contains(*tid));
            if let Some((tid, _)) = shown.min_by_key(|(_, runner)| runner.number) {
                return Ok(*tid);
            }
            self.is_unnumbered = true;
            return Ok(UNNUMBERED);
        };
        // The first line with a number of one that is nobody's child is of the thread that had none so far.
        let is_new = !self.threads.contains_key(&tid) && !self.attached.contains(&tid) && !self.is_making();
        if !self.is_unnumbered || !is_new {
            return Ok(tid);
        }
        self.is_unnumbered = false;
        if let Some(mut runner) = self.threads.remove(&UNNUMBERED) {
            runner.pid = if runner.pid == UNNUMBERED { tid } else { runner.pid };
            self.out.rename(runner.number, (runner.pid, tid), b"")?;
            if let Some(number) = self.mains.remove(&UNNUMBERED) {
                self.mains.insert(tid, number);
            }
            self.threads.insert(tid, runner);
        }
        Ok(tid)
    }

    /// A thread shows itself for the first time. False: it is not known yet whose child it is.
    pub(super) fn begin(&mut self, tid: u32, at_ns: u64) -> io::Result<bool> {
        let (first, second) = {
            let mut making = self.making();
            (making.next(), making.next())
        };
        match first {
            None => self.begin_alone(tid, at_ns)?,
            Some(_) if second.is_some() => return Ok(false),
            Some(parent) => {
                let half = self.runner(parent).half.clone();
                let half = half.expect("it is making a thread");
                self.child(parent, tid, (&half.name, &half.args), half.at_ns)?;
                if let Some(half) = &mut self.runner(parent).half {
                    half.child = Some(tid);
                }
            }
        }
        Ok(true)
    }

    /// Threads that are making one which has not shown itself.
    fn making(&self) -> impl Iterator<Item = u32> {
        let open = |half: &Half| makes_thread(&half.name) && half.child.is_none();
        let threads = self.threads.iter();
        threads.filter(move |(_, runner)| runner.half.as_ref().is_some_and(open)).map(|(tid, _)| *tid)
    }

    /// Whether any is.
    pub(super) fn is_making(&self) -> bool {
        self.making().next().is_some()
    }

    /// Keeps a line until it is known whose child its thread is.
    pub(super) fn hold(&mut self, tid: u32, text: &[u8], at_ns: u64) -> io::Result<()> {
        self.held.entry(tid).or_default().push_back((text.into(), at_ns));
        self.held_lines += 1;
        if self.held_lines < HELD_MAX {
            return Ok(());
        }
        while let Some(tid) = self.held.keys().next().copied() {
            self.begin_alone(tid, self.now_ns)?;
        }
        Ok(())
    }

    /// A thread without a known parent: the program itself, or one of a process that strace was attached to.
    pub(super) fn begin_alone(&mut self, tid: u32, at_ns: u64) -> io::Result<()> {
        let number = self.out.thread((tid, tid), b"", at_ns)?;
        self.tables.push(rustc_hash::FxHashMap::default());
        self.places.push(Place { cwd: Some(self.start_directory.clone()), root: Box::default() });
        let (table, place) = (self.tables.len() - 1, self.places.len() - 1);
        self.threads.insert(tid, Runner { number, pid: tid, table, place, half: None });
        self.mains.insert(tid, number);
        self.first_channels(number, table);
        let inherited = std::mem::take(&mut self.inherited);
        if !inherited.is_empty() {
            self.descriptors(tid, at_ns, &inherited)?;
        }
        self.release(tid)
    }

    /// A thread that `parent` makes by a call that began at `at_ns`.
    pub(super) fn child(
        &mut self,
        parent: u32,
        tid: u32,
        (name, args): (&[u8], &[u8]),
        at_ns: u64,
    ) -> io::Result<()> {
        let (shares, shares_place) = shared(name, args);
        let Runner { number, pid, table, place, .. } = *self.runner(parent);
        let pid = if shares.process { pid } else { tid };
        let child = self.out.fork(number, (pid, tid), b"", shares, at_ns)?;
        let table = if shares.files {
            table
        } else {
            self.tables.push(self.tables[table].clone());
            self.copy_channels(table, self.tables.len() - 1);
            self.tables.len() - 1
        };
        let place = if shares_place { place } else { self.own_place(place) };
        self.threads.insert(tid, Runner { number: child, pid, table, place, half: None });
        if !shares.process {
            self.mains.insert(pid, child);
        }
        self.release(tid)
    }

    /// Takes the lines that were held of a thread.
    fn release(&mut self, tid: u32) -> io::Result<()> {
        let lines = self.held.remove(&tid).unwrap_or_default();
        self.held_lines -= lines.len();
        for (text, at_ns) in lines {
            let line = parse(&text).expect("a line is held after it was understood");
            self.take(&text, line, Some(at_ns))?;
        }
        Ok(())
    }

    /// A call that makes a thread has returned.
    pub(super) fn forked(
        &mut self,
        tid: u32,
        (name, args): (&[u8], &[u8]),
        outcome: Outcome<'_>,
        times: (u64, u64),
        child: Option<u32>,
    ) -> io::Result<()> {
        let made =
            args::number(outcome.text).and_then(|made| u32::try_from(made).ok()).filter(|made| *made > 0);
        let Some(made) = made.or(child) else {
            let number = self.runner(tid).number;
            self.out.skip(number, times.1, "calls that made no thread");
            return Ok(());
        };
        // In another PID namespace the parent hears another number than strace; the child that was seen is the one.
        let made = child.unwrap_or(made);
        let at = self.runner(tid).number;
        let is_new = !self.threads.contains_key(&made) && child.is_none();
        if is_new {
            self.child(tid, made, (name, args), times.0)?;
            // A text has at least the end of every thread that it follows.
            if self.clock.is_some() {
                self.silent.insert(made);
            }
        }
        let mut call = Call::new(Op::Fork);
        call.mode = self
            .threads
            .get(&made)
            .map_or_else(|| self.mains.get(&made).copied().unwrap_or_default(), |runner| runner.number);
        self.out.call(at, times, call, 0)
    }

    /// A call that waits for a child has returned.
    pub(super) fn waited(&mut self, tid: u32, pid: Option<i64>, times: (u64, u64)) -> io::Result<()> {
        let number = self.runner(tid).number;
        let pid = pid.and_then(|pid| u32::try_from(pid).ok());
        match pid.filter(|pid| !self.threads.contains_key(pid)).and_then(|pid| self.mains.remove(&pid)) {
            Some(child) => {
                let mut call = Call::new(Op::Wait);
                call.mode = child;
                self.out.call(number, times, call, 0)
            }
            None => {
                self.out.skip(number, times.1, "waits");
                Ok(())
            }
        }
    }

    /// A thread ends.
    pub(super) fn ended(&mut self, tid: u32, at_ns: u64, status: Status) -> io::Result<()> {
        if self.threads.contains_key(&tid) {
            self.never_returns(tid)?;
        }
        let Some(runner) = self.threads.remove(&tid) else { return Ok(()) };
        if runner.pid != tid {
            // The call that made it may return after its end.
            self.mains.insert(tid, runner.number);
        }
        self.out.exit(runner.number, at_ns, status)?;
        if !self.threads.values().any(|other| other.table == runner.table) {
            self.tables[runner.table] = rustc_hash::FxHashMap::default();
            self.mappings.remove(&runner.table);
        }
        Ok(())
    }

    /// Another thread of the process has called exec, and goes on under the number of this one.
    pub(super) fn superseded(&mut self, tid: u32, by: u32, at_ns: u64) -> io::Result<()> {
        self.ended(tid, at_ns, Status::Replaced)?;
        if let Some(runner) = self.threads.remove(&by) {
            self.mains.insert(runner.pid, runner.number);
            self.threads.insert(tid, runner);
        }
        Ok(())
    }
}
