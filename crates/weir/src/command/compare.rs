//! `weir compare`: results cell by cell.

use clap::Args;

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store;

/// Compare results cell by cell; several results, plan by plan.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir compare before.json after.json --fail-over 5%")]
pub(crate) struct Compare {
    /// The baseline: a file, a folder of a run, or the name of a run
    baseline: String,
    /// What is compared with it
    new: String,
    /// Differences below this are none
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "2%")]
    threshold: f64,
    /// Fail (exit code 1) when a cell is slower by more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_over: Option<f64>,
}

/// `5%` or `5` is 0.05.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n));
    number.map(|number| number / 100.0).ok_or_else(|| "expected a percentage such as 5%".to_owned())
}

impl Compare {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let (baseline, new) = (store::read(&self.baseline)?, store::read(&self.new)?);
        let compared =
            ::report::compare_all((&self.baseline, &baseline), (&self.new, &new), Some(self.threshold));
        match (output.is_json(), compared.single()) {
            (false, _) => output.data(&compared.to_text()),
            (true, Some(one)) => output.document(one),
            (true, None) => output.document(&compared),
        }
        let Some(limit) = self.fail_over else { return Ok(()) };
        let slower = compared.cells().filter(|cell| cell.comparison.ratio < 1.0 - limit).count();
        if slower > 0 {
            let message = format!("{slower} cells are slower by more than {:.1} %", limit * 100.0);
            return Err(Failure::new(Exit::Check, message));
        }
        Ok(())
    }
}
