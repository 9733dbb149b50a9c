//! Logs of every kind, which are written here byte by byte: what a mount and a repair make of them. No tool is needed.

use std::sync::Arc;

use check::configured::virtually;
use design::Design;
use media::Storage;
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{Mode, Scratch, Trace};
use parking_lot::Mutex;
use sim::Bytes;
use vfs::{FileSystem, Ino, IoFlags};

use crate::ext4::tools::{e2fsck, has_e2fsck};
use crate::shared::harness;

const MAGIC: u32 = 0xc03b_3998;
const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const REVOKE: u32 = 5;
/// Blocks of the file that the logs change.
const BLOCKS: usize = 10;
/// What it holds before.
const OLD: u8 = b'o';

/// CRC with the lowest bit first (CRC-32C) or the highest (the checksum of version 1), bit by bit.
fn crc(mut sum: u32, bytes: &[u8], low_first: bool) -> u32 {
    for byte in bytes {
        sum ^= if low_first { u32::from(*byte) } else { u32::from(*byte) << 24 };
        for _ in 0..8 {
            sum = match low_first {
                true => sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 },
                false => sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 },
            };
        }
    }
    sum
}

fn put(to: &mut [u8], at: usize, value: u32) {
    to[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn get(from: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(from[at..at + 4].try_into().expect("four bytes"))
}

/// How a log is written.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Of its checksums; 0: none.
    version: u8,
    wide: bool,
    asynchronous: bool,
    block: usize,
}

impl Kind {
    fn of(version: u8) -> Self {
        Self { version, wide: true, asynchronous: false, block: 1024 }
    }

    fn seals(self) -> bool {
        self.version > 1
    }

    fn seal(self, seed: u32, block: &mut [u8], at: usize) {
        if self.seals() {
            let sum = crc(seed, block, true);
            put(block, at, sum);
        }
    }
}

/// A transaction: the blocks of the file that it gives other contents, and those that it revokes.
#[derive(Clone, Debug)]
struct Transaction {
    time: u64,
    blocks: Vec<(usize, Vec<u8>)>,
    revokes: Vec<usize>,
    commits: bool,
}

/// An image with a file, whose journal is written here.
struct Image {
    region: Arc<Region>,
    kind: Kind,
    /// Where the journal's blocks lie.
    journal: Vec<u64>,
    file: Vec<u64>,
    ino: u64,
}

/// What can be damaged: block of the log by what it is, from the last transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Revoke,
    Descriptor,
    Logged,
    Commit,
}

fn ext4() -> &'static dyn Design {
    fs::by_name("ext4").expect("a design")
}

impl Image {
    fn new(kind: Kind) -> Self {
        Self::with_journal(kind, &format!("{}k", kind.block * 1024 / 1024))
    }

