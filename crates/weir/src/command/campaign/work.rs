//! What a campaign runs: plans, a paper's readings, or a check in parts; its cells, a shard of it, its merge.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;
use lab::campaign::folder::Ran;
use lab::campaign::gather::{self, Found, Gathered};
use lab::campaign::manifest::{self, CommandRecord, Estimate};
use lab::campaign::{Campaign, Error, estimate};
use lab::cells::Kept;
use lab::runner::{CellToRun, Silent};
use lab::{Plan, Runner, Settings, environment};
use report::Report;
use results::ResultFile;

use super::duration;
use crate::cli::{Cli, Command};
use crate::command::check::{Parts, Tallied};
use crate::command::reproduce::Readings;
use crate::experiment;
use crate::failure::{Exit, Failure};
use crate::output::{Output, several};
use crate::progress::{Bar, Counter};
use crate::{inputs, store};

/// The work of a campaign.
pub(super) enum Work {
    /// Plans, and nothing else.
    Plans(Vec<Plan>),
    /// The plans of a paper's variations.
    Readings(Box<Readings>, Vec<Plan>),
    /// Programs of a check.
    Check(Box<Parts>),
}

/// How a campaign is merged.
pub(super) struct Merging<'a> {
    pub(super) outputs: &'a [PathBuf],
    pub(super) partial: bool,
    /// Cells that run again here.
    pub(super) verify: Option<usize>,
    pub(super) settings: Settings,
}

impl Work {
    /// That of a campaign, whose build must be this one; plans take its texts wherever they run.
    pub(super) fn of(campaign: &Campaign, output: &Output) -> Result<Self, Failure> {
        campaign.check_build(&environment::build().unwrap_or_default())?;
        if let Some(command) = &campaign.manifest.command {
            return Self::by(&command.arguments, output);
        }
        let mut plans = campaign.manifest.plans()?;
        let texts = campaign.folder.join("texts");
        for (plan, record) in plans.iter_mut().zip(&campaign.manifest.plans) {
            inputs::restore(plan, &record.inputs, &texts)?;
        }
        Ok(Self::Plans(plans))
    }

    /// That of a command, by its words behind `weir`.
    pub(super) fn by(arguments: &[String], output: &Output) -> Result<Self, Failure> {
        let words = std::iter::once("weir").chain(arguments.iter().map(String::as_str));
        let cli = Cli::try_parse_from(words).map_err(|error| {
            let told = error.to_string();
            // Behind the first paragraph stands help of the other command.
            let told = told.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default().trim_end();
            Failure::usage(format!("weir {}: {told}", arguments.join(" ")))
        })?;
        match cli.command {
            Command::Reproduce(command) => {
                let readings = command.into_readings(output)?;
                let plans = readings.plans();
                manifest::admit(&plans)?;
                Ok(Self::Readings(Box::new(readings), plans))
            }
            Command::Check(check) => Ok(Self::Check(Box::new(check.into_parts()?))),
            _ => Err(Failure::usage(format!(
                "a campaign runs plans, `reproduce PAPER --readings`, `check crash` and `check faults`, not `weir {}`",
                arguments.join(" ")
            ))),
        }
    }

