//! Published claims in tables and words.

use crate::table::Table;
use crate::units::number;
use results::ClaimOutcome;
use results::claim::Origin;
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
}

impl Standing {
    /// The standing of `claim`.
    pub fn of(claim: &ClaimOutcome) -> Self {
        match claim.value {
            None => Self::NotMeasured,
            Some(_) if claim.fitted => Self::Fitted,
            Some(_) if !claim.holds => Self::Missed,
            Some(_) if claim.origin == Origin::Construction => Self::ByConstruction,
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

/// The measured number, or a dash.
pub fn measured(claim: &ClaimOutcome) -> String {
    beside_band(claim, claim.value)
}

/// A number that was measured for `claim`, or a dash. One that rounding would move across an end of the band keeps the decimals
/// that place it.
pub fn beside_band(claim: &ClaimOutcome, value: Option<f64>) -> String {
    let Some(value) = value else { return "–".to_owned() };
    let holds =
        |value: f64| claim.low.is_none_or(|low| value >= low) && claim.high.is_none_or(|high| value <= high);
    let places = |text: &String| text.parse().is_ok_and(|shown: f64| holds(shown) == holds(value));
    let longer = (3..=6).map(|decimals| format!("{value:.decimals$}"));
    iter::once(number(value)).chain(longer).find(places).unwrap_or_else(|| value.to_string())
}

/// The published number, or a dash where only a statement was published.
pub fn published(claim: &ClaimOutcome) -> String {
    claim.published.map_or_else(|| "–".to_owned(), number)
}

/// The outcome in words, with the class by the paper's readings where it is known.
pub fn verdict(claim: &ClaimOutcome) -> String {
    let words = Standing::of(claim).words();
    claim.class.map_or_else(|| words.to_owned(), |class| format!("{words} ({})", class.word()))
}

/// Published beside measured.
pub fn table(claims: &[ClaimOutcome]) -> Table {
    let mut table = Table::new("Published and measured claims");
    table.words("claim");
    table.words("figure");
    table.words("origin");
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
        claim.origin.word().to_owned(),
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
        if let Some(reason) = &claim.reason {
            text += &format!("  {}: {reason}\n", claim.id);
        }
    }
    text
}

/// One sentence: `2 of 3 claims hold, 1 was missed.` Empty for no claims.
pub fn tally(claims: &[ClaimOutcome]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let count = |wanted| claims.iter().filter(|claim| Standing::of(claim) == wanted).count();
    let mut parts = vec![format!("{} of {} published claims hold", count(Standing::Holds), claims.len())];
    let rest = [
        (Standing::Missed, "missed"),
        (Standing::NotMeasured, "not measured"),
        (Standing::Fitted, "fitted and not counted"),
        (Standing::ByConstruction, "true by construction and not counted"),
    ];
    for (standing, what) in rest {
        let count = count(standing);
        if count > 0 {
            parts.push(format!("{count} {} {what}", if count == 1 { "was" } else { "were" }));
        }
    }
    parts.join(", ") + "."
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
        Claim { id, paper, figure, says, published: Some(1.5), low, high, fitted, origin }
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
        let wanted = "1 of 5 published claims hold, 1 was missed, 1 was not measured, \
                      1 was fitted and not counted, 1 was true by construction and not counted.";
        assert_eq!(tally, wanted);
    }

    #[test]
    fn what_was_not_measured_says_why() {
        assert!(to_text(&outcomes()).contains("p.1: needs ext4"));
    }
}
