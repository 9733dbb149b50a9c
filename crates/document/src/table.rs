//! TOML files read with places: every message says file, line and column, and an unknown key names the nearest legal one.
//!
//! A reader asks a [`Table`] for the keys that it knows; [`Table::finish`] then refuses every key that it did not ask for. So the
//! list of legal keys is the code that reads them and cannot go stale. A key that is missing, while an unknown one is near it, is
//! told as that unknown one. What is wrong in several places is told all at once ([`Problems`]).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::near::{nearest, nearest_of};
use crate::place::position;

/// What is wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {message}{}", also_told(also))]
pub struct Problem {
    /// The file.
    pub origin: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// What is wrong, and the remedy.
    pub message: String,
    /// What else is wrong in the file.
    pub also: Vec<Problem>,
}

fn also_told(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    if lines.is_empty() { String::new() } else { format!("\n{}", lines.join("\n")) }
}

/// Gathers what is wrong in several parts of a file.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// What a part was read as; none if it is wrong, which is kept.
    pub fn take<T>(&mut self, part: Result<T, Problem>) -> Option<T> {
        part.map_err(|mut problem| {
            let also = std::mem::take(&mut problem.also);
            self.0.push(problem);
            self.0.extend(also);
        })
        .ok()
    }

    /// Sets `value` to what a part was read as, if it is there and right.
    pub fn put<T>(&mut self, value: &mut T, part: Result<Option<T>, Problem>) {
        if let Some(Some(read)) = self.take(part) {
            *value = read;
        }
    }

    /// What several parts were read as, or all that is wrong with them.
    pub fn each<T>(parts: impl IntoIterator<Item = Result<T, Problem>>) -> Result<Vec<T>, Problem> {
        let mut all = Self::default();
        let read: Vec<T> = parts.into_iter().filter_map(|part| all.take(part)).collect();
        all.finish().map(|()| read)
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them as one, unknown keys first, then by their places; nothing if there is none.
    pub fn finish(mut self) -> Result<(), Problem> {
        let unknown = |problem: &Problem| !problem.message.starts_with(UNKNOWN);
        self.0.sort_by_key(|problem| (unknown(problem), problem.line, problem.column));
        self.0.dedup();
        let mut all = self.0.into_iter();
        let Some(first) = all.next() else { return Ok(()) };
        Err(Problem { also: all.collect(), ..first })
    }
}

/// How the message about a key that is not known begins.
const UNKNOWN: &str = "unknown key";

/// A file's name and text.
struct Source<'d> {
    origin: &'d str,
    text: &'d str,
}

impl Source<'_> {
    fn problem(&self, span: &Range<usize>, message: impl Into<String>) -> Problem {
        let (line, column) = position(self.text, span.start);
        Problem { origin: self.origin.to_owned(), line, column, message: message.into(), also: Vec::new() }
    }
}

/// Parses `text` and gives its root table to `read`. Keys that `read` did not ask for are refused.
pub fn read<T>(
    origin: &str,
    text: &str,
    read: impl FnOnce(&Table<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let source = Source { origin, text };
    let root = DeTable::parse(text).map_err(|error| {
        source.problem(&error.span().unwrap_or(0..0), error.message().replace('\n', "; "))
    })?;
    let table = Table::new(&source, String::new(), root.span(), root.get_ref());
    let value = read(&table)?;
    table.finish()?;
    Ok(value)
}

/// A table of the file.
pub struct Table<'d> {
    source: &'d Source<'d>,
    name: String,
    span: Range<usize>,
    entries: &'d DeTable<'d>,
    asked: RefCell<BTreeSet<&'static str>>,
    /// Whether the author's own keys were taken, so that none is unknown.
    open: Cell<bool>,
}

