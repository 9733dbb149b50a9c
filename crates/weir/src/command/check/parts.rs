//! `crash` and `faults` in parts, which a campaign runs on many hosts: programs of one design by number. The parts together tally
//! what the check tallies by itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use check::crash::{Family, Program, Subject, Violation};
use check::{Limits, crash, faults};
use lab::campaign::manifest::Estimate;
use lab::canonical;
use lab::cells::Cost;
use lab::runner::CellToRun;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sim::{Bytes, MIB, Seed};

use super::crash::{CrashCheck, Crashed};
use super::faults::{Failed, FaultsCheck};
use super::ledger::Ledger;
use super::{Check, Shared, What, subject};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;

/// Programs of each design that run for an estimate.
const DRAWN: usize = 12;
/// By how much programs may take longer or less than those that were drawn.
const DOUBT: f64 = 2.0;
/// A part is to take no longer: a killed process loses the part that it runs.
const LONGEST_PART_NS: u64 = 15_000_000_000;
/// Parts of a shard, at least, where it has so many programs.
const PARTS: usize = 4;
/// What a program fills while it is explored: regions of few MiB, their images one after the other.
const MEMORY: Bytes = Bytes(256 * MIB);

/// A check with its designs and programs.
pub(crate) struct Parts {
    kind: Kind,
    family: Family,
    numbers: Vec<usize>,
    subjects: Vec<Subject>,
    /// Where results are recorded.
    ledger: Option<PathBuf>,
}

enum Kind {
    Crash(Box<CrashCheck>),
    /// With the programs, which are few.
    Faults(Box<FaultsCheck>, Vec<Program>),
}

/// Programs of one design.
pub(crate) struct Part {
    /// What identifies it and what it is called.
    pub(crate) cell: CellToRun,
    subject: usize,
    /// The places of its programs in the list of those that are chosen.
    range: Range<usize>,
}

/// What came of a part: what a check prints, without what is of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tallied {
    /// Programs that ran, whatever came of them.
    ran: usize,
    programs: usize,
    without_space: usize,
    /// Counts by their names.
    counts: BTreeMap<String, usize>,
    /// Program and what is wrong, in the order of the programs.
    violations: Vec<(String, String)>,
}

impl Check {
    /// The check as a campaign runs it; refuses what has no parts.
    pub(crate) fn into_parts(self) -> Result<Parts, Failure> {
        let (shared, chosen) = match &self.what {
            Some(What::Crash(check)) => (&check.shared, &check.chosen),
            Some(What::Faults(check)) => (&check.shared, &check.chosen),
            _ => {
                return Err(Failure::usage(
                    "a campaign runs `check crash` and `check faults`; give each host a share of `model`, `fuzz` or \
                     `schedules` by --range A..B",
                ));
            }
        };
        if shared.jobs.is_some() {
            return Err(Failure::usage("leave --jobs out: `weir campaign run DIR --jobs N` has it"));
        }
        if chosen.time.is_some() {
            return Err(Failure::usage(
                "leave --time out: what it leaves undone depends on the host; --sample N takes fewer programs",
            ));
        }
        let ledger = self.ledger.clone();
        let (family, numbers, subjects) = match &self.what {
            Some(What::Crash(check)) => check.prepare()?,
            Some(What::Faults(check)) => check.prepare()?,
            _ => unreachable!("refused above"),
        };
        let kind = match self.what {
            Some(What::Faults(check)) => {
                let programs = numbers.iter().map(|number| family.program(*number)).collect();
                Kind::Faults(Box::new(check), programs)
            }
            Some(What::Crash(check)) => Kind::Crash(Box::new(check)),
            _ => unreachable!("refused above"),
        };
        Ok(Parts { kind, family, numbers, subjects, ledger })
    }
}

