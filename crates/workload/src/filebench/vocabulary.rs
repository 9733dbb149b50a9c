//! The words of the language: which attributes each statement takes, the types of flowops, the custom
//! distributions.
//!
//! Everything that knows a word by name looks it up here, so that a suggestion never names a word that does
//! not work.

/// What a flowop does. The names are Filebench's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Picks an existing file and opens it into a slot.
    OpenFile,
    /// Picks a non-existing file, creates it and opens it into a slot.
    CreateFile,
    /// Closes a slot.
    CloseFile,
    /// Removes a file: the slot's, or a picked one.
    DeleteFile,
    /// Reads the attributes of a picked file, or of an open slot.
    StatFile,
    /// Makes the slot's file durable.
    Fsync,
    /// Makes every open file of a fileset durable.
    FsyncSet,
    /// One read, sequential or at a random offset.
    Read,
    /// One write, sequential or at a random offset.
    Write,
    /// Reads a file from start to end.
    ReadWholeFile,
    /// Writes as many bytes as the nominal size of a file.
    WriteWholeFile,
    /// Appends `iosize` bytes.
    AppendFile,
    /// Appends a random number of bytes below `iosize`.
    AppendFileRand,
    /// Makes a leaf directory.
    MakeDir,
    /// Removes a leaf directory.
    RemoveDir,
    /// Reads all entries of a directory.
    ListDir,
    /// Starts a write that completes later.
    AioWrite,
    /// Waits for about half of the started writes.
    AioWait,
    /// Waits to be woken.
    Block,
    /// Wakes all that wait in the target.
    Wakeup,
    /// Takes from a counting semaphore.
    SemBlock,
    /// Gives to the semaphores of the target.
    SemPost,
    /// Burns processor time with one-byte stores.
    Hog,
    /// Sleeps.
    Delay,
    /// Takes one event of the event generator.
    EventLimit,
    /// Takes an event for each I/O operation done.
    IopsLimit,
    /// Takes an event for each operation done.
    OpsLimit,
    /// Takes an event for each MiB moved.
    BwLimit,
    /// Has nothing left to do after a number of operations.
    FinishOnCount,
    /// Has nothing left to do after a number of bytes.
    FinishOnBytes,
    /// Logs a text.
    Print,
    /// Collects mean and deviation of a random variable.
    TestRandVar,
}

/// How an operation enters the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Counts as an operation.
    Io,
    /// Counts as an operation; asynchronous.
    Aio,
    /// Synchronisation: shown, not counted.
    Sync,
    /// Anything else: shown, not counted.
    Other,
}

/// Which of the byte counters an operation feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Bytes read.
    Read,
    /// Bytes written.
    Write,
    /// Neither.
    None,
}

/// What is known of a type of flowop.
#[derive(Debug)]
pub struct OpInfo {
    /// The type.
    pub op: Op,
    /// Its word.
    pub name: &'static str,
    /// How it is counted.
    pub class: Class,
    /// Which bytes it counts.
    pub direction: Direction,
    /// The attributes that it looks at, besides `name` and `iters`.
    pub attributes: &'static [&'static str],
}

impl Op {
    /// What is known of it.
    pub fn info(self) -> &'static OpInfo {
        OPS.iter().find(|info| info.op == self).expect("every type of flowop has its row in OPS")
    }

    /// Its word.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Whether it counts as an operation in the summary.
    pub fn is_counted(self) -> bool {
        matches!(self.info().class, Class::Io | Class::Aio)
    }
}

