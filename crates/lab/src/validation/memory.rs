//! Memory under load beside memories that know nothing of it (N7): one with its idle latency at every traffic, and one with a queue
//! of constant service for each of eight channels (M/D/1).
//!
//! Both are told what was measured of the curve that a row is a point of: its idle latency, and its greatest traffic. The model
//! has neither.

use std::collections::BTreeMap;

use results::statistics::mean;
use results::validation::{Control, Row};
use sim::Rate;

use super::controls::{control, found};

/// Servers of the queue.
const CHANNELS: f64 = 8.0;
/// The model's mean error may be this part of that of the better of the two.
const PART: f64 = 0.5;

/// The idle latencies and greatest traffics of the curves of some rows.
#[derive(Debug, Default)]
pub struct Unloaded<'r> {
    /// Idle latency in nanoseconds and greatest traffic in GB/s, by the group of a curve.
    curves: BTreeMap<&'r str, (Option<f64>, Option<f64>)>,
}

impl<'r> Unloaded<'r> {
    /// Those of these rows.
    pub fn of(rows: &'r [Row]) -> Self {
        let mut curves: BTreeMap<&str, (Option<f64>, Option<f64>)> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.published > 0.0) {
            let has = |form: &str| row.command.split_whitespace().any(|word| word == form);
            let curve = curves.entry(&row.group).or_default();
            if has("--chase") {
                curve.0 = curve.0.or(Some(row.published));
            } else if has("--max") {
                curve.1 = curve.1.or(Some(row.published));
            }
        }
        Self { curves }
    }

    /// Predictions of a row by an idle latency and by a queue, in nanoseconds; none where it is no latency under load, or its curve
    /// has no idle latency or greatest traffic.
    pub fn predict(&self, row: &Row) -> Option<(f64, f64)> {
        let traffic = traffic(row)?;
        let (idle, most) = self.curves.get(row.group.as_str())?;
        let (idle, most) = ((*idle)?, (*most)?);
        let busy = (traffic / most).min(0.99);
        // The time of a line on one channel, half of which is waited for as often as the channel is busy.
        let service = 64.0 / (most / CHANNELS);
        Some((idle, idle + service * busy / (2.0 * (1.0 - busy))))
    }
}

/// The traffic beside a load in GB/s, by the row's command.
fn traffic(row: &Row) -> Option<f64> {
    let mut words = row.command.split_whitespace().skip_while(|word| *word != "--traffic").skip(1);
    let Rate(bytes) = words.next()?.parse().ok()?;
    Some(bytes as f64 / 1e9)
}

/// Errors of one row: of the model, an idle latency, a queue.
type Errors = [f64; 3];

/// The model's errors beside those of the two, of the rows that count.
pub(super) fn under_load(rows: &[Row]) -> Control {
    let control = control(
        "N7",
        "latency of memory under load beside an idle latency at every traffic, and beside a queue of constant service a channel",
        "mean error at most half of that of the better of the two",
    );
    let unloaded = Unloaded::of(rows);
    let of = |row: &Row| -> Option<Errors> {
        let (idle, queue) = unloaded.predict(row)?;
        let error = |value: f64| (value / row.published - 1.0).abs();
        Some([row.error?, error(idle), error(queue)])
    };
    let all: Vec<(&Row, Errors)> =
        rows.iter().filter(|row| row.counts()).filter_map(|row| Some((row, of(row)?))).collect();
    let Some((said, means)) = told(all.iter().map(|(_, errors)| *errors)) else {
        return found(
            control,
            "no latency under load was measured whose curve has an idle and a greatest row",
            None,
        );
    };
    let mut lines = Vec::new();
    for (what, is_fitted) in [("without fitted rows", false), ("fitted rows", true)] {
        let some = all.iter().filter(|(row, _)| row.is_fitted() == is_fitted).map(|(_, errors)| *errors);
        lines.extend(told(some).map(|(said, _)| format!("{what}: {said}")));
    }
    let mut curves: BTreeMap<&str, Vec<Errors>> = BTreeMap::new();
    for (row, errors) in &all {
        curves.entry(&row.group).or_default().push(*errors);
    }
    lines.extend(
        curves.into_iter().filter_map(|(curve, errors)| {
            told(errors.into_iter()).map(|(said, _)| format!("{curve}: {said}"))
        }),
    );
    let holds = means[0] <= PART * means[1].min(means[2]);
    found(Control { lines, ..control }, said, Some(holds))
}

/// The number of rows and the three means, in words and as numbers; none of none.
fn told(errors: impl Iterator<Item = Errors>) -> Option<(String, Errors)> {
    let errors: Vec<Errors> = errors.collect();
    let of = |index: usize| errors.iter().map(|errors| errors[index]).collect::<Vec<f64>>();
    let most = of(0).into_iter().fold(0.0, f64::max);
    let means = [mean(&of(0))?, mean(&of(1))?, mean(&of(2))?];
    let [model, idle, queue] = means.map(|part| part * 100.0);
    let rows = errors.len();
    let most = most * 100.0;
    let said = format!(
        "{rows} rows: mean {model:.1} %, most {most:.1} %; an idle latency {idle:.1} %, a queue {queue:.1} %"
    );
    Some((said, means))
}
