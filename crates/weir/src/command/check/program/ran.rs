//! What came of a run, and words for its parts that every form of the answer uses.

use std::path::Path;
use std::time::Duration;

use check::program::alike::Promise;
use check::program::cause::{Cause, Kept};
use check::program::designs::{Gathered, OnDesign};
use check::program::folder::LeftOut;
use check::program::operations::{Change, Operations};
use check::program::run::{Finding, Outcome};
use check::program::story::Story;

use crate::output::several;

/// Findings on these never decide: one loses everything, the others are no models.
const UNDECIDED: [&str; 3] = ["tmpfs", "null-random", "null-unsynced"];

/// What came of a design.
pub(super) struct Designed {
    pub(super) name: String,
    pub(super) gathered: Gathered,
    pub(super) found: Vec<OnDesign>,
    /// Why it could not be tried.
    pub(super) refused: Option<String>,
}

/// A run and all that it was about.
pub(super) struct Ran<'a> {
    pub(super) path: &'a Path,
    pub(super) story: &'a Story,
    pub(super) operations: &'a Operations,
    pub(super) outcome: Outcome,
    pub(super) designs: Vec<Designed>,
    pub(super) left_out: LeftOut,
    /// Sentences on what the host has refused of the place where the checker runs.
    pub(super) lacks: Vec<String>,
    pub(super) took: Duration,
    pub(super) seed: u64,
    pub(super) tries_fixes: bool,
    /// Promises were judged, no checker.
    pub(super) is_strict: bool,
}

/// The letters of broken promises: `AD`, `A`, `D` or nothing.
fn letters(has: impl Fn(Promise) -> bool) -> String {
    let letters = [(Promise::Atomicity, 'A'), (Promise::Durability, 'D')];
    letters.iter().filter(|(promise, _)| has(*promise)).map(|(_, letter)| letter).collect()
}

/// Whether a finding is one of a file system that keeps what was synced.
pub(super) fn decides(finding: &Finding) -> bool {
    finding.models.iter().any(|model| !UNDECIDED.contains(&model.as_str()))
}

impl Designed {
    pub(super) fn broken(&self) -> String {
        letters(|promise| self.found.iter().any(|found| found.promise == promise))
    }
}

impl Ran<'_> {
    /// What the program is called: the name of the trace.
    pub(super) fn name(&self) -> String {
        self.path.file_stem().map_or_else(|| "program".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// How many findings decide the exit code, without those that are known by their causes.
    pub(super) fn deciding(&self, known: &[String]) -> usize {
        let new = |finding: &&Finding| !known.contains(&finding.cause.key);
        let on_models = self.outcome.findings.iter().filter(|finding| decides(finding)).filter(new).count();
        let on_designs = self.designs.iter().map(|one| one.found.len() + one.gathered.bugs.len());
        on_models + on_designs.sum::<usize>()
    }

    /// What had been told before the crash of a cause.
    pub(super) fn told(&self, cause: &Cause) -> String {
        let told = cause.acks.checked_sub(1).map_or(0, |last| self.story.acks[last].bytes);
        String::from_utf8_lossy(&self.story.told[..told]).into_owned()
    }

    /// One sentence with the counts.
    pub(super) fn sentence(&self) -> String {
        let Outcome { explored, findings, runs, .. } = &self.outcome;
        let states: usize = explored.iter().map(|one| one.sets + one.torn).sum();
        let points = explored.iter().map(|one| one.points).max().unwrap_or(0);
        format!(
            "{}: {} in {states} states of {} on {}; {} in {:.1} s",
            self.name(),
            several(findings.len(), "finding"),
            several(points, "crash point"),
            several(explored.len(), "file system"),
            several(*runs, "check"),
            self.took.as_secs_f64()
        )
    }

    /// The calls of a cause, with what became of each.
    pub(super) fn calls(&self, cause: &Cause) -> Vec<(u32, String)> {
        let mut all: Vec<(u32, String)> = Vec::new();
        let call_of = |number: u32| self.operations.all[number as usize].call;
        for number in &cause.lost {
            let call = call_of(*number);
            if all.iter().all(|(known, _)| *known != call) {
                all.push((call, self.lost_of(call, cause)));
            }
        }
        if let Kept::Operation(number) = cause.kept {
            all.push((call_of(number), "persisted".to_owned()));
        }
        if cause.lost.is_empty() {
            let (last, next) = self.between(cause);
            all.extend(last.map(|call| (call, "had begun".to_owned())));
            all.extend(next.map(|call| (call, "had not begun".to_owned())));
        }
        all
    }

    /// The last call that had begun before the crash of a cause, and the next one.
    pub(super) fn between(&self, cause: &Cause) -> (Option<u32>, Option<u32>) {
        let all = || 0..self.story.calls.len() as u32;
        let begin_ns = |call: &u32| self.story.calls[*call as usize].begin_ns;
        let last = all().filter(|call| begin_ns(call) < cause.at_ns).max_by_key(begin_ns);
        (last, all().filter(|call| begin_ns(call) >= cause.at_ns).min_by_key(begin_ns))
    }

    /// What of a call was lost: all of it, or which parts.
    fn lost_of(&self, call: u32, cause: &Cause) -> String {
        let all = &self.operations.all;
        let whole = all.iter().filter(|micro| micro.call == call).count();
        let lost: Vec<u32> =
            cause.lost.iter().copied().filter(|number| all[*number as usize].call == call).collect();
        if lost.iter().any(|number| cause.state.torn.is_some_and(|torn| torn.number == *number)) {
            return "persisted in part".to_owned();
        }
        if lost.len() == whole {
            return "not persisted".to_owned();
        }
        let part = |number: &u32| match &all[*number as usize].change {
            Change::Data { offset, bytes, .. } => format!("bytes {offset}..{}", offset + bytes.len),
            Change::Extend { to, .. } | Change::Cut { to, .. } => format!("the size {to}"),
            Change::Names { .. } => "the name".to_owned(),
            Change::Zero { .. } | Change::Set(_) => "a part".to_owned(),
        };
        let mut parts: Vec<String> = lost.iter().take(3).map(part).collect();
        if lost.len() > 3 {
            parts.push(format!("{} more", lost.len() - 3));
        }
        format!("not persisted: {}", parts.join(", "))
    }

    /// What a run like this cannot say.
    pub(super) fn not_judged(&self) -> Vec<String> {
        let mut all = self.story.unseen.clone();
        all.extend(self.story.notes.iter().cloned());
        all.extend(self.lacks.iter().cloned());
        if !self.left_out.special.is_empty() {
            all.push(format!(
                "left out of trees: {} (FIFOs, sockets, devices)",
                self.left_out.special.join(", ")
            ));
        }
        if self.left_out.attributes > 0 {
            all.push(format!(
                "{} that the scratch folder refuses",
                several(self.left_out.attributes, "extended attribute")
            ));
        }
        if self.left_out.owners > 0 {
            all.push("owners, which only root may set in trees".to_owned());
        }
        all
    }
}
