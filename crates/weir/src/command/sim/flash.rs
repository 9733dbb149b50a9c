//! `weir sim flash`: block traces on the SSD model.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lab::Error;
use lab::flash::replay::{self, Bad, Fill, Replayed, Settings, Survey};
use media::flash::{Data, Ssd, SsdModel};
use report::table::Table;
use report::units::Unit;
use serde_json::{Value, json};
use sim::Nanos;
use workload::block::Op;
use workload::block::trace::{Devices, FORMATS, Format, packed};

use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Counter;

/// Replay a block trace on a simulated SSD.
#[derive(Args, Debug)]
#[command(after_help = "Examples: weir sim flash trace.csv --device fast24,allocation=on · \
                  weir sim flash x.csv.zst --columns time:us,device,op,offset:512,size:512 --devices merge")]
pub(crate) struct Flash {
    /// A trace, also packed with gzip, zstd or xz: iolog of fio, text of blkparse, MSR Cambridge, MQSim, Alibaba, Tencent, SPC
    /// (UMass), FIU, SYSTOR '17, or any lines of columns (--columns)
    #[arg(required_unless_present_any = ["experiment", "claims"], value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// The SSD (`weir list media`), with parameters
    #[arg(long, default_value = "fast24", value_name = "NAME[,KEY=VALUE]")]
    device: String,
    /// Format of the trace [default: recognised by its first line]
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(FORMATS), hide_possible_values = true)]
    #[arg(value_name = "fio|blktrace|msr|mqsim|alibaba|tencent|spc|fiu|systor17")]
    format: Option<String>,
    /// The columns of its lines instead, in their order: `time[:ns|100ns|us|ms|s]`, `op[:READ/WRITE]`,
    /// `offset[:BYTES]`, `size[:BYTES]` (bytes of a unit), device, or - for one that does not matter; separated by commas,
    /// semicolons, tabs or spaces
    #[arg(long, value_name = "COLUMN,COLUMN...", conflicts_with = "format")]
    columns: Option<String>,
    /// Replay only the requests to this device of the trace
    #[arg(long, value_name = "DEVICE")]
    only: Option<String>,
    /// On requests to several devices: refuse the trace, merge (each device has space of its own on the SSD, one behind the
    /// other), or overlay (they share addresses)
    #[arg(long, value_enum, default_value_t = Several::Refuse, hide_possible_values = true)]
    #[arg(value_name = "refuse|merge|overlay", conflicts_with = "only")]
    devices: Several,
    /// On lines that cannot be parsed: refuse the trace, or skip them
    #[arg(long, value_enum, default_value_t = Choice::Refuse, hide_possible_values = true, value_name = "refuse|skip")]
    bad_lines: Choice,
    /// On requests beyond the end of the device: refuse the trace, or skip them
    #[arg(long, value_enum, default_value_t = Choice::Refuse, hide_possible_values = true, value_name = "refuse|skip")]
    beyond: Choice,
    /// On a time earlier than that of the line before: refuse the trace, or use that line's time
    #[arg(long, value_enum, default_value_t = Backwards::Refuse, hide_possible_values = true, value_name = "refuse|clamp")]
    backwards: Backwards,
    /// Pages written before the replay: none, those that the trace touches, or all
    #[arg(long, value_enum, default_value_t = Before::Touched, hide_possible_values = true, value_name = "none|touched|all")]
    fill: Before,
    /// Ignore the times of the trace, and keep this many requests outstanding
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    depth: Option<u32>,
    /// Number of submission queues, used in turn
    #[arg(long, default_value_t = 1, value_name = "N", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=72))]
    queues: u16,
    /// Went to plans.
    #[arg(long, hide = true)]
    experiment: Option<String>,
    /// Went to plans.
    #[arg(long, hide = true)]
    claims: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Several {
    Refuse,
    Merge,
    Overlay,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Choice {
    Refuse,
    Skip,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Backwards {
    Refuse,
    Clamp,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Before {
    None,
    Touched,
    All,
}

impl From<Choice> for Bad {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Refuse => Self::Refuse,
            Choice::Skip => Self::Skip,
        }
    }
}

impl Flash {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        if self.experiment.is_some() || self.claims {
            return Err(Failure::usage(
                "experiments on a device alone are plans now: `weir run fragmentation-device`, or \
                 fs = [\"ssd\"] with a workload requests/NAME (`weir list workloads`) in a plan of your own",
            ));
        }
        let model = SsdModel::parse(&self.device)?;
        model.config().map_err(Error::from)?;
        match &self.trace {
            Some(path) => self.replay(path, &model, output),
            None => Err(Failure::usage("give a trace")),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            format: self.format.as_deref().and_then(Format::of),
            columns: self.columns.clone(),
            only: self.only.clone(),
            devices: match self.devices {
                Several::Refuse => Devices::Refuse,
                Several::Merge => Devices::Merge,
                Several::Overlay => Devices::Overlay,
            },
            bad: self.bad_lines.into(),
            beyond: self.beyond.into(),
            clamp: matches!(self.backwards, Backwards::Clamp),
            fill: match self.fill {
                Before::None => Fill::Nothing,
                Before::Touched => Fill::Touched,
                Before::All => Fill::All,
            },
            depth: self.depth,
            queues: self.queues,
        }
    }

    fn replay(&self, path: &Path, model: &SsdModel, output: &Output) -> Result<(), Failure> {
        let config = model.config().map_err(Error::from)?;
        let mut ssd = Ssd::new(&config, Data::Drop).map_err(Error::from)?;
        let settings = self.settings();
        let size = ssd.size(0).map_err(Error::from)?.0;
        let regular = std::fs::metadata(path).is_ok_and(|data| data.is_file());
        if path.exists() && !regular {
            return Err(Failure::usage(format!(
                "{} is not a regular file, which a trace must be because it is read twice",
                path.display()
            )));
        }
        let survey = replay::survey(|| open(path), &settings, size).map_err(|error| placed(path, &error))?;
        let start = replay::fill(&mut ssd, settings.fill, &survey)?;
        let counter = Counter::new(output, "replay", survey.requests);
        let stop = interrupt::flag();
        let done =
            replay::replay(|| open(path), &settings, &survey, ssd, start, || counter.one_more(), &stop);
        drop(counter);
        let (replayed, ssd) = done.map_err(|error| placed(path, &error))?;
        if interrupt::happened() {
            return Err(Failure::new(Exit::Interrupted, "interrupted; a partial replay gives no result"));
        }
        let shown = Shown { path, model, survey: &survey, replayed: &replayed, ssd: &ssd };
        if output.is_json() {
            output.document(&shown.document());
        } else {
            output.data(&shown.text());
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    let opened = File::open(path).and_then(packed::open);
    opened.map_err(|source| Error::Io { action: "open", path: path.to_owned(), source })
}

/// A message about a trace names it.
fn placed(path: &Path, error: &Error) -> Failure {
    match error {
        Error::Setting(what) => Failure::usage(format!("{}: {what}", path.display())),
        error => Failure::new(Exit::Run, error.to_string()),
    }
}

/// What is printed of a replay.
struct Shown<'a> {
    path: &'a Path,
    model: &'a SsdModel,
    survey: &'a Survey,
    replayed: &'a Replayed,
    ssd: &'a Ssd,
}

impl Shown<'_> {
    fn amplification(&self) -> f64 {
        let counters = &self.replayed.counters;
        let host = counters.host_pages;
        if host == 0 { 1.0 } else { replay::programmed(counters) as f64 / host as f64 }
    }

    fn geometry(&self) -> Option<String> {
        self.model.config().ok()?.geometry()
    }

    fn utilisation(&self) -> Vec<f64> {
        let took = self.replayed.took.0.max(1) as f64;
        self.replayed.busy.iter().map(|busy| busy.0 as f64 / took).collect()
    }

    fn document(&self) -> Value {
        let Self { survey, replayed, .. } = self;
        let erases = self.ssd.statistics().erases;
        let counters = &replayed.counters;
        let latency = |(op, histogram, bytes): &(Op, results::Histogram, u64)| {
            let summary = histogram.summary();
            json!({ "op": word(*op), "bytes": bytes, "latency": summary })
        };
        let sample = |sample: &replay::Sample| {
            let replay::Sample { at, host_pages, amplification } = *sample;
            json!({ "at_ns": at.0, "host_pages": host_pages, "write_amplification": amplification })
        };
        json!({
            "schema": "weir.sim.flash/1",
            "trace": self.path.file_name().map(|name| name.to_string_lossy()),
            "format": survey.format.word(),
            "device": self.model.to_string(),
            "geometry": self.geometry(),
            "requests": survey.requests,
            "bad_lines_skipped": survey.bad_lines,
            "beyond_skipped": survey.beyond,
            "passed_through_skipped": survey.passed_through,
            "queued": survey.queued,
            "devices": survey.bases.len().max(1),
            "touched_pages": survey.touched_pages(),
            "trace_span_ns": survey.span.0,
            "took_ns": replayed.took.0,
            "operations": replayed.latency.iter().map(latency).collect::<Vec<_>>(),
            "die_utilisation": self.utilisation(),
            "write_amplification": self.amplification(),
            "write_amplification_over_time": replayed.amplification.iter().map(sample).collect::<Vec<_>>(),
            "host_pages": counters.host_pages,
            "moved_pages": counters.moved_pages,
            "padded_pages": counters.padded_pages,
            "collections": counters.collections,
            "erases": { "least": erases.0, "most": erases.1, "all": erases.2 },
        })
    }

    fn text(&self) -> String {
        let Self { survey, replayed, .. } = self;
        let name = self.path.display();
        let mut table = Table::new(format!("{name} ({}) on {}", survey.format.word(), self.model.name()));
        table.words("operation");
        for column in ["requests", "bytes", "mean", "p50", "p90", "p99", "p99.9", "max"] {
            table.numbers(column);
        }
        let time = |ns: u64| Nanos(ns).to_string();
        for (op, histogram, bytes) in &replayed.latency {
            let s = histogram.summary();
            let times = [s.mean_ns as u64, s.p50_ns, s.p90_ns, s.p99_ns, s.p99_9_ns, s.max_ns].map(time);
            let head = [word(*op).to_owned(), s.count.to_string(), Unit::Bytes.human(*bytes as f64)];
            table.rows.push([head.to_vec(), times.to_vec()].concat());
        }
        let mut text = table.to_text();
        let counters = &replayed.counters;
        let left_out =
            format!("{} bad lines and {} beyond the device left out", survey.bad_lines, survey.beyond);
        let _ = writeln!(text, "\n  took {} for {} of trace; {left_out}", replayed.took, survey.span);
        if let Some(geometry) = self.geometry() {
            let _ = writeln!(text, "  {geometry}");
        }
        if survey.passed_through > 0 {
            let _ =
                writeln!(text, "  {} commands passed through to the device left out", survey.passed_through);
        }
        if survey.queued {
            let why = "the trace has no issued requests (D), as those of device mappers have none";
            let _ = writeln!(text, "  replayed as they were queued (Q): {why}");
        }
        if survey.bases.len() > 1 {
            let _ = writeln!(text, "  {} devices, one behind the other on the SSD", survey.bases.len());
        }
        let (moved, lines) = (counters.moved_pages, counters.collections);
        let factor = self.amplification();
        let _ = writeln!(text, "  write amplification {factor:.3}: {moved} pages moved out of {lines} lines");
        let steps = replayed.amplification.iter().step_by(replay_step(replayed.amplification.len()));
        let steps: Vec<String> = steps.map(|step| format!("{:.2}", step.amplification)).collect();
        let _ = writeln!(text, "  as the trace went on: {}", steps.join(" "));
        let dies: Vec<String> =
            self.utilisation().iter().map(|share| format!("{:.1} %", share * 100.0)).collect();
        let _ = writeln!(text, "  dies busy: {}", dies.join(" "));
        text
    }
}

/// A line shows about ten samples.
fn replay_step(count: usize) -> usize {
    count.div_ceil(10).max(1)
}

fn word(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Discard => "discard",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_can_be_asked_for() {
        for word in FORMATS {
            assert_eq!(Format::of(word).map(|format| format.word()), Some(word));
        }
    }
}
