//! A paper whose claims a simulator measures, for `weir reproduce`: under the default readings, under each other one, and with one
//! mechanism changed at a time.

use archsim::reproduce::readings::ABLATIONS;
use archsim::reproduce::seeds::{Spread, spread};
use archsim::reproduce::variants::{self, Campaign, Measured, Variant};
use archsim::reproduce::{Arithmetic, Crashes, Matrix, Scale, figures, machine, run_all};
use lab::claims::Paper;
use report::table::Table;
use results::{ClaimOutcome, Clock, ReadingOutcome, ResultFile};
use serde_json::{Value, json};

use crate::experiment::{self, How};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Counter;

/// Crashes after which a mutant counts as not caught.
const PATIENCE: u64 = 100_000;

fn jobs(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Measures every claim of a paper whose subject is a simulator, into one result with a sample for each run.
pub(crate) fn measure(paper: &Paper, how: &How, quick: bool, output: &Output) -> Result<ResultFile, Failure> {
    let subject = paper.subject.as_deref().unwrap_or_default();
    if subject != "archsim" {
        return Err(Failure::new(Exit::Internal, format!("{}: no simulator \"{subject}\"", paper.name)));
    }
    let scale = if quick { Scale::QUICK } else { Scale::FULL };
    measure_at(paper, scale, (how.seed.unwrap_or(1), jobs(how.jobs)), output)
}

fn measure_at(
    paper: &Paper,
    scale: Scale,
    (seed, jobs): (u64, usize),
    output: &Output,
) -> Result<ResultFile, Failure> {
    let machine = machine(scale, None, &[])?;
    let figures = figures::runs(scale, seed)?;
    let all = Matrix::size() * scale.seeds + figures.len() as u64;
    let counter = Counter::new(output, "simulated runs", all);
    let measure = |seed| Matrix::measure(&machine, scale, seed, jobs, &|| counter.one_more());
    let matrix = measure(seed)?;
    let mut claims = vec![matrix.claims(Arithmetic::default())];
    for other in seed + 1..seed + scale.seeds {
        claims.push(measure(other)?.claims(Arithmetic::default()));
    }
    let spreads = spread(&claims);
    let configs: Vec<_> = figures.iter().map(|run| run.config.clone()).collect();
    let outcomes =
        run_all(&configs, jobs, &|| counter.one_more()).into_iter().collect::<Result<Vec<_>, _>>()?;
    let figures: Vec<_> = figures.into_iter().zip(outcomes).collect();
    drop(counter);
    let crashes = Crashes::explore(scale.crashes, PATIENCE, seed, &[])?;
    let mut values: Vec<_> = spreads.iter().map(|spread| (spread.id, spread.mean)).collect();
    values.extend(crashes.claims());
    if scale.seeds > 1 && !output.is_json() {
        output.data(&seeds_table(&spreads, scale).to_text());
    }
    let parameters: serde_json::Map<_, _> =
        machine.entries().into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let plan = json!({
        "name": paper.name, "ops": scale.ops, "crashes": scale.crashes, "machine": parameters, "figure": figures::specs(),
        "seeds": scale.seeds, "claims": spreads.iter().map(interval).collect::<Vec<_>>(),
    });
    let mut result = ResultFile::new(&paper.name, plan, seed, Clock::Virtual);
    describe(&mut result, &machine.name);
    result.samples = figures::samples(&matrix, &figures);
    result.samples.extend(figures::timelines(scale, seed)?);
    result.samples.extend(figures::crash_samples(&crashes, seed));
    result.claims = paper.judge_values(&values, seed);
    Ok(result)
}

/// Notes what was simulated, by which command and build.
fn describe(result: &mut ResultFile, machine: &str) {
    machine.clone_into(&mut result.machine);
    result.command = experiment::command();
    result.environment = lab::environment::capture();
}

/// A claim over seeds, as the result keeps it.
fn interval(spread: &Spread) -> Value {
    let Spread { id, mean, half } = *spread;
    json!({ "id": id, "mean": mean, "low": half.map(|half| mean - half), "high": half.map(|half| mean + half) })
}

fn seeds_table(spreads: &[Spread], scale: Scale) -> Table {
    let Scale { ops, seeds, .. } = scale;
    let mut table =
        Table::new(format!("Mean and 95 % interval over {seeds} seeds, {ops} transactions a run"));
    table.words("claim");
    for name in ["mean", "from", "to"] {
        table.numbers(name);
    }
    for Spread { id, mean, half } in spreads {
        let ends = half.map_or([*mean; 2], |half| [mean - half, mean + half]);
        let numbers = [*mean, ends[0], ends[1]].map(|value| format!("{value:.3}"));
        table.rows.push([(*id).to_owned()].into_iter().chain(numbers).collect());
    }
    table
}

/// All variants of a list, measured.
fn campaign(
    list: Vec<Variant>,
    ratios: bool,
    scale: Scale,
    (seed, jobs): (u64, usize),
    output: &Output,
) -> Result<Vec<Measured>, Failure> {
    let campaign = Campaign::new(list, ratios, scale, seed)?;
    let counter = Counter::new(output, "simulated runs", campaign.size());
    Ok(campaign.measure(jobs, &|| counter.one_more()))
}

/// Measures the claims of a paper whose subject is a simulator under every reading: a result with the class of each.
pub(crate) fn readings(
    paper: &Paper,
    how: &How,
    quick: bool,
    output: &Output,
) -> Result<ResultFile, Failure> {
    let seed = how.seed.unwrap_or(1);
    let scale = if quick { Scale::VARIANT } else { Scale::QUICK };
    let measured = campaign(variants::readings(quick), false, scale, (seed, jobs(how.jobs)), output)?;
    let judged: Vec<Vec<ClaimOutcome>> = measured.iter().map(|one| judge(paper, one, seed)).collect();
    if !output.is_json() {
        output.data(&values("under each reading", &measured, &judged).to_text());
    }
    let plan = json!({ "paper": paper.name, "ops": scale.ops, "crashes": scale.crashes, "variations": measured.len() });
    let mut result = ResultFile::new(format!("{}-readings", paper.name), plan, seed, Clock::Virtual);
    result.why = format!("Which claims of {} depend on what it leaves open?", paper.paper);
    describe(&mut result, &machine(scale, None, &[])?.name);
    result.claims = classed(&measured, &judged);
    Ok(result)
}

/// The claims under the default readings, each with what became of it under every one, the default first.
fn classed(measured: &[Measured], judged: &[Vec<ClaimOutcome>]) -> Vec<ClaimOutcome> {
    let under = |at: usize| -> Vec<ReadingOutcome> {
        let one = |(one, claims): (&Measured, &Vec<ClaimOutcome>)| {
            let Variant { what, by, .. } = one.variant.clone();
            ReadingOutcome { name: what, choice: by, value: claims[at].value, holds: claims[at].holds }
        };
        measured.iter().zip(judged).map(one).collect()
    };
    judged[0].iter().enumerate().map(|(at, claim)| claim.clone().under(under(at))).collect()
}

/// The claims that are ratios, with one mechanism changed at a time.
pub(super) fn ablations(seed: u64, output: &Output) -> Result<(), Failure> {
    let paper = Paper::load("hw-logging")?;
    let measured = campaign(variants::of(ABLATIONS), true, Scale::VARIANT, (seed, jobs(None)), output)?;
    let judged: Vec<Vec<ClaimOutcome>> = measured.iter().map(|one| judge(&paper, one, seed)).collect();
    if output.is_json() {
        let claims = classed(&measured, &judged);
        output.document(&json!({ "schema": "weir.claims/1", "claims": claims }));
    } else {
        output.data(&values("with one mechanism changed", &measured, &judged).to_text());
    }
    Ok(())
}

/// What became of every claim under a variant; one that cannot be simulated measures none.
fn judge(paper: &Paper, measured: &Measured, seed: u64) -> Vec<ClaimOutcome> {
    match &measured.values {
        Ok(values) => paper.judge_values(values, seed),
        Err(error) => {
            let reason = format!("not measured: {error}");
            let claims = paper.claims.iter();
            claims.map(|claim| claim.claim.not_measured(reason.clone(), seed, Clock::Virtual)).collect()
        }
    }
}

/// A line for each variant and a column for each claim whose value some variant changes. A star: it holds.
fn values(title_words: &str, measured: &[Measured], judged: &[Vec<ClaimOutcome>]) -> Table {
    let mut table = Table::new(format!("Claims {title_words}; * holds"));
    table.words("variant");
    let moves = |at: &usize| judged.iter().any(|claims| claims[*at].value != judged[0][*at].value);
    let columns: Vec<usize> = (0..judged[0].len()).filter(moves).collect();
    for at in &columns {
        table.numbers(judged[0][*at].id.trim_start_matches("hwlog."));
    }
    for (one, claims) in measured.iter().zip(judged) {
        let cell = |at: &usize| {
            let star = if claims[*at].holds { "*" } else { "" };
            format!("{}{star}", number(claims[*at].value))
        };
        table.rows.push([title(&one.variant)].into_iter().chain(columns.iter().map(cell)).collect());
    }
    table
}

fn title(variant: &Variant) -> String {
    let Variant { what, by, .. } = variant;
    if what == by { what.clone() } else { format!("{what}={by}") }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use archsim::crash::mutant::Mutant;
    use archsim::scheme::SCHEMES;
    use report::{Figure, Report};

    use super::*;
    use crate::cli::Global;

    /// So small that caches hold everything; what it measures says nothing.
    const SMALL: Scale = Scale {
        ops: 60,
        warmup: 40,
        seeds: 2,
        crashes: 80,
        sets: &[("footprint", "128KiB"), ("l2_size", "128KiB"), ("fwb_period", "4000")],
    };

    #[test]
    fn every_figure_of_the_report_can_be_drawn() {
        let paper = Paper::load("hw-logging").unwrap();
        let output = Output::new(&Global { json: false, quiet: true, verbose: false });
        let result = measure_at(&paper, SMALL, (1, 2), &output).unwrap();
        let report = Report::new(vec![result]).unwrap();
        let section = &report.sections[0];
        assert_eq!(section.figures.len(), 14);
        for spec in &section.figures {
            let figure =
                Figure::build(spec, &section.results).unwrap_or_else(|error| panic!("{}: {error}", spec.id));
            let spans = figure.panels.iter().map(|panel| panel.spans.len()).sum::<usize>();
            assert!(figure.points().count() + spans > 0, "{}", spec.id);
        }
        let crashes = section.results.samples.iter().filter(|sample| sample.axes["figure"] == "F10").count();
        let promising = SCHEMES.iter().filter(|scheme| scheme.promises).count();
        assert_eq!(crashes, promising + Mutant::ALL.len());
        let html = report::by_name("html").unwrap().render(&report).unwrap();
        assert!(!html.contains("could not be drawn"));
        if let Ok(path) = std::env::var("WEIR_TEST_PAGE") {
            std::fs::write(path, html).unwrap();
        }
    }
}
