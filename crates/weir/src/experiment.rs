//! What `run`, `bench` and `reproduce` share: running plans with progress and Ctrl-C, and writing results.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use document::nearest;
use lab::campaign::engine;
use lab::campaign::estimate::estimate;
use lab::cells::Kept;
use lab::plan::free::{self, NOTHING};
use lab::{Plan, Runner, Settings, Silent, canonical, environment};
use report::{FigureSpec, Report};
use results::{FailureKind, ResultFile, Sample};
use sim::{Bytes, Clock};

use crate::command::campaign::duration;
use crate::failure::{Exit, Failure};
use crate::output::{Output, several};
use crate::progress::Bar;
use crate::store;
use crate::{inputs, interrupt};

/// How to run, and where results go.
#[derive(Args, Debug, Clone)]
pub(crate) struct How {
    /// Write a report to a .html .json[.gz] .csv .parquet .md .txt file
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) outputs: Vec<PathBuf>,
    /// Seed of all random numbers [default: the plan's, or 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Runs in parallel under the virtual clock [default: one for each core]
    #[arg(long, value_name = "N", value_parser = jobs, hide_short_help = true)]
    pub(crate) jobs: Option<usize>,
    /// Memory that parallel runs may use together [default: nine tenths of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = memory, hide_short_help = true)]
    pub(crate) memory: Option<Bytes>,
    /// Save the image of each cell, unmounted, in this folder
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) save_image: Option<PathBuf>,
    /// After each run, check the image and the content of every file
    #[arg(long)]
    pub(crate) check: bool,
    /// Whether to look what tasks wait for in the kernel, on directories of the host; commands that can have a flag of their own.
    #[arg(skip)]
    pub(crate) kernel_locks: bool,
    /// Whether to leave the files of runs in directories of the host; likewise.
    #[arg(skip)]
    pub(crate) keep_files: bool,
}

/// From so many runs on it is said before how long they take.
const LONG: usize = 200;
/// Time for that.
const ESTIMATES: Duration = Duration::from_secs(5);

/// The least that a run of its own takes.
const LEAST_MEMORY: Bytes = Bytes(64 << 20);
/// More runs side by side than this are a mistake.
const MOST_JOBS: usize = 4096;

pub(crate) fn jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=MOST_JOBS).contains(jobs));
    jobs.ok_or_else(|| format!("expected a number from 1 to {MOST_JOBS}; without --jobs, one for each core"))
}

pub(crate) fn memory(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if size >= LEAST_MEMORY {
        return Ok(size);
    }
    Err("expected at least 64MiB, which the smallest run takes; without --memory, nine tenths of the free memory"
        .to_owned())
}

