//! What must hold of the errors: limits by number, each computed of all rows and once more without the rows by which constants were
//! chosen.
//!
//! | number | of which rows | must hold |
//! |---|---|---|
//! | 1 | all that count | bias 0.90 to 1.10 |
//! | 2 | all that count | median error at most 20 % |
//! | 3 | each class with five of them or more | bias 0.85 to 1.18 |
//! | 4 | all that count | 90th percentile of the factor at most 1.5 |
//! | 5 | pairs of designs whose published values differ by more than 25 % | none inverted where the hardware matches, two in all |
//! | 6 | the same | at most 5 tied |
//! | 7 | bandwidth by threads, 256 B (`opt.thr.*`) | each within 15 % of the published range; 24 threads by the peak within 15 % |
//! | 8 | bandwidth by size (`opt.size.*`), writes from 64 B, reads from 256 B | each within 20 % of the published range |
//! | 9 | idle and block latencies (`opt.lat*`) | each within 15 % |
//! | 10 | mix of one to one by the smaller of pure reads and pure writes, 4 threads (`opt.mix.4.*`) | 0.40 to 0.65 |
//! | 11 | metadata calls, one thread | each within its band, or 30 % |
//! | 12 | the kernel's calls on this host | each within 15 % |
//! | 14 | claims of papers | median error not above that of `before` |
//!
//! Limits 13 and 15 are of other commands: `weir bench --clock both --machine this-host`, and `weir reproduce`.

use std::collections::BTreeMap;

use results::statistics::median;
use results::validation::{Compared, Limit, Row, State};

use super::judge;

/// Every limit of `rows`, of all and of those by which nothing was chosen.
pub fn limits(rows: &[Row]) -> Vec<Limit> {
    let unfitted: Vec<Row> = rows.iter().filter(|row| !row.is_fitted()).cloned().collect();
    [("all", rows), ("unfitted", &unfitted)]
        .into_iter()
        .flat_map(|(scope, rows)| of_scope(scope, rows))
        .collect()
}

fn of_scope(scope: &str, rows: &[Row]) -> Vec<Limit> {
    let counted: Vec<&Row> = rows.iter().filter(|row| row.counts()).collect();
    let mut limits = errors(rows, &counted);
    limits.extend(orders(rows));
    limits.extend([
        by_threads(rows),
        by_size(rows),
        latencies(rows),
        mix(rows),
        metadata(rows),
        kernel(rows),
        claims(rows),
    ]);
    for limit in &mut limits {
        scope.clone_into(&mut limit.scope);
    }
    limits
}

fn limit(number: u32, what: &str, target: &str) -> Limit {
    Limit { number, what: what.to_owned(), target: target.to_owned(), ..Limit::default() }
}

/// A limit of something that may not be there.
fn judged(limit: Limit, found: Option<String>, holds: bool) -> Limit {
    let state = match (&found, holds) {
        (None, _) => State::NotComputed,
        (Some(_), true) => State::Pass,
        (Some(_), false) => State::Miss,
    };
    Limit { found: found.unwrap_or_else(|| "no row of this kind was measured".to_owned()), state, ..limit }
}

/// Limits 1 to 4.
fn errors(rows: &[Row], counted: &[&Row]) -> Vec<Limit> {
    let all = judge::summary("all", "all", counted);
    let within =
        |value: Option<f64>, low: f64, high: f64| value.is_some_and(|value| (low..=high).contains(&value));
    let number = |value: Option<f64>| value.map(|value| format!("×{value:.2}"));
    let percent = |value: Option<f64>| value.map(|value| format!("{:.0} %", value * 100.0));
    vec![
        judged(limit(1, "bias of all", "0.90 to 1.10"), number(all.bias), within(all.bias, 0.90, 1.10)),
        judged(
            limit(2, "median error of all", "at most 20 %"),
            percent(all.median_error),
            within(all.median_error, 0.0, 0.20),
        ),
        classes(rows),
        judged(
            limit(4, "90th percentile of the factor", "at most 1.5"),
            number(all.p90_factor),
            within(all.p90_factor, 1.0, 1.5),
        ),
    ]
}

