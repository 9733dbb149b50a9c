//! The programs: one operation of each kind and shape (in the manner of ACE, OSDI 2018), with what makes it possible; and random
//! ones.

mod clones;
mod reads;
mod reused;

use rand::RngExt;
use sim::Seed;
use vfs::{FallocateMode, FileKind, RenameFlags, Timestamp, XattrMode};

use crate::generate::Generator;
use crate::op::{File, Op, Pattern};

pub use {clones::clones, reads::reads, reused::reused};

/// Operations before which nothing is recorded, and those that are explored.
#[derive(Clone, Debug)]
pub struct Program {
    /// For reports, and to select it.
    pub name: String,
    /// Carried out first.
    pub setup: Vec<Op>,
    /// Explored, one after the other.
    pub core: Vec<Op>,
    /// Instead the operations of the core, two of them, are carried out at once, each by a task of its own.
    pub together: bool,
}

impl Program {
    /// Operations one after the other, the first of them not explored.
    pub fn new(name: impl Into<String>, setup: Vec<Op>, core: Vec<Op>) -> Self {
        Self { name: name.into(), setup, core, together: false }
    }
}

fn at(path: &str) -> File {
    File::At(path.to_owned())
}

fn create(path: &str) -> Op {
    Op::Create(path.to_owned())
}

fn mkdir(path: &str) -> Op {
    Op::Mkdir(path.to_owned())
}

fn unlink(path: &str) -> Op {
    Op::Unlink(path.to_owned())
}

fn write(path: &str, offset: u64, len: usize, tag: u8) -> Op {
    Op::Write(at(path), Some(offset), Pattern { len, tag })
}

fn truncate(path: &str, size: u64) -> Op {
    Op::Truncate(at(path), size)
}

fn fallocate(mode: FallocateMode, offset: u64, len: u64) -> Op {
    Op::Fallocate(at("foo"), mode, offset, len)
}

fn utimes(atime: bool, mtime: bool) -> Op {
    let time = |set: bool, nanos| set.then_some(Timestamp { secs: 5_000_000_000, nanos });
    Op::Utimes("foo".to_owned(), time(atime, 123_456_789), time(mtime, 987_654_321))
}

fn rename(from: &str, to: &str) -> Op {
    Op::Rename(from.to_owned(), to.to_owned(), RenameFlags::empty())
}

fn exchange(from: &str, to: &str) -> Op {
    Op::Rename(from.to_owned(), to.to_owned(), RenameFlags::EXCHANGE)
}

fn link(from: &str, to: &str) -> Op {
    Op::Link(from.to_owned(), to.to_owned())
}

/// `foo` with `len` bytes.
fn foo(len: usize) -> Vec<Op> {
    vec![create("foo"), write("foo", 0, len, 1)]
}

fn and(mut ops: Vec<Op>, more: impl IntoIterator<Item = Op>) -> Vec<Op> {
    ops.extend(more);
    ops
}

struct Table(Vec<Program>);

impl Program {
    /// Whether it stores by a mapping.
    pub(crate) fn stores(&self) -> bool {
        self.setup.iter().chain(&self.core).any(|op| matches!(op, Op::Store(..)))
    }

    /// Whether it explores one operation, on names alone.
    pub(crate) fn changes_names(&self) -> bool {
        let [op] = &self.core[..] else { return false };
        matches!(
            op,
            Op::Create(_)
                | Op::Mkdir(_)
                | Op::Mknod(..)
                | Op::Symlink(..)
                | Op::Link(..)
                | Op::Unlink(_)
                | Op::Rmdir(_)
                | Op::Rename(..)
        )
    }
}

impl Table {
    fn add(&mut self, name: impl Into<String>, setup: Vec<Op>, core: Vec<Op>) {
        self.0.push(Program::new(name, setup, core));
    }
}

/// A write that no design can carry out as one small change: longer than a tenth of the smallest region. They are not among
/// [`all`], whose pairs and numbers stay as they are.
pub fn large_writes() -> Vec<Program> {
    const LARGE: usize = 24 * 4096;
    let mut table = Table(Vec::new());
    table.add("write 98304 new", vec![create("foo")], vec![write("foo", 0, LARGE, 2)]);
    table.add("write 98304 over", foo(LARGE), vec![write("foo", 0, LARGE, 2)]);
    table.0
}