impl How {
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            jobs: self.jobs.unwrap_or(0),
            memory: self.memory,
            save_image: self.save_image.clone(),
            check: self.check,
            kernel_locks: self.kernel_locks,
            keep_files: self.keep_files,
            interrupt: interrupt::flag(),
            worker: vec!["/proc/self/exe".into(), crate::command::worker::NAME.into()],
            counted: counted(),
            is_watched: false,
        }
    }

    /// Checks before a run that what comes after it can be written.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        self.outputs.iter().try_for_each(|path| store::check_report(path))?;
        self.save_image.iter().try_for_each(|folder| store::prepare_images(folder))?;
        store::prepare()
    }

    /// Runs the plans together. After an interrupt the results so far are marked partial.
    pub(crate) fn run(&self, plans: &[Plan], output: &Output) -> Result<Vec<ResultFile>, Failure> {
        let plans: Vec<Plan> =
            plans.iter().cloned().map(|plan| Plan { seed: self.seed.unwrap_or(plan.seed), ..plan }).collect();
        for plan in &plans {
            check_figures(plan)?;
            plan.cells()?;
        }
        let axes = plans.iter().flat_map(|plan| &plan.axis).filter(|axis| axis.name == "medium");
        let values = axes.flat_map(|axis| &axis.values);
        let withdrawn: BTreeSet<&str> =
            values.filter_map(|value| media::medium::withdrawn(&value.value)).collect();
        for advice in withdrawn {
            output.note(advice);
        }
        self.prepare()?;
        let settings = self.settings();
        let bar = Bar::new(output.shows_progress(), output.tells_progress());
        let mut runner = Runner::new(settings, &bar);
        let inputs: Vec<_> = plans.iter().map(inputs::of).collect();
        self.go_on(&plans, &mut runner, output)?;
        self.tell_time(&plans, &runner, output)?;
        for plan in &plans {
            output.detail(&format!("plan {}: {}", plan.name, plan.why));
        }
        let mut results = runner.run_all(&plans)?;
        for (result, inputs) in results.iter_mut().zip(inputs) {
            result.command = command();
            result.inputs = inputs;
        }
        leave_cells(&runner, &results, output);
        Ok(results)
    }

    /// Says before a long run how long it will take, from runs of the smallest cell of each kind.
    fn tell_time(&self, plans: &[Plan], runner: &Runner<'_>, output: &Output) -> Result<(), Failure> {
        let mut cells = Runner::cells(plans)?;
        cells.retain(|cell| runner.sample(&cell.key).is_none());
        let is_told = output.shows_progress() || output.tells_progress();
        let has_real = plans.iter().any(|plan| plan.clock == Clock::Real);
        if cells.len() < LONG || !is_told || has_real {
            return Ok(());
        }
        let (_, all) = estimate(plans, &cells, ESTIMATES, &self.settings(), &Silent)?;
        let jobs = self.jobs.unwrap_or_else(environment::cores).clamp(1, environment::cores().max(1));
        let wall = |cpu_ns: u64| duration(cpu_ns / jobs as u64);
        output.note(&format!(
            "{}, {} to {} on {} (by {}); what an interrupted run has kept does not run again",
            several(cells.len(), "run"),
            wall(all.low_ns),
            wall(all.high_ns),
            several(jobs, "core"),
            all.basis
        ));
        Ok(())
    }

    /// Takes the cells that a run of these plans with these texts by this build has kept because it was interrupted or cells of it
    /// failed, and keeps those that run now. A run beside another of the same plans, and one that looks at images, keeps none.
    fn go_on(&self, plans: &[Plan], runner: &mut Runner<'_>, output: &Output) -> Result<(), Failure> {
        if self.check || self.save_image.is_some() || plans.iter().all(|plan| plan.clock == Clock::Real) {
            return Ok(());
        }
        // The keys of the cells, which have the texts that plans name.
        let keys: Vec<String> = Runner::cells(plans)?.into_iter().map(|cell| cell.key).collect();
        let name = format!("run-{}.jsonl", &canonical::sha256(keys.join("\n"))[..16]);
        let path = store::data()?.join("cells").join(name);
        match Kept::open(&path, &environment::build().unwrap_or_default()) {
            Ok((kept, known)) => {
                if !known.is_empty() {
                    output.note(&format!(
                        "reusing {} cells that an earlier run of this command has kept",
                        known.len()
                    ));
                }
                runner.keep_in((kept, known));
            }
            Err(error) => output.detail(&format!("cells are not kept: {error}")),
        }
        Ok(())
    }

    /// Keeps the results in the data folder, writes the reports that were asked for, and says where they are. What cannot be
    /// written is told at the end, by [`end`]: the results are printed all the same.
    pub(crate) fn keep(
        &self,
        name: &str,
        results: Vec<ResultFile>,
        output: &Output,
    ) -> Result<Written, Failure> {
        let (folder, mut lost) = match save(name, &results) {
            Ok(folder) => (Some(folder), None),
            Err(failure) => (save_aside(name, &results).ok(), Some(failure)),
        };
        let report = Report::new(results)?;
        let page = folder.as_ref().map(|folder| folder.join("report.html"));
        let outputs = self.outputs.iter().map(|path| store::write_report(&report, path, output));
        let own = page.iter().map(|path| store::write_as(&report, store::format_of(path)?, path, output));
        for failure in outputs.chain(own).filter_map(Result::err) {
            lost.get_or_insert(failure);
        }
        if let Some(folder) = &folder {
            output.note(&format!("results  {}", folder.display()));
        }
        let named = self.outputs.iter().find(|path| path.extension().is_some_and(|e| e == "html"));
        if let Some(page) = named.or(page.as_ref()) {
            output.note(&format!("report   {}", page.display()));
        }
        let place = folder.map_or("the result is kept nowhere".to_owned(), |folder| {
            format!("the result is in {}", folder.display())
        });
        let lost =
            lost.map(|failure| Failure { message: format!("{}; {place}", failure.message), ..failure });
        Ok(Written { report, lost })
    }
}

