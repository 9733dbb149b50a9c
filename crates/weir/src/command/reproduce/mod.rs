//! `weir reproduce`: a paper's figures measured, published beside measured.

mod campaign;
mod kept;
mod readings;

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use lab::claims::{Measured, Paper, PaperClaim};
use lab::plan::Scale;
use lab::presets::PAPERS;
use lab::readings::Variation;
use lab::{Error, Plan};
use report::Report;
use report::table::Table;
use results::statistics::mean_interval;
use results::{ClaimOutcome, ClaimsFile, ResultFile};

use crate::experiment::{self, How};
use crate::failure::{Exit, Failure};
use crate::output::{Output, columns, several};
pub(crate) use campaign::Readings;

/// Measure a paper's figures and print the published values beside the measured ones.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir reproduce hinfs/7 -o fig7.html")]
pub(crate) struct Reproduce {
    /// Papers or single figures: hinfs, hinfs/7 [default: all papers]
    #[arg(value_name = "PAPER[/FIGURE]")]
    targets: Vec<String>,
    /// List papers and figures; measure nothing
    #[arg(long)]
    list: bool,
    /// Run the scaled-down variants of the plans: minutes instead of tens of minutes
    #[arg(long)]
    quick: bool,
    /// The scale of data sets, buffers and times: as published, a tenth (as --quick), or a hundredth
    #[arg(
        long,
        value_enum,
        value_name = "full|tenth|hundredth",
        conflicts_with = "quick",
        hide_possible_values = true,
        hide_short_help = true
    )]
    scale: Option<Size>,
    /// Measure under each reading: each answer to a question that the paper leaves open; with --list: list them
    #[arg(long)]
    readings: bool,
    /// With --readings: also the pairs of readings that the paper's file names
    #[arg(long, requires = "readings", hide_short_help = true)]
    pairs: bool,
    /// Use this answer of a reading (--readings --list names them) instead of the default; repeatable
    #[arg(
        long = "choose",
        value_name = "READING=ANSWER",
        conflicts_with = "readings",
        hide_short_help = true
    )]
    choices: Vec<String>,
    /// Runs of each cell, each with a seed of its own: claims come with the range of their seeds [default: the plan's; 5 for random
    /// workloads that are measured for 100 ms or less]
    #[arg(long, value_name = "N", conflicts_with = "readings", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Run only these designs; claims about other designs are not measured
    #[arg(long, value_name = "FS,…", value_delimiter = ',', hide_short_help = true)]
    designs: Vec<String>,
    /// Fail (exit code 1) when a measured claim does not hold
    #[arg(long, hide_short_help = true)]
    strict: bool,
    #[command(flatten)]
    how: How,
}

/// Runs of a cell whose workload is random and short.
const REPEATS: u32 = 5;

/// How large an experiment is.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Full,
    Tenth,
    Hundredth,
}

/// A paper and those of its plans that are wanted.
struct Wanted {
    paper: Paper,
    plans: Vec<String>,
    /// No figure was named.
    is_whole: bool,
}