/// A value of the file.
#[derive(Clone)]
pub struct Item<'d> {
    source: &'d Source<'d>,
    name: String,
    value: &'d Spanned<DeValue<'d>>,
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl<'d> Table<'d> {
    fn new(source: &'d Source<'d>, name: String, span: Range<usize>, entries: &'d DeTable<'d>) -> Self {
        Self { source, name, span, entries, asked: RefCell::default(), open: Cell::new(false) }
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &'static str) -> Option<Item<'d>> {
        self.asked.borrow_mut().insert(key);
        let value = self.entries.get(key)?;
        Some(Item { source: self.source, name: key.to_owned(), value })
    }

    /// The value of `key`, which must be there; `why` says what it is for.
    pub fn need(&self, key: &'static str, why: &str) -> Result<Item<'d>, Problem> {
        self.get(key).ok_or_else(|| {
            let asked = self.asked.borrow();
            let unknown = self.entries.keys().filter(|other| !asked.contains(other.get_ref().as_ref()));
            let unknown: Vec<_> = unknown.collect();
            let near = nearest_of(key, unknown.iter().map(|other| other.get_ref().as_ref()));
            match unknown.iter().find(|other| Some(other.get_ref().as_ref()) == near) {
                Some(other) => {
                    let message = format!(
                        "{UNKNOWN} \"{}\" in {}; did you mean \"{key}\"?",
                        other.get_ref(),
                        self.title()
                    );
                    self.source.problem(&other.span(), message)
                }
                None => self.problem(format!("{} needs \"{key}\": {why}", self.title())),
            }
        })
    }

    /// Every entry whose key was not asked for: keys of the author's own. They count as known from now on.
    pub fn take_rest(&self) -> Vec<(String, Item<'d>)> {
        self.open.set(true);
        let asked = self.asked.borrow();
        let rest = self.entries.iter().filter(|(key, _)| !asked.contains(key.get_ref().as_ref()));
        rest.map(|(key, value)| {
            let name = key.get_ref().to_string();
            (name.clone(), Item { source: self.source, name, value })
        })
        .collect()
    }

    /// Refuses keys that were not asked for.
    pub fn finish(&self) -> Result<(), Problem> {
        if self.open.get() {
            return Ok(());
        }
        let asked = self.asked.borrow();
        let mut problems = Problems::default();
        for key in self.entries.keys().filter(|key| !asked.contains(key.get_ref().as_ref())) {
            let advice = nearest(key.get_ref(), asked.iter().copied());
            let message = format!("{UNKNOWN} \"{}\" in {}; {advice}", key.get_ref(), self.title());
            problems.0.push(self.source.problem(&key.span(), message));
        }
        problems.finish()
    }

    /// A problem at the head of this table.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        self.source.problem(&self.span, message)
    }

    fn title(&self) -> String {
        if self.name.is_empty() { "the file".to_owned() } else { format!("[{}]", self.name) }
    }
}

impl<'d> Item<'d> {
    /// A problem at this value.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        self.source.problem(&self.value.span(), message)
    }

    fn expected(&self, what: &str) -> Problem {
        let found = self.value.get_ref().type_str();
        self.problem(format!("\"{}\" must be {what}, and this is of type {found}", self.name))
    }

    /// A string.
    pub fn text(&self) -> Result<String, Problem> {
        let text = self.value.get_ref().as_str();
        text.map(str::to_owned).ok_or_else(|| self.expected("text in quotes"))
    }

    /// A string, number or flag, as text.
    pub fn word(&self) -> Result<String, Problem> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.as_str().replace('_', "")),
            DeValue::Float(number) => Ok(number.as_str().replace('_', "")),
            DeValue::Boolean(flag) => Ok(flag.to_string()),
            _ => Err(self.expected("text or a number")),
        }
    }

    /// A whole number.
    pub fn number(&self) -> Result<u64, Problem> {
        let word = self.word()?;
        word.parse().map_err(|_| self.expected("a whole number, 0 or more"))
    }

    /// Any number, infinity included.
    pub fn float(&self) -> Result<f64, Problem> {
        self.word()?.parse().map_err(|_| self.expected("a number"))
    }

    /// Something that is written as text: a size, a time.
    pub fn parse<T: std::str::FromStr<Err: fmt::Display>>(&self) -> Result<T, Problem> {
        self.word()?.parse().map_err(|error: T::Err| self.problem(format!("\"{}\": {error}", self.name)))
    }

    /// One of some words, each standing for a value.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Problem> {
        let word = self.text()?;
        let found = words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let advice = nearest(&word, words.iter().map(|(known, _)| *known));
            self.problem(format!("\"{}\" cannot be \"{word}\"; {advice}", self.name))
        })
    }

    /// The elements of an array.
    pub fn items(&self) -> Result<Vec<Item<'d>>, Problem> {
        let array = self.value.get_ref().as_array().ok_or_else(|| self.expected("a list in brackets"))?;
        Ok(array.iter().map(|value| Item { source: self.source, name: self.name.clone(), value }).collect())
    }

    /// The elements of an array, or the value itself as the only one.
    pub fn one_or_more(&self) -> Result<Vec<Item<'d>>, Problem> {
        if self.value.get_ref().is_array() { self.items() } else { Ok(vec![self.clone()]) }
    }

    /// Each element as text.
    pub fn words(&self) -> Result<Vec<String>, Problem> {
        self.one_or_more()?.iter().map(Item::word).collect()
    }

    /// Whether it is a table.
    pub fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// A table.
    pub fn table(&self) -> Result<Table<'d>, Problem> {
        let entries = self.value.get_ref().as_table().ok_or_else(|| self.expected("a table"))?;
        Ok(Table::new(self.source, self.name.clone(), self.value.span(), entries))
    }

    /// Reads a table and refuses keys that `read` did not ask for.
    pub fn read<T>(&self, read: impl FnOnce(&Table<'d>) -> Result<T, Problem>) -> Result<T, Problem> {
        let table = self.table()?;
        let value = read(&table)?;
        table.finish()?;
        Ok(value)
    }

    /// The value as JSON.
    pub fn json(&self) -> Result<serde_json::Value, Problem> {
        json(self.value.get_ref()).ok_or_else(|| self.expected("text, numbers, flags, lists and tables"))
    }

    /// The value as a type that JSON can be read into; its own errors are placed here.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_value(self.json()?).map_err(|error| self.problem(format!("{}: {error}", self.name)))
    }
}

