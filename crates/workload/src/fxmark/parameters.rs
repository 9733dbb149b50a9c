//! What can be set: variables with their checks, and the switches that bring the original's defects back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim::{Bytes, Nanos};

use super::table::{Benchmark, Loop, Sharing};
use crate::suite::{LoadError, Settings, Switch};

/// Bytes of a block, and of every read and write for which no other size is set.
pub(super) const BLOCK: u64 = 4096;
/// Children of a directory in the tree of MRPM and MRPH.
pub(super) const FANOUT: u64 = 8;
/// Levels of that tree, the files included.
pub(super) const LEVELS: u32 = 5;
/// More workers than that are a mistake: the largest machines have fewer cores.
const MAX_WORKERS: u64 = 4096;

/// On which core a worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Placement {
    /// Sockets are filled one by one.
    Sequential,
    /// One core of each socket in turn.
    RoundRobin,
    /// Wherever the host's scheduler likes; under the virtual clock as [`Placement::Sequential`].
    Free,
}

/// Everything that is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Parameters {
    /// All workers, those in the background included.
    pub(super) workers: u64,
    /// How many of them, the last ones, disturb the others.
    pub(super) background: u64,
    /// Operations a second of each of those; 0: as many as it can.
    pub(super) background_rate: u64,
    pub(super) placement: Placement,
    /// Whether there may be more workers than cores.
    pub(super) oversubscribe: bool,
    /// Time that runs before the measurement begins.
    pub(super) warmup: Nanos,
    /// Bytes of a worker's part of a shared file.
    pub(super) region: u64,
    /// Files that each worker finds: to list, to remove, to move.
    pub(super) files: u64,
    /// Blocks of each file that is shortened.
    pub(super) blocks: u64,
    /// Bytes of each file that is read through.
    pub(super) file: u64,
    /// Blocks of a file that is read or overwritten through are taken at random, not in sequence.
    pub(super) at_random: bool,
    /// Bytes of each read of a file that is read through.
    pub(super) io: u64,
    /// How often a file that is overwritten is read from start to end before the measured time.
    pub(super) read_first: u64,
    /// The standard deviation of skewed reads, as a part of the file: its length by this.
    pub(super) skew: u64,
    /// Bytes for each worker that a benchmark which allocates finds free.
    pub(super) room: u64,
    pub(super) switches: Switches,
}

macro_rules! switches {
    ($($name:ident $help:literal;)*) => {
        /// Which of the original's defects are repeated.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub(super) struct Switches {
            $(pub(super) $name: bool,)*
        }

        impl Switches {
            fn set(&mut self, name: &str, on: bool) {
                match name {
                    $(stringify!($name) => self.$name = on,)*
                    _ => {}
                }
            }
        }

        /// The switches as plans name them.
        pub(super) const SWITCHES: &[Switch] =
            &[$(Switch { name: stringify!($name), default: false, help: $help },)*];
    };
}

switches! {
    empty_getdents "MRDL, MRDM: continue to read at the end of the directory instead of starting again";
    eight_paths "MRPM: digits from a generator of period eight, so that all workers visit the same eight files in step";
    mean_elapsed "each worker measures its own time; the rate is the number of all operations divided by the mean of these times";
    until_full "MWUL, MWUM, DWTL: start with as many files or blocks as the file system can hold";
    timed_prepare "MRDL, MRDM, MWRM: start with as many files as can be created in the time of the run";
    zero_data "written blocks contain zeros";
    open_in_window "DRBM, DRBH, DWOM: open the file within the measured time";
    format_in_window "paths are formatted as text for each operation";
    idle_writers "DRBL_bg, DRBM_bg: the workers in the background read";
}

impl Parameters {
    /// The defaults for `benchmark` with what the settings say.
    pub(super) fn read(benchmark: &Benchmark, settings: &Settings) -> Result<Self, LoadError> {
        let mut reader = Reader { left: settings.vars.clone(), known: Vec::new() };
        if let Some(threads) = &settings.threads {
            reader.left.insert("workers".to_owned(), threads.clone());
        }
        let background = u64::from(benchmark.background);
        let mut switches = Switches::default();
        settings.switches.iter().for_each(|(name, on)| switches.set(name, *on));
        let parameters = Self {
            workers: reader.count("workers", 1 + background, 1..=MAX_WORKERS)?,
            background: background * reader.count("background", 1, 1..=MAX_WORKERS)?,
            background_rate: reader.count("background_rate", 0, 0..=1_000_000_000)?,
            placement: reader.placement()?,
            oversubscribe: reader.value("oversubscribe", false, "true or false")?,
            warmup: reader.value("warmup", Nanos::ZERO, "a time such as 10ms")?,
            region: reader.blocks("region", 8 << 20)?,
            files: reader.count("files", 10_000, 1..=10_000_000)?,
            blocks: reader.count("blocks", 10_000, 1..=1 << 30)?,
            file: reader.blocks("file", 64 << 20)?,
            at_random: reader.order()?,
            io: reader.blocks("io", BLOCK)?,
            read_first: reader.count("read_first", 0, 0..=1000)?,
            skew: reader.count("skew", 8, 1..=1 << 20)?,
            room: reader.blocks("room", 64 << 20)?,
            switches,
        };
        reader.finish()?;
        parameters.check(benchmark)
    }

