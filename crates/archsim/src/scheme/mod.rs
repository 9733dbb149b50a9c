//! Logging schemes: what software adds to a program, and what hardware does at a store and at a commit.
//!
//! | scheme | a store | a commit | promises |
//! |---|---|---|---|
//! | `non-pers` | plain | nothing | nothing; the upper bound |
//! | `unsafe-undo`, `unsafe-redo` | software record, no fence | commit record | nothing |
//! | `undo-clwb` | old value to the log, fence, store | clwb of each line, fence, commit record, fence | atomic, durable |
//! | `redo-clwb` | new value to the log; in place after commit | as `undo-clwb`, then stores, clwb, fence | atomic, durable |
//! | `undoredo-clwb` | both values, fence, store | as `undo-clwb` | atomic, durable |
//! | `hw-ulog`, `hw-rlog` | hardware record of one side, no order | commit record | nothing |
//! | `hwl` | hardware record of both sides | clwb of each line; waits for the log | atomic, durable |
//! | `fwb` | the same | waits for the log; scans write data back later | atomic, durable |
//! | `eadr` | software undo through the caches, which persist | commit record, fence | atomic, durable |
//! | `atom-like` | hardware undo of a line at its first store | lines flushed, commit record | atomic, durable |
//! | `proteus-like` | undo of 32 bytes at the first store | as `atom-like` | atomic, durable |
//! | `morlog-like` | first undo, newest redo while in the buffer | waits for the log; scans | atomic, durable |
//!
//! Sources: "Steal but No Force", HPCA 2018 (the first nine); ATOM, HPCA 2017; Proteus, MICRO 2017; MorLog, ISCA 2020. The
//! `-like` ones follow the idea, not the published hardware.

pub mod software;

use crate::error::{Error, unknown};

/// What software adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Software {
    /// Records hold old values.
    pub undo: bool,
    /// Records hold new values.
    pub redo: bool,
    /// Stores happen at once; else after the commit.
    pub in_place: bool,
    /// Fences and write-backs are executed.
    pub ordered: bool,
    /// The log is written through the caches.
    pub cached_log: bool,
}

/// What hardware does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Records hold old values.
    pub undo: bool,
    /// Records hold new values.
    pub redo: bool,
    /// Words of a record, where the scheme fixes them; 0: the machine's grain.
    pub words: usize,
    /// Only the first store of a block in a transaction makes a record.
    pub first: bool,
    /// Later stores change the redo side of a record that is still in the buffer.
    pub morph: bool,
    /// Log before data, head advance, commits that wait.
    pub ordered: bool,
    /// The program writes every line back at commit.
    pub clwb: bool,
    /// Hardware writes every line back at commit, and waits.
    pub flush: bool,
    /// Scans write data back.
    pub fwb: bool,
}

/// A scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What software adds, if anything.
    pub software: Option<Software>,
    /// What hardware does, if anything.
    pub hardware: Option<Hardware>,
    /// Whether it promises that committed transactions survive a crash and others leave no trace.
    pub promises: bool,
    /// Whether the caches are in the persistence domain.
    pub persistent_caches: bool,
}

const SOFTWARE: Software =
    Software { undo: true, redo: false, in_place: true, ordered: true, cached_log: false };
const HARDWARE: Hardware = Hardware {
    undo: true,
    redo: true,
    words: 0,
    first: false,
    morph: false,
    ordered: true,
    clwb: false,
    flush: false,
    fwb: false,
};

const fn software(name: &'static str, summary: &'static str, promises: bool, software: Software) -> Scheme {
    Scheme { name, summary, software: Some(software), hardware: None, promises, persistent_caches: false }
}

const fn hardware(name: &'static str, summary: &'static str, promises: bool, hardware: Hardware) -> Scheme {
    Scheme { name, summary, software: None, hardware: Some(hardware), promises, persistent_caches: false }
}

/// Every scheme.
pub static SCHEMES: &[Scheme] = &[
    Scheme {
        name: "non-pers",
        summary: "no logging: the upper bound",
        software: None,
        hardware: None,
        promises: false,
        persistent_caches: false,
    },
    software(
        "unsafe-undo",
        "software undo log without write-backs and fences",
        false,
        Software { ordered: false, ..SOFTWARE },
    ),
    software(
        "unsafe-redo",
        "software redo log without write-backs and fences",
        false,
        Software { undo: false, redo: true, in_place: false, ordered: false, ..SOFTWARE },
    ),
    software("undo-clwb", "software undo log, data forced at commit", true, SOFTWARE),
    software(
        "redo-clwb",
        "software redo log, data stored after commit",
        true,
        Software { undo: false, redo: true, in_place: false, ..SOFTWARE },
    ),
    software(
        "undoredo-clwb",
        "software undo+redo log, data forced at commit",
        true,
        Software { redo: true, ..SOFTWARE },
    ),
    hardware(
        "hw-rlog",
        "hardware redo records, no order",
        false,
        Hardware { undo: false, ordered: false, ..HARDWARE },
    ),
    hardware(
        "hw-ulog",
        "hardware undo records, no order",
        false,
        Hardware { redo: false, ordered: false, ..HARDWARE },
    ),
    hardware(
        "hwl",
        "hardware undo+redo log, lines written back by the program",
        true,
        Hardware { clwb: true, ..HARDWARE },
    ),
    hardware(
        "fwb",
        "hardware undo+redo log and force write-back by scans",
        true,
        Hardware { fwb: true, ..HARDWARE },
    ),
    Scheme {
        name: "eadr",
        summary: "software undo log, caches in the persistence domain",
        software: Some(Software { cached_log: true, ..SOFTWARE }),
        hardware: None,
        promises: true,
        persistent_caches: true,
    },
    hardware(
        "atom-like",
        "hardware undo of whole lines, flushed at commit",
        true,
        Hardware { redo: false, words: 8, first: true, flush: true, ..HARDWARE },
    ),
    hardware(
        "proteus-like",
        "undo of 32-byte blocks, flushed at commit",
        true,
        Hardware { redo: false, words: 4, first: true, flush: true, ..HARDWARE },
    ),
    hardware(
        "morlog-like",
        "first undo, newest redo, and force write-back",
        true,
        Hardware { morph: true, fwb: true, ..HARDWARE },
    ),
];

/// The scheme called `name`.
///
/// # Errors
/// [`Error::Unknown`] names the nearest one.
pub fn by_name(name: &str) -> Result<&'static Scheme, Error> {
    let found = SCHEMES.iter().find(|scheme| scheme.name == name);
    found.ok_or_else(|| unknown("scheme", name, SCHEMES.iter().map(|scheme| scheme.name)))
}

impl Scheme {
    /// Bytes of registers that the scheme needs: a transaction id of one byte, and head and tail of its log.
    pub fn register_bytes(&self) -> u64 {
        let (id, pointer) = (1, 8);
        if self.hardware.is_some() { id + 2 * pointer } else { 0 }
    }

    /// Bits that it adds to the tag of a cache line.
    pub fn tag_bits(&self) -> u64 {
        u64::from(self.hardware.is_some_and(|hardware| hardware.fwb))
    }
}
