//! `weir calibrate`: what CPU work costs on this host, or a memory by curves that another tool measured.

use std::path::PathBuf;

use clap::Args;
use lab::calibrate::from::{self, Errors, Made, Sheet};
use lab::calibrate::{Calibration, Injected};
use lab::machine::this_host_path;
use report::table::Table;
use report::units::percent;

use crate::failure::Failure;
use crate::output::Output;

/// Measure what CPU work costs on this host, for `--machine this-host`, or make a medium of measured curves.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir calibrate && weir bench varmail --fs pmfs --clock both --machine this-host \
                  · weir calibrate --from memory_curves.csv -o mine.toml && weir bench varmail --fs pmfs --medium mine.toml"
)]
pub(crate) struct Calibrate {
    /// Write the machine to this file instead of the user's configuration
    #[arg(short, long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the measurements; write no file
    #[arg(long)]
    dry_run: bool,
    /// Make a medium of this curve: memory_curves.csv of the Mess benchmark, or text of Intel's mlc --loaded_latency,
    /// --max_bandwidth or --idle_latency; repeatable
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// Percent of reads of each text of mlc --loaded_latency, in order: 100 without -W, 67 with -W2, 50 with -W5
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', requires = "from")]
    reads: Vec<f64>,
    /// The name of the medium [default: that of the output without its ending, or memory]
    #[arg(long, requires = "from")]
    name: Option<String>,
    /// Write the table [memory.model] of a machine's preset instead of a medium
    #[arg(long, requires = "from")]
    machine: bool,
    /// Channels of memory, where greatest bandwidths are all that is known
    #[arg(long, value_name = "N", requires = "from")]
    channels: Option<u64>,
    /// Transfers of a channel in millions a second, likewise
    #[arg(long, value_name = "MT/S", requires = "from")]
    rate: Option<u64>,
}

impl Calibrate {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        if let Some(path) =
            self.output.as_ref().filter(|path| path.extension().is_none_or(|end| end != "toml"))
        {
            let message = format!("{}: the name of a machine's file must end in .toml", path.display());
            return Err(Failure::usage(message));
        }
        if !self.from.is_empty() {
            return self.of_curves(output);
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

impl Calibrate {
    /// A medium of curves.
    fn of_curves(&self, output: &Output) -> Result<(), Failure> {
        let text = |path: &PathBuf| {
            let text = std::fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
            Ok::<_, Failure>((path.display().to_string(), text))
        };
        let files = self.from.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let stem = self
            .output
            .as_ref()
            .and_then(|path| path.file_stem())
            .map(|stem| stem.to_string_lossy().into_owned());
        let name = self.name.clone().or(stem).unwrap_or_else(|| "memory".to_owned());
        let made =
            from::make(&name, &files, &self.reads, Sheet { channels: self.channels, rate: self.rate })?;
        let written = match (self.machine, &made.table) {
            (false, _) => made.medium.to_toml(),
            (true, Some(table)) => table.clone(),
            (true, None) => {
                let message = "--machine needs a curve: greatest bandwidths alone make a medium (ddr)";
                return Err(Failure::usage(message));
            }
        };
        if output.is_json() {
            output.document(&made_document(&made));
        } else {
            output.data(&made_tables(&made));
        }
        match &self.output {
            Some(path) if !self.dry_run => {
                results::file::write_atomic(path, written)?;
                output.note(&format!(
                    "{}  {}",
                    if self.machine { "table" } else { "medium" },
                    path.display()
                ));
            }
            Some(_) => {}
            None => output.note("nothing is written: name a file with -o FILE.toml"),
        }
        Ok(())
    }
}

fn made_tables(made: &Made) -> String {
    let (read, dropped) = made.points;
    let title = format!(
        "{}: idle {} ns; {read} points, {dropped} of them past saturation or repeated",
        made.medium, made.idle
    );
    let title: String = title.chars().take(400).collect();
    let mut greatest = Table::new(title);
    greatest.numbers("% reads");
    greatest.numbers("greatest GB/s");
    for (reads, most) in &made.greatest {
        greatest.rows.push(vec![reads.to_string(), format!("{most:.1}")]);
    }
    let mut errors = Table::new("errors where a part is left out and predicted by the rest: mean, most");
    errors.words("left out");
    for name in ["points", "model", "", "idle latency", "", "a queue a channel", ""] {
        errors.numbers(name);
    }
    for one in &made.left_out {
        let parts = [one.model, one.idle, one.queue].into_iter();
        let shown = parts.flat_map(|errors: Errors| [percent(errors.mean), percent(errors.most)]);
        errors.rows.push([one.what.clone(), one.model.points.to_string()].into_iter().chain(shown).collect());
    }
    greatest.to_text() + "\n" + &errors.to_text()
}

fn made_document(made: &Made) -> serde_json::Value {
    let errors = |errors: Errors| serde_json::json!({ "points": errors.points, "mean": errors.mean, "most": errors.most });
    let left_out = made.left_out.iter().map(|one| {
        let (model, idle, queue) = (errors(one.model), errors(one.idle), errors(one.queue));
        serde_json::json!({ "left_out": one.what, "model": model, "idle_latency": idle, "queue": queue })
    });
    serde_json::json!({
        "schema": "weir.memory/1",
        "medium": made.medium.to_string(),
        "points": made.points.0, "dropped": made.points.1, "idle_ns": made.idle,
        "greatest_gb_per_s": made.greatest,
        "left_out": left_out.collect::<Vec<_>>(),
    })
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