    fn check(self, benchmark: &Benchmark) -> Result<Self, LoadError> {
        if !self.file.is_multiple_of(self.io) {
            let (file, io) = (Bytes(self.file), Bytes(self.io));
            return Err(LoadError::Wrong(format!("fxmark: file={file} is not a multiple of io={io}")));
        }
        if self.workers > self.background {
            return Ok(self);
        }
        let (name, workers, background) = (benchmark.entry.name, self.workers, self.background);
        Err(LoadError::Wrong(format!(
            "fxmark/{name}: of {workers} workers {background} work in the background, which leaves none to measure: \
             give it {} threads or more, or a smaller -D background=N",
            background + 1
        )))
    }

    /// Workers that are measured.
    pub(super) fn foreground(&self) -> u64 {
        self.workers - self.background
    }

    /// Every variable with its value.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let placement = match self.placement {
            Placement::Sequential => "seq",
            Placement::RoundRobin => "rr",
            Placement::Free => "none",
        };
        let values = [
            ("workers", self.workers.to_string()),
            ("background", self.background.to_string()),
            ("background_rate", self.background_rate.to_string()),
            ("placement", placement.to_owned()),
            ("oversubscribe", self.oversubscribe.to_string()),
            ("warmup", self.warmup.to_string()),
            ("region", Bytes(self.region).to_string()),
            ("files", self.files.to_string()),
            ("blocks", self.blocks.to_string()),
            ("file", Bytes(self.file).to_string()),
            ("order", if self.at_random { "random" } else { "sequence" }.to_owned()),
            ("io", Bytes(self.io).to_string()),
            ("read_first", self.read_first.to_string()),
            ("skew", self.skew.to_string()),
            ("room", Bytes(self.room).to_string()),
        ];
        values.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Bytes of all files of `benchmark` at the start, and those that it needs room for.
    pub(super) fn data_bytes(&self, benchmark: &Benchmark) -> u64 {
        // What an empty file takes at most: an inode, its name, and in a log-structured design a page or two of log.
        const EMPTY: u64 = 2 * BLOCK;
        let each = match benchmark.work {
            Loop::Read(Sharing::Low)
            | Loop::Overwrite(Sharing::Low | Sharing::High)
            | Loop::OverwriteSync => BLOCK,
            Loop::Read(Sharing::Medium) | Loop::Overwrite(Sharing::Medium) => self.region,
            Loop::Read(Sharing::High) | Loop::Stat(Sharing::Low) | Loop::RenameWithin => 4 * EMPTY,
            Loop::Stat(_) => return FANOUT.pow(LEVELS) * EMPTY,
            Loop::Append | Loop::Create(_) | Loop::CreateWrite => self.room,
            Loop::Truncate => self.blocks * BLOCK,
            Loop::ReadThrough | Loop::ReadSkewed | Loop::WriteThrough | Loop::WriteThroughSync => self.file,
            Loop::List(_) | Loop::Unlink(_) | Loop::RenameAcross => self.files * EMPTY,
        };
        each.saturating_mul(self.workers)
    }

    /// Empty files that `benchmark` begins with, its directories included.
    pub(super) fn small_files(&self, benchmark: &Benchmark) -> u64 {
        match benchmark.work {
            Loop::Stat(Sharing::Medium | Sharing::High) => 2 * FANOUT.pow(LEVELS),
            Loop::List(_) | Loop::Unlink(_) | Loop::RenameAcross => {
                self.workers.saturating_mul(self.files.saturating_add(1))
            }
            _ => 0,
        }
    }
}

/// Takes variables by name, and refuses the rest.
struct Reader {
    left: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl Reader {
    fn value<T: std::str::FromStr>(
        &mut self,
        name: &'static str,
        usual: T,
        expected: &str,
    ) -> Result<T, LoadError> {
        self.known.push(name);
        let Some(text) = self.left.remove(name) else { return Ok(usual) };
        text.parse().map_err(|_| LoadError::Wrong(format!("fxmark: {name}={text} is not {expected}")))
    }

    fn count(
        &mut self,
        name: &'static str,
        usual: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, LoadError> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let value = self.value(name, usual, &expected)?;
        if range.contains(&value) {
            return Ok(value);
        }
        Err(LoadError::Wrong(format!("fxmark: {name}={value} is not {expected}")))
    }

    /// A size of whole blocks.
    fn blocks(&mut self, name: &'static str, usual: u64) -> Result<u64, LoadError> {
        let expected = "a size such as 8MiB, of whole blocks of 4 KiB";
        let Bytes(size) = self.value(name, Bytes(usual), expected)?;
        if size > 0 && size.is_multiple_of(BLOCK) {
            return Ok(size);
        }
        Err(LoadError::Wrong(format!("fxmark: {name}={size} is not {expected}")))
    }

    fn placement(&mut self) -> Result<Placement, LoadError> {
        match self.value("placement", "seq".to_owned(), "a word")?.as_str() {
            "seq" => Ok(Placement::Sequential),
            "rr" => Ok(Placement::RoundRobin),
            "none" => Ok(Placement::Free),
            other => Err(LoadError::Wrong(format!(
                "fxmark: placement={other} is none of seq (sockets one by one), rr (sockets in turn), none"
            ))),
        }
    }

    fn order(&mut self) -> Result<bool, LoadError> {
        match self.value("order", "sequence".to_owned(), "a word")?.as_str() {
            "sequence" => Ok(false),
            "random" => Ok(true),
            other => Err(LoadError::Wrong(format!("fxmark: order={other} is neither sequence nor random"))),
        }
    }

    fn finish(self) -> Result<(), LoadError> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => {
                let advice = document::nearest(name, self.known.iter().copied());
                Err(LoadError::Wrong(format!("fxmark: there is no variable {name}; {advice}")))
            }
        }
    }
}
