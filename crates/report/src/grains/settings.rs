//! The parameters with which results came about: those of the plan, and of the presets whose texts the results hold.

use results::{InputKind, InputRecord, ResultFile};
use toml::Value as Toml;

use super::{Grain, Value, columns};
use crate::axis;

/// Parameters of all results, each once.
pub(super) fn settings(results: &[&ResultFile]) -> Grain {
    let named = columns::named(&["kind", "owner", "parameter", "text", "number", "unit", "source"]);
    let mut grain = Grain::new("settings", "a parameter, with its source", named);
    for result in results {
        let mut rows = Rows { kind: "plan", owner: &result.name, list: Vec::new() };
        if let Ok(plan) = Toml::try_from(without_nulls(&result.plan)) {
            rows.put("", &plan);
        }
        grain.rows.extend(rows.list);
        for input in &result.inputs {
            grain.rows.extend(preset(input));
        }
    }
    let mut seen = Vec::new();
    grain.rows.retain(|row| {
        let new = !seen.contains(row);
        if new {
            seen.push(row.clone());
        }
        new
    });
    grain
}

/// TOML has no null; a setting that is null is one that was not given.
fn without_nulls(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Json::Object(fields) => {
            let given = fields.iter().filter(|(_, value)| !value.is_null());
            given
                .map(|(name, value)| (name.clone(), without_nulls(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        Json::Array(items) => {
            items.iter().filter(|item| !item.is_null()).map(without_nulls).collect::<Vec<_>>().into()
        }
        other => other.clone(),
    }
}

/// The parameters of a machine or a medium; scripts have none.
pub(super) fn preset(input: &InputRecord) -> Vec<Vec<Value>> {
    let kind = match input.kind {
        InputKind::Machine => "machine",
        InputKind::Medium => "medium",
        InputKind::Workload => return Vec::new(),
    };
    let Ok(preset) = input.text.parse::<toml::Table>() else { return Vec::new() };
    let mut rows = Rows { kind, owner: &input.name, list: Vec::new() };
    rows.put("", &Toml::Table(preset));
    rows.list
}

struct Rows<'r> {
    kind: &'static str,
    owner: &'r str,
    list: Vec<Vec<Value>>,
}

impl Rows<'_> {
    /// Puts the parameters below `parameter`. A table with a `source` is one parameter: the other key is its unit, or `value`.
    fn put(&mut self, parameter: &str, value: &Toml) {
        let below = |name: &str| {
            if parameter.is_empty() { name.to_owned() } else { format!("{parameter}.{name}") }
        };
        match value {
            Toml::Table(table) => match table.get("source") {
                Some(Toml::String(source)) => {
                    for (unit, value) in table.iter().filter(|(name, _)| *name != "source") {
                        let unit = if unit == "value" { "" } else { unit };
                        self.row(parameter, value, unit, source);
                    }
                }
                _ => table.iter().for_each(|(name, value)| self.put(&below(name), value)),
            },
            Toml::Array(items) if items.iter().any(Toml::is_table) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(number, item)| self.put(&below(&number.to_string()), item));
            }
            Toml::Array(items) if items.is_empty() => {}
            value => self.row(parameter, value, "", ""),
        }
    }

    fn row(&mut self, parameter: &str, value: &Toml, unit: &str, source: &str) {
        let text = match value {
            Toml::String(text) => text.clone(),
            value => value.to_string(),
        };
        let number = match value {
            Toml::Integer(number) => Some(*number as f64),
            Toml::Float(number) => Some(*number),
            Toml::String(text) => axis::quantity(text),
            _ => None,
        };
        let some = |text: &str| if text.is_empty() { Value::Empty } else { Value::Text(text.to_owned()) };
        self.list.push(vec![
            Value::Text(self.kind.to_owned()),
            Value::Text(self.owner.to_owned()),
            Value::Text(parameter.to_owned()),
            Value::Text(text),
            number.map_or(Value::Empty, Value::Number),
            some(unit),
            some(source),
        ]);
    }
}
