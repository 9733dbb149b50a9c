//! A block trace on an SSD.
//!
//! The trace is read first to check every line and to learn which pages it touches, so that nothing is reported of a trace that
//! cannot be replayed as a whole; then it is replayed, from memory if it has at most `KEPT` requests, else from a second
//! reading. With [`Devices::Merge`] it is also read before that, to learn how far each device reaches. Requests are issued at
//! their times (open loop), or with a fixed number outstanding (closed loop), where the trace has no times or the user says so. A
//! request that is longer than the device takes at once becomes several commands and is done when the last is.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, Read as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use media::flash::queues::{QUEUE_ENTRIES, Queues};
use media::flash::{Command, Counters, Op as FlashOp, Outcome, PAGE, Ssd};
use results::Histogram;
use sim::Nanos;
use workload::block::trace::{Devices, FORMATS, Format, Reader, TraceError};
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
    /// The columns of its lines, instead of a format.
    pub columns: Option<String>,
    /// Only requests of this device.
    pub only: Option<String>,
    /// What is done with requests of several devices.
    pub devices: Devices,
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
            columns: None,
            only: None,
            devices: Devices::Refuse,
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
    /// Commands of blktrace that were passed through to the device, and are left out.
    pub passed_through: u64,
    /// Whether a trace of blktrace has no issued requests, so that the queued ones are replayed.
    pub queued: bool,
    /// Where the devices of the trace begin ([`Devices::Merge`]).
    pub bases: Vec<u64>,
    /// A bit for each page of the device that is touched.
    touched: Vec<u64>,
    /// The requests, unless they are too many.
    kept: Option<Vec<Kept>>,
}

/// A request in memory.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at_ns: u64,
    offset: u64,
    bytes: u64,
    op: Op,
    fua: bool,
}

/// Requests that are kept in memory (64 MiB); a longer trace is read again.
const KEPT: usize = 2 << 20;

/// What the space of a device in a merged trace is a multiple of, so that its blocks keep their alignment.
const ALIGNMENT: u64 = 1 << 20;

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
    let format = match (&settings.columns, &settings.format) {
        (None, Some(format)) => format.clone(),
        (columns, _) => detect(open()?, columns.as_deref())?,
    };
    let bases = if settings.devices == Devices::Merge {
        bases(reader(open()?, settings, &format, Vec::new(), false), settings, size)?
    } else {
        Vec::new()
    };
    let mut survey = pass(reader(open()?, settings, &format, bases.clone(), false), settings, size)?;
    if survey.requests == 0 && survey.queued {
        survey = pass(reader(open()?, settings, &format, bases, true), settings, size)?;
        survey.queued = true;
    } else {
        survey.queued = false;
    }
    if survey.requests == 0 {
        let what = "the trace holds no request that can be replayed";
        let why = match (survey.bad_lines, survey.beyond, survey.passed_through, &settings.only) {
            (1.., ..) => ": every line was left out as bad (--format or --columns say what a line is)",
            (_, 1.., ..) => ": all are beyond the end of the device",
            (.., 1.., _) => ": it has only commands that were passed through to the device",
            (.., Some(_)) => ": none is of the device that --only names",
            _ => "",
        };
        return Err(Error::Setting(format!("{what}{why}")));
    }
    Ok(survey)
}

/// A reader of the trace.
fn reader<R: BufRead>(
    input: R,
    settings: &Settings,
    format: &Format,
    bases: Vec<u64>,
    queued: bool,
) -> Reader<R> {
    let reader = Reader::new(input, format.clone(), settings.only.clone()).clamping(settings.clamp);
    reader.devices(settings.devices).placed(bases).queued(queued)
}

