//! What a plan writes about a figure.
//!
//! ```toml
//! [[figure]]
//! id = "7"
//! title = "Overall performance"
//! kind = "bars"                    # bars, lines, breakdown, heat, classes, timeline
//! x = "workload"                   # axis on the x axis; default workload
//! series = "fs"                    # axis that the legend lists; default fs
//! panel = "medium"                 # axis with one chart for each value; default none
//! metric = "throughput"            # see `Metric`; default throughput
//! relative_to = "pmfs"             # divide by this series; default absolute
//! only = { threads = "8" }         # cells that belong here; a value or a list for each axis
//! published = [{ claim = "hinfs.7.fileserver.gain", x = "filebench/fileserver", series = "hinfs" }]
//! ```
//!
//! A breakdown has a bar for each value of `series` and a chart for each of `operations`, and needs no `x`. With `by = "class"` or
//! `"wait"` a bar is the time of a whole run, by class of call or by what its threads waited for, and there are no `operations`. A
//! timeline has a chart for each value of `series`.

use super::{FigureError, Metric};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The description of a figure. Unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// Short name, unique in its plan: the number of the published figure.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What to see in it.
    #[serde(default)]
    pub caption: String,
    /// How it is drawn.
    pub kind: Kind,
    /// The axis on the x axis.
    #[serde(default = "workload")]
    pub x: String,
    /// What to write at the x axis instead of the axis's name.
    #[serde(default)]
    pub x_label: String,
    /// How numbers on the x axis are spaced.
    #[serde(default)]
    pub x_scale: XScale,
    /// The axis that the legend lists.
    #[serde(default = "fs")]
    pub series: String,
    /// The axis with one chart for each value.
    #[serde(default)]
    pub panel: Option<String>,
    /// What the y axis shows.
    #[serde(default)]
    pub metric: Metric,
    /// Each value is divided by that of this series at the same place.
    #[serde(default)]
    pub relative_to: Option<String>,
    /// The cells that belong here, by axis.
    #[serde(default)]
    pub only: BTreeMap<String, OneOrMany>,
    /// The operations of a breakdown; those that take the most time if none are listed.
    #[serde(default)]
    pub operations: Vec<String>,
    /// What the segments of a breakdown are.
    #[serde(default)]
    pub by: By,
    /// Published numbers to draw beside the measured ones.
    #[serde(default)]
    pub published: Vec<PublishedMark>,
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Groups of bars: one group for each x, one bar for each series.
    Bars,
    /// One line for each series over a numeric x.
    Lines,
    /// Stacked bars: where the time of an operation went, by activity.
    Breakdown,
    /// A field for each x and series, the darker the larger.
    Heat,
    /// A field for each x and series with the letter of its curve over the number of threads ([`results::curve`]).
    Classes,
    /// What happened when in one operation: a chart for each series, a row for each part of the machine.
    Timeline,
}

/// What the segments of a breakdown are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The time of an operation by activity.
    #[default]
    Activity,
    /// The time of all threads of a run by class of call ([`results::program`]).
    Class,
    /// The time of all threads of a run by what they waited for.
    Wait,
}

/// How numbers on the x axis are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XScale {
    /// Logarithmic if the largest is at least 64 times the smallest.
    #[default]
    Auto,
    /// By difference.
    Linear,
    /// By ratio.
    Log,
}

/// A value or a list of values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Any of these.
    Many(Vec<String>),
}

/// Where a published number belongs in a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedMark {
    /// Id of the claim. A claim that the results do not carry is not drawn.
    pub claim: String,
    /// Value of the x axis.
    pub x: String,
    /// Value of the series axis.
    pub series: String,
    /// Value of the panel axis, where there is one.
    #[serde(default)]
    pub panel: Option<String>,
}

fn workload() -> String {
    "workload".to_owned()
}

fn fs() -> String {
    "fs".to_owned()
}

impl FigureSpec {
    /// A figure with every key at its default.
    pub fn new(id: impl Into<String>, title: impl Into<String>, kind: Kind) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            caption: String::new(),
            kind,
            x: workload(),
            x_label: String::new(),
            x_scale: XScale::Auto,
            series: fs(),
            panel: None,
            metric: Metric::Throughput,
            relative_to: None,
            only: BTreeMap::new(),
            operations: Vec::new(),
            by: By::Activity,
            published: Vec::new(),
        }
    }

    /// The figures that a resolved plan lists under `figure`; none if it lists none.
    pub fn list(plan: &serde_json::Value) -> Result<Vec<Self>, FigureError> {
        let list = plan.get("figure").and_then(serde_json::Value::as_array);
        list.into_iter().flatten().enumerate().map(|(at, value)| Self::read(at, value)).collect()
    }

    /// The figure that a plan describes so; `at` numbers those without an id.
    pub fn read(at: usize, value: &serde_json::Value) -> Result<Self, FigureError> {
        Self::deserialize(value).map_err(|error| {
            let name = value.get("id").map_or_else(|| format!("number {}", at + 1), ToString::to_string);
            FigureError::Plan(format!("figure {name}: {error}"))
        })
    }
}

impl FigureSpec {
    /// The axes that it names.
    pub fn axes(&self) -> impl Iterator<Item = &str> {
        let only = self.only.keys().map(String::as_str);
        [self.x.as_str(), self.series.as_str()].into_iter().chain(self.panel.as_deref()).chain(only)
    }
}

impl FigureSpec {
    /// The values that it names: the key that names one, its axis, and the value.
    pub fn named_values(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        let relative =
            self.relative_to.iter().map(|value| ("relative_to", self.series.as_str(), value.as_str()));
        let only = self.only.iter();
        let only = only.flat_map(|(axis, of)| {
            of.listed().iter().map(move |value| ("only", axis.as_str(), value.as_str()))
        });
        relative.chain(only)
    }
}

impl OneOrMany {
    /// All of them.
    fn listed(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    /// Whether `value` is the one or among the many.
    pub fn admits(&self, value: &str) -> bool {
        match self {
            Self::One(one) => one == value,
            Self::Many(many) => many.iter().any(|one| one == value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_without_figures_lists_none() {
        assert_eq!(FigureSpec::list(&json!({"seed": 1})).unwrap(), []);
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_figure_and_key() {
        let plan = json!({"figure": [{"id": "7", "title": "t", "kind": "bars", "colour": "red"}]});
        let error = FigureSpec::list(&plan).unwrap_err().to_string();
        assert!(error.contains("\"7\"") && error.contains("colour"), "{error}");
    }

    #[test]
    fn what_is_not_written_has_its_default() {
        let plan =
            json!({"figure": [{"id": "7", "title": "t", "kind": "lines", "only": {"threads": ["1", "8"]}}]});
        let figure = FigureSpec::list(&plan).unwrap().remove(0);
        assert!(figure.only["threads"].admits("8") && !figure.only["threads"].admits("4"));
        assert_eq!(FigureSpec { only: BTreeMap::new(), ..figure }, FigureSpec::new("7", "t", Kind::Lines));
    }
}