    fn with_journal(kind: Kind, size: &str) -> Self {
        let region = check::configured::region(Bytes::mib(3 + 5 * kind.block as u64 / 1024));
        let storage = Storage::from(&region);
        let block_size = format!("{}k", kind.block / 1024);
        let given = [("block_size", &*block_size), ("journal", size), ("metadata_csum", "false")];
        let options = harness::options(ext4(), &given);
        let (ino, file) = virtually(1, move || {
            ext4().format().mkfs(&storage, &options).expect("mkfs");
            let fs = ext4().mount(&storage, &options).expect("mount");
            let ino = fs.create(fs.root(), b"f", &check::NEW).expect("create").ino;
            fs.write(ino, 0, &vec![OLD; BLOCKS * kind.block], IoFlags::empty()).expect("write");
            fs.sync().expect("sync");
            let extents = fs.extents(ino).expect("extents");
            let block = kind.block as u64;
            let blocks =
                extents.iter().flat_map(|one| (0..one.len / block).map(move |at| one.physical / block + at));
            let blocks: Vec<u64> = blocks.collect();
            fs.unmount().expect("unmount");
            (ino.0, blocks)
        });
        assert_eq!(file.len(), BLOCKS);
        let mut image = Self { region, kind, journal: Vec::new(), file, ino };
        image.journal = image.blocks_of(8);
        image
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.region.len() as usize];
        self.region.peek(0, &mut bytes).expect("the whole region");
        bytes
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.region.store(at, bytes).expect("inside");
    }

    fn word(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.region.peek(at, &mut bytes).expect("inside");
        u32::from_le_bytes(bytes)
    }

    /// Where an inode of the first group lies.
    fn inode_at(&self, ino: u64) -> u64 {
        let block = self.kind.block as u64;
        let descriptor = if block == 1024 { 2 } else { 1 } * block;
        u64::from(self.word(descriptor + 8)) * block + (ino - 1) * 256
    }

    /// The blocks of an inode whose extents fit into it.
    fn blocks_of(&self, ino: u64) -> Vec<u64> {
        let map = self.inode_at(ino) + 0x28;
        let entries = u64::from(self.word(map) >> 16);
        let extents = (1..=entries)
            .map(|entry| (self.word(map + entry * 12 + 4) & 0xffff, self.word(map + entry * 12 + 8)));
        extents.flat_map(|(len, start)| (0..len).map(move |at| u64::from(start + at))).collect()
    }

    fn log_block(&self, at: usize) -> u64 {
        self.journal[at] * self.kind.block as u64
    }

    fn superblock(&self) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        self.region.peek(self.log_block(0), &mut bytes).expect("inside");
        bytes
    }

    /// Writes the journal's superblock with its features, and marks the file system as in need of recovery.
    fn set_superblock(&self, sequence: u32, start: usize, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.superblock();
        let kind = self.kind;
        put(&mut bytes, 0x18, sequence);
        put(&mut bytes, 0x1c, start as u32);
        put(&mut bytes, 0x24, u32::from(kind.version == 1));
        let checksums = [0, 0, 0x8, 0x10][usize::from(kind.version)];
        let features = 1 | checksums | if kind.wide { 2 } else { 0 } | if kind.asynchronous { 4 } else { 0 };
        put(&mut bytes, 0x28, features);
        bytes[0x50] = 4;
        put(&mut bytes, 0xfc, 0);
        change(&mut bytes);
        let sum = crc(!0, &bytes, true);
        put(&mut bytes, 0xfc, sum);
        self.put(self.log_block(0), &bytes);
        let features = self.word(1024 + 0x60) | 4;
        self.put(1024 + 0x60, &features.to_le_bytes());
    }

    fn seed(&self) -> u32 {
        crc(!0, &self.superblock()[0x30..0x40], true)
    }

    fn header(&self, kind: u32, sequence: u32) -> Vec<u8> {
        let mut block = vec![0; self.kind.block];
        [MAGIC, kind, sequence].into_iter().enumerate().for_each(|(at, word)| put(&mut block, at * 4, word));
        block
    }

    /// The blocks that a transaction writes to the log, each with what it is.
    fn log_of(&self, sequence: u32, transaction: &Transaction) -> Vec<(Part, Vec<u8>)> {
        let (kind, seed) = (self.kind, self.seed());
        let mut blocks = Vec::new();
        if !transaction.revokes.is_empty() {
            let mut block = self.header(REVOKE, sequence);
            let bytes = if kind.wide { 8 } else { 4 };
            for (at, index) in transaction.revokes.iter().enumerate() {
                let number = self.file[*index].to_be_bytes();
                block[16 + at * bytes..][..bytes].copy_from_slice(&number[8 - bytes..]);
            }
            put(&mut block, 12, (16 + transaction.revokes.len() * bytes) as u32);
            kind.seal(seed, &mut block, kind.block - 4);
            blocks.push((Part::Revoke, block));
        }
        let mut descriptor = self.header(DESCRIPTOR, sequence);
        let (mut at, mut logged) = (12, Vec::new());
        for (number, (index, content)) in transaction.blocks.iter().enumerate() {
            let (mut content, last) = (content.clone(), number + 1 == transaction.blocks.len());
            let escaped = get(&content, 0) == MAGIC;
            if escaped {
                put(&mut content, 0, 0);
            }
            let flags = u32::from(escaped) | if number > 0 { 2 } else { 0 } | if last { 8 } else { 0 };
            let sum = crc(crc(seed, &sequence.to_be_bytes(), true), &content, true);
            let block = self.file[*index];
            put(&mut descriptor, at, block as u32);
            if kind.version == 3 {
                put(&mut descriptor, at + 4, flags);
                put(&mut descriptor, at + 12, sum);
            } else {
                let sum = if kind.version == 2 { sum & 0xffff } else { 0 };
                put(&mut descriptor, at + 4, sum << 16 | flags);
            }
            at += match (kind.version, kind.wide) {
                (3, _) => 16,
                (2, true) => 14,
                (2, false) => 10,
                (_, true) => 12,
                (_, false) => 8,
            };
            at += if number == 0 { 16 } else { 0 };
            logged.push((Part::Logged, content));
        }
        kind.seal(seed, &mut descriptor, kind.block - 4);
        blocks.push((Part::Descriptor, descriptor));
        blocks.append(&mut logged);
        if transaction.commits {
            let mut commit = self.header(COMMIT, sequence);
            commit[0x30..0x38].copy_from_slice(&transaction.time.to_be_bytes());
            if kind.version == 1 {
                let covered = blocks.iter().filter(|(part, _)| *part != Part::Revoke);
                let sum = covered.fold(!0, |sum, (_, block)| crc(sum, block, false));
                (commit[12], commit[13]) = (1, 4);
                put(&mut commit, 16, sum);
            }
            kind.seal(seed, &mut commit, 16);
            blocks.push((Part::Commit, commit));
        }
        blocks
    }

    /// Writes a log from its block `start` on; returns where each block of the last transaction lies.
    fn write(&self, (start, sequence): (usize, u32), transactions: &[Transaction]) -> Vec<(Part, u64)> {
        self.set_superblock(sequence, start, |_| ());
        let (mut at, mut places) = (start, Vec::new());
        for (number, transaction) in transactions.iter().enumerate() {
            places.clear();
            for (part, block) in self.log_of(sequence + number as u32, transaction) {
                self.put(self.log_block(at), &block);
                places.push((part, self.log_block(at)));
                at = if at + 1 == self.journal.len() { 1 } else { at + 1 };
            }
        }
        places
    }

    /// Mounts and unmounts; what the mount told, and the file.
    fn mounted(&self) -> Result<(Vec<String>, Vec<u8>), String> {
        let (storage, ino, len) = (Storage::from(&self.region), Ino(self.ino), BLOCKS * self.kind.block);
        virtually(1, move || {
            let options = harness::options(ext4(), &[]);
            let fs: Arc<dyn FileSystem> =
                ext4().mount(&storage, &options).map_err(|error| error.to_string())?;
            let told = Arc::new(Mutex::new(Vec::new()));
            let list = Arc::clone(&told);
            fs.listen(Box::new(move |what| list.lock().push(what.to_owned())));
            let mut content = vec![0; len];
            fs.read(ino, 0, &mut content, IoFlags::empty()).map_err(|errno| errno.to_string())?;
            fs.unmount().map_err(|errno| errno.to_string())?;
            let told = told.lock().clone();
            Ok((told, content))
        })
    }

    fn repaired(&self) -> Vec<String> {
        let storage = Storage::from(&self.region);
        virtually(1, move || ext4().format().repair(&storage).expect("a repair"))
    }

    fn assert_clean(&self, place: &str) {
        assert_eq!(ext4().format().fsck(&Storage::from(&self.region)).violations, [], "{place}");
        if has_e2fsck() {
            assert_eq!(e2fsck(&self.region), Ok(()), "{place}");
        }
    }

    /// The first byte of each block of the file.
    fn letters(&self, content: &[u8]) -> String {
        content.chunks(self.kind.block).map(|block| char::from(block[8])).collect()
    }
}

