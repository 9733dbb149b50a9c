//! Streams of requests to a bare SSD: the workloads `requests/NAME` of plans, whose subject is `fs = ["ssd"]`.
//!
//! | name | requests | variables |
//! |---|---|---|
//! | `requests/interface` | 8 MiB read at random places in blocks of a size (figure 7 of the FAST 2024 study) | `block`, `depth` |
//! | `requests/alignment` | reads of 4 KiB at random multiples of a size, 32 outstanding (figure 8) | `align` |
//! | `requests/pieces` | a file of 8 MiB, written in pieces with other files between (figures 3, 4, 11, 12) | see [`STREAMS`] |
//!
//! Before the first two, the device is written once, in order ([`workload::fragmentation::raw`]). Places come from fixed seeds:
//! they are the same in every run. Of `requests/pieces` `dummy` is the size of the file between two pieces, `published` (the
//! sizes of the study's program) or `random` (drawn from the seed of the run).

use std::collections::BTreeMap;

use media::flash::SsdModel;
use sim::{Bytes, KIB, Nanos, Seed};
use workload::fragmentation::layout::{Dummy, Layout, Writing};
use workload::fragmentation::{TARGET, raw};
use workload::suite::Settings;

use super::fragmentation::{self, ALIGNED_READS, Reading, alignment, filled, interface};
use super::host::HostCost;
use crate::error::Error;
use document::nearest;

/// The folder of their names.
pub const FOLDER: &str = "requests/";

/// Every stream by name, with its variables and what it asks.
pub const STREAMS: [(&str, &[&str], &str); 3] = [
    (
        "interface",
        &["block", "depth"],
        "8 MiB read at random places in blocks of a size, 1 or 32 outstanding",
    ),
    ("alignment", &["align"], "reads of 4 KiB at random multiples of a size, 32 outstanding"),
    (
        "pieces",
        &["writing", "pieces", "dummy", "call", "depth"],
        "a file of 8 MiB, written in pieces with other files between them, and read",
    ),
];

/// Requests as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Blocks of this many bytes, so many at a time.
    Interface {
        /// Bytes of a block.
        block: u64,
        /// Blocks outstanding.
        depth: u64,
    },
    /// Multiples of this many bytes.
    Alignment {
        /// Where a read may begin.
        align: u64,
    },
    /// A file in pieces.
    Pieces {
        /// How it is written.
        writing: Writing,
        /// What is written between two pieces; the seed of a random one is that of the run.
        dummy: Dummy,
        /// Bytes of a call that reads it.
        call: u64,
        /// Requests outstanding.
        depth: u64,
    },
}

/// What a stream came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// Requests of the program.
    pub reads: u64,
    /// Bytes that they read.
    pub bytes: u64,
    /// Their time, with what the host does.
    pub elapsed: Nanos,
    /// The time of the device alone.
    pub device: Nanos,
}

