//! `[memory.model]` of a machine's preset: its memory under load ([`sim::memory`]).
//!
//! ```toml
//! [memory.model]
//! channels = { count = 8, source = "…" }      # with rate and width: the peak
//! rate = { mt_per_s = 4800, source = "…" }
//! width = { bits = 64, source = "…" }
//! idle = { ns = 115.7, source = "…" }
//! a = { ns = 12.98, source = "…" }            # and b, b1, c0, c1, c2, k: the constants of `ddr`
//! l3_hit = { ns = 47.5, source = "…" }        # instead of socket_hit of [caches]
//! errors = { text = "mean 0.7 % …", source = "…" }    # how far it was off what was published, and what was not compared
//! ```
//!
//! Instead of the constants of `ddr` from `channels` to `k` there may be `points = { text = "100%: 0@117 …", source = "…" }`, a
//! measured curve as `weir calibrate --from` writes it. `issue`, `depth`, `outstanding`, `credits`, `accept` and
//! `errors` may be left out: then the core is a Golden Cove. `memory=none` after the machine's name leaves the table out.

use document::{Problem, Table};
use media::Medium;
use media::nvmm::curve;
use sim::MemoryModel;
use sim::memory::{ACCEPT, Core, Curve, Ddr, Law};

use crate::machine::{MachinePreset, Values, count, positive, value};

/// The keys of the table, in the order of the file.
pub(crate) const KEYS: &[&str] = &[
    "points",
    "channels",
    "rate",
    "width",
    "idle",
    "a",
    "b",
    "b1",
    "c0",
    "c1",
    "c2",
    "k",
    "issue",
    "depth",
    "outstanding",
    "credits",
    "accept",
    L3_HIT,
    ERRORS,
];

/// The key of a hit in the cache of a socket, where the table changes it.
pub(crate) const L3_HIT: &str = "l3_hit";

/// The key of what is known of its errors.
const ERRORS: &str = "errors";

/// The keys whose values are texts.
pub(crate) const TEXTS: [&str; 2] = ["points", ERRORS];

/// What the table says.
pub(crate) struct Read {
    pub(crate) model: MemoryModel,
    /// In picoseconds.
    pub(crate) l3_hit_ps: Option<u64>,
}

/// Reads the table; what no memory can be is a problem of it.
pub(crate) fn read(table: &Table<'_>, values: &mut Values) -> Option<Read> {
    let law = match table.get("points") {
        Some(_) => points(table, values)?,
        None => Law::Ddr(ddr(table, values)),
    };
    let plain = Core::GOLDEN_COVE;
    let core = Core {
        issue_ps: optional(table, "issue", values, span_ps).unwrap_or(plain.issue_ps),
        depth: optional(table, "depth", values, whole).unwrap_or(plain.depth),
        outstanding: optional(table, "outstanding", values, whole).unwrap_or(plain.outstanding),
        credits: optional(table, "credits", values, whole).unwrap_or(plain.credits),
    };
    let accept =
        optional(table, "accept", values, times).map_or(ACCEPT, |part| (part * 1_000.0 + 0.5) as u64);
    let l3_hit_ps = optional(table, L3_HIT, values, span_ps);
    optional(table, ERRORS, values, |entry| {
        entry.need("text", "what is known of its errors")?.text().map(|text| ((), text))
    });
    let model = MemoryModel { core, accept_per_mille: accept, ..MemoryModel::local(law) };
    values.refuse(model.check().map_err(|what| table.problem(what)));
    Some(Read { model, l3_hit_ps })
}

fn points(table: &Table<'_>, values: &mut Values) -> Option<Law> {
    value(table, "points", values, |entry| {
        let item = entry.need("text", "READS%: GB/s@ns GB/s@ns …; READS%: …")?;
        let text = item.text()?;
        let curve = curve::of_points(&text).and_then(Curve::new).map_err(|what| item.problem(what))?;
        Ok((Some(Law::Curve(curve)), text))
    })
}