/// Blocks of the file become this letter; block 3 begins as a block of the journal does.
fn letter(kind: Kind, blocks: std::ops::Range<usize>, letter: u8) -> Vec<(usize, Vec<u8>)> {
    let content = |index: usize| {
        let mut content = vec![letter; kind.block];
        if index == 3 {
            put(&mut content, 0, MAGIC);
        }
        (index, content)
    };
    blocks.map(content).collect()
}

/// Two transactions, the second of which revokes block 5, and a third that has not committed.
fn usual(kind: Kind) -> [Transaction; 3] {
    let one = |time, blocks, revokes, commits| Transaction { time, blocks, revokes, commits };
    [
        one(100, letter(kind, 0..8, b'A'), vec![], true),
        one(101, letter(kind, 0..2, b'B'), vec![5], true),
        one(102, letter(kind, 6..7, b'X'), vec![], false),
    ]
}

#[test]
fn a_log_with_any_version_of_checksums_width_and_block_size_is_replayed_also_where_it_wraps() {
    for version in 0..4 {
        for (wide, block) in [(true, 1024), (false, 1024), (true, 4096), (false, 2048)] {
            let kind = Kind { wide, block, ..Kind::of(version) };
            for wraps in [false, true] {
                let (image, place) = (Image::new(kind), format!("{kind:?}, wraps: {wraps}"));
                let start = if wraps { image.journal.len() - 5 } else { 1 };
                image.write((start, 7), &usual(kind));
                let (told, content) = image.mounted().unwrap_or_else(|what| panic!("{place}: {what}"));
                assert_eq!(image.letters(&content), "BBAAAoAAoo", "{place}");
                assert_eq!(get(&content, 3 * block), MAGIC, "{place}: an escaped block");
                let told = told.join("; ");
                assert!(told.contains("2 transactions were replayed, 9 blocks written"), "{place}: {told}");
                assert!(told.contains("transaction 9 had not committed"), "{place}: {told}");
                image.assert_clean(&place);
            }
        }
    }
}

