//! `weir run`: a plan.

use clap::Args;
use lab::Plan;

use crate::experiment::{self, How};
use crate::failure::Failure;
use crate::output::Output;

/// Run a plan; without a name, a quick comparison.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir run my-plan.toml -o report.html")]
pub(crate) struct Run {
    /// A plan's name (`weir list plans`) or a file
    #[arg(default_value = "quick", hide_default_value = true)]
    name: String,
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
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let plan = Plan::load(&self.name, self.quick)?;
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
