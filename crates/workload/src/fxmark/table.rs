//! The benchmarks as data: a name, what its loop does, and what its workers share.
//!
//! Four letters make a name: D(ata) or M(etadata), R(ead) or W(rite), the operation, and how much is shared: L(ow) nothing,
//! M(edium) the file or directory but not the block or name, H(igh) everything.

use crate::suite::Entry;

/// What the loop of a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    /// Reads one block of a file.
    Read(Sharing),
    /// Overwrites one block of a file.
    Overwrite(Sharing),
    /// Overwrites the block of its own file and syncs it; both are one operation.
    OverwriteSync,
    /// Appends a block to its own file.
    Append,
    /// Shortens its own file by a block.
    Truncate,
    /// Reads its own file block by block, from the beginning to the end and again.
    ReadThrough,
    /// Reads blocks of its own file at offsets that are normally distributed around its middle.
    ReadSkewed,
    /// Overwrites its own file block by block, from the beginning to the end and again.
    WriteThrough,
    /// The same with a sync after each block; both are one operation.
    WriteThroughSync,
    /// `stat` of the path of a file.
    Stat(Sharing),
    /// One entry of a directory.
    List(Sharing),
    /// Creates an empty file and closes it.
    Create(Sharing),
    /// Creates a file, writes a block, closes it.
    CreateWrite,
    /// Removes a file.
    Unlink(Sharing),
    /// Renames its only file within its own directory.
    RenameWithin,
    /// Moves a file from its own directory to the shared one.
    RenameAcross,
}

/// What workers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Nothing: each has its own file or directory.
    Low,
    /// The file, not the block; the directory, not the name.
    Medium,
    /// The block or the name.
    High,
}

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Benchmark {
    pub(super) entry: Entry,
    pub(super) work: Loop,
    /// Descriptors are opened for direct I/O.
    pub(super) direct: bool,
    /// The last workers do not do the loop but disturb those that do.
    pub(super) background: bool,
    /// What workers share, and which calls an operation makes.
    pub(super) detail: &'static str,
}

use Loop::{
    Append, Create, CreateWrite, List, Overwrite, OverwriteSync, Read, ReadSkewed, ReadThrough, RenameAcross,
    RenameWithin, Stat, Truncate, Unlink, WriteThrough, WriteThroughSync,
};
use Sharing::{High, Low, Medium};

const fn plain(name: &'static str, work: Loop, summary: &'static str, detail: &'static str) -> Benchmark {
    Benchmark { entry: Entry { name, summary }, work, direct: false, background: false, detail }
}

const fn direct(name: &'static str, work: Loop, summary: &'static str, detail: &'static str) -> Benchmark {
    Benchmark { direct: true, ..plain(name, work, summary, detail) }
}

const fn disturbed(name: &'static str, work: Loop, summary: &'static str, detail: &'static str) -> Benchmark {
    Benchmark { background: true, ..plain(name, work, summary, detail) }
}

/// How many of [`BENCHMARKS`] are the published ones, for which the suite's name stands.
pub(super) const PUBLISHED: usize = 19;

