//! Crashes at every point of a run: what is in NVRAM is recovered, and compared with what the program was promised.
//!
//! A run is simulated once, with values. It leaves the list of all writes that became durable, each with the time from which a
//! crash may leave part of it, and of all acknowledgements. A *point* is the last moment before one of these, or the end; its
//! image is every write that was durable, and a random subset of the words of each that was under way. Recovery runs on the image.
//! For each thread, its memory must then be the state after its acknowledged transactions, or after one more (the one that was on
//! its way to its acknowledgement): nothing less, nothing torn.
//!
//! Of some points the recovery is crashed in turn: run anew, after a part of its writes and after all of them, it must keep the
//! same promise.
//!
//! | module | holds |
//! |---|---|
//! | [`recovery`] | what a restart does with an image |
//! | [`mutant`] | protocols with one deliberate error, which a campaign must notice |

pub mod mutant;
pub mod recovery;

use crate::engine::{Engine, Persist};
use crate::error::Error;
use crate::log::Format;
use crate::machine::{Machine, Ps};
use crate::run::{Config, ProgramFeed};
use crate::scheme::software::{Effects, Layout};
use mutant::Mutant;
use sim::rng::{Rng, Seed};

use crate::workload::below;

/// One point in so many has its recovery crashed, too; each, where a mutant changes recovery.
const NESTED: u64 = 64;

/// A crash that broke a promise. Runs again alone from what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Hash of the configuration.
    pub config_hash: u64,
    /// Seed.
    pub seed: u64,
    /// Time of the crash.
    pub time: Ps,
    /// What was wrong.
    pub what: String,
}

/// What a campaign found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Crashes explored.
    pub points: u64,
    /// Recoveries that were crashed.
    pub nested: u64,
    /// Crashes that broke a promise.
    pub failures: u64,
    /// The first of them.
    pub first: Option<Broken>,
}

impl Verdict {
    /// Adds another campaign's.
    pub fn add(&mut self, other: Self) {
        self.points += other.points;
        self.nested += other.nested;
        self.failures += other.failures;
        self.first = self.first.take().or(other.first);
    }
}

/// A simulated run with everything that became durable.
#[derive(Debug)]
pub struct Recording {
    config: Config,
    mutant: Option<Mutant>,
    layout: Layout,
    logs: Vec<Format>,
    start: Vec<u64>,
    events: Vec<Persist>,
    effects: Vec<Vec<Effects>>,
    oracle: Vec<Ps>,
    growths: usize,
}

impl Recording {
    /// Simulates `config.ops` transactions, an equal number in each thread.
    ///
    /// # Errors
    /// [`Error`] for a configuration that does not fit.
    pub fn new(config: &Config, mutant: Option<Mutant>) -> Result<Self, Error> {
        let mut config = config.clone();
        if let Some(mutant) = mutant {
            mutant.change(&mut config.machine)?;
        }
        let scheme = config.check()?;
        let threads = config.threads as usize;
        let feed = ProgramFeed::new(&config, scheme, config.ops.div_ceil(config.threads), true)?;
        let layout = feed.program.layout();
        let mut start = vec![0; (layout.bytes() / 8) as usize];
        start[(layout.heap / 8) as usize..].copy_from_slice(feed.program.memory());
        let flaws = mutant.map(Mutant::flaws).unwrap_or_default();
        let mut engine = Engine::new(&config.machine, scheme, threads, flaws, feed);
        engine.track(start.clone());
        engine.run(u64::MAX)?;
        engine.quiesce();
        if engine.feed.program.overflow.is_some() {
            return Err(Error::Misfit(
                "a transaction needs more than its thread's log: set log_size higher".into(),
            ));
        }
        let hardware = engine.log.as_ref().map_or(0, |log| log.growths() as usize);
        let shared = engine.shared.as_ref().map_or(0, |log| log.stats.growths as usize);
        let growths = engine.feed.program.growths().max(hardware).max(shared);
        if growths > 0 {
            start.resize((layout.extent(layout.growths).next_multiple_of(4096) / 8) as usize, 0);
        }
        let mut tracker = engine.tracker.take().expect("just set");
        tracker.events.sort_by_key(time_of);
        let mut log = |index| {
            let mut format = layout.log(index, scheme, &config.machine);
            format.crc = !flaws.bare_torn_bit;
            format
        };
        Ok(Self {
            logs: (0..layout.logs).map(&mut log).collect(),
            layout,
            start,
            events: tracker.events,
            effects: engine.feed.program.effects.take().expect("kept for crashes"),
            oracle: tracker.oracle,
            growths,
            config,
            mutant,
        })
    }

