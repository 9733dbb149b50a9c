//! `weir doctor`: what this host can do, what is missing, and how to get it.

use clap::Args;
use lab::counters::events::Event;
use lab::counters::probe::{self, State};
use lab::environment;
use results::Environment;
use sim::{Bytes, GIB};

use crate::failure::Failure;
use crate::output::{Output, columns};

/// Report what this host supports, what is missing, and how to get it.
#[derive(Args, Debug)]
pub(crate) struct Doctor {}

/// One thing that was looked at.
struct Finding {
    subject: &'static str,
    found: String,
    /// What it disturbs, and what to do; `None`: nothing.
    remedy: Option<&'static str>,
}

impl Doctor {
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)] // every command has this signature
    pub(crate) fn run(&self, output: &Output) -> Result<(), Failure> {
        let findings = findings(&environment::capture());
        if output.is_json() {
            let entry = |finding: &Finding| {
                let Finding { subject, found, remedy } = finding;
                serde_json::json!({ "subject": subject, "found": found, "remedy": remedy })
            };
            let findings: Vec<_> = findings.iter().map(entry).collect();
            output.document(&serde_json::json!({
                "schema": "weir.doctor/1", "findings": findings, "events": events(),
            }));
            return Ok(());
        }
        let warnings = findings.iter().filter(|finding| finding.remedy.is_some()).count();
        let rows = findings.iter().map(|finding| {
            let remedy = finding.remedy.map(|remedy| format!("\n      -> {remedy}")).unwrap_or_default();
            (finding.subject.to_owned(), finding.found.clone() + &remedy)
        });
        output.data(&columns(&rows.collect::<Vec<_>>()));
        output
            .data(&format!("{warnings} warnings; the virtual clock needs nothing of the host but memory\n"));
        Ok(())
    }
}

fn findings(host: &Environment) -> Vec<Finding> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    vec![
        Finding { subject: "processor", found: text(&host.cpu_model), remedy: None },
        cores(host),
        memory(host),
        governor(host),
        turbo(host),
        huge_pages(host),
        Finding { subject: "kernel", found: text(&host.kernel), remedy: None },
        Finding {
            subject: "container",
            found: host.container.clone().unwrap_or("none".into()),
            remedy: None,
        },
        timer(host),
        load(),
        dax(),
        mounting(),
        kernel_locks(),
        counted_events(),
        simulated_events(),
        calibration(),
    ]
}

fn cores(host: &Environment) -> Finding {
    let cores = host.cores.unwrap_or(1);
    let few = "under the real clock, more threads than cores wait for each other: keep --threads below it";
    Finding { subject: "cores", found: cores.to_string(), remedy: (cores < 4).then_some(few) }
}

fn memory(host: &Environment) -> Finding {
    let (total, free) = (Bytes(host.memory_bytes.unwrap_or(0)), Bytes(environment::available_bytes()));
    let small = "the published data sets need 8 GiB free: take --quick, or free some memory";
    let remedy = (free.0 < 8 * GIB).then_some(small);
    Finding { subject: "memory", found: format!("{total}, {free} free"), remedy }
}

fn governor(host: &Environment) -> Finding {
    let found = host.governor.clone().unwrap_or_else(|| "not visible".to_owned());
    let steady = found == "performance" || found == "not visible";
    let slow = "real-clock numbers change with the load; as root: cpupower frequency-set -g performance";
    Finding { subject: "frequency governor", found, remedy: (!steady).then_some(slow) }
}

fn turbo(host: &Environment) -> Finding {
    let found = match host.turbo {
        Some(true) => "on",
        Some(false) => "off",
        None => "not visible",
    };
    let varies =
        "real-clock numbers change with heat; as root: echo 0 > /sys/devices/system/cpu/cpufreq/boost";
    Finding {
        subject: "turbo",
        found: found.to_owned(),
        remedy: (host.turbo == Some(true)).then_some(varies),
    }
}

fn huge_pages(host: &Environment) -> Finding {
    let found = host.huge_pages.clone().unwrap_or_else(|| "not visible".to_owned());
    let never = "large regions are slower to touch; as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    Finding { subject: "huge pages", remedy: (found == "never").then_some(never), found }
}

fn timer(host: &Environment) -> Finding {
    let ns = host.timer_overhead_ns.unwrap_or(0);
    let slow =
        "a slow clock distorts short operations under the real clock; check that the clock source is tsc";
    Finding {
        subject: "clock and histogram",
        found: format!("{ns} ns a record"),
        remedy: (ns > 200).then_some(slow),
    }
}

