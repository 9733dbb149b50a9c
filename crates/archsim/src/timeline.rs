//! A timeline: what one transaction of one thread made each part of the machine do, and when.
//!
//! | lane | a span is |
//! |---|---|
//! | core | an operation of the store buffer, from its first try to its end; the wait of a commit for its acknowledgement |
//! | log entry | a record on its way into the log |
//! | buffer | a line in the log buffer (hardware) or in the write-combining buffer (software) |
//! | queue | a request in the controller, until a bank takes it |
//! | bank n | the bank at work for a line |

use crate::engine::{Engine, Flaws};
use crate::error::Error;
use crate::machine::Ps;
use crate::memory::bank::Place;
use crate::op::Kind;
use crate::run::{Config, Outcome, ProgramFeed};
use results::{Sample, SpanRecord};

/// Where something happens, in the order of a store's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// A hardware thread.
    Core,
    /// A record of the log.
    Entry,
    /// The log buffer, or a write-combining buffer.
    Buffer,
    /// The controller's queues.
    Queue,
    /// A bank of NVRAM.
    Bank(usize),
}

impl Lane {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Core => "core".to_owned(),
            Self::Entry => "log entry".to_owned(),
            Self::Buffer => "buffer".to_owned(),
            Self::Queue => "queue".to_owned(),
            Self::Bank(bank) => format!("bank {bank}"),
        }
    }
}

/// Something that took time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where.
    pub lane: Lane,
    /// What: a kind of operation, or the cause of a request.
    pub what: &'static str,
    /// Byte address of the line; 0 where there is none.
    pub addr: u64,
    /// When it began.
    pub start: Ps,
    /// When it ended.
    pub end: Ps,
}

impl Span {
    /// Few words for many: what has one colour in a chart.
    pub fn kind(&self) -> &'static str {
        match self.what {
            "store" => "store",
            "clwb" | "eviction" | "fwb" => "write-back",
            "fence" | "waits for the log" => "wait",
            "begin" | "commit" => "begin and commit",
            "fetch" => "fetch",
            _ => "log",
        }
    }

    /// As a record, with times from `start`.
    pub fn record(&self, start: Ps) -> SpanRecord {
        let place = if self.addr == 0 { String::new() } else { format!(" {:#x}", self.addr) };
        SpanRecord {
            lane: self.lane.name(),
            kind: self.kind().to_owned(),
            what: format!("{}{place}", self.what),
            start_ps: self.start - start,
            end_ps: self.end - start,
        }
    }
}

/// One transaction of a single thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Acknowledgement of the transaction before.
    pub start: Ps,
    /// Its own.
    pub end: Ps,
    /// By lane, and then by time.
    pub spans: Vec<Span>,
}

impl Timeline {
    /// As a record of the project.
    pub fn sample(&self, config: &Config) -> Sample {
        let mut sample =
            Outcome { transactions: 1, time: self.end - self.start, ..Outcome::default() }.sample(config);
        sample.axes.insert("threads".to_owned(), "1".to_owned());
        sample.spans = self.spans.iter().map(|span| span.record(self.start)).collect();
        sample
    }
}

/// What an operation of the store buffer is called in a timeline.
pub(crate) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::NtStore => "log store",
        Kind::TakeSpace => "log space",
        Kind::Release => "log release",
        Kind::Truncate => "log head",
        Kind::Clwb => "clwb",
        Kind::Fence => "fence",
        Kind::Begin => "begin",
        Kind::Commit => "commit",
        _ => "store",
    }
}

/// What happens between the acknowledgement of transaction `number` - 1 and that of transaction `number`, of one thread.
///
/// # Errors
/// As [`crate::run()`].
pub fn timeline(config: &Config, number: u64) -> Result<Timeline, Error> {
    let config = Config { threads: 1, ..config.clone() };
    let scheme = config.check()?;
    let feed = ProgramFeed::new(&config, scheme, u64::MAX, false)?;
    let mut engine = Engine::new(&config.machine, scheme, 1, Flaws::default(), feed);
    engine.run(number)?;
    let start = engine.acknowledged.1;
    engine.watch();
    engine.run(number + 1)?;
    let end = engine.acknowledged.1;
    engine.quiesce();
    let mut spans = engine.spans.take().unwrap_or_default();
    for command in engine.controller.commands.take().unwrap_or_default() {
        let bank = Place::of(command.line, &config.machine).bank;
        let (what, addr) = (command.cause.name(), command.line * crate::machine::LINE);
        spans.push(Span { lane: Lane::Queue, what, addr, start: command.arrive, end: command.start });
        spans.push(Span { lane: Lane::Bank(bank), what, addr, start: command.start, end: command.finish });
    }
    if let Some(commit) = spans.iter().find(|span| span.what == "commit").copied() {
        spans.push(Span { what: "waits for the log", start: commit.end, end, ..commit });
    }
    spans.retain(|span| span.start < end && span.end > start && span.start >= start);
    spans.sort_by_key(|span| (span.lane, span.start, span.end));
    Ok(Timeline { start, end, spans })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(scheme: &str) -> Timeline {
        let mut config = Config { scheme: scheme.into(), workload: "sps".into(), ..Config::default() };
        config.machine.set("footprint", "64KiB").unwrap();
        timeline(&config, 20).unwrap()
    }

    #[test]
    fn a_record_passes_buffer_queue_and_bank_in_that_order() {
        let timeline = of("fwb");
        let first = |lane: Lane| {
            let log = |span: &&Span| span.lane == lane && (span.what == "log" || lane < Lane::Queue);
            timeline.spans.iter().filter(log).map(|span| span.start).min().expect("there is one")
        };
        let bank =
            timeline.spans.iter().filter(|span| matches!(span.lane, Lane::Bank(_)) && span.what == "log");
        let bank = bank.map(|span| span.start).min().unwrap();
        assert!(first(Lane::Core) <= first(Lane::Entry));
        assert!(first(Lane::Entry) <= first(Lane::Buffer) && first(Lane::Buffer) <= first(Lane::Queue));
        assert!(first(Lane::Queue) <= bank && bank < timeline.end);
        assert!(
            timeline.spans.iter().any(|span| span.what == "waits for the log" && span.end == timeline.end)
        );
        assert!(timeline.spans.iter().all(|span| span.start <= span.end));
    }

    #[test]
    fn software_logging_shows_its_fences_and_combined_lines() {
        let timeline = of("undo-clwb");
        let has =
            |lane: Lane, what: &str| timeline.spans.iter().any(|span| span.lane == lane && span.what == what);
        for what in ["log store", "store", "clwb", "fence"] {
            assert!(has(Lane::Core, what), "{what}");
        }
        assert!(has(Lane::Buffer, "combining"));
        assert!(of("non-pers").spans.iter().all(|span| span.lane != Lane::Buffer));
    }
}
