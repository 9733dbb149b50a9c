//! The operation kinds under which the ledger books time: one for each system call, and
//! one each for the loads and stores of a mapped file, which are none.

use sim::Op;

macro_rules! ops {
    ($($index:literal $constant:ident $name:literal;)*) => {
        $(#[doc = concat!("`", $name, "`")] pub const $constant: Op = Op::new($index, $name);)*
        /// All of them.
        pub const ALL: &[Op] = &[$($constant),*];
    };
}

ops! {
    1 OPEN "open";
    2 CLOSE "close";
    3 READ "read";
    4 WRITE "write";
    5 FSYNC "fsync";
    6 STAT "stat";
    7 UNLINK "unlink";
    8 MKDIR "mkdir";
    9 RMDIR "rmdir";
    10 RENAME "rename";
    11 READDIR "readdir";
    12 TRUNCATE "truncate";
    13 CREATE "create";
    14 LINK "link";
    15 SYMLINK "symlink";
    16 READLINK "readlink";
    17 SETATTR "setattr";
    18 FALLOCATE "fallocate";
    19 SEEK "seek";
    20 STATFS "statfs";
    21 XATTR "xattr";
    22 SYNC "sync";
    23 MKNOD "mknod";
    24 MMAP "mmap";
    25 MUNMAP "munmap";
    26 MSYNC "msync";
    27 LOAD "load";
    28 STORE "store";
    29 LOCK "lock";
}

/// Background write-back of a design's cache or buffer.
pub const WRITEBACK: Op = Op::new(32, "writeback");
/// Background cleaning of a journal or log.
pub const CLEAN: Op = Op::new(33, "clean");
/// Background operations: they belong to no call of a program.
pub const BACKGROUND: &[Op] = &[WRITEBACK, CLEAN];
