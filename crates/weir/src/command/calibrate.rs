//! `weir calibrate`: what CPU work costs on this host.

use std::path::PathBuf;

use clap::Args;
use lab::calibrate::{Calibration, Injected};
use lab::machine::this_host_path;
use report::table::Table;
use report::units::percent;

use crate::failure::Failure;
use crate::output::Output;

/// Measure what CPU work costs on this host, for `--machine this-host`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: weir calibrate && weir bench varmail --fs pmfs --clock both --machine this-host"
)]
pub(crate) struct Calibrate {
    /// Write the machine to this file instead of the user's configuration
    #[arg(short, long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the measurements; write no file
    #[arg(long)]
    dry_run: bool,
}

impl Calibrate {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        if let Some(path) =
            self.output.as_ref().filter(|path| path.extension().is_none_or(|end| end != "toml"))
        {
            let message = format!("{}: the name of a machine's file must end in .toml", path.display());
            return Err(Failure::usage(message));
        }
        let found = lab::calibrate::calibrate(&|step| output.detail(&format!("measuring {step}")))?;
        if output.is_json() {
            output.document(&document(&found));
        } else {
            output.data(&(values(&found).to_text() + "\n" + &injected(&found.injected).to_text()));
        }
        if !found.noise.is_empty() {
            let noise = found.noise.join(", ");
            output.note(&format!("the host was busy meanwhile ({noise}): measure again when it is quiet"));
        }
        if !found.unsteady.is_empty() {
            let keys = found.unsteady.join(", ");
            output.note(&format!(
                "repeats differ by a factor of two or more, so predictions may be wrong by it: {keys}"
            ));
        }
        if self.dry_run {
            return Ok(());
        }
        let path = self.output.map_or_else(this_host_path, Ok)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|error| Failure::io("make the folder", folder, &error))?;
        }
        results::file::write_atomic(&path, found.preset.to_toml())?;
        output.note(&format!("machine  {}", path.display()));
        Ok(())
    }
}

fn values(found: &Calibration) -> Table {
    let mut table = Table::new("this host");
    table.words("work");
    table.numbers("cost");
    table.words("how it was measured");
    for value in &found.preset.values {
        let how = value.source.split_once(": ").map_or(value.source.as_str(), |(_, how)| how);
        table.rows.push(vec![value.key.to_owned(), people(&value.value), how.to_owned()]);
    }
    let kernel = vec!["(system call)".to_owned(), people(&format!("{} ps", found.kernel_call_ps))];
    table.rows.push(
        [kernel, vec!["getppid; for comparison, the in-process path does without".to_owned()]].concat(),
    );
    table
}

/// Picoseconds as nanoseconds.
fn people(value: &str) -> String {
    let ps = value.strip_suffix(" ps").and_then(|ps| ps.parse::<f64>().ok());
    ps.map_or_else(|| value.to_owned(), |ps| format!("{:.1} ns", ps / 1_000.0))
}

fn injected(delays: &[Injected]) -> Table {
    let mut table = Table::new("injected delays of a medium at 200 ns a line, real clock, median");
    for name in ["lines a flush", "asked for", "achieved", "error"] {
        table.numbers(name);
    }
    for delay in delays {
        let error = percent(delay.error());
        table.rows.push(vec![
            delay.lines.to_string(),
            delay.target.to_string(),
            delay.median.to_string(),
            error,
        ]);
    }
    table
}

fn document(found: &Calibration) -> serde_json::Value {
    let values =
        found.preset.values.iter().map(
            |value| serde_json::json!({ "key": value.key, "value": value.value, "source": value.source }),
        );
    let injected = found.injected.iter().map(|delay| {
        let (target, median) = (delay.target.0, delay.median.0);
        serde_json::json!({ "lines": delay.lines, "target_ns": target, "median_ns": median })
    });
    serde_json::json!({
        "schema": "weir.calibration/1",
        "values": values.collect::<Vec<_>>(),
        "injected": injected.collect::<Vec<_>>(),
        "kernel_call_ps": found.kernel_call_ps,
        "noise": found.noise,
        "unsteady": found.unsteady,
    })
}
