//! Published claims and their outcomes.
//!
//! A claim is a number with a band. [`ClaimOutcome`] is one claim after measuring, in the key order that
//! `weir reproduce --json` prints; [`ClaimsFile`] is that document. JSON knows no infinity: an open bound is
//! `null`, and so is the value of a claim that was not measured, which then says why in `reason`.

use crate::record::Clock;
use serde::{Deserialize, Deserializer, Serialize};

/// The schema name of [`ClaimsFile`].
pub const CLAIMS_SCHEMA: &str = "weir.claims/1";

/// One published claim beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimOutcome {
    /// Stable name, for example `hinfs.7.fileserver.gain`.
    pub id: String,
    /// Where it was published.
    pub paper: String,
    /// The figure or table there.
    pub figure: String,
    /// The published statement in our words.
    pub says: String,
    /// The printed number, where there is one.
    pub published: Option<f64>,
    /// Lower end of the band; `None` is open.
    pub low: Option<f64>,
    /// Upper end of the band; `None` is open.
    pub high: Option<f64>,
    /// The measured number; `None` was not measured.
    pub value: Option<f64>,
    /// Whether `value` lies in the band.
    pub holds: bool,
    /// Whether a constant was fitted on this claim. It then does not count as reproduced.
    pub fitted: bool,
    /// Where it comes from.
    #[serde(default, alias = "by_construction", deserialize_with = "origin")]
    pub origin: Origin,
    /// What it was measured on.
    #[serde(default, skip_serializing_if = "Input::is_original")]
    pub input: Input,
    /// The number of each repeat by itself, where there are several; `value` is that of all together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_seed: Vec<f64>,
    /// Why the sentence is false although the number lies in the band. It then does not count as reproduced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicted: Option<String>,
    /// Seed of the measurement.
    pub seed: u64,
    /// Clock of the measurement.
    pub clock: Clock,
    /// Why it was not measured, why it is not counted, or what is known of a miss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How far it depends on what the paper leaves open, by a run of its readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// What was measured under each reading, the default first; empty outside of a run of readings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<ReadingOutcome>,
}

/// Where a claim comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper prints it.
    #[default]
    Paper,
    /// Slides about the paper print it.
    Slides,
    /// Public notes of the paper say it.
    Notes,
    /// It is computed from what was published: from scripts, parameters or a model of a device.
    Derived,
    /// It follows from the design; no publication prints it.
    Argued,
    /// Weir says it: a prediction or a control.
    Ours,
    /// Its value is a constant of the code: it cannot miss, and does not count as reproduced.
    Construction,
}

/// What a claim is measured on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// What the publication was measured on, or what it describes.
    #[default]
    Original,
    /// Input that is made up, in the place of a recorded one. The claim does not count as reproduced.
    Generated,
}

impl Input {
    /// Every kind by the word that files have for it.
    pub const WORDS: [(&str, Self); 2] = [("original", Self::Original), ("generated", Self::Generated)];

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_original(&self) -> bool {
        *self == Self::Original
    }
}

impl Origin {
    /// Every origin by the word that files have for it.
    pub const WORDS: [(&str, Self); 7] = [
        ("paper", Self::Paper),
        ("slides", Self::Slides),
        ("notes", Self::Notes),
        ("derived", Self::Derived),
        ("argued", Self::Argued),
        ("ours", Self::Ours),
        ("construction", Self::Construction),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].0
    }
}

/// An origin, or what older results have in its place: whether the claim holds by construction.
fn origin<'de, D: Deserializer<'de>>(from: D) -> Result<Origin, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Found {
        Older(bool),
        Word(Origin),
    }
    Ok(match Found::deserialize(from)? {
        Found::Older(true) => Origin::Construction,
        Found::Older(false) => Origin::Paper,
        Found::Word(origin) => origin,
    })
}

/// How far a claim depends on the choices that its paper leaves open (readings).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// It holds under every reading that was tried.
    Robust,
    /// It holds under some.
    Sensitive,
    /// It holds under none.
    Missed,
}

/// A claim under one reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadingOutcome {
    /// The reading; `default` where every choice is the default one; two joined by `+` for a pair.
    pub name: String,
    /// What was chosen.
    pub choice: String,
    /// The measured number; `None` was not measured.
    pub value: Option<f64>,
    /// Whether it lies in the band.
    pub holds: bool,
}

