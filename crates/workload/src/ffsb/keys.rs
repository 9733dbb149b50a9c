//! Every key of a profile: where it stands, what its value is, and what becomes of it.

use super::operations::Kind;

/// Where a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Before all sections.
    Global,
    /// In `[filesystem]`.
    FileSystem,
    /// In `[threadgroup]`.
    ThreadGroup,
    /// In `[stats]`.
    Stats,
}

/// What a value is, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// A whole number.
    Count,
    /// 0 or 1.
    Flag,
    /// Bytes: `4k`, `1gb`.
    Size,
    /// A part of the file system, from 0 to 1.
    Share,
    /// A size and its weight.
    Sizes,
    /// The weight of an operation; with an fsync behind it or without.
    Weight(Kind, bool),
    /// Text.
    Text,
    /// Read, and without influence here.
    Ignored,
    /// Not honoured where it is not 0, for this reason.
    Refused(&'static str),
}

use Place::{FileSystem, Global, Stats, ThreadGroup};

/// A key.
pub(super) type Key = (Place, &'static str, Value);

/// All of version 6.0.
pub(super) const KEYS: &[Key] = &[
    (Global, "num_filesystems", Value::Ignored),
    (Global, "num_threadgroups", Value::Ignored),
    (Global, "verbose", Value::Ignored),
    (Global, "time", Value::Count),
    (Global, "directio", Value::Flag),
    (Global, "bufferio", Value::Refused("reads and writes here are calls, without a buffer of stdio")),
    (Global, "alignio", Value::Flag),
    (Global, "callout", Value::Refused("no program of the host is started")),
    (FileSystem, "location", Value::Text),
    (FileSystem, "num_files", Value::Count),
    (FileSystem, "num_dirs", Value::Count),
    (FileSystem, "reuse", Value::Ignored),
    (FileSystem, "min_filesize", Value::Size),
    (FileSystem, "max_filesize", Value::Size),
    (FileSystem, "create_blocksize", Value::Size),
    (FileSystem, "age_blocksize", Value::Size),
    (FileSystem, "desired_util", Value::Share),
    (FileSystem, "agefs", Value::Flag),
    (FileSystem, "size_weight", Value::Sizes),
    (FileSystem, "init_util", Value::Share),
    (FileSystem, "init_size", Value::Size),
    (FileSystem, "clone", Value::Refused("write its section out a second time")),
    (ThreadGroup, "bindfs", Value::Text),
    (ThreadGroup, "num_threads", Value::Count),
    (ThreadGroup, "read_weight", Value::Weight(Kind::Read, false)),
    (ThreadGroup, "readall_weight", Value::Weight(Kind::ReadAll, false)),
    (ThreadGroup, "read_random", Value::Flag),
    (ThreadGroup, "read_skip", Value::Flag),
    (ThreadGroup, "read_size", Value::Size),
    (ThreadGroup, "read_blocksize", Value::Size),
    (ThreadGroup, "read_skipsize", Value::Size),
    (ThreadGroup, "write_weight", Value::Weight(Kind::Write, false)),
    (ThreadGroup, "write_fsync_weight", Value::Weight(Kind::Write, true)),
    (ThreadGroup, "writeall_weight", Value::Weight(Kind::WriteAll, false)),
    (ThreadGroup, "writeall_fsync_weight", Value::Weight(Kind::WriteAll, true)),
    (ThreadGroup, "write_random", Value::Flag),
    (ThreadGroup, "fsync_file", Value::Refused("version 6 has write_fsync_weight and others in its place")),
    (ThreadGroup, "write_size", Value::Size),
    (ThreadGroup, "write_blocksize", Value::Size),
    (ThreadGroup, "create_weight", Value::Weight(Kind::Create, false)),
    (ThreadGroup, "create_fsync_weight", Value::Weight(Kind::Create, true)),
    (ThreadGroup, "delete_weight", Value::Weight(Kind::Delete, false)),
    (ThreadGroup, "append_weight", Value::Weight(Kind::Append, false)),
    (ThreadGroup, "append_fsync_weight", Value::Weight(Kind::Append, true)),
    (ThreadGroup, "metaop_weight", Value::Weight(Kind::Meta, false)),
    (ThreadGroup, "createdir_weight", Value::Weight(Kind::CreateDir, false)),
    (ThreadGroup, "stat_weight", Value::Weight(Kind::Stat, false)),
    (ThreadGroup, "open_close_weight", Value::Weight(Kind::OpenClose, false)),
    (ThreadGroup, "op_delay", Value::Count),
    (Stats, "enable_stats", Value::Ignored),
    (Stats, "enable_range", Value::Ignored),
    (Stats, "ignore", Value::Ignored),
    (Stats, "msec_range", Value::Ignored),
];
