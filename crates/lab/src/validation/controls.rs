//! What tells a model from factors: shapes (N1), the null model (N2), sources left out (N3), constants of one design (N5), ratios
//! of designs (N6). N4, each change alone, compares two documents of `weir validate`: [`alone`]. N7 is in [`super::memory`].

use std::collections::BTreeMap;

use results::statistics::{geometric_mean, mean, median};
use results::validation::{Control, Row, State, ValidationFile};

use super::judge::{self, family};
use crate::originals;

/// The controls of `rows`. `calibration` are the rows that come with Weir, on which the null model is fitted.
pub fn controls(rows: &[Row], calibration: &[Row]) -> Vec<Control> {
    vec![shapes(rows), null(rows, calibration), sources(rows, calibration), constants(), ratios(rows)]
}

pub(super) fn control(name: &str, what: &str, target: &str) -> Control {
    let (name, what, target) = (name.to_owned(), what.to_owned(), target.to_owned());
    Control { name, what, target, ..Control::default() }
}

/// What was found, and whether it holds; nothing where there is nothing to compute from.
pub(super) fn found(control: Control, found: impl Into<String>, holds: Option<bool>) -> Control {
    let state = match holds {
        None => State::NotComputed,
        Some(true) => State::Pass,
        Some(false) => State::Miss,
    };
    Control { found: found.into(), state, ..control }
}

// ---- N1 ----

/// Sizes of which shapes are made: from one block on.
const SIZES: std::ops::RangeInclusive<u64> = 4..=32;
const FOUR_KIB: f64 = 4096.0;

/// Fixed cost, and cost of 4 KiB, of each operation and design: published and measured, in nanoseconds.
fn shapes(rows: &[Row]) -> Control {
    let control = control(
        "N1",
        "fixed cost and cost of 4 KiB of each operation and design, 4 to 32 KiB",
        "each within 25 %",
    );
    // Blocks of 4 KiB, time published, time measured.
    type Points = Vec<(f64, f64, f64)>;
    let mut curves: BTreeMap<(String, String), Points> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.counts() && row.threads == 1 && row.unit == "MiB/s") {
        if let (Some((operation, bytes)), Some(design)) = (point(row), &row.design) {
            let time = |rate: f64| bytes / (rate * 1_048_576.0) * 1e9;
            let measured = row.measured.unwrap_or(f64::NAN);
            let point = (bytes / FOUR_KIB, time(row.published), time(measured));
            curves.entry((operation, design.clone())).or_default().push(point);
        }
    }
    let (mut lines, mut missed, mut all) = (Vec::new(), 0, 0);
    for ((operation, design), points) in curves {
        let line = |value: fn(&(f64, f64, f64)) -> f64| {
            least_squares(&points.iter().map(|point| (point.0, value(point))).collect::<Vec<_>>())
        };
        let Some((published, measured)) = line(|p| p.1).zip(line(|p| p.2)) else { continue };
        let near = |of: fn((f64, f64)) -> f64| (of(measured) / of(published) - 1.0).abs() <= 0.25;
        let holds = [near(|l| l.0), near(|l| l.1)];
        all += 2;
        missed += holds.iter().filter(|holds| !**holds).count();
        let mark = |holds: bool| if holds { "" } else { "*" };
        lines.push(format!(
            "{operation} {design}: published {:.0} + {:.0}, Weir {:.0}{} + {:.0}{} ns",
            published.0,
            published.1,
            measured.0,
            mark(holds[0]),
            measured.1,
            mark(holds[1])
        ));
    }
    let control = Control { lines, ..control };
    match all {
        0 => found(control, "no curve of three sizes was measured", None),
        _ => found(control, format!("{missed} of {all} outside (*)"), Some(missed == 0)),
    }
}

/// The operation of a row on a curve over sizes, and the size: `wofs.write.4k` has `wofs.write` and 4096.
fn point(row: &Row) -> Option<(String, f64)> {
    let (operation, size) = row.group.rsplit_once('.')?;
    let kib: u64 = size.strip_suffix('k')?.parse().ok()?;
    SIZES.contains(&kib).then(|| (operation.to_owned(), kib as f64 * 1024.0))
}

/// The line through points by least squares, its value at 0 and its slope; none through fewer than three.
pub fn least_squares(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    if points.len() < 3 {
        return None;
    }
    let x = mean(&points.iter().map(|point| point.0).collect::<Vec<_>>())?;
    let y = mean(&points.iter().map(|point| point.1).collect::<Vec<_>>())?;
    let squares: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let products: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let slope = products / squares;
    slope.is_finite().then_some((y - slope * x, slope))
}