impl Class {
    /// The class of a claim that came to this under its readings; none when it was never measured. A reading under which it
    /// could not be measured is one under which it does not hold.
    pub fn of(readings: &[ReadingOutcome]) -> Option<Self> {
        readings.iter().find(|reading| reading.value.is_some())?;
        let held = readings.iter().filter(|reading| reading.holds).count();
        Some(match held {
            0 => Self::Missed,
            held if held == readings.len() => Self::Robust,
            _ => Self::Sensitive,
        })
    }

    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Robust => "robust",
            Self::Sensitive => "sensitive",
            Self::Missed => "missed",
        }
    }
}

impl ReadingOutcome {
    /// `name=choice`, or `default`.
    pub fn title(&self) -> String {
        if self.name == self.choice { self.name.clone() } else { format!("{}={}", self.name, self.choice) }
    }
}

/// What a claim says. The kinds are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A number was published.
    Number,
    /// A sentence was published: an order, a trend, a bound.
    Order,
    /// Nothing was published: Weir predicts it, from the design or as a control.
    Prediction,
    /// It cannot miss.
    Construction,
}

impl Kind {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Order => "order",
            Self::Prediction => "prediction",
            Self::Construction => "construction",
        }
    }

    fn of(origin: Origin, published: Option<f64>) -> Self {
        match (origin, published) {
            (Origin::Construction, _) => Self::Construction,
            (Origin::Ours | Origin::Argued, _) => Self::Prediction,
            (_, Some(_)) => Self::Number,
            (_, None) => Self::Order,
        }
    }
}

impl Claim {
    /// What it says.
    pub fn kind(&self) -> Kind {
        Kind::of(self.origin, self.published)
    }
}

impl ClaimOutcome {
    /// What it says.
    pub fn kind(&self) -> Kind {
        Kind::of(self.origin, self.published)
    }

    /// Whether `value` lies in the band.
    pub fn is_in_band(&self, value: f64) -> bool {
        self.low.is_none_or(|low| value >= low) && self.high.is_none_or(|high| value <= high)
    }

    /// How many of its repeats lie in the band, of how many; none for a single one.
    pub fn seeds_that_hold(&self) -> Option<(usize, usize)> {
        let all = self.by_seed.len();
        let held = self.by_seed.iter().filter(|value| self.is_in_band(**value)).count();
        (all > 1).then_some((held, all))
    }

    /// The claim with what became of it under each reading, the default first.
    #[must_use]
    pub fn under(self, readings: Vec<ReadingOutcome>) -> Self {
        Self { class: Class::of(&readings), readings, ..self }
    }
}

/// What a claim says of itself before anything is measured. Bounds may be infinite.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Stable name.
    pub id: String,
    /// Where it was published.
    pub paper: String,
    /// The figure or table there.
    pub figure: String,
    /// The published statement in our words.
    pub says: String,
    /// The printed number, where there is one.
    pub published: Option<f64>,
    /// Lower end of the band.
    pub low: f64,
    /// Upper end of the band.
    pub high: f64,
    /// Whether a constant was fitted on it.
    pub fitted: bool,
    /// Where it comes from.
    pub origin: Origin,
    /// What it is measured on.
    pub input: Input,
}

impl Claim {
    /// The outcome when `value` was measured. A value that is no number counts as not measured.
    pub fn measured(&self, value: f64, seed: u64, clock: Clock) -> ClaimOutcome {
        if !value.is_finite() {
            return self.not_measured("the measurement gave no finite number", seed, clock);
        }
        let holds = (self.low..=self.high).contains(&value);
        ClaimOutcome { value: Some(value), holds, ..self.unjudged(seed, clock) }
    }

    /// The outcome when nothing could be measured, and why.
    pub fn not_measured(&self, reason: impl Into<String>, seed: u64, clock: Clock) -> ClaimOutcome {
        ClaimOutcome { reason: Some(reason.into()), ..self.unjudged(seed, clock) }
    }

    fn unjudged(&self, seed: u64, clock: Clock) -> ClaimOutcome {
        ClaimOutcome {
            id: self.id.clone(),
            paper: self.paper.clone(),
            figure: self.figure.clone(),
            says: self.says.clone(),
            published: self.published,
            low: finite(self.low),
            high: finite(self.high),
            value: None,
            holds: false,
            fitted: self.fitted,
            origin: self.origin,
            input: self.input,
            by_seed: Vec::new(),
            contradicted: None,
            seed,
            clock,
            reason: None,
            class: None,
            readings: Vec::new(),
        }
    }
}