/// Leaves the cells of a run that was interrupted, or in which some failed, for the same command to go on with. What goes wrong is
/// told, and loses no result.
fn leave_cells(runner: &Runner<'_>, results: &[ResultFile], output: &Output) {
    let Some(kept) = runner.kept() else { return };
    if let Some(error) = kept.failure() {
        output.note(&format!("not every cell was kept for a later run: {error}"));
    }
    let is_whole = |result: &ResultFile| !result.partial && result.samples.iter().all(Sample::is_measured);
    if !results.iter().all(is_whole) {
        output.note("repeat the command to run the remaining cells");
    } else if let Err(error) = kept.remove() {
        output.note(&format!("repeating the command will reuse the cells of this run: {error}"));
    }
}

/// What was kept of a run.
pub(crate) struct Written {
    /// The report.
    pub(crate) report: Report,
    /// What could not be written.
    lost: Option<Failure>,
}

fn save(name: &str, results: &[ResultFile]) -> Result<PathBuf, Failure> {
    let folder = store::new_folder(name)?;
    save_in(&folder, results)?;
    Ok(folder)
}

/// The same in the folder of temporary files.
fn save_aside(name: &str, results: &[ResultFile]) -> Result<PathBuf, Failure> {
    let folder = store::new_folder_in(&std::env::temp_dir(), &format!("weir-{name}"))?;
    save_in(&folder, results)?;
    Ok(folder)
}

fn save_in(folder: &Path, results: &[ResultFile]) -> Result<(), Failure> {
    for result in results {
        let file =
            if results.len() == 1 { "result.json".to_owned() } else { format!("{}.json", result.name) };
        result.write(folder.join(file))?;
    }
    Ok(())
}

/// The command that runs one cell while it is watched: this program by its file, since qemu loads it and not the kernel.
pub(crate) fn counted() -> Vec<OsString> {
    let program = std::env::current_exe().into_iter().map(PathBuf::into_os_string);
    program.chain([crate::command::worker::COUNTED.into()]).collect()
}

/// Ends a run whose results have been printed: with what was lost, interrupted, failed, or expected in vain, in this order.
pub(crate) fn end(kept: &Written) -> Result<(), Failure> {
    match &kept.lost {
        Some(lost) => Err(lost.clone()),
        None => end_of(&kept.report),
    }
}

/// The same where nothing was lost.
pub(crate) fn end_of(report: &Report) -> Result<(), Failure> {
    let results = || report.sections.iter().map(|section| &section.results);
    if results().any(|result| result.partial) {
        return Err(Failure::new(
            Exit::Interrupted,
            "interrupted; the results so far are written, marked partial",
        ));
    }
    failed_cells(results())?;
    lost_images(results())?;
    failed_operations(results())?;
    results().try_for_each(free_of_nothing)?;
    let hypotheses = results().flat_map(|result| &result.hypotheses);
    let missed: Vec<&str> = hypotheses.filter(|one| !one.holds).map(|one| one.says.as_str()).collect();
    match &missed[..] {
        [] => Ok(()),
        [one] => Err(Failure::new(Exit::Check, format!("the plan expected {one}, which does not hold"))),
        several => Err(Failure::new(
            Exit::Check,
            format!("{} expectations of the plan do not hold: {}", several.len(), several.join("; ")),
        )),
    }
}

/// Cells that failed fail the command, which has kept the others.
fn failed_cells<'r>(results: impl Iterator<Item = &'r ResultFile>) -> Result<(), Failure> {
    let samples: Vec<&Sample> = results.flat_map(|result| &result.samples).collect();
    let failed = || samples.iter().filter_map(|sample| Some((*sample, sample.failure.as_ref()?)));
    let worst = failed().max_by_key(|(_, failure)| failure.kind);
    let Some((sample, failure)) = worst else { return Ok(()) };
    let exit = match failure.kind {
        FailureKind::Run => Exit::Run,
        FailureKind::Corrupt => Exit::Corrupt,
    };
    let message = format!(
        "{} of {} runs failed, the others are kept; {}: {}",
        failed().count(),
        samples.len(),
        lab::cell::title(&sample.axes),
        failure.what
    );
    Err(Failure::new(exit, message))
}

