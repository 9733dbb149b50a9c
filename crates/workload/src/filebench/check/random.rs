//! `randvar(…)` and `cvar(…)` as [`Distribution`]s.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::filebench::ast::{Attribute, Operand, Row, Script, SetValue};
use crate::filebench::distribution::{Distribution, DistributionError, Kind, TableRow};
use crate::filebench::problem::Problem;
use crate::filebench::program::Value;
use crate::filebench::span::{Span, Spanned};
use crate::filebench::vocabulary::{CVAR_ATTRIBUTES, CVARS, Cvar, RANDVAR_ATTRIBUTES};

use super::values::Attributes;
use super::{Checker, Overrides};

/// The value of a `set` without variables, for values that come from outside the script.
pub(crate) fn constant(value: &SetValue) -> Result<Value, Problem> {
    let script = Script { statements: Vec::new() };
    let mut checker = Checker::new(&script, &Overrides::new(), Vec::new());
    let read = match value {
        SetValue::Plain(operand) => checker.value(operand),
        random => checker.random(random),
    };
    let nothing = Problem::NoRun;
    match checker.problems.into_iter().find(Problem::is_error) {
        Some(problem) => Err(problem),
        None => read.ok_or(nothing),
    }
}

impl<'a> Checker<'a> {
    /// The random variable that is written; none when it cannot be one, which is then reported.
    pub(super) fn random(&mut self, value: &'a SetValue) -> Option<Value> {
        let distribution = match value {
            SetValue::Plain(operand) => return self.value(operand),
            SetValue::Randvar(attributes) => self.randvar(attributes)?,
            SetValue::Cvar(attributes) => self.cvar(attributes)?,
        };
        Some(Value::Random(Arc::new(distribution)))
    }

    fn randvar(&mut self, written: &'a Spanned<Vec<Attribute>>) -> Option<Distribution> {
        let attributes = self.attributes("randvar", written.span, &written.node, RANDVAR_ATTRIBUTES);
        self.no_parameters(&attributes);
        for ignored in ["seed", "randsrc"].into_iter().filter(|name| attributes.has(name)) {
            let help = Some("every draw follows the seed of the run".to_owned());
            let (attribute, of) = (ignored.to_owned(), "randvar".to_owned());
            self.problems.push(Problem::NoEffect { attribute, of, help, at: attributes.place(ignored) });
        }
        let kind = self.text(&attributes, "type");
        let kind = kind.as_ref().map_or("gamma", |kind| kind.node.as_str());
        let (min, round) = (self.any_number(&attributes, "min", 0), self.any_number(&attributes, "round", 0));
        let kind = match kind {
            "gamma" => self.randvar_gamma(&attributes, min),
            "uniform" => {
                let mean = self.any_number(&attributes, "mean", 0);
                if mean < min {
                    self.out_of_range("mean", &mean, "at least min", None, attributes.place("mean"));
                    return None;
                }
                Kind::Uniform { low: min as f64, high: (2 * mean - min) as f64 }
            }
            "tabular" => self.tabular(&attributes)?,
            other => {
                self.unknown(
                    "type of randvar",
                    other,
                    ["gamma", "uniform", "tabular"],
                    attributes.place("type"),
                );
                return None;
            }
        };
        self.distribution(Distribution::new(kind), &attributes)
            .map(|distribution| distribution.rounded(round as f64))
    }

    fn randvar_gamma(&mut self, attributes: &Attributes<'a>, min: u64) -> Kind {
        let shape = self.any_number(attributes, "gamma", 1500) as f64 / 1000.0;
        let mean = if attributes.has("mean") {
            self.any_number(attributes, "mean", 0) as f64
        } else {
            // Filebench's default, which makes `indexed=` pick index 0 nearly always
            shape
        };
        Kind::Gamma { shape, mean, offset: min as f64 }
    }

    fn tabular(&mut self, attributes: &Attributes<'a>) -> Option<Kind> {
        let Some(table) = attributes.get("randtable") else {
            let help = "write: randtable={{percent,low,high},…}";
            self.missing("randtable", "a tabular randvar", help, attributes.at);
            return None;
        };
        let at = attributes.place("randtable");
        let Some(Spanned { node: Operand::Table(rows), .. }) = &table.value else {
            let help = "write: randtable={{percent,low,high},…}";
            self.missing("rows", "randtable", help, at);
            return None;
        };
        let rows: Vec<TableRow> = rows.iter().map(|row| self.row(row)).collect::<Option<_>>()?;
        let sum = rows.iter().map(|row| row.percent as u64).sum();
        if sum != 100 {
            self.problems.push(Problem::Percentages { sum, at });
            return None;
        }
        let mean = self.any_number(attributes, "mean", 0);
        Some(Kind::Tabular { rows, mean: (mean > 0).then_some(mean as f64) })
    }