/// Extended attributes of more than a block, for designs that have such. They are not among [`all`] either.
pub fn large_attributes() -> Vec<Program> {
    let mut table = Table(Vec::new());
    let set = |name: &str, len, tag| {
        Op::SetXattr("foo".to_owned(), format!("user.{name}"), Pattern { len, tag }, XattrMode::Set)
    };
    let remove = |name: &str| Op::RemoveXattr("foo".to_owned(), format!("user.{name}"));
    let large = || and(foo(5000), [set("a", 100, 1), set("large", 9000, 1)]);
    table.add("large attribute, the first", foo(10), vec![set("large", 9000, 1)]);
    table.add("large attribute, another", and(foo(10), [set("a", 3000, 1)]), vec![set("b", 3000, 1)]);
    table.add("large attribute, replaced", large(), vec![set("large", 9000, 2)]);
    table.add("large attribute, becomes short", large(), vec![set("large", 100, 2)]);
    table.add("large attribute, short one beside", large(), vec![set("b", 100, 2), set("a", 0, 3)]);
    table.add("large attribute, removed", large(), vec![remove("large")]);
    table.add("large attribute, truncate", large(), vec![truncate("foo", 100)]);
    table.add("large attribute, unlink", large(), vec![unlink("foo"), create("bar")]);
    let open = Op::Open("foo".into(), 1);
    table.add(
        "large attribute, unlink while open",
        and(large(), [open]),
        vec![unlink("foo"), create("bar"), Op::Close(1), create("baz")],
    );
    table.0
}

/// All programs of one explored operation, and the few longer ones that need it.
pub fn all() -> Vec<Program> {
    let mut table = Table(Vec::new());
    makes(&mut table);
    writes(&mut table);
    sizes(&mut table);
    ranges(&mut table);
    removals(&mut table);
    renames(&mut table);
    directory_renames(&mut table);
    syncs(&mut table);
    reuse(&mut table);
    attributes(&mut table);
    rest(&mut table);
    table.0
}

/// The programs for runs in which each is alone: [`all`], and those that only some designs need.
pub fn alone() -> Vec<Program> {
    let rare = [log_cleaning, large_writes, large_attributes, whiteouts, clones, reads, reused];
    all().into_iter().chain(rare.into_iter().flat_map(|programs| programs())).collect()
}

/// Programs in which the log of one inode grows over several pages of 512 bytes and is cleaned, for designs that keep such logs;
/// what was there before must still be. They are not among [`all`], whose pairs and numbers stay as they are.
pub fn log_cleaning() -> Vec<Program> {
    let mut table = Table(Vec::new());
    let file = |number: usize| format!("f{number}");
    let make = |number| create(&file(number));
    let over = |tag| write("foo", 0, 100, tag);
    let overs = |count| (0..count).map(over);
    let begin = || vec![create("foo"), Op::Chmod("foo".into(), 0o600)];
    table.add("write in a full log, remount", and(begin(), overs(12)), vec![over(99), Op::Remount]);
    table.add("writes that fill a log", and(begin(), overs(5)), overs(10).collect());
    // Each page of the log has one write that counts and six that do not: to drop pages gives nothing.
    let mixed = (1..8)
        .flat_map(|page: u8| [write("foo", 4096 * u64::from(page), 100, page)].into_iter().chain(overs(6)));
    table.add("write in a log of mixed pages, remount", and(begin(), mixed), vec![over(99), Op::Remount]);
    // Removals fill pages of their own, behind those with the names that stay.
    let removals =
        (0..20).map(make).chain((0..20).filter(|number| number % 4 > 0).map(|number| unlink(&file(number))));
    table.add("creat in a log of removals, remount", removals.clone().collect(), vec![make(30), Op::Remount]);
    let more = (30..33).flat_map(|number| [make(number), unlink(&file(number))]);
    table.add(
        "creat and unlink that fill a log",
        removals.take(28).collect(),
        and(more.collect(), [make(33), make(34)]),
    );
    table.0
}

/// Programs with files that are made without a name and get one. They are not among [`all`], whose pairs and numbers stay as they
/// are.
pub fn nameless() -> Vec<Program> {
    let mut table = Table(Vec::new());
    let filled = |len| vec![Op::Nameless(1), Op::Write(File::Opened(1), Some(0), Pattern { len, tag: 2 })];
    let name = || Op::LinkOpened(1, "foo".into());
    table.add("make a nameless file", vec![], filled(5000));
    table.add("name a nameless file", filled(5000), vec![name()]);
    table.add(
        "write a nameless file, name it",
        vec![Op::Nameless(1)],
        and(filled(9000).split_off(1), [name()]),
    );
    table.add("name a nameless file, fsync", filled(5000), vec![name(), Op::Fsync(at("foo"))]);
    table.add(
        "shorten a nameless file, name it",
        filled(9000),
        vec![Op::Truncate(File::Opened(1), 4500), name()],
    );
    table.add("close a nameless file", filled(5000), vec![Op::Close(1), create("foo")]);
    table.0
}