/// Damages a part of the last transaction of a log of two.
fn damaged(kind: Kind, part: Part) -> Image {
    let image = Image::new(kind);
    let places = image.write((1, 7), &usual(kind)[..2]);
    let (_, at) = places.iter().find(|(other, _)| *other == part).expect("the log has such a part");
    let at = at + if part == Part::Commit { 0x20 } else { kind.block as u64 - 20 };
    image.put(at, b"damage");
    image
}

#[test]
fn a_damaged_part_of_a_log_stops_the_mount_and_changes_nothing_and_a_repair_says_what_it_gives_up() {
    let parts = [Part::Descriptor, Part::Revoke, Part::Logged, Part::Commit];
    let sealed = [2, 3].into_iter().flat_map(|version| parts.map(|part| (version, part)));
    for (version, part) in sealed.chain([(1, Part::Logged), (1, Part::Descriptor)]) {
        let (image, place) = (damaged(Kind::of(version), part), format!("version {version}, {part:?}"));
        let before = image.bytes();
        let refused = image.mounted().expect_err(&place);
        assert!(refused.contains("transaction 8"), "{place}: {refused}");
        assert!(refused.contains("--repair"), "{place}: {refused}");
        assert!(image.bytes() == before, "{place}: a mount that is refused changes nothing");
        let found = ext4().format().fsck(&Storage::from(&image.region)).violations;
        assert!(found.iter().any(|one| one.to_string().contains("transaction 8")), "{place}: {found:?}");
        let done = image.repaired().join("; ");
        assert!(done.contains("gave up transaction 8"), "{place}: {done}");
        image.assert_clean(&place);
        let (_, content) = image.mounted().expect("it was repaired");
        // Only the block that is damaged is left out; of a damaged transaction everything.
        let left = if version > 1 && part == Part::Logged { "ABAAAoAAoo" } else { "AAAAAAAAoo" };
        assert_eq!(image.letters(&content), left, "{place}: {done}");
    }
}

#[test]
fn damage_in_a_transaction_that_committed_before_the_one_before_it_is_an_older_log() {
    for version in [2, 3] {
        let image = Image::new(Kind::of(version));
        let mut log = usual(image.kind)[..2].to_vec();
        log[1].time = 50;
        let places = image.write((1, 7), &log);
        let (_, commit) = places.last().expect("a commit block");
        image.put(commit + 0x20, b"damage");
        let (_, content) = image.mounted().expect("the log ends before it");
        assert_eq!(image.letters(&content), "AAAAAAAAoo");
    }
}

