//! FFSB's profiles, read as they are: `weir bench profile.ffsb`.
//!
//! The Flexible File System Benchmark, version 6.0: its profiles say how file systems are filled and which operations groups of
//! threads draw, by weight. No line of it is in this: names of keys and what they mean are from its documentation.
//!
//! | module | holds |
//! |---|---|
//! | `keys` | every key: what its value is, and whether it is honoured |
//! | `profile` | the format; all problems of a profile at once, with lines and keys |
//! | `files` | the files of a file system: made, aged, drawn |
//! | `operations` | what each operation calls, and how it is counted |
//! | `run` | a workload of all that |
//!
//! # What differs from FFSB
//!
//! File systems of a profile are directories `fsN` of the subject, whatever their `location` is. FFSB locks a file that it writes;
//! here two threads may write one file at once, and a file that was removed after it was drawn is drawn again.

mod files;
mod keys;
mod operations;
mod profile;
mod run;

use std::sync::Arc;

use sim::Nanos;

use crate::app::variables::Reader;
use crate::suite::{Entry, LoadError, Settings, Suite, Switch, Workload};
use run::Loaded;

/// The suite.
#[derive(Clone, Copy, Debug)]
pub struct Ffsb;

const MIX: Entry =
    Entry { name: "mix", summary: "blocks of random files read and overwritten, by two weights" };

const DETAIL: &str = "\
Threads draw a file and read or overwrite a block of it. Each block is an operation, and the sync at the end is part of the time.

  threads    (--threads)
  read, write
             weights of the two
  fsync      an fsync after each write
  files, directories
             of the file system
  block      bytes of a read or write, aligned to 4 KiB
  time       how long it runs, in seconds

A profile of FFSB's own is a file that ends in .ffsb. There -D sets a key of the profile, --threads the threads of each group.
The profile of ffsb/mix, with its variables' values:

";

impl Ffsb {
    /// The built-in profile with variables.
    fn mix(settings: &Settings) -> Result<String, LoadError> {
        let mut reader = Reader::of("ffsb/mix".to_owned(), "threads", settings);
        let (read, write) = (reader.count("read", 70, 0..=10_000)?, reader.count("write", 30, 0..=10_000)?);
        let fsync = if reader.flag("fsync", false)? { "write_fsync_weight" } else { "write_weight" };
        let (threads, files) =
            (reader.count("threads", 4, 1..=4096)?, reader.count("files", 1000, 1..=10_000_000)?);
        let directories = reader.count("directories", 100, 1..=1_000_000)?;
        let block = reader.bytes("block", 4096, 1..=1 << 30)?;
        let time = reader.count("time", 30, 1..=1_000_000)?;
        reader.finish()?;
        Ok(format!(
            "time = {time}
alignio = 1
[filesystem0]
  location = /fs0
  num_files = {files}
  num_dirs = {directories}
  size_weight 4k 33
  size_weight 8k 21
  size_weight 16k 13
  size_weight 32k 10
  size_weight 64k 8
  size_weight 128k 5
  size_weight 256k 4
  size_weight 512k 3
[end0]
[threadgroup0]
  num_threads = {threads}
  read_weight = {read}
  read_random = 1
  read_size = {block}
  read_blocksize = {block}
  {fsync} = {write}
  write_random = 1
  write_size = {block}
  write_blocksize = {block}
[end0]
"
        ))
    }
}

impl Suite for Ffsb {
    fn name(&self) -> &'static str {
        "ffsb"
    }

    fn summary(&self) -> &'static str {
        "FFSB's profiles, run as they are (files ending in .ffsb)"
    }

    fn entries(&self) -> Vec<Entry> {
        vec![MIX]
    }

    fn usual(&self) -> Vec<Entry> {
        self.entries()
    }

    /// A profile says itself how long it runs.
    fn usual_time(&self, _modelled: bool) -> Nanos {
        Nanos::MAX
    }

    fn extension(&self) -> Option<&'static str> {
        Some("ffsb")
    }

    fn file_counts(&self) -> &'static [&'static str] {
        &["files", "num_files"]
    }

    fn switches(&self) -> &'static [Switch] {
        &[]
    }

    fn load(&self, name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        if name != MIX.name {
            return Err(LoadError::Unknown(name.to_owned()));
        }
        let mut loaded = Loaded::read("ffsb/mix", &Self::mix(settings)?, &Settings::default())?;
        loaded.set_variables(settings);
        Ok(Arc::new(loaded))
    }

    fn read(&self, name: &str, text: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        Ok(Arc::new(Loaded::read(name, text, settings)?))
    }

    fn describe(&self, name: &str) -> Option<String> {
        let text = Self::mix(&Settings::default()).ok()?;
        (name == MIX.name).then(|| format!("{DETAIL}{text}"))
    }
}
