//! Random operations over a small set of names, so that they affect each other.

use rand::RngExt;
use sim::Rng;
use vfs::{FallocateMode, FileKind, RenameFlags, Timestamp, XattrMode};

use crate::op::{File, Op, Pattern};

/// Directories first. Over time a name may be of any kind.
const PATHS: [&str; 14] = [
    "foo", "bar", "A", "B", "A/foo", "A/bar", "B/foo", "B/bar", "A/C", "B/C", "A/C/foo", "A/C/bar",
    "B/C/foo", "foo/x",
];

/// Sizes and offsets around the borders of words, lines and blocks.
const EDGES: [u64; 22] = [
    0, 1, 7, 8, 9, 63, 64, 65, 100, 255, 256, 1000, 2049, 4088, 4095, 4096, 4097, 5000, 8191, 8192, 12_288,
    20_000,
];

/// What is generated.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// Reads and directory listings, too.
    pub reads: bool,
    /// Opens, closes, and operations on what is open.
    pub handles: bool,
    /// Unmounts and mounts.
    pub remounts: bool,
    /// Now and then more names and larger files than the small set.
    pub bulk: bool,
    /// Mappings, loads, stores and syncs by them. They are drawn before everything else, so that a seed means the same without.
    pub maps: bool,
    /// Clones, drawn before everything but the mappings.
    pub clones: bool,
}

impl Generator {
    /// Everything that there is but for mappings and clones.
    pub const ALL: Self =
        Self { reads: true, handles: true, remounts: true, bulk: true, maps: false, clones: false };

    /// The next operation; `tag` marks its data.
    pub fn op(self, rng: &mut Rng, tag: u8) -> Op {
        if self.maps && rng.random_range(0..3) == 0 {
            return self.mapped_op(rng, tag);
        }
        if self.clones && rng.random_range(0..12) == 0 {
            return self.clone_op(rng);
        }
        let path = |rng: &mut Rng| self.path(rng);
        match rng.random_range(0..100) {
            8..11 => {
                let value = Pattern { len: [0, 1, 100, 1500, 3000][rng.random_range(0..5)], tag };
                Op::SetXattr(path(rng), attribute(rng), value, xattr_mode(rng))
            }
            11..12 => Op::RemoveXattr(path(rng), attribute(rng)),
            12..20 => Op::Mkdir(path(rng)),
            20..22 => {
                Op::Mknod(path(rng), [FileKind::Fifo, FileKind::CharDevice][rng.random_range(0..2)], 0x0501)
            }
            22..25 => Op::Symlink(path(rng), [1, 60, 4095][rng.random_range(0..3)]),
            25..43 => {
                let offset = (rng.random_range(0..5) > 0).then(|| self.edge(rng));
                Op::Write(self.file(rng), offset, Pattern { len: self.edge(rng) as usize, tag })
            }
            43..50 => Op::Truncate(self.file(rng), self.edge(rng)),
            50..55 => Op::Fallocate(self.file(rng), mode(rng), self.edge(rng), self.edge(rng)),
            55..59 => Op::Link(path(rng), path(rng)),
            59..66 => Op::Unlink(path(rng)),
            66..70 => Op::Rmdir(path(rng)),
            70..82 => Op::Rename(path(rng), path(rng), rename_flags(rng)),
            82..84 => Op::Chmod(path(rng), rng.random_range(0..0o10_000)),
            84..85 => Op::ChmodChown(path(rng), rng.random_range(0..0o10_000), 5, 6),
            85..86 => Op::Utimes(path(rng), time(rng), time(rng)),
            86..87 => Op::Fsync(self.file(rng)),
            87..88 if self.remounts => Op::Remount,
            88..92 if self.handles => Op::Open(path(rng), rng.random_range(0..4)),
            92..95 if self.handles => Op::Close(rng.random_range(0..4)),
            95..98 if self.reads => Op::Read(self.file(rng), self.edge(rng), self.edge(rng) as usize),
            98..100 if self.reads => Op::ReadDir(path(rng)),
            _ => Op::Create(path(rng)),
        }
    }