    /// How often a log grew.
    pub fn growths(&self) -> usize {
        self.growths
    }

    /// Crashes between every two events, with `tears` choices of what was left of the writes under way. What has begun by then
    /// includes every write that had begun after the event before: each is torn at some point.
    pub fn explore(&self, tears: u64) -> Verdict {
        let mut verdict = Verdict::default();
        let mut rng = Seed(self.config.seed).derive("archsim.crash", 0).rng();
        let mut state = State::new(self);
        let mut time = 0;
        for at in 0..=self.events.len() {
            let next = self.events.get(at);
            let end = next.map_or(Ps::MAX, time_of);
            let moment = if next.is_some() { end.saturating_sub(1) } else { time };
            for tear in (0..tears).take_while(|_| end > time) {
                let mut image = state.image.clone();
                let torn = self.tear(&mut image, at, moment, &mut rng, tear);
                if !torn && tear > 0 {
                    break; // nothing was under way: all choices are the same
                }
                self.judge(&mut verdict, &state, image, moment, &mut rng);
            }
            if let Some(event) = next {
                time = state.apply(event, self);
            }
        }
        if let Some(time) = self.oracle.first().filter(|_| verdict.failures == 0) {
            self.fail(&mut verdict, *time, "a dirty line was older than the head".into());
        }
        verdict
    }

    /// Leaves part of the writes that were under way at `time`. The first choice leaves nothing of them.
    fn tear(&self, image: &mut [u64], from: usize, time: Ps, rng: &mut Rng, tear: u64) -> bool {
        let mut any = false;
        for event in self.events[from..].iter().take(32) {
            let Persist::Write { start, finish, line, mask, data } = *event else { continue };
            if start > time || finish <= time {
                continue;
            }
            any = true;
            let chosen = if tear == 0 { 0 } else { below(rng, 256) as u8 };
            for word in (0..8).filter(|word| mask & chosen & 1 << word != 0) {
                image[line as usize * 8 + word] = data[word];
            }
        }
        any
    }

    fn judge(&self, verdict: &mut Verdict, state: &State, image: Vec<u64>, time: Ps, rng: &mut Rng) {
        verdict.points += 1;
        let flaws = self.mutant.map(Mutant::recovery).unwrap_or_default();
        let nested =
            verdict.points.is_multiple_of(if flaws == recovery::Flaws::default() { NESTED } else { 1 });
        let before = nested.then(|| image.clone());
        let mut image = image;
        let writes = recovery::recover(&mut image, &self.logs, flaws);
        if let Err(what) = self.compare(state, &image) {
            return self.fail(verdict, time, what);
        }
        let Some(before) = before else { return };
        verdict.nested += 1;
        let some = below(rng, writes.len() as u64 + 1) as usize;
        for part in [some, writes.len()] {
            let mut again = before.clone();
            for (addr, value) in &writes[..part] {
                again[(addr / 8) as usize] = *value;
            }
            recovery::recover(&mut again, &self.logs, flaws);
            if let Err(what) = self.compare(state, &again) {
                return self.fail(
                    verdict,
                    time,
                    format!("after a crash in recovery, {part} writes in: {what}"),
                );
            }
        }
    }

    fn fail(&self, verdict: &mut Verdict, time: Ps, what: String) {
        verdict.failures += 1;
        let (config_hash, seed) = (self.config.hash(), self.config.seed);
        verdict.first.get_or_insert(Broken { config_hash, seed, time, what });
    }

    /// Whether each thread's memory is that after its acknowledged transactions, or after one more.
    fn compare(&self, state: &State, image: &[u64]) -> Result<(), String> {
        let threads = self.config.threads as usize;
        let share = (self.layout.heap_bytes / 8) as usize / threads;
        let heap = (self.layout.heap / 8) as usize;
        for thread in 0..threads {
            let range = heap + thread * share..heap + (thread + 1) * share;
            let (is, expected) = (&image[range.clone()], &state.shadow[range]);
            if is == expected {
                continue;
            }
            let base = self.layout.heap + (thread * share * 8) as u64;
            let done = state.acknowledged[thread];
            let mut more = expected.to_vec();
            for (addr, value) in self.effects[thread].get(done).into_iter().flatten() {
                more[((addr - base) / 8) as usize] = *value;
            }
            if is == more {
                continue;
            }
            let wrong = is.iter().zip(expected).position(|(is, expected)| is != expected).unwrap_or(0);
            return Err(format!(
                "thread {thread} after {done} transactions: word {:#x} is {:#x}, not {:#x}, and not as after one more",
                base + 8 * wrong as u64,
                is[wrong],
                expected[wrong]
            ));
        }
        Ok(())
    }
}