/// Processor time of this process so far.
fn process_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Parts {
    /// What a campaign of it is called.
    pub(crate) fn name(&self) -> String {
        let check = match &self.kind {
            Kind::Crash(check) => check.check().replace('/', "-"),
            Kind::Faults(..) => "faults".to_owned(),
        };
        let mut designs: Vec<&str> = self.subjects.iter().map(|subject| subject.design.name()).collect();
        designs.dedup();
        format!("{check} {}", designs.join(" "))
    }

    fn shared(&self) -> &Shared {
        match &self.kind {
            Kind::Crash(check) => &check.shared,
            Kind::Faults(check, _) => &check.shared,
        }
    }

    /// How many things run on each design: faults count a tree that is only read as a program.
    fn count(&self) -> usize {
        match &self.kind {
            Kind::Crash(_) => self.numbers.len(),
            Kind::Faults(_, programs) => programs.len() + 1,
        }
    }

    /// How many programs run on all designs.
    pub(crate) fn programs(&self) -> usize {
        self.count() * self.subjects.len()
    }

    /// How many programs are a part, where all take so much processor time on so many shards.
    pub(crate) fn programs_each(&self, cpu_ns: u64, shards: usize) -> usize {
        let all = self.programs().max(1);
        let by_time = LONGEST_PART_NS / (cpu_ns / all as u64).max(1);
        let by_count = all.div_ceil(shards.saturating_mul(PARTS).max(1));
        usize::try_from(by_time).unwrap_or(usize::MAX).min(by_count).clamp(1, self.count().max(1))
    }

    /// The parts of so many programs each, design by design.
    pub(crate) fn parts(&self, each: usize) -> Vec<Part> {
        let (each, count) = (each.max(1), self.count());
        let mut parts = Vec::new();
        for (at, subject) in self.subjects.iter().enumerate() {
            for start in (0..count).step_by(each) {
                let range = start..(start + each).min(count);
                parts.push(Part { cell: self.cell(subject, &range), subject: at, range });
            }
        }
        parts
    }

    /// A part as a cell of a campaign. Its key has everything that decides its tally, but for the build.
    fn cell(&self, of: &Subject, range: &Range<usize>) -> CellToRun {
        let (check, options, chosen, shift) = match &self.kind {
            Kind::Crash(check) => (check.check(), check.identity(), &check.chosen, 0),
            Kind::Faults(check, _) => ("faults".to_owned(), check.identity(), &check.chosen, 1),
        };
        // The number 0 of faults is a tree that is only read.
        let number = |at: usize| at.checked_sub(shift).map_or(Value::Null, |at| self.numbers[at].into());
        let seed = self.shared().seed;
        let key = canonical::hash(&json!({
            "schema": "weir.part/1",
            "check": check,
            "options": options,
            "subject": subject(&of.design),
            "region_bytes": of.size.0,
            "random": chosen.random,
            "seed": seed,
            "programs": range.clone().map(number).collect::<Vec<_>>(),
        }));
        let title =
            format!("{check} of {}, programs {} to {}", subject(&of.design), range.start, range.end - 1);
        CellToRun {
            key,
            title,
            kind: subject(&of.design),
            effort: range.len() as u64,
            memory: MEMORY,
            repeat: 0,
            seed: Seed(seed),
        }
    }

    /// Runs programs of a design on so many threads; none where it was interrupted before their end.
    pub(crate) fn run(&self, part: &Part, jobs: usize) -> Option<(Tallied, Cost)> {
        let (began, before) = (Instant::now(), process_cpu_ns());
        let limits = Limits { stop: interrupt::flag(), ..Limits::of(jobs) };
        let tallied = self.tally(part.subject, part.range.clone().collect(), &limits);
        let wall_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let cost = Cost { cpu_ns: process_cpu_ns().saturating_sub(before), wall_ns };
        (tallied.ran == part.range.len()).then_some((tallied, cost))
    }

    fn tally(&self, subject: usize, places: Vec<usize>, limits: &Limits) -> Tallied {
        let (subject, ran) = (&self.subjects[subject], AtomicUsize::new(0));
        let done = || _ = ran.fetch_add(1, Relaxed);
        let tallied = match &self.kind {
            Kind::Crash(check) => {
                let numbers: Vec<usize> = places.into_iter().map(|at| self.numbers[at]).collect();
                of_crash(check.tally(subject, (&self.family, &numbers), limits, &done))
            }
            Kind::Faults(check, programs) => {
                let range = places.first().map_or(0..0, |first| *first..first + places.len());
                let seed = (check.shared.seed, limits);
                of_faults(faults::fail_range(subject, programs, range, seed, &|_| done()))
            }
        };
        Tallied { ran: ran.into_inner(), ..tallied }
    }

    /// Processor time of the programs of all designs, from some of each that run here.
    pub(crate) fn estimate(&self, limit: Duration) -> (BTreeMap<String, u64>, Estimate) {
        let mut each = BTreeMap::new();
        let share = limit / u32::try_from(self.subjects.len().max(1)).unwrap_or(u32::MAX);
        for at in 0..self.subjects.len() {
            let mut places: Vec<usize> = (0..self.count()).collect();
            let mut rng = Seed(self.shared().seed).derive("check.estimate", 0).rng();
            check::generate::draw(&mut places, DRAWN, &mut rng);
            let (began, before, mut ran) = (Instant::now(), process_cpu_ns(), 0);
            for place in places {
                let limits = Limits { end: Some(began + share), stop: interrupt::flag(), ..Limits::of(1) };
                if limits.are_reached() {
                    break;
                }
                self.tally(at, vec![place], &limits);
                ran += 1;
            }
            let spent = process_cpu_ns().saturating_sub(before);
            each.insert(subject(&self.subjects[at].design), spent / ran.max(1));
        }
        let all = each.values().sum::<u64>() as f64 * self.count() as f64;
        let basis = format!("up to {DRAWN} drawn programs of each design, run here");
        (each, Estimate { low_ns: (all / DOUBT) as u64, high_ns: (all * DOUBT) as u64, basis })
    }

    /// What is wrong with the tally of a part.
    pub(crate) fn wrong(cell: &CellToRun, tallied: &Tallied) -> Result<(), String> {
        match tallied.ran as u64 {
            ran if ran == cell.effort => Ok(()),
            ran => Err(format!("tallies {ran} programs, and the part has {}", cell.effort)),
        }
    }

    /// Prints and records what the parts came to, in their order, and writes it into files.
    pub(crate) fn finish(
        self,
        parts: &[Part],
        found: &BTreeMap<String, (Tallied, Cost)>,
        files: &[PathBuf],
        output: &Output,
    ) -> Result<(), Failure> {
        let mut sums: Vec<(Tallied, Cost)> = vec![Default::default(); self.subjects.len()];
        for part in parts {
            let Some((tallied, cost)) = found.get(&part.cell.key) else { continue };
            let (sum, costs) = &mut sums[part.subject];
            sum.add(tallied.clone());
            costs.cpu_ns += cost.cpu_ns;
            costs.wall_ns += cost.wall_ns;
        }
        let whole = parts.iter().all(|part| found.contains_key(&part.cell.key));
        let programs = self.count();
        let ledger = Ledger::new(self.ledger, output)?;
        let all = self.subjects.into_iter().zip(sums);
        let end = super::End { whole, files };
        match self.kind {
            Kind::Crash(check) => {
                let crashed = all.map(|(subject, (sum, cost))| {
                    let cpu = Duration::from_nanos(cost.cpu_ns);
                    let tally = crash::Tally { cpu, ..sum.to_crash() };
                    Crashed { subject, programs, tally, took: Duration::from_nanos(cost.wall_ns) }
                });
                check.finish(&crashed.collect::<Vec<_>>(), &end, output, &ledger)
            }
            Kind::Faults(check, _) => {
                let failed = all.map(|(subject, (sum, cost))| {
                    let took = Duration::from_nanos(cost.wall_ns);
                    Failed { subject, programs, tally: sum.to_faults(), took }
                });
                check.finish(&failed.collect::<Vec<_>>(), &end, output, &ledger)
            }
        }
    }
}

