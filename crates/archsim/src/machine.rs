//! The simulated machine: every number that timing, energy and the log depend on, by name.
//!
//! A machine is a TOML file in `presets/archsim/`: a summary, perhaps a `base` from which it differs, and `[parameters]`, each
//! with its value and its source. Unknown keys and impossible values are errors that name the key and the legal range. All
//! values are whole numbers in the unit that [`KEYS`] names, so that a machine has one canonical text and one hash.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use document::{Problem, Problems, Table};

use crate::error::{Error, unknown};

/// Picoseconds since the start of the run.
pub type Ps = u64;
/// Bytes of a cache line.
pub const LINE: u64 = 64;

/// What a value means and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A bare number.
    Count,
    /// Cycles of the core.
    Cycles,
    /// Bytes; written `32KiB`.
    Bytes,
    /// Nanoseconds; written `36ns`.
    Nanos,
    /// Megahertz.
    Megahertz,
    /// Percent; written `80%`.
    Percent,
    /// Hundredths of a picojoule a bit; written `0.93pJ/bit`.
    Energy,
    /// One of these words; the value is the place in the list.
    Word(&'static [&'static str]),
}

/// A key of a machine: its name, unit, legal range, and what it says.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Lowest legal value.
    pub low: u64,
    /// Highest legal value.
    pub high: u64,
    /// Whether it must be a power of two.
    pub power: bool,
    /// What it is.
    pub summary: &'static str,
}