    fn row(&mut self, row: &Row) -> Option<TableRow> {
        let mut cell = |what: &str, operand: &Spanned<Operand>| match self.value(operand)? {
            Value::Int(value) => Some(value as f64),
            other => {
                self.wrong_type(what, "a number", &other, operand.span);
                None
            }
        };
        let percent = cell("the percentage", &row.percent);
        let low = cell("the low end", &row.low);
        let high = cell("the high end", &row.high);
        let row_at = row.percent.span.to(row.high.span);
        let read = TableRow { percent: percent?, low: low?, high: high? };
        if read.high < read.low {
            let range = "at least the low end".to_owned();
            self.out_of_range("the high end of this row", &read.high, &range, None, row_at);
        }
        Some(read)
    }

    fn cvar(&mut self, written: &'a Spanned<Vec<Attribute>>) -> Option<Distribution> {
        let attributes = self.attributes("cvar", written.span, &written.node, CVAR_ATTRIBUTES);
        self.no_parameters(&attributes);
        if !attributes.has("type") {
            self.missing("type", "this cvar", "write: cvar(type=cvar-gamma,…)", attributes.at);
            return None;
        }
        let name = self.text(&attributes, "type")?;
        let Some(cvar) = CVARS.iter().find(|cvar| cvar.name == name.node) else {
            self.unknown("type of cvar", &name.node, CVARS.iter().map(|cvar| cvar.name), name.span);
            return None;
        };
        let parameters = self.parameters(cvar, &attributes)?;
        let limit = |checker: &mut Self, name: &str| {
            attributes.has(name).then(|| checker.any_number(&attributes, name, 0) as f64)
        };
        let (min, max) = (limit(self, "min"), limit(self, "max"));
        let round = self.any_number(&attributes, "round", 0) as f64;
        let made = Distribution::new(kind_of(cvar, &parameters)).and_then(|made| made.clamped(min, max));
        self.distribution(made, &attributes).map(|distribution| distribution.rounded(round))
    }

    /// The parameters of a cvar, `name:value;name:value`, over its defaults.
    fn parameters(
        &mut self,
        cvar: &'static Cvar,
        attributes: &Attributes<'a>,
    ) -> Option<BTreeMap<&'static str, f64>> {
        let mut values: BTreeMap<&'static str, f64> = cvar.parameters.iter().copied().collect();
        let Some(written) = self.text(attributes, "parameters") else {
            return (!attributes.has("parameters")).then_some(values);
        };
        for pair in written.node.split(';').filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = self.pair(cvar, pair, written.span)?;
            values.insert(name, value);
        }
        Some(values)
    }

    fn pair(&mut self, cvar: &'static Cvar, pair: &str, at: Span) -> Option<(&'static str, f64)> {
        let (name, value) = pair.split_once(':').unwrap_or((pair, ""));
        let known = cvar.parameters.iter().map(|(known, _)| *known);
        let Some(name) = known.clone().find(|known| *known == name.trim()) else {
            self.unknown(&format!("parameter of {}", cvar.name), name.trim(), known, at);
            return None;
        };
        if let Ok(value) = value.trim().parse::<f64>() {
            return Some((name, value));
        }
        let help = Some(format!("write: parameters={name}:1.5"));
        let (what, wanted) = (format!("parameter \"{name}\""), "a number".to_owned());
        self.problems.push(Problem::WrongType { what, wanted, found: format!("\"{value}\""), help, at });
        None
    }

    fn any_number(&mut self, attributes: &Attributes<'_>, name: &str, default: u64) -> u64 {
        self.number(attributes, name, default, (0, i64::MAX as u64))
    }

    fn distribution(
        &mut self,
        made: Result<Distribution, DistributionError>,
        attributes: &Attributes<'_>,
    ) -> Option<Distribution> {
        match made {
            Ok(distribution) => Some(distribution),
            Err(error) => {
                let message = format!("this {} cannot be drawn from: {error}", attributes.of);
                self.impossible(message, "change the parameters".to_owned(), attributes.at);
                None
            }
        }
    }
}

fn kind_of(cvar: &Cvar, parameters: &BTreeMap<&'static str, f64>) -> Kind {
    let get = |name: &str| parameters.get(name).copied().unwrap_or_default();
    match cvar.name {
        "cvar-uniform" => Kind::Uniform { low: get("lower"), high: get("upper") },
        "cvar-normal" => Kind::Normal { mean: get("mean"), sigma: get("sigma") },
        "cvar-lognormal" => Kind::LogNormal { shape: get("shape"), scale: get("scale") },
        "cvar-exponential" => Kind::Exponential { mean: get("mean") },
        "cvar-weibull" => Kind::Weibull { shape: get("shape"), scale: get("scale") },
        "cvar-erlang" => Kind::Erlang { shape: get("shape") as u32, rate: get("rate") },
        "cvar-triangular" => Kind::Triangular { lower: get("lower"), upper: get("upper"), mode: get("mode") },
        _ => Kind::Gamma { shape: get("gamma"), mean: get("mean"), offset: 0.0 },
    }
}
