//! Which events this host counts: each is opened, and must count something known before its counts are used.
//!
//! | event | what is known |
//! |---|---|
//! | page faults | one for each page of memory that nothing has touched, and a few of the program around it |
//! | context switches | one for each sleep, at least |
//! | task clock | the processor time of the thread |
//! | instructions | twice as many for a loop that is twice as long |
//! | cycles | between 1/8 and 100 for an instruction |
//! | misses of the data TLB | eight times as many, at least, for loads a page apart as for loads a line apart |
//! | loads and misses of L1 and of the last cache | no more misses than loads of the walk and a tenth |
//! | accesses of a TLB, stores | nothing: opened, and read |

use std::sync::OnceLock;
use std::time::Duration;
use std::{io, thread};

use media::fresh::{Fresh, PAGE};
use perf_event::Counter;

use super::events::{EVENTS, Event, Of};
use crate::cell::thread_cpu_ns;

/// Pages of the test of faults: 16 MiB.
const PAGES: usize = 4096;
/// Faults of the program around the test.
const AROUND: u64 = 16;
/// Sleeps of the test of switches.
const SLEEPS: u64 = 8;
/// Steps of the loop of instructions.
const STEPS: u64 = 2_000_000;
/// Pages of the walk: 64 MiB, beyond every TLB.
const WALKED: usize = 16_384;

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It counts what is known.
    Works,
    /// It opens; nothing is known that it could be compared with.
    Opens,
    /// It cannot be counted, for this reason.
    Missing(String),
    /// It counts something else than it says.
    Implausible(String),
}

impl State {
    /// Why its counts are not used; none where they are.
    pub fn unusable(&self) -> Option<&str> {
        match self {
            Self::Works | Self::Opens => None,
            Self::Missing(why) | Self::Implausible(why) => Some(why),
        }
    }

    /// In a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Works => "ok",
            Self::Opens => "opens",
            Self::Missing(_) => "missing",
            Self::Implausible(_) => "implausible",
        }
    }
}

/// Every event of this host with its state. The first call takes a tenth of a second.
pub fn states() -> &'static [(Event, State)] {
    static STATES: OnceLock<Vec<(Event, State)>> = OnceLock::new();
    STATES.get_or_init(|| {
        // A thread of its own, whose events end with it.
        let found = thread::spawn(|| EVENTS.iter().map(|event| (*event, probe(event))).collect());
        found.join().unwrap_or_default()
    })
}

/// In words, why an event could not be opened.
pub(crate) fn told(event: &Event, error: &io::Error) -> String {
    /// Any user may count what his programs do, in the kernel as well, at this level.
    const ENOUGH: i32 = 1;
    if let Some(told) = super::refusal::told(error, ENOUGH) {
        return told;
    }
    let number = error.raw_os_error().and_then(|code| NUMBERS.iter().find(|(number, _)| *number == code));
    let name = number.map_or_else(|| error.to_string(), |(_, name)| (*name).to_owned());
    match error.kind() {
        io::ErrorKind::NotFound if !event.is_software() && !has_processor_counters() => {
            format!("{name}: this host shows no counters of its processor, as most virtual machines do")
        }
        io::ErrorKind::NotFound => format!("{name}: this processor has no such event"),
        _ => name,
    }
}

/// The errors that perf_event_open(2) names, by their numbers in Linux.
const NUMBERS: [(i32, &str); 4] = [(2, "ENOENT"), (19, "ENODEV"), (22, "EINVAL"), (95, "EOPNOTSUPP")];

/// Whether the kernel knows a unit of the processor that counts.
fn has_processor_counters() -> bool {
    let units = std::fs::read_dir("/sys/bus/event_source/devices").into_iter().flatten().flatten();
    units.map(|unit| unit.file_name()).any(|name| name.to_string_lossy().starts_with("cpu"))
}

/// What `work` counts; an error in words.
fn count(event: &Event, work: impl FnOnce()) -> Result<u64, String> {
    let mut counter: Counter = event.open(Of::User, None).map_err(|error| told(event, &error))?;
    let counted = || -> io::Result<(u64, bool)> {
        counter.enable()?;
        work();
        counter.disable()?;
        let data = counter.read_full()?;
        Ok((data.count(), data.time_running().is_some_and(|time| !time.is_zero())))
    };
    match counted() {
        Err(error) => Err(told(event, &error)),
        Ok((0, false)) => Err("the processor never had a counter free for it".to_owned()),
        Ok((count, _)) => Ok(count),
    }
}

fn probe(event: &Event) -> State {
    let judged = match event.name {
        "page_faults" | "minor_faults" => faults(event),
        "context_switches" => switches(event),
        "task_clock_ns" => task_clock(event),
        "instructions" => instructions(event),
        "cycles" => cycles(event),
        "dtlb_load_misses" => strides(event),
        "l1d_load_misses" | "llc_load_misses" => misses(event),
        _ => count(event, || loop_of(STEPS / 10)).map(|_| State::Opens),
    };
    judged.unwrap_or_else(State::Missing)
}

