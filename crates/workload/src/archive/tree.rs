//! A generated tree of files. Which files there are and what is in them follows from the seed.

use rand::RngExt as _;
use rand_distr::{Distribution as _, Normal};
use sim::{Rng, Seed};
use vfs::Syscalls;

use crate::tree::CallFailed;

/// A tree is no deeper.
const DEPTH: usize = 8;
/// Bytes that are written at once while a tree is made.
const PIECE: usize = 64 << 10;

/// How large a tree is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) files: u64,
    pub(super) median: u64,
    /// Of the logarithm of sizes, in hundredths.
    pub(super) sigma_percent: u64,
    pub(super) largest: u64,
    pub(super) width: u64,
}

impl Shape {
    /// Directories: half of the entries of each are files.
    pub(super) fn directories(&self) -> u64 {
        self.files.div_ceil(self.width.div_ceil(2)).max(1)
    }

    fn sigma(&self) -> f64 {
        self.sigma_percent as f64 / 100.0
    }

    /// Bytes that all files take at most, but for one in many runs: their mean, a third more, and a page each.
    pub(super) fn bytes(&self) -> u64 {
        let sigma = self.sigma().min(3.0);
        let mean = (self.median as f64 * sim::math::exp(sigma * sigma / 2.0)).min(self.largest as f64);
        self.files * (mean * 4.0 / 3.0) as u64 + (self.files + self.directories()) * 4096 + self.largest
    }
}

/// A file or directory of a tree.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// From the root of the tree, no slash at its end.
    pub(super) path: String,
    /// Bytes of a file; none: a directory.
    pub(super) size: Option<u64>,
    /// The number of the file.
    pub(super) number: u64,
}

/// All entries, each directory before what is in it, sorted by path.
pub(super) fn entries(shape: &Shape, seed: Seed, client: u64) -> Vec<Entry> {
    let mut rng = seed.derive("archive.tree", client).rng();
    let mut directories = vec![(format!("tree{client}"), 0)];
    while (directories.len() as u64) < shape.directories() {
        let (above, depth) = &directories[rng.random_range(0..directories.len())];
        if depth + 1 < DEPTH {
            let below = (format!("{above}/d{:04}", directories.len()), depth + 1);
            directories.push(below);
        }
    }
    let logarithm = Normal::new(sim::math::ln(shape.median as f64), shape.sigma());
    let mut entries: Vec<Entry> =
        directories.iter().map(|(path, _)| Entry { path: path.clone(), size: None, number: 0 }).collect();
    for number in 0..shape.files {
        let drawn = logarithm.as_ref().map_or(0.0, |logarithm| logarithm.sample(&mut rng));
        let size = (sim::math::exp(drawn) as u64).min(shape.largest);
        let (above, _) = &directories[rng.random_range(0..directories.len())];
        entries.push(Entry { path: format!("{above}/f{number:06}"), size: Some(size), number });
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries
}

/// What is in a file: six of ten hold text, three records, one random bytes.
pub(super) fn content(seed: Seed, client: u64, entry: &Entry) -> Vec<u8> {
    let mut rng = seed.derive("archive.content", client << 32 | entry.number).rng();
    let size = entry.size.unwrap_or(0) as usize;
    let mut bytes = Vec::with_capacity(size + 64);
    match entry.number % 10 {
        0..6 => text(&mut rng, size, &mut bytes),
        6..9 => records(&mut rng, size, &mut bytes),
        _ => {
            while bytes.len() < size {
                bytes.extend_from_slice(&rng.random::<u64>().to_le_bytes());
            }
        }
    }
    bytes.truncate(size);
    bytes
}

/// Words of which each is followed by one of a few.
fn text(rng: &mut Rng, size: usize, bytes: &mut Vec<u8>) {
    const WORDS: u64 = 4096;
    const FOLLOWERS: u64 = 24;
    const LETTERS: &[u8; 32] = b"etaoinshrdlcumwfgypbvkeeaaoottnn";
    let mut word = rng.random_range(0..WORDS);
    while bytes.len() < size {
        let mut bits = (word + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for _ in 0..2 + bits % 8 {
            bits = bits.rotate_left(11).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            bytes.push(LETTERS[(bits >> 59) as usize]);
        }
        bytes.push(if bits.is_multiple_of(11) { b'\n' } else { b' ' });
        let follower = rng.random_range(0..FOLLOWERS);
        word = (word.wrapping_mul(FOLLOWERS + 1) + follower.wrapping_mul(911)) % WORDS;
    }
}

/// Lines that differ in a number and a few digits.
fn records(rng: &mut Rng, size: usize, bytes: &mut Vec<u8>) {
    let mut number = 0_u64;
    while bytes.len() < size {
        let (kind, amount) = (rng.random_range(0..4_u32), rng.random_range(0..1000_u32));
        let line = format!("{number:010} account=current kind={kind} amount={amount:06}.00 state=settled\n");
        bytes.extend_from_slice(line.as_bytes());
        number += 1;
    }
}

/// Makes a tree.
pub(super) fn make(
    calls: &dyn Syscalls,
    seed: Seed,
    client: u64,
    entries: &[Entry],
) -> Result<(), CallFailed> {
    for entry in entries {
        let path = &entry.path;
        if entry.size.is_none() {
            calls.mkdir(path.as_bytes(), 0o755).map_err(CallFailed::of("mkdir", path))?;
            continue;
        }
        write_whole(calls, path, &content(seed, client, entry))?;
    }
    Ok(())
}

/// Makes a file.
pub(super) fn write_whole(calls: &dyn Syscalls, path: &str, bytes: &[u8]) -> Result<(), CallFailed> {
    let flags = vfs::OpenFlags::WRITE | vfs::OpenFlags::CREATE | vfs::OpenFlags::TRUNCATE;
    let fd = calls.open(path.as_bytes(), flags, 0o644).map_err(CallFailed::of("open", path))?;
    for piece in bytes.chunks(PIECE) {
        let mut left = piece;
        while !left.is_empty() {
            let wrote = calls.write(fd, left).map_err(CallFailed::of("write", path))?;
            if wrote == 0 {
                return Err(CallFailed::of("write", path)(vfs::Errno::ENOSPC));
            }
            left = &left[wrote..];
        }
    }
    calls.close(fd).map_err(CallFailed::of("close", path))
}

/// All of a file.
pub(super) fn read_whole(calls: &dyn Syscalls, path: &str) -> Result<Vec<u8>, CallFailed> {
    let fd = calls.open(path.as_bytes(), vfs::OpenFlags::READ, 0).map_err(CallFailed::of("open", path))?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        match calls.read(fd, &mut piece).map_err(CallFailed::of("read", path))? {
            0 => break,
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
    calls.close(fd).map_err(CallFailed::of("close", path))?;
    Ok(bytes)
}