macro_rules! machine {
    ($($name:ident $unit:expr, $low:expr, $high:expr, $power:expr, $summary:literal;)*) => {
        /// A simulated machine. Units stand in [`KEYS`].
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Machine {
            /// Name of its preset.
            pub name: String,
            /// What it is, in one line.
            pub summary: String,
            /// Who says so, for each key that a preset sets.
            pub sources: BTreeMap<String, String>,
            $(#[doc = $summary] pub $name: u64,)*
        }

        /// Every key, in the order of the file.
        pub static KEYS: &[Key] = &[$(Key {
            name: stringify!($name), unit: $unit, low: $low, high: $high, power: $power, summary: $summary,
        },)*];

        impl Machine {
            fn slot(&mut self, name: &str) -> Option<&mut u64> {
                match name { $(stringify!($name) => Some(&mut self.$name),)* _ => None }
            }

            fn values(&self) -> Vec<u64> {
                vec![$(self.$name,)*]
            }
        }
    };
}

const MAX: u64 = 1 << 40;
use Unit::{Bytes, Count, Cycles, Energy, Megahertz, Nanos, Percent, Word};

machine! {
    cores Count, 1, 8, false, "processor cores";
    threads_per_core Count, 1, 2, false, "hardware threads that share a core's width, window, misses and L1";
    clock Megahertz, 100, 10_000, false, "core clock";
    core Word(&["window", "inorder"]), 0, 1, false, "core model";
    window Count, 8, 224, false, "instructions between fetch and retirement (window core)";
    width Count, 1, 8, false, "instructions fetched and retired a cycle";
    mshrs Count, 1, 64, false, "outstanding misses of a core";
    store_buffer Count, 1, 56, false, "stores between retirement and L1";
    wc_lines Count, 1, 16, false, "lines of the write-combining buffer";
    wc_idle Cycles, 1, 1 << 20, false, "idle time after which a combined line is sent";
    clwb_slots Count, 1, 64, false, "cache-line write-backs that a thread may have outstanding";
    l1_size Bytes, 256, 1 << 24, true, "L1 data cache of a core";
    l1_ways Count, 1, 32, true, "ways of L1";
    l1_latency Cycles, 1, 1000, false, "L1 hit";
    l2_size Bytes, 512, 1 << 30, true, "shared, inclusive last level";
    l2_ways Count, 1, 64, true, "ways of the last level";
    l2_latency Cycles, 1, 1000, false, "last level, beyond L1";
    l2_banks Count, 1, 64, true, "banks of the last level; each takes a request every two cycles";
    replacement Word(&["lru", "random"]), 0, 1, false, "which line leaves a full set";
    memory Bytes, 4096, MAX, true, "NVRAM";
    banks Count, 1, 64, true, "NVRAM banks";
    row Bytes, 64, 8192, true, "row buffer of a bank";
    row_buffers Count, 1, 64, false, "rows that a bank holds open, the least recently used leaves (on-DIMM buffer)";
    map Word(&["row", "line"]), 0, 1, false, "bank of an address: a bank a row, or the next bank for each line";
    row_hit Nanos, 1, 100_000, false, "access to the open row";
    read_conflict Nanos, 1, 100_000, false, "read of another row";
    write_conflict Nanos, 1, 100_000, false, "write of another row";
    burst Nanos, 1, 1000, false, "a line on the channel";
    conflict Word(&["at_request", "at_evict"]), 0, 1, false, "which request pays for a row conflict";
    link Nanos, 0, 10_000, false, "way to the memory and back, added to every read (CXL)";
    read_queue Count, 1, 1024, false, "entries of the read queue";
    write_queue Count, 4, 1024, false, "entries of the write queue";
    high_watermark Percent, 1, 100, false, "write queue's fill at which writes go first";
    low_watermark Percent, 0, 99, false, "fill down to which they do";
    log_priority Word(&["none", "writes", "all"]), 0, 2, false, "log lines of hardware go before: nothing, writes, reads too";
    domain Word(&["media", "adr"]), 0, 1, false, "from where on a write survives: bank written, or queue entered";
    dram Nanos, 1, 10_000, false, "access to volatile memory beyond the caches";
    energy_buffer_read Energy, 0, 100_000, false, "row buffer read";
    energy_buffer_write Energy, 0, 100_000, false, "row buffer write";
    energy_array_read Energy, 0, 100_000, false, "array read";
    energy_array_write Energy, 0, 100_000, false, "array write";
    energy_bits Word(&["line", "row"]), 0, 1, false, "bits that an array access moves";
    log_size Bytes, 1024, MAX, true, "circular log of a process, all threads together";
    log_grain Word(&["line", "word"]), 0, 1, false, "what a record holds";
    log_coalesce Word(&["none", "first"]), 0, 1, false, "a record each store, or the first of a line (word) in a transaction";
    log_grow Word(&["yes", "no"]), 0, 1, false, "whether a log grows that the oldest open transaction alone fills";
    log_buffer Count, 0, 4096, false, "records that the log buffer holds";
    log_enqueue Cycles, 0, 1000, false, "way from the cache to the log buffer";
    log_order Word(&["fifo", "banked"]), 0, 1, false, "log lines of hardware: one after the other, or several banks at once";
    log_bound Word(&["enforced", "timing"]), 0, 1, false, "whether a data line waits for its records, or only time says so";
    commit Word(&["wait_log", "async"]), 0, 1, false, "when a hardware commit is acknowledged";
    fwb_period Cycles, 16, 1 << 40, false, "start to start of two cache scans";
    fwb_trigger Word(&["both", "timer", "watermark"]), 0, 2, false, "what starts a scan";
    fwb_start Percent, 1, 99, false, "fill of the log that starts a scan";
    fwb_stall Percent, 2, 100, false, "fill of the log at which stores wait for the head";
    fwb_queue Word(&["full", "watermark"]), 0, 1, false, "up to where scans fill the write queue: its end, or where reads wait";
    fwb_propagate Word(&["yes", "no"]), 0, 1, false, "whether the fwb bit moves with its line";
    fwb_lag Count, 1, 2, false, "scans after which the head may pass";
    sw_log Word(&["process", "thread"]), 0, 1, false, "a software log: one for the process, or one for each thread";
    sw_fence Word(&["each", "once"]), 0, 1, false, "undo logging: a fence after each record, or one a transaction";
    sw_record Word(&["packed", "padded"]), 0, 1, false, "software records: one after the other, or each in lines of its own";
    sw_cost Percent, 1, 1000, false, "instructions of software logging against the counts of the documentation";
    footprint Bytes, 4096, MAX, false, "bytes of a workload's data, all threads together";
    value Bytes, 8, 4096, false, "value of the string variants and of the applications";
    gets Percent, 0, 100, false, "share of reads in memcached-like";
    warmup Count, 0, 100_000_000, false, "transactions before measuring begins, all threads together";
}

/// The presets in `presets/archsim/`; a test compares the folder.
const PRESETS: &[(&str, &str)] = &[
    ("hpca18", include_str!("../shipped/archsim/hpca18.toml")),
    ("hpca18-full", include_str!("../shipped/archsim/hpca18-full.toml")),
    ("mcsima", include_str!("../shipped/archsim/mcsima.toml")),
    ("cxl", include_str!("../shipped/archsim/cxl.toml")),
    ("tiny", include_str!("../shipped/archsim/tiny.toml")),
];

/// A machine's name and its one-line summary.
pub fn list() -> Vec<(&'static str, String)> {
    let summary = |name: &str| Machine::load(name).map(|machine| machine.summary);
    PRESETS.iter().map(|(name, _)| (*name, summary(name).unwrap_or_default())).collect()
}

impl Machine {
    /// The preset called `name`, or that in the file of this name (`.toml`).
    ///
    /// # Errors
    /// [`Error::Unknown`] names the nearest preset; [`Error::Preset`] says what is wrong in a file, and where.
    pub fn load(name: &str) -> Result<Self, Error> {
        if Path::new(name).extension().is_some_and(|end| end == "toml") {
            let text = fs::read_to_string(name);
            let unreadable = |error: io::Error| Error::Unreadable(name.to_owned(), error.to_string());
            return Self::parse(name, &text.map_err(unreadable)?);
        }
        let preset = PRESETS.iter().find(|(known, _)| *known == name);
        let known = PRESETS.iter().map(|(name, _)| *name);
        let (preset, text) = preset.ok_or_else(|| unknown("simulated processor", name, known))?;
        Self::parse(&format!("presets/archsim/{preset}.toml"), text)
    }

    /// A machine from the text of a preset; `origin` is its file, which gives it its name.
    ///
    /// # Errors
    /// [`Error::Preset`] with all that is wrong, each at its line and column.
    pub fn parse(origin: &str, text: &str) -> Result<Self, Error> {
        let machine = document::read(origin, text, |root| {
            let mut all = Problems::default();
            let summary =
                all.take(root.need("summary", "what it is, in one line").and_then(|item| item.text()));
            let base = root.get("base");
            let machine = base.as_ref().map(|item| {
                item.text()
                    .and_then(|base| Self::load(&base).map_err(|error| item.problem(error.to_string())))
            });
            let mut machine =
                machine.map(|machine| all.take(machine)).unwrap_or_default().unwrap_or_default();
            machine.name = Path::new(origin).file_stem().unwrap_or_default().to_string_lossy().into_owned();
            machine.summary = summary.unwrap_or_default();
            all.take(machine.read_parameters(root, base.is_none()));
            all.take(root.finish());
            all.finish()?;
            machine.check().map_err(|error| root.problem(error.to_string()))?;
            Ok(machine)
        });
        Ok(machine?)
    }

    /// Sets the keys of a preset's table of parameters; without a base each key must be there.
    fn read_parameters(&mut self, root: &Table<'_>, whole: bool) -> Result<(), Problem> {
        let parameters = root.get("parameters").map(|item| item.table()).transpose()?;
        let parameters = parameters.map(|table| table.take_rest()).unwrap_or_default();
        let mut all = Problems::default();
        for (key, item) in &parameters {
            let set = item.read(|setting| {
                let source = setting.need("source", "where the value comes from")?.text()?;
                let value = setting.need("value", "with its unit")?.text()?;
                self.set(key, &value).map_err(|error| item.problem(error.to_string()))?;
                self.sources.insert(key.clone(), source);
                Ok(())
            });
            all.take(set);
        }
        let missing = KEYS.iter().find(|key| whole && !parameters.iter().any(|(set, _)| set == key.name));
        if let Some(key) = missing {
            all.take(Err::<(), _>(root.problem(format!("{} is missing: {}", key.name, key.summary))));
        }
        all.finish()
    }

    /// Sets one key from its text.
    ///
    /// # Errors
    /// [`Error::Unknown`] or [`Error::Value`].
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let key = KEYS.iter().find(|key| key.name == name);
        let key = key.ok_or_else(|| unknown("key of a machine", name, KEYS.iter().map(|key| key.name)))?;
        let legal =
            |value: &u64| (key.low..=key.high).contains(value) && (!key.power || value.is_power_of_two());
        let value = key.unit.read(text).filter(legal).ok_or_else(|| Error::Value {
            key: name.to_owned(),
            value: text.to_owned(),
            range: key.range(),
        })?;
        *self.slot(name).expect("every key has its field") = value;
        Ok(())
    }

    /// What a single range cannot say.
    ///
    /// # Errors
    /// [`Error::Value`] names the key that does not fit the others.
    pub fn check(&self) -> Result<(), Error> {
        let set = |size: u64, ways: u64| size >= ways * LINE;
        let rules = [
            ("l1_ways", set(self.l1_size, self.l1_ways), "at most l1_size / 64"),
            ("l2_ways", set(self.l2_size, self.l2_ways), "at most l2_size / 64"),
            (
                "l2_size",
                self.l2_size >= self.cores * self.l1_size,
                "it includes all L1: at least cores x l1_size",
            ),
            ("low_watermark", self.low_watermark < self.high_watermark, "below high_watermark"),
            ("fwb_start", self.fwb_start < self.fwb_stall, "below fwb_stall"),
            ("log_size", self.log_size <= self.memory / 4, "at most a quarter of memory"),
            ("row", self.row * self.banks <= self.memory, "at most memory / banks"),
        ];
        let Some((key, _, range)) = rules.iter().find(|(_, holds, _)| !holds) else { return Ok(()) };
        let at = KEYS.iter().position(|known| known.name == *key).expect("rules name keys");
        let value = KEYS[at].unit.write(self.values()[at]);
        Err(Error::Value { key: (*key).to_owned(), value, range: (*range).to_owned() })
    }

    /// Every key with its value, as a preset writes it.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        KEYS.iter().zip(self.values()).map(|(key, value)| (key.name, key.unit.write(value))).collect()
    }

    /// The canonical text: one `key = value` a line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (key, value) in self.entries() {
            let _ = writeln!(text, "{key} = {value}");
        }
        text
    }

    /// A cycle, rounded to a whole picosecond.
    pub fn cycle(&self) -> Ps {
        (1_000_000 + self.clock / 2) / self.clock
    }
}

