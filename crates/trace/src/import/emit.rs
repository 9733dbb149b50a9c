//! Writing records for importers and recorders: threads and their clocks, what was seen and not stored, and at the end what a
//! recorded call costs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::call::Call;
use crate::losses::Losses;
use crate::record::{Count, End, Exit, Fork, Loss, Record, Shares, Status, Thread, Timed, Times};
use crate::text;
use crate::writer::Writer;

/// Classes of gaps in each power of two.
const CLASSES: u32 = 32;

/// Gaps by their length, so that the cost of a recorded call can be found at the end without the gaps.
#[derive(Debug, Default)]
struct Gaps {
    /// Class of length a call: calls, and the sum of nanoseconds.
    classes: BTreeMap<u32, (u64, u64)>,
}

impl Gaps {
    /// A gap of `nanos` in which `calls` calls were recorded.
    fn add(&mut self, nanos: u64, calls: u64) {
        let each = nanos / calls.max(1);
        let magnitude = (each | 1).ilog2();
        let fraction = if magnitude < 5 { 0 } else { (each >> (magnitude - 5)) as u32 & (CLASSES - 1) };
        let class = self.classes.entry(magnitude * CLASSES + fraction).or_default();
        *class = (class.0 + calls, class.1 + nanos);
    }

    /// The cost of a call with which what is left of the gaps is the program's own `user_ns`. Where even all of the gaps are less,
    /// it is 0.
    fn level(&self, user_ns: u64) -> u64 {
        let (mut calls, mut nanos) = (0_u64, 0_u64);
        // From the longest: with a level between two classes, what is left is the sum of the longer ones less their number of
        // levels.
        for (_, (more_calls, more_nanos)) in self.classes.iter().rev() {
            let each = more_nanos / (*more_calls).max(1);
            if calls > 0 && nanos.saturating_sub(calls.saturating_mul(each)) >= user_ns {
                break;
            }
            calls += more_calls;
            nanos += more_nanos;
        }
        if nanos <= user_ns { 0 } else { (nanos - user_ns) / calls.max(1) }
    }

    /// By how much gaps are shorter than a recorded call is said to cost, in sum. A cost that were the same for each call would
    /// leave nothing; what it leaves here, it leaves above the level, too, where it passes for computing.
    fn noise(&self, level_ns: u64) -> u64 {
        let short = |(calls, nanos): &(u64, u64)| level_ns.saturating_mul(*calls).saturating_sub(*nanos);
        self.classes.values().map(short).fold(0, u64::saturating_add)
    }
}

/// A thread's clock.
#[derive(Debug)]
struct Clock {
    /// The end of its previous record, in nanoseconds of the recorder's clock.
    last_ns: u64,
    other_ns: u64,
    skipped: u32,
    has_ended: bool,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Calls in the trace.
    pub calls: u64,
    /// Threads.
    pub threads: u32,
    /// The span in nanoseconds.
    pub span_ns: u64,
    /// What a recorded call costs of the gap before it.
    pub level_ns: u64,
    /// Whether the gaps say what the program computed ([`End::tells_computing`]).
    pub tells_computing: bool,
    /// What is missing.
    pub losses: Losses,
    /// What was seen and not stored.
    pub counts: BTreeMap<String, u64>,
}

/// Writes records.
#[derive(Debug)]
pub struct Emitter<W: Write> {
    writer: Writer<W>,
    threads: Vec<Clock>,
    counts: BTreeMap<String, u64>,
    losses: Losses,
    /// Those that are not written yet.
    fresh: Losses,
    begin_ns: Option<u64>,
    end_ns: u64,
    gaps: Gaps,
    /// What a recorded call costs, where the recorder knows it.
    level_ns: Option<u64>,
    /// Lines of calls that do not go into the trace.
    aside: Option<Vec<Vec<u8>>>,
}

impl<W: Write> Emitter<W> {
    /// Writes to `writer`.
    pub fn new(writer: Writer<W>) -> Self {
        Self {
            writer,
            threads: Vec::new(),
            counts: BTreeMap::new(),
            losses: Losses::default(),
            fresh: Losses::default(),
            begin_ns: None,
            end_ns: 0,
            gaps: Gaps::default(),
            level_ns: None,
            aside: None,
        }
    }