/// Programs that store by mappings, for designs that map files. They are not among [`all`], whose pairs and numbers stay as they
/// are.
pub fn mapped() -> Vec<Program> {
    let mut table = Table(Vec::new());
    let map = || Op::Map("foo".into(), 0);
    let store = |offset, len, tag| Op::Store(0, offset, Pattern { len, tag });
    let mapped = |len| and(foo(len), [map()]);
    table.add("store 8", mapped(4096), vec![store(64, 8, 2)]);
    table.add("store over words", mapped(4096), vec![store(61, 100, 2)]);
    table.add("store, msync", mapped(8192), vec![store(4090, 20, 2), Op::Msync(0)]);
    table.add("map, store, msync", foo(8192), vec![map(), store(100, 30, 2), Op::Msync(0)]);
    table.add("store, fsync", mapped(4096), vec![store(0, 16, 2), Op::Fsync(at("foo"))]);
    table.add("store, sync", mapped(4096), vec![store(0, 16, 2), Op::Sync]);
    table.add("store, unmap, fsync", mapped(4096), vec![store(8, 64, 2), Op::Unmap(0), Op::Fsync(at("foo"))]);
    table.add("store, msync, store", mapped(4096), vec![store(0, 24, 2), Op::Msync(0), store(16, 24, 3)]);
    table.add(
        "store, write, msync",
        mapped(4096),
        vec![store(0, 24, 2), write("foo", 8, 100, 3), Op::Msync(0)],
    );
    table.add(
        "write, store, msync",
        mapped(4096),
        vec![write("foo", 8, 100, 2), store(0, 24, 3), Op::Msync(0)],
    );
    table.add("store into a hole", and(mapped(100), [truncate("foo", 9000)]), vec![store(5000, 16, 2)]);
    table.add(
        "store into a hole, msync",
        and(mapped(100), [truncate("foo", 9000)]),
        vec![store(5000, 16, 2), Op::Msync(0)],
    );
    table.add(
        "store, truncate, msync",
        mapped(8192),
        vec![store(4090, 20, 2), truncate("foo", 4092), Op::Msync(0)],
    );
    table.add("store, truncate up", mapped(100), vec![store(90, 40, 2), truncate("foo", 300), Op::Msync(0)]);
    table.add("store, rename, msync", mapped(4096), vec![store(0, 8, 2), rename("foo", "bar"), Op::Msync(0)]);
    table.add(
        "store, remove, reuse",
        mapped(4096),
        vec![store(0, 64, 2), unlink("foo"), Op::Unmap(0), create("bar"), write("bar", 0, 4096, 3), Op::Sync],
    );
    table.add("store, remount", mapped(4096), vec![store(0, 64, 2), Op::Remount]);
    table.0
}

/// Programs of one operation, for tasks that work at once: those of [`all`], and syncs, which alone would sync nothing.
pub fn single() -> Vec<Program> {
    let mut table = Table(all());
    table.0.retain(|program| program.core.len() == 1 && !matches!(program.core[0], Op::Remount));
    table.add("fsync", foo(12288), vec![Op::Fsync(at("foo"))]);
    table.add("sync", foo(12288), vec![Op::Sync]);
    table.0
}

/// One to five random operations on a tree in which most operations can succeed: program `number` of `seed`.
pub fn random(seed: u64, number: usize) -> Program {
    let generator =
        Generator { reads: false, handles: true, remounts: true, bulk: false, maps: false, clones: false };
    let mut rng = Seed(seed).derive("crash.random", number as u64).rng();
    let count = rng.random_range(1..=5);
    let core = (0..count).map(|tag| generator.op(&mut rng, 2 + tag)).collect();
    Program::new(random_name(seed, number), furnished(), core)
}

/// The name of [`random`].
pub(crate) fn random_name(seed: u64, number: usize) -> String {
    format!("random {number} of seed {seed}")
}

/// A tree in which every kind of object and of structure is met.
pub(crate) fn bit_of_everything() -> Vec<Op> {
    let long = (0..40).map(|number| create(&format!("B/{number:0>200}")));
    let more = [
        Op::Symlink("A/link".into(), 300),
        Op::Mknod("A/fifo".into(), FileKind::Fifo, 0),
        write("B/bar", 5 * 4096, 9000, 3),
        create("A/C/raised"),
        write("A/C/raised", 513 * 4096, 700, 4),
    ];
    and(furnished(), long.chain(more))
}

