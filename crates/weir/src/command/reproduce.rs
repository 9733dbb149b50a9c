//! `weir reproduce`: a paper's figures measured, published beside measured.

use std::collections::BTreeMap;

use clap::Args;
use lab::claims::{Measured, Paper, PaperClaim};
use lab::presets::PAPERS;
use lab::{Error, Plan};
use results::{ClaimOutcome, ClaimsFile, ResultFile};

use super::sim::claims as simulated;
use crate::experiment::{self, How};
use crate::failure::{Exit, Failure};
use crate::output::{Output, columns};

/// Measure a paper's figures and print published beside measured.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir reproduce hinfs/7 -o fig7.html")]
pub(crate) struct Reproduce {
    /// Papers or single figures: hinfs, hinfs/7 [default: all papers]
    #[arg(value_name = "PAPER[/FIGURE]")]
    targets: Vec<String>,
    /// List papers and figures instead
    #[arg(long)]
    list: bool,
    /// Take the plans' scaled-down variants: minutes instead of tens of minutes
    #[arg(long)]
    quick: bool,
    /// Measure each claim under every reading of what the paper leaves open, and print how far it depends on them
    #[arg(long)]
    readings: bool,
    /// Fail (exit code 1) when a measured claim does not hold
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    how: How,
}

/// A paper and those of its plans that are wanted.
struct Wanted {
    paper: Paper,
    plans: Vec<String>,
    figures: Vec<String>,
}

impl Reproduce {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let wanted = self.wanted()?;
        if self.list {
            list(&wanted, output);
            return Ok(());
        }
        if self.readings {
            return self.readings(&wanted, output);
        }
        let names = wanted.iter().flat_map(|wanted| &wanted.plans);
        let plans = names.map(|name| Plan::load(name, self.quick)).collect::<Result<Vec<_>, Error>>()?;
        if self.quick {
            output.note("scaled down: a tenth of the published data set, buffer and time");
        }
        let mut results = if plans.is_empty() { Vec::new() } else { self.how.run(&plans, output)? };
        let measured: Measured = results.iter().map(|result| (result.name.clone(), result.clone())).collect();
        let mut claims = Vec::new();
        for Wanted { paper, figures, .. } in &wanted {
            for result in &mut results {
                let own = Measured::from([(result.name.clone(), result.clone())]);
                result.claims.extend(paper.judge(&own));
            }
            claims.extend(paper.judge(&measured));
            if paper.subject.is_some() {
                let result = simulated::measure(paper, &self.how, self.quick, output)?;
                claims.extend(result.claims.iter().cloned());
                results.push(result);
                continue;
            }
            let alone = paper.judge_devices(figures)?;
            if !alone.is_empty() {
                let name = format!("{}-device", paper.name);
                let mut result =
                    ResultFile::new(name, serde_json::Value::Null, alone[0].seed, alone[0].clock);
                result.claims.clone_from(&alone);
                results.push(result);
                claims.extend(alone);
            }
        }
        let name = if self.targets.is_empty() {
            "reproduce".to_owned()
        } else {
            self.targets.join("+").replace('/', "-")
        };
        let report = self.how.keep(&name, results, output)?;
        if output.is_json() {
            output.data(&ClaimsFile::new(claims.clone()).to_json());
        } else {
            let format = ::report::by_name("terminal").expect("the terminal format is built in");
            output.data(&format.render(&report)?);
        }
        experiment::end(&report)?;
        self.judge(&claims)
    }

    /// The claims of simulated papers under every reading.
    fn readings(&self, wanted: &[Wanted], output: &Output) -> Result<(), Failure> {
        if let Some(other) = wanted.iter().find(|wanted| wanted.paper.subject.is_none()) {
            let advice = "only simulated papers have a run of readings; name one, as hw-logging";
            return Err(Failure::usage(format!("{}: {advice}", other.paper.name)));
        }
        for Wanted { paper, .. } in wanted {
            let claims = simulated::readings(paper, &self.how, self.quick, output)?;
            self.judge(&claims)?;
        }
        Ok(())
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
            Ok(Wanted { paper, plans, figures })
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

fn list(wanted: &[Wanted], output: &Output) {
    if output.is_json() {
        let papers: Vec<_> = wanted.iter().map(|wanted| document(&wanted.paper)).collect();
        return output.document(&serde_json::json!({ "schema": "weir.papers/1", "papers": papers }));
    }
    for Wanted { paper, .. } in wanted {
        let rows = paper.figures.iter().map(|(figure, plan)| {
            let of = |claim: &&PaperClaim| match (&claim.measure, plan) {
                (Some(measure), Some(plan)) => measure.plan == *plan,
                (None, None) => claim.claim.figure == *figure,
                _ => false,
            };
            let claims = paper.claims.iter().filter(of).count();
            let by = plan.as_ref().map_or("no plan".to_owned(), |plan| format!("plan {plan}"));
            (format!("{}/{figure}", paper.name), format!("{by}, {claims} claims"))
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