/// Whether `weir bench --kernel-locks` can tell what tasks wait for.
fn kernel_locks() -> Finding {
    let (sources, missing) = lab::kernel_locks::able();
    let none = "weir bench --kernel-locks cannot name locks here: run it as root, on Linux 5.19 or later";
    let found = match (sources.is_empty(), missing.is_empty()) {
        (true, _) => missing.join("; "),
        (false, true) => sources.join(", "),
        (false, false) => format!("{}; not: {}", sources.join(", "), missing.join("; ")),
    };
    let names = sources.contains(&"lock tracepoints");
    Finding { subject: "waits in the kernel", found, remedy: (!names).then_some(none) }
}

/// Every event of `weir bench --counters real` with its state.
fn events() -> Vec<serde_json::Value> {
    let entry = |(event, state): &(Event, State)| {
        let (name, why) = (event.counter(), state.unusable());
        serde_json::json!({ "event": name, "state": state.word(), "why": why })
    };
    probe::states().iter().map(entry).collect()
}

/// The same in words: what is counted, and what is not by reason.
fn counted_events() -> Finding {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (event, state) in probe::states() {
        let told = state.unusable().map_or_else(|| state.word().to_owned(), str::to_owned);
        match reasons.iter_mut().find(|(known, _)| *known == told) {
            Some((_, names)) => names.push(event.name),
            None => reasons.push((told, vec![event.name])),
        }
    }
    let found: Vec<String> =
        reasons.iter().map(|(told, names)| format!("{}: {told}", names.join(", "))).collect();
    let missing = probe::states().iter().any(|(_, state)| state.unusable().is_some());
    let less = "weir bench --counters real leaves these columns empty; --counters simulated counts misses of a simulated processor";
    Finding { subject: "processor events", found: found.join("\n      "), remedy: missing.then_some(less) }
}

fn simulated_events() -> Finding {
    let (found, remedy) = match lab::counters::simulated::able() {
        Ok(version) => (format!("{version}: caches and TLBs"), None),
        Err(why) => {
            (why.clone(), Some("weir bench --counters simulated needs qemu's user mode (package qemu-user)"))
        }
    };
    Finding { subject: "simulated events", found, remedy }
}

/// What others take of the processors in a fifth of a second.
fn load() -> Finding {
    let watch = lab::watch::Watch::begin();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let record = watch.end();
    let average = format!("load {}.{:02}", record.load_percent / 100, record.load_percent % 100);
    let found =
        if record.noise.is_empty() { average } else { format!("{average}; {}", record.noise.join(", ")) };
    let busy = "times of the real clock cannot be relied on now: stop other work, or use the virtual clock";
    Finding { subject: "load", remedy: (!record.noise.is_empty()).then_some(busy), found }
}

fn dax() -> Finding {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let dax = mounts.lines().filter(|line| line.contains(",dax") || line.contains("dax=always")).count();
    let found =
        if dax == 0 { "no DAX mount: media are emulated".to_owned() } else { format!("{dax} DAX mounts") };
    Finding { subject: "persistent memory", found, remedy: None }
}

fn mounting() -> Finding {
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    let (found, remedy) = match device.map_err(|error| error.kind()) {
        Ok(_) => ("/dev/fuse can be opened", None),
        Err(std::io::ErrorKind::NotFound) => {
            let missing = "`weir mount` needs the module (modprobe fuse), or a container that has the device";
            ("no /dev/fuse", Some(missing))
        }
        Err(_) => {
            let closed = "`weir mount` is for root, and for users who may open it and have fusermount3 (package fuse3)";
            ("/dev/fuse cannot be opened", Some(closed))
        }
    };
    Finding { subject: "mounting", found: found.to_owned(), remedy }
}

fn calibration() -> Finding {
    let preset = lab::MachinePreset::load(lab::machine::THIS_HOST).ok();
    let here = environment::capture().cpu_model.unwrap_or_default();
    let (found, remedy) = match preset {
        None => ("not measured", Some("run `weir calibrate` before --machine this-host or --clock both")),
        Some(preset) if !preset.summary.contains(&here) => {
            ("measured on another processor", Some("run `weir calibrate` again on this host"))
        }
        Some(preset) if preset.summary.contains(lab::calibrate::BUSY) => {
            ("measured while the host was busy", Some("run `weir calibrate` again when it is quiet"))
        }
        Some(preset) if preset.summary.contains(lab::calibrate::UNSTEADY) => {
            let remedy =
                "run `weir calibrate` again when the host is quiet; `weir show this-host` marks the values";
            ("measured, with values whose repeats differ", Some(remedy))
        }
        Some(_) => ("measured", None),
    };
    Finding { subject: "machine this-host", found: found.to_owned(), remedy }
}
