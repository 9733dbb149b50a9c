//! How long cells will take: the smallest cell of each kind runs here, and the others are scaled by [`crate::cell::effort`].
//!
//! Lock order: none; a thread waits for the end of the time only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::Error;
use super::manifest::Estimate;
use crate::plan::Plan;
use crate::runner::{CellToRun, Progress, Runner, Settings};

/// Processor time of a unit of effort where no cell could be measured: a second of the clock for each thread's second, which is of
/// the order of what the kinds of cells take that are in `presets/plans`.
const USUAL: f64 = 1.0;
/// By how much a cell may take longer or less than its kind's smallest one says: effort only orders cells.
const DOUBT: f64 = 2.0;

/// Expected processor time of each cell by its key, and of all.
pub fn estimate(
    plans: &[Plan],
    cells: &[CellToRun],
    limit: Duration,
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<(BTreeMap<String, u64>, Estimate), Error> {
    let mut smallest: BTreeMap<&str, &CellToRun> = BTreeMap::new();
    for cell in cells {
        let least = smallest.entry(cell.kind.as_str()).or_insert(cell);
        if cell.effort < least.effort {
            *least = cell;
        }
    }
    let mut order: Vec<&CellToRun> = smallest.into_values().collect();
    order.sort_by_key(|cell| cell.effort);
    let measured = measure(plans, &order, limit, settings, progress)?;
    let usual = match measured.len() {
        0 => USUAL,
        count => measured.values().sum::<f64>() / count as f64,
    };
    let time = |cell: &CellToRun| {
        let each = measured.get(cell.kind.as_str()).copied().unwrap_or(usual);
        (cell.effort as f64 * each) as u64
    };
    let times: BTreeMap<String, u64> = cells.iter().map(|cell| (cell.key.clone(), time(cell))).collect();
    let all = times.values().fold(0_u64, |sum, time| sum.saturating_add(*time)) as f64;
    let basis = match measured.len() {
        0 => format!("no cell ended within {} s here: a guess from sizes and times", limit.as_secs()),
        count => format!("the smallest cell of {count} of {} kinds, run here", order.len()),
    };
    let (low_ns, high_ns) = ((all / DOUBT) as u64, (all * DOUBT) as u64);
    Ok((times, Estimate { low_ns, high_ns, basis }))
}

/// Processor time of a unit of effort by kind, of the kinds whose cell ended in time.
fn measure<'c>(
    plans: &[Plan],
    order: &[&'c CellToRun],
    limit: Duration,
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<BTreeMap<&'c str, f64>, Error> {
    let (began, user) = (Instant::now(), settings.interrupt.clone());
    let mut measured = BTreeMap::new();
    for cell in order {
        let Some(left) = limit.checked_sub(began.elapsed()) else { break };
        if user.load(Relaxed) {
            break;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let settings = Settings { jobs: 1, interrupt: Arc::clone(&stop), ..settings.clone() };
        let mut runner = Runner::new(settings, progress);
        let only = BTreeSet::from([cell.key.clone()]);
        let (end, ended) = channel::<()>();
        let ran = std::thread::scope(|scope| {
            // The end of the cell closes the channel.
            scope.spawn(move || {
                if ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                    stop.store(true, Relaxed);
                }
            });
            let ran = runner.measure_these(plans, &only);
            drop(end);
            ran
        });
        ran?;
        let whole = runner.sample(&cell.key).is_some_and(|sample| !sample.partial);
        if let Some(cost) = runner.cost(&cell.key).filter(|_| whole) {
            measured.insert(cell.kind.as_str(), cost.cpu_ns as f64 / cell.effort.max(1) as f64);
        }
    }
    Ok(measured)
}
