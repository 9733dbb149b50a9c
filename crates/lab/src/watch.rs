//! What the host does while a cell runs under the real clock: how much processor time this process got, how much others took, how
//! much the host of a virtual machine withheld, and whether a core became slower or faster meanwhile.
//!
//! How fast a core is, a loop of fixed work tells, before the cell and after it: the frequencies that the host reports are those of
//! idle cores as well, which are low and mean nothing. They are recorded and not judged.
//!
//! Times of processors come from `/proc/stat` (proc(5)), in ticks of 10 ms: a cell shorter than a few ticks is never called noisy
//! for them. In a container they are the whole host's, which is what matters here.

use std::fs;
use std::time::Instant;

use results::HostRecord;
use rustix::time::{ClockId, clock_gettime};

use crate::environment;

/// Others may take so much of all processor time before a cell counts as disturbed. Our choice: it lies well above what the
/// services of an idle host take, and below what changes a median by as much as the threshold of a comparison.
const MOST_OTHERS: f64 = 0.05;
/// The same for time that is withheld from a virtual machine.
const MOST_STEAL: f64 = 0.01;
/// A core whose speed changes by more than this changes the result by as much.
const MOST_DRIFT: f64 = 0.05;
/// Turns of the loop that measures speed: about a tenth of a millisecond, so that most loops run without an interruption.
const TURNS: u32 = 50_000;
/// Loops without a faster one after which the core has reached its frequency.
const STEADY: u32 = 20;
/// Loops at most.
const MOST_LOOPS: u32 = 400;
/// Less than this cannot be told from the granularity of the ticks.
const LEAST_NS: u64 = 30_000_000;

/// A look at the counters, taken when a cell begins.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    cpu_ns: u64,
    ticks: Ticks,
    load_percent: u64,
    mhz: Option<(u64, u64)>,
    loop_ns: u64,
}

/// Sums over all processors, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    busy_ns: u64,
    steal_ns: u64,
}

impl Watch {
    /// Looks at the host.
    pub fn begin() -> Self {
        let loop_ns = fastest_loop_ns();
        Self {
            loop_ns,
            began: Instant::now(),
            cpu_ns: own_cpu_ns(),
            ticks: ticks(&fs::read_to_string("/proc/stat").unwrap_or_default()),
            load_percent: environment::load_percent().unwrap_or(0),
            mhz: megahertz(),
        }
    }

    /// Looks again, and says what has happened meanwhile.
    pub fn end(self) -> HostRecord {
        let now = ticks(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let cpu_ns = own_cpu_ns().saturating_sub(self.cpu_ns);
        let busy = now.busy_ns.saturating_sub(self.ticks.busy_ns);
        let (least, most) = both(self.mhz, megahertz()).unzip();
        let mut record = HostRecord {
            wall_ns: self.began.elapsed().as_nanos() as u64,
            cpu_ns,
            others_ns: busy.saturating_sub(cpu_ns),
            steal_ns: now.steal_ns.saturating_sub(self.ticks.steal_ns),
            load_percent: self.load_percent,
            least_mhz: least,
            most_mhz: most,
            drift_percent: drift_percent(self.loop_ns, fastest_loop_ns()),
            attempts: 1,
            noise: Vec::new(),
        };
        record.noise = noise(&record, environment::cores());
        record
    }
}

/// The wider of two spans of frequencies.
fn both(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    let (a, b) = (a.or(b)?, b.or(a)?);
    Some((a.0.min(b.0), a.1.max(b.1)))
}

/// What makes the record's times unreliable.
fn noise(record: &HostRecord, cores: usize) -> Vec<String> {
    let whole = (record.wall_ns as f64 * cores as f64).max(1.0);
    let mut noise = Vec::new();
    let mut check = |ns: u64, most: f64, what: &str| {
        let share = ns as f64 / whole;
        if ns >= LEAST_NS && share > most {
            noise.push(format!("{what} {:.0} % of all processor time", share * 100.0));
        }
    };
    check(record.others_ns, MOST_OTHERS, "other processes took");
    check(record.steal_ns, MOST_STEAL, "the host of this virtual machine withheld");
    if record.drift_percent.unsigned_abs() as f64 > MOST_DRIFT * 100.0 {
        let how = if record.drift_percent > 0 { "slower" } else { "faster" };
        noise.push(format!("a core was {} % {how} at the end", record.drift_percent.unsigned_abs()));
    }
    noise
}

/// The shortest time of a loop of fixed work on this core, once it has reached its frequency.
fn fastest_loop_ns() -> u64 {
    let (mut fastest, mut steady, mut loops) = (u64::MAX, 0, 0);
    while steady < STEADY && loops < MOST_LOOPS {
        let began = Instant::now();
        // Each turn needs what the one before it has found.
        std::hint::black_box((0..TURNS).fold(1_u64, |x, turn| {
            std::hint::black_box(x.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(turn))
        }));
        let took = began.elapsed().as_nanos() as u64;
        // A loop that is faster by less than a hundredth is no other frequency.
        steady = if took < fastest - fastest / 100 { 0 } else { steady + 1 };
        (fastest, loops) = (fastest.min(took), loops + 1);
    }
    fastest.max(1)
}

/// By how much longer the loop takes now than before.
fn drift_percent(before_ns: u64, now_ns: u64) -> i64 {
    ((now_ns as f64 / before_ns.max(1) as f64 - 1.0) * 100.0).round() as i64
}

/// Processor time of this process, all threads together, and of the processes that it has started and that have ended.
fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let own = time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
    own + children_ns(&fs::read_to_string("/proc/self/stat").unwrap_or_default())
}