impl Key {
    /// What is legal, in words.
    pub fn range(&self) -> String {
        if let Word(words) = self.unit {
            return format!("one of {}", words.join(", "));
        }
        let power = if self.power { ", a power of two" } else { "" };
        format!("from {} to {}{power}", self.unit.write(self.low), self.unit.write(self.high))
    }
}

impl Unit {
    fn read(self, text: &str) -> Option<u64> {
        match self {
            Count | Cycles => text.parse().ok(),
            Bytes => text.parse::<sim::Bytes>().ok().map(|bytes| bytes.0),
            Nanos => text.parse::<sim::Nanos>().ok().map(|nanos| nanos.0),
            Megahertz => text.strip_suffix("MHz")?.parse().ok(),
            Percent => text.strip_suffix('%')?.parse().ok(),
            Energy => {
                let value: f64 = text.strip_suffix("pJ/bit")?.parse().ok()?;
                (0.0..1e6).contains(&value).then(|| (value * 100.0).round() as u64)
            }
            Word(words) => words.iter().position(|word| *word == text).map(|at| at as u64),
        }
    }

    fn write(self, value: u64) -> String {
        match self {
            Count | Cycles => value.to_string(),
            Bytes => {
                let steps = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
                let whole = steps.iter().find(|(bits, _)| value > 0 && value.is_multiple_of(1 << bits));
                whole.map_or_else(|| format!("{value}B"), |(bits, unit)| format!("{}{unit}", value >> bits))
            }
            Nanos => format!("{value}ns"),
            Megahertz => format!("{value}MHz"),
            Percent => format!("{value}%"),
            Energy => format!("{}.{:02}pJ/bit", value / 100, value % 100),
            Word(words) => words[value as usize].to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_of_the_folder_is_in_the_program_and_right() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../presets/archsim");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(files, PRESETS.len());
        for (name, summary) in list() {
            Machine::load(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!summary.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_value_is_written_as_it_is_read() {
        let machine = Machine::load("hpca18").unwrap();
        let mut again = machine.clone();
        for (key, value) in machine.entries() {
            again.set(key, &value).unwrap_or_else(|error| panic!("{error}"));
        }
        assert_eq!(again, machine);
    }

    #[test]
    fn impossible_machines_are_refused_with_key_and_range() {
        let told = |key: &str, value: &str| {
            let mut machine = Machine::load("hpca18").unwrap();
            machine.set(key, value).and_then(|()| machine.check()).unwrap_err().to_string()
        };
        assert_eq!(told("l1_size", "33KiB"), "l1_size = 33KiB: from 256B to 16MiB, a power of two");
        assert!(told("l1_ways", "0").starts_with("l1_ways = 0: from 1 to 32"));
        assert!(told("log_size", "8GiB").contains("at most a quarter of memory"));
        assert!(told("l1_sise", "32KiB").contains("did you mean \"l1_size\"?"));
        assert!(told("domain", "none").contains("one of media, adr"));
    }
}
