//! Claims under the readings of their paper: the classes, the specification curve, and what was measured under each.
//!
//! The curve shows under how many claims each reading holds, sorted: whether the published result needs one particular reading,
//! or stands under most (Simonsohn, Simmons, Nelson: Specification curve analysis, 2020).

use results::{ClaimOutcome, Class, ReadingOutcome};

use crate::claims::{band, beside_band, measured};
use crate::table::Table;

/// Claims that were measured under readings.
fn read(claims: &[ClaimOutcome]) -> impl Iterator<Item = &ClaimOutcome> {
    claims.iter().filter(|claim| claim.readings.iter().any(|reading| reading.value.is_some()))
}

/// The variations in the order in which they were tried, the default first. Claims of other figures may have others.
fn variations(claims: &[ClaimOutcome]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for reading in read(claims).flat_map(|claim| &claim.readings) {
        let name = reading.title();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What a claim came to under a variation; a variation that says nothing of its figure leaves it as it is by default.
fn under<'c>(claim: &'c ClaimOutcome, name: &str) -> &'c ReadingOutcome {
    let named = claim.readings.iter().find(|reading| reading.title() == name);
    named.unwrap_or(&claim.readings[0])
}

/// What a variation comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// `reading=choice`, or `default`.
    pub name: String,
    /// Claims that hold.
    pub held: usize,
    /// Claims that were measured.
    pub measured: usize,
    /// Claims that hold here and not under the default.
    pub gained: Vec<String>,
    /// Claims that hold under the default and not here.
    pub lost: Vec<String>,
}

/// The specification curve: the variations by the number of claims that hold, the most first.
pub fn curve(claims: &[ClaimOutcome]) -> Vec<Point> {
    let point = |name: String| {
        let here = || read(claims).map(|claim| (claim, under(claim, &name)));
        let ids = |wanted: fn(&ReadingOutcome, &ReadingOutcome) -> bool| {
            let changed = here().filter(|(claim, here)| wanted(here, &claim.readings[0]));
            changed.map(|(claim, _)| claim.id.clone()).collect()
        };
        Point {
            held: here().filter(|(_, here)| here.holds).count(),
            measured: here().filter(|(_, here)| here.value.is_some()).count(),
            gained: ids(|here, default| here.holds && !default.holds),
            lost: ids(|here, default| !here.holds && default.holds),
            name,
        }
    };
    let mut points: Vec<Point> = variations(claims).into_iter().map(point).collect();
    points.sort_by_key(|point| std::cmp::Reverse(point.held));
    points
}

/// What the readings come to, in a sentence or two; empty where no claim was measured under readings.
pub fn sentence(claims: &[ClaimOutcome]) -> String {
    let points = curve(claims);
    let (Some(best), Some(default)) = (points.first(), points.iter().find(|point| point.name == "default"))
    else {
        return String::new();
    };
    let count = |class: Class| read(claims).filter(|claim| claim.class == Some(class)).count();
    let [robust, sensitive, missed] = [Class::Robust, Class::Sensitive, Class::Missed].map(count);
    let most = if best.held > default.held {
        format!("the most is {} under {}", best.held, best.name)
    } else {
        "no other reading has more".to_owned()
    };
    format!(
        "Of {} claims, {robust} hold under every reading, {sensitive} under some and {missed} under none. \
         Under the default {} hold; {most}.",
        read(claims).count(),
        default.held
    )
}

/// Every table, for a terminal and for Markdown; none where no claim was measured under readings.
pub fn tables(claims: &[ClaimOutcome]) -> Vec<Table> {
    if read(claims).next().is_none() {
        return Vec::new();
    }
    vec![classes(claims), curve_table(claims), signs(claims)]
}

/// Each claim with its class.
pub fn classes(claims: &[ClaimOutcome]) -> Table {
    let mut table =
        Table::new("Claims by reading: robust holds under all, sensitive under some, missed under none");
    for name in ["claim", "class", "band"] {
        table.words(name);
    }
    table.numbers("default");
    table.numbers("holds");
    table.words("changes sides under");
    table.rows = read(claims).map(class_row).collect();
    table
}

fn class_row(claim: &ClaimOutcome) -> Vec<String> {
    let default = claim.readings[0].holds;
    let value = |reading: &ReadingOutcome| beside_band(claim, reading.value);
    let changed = claim.readings.iter().filter(|reading| reading.holds != default);
    let changed: Vec<_> = changed.map(|reading| format!("{} {}", reading.title(), value(reading))).collect();
    let held = claim.readings.iter().filter(|reading| reading.holds).count();
    vec![
        claim.id.clone(),
        claim.class.map_or("–", results::Class::word).to_owned(),
        band(claim),
        measured(claim),
        format!("{held}/{}", claim.readings.len()),
        changed.join(", "),
    ]
}

/// The numbers of the curve.
pub fn curve_table(claims: &[ClaimOutcome]) -> Table {
    let mut table = Table::new("Claims that hold, by reading");
    table.words("reading");
    table.numbers("hold");
    table.words("gained and lost against the default");
    let signed = |sign: char, ids: Vec<String>| ids.into_iter().map(move |id| format!("{sign}{id}"));
    table.rows = curve(claims)
        .into_iter()
        .map(|Point { name, held, measured, gained, lost }| {
            let changes: Vec<_> = signed('+', gained).chain(signed('-', lost)).collect();
            vec![name, format!("{held}/{measured}"), changes.join(" ")]
        })
        .collect();
    table
}