/// A class with fewer rows has no bias of its own.
const LEAST_ROWS: u64 = 5;

fn classes(rows: &[Row]) -> Limit {
    let summaries = judge::summaries(rows);
    let classes = summaries.iter().filter(|one| one.by == "class" && one.compared >= LEAST_ROWS);
    let biases: Vec<(&str, f64)> = classes.filter_map(|one| Some((&*one.name, one.bias?))).collect();
    let found: Vec<String> = biases.iter().map(|(name, bias)| format!("{name} ×{bias:.2}")).collect();
    let outside = biases.iter().filter(|(_, bias)| !(0.85..=1.18).contains(bias));
    let missed: Vec<String> = outside.map(|(name, _)| (*name).to_owned()).collect();
    let holds = missed.is_empty();
    let limit = limit(3, "bias of each class with five rows or more", "0.85 to 1.18");
    judged(Limit { missed, ..limit }, (!found.is_empty()).then(|| found.join(", ")), holds)
}

/// Limits 5 and 6.
fn orders(rows: &[Row]) -> [Limit; 2] {
    let ranks = judge::ranks(rows);
    let all = &ranks[0];
    let pairs = all.concordant + all.inverted + all.tied;
    let matching = all.inversions.iter().filter(|pair| pair.matching).count();
    let said = |what: String| (pairs > 0).then_some(what);
    let missed = all.inversions.iter().map(|pair| format!("{} < {}", pair.better, pair.worse)).collect();
    let inverted = Limit {
        missed,
        ..limit(
            5,
            "inversions of designs that differ by more than 25 %",
            "none with matching hardware, at most 2 in all",
        )
    };
    [
        judged(
            inverted,
            said(format!("{} of {pairs} pairs, {matching} with matching hardware", all.inverted)),
            all.inverted <= 2 && matching == 0,
        ),
        judged(
            limit(6, "ties of such pairs", "at most 5"),
            said(format!("{} of {pairs} pairs", all.tied)),
            all.tied <= 5,
        ),
    ]
}

/// Rows of groups whose names begin so, which were measured and may be compared by value.
fn of_group<'r>(rows: &'r [Row], group: &str) -> Vec<&'r Row> {
    rows.iter().filter(|row| row.group.starts_with(group) && row.counts()).collect()
}

/// Whether the measured value is within `part` of the published range.
fn is_near(row: &Row, part: f64) -> bool {
    let (low, high) = row.published_range();
    row.measured.is_some_and(|measured| (low * (1.0 - part)..=high * (1.0 + part)).contains(&measured))
}

/// Every row must be inside.
fn each(limit: Limit, rows: &[&Row], inside: impl Fn(&Row) -> bool) -> Limit {
    let missed: Vec<String> = rows.iter().filter(|row| !inside(row)).map(|row| row.id.clone()).collect();
    let found = format!("{} of {} outside", missed.len(), rows.len());
    let holds = missed.is_empty();
    judged(Limit { missed, ..limit }, (!rows.is_empty()).then_some(found), holds)
}

fn by_threads(rows: &[Row]) -> Limit {
    let points = of_group(rows, "opt.thr.");
    let target = "each within 15 % of the published range, the ratio of 24 threads to the peak within 15 %";
    let mut judged =
        each(limit(7, "Optane bandwidth by threads, 256 B", target), &points, |row| is_near(row, 0.15));
    let mut curves: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in points {
        curves.entry(&row.group).or_default().push(row);
    }
    for (curve, rows) in curves {
        let Some((published, measured)) = decline(&rows) else { continue };
        let found = format!("; {curve}: 24 threads by the peak {measured:.2} (published {published:.2})");
        judged.found += &found;
        if (measured / published - 1.0).abs() > 0.15 {
            judged.missed.push(format!("{curve}: 24 threads by the peak"));
            judged.state = State::Miss;
        }
    }
    judged
}

