//! Presets of media: settings with units and sources, compiled in.
//!
//! ```toml
//! model = "hinfs"                         # a type of `MEDIA`
//! summary = "one line"
//! date = "2016-04"                        # when the values were current
//! fitted_on = ["claim.id"]                # optional: claims that a value was fitted on
//! errors = "mean 3 % of 20 rows"          # optional: how far it was off, and what was not compared
//!
//! [parameters]
//! latency = { value = "200ns", source = "EuroSys 2016, section 5.1" }
//! ```
//!
//! A value without a source is refused, and so is a key that the format or the type does not know.

use document::{Item, Problem, Problems, Table};

use crate::medium::{MediumError, Param, file_stem};

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../shipped/media/", $name, ".toml")))),*]
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
    "cxl.montage",
    "cxl.fpga",
    "cxl.flat",
    "cxl.slow",
    "classic",
    "revised",
];

/// What a preset says of itself.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) date: String,
    pub(crate) fitted_on: Vec<String>,
    pub(crate) errors: String,
}

/// Reads a preset. `begin` makes the medium of a model with default values, `set` gives a parameter (name, value, source) its
/// value; what they refuse is told at its place, and all that is wrong at once.
///
/// `origin` is the file's name, which stands in messages and, without folder and ending, is the preset's name.
pub(crate) fn read<T>(
    origin: &str,
    text: &str,
    begin: impl FnOnce(Head, &str) -> Result<T, MediumError>,
    set: impl Fn(&mut T, &str, &str, &str) -> Result<(), MediumError>,
) -> Result<T, MediumError> {
    let read = document::read(origin, text, |root| {
        let mut all = Problems::default();
        let head = all.take(head(origin, root)).unwrap_or_default();
        let model = all.take(root.need("model", "the type of medium that it sets"));
        let begun = model.map(|item| item.text().and_then(|model| begin(head, &model).map_err(at(&item))));
        let mut medium = begun.and_then(|begun| all.take(begun));
        for (key, item) in parameters(root)? {
            let setting = all.take(item.read(setting));
            let (Some((value, source)), Some(medium)) = (setting, &mut medium) else { continue };
            all.take(set(medium, &key, &value, &source).map_err(at(&item)));
        }
        all.take(root.finish());
        all.finish()?;
        Ok(medium.expect("what is missing is a problem"))
    });
    Ok(read?)
}

/// A preset as a file, with the source of each value.
pub(crate) fn write(model: &str, head: &Head, parameters: &[Param]) -> String {
    let lines = [
        format!("model = {model:?}\nsummary = {:?}", head.summary),
        format!("date = {:?}\nfitted_on = {:?}", head.date, head.fitted_on),
    ];
    let errors = (!head.errors.is_empty()).then(|| format!("errors = {:?}", head.errors));
    let lines = lines.into_iter().chain(errors).chain(["\n[parameters]".to_owned()]);
    let parameter = |Param { name, value, source }: &Param| {
        format!("{name} = {{ value = \"{value}\", source = {source:?} }}")
    };
    lines.chain(parameters.iter().map(parameter)).map(|line| line + "\n").collect()
}

/// The model that a preset names, whatever else may be wrong with it.
pub(crate) fn model_of(origin: &str, text: &str) -> Option<String> {
    let model = document::read(origin, text, |root| {
        let model = root.need("model", "the type of medium that it sets")?.text()?;
        root.take_rest();
        Ok(model)
    });
    model.ok()
}

/// Places an error of the medium at an item.
fn at(item: &Item<'_>) -> impl Fn(MediumError) -> Problem {
    |error| item.problem(error.to_string())
}

fn head(origin: &str, root: &Table<'_>) -> Result<Head, Problem> {
    let mut all = Problems::default();
    let fitted_on = all.take(root.get("fitted_on").map(|item| item.words()).transpose()).flatten();
    let errors = all.take(root.get("errors").map(|item| item.text()).transpose()).flatten();
    let summary = all.take(root.need("summary", "what it is, in one line").and_then(|item| item.text()));
    let date = all.take(root.need("date", "when the values were current").and_then(|item| item.text()));
    all.finish()?;
    Ok(Head {
        name: file_stem(origin).unwrap_or_else(|| origin.to_owned()),
        summary: summary.unwrap_or_default(),
        date: date.unwrap_or_default(),
        fitted_on: fitted_on.unwrap_or_default(),
        errors: errors.unwrap_or_default(),
    })
}

fn parameters<'d>(root: &Table<'d>) -> Result<Vec<(String, Item<'d>)>, Problem> {
    let table = root.get("parameters").map(|item| item.table()).transpose()?;
    Ok(table.map(|table| table.take_rest()).unwrap_or_default())
}

/// A value and who says so.
fn setting(table: &Table<'_>) -> Result<(String, String), Problem> {
    let value = table.need("value", "with its unit")?.text()?;
    let source = table.need("source", "where the value comes from")?;
    match source.text()? {
        text if text.trim().is_empty() => {
            Err(source.problem("has no source: say where its value comes from"))
        }
        text => Ok((value, text)),
    }
}
