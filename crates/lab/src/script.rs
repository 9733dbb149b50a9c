//! The workload of a cell: a script of Filebench's language with the variables that the plan gives it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use workload::filebench::program::Fileset;
use workload::filebench::{self, Overrides, PERSONALITIES, Program, Value};

use crate::error::{Error, nearest, read_to_string};

/// The folder of Filebench's personalities in names of workloads.
const FILEBENCH: &str = "filebench/";

/// A checked script.
#[derive(Clone, Debug)]
pub struct Script {
    /// `filebench/NAME`, or a file ending in `.f`.
    pub name: String,
    /// The script after all checks.
    pub program: Arc<Program>,
}

impl Script {
    /// The personality or file called `name`, with `vars` in place of its own values.
    pub fn load(name: &str, vars: &BTreeMap<String, String>) -> Result<Self, Error> {
        let overrides: Overrides = vars.iter().map(|(name, text)| (name.clone(), value(text))).collect();
        let program = filebench::load(name, &source(name)?, &overrides);
        let program = program.map_err(|report| Error::Setting(report.to_string()))?;
        Ok(Self { name: name.to_owned(), program: Arc::new(program) })
    }

    /// Bytes of all its files together, when all of them exist at their nominal sizes.
    pub fn data_bytes(&self) -> u64 {
        let bytes =
            |set: &Fileset| set.entries.mean() as u64 * (set.size.mean() as u64).next_multiple_of(4096);
        self.program.filesets.iter().map(bytes).sum()
    }
}

/// The text of a script.
fn source(name: &str) -> Result<String, Error> {
    if Path::new(name).extension().is_some_and(|extension| extension == "f") {
        let advice = "`weir list workloads` shows those that are built in";
        return read_to_string(Path::new(name), "workload file", advice);
    }
    let short = name.strip_prefix(FILEBENCH).unwrap_or(name);
    match PERSONALITIES.iter().find(|personality| personality.name == short) {
        Some(personality) => Ok(personality.source.to_owned()),
        None => Err(Error::Unknown { what: "workload", name: name.to_owned(), advice: near(short) }),
    }
}

fn near(short: &str) -> String {
    nearest(short, PERSONALITIES.iter().map(|personality| personality.name))
        .replace("mean \"", "mean \"filebench/")
}

/// What a variable is set to: a flag, a number (`4096`, `4k`, `1MiB`), or text.
fn value(text: &str) -> Value {
    if let Ok(flag) = text.parse() {
        return Value::Bool(flag);
    }
    match text.parse::<sim::Bytes>() {
        Ok(number) => Value::Int(number.0),
        Err(_) => Value::Text(text.to_owned()),
    }
}

/// The full name of a workload given on the command line: `varmail` is `filebench/varmail`.
pub fn full_name(name: &str) -> String {
    let known = PERSONALITIES.iter().any(|personality| personality.name == name);
    if known { format!("{FILEBENCH}{name}") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_flags_numbers_or_text() {
        assert_eq!(value("true"), Value::Bool(true));
        assert_eq!(value("4k"), Value::Int(4096));
        assert_eq!(value("/tmp"), Value::Text("/tmp".to_owned()));
    }
}
