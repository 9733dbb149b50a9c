//! Streams of requests to a bare SSD: the workloads `requests/NAME` of plans, whose subject is `fs = ["ssd"]`.
//!
//! | name | requests | variables |
//! |---|---|---|
//! | `requests/interface` | 8 MiB read at random places in blocks of a size (figure 7 of the FAST 2024 study) | `block`, `depth` |
//! | `requests/alignment` | reads of 4 KiB at random multiples of a size, 32 outstanding (figure 8) | `align` |
//!
//! Before, the device is written once, in order ([`workload::fragmentation::raw`]). Places come from fixed seeds: they are the same
//! in every run.

use std::collections::BTreeMap;

use media::flash::SsdModel;
use sim::{Bytes, KIB, Nanos};
use workload::fragmentation::raw;
use workload::suite::Settings;

use super::fragmentation::{ALIGNED_READS, alignment, filled, interface};
use super::host::HostCost;
use crate::error::Error;
use document::nearest;

/// The folder of their names.
pub const FOLDER: &str = "requests/";

/// Every stream by name, with its variables and what it asks.
pub const STREAMS: [(&str, &[&str], &str); 2] = [
    (
        "interface",
        &["block", "depth"],
        "8 MiB read at random places in blocks of a size, 1 or 32 outstanding",
    ),
    ("alignment", &["align"], "reads of 4 KiB at random multiples of a size, 32 outstanding"),
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
        let block = multiple("block", "256KiB", &settings.vars)?;
        if block > raw::TOTAL || !raw::TOTAL.is_multiple_of(block) {
            return Err(Error::Setting(format!("block = {}: a part of 8 MiB", Bytes(block))));
        }
        let depth = settings.vars.get("depth").map_or("1", String::as_str);
        let count = depth.parse().ok().filter(|depth| (1..=1023).contains(depth));
        let depth = count.ok_or_else(|| Error::Setting(format!("depth = {depth}: from 1 to 1023")))?;
        Ok(Self::Interface { block, depth })
    }

    /// Bytes that a run reads.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Interface { .. } => raw::TOTAL,
            Self::Alignment { .. } => ALIGNED_READS * 4 * KIB,
        }
    }

    /// Runs the requests on a device that was filled, whose open flash page held `phase` pages before.
    ///
    /// # Errors
    /// What the device refuses.
    pub fn run(self, model: &SsdModel, phase: u64, host: HostCost) -> Result<Took, Error> {
        let filled = filled(model, phase)?;
        let time = |host| match self {
            Self::Interface { block, depth } => interface(&filled, block, depth as usize, host),
            Self::Alignment { align } => alignment(&filled, align, host),
        };
        let reads = match self {
            Self::Interface { block, .. } => raw::TOTAL / block,
            Self::Alignment { .. } => ALIGNED_READS,
        };
        Ok(Took { reads, bytes: self.bytes(), elapsed: time(host)?, device: time(HostCost::NONE)? })
    }
}

/// A size that is a number of pages.
fn multiple(name: &str, usual: &str, vars: &BTreeMap<String, String>) -> Result<u64, Error> {
    let text = vars.get(name).map_or(usual, String::as_str);
    let legal = |bytes: &u64| bytes.is_multiple_of(4 * KIB) && (4 * KIB..=raw::SPAN).contains(bytes);
    let bytes = text.parse::<Bytes>().ok().map(|bytes| bytes.0).filter(legal);
    bytes.ok_or_else(|| Error::Setting(format!("{name} = {text}: a multiple of 4KiB up to 1GiB")))
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
        for (name, value) in [("block", "3KiB"), ("block", "16MiB"), ("depth", "0"), ("block", "many")] {
            assert!(
                load("requests/interface", &[(name, value)]).unwrap_err().starts_with(&format!("{name} = "))
            );
        }
    }
}