/// Images that were asked for and could not be written fail the command, which has kept what was measured.
fn lost_images<'r>(results: impl Iterator<Item = &'r ResultFile>) -> Result<(), Failure> {
    let samples: Vec<&Sample> = results.flat_map(|result| &result.samples).collect();
    let lost: Vec<_> =
        samples.iter().filter(|sample| sample.counters.contains_key(lab::cell::IMAGE_LOST)).collect();
    let Some(first) = lost.first() else { return Ok(()) };
    let why = first.notes.last().map_or("", String::as_str);
    let (lost, all) = (lost.len(), samples.len());
    Err(Failure::new(
        Exit::Run,
        format!("{lost} of {all} images were not kept, the results are: {}", why.trim_end_matches('.')),
    ))
}

/// Operations that failed fail the command, unless the workload provides for them.
fn failed_operations<'r>(results: impl Iterator<Item = &'r ResultFile>) -> Result<(), Failure> {
    let samples: Vec<&Sample> = results.flat_map(|result| &result.samples).collect();
    let differs = |sample: &&&Sample| sample.counters.get("replay.differing").is_some_and(|count| *count > 0);
    if let Some(sample) = samples.iter().find(differs) {
        // The first note says how many, the second which one is the first.
        let told: Vec<&str> = sample.notes.iter().take(2).map(String::as_str).collect();
        let cell = lab::cell::title(&sample.axes);
        return Err(Failure::new(Exit::Run, format!("{cell}: {}", told.join("; the first: "))));
    }
    match samples.iter().map(|sample| sample.errors).sum() {
        0_u64 => Ok(()),
        1 => Err(Failure::new(Exit::Run, "1 operation failed; the report says where")),
        count => Err(Failure::new(Exit::Run, format!("{count} operations failed; the report says where"))),
    }
}

/// A lock or line that was made free and that no task had waited for makes no difference.
fn free_of_nothing(result: &ResultFile) -> Result<(), Failure> {
    let locked = || result.samples.iter().filter(|sample| sample.axis("free") == Some(NOTHING));
    let operations = locked().flat_map(|sample| &sample.operations);
    let waits = operations.flat_map(|op| op.lock_wait_ns.keys().chain(op.line_wait_ns.keys()));
    let waited: BTreeSet<&str> = waits.map(String::as_str).collect();
    let mut freed = result.axis_values("free").into_iter().flat_map(free::names);
    let without_waits = freed.find(|name| !waited.contains(name));
    match without_waits.filter(|_| locked().next().is_some()) {
        None => Ok(()),
        Some(name) => Err(Failure::new(
            Exit::Check,
            format!(
                "no task waited for \"{name}\" while nothing was free, so that freeing it changes nothing; waited for: {}",
                waited.into_iter().collect::<Vec<_>>().join(", ")
            ),
        )),
    }
}

/// Figures are checked before anything runs, as everything else in a plan: what they say, and the axes that they name.
pub(crate) fn check_figures(plan: &Plan) -> Result<(), lab::Error> {
    let implied: &[&str] = if plan.is_of_processors() {
        &["workload", "scheme", "machine", "threads"]
    } else {
        &["workload", "medium"]
    };
    let axes = || plan.axis.iter().map(|axis| axis.name.as_str()).chain(implied.iter().copied());
    let wrong = figures(plan).flat_map(|(figure, spec)| {
        let spec = match spec {
            Ok(spec) => spec,
            Err(error) => return vec![error],
        };
        let unknown = spec.axes().filter(|name| !axes().any(|axis| axis == *name));
        let told = unknown.map(|name| {
            let advice = nearest(name, axes());
            figure.at.problem(format!(
                "figure \"{}\" names \"{name}\", which is no axis of the plan; {advice}",
                spec.id
            ))
        });
        told.collect()
    });
    lab::Error::together(wrong).map_or(Ok(()), Err)
}

