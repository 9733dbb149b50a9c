//! All failures of one program.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use media::event::{Event, Tap, TaskId};
use sim::LINE_BYTES;

use super::attempt::{Attempt, Free, Stage, Trial, attempt};
use super::{Failure, Kind, Outcome, Tally, violation};
use crate::configured::try_virtually;
use crate::crash::{Program, Subject};

/// The check of a program ends after this many violations.
pub(super) const VIOLATIONS_MAX: usize = 5;
/// More accesses than any operation has; a higher count means an endless loop.
const ACCESSES_MAX: u64 = 20_000;

/// Lets every access of the last operation of a program fail, and, where a design buffers data, of what it does in the minute
/// after it. Each failure has a virtual run of its own with this seed, so that one that panics or hangs is found.
pub fn fail_operations(subject: &Subject, program: &Program, seed: u64) -> Tally {
    let mut tally = Tally { programs: 1, ..Tally::default() };
    let mut stages = vec![Stage::Operation];
    stages.extend(subject.promises.buffers_data().then_some(Stage::Idle));
    for stage in stages {
        let failing = Failing { subject, program, stage, seed };
        if let Err(what) = failing.run(&mut tally) {
            tally.violations.push(violation(&program.name, what));
        }
    }
    tally
}

struct Failing<'a> {
    subject: &'a Subject,
    program: &'a Program,
    stage: Stage,
    seed: u64,
}

impl Failing<'_> {
    fn run(&self, tally: &mut Tally) -> Result<(), String> {
        let Some(free) = self.free()? else {
            tally.without_space = 1;
            return Ok(());
        };
        for kind in Kind::counted() {
            for at in 1..=ACCESSES_MAX {
                let failure = Failure { kind, at };
                match self.one(failure, free) {
                    Ok(Some(outcome)) => tally.note(&self.program.name, failure, Ok(outcome)),
                    Ok(None) => break,
                    Err(what) => tally.note(&self.program.name, failure, Err(what)),
                }
                if tally.violations.len() >= VIOLATIONS_MAX {
                    return Ok(());
                }
            }
        }
        for at in self.lines_read()? {
            let failure = Failure { kind: Kind::Poison, at };
            if let Some(came) = self.one(failure, free).transpose() {
                tally.note(&self.program.name, failure, came);
            }
            if tally.violations.len() >= VIOLATIONS_MAX {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Blocks that are free at the end, before the operation and after it.
    fn free(&self) -> Result<Option<Free>, String> {
        let mut shorter = self.program.clone();
        let last = shorter.core.pop().or_else(|| shorter.setup.pop());
        if shorter.setup.is_empty() && shorter.core.is_empty() {
            // A mount alone changes nothing, so it stands for an empty program.
            shorter.core.extend(last.map(|_| crate::op::Op::Sync));
        }
        let mut free = [0; 2];
        for (place, program) in free.iter_mut().zip([&shorter, self.program]) {
            match self.attempt(program, Trial::Measure)? {
                Attempt::Passed(blocks) => *place = blocks,
                _ => return Ok(None),
            }
        }
        Ok(Some(free))
    }

    /// One failure; none when there are fewer accesses.
    fn one(&self, failure: Failure, free: Free) -> Result<Option<Outcome>, String> {
        match self.attempt(self.program, Trial::Fail(failure, free))? {
            Attempt::Struck(outcome) => Ok(Some(outcome)),
            _ => Ok(None),
        }
    }

    fn attempt(&self, program: &Program, trial: Trial) -> Result<Attempt, String> {
        let (subject, program, stage) = (self.subject.clone(), program.clone(), self.stage);
        try_virtually(self.seed, move || attempt(&subject, &program, stage, &trial))?
    }

    /// Lines that the operation reads: of each range the first and the last.
    fn lines_read(&self) -> Result<BTreeSet<u64>, String> {
        let lines = Arc::new(LinesRead::default());
        self.attempt(self.program, Trial::Listen(Arc::clone(&lines) as Arc<dyn Tap>))?;
        Ok(lines.take().ends)
    }
}

/// The lines that are read, by the offset of their first byte.
#[derive(Default)]
pub(super) struct LinesRead(Mutex<Lines>);

/// All lines, and of each range the first and the last.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) all: BTreeSet<u64>,
    pub(super) ends: BTreeSet<u64>,
}

impl LinesRead {
    pub(super) fn take(&self) -> Lines {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tap for LinesRead {
    fn event(&self, _: TaskId, event: Event<'_>) {
        if let Event::Load { off, len } = event
            && len > 0
        {
            let line = |at: u64| at - at % LINE_BYTES as u64;
            let (first, last) = (line(off), line(off + len - 1));
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lines.all.extend((first..=last).step_by(LINE_BYTES));
            lines.ends.extend([first, last]);
        }
    }

    fn hears_loads(&self) -> bool {
        true
    }
}
