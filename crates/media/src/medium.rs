//! Media by name: types with parameters, presets that set them, and the form in which people write one.
//!
//! | written | means |
//! |---|---|
//! | `hinfs` | the preset or the type of this name, with its defaults |
//! | `hinfs,latency=400ns,round=ceil` | the same with other values |
//! | `mine.toml`, `mine.toml,latency=1us` | the preset in a file, called by the file's name without its ending |
//!
//! A *type* is code: one file under `nvmm/` and one line in [`MEDIA`]. A *preset* is data: one file under
//! `presets/media/` that names its type and gives values with their sources, and one line in `preset.rs`. A
//! type of which no preset has the name is its own preset.

use std::path::Path;
use std::{fmt, fs};

use sim::{Bytes, Nanos, Rate};

use crate::cost::CostModel;
use crate::nvmm::{bucket, buffered, flat, hinfs, memory, null, optane};
use crate::preset;

/// Every kind of memory medium.
pub static MEDIA: &[&dyn MediumType] = &[
    &null::NullType,
    &hinfs::HinfsType,
    &bucket::BucketType,
    &flat::FlatType,
    &memory::DdrType,
    &memory::CurveType,
    &memory::CxlType,
    &memory::RemoteType,
    &optane::OptaneType,
    &buffered::BufferedType,
];

/// A kind of medium: what it is called, what can be set, how it is built.
pub trait MediumType: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// One line: what it models.
    fn summary(&self) -> &'static str;

    /// What can be set.
    fn parameters(&self) -> &'static [ParamSpec];

    /// The beginnings of the names of rows (`presets/validation`) by which default values were chosen.
    fn fitted_on(&self) -> &'static [&'static str] {
        &[]
    }

    /// Builds the model from values for all parameters.
    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError>;
}

impl fmt::Debug for dyn MediumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One parameter of a medium.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: ParamKind,
    /// The value when neither preset nor user gives one.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A time: `200ns`.
    Time,
    /// A bandwidth: `1GB/s`.
    Rate,
    /// A size: `4KiB`.
    Size,
    /// A whole number.
    Count,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A time with parts of a nanosecond: `117.2ns`.
    Span,
    /// A decimal fraction: `0.875`.
    Number,
    /// A bandwidth of a direction of a link: `31.5GB/s`, or `x8` of PCI Express 5.0.
    Link,
    /// A bandwidth at a share of reads in percent: `240.6GB/s@100`; or `none`.
    Known,
    /// Any text; may be empty.
    Text,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A time.
    Time(Nanos),
    /// A bandwidth.
    Rate(Rate),
    /// A size.
    Size(Bytes),
    /// A number.
    Count(u64),
    /// A word.
    Choice(&'static str),
    /// A time in picoseconds.
    Span(u64),
    /// A number in millionths.
    Number(u64),
    /// A bandwidth, and millionths of a percent of reads at which it is meant.
    Known(Option<(Rate, u64)>),
    /// A text.
    Text(String),
}

impl fmt::Display for Value {
    /// As it can be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{}ns", time.0),
            Self::Rate(rate) => write!(f, "{}", Compact(rate)),
            Self::Size(size) => write!(f, "{}", Compact(size)),
            Self::Count(count) => write!(f, "{count}"),
            Self::Choice(word) => f.write_str(word),
            Self::Span(ps) => write!(f, "{}ns", Decimal(*ps, 1_000)),
            Self::Number(millionths) => write!(f, "{}", Decimal(*millionths, MILLION)),
            Self::Known(None) => f.write_str("none"),
            Self::Known(Some((rate, share))) => write!(f, "{}@{}", Compact(rate), Decimal(*share, MILLION)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

const MILLION: u64 = 1_000_000;

/// A number of parts of one, without zeros at its end.
struct Decimal(u64, u64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, mut rest, mut part) = (self.0 / self.1, self.0 % self.1, self.1 / 10);
        write!(f, "{whole}")?;
        if rest > 0 {
            f.write_str(".")?;
        }
        while rest > 0 {
            write!(f, "{}", rest / part)?;
            (rest, part) = (rest % part, part / 10);
        }
        Ok(())
    }
}