impl Stream {
    /// The stream `requests/NAME` with these variables.
    ///
    /// # Errors
    /// A name or variable that is not known, with the nearest one; a value out of range.
    pub fn load(name: &str, settings: &Settings) -> Result<Self, Error> {
        let short = name.strip_prefix(FOLDER).unwrap_or(name);
        let unknown = |what, name: &str, known: &mut dyn Iterator<Item = &'static str>| Error::Unknown {
            what,
            name: name.to_owned(),
            advice: nearest(name, known),
        };
        let found = STREAMS.iter().find(|(known, ..)| *known == short);
        let (_, variables, _) = found.ok_or_else(|| {
            unknown("stream of requests", short, &mut STREAMS.iter().map(|(name, ..)| *name))
        })?;
        if let Some(name) = settings.vars.keys().find(|name| !variables.contains(&name.as_str())) {
            return Err(unknown("variable of these requests", name, &mut variables.iter().copied()));
        }
        if let Some(threads) = &settings.threads {
            return Err(Error::Setting(format!(
                "threads = {threads}: requests come from the device's queue, not from threads"
            )));
        }
        if short == "alignment" {
            return Ok(Self::Alignment { align: multiple("align", "4KiB", &settings.vars)? });
        }
        let depth = |usual| number("depth", usual, 1..=1023, &settings.vars);
        if short == "pieces" {
            let [writing, dummy] = [("writing", "append"), ("dummy", "published")]
                .map(|(name, usual)| settings.vars.get(name).map_or(usual, String::as_str));
            let pieces = number("pieces", 256, 1..=256, &settings.vars)?;
            let wrong = |name, is, legal| Error::Setting(format!("{name} = {is}: {legal}"));
            let writing = match writing {
                "at-once" => Writing::AtOnce,
                "append" => Writing::Appends(pieces),
                "overwrite" => Writing::Overwrites(pieces),
                other => return Err(wrong("writing", other, "at-once, append or overwrite")),
            };
            if !pieces.is_power_of_two() {
                return Err(wrong(
                    "pieces",
                    &pieces.to_string(),
                    "a power of two, since pieces have one size",
                ));
            }
            let dummy = match dummy {
                "none" => Dummy::None,
                "published" => Dummy::Published,
                "random" => Dummy::Random(0),
                _ => Dummy::Bytes(multiple("dummy", "4KiB", &settings.vars)?),
            };
            let call = multiple("call", "1MiB", &settings.vars)?;
            return Ok(Self::Pieces { writing, dummy, call, depth: depth(1023)? });
        }
        let block = multiple("block", "256KiB", &settings.vars)?;
        if block > raw::TOTAL || !raw::TOTAL.is_multiple_of(block) {
            return Err(Error::Setting(format!("block = {}: a part of 8 MiB", Bytes(block))));
        }
        Ok(Self::Interface { block, depth: depth(1)? })
    }

    /// Bytes that a run reads.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Interface { .. } => raw::TOTAL,
            Self::Pieces { .. } => TARGET,
            Self::Alignment { .. } => ALIGNED_READS * 4 * KIB,
        }
    }

    /// Runs the requests on a device whose open flash page held `phase` pages before.
    ///
    /// # Errors
    /// What the device refuses.
    pub fn run(self, model: &SsdModel, phase: u64, host: HostCost, seed: Seed) -> Result<Took, Error> {
        let both = |time: &dyn Fn(HostCost) -> Result<Nanos, Error>| Ok([time(host)?, time(HostCost::NONE)?]);
        let (reads, times): (u64, Result<_, Error>) = match self {
            Self::Interface { block, depth } => {
                let filled = filled(model, phase)?;
                (raw::TOTAL / block, both(&|host| interface(&filled, block, depth as usize, host)))
            }
            Self::Alignment { align } => {
                let filled = filled(model, phase)?;
                (ALIGNED_READS, both(&|host| alignment(&filled, align, host)))
            }
            Self::Pieces { writing, dummy, call, depth } => {
                let dummy = if let Dummy::Random(_) = dummy { Dummy::Random(seed.0) } else { dummy };
                let (layout, reading) =
                    (Layout { writing, dummy, phase }, Reading { call, depth: depth as usize });
                (TARGET.div_ceil(call), fragmentation::pieces(model, &layout, reading, host))
            }
        };
        let [elapsed, device] = times?;
        Ok(Took { reads, bytes: self.bytes(), elapsed, device })
    }
}

/// A size that is a number of pages.
fn multiple(name: &str, usual: &str, vars: &BTreeMap<String, String>) -> Result<u64, Error> {
    let text = vars.get(name).map_or(usual, String::as_str);
    let legal = |bytes: &u64| bytes.is_multiple_of(4 * KIB) && (4 * KIB..=raw::SPAN).contains(bytes);
    let bytes = text.parse::<Bytes>().ok().map(|bytes| bytes.0).filter(legal);
    bytes.ok_or_else(|| Error::Setting(format!("{name} = {text}: a multiple of 4KiB up to 1GiB")))
}

/// A count in a range.
fn number(
    name: &str,
    usual: u64,
    legal: std::ops::RangeInclusive<u64>,
    vars: &BTreeMap<String, String>,
) -> Result<u64, Error> {
    let Some(text) = vars.get(name) else { return Ok(usual) };
    let count = text.parse().ok().filter(|count| legal.contains(count));
    count.ok_or_else(|| Error::Setting(format!("{name} = {text}: from {} to {}", legal.start(), legal.end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str, vars: &[(&str, &str)]) -> Result<Stream, String> {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Stream::load(name, &Settings { vars, ..Settings::default() }).map_err(|error| error.to_string())
    }

    #[test]
    fn a_stream_is_known_by_name_and_variables_and_what_is_not_is_told_with_the_nearest() {
        assert_eq!(
            load("requests/interface", &[("depth", "32")]),
            Ok(Stream::Interface { block: 256 * KIB, depth: 32 })
        );
        assert_eq!(
            load("requests/alignment", &[("align", "32KiB")]),
            Ok(Stream::Alignment { align: 32 * KIB })
        );
        assert!(load("requests/interfac", &[]).unwrap_err().contains("did you mean \"interface\"?"));
        assert!(
            load("requests/interface", &[("dpeth", "1")]).unwrap_err().contains("did you mean \"depth\"?")
        );
        for (name, value) in [("writing", "twice"), ("pieces", "3"), ("dummy", "some"), ("call", "1")] {
            assert!(
                load("requests/pieces", &[(name, value)]).unwrap_err().starts_with(&format!("{name} = "))
            );
        }
        for (name, value) in [("block", "3KiB"), ("block", "16MiB"), ("depth", "0"), ("block", "many")] {
            assert!(
                load("requests/interface", &[(name, value)]).unwrap_err().starts_with(&format!("{name} = "))
            );
        }
    }
}
