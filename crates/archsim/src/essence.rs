//! What a run depends on. Two runs of one essence have one outcome, so that it is enough to run one of them.

use crate::error::Error;
use crate::run::{Config, UNSAFE_BASE};
use crate::scheme::{self, Scheme};

/// Whether a run depends on a key at all.
fn reads(key: &str, scheme: &Scheme, workload: &str) -> bool {
    let ordered = scheme.hardware.is_some_and(|hardware| hardware.ordered);
    let scans = scheme.hardware.is_some_and(|hardware| hardware.fwb);
    match key {
        "log_buffer" | "log_enqueue" | "log_priority" | "log_order" => scheme.hardware.is_some(),
        "log_bound" | "commit" | "fwb_stall" => ordered,
        "log_grow" => ordered || scheme.software.is_some(),
        "fwb_period" | "fwb_trigger" | "fwb_start" | "fwb_queue" | "fwb_propagate" | "fwb_lag" => scans,
        "sw_fence" => scheme.software.is_some_and(|software| software.undo),
        // The program's loop of write-backs at commit is scaled, too.
        "sw_cost" => scheme.software.is_some() || scheme.hardware.is_some_and(|hardware| hardware.clwb),
        "sw_log" | "sw_record" | "wc_lines" | "wc_idle" => scheme.software.is_some(),
        "log_grain" | "log_coalesce" => scheme.software.is_some() || scheme.hardware.is_some(),
        "gets" => workload.ends_with("-like"),
        "value" => workload.ends_with("-like") || workload.ends_with("-str"),
        _ => true,
    }
}

impl Config {
    /// What the run depends on, as text.
    ///
    /// # Errors
    /// [`Error`] for a scheme that is not there.
    pub fn essence(&self) -> Result<String, Error> {
        let Self { machine, scheme, workload, threads, seed, ops, trace } = self;
        // Both unsafe ones read the same keys.
        let name = if scheme == UNSAFE_BASE { "unsafe-undo" } else { scheme };
        let known = scheme::by_name(name)?;
        let entries = machine.entries().into_iter().filter(|(key, _)| reads(key, known, workload));
        let keys: Vec<String> = entries.map(|(_, value)| value).collect();
        let trace = trace.as_ref().map(|trace| trace.hash());
        Ok(format!("{scheme} {workload} {threads} {seed} {ops} {trace:?} {}", keys.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::run::run;
    use crate::scheme::by_name;

    /// Another legal value of each key that some run does not read.
    const OTHERS: [(&str, &str); 21] = [
        ("log_buffer", "64"),
        ("log_enqueue", "11"),
        ("log_bound", "timing"),
        ("log_order", "banked"),
        ("log_priority", "all"),
        ("commit", "async"),
        ("fwb_stall", "80%"),
        ("fwb_period", "5000"),
        ("fwb_trigger", "timer"),
        ("fwb_start", "30%"),
        ("fwb_queue", "watermark"),
        ("log_grow", "no"),
        ("fwb_propagate", "no"),
        ("fwb_lag", "2"),
        ("sw_fence", "once"),
        ("sw_log", "thread"),
        ("sw_cost", "200%"),
        ("sw_record", "padded"),
        ("wc_lines", "1"),
        ("gets", "5%"),
        ("value", "64B"),
    ];

    #[test]
    fn what_is_not_read_changes_nothing() {
        let mut base = Machine::load("hpca18").unwrap();
        for (key, value) in [("footprint", "256KiB"), ("l2_size", "128KiB"), ("log_size", "32KiB")] {
            base.set(key, value).unwrap();
        }
        base.warmup = 20;
        for scheme in ["non-pers", "undo-clwb", "redo-clwb", "hw-rlog", "hwl", "fwb"] {
            let config = |machine: &Machine| Config {
                machine: machine.clone(),
                scheme: scheme.to_owned(),
                workload: "hash".to_owned(),
                threads: 2,
                seed: 1,
                ops: 300,
                trace: None,
            };
            let plain = run(&config(&base)).unwrap();
            for (key, value) in OTHERS {
                if reads(key, by_name(scheme).unwrap(), "hash") {
                    continue;
                }
                let mut machine = base.clone();
                machine.set(key, value).unwrap();
                let mut other = run(&config(&machine)).unwrap();
                other.config_hash = plain.config_hash;
                assert_eq!(other, plain, "{scheme} does not read {key}");
            }
        }
    }
}