fn furnished() -> Vec<Op> {
    vec![
        mkdir("A"),
        mkdir("A/C"),
        mkdir("B"),
        create("foo"),
        write("foo", 0, 5000, 1),
        create("A/foo"),
        write("A/foo", 0, 100, 1),
        link("foo", "A/bar"),
        create("B/bar"),
        Op::Open("A/foo".to_owned(), 0),
        Op::Open("foo".to_owned(), 1),
    ]
}

fn makes(table: &mut Table) {
    let long = |number: u32| format!("{number:0>255}");
    table.add("creat foo", vec![], vec![create("foo")]);
    table.add("creat A/foo", vec![mkdir("A")], vec![create("A/foo")]);
    table.add("mkdir A", vec![], vec![mkdir("A")]);
    table.add("mkdir A/C", vec![mkdir("A")], vec![mkdir("A/C")]);
    table.add("creat in a full block", (0..15).map(|n| create(&long(n))).collect(), vec![create(&long(15))]);
    table.add(
        "creat splits full blocks",
        (0..15).map(|n| create(&long(n))).collect(),
        (15..21).map(|n| create(&long(n))).collect(),
    );
    table.add(
        "creat over a removed first record",
        and((0..16).map(|n| create(&long(n))).collect(), [unlink(&long(15))]),
        vec![create(&long(16))],
    );
    table.add(
        "creat grows the inode table",
        (0..29).map(|n| create(&format!("f{n}"))).collect(),
        vec![create("one"), create("two")],
    );
    for (name, kind) in [("fifo", FileKind::Fifo), ("char", FileKind::CharDevice), ("sock", FileKind::Socket)]
    {
        table.add(format!("mknod {name}"), vec![], vec![Op::Mknod("foo".into(), kind, 0x0103)]);
    }
    for len in [1, 60, 4095] {
        table.add(format!("symlink of {len} bytes"), vec![], vec![Op::Symlink("foo".into(), len)]);
    }
}

fn writes(table: &mut Table) {
    for len in [1, 7, 8, 9, 63, 64, 65, 100, 4095, 4096, 4097, 12288] {
        table.add(format!("write {len} new"), vec![create("foo")], vec![write("foo", 0, len, 2)]);
        table.add(format!("write {len} over"), foo(12288), vec![write("foo", 0, len, 2)]);
    }
    for offset in [0, 7, 8, 63, 64, 4095, 4096] {
        table.add(format!("write 1 at {offset}"), foo(4096), vec![write("foo", offset, 1, 2)]);
    }
    table.add("append a block", foo(4096), vec![write("foo", 4096, 4096, 2)]);
    table.add(
        "append inside a block",
        foo(100),
        vec![Op::Write(at("foo"), None, Pattern { len: 77, tag: 2 })],
    );
    table.add("write over an end", foo(100), vec![write("foo", 50, 100, 2)]);
    table.add("write beyond an end, same block", foo(100), vec![write("foo", 203, 10, 2)]);
    table.add("write beyond an end, hole", foo(100), vec![write("foo", 10_000, 100, 2)]);
    table.add("write over, unaligned start", foo(4096), vec![write("foo", 3001, 2000, 2)]);
    table.add("write over three blocks", foo(12288), vec![write("foo", 3001, 7003, 2)]);
    table.add("write three blocks, new", vec![create("foo")], vec![write("foo", 3001, 7003, 2)]);
    table.add(
        "write into a hole",
        vec![create("foo"), write("foo", 12288, 100, 1)],
        vec![write("foo", 4100, 500, 2)],
    );
    table.add(
        "write over data and hole",
        vec![create("foo"), write("foo", 0, 100, 1), write("foo", 8192, 100, 1)],
        vec![write("foo", 10, 12_000, 2)],
    );
    table.add("write 0 bytes", foo(100), vec![write("foo", 500, 0, 2)]);
    table.add("write raises the tree", foo(4096), vec![write("foo", 513 * 4096, 10, 2)]);
    table.add(
        "write twice in place, fsync",
        foo(4096),
        vec![write("foo", 100, 200, 2), write("foo", 150, 300, 3), Op::Fsync(at("foo"))],
    );
    table.add(
        "write, write, creat",
        foo(8192),
        vec![write("foo", 0, 64, 2), write("foo", 4090, 100, 3), create("bar")],
    );
}

