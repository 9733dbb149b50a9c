//! Bonnie and Bonnie++: six passes over a large file, and three over many small ones.
//!
//! T. Bray's Bonnie (1996) and R. Coker's Bonnie++ 2.00a. What each pass calls is in `passes`, `seeks` and `small`; the calls of
//! Bonnie++ were read from the program (`strace`), those of Bonnie from a description of its source.
//!
//! | module | holds |
//! |---|---|
//! | `options` | variables with their checks, the files and what they take |
//! | `file` | a large file, in pieces of a gibibyte |
//! | `passes` | the passes over the large file |
//! | `seeks` | the processes that read chunks at random |
//! | `small` | small files: made, looked at, removed |
//! | `run` | the order of passes, before and within the measured time |
//!
//! Bonnie's processes are tasks here, with descriptors of their own.

mod file;
mod options;
mod passes;
mod run;
mod seeks;
mod small;

use std::sync::Arc;

use sim::Nanos;

use crate::suite::{Entry, LoadError, Settings, Suite, Switch, Workload};
use options::{Options, Program};

/// The suite.
#[derive(Clone, Copy, Debug)]
pub struct Bonnie;

const DETAIL: &str = "\
A large file is written byte by byte and chunk by chunk, rewritten, and read in the same ways; then several processes read chunks at
random and write some back. bonnie is the program of 1996, bonnie++ version 2.00a, which ends with many small files. The other
workloads measure one pass; the passes that it needs run before, unmeasured.

  program  bonnie or bonnie++, of which the defaults below are (a workload of one pass: bonnie)
  size     of the large file: 100MiB
  ram      the least size that is sensible is twice this; 0: not checked
  chunk    of a read or write: 16KiB, 8KiB
  chars    bytes of the passes by bytes: all of the file, 20MiB
  stdio    bytes of the buffer of putc and getc; 1: a call for each byte, as Bonnie++ from 1.90 on does: 4096, 1
  char_time
           what putc or getc of a byte computes, where there is a buffer
  seeks    chunks that are read at random: 4000, 8192
  seekers  processes that do so (--threads): 3, 5
  files    small files, in units of 1024: 0, 16; workloads of small files: 16
  largest, smallest
           sizes of small files, uniform: 0
  directories
           over which they are spread; 0: none
  sync     a sync after each write of a chunk (-b)

An operation is a call that reads or writes, of a small file what is done to it. Each pass has its time and rate: bonnie.PASS.ns,
bonnie.PASS.kib_per_s, or bonnie.PASS.per_s.
";

/// The workloads: a name, what it does, the passes that are measured.
const WORKLOADS: &[(Entry, &[usize])] = &[
    workload("bonnie", "Bonnie of 1996: six passes over a large file, in its order", run::BONNIE),
    workload("bonnie++", "Bonnie++ 2.00a: the passes in its order, then small files", run::BONNIE_PLUS),
    workload("putc", "a file written by putc(3)", &[run::PUTC]),
    workload("block-write", "a new file written in chunks", &[run::BLOCK_WRITE]),
    workload("rewrite", "each chunk read, changed and written back", &[run::REWRITE]),
    workload("getc", "a file read by getc(3)", &[run::GETC]),
    workload("block-read", "a file read in chunks", &[run::BLOCK_READ]),
    workload("seeks", "several processes read chunks at random and write a tenth of them", &[run::SEEKS]),
    workload("create-sequential", "small files made in the order of their names", &[run::SMALL]),
    workload("stat-sequential", "small files looked at and read in the directory's order", &[run::SMALL + 1]),
    workload("delete-sequential", "small files removed in the directory's order", &[run::SMALL + 2]),
    workload("create-random", "small files of random names made", &[run::SMALL + 3]),
    workload("stat-random", "small files looked at and read in random order", &[run::SMALL + 4]),
    workload("delete-random", "small files removed in random order", &[run::SMALL + 5]),
];

const fn workload(
    name: &'static str,
    summary: &'static str,
    passes: &'static [usize],
) -> (Entry, &'static [usize]) {
    (Entry { name, summary }, passes)
}

impl Suite for Bonnie {
    fn name(&self) -> &'static str {
        "bonnie"
    }

    fn summary(&self) -> &'static str {
        "Bonnie and Bonnie++: passes over a large file, and over many small ones"
    }

    fn entries(&self) -> Vec<Entry> {
        WORKLOADS.iter().map(|(entry, _)| *entry).collect()
    }

    fn usual(&self) -> Vec<Entry> {
        self.entries()[..1].to_vec()
    }

    fn usual_time(&self, _modelled: bool) -> Nanos {
        Nanos::MAX
    }

    fn file_counts(&self) -> &'static [&'static str] {
        &["files"]
    }

    fn switches(&self) -> &'static [Switch] {
        &[]
    }

    fn load(&self, name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        let found = WORKLOADS.iter().find(|(entry, _)| entry.name == name);
        let (entry, passes) = found.ok_or_else(|| LoadError::Unknown(name.to_owned()))?;
        let program = if entry.name == "bonnie++" { Program::BonniePlus } else { Program::Bonnie };
        Ok(Arc::new(Options::read(entry.name, passes, program, settings)?))
    }

    fn describe(&self, name: &str) -> Option<String> {
        let known = WORKLOADS.iter().any(|(entry, _)| entry.name == name);
        known.then(|| DETAIL.to_owned())
    }
}