#[test]
fn with_async_commit_a_wrong_checksum_ends_the_log_unless_another_commit_follows() {
    for version in [1, 3] {
        let kind = Kind { asynchronous: true, ..Kind::of(version) };
        let (image, log) = (Image::new(kind), usual(kind));
        let places = image.write((1, 7), &log[..2]);
        let (_, commit) = places.last().expect("a commit block");
        image.put(commit + 16, &[1, 2, 3, 4]);
        let (told, content) = image.mounted().expect("the last commit came before its blocks");
        assert_eq!(image.letters(&content), "AAAAAAAAoo");
        assert!(told.join("; ").contains("transaction 8 had not committed"), "{told:?}");
        let image = Image::new(kind);
        let mut log = log.to_vec();
        log[2].commits = true;
        image.write((1, 7), &log);
        // Revoke block, descriptor and two blocks of transaction 8 lie after the ten blocks of transaction 7.
        image.put(image.log_block(1 + 10 + 4) + 16, &[1, 2, 3, 4]);
        assert!(image.mounted().expect_err("a commit follows").contains("transaction 8"));
    }
}

#[test]
fn a_damaged_superblock_of_the_journal_is_told_and_foreign_features_are_no_damage() {
    let image = Image::new(Kind::of(3));
    image.write((1, 7), &usual(image.kind));
    image.put(image.log_block(0) + 0x100, b"damage");
    let refused = image.mounted().expect_err("a wrong checksum");
    assert!(
        refused.contains("wrong checksum of the journal superblock") && refused.contains("lost"),
        "{refused}"
    );
    assert!(image.repaired().join("; ").contains("is lost"));
    image.assert_clean("a new journal");

    let image = Image::new(Kind::of(3));
    image.write((1, 7), &usual(image.kind));
    image.set_superblock(7, 1, |bytes| put(bytes, 0x28, 0x13 | 0x40));
    let before = image.bytes();
    let refused = image.mounted().expect_err("an unknown feature");
    assert!(refused.contains("0x40") && !refused.contains("damaged"), "{refused}");
    let storage = Storage::from(&image.region);
    let refused = virtually(1, move || {
        ext4().format().repair(&storage).expect_err("it may have transactions").to_string()
    });
    assert!(refused.contains("0x40") && image.bytes() == before, "{refused}");
}

/// As e2fsck has it; a mount reads past them.
#[test]
fn words_of_another_version_in_the_superblock_of_the_journal_are_told_and_cleared() {
    type Change = fn(&mut [u8]);
    let changes: [(&str, Change); 3] = [
        ("users of version 1", |bytes| {
            for (at, word) in [(4, 3), (0x40, 9999)] {
                put(bytes, at, word);
            }
        }),
        ("features of version 1", |bytes| {
            for (at, word) in [(4, 3), (0x28, 0x40)] {
                put(bytes, at, word);
            }
        }),
        ("many users", |bytes| put(bytes, 0x40, 2)),
    ];
    for (what, change) in changes {
        let image = Image::new(Kind::of(0));
        let mut bytes = image.superblock();
        for at in [0x24, 0x28, 0x2c, 0x40, 0xfc] {
            put(&mut bytes, at, 0);
        }
        change(&mut bytes);
        image.put(image.log_block(0), &bytes);
        let found = ext4().format().fsck(&Storage::from(&image.region)).violations;
        assert!(found.iter().any(|one| one.predicate == "journal_sound"), "{what}: {found:?}");
        assert!(image.repaired().join("; ").contains("words of another version cleared"), "{what}");
        image.assert_clean(what);
        assert_eq!(image.letters(&image.mounted().expect("a mount").1), "oooooooooo", "{what}");
        image.assert_clean(what);
    }
}

/// Blocks of the area of fast commits.
const FAST_BLOCKS: u32 = 64;

/// Tags of fast commits, and their checksum.
#[derive(Default)]
struct Tags {
    bytes: Vec<u8>,
    sum: u32,
}

impl Tags {
    fn tag(&mut self, kind: u16, words: &[u32], rest: &[u8]) {
        let mut value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        value.extend_from_slice(rest);
        let tag = [&kind.to_le_bytes()[..], &(value.len() as u16).to_le_bytes(), &value].concat();
        self.sum = crc(self.sum, &tag, true);
        self.bytes.extend(tag);
    }