/// The types of flowops.
pub const OPS: &[OpInfo] = &[
    file(Op::OpenFile, "openfile", Direction::None, OPEN),
    file(Op::CreateFile, "createfile", Direction::None, OPEN),
    file(Op::CloseFile, "closefile", Direction::None, SLOT),
    file(Op::DeleteFile, "deletefile", Direction::None, PICK),
    file(Op::StatFile, "statfile", Direction::None, PICK),
    file(Op::Fsync, "fsync", Direction::None, SLOT),
    file(Op::FsyncSet, "fsyncset", Direction::None, SLOT),
    file(Op::Read, "read", Direction::Read, RANDOM),
    file(Op::Write, "write", Direction::Write, RANDOM),
    file(Op::ReadWholeFile, "readwholefile", Direction::Read, WHOLE),
    file(Op::WriteWholeFile, "writewholefile", Direction::Write, WRITE_WHOLE),
    file(Op::AppendFile, "appendfile", Direction::Write, WHOLE),
    file(Op::AppendFileRand, "appendfilerand", Direction::Write, WHOLE),
    file(Op::MakeDir, "makedir", Direction::None, DIRECTORY),
    file(Op::RemoveDir, "removedir", Direction::None, DIRECTORY),
    file(Op::ListDir, "listdir", Direction::None, DIRECTORY),
    OpInfo {
        op: Op::AioWrite,
        name: "aiowrite",
        class: Class::Aio,
        direction: Direction::Write,
        attributes: RANDOM,
    },
    OpInfo {
        op: Op::AioWait,
        name: "aiowait",
        class: Class::Aio,
        direction: Direction::None,
        attributes: SLOT,
    },
    sync(Op::Block, "block", &[]),
    sync(Op::Wakeup, "wakeup", &["target"]),
    sync(Op::SemBlock, "semblock", &["value", "highwater"]),
    sync(Op::SemPost, "sempost", &["value", "target", "blocking"]),
    other(Op::Hog, "hog", &["value"]),
    other(Op::Delay, "delay", &["value"]),
    other(Op::EventLimit, "eventlimit", &[]),
    other(Op::IopsLimit, "iopslimit", &["target"]),
    other(Op::OpsLimit, "opslimit", &["target"]),
    other(Op::BwLimit, "bwlimit", &["target"]),
    other(Op::FinishOnCount, "finishoncount", &["value", "target"]),
    other(Op::FinishOnBytes, "finishonbytes", &["value", "target"]),
    other(Op::Print, "print", &["value"]),
    other(Op::TestRandVar, "testrandvar", &["value"]),
];

const SLOT: &[&str] = &["filename", "fd", "opennext"];
const PICK: &[&str] = &["filename", "fd", "opennext", "indexed"];
const DIRECTORY: &[&str] = &["filename", "indexed"];
const OPEN: &[&str] = &["filename", "fd", "opennext", "indexed", "dsync", "directio", "noreadahead"];
const WHOLE: &[&str] =
    &["filename", "fd", "opennext", "indexed", "dsync", "directio", "noreadahead", "iosize", "workingset"];
const WRITE_WHOLE: &[&str] = &[
    "filename",
    "fd",
    "opennext",
    "indexed",
    "dsync",
    "directio",
    "noreadahead",
    "iosize",
    "workingset",
    "srcfd",
];
const RANDOM: &[&str] = &[
    "filename",
    "fd",
    "opennext",
    "indexed",
    "dsync",
    "directio",
    "noreadahead",
    "iosize",
    "workingset",
    "random",
];

const fn file(
    op: Op,
    name: &'static str,
    direction: Direction,
    attributes: &'static [&'static str],
) -> OpInfo {
    OpInfo { op, name, class: Class::Io, direction, attributes }
}

