//! `weir run`: a plan.

use clap::Args;
use lab::Plan;

use crate::experiment::{self, How};
use crate::failure::Failure;
use crate::output::Output;
use crate::store;

/// Run a plan; without a name, a quick comparison.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: weir run my-plan.toml -o report.html · weir run --like result.json --only fs=hinfs"
)]
pub(crate) struct Run {
    /// A plan's name (`weir list plans`) or a file
    #[arg(default_value = "quick", hide_default_value = true)]
    name: String,
    /// Run the plan of this result again: a file, a folder, or the name of a run
    #[arg(long, value_name = "RESULT", conflicts_with_all = ["name", "quick"])]
    like: Option<String>,
    /// Only the cells with this value of an axis; repeatable
    #[arg(long, value_name = "AXIS=VALUE", hide_short_help = true)]
    only: Vec<String>,
    /// Take the plan's scaled-down variant
    #[arg(long)]
    quick: bool,
    /// Check the plan and print it resolved, without running it
    #[arg(long = "dry-run")]
    dry: bool,
    #[command(flatten)]
    how: How,
}

impl Run {
    fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = match &self.like {
            None => Plan::load(&self.name, self.quick)?,
            Some(name) => match &store::read(name)?[..] {
                [only] => Plan::from_json(&only.plan)?,
                several => {
                    let names: Vec<_> = several.iter().map(|result| result.name.as_str()).collect();
                    let message =
                        format!("{name} holds several results ({}): give the file of one", names.join(", "));
                    return Err(Failure::usage(message));
                }
            },
        };
        for text in &self.only {
            let pair = text.split_once('=');
            let (axis, value) =
                pair.ok_or_else(|| Failure::usage(format!("--only {text}: write axis=value")))?;
            plan.only(axis, value)?;
        }
        if !self.only.is_empty() {
            // What is expected of the whole plan says nothing of a part.
            plan.expect.clear();
        }
        Ok(plan)
    }

    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let plan = self.plan()?;
        experiment::check_figures(&plan)?;
        if self.dry {
            let cells = plan.cells()?.len();
            output.note(&format!("{cells} cells, {} repeats each", plan.repeats));
            output.document(&plan.to_json());
            return Ok(());
        }
        let results = self.how.run(std::slice::from_ref(&plan), output)?;
        let kept = self.how.keep(&plan.name, results, output)?;
        experiment::print(&kept.report, output)?;
        experiment::end(&kept)
    }
}