fn ddr(table: &Table<'_>, values: &mut Values) -> Ddr {
    let channels = f64::from(count(table, "channels", values));
    let rate = number(table, "rate", "mt_per_s", "MT/s", values);
    let width = number(table, "width", "bits", "bit", values);
    let mut ns = |key| value(table, key, values, span_ps) as f64 / 1e3;
    let (idle, a, b) = (ns("idle"), ns("a"), ns("b"));
    let mut part = |key| value(table, key, values, times);
    let (b1, c0, c1, c2, k) = (part("b1"), part("c0"), part("c1"), part("c2"), part("k"));
    Ddr { peak: channels * rate * width / 8_000.0, idle, a, b, b1, c0, c1, c2, k, known: None }
}

fn number(table: &Table<'_>, key: &'static str, unit: &'static str, shown: &str, values: &mut Values) -> f64 {
    value(table, key, values, |entry| {
        let number = positive(&entry.need(unit, "a number")?)?;
        Ok((number, format!("{number} {shown}")))
    })
}

/// A time in picoseconds.
fn span_ps(entry: &Table<'_>) -> Result<(u64, String), Problem> {
    let number = positive(&entry.need("ns", "a time in nanoseconds")?)?;
    Ok(((number * 1_000.0).round() as u64, format!("{number} ns")))
}

fn times(entry: &Table<'_>) -> Result<(f64, String), Problem> {
    let number = positive(&entry.need("times", "a ratio")?)?;
    Ok((number, format!("{number} times")))
}

fn whole(entry: &Table<'_>) -> Result<(u64, String), Problem> {
    let number: u64 = entry.need("count", "a number, at least 1")?.number()?;
    Ok((number, number.to_string()))
}

fn optional<T: Default>(
    table: &Table<'_>,
    key: &'static str,
    values: &mut Values,
    read: impl FnOnce(&Table<'_>) -> Result<(T, String), Problem>,
) -> Option<T> {
    table.get(key).map(|_| value(table, key, values, read))
}

/// The sentence of pages about a machine's memory under load: figures, source, how far they were off. None without a model.
pub fn sentence_of_machine(preset: &MachinePreset) -> Option<String> {
    let model = preset.machine.memory.as_ref()?;
    let errors = preset.values.iter().find(|value| value.key == ERRORS).map_or("", |value| &*value.value);
    Some(sentence(&preset.machine.name, model, &source_of_machine(preset), errors))
}

/// The same of a medium that is a memory under load; none of others.
pub fn sentence_of_medium(medium: &Medium) -> Option<String> {
    let built = medium.build().ok()?;
    let model = built.memory()?.model();
    let given = medium.parameters().iter().filter(|param| param.source == "given");
    let given = given.map(|param| format!(",{}={}", param.name, param.value)).collect::<Vec<_>>().concat();
    // What is known of a preset's errors is not known of others.
    let errors = if given.is_empty() { medium.errors() } else { "" };
    Some(sentence(&(medium.name().to_owned() + &given), model, &source_of_medium(medium), errors))
}

fn sentence(name: &str, model: &MemoryModel, source: &str, errors: &str) -> String {
    let figures = model.sentence();
    let figures = figures.strip_prefix("memory: ").unwrap_or(&figures);
    let errors = if errors.is_empty() { "held against no published row" } else { errors };
    format!("memory of {name}: {figures}; source: {source}; errors: {errors}")
}

/// Who says what the idle latency of a machine's memory is.
pub fn source_of_machine(preset: &MachinePreset) -> String {
    let idle = preset.values.iter().find(|value| ["idle", "points"].contains(&value.key));
    idle.map_or_else(String::new, |value| value.source.clone())
}

/// Who says what the idle latency of a medium is.
pub fn source_of_medium(medium: &Medium) -> String {
    let of = |name: &str| medium.parameters().iter().find(|param| param.name == name);
    let given = |name: &&str| of(name).is_some_and(|param| param.source != "not given");
    let name = ["extra", "idle", "points", "file"].into_iter().find(given);
    name.and_then(of).map_or_else(String::new, |param| param.source.clone())
}