    /// Ends a commit, and its block.
    fn tail(&mut self, transaction: u32, block: usize) {
        let left = block - self.bytes.len() % block;
        let mut tag =
            [&8_u16.to_le_bytes()[..], &(left as u16 - 4).to_le_bytes(), &transaction.to_le_bytes()].concat();
        let sum = crc(self.sum, &tag, true);
        self.sum = 0;
        tag.extend(sum.to_le_bytes());
        tag.resize(left, 0);
        self.bytes.extend(tag);
    }
}

/// An image with fast commits: a file is made, the old one gets another name and is cut, a directory is made. `damage`: a byte of
/// the area that is changed.
fn fast(damage: Option<usize>) -> Image {
    let image = Image::with_journal(Kind::of(3), "2MiB");
    let free = 7000;
    image.put(free * 1024, &[b'Q'; 2048]);
    let (old, new, dir, root) = (image.ino as u32, 40, 41, 2);
    let raw = |ino: u32, mode: u16, links: u16, size: u32| {
        let mut bytes = vec![0; 160];
        image.region.peek(image.inode_at(u64::from(ino)), &mut bytes).expect("inside");
        bytes[..2].copy_from_slice(&mode.to_le_bytes());
        bytes[4..8].copy_from_slice(&size.to_le_bytes());
        bytes[0x1a..0x1c].copy_from_slice(&links.to_le_bytes());
        bytes[0x20..0x24].copy_from_slice(&0x8_0000_u32.to_le_bytes());
        bytes[0x80..0x82].copy_from_slice(&32_u16.to_le_bytes());
        bytes
    };
    let mut tags = Tags::default();
    tags.tag(9, &[0, 8], &[]);
    tags.tag(6, &[new], &raw(new, 0o100_644, 1, 2500));
    tags.tag(1, &[new, 0, 2, free as u32], &[]);
    tags.tag(3, &[root, new], b"made");
    tags.tag(4, &[root, old], b"second");
    tags.tag(5, &[root, old], b"f");
    tags.tag(6, &[old], &raw(old, 0o100_600, 1, 3000));
    tags.tag(2, &[old, 3, 1000], &[]);
    tags.tail(8, 1024);
    tags.tag(6, &[dir], &raw(dir, 0o040_755, 2, 1024));
    tags.tag(3, &[root, dir], b"dir");
    tags.tag(6, &[root], &raw(root, 0o040_755, 4, 1024));
    tags.tail(8, 1024);
    tags.tag(5, &[root, old], b"second");
    if let Some(at) = damage {
        tags.bytes[at] ^= 1;
    }
    // An empty transaction comes before them.
    let transaction =
        Transaction { time: 1, blocks: letter(image.kind, 0..1, b'A'), revokes: vec![], commits: true };
    image.write((1, 7), &[transaction]);
    image.set_superblock(7, 1, |bytes| {
        let features = get(bytes, 0x28) | 0x20;
        put(bytes, 0x28, features);
        put(bytes, 0x54, FAST_BLOCKS);
    });
    let first = image.journal.len() - FAST_BLOCKS as usize + 1;
    for (at, block) in tags.bytes.chunks(1024).enumerate() {
        image.put(image.log_block(first + at), block);
    }
    image
}

/// Names in the root with their sizes and the first byte of a file.
fn names(image: &Image) -> Vec<(String, u64, u8)> {
    let storage = Storage::from(&image.region);
    virtually(1, move || {
        let fs = ext4().mount(&storage, &harness::options(ext4(), &[])).expect("mount");
        let names = names_in(&*fs);
        fs.unmount().expect("unmount");
        names
    })
}

fn names_in(fs: &dyn FileSystem) -> Vec<(String, u64, u8)> {
    let mut names = Vec::new();
    for name in [&b"f"[..], b"second", b"made", b"dir"] {
        let Ok(attr) = fs.lookup(fs.root(), name) else { continue };
        let mut byte = [0];
        if attr.kind == vfs::FileKind::Regular {
            fs.read(attr.ino, 0, &mut byte, IoFlags::empty()).expect("read");
        }
        names.push((String::from_utf8_lossy(name).into_owned(), attr.size, byte[0]));
    }
    names
}

fn entry(name: &str, size: u64, byte: u8) -> (String, u64, u8) {
    (name.to_owned(), size, byte)
}

