//! By which prices the designs of a result ran, and how far ratios of designs under these may be wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The axis of sets of prices, in results of several.
pub const AXIS: &str = "prices";
/// What the prices of results are called that do not name theirs: each design had what there was for it.
pub const MIXED: &str = "mixed";

/// The sets of prices of a result of the virtual clock. Results of versions that priced designs with and without an original
/// differently have none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PricesRecord {
    /// The sets under which its cells ran; none where no design has prices.
    pub sets: Vec<String>,
    /// The designs that its labels name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub designs: BTreeMap<String, String>,
    /// Why its designs are not ranked: they were not priced alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unranked: Option<String>,
    /// What each label with an original does that no price is of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, String>,
    /// The parts that have a price under `port:least` and `port:most`, of each label without an original.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ported: BTreeMap<String, Vec<String>>,
    /// How far the ratio of two designs may be wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorRecord>,
}

/// By how much modelled ratios of two designs differ from published ones: four of five pairs by at most `factor`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// The set of prices.
    pub prices: String,
    /// The workload that it is for.
    pub workload: String,
    /// The medium that it is for.
    pub medium: String,
    /// The class of the pairs: `data`, `metadata`, `whole programs`, or `all classes` where one has too few.
    pub class: String,
    /// The factor, at least 1; none where it is not known, and `why` says the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The same of a model that calls all designs equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null: Option<f64>,
    /// Pairs of designs that were published and modelled.
    pub pairs: u32,
    /// Sources of these.
    pub sources: u32,
    /// Why it is unknown, or borrowed from another medium or machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl ErrorRecord {
    /// Whether it was measured on the medium and the machine of the result.
    pub fn is_measured(&self) -> bool {
        self.factor.is_some() && self.why.is_none()
    }
}
