//! Tables of `weir validate`: rows, errors, orders, limits, controls.

mod page;

pub use page::page;

use results::validation::{Compared, Control, Limit, Ranks, Row, State, Summary, ValidationFile};

use crate::table::Table;
use crate::units::digits;

/// What a model predicts of a row.
pub type Predict<'p> = &'p dyn Fn(&Row) -> Option<f64>;

/// All tables, with the values of a null model beside those of the model if there is one.
pub fn tables(found: &ValidationFile, null: Option<Predict<'_>>) -> Vec<Table> {
    let mut tables = vec![rows(found, null), left_out(found), summaries(&found.summaries)];
    tables.push(believed(found));
    tables.push(ranks(&found.ranks));
    tables.push(limits(&found.limits));
    tables.push(controls(&found.controls));
    tables.extend(found.controls.iter().filter(|control| !control.lines.is_empty()).map(lines));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

const NONE: &str = "–";

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), digits)
}

fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| NONE.to_owned(), |part| format!("{:.0} %", part * 100.0))
}

fn factor(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("×{value:.2}"))
}

/// Every row that was measured, and those of this host's kernel beside which nothing is modelled.
fn rows(found: &ValidationFile, null: Option<Predict<'_>>) -> Table {
    let shown = found.rows.iter().filter(|row| row.measured.is_some() || row.live);
    let measured = found.rows.iter().filter(|row| row.measured.is_some()).count();
    let mut table = Table::new(format!(
        "{measured} rows measured of {}; the speed of Weir is above ×1 where it is too fast",
        found.rows.len()
    ));
    table.words("row");
    for name in ["published", "measured"] {
        table.numbers(name);
    }
    table.words("unit");
    for name in ["error", "speed"] {
        table.numbers(name);
    }
    if null.is_some() {
        table.numbers("null model");
        table.numbers("its error");
    }
    table.words("counts");
    for row in shown {
        let live = if row.live { " (measured now)" } else { "" };
        let mut cells = vec![
            row.id.clone(),
            number((row.published > 0.0).then_some(row.published)),
            number(row.measured),
            format!("{}{live}", row.unit),
            percent(row.error),
            factor(row.speed),
        ];
        if let Some(null) = null {
            let predicted = null(row);
            cells.push(number(predicted));
            cells.push(percent(predicted.map(|predicted| (predicted / row.published - 1.0).abs())));
        }
        cells.push(counts(row));
        table.rows.push(cells);
    }
    table
}

/// In which way a row counts.
fn counts(row: &Row) -> String {
    let way = match (row.compared, row.band) {
        (Compared::Yes, _) => "yes".to_owned(),
        (Compared::Band, Some(band)) => format!("within {:.0} %", band * 100.0),
        (Compared::Band, None) => "in a band".to_owned(),
        (Compared::Sign, _) => "order".to_owned(),
        (Compared::Bound, _) => "bound".to_owned(),
        (Compared::Claim, _) => "claim".to_owned(),
        (Compared::Predicted, _) => "predicted".to_owned(),
        (Compared::No, _) => "no".to_owned(),
    };
    if row.is_fitted() { format!("{way}, fitted: {}", row.fitted_by.join(", ")) } else { way }
}

/// Rows without numbers, by the kind of reason. Of a reason that every row has for itself, every row.
fn left_out(found: &ValidationFile) -> Table {
    let without = found.rows.iter().filter(|row| row.left_out.is_some()).count();
    let mut table = Table::new(format!("{without} rows left out"));
    table.words("why");
    table.numbers("rows");
    table.words("which, and what to do");
    for kind in &found.left_out {
        let own = |row: &&Row| row.left_out.as_ref().is_some_and(|why| why.kind == kind.kind);
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for row in found.rows.iter().filter(own) {
            let why = row.left_out.as_ref().map_or("", |why| &*why.why);
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, ids)) => ids.push(&row.id),
                None => reasons.push((why, vec![&row.id])),
            }
        }
        for (why, ids) in reasons {
            let names = match &ids[..] {
                [first, .., last] if ids.len() > 3 => format!("{first} … {last}"),
                few => few.join(", "),
            };
            table.rows.push(vec![kind.kind.clone(), ids.len().to_string(), format!("{names}: {why}")]);
        }
    }
    table
}

fn summaries(summaries: &[Summary]) -> Table {
    let mut table = Table::new("Errors of the rows that count");
    table.words("by");
    table.words("name");
    for name in ["rows", "counted", "bias", "median error", "median factor", "90 % of factors", "within 20 %"]
    {
        table.numbers(name);
    }
    for one in summaries.iter().filter(|one| !one.by.starts_with("part")) {
        table.rows.push(vec![
            one.by.clone(),
            one.name.clone(),
            one.rows.to_string(),
            one.compared.to_string(),
            factor(one.bias),
            percent(one.median_error),
            number(one.median_factor),
            number(one.p90_factor),
            percent(one.within_20),
        ]);
    }
    table
}