/// A decimal number in parts of one, of which a millisecond has as many nanoseconds.
fn millionths(text: &str) -> Option<u64> {
    let digits = text.chars().all(|c| c.is_ascii_digit() || c == '.') && !text.is_empty();
    let parsed = digits.then(|| format!("{text}ms").parse::<Nanos>().ok()).flatten()?;
    Some(parsed.0)
}

/// A parameter's time is at most this: a longer one is a mistake.
const LONGEST: Nanos = Nanos(1_000_000_000);

/// A time in picoseconds: the number of nanoseconds of a thousand times as long.
fn picoseconds(text: &str) -> Option<u64> {
    let units = [("ns", "us"), ("us", "ms"), ("ms", "s")];
    let (number, longer) =
        units.iter().find_map(|(unit, longer)| Some((text.strip_suffix(unit)?, longer)))?;
    format!("{number}{longer}").parse().ok().map(|Nanos(ps)| ps)
}

/// A direction of PCI Express 5.0 of so many lanes: 32 GT/s, of which 128 of 130 bits are data.
fn lanes(text: &str) -> Option<Rate> {
    match text {
        "x4" => Some(Rate(15_750_000_000)),
        "x8" => Some(Rate(31_500_000_000)),
        "x16" => Some(Rate(63_000_000_000)),
        _ => text.parse().ok(),
    }
}

/// A bandwidth at a share.
fn known(text: &str) -> Option<Value> {
    if text == "none" {
        return Some(Value::Known(None));
    }
    let (rate, share) = text.split_once('@')?;
    let share = millionths(share.trim_end_matches('%')).filter(|share| *share <= 100 * MILLION)?;
    Some(Value::Known(Some((rate.parse().ok()?, share))))
}

/// A unit without the blank between number and suffix. Values print exactly: see `canonical`.
struct Compact<'a, T>(&'a T);

impl fmt::Display for Compact<'_, Rate> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0 {
            rate if rate > 0 && rate.is_multiple_of(1_000_000_000) => {
                write!(f, "{}GB/s", rate / 1_000_000_000)
            }
            rate if rate > 0 && rate.is_multiple_of(1_000_000) => write!(f, "{}MB/s", rate / 1_000_000),
            rate => write!(f, "{rate}B/s"),
        }
    }
}

impl fmt::Display for Compact<'_, Bytes> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0 {
            size if size > 0 && size.is_multiple_of(sim::KIB) => write!(f, "{}KiB", size / sim::KIB),
            size => write!(f, "{size}"),
        }
    }
}

impl ParamKind {
    fn expects(self) -> String {
        match self {
            Self::Time => "a time such as 200ns, in ns, us, ms or s, at most 1s".to_owned(),
            Self::Rate => "a bandwidth such as 1GB/s".to_owned(),
            Self::Size => "a size such as 4KiB".to_owned(),
            Self::Count => "a whole number".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Span => "a time such as 117.2ns, in ns, us or ms, at most 1000ms".to_owned(),
            Self::Number => "a number such as 0.875".to_owned(),
            Self::Link => "x4, x8, x16 or a bandwidth such as 31.5GB/s".to_owned(),
            Self::Known => "a bandwidth at a share of reads, such as 240.6GB/s@100, or none".to_owned(),
            Self::Text => "a text".to_owned(),
        }
    }

    fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::Time => text.parse().ok().filter(|time| *time <= LONGEST).map(Value::Time),
            Self::Rate => text.parse().ok().map(Value::Rate),
            Self::Size => text.parse().ok().map(Value::Size),
            Self::Count => text.parse().ok().map(Value::Count),
            Self::Choice(words) => words.iter().find(|word| **word == text).map(|word| Value::Choice(word)),
            Self::Span => picoseconds(text).filter(|ps| *ps <= LONGEST.0 * 1_000).map(Value::Span),
            Self::Number => millionths(text).map(Value::Number),
            Self::Link => lanes(text).map(Value::Rate),
            Self::Known => known(text),
            Self::Text => Some(Value::Text(text.to_owned())),
        }
    }
}

/// Why a medium could not be named, read or built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MediumError {
    /// No such medium.
    #[error("there is no {what} \"{name}\"; {advice}")]
    Unknown {
        /// What was looked for: "medium", "model of a medium".
        what: &'static str,
        /// What was asked for.
        name: String,
        /// The nearest names, or all.
        advice: String,
    },
    /// No such parameter.
    #[error("medium {medium} has no parameter \"{name}\"; {advice}")]
    UnknownParameter {
        /// The medium.
        medium: String,
        /// What was given.
        name: String,
        /// The nearest names, or all.
        advice: String,
    },
    /// A value that the parameter does not take.
    #[error("medium {medium}: {name} = \"{value}\" is not {expected}")]
    BadValue {
        /// The medium.
        medium: String,
        /// The parameter.
        name: String,
        /// What was given.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// Values that no memory has together, or a file of a curve that cannot be used.
    #[error("medium {medium}: {what}")]
    Impossible {
        /// The medium.
        medium: String,
        /// What is wrong.
        what: String,
    },
    /// Something other than `key=value` after the name.
    #[error("medium {medium}: write \"{text}\" as parameter=value")]
    NotAnAssignment {
        /// The medium.
        medium: String,
        /// What was given.
        text: String,
    },
    /// A preset file that cannot be read.
    #[error("cannot read the medium file {path}: {what}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the operating system said.
        what: String,
    },
    /// A preset file that does not follow the format.
    #[error(transparent)]
    Preset(#[from] document::Problem),
}

/// One parameter with its value and where that comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The parameter's name.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// Who says so: a preset's source, "given", or the source of the default.
    pub source: String,
}

/// Values for all parameters of a type, in the order of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params(Vec<Param>);

impl Params {
    /// The values of a table that sets none.
    pub(crate) fn defaults(specs: &[ParamSpec]) -> Self {
        let default = |spec: &ParamSpec| Param {
            name: spec.name,
            value: spec.kind.parse(spec.default).expect("a test parses every default"),
            source: spec.source.to_owned(),
        };
        Self(specs.iter().map(default).collect())
    }

    /// Gives a parameter of `owner` another value; `specs` is its table.
    pub(crate) fn set(
        &mut self,
        owner: &str,
        specs: &[ParamSpec],
        name: &str,
        value: &str,
        source: &str,
    ) -> Result<(), MediumError> {
        let Some(index) = specs.iter().position(|spec| spec.name == name) else {
            return Err(MediumError::UnknownParameter {
                medium: owner.to_owned(),
                name: name.to_owned(),
                advice: document::nearest(name, specs.iter().map(|spec| spec.name)),
            });
        };
        let parsed = specs[index].kind.parse(value).ok_or_else(|| MediumError::BadValue {
            medium: owner.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
            expected: specs[index].kind.expects(),
        })?;
        self.0[index] = Param { name: specs[index].name, value: parsed, source: source.to_owned() };
        Ok(())
    }

    /// Every parameter, in the order of the table.
    pub(crate) fn all(&self) -> &[Param] {
        &self.0
    }

    fn get(&self, name: &str) -> Value {
        let param = self.0.iter().find(|param| param.name == name);
        param.expect("a model asks for the parameters that its type declares").value.clone()
    }

    /// The time `name`, in picoseconds.
    pub fn span_ps(&self, name: &str) -> u64 {
        if let Value::Span(ps) = self.get(name) { ps } else { 0 }
    }

