//! A block trace on an SSD.
//!
//! The trace is read twice: first to check every line and to learn which pages it touches, so that nothing is reported of a
//! trace that cannot be replayed as a whole; then to replay it. Requests are issued at their times (open loop), or with a fixed
//! number outstanding (closed loop), where the trace has no times or the user says so. A request that is longer than the device
//! takes at once becomes several commands and is done when the last is.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use media::flash::queues::{QUEUE_ENTRIES, Queues};
use media::flash::{Command, Counters, Op as FlashOp, Outcome, PAGE, Ssd};
use results::Histogram;
use sim::Nanos;
use workload::block::trace::{Format, Reader, TraceError};
use workload::block::{Op, Request};

use super::commands;
use crate::error::Error;

/// What is done with a line that cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It ends the command before anything is replayed.
    Refuse,
    /// It is counted and left out.
    Skip,
}

/// What is written before the trace begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Nothing: reads of what was never written find no flash page.
    Nothing,
    /// Every page that the trace touches, in order of address.
    Touched,
    /// The whole device, in order.
    All,
}

/// How a trace is replayed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its format; without one, by its first line.
    pub format: Option<Format>,
    /// Only requests of this device.
    pub only: Option<String>,
    /// Lines that are none of the format, or whose clock runs backwards.
    pub bad: Bad,
    /// Requests beyond the end of the device.
    pub beyond: Bad,
    /// A clock that runs backwards stands still instead of making a bad line.
    pub clamp: bool,
    /// What is written before.
    pub fill: Fill,
    /// Closed loop with this many outstanding; without one, at the times of the trace.
    pub depth: Option<u32>,
    /// Queues that requests are spread over, in turn.
    pub queues: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            format: None,
            only: None,
            bad: Bad::Refuse,
            beyond: Bad::Refuse,
            clamp: false,
            fill: Fill::Touched,
            depth: None,
            queues: 1,
        }
    }
}

/// What a trace holds.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Its format.
    pub format: Format,
    /// Requests that are replayed.
    pub requests: u64,
    /// Lines left out as bad.
    pub bad_lines: u64,
    /// Requests left out as beyond the device.
    pub beyond: u64,
    /// Whether its requests have times.
    pub timed: bool,
    /// The time of its last request.
    pub span: Nanos,
    /// The pages that it touches, as ranges.
    touched: BTreeMap<u64, u64>,
}

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Latency of each kind of request, from its time in the trace to its completion.
    pub latency: Vec<(Op, Histogram, u64)>,
    /// From the first request to the last completion.
    pub took: Nanos,
    /// Write amplification as the trace went on.
    pub amplification: Vec<Sample>,
    /// What the device did in the replay, what was written before it left out.
    pub counters: Counters,
    /// How long each die was busy in the replay.
    pub busy: Vec<Nanos>,
}

/// The state of the device in the middle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When, since the first request.
    pub at: Nanos,
    /// Pages that the host had written.
    pub host_pages: u64,
    /// Pages programmed for each of them since the sample before; 1 if there were none.
    pub amplification: f64,
}

/// How many samples a replay takes.
const SAMPLES: u64 = 40;

/// Reads a trace without replaying it. `open` opens it from the start.
pub fn survey<R: BufRead>(
    open: impl Fn() -> Result<R, Error>,
    settings: &Settings,
    size: u64,
) -> Result<Survey, Error> {
    let format = match settings.format {
        Some(format) => format,
        None => detect(open()?)?,
    };
    let mut survey = Survey {
        format,
        requests: 0,
        bad_lines: 0,
        beyond: 0,
        timed: true,
        span: Nanos::ZERO,
        touched: BTreeMap::new(),
    };
    let mut reader = Reader::new(open()?, format, settings.only.clone()).clamping(settings.clamp);
    while let Some(request) = reader.next() {
        let Some(request) = accept(request, settings, &mut survey.bad_lines)? else { continue };
        if request.offset + request.bytes > size {
            survey.beyond += 1;
            if settings.beyond == Bad::Refuse {
                return Err(too_far(reader.line(), &request, size));
            }
            continue;
        }
        survey.requests += 1;
        survey.span = Nanos(request.at_ns);
        if matches!(request.op, Op::Read | Op::Write) {
            survey.touch(request.offset / PAGE, (request.offset + request.bytes).div_ceil(PAGE));
        }
    }
    survey.timed = reader.has_times();
    if survey.requests == 0 {
        return Err(Error::Setting("the trace holds no request that can be replayed".to_owned()));
    }
    Ok(survey)
}

