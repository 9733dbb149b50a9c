//! Cells of simulators, to which no calls of a file system go: a processor under a logging scheme, crashes of it, a bare SSD.
//!
//! A processor's cell has counters that its own record leaves out and claims ask for: `stores` and `log_stores` of the program,
//! `nvram_written_bytes`, `dram_bytes`, `energy_fj`, and of the scheme `register_bytes`, `register_bytes.all_cores`, `tag_bits`.

use std::cell::RefCell;

use archsim::crash::{campaign, mutant::Mutant};
use archsim::run::{Prepared, run_prepared};
use archsim::{Config, Outcome, scheme};
use results::{OperationRecord, Sample, record};
use sim::Bytes;

use super::{Run, failed};
use crate::error::Error;
use crate::flash::host::HostCost;
use crate::flash::stream::Stream;
use crate::plan::{CellSpec, Stop};

thread_local! {
    /// What the last program of this host thread has built: the next cell often begins with the same structures.
    static PREPARED: RefCell<Option<Prepared>> = const { RefCell::new(None) };
}

/// A program under a scheme.
pub(super) fn on_processor(spec: &CellSpec, run: &Run, config: &Config) -> Result<Sample, Error> {
    let config = Config { seed: run.seed.0, ..config.clone() };
    let outcome = PREPARED.with_borrow_mut(|prepared| run_prepared(&config, prepared));
    let outcome = outcome.map_err(|error| failed(spec, error))?;
    let mut sample = outcome.sample(&config);
    sample.counters.extend(of_claims(&outcome, &config));
    Ok(sample)
}

/// One transaction of a program, span by span.
pub(super) fn timeline(spec: &CellSpec, run: &Run, config: &Config, number: u64) -> Result<Sample, Error> {
    let config = Config { seed: run.seed.0, ..config.clone() };
    let timeline = archsim::timeline::timeline(&config, number).map_err(|error| failed(spec, error))?;
    Ok(timeline.sample(&config))
}

/// What only claims ask for.
fn of_claims(outcome: &Outcome, config: &Config) -> Vec<(String, u64)> {
    let bytes = |each: f64| (each * outcome.transactions as f64).round() as u64;
    let mut counters = vec![
        ("stores", outcome.executed.stores),
        ("log_stores", outcome.executed.log_stores),
        ("nvram_written_bytes", bytes(outcome.written())),
        ("dram_bytes", bytes(outcome.dram_traffic())),
        ("energy_fj", outcome.energy.iter().sum::<u64>() * 10),
    ];
    if let Ok(scheme) = scheme::by_name(&outcome.scheme) {
        let registers = scheme.register_bytes();
        counters.push(("register_bytes", registers));
        counters.push(("register_bytes.all_cores", registers * config.machine.cores));
        counters.push(("tag_bits", scheme.tag_bits()));
    }
    counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Crashes of every program of the campaign: at least as many as the cell stops after, or with a mutant until one crash shows it.
pub(super) fn on_crashes(
    spec: &CellSpec,
    run: &Run,
    config: &Config,
    mutant: Option<Mutant>,
) -> Result<Sample, Error> {
    let config = Config { seed: run.seed.0, ..config.clone() };
    let Stop::Operations(points) = spec.stop else { return Err(failed(spec, "crashes are counted")) };
    let verdict = campaign(&config, mutant, points).map_err(|error| failed(spec, error))?;
    let mut sample = Sample { ops: verdict.points, ..Sample::default() };
    let counters = [
        ("crash_failures", verdict.failures),
        ("recoveries_crashed", verdict.nested),
        ("caught", u64::from(verdict.failures > 0)),
    ];
    sample.counters.extend(counters.map(|(name, count)| (name.to_owned(), count)));
    sample.operations.push(OperationRecord::new("crash"));
    Ok(sample)
}

/// Requests to a bare SSD.
pub(super) fn on_ssd(spec: &CellSpec, run: &Run, stream: Stream) -> Result<Sample, Error> {
    let no_ssd = || failed(spec, "the medium is no SSD");
    let (model, phase) = spec.block.as_ref().and_then(|block| block.ssd()).ok_or_else(no_ssd)?;
    let took = stream
        .run(model, phase, HostCost::of(&run.machine), run.seed)
        .map_err(|error| failed(spec, error))?;
    let mut sample = Sample {
        elapsed_ns: took.elapsed.0,
        ops: took.reads,
        read_ops: took.reads,
        read_bytes: took.bytes,
        throughput_ops_per_s: record::throughput(took.reads, took.elapsed.0),
        ..Sample::default()
    };
    sample.counters.insert("device_ns".to_owned(), took.device.0);
    let mut operation = OperationRecord::new("read");
    (operation.count, operation.total_ns, operation.bytes) = (took.reads, took.elapsed.0, took.bytes);
    sample.operations.push(operation);
    Ok(sample)
}

/// Memory that a program's structures and their copies take.
pub(super) fn memory(config: &Config) -> Bytes {
    let name = if config.scheme == archsim::run::UNSAFE_BASE { "unsafe-undo" } else { &config.scheme };
    let bytes = scheme::by_name(name)
        .map_or(0, |scheme| scheme::software::Layout::new(&config.machine, scheme, config.threads).bytes());
    Bytes(bytes * 2)
}