    /// A thread that begins with the trace; `at_ns` is the recorder's clock now. Gives its number.
    pub fn thread(&mut self, (pid, tid): (u32, u32), name: &[u8], at_ns: u64) -> io::Result<u32> {
        let begin = *self.begin_ns.get_or_insert(at_ns);
        self.add_thread((pid, tid), name, begin)
    }

    fn add_thread(&mut self, (pid, tid): (u32, u32), name: &[u8], last_ns: u64) -> io::Result<u32> {
        self.threads.push(Clock { last_ns, other_ns: 0, skipped: 0, has_ended: false });
        let number = self.threads.len() as u32;
        self.writer.write(&Record::Thread(Thread { number, pid, tid, name: name.into() }))?;
        Ok(number)
    }

    /// A thread has another program now.
    pub fn rename(&mut self, number: u32, (pid, tid): (u32, u32), name: &[u8]) -> io::Result<()> {
        self.writer.write(&Record::Thread(Thread { number, pid, tid, name: name.into() }))
    }

    /// A thread that another has made at `at_ns`.
    pub fn fork(
        &mut self,
        parent: u32,
        ids: (u32, u32),
        name: &[u8],
        shares: Shares,
        at_ns: u64,
    ) -> io::Result<u32> {
        let last_ns = self.clock(parent).last_ns;
        let after_ns = at_ns.saturating_sub(last_ns);
        let child = self.add_thread(ids, name, last_ns + after_ns)?;
        self.writer.write(&Record::Fork(Fork { parent, child, after_ns, shares }))?;
        Ok(child)
    }

    fn clock(&mut self, thread: u32) -> &mut Clock {
        &mut self.threads[thread as usize - 1]
    }

    fn times(&mut self, thread: u32, start_ns: u64, duration_ns: u64) -> Times {
        self.end_ns = self.end_ns.max(start_ns + duration_ns);
        let clock = self.clock(thread);
        let gap_ns = start_ns.saturating_sub(clock.last_ns);
        let times =
            Times { gap_ns, other_ns: clock.other_ns.min(gap_ns), skipped: clock.skipped, duration_ns };
        (clock.last_ns, clock.other_ns, clock.skipped) = (clock.last_ns + gap_ns + duration_ns, 0, 0);
        self.gaps.add(gap_ns - times.other_ns, u64::from(times.skipped) + 1);
        times
    }

    /// A call that began at `start_ns` of the recorder's clock.
    pub fn call(
        &mut self,
        thread: u32,
        (start_ns, duration_ns): (u64, u64),
        call: Call,
        result: i64,
    ) -> io::Result<()> {
        if let Some(lines) = &mut self.aside {
            let times = Times::default();
            let mut line = Vec::new();
            text::print(&Record::Call(Timed { thread, times, call, result }), &mut line);
            lines.push(line.trim_ascii_end().to_vec());
            return Ok(());
        }
        let times = self.times(thread, start_ns, duration_ns);
        self.writer.write(&Record::Call(Timed { thread, times, call, result }))
    }

    /// From now on calls do not go into the trace.
    pub(super) fn put_aside(&mut self) {
        self.aside = Some(Vec::new());
    }

    /// The lines of the calls since then; calls go into the trace again.
    pub(super) fn were_put_aside(&mut self) -> Vec<Vec<u8>> {
        self.aside.take().unwrap_or_default()
    }

    /// A call that is not stored: it is counted under a name, and its time is no computing.
    pub fn skip(&mut self, thread: u32, duration_ns: u64, what: &str) {
        self.pass(thread, duration_ns);
        self.count(what, 1);
    }

    /// A call that is not stored, of which the caller counts what it was.
    pub fn pass(&mut self, thread: u32, duration_ns: u64) {
        let clock = self.clock(thread);
        clock.other_ns += duration_ns;
        clock.skipped += 1;
    }

    /// Counts something.
    pub fn count(&mut self, what: &str, count: u64) {
        match self.counts.get_mut(what) {
            Some(sum) => *sum += count,
            None => drop(self.counts.insert(what.to_owned(), count)),
        }
    }

