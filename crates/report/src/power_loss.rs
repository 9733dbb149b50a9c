//! The page of `weir check crash trace:FILE`: what is broken after a power loss, the calls behind it in their order with what
//! became of each, every file system, and what such a run cannot say.

use askama::Template;

use crate::format::RenderError;
use crate::table::Table;
use crate::units;

/// What became of a call at a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// It has persisted.
    Kept,
    /// It has not, or not whole.
    Lost,
    /// It changes nothing, and makes other calls durable.
    Sync,
}

/// A call of the program.
#[derive(Clone, Debug)]
pub struct Call {
    /// When it began, in nanoseconds since the program's beginning.
    pub at_ns: u64,
    /// Its line of the trace.
    pub line: u64,
    /// The call: `rename a → b`.
    pub what: String,
    /// What became of it.
    pub became: Became,
    /// The same in words.
    pub how: String,
}

/// Something that is broken.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its number, from 1.
    pub number: usize,
    /// What the checker says.
    pub message: String,
    /// The promise that is broken.
    pub promise: &'static str,
    /// The file systems on which it can be.
    pub models: String,
    /// Why, and what helps.
    pub sentences: Vec<String>,
    /// The last line that had been told.
    pub told: Option<String>,
    /// The calls until the crash.
    pub calls: Vec<Call>,
    /// How many calls before them are not shown.
    pub left_out: usize,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct PowerLoss {
    /// The title.
    pub title: String,
    /// The answer in one sentence.
    pub answer: String,
    /// What to know before believing it.
    pub notes: Vec<String>,
    /// What is broken.
    pub found: Vec<Found>,
    /// A row for each file system.
    pub systems: Table,
    /// What the run cannot say.
    pub unsaid: Vec<String>,
    /// What it was made of: name and value.
    pub facts: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "power_loss.html")]
struct Page<'a> {
    title: &'a str,
    run: &'a PowerLoss,
}

impl Call {
    fn class(&self) -> &'static str {
        match self.became {
            Became::Kept => "kept",
            Became::Lost => "lost",
            Became::Sync => "sync",
        }
    }

    /// What tells the rows apart without colour.
    fn sign(&self) -> &'static str {
        match self.became {
            Became::Kept => "●",
            Became::Lost => "✕",
            Became::Sync => "⤓",
        }
    }

    fn time(&self) -> String {
        units::Unit::Nanos.human(self.at_ns as f64)
    }
}

impl PowerLoss {
    /// One page that opens offline.
    pub fn page(&self) -> Result<String, RenderError> {
        Ok(Page { title: &self.title, run: self }.render()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_each_call_with_its_fate_and_escapes_names() {
        let call = |what: &str, became| {
            let (what, how) = (what.to_owned(), "not persisted".to_owned());
            Call { at_ns: 1500, line: 7, what, became, how }
        };
        let mut systems = Table::new("File systems");
        systems.words("file system");
        systems.rows.push(vec!["ext4".to_owned()]);
        let found = Found {
            number: 1,
            message: "s is empty".to_owned(),
            promise: "atomicity",
            models: "posix, ext4".to_owned(),
            sentences: vec!["Fix: fsync(t) before the rename.".to_owned()],
            told: Some("saved".to_owned()),
            calls: vec![call("write <t>", Became::Lost), call("rename t → s", Became::Kept)],
            left_out: 3,
        };
        let (title, answer) = ("s and a power loss".to_owned(), "1 finding.".to_owned());
        let (found, unsaid) = (vec![found], vec!["sockets".to_owned()]);
        let run = PowerLoss { title, answer, notes: Vec::new(), found, systems, unsaid, facts: Vec::new() };
        let page = run.page().unwrap();
        for part in [
            "class=\"lost\"",
            "class=\"kept\"",
            "write &#60;t&#62;",
            "What this run cannot say",
            "3 calls before",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.find("rename t").unwrap() < page.find("the power fails").unwrap());
    }
}
