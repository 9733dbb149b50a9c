//! Published claims in tables and words.

use crate::table::Table;
use crate::units::number;
use results::ClaimOutcome;
use results::claim::{Class, Input, Kind, Origin};
use std::iter;

/// The outcome of a claim, in words that need no colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Measured and within the band.
    Holds,
    /// Measured and outside the band.
    Missed,
    /// Not measured.
    NotMeasured,
    /// A constant was fitted on it: it proves nothing, whether it holds or not.
    Fitted,
    /// Its value is a constant of the code: it cannot miss, and proves nothing either.
    ByConstruction,
    /// The number lies in the band, and what the sentence says of it is false.
    Contradicted,
    /// It lies in the band on made-up input, which proves nothing of the recorded one.
    Generated,
}

impl Standing {
    /// The standing of `claim`.
    pub fn of(claim: &ClaimOutcome) -> Self {
        match claim.value {
            None => Self::NotMeasured,
            Some(_) if claim.fitted => Self::Fitted,
            Some(_) if !claim.holds => Self::Missed,
            Some(_) if claim.origin == Origin::Construction => Self::ByConstruction,
            Some(_) if claim.contradicted.is_some() => Self::Contradicted,
            Some(_) if claim.input == Input::Generated => Self::Generated,
            Some(_) => Self::Holds,
        }
    }

    /// A sign and a word.
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "✓ holds",
            Self::Missed => "✗ missed",
            Self::NotMeasured => "– not measured",
            Self::Fitted => "~ fitted",
            Self::ByConstruction => "= by construction",
            Self::Contradicted => "≠ number only",
            Self::Generated => "≈ on generated input",
        }
    }

    /// A name for style sheets.
    pub fn key(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Missed => "missed",
            Self::NotMeasured => "unmeasured",
            Self::Fitted => "fitted",
            Self::ByConstruction => "constructed",
            Self::Contradicted => "contradicted",
            Self::Generated => "generated",
        }
    }
}

