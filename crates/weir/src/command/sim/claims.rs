//! A paper whose claims a simulator measures, for `weir reproduce`.

use archsim::reproduce::{Arithmetic, Crashes, Matrix, Scale, machine};
use lab::claims::Paper;
use results::{Clock, ResultFile};
use serde_json::json;

use crate::experiment::How;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Counter;

/// Measures every claim of a paper whose subject is a simulator, into one result with a sample for each run.
pub(crate) fn measure(paper: &Paper, how: &How, quick: bool, output: &Output) -> Result<ResultFile, Failure> {
    let subject = paper.subject.as_deref().unwrap_or_default();
    if subject != "archsim" {
        return Err(Failure::new(Exit::Internal, format!("{}: no simulator \"{subject}\"", paper.name)));
    }
    let scale = if quick { Scale::QUICK } else { Scale::FULL };
    let seed = how.seed.unwrap_or(1);
    let jobs =
        how.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let machine = machine(scale, None)?;
    let counter = Counter::new(output.shows_progress(), "simulated runs", Matrix::size());
    let matrix = Matrix::measure(&machine, scale, seed, jobs, &|| counter.one_more())?;
    drop(counter);
    let crashes = Crashes::explore(scale.crashes, seed)?;
    let mut values = matrix.claims(Arithmetic::default());
    values.extend(crashes.claims());
    let parameters: serde_json::Map<_, _> =
        machine.entries().into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let plan =
        json!({ "name": paper.name, "ops": scale.ops, "crashes": scale.crashes, "machine": parameters });
    let mut result = ResultFile::new(&paper.name, plan, seed, Clock::Virtual);
    result.machine.clone_from(&machine.name);
    result.samples = matrix.runs().map(|(config, outcome)| outcome.sample(config)).collect();
    result.claims = paper.judge_values(&values, seed);
    Ok(result)
}
