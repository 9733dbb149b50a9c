//! The variables of a replay.

use sim::Nanos;

use crate::suite::{LoadError, Settings};

/// What a thread does between its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Nothing: call after call.
    Asap,
    /// It computes as long as the program did.
    Think,
    /// No call begins earlier after its thread's begin than it did.
    Timed,
}

/// Which order calls of different threads keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// That of the resources that they share.
    Resource,
    /// None.
    Thread,
    /// The recorded one of all calls.
    Total,
}

/// Where copies of the program work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// Each in a tree of its own.
    Private,
    /// In one tree: files that the program changes are each copy's own, the others are shared.
    Shared,
}

/// All of them, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Variables {
    pub(super) pace: Pace,
    pub(super) order: Order,
    pub(super) copies: u32,
    pub(super) root: Root,
    /// Of `pace=think`: how much longer than recorded a thread computes.
    pub(super) cpu_scale: f64,
    /// Of `pace=timed`: how much faster time goes.
    pub(super) speed: f64,
    /// Before each call a random time up to this is computed.
    pub(super) jitter: Nanos,
}

const PACES: &[(&str, Pace)] = &[("think", Pace::Think), ("asap", Pace::Asap), ("timed", Pace::Timed)];
const ORDERS: &[(&str, Order)] =
    &[("resource", Order::Resource), ("thread", Order::Thread), ("total", Order::Total)];
const ROOTS: &[(&str, Root)] = &[("private", Root::Private), ("shared", Root::Shared)];
const NAMES: [&str; 7] = ["pace", "order", "copies", "root", "cpu_scale", "speed", "jitter"];

/// More copies than this are a mistake.
const COPIES_MAX: u32 = 1024;
/// A factor beyond this, or below its inverse, is a mistake.
const FACTOR_MAX: f64 = 1e6;

impl Default for Variables {
    fn default() -> Self {
        Self {
            pace: Pace::Think,
            order: Order::Resource,
            copies: 1,
            root: Root::Private,
            cpu_scale: 1.0,
            speed: 1.0,
            jitter: Nanos::ZERO,
        }
    }
}

impl Variables {
    /// Reads and checks them; the number of threads is that of copies.
    pub(super) fn read(settings: &Settings) -> Result<Self, LoadError> {
        let mut found = Self::default();
        for (name, text) in &settings.vars {
            found.set(name, text).map_err(LoadError::Wrong)?;
        }
        if let Some(threads) = &settings.threads {
            found.set("copies", threads).map_err(LoadError::Wrong)?;
        }
        Ok(found)
    }

    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "pace" => self.pace = one_of(name, text, PACES)?,
            "order" => self.order = one_of(name, text, ORDERS)?,
            "root" => self.root = one_of(name, text, ROOTS)?,
            "copies" => {
                let copies = text.trim().parse().ok().filter(|copies| (1..=COPIES_MAX).contains(copies));
                self.copies = copies
                    .ok_or_else(|| format!("copies={text}: expected a number from 1 to {COPIES_MAX}"))?;
            }
            "cpu_scale" => self.cpu_scale = factor(name, text, true)?,
            "speed" => self.speed = factor(name, text, false)?,
            "jitter" => {
                self.jitter = text.parse().map_err(|error| format!("jitter={text}: {error}"))?;
            }
            _ => {
                let advice = document::nearest(name, NAMES);
                return Err(format!("a replay has no variable \"{name}\"; {advice}"));
            }
        }
        Ok(())
    }

    /// Trees of files that exist when the replay begins.
    pub(super) fn trees(&self) -> u64 {
        match self.root {
            Root::Private => self.copies.into(),
            Root::Shared => 1,
        }
    }

    /// Names and values, for records.
    pub(super) fn list(&self) -> Vec<(String, String)> {
        let values = [
            name_in(PACES, &self.pace).to_owned(),
            name_in(ORDERS, &self.order).to_owned(),
            self.copies.to_string(),
            name_in(ROOTS, &self.root).to_owned(),
            self.cpu_scale.to_string(),
            self.speed.to_string(),
            self.jitter.to_string(),
        ];
        NAMES.into_iter().map(str::to_owned).zip(values).collect()
    }
}

fn one_of<T: Copy>(name: &str, text: &str, known: &[(&'static str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(word, _)| *word == text.trim());
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        format!("{name}={text}: expected {}", words.join(", "))
    })
}

fn name_in<T: PartialEq>(known: &[(&'static str, T)], value: &T) -> &'static str {
    known.iter().find(|(_, one)| one == value).map_or("", |(word, _)| word)
}

fn factor(name: &str, text: &str, may_be_zero: bool) -> Result<f64, String> {
    let least = if may_be_zero { 0.0 } else { 1.0 / FACTOR_MAX };
    let value = text.trim().parse::<f64>().ok().filter(|value| (least..=FACTOR_MAX).contains(value));
    value.ok_or_else(|| format!("{name}={text}: expected a number from {least} to {FACTOR_MAX}"))
}