fn sizes(table: &mut Table) {
    for (from, to) in [
        (4096, 0),
        (12288, 4096),
        (12288, 5000),
        (4096, 100),
        (4096, 8192),
        (100, 200),
        (100, 9000),
        (4096, 4096),
        (12288, 8191),
    ] {
        table.add(format!("truncate {from} to {to}"), foo(from), vec![truncate("foo", to)]);
    }
    table.add("truncate down, then up", foo(4096), vec![truncate("foo", 256), truncate("foo", 4096)]);
    table.add(
        "truncate down, then write beyond",
        foo(4096),
        vec![truncate("foo", 256), write("foo", 1000, 10, 2)],
    );
    table.add(
        "truncate lowers the tree",
        and(foo(4096), [write("foo", 513 * 4096, 10, 2)]),
        vec![truncate("foo", 4096)],
    );
    table.add(
        "crashed extension leaves no bytes",
        foo(100),
        vec![write("foo", 100, 500, 2), truncate("foo", 100), truncate("foo", 4096)],
    );
    table.add(
        "two handles: write, truncate, write",
        and(foo(5000), [Op::Open("foo".into(), 1)]),
        vec![
            Op::Write(File::Opened(1), Some(4000), Pattern { len: 3000, tag: 2 }),
            truncate("foo", 4500),
            Op::Write(File::Opened(1), None, Pattern { len: 123, tag: 3 }),
        ],
    );
    table.add(
        "two handles: truncate, write, truncate",
        and(foo(5000), [Op::Open("foo".into(), 1)]),
        vec![
            truncate("foo", 100),
            Op::Write(File::Opened(1), Some(50), Pattern { len: 8000, tag: 2 }),
            Op::Truncate(File::Opened(1), 4000),
        ],
    );
}

fn ranges(table: &mut Table) {
    let keep = FallocateMode::KEEP_SIZE;
    let punch = FallocateMode::PUNCH_HOLE | keep;
    let zero = FallocateMode::ZERO_RANGE;
    let none = FallocateMode::empty();
    for (name, mode, offset, len) in [
        ("reserve new", none, 0, 8192),
        ("reserve beyond, keep size", keep, 8192, 8192),
        ("reserve over the end", none, 100, 12_000),
        ("zero the middle", zero, 5000, 3000),
        ("zero over the end", zero, 12_000, 5000),
        ("zero beyond, keep size", zero | keep, 12_000, 9000),
        ("punch blocks", punch, 4096, 4096),
        ("punch unaligned", punch, 1000, 10_000),
        ("punch inside a block", punch, 1001, 100),
        ("punch over the end", punch, 4000, 20_000),
    ] {
        let setup = if name == "reserve new" { vec![create("foo")] } else { foo(12288) };
        table.add(format!("fallocate: {name}"), setup, vec![fallocate(mode, offset, len)]);
    }
    table.add(
        "fallocate, then truncate up",
        vec![create("foo")],
        vec![fallocate(zero | keep, 0, 16_384), truncate("foo", 4096)],
    );
    table.add(
        "truncate, then punch beyond the end",
        foo(12288),
        vec![truncate("foo", 100), fallocate(punch, 1001, 100)],
    );
    table.add(
        "fallocate, write beyond, truncate",
        vec![create("foo"), fallocate(zero | keep, 0, 16_384)],
        vec![write("foo", 9000, 100, 2), truncate("foo", 0), truncate("foo", 12_288)],
    );
    table.add(
        "fallocate, truncate to the same size",
        vec![create("foo"), fallocate(zero | keep, 0, 16_384)],
        vec![truncate("foo", 0)],
    );
}