fn detect<R: BufRead>(input: R) -> Result<Format, Error> {
    let line = input.lines().map_while(Result::ok).find(|line| !line.trim().is_empty()).unwrap_or_default();
    Format::detect(&line).ok_or_else(|| {
        let start: String = line.chars().take(60).collect();
        Error::Setting(format!(
            "the trace begins with \"{start}\", which no format has: give --format fio, blktrace, msr or mqsim"
        ))
    })
}

fn too_far(line: u64, request: &Request, size: u64) -> Error {
    let end = request.offset + request.bytes;
    Error::Setting(format!(
        "line {line}: the request ends at byte {end}, beyond the device of {size} bytes: give the device a larger \
         capacity, or leave such requests out with --beyond skip"
    ))
}

/// The request of a line, or nothing if the line is left out.
fn accept(
    request: Result<Request, TraceError>,
    settings: &Settings,
    bad_lines: &mut u64,
) -> Result<Option<Request>, Error> {
    match request {
        Ok(request) => Ok(Some(request)),
        Err(TraceError::BadLine { .. }) if settings.bad == Bad::Skip => {
            *bad_lines += 1;
            Ok(None)
        }
        Err(error @ TraceError::BadLine { .. }) => {
            Err(Error::Setting(format!("{error} (--bad-lines skip leaves such lines out)")))
        }
        Err(error) => Err(Error::Setting(error.to_string())),
    }
}

impl Survey {
    /// Adds pages to the touched ones.
    fn touch(&mut self, mut first: u64, mut end: u64) {
        if let Some((before, last)) = self.touched.range(..=first).next_back().map(|(k, v)| (*k, *v))
            && last >= first
        {
            if last >= end {
                return;
            }
            first = before;
        }
        while let Some((next, last)) = self.touched.range(first..=end).next().map(|(k, v)| (*k, *v)) {
            end = end.max(last);
            self.touched.remove(&next);
        }
        self.touched.insert(first, end);
    }

    /// Pages that the trace touches.
    pub fn touched_pages(&self) -> u64 {
        self.touched.iter().map(|(first, end)| end - first).sum()
    }
}

/// Writes what the settings ask for; returns when the device is idle again.
pub fn fill(ssd: &mut Ssd, fill: Fill, survey: &Survey) -> Result<Nanos, Error> {
    let size = ssd.size(0)?.0 / PAGE;
    let all = BTreeMap::from([(0, size)]);
    let ranges = match fill {
        Fill::Nothing => return Ok(Nanos::ZERO),
        Fill::Touched => &survey.touched,
        Fill::All => &all,
    };
    let step = ssd.config().max_transfer / PAGE;
    let mut now = Nanos::ZERO;
    for (first, end) in ranges {
        for page in (*first..(*end).min(size)).step_by(step as usize) {
            let pages = step.min(end.min(&size) - page);
            now = wait(ssd, &Command::new(FlashOp::Write, page * PAGE, pages * PAGE), now)?;
        }
    }
    // A whole second later: every run begins at the beginning of a bucket of the links.
    Ok(Nanos::from_secs(ssd.idle_at().0 / 1_000_000_000 + 1))
}

/// Submits a command until it is taken, and returns when it completes.
pub fn wait(ssd: &mut Ssd, command: &Command, mut now: Nanos) -> Result<Nanos, Error> {
    loop {
        match ssd.submit(command, now)? {
            Outcome::Done { at } => return Ok(at),
            Outcome::Busy { retry_at } => now = retry_at,
        }
    }
}

/// Requests on their way, by number: kind, time in the trace, commands that are not done.
struct Flight {
    ssd: Ssd,
    queues: Queues,
    open: BTreeMap<u64, (Op, Nanos, u64)>,
    outstanding: u32,
    start: Nanos,
    last: Nanos,
    latency: [(Op, Histogram, u64); 4],
}