impl Reproduce {
    /// The paper that it measures, if it is one only.
    pub(crate) fn paper(&self) -> Option<String> {
        let [target] = &self.targets[..] else { return None };
        Some(target.split('/').next().unwrap_or(target).to_owned())
    }

    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let wanted = self.wanted()?;
        if !self.list {
            self.how.prepare()?;
        }
        match (self.list, self.readings) {
            (true, true) => readings::list(wanted.iter().map(|wanted| &wanted.paper), output),
            (true, false) => list(&wanted, output),
            (false, true) => return self.run_readings(&wanted, output),
            (false, false) => return self.run_plans(wanted, output),
        }
        Ok(())
    }

    fn scale(&self) -> Scale {
        match self.scale {
            _ if self.quick => Scale::Tenth,
            Some(Size::Tenth) => Scale::Tenth,
            Some(Size::Hundredth) => Scale::Hundredth,
            Some(Size::Full) | None => Scale::Full,
        }
    }

    /// The plans with all their designs, but for what [`Scale::shrink`] does; the scale is said.
    fn plans<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
        output: &Output,
    ) -> Result<Vec<Plan>, Failure> {
        let scale = self.scale();
        if scale != Scale::Full {
            let part = scale.word();
            output.note(&format!("scaled down: a {part} of the published data set, buffer and time"));
        }
        Ok(names.map(|name| scale.load(name)).collect::<Result<_, Error>>()?)
    }

    fn run_readings(&self, wanted: &[Wanted], output: &Output) -> Result<(), Failure> {
        let mut results = Vec::new();
        for (paper, variations) in self.variations(wanted, output)? {
            results.push(readings::measure(paper, &variations, self.scale(), &self.how, output)?);
        }
        let claims: Vec<ClaimOutcome> = results.iter().flat_map(|result| result.claims.clone()).collect();
        let kept = self.how.keep(&self.name_of_readings(), results, output)?;
        print(&kept.report, &claims, output)?;
        experiment::end(&kept)?;
        self.judge(&claims)
    }

    /// What a run of readings is called.
    fn name_of_readings(&self) -> String {
        format!("{}-readings", self.targets.join("+").replace('/', "-"))
    }

    /// The papers with their variations, at the scale in force.
    fn variations<'w>(
        &self,
        wanted: &'w [Wanted],
        output: &Output,
    ) -> Result<Vec<(&'w Paper, Vec<Variation>)>, Failure> {
        if self.targets.is_empty() {
            return Err(Failure::usage("--readings needs a paper: `weir list papers` shows them"));
        }
        let of = |Wanted { paper, plans, .. }: &'w Wanted| {
            let all = self.plans(paper.plans_of_claims().iter(), output)?;
            let variations = readings::variations(paper, &all, self.pairs, &self.how)?;
            let mut variations = lab::readings::kept_of(variations, plans, &self.designs)?;
            for variation in &mut variations {
                variation.shrink(self.scale());
            }
            Ok((paper, variations))
        };
        wanted.iter().map(of).collect()
    }

    /// The paper and its plans under the answers that were chosen.
    fn choose(&self, mut wanted: Vec<Wanted>, plans: Vec<Plan>) -> Result<(Vec<Wanted>, Vec<Plan>), Failure> {
        if self.choices.is_empty() {
            return Ok((wanted, plans));
        }
        let [Wanted { paper, .. }] = &mut wanted[..] else {
            return Err(Failure::usage("--choose needs one paper: `weir list papers` shows them"));
        };
        let chosen = paper.choose(&plans, &self.choices)?;
        *paper = chosen.paper;
        let note = format!("Read with {}; all else by default.", self.choices.join(", "));
        let noted = |plan: Plan| {
            let before = plan.note.clone().map(|before| before + " ").unwrap_or_default();
            Plan { note: Some(before + &note), ..plan }
        };
        Ok((wanted, chosen.plans.into_iter().map(noted).collect()))
    }

    fn run_plans(&self, wanted: Vec<Wanted>, output: &Output) -> Result<(), Failure> {
        let plans = self.plans(wanted.iter().flat_map(|wanted| &wanted.plans), output)?;
        let (wanted, mut plans) = self.choose(wanted, plans)?;
        for plan in &mut plans {
            if !self.designs.is_empty() {
                plan.keep_designs(&self.designs)?;
            }
            self.scale().shrink(plan);
            match self.repeats {
                Some(repeats) => plan.repeats = repeats,
                None if plan.is_random_and_short() => plan.repeats = plan.repeats.max(REPEATS),
                None => {}
            }
        }
        let mut results = if plans.is_empty() { Vec::new() } else { self.how.run(&plans, output)? };
        let apart = self.apart(&wanted, &mut results, output)?;
        let measured: Measured = results.iter().map(|result| (result.name.clone(), result.clone())).collect();
        let mut claims = Vec::new();
        for Wanted { paper, .. } in &wanted {
            for result in &mut results {
                let own = Measured::from([(result.name.clone(), result.clone())]);
                result.claims.extend(self.classed(paper, paper.judge(&own)).0);
            }
            let (judged, note) = self.classed(paper, paper.judge(&measured));
            note.inspect(|note| output.note(note));
            paper.tallied(&measured).iter().for_each(|tally| output.note(tally));
            if !output.is_json() && self.scale() == Scale::Full {
                seeds(&judged, output);
            }
            claims.extend(judged);
            let missing = apart.iter().filter(|plan| paper.apart.contains_key(&plan.name));
            missing.for_each(|plan| claims.extend(paper.not_run(plan)));
        }
        let name = if self.targets.is_empty() {
            "reproduce".to_owned()
        } else {
            self.targets.join("+").replace('/', "-")
        };
        let kept = self.how.keep(&name, results, output)?;
        print(&kept.report, &claims, output)?;
        experiment::end(&kept)?;
        self.judge(&claims)
    }

    /// Adds the last results of the plans that run apart from the others of whole papers; those of which there is none.
    fn apart(
        &self,
        wanted: &[Wanted],
        results: &mut Vec<ResultFile>,
        output: &Output,
    ) -> Result<Vec<Plan>, Failure> {
        let mut missing = Vec::new();
        let papers = wanted.iter().filter(|one| one.is_whole).map(|one| &one.paper);
        for (paper, name) in papers.flat_map(|paper| paper.apart.keys().map(move |name| (&paper.name, name)))
        {
            let whole = Plan::load(name, false)?;
            let small = self.scale().load(name)?;
            let Some((run, result)) = kept::last(paper, &whole).or_else(|| kept::last(paper, &small)) else {
                missing.push(whole);
                continue;
            };
            let of = result.environment.commit.as_deref().unwrap_or("an unnamed commit");
            output.note(&format!("{name} runs apart: its claims are of the run {run}, of {of}"));
            results.push(ResultFile { claims: Vec::new(), ..result });
        }
        Ok(missing)
    }

    /// Claims with their classes, and of which run of the readings these are. Under other answers than the defaults there are none.
    fn classed(&self, paper: &Paper, mut claims: Vec<ClaimOutcome>) -> (Vec<ClaimOutcome>, Option<String>) {
        let note = self.choices.is_empty().then(|| readings::classify(paper, &mut claims)).flatten();
        (claims, note)
    }

    /// The papers and plans that the targets name.
    fn wanted(&self) -> Result<Vec<Wanted>, Failure> {
        let all = || PAPERS.iter().map(|paper| paper.name.to_owned()).collect();
        let targets: Vec<String> = if self.targets.is_empty() { all() } else { self.targets.clone() };
        let mut figures: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for target in &targets {
            let (paper, figure) = target.split_once('/').unwrap_or((target, ""));
            let wanted = figures.entry(paper).or_default();
            wanted.extend((!figure.is_empty()).then(|| figure.to_owned()));
        }
        let load = |(paper, figures): (&str, Vec<String>)| {
            let paper = Paper::load(paper)?;
            let plans = paper.plans(&figures)?;
            Ok(Wanted { paper, plans, is_whole: figures.is_empty() })
        };
        figures.into_iter().map(load).collect()
    }

    fn judge(&self, claims: &[ClaimOutcome]) -> Result<(), Failure> {
        let missed = claims.iter().filter(|claim| claim.value.is_some() && !claim.holds).count();
        if self.strict && missed > 0 {
            return Err(Failure::new(Exit::Check, format!("{missed} measured claims do not hold")));
        }
        Ok(())
    }
}