    /// What a campaign of it is called.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Plans(plans) => plans.iter().map(|plan| plan.name.as_str()).collect::<Vec<_>>().join(" "),
            Self::Readings(readings, _) => readings.name(),
            Self::Check(parts) => parts.name(),
        }
    }

    /// Its cells with the processor time that each will take, how long all will, and of a check how many programs are a cell.
    /// `count` says into how many shards so much time is cut.
    pub(super) fn estimate(
        &self,
        limit: Duration,
        settings: &Settings,
        output: &Output,
        count: impl Fn(u64, usize) -> usize,
    ) -> Result<Estimated, Failure> {
        match self {
            Self::Plans(plans) | Self::Readings(_, plans) => {
                let cells = Runner::cells(plans)?;
                let told = several(cells.len(), "cell");
                output.note(&format!("{told}; the smallest of each kind run for an estimate"));
                let bar = Bar::new(output.shows_progress(), false);
                let (times, estimate) = estimate::estimate(plans, &cells, limit, settings, &bar)?;
                Ok(Estimated { cells, times, estimate, programs_each: None })
            }
            Self::Check(parts) => {
                let told = several(parts.programs(), "program");
                output.note(&format!("{told}; some of each design run for an estimate"));
                let (each_ns, estimate) = parts.estimate(limit);
                let all = (estimate.low_ns as f64 * estimate.high_ns as f64).sqrt() as u64;
                let each = parts.programs_each(all, count(all, parts.programs()));
                let cells: Vec<CellToRun> = parts.parts(each).into_iter().map(|part| part.cell).collect();
                let time =
                    |cell: &CellToRun| cell.effort * each_ns.get(&cell.kind).copied().unwrap_or_default();
                let times = cells.iter().map(|cell| (cell.key.clone(), time(cell))).collect();
                Ok(Estimated { cells, times, estimate, programs_each: Some(each) })
            }
        }
    }

    /// Its cells, which must be those of the campaign.
    pub(super) fn cells(&self, campaign: &Campaign) -> Result<Vec<CellToRun>, Failure> {
        let cells = match self {
            Self::Plans(plans) | Self::Readings(_, plans) => Runner::cells(plans)?,
            Self::Check(parts) => {
                parts.parts(programs_each(campaign)).into_iter().map(|part| part.cell).collect()
            }
        };
        campaign.manifest.check(&cells)?;
        Ok(cells)
    }

    /// Runs what is missing of a shard.
    pub(super) fn run(
        &self,
        campaign: &Campaign,
        (shard, attempt): (usize, &str),
        settings: &Settings,
        (bar, output): (&Bar, &Output),
    ) -> Result<Ran, Failure> {
        Ok(match self {
            Self::Plans(plans) | Self::Readings(_, plans) => {
                campaign.run(shard, attempt, plans, settings.clone(), bar)?
            }
            Self::Check(parts) => campaign.run_by(shard, attempt, |wanted, kept| {
                let counter = Counter::new(output, &format!("shard {shard}"), wanted.len() as u64);
                let whole = run_parts(parts, programs_each(campaign), wanted, &kept, settings.jobs, &counter);
                (kept, Ok(whole))
            })?,
        })
    }

    /// Verifies the shards, and writes and prints what one machine would have given.
    pub(super) fn merge(
        self,
        campaign: &Campaign,
        how: &Merging<'_>,
        output: &Output,
    ) -> Result<(), Failure> {
        let cells = self.cells(campaign)?;
        match self {
            Self::Plans(plans) => {
                let gathered = gather::gather(campaign, &cells, how.partial)?;
                verify(&gathered, (campaign, &plans), &cells, how, output)?;
                tell(&gathered, cells.len(), output);
                merge_plans(&gathered, campaign, &plans, how, output)
            }
            Self::Readings(readings, plans) => {
                if how.partial {
                    return Err(Failure::usage(
                        "readings have no partial result, since every claim could still change sides: run the shards that are \
                         missing",
                    ));
                }
                let gathered = gather::gather(campaign, &cells, false)?;
                verify(&gathered, (campaign, &plans), &cells, how, output)?;
                tell(&gathered, cells.len(), output);
                let mut runner = Runner::new(Settings::default(), &Silent);
                runner.know(gathered.known());
                let mut results = readings.results(&mut runner, output)?;
                for result in &mut results {
                    result.hosts.clone_from(&gathered.hosts);
                    result.environment = gathered.environment();
                }
                let report = written(results, how, output)?;
                readings.finish(&report, output)
            }
            Self::Check(parts) => merge_check(*parts, campaign, &cells, how, output),
        }
    }
}

/// What [`Work::estimate`] has found.
pub(super) struct Estimated {
    pub(super) cells: Vec<CellToRun>,
    pub(super) times: BTreeMap<String, u64>,
    pub(super) estimate: Estimate,
    pub(super) programs_each: Option<usize>,
}

fn programs_each(campaign: &Campaign) -> usize {
    let command = campaign.manifest.command.as_ref();
    command.and_then(|CommandRecord { programs_each, .. }| *programs_each).unwrap_or(1)
}

