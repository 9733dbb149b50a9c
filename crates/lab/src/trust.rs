//! How far a modelled ratio of two designs may be wrong: the 80th percentile of |ln(modelled / published)| over pairs of designs
//! that others measured. `weir validate --trust FILE` measures it and writes `presets/validation/trust.toml`; a verdict is no
//! larger than it.
//!
//! A class is that of what a row does: `data`, `metadata`, `whole programs`. Pairs are all of groups with `compare = "yes"`, none
//! left out by hand; pairs with a row by which a constant was chosen are apart. A class with fewer than ten pairs, or pairs of
//! one source, takes those of all classes, and says so. Beside each error stands that of a model which calls all designs equal.
//!
//! Under `originals` and `ran` both designs of a pair have these prices. Under `port:least` and `port:most` one of them is
//! priced as if it had no original, and the other as under `originals`: each pair counts twice. The file names the version of
//! the presets that it was measured with; with other ones it says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use document::{Item, Problem, Table};
use results::ErrorRecord;
use results::validation::{Better, Compared, Row};
use sim::math::{exp, ln};

use crate::canonical;
use crate::error::Error;
use crate::named;
use crate::plan::{Plan, Target};
use crate::presets::{MACHINES, ORIGINALS, Preset, VALIDATION};
use crate::prices::Prices;
use crate::validation::judge::{self, Pair};

/// The generated file.
const FILE: &str = "trust.toml";
/// Four of five pairs are within the error.
const PART: f64 = 0.8;
/// A class with fewer pairs, or sources, is pooled with the others.
const LEAST_PAIRS: usize = 10;
const LEAST_SOURCES: usize = 2;
/// What a pooled class is called.
const POOLED: &str = "all classes";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trust {
    /// The commit that measured it.
    pub commit: String,
    /// The presets that it was measured with ([`model`]).
    pub model: String,
    /// Media and machines of the rows.
    pub media: Vec<String>,
    /// See `media`.
    pub machines: Vec<String>,
    /// Errors by set of prices and class.
    pub errors: Vec<Known>,
}

/// The error of a set of prices in a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    prices: String,
    class: String,
    /// What the pairs are of: the class, or all.
    of: String,
    factor: f64,
    null: f64,
    pairs: u64,
    sources: u64,
    /// The same of pairs with a row by which a constant was chosen, of which there are so many.
    fitted: f64,
    fitted_pairs: u64,
    rows: Vec<String>,
}

/// The class of what a workload does, of which pairs are counted together.
fn class_of(workload: &str) -> &'static str {
    let name = workload.rsplit('/').next().unwrap_or(workload);
    match named::suite_of(workload).map_or("", |suite| suite.name()) {
        "fxmark" if name.starts_with('M') => "metadata",
        "fxmark" | "fio" | "fragmentation" => "data",
        _ => "whole programs",
    }
}

/// The class of a row.
fn class_of_row(row: &Row) -> &'static str {
    match &*row.class {
        "app" => "whole programs",
        "data" | "scaling" => "data",
        _ => "metadata",
    }
}

/// The version of what decides the rows of the file: prices, rows with their scripts, and their machine.
pub fn model() -> String {
    let prices = ORIGINALS.iter().map(|preset| decisive(preset.text));
    let rows = VALIDATION.iter().filter(|preset| preset.name != FILE);
    let machines = MACHINES.iter().filter(|preset| preset.name == "rcache-server");
    // Rows name their medium, so that of a machine decides none.
    let of_machine =
        |text: &str| text.split_inclusive('\n').filter(|line| !line.starts_with("medium = ")).collect();
    let machines = machines.map(|preset| of_machine(preset.text));
    let texts: Vec<String> =
        prices.chain(rows.map(|preset| preset.text.to_owned())).chain(machines).collect();
    canonical::sha256(texts.join("\n"))[..16].to_owned()
}

/// A file of prices without comments, and without the operations and the source of each price.
fn decisive(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let prices = lines.map(|line| line.split(", operations = ").next().unwrap_or_default());
    prices.collect::<Vec<_>>().join("\n")
}

/// How far the ratios of a plan's designs may be wrong, by set of prices, workload and medium.
pub(crate) fn records(plan: &Plan, sets: &[Prices]) -> Result<Vec<ErrorRecord>, Error> {
    let known = VALIDATION.iter().find(|preset| preset.name == FILE).map(Trust::of).transpose()?;
    Ok(known.unwrap_or_default().records(plan, sets))
}

/// The media of a plan, by the values that it has for them.
fn media_of(plan: &Plan) -> Vec<(String, String)> {
    let axis = plan.axis.iter().find(|axis| axis.sets.contains(&Target::Medium));
    let named =
        axis.map(|axis| axis.values.iter().map(|one| (one.label.clone(), one.value.clone())).collect());
    let usual = || vec![(plan.usual_medium().to_owned(), plan.usual_medium().to_owned())];
    named.unwrap_or_else(usual)
}