// ---- N2 ----

/// The model that knows nothing: what the model before gave, times one factor for each design and operation.
///
/// Factors are geometric means of published by `before` over the rows to calibrate with. A row to calibrate with is predicted by
/// the factor of the others only. A design without rows of the operation has the factor of the operation over all designs.
#[derive(Debug, Default)]
pub struct NullModel {
    factors: BTreeMap<(String, String), Vec<(String, f64)>>,
}

impl NullModel {
    /// The null model that is fitted on these rows.
    pub fn fit(rows: &[Row]) -> Self {
        let mut model = Self::default();
        for row in rows.iter().filter(|row| row.compared == results::validation::Compared::Yes) {
            if let Some(before) = row.before.filter(|before| *before > 0.0) {
                let factor = row.published / before;
                model.factors.entry(key(row)).or_default().push((row.id.clone(), factor));
            }
        }
        model
    }

    /// What it predicts of a row; none where it knows nothing of the operation.
    pub fn predict(&self, row: &Row) -> Option<f64> {
        let before = row.before.filter(|before| *before > 0.0)?;
        let (subject, operation) = key(row);
        let own = self.factors.get(&(subject, operation.clone())).into_iter().flatten();
        let others =
            self.factors.iter().filter(|((_, of), _)| *of == operation).flat_map(|(_, factors)| factors);
        let without = |factors: &mut dyn Iterator<Item = &(String, f64)>| {
            let factors: Vec<f64> =
                factors.filter(|(id, _)| *id != row.id).map(|(_, factor)| *factor).collect();
            geometric_mean(&factors)
        };
        let factor = without(&mut own.clone()).or_else(|| without(&mut others.clone()))?;
        Some(before * factor)
    }
}

/// The design, or the medium where there is none, and the operation.
fn key(row: &Row) -> (String, String) {
    let subject = row.design.clone().unwrap_or_else(|| row.preset.clone());
    let operation = row.what.split(',').next().unwrap_or_default();
    (subject, format!("{} {operation} {}", row.class, family(&row.id)))
}

fn null(rows: &[Row], calibration: &[Row]) -> Control {
    let control = control(
        "N2",
        "error in logarithms beside a null model: the results before, times a factor for each design and operation",
        "at most 0.6 of the null model's, on rows that neither was made from",
    );
    let model = NullModel::fit(calibration);
    let (mut ours, mut its) = (Vec::new(), Vec::new());
    let any_held = rows.iter().any(|row| row.counts() && !row.calibration);
    for row in rows.iter().filter(|row| row.counts() && !row.is_fitted() && (!any_held || !row.calibration)) {
        if let (Some(speed), Some(predicted)) = (row.speed, model.predict(row)) {
            ours.push(sim::math::ln(speed).abs());
            its.push(sim::math::ln(predicted / row.published).abs());
        }
    }
    let kind = if any_held { "held back" } else { "to calibrate with, each predicted from the others" };
    let count = ours.len();
    match mean(&ours).zip(mean(&its)) {
        Some((ours, its)) if its > 0.0 => {
            let said =
                format!("{count} rows {kind}: {ours:.3}, null model {its:.3}, ratio {:.2}", ours / its);
            found(control, said, Some(ours / its <= 0.6))
        }
        _ => found(control, "no row has a value of the model before", None),
    }
}

// ---- N3 ----

/// Sources by none of whose rows a constant was chosen, while constants were chosen by rows of others.
fn sources(rows: &[Row], calibration: &[Row]) -> Control {
    let control = control(
        "N3",
        "sources that no constant was chosen by, where constants were chosen by others",
        "bias 0.80 to 1.25, median error at most 30 %",
    );
    let mut parts: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        parts.entry(family(&row.id)).or_default().push(row);
    }
    let fitted = |rows: &[&Row]| rows.iter().filter(|row| row.is_fitted()).count();
    if parts.values().all(|rows| fitted(rows) == 0) {
        let elsewhere = calibration.iter().filter(|row| row.is_fitted()).count();
        let why = match elsewhere {
            0 => "no preset names a row in `fitted_on`: there is no constant to be chosen without a source"
                .to_owned(),
            rows => format!(
                "no constant was chosen by these rows; {rows} rows that come with Weir chose some, and are not among them"
            ),
        };
        return found(control, why, None);
    }
    let (mut lines, mut holds) = (Vec::new(), true);
    for (name, rows) in parts.iter().filter(|(_, rows)| fitted(rows) == 0) {
        let one = judge::summary("source", name, rows);
        let Some((bias, error)) = one.bias.zip(one.median_error) else { continue };
        holds &= (0.80..=1.25).contains(&bias) && error <= 0.30;
        lines.push(format!(
            "{name}: {} rows, bias ×{bias:.2}, median error {:.0} %",
            one.compared,
            error * 100.0
        ));
    }
    let said = format!("{} sources left out", lines.len());
    let state = (!lines.is_empty()).then_some(holds);
    found(Control { lines, ..control }, said, state)
}