fn removals(table: &mut Table) {
    table.add("link foo bar", foo(10), vec![link("foo", "bar")]);
    table.add("link foo A/bar", and(foo(10), [mkdir("A")]), vec![link("foo", "A/bar")]);
    table.add("unlink of two links", and(foo(10), [link("foo", "bar")]), vec![unlink("foo")]);
    table.add("unlink", foo(12288), vec![unlink("foo")]);
    table.add("unlink empty", vec![create("foo")], vec![unlink("foo")]);
    table.add("unlink A/foo", vec![mkdir("A"), create("A/foo")], vec![unlink("A/foo")]);
    table.add("unlink symlink", vec![Op::Symlink("foo".into(), 60)], vec![unlink("foo")]);
    table.add(
        "unlink of the middle name",
        vec![create("a"), create("foo"), create("z")],
        vec![unlink("foo")],
    );
    table.add(
        "unlink while open",
        and(foo(5000), [Op::Open("foo".into(), 1)]),
        vec![
            unlink("foo"),
            Op::Write(File::Opened(1), Some(4000), Pattern { len: 9000, tag: 2 }),
            Op::Truncate(File::Opened(1), 100),
            create("bar"),
            Op::Close(1),
            create("baz"),
        ],
    );
    table.add(
        "two orphans",
        and(foo(5000), [create("bar"), Op::Open("foo".into(), 1), Op::Open("bar".into(), 2)]),
        vec![unlink("foo"), unlink("bar"), Op::Close(1), Op::Close(2)],
    );
    table.add("rmdir A", vec![mkdir("A")], vec![Op::Rmdir("A".into())]);
    table.add("rmdir A/C", vec![mkdir("A"), mkdir("A/C")], vec![Op::Rmdir("A/C".into())]);
    table.add("rmdir of a full one fails", vec![mkdir("A"), create("A/foo")], vec![Op::Rmdir("A".into())]);
    table.add(
        "rmdir while open",
        vec![mkdir("A"), Op::Open("A".into(), 1)],
        vec![Op::Rmdir("A".into()), Op::Close(1)],
    );
}

fn renames(table: &mut Table) {
    let dirs = || vec![mkdir("A"), mkdir("B")];
    table.add("rename foo bar", foo(10), vec![rename("foo", "bar")]);
    table.add("rename foo A/foo", and(foo(10), dirs()), vec![rename("foo", "A/foo")]);
    table.add("rename A/foo B/bar", and(dirs(), [create("A/foo")]), vec![rename("A/foo", "B/bar")]);
    table.add(
        "rename over, same directory",
        and(foo(10), [create("bar"), write("bar", 0, 5000, 2)]),
        vec![rename("foo", "bar")],
    );
    table.add(
        "rename over, other directory",
        and(foo(10), [mkdir("A"), create("A/bar"), write("A/bar", 0, 9, 2)]),
        vec![rename("foo", "A/bar")],
    );
    table.add(
        "rename over one that is open",
        and(foo(10), [create("bar"), Op::Open("bar".into(), 1)]),
        vec![rename("foo", "bar"), Op::Close(1)],
    );
    table.add(
        "rename over one of two links",
        and(foo(10), [create("bar"), link("bar", "baz")]),
        vec![rename("foo", "bar")],
    );
    table.add("rename over itself", and(foo(10), [link("foo", "bar")]), vec![rename("foo", "bar")]);
    table.add(
        "rename of a new file, twice",
        vec![create("foo")],
        vec![rename("foo", "bar"), rename("bar", "foo")],
    );
    table.add(
        "rename to a longer name",
        vec![create("a"), create("foo"), create("z")],
        vec![rename("foo", &"x".repeat(200))],
    );
}

fn directory_renames(table: &mut Table) {
    let dirs = || vec![mkdir("A"), mkdir("B")];
    table.add("rename dir, same directory", vec![mkdir("A"), create("A/foo")], vec![rename("A", "B")]);
    table.add(
        "rename dir, other directory",
        and(dirs(), [mkdir("A/C"), create("A/C/foo")]),
        vec![rename("A/C", "B/C")],
    );
    table.add("rename dir to the root", vec![mkdir("A"), mkdir("A/C")], vec![rename("A/C", "C")]);
    table.add("rename dir over an empty one", dirs(), vec![rename("A", "B")]);
    table.add(
        "rename dir over an empty one, other directory",
        and(dirs(), [mkdir("A/C"), mkdir("B/C")]),
        vec![rename("A/C", "B/C")],
    );
    table.add("rename dir below itself fails", vec![mkdir("A")], vec![rename("A", "A/C")]);
    table.add(
        "rename, new block in the target",
        and(
            and(
                (0..15).map(|n| create(&format!("A/{n:0>255}"))).collect::<Vec<_>>().into_iter().fold(
                    vec![mkdir("A")],
                    |mut ops, op| {
                        ops.push(op);
                        ops
                    },
                ),
                foo(10),
            ),
            [],
        ),
        vec![rename("foo", &format!("A/{:0>255}", 99))],
    );
    table.add("exchange files", and(foo(10), [mkdir("A"), create("A/bar")]), vec![exchange("foo", "A/bar")]);
    table.add(
        "exchange file and dir",
        and(foo(10), [mkdir("A"), mkdir("A/C")]),
        vec![exchange("foo", "A/C")],
    );
    table.add(
        "exchange dirs",
        and(dirs(), [mkdir("A/C"), mkdir("B/D"), create("A/C/foo")]),
        vec![exchange("A/C", "B/D")],
    );
    table.add("exchange in one directory", and(foo(10), [mkdir("A")]), vec![exchange("foo", "A")]);
    let noreplace = |to: &str| Op::Rename("foo".into(), to.into(), RenameFlags::NOREPLACE);
    table.add("noreplace", foo(10), vec![noreplace("bar")]);
    table.add("noreplace fails", and(foo(10), [create("bar")]), vec![noreplace("bar")]);
}