/// Runs the parts that are wanted one after the other; false where it was interrupted.
fn run_parts(
    parts: &Parts,
    each: usize,
    wanted: &BTreeSet<String>,
    kept: &Kept,
    jobs: usize,
    counter: &Counter,
) -> bool {
    let jobs = if jobs == 0 { environment::cores() } else { jobs };
    for part in parts.parts(each).iter().filter(|part| wanted.contains(&part.cell.key)) {
        let Some((tallied, cost)) = parts.run(part, jobs) else { return false };
        kept.add(&part.cell.key, &tallied, cost);
        counter.one_more();
    }
    true
}

/// Says what was merged.
fn tell<S: serde::Serialize>(gathered: &Gathered<S>, cells: usize, output: &Output) {
    output.note(&format!(
        "{} of {cells} cells, {} of processor time on {}; {} came again with the same bytes",
        gathered.found.len(),
        duration(gathered.cpu_ns()),
        several(gathered.hosts.len(), "host"),
        several(gathered.repeated, "sample"),
    ));
}

fn verify(
    gathered: &Gathered,
    of: (&Campaign, &[Plan]),
    cells: &[CellToRun],
    how: &Merging<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let Some(count) = how.verify else { return Ok(()) };
    let bar = Bar::new(output.shows_progress(), output.tells_progress());
    let mut runner = Runner::new(how.settings.clone(), &bar);
    let titles = gathered.verify(of, cells, count, &mut runner)?;
    output.note(&format!("the same bytes here: {}", titles.join(", ")));
    Ok(())
}

/// Writes the results into the files that are wanted.
fn written(results: Vec<ResultFile>, how: &Merging<'_>, output: &Output) -> Result<Report, Failure> {
    let report = Report::new(results)?;
    for path in how.outputs {
        store::write_report(&report, path, output)?;
        output.note(&format!("result   {}", path.display()));
    }
    Ok(report)
}

fn merge_plans(
    gathered: &Gathered,
    campaign: &Campaign,
    plans: &[Plan],
    how: &Merging<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let mut results = gathered.results(plans)?;
    for (result, record) in results.iter_mut().zip(&campaign.manifest.plans) {
        // Where a text was replaced by a file of the folder, the plan goes on by the name that it had.
        result.plan = Plan::from_json(&record.plan)?.to_json();
        result.inputs.clone_from(&record.inputs);
        result.command = experiment::command();
    }
    let report = written(results, how, output)?;
    experiment::print(&report, output)?;
    match experiment::end_of(&report) {
        // It was asked for.
        Err(failure) if how.partial && failure.exit == Exit::Interrupted => {
            output.note("the result is partial: cells are missing");
            Ok(())
        }
        ended => ended,
    }
}

fn merge_check(
    parts: Parts,
    campaign: &Campaign,
    cells: &[CellToRun],
    how: &Merging<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    if let Some(path) = how.outputs.iter().find(|path| !is_json(path)) {
        return Err(Failure::usage(format!(
            "{}: what a check comes to is a document of JSON: name a file that ends in .json",
            path.display()
        )));
    }
    let gathered = gather::gather_by(campaign, cells, how.partial, &Parts::wrong)?;
    let list = parts.parts(programs_each(campaign));
    if let Some(count) = how.verify {
        let jobs = if how.settings.jobs == 0 { environment::cores() } else { how.settings.jobs };
        let (mut titles, mut faults) = (Vec::new(), Vec::new());
        for cell in gathered.drawn(campaign, cells, count) {
            let part = list.iter().find(|part| part.cell.key == cell.key);
            let Some((here, _)) = part.and_then(|part| parts.run(part, jobs)) else { break };
            titles.push(cell.title.as_str());
            faults.extend(gathered.differs(cell, &here));
        }
        if !faults.is_empty() {
            return Err(Error::Refused(faults).into());
        }
        output.note(&format!("the same bytes here: {}", titles.join(", ")));
    }
    tell(&gathered, cells.len(), output);
    if gathered.found.len() < cells.len() {
        output.note("the result is partial: parts are missing, and it is not recorded as evidence");
    }
    let of = |Found { sample, cost, .. }: Found<Tallied>| (sample, cost);
    let found = gathered.found.into_iter().map(|(key, found)| (key, of(found))).collect();
    parts.finish(&list, &found, how.outputs, output)
}