/// Replays a trace that was surveyed. `progress` hears of each request; `stop` ends it early.
pub fn replay<R: BufRead>(
    input: R,
    settings: &Settings,
    survey: &Survey,
    ssd: Ssd,
    start: Nanos,
    mut progress: impl FnMut(),
    stop: &AtomicBool,
) -> Result<(Replayed, Ssd), Error> {
    let (before, busy) = (ssd.statistics().counters, ssd.statistics().busy);
    let size = ssd.size(0)?.0;
    let depth = settings.depth.or((!survey.timed).then_some(1));
    let mut flight = Flight::new(ssd, settings.queues, start);
    let mut amplification = Vec::new();
    let mut sampled = before;
    let every = survey.requests.div_ceil(SAMPLES);
    let reader = Reader::new(input, survey.format, settings.only.clone()).clamping(settings.clamp);
    let mut number = 0;
    for request in reader {
        let Some(request) = accept(request, settings, &mut 0)? else { continue };
        if request.offset + request.bytes > size {
            continue;
        }
        if stop.load(Relaxed) {
            break;
        }
        flight.issue(number, &request, depth)?;
        number += 1;
        progress();
        if number % every == 0 {
            let now = flight.ssd.statistics().counters;
            amplification.push(sample(flight.ssd.now().since(start), &before, &sampled, &now));
            sampled = now;
        }
    }
    while flight.one_more()? {}
    let after = flight.ssd.statistics();
    let busy = after.busy.iter().zip(&busy).map(|(after, before)| after.since(*before)).collect();
    let counters = difference(&after.counters, &before);
    let latency = flight.latency.into_iter().filter(|(_, histogram, _)| !histogram.is_empty()).collect();
    let took = flight.last.since(start);
    Ok((Replayed { latency, took, amplification, counters, busy }, flight.ssd))
}

impl Flight {
    fn new(ssd: Ssd, queues: u16, start: Nanos) -> Self {
        let latency = [Op::Read, Op::Write, Op::Flush, Op::Discard].map(|op| (op, Histogram::new(), 0));
        let (queues, open) = (Queues::new(queues), BTreeMap::new());
        Self { ssd, queues, open, outstanding: 0, start, last: start, latency }
    }

    /// Issues a request at its time, or when fewer than `depth` are outstanding.
    fn issue(&mut self, number: u64, request: &Request, depth: Option<u32>) -> Result<(), Error> {
        let mut at = self.start + Nanos(request.at_ns);
        if let Some(depth) = depth {
            while self.outstanding >= depth.max(1) && self.one_more()? {}
            at = self.last;
        }
        let queue = (number % u64::from(self.queues.count())) as u16;
        let commands: Vec<Command> = commands(request, &self.ssd).collect();
        self.open.insert(number, (request.op, at, commands.len() as u64));
        self.account(request);
        self.outstanding += 1;
        while let Some(done) = self.queues.next_before(&mut self.ssd, at)? {
            self.complete(done.tag, done.at);
        }
        for command in commands {
            // A queue that is full holds the host up.
            while self.queues.waiting() >= QUEUE_ENTRIES * usize::from(self.queues.count()) {
                self.one_more()?;
            }
            while !self.queues.post(queue, number, command, at.max(self.ssd.now())) {
                self.one_more()?;
            }
        }
        Ok(())
    }

    fn account(&mut self, request: &Request) {
        let kind = self.latency.iter_mut().find(|(op, ..)| *op == request.op);
        kind.expect("every kind has its place").2 += request.bytes;
    }

    fn one_more(&mut self) -> Result<bool, Error> {
        let Some(done) = self.queues.next(&mut self.ssd)? else { return Ok(false) };
        self.complete(done.tag, done.at);
        Ok(true)
    }

    fn complete(&mut self, number: u64, at: Nanos) {
        self.last = self.last.max(at);
        let Some((op, issued, left)) = self.open.get_mut(&number) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let (op, issued) = (*op, *issued);
        self.open.remove(&number);
        self.outstanding -= 1;
        let kind = self.latency.iter_mut().find(|(kind, ..)| *kind == op);
        kind.expect("every kind has its place").1.record(at.since(issued).0);
    }
}

fn sample(at: Nanos, before: &Counters, last: &Counters, now: &Counters) -> Sample {
    let step = difference(now, last);
    let amplification =
        if step.host_pages == 0 { 1.0 } else { programmed(&step) as f64 / step.host_pages as f64 };
    Sample { at, host_pages: now.host_pages - before.host_pages, amplification }
}

/// Pages that were programmed.
pub fn programmed(counters: &Counters) -> u64 {
    counters.host_pages + counters.moved_pages + counters.padded_pages
}

fn difference(after: &Counters, before: &Counters) -> Counters {
    Counters {
        host_pages: after.host_pages - before.host_pages,
        moved_pages: after.moved_pages - before.moved_pages,
        padded_pages: after.padded_pages - before.padded_pages,
        collections: after.collections - before.collections,
        hints_followed: after.hints_followed - before.hints_followed,
        hints_refused: after.hints_refused - before.hints_refused,
    }
}
