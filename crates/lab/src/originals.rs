//! What the originals of designs take: prices of the named parts of a design ([`sim::Part`]) in `presets/originals/NAME.toml`.
//!
//! ```toml
//! summary = "one line"
//! designs = ["nova", "rcache"]             # designs of Weir that run this code: they have an original
//! own = { rcache = "its cache in DRAM" }   # what each does that no price is of
//! fitted_on = ["sqfs.creat.nova"]          # rows of presets/validation by which a price was chosen
//! path_component = 58                      # nanoseconds of it on the machine that the prices are of
//!
//! [parts]
//! # of the part `NAME.append`, and operations that run it
//! append = { ns = 450, operations = ["create", "write"], source = "…" }
//! ```
//!
//! A design of Weir does what its original does with fewer instructions: they were written for this laboratory and carry nothing
//! that Linux has around them. A price is charged each time that the part begins, beside the work that the design charges there,
//! and what its stores and loads take. On another machine prices are scaled by what a component of a path takes: code of the kernel
//! on both.
//!
//! A design has at most eight prices, none of a part that only one operation has: a mechanism is priced, not a call.

use std::collections::BTreeMap;

use document::{Item, Problem, Table};
use sim::PartPrice;

use crate::presets::{ORIGINALS, Preset};
use crate::prices;

/// Prices of one design.
pub(crate) const MOST: usize = 8;

/// A file of prices.
#[derive(Debug, PartialEq, Eq)]
struct Original {
    /// Designs that run its code.
    designs: Vec<String>,
    /// What each of them does that no price is of.
    own: BTreeMap<String, String>,
    fitted_on: Vec<String>,
    /// Of a component of a path, in nanoseconds.
    path_component: u64,
    parts: Vec<Price>,
}

/// The price of a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Price {
    /// The part, without the design.
    pub(crate) part: String,
    pub(crate) ps: u64,
    /// Some of the operations that run it.
    pub(crate) operations: Vec<String>,
}

/// Every design with prices of its own.
pub(crate) fn all() -> Result<Vec<(&'static str, Vec<Price>)>, Problem> {
    let parse = |preset: &Preset| Ok((preset.name, parse(preset.name, preset.text)?.parts));
    modules().map(parse).collect()
}

/// The files of prices of parts, without those of the other sets.
fn modules() -> impl Iterator<Item = &'static Preset> {
    ORIGINALS.iter().filter(|preset| !prices::FILES.contains(&preset.name))
}

/// The original that has the code which the design called `name` runs, and what the design does beside it that has no price.
pub(crate) fn of_design(name: &str) -> Option<(&'static str, String)> {
    let all = modules().filter_map(|preset| Some((preset.name, parse(preset.name, preset.text).ok()?)));
    let mut found = all.filter(|(_, original)| original.designs.iter().any(|design| design == name));
    found.next().map(|(module, original)| (module, original.own.get(name).cloned().unwrap_or_default()))
}

/// The prices of the originals called `names` on a machine where a component of a path takes `path_component_ps`. Rows by which
/// they were chosen are added to `fitted_on`.
pub(crate) fn prices(
    names: &[String],
    path_component_ps: u64,
    fitted_on: &mut Vec<String>,
) -> Result<Vec<PartPrice>, String> {
    let mut prices = Vec::new();
    for name in names {
        let preset = modules().find(|preset| preset.name == name).ok_or_else(|| {
            let advice = document::nearest(name, modules().map(|preset| preset.name));
            format!("there is no presets/originals/{name}.toml; {advice}")
        })?;
        let original = parse(&format!("presets/originals/{name}.toml"), preset.text)
            .map_err(|problem| problem.to_string())?;
        let scaled = |ps: u64| ps * path_component_ps / (original.path_component * 1_000);
        let priced =
            |price: &Price| PartPrice { part: format!("{name}.{}", price.part), ps: scaled(price.ps) };
        prices.extend(original.parts.iter().map(priced));
        for row in original.fitted_on {
            if !fitted_on.contains(&row) {
                fitted_on.push(row);
            }
        }
    }
    Ok(prices)
}

fn parse(origin: &str, text: &str) -> Result<Original, Problem> {
    document::read(origin, text, |root| {
        root.need("summary", "what it is, in one line")?.text()?;
        let parts = root.need("parts", "prices of named parts")?.read(|table| {
            let price = |(part, item): (String, Item<'_>)| item.read(|table| price(part.clone(), table));
            table.take_rest().into_iter().map(price).collect::<Result<Vec<_>, _>>()
        })?;
        if parts.len() > MOST {
            return Err(root.problem(format!("{} prices of one design: at most {MOST}", parts.len())));
        }
        let reference =
            root.need("path_component", "nanoseconds of it on the machine that the prices are of")?;
        let path_component = reference.number()?;
        if path_component == 0 {
            return Err(reference.problem("must be above 0"));
        }
        let fitted_on = root.need("fitted_on", "rows by which a price was chosen, or []")?.words()?;
        let designs = root.need("designs", "designs that run this code")?.words()?;
        let own =
            root.need("own", "what each design does that no price is of")?.read(crate::plan::read::words)?;
        Ok(Original { designs, own, fitted_on, path_component, parts })
    })
}

fn price(part: String, table: &Table<'_>) -> Result<Price, Problem> {
    let item = table.need("ns", "what the part takes")?;
    let ns = item.float()?;
    let users = table.need("operations", "which operations run it")?;
    let operations = users.words()?;
    if operations.len() < 2 {
        return Err(users.problem("a price of one operation is that of a call, not of a mechanism: name two"));
    }
    let source = table.need("source", "where the number comes from")?;
    if source.text()?.trim().is_empty() {
        return Err(source.problem("is empty: say where the number comes from"));
    }
    if !(0.0..1e9).contains(&ns) {
        return Err(item.problem("must be a time below 1 s"));
    }
    Ok(Price { part, ps: (ns * 1e3).round() as u64, operations })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_original_parses_and_a_price_without_a_source_is_refused() {
        for preset in modules() {
            let original = parse(preset.name, preset.text).unwrap();
            assert!(!original.parts.is_empty() && original.parts.len() <= MOST, "{}", preset.name);
            for design in &original.designs {
                assert!(fs::by_name(design).is_some() && original.own.contains_key(design), "{design}");
            }
        }
        let text = "summary = \"a\"\ndesigns = []\nown = {}\nfitted_on = []\npath_component = 58\n[parts]\n\
                    append = { ns = 1, operations = [\"a\", \"b\"] }\n";
        let told = parse("x.toml", text).unwrap_err().to_string();
        assert!(told.contains("needs \"source\""), "{told}");
        let told = parse("x.toml", &text.replace("\"a\", ", "")).unwrap_err().to_string();
        assert!(told.contains("not of a mechanism"), "{told}");
    }

    #[test]
    fn prices_are_scaled_by_a_component_of_a_path() {
        let names = ["nova".to_owned()];
        let (one, two) = (prices(&names, 58_000, &mut Vec::new()), prices(&names, 116_000, &mut Vec::new()));
        for (one, two) in one.unwrap().iter().zip(two.unwrap()) {
            assert_eq!((&one.part, one.ps * 2), (&two.part, two.ps));
        }
        let told = prices(&["nover".to_owned()], 58_000, &mut Vec::new()).unwrap_err();
        assert!(told.contains("did you mean \"nova\"?"), "{told}");
    }
}