/// The mean of what each seed came to, with its interval; nothing where there was one seed.
fn seeds(claims: &[ClaimOutcome], output: &Output) {
    let mut table = Table::new("Mean and 95 % interval over seeds");
    table.words("claim");
    for name in ["seeds", "mean", "from", "to"] {
        table.numbers(name);
    }
    for claim in claims {
        let Some((mean, half)) = mean_interval(&claim.by_seed) else { continue };
        let numbers = [mean, mean - half, mean + half].map(|value| format!("{value:.3}"));
        let seeds = claim.by_seed.len().to_string();
        table.rows.push([claim.id.clone(), seeds].into_iter().chain(numbers).collect());
    }
    if !table.rows.is_empty() {
        output.data(&table.to_text());
    }
}

/// The claims as JSON, or the report for people.
fn print(report: &Report, claims: &[ClaimOutcome], output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        output.data(&ClaimsFile::new(claims.to_vec()).to_json());
    } else {
        let format = ::report::by_name("terminal").expect("the terminal format is built in");
        output.data(&format.render(report)?);
    }
    Ok(())
}

fn list(wanted: &[Wanted], output: &Output) {
    if output.is_json() {
        let papers: Vec<_> = wanted.iter().map(|wanted| document(&wanted.paper)).collect();
        return output.document(&serde_json::json!({ "schema": "weir.papers/1", "papers": papers }));
    }
    for Wanted { paper, .. } in wanted {
        let rows = paper.figures.iter().map(|(figure, plan)| {
            let of = |claim: &&PaperClaim| plan.as_ref() == Some(&claim.measure.plan);
            let claims = several(paper.claims.iter().filter(of).count(), "claim");
            let is_apart = |plan: &String| paper.apart.contains_key(plan);
            let apart = if plan.as_ref().is_some_and(is_apart) { ", apart" } else { "" };
            let by = plan.as_ref().map_or("no plan".to_owned(), |plan| format!("plan {plan}{apart}"));
            (format!("{}/{figure}", paper.name), format!("{by} ({claims})"))
        });
        output.data(&format!("{}\n{}", paper.paper, columns(&rows.collect::<Vec<_>>())));
    }
}

fn document(paper: &Paper) -> serde_json::Value {
    let figures =
        paper.figures.iter().map(|(figure, plan)| serde_json::json!({ "figure": figure, "plan": plan }));
    let claims = paper.claims.iter().map(|claim| &claim.claim.id);
    serde_json::json!({
        "name": paper.name,
        "paper": paper.paper,
        "figures": figures.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
    })
}
