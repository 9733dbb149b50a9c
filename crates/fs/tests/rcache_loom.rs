//! The entry of rcache under every order of memory that the language allows, by loom: the code of the cache itself, with loom's
//! atomics in place of those of `sim::sync`.
//!
//! A write goes to a new block and uses the old one again at once, unless the copier keeps it; a block that is used again while
//! the copier reads it is found, and so is a reader that gets other bytes than those of the last write. `WEIR_LOOM_PREEMPTIONS=n`
//! allows more
//! changes of thread than the three of a usual run.

#![allow(unreachable_pub, dead_code)] // modules of the library, and not all of them is used here

#[path = "../src/rcache/entry.rs"]
mod entry;
#[path = "../src/rcache/frame.rs"]
mod frame;
#[path = "../src/rcache/ring.rs"]
mod ring;
#[path = "../src/rcache/word.rs"]
mod word;

/// loom's atomics, for the modules above.
mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

/// Memory of loom's words: a copy from a frame that is filled meanwhile is torn in some order.
mod memory {
    use super::atomics::{AtomicU64, Ordering};

    pub(crate) struct Piece(Box<[AtomicU64]>);

    impl Piece {
        pub(crate) fn new(bytes: usize) -> Self {
            Self((0..bytes / 8).map(|_| AtomicU64::new(0)).collect())
        }

        pub(crate) fn fill(&self, bytes: &[u8]) -> bool {
            for (word, bytes) in self.0.iter().zip(bytes.chunks_exact(8)) {
                word.store(u64::from_ne_bytes(bytes.try_into().expect("eight")), Ordering::Relaxed);
            }
            true
        }

        pub(crate) fn copy(&self, within: usize, buffer: &mut [u8]) -> bool {
            for (word, bytes) in self.0[within / 8..].iter().zip(buffer.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
            true
        }
    }
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use entry::{Doomed, Entry};
use frame::Frame;
use loom::sync::atomic::{AtomicI64, AtomicU64};
use loom::sync::{Arc, RwLock};
use loom::thread;

const PAGE: u64 = 7;
/// Bytes of a block and of a frame here: two words, so that a copy can be torn.
const BYTES: usize = 16;
/// What a block holds once it is another file's.
const REUSED: u8 = 99;

/// What tasks do at once, with this rule broken.
type Scenario = fn(Broken);

/// Which rule is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// A reader copies from the frame of an entry without a pin.
    ReaderDoesNotPin,
    /// A writer uses the old block again though the copier reads it.
    BlockIsNotKept,
    /// A writer leaves the entry as it is.
    WriterForgets,
}

/// A block of the medium.
struct Block {
    words: [AtomicU64; BYTES / 8],
    /// Copiers that read it. The order of memory that makes this right is the entry's, not the counter's.
    copiers: AtomicI64,
}

/// One page of one file: its blocks, which of them is the page's, its entry, one frame.
struct World {
    blocks: [Block; 2],
    /// The block of the page, under the inode's lock.
    current: RwLock<usize>,
    entry: Entry,
    frame: Frame,
    /// Blocks lent to the copier.
    lent: AtomicI64,
    broken: Broken,
}

impl Block {
    fn of(byte: u8) -> Self {
        let word = || AtomicU64::new(u64::from_ne_bytes([byte; 8]));
        Self { words: [word(), word()], copiers: AtomicI64::new(0) }
    }
}

impl World {
    /// Block 0 is the page's and holds ones; block 1 is free.
    fn new(broken: Broken) -> Self {
        Self {
            blocks: [Block::of(1), Block::of(0)],
            current: RwLock::new(0),
            entry: Entry::new(),
            frame: Frame::new(memory::Piece::new(BYTES)),
            lent: AtomicI64::new(0),
            broken,
        }
    }

    fn load(&self, block: usize) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (part, word) in bytes.chunks_exact_mut(8).zip(&self.blocks[block].words) {
            part.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes
    }

    fn store(&self, block: usize, byte: u8) {
        assert_eq!(
            self.blocks[block].copiers.load(Ordering::Relaxed),
            0,
            "block {block} is read by the copier"
        );
        for word in &self.blocks[block].words {
            word.store(u64::from_ne_bytes([byte; 8]), Ordering::Relaxed);
        }
    }

