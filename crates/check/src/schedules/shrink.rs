//! Shortens a failing schedule: first fewer operations, then fewer switches.

use std::sync::Arc;

use sim::{Schedule, Switch};

use super::execute::{Ground, execute};
use super::scenario::Scenario;
use super::{Failure, schedule_of};
use crate::configured::Configured;

/// Schedules that a shorter program is given to fail in.
const SEEDS: u64 = 100;
/// Points that the runs may pass in all: seconds.
const POINTS: u64 = 20_000_000;

pub(super) struct Shrinking<'a> {
    pub(super) design: &'a Arc<Configured>,
    pub(super) ground: &'a Arc<Ground>,
    pub(super) length: u64,
    pub(super) points_left: u64,
}

impl<'a> Shrinking<'a> {
    pub(super) fn new(design: &'a Arc<Configured>, ground: &'a Arc<Ground>, length: u64) -> Self {
        Self { design, ground, length, points_left: POINTS }
    }

    /// Makes the program of a failure, then its switches, fewer.
    pub(super) fn shrink(&mut self, scenario: &Scenario, failure: &mut Failure, switches: Vec<Switch>) {
        let (mut program, mut switches) = (scenario.clone(), switches);
        while let Some((shorter, found, what)) = self.leave_out(&program) {
            (program, switches, failure.program_what) = (shorter, found, what);
        }
        let switches = self.by_priority(&program, switches);
        let fewer = self.fewer(&program, switches);
        if let Some(what) = self.fails(&program, &fewer) {
            failure.program_what = what;
        }
        failure.program = program.tasks;
        failure.switches = fewer;
    }

    fn fails(&mut self, program: &Scenario, switches: &[Switch]) -> Option<String> {
        self.run(program, &Schedule::Directed(switches.to_vec()), 0).err().map(|(what, _)| what)
    }

    /// Runs a program; returns a failure with its switches.
    fn run(
        &mut self,
        program: &Scenario,
        schedule: &Schedule,
        seed: u64,
    ) -> Result<(), (String, Vec<Switch>)> {
        let (ran, interleaving) = execute(self.design, self.ground, program, (schedule, seed));
        self.points_left = self.points_left.saturating_sub(interleaving.points);
        ran.map(drop).map_err(|what| (what, interleaving.switches))
    }

    /// A program with a task or an operation less that fails, too.
    fn leave_out(&mut self, program: &Scenario) -> Option<(Scenario, Vec<Switch>, String)> {
        let tasks = program.tasks.len();
        let without_task = (0..tasks).filter(|_| tasks > 1).map(|task| (task, None));
        let ops = program.tasks.iter().zip(0..).filter(|(ops, _)| ops.len() > 1);
        let without_op = ops.flat_map(|(ops, task)| (0..ops.len()).map(move |op| (task, Some(op))));
        for (task, op) in without_task.chain(without_op) {
            let mut shorter = program.clone();
            match op {
                None => drop(shorter.tasks.remove(task)),
                Some(op) => drop(shorter.tasks[task].remove(op)),
            }
            for seed in 0..SEEDS {
                if self.points_left == 0 {
                    return None;
                }
                let schedule = schedule_of(seed, self.length);
                if let Err((what, switches)) = self.run(&shorter, &schedule, seed) {
                    return Some((shorter, switches, what));
                }
            }
        }
        None
    }

    /// Schedules by priority have few switches: the switches of one that fails, if they are fewer.
    fn by_priority(&mut self, program: &Scenario, switches: Vec<Switch>) -> Vec<Switch> {
        let mut fewest = switches;
        for seed in 0..SEEDS {
            if self.points_left == 0 {
                break;
            }
            let schedule = Schedule::Pct { depth: 2 + (seed % 2) as u32, length: self.length };
            if let Err((_, switches)) = self.run(program, &schedule, seed)
                && switches.len() < fewest.len()
            {
                fewest = switches;
            }
        }
        fewest
    }

    /// Leaves out pieces of the switches, large ones first.
    fn fewer(&mut self, program: &Scenario, mut switches: Vec<Switch>) -> Vec<Switch> {
        let mut piece = switches.len().div_ceil(2);
        while piece > 0 {
            let mut end = switches.len();
            while end > 0 && self.points_left > 0 {
                let start = end.saturating_sub(piece);
                let mut fewer = switches.clone();
                fewer.drain(start..end.min(fewer.len()));
                if self.fails(program, &fewer).is_some() {
                    switches = fewer;
                }
                end = start;
            }
            piece /= 2;
        }
        switches
    }
}
