//! Presets of media: settings with units and sources, compiled in.
//!
//! ```toml
//! model = "hinfs"                         # a type of `MEDIA`
//! summary = "one line"
//! date = "2016-04"                        # when the values were current
//! fitted_on = ["claim.id"]                # optional: claims that a value was fitted on
//!
//! [parameters]
//! latency = { value = "200ns", source = "EuroSys 2016, section 5.1" }
//! ```
//!
//! A value without a source is refused, and so is a key that the format or the type does not know.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::medium::{MediumError, suggestion};

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../presets/media/", $name, ".toml")))),*]
    };
}

/// Every preset: its name and its text.
pub(crate) static PRESETS: &[(&str, &str)] = presets![
    "dram",
    "hinfs",
    "pmep",
    "nova.sttram",
    "nova.pcm",
    "optane.100",
    "optane.100x6",
    "optane.flat",
    "cxl.fast",
    "cxl.asic",
    "cxl.slow",
    "cxl.fpga",
];

/// A preset file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Preset {
    pub(crate) model: String,
    pub(crate) summary: String,
    pub(crate) date: String,
    #[serde(default)]
    pub(crate) fitted_on: Vec<String>,
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, Setting>,
}

/// A value and who says so.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setting {
    pub(crate) value: String,
    pub(crate) source: String,
}

const KEYS: [&str; 5] = ["model", "summary", "date", "fitted_on", "parameters"];

impl Preset {
    pub(crate) fn read(name: &str, text: &str) -> Result<Self, MediumError> {
        let bad = |what: String| MediumError::BadPreset { preset: name.to_owned(), what };
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| bad(e.to_string()))?;
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let near = suggestion(key, KEYS.into_iter());
            return Err(bad(format!("unknown key \"{key}\"{near}; there are: {}", KEYS.join(", "))));
        }
        let preset: Self = toml::from_str(text).map_err(|e| bad(e.to_string()))?;
        let mute = preset.parameters.iter().find(|(_, setting)| setting.source.trim().is_empty());
        match mute {
            Some((param, _)) => {
                Err(bad(format!("parameter {param} has no source: say where its value comes from")))
            }
            None => Ok(preset),
        }
    }
}