/// When an event takes effect.
fn time_of(event: &Persist) -> Ps {
    match *event {
        Persist::Write { finish, .. } => finish,
        Persist::Acknowledge { time, .. } => time,
    }
}

/// What is durable, and what was promised, at a time.
struct State {
    image: Vec<u64>,
    shadow: Vec<u64>,
    acknowledged: Vec<usize>,
}

impl State {
    fn new(recording: &Recording) -> Self {
        let acknowledged = vec![0; recording.config.threads as usize];
        Self { image: recording.start.clone(), shadow: recording.start.clone(), acknowledged }
    }

    fn apply(&mut self, event: &Persist, recording: &Recording) -> Ps {
        match *event {
            Persist::Write { finish, line, mask, data, .. } => {
                for word in (0..8).filter(|word| mask & 1 << word != 0) {
                    self.image[line as usize * 8 + word] = data[word];
                }
                finish
            }
            Persist::Acknowledge { time, thread } => {
                for (addr, value) in &recording.effects[thread][self.acknowledged[thread]] {
                    self.shadow[(addr / 8) as usize] = *value;
                }
                self.acknowledged[thread] += 1;
                time
            }
        }
    }
}

/// The workloads of a campaign and how many threads each has.
pub const PROGRAMS: &[(&str, u64)] = &[
    ("hash", 1),
    ("sps", 2),
    ("rbtree", 1),
    ("btree", 2),
    ("ssca2", 4),
    ("hash-str", 2),
    ("sps-str", 1),
    ("sps-batch", 4),
];

/// Operations of a program that is crashed.
pub const OPERATIONS: u64 = 200;

/// A configuration for crashing `scheme`.
///
/// # Errors
/// Never, as long as the preset stands.
pub fn crash_config(scheme: &str, seed: u64) -> Result<Config, Error> {
    let machine = Machine::load("tiny")?;
    let (scheme, workload) = (scheme.to_owned(), "hash".to_owned());
    Ok(Config { machine, scheme, workload, threads: 1, seed, ops: OPERATIONS, trace: None })
}

/// Runs programs of a scheme, with one seed after the other, until `points` crashes were explored.
///
/// # Errors
/// [`Error`] for a configuration that does not fit.
pub fn campaign(base: &Config, mutant: Option<Mutant>, points: u64) -> Result<Verdict, Error> {
    campaign_of(base, PROGRAMS, mutant, points)
}

/// The same with programs of the caller's: workloads, and how many threads each has.
///
/// # Errors
/// [`Error`] for a configuration that does not fit.
pub fn campaign_of(
    base: &Config,
    programs: &[(&str, u64)],
    mutant: Option<Mutant>,
    points: u64,
) -> Result<Verdict, Error> {
    let mut verdict = Verdict::default();
    if programs.is_empty() {
        return Ok(verdict);
    }
    for round in 0.. {
        for (workload, threads) in programs {
            let config = Config {
                workload: (*workload).to_owned(),
                threads: *threads,
                seed: base.seed + round,
                ..base.clone()
            };
            verdict.add(Recording::new(&config, mutant)?.explore(4));
            let caught = mutant.is_some() && verdict.failures > 0;
            if caught || verdict.points >= points {
                return Ok(verdict);
            }
        }
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing else happens while the write is under way, so no event falls between its begin and its end.
    #[test]
    fn a_write_that_is_alone_under_way_is_torn() {
        let config = Config { workload: "hash".into(), ops: 1, ..crash_config("fwb", 1).unwrap() };
        let mut recording = Recording::new(&config, None).unwrap();
        let addr = recording.layout.heap;
        let line = addr / 64;
        let word = |index: usize| recording.start[line as usize * 8 + index] ^ 1;
        let data: [u64; 8] = std::array::from_fn(word);
        // The whole line is what the next transaction leaves; a part of it is what none does.
        recording.effects[0] = vec![(0..8).map(|index| (addr + 8 * index as u64, data[index])).collect()];
        recording.events = vec![Persist::Write { start: 100, finish: 200, line, mask: 0xff, data }];
        let verdict = recording.explore(4);
        assert_eq!((verdict.points, verdict.failures), (5, 3), "{:?}", verdict.first);
    }
}