/// Judges `count`, which must be in `known`.
fn within(what: &str, count: u64, known: std::ops::RangeInclusive<u64>) -> State {
    if known.contains(&count) {
        return State::Works;
    }
    State::Implausible(format!("{what}: counted {count}, known {} to {}", known.start(), known.end()))
}

fn faults(event: &Event) -> Result<State, String> {
    let mut fresh = Fresh::new(PAGES).map_err(|error| error.to_string())?;
    let counted = count(event, || fresh.touch())?;
    Ok(within("faults of 4096 new pages", counted, PAGES as u64..=PAGES as u64 + AROUND))
}

fn switches(event: &Event) -> Result<State, String> {
    let sleep = || (0..SLEEPS).for_each(|_| thread::sleep(Duration::from_millis(1)));
    // A busy host takes the processor away besides.
    Ok(within("switches of 8 sleeps", count(event, sleep)?, SLEEPS..=SLEEPS * 100))
}

fn task_clock(event: &Event) -> Result<State, String> {
    let mut own = 0;
    let counted = count(event, || {
        let began = thread_cpu_ns();
        loop_of(STEPS * 2);
        own = thread_cpu_ns() - began;
    })?;
    Ok(within("processor time of a loop", counted, own / 10 * 8..=own / 10 * 14 + 1_000_000))
}

fn instructions(event: &Event) -> Result<State, String> {
    let (once, twice) = (count(event, || loop_of(STEPS))?, count(event, || loop_of(STEPS * 2))?);
    Ok(within("instructions of a loop twice as long", twice, once / 100 * 190..=once / 100 * 210))
}

fn cycles(event: &Event) -> Result<State, String> {
    let counted = count(event, || loop_of(STEPS))?;
    Ok(within("cycles of a loop", counted, STEPS / 8..=STEPS * 100))
}

fn strides(event: &Event) -> Result<State, String> {
    let mut fresh = Fresh::new(WALKED).map_err(|error| error.to_string())?;
    fresh.touch();
    let walk = |stride: usize| {
        count(event, || {
            fresh.walk(stride);
        })
    };
    let (lines, pages) = (walk(64)?, walk(PAGE)?);
    Ok(within("misses of loads a page apart", pages, (lines * 8).max(1)..=u64::MAX))
}

fn misses(event: &Event) -> Result<State, String> {
    let mut fresh = Fresh::new(WALKED).map_err(|error| error.to_string())?;
    fresh.touch();
    let mut loads = 0;
    let counted = count(event, || loads = fresh.walk(PAGE) as u64)?;
    Ok(within("misses of loads of 64 MiB", counted, 1..=loads + loads / 10))
}

/// A loop whose instructions grow with `steps` alone.
fn loop_of(steps: u64) {
    let mut value = 1_u64;
    for step in 0..steps {
        value = std::hint::black_box(value.wrapping_mul(3).wrapping_add(step));
    }
    std::hint::black_box(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_a_state_and_one_that_is_missing_its_reason() {
        let states = states();
        assert_eq!(states.len(), EVENTS.len());
        for (event, state) in states {
            assert!(state.unusable().is_none_or(|why| !why.is_empty()), "{event:?}");
        }
    }

    /// Kernels that allow no events at all (seccomp of containers) have nothing to count.
    #[test]
    fn page_faults_are_counted_exactly_where_the_kernel_allows_it() {
        let (_, state) = states().iter().find(|(event, _)| event.name == "page_faults").unwrap();
        assert!(matches!(state, State::Works | State::Missing(_)), "{state:?}");
        if *state == State::Works {
            let event = &EVENTS[0];
            let counted = |pages: usize| {
                let mut fresh = Fresh::new(pages).unwrap();
                count(event, || fresh.touch()).unwrap()
            };
            for pages in [1000_usize, 16_384] {
                let faults = counted(pages);
                assert!((pages as u64..=pages as u64 * 101 / 100).contains(&faults), "{pages}: {faults}");
            }
        }
    }

    #[test]
    fn a_count_that_is_not_what_is_known_makes_an_event_implausible() {
        assert_eq!(within("x", 5, 5..=6), State::Works);
        let State::Implausible(why) = within("faults", 70, 100..=110) else { panic!() };
        assert_eq!(why, "faults: counted 70, known 100 to 110");
    }

    #[test]
    fn no_group_asks_for_more_counters_than_processors_have() {
        for group in 0..=3 {
            let members = EVENTS.iter().filter(|event| event.group == Some(group)).count();
            assert!((1..=4).contains(&members), "{group}");
        }
        let mut names: Vec<_> = EVENTS.iter().map(|event| event.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EVENTS.len());
    }
}