    /// The number `name`.
    pub fn number(&self, name: &str) -> f64 {
        if let Value::Number(millionths) = self.get(name) { millionths as f64 / MILLION as f64 } else { 0.0 }
    }

    /// The bandwidth `name` in bytes a nanosecond, with the part of writes at which it is meant.
    pub fn known(&self, name: &str) -> Option<(f64, f64)> {
        let Value::Known(Some((rate, share))) = self.get(name) else { return None };
        Some((1.0 - share as f64 / (100 * MILLION) as f64, rate.0 as f64 / 1e9))
    }

    /// The text `name`.
    pub fn text(&self, name: &str) -> String {
        if let Value::Text(text) = self.get(name) { text } else { String::new() }
    }

    /// The time `name`.
    pub fn time(&self, name: &str) -> Nanos {
        if let Value::Time(time) = self.get(name) { time } else { Nanos::ZERO }
    }

    /// The bandwidth `name`.
    pub fn rate(&self, name: &str) -> Rate {
        if let Value::Rate(rate) = self.get(name) { rate } else { Rate(0) }
    }

    /// The size `name`.
    pub fn size(&self, name: &str) -> Bytes {
        if let Value::Size(size) = self.get(name) { size } else { Bytes(0) }
    }

    /// The number `name`.
    pub fn count(&self, name: &str) -> u64 {
        if let Value::Count(count) = self.get(name) { count } else { 0 }
    }

    /// The word `name`.
    pub fn choice(&self, name: &str) -> &'static str {
        if let Value::Choice(word) = self.get(name) { word } else { "" }
    }
}

/// A medium with all its values: what a plan names and a region is built on.
#[derive(Clone, Debug)]
pub struct Medium {
    name: String,
    summary: String,
    date: String,
    fitted_on: Vec<String>,
    errors: String,
    kind: &'static dyn MediumType,
    params: Params,
}

impl Medium {
    /// The medium that people write as `NAME[,parameter=value…]`.
    pub fn parse(text: &str) -> Result<Self, MediumError> {
        let mut parts = text.split(',').map(str::trim);
        let mut medium = Self::named(parts.next().unwrap_or(""))?;
        for part in parts {
            let (name, value) = part.split_once('=').ok_or_else(|| MediumError::NotAnAssignment {
                medium: medium.name.clone(),
                text: part.to_owned(),
            })?;
            medium.set(name.trim(), value.trim(), "given")?;
        }
        Ok(medium)
    }

    /// The preset, the one in a file (`.toml`), or else the type, of this name.
    pub fn named(name: &str) -> Result<Self, MediumError> {
        if file_stem(name).is_some() {
            return Self::from_preset(name, &read_file(name)?);
        }
        if let Some((preset, text)) = preset::PRESETS.iter().find(|(preset, _)| *preset == name) {
            return Self::from_preset(&format!("presets/media/{preset}.toml"), text);
        }
        let kind = kind_named(name).ok_or_else(|| unknown("medium", name, names()))?;
        Ok(Self::of_type(kind.name(), kind.summary(), kind))
    }

    /// The medium of a preset's text; `origin` is its file, which gives it its name.
    ///
    /// # Errors
    /// [`MediumError::Preset`] with all that is wrong, each at its line and column.
    pub fn from_preset(origin: &str, text: &str) -> Result<Self, MediumError> {
        let begin = |head: preset::Head, model: &str| {
            let known = MEDIA.iter().map(|kind| kind.name());
            let kind = kind_named(model).ok_or_else(|| unknown("model of a medium", model, known))?;
            let medium = Self::of_type(&head.name, &head.summary, kind);
            Ok(Self { date: head.date, fitted_on: head.fitted_on, errors: head.errors, ..medium })
        };
        preset::read(origin, text, begin, Self::set)
    }