/// Renames that leave a whiteout. They are not among [`all`] either.
pub fn whiteouts() -> Vec<Program> {
    let mut table = Table(Vec::new());
    let leave = |from: &str, to: &str| Op::Rename(from.to_owned(), to.to_owned(), RenameFlags::WHITEOUT);
    let dirs = || vec![mkdir("A"), mkdir("B")];
    table.add("whiteout in one directory", foo(10), vec![leave("foo", "bar")]);
    table.add("whiteout to another directory", and(foo(10), [mkdir("A")]), vec![leave("foo", "A/bar")]);
    table.add(
        "whiteout over a file",
        and(foo(10), [mkdir("A"), create("A/bar")]),
        vec![leave("foo", "A/bar")],
    );
    table.add("whiteout of a directory", dirs(), vec![leave("A", "B/A")]);
    table.add("whiteout of a directory over one", and(dirs(), [mkdir("A/C")]), vec![leave("A/C", "B")]);
    table.add(
        "whiteout, then its removal",
        and(foo(10), [mkdir("A")]),
        vec![leave("foo", "A/bar"), unlink("foo"), create("foo")],
    );
    table.0
}

/// What was written and synced, and what was written after that.
fn syncs(table: &mut Table) {
    let append = |path: &str, tag| Op::Write(at(path), None, Pattern { len: 5000, tag });
    let fsync = |path: &str| Op::Fsync(at(path));
    table.add("creat, append, fsync", vec![], vec![create("foo"), append("foo", 2), fsync("foo")]);
    table.add("append, fsync, append", foo(100), vec![append("foo", 2), fsync("foo"), append("foo", 3)]);
    table.add(
        "write over, fsync, write over",
        foo(12288),
        vec![write("foo", 100, 9000, 2), fsync("foo"), write("foo", 3000, 9000, 3)],
    );
    table.add("append, rename", foo(10), vec![append("foo", 2), rename("foo", "bar")]);
    table.add("append, link", foo(10), vec![append("foo", 2), link("foo", "bar")]);
    table.add("append, truncate into it", foo(10), vec![append("foo", 2), truncate("foo", 4100)]);
    table.add("append, unlink, creat", foo(10), vec![append("foo", 2), unlink("foo"), create("foo")]);
    table.add(
        "two files, one synced",
        and(foo(10), [create("bar")]),
        vec![append("foo", 2), append("bar", 3), fsync("bar"), append("bar", 4), Op::Sync],
    );
    table.add(
        "replaced by a new file",
        foo(3000),
        vec![create("new"), append("new", 2), fsync("new"), rename("new", "foo")],
    );
}

/// Blocks that one file gives up and another takes.
fn reuse(table: &mut Table) {
    let fsync = |path: &str| Op::Fsync(at(path));
    table.add(
        "unlink, then fill another",
        and(foo(12288), [create("beside"), create("bar")]),
        vec![unlink("foo"), write("bar", 0, 12288, 2), fsync("bar")],
    );
    table.add(
        "a file in place of another that was appended to",
        foo(12288),
        vec![
            Op::Write(at("foo"), None, Pattern { len: 5000, tag: 2 }),
            unlink("foo"),
            create("foo"),
            write("foo", 0, 4096, 3),
        ],
    );
    table.add(
        "a file in place of a directory",
        vec![mkdir("A"), create("A/foo"), unlink("A/foo"), create("foo")],
        vec![Op::Rmdir("A".into()), Op::Sync, write("foo", 0, 5000, 2), fsync("foo")],
    );
    table.add(
        "truncate, then fill another",
        and(foo(40_000), [create("beside"), create("bar")]),
        vec![truncate("foo", 1000), Op::Sync, write("bar", 0, 30_000, 2), fsync("bar")],
    );
}