// ---- N4 ----

/// A class may become worse by this much.
const WORSE: f64 = 0.05;

/// One change alone: errors of each class in `before` and in `after`, on rows that both measured.
pub fn alone(before: &ValidationFile, after: &ValidationFile) -> Control {
    let control = control(
        "N4",
        "a change alone: the rows that it is for improve",
        "no class has a median error or a bias that is worse by more than 5 %",
    );
    let counted = |file: &ValidationFile, id: &str| file.rows.iter().any(|row| row.id == id && row.counts());
    let both: Vec<&Row> = after.rows.iter().filter(|row| row.counts() && counted(before, &row.id)).collect();
    let mut classes: Vec<&str> = both.iter().map(|row| &*row.class).collect();
    classes.sort_unstable();
    classes.dedup();
    let (mut lines, mut holds) = (Vec::new(), true);
    for class in &classes {
        let of = |rows: &[Row]| {
            let is_one = |row: &&Row| row.class == *class && both.iter().any(|other| other.id == row.id);
            judge::summary("class", class, &rows.iter().filter(is_one).collect::<Vec<_>>())
        };
        let (old, new) = (of(&before.rows), of(&after.rows));
        let numbers = old.bias.zip(new.bias).zip(old.median_error.zip(new.median_error));
        let Some(((old_bias, bias), (old_error, error))) = numbers else { continue };
        let worse =
            error > old_error + WORSE || sim::math::ln(bias).abs() > sim::math::ln(old_bias).abs() + WORSE;
        holds &= !worse;
        lines.push(format!(
            "{class}: {} rows, bias ×{old_bias:.2} to ×{bias:.2}, median error {:.0} % to {:.0} %{}",
            new.compared,
            old_error * 100.0,
            error * 100.0,
            if worse { ", worse" } else { "" }
        ));
    }
    let said = format!("{} rows in both", both.len());
    found(Control { lines, ..control }, said, (!both.is_empty()).then_some(holds))
}

// ---- N5 ----

fn constants() -> Control {
    let control = control(
        "N5",
        "constants of a design's own",
        "at most 8 of a design, none that only one operation uses: files of more are refused, so that this cannot miss",
    );
    let Ok(designs) = originals::all() else {
        return found(control, "presets/originals cannot be read", None);
    };
    let counts: Vec<_> =
        designs.iter().map(|(design, prices)| format!("{design} {}", prices.len())).collect();
    let holds = designs.iter().all(|(_, prices)| prices.len() <= originals::MOST);
    let line = |design: &str, price: &originals::Price| {
        let (part, ns) = (&price.part, price.ps / 1_000);
        format!("{design}.{part}: {ns} ns, in {}", price.operations.join(", "))
    };
    let lines = designs.iter().flat_map(|(design, prices)| prices.iter().map(|price| line(design, price)));
    found(Control { lines: lines.collect(), ..control }, counts.join(", "), Some(holds))
}

// ---- N6 ----

fn ratios(rows: &[Row]) -> Control {
    let control = control("N6", "ratios between designs in a group", "within 25 %, not only the sign");
    let pairs = judge::all_pairs(rows);
    let error = |pair: &judge::Pair<'_>| (pair.measured / pair.published - 1.0).abs();
    let errors: Vec<f64> = pairs.iter().map(error).collect();
    let outside = pairs.iter().filter(|pair| error(pair) > 0.25);
    let lines: Vec<String> = outside
        .map(|pair| {
            let (better, worse) = (&pair.better.id, &pair.worse.id);
            format!("{better} by {worse}: published {:.2}, Weir {:.2}", pair.published, pair.measured)
        })
        .collect();
    match median(&errors) {
        None => found(control, "no two designs of a group were measured", None),
        Some(middle) => {
            let said = format!("{} of {} outside, median {:.0} %", lines.len(), errors.len(), middle * 100.0);
            let holds = lines.is_empty();
            found(Control { lines, ..control }, said, Some(holds))
        }
    }
}
