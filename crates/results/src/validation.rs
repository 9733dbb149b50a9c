//! The model held against published measurements: the document of `weir validate`.
//!
//! A [`Row`] is one published number with the command that repeats it, and what became of it. The rest is computed from the rows:
//! [`Summary`] by class, source and design, [`Ranks`] of designs, [`Limit`]s and [`Control`]s.

use serde::{Deserialize, Serialize};

use crate::Environment;

/// The schema name of [`ValidationFile`].
pub const VALIDATION_SCHEMA: &str = "weir.validation/1";

/// Everything one run of `weir validate` found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValidationFile {
    /// [`VALIDATION_SCHEMA`].
    pub schema: String,
    /// The command that repeats it, free of this host's paths.
    pub command: String,
    /// Facts about the host.
    pub environment: Environment,
    /// Settings that were added to the medium or machine of every row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// Every row, in the order of the files.
    pub rows: Vec<Row>,
    /// Rows that were left out, by the kind of reason.
    pub left_out: Vec<LeftOut>,
    /// Errors of the compared rows: of all, by class, by source, by design.
    pub summaries: Vec<Summary>,
    /// Whether the order of designs is right: of all, and by class.
    pub ranks: Vec<Ranks>,
    /// What must hold.
    pub limits: Vec<Limit>,
    /// What tells a model from factors.
    pub controls: Vec<Control>,
}

/// A published number, the command that repeats it, and what the command measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// Its name, unique among all rows.
    pub id: String,
    /// What kind of thing is measured: `media`, `meta`, `data`, `scaling`, `app`, `cpu`, `device`, `path`, `cxl`.
    pub class: String,
    /// Who published it, and where.
    pub source: String,
    /// On which hardware.
    pub hardware: String,
    /// With which software.
    pub software: String,
    /// The operation or workload.
    pub what: String,
    /// Bytes of an access, as published; `-` where there is none.
    pub size: String,
    /// Threads or workers.
    pub threads: u64,
    /// The design; none for a medium.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design: Option<String>,
    /// Machine and medium in words.
    pub preset: String,
    /// Rows of one group differ in the design or are points of one curve.
    pub group: String,
    /// What repeats it.
    pub command: String,
    /// Which value is better.
    pub better: Better,
    /// How it may be compared, in the words of its file.
    pub compare: String,
    /// The same as a word that can be selected by.
    pub compared: Compared,
    /// Half the width of the band, as a part of the published value, where `compared` is `band`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<f64>,
    /// How far the published value may be off, in the source's words.
    pub uncertainty: String,
    /// A remark of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The claim of a paper that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The unit of the numbers.
    pub unit: String,
    /// The published value; 0 in a prediction, which has none.
    pub published: f64,
    /// What the model of `before_commit` gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// The commit whose model gave `before`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_commit: Option<String>,
    /// Whether it is one of the rows that come with Weir, with which constants may be calibrated.
    pub calibration: bool,
    /// The presets whose constants were chosen by this row (`fitted_on`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fitted_by: Vec<String>,
    /// Whether `published` was measured now, by the kernel of this host, instead of being read from the file.
    pub live: bool,
    /// What the command gave; none where the row was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// |measured / published − 1|.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The factor between measured and published, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The speed of the measured value by that of the published one: above 1, Weir is too fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Why there is no measured value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// Which value is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A time.
    #[default]
    Low,
    /// A rate.
    High,
    /// A bound: neither.
    Bound,
}

/// How a row may be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compared {
    /// By its value: it counts in every limit.
    Yes,
    /// By its value, within a wider band: the hardware is not known exactly.
    Band,
    /// By the order of designs only.
    Sign,
    /// As a bound.
    Bound,
    /// As a claim of a paper, which is judged with the claims.
    Claim,
    /// By nothing: it has no published value, and is measured so that a page can show what the model predicts.
    Predicted,
    /// Not at all.
    #[default]
    No,
}

/// Why a row has no measured value. In [`ValidationFile::left_out`], how many have none for this reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftOut {
    /// A word: `constants`, `command`, `unit`, `preset`, `published`, `row`, `host`, `failed`, `interrupted`.
    pub kind: String,
    /// What is wrong, and what to do.
    pub why: String,
    /// In a list of kinds, how many rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