/// Extended attributes.
fn attributes(table: &mut Table) {
    let set = |name: &str, len, tag, mode| {
        Op::SetXattr("foo".to_owned(), format!("user.{name}"), Pattern { len, tag }, mode)
    };
    let add = |name, len| set(name, len, 1, XattrMode::Create);
    let remove = |name: &str| Op::RemoveXattr("foo".to_owned(), format!("user.{name}"));
    let one = || and(foo(5000), [add("a", 100)]);
    let two = || and(one(), [add("b", 3000)]);
    let open = || Op::Open("foo".into(), 1);
    table.add("setxattr, the first", foo(5000), vec![add("a", 100)]);
    table.add("setxattr, another", one(), vec![add("b", 3000)]);
    table.add("setxattr replaces", two(), vec![set("a", 700, 2, XattrMode::Replace)]);
    table.add(
        "setxattr, replaced twice",
        one(),
        vec![set("a", 0, 2, XattrMode::Set), set("a", 3000, 3, XattrMode::Set)],
    );
    table.add("setxattr of two links", and(foo(10), [link("foo", "bar")]), vec![add("a", 100)]);
    table.add("setxattr of a directory", vec![mkdir("foo")], vec![add("a", 100), create("foo/x")]);
    table.add(
        "setxattr between appends",
        foo(10),
        vec![write("foo", 10, 5000, 2), add("a", 100), write("foo", 5010, 5000, 3)],
    );
    table.add("removexattr", two(), vec![remove("a")]);
    table.add("removexattr of two links", and(two(), [link("foo", "bar")]), vec![remove("b")]);
    table.add("removexattr, the last", one(), vec![remove("a")]);
    table.add("removexattr fails", one(), vec![remove("c")]);
    table.add("truncate with attributes", one(), vec![truncate("foo", 100)]);
    table.add("unlink with attributes", one(), vec![unlink("foo"), create("bar")]);
    table.add(
        "unlink of one of two links, attributes",
        and(one(), [link("foo", "bar")]),
        vec![unlink("foo")],
    );
    table.add(
        "unlink with attributes while open",
        and(one(), [open()]),
        vec![unlink("foo"), create("bar"), Op::Close(1), create("baz")],
    );
    table.add("append, unlink with attributes", one(), vec![write("foo", 5000, 5000, 2), unlink("foo")]);
    table.add("rename over attributes", and(one(), [create("bar")]), vec![rename("bar", "foo")]);
    table.add("rmdir with attributes", vec![mkdir("foo"), add("a", 100)], vec![Op::Rmdir("foo".into())]);
}

fn rest(table: &mut Table) {
    table.add("chmod", foo(10), vec![Op::Chmod("foo".into(), 0o4755)]);
    table.add("chown", foo(10), vec![Op::Chown("foo".into(), 1, 2)]);
    table.add("chmod and chown", foo(10), vec![Op::ChmodChown("foo".into(), 0o600, 3, 4)]);
    for (name, atime, mtime) in
        [("utimes", true, true), ("utimes, atime", true, false), ("utimes, mtime", false, true)]
    {
        table.add(name, foo(10), vec![utimes(atime, mtime)]);
    }
    table.add("append after utimes", and(foo(10), [utimes(true, true)]), vec![write("foo", 10, 20, 2)]);
    table.add("write over after utimes", and(foo(10), [utimes(true, true)]), vec![write("foo", 3, 5, 2)]);
    table.add("extend after utimes", and(foo(10), [utimes(true, true)]), vec![truncate("foo", 100)]);
    table.add("remount", foo(5000), vec![Op::Remount]);
    table.add(
        "remount, creat, remount",
        foo(5000),
        vec![Op::Remount, create("bar"), Op::Remount, unlink("foo")],
    );
    table.add(
        "remount with an orphan",
        and(foo(5000), [Op::Open("foo".into(), 1), unlink("foo")]),
        vec![Op::Remount],
    );
    table.add("sync", foo(10), vec![write("foo", 0, 10, 2), Op::Sync]);
    // How programs replace a file: a design that delays allocation has to care.
    table.add(
        "write new, rename over",
        foo(10),
        vec![create("new"), write("new", 0, 5000, 2), rename("new", "foo")],
    );
    // A ring of 1024 entries wraps within one of these.
    for rounds in 0..6 {
        let churn = (0..40 + 3 * rounds).flat_map(|_| [create("tmp"), unlink("tmp")]);
        table.add(
            format!("journal wraps, {rounds}"),
            and(foo(10), churn),
            (0..3)
                .flat_map(|n| {
                    [
                        create(&format!("n{n}")),
                        rename(&format!("n{n}"), &format!("m{n}")),
                        unlink(&format!("m{n}")),
                    ]
                })
                .collect(),
        );
    }
}
