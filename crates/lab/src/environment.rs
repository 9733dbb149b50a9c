//! What the host is, as far as a number may depend on it. No host name, no user, no path.

use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use results::{Environment, Histogram};

/// Captures the facts of this host.
pub fn capture() -> Environment {
    let system = rustix::system::uname();
    Environment {
        weir_version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("WEIR_COMMIT").map(str::to_owned),
        compiler: Some(env!("WEIR_COMPILER").to_owned()),
        profile: Some(env!("WEIR_PROFILE").to_owned()),
        cpu_model: cpu_model(),
        architecture: Some(std::env::consts::ARCH.to_owned()),
        cores: Some(cores() as u64),
        numa_nodes: numa_nodes(),
        memory_bytes: Some(memory_bytes()).filter(|bytes| *bytes > 0),
        kernel: Some(format!(
            "{} {}",
            system.sysname().to_string_lossy(),
            system.release().to_string_lossy()
        )),
        governor: first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        turbo: turbo(),
        huge_pages: first_line("/sys/kernel/mm/transparent_hugepage/enabled").map(|line| chosen(&line)),
        mitigations: mitigations(),
        container: container(),
        started_utc: Some(utc(seconds_since_1970())),
        load_percent: load_percent(),
        timer_overhead_ns: Some(timer_overhead_ns()),
    }
}

/// What tells this build of the program from another: a hash of its file (FNV-1a), since two builds may state one commit.
pub fn build() -> Option<String> {
    let bytes = fs::read(std::env::current_exe().ok()?).ok()?;
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Some(format!("{hash:016x}"))
}

/// What tells this host from others; it is hashed before it leaves the host.
pub(crate) fn machine_id() -> String {
    first_line("/etc/machine-id").unwrap_or_else(|| {
        let system = rustix::system::uname();
        system.nodename().to_string_lossy().into_owned()
    })
}

/// Load average of one minute, in hundredths of a process.
pub fn load_percent() -> Option<u64> {
    let line = first_line("/proc/loadavg")?;
    let load: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some((load * 100.0).round() as u64)
}

/// Seconds since 1970.
pub fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time in seconds since 1970 as date and time in UTC: `2026-01-31 14:05`.
pub fn utc(seconds: u64) -> String {
    let Ok(at) = time::OffsetDateTime::from_unix_timestamp(seconds.cast_signed()) else {
        return format!("{seconds} s since 1970");
    };
    let (date, hour, minute) = (at.date(), at.hour(), at.minute());
    format!("{:04}-{:02}-{:02} {hour:02}:{minute:02}", date.year(), u8::from(date.month()), date.day())
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Main memory, or the limit of the container where that is less. 0: unknown.
pub fn memory_bytes() -> u64 {
    let total = meminfo("MemTotal:").unwrap_or(0);
    let limit = first_line("/sys/fs/cgroup/memory.max").and_then(|line| line.parse().ok());
    limit.map_or(total, |limit: u64| limit.min(total))
}

/// Memory that can be had now without swapping. 0: unknown.
pub fn available_bytes() -> u64 {
    meminfo("MemAvailable:").unwrap_or(0)
}

fn meminfo(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}

fn numa_nodes() -> Option<u64> {
    let nodes = fs::read_dir("/sys/devices/system/node").ok()?.flatten();
    let names = nodes.map(|node| node.file_name().to_string_lossy().into_owned());
    let numbered = |name: &String| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
    Some(names.filter(numbered).count() as u64).filter(|count| *count > 0)
}

fn turbo() -> Option<bool> {
    if let Some(boost) = first_line("/sys/devices/system/cpu/cpufreq/boost") {
        return Some(boost == "1");
    }
    first_line("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == "0")
}

/// `always [madvise] never` is "madvise".
fn chosen(line: &str) -> String {
    let inside = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(line, |(word, _)| word).to_owned()
}

/// The vulnerabilities that a mitigation is in force for, by name.
fn mitigations() -> Option<String> {
    let entries = fs::read_dir("/sys/devices/system/cpu/vulnerabilities").ok()?.flatten();
    let active = entries
        .filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| text.starts_with("Mitigation")));
    let mut names: Vec<_> = active.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Some(if names.is_empty() { "none".to_owned() } else { names.join(" ") })
}

fn container() -> Option<String> {
    let marks = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    if let Some((_, kind)) = marks.iter().find(|(path, _)| Path::new(path).exists()) {
        return Some((*kind).to_owned());
    }
    let flags = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = flags.lines().find(|line| line.starts_with("flags"))?;
    flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| "virtual machine".to_owned())
}

/// One reading of the clock and one record in a histogram, the median of many batches.
pub fn timer_overhead_ns() -> u64 {
    const BATCH: u32 = 1_000;
    let mut histogram = Histogram::for_an_hour();
    let mut batches: Vec<u64> = (0..21)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..BATCH {
                histogram.record(start.elapsed().as_nanos() as u64);
            }
            start.elapsed().as_nanos() as u64 / u64::from(BATCH)
        })
        .collect();
    batches.sort_unstable();
    batches[batches.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_this_host_are_found_and_tell_nobody_who_it_is() {
        let facts = capture();
        assert!(facts.cores.is_some_and(|cores| cores > 0));
        assert!(facts.memory_bytes.is_some());
        let text = format!("{facts:?}");
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(name.is_empty() || name == "localhost" || !text.contains(&name), "{text}");
    }

    #[test]
    fn times_are_dates_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00");
        assert_eq!(utc(20_454 * 86_400 + 50_700), "2026-01-01 14:05");
        assert_eq!(utc(11_016 * 86_400), "2000-02-29 00:00");
    }

    #[test]
    fn the_chosen_word_of_a_kernel_setting_is_the_one_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("never"), "never");
    }
}