/// The values that the figures of a whole plan name must be those of its cells: a scaled-down variant leaves some out.
pub(crate) fn check_values(plan: &Plan, cells: &[lab::CellSpec]) -> Result<(), lab::Error> {
    let mut wrong = Vec::new();
    for (figure, spec) in figures(plan).filter_map(|(figure, spec)| Some((figure, spec.ok()?))) {
        for (key, axis, value) in spec.named_values() {
            let values: BTreeSet<&str> =
                cells.iter().filter_map(|cell| cell.axes.get(axis)).map(String::as_str).collect();
            if !values.is_empty() && !values.contains(value) {
                let advice = nearest(value, values.iter().copied());
                wrong.push(figure.at.problem(format!(
                    "figure \"{}\": {key} names \"{value}\", which no cell of the plan has as {axis}; {advice}",
                    spec.id
                )));
            }
        }
    }
    lab::Error::together(wrong).map_or(Ok(()), Err)
}

/// The figures of a plan, each read by itself, whatever the axes are.
pub(crate) fn figures(
    plan: &Plan,
) -> impl Iterator<Item = (&lab::plan::FigureText, Result<FigureSpec, lab::Error>)> {
    plan.figure.iter().enumerate().map(|(number, figure)| {
        let spec = FigureSpec::read(number, &figure.text);
        (figure, spec.map_err(|error| figure.at.problem(error.to_string())))
    })
}

/// The axes and values of `--only`, each axis once.
pub(crate) fn only(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut only = BTreeMap::new();
    for text in texts {
        let pair = text.split_once('=');
        let (axis, value) = pair.ok_or_else(|| Failure::usage(format!("--only {text}: write AXIS=VALUE")))?;
        if only.insert(axis.to_owned(), value.to_owned()).is_some() {
            return Err(Failure::usage(format!("--only names {axis} twice: give one value of an axis")));
        }
    }
    Ok(only)
}

/// The command as it was given, as one types it in a shell, without this host's paths.
pub(crate) fn command() -> String {
    let plain = |argument: String| match std::path::Path::new(&argument) {
        path if path.is_absolute() => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        _ => argument,
    };
    let told = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let arguments: Vec<String> = told.skip(1).map(|word| engine::quoted(&plain(word))).collect();
    format!("weir {}", arguments.join(" "))
}

/// Prints the report: tables for people, or the results as JSON.
pub(crate) fn print(report: &Report, output: &Output) -> Result<(), Failure> {
    let name = if output.is_json() { "json" } else { "terminal" };
    let format = report::by_name(name).expect("both formats are built in");
    output.data(&format.render(report)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(errors: u64) -> Written {
        let mut result = ResultFile::new("plan", serde_json::Value::Null, 1, results::Clock::Virtual);
        result.samples = vec![Sample { errors, ops: 1, elapsed_ns: 1, ..Sample::default() }];
        Written { report: Report::new(vec![result]).unwrap(), lost: None }
    }

    #[test]
    fn operations_that_failed_fail_every_command_that_runs_a_plan() {
        assert!(end(&kept(0)).is_ok());
        let failure = end(&kept(2)).unwrap_err();
        assert_eq!(
            (failure.exit, &*failure.message),
            (Exit::Run, "2 operations failed; the report says where")
        );
    }

    #[test]
    fn a_lock_or_line_that_no_task_waited_for_is_told_when_it_was_made_free() {
        let sample = |free: &str| {
            let mut sample = Sample::new([("free".to_owned(), free.to_owned())].into(), 0, 1);
            let mut write = results::OperationRecord::new("write");
            write.lock_wait_ns.insert("pmfs.inode".to_owned(), 7);
            write.line_wait_ns.insert("vfs.references".to_owned(), 7);
            sample.operations = vec![write];
            sample
        };
        let result = |name: &str| {
            let mut result = ResultFile::new("plan", serde_json::Value::Null, 1, results::Clock::Virtual);
            result.samples = vec![sample(NOTHING), sample(name)];
            result
        };
        for waited in ["pmfs.inode", "vfs.references", "pmfs.inode+vfs.references"] {
            assert!(free_of_nothing(&result(waited)).is_ok(), "{waited}");
        }
        for name in ["pmfs.blocks", "pmfs.inode+pmfs.blocks"] {
            let Failure { message, .. } = free_of_nothing(&result(name)).unwrap_err();
            let parts = ["no task waited for \"pmfs.blocks\"", "waited for: pmfs.inode, vfs.references"];
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
    }
}