    /// Publishes the entry for the page, as a reader does that missed it; its version.
    fn insert(&self, block: usize) -> Option<u64> {
        let owned = self.entry.claim(self.entry.word())?;
        self.entry.set(PAGE, block as u64);
        self.entry.publish(owned).then(|| owned.version())
    }

    fn copy(&self, version: u64) {
        if !self.entry.begin_copy(version) {
            return;
        }
        let source = self.entry.source() as usize;
        let copiers = &self.blocks[source].copiers;
        copiers.fetch_add(1, Ordering::Relaxed);
        let bytes = self.load(source);
        copiers.fetch_sub(1, Ordering::Relaxed);
        self.frame.fill(&bytes);
        if !self.entry.end_copy() && self.entry.give_up() {
            self.store(source, REUSED);
            self.lent.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A read of the page: from the frame, or else from its block.
    fn read(&self) -> [u8; BYTES] {
        let current = self.current.read().expect("no writer panics");
        let pin = self.entry.pin();
        let unpinned = self.broken == Broken::ReaderDoesNotPin;
        let hits = (pin.is_some() || unpinned) && self.entry.is_for(PAGE);
        if hits && self.entry.source() == *current as u64 {
            let mut bytes = [0; BYTES];
            self.frame.copy(0, &mut bytes);
            return bytes;
        }
        self.load(*current)
    }

    /// Writes the page to the free block; the old one is used again at once unless the copier keeps it.
    fn write(&self, byte: u8) {
        let mut current = self.current.write().expect("no reader panics");
        let old = *current;
        self.store(1 - old, byte);
        *current = 1 - old;
        if self.broken == Broken::WriterForgets {
            return;
        }
        let lend = |blocks| {
            self.lent.fetch_add(blocks, Ordering::Relaxed);
        };
        let found = if self.entry.is_for(PAGE) && self.entry.source() == old as u64 {
            self.entry.doom(lend)
        } else {
            Doomed::Nothing
        };
        if found != Doomed::WhileCopied || self.broken == Broken::BlockIsNotKept {
            self.store(old, REUSED);
        }
    }

    /// In the end no task has the entry, and it can be used again.
    fn check_idle(&self) {
        let word = self.entry.word();
        assert!(word.readers() == 0 && !word.is_doomed(), "left as {word:?}");
        let idle = matches!(word.state(), word::State::Invalid | word::State::Ready | word::State::Prep);
        assert!(idle, "left as {word:?}");
        assert_eq!(self.lent.load(Ordering::Relaxed), 0, "blocks are still lent");
    }
}

fn assert_old_or_new(bytes: [u8; BYTES]) {
    assert!(bytes == [1; BYTES] || bytes == [2; BYTES], "read {bytes:?}");
}

/// Tries all interleavings of a scenario; how many there were.
fn explore(scenario: impl Fn() + Send + Sync + 'static) -> u64 {
    let tried = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut model = loom::model::Builder::new();
    let preemptions = std::env::var("WEIR_LOOM_PREEMPTIONS").ok().and_then(|n| n.parse().ok());
    model.preemption_bound = Some(preemptions.unwrap_or(3));
    let counter = std::sync::Arc::clone(&tried);
    model.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        scenario();
    });
    tried.load(Ordering::Relaxed)
}

/// A ready entry, two readers, a writer.
fn two_readers_and_a_writer(broken: Broken) {
    let world = Arc::new(World::new(broken));
    let version = world.insert(0).expect("a new entry is free");
    world.copy(version);
    let reader = |world: &Arc<World>| {
        let world = Arc::clone(world);
        thread::spawn(move || assert_old_or_new(world.read()))
    };
    let readers = [reader(&world), reader(&world)];
    world.write(2);
    assert_eq!(world.read(), [2; BYTES], "a read after a write sees it");
    for reader in readers {
        reader.join().expect("a reader");
    }
    world.check_idle();
}

/// A published entry, the copier, a reader, a writer.
fn a_copier_a_reader_and_a_writer(broken: Broken) {
    let world = Arc::new(World::new(broken));
    let version = world.insert(0).expect("a new entry is free");
    let (copied, read) = (Arc::clone(&world), Arc::clone(&world));
    let copier = thread::spawn(move || copied.copy(version));
    let reader = thread::spawn(move || assert_old_or_new(read.read()));
    world.write(2);
    assert_eq!(world.read(), [2; BYTES], "a read after a write sees it");
    copier.join().expect("the copier");
    reader.join().expect("a reader");
    world.check_idle();
    // The page comes back to its first block.
    world.write(3);
    assert_eq!(world.read(), [3; BYTES], "a read after a write sees it");
}

/// A ready entry that one task steals for a frame while another reads it and a third writes the page.
fn a_thief_a_reader_and_a_writer(broken: Broken) {
    let world = Arc::new(World::new(broken));
    let version = world.insert(0).expect("a new entry is free");
    world.copy(version);
    let (stolen, read) = (Arc::clone(&world), Arc::clone(&world));
    let thief = thread::spawn(move || {
        if let Some(owned) = stolen.entry.claim(stolen.entry.word()) {
            // The frame is its own now.
            stolen.frame.fill(&[REUSED; BYTES]);
            stolen.entry.retract(owned);
        }
    });
    let reader = thread::spawn(move || assert_old_or_new(read.read()));
    world.write(2);
    thief.join().expect("the thief");
    reader.join().expect("a reader");
    world.check_idle();
}

#[test]
fn no_order_of_memory_shows_a_reader_what_it_must_not_see() {
    let scenarios: [(&str, Scenario); 3] = [
        ("two readers and a writer", two_readers_and_a_writer),
        ("the copier, a reader and a writer", a_copier_a_reader_and_a_writer),
        ("a thief, a reader and a writer", a_thief_a_reader_and_a_writer),
    ];
    for (name, scenario) in scenarios {
        let tried = explore(move || scenario(Broken::Nothing));
        println!("{name}: {tried} interleavings");
        assert!(tried > 100, "{name}: only {tried} interleavings");
    }
}

#[test]
fn a_broken_rule_is_found() {
    let broken: [(&str, Broken, Scenario); 4] = [
        ("a reader does not pin", Broken::ReaderDoesNotPin, a_thief_a_reader_and_a_writer),
        ("a reader does not pin", Broken::ReaderDoesNotPin, a_copier_a_reader_and_a_writer),
        ("a block is used again while it is copied", Broken::BlockIsNotKept, a_copier_a_reader_and_a_writer),
        ("a writer leaves the entry", Broken::WriterForgets, a_copier_a_reader_and_a_writer),
    ];
    for (name, broken, scenario) in broken {
        let run = AssertUnwindSafe(|| explore(move || scenario(broken)));
        assert!(catch_unwind(run).is_err(), "not found: {name}");
    }
}

/// Two readers put requests into a queue of `size`, the copier takes them out: each comes out whole and once, unless it was
/// refused.
fn two_readers_ask(size: usize) {
    let ring = Arc::new(ring::Ring::new(size));
    let ask = |who: u64| {
        let ring = Arc::clone(&ring);
        thread::spawn(move || ring.push([who; 3]))
    };
    let readers = [ask(1), ask(2)];
    let mut seen: Vec<_> = ring.pop().into_iter().collect();
    let taken = readers.map(|reader| reader.join().expect("a reader"));
    seen.extend(std::iter::from_fn(|| ring.pop()));
    seen.sort_unstable();
    let put: Vec<_> =
        [1, 2].into_iter().zip(taken).filter(|(_, put)| *put).map(|(who, _)| [who; 3]).collect();
    assert_eq!(seen, put);
    assert!(put.len() >= size.min(2), "a queue with room takes what it is given");
}

#[test]
fn no_request_is_lost_torn_or_served_twice() {
    for size in [1, 2] {
        let tried = explore(move || two_readers_ask(size));
        println!("a queue of {size}: {tried} interleavings");
        assert!(tried > 10, "a queue of {size}: only {tried} interleavings");
    }
}
