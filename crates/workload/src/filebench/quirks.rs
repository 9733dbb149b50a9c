//! Filebench's quirks, each a named switch.
//!
//! With all of them at their defaults Weir does what Filebench 1.5 does, which is what published numbers
//! rest on.

use crate::suite::Switch;

/// Which of Filebench's quirks are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// `writewholefile` writes its last part as a full chunk when the file is larger than `iosize`, so its
    /// size is rounded up to a multiple of `iosize`. Off: exactly the nominal size. Default on.
    pub write_whole_round_up: bool,
    /// `indexed=` takes the value itself as the index, so a gamma without a mean picks file 0 nearly
    /// always. Off: the value times half the number of entries, the evident intent. Default on.
    pub indexed_gamma: bool,
    /// `appendfile` and `appendfilerand` seek to the end and write there, so threads that share a file may
    /// overwrite each other. Off: seek and write are one step. Default on.
    pub racy_append: bool,
    /// `appendfilerand` appends 0 to `iosize`-1 bytes, half of `iosize` in the mean. Off: 1 to 2·`iosize`-1
    /// bytes, so that `iosize` is the mean. Default on.
    pub half_mean_append: bool,
    /// `deletefile` does nothing when the picked file is open, so the number of existing files
    /// drifts up until none can be created. Off: it takes the next file that is not open. Default on.
    pub skip_open_deletes: bool,
    /// Every operation ends under one lock that all threads share, as Filebench updates its statistics
    /// (`controlstats_lock`). Costs throughput as soon as several threads do short operations. Default on.
    ///
    /// Counts under the virtual clock only. A run under the real clock measures a design on this host, and
    /// Weir keeps the statistics of each thread by themselves: there the lock would measure the generator.
    pub statistics_lock: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            write_whole_round_up: true,
            indexed_gamma: true,
            racy_append: true,
            half_mean_append: true,
            skip_open_deletes: true,
            statistics_lock: true,
        }
    }
}

impl Quirks {
    /// None of them.
    pub fn none() -> Self {
        Self {
            write_whole_round_up: false,
            indexed_gamma: false,
            racy_append: false,
            half_mean_append: false,
            skip_open_deletes: false,
            statistics_lock: false,
        }
    }

    /// Sets the switch called `name`; false when there is none.
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        let switch = match name {
            "write_whole_round_up" => &mut self.write_whole_round_up,
            "indexed_gamma" => &mut self.indexed_gamma,
            "racy_append" => &mut self.racy_append,
            "half_mean_append" => &mut self.half_mean_append,
            "skip_open_deletes" => &mut self.skip_open_deletes,
            "statistics_lock" => &mut self.statistics_lock,
            _ => return false,
        };
        *switch = on;
        true
    }
}

const fn on(name: &'static str, help: &'static str) -> Switch {
    Switch { name, default: true, help }
}

/// The switches as plans name them.
pub const SWITCHES: &[Switch] = &[
    on("write_whole_round_up", "writewholefile rounds sizes up to a multiple of iosize"),
    on("indexed_gamma", "indexed= takes the value itself as the index"),
    on("racy_append", "appendfile and appendfilerand seek and write in two steps"),
    on("half_mean_append", "appendfilerand appends half of iosize in the mean"),
    on("skip_open_deletes", "deletefile does nothing when its file is open"),
    on("statistics_lock", "every operation ends under one lock (virtual clock)"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_switch() {
        let mut quirks = Quirks::none();
        for switch in SWITCHES {
            assert!(quirks.set(switch.name, switch.default), "{}", switch.name);
        }
        assert_eq!(quirks, Quirks::default());
        assert!(!quirks.set("no_such_quirk", true));
    }
}