/// Every benchmark, the published ones first.
pub(super) const BENCHMARKS: &[Benchmark] = &[
    plain("DRBL", Read(Low), "read 4 KiB of a private file", "nothing is shared; pread"),
    plain("DRBM", Read(Medium), "read a private block of one file", "the inode is shared; pread"),
    plain("DRBH", Read(High), "read one block of one file", "inode and block are shared; pread"),
    plain("DWOL", Overwrite(Low), "overwrite 4 KiB of a private file", "nothing is shared; pwrite"),
    plain("DWOM", Overwrite(Medium), "overwrite a private block of one file", "the inode is shared; pwrite"),
    plain("DWAL", Append, "append 4 KiB to a private file", "free blocks and the journal are shared; write"),
    plain(
        "DWTL",
        Truncate,
        "shorten a private file by 4 KiB",
        "free blocks and the journal are shared; ftruncate",
    ),
    plain(
        "DWSL",
        OverwriteSync,
        "overwrite 4 KiB of a private file and sync",
        "the journal is shared; pwrite, fsync",
    ),
    plain("MRPL", Stat(Low), "stat a private path of six names", "the root directory is shared; stat"),
    plain(
        "MRPM",
        Stat(Medium),
        "stat random files of one tree of 32,768",
        "directories of the tree are shared; stat",
    ),
    plain("MRPH", Stat(High), "stat one path of six names", "every component is shared; stat"),
    plain(
        "MRDL",
        List(Low),
        "list a private directory, entry by entry",
        "nothing is shared; getdents64 now and then",
    ),
    plain(
        "MRDM",
        List(Medium),
        "list one directory, entry by entry",
        "the directory is shared; getdents64 now and then",
    ),
    plain(
        "MWCL",
        Create(Low),
        "create files in a private directory",
        "free inodes and the journal are shared; openat, close",
    ),
    plain(
        "MWCM",
        CreateWrite,
        "create files of 4 KiB in one directory",
        "the directory is shared; openat, write, close",
    ),
    plain(
        "MWUL",
        Unlink(Low),
        "remove files of a private directory",
        "free inodes and the journal are shared; unlink",
    ),
    plain("MWUM", Unlink(Medium), "remove files of one directory", "the directory is shared; unlink"),
    plain(
        "MWRL",
        RenameWithin,
        "rename a file within a private directory",
        "the kernel's lock of renames is shared; rename",
    ),
    plain(
        "MWRM",
        RenameAcross,
        "move files from private directories to one",
        "the target directory is shared; rename",
    ),
    direct("DRBL-direct", Read(Low), "DRBL with O_DIRECT", "the device is shared; pread"),
    direct("DRBM-direct", Read(Medium), "DRBM with O_DIRECT", "inode and device are shared; pread"),
    direct("DRBH-direct", Read(High), "DRBH with O_DIRECT", "inode, block and device are shared; pread"),
    direct("DWOL-direct", Overwrite(Low), "DWOL with O_DIRECT", "the device is shared; pwrite"),
    direct("DWOM-direct", Overwrite(Medium), "DWOM with O_DIRECT", "inode and device are shared; pwrite"),
    direct("DWAL-direct", Append, "DWAL with O_DIRECT", "free blocks, journal and device are shared; write"),
    direct(
        "DWTL-direct",
        Truncate,
        "DWTL with O_DIRECT",
        "free blocks and the journal are shared; ftruncate",
    ),
    direct(
        "DWSL-direct",
        OverwriteSync,
        "DWSL with O_DIRECT",
        "journal and device are shared; pwrite, fsync",
    ),
    disturbed(
        "DRBL_bg",
        Read(Low),
        "DRBL beside writers",
        "a writer overwrites its own private block; pread",
    ),
    disturbed(
        "DRBM_bg",
        Read(Medium),
        "DRBM beside writers",
        "a writer overwrites the block of a random reader; pread",
    ),
    disturbed(
        "DRBH_bg",
        Read(High),
        "DRBH beside writers",
        "a writer overwrites the block that is read; pread",
    ),
    disturbed(
        "MRPM_bg",
        Stat(Medium),
        "MRPM beside writers",
        "a writer makes and removes files at random depths; stat",
    ),
    disturbed(
        "MRDL_bg",
        List(Low),
        "MRDL beside writers",
        "a writer removes and remakes a file of each directory",
    ),
    disturbed(
        "MRDM_bg",
        List(Medium),
        "MRDM beside writers",
        "a writer removes and remakes files of the directory",
    ),
    plain(
        "MWCM-empty",
        Create(Medium),
        "create empty files in one directory",
        "the directory is shared; openat, close",
    ),
    plain(
        "DRBL-64M",
        ReadThrough,
        "read a private file of 64 MiB repeatedly from start to end",
        "nothing is shared; pread",
    ),
    plain(
        "DRBL-64M-skewed",
        ReadSkewed,
        "read a private file of 64 MiB around its middle",
        "nothing is shared; pread",
    ),
    plain(
        "DWOL-64M",
        WriteThrough,
        "overwrite a private file of 64 MiB repeatedly from start to end",
        "nothing is shared; pwrite",
    ),
    plain(
        "DWSL-64M",
        WriteThroughSync,
        "the same, and sync after each 4 KiB",
        "the journal is shared; pwrite, fsync",
    ),
];

impl Benchmark {
    /// The benchmark called `name`.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        BENCHMARKS.iter().find(|benchmark| benchmark.entry.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_the_published_ones_are_those_of_the_paper() {
        let mut names: Vec<_> = BENCHMARKS.iter().map(|benchmark| benchmark.entry.name).collect();
        assert!(names[..PUBLISHED].iter().all(|name| name.len() == 4));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BENCHMARKS.len());
    }
}