/// The counts of a crash exploration, by name.
const COUNTS: [&str; 5] = ["points", "images", "distinct_images", "distinct_states", "nested_images"];

fn pairs(violations: Vec<Violation>) -> Vec<(String, String)> {
    violations.into_iter().map(|one| (one.program, one.what)).collect()
}

fn of_crash(tally: crash::Tally) -> Tallied {
    let counts =
        [tally.points, tally.images, tally.distinct_images, tally.distinct_states, tally.nested_images];
    Tallied {
        ran: 0,
        programs: tally.programs,
        without_space: tally.without_space,
        counts: COUNTS.into_iter().map(str::to_owned).zip(counts).collect(),
        violations: pairs(tally.violations),
    }
}

/// Kinds and outcomes have different names.
fn of_faults(tally: faults::Tally) -> Tallied {
    let injected = tally.injected.into_iter().map(|(kind, count)| (kind.name().to_owned(), count));
    let came = tally.outcomes.into_iter().map(|(outcome, count)| (outcome.name().to_owned(), count));
    Tallied {
        ran: 0,
        programs: tally.programs,
        without_space: tally.without_space,
        counts: injected.chain(came).collect(),
        violations: pairs(tally.violations),
    }
}

impl Tallied {
    fn add(&mut self, other: Self) {
        self.ran += other.ran;
        self.programs += other.programs;
        self.without_space += other.without_space;
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        self.violations.extend(other.violations);
    }

    fn count(&self, name: &str) -> Option<usize> {
        self.counts.get(name).copied()
    }

    fn violations(&self) -> Vec<Violation> {
        let violation =
            |(program, what): &(String, String)| Violation { program: program.clone(), what: what.clone() };
        self.violations.iter().map(violation).collect()
    }

    fn to_crash(&self) -> crash::Tally {
        let [points, images, distinct_images, distinct_states, nested_images] =
            COUNTS.map(|name| self.count(name).unwrap_or_default());
        crash::Tally {
            programs: self.programs,
            without_space: self.without_space,
            points,
            images,
            distinct_images,
            distinct_states,
            nested_images,
            violations: self.violations(),
            ..crash::Tally::default()
        }
    }

    fn to_faults(&self) -> faults::Tally {
        let kinds = faults::Kind::ALL.into_iter();
        let outcomes = faults::Outcome::ALL.into_iter();
        faults::Tally {
            programs: self.programs,
            without_space: self.without_space,
            injected: kinds.filter_map(|kind| Some((kind, self.count(kind.name())?))).collect(),
            outcomes: outcomes.filter_map(|came| Some((came, self.count(came.name())?))).collect(),
            violations: self.violations(),
        }
    }
}