/// The band: `2.41 to 3.27`, `at least 1.30`, `at most 0.70`.
pub fn band(claim: &ClaimOutcome) -> String {
    match (claim.low, claim.high) {
        (Some(low), Some(high)) if (high - low).abs() < f64::EPSILON => format!("exactly {}", number(low)),
        (Some(0.0) | None, Some(high)) => format!("at most {}", number(high)),
        (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
        (Some(low), None) => format!("at least {}", number(low)),
        (None, None) => "any".to_owned(),
    }
}

/// The measured number, or a dash; with the least and the greatest of its seeds where it ran with several.
pub fn measured(claim: &ClaimOutcome) -> String {
    let value = beside_band(claim, claim.value);
    let ends = |pick: fn(f64, f64) -> f64| claim.by_seed.iter().copied().reduce(pick);
    match (claim.by_seed.len(), ends(f64::min), ends(f64::max)) {
        (0 | 1, _, _) | (_, None, _) | (_, _, None) => value,
        (_, least, most) if least == most => value,
        (_, least, most) => {
            format!("{value} ({} to {})", beside_band(claim, least), beside_band(claim, most))
        }
    }
}

/// A number that was measured for `claim`, or a dash. One that rounding would move across an end of the band keeps the decimals
/// that place it.
pub(crate) fn beside_band(claim: &ClaimOutcome, value: Option<f64>) -> String {
    let Some(value) = value else { return "–".to_owned() };
    let places = |text: &String| {
        text.parse().is_ok_and(|shown: f64| claim.is_in_band(shown) == claim.is_in_band(value))
    };
    let longer = (3..=6).map(|decimals| format!("{value:.decimals$}"));
    iter::once(number(value)).chain(longer).find(places).unwrap_or_else(|| value.to_string())
}

/// The published number, or a dash where only a statement was published.
pub fn published(claim: &ClaimOutcome) -> String {
    claim.published.map_or_else(|| "–".to_owned(), number)
}

/// The outcome in words; with the seeds that hold where some do not, and with the class by the paper's readings where it is
/// known.
pub fn verdict(claim: &ClaimOutcome) -> String {
    let words = Standing::of(claim).words();
    let seeds = match claim.seeds_that_hold() {
        Some((held, all)) if held != 0 && held != all => {
            Some(format!("in {held} of {all} seeds, crosses the band"))
        }
        Some((held, all)) if (held == all) != claim.holds => {
            Some(format!("in {held} of {all} seeds by themselves"))
        }
        _ => None,
    };
    let class = claim.class.map(|class| match (class, claim.holds) {
        (Class::Missed, true) => "its readings, scaled down, say missed".to_owned(),
        (Class::Robust, false) if claim.value.is_some() => "its readings, scaled down, say robust".to_owned(),
        _ => class.word().to_owned(),
    });
    let more: Vec<String> = seeds.into_iter().chain(class).collect();
    if more.is_empty() { words.to_owned() } else { format!("{words} ({})", more.join("; ")) }
}

/// What it says, who said it where that is not the paper, and what it is measured on where that is not the original.
pub fn kind(claim: &ClaimOutcome) -> String {
    let kind = claim.kind();
    let mut text = match claim.origin {
        Origin::Paper | Origin::Construction => kind.word().to_owned(),
        other => format!("{}, {}", kind.word(), other.word()),
    };
    if claim.input == Input::Generated {
        text += ", generated input";
    }
    text
}

/// Published beside measured.
pub fn table(claims: &[ClaimOutcome]) -> Table {
    let mut table = Table::new("Published and measured claims");
    table.words("claim");
    table.words("figure");
    table.words("kind");
    table.numbers("published");
    table.words("band");
    table.numbers("measured");
    table.words("verdict");
    table.words("published statement");
    table.rows = claims.iter().map(row).collect();
    table
}

fn row(claim: &ClaimOutcome) -> Vec<String> {
    vec![
        claim.id.clone(),
        claim.figure.clone(),
        kind(claim),
        published(claim),
        band(claim),
        measured(claim),
        verdict(claim),
        claim.says.clone(),
    ]
}

/// How many hold, then the table for a terminal, then the reasons of what was not reproduced.
pub fn to_text(claims: &[ClaimOutcome]) -> String {
    let mut text = format!("{}\n\n{}", tally(claims), table(claims).to_text());
    for claim in claims {
        for reason in claim.reason.iter().chain(&claim.contradicted) {
            text += &format!("  {}: {reason}\n", claim.id);
        }
    }
    text
}

/// One sentence: `2 of 3 published claims hold, 1 was missed.` Printed numbers and sentences are counted apart where both are
/// there, and so are predictions of ours and what cannot miss. Empty for no claims.
pub fn tally(claims: &[ClaimOutcome]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let of = |kinds: &[Kind]| claims.iter().filter(|claim| kinds.contains(&claim.kind())).collect::<Vec<_>>();
    let held = |claims: &[&ClaimOutcome]| count(claims, Standing::Holds);
    let (numbers, orders) = (of(&[Kind::Number]), of(&[Kind::Order]));
    let (published, predicted) = (of(&[Kind::Number, Kind::Order]), of(&[Kind::Prediction]));
    let mut parts = Vec::new();
    if !published.is_empty() {
        let apart = match (numbers.len(), orders.len()) {
            (0, _) | (_, 0) => String::new(),
            (all, others) => format!(
                " ({} of {all} printed numbers, {} of {others} statements of order)",
                held(&numbers),
                held(&orders)
            ),
        };
        parts.push(format!("{} of {} published claims hold{apart}", held(&published), published.len()));
    }
    let rest = [
        (Standing::Missed, "missed"),
        (Standing::NotMeasured, "not measured"),
        (Standing::Fitted, "fitted and not counted"),
        (Standing::Contradicted, "right in the number and wrong in the sentence, and not counted"),
        (Standing::Generated, "in the band on generated input and not counted"),
    ];
    let were = |count: usize| if count == 1 { "was" } else { "were" };
    for (standing, what) in rest {
        let count = count(&published, standing);
        if count > 0 {
            parts.push(format!("{count} {} {what}", were(count)));
        }
    }
    if !predicted.is_empty() {
        parts.push(format!("of {} predictions of ours {} hold", predicted.len(), held(&predicted)));
    }
    let constructed = of(&[Kind::Construction]).len();
    if constructed > 0 {
        parts.push(format!("{constructed} {} by construction and not counted", were(constructed)));
    }
    parts.join(", ") + "."
}

fn count(claims: &[&ClaimOutcome], wanted: Standing) -> usize {
    claims.iter().filter(|claim| Standing::of(claim) == wanted).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Clock;
    use results::claim::Claim;

    fn claim(low: f64, high: f64, fitted: bool) -> Claim {
        let text = String::from;
        let (id, paper, figure, says) = (text("p.1"), text("P"), text("1"), text("X gains"));
        let origin = Origin::Paper;
        Claim {
            id,
            paper,
            figure,
            says,
            published: Some(1.5),
            low,
            high,
            fitted,
            origin,
            input: Input::Original,
        }
    }

    fn outcomes() -> Vec<ClaimOutcome> {
        let infinite = f64::INFINITY;
        vec![
            claim(1.2, infinite, false).measured(1.4, 1, Clock::Virtual),
            claim(0.0, 0.7, false).measured(0.9, 1, Clock::Virtual),
            claim(1.0, 2.0, true).measured(1.4, 1, Clock::Virtual),
            claim(1.0, 2.0, false).not_measured("needs ext4", 1, Clock::Virtual),
            Claim { origin: Origin::Construction, ..claim(1.0, 2.0, false) }.measured(1.4, 1, Clock::Virtual),
        ]
    }

    #[test]
    fn bands_are_words_and_never_infinite() {
        let bands: Vec<_> = outcomes().iter().map(band).collect();
        assert_eq!(bands, ["at least 1.20", "at most 0.70", "1.00 to 2.00", "1.00 to 2.00", "1.00 to 2.00"]);
    }

    #[test]
    fn a_measured_number_is_on_its_side_of_the_band() {
        let shown = |value| measured(&claim(1.05, 2.0, false).measured(value, 1, Clock::Virtual));
        assert_eq!(
            [1.0483, 1.0499, 1.0512, 2.0, 2.000_01, 1.4].map(shown),
            ["1.048", "1.0499", "1.05", "2.00", "2.00001", "1.40"]
        );
    }

    #[test]
    fn a_claim_that_was_fitted_or_cannot_miss_does_not_count_as_held() {
        let tally = tally(&outcomes());
        let wanted = "1 of 4 published claims hold, 1 was missed, 1 was not measured, \
                      1 was fitted and not counted, 1 was by construction and not counted.";
        assert_eq!(tally, wanted);
    }

    #[test]
    fn numbers_sentences_and_predictions_are_counted_apart() {
        let number = claim(1.2, 2.0, false).measured(1.4, 1, Clock::Virtual);
        let order = Claim { published: None, ..claim(1.2, 2.0, false) }.measured(1.0, 1, Clock::Virtual);
        let ours = Claim { origin: Origin::Ours, ..claim(1.2, 2.0, false) }.measured(1.4, 1, Clock::Virtual);
        let wanted = "1 of 2 published claims hold (1 of 1 printed numbers, 0 of 1 statements of order), 1 was missed, \
                      of 1 predictions of ours 1 hold.";
        assert_eq!(tally(&[number, order, ours]), wanted);
    }

    #[test]
    fn a_claim_whose_sentence_is_false_does_not_count_as_held() {
        let mut outcome = claim(1.2, 2.0, false).measured(1.4, 1, Clock::Virtual);
        outcome.contradicted = Some("it is slower".to_owned());
        assert_eq!(Standing::of(&outcome), Standing::Contradicted);
        assert!(tally(&[outcome.clone()]).starts_with("0 of 1 published claims hold"));
        assert!(to_text(&[outcome]).contains("it is slower"));
    }

    #[test]
    fn seeds_on_both_sides_of_an_end_of_the_band_are_told() {
        let mut outcome = claim(1.2, 2.0, false).measured(1.98, 1, Clock::Virtual);
        outcome.by_seed = vec![1.98, 2.01, 1.9, 1.95, 1.99];
        assert_eq!(verdict(&outcome), "✓ holds (in 4 of 5 seeds, crosses the band)");
        assert_eq!(measured(&outcome), "1.98 (1.90 to 2.01)");
        outcome.by_seed = vec![1.9, 1.95];
        assert_eq!(verdict(&outcome), "✓ holds");
    }

    #[test]
    fn a_class_that_contradicts_the_full_result_says_so() {
        let mut outcome = claim(1.2, 2.0, false).measured(1.4, 1, Clock::Virtual);
        outcome.class = Some(Class::Missed);
        assert_eq!(verdict(&outcome), "✓ holds (its readings, scaled down, say missed)");
    }

    #[test]
    fn what_was_not_measured_says_why() {
        assert!(to_text(&outcomes()).contains("p.1: needs ext4"));
    }
}