#[test]
fn fast_commits_are_replayed_by_a_mount_up_to_the_last_tail() {
    let image = fast(None);
    let whole = [entry("second", 3000, b'A'), entry("made", 2500, b'Q'), entry("dir", 1024, 0)];
    assert_eq!(names(&image), whole);
    image.assert_clean("fast commits");
    assert_eq!(names(&image), whole, "once is enough");
    let image = fast(None);
    assert!(image.mounted().expect("mount").0.join("; ").contains("2 fast commits were replayed"));
}

#[test]
fn a_damaged_fast_commit_stops_the_mount_and_a_repair_keeps_those_before_it() {
    // In the second commit.
    let image = fast(Some(1024 + 60));
    let before = image.bytes();
    let refused = image.mounted().expect_err("a wrong checksum");
    assert!(refused.contains("fast commit 2") && image.bytes() == before, "{refused}");
    let done = image.repaired().join("; ");
    assert!(done.contains("gave up fast commit 2"), "{done}");
    assert_eq!(names(&image), [entry("second", 3000, b'A'), entry("made", 2500, b'Q')]);
    image.assert_clean("a repair after a damaged fast commit");
}

#[test]
fn a_fast_commit_without_a_tail_did_not_happen() {
    let image = fast(None);
    let second = image.journal.len() - FAST_BLOCKS as usize + 2;
    image.put(image.log_block(second), &[0; 1024]);
    assert_eq!(names(&image), [entry("second", 3000, b'A'), entry("made", 2500, b'Q')]);
    image.assert_clean("one fast commit");
}

/// The crashes are those of a device with a volatile cache: each leaves any of the sectors that were under way.
#[test]
fn a_crash_of_the_replay_of_fast_commits_leaves_an_image_that_shows_all_of_them() {
    let Image { region, .. } = fast(None);
    virtually(1, move || {
        let trace = Trace::attach(&region).expect("a recorder");
        region.detach(&trace);
        let point = trace.replay(Mode::Adr).state().crash_point();
        let image = point.image(&point.all());
        let design = harness::with_options("ext4", &[]);
        let memory = || Scratch::new(Bytes(region.len()), Box::new(Null)).expect("memory");
        let (mut scratch, mut second) = (memory(), memory());
        let whole = [entry("second", 3000, b'A'), entry("made", 2500, b'Q'), entry("dir", 1024, 0)];
        let mut judge = |image: &media::recorder::Image| {
            let region = second.load(image).map_err(|error| error.to_string())?;
            let fs = design.mount(region)?;
            let seen = names_in(&*fs);
            fs.unmount().map_err(|errno| errno.to_string())?;
            let found = design.fsck(region);
            let by_e2fsck = if has_e2fsck() { e2fsck(region) } else { Ok(()) };
            match seen == whole && found.is_empty() && by_e2fsck.is_ok() {
                true => Ok(()),
                false => Err(format!("{seen:?}, {found:?}, {by_e2fsck:?}")),
            }
        };
        let images = check::crash::crash_recovery((&*design, Mode::Adr), &mut scratch, &image, &mut judge);
        let images = images.unwrap_or_else(|what| panic!("{what}"));
        println!("{images} images");
        assert!(images > 40, "{images}");
    });
}

#[test]
fn a_log_that_starts_outside_of_itself_is_refused_by_a_mount_and_given_up_by_a_repair() {
    for version in 0..=3 {
        let kind = Kind::of(version);
        let image = Image::new(kind);
        let blocks = letter(kind, 0..4, b'n');
        image.write((1, 7), &[Transaction { time: 1, blocks, revokes: Vec::new(), commits: true }]);
        image.set_superblock(7, 50_000, |_| ());
        let said = image.mounted().expect_err("nothing can be replayed");
        assert!(said.contains("outside of the log"), "version {version}: {said}");
        let done = image.repaired();
        assert!(done.iter().any(|what| what.contains("gave up")), "version {version}: {done:?}");
        image.assert_clean(&format!("version {version}"));
        let (_, content) = image.mounted().expect("a mount");
        assert_eq!(image.letters(&content), "oooooooooo", "version {version}");
    }
}