/// The parts of the model and their errors, as its rows say it.
fn believed(found: &ValidationFile) -> Table {
    let mut table = Table::new("What may be believed of modelled times");
    table.words("of the model");
    for name in ["rows", "bias", "half within", "nine of ten within"] {
        table.numbers(name);
    }
    table.words("without the rows that chose a constant");
    let is_part = |one: &&Summary| one.by == "part" && one.compared > 0;
    for one in found.summaries.iter().filter(is_part) {
        let mut left = found.summaries.iter().filter(|other| other.by == "part, nothing chosen");
        let others = left.find(|other| other.name == one.name);
        let said = match others {
            Some(other) if other.compared == one.compared => "the same: none did".to_owned(),
            Some(other) if other.compared > 0 => format!(
                "{}: bias {}, half within {}, nine of ten within {}",
                other.compared,
                factor(other.bias),
                percent(other.median_error),
                factor(other.p90_factor)
            ),
            _ => "none is left".to_owned(),
        };
        table.rows.push(vec![
            one.name.clone(),
            one.compared.to_string(),
            factor(one.bias),
            percent(one.median_error),
            factor(one.p90_factor),
            said,
        ]);
    }
    let pairs = found.ranks.iter().find(|ranks| ranks.class == "all");
    if let Some(all) = pairs.filter(|all| all.concordant + all.inverted + all.tied > 0) {
        let pairs = all.concordant + all.inverted + all.tied;
        let said = format!("{} as published, {} inverted, {} level", all.concordant, all.inverted, all.tied);
        let none = || NONE.to_owned();
        table.rows.push(vec![
            "orders of designs".to_owned(),
            pairs.to_string(),
            none(),
            none(),
            none(),
            said,
        ]);
    }
    table
}

fn ranks(ranks: &[Ranks]) -> Table {
    let mut table = Table::new("Orders of designs whose published values differ by more than 25 %");
    table.words("class");
    for name in ["as published", "inverted", "within 2 %", "Kendall's tau"] {
        table.numbers(name);
    }
    table.words("inverted: better, worse");
    for one in ranks {
        let pair = |pair: &results::validation::Inversion| format!("{} < {}", pair.better, pair.worse);
        let pairs = if one.class == "all" { Vec::new() } else { one.inversions.iter().map(pair).collect() };
        let few = match &pairs[..] {
            [first, _, .., last] if pairs.len() > 2 => format!("{first} … {last}"),
            few => few.join("; "),
        };
        table.rows.push(vec![
            one.class.clone(),
            one.concordant.to_string(),
            one.inverted.to_string(),
            one.tied.to_string(),
            one.tau.map_or_else(|| NONE.to_owned(), |tau| format!("{tau:.2}")),
            few,
        ]);
    }
    table
}

fn word(state: State) -> String {
    match state {
        State::Pass => "pass",
        State::Miss => "MISS",
        State::NotComputed => NONE,
    }
    .to_owned()
}

/// The limits of all rows; those without fitted rows only where they differ.
fn limits(limits: &[Limit]) -> Table {
    let mut table = Table::new("Limits");
    table.numbers("no.");
    table.words("what");
    table.words("must be");
    table.words("is");
    table.words("result");
    table.words("without fitted rows");
    for one in limits.iter().filter(|limit| limit.scope == "all") {
        let unfitted = limits.iter().find(|other| other.scope != "all" && other.number == one.number);
        let differs = unfitted.filter(|other| (&other.found, other.state) != (&one.found, one.state));
        let other = differs
            .map_or_else(|| "the same".to_owned(), |other| format!("{}: {}", word(other.state), other.found));
        table.rows.push(vec![
            one.number.to_string(),
            one.what.clone(),
            one.target.clone(),
            one.found.clone(),
            word(one.state),
            other,
        ]);
    }
    table
}

fn controls(controls: &[Control]) -> Table {
    let mut table = Table::new("Controls: mechanisms, not factors");
    for name in ["name", "what", "must be", "is", "result"] {
        table.words(name);
    }
    for one in controls {
        let Control { name, what, target, found, state, .. } = one;
        table.rows.push(vec![name.clone(), what.clone(), target.clone(), found.clone(), word(*state)]);
    }
    table
}

/// What is behind a control.
fn lines(control: &Control) -> Table {
    let mut table = Table::new(format!("{}: {}", control.name, control.what));
    table.words("one by one");
    table.rows = control.lines.iter().map(|line| vec![line.clone()]).collect();
    table
}