/// The value of 24 threads by the largest one of the curve, published and measured.
fn decline(curve: &[&Row]) -> Option<(f64, f64)> {
    let last = curve.iter().find(|row| row.threads == 24)?;
    let most = |value: fn(&Row) -> f64| curve.iter().map(|row| value(row)).fold(0.0, f64::max);
    let measured = |row: &Row| row.measured.unwrap_or(0.0);
    Some((last.published / most(|row| row.published), measured(last) / most(measured)))
}

fn by_size(rows: &[Row]) -> Limit {
    let of_size = |row: &&&Row| {
        let least = if row.group.split('.').next_back() == Some("read") { 256 } else { 64 };
        row.size.parse::<u64>().is_ok_and(|size| size >= least)
    };
    let points = of_group(rows, "opt.size.");
    let points: Vec<&Row> = points.iter().filter(of_size).copied().collect();
    let limit = limit(8, "Optane bandwidth by size", "each within 20 % of the published range");
    each(limit, &points, |row| is_near(row, 0.20))
}

fn latencies(rows: &[Row]) -> Limit {
    let limit = limit(9, "idle and block latencies of Optane", "each within 15 %");
    each(limit, &of_group(rows, "opt.lat"), |row| row.error.is_some_and(|error| error <= 0.15))
}

fn mix(rows: &[Row]) -> Limit {
    let of = |id: &str| rows.iter().find(|row| row.id == id).and_then(|row| row.measured);
    let ratio = of("opt.mix.4.mix11").zip(of("opt.mix.4.R")).zip(of("opt.mix.4.W"));
    let ratio = ratio.map(|((mix, read), write)| mix / read.min(write));
    let limit = limit(
        10,
        "reads and writes one to one by the smaller of pure reads and pure writes, 4 threads",
        "0.40 to 0.65",
    );
    let holds = ratio.is_some_and(|ratio| (0.40..=0.65).contains(&ratio));
    judged(limit, ratio.map(|ratio| format!("{ratio:.2}")), holds)
}

fn metadata(rows: &[Row]) -> Limit {
    let calls: Vec<&Row> = rows
        .iter()
        .filter(|row| row.class == "meta" && row.threads == 1 && row.measured.is_some())
        .filter(|row| matches!(row.compared, Compared::Yes | Compared::Band))
        .collect();
    let limit = limit(11, "metadata calls of one thread", "each within 30 %");
    each(limit, &calls, |row| row.error.is_some_and(|error| error <= row.band.unwrap_or(0.30)))
}

fn kernel(rows: &[Row]) -> Limit {
    let calls: Vec<&Row> = rows.iter().filter(|row| row.live && row.counts()).collect();
    let limit = limit(12, "calls of this host's kernel", "each within 15 %");
    let judged = each(limit, &calls, |row| row.error.is_some_and(|error| error <= 0.15));
    match judged.state {
        State::NotComputed => {
            let found =
                "not measured: run `weir calibrate` on a quiet host, and give a directory on ext4 (--ext4)";
            Limit { found: found.to_owned(), ..judged }
        }
        _ => judged,
    }
}

/// A median that differs by less is unchanged.
const UNCHANGED: f64 = 0.005;

fn claims(rows: &[Row]) -> Limit {
    let claims = rows.iter().filter(|row| row.compared == Compared::Claim && row.measured.is_some());
    let claims: Vec<(&Row, f64)> =
        claims.filter_map(|row| Some((row, (row.before? / row.published - 1.0).abs()))).collect();
    let now = median(&claims.iter().filter_map(|(row, _)| row.error).collect::<Vec<_>>());
    let before = median(&claims.iter().map(|(_, error)| *error).collect::<Vec<_>>());
    let limit =
        limit(14, "median error of rows that are claims (NVMe)", "not above that of the model before");
    let both = now.zip(before);
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let found = both.map(|(now, before)| format!("{}, before {}", percent(now), percent(before)));
    judged(limit, found, both.is_some_and(|(now, before)| now <= before + UNCHANGED))
}
