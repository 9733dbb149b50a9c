//! Readings as a campaign runs them: its cells are those of all variations, and what they come to is what `weir reproduce
//! --readings` computes.

use lab::claims::Paper;
use lab::readings::Variation;
use lab::{Plan, Runner};
use report::Report;
use results::{ClaimOutcome, ResultFile};

use super::{Reproduce, print, readings};
use crate::failure::Failure;
use crate::output::Output;

/// Papers with their variations.
pub(crate) struct Readings {
    command: Reproduce,
    papers: Vec<(Paper, Vec<Variation>)>,
}

impl Reproduce {
    /// Its readings as a campaign runs them; refuses what is of one host, and what is no readings.
    pub(crate) fn into_readings(self, output: &Output) -> Result<Readings, Failure> {
        if !self.readings || self.list {
            return Err(Failure::usage(
                "a campaign runs `reproduce PAPER --readings`; figures are plans, which it takes by their names",
            ));
        }
        if !self.how.outputs.is_empty() {
            return Err(Failure::usage("leave -o out: `weir campaign merge DIR -o FILE` has it"));
        }
        if self.how.jobs.is_some() || self.how.memory.is_some() {
            return Err(Failure::usage(
                "leave --jobs and --memory out: `weir campaign run DIR --jobs N --memory SIZE` has them",
            ));
        }
        let wanted = self.wanted()?;
        let papers = self.variations(&wanted, output)?;
        let papers = papers.into_iter().map(|(paper, variations)| (paper.clone(), variations)).collect();
        Ok(Readings { command: self, papers })
    }
}

impl Readings {
    /// What a campaign of it is called.
    pub(crate) fn name(&self) -> String {
        self.command.name_of_readings()
    }

    /// The plans of all variations, each once: most variations leave most plans as they are.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        let mut plans: Vec<Plan> = Vec::new();
        for plan in self.papers.iter().flat_map(|(_, variations)| variations).flat_map(|one| &one.plans) {
            if !plans.contains(plan) {
                plans.push(plan.clone());
            }
        }
        plans
    }

    /// The results, where every cell is known to the runner.
    pub(crate) fn results(
        &self,
        runner: &mut Runner<'_>,
        output: &Output,
    ) -> Result<Vec<ResultFile>, Failure> {
        let scale = self.command.scale();
        let result = |(paper, variations): &(Paper, Vec<Variation>)| {
            readings::classed(paper, variations, scale, runner, output)
        };
        self.papers.iter().map(result).collect()
    }

    /// Keeps the results as the last run of their papers' readings, prints them, and judges as the command does.
    pub(crate) fn finish(self, report: &Report, output: &Output) -> Result<(), Failure> {
        let results: Vec<&ResultFile> = report.sections.iter().map(|section| &section.results).collect();
        for ((paper, _), result) in self.papers.iter().zip(&results) {
            readings::keep(paper, result)?;
        }
        let claims: Vec<ClaimOutcome> = results.iter().flat_map(|result| result.claims.clone()).collect();
        print(report, &claims, output)?;
        crate::experiment::end_of(report)?;
        self.command.judge(&claims)
    }
}