/// Of `/proc/PID/stat`, after the name in parentheses: cutime and cstime, which are the 14th and 15th fields from there.
fn children_ns(stat: &str) -> u64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * tick_ns()
}

fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// The first line of `/proc/stat`: user nice system idle iowait irq softirq steal.
fn ticks(stat: &str) -> Ticks {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let tick_ns = tick_ns();
    let of = |at: usize| fields.get(at).copied().unwrap_or(0);
    Ticks { busy_ns: (of(0) + of(1) + of(2) + of(5) + of(6)) * tick_ns, steal_ns: of(7) * tick_ns }
}

/// The lowest and the highest frequency of the cores now, where the host tells.
fn megahertz() -> Option<(u64, u64)> {
    let cores = 0..environment::cores();
    let path = |core| format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
    let khz = cores.filter_map(|core| fs::read_to_string(path(core)).ok()?.trim().parse::<u64>().ok());
    let mhz: Vec<u64> = khz.map(|khz| khz / 1_000).collect();
    Some((*mhz.iter().min()?, *mhz.iter().max()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_and_stolen_time_are_read_from_the_line_of_all_processors() {
        let found = ticks("cpu  100 10 20 9999 50 1 2 30 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!((found.busy_ns, found.steal_ns), (133 * tick, 30 * tick));
    }

    #[test]
    fn a_quiet_host_makes_no_noise_and_a_busy_one_is_told_with_its_share() {
        let second = 1_000_000_000;
        let quiet =
            HostRecord { wall_ns: second, cpu_ns: second, others_ns: 40_000_000, ..HostRecord::default() };
        assert!(noise(&quiet, 2).is_empty());
        let busy = HostRecord { others_ns: second, steal_ns: 100_000_000, ..quiet.clone() };
        assert_eq!(
            noise(&busy, 2),
            [
                "other processes took 50 % of all processor time",
                "the host of this virtual machine withheld 5 % of all processor time"
            ]
        );
        let idle = HostRecord { least_mhz: Some(800), most_mhz: Some(3_000), ..quiet.clone() };
        assert!(noise(&idle, 2).is_empty(), "idle cores are slow and change nothing");
        let slower = HostRecord { drift_percent: drift_percent(100_000, 112_000), ..quiet.clone() };
        assert_eq!(noise(&slower, 2), ["a core was 12 % slower at the end"]);
        let steady = HostRecord { drift_percent: drift_percent(100_000, 96_000), ..quiet };
        assert!(noise(&steady, 2).is_empty());
    }

    #[test]
    fn the_loop_that_measures_speed_takes_time_and_ends() {
        assert!(fastest_loop_ns() > 1_000, "it is not optimized away");
    }

    #[test]
    fn own_work_is_not_called_that_of_others() {
        let watch = Watch::begin();
        let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_nsec;
        let start = used();
        while (used() - start).rem_euclid(1_000_000_000) < 50_000_000 {
            std::hint::black_box(used());
        }
        let record = watch.end();
        assert!(record.cpu_ns >= 20_000_000 && record.cpu_ns <= record.wall_ns * 64, "{record:?}");
    }
}