/// A machine with no other setting than the version of its kernel; none with others.
fn plain(machine: &str) -> Option<&str> {
    let (name, settings) = machine.split_once(',').unwrap_or((machine, ""));
    let of_kernel = |setting: &str| setting.starts_with("kernel=") && setting != "kernel=none";
    settings.split(',').all(|setting| setting.is_empty() || of_kernel(setting)).then_some(name)
}

impl Trust {
    fn of(preset: &Preset) -> Result<Self, Problem> {
        document::read(&format!("presets/validation/{}", preset.name), preset.text, |root| {
            let text = |key| root.need(key, "of a file that `weir validate --trust` writes")?.text();
            let words = |key| root.need(key, "of the rows")?.words();
            let errors = root.need("error", "by set of prices and class")?.items()?;
            Ok(Self {
                commit: text("commit")?,
                model: text("model")?,
                media: words("media")?,
                machines: words("machines")?,
                errors: errors
                    .iter()
                    .map(|item: &Item<'_>| item.read(Known::of))
                    .collect::<Result<_, _>>()?,
            })
        })
    }

    fn records(&self, plan: &Plan, sets: &[Prices]) -> Vec<ErrorRecord> {
        let mut records = Vec::new();
        for (prices, workload) in
            sets.iter().flat_map(|prices| plan.workload.iter().map(move |work| (prices, work)))
        {
            for (label, medium) in media_of(plan) {
                let mut record = self.of_class(*prices, class_of(&workload.name));
                record.workload = workload.label.clone().unwrap_or_else(|| workload.name.clone());
                record.medium = label;
                record.why = record.why.or_else(|| self.borrowed(&plan.machine, &medium));
                records.push(record);
            }
        }
        records
    }

    /// Why an error is of another medium or machine; none where rows were measured on both.
    fn borrowed(&self, machine: &str, medium: &str) -> Option<String> {
        let on_medium = self.media.iter().any(|known| known == medium);
        let on_machine = plain(machine).is_some_and(|name| self.machines.iter().any(|known| known == name));
        let what = match (on_medium, on_machine) {
            (true, true) => return None,
            (false, true) => "this medium",
            (true, false) => "this machine",
            (false, false) => "this medium and machine",
        };
        Some(format!(
            "nothing measured stands behind {what}; it is borrowed from {}",
            self.media.join(" and ")
        ))
    }

    fn of_class(&self, prices: Prices, class: &str) -> ErrorRecord {
        let record =
            ErrorRecord { prices: prices.to_string(), class: class.to_owned(), ..ErrorRecord::default() };
        let none = |why: &str| ErrorRecord { why: Some(why.to_owned()), ..record.clone() };
        if self.errors.is_empty() {
            return none("no file of `weir validate --trust` comes with this build");
        }
        if self.model != model() {
            return none(
                "presets/validation/trust.toml was measured with other presets than this build has: \
                 `weir validate --trust` writes it anew",
            );
        }
        let known = self.errors.iter().find(|one| one.prices == prices.name() && one.class == class);
        known.map_or_else(
            || none("no pair of designs was measured with these prices"),
            |known| ErrorRecord {
                class: known.of.clone(),
                factor: Some(known.factor),
                null: Some(known.null),
                pairs: known.pairs as u32,
                sources: known.sources as u32,
                ..record.clone()
            },
        )
    }

    /// What rows show that were measured under each set: those of `port` as if their design had no original.
    pub fn measured(rows: &BTreeMap<Prices, Vec<Row>>, plans: &[Plan], commit: &str) -> Self {
        let (mut media, mut machines) = (BTreeSet::new(), BTreeSet::new());
        for plan in plans {
            media.extend(media_of(plan).into_iter().map(|(_, medium)| medium));
            machines.extend(plain(&plan.machine).map(str::to_owned));
        }
        let original = rows.get(&Prices::Originals).map_or(&[][..], Vec::as_slice);
        let mut errors = Vec::new();
        for (prices, rows) in rows {
            let found: Vec<Found> = match prices {
                Prices::Originals | Prices::Ran => of_pairs(original, rows, rows),
                // Each of the two in its turn as if it had no original.
                Prices::PortLeast | Prices::PortMost => of_pairs(original, rows, original)
                    .into_iter()
                    .chain(of_pairs(original, original, rows))
                    .collect(),
            };
            let class = |class| Known::measured(*prices, class, &found);
            errors.extend(["data", "metadata", "whole programs"].into_iter().filter_map(class));
        }
        let (media, machines) = (media.into_iter().collect(), machines.into_iter().collect());
        Self { commit: commit.to_owned(), model: model(), media, machines, errors }
    }

    /// The file.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "# How far a modelled ratio of two designs may be wrong. Written by `weir validate --trust`; do not edit.\n\n\
             commit = {:?}\nmodel = {:?}\nmedia = {:?}\nmachines = {:?}\n",
            self.commit, self.model, self.media, self.machines
        );
        for one in &self.errors {
            let _ = write!(
                text,
                "\n[[error]]\nprices = {:?}\nclass = {:?}\nof = {:?}\nfactor = {:.3}\nnull = {:.3}\npairs = {}\nsources = {}\n\
                 fitted = {:.3}\nfitted_pairs = {}\nrows = {:?}\n",
                one.prices,
                one.class,
                one.of,
                one.factor,
                one.null,
                one.pairs,
                one.sources,
                one.fitted,
                one.fitted_pairs,
                one.rows
            );
        }
        text
    }
}

