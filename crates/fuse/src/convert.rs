//! Converts numbers, attributes, flags, errors and times between the kernel and a design.

use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, Generation, INodeNo, TimeOrNow};
use vfs::{Attr, Errno, FileKind, Ino, IoFlags, OpenFlags, SetTime, Timestamp};

/// The kernel's number of a root.
const KERNEL_ROOT: u64 = 1;

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

    pub(crate) fn ino(self, node: INodeNo) -> Ino {
        Ino(self.exchange(node.0))
    }

    pub(crate) fn node(self, ino: Ino) -> INodeNo {
        INodeNo(self.exchange(ino.0))
    }

    pub(crate) fn attr(self, attr: &Attr) -> FileAttr {
        FileAttr {
            ino: self.node(attr.ino),
            size: attr.size,
            blocks: attr.blocks,
            atime: system_time(attr.atime),
            mtime: system_time(attr.mtime),
            ctime: system_time(attr.ctime),
            crtime: SystemTime::UNIX_EPOCH,
            kind: file_type(attr.kind),
            perm: attr.perm as u16,
            nlink: attr.nlink,
            uid: attr.owner.uid,
            gid: attr.owner.gid,
            rdev: attr.rdev as u32,
            blksize: attr.block_size,
            flags: 0,
        }
    }
}

pub(crate) fn generation(attr: &Attr) -> Generation {
    Generation(u64::from(attr.generation))
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

pub(crate) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.number())
}

fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.secs.unsigned_abs());
    let second = match time.secs >= 0 {
        true => SystemTime::UNIX_EPOCH + whole,
        false => SystemTime::UNIX_EPOCH - whole,
    };
    second + Duration::from_nanos(u64::from(time.nanos))
}

/// What the kernel meant by a time that fuser gives. Before 1970 fuser takes the nanoseconds away, which the kernel has added.
fn timestamp(time: SystemTime) -> Timestamp {
    let (secs, duration) = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (0i64.saturating_add_unsigned(after.as_secs()), after),
        Err(before) => (0i64.saturating_sub_unsigned(before.duration().as_secs()), before.duration()),
    };
    Timestamp { secs, nanos: duration.subsec_nanos() }
}

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(timestamp(time)),
    }
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
pub(crate) fn io_flags(flags: fuser::OpenFlags) -> IoFlags {
    open_flags(flags.0).io() - IoFlags::APPEND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_number_one_for_the_kernel_and_no_number_is_lost() {
        let numbers = Numbers::new(Ino(128));
        assert_eq!(numbers.node(Ino(128)), INodeNo(1));
        for number in [1, 2, 128, 129, u64::MAX] {
            assert_eq!(numbers.ino(numbers.node(Ino(number))), Ino(number));
        }
    }

    #[test]
    fn times_before_1970_keep_their_nanoseconds_on_both_ways() {
        let half_past = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
        assert_eq!(system_time(Timestamp { secs: -2, nanos: 500_000_000 }), half_past);
        // As fuser gives -2 s and 500,000,000 ns.
        let given = SystemTime::UNIX_EPOCH - Duration::new(2, 500_000_000);
        assert_eq!(timestamp(given), Timestamp { secs: -2, nanos: 500_000_000 });
        for time in [(-1, 0), (0, 0), (1, 1), (1 << 32, 999_999_999)] {
            let time = Timestamp { secs: time.0, nanos: time.1 };
            assert_eq!(timestamp(system_time(time)), time);
        }
    }
}