    fn mapped_op(self, rng: &mut Rng, tag: u8) -> Op {
        let number = rng.random_range(0..4);
        match rng.random_range(0..20) {
            0..5 => Op::Map(self.path(rng), number),
            5..7 => Op::Unmap(number),
            7..14 => Op::Store(number, self.edge(rng), Pattern { len: self.edge(rng) as usize, tag }),
            14..17 => Op::Load(number, self.edge(rng), self.edge(rng) as usize),
            _ => Op::Msync(number),
        }
    }

    /// Often whole blocks, now and then a range that no design accepts.
    fn clone_op(self, rng: &mut Rng) -> Op {
        let offset = |rng: &mut Rng| match rng.random_range(0..8) {
            0 => self.edge(rng),
            _ => 4096 * rng.random_range(0..4),
        };
        let (from, to) = ((self.file(rng), offset(rng)), (self.file(rng), offset(rng)));
        let len = if rng.random_range(0..3) == 0 { self.edge(rng) } else { 4096 * rng.random_range(1..5) };
        Op::Clone(from, to, len)
    }

    fn path(self, rng: &mut Rng) -> String {
        let path = PATHS[rng.random_range(0..PATHS.len())];
        if self.bulk && rng.random_range(0..4) == 0 {
            let number: u32 = rng.random_range(0..60);
            return format!("{path}{:0>width$}", number, width = (number as usize * 4).max(2));
        }
        path.to_owned()
    }

    fn file(self, rng: &mut Rng) -> File {
        if self.handles && rng.random_range(0..3) == 0 {
            File::Opened(rng.random_range(0..4))
        } else {
            File::At(self.path(rng))
        }
    }

    fn edge(self, rng: &mut Rng) -> u64 {
        let edge = EDGES[rng.random_range(0..EDGES.len())];
        let far = self.bulk && rng.random_range(0..12) == 0;
        if far { edge + [100_000, 300_000, 2_200_000][rng.random_range(0..3)] } else { edge }
    }
}

/// Keeps `count` of some numbers, drawn at random, in the order in which they are drawn.
pub fn draw(numbers: &mut Vec<usize>, count: usize, rng: &mut Rng) {
    for left in 0..count.min(numbers.len()) {
        let taken = rng.random_range(left..numbers.len());
        numbers.swap(left, taken);
    }
    numbers.truncate(count);
}

fn mode(rng: &mut Rng) -> FallocateMode {
    let keep = FallocateMode::KEEP_SIZE;
    let zero = FallocateMode::ZERO_RANGE;
    [FallocateMode::empty(), keep, zero, zero | keep, FallocateMode::PUNCH_HOLE | keep]
        [rng.random_range(0..5)]
}

fn attribute(rng: &mut Rng) -> String {
    let names = ["user.a", "user.b", "user.c"];
    match rng.random_range(0..10) {
        0 => format!("user.{:0>250}", 0),
        number => names[number % names.len()].to_owned(),
    }
}

fn xattr_mode(rng: &mut Rng) -> XattrMode {
    match rng.random_range(0..6) {
        0 => XattrMode::Create,
        1 => XattrMode::Replace,
        _ => XattrMode::Set,
    }
}

/// A time around the borders of what formats hold, or none.
fn time(rng: &mut Rng) -> Option<Timestamp> {
    let times = [(1_234_567, 0), (-1, 999_999_999), (1 << 31, 1), (1 << 32, 123_456_789), (1 - (1 << 31), 7)];
    let (secs, nanos) = *times.get(rng.random_range(0..=times.len()))?;
    Some(Timestamp { secs, nanos })
}

fn rename_flags(rng: &mut Rng) -> RenameFlags {
    match rng.random_range(0..6) {
        0 => RenameFlags::EXCHANGE,
        1 => RenameFlags::NOREPLACE,
        2 => RenameFlags::WHITEOUT,
        _ => RenameFlags::empty(),
    }
}