fn json(value: &DeValue<'_>) -> Option<serde_json::Value> {
    Some(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => number.as_str().replace('_', "").parse::<i64>().ok()?.into(),
        DeValue::Float(number) => number.as_str().replace('_', "").parse::<f64>().ok()?.into(),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Datetime(_) => return None,
        DeValue::Array(items) => {
            items.iter().map(|item| json(item.get_ref())).collect::<Option<Vec<_>>>()?.into()
        }
        DeValue::Table(entries) => {
            let pairs =
                entries.iter().map(|(key, value)| Some((key.get_ref().to_string(), json(value.get_ref())?)));
            serde_json::Value::Object(pairs.collect::<Option<_>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        read("plan.toml", text, |root| {
            root.need("axis", "what varies")?.read(|axis| axis.need("threads", "how many")?.number())
        })
        .unwrap_err()
        .to_string()
    }

    #[test]
    fn an_unknown_key_is_placed_and_the_nearest_named() {
        let told = error("[axis]\nthreads = 1\n  tread = 3\n");
        assert_eq!(told, "plan.toml:3:3: unknown key \"tread\" in [axis]; did you mean \"threads\"?");
    }

    #[test]
    fn a_missing_key_that_is_misspelt_is_told_as_the_unknown_one() {
        let told = error("[axis]\ntreads = 1\n");
        assert_eq!(told, "plan.toml:2:1: unknown key \"treads\" in [axis]; did you mean \"threads\"?");
    }

    #[test]
    fn a_missing_key_says_what_it_is_for() {
        assert_eq!(error("[axis]\n"), "plan.toml:1:1: [axis] needs \"threads\": how many");
    }

    #[test]
    fn a_wrong_type_is_placed_at_the_value() {
        let told = error("[axis]\nthreads = [1]\n");
        assert_eq!(told, "plan.toml:2:11: \"threads\" must be text or a number, and this is of type array");
    }

    #[test]
    fn broken_toml_is_placed_too() {
        assert!(error("[axis\n").starts_with("plan.toml:1:"), "{}", error("[axis\n"));
    }
}