/// Claim by reading as signs, narrow enough for a terminal: the columns are numbered as the title says.
fn signs(claims: &[ClaimOutcome]) -> Table {
    let names = variations(claims);
    let titles: Vec<_> = names.iter().enumerate().map(|(at, name)| format!("{at} {name}")).collect();
    let mut table = Table::new(format!("Claim by reading (+ holds, . does not): {}", titles.join(", ")));
    table.words("claim");
    (0..names.len()).for_each(|at| table.words(at.to_string()));
    let row = |claim: &ClaimOutcome| {
        let sign = |name: &String| if under(claim, name).holds { "+" } else { "." }.to_owned();
        [claim.id.clone()].into_iter().chain(names.iter().map(sign)).collect()
    };
    table.rows = read(claims).map(row).collect();
    table
}

/// Claim by reading with every value, for a page that can be scrolled.
pub fn values(claims: &[ClaimOutcome]) -> Table {
    let mut table = Table::new("Claim by reading: what was measured");
    table.words("claim");
    table.words("band");
    let names = variations(claims);
    for name in &names {
        table.numbers(name);
    }
    let sign = |reading: &ReadingOutcome| match reading.value {
        None => "",
        Some(_) if reading.holds => " ✓",
        Some(_) => " ✗",
    };
    let value =
        |claim: &ClaimOutcome, reading: &ReadingOutcome| beside_band(claim, reading.value) + sign(reading);
    let head = |claim: &ClaimOutcome| [claim.id.clone(), band(claim)];
    let row = |claim: &ClaimOutcome| {
        head(claim).into_iter().chain(names.iter().map(|name| value(claim, under(claim, name)))).collect()
    };
    table.rows = read(claims).map(row).collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Clock;
    use results::claim::{Claim, Origin};

    /// Two claims under the default and two readings.
    fn claims() -> Vec<ClaimOutcome> {
        let outcome = |id: &str, held: [bool; 3]| {
            let text = String::from;
            let (id, paper, figure, says) = (text(id), text("P"), text("1"), text("X gains"));
            let (published, low, high, fitted, origin) = (None, 1.0, 2.0, false, Origin::Paper);
            let claim = Claim {
                id,
                paper,
                figure,
                says,
                published,
                low,
                high,
                fitted,
                origin,
                input: results::Input::Original,
            };
            let names = [("default", "default"), ("tasks", "one"), ("size", "small")];
            let reading = |((name, choice), holds): ((&str, &str), bool)| ReadingOutcome {
                name: name.into(),
                choice: choice.into(),
                value: Some(if holds { 1.5 } else { 2.5 }),
                holds,
            };
            let readings = names.into_iter().zip(held).map(reading).collect();
            claim.measured(if held[0] { 1.5 } else { 2.5 }, 1, Clock::Virtual).under(readings)
        };
        vec![outcome("p.1", [true, true, true]), outcome("p.2", [false, true, false])]
    }

    #[test]
    fn the_curve_begins_with_the_reading_under_which_most_claims_hold() {
        let curve = curve(&claims());
        let points: Vec<_> = curve.iter().map(|point| (point.name.as_str(), point.held)).collect();
        assert_eq!(points, [("tasks=one", 2), ("default", 1), ("size=small", 1)]);
        assert_eq!((&curve[0].gained[..], curve[0].lost.len()), (&["p.2".to_owned()][..], 0));
    }

    #[test]
    fn a_claim_that_a_reading_says_nothing_of_counts_as_by_default() {
        let mut claims = claims();
        claims[0].readings.truncate(1);
        let curve = curve(&claims);
        let points: Vec<_> =
            curve.iter().map(|point| (point.name.as_str(), point.held, point.measured)).collect();
        assert_eq!(points, [("tasks=one", 2, 2), ("default", 1, 2), ("size=small", 1, 2)]);
    }

    #[test]
    fn a_sensitive_claim_names_the_readings_that_change_its_side() {
        let claims = claims();
        assert_eq!(claims[1].class, Some(Class::Sensitive));
        let rows = classes(&claims).rows;
        assert_eq!(rows[1][1..], ["sensitive", "1.00 to 2.00", "2.50", "1/3", "tasks=one 1.50"]);
        assert_eq!(rows[0][1], "robust");
    }

    #[test]
    fn the_sentence_says_how_many_hold_and_how_many_at_most() {
        let wanted = "Of 2 claims, 1 hold under every reading, 1 under some and 0 under none. Under the default 1 hold; \
                      the most is 2 under tasks=one.";
        assert_eq!(sentence(&claims()), wanted);
    }

    #[test]
    fn claims_that_were_not_read_leave_no_table() {
        let mut claims = claims();
        for claim in &mut claims {
            claim.readings.clear();
        }
        assert!(tables(&claims).is_empty() && sentence(&claims).is_empty());
    }
}
