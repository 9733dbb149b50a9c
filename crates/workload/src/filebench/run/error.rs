//! Why a run has no valid result.

use std::fmt;

use thiserror::Error;
use vfs::Errno;

use crate::filebench::fileset::tree::TreeError;
use crate::filebench::pattern::Mismatch;

/// What gives a fileset the files that a run lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// More files: so many entries.
    Entries(u64),
    /// Files that exist when the run begins: there is none, however many entries there are.
    Prealloc,
    /// The same, of a fileset whose tree is trusted, so that no file would be made.
    PreallocUntrusted,
    /// Files that do not exist when the run begins: all do.
    LessPrealloc,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries(entries) => write!(f, "it needs {entries} entries"),
            Self::Prealloc => f.write_str(
                "none of its files exists when the run begins: add prealloc to its definition (or prealloc=PERCENT)",
            ),
            Self::PreallocUntrusted => f.write_str(
                "none of its files exists when the run begins: add prealloc to its definition (or prealloc=PERCENT), and leave \
                 trusttree out, with which no file is made",
            ),
            Self::LessPrealloc => f.write_str(
                "all of its files exist when the run begins: give it a prealloc below 100, so that some can be created",
            ),
        }
    }
}

/// What went wrong before, in or after a run, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The shape of a fileset cannot be built.
    #[error("fileset \"{fileset}\": {error}")]
    Tree {
        /// Its name.
        fileset: String,
        /// Why.
        error: TreeError,
    },
    /// Too few files for the threads: the run would stop for want of files.
    #[error(
        "fileset \"{fileset}\" has {have} {kind} files for {threads} threads that {verb} them; \
         {advice}"
    )]
    NotEnoughFiles {
        /// Its name.
        fileset: String,
        /// How many there are at the start.
        have: u64,
        /// `existing` or `absent`.
        kind: &'static str,
        /// How many threads use them.
        threads: u64,
        /// `create` or `delete`.
        verb: &'static str,
        /// What would do.
        advice: Advice,
    },
    /// No file left in a run that is to last its time.
    #[error(
        "flowop \"{flowop}\" found no {kind} file in \"{fileset}\" ({existing} exist, {absent} do not), \
         so the run has no valid result; {}",
        match advice {
            Advice::Entries(entries) => format!(
                "raise its entries to {entries} or more, shorten the run, or turn the switch skip_open_deletes off"
            ),
            advice => advice.to_string(),
        }
    )]
    OutOfFiles {
        /// Its name.
        flowop: String,
        /// The fileset.
        fileset: String,
        /// `existing` or `absent`.
        kind: &'static str,
        /// Files that exist.
        existing: u64,
        /// Files that do not.
        absent: u64,
        /// What is likely to do.
        advice: Advice,
    },
    /// A system call failed.
    #[error("{what}: {call} of {path}: {errno}")]
    Call {
        /// The flowop, or the phase.
        what: String,
        /// The call.
        call: &'static str,
        /// Its path.
        path: String,
        /// Its error.
        errno: Errno,
    },
    /// A write took only a part of the data.
    #[error("{what}: write to {path} took {written} of {wanted} bytes")]
    Short {
        /// The flowop, or the phase.
        what: String,
        /// The file.
        path: String,
        /// Bytes taken.
        written: u64,
        /// Bytes given.
        wanted: u64,
    },
    /// A file does not hold what was written.
    #[error(
        "{what}: {path} holds {:#04x} instead of {:#04x} at offset {}",
        .mismatch.found, .mismatch.wanted, .mismatch.offset
    )]
    Mismatch {
        /// The flowop, or the phase.
        what: String,
        /// The file.
        path: String,
        /// The first wrong byte.
        mismatch: Mismatch,
    },
    /// A file does not have the size that it was written to.
    #[error("verify: {path} has {found} bytes, {wanted} were written")]
    Size {
        /// The file.
        path: String,
        /// Its size.
        found: u64,
        /// What it should be.
        wanted: u64,
    },
    /// A file exists although it was deleted or never made.
    #[error("verify: {path} exists and should not")]
    Undead {
        /// The file.
        path: String,
    },
    /// A flowop finds its slot in the wrong state.
    #[error("flowop \"{flowop}\": slot {slot} is {state}; {advice}")]
    Slot {
        /// Its name.
        flowop: String,
        /// The slot.
        slot: usize,
        /// The state.
        state: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// Random I/O that is larger than what it may touch.
    #[error(
        "flowop \"{flowop}\": random I/O of {iosize} bytes within {range} bytes; raise the size of the files"
    )]
    TooLarge {
        /// Its name.
        flowop: String,
        /// Bytes of one I/O.
        iosize: u64,
        /// Bytes within which it must fall.
        range: u64,
    },
    /// I/O of no bytes.
    #[error("flowop \"{flowop}\": iosize is 0")]
    ZeroSize {
        /// Its name.
        flowop: String,
    },
    /// A loop that takes no time under the virtual clock would never end.
    #[error(
        "thread \"{thread}\" repeats its loop without any time passing; add an operation that takes time"
    )]
    Stuck {
        /// Its name.
        thread: String,
    },
    /// The engine was used outside `sim::run`.
    #[error("a run needs a clock: call it inside sim::run")]
    OutsideRun,
}
