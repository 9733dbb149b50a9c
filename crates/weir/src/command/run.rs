//! `weir run`: a plan.

use clap::Args;
use lab::Plan;
use results::InputRecord;

use crate::beside::Beside;
use crate::experiment::{self, How};
use crate::failure::Failure;
use crate::output::{Output, several};
use crate::{inputs, store};

/// Run a plan; without NAME, the plan `quick`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir run my-plan.toml -o report.html · weir run --like result.json --only fs=hinfs"
)]
pub(crate) struct Run {
    /// The name of a plan (`weir list plans`), or a file
    #[arg(default_value = "quick", hide_default_value = true)]
    name: String,
    /// Run the plan of this result again: a file, a bundle, a folder, or the name of a run
    #[arg(long, value_name = "RESULT", conflicts_with_all = ["name", "quick"])]
    like: Option<String>,
    /// Run only the cells with this value of an axis; repeatable, for several axes
    #[arg(long, value_name = "AXIS=VALUE", hide_short_help = true)]
    only: Vec<String>,
    /// Run the plan's scaled-down variant
    #[arg(long)]
    quick: bool,
    /// Check the plan and print it with its defaults filled in; run nothing
    #[arg(long = "dry-run")]
    dry: bool,
    #[command(flatten)]
    beside: Beside,
    #[command(flatten)]
    how: How,
}

/// What is wrong in the figures, cells and expectations of a plan, all at once; its cells if nothing is.
pub(crate) fn check(plan: &Plan) -> Result<Vec<lab::CellSpec>, lab::Error> {
    let (figures, cells) = (experiment::check_figures(plan), plan.cells());
    let expectations = match &cells {
        Ok(cells) => plan.check_expectations(cells),
        Err(_) => plan.check_expected_names(),
    };
    match (figures, expectations, cells) {
        (Ok(()), Ok(()), Ok(cells)) => Ok(cells),
        (figures, expectations, cells) => {
            let wrong = [cells.err(), figures.err(), expectations.err()].into_iter().flatten();
            Err(lab::Error::together(wrong).expect("one of them is wrong"))
        }
    }
}

/// `4 cells, 6 repeats each`.
pub(crate) fn size(cells: usize, plan: &Plan) -> String {
    format!("{}, {} each", several(cells, "cell"), several(plan.repeats as usize, "repeat"))
}

/// The plan of this name and its cells, or all that is wrong with it: of a plan that can be read in part only, what is wrong with
/// the parts, unknown keys first.
pub(crate) fn load_and_check(name: &str, quick: bool) -> Result<(Plan, Vec<lab::CellSpec>), lab::Error> {
    let (partly, whole) = Plan::load_partly(name, quick);
    let whole = match whole {
        Ok(plan) => {
            let cells = check(&plan)?;
            if !quick {
                experiment::check_values(&plan, &cells)?;
            }
            return Ok((plan, cells));
        }
        Err(error) => error,
    };
    let figures = partly.iter().flat_map(experiment::figures).filter_map(|(_, spec)| spec.err());
    let (first, last): (Vec<_>, Vec<_>) =
        figures.partition(|error| error.to_string().contains("unknown field"));
    Err(lab::Error::together(first.into_iter().chain([whole]).chain(last)).expect("the plan is wrong"))
}

impl Run {
    /// The plan, and the texts that it must have where it is that of a result.
    fn plan(&self) -> Result<(Plan, Vec<InputRecord>), Failure> {
        let (mut plan, inputs) = match &self.like {
            None => (Plan::load(&self.name, self.quick)?, Vec::new()),
            Some(name) => match &store::read(name)?[..] {
                [only] => (Plan::from_json(&only.plan)?, only.inputs.clone()),
                several => {
                    let names: Vec<_> = several.iter().map(|result| result.name.as_str()).collect();
                    let message =
                        format!("{name} holds several results ({}): give the file of one", names.join(", "));
                    return Err(Failure::usage(message));
                }
            },
        };
        for (axis, value) in experiment::only(&self.only)? {
            plan.only(&axis, &value)?;
        }
        if !self.only.is_empty() {
            // What is expected of the whole plan says nothing of a part.
            plan.expect.clear();
        }
        Ok((plan, inputs))
    }

    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let (plan, inputs) = self.plan()?;
        let mut restored = plan.clone();
        let replaced = inputs::restore(&mut restored, &inputs, &inputs::folder()?)?;
        let cells = check(&restored)?.len();
        if !replaced.is_empty() {
            output.note(&format!("taken from the result, because here they differ: {}", replaced.join(", ")));
        }
        if self.dry {
            output.note(&size(cells, &plan));
            output.document(&plan.to_json());
            return Ok(());
        }
        let mut results = self.how.run(std::slice::from_ref(&restored), output)?;
        self.beside.note(&self.how, &mut results, output);
        if !replaced.is_empty() {
            // What is replaced goes on by the name that it had.
            let seed = results.first().map_or(plan.seed, |result| result.seed);
            for result in &mut results {
                result.plan = Plan { seed, ..plan.clone() }.to_json();
                result.inputs.clone_from(&inputs);
            }
        }
        let kept = self.how.keep(&plan.name, results, output)?;
        experiment::print(&kept.report, output)?;
        experiment::end(&kept)
    }
}