/// Where each device of a trace begins, if they lie one behind the other.
fn bases<R: BufRead>(mut reader: Reader<R>, settings: &Settings, size: u64) -> Result<Vec<u64>, Error> {
    let mut ends: Vec<u64> = Vec::new();
    while let Some(request) = reader.next() {
        let Some(request) = accept(request, settings, &mut 0)? else { continue };
        let (device, end) = (reader.device(), request.offset + request.bytes);
        if ends.len() <= device {
            ends.resize(device + 1, 0);
        }
        if end <= size || settings.beyond == Bad::Refuse {
            ends[device] = ends[device].max(end);
        }
    }
    let mut next = 0_u64;
    let place = |end: u64| {
        let base = next;
        next = next.saturating_add(end).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
        base
    };
    Ok(ends.into_iter().map(place).collect())
}

/// Reads a trace from its beginning to its end.
fn pass<R: BufRead>(mut reader: Reader<R>, settings: &Settings, size: u64) -> Result<Survey, Error> {
    let mut survey = Survey {
        format: Format::Fio,
        requests: 0,
        bad_lines: 0,
        beyond: 0,
        timed: true,
        span: Nanos::ZERO,
        passed_through: 0,
        queued: false,
        bases: Vec::new(),
        touched: Vec::new(),
        kept: Some(Vec::new()),
    };
    while let Some(request) = reader.next() {
        let Some(request) = accept(request, settings, &mut survey.bad_lines)? else { continue };
        if request.offset + request.bytes > size {
            survey.beyond += 1;
            if settings.beyond == Bad::Refuse {
                return Err(too_far(reader.line(), &request, size));
            }
            continue;
        }
        survey.take(&request);
    }
    survey.timed = reader.has_times();
    (survey.passed_through, survey.queued) = (reader.passed_through(), reader.seen_queued() > 0);
    (survey.format, survey.bases) = reader.into_parts();
    Ok(survey)
}

