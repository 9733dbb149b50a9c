//! A sequence lock: writers exclude each other, and readers look at a word instead of taking a lock.
//!
//! The word is a cache line. A reader fetches it when it was written since the reader's core looked last, and then has it for
//! nothing. While a writer is in, the word is odd and readers look again until it is even. A writer changes the word when it comes
//! and when it goes; each change fetches the line from the core that wrote last, and once more from each other socket that has
//! looked at it meanwhile, because each of these brings it back before the writer has it again.
//!
//! Lock order: the writers' mutex alone. The virtual state is made of atomics, as that of a lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::line::update_ns;
use super::mutex::{Mutex, MutexGuard};
use super::{book_line_wait, book_wait, is_free, virtual_task};
use crate::clock;
use crate::context::Context;
use crate::ledger::{Activity, LockClass};
use crate::machine::Work;
use crate::units::Nanos;

/// Processors whose looks at the word are known; those beyond share the last bit.
const PROCESSORS: usize = 256;
/// No core has written the word in this run.
const NO_CORE: u32 = u32::MAX;

/// A sequence lock with a name in the ledger.
pub struct Sequence {
    class: &'static LockClass,
    writers: Mutex<()>,
    /// Odd while a writer is in.
    count: AtomicU64,
    /// Of the run `run`: who wrote the word last, when that was over, and who has it.
    run: AtomicU32,
    writer: AtomicU32,
    written_at: AtomicU64,
    readers: [AtomicU64; PROCESSORS / 64],
}

impl Sequence {
    /// One that no task has.
    pub const fn new(class: &'static LockClass) -> Self {
        Self {
            class,
            writers: Mutex::new(class, ()),
            count: AtomicU64::new(0),
            run: AtomicU32::new(0),
            writer: AtomicU32::new(0),
            written_at: AtomicU64::new(0),
            readers: [const { AtomicU64::new(0) }; PROCESSORS / 64],
        }
    }

    /// Begins to read what the lock guards: waits until no writer is in, and returns what [`Sequence::changed`] compares.
    pub fn read(&self) -> u64 {
        loop {
            let count = self.look();
            if count.is_multiple_of(2) {
                return count;
            }
            match virtual_task() {
                Some((cx, _)) => {
                    // The next look; an earlier one would find the same.
                    let again = cx.run.machine.cost(Work::LINE_SAME_SOCKET, 1).0.max(1);
                    cx.time.set(cx.time.get() + again);
                    book_wait(cx, self.class, again);
                }
                None => std::hint::spin_loop(),
            }
        }
    }

    /// Ends reading: whether a writer has come since [`Sequence::read`] returned `count`, so that it must be done again.
    pub fn changed(&self, count: u64) -> bool {
        self.look() != count
    }

    /// Waits for its turn and begins to write; readers wait until the guard is dropped.
    pub fn write(&self) -> SequenceGuard<'_> {
        let turn = self.writers.lock();
        self.change();
        SequenceGuard { sequence: self, turn }
    }

    /// The word as the current task's core sees it, which fetches it if need be.
    fn look(&self) -> u64 {
        let Some((cx, scheduler)) = virtual_task() else { return self.count.load(SeqCst) };
        scheduler.interact(cx);
        if is_free(cx, self.class) {
            return self.count.load(Relaxed) & !1;
        }
        self.begin(cx);
        let core = cx.core.get();
        if !self.has(core) {
            self.set(core);
            let writer = self.writer.load(Relaxed) as u16;
            let start = self.written_at.load(Relaxed).max(cx.time.get());
            let from = if self.writer.load(Relaxed) == NO_CORE { core } else { writer };
            let ns = start - cx.time.get() + cx.run.machine.transfer(from, core).0;
            self.pass(cx, ns, 0);
        }
        self.count.load(Relaxed)
    }

    /// A writer changes the word.
    fn change(&self) {
        self.count.fetch_add(1, SeqCst);
        let Some((cx, _)) = virtual_task().filter(|(cx, _)| !is_free(cx, self.class)) else { return };
        self.begin(cx);
        let (machine, core) = (&cx.run.machine, cx.core.get());
        let writer = self.writer.load(Relaxed);
        let from = if writer == NO_CORE { core } else { writer as u16 };
        let mut fetched = machine.transfer(from, core).0;
        let mut others: Vec<u16> = (0..machine.processors().min(PROCESSORS as u16))
            .filter(|other| *other != core && self.has(*other))
            .map(|other| machine.socket(other))
            .collect();
        others.sort_unstable();
        others.dedup();
        let home = machine.socket(core);
        let back = |socket: &u16| {
            let work = if *socket == home { Work::LINE_SAME_SOCKET } else { Work::LINE_CROSS_SOCKET };
            machine.cost(work, 1).0
        };
        fetched = fetched.max(others.iter().map(back).sum());
        self.pass(cx, fetched, update_ns(&cx.run));
        self.writer.store(u32::from(core), Relaxed);
        self.written_at.store(cx.time.get(), Relaxed);
        self.readers.iter().for_each(|word| word.store(0, Relaxed));
        self.set(core);
    }

    /// Waits `fetched` for the line, and takes `update` for what it is wanted for.
    fn pass(&self, cx: &Context, fetched: u64, update: u64) {
        let activity = cx.software(Activity::SOFTWARE);
        clock::pass(cx, activity, Nanos(fetched + update));
        book_line_wait(cx, activity, self.class, fetched);
        cx.show();
    }

    /// Forgets an earlier run.
    fn begin(&self, cx: &Context) {
        if self.run.swap(cx.run.number, Relaxed) != cx.run.number {
            self.written_at.store(0, Relaxed);
            self.readers.iter().for_each(|word| word.store(0, Relaxed));
            self.writer.store(NO_CORE, Relaxed);
        }
    }

    fn has(&self, core: u16) -> bool {
        let core = usize::from(core).min(PROCESSORS - 1);
        self.readers[core / 64].load(Relaxed) >> (core % 64) & 1 == 1
    }

    fn set(&self, core: u16) {
        let core = usize::from(core).min(PROCESSORS - 1);
        self.readers[core / 64].fetch_or(1 << (core % 64), Relaxed);
    }
}

impl std::fmt::Debug for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sequence({})", self.class.name())
    }
}

/// The right to write what a [`Sequence`] guards.
#[must_use = "the writer goes when the guard is dropped"]
pub struct SequenceGuard<'a> {
    sequence: &'a Sequence,
    turn: MutexGuard<'a, ()>,
}

impl SequenceGuard<'_> {
    /// As [`MutexGuard::touch`].
    pub fn touch(guard: &Self, lines: u64) {
        MutexGuard::touch(&guard.turn, lines);
    }
}

impl Drop for SequenceGuard<'_> {
    fn drop(&mut self) {
        self.sequence.change();
    }
}