const fn sync(op: Op, name: &'static str, attributes: &'static [&'static str]) -> OpInfo {
    OpInfo { op, name, class: Class::Sync, direction: Direction::None, attributes }
}

const fn other(op: Op, name: &'static str, attributes: &'static [&'static str]) -> OpInfo {
    OpInfo { op, name, class: Class::Other, direction: Direction::None, attributes }
}

/// The attributes that any flowop may be given.
pub const FLOWOP_ATTRIBUTES: &[&str] = &[
    "name",
    "iters",
    "filename",
    "fd",
    "srcfd",
    "iosize",
    "workingset",
    "random",
    "dsync",
    "directio",
    "noreadahead",
    "opennext",
    "indexed",
    "value",
    "target",
    "blocking",
    "highwater",
];

/// The attributes of `define fileset`.
pub const FILESET_ATTRIBUTES: &[&str] = &[
    "name",
    "path",
    "entries",
    "dirwidth",
    "size",
    "prealloc",
    "paralloc",
    "reuse",
    "trusttree",
    "readonly",
    "writeonly",
    "dirgamma",
    "dirdepthrv",
    "leafdirs",
];

/// The attributes of `define file`.
pub const FILE_ATTRIBUTES: &[&str] =
    &["name", "path", "size", "prealloc", "paralloc", "reuse", "trusttree", "readonly", "writeonly"];

/// The attributes of `define process`.
pub const PROCESS_ATTRIBUTES: &[&str] = &["name", "instances", "nice"];

/// The attributes of `thread`.
pub const THREAD_ATTRIBUTES: &[&str] = &["name", "instances", "memsize", "useism", "ioprio"];

/// The attributes of `define flowop`, besides its parameters.
pub(crate) const COMPOSITE_ATTRIBUTES: &[&str] = &["name"];

/// The attributes of a call of a composite flowop, besides its arguments.
pub(crate) const CALL_ATTRIBUTES: &[&str] = &["name", "iters"];

/// The attributes of `eventgen`.
pub const EVENTGEN_ATTRIBUTES: &[&str] = &["rate"];

/// The attributes of `randvar`.
pub const RANDVAR_ATTRIBUTES: &[&str] =
    &["type", "mean", "min", "round", "gamma", "seed", "randsrc", "randtable"];

/// The attributes of `cvar`.
pub const CVAR_ATTRIBUTES: &[&str] = &["type", "parameters", "min", "max", "round"];

/// Words of older or other spellings, as (statement, old word, modern word or what happens to it).
pub(crate) const OLD_ATTRIBUTES: &[(&str, &str, OldAttribute)] = &[
    ("fileset", "cached", OldAttribute::Ignored("the cache state is chosen by the plan")),
    ("file", "cached", OldAttribute::Ignored("the cache state is chosen by the plan")),
    ("fileset", "filesize", OldAttribute::Renamed("size")),
    ("file", "filesize", OldAttribute::Renamed("size")),
    (
        "fileset",
        "filesizegamma",
        OldAttribute::Refused("write size=$v with set $v=cvar(type=cvar-gamma,parameters=mean:…;gamma:1.5)"),
    ),
    ("fileset", "namelength", OldAttribute::Ignored("names have eight digits")),
    ("thread", "procname", OldAttribute::Ignored("a thread belongs to the process around it")),
    ("thread", "process", OldAttribute::Ignored("a thread belongs to the process around it")),
    ("flowop", "filesetname", OldAttribute::Renamed("filename")),
    ("flowop", "wss", OldAttribute::Renamed("workingset")),
    ("flowop", "rotatefd", OldAttribute::Renamed("opennext")),
    ("flowop", "possetname", OldAttribute::Refused("sets of positions were removed in 1.5; use random")),
];

/// What becomes of an attribute of an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldAttribute {
    /// Accepted with a warning, without effect.
    Ignored(&'static str),
    /// Accepted with a warning under its modern name.
    Renamed(&'static str),
    /// An error with this advice.
    Refused(&'static str),
}

/// A kind of custom variable: its word, its parameters with their defaults.
#[derive(Debug)]
pub struct Cvar {
    /// The value of `type=`.
    pub name: &'static str,
    /// Parameters as (name, default).
    pub parameters: &'static [(&'static str, f64)],
}

/// The kinds of custom variables.
pub const CVARS: &[Cvar] = &[
    Cvar { name: "cvar-gamma", parameters: &[("mean", 4096.0), ("gamma", 1.5)] },
    Cvar { name: "cvar-uniform", parameters: &[("lower", 0.0), ("upper", 1.0)] },
    Cvar { name: "cvar-normal", parameters: &[("mean", 0.0), ("sigma", 1.0)] },
    Cvar { name: "cvar-lognormal", parameters: &[("shape", 1.0), ("scale", 1.0)] },
    Cvar { name: "cvar-exponential", parameters: &[("mean", 1.0)] },
    Cvar { name: "cvar-weibull", parameters: &[("shape", 1.0), ("scale", 1.0)] },
    Cvar { name: "cvar-erlang", parameters: &[("shape", 1.0), ("rate", 1.0)] },
    Cvar { name: "cvar-triangular", parameters: &[("lower", 0.0), ("upper", 1.0), ("mode", 0.5)] },
];

/// Limits of Filebench 1.5 (its shared memory has fixed tables). Weir warns above them and goes on.
pub mod limits {
    /// Filesets, single files included.
    pub(crate) const FILESETS: u64 = 16;
    /// Files and directories of all filesets together.
    pub const ENTRIES: u64 = 1_048_576;
    /// Running process instances and definitions.
    pub(crate) const PROCESSES: u64 = 1024;
    /// Running thread instances and definitions.
    pub const THREADS: u64 = 1024;
    /// Variables.
    pub(crate) const VARIABLES: u64 = 1024;
    /// Custom variables.
    pub const CVARS: u64 = 16;
    /// Random variables.
    pub(crate) const RANDVARS: u64 = 16;
    /// Descriptor slots of a thread. Weir has the same number.
    pub const SLOTS: u64 = 128;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_of_a_flowop_type_is_a_flowop_attribute() {
        for info in OPS {
            for attribute in info.attributes {
                assert!(FLOWOP_ATTRIBUTES.contains(attribute), "{}: {attribute}", info.name);
            }
        }
    }

    #[test]
    fn every_flowop_type_has_one_row_and_one_word() {
        let mut words: Vec<&str> = OPS.iter().map(|info| info.name).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), OPS.len());
        for info in OPS {
            assert_eq!(info.op.name(), info.name);
        }
    }

    #[test]
    fn only_io_and_aio_count_as_operations() {
        assert!(Op::Fsync.is_counted() && Op::AioWait.is_counted());
        assert!(!Op::SemPost.is_counted() && !Op::OpsLimit.is_counted());
    }
}
