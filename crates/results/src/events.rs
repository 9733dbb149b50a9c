//! Which events of processors were counted while a sample was measured, and why others were not.
//!
//! The counts themselves are among the sample's counters: those of the host as `event.NAME`, those of a simulated processor as
//! `sim_NAME`. An event that could not be counted has no counter, only its reason here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The prefix of the names of counters that the host's processor and kernel have counted.
pub const REAL: &str = "event.";
/// The prefix of the names of counters of a simulated processor.
pub const SIMULATED: &str = "sim_";

/// The events of one sample.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventCounts {
    /// Whose instructions the counts of the host's processor are: `user`, or `user and kernel`; empty where none were asked for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Each event that was asked for.
    pub events: Vec<EventRecord>,
    /// The counts over time, where the measured time was long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<EventWindows>,
    /// What the simulated processor is, where there was one: sizes and ways of its caches.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub simulated: String,
}

/// One event that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventRecord {
    /// The name of its counter: `event.dtlb_load_misses`, `sim_dtlb_misses`.
    pub name: String,
    /// The part of the time for which it was counted, in thousandths; the count was scaled up to the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted_per_mille: Option<u32>,
    /// Why it has no counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Counts in parts of the measured time that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventWindows {
    /// The end of each part, from the beginning of the measured time.
    pub ends_ns: Vec<u64>,
    /// System calls that ended in each part.
    pub calls: Vec<u64>,
    /// The count of each event in each part, by the name of its counter.
    pub counts: BTreeMap<String, Vec<u64>>,
}

impl EventCounts {
    /// Why the counter `name` is missing, where it was asked for.
    pub fn missing(&self, name: &str) -> Option<&str> {
        self.events.iter().find(|event| event.name == name)?.missing.as_deref()
    }
}
