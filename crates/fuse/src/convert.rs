//! Converts numbers, attributes, flags, errors and times between the kernel and a design.

use vfs::{Attr, FileKind, Ino, IoFlags, OpenFlags, SetTime, Timestamp};

use crate::wire::abi::{AttrRecord, STATX_BASIC, STATX_BTIME, StatxRecord, SxTime};

/// The kernel's number of a root.
pub(crate) const KERNEL_ROOT: u64 = 1;

/// Exchanges the design's number of its root and the kernel's; all other numbers are the same in both worlds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    root: u64,
}

impl Numbers {
    pub(crate) fn new(root: Ino) -> Self {
        Self { root: root.0 }
    }

    fn exchange(self, number: u64) -> u64 {
        match number {
            KERNEL_ROOT => self.root,
            number if number == self.root => KERNEL_ROOT,
            number => number,
        }
    }

    pub(crate) fn ino(self, node: u64) -> Ino {
        Ino(self.exchange(node))
    }

    pub(crate) fn node(self, ino: Ino) -> u64 {
        self.exchange(ino.0)
    }

    pub(crate) fn attr(self, attr: &Attr) -> AttrRecord {
        AttrRecord {
            ino: self.node(attr.ino),
            size: attr.size,
            blocks: attr.blocks,
            atime: attr.atime.secs,
            mtime: attr.mtime.secs,
            ctime: attr.ctime.secs,
            atime_nanos: attr.atime.nanos,
            mtime_nanos: attr.mtime.nanos,
            ctime_nanos: attr.ctime.nanos,
            mode: attr.kind.mode_bits() | attr.perm & 0o7777,
            nlink: attr.nlink,
            uid: attr.owner.uid,
            gid: attr.owner.gid,
            rdev: attr.rdev as u32,
            block_size: attr.blksize,
            flags: 0,
        }
    }

    /// The same attributes, with the time of birth, as statx(2) has them.
    pub(crate) fn statx(self, attr: &Attr, born: Option<Timestamp>) -> StatxRecord {
        let device = attr.rdev as u32;
        StatxRecord {
            mask: STATX_BASIC | if born.is_some() { STATX_BTIME } else { 0 },
            block_size: attr.blksize,
            nlink: attr.nlink,
            uid: attr.owner.uid,
            gid: attr.owner.gid,
            mode: (attr.kind.mode_bits() | attr.perm & 0o7777) as u16,
            ino: self.node(attr.ino),
            size: attr.size,
            blocks: attr.blocks,
            atime: sx_time(attr.atime),
            btime: sx_time(born.unwrap_or_default()),
            ctime: sx_time(attr.ctime),
            mtime: sx_time(attr.mtime),
            // `new_encode_dev` of the kernel: 12 bits of the major number between 8 and 12 of the minor one.
            rdev_major: device >> 8 & 0xFFF,
            rdev_minor: device & 0xFF | device >> 12 & 0xF_FF00,
            ..StatxRecord::default()
        }
    }
}

fn sx_time(time: Timestamp) -> SxTime {
    SxTime { secs: time.secs, nanos: time.nanos, unused: 0 }
}

/// The kind as an entry of a directory has it (`DT_DIR` and so on).
pub(crate) fn kind_bits(kind: FileKind) -> u32 {
    kind.mode_bits() >> 12
}

/// The kind of an entry that nothing is known of (`DT_UNKNOWN`).
pub(crate) const UNKNOWN_KIND: u32 = 0;

/// What the kernel means by a time.
pub(crate) fn set_time(is_now: bool, secs: i64, nanos: u32) -> SetTime {
    if is_now { SetTime::Now } else { SetTime::To(Timestamp { secs, nanos }) }
}

/// Flags of `open` that matter to a design, in Linux's numbers (x86-64 and most others).
const FLAGS: [(i32, OpenFlags); 7] = [
    (0o1_000, OpenFlags::TRUNCATE),
    (0o2_000, OpenFlags::APPEND),
    (0o10_000, OpenFlags::DSYNC),
    (0o40_000, OpenFlags::DIRECT),
    (0o200_000, OpenFlags::DIRECTORY),
    (0o1_000_000, OpenFlags::NOATIME),
    (0o4_000_000, OpenFlags::SYNC),
];

pub(crate) fn open_flags(flags: i32) -> OpenFlags {
    let mode = match flags & 0o3 {
        0 => OpenFlags::READ,
        1 => OpenFlags::WRITE,
        _ => OpenFlags::READ | OpenFlags::WRITE,
    };
    FLAGS.into_iter().filter(|(bit, _)| flags & bit != 0).fold(mode, |all, (_, flag)| all | flag)
}

/// Flags of one read or write. The kernel knows the end of the file and gives the offset of an append.
pub(crate) fn io_flags(flags: i32) -> IoFlags {
    open_flags(flags).io() - IoFlags::APPEND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_number_one_for_the_kernel_and_no_number_is_lost() {
        let numbers = Numbers::new(Ino(128));
        assert_eq!(numbers.node(Ino(128)), KERNEL_ROOT);
        for number in [1, 2, 128, 129, u64::MAX] {
            assert_eq!(numbers.ino(numbers.node(Ino(number))), Ino(number));
        }
    }

    #[test]
    fn times_before_1970_are_seconds_below_zero_and_nanoseconds_above() {
        let half_past = Timestamp { secs: -2, nanos: 500_000_000 };
        assert_eq!(set_time(false, -2, 500_000_000), SetTime::To(half_past));
    }
}