/// Errors of some rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// What the rows have in common: `all`, `class`, `source`, `design`; `band`: the class of rows that have a band, which are in
    /// none of these; `part`: a part of the model, rows with a band among them, and `part, nothing chosen` without the rows by
    /// which a constant was chosen.
    pub by: String,
    /// Its value.
    pub name: String,
    /// Rows of this kind, measured or not.
    pub rows: u64,
    /// Rows whose values were compared.
    pub compared: u64,
    /// Geometric mean of the speed in Weir by the published one: above 1 Weir is too fast.
    pub bias: Option<f64>,
    /// Median of |measured / published − 1|.
    pub median_error: Option<f64>,
    /// Median of the factor between the two, at least 1.
    pub median_factor: Option<f64>,
    /// The 90th percentile of the factor: the least that nine tenths of the rows do not exceed.
    pub p90_factor: Option<f64>,
    /// The part of the rows whose error is at most 20 %.
    pub within_20: Option<f64>,
}

/// The order of designs: pairs of one group whose published values differ by more than 25 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// The class; `all` for all.
    pub class: String,
    /// Pairs that Weir orders as published.
    pub concordant: u64,
    /// Pairs that it orders the other way round.
    pub inverted: u64,
    /// Pairs whose values are within 2 % of each other in Weir.
    pub tied: u64,
    /// Kendall's tau: (concordant − inverted) / pairs.
    pub tau: Option<f64>,
    /// The pairs that are inverted: published better, published worse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inversions: Vec<Inversion>,
}

/// Two designs that the model puts in the wrong order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inversion {
    /// The row of the design that is better as published.
    pub better: String,
    /// The row of the other.
    pub worse: String,
    /// Published value of the better by that of the worse, as speeds: above 1.
    pub published: f64,
    /// The same as measured: below 1.
    pub measured: f64,
    /// Whether the hardware of both rows is the preset's.
    pub matching: bool,
}

/// What became of a limit or control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It holds.
    Pass,
    /// It does not.
    Miss,
    /// There is nothing to compute it from; the reason is beside it.
    #[default]
    NotComputed,
}

/// Something that must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Its number.
    pub number: u32,
    /// What is limited.
    pub what: String,
    /// The rows: `all`, or `unfitted` without those by which constants were chosen.
    pub scope: String,
    /// The limit in words.
    pub target: String,
    /// What was found, in words.
    pub found: String,
    /// What became of it.
    pub state: State,
    /// Rows that are outside, where each row has to be inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
}

/// Something that tells mechanisms from factors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Its name: N1 to N7.
    pub name: String,
    /// What it shows.
    pub what: String,
    /// The limit in words.
    pub target: String,
    /// What became of it.
    pub state: State,
    /// What was found, or why nothing can be.
    pub found: String,
    /// Numbers behind it, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

impl Row {
    /// Takes what the command gave, and works out the errors; `published` must be there and above 0 if the row is not a prediction.
    pub fn measure(&mut self, measured: f64) {
        if self.compared == Compared::Predicted {
            self.measured = Some(measured);
            return;
        }
        let ratio = measured / self.published;
        let speed = if self.better == Better::High { ratio } else { 1.0 / ratio };
        (self.measured, self.error) = (Some(measured), Some((ratio - 1.0).abs()));
        (self.speed, self.factor) = (Some(speed), Some(speed.max(1.0 / speed)));
    }

    /// The range of the published runs. The published value is the middle of what the source says in words such as
    /// `7 runs, spread 63 %`.
    pub fn published_range(&self) -> (f64, f64) {
        let spread =
            self.uncertainty.split_once("spread ").and_then(|(_, rest)| rest.split_whitespace().next());
        let half = spread.and_then(|number| number.parse::<f64>().ok()).map_or(0.0, |spread| spread / 200.0);
        (self.published * (1.0 - half), self.published * (1.0 + half))
    }

    /// Whether its value counts.
    pub fn counts(&self) -> bool {
        self.compared == Compared::Yes && self.measured.is_some()
    }

    /// Whether a constant of a preset was chosen by it.
    pub fn is_fitted(&self) -> bool {
        !self.fitted_by.is_empty()
    }
}

impl LeftOut {
    /// A reason of a kind.
    pub fn new(kind: &str, why: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), why: why.into(), rows: None }
    }
}

impl ValidationFile {
    /// Whether a limit is missed.
    pub fn misses(&self) -> impl Iterator<Item = &Limit> {
        self.limits.iter().filter(|limit| limit.state == State::Miss)
    }
}