fn finite(bound: f64) -> Option<f64> {
    bound.is_finite().then_some(bound)
}

/// The document that `weir reproduce --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimsFile {
    /// [`CLAIMS_SCHEMA`].
    pub schema: String,
    /// The claims in the order of their papers.
    pub claims: Vec<ClaimOutcome>,
}

impl ClaimsFile {
    /// The document of `claims`.
    pub fn new(claims: Vec<ClaimOutcome>) -> Self {
        Self { schema: CLAIMS_SCHEMA.to_owned(), claims }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(low: f64, high: f64) -> Claim {
        Claim {
            id: "p.1.gain".into(),
            paper: "P".into(),
            figure: "1".into(),
            says: "X gains".into(),
            published: Some(2.0),
            low,
            high,
            fitted: false,
            origin: Origin::Paper,
            input: Input::Original,
        }
    }

    #[test]
    fn the_band_includes_its_ends_and_nothing_else() {
        let holds = |value| claim(1.5, 2.5).measured(value, 1, Clock::Virtual).holds;
        assert!(holds(1.5) && holds(2.0) && holds(2.5));
        assert!(!holds(1.499) && !holds(2.501));
    }

    #[test]
    fn an_open_bound_is_null_and_admits_everything() {
        let outcome = claim(1.0, f64::INFINITY).measured(1e9, 1, Clock::Virtual);
        assert!(outcome.holds);
        assert!(serde_json::to_string(&outcome).unwrap().contains(r#""low":1.0,"high":null"#));
    }

    #[test]
    fn what_was_not_measured_does_not_hold_and_says_why() {
        for outcome in [
            claim(0.0, 9.0).not_measured("needs ext4", 1, Clock::Real),
            claim(0.0, f64::INFINITY).measured(f64::NAN, 1, Clock::Real),
        ] {
            assert_eq!((outcome.value, outcome.holds), (None, false));
            assert!(outcome.reason.is_some());
        }
    }

    #[test]
    fn a_class_is_decided_by_every_reading_and_never_by_none() {
        let read = |values: &[f64]| {
            let outcome = |value: &f64| {
                let ClaimOutcome { value, holds, .. } = claim(1.5, 2.5).measured(*value, 1, Clock::Virtual);
                ReadingOutcome { name: "r".into(), choice: "c".into(), value, holds }
            };
            Class::of(&values.iter().map(outcome).collect::<Vec<_>>())
        };
        assert_eq!(read(&[1.6, 2.4]), Some(Class::Robust));
        assert_eq!(read(&[1.0, 2.4]), Some(Class::Sensitive));
        assert_eq!(read(&[2.0, f64::NAN]), Some(Class::Sensitive), "what was not measured does not hold");
        assert_eq!(read(&[1.0, 9.0]), Some(Class::Missed));
        assert_eq!((read(&[]), read(&[f64::NAN])), (None, None));
    }

    #[test]
    fn an_origin_is_its_word_and_older_results_say_construction_alone() {
        for (word, origin) in Origin::WORDS {
            assert_eq!((origin.word(), serde_json::to_value(origin).unwrap()), (word, word.into()));
        }
        let mut json = serde_json::to_value(claim(1.0, 3.0).measured(2.0, 7, Clock::Virtual)).unwrap();
        let mut read = |key: &str, value: serde_json::Value| {
            json.as_object_mut()
                .unwrap()
                .retain(|key, _| !["origin", "by_construction"].contains(&key.as_str()));
            json[key] = value;
            serde_json::from_value::<ClaimOutcome>(json.clone()).unwrap().origin
        };
        assert_eq!(read("origin", "notes".into()), Origin::Notes);
        assert_eq!(read("by_construction", true.into()), Origin::Construction);
        assert_eq!(read("seed", 7.into()), Origin::Paper);
    }

    #[test]
    fn keys_stand_in_the_published_order() {
        let outcome = claim(1.0, 3.0).not_measured("no run", 7, Clock::Virtual);
        let json = serde_json::to_value(&outcome).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let order = "id paper figure says published low high value holds fitted origin seed clock reason";
        assert_eq!(keys.join(" "), order);
    }
}
