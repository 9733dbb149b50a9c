//! What a mount has done since it was mounted, in the text format of Prometheus (version 0.0.4): `weir report DIR -o weir.prom` in
//! the folder of node_exporter's textfile collector. Weir has no server of its own.
//!
//! | metric | labels beside the axes | is |
//! |---|---|---|
//! | `weir_mount_age_seconds` | – | time since it was mounted |
//! | `weir_operations_total`, `weir_operation_errors_total` | `operation` | calls, and those that failed |
//! | `weir_operation_bytes_total` | `operation` | bytes that they read or wrote |
//! | `weir_operation_seconds_total` | `operation`, `activity` | their time, by what it went to; of waiting for locks also `lock` |
//! | `weir_COUNTER_total` | `part` | a counter of the design, its parts without their sum |
//!
//! Every value has the labels `mount`, `clock` and the axes (`fs`, `medium`). Times are seconds. A mount that is made anew begins
//! at 0, which Prometheus takes for a reset of the counter, as it is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use results::{Clock, OperationRecord, ResultFile, Sample};

use super::{Format, RenderError};
use crate::{Report, grains};

pub(super) struct Prometheus;

impl Format for Prometheus {
    fn name(&self) -> &'static str {
        "prometheus"
    }

    fn extension(&self) -> &'static str {
        "prom"
    }

    fn summary(&self) -> &'static str {
        "what a mount has done since it was mounted, for node_exporter's textfile collector"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        let mut families = Families::default();
        for result in report.sections.iter().map(|section| &section.results) {
            let mount = result.plan["mount"].as_str().filter(|_| result.name == "mount").ok_or_else(|| {
                RenderError::Nothing(format!(
                    "{} is no mount, and Prometheus keeps what a mount counts: give the directory of one, as in \
                     `weir report /mnt/x -o weir.prom`",
                    result.name
                ))
            })?;
            for sample in &result.samples {
                families.add(&labels(mount, result, sample), sample);
            }
        }
        Ok(families.text().into_bytes())
    }
}

/// A metric: its type, what it is, and its values by their labels.
struct Family {
    kind: &'static str,
    help: String,
    values: Vec<(String, String)>,
}

#[derive(Default)]
struct Families(BTreeMap<String, Family>);

type Labels = Vec<(String, String)>;

fn labels(mount: &str, result: &ResultFile, sample: &Sample) -> Labels {
    let clock = match result.clock {
        Clock::Virtual => "virtual",
        Clock::Real => "real",
    };
    let own = [("mount", mount), ("clock", clock)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let axes = sample.axes.iter().map(|(name, value)| (legal(name), value.clone()));
    own.into_iter().chain(axes).collect()
}

impl Families {
    fn put(&mut self, name: &str, help: &str, labels: &Labels, more: &[(&str, &str)], value: String) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let new = || Family { kind, help: help.to_owned(), values: Vec::new() };
        let family = self.0.entry(name.to_owned()).or_insert_with(new);
        let own = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = own.chain(more.iter().copied()).filter(|(_, value)| !value.is_empty());
        let all: Vec<String> = all.map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
        family.values.push((all.join(","), value));
    }

    fn add(&mut self, labels: &Labels, sample: &Sample) {
        let age = seconds(sample.elapsed_ns);
        self.put("weir_mount_age_seconds", "Time since it was mounted.", labels, &[], age);
        for call in &sample.operations {
            self.add_call(labels, call);
        }
        for (counter, part, value) in grains::finest(&sample.counters) {
            let (stem, value) = match counter.strip_suffix("_ns") {
                Some(stem) => (format!("{stem}_seconds"), seconds(value)),
                None => (counter.to_owned(), value.to_string()),
            };
            let name = format!("weir_{}_total", legal(&stem));
            let help = format!("{counter}, as `weir list counts` and `weir explain` name it.");
            self.put(&name, &help, labels, &[("part", part)], value);
        }
    }

    fn add_call(&mut self, labels: &Labels, call: &OperationRecord) {
        let of = [("operation", call.kind.as_str())];
        let counts = [
            ("weir_operations_total", "Calls that the server answered.", call.count),
            ("weir_operation_errors_total", "Calls that failed.", call.errors),
            ("weir_operation_bytes_total", "Bytes that calls read or wrote.", call.bytes),
        ];
        for (name, help, count) in counts {
            self.put(name, help, labels, &of, count.to_string());
        }
        let (name, help) = ("weir_operation_seconds_total", "Time of calls, by what it went to.");
        let mut put = |activity: &str, lock: &str, ns: u64| {
            let more = [of[0], ("activity", activity), ("lock", lock)];
            self.put(name, help, labels, &more, seconds(ns));
        };
        let locks: u64 = call.lock_wait_ns.values().sum();
        for (activity, ns) in &call.time_ns {
            match activity.as_str() {
                // What was waited for locks without a name stands without one.
                "lock_wait" if locks <= *ns => put(activity, "", ns - locks),
                _ => put(activity, "", *ns),
            }
        }
        if call.time_ns.get("lock_wait").is_some_and(|ns| locks <= *ns) {
            call.lock_wait_ns.iter().for_each(|(lock, ns)| put("lock_wait", lock, *ns));
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, Family { kind, help, values }) in &self.0 {
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "{name}{{{labels}}} {value}");
            }
        }
        text
    }
}

/// Whole seconds and nine digits: no rounding.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// A name of a metric or label.
fn legal(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

/// The value of a label between its quotes.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