    /// Something is missing.
    pub fn lose(&mut self, loss: &Loss) {
        self.losses.add(loss);
        self.fresh.add(loss);
    }

    /// What is missing so far.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    fn write_losses(&mut self) -> io::Result<()> {
        let fresh = std::mem::take(&mut self.fresh);
        fresh.iter().try_for_each(|loss| self.writer.write(&Record::Loss(loss)))
    }

    /// A record that needs no clock.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        self.writer.write(record)
    }

    /// A thread ends.
    pub fn exit(&mut self, thread: u32, at_ns: u64, status: Status) -> io::Result<()> {
        if std::mem::replace(&mut self.clock(thread).has_ended, true) {
            return Ok(());
        }
        let times = self.times(thread, at_ns, 0);
        self.writer.write(&Record::Exit(Exit { thread, times, status }))
    }

    /// The recorder knows what a recorded call costs of the gap before it.
    pub fn costs(&mut self, level_ns: u64) {
        self.level_ns = Some(level_ns);
    }

    /// A time of the recorder's clock as nanoseconds since the beginning of the trace.
    pub(super) fn since_begin(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.begin_ns.unwrap_or(at_ns))
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.writer.calls()
    }

    /// Hands what was written to the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_losses()?;
        self.writer.flush()
    }

    /// Ends the trace. What a recorded call costs of the gaps is what the recorder has said; otherwise, with the program's own user
    /// CPU time, what makes the rest of the gaps that time; without, 0.
    pub fn finish(mut self, user_ns: Option<u64>) -> io::Result<(W, Sums)> {
        self.write_losses()?;
        let level_ns = self.level_ns.unwrap_or_else(|| user_ns.map_or(0, |user_ns| self.gaps.level(user_ns)));
        let is_found = self.level_ns.is_none() && user_ns.is_some();
        let noise_ns = is_found.then(|| self.gaps.noise(level_ns));
        let span_ns = self.end_ns.saturating_sub(self.begin_ns.unwrap_or(self.end_ns));
        let threads = self.threads.len() as u32;
        let (calls, counts, losses) = (self.writer.calls(), self.counts, self.losses);
        let end =
            End { at_ns: span_ns, dropped: losses.calls(), user_ns, level_ns, noise_ns, ..End::default() };
        let tells_computing = end.tells_computing();
        let sums = Sums { calls, threads, span_ns, level_ns, tells_computing, losses, counts };
        let counts =
            sums.counts.iter().map(|(what, count)| Count { count: *count, what: what.as_bytes().into() });
        let counts: Vec<Count> = counts.collect();
        self.writer.finish(counts, end).map(|out| (out, sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_leaves_the_programs_own_time_of_the_gaps() {
        let mut gaps = Gaps::default();
        (0..1000).for_each(|_| gaps.add(30_000, 1));
        (0..10).for_each(|_| gaps.add(1_030_000, 1));
        (0..100).for_each(|_| gaps.add(60_000, 2));
        let level = gaps.level(10_000_000);
        assert!((29_000..=31_000).contains(&level), "{level}");
        assert_eq!(gaps.level(u64::MAX), 0);
        assert!(gaps.level(0) >= 1_029_000, "a program that computes nothing");
        assert_eq!(Gaps::default().level(1), 0);
    }

    #[test]
    fn computing_is_told_only_where_it_is_more_than_the_noise_of_recording() {
        // 1000 calls that cost 30 us each, and 10 ms of computing in ten of the gaps.
        let (mut quiet, mut busy) = (Gaps::default(), Gaps::default());
        (0..990).for_each(|_| quiet.add(30_000, 1));
        (0..10).for_each(|_| quiet.add(1_030_000, 1));
        // The same where a call in three waits for a processor, up to 9 ms.
        (0..990).for_each(|at| busy.add(30_000 + if at % 3 == 0 { at * 9_000 } else { 0 }, 1));
        (0..10).for_each(|_| busy.add(1_030_000, 1));
        let user_ns = 10_000_000;
        let noise = |gaps: &Gaps| gaps.noise(gaps.level(user_ns));
        assert!(noise(&quiet) < user_ns / 10, "{}", noise(&quiet));
        assert!(noise(&busy) > user_ns, "{}", noise(&busy));
    }
}
