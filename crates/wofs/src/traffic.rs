//! Tasks that copy to or from the medium at this time, and the regulation of those that write.
//!
//! As published, a counter of readers and one of writers are changed before and after each copy, by all cores.
//!
//! Optane writes less in a second when more than a few cores write. Branches of the published code (`-fio-regulate`,
//! `-fb-regulate`) let a writer sleep that finds its copy of one block slow while others write. Rows of the artifact are of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::{Line, LockClass, Nanos};

use crate::layout::BLOCK;

/// The counter of tasks that read.
pub(crate) static READERS: LockClass =
    LockClass::of_lines("wofs.readers", "the count of tasks that copy from the medium");
/// The counter of tasks that write.
pub(crate) static WRITERS: LockClass =
    LockClass::of_lines("wofs.writers", "the count of tasks that copy to the medium");

/// A rule for writers that sleep.
#[derive(Debug)]
pub(crate) struct Regulation {
    /// It holds with more writers than these.
    writers: u64,
    /// After a copy of one block that took longer than this, where the last write of the file ended.
    in_turn: Nanos,
    /// The same, elsewhere.
    at_random: Nanos,
    /// The published code asks the kernel for a time of this to a fifth more, or two fifths; this is the middle.
    sleep: Nanos,
}

impl Regulation {
    /// That of an option's word; none for `off`.
    pub(crate) fn named(word: &str) -> Option<&'static Self> {
        const FIO: Regulation = Regulation {
            writers: 1,
            in_turn: Nanos(3_000),
            at_random: Nanos(25_000),
            sleep: Nanos(11_000_000),
        };
        const FILEBENCH: Regulation = Regulation {
            writers: 4,
            in_turn: Nanos(10_000),
            at_random: Nanos(25_000),
            sleep: Nanos(6_000_000),
        };
        match word {
            "fio" => Some(&FIO),
            "filebench" => Some(&FILEBENCH),
            _ => None,
        }
    }
}

/// The counters.
pub(crate) struct Traffic {
    readers: Line,
    writers: Line,
    writing: AtomicU64,
    regulation: Option<&'static Regulation>,
}

impl Traffic {
    pub(crate) fn new(regulation: Option<&'static Regulation>) -> Self {
        let (readers, writers) = (Line::new(&READERS), Line::new(&WRITERS));
        Self { readers, writers, writing: AtomicU64::new(0), regulation }
    }

    /// Counts a reader while `copy` runs.
    pub(crate) fn read<R>(&self, copy: impl FnOnce() -> R) -> R {
        self.readers.touch();
        let result = copy();
        self.readers.touch();
        result
    }

    /// Counts a writer of `bytes` bytes while `copy` runs, and lets it sleep if the regulation says so. `in_turn`: the last write
    /// of the file ended where this one begins. The caller keeps the lock of the file.
    pub(crate) fn write<R>(&self, bytes: u64, in_turn: bool, copy: impl FnOnce() -> R) -> R {
        self.writers.touch();
        let writing = self.writing.fetch_add(1, Relaxed) + 1;
        let begun = sim::now();
        let result = copy();
        let took = sim::now() - begun;
        self.writers.touch();
        self.writing.fetch_sub(1, Relaxed);
        if let Some(rule) = self.regulation {
            let bound = if in_turn { rule.in_turn } else { rule.at_random };
            if bytes == BLOCK && writing > rule.writers && took > bound {
                sim::sleep(rule.sleep);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sim::{Activity, Machine, Seed, Setup, TaskSpec};

    use super::*;

    /// The time of two writers that each copy one block, which takes `copy`, at one time, by a rule.
    fn two_writers(word: &'static str, copy: Nanos, in_turn: bool) -> Nanos {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
        let body = move || {
            let traffic = Arc::new(Traffic::new(Regulation::named(word)));
            let start = |_| {
                let traffic = Arc::clone(&traffic);
                let copied = move || sim::medium_until(Activity::SOFTWARE, sim::now() + copy);
                sim::spawn(TaskSpec::named("writer"), move || traffic.write(BLOCK, in_turn, copied))
            };
            [0, 1].map(start).into_iter().for_each(sim::JoinHandle::join);
            sim::now()
        };
        sim::run(&setup, body).expect("a run that ends")
    }

    #[test]
    fn a_writer_sleeps_only_after_a_slow_copy_beside_others() {
        let slept = Nanos(6_000_000);
        assert!(two_writers("fio", Nanos(4_000), true) > slept);
        assert!(two_writers("fio", Nanos(26_000), false) > slept);
        for (word, copy, in_turn) in
            [("fio", 2_000, true), ("fio", 4_000, false), ("filebench", 26_000, true), ("off", 26_000, true)]
        {
            assert!(two_writers(word, Nanos(copy), in_turn) < slept, "{word} {copy} {in_turn}");
        }
    }
}