/// The format of a trace, by its first line.
fn detect<R: BufRead>(mut input: R, columns: Option<&str>) -> Result<Format, Error> {
    let mut line = Vec::new();
    let failed = |error: std::io::Error| Error::Setting(format!("cannot read the trace: {error}"));
    while line.trim_ascii().is_empty() {
        line.clear();
        if input.by_ref().take(1 << 16).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Err(Error::Setting("the trace is empty".to_owned()));
        }
    }
    let text = String::from_utf8_lossy(&line);
    if let Some(columns) = columns {
        return Format::described(columns, &text)
            .map_err(|what| Error::Setting(format!("--columns: {what}")));
    }
    Format::detect(&text).ok_or_else(|| {
        let start: String = text.trim_end().chars().take(60).collect();
        let binary = line.iter().any(|byte| matches!(byte, 0..=8 | 14..=31 | 127..));
        Error::Setting(if binary {
            "line 1: the trace does not begin with a line of text: a trace is text, also packed with gzip, zstd or xz"
                .to_owned()
        } else {
            format!(
                "line 1: the trace begins with \"{}\", which no format has: give --format {}, or say with --columns what \
                 the columns are",
                start.escape_debug(),
                FORMATS.join(", ")
            )
        })
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
    /// Counts a request that is replayed.
    fn take(&mut self, request: &Request) {
        self.requests += 1;
        self.span = Nanos(request.at_ns);
        let Request { at_ns, op, offset, bytes, .. } = *request;
        if matches!(op, Op::Read | Op::Write) {
            self.touch(offset / PAGE, (offset + bytes).div_ceil(PAGE));
        }
        match &mut self.kept {
            Some(kept) if kept.len() < KEPT => kept.push(Kept { at_ns, offset, bytes, op, fua: request.fua }),
            kept => *kept = None,
        }
    }

    /// Adds pages to the touched ones.
    fn touch(&mut self, first: u64, end: u64) {
        let words = end.div_ceil(64) as usize;
        if self.touched.len() < words {
            self.touched.resize(words, 0);
        }
        for page in first..end {
            self.touched[(page / 64) as usize] |= 1 << (page % 64);
        }
    }

    /// Pages that the trace touches.
    pub fn touched_pages(&self) -> u64 {
        self.touched.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The touched pages as ranges, in order.
    fn ranges(&self) -> BTreeMap<u64, u64> {
        let (mut ranges, mut open) = (BTreeMap::new(), None);
        for (at, word) in (0..).zip(&self.touched) {
            match (word, open) {
                (0, None) | (&u64::MAX, Some(_)) => continue,
                _ => {}
            }
            for bit in 0..64 {
                let page = at * 64 + bit;
                match (word >> bit & 1, open) {
                    (1, None) => open = Some(page),
                    (0, Some(first)) => {
                        ranges.insert(first, page);
                        open = None;
                    }
                    _ => {}
                }
            }
        }
        if let Some(first) = open {
            ranges.insert(first, self.touched.len() as u64 * 64);
        }
        ranges
    }
}

/// Writes what the settings ask for; returns when the device is idle again.
pub fn fill(ssd: &mut Ssd, fill: Fill, survey: &Survey) -> Result<Nanos, Error> {
    let size = ssd.size(0)?.0 / PAGE;
    let ranges = match fill {
        Fill::Nothing => return Ok(Nanos::ZERO),
        Fill::Touched => survey.ranges(),
        Fill::All => BTreeMap::from([(0, size)]),
    };
    let step = ssd.config().max_transfer / PAGE;
    let mut now = Nanos::ZERO;
    for (first, end) in ranges {
        for page in (first..end.min(size)).step_by(step as usize) {
            let pages = step.min(end.min(size) - page);
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

/// Requests on their way.
struct Flight {
    ssd: Ssd,
    queues: Queues,
    /// By number, from `first` on: kind, time in the trace, commands that are not done.
    open: VecDeque<(Op, Nanos, u32)>,
    first: u64,
    outstanding: u32,
    start: Nanos,
    last: Nanos,
    latency: [(Op, Histogram, u64); 4],
}

/// Replays a trace that was surveyed; `open` opens it again where it was not kept. `progress` hears of each request; `stop` ends
/// it early.
pub fn replay<R: BufRead>(
    open: impl FnOnce() -> Result<R, Error>,
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
    let mut number = 0;
    let mut issue = |request: &Request| {
        flight.issue(number, request, depth)?;
        number += 1;
        progress();
        if number % every == 0 {
            let now = flight.ssd.statistics().counters;
            amplification.push(sample(flight.ssd.now().since(start), &before, &sampled, &now));
            sampled = now;
        }
        Ok::<_, Error>(!stop.load(Relaxed))
    };
    if let Some(kept) = &survey.kept {
        for kept in kept {
            let Kept { at_ns, offset, bytes, op, fua } = *kept;
            if !issue(&Request { at_ns, fua, ..Request::new(op, offset, bytes) })? {
                break;
            }
        }
    } else {
        let again = reader(open()?, settings, &survey.format, survey.bases.clone(), survey.queued);
        for request in again {
            let Some(request) = accept(request, settings, &mut 0)? else { continue };
            if request.offset + request.bytes <= size && !issue(&request)? {
                break;
            }
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
        let (queues, open) = (Queues::new(queues), VecDeque::new());
        Self { ssd, queues, open, first: 0, outstanding: 0, start, last: start, latency }
    }

    /// Issues a request at its time, or when fewer than `depth` are outstanding.
    fn issue(&mut self, number: u64, request: &Request, depth: Option<u32>) -> Result<(), Error> {
        let mut at = self.start + Nanos(request.at_ns);
        if let Some(depth) = depth {
            while self.outstanding >= depth.max(1) && self.one_more()? {}
            at = self.last;
        }
        let queue = (number % u64::from(self.queues.count())) as u16;
        let commands = commands(request, &self.ssd);
        self.open.push_back((request.op, at, commands.len() as u32));
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
        let Some((op, issued, left)) = self.open.get_mut((number - self.first) as usize) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        let (op, issued) = (*op, *issued);
        self.outstanding -= 1;
        while let Some((.., 0)) = self.open.front() {
            self.open.pop_front();
            self.first += 1;
        }
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
