//! Variables of applications: taken by name, with their checks; the rest is refused.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use sim::{Bytes, Nanos, Rate};

use crate::suite::{LoadError, Settings};

/// More clients than that are a mistake.
pub(crate) const MAX_CLIENTS: u64 = 4096;

/// Takes variables one by one, and remembers their values for records.
pub(crate) struct Reader {
    workload: String,
    left: BTreeMap<String, String>,
    taken: Vec<(&'static str, String)>,
}

/// Names and values of all variables, for records.
pub(crate) type Values = Vec<(String, String)>;

impl Reader {
    /// What the settings of `application` say; the number of threads is its variable `threads`.
    pub(crate) fn new(application: &'static str, threads: &'static str, settings: &Settings) -> Self {
        Self::of(format!("app/{application}"), threads, settings)
    }

    /// What the settings of the workload `SUITE/NAME` say; the number of threads is its variable `threads`.
    pub(crate) fn of(workload: String, threads: &'static str, settings: &Settings) -> Self {
        let mut left = settings.vars.clone();
        if let Some(count) = &settings.threads {
            left.insert(threads.to_owned(), count.clone());
        }
        Self { workload, left, taken: Vec::new() }
    }

    pub(crate) fn wrong(&self, name: &str, text: &str, expected: &str) -> LoadError {
        LoadError::Wrong(format!("{}: {name}={text}: expected {expected}", self.workload))
    }

    fn value<T: FromStr + Display>(
        &mut self,
        name: &'static str,
        usual: T,
        expected: &str,
    ) -> Result<T, LoadError> {
        let value = match self.left.remove(name) {
            None => usual,
            Some(text) => text.trim().parse().map_err(|_| self.wrong(name, &text, expected))?,
        };
        self.taken.push((name, value.to_string()));
        Ok(value)
    }

    /// A whole number.
    pub(crate) fn count(
        &mut self,
        name: &'static str,
        usual: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, LoadError> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let value = self.value(name, usual, &expected)?;
        if range.contains(&value) { Ok(value) } else { Err(self.wrong(name, &value.to_string(), &expected)) }
    }

    /// A size in bytes.
    pub(crate) fn bytes(
        &mut self,
        name: &'static str,
        usual: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, LoadError> {
        let expected = format!("a size from {} to {}", Bytes(*range.start()), Bytes(*range.end()));
        let Bytes(value) = self.value(name, Bytes(usual), &expected)?;
        if range.contains(&value) { Ok(value) } else { Err(self.wrong(name, &value.to_string(), &expected)) }
    }

    /// A time up to a minute.
    pub(crate) fn time(&mut self, name: &'static str, usual: Nanos) -> Result<Nanos, LoadError> {
        let expected = "a time up to a minute, as 500us";
        let value: Nanos = self.value(name, usual, expected)?;
        if value <= Nanos::from_secs(60) {
            Ok(value)
        } else {
            Err(self.wrong(name, &value.to_string(), expected))
        }
    }

    /// Bytes a second.
    pub(crate) fn rate(&mut self, name: &'static str, usual: Rate) -> Result<Rate, LoadError> {
        let expected = "a rate of more than nothing, as 60MB/s";
        let value: Rate = self.value(name, usual, expected)?;
        if value.0 > 0 { Ok(value) } else { Err(self.wrong(name, &value.to_string(), expected)) }
    }

    /// true or false.
    pub(crate) fn flag(&mut self, name: &'static str, usual: bool) -> Result<bool, LoadError> {
        self.value(name, usual, "true or false")
    }

    /// One of several words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        name: &'static str,
        known: &'static [(&'static str, T)],
    ) -> Result<T, LoadError> {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let text = self.left.remove(name).unwrap_or_else(|| words[0].to_owned());
        let found = known.iter().find(|(word, _)| *word == text.trim());
        let (word, value) = *found.ok_or_else(|| self.wrong(name, &text, &words.join(", ")))?;
        self.taken.push((name, word.to_owned()));
        Ok(value)
    }

    /// Any text, if there is one.
    pub(crate) fn text(&mut self, name: &'static str) -> Option<String> {
        let text = self.left.remove(name);
        self.taken.push((name, text.clone().unwrap_or_default()));
        text
    }

    /// All values, if there is no variable besides.
    pub(crate) fn finish(self) -> Result<Values, LoadError> {
        let Some(name) = self.left.keys().next() else {
            return Ok(self.taken.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        };
        let advice = document::nearest(name, self.taken.iter().map(|(known, _)| *known));
        Err(LoadError::Wrong(format!("{} has no variable \"{name}\"; {advice}", self.workload)))
    }
}