/// A pair of designs, published and modelled.
struct Found {
    name: String,
    class: &'static str,
    source: String,
    /// Whether a constant was chosen by one of its rows.
    fitted: bool,
    /// |ln(modelled / published)|.
    error: f64,
    /// The same of a model that calls both equal.
    null: f64,
}

/// Every pair of rows that may be compared, the better one as in `better` and the other as in `worse`.
fn of_pairs(original: &[Row], better: &[Row], worse: &[Row]) -> Vec<Found> {
    let speed = |rows: &[Row], row: &Row| {
        let value = rows.iter().find(|one| one.id == row.id)?.measured.filter(|value| *value > 0.0)?;
        Some(if row.better == Better::High { value } else { 1.0 / value })
    };
    let found = |pair: Pair<'_>| {
        let both = [pair.better, pair.worse];
        if both.iter().any(|row| row.compared != Compared::Yes) {
            return None;
        }
        let modelled = speed(better, pair.better)? / speed(worse, pair.worse)?;
        Some(Found {
            name: format!("{} {}", pair.better.id, pair.worse.id),
            class: class_of_row(pair.better),
            source: judge::family(&pair.better.id).to_owned(),
            fitted: both.iter().any(|row| row.is_fitted()),
            error: ln(modelled / pair.published).abs(),
            null: ln(pair.published).abs(),
        })
    };
    judge::all_pairs(original).into_iter().filter_map(found).collect()
}

impl Known {
    fn of(table: &Table<'_>) -> Result<Self, Problem> {
        let text = |key| table.need(key, "of an error")?.text();
        let float = |key| table.need(key, "of an error")?.float();
        let count = |key| table.need(key, "of an error")?.number();
        Ok(Self {
            prices: text("prices")?,
            class: text("class")?,
            of: text("of")?,
            factor: float("factor")?,
            null: float("null")?,
            pairs: count("pairs")?,
            sources: count("sources")?,
            fitted: float("fitted")?,
            fitted_pairs: count("fitted_pairs")?,
            rows: table.need("rows", "of an error")?.words()?,
        })
    }

    /// The error of a class, or of all where it has too few pairs; none where there are no pairs.
    fn measured(prices: Prices, class: &str, found: &[Found]) -> Option<Self> {
        let sources =
            |pairs: &[&Found]| pairs.iter().map(|pair| &*pair.source).collect::<BTreeSet<_>>().len();
        let is_own = |pair: &&Found| pair.class == class;
        let own: Vec<&Found> = found.iter().filter(is_own).filter(|pair| !pair.fitted).collect();
        let is_enough = own.len() >= LEAST_PAIRS && sources(&own) >= LEAST_SOURCES;
        let (of, pairs) = match is_enough {
            true => (class, own),
            false => (POOLED, found.iter().filter(|pair| !pair.fitted).collect()),
        };
        let fitted: Vec<&Found> =
            found.iter().filter(|pair| pair.fitted && (!is_enough || is_own(pair))).collect();
        let factor = |pairs: &[&Found], value: fn(&Found) -> f64| {
            judge::percentile(&pairs.iter().map(|pair| value(pair)).collect::<Vec<_>>(), PART).map(exp)
        };
        Some(Self {
            prices: prices.to_string(),
            class: class.to_owned(),
            of: of.to_owned(),
            factor: factor(&pairs, |pair| pair.error)?,
            null: factor(&pairs, |pair| pair.null)?,
            pairs: pairs.len() as u64,
            sources: sources(&pairs) as u64,
            fitted: factor(&fitted, |pair| pair.error).unwrap_or(1.0),
            fitted_pairs: fitted.len() as u64,
            rows: pairs.iter().map(|pair| format!("{} x{:.2}", pair.name, exp(pair.error))).collect(),
        })
    }
}