    /// The medium as a preset file, with the source of each value.
    pub fn to_toml(&self) -> String {
        let head = preset::Head {
            name: self.name.clone(),
            summary: self.summary.clone(),
            date: self.date.clone(),
            fitted_on: self.fitted_on.clone(),
            errors: self.errors.clone(),
        };
        preset::write(self.kind.name(), &head, self.params.all())
    }

    fn of_type(name: &str, summary: &str, kind: &'static dyn MediumType) -> Self {
        let params = Params::defaults(kind.parameters());
        let (date, fitted_on, errors) = (String::new(), Vec::new(), String::new());
        Self { name: name.to_owned(), summary: summary.to_owned(), date, fitted_on, errors, kind, params }
    }

    /// Gives a parameter another value.
    pub fn set(&mut self, name: &str, value: &str, source: &str) -> Result<(), MediumError> {
        self.params.set(&self.name, self.kind.parameters(), name, value, source)
    }

    /// The preset's or type's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line: what it is.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// When a preset's values were current, as it says; empty for a bare type.
    pub fn date(&self) -> &str {
        &self.date
    }

    /// The claims that a preset's values were fitted on: they do not count as reproduced on this medium.
    pub fn fitted_on(&self) -> &[String] {
        &self.fitted_on
    }

    /// The errors of a preset beside published rows, and what was not compared, as it says; may be empty.
    pub fn errors(&self) -> &str {
        &self.errors
    }

    /// The type of its model.
    pub fn kind(&self) -> &'static dyn MediumType {
        self.kind
    }

    /// Every parameter with its value and source, in the order of the type's table.
    pub fn parameters(&self) -> &[Param] {
        &self.params.0
    }

    /// A fresh model: empty queues, cold buffers.
    pub fn build(&self) -> Result<Box<dyn CostModel>, MediumError> {
        self.kind.build(&self.params)
    }
}

/// Every value spelled out, so that equal texts mean equal media: what a result records.
impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.params.0.iter().try_for_each(|param| write!(f, ",{}={}", param.name, param.value))
    }
}

/// Names that go with the next release, and what to use instead.
const WITHDRAWN: [(&str, &str); 2] = [
    (
        "cxl.slow",
        "cxl.slow stands for no card and goes with the next release: use cxl.fpga, or cxl,extra=… of your card",
    ),
    (
        "cxl.flat",
        "cxl.flat is the cxl.asic of earlier versions and goes with the next release: cxl.asic is measured",
    ),
];

/// What to say of a medium that goes with the next release, with or without parameters.
pub fn withdrawn(medium: &str) -> Option<&'static str> {
    let name = medium.split(',').next().unwrap_or_default();
    WITHDRAWN.iter().find(|(known, _)| *known == name).map(|(_, advice)| *advice)
}

fn kind_named(name: &str) -> Option<&'static dyn MediumType> {
    MEDIA.iter().copied().find(|kind| kind.name() == name)
}

/// The names of all presets and types, without repeats: presets first.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = preset::PRESETS.iter().map(|(name, _)| *name).collect();
    for kind in MEDIA {
        if !names.contains(&kind.name()) {
            names.push(kind.name());
        }
    }
    names
}

/// The name of a preset in a file, which is the file's without its ending; none if `name` is no file's.
pub(crate) fn file_stem(name: &str) -> Option<String> {
    let file = Path::new(name);
    let stem = file.extension().is_some_and(|end| end == "toml").then(|| file.file_stem()).flatten()?;
    Some(stem.to_string_lossy().into_owned())
}

/// The text of a preset's file.
pub(crate) fn read_file(name: &str) -> Result<String, MediumError> {
    fs::read_to_string(name)
        .map_err(|error| MediumError::Unreadable { path: name.to_owned(), what: error.to_string() })
}

/// No medium, or model of one, of this name.
pub(crate) fn unknown<'a>(
    what: &'static str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> MediumError {
    MediumError::Unknown { what, name: name.to_owned(), advice: document::nearest(name, known) }
}
