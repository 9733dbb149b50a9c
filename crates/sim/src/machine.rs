//! What CPU work costs under the virtual clock.
//!
//! A machine is a table: one cost for each kind of [`Work`], the speed of a copy, and the shape of the
//! machine. Values and their sources live in `presets/machines/*.toml`; nothing here is a default that a
//! result could rest on.

use serde::{Deserialize, Serialize};

use crate::ledger::Activity;
use crate::memory::MemoryModel;
use crate::units::{Bytes, LINE_BYTES, Nanos};

/// A kind of CPU work that a machine preset prices: a small number with a key. The real clock charges none of it: there the
/// work itself takes time.
///
/// The crate in which the work is done declares the kind and lists it. What reads machine presets gathers the lists, so that a
/// preset without a price, or with one too many, is refused.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    index: u8,
    key: &'static str,
    activity: Activity,
}

impl Work {
    /// Limit of kinds.
    pub const MAX: usize = 49;
    /// Kinds from this index on have no price in a machine that does not name them.
    pub const OPTIONAL: usize = 32;

    /// Declares kind `index` (below [`Work::MAX`], one of its own), with its key in a machine preset.
    pub const fn new(index: u8, key: &'static str) -> Self {
        assert!((index as usize) < Self::MAX, "the index of a kind of work is out of range");
        Self { index, key, activity: Activity::SOFTWARE }
    }

    /// The same kind, booked on `activity` and not on [`Activity::SOFTWARE`].
    #[must_use]
    pub const fn booked_on(self, activity: Activity) -> Self {
        Self { activity, ..self }
    }

    /// Its place in [`Machine::work_ps`].
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Its key in a machine preset.
    pub const fn key(self) -> &'static str {
        self.key
    }

    /// The activity that its time is booked on.
    #[inline]
    pub(crate) const fn activity(self) -> Activity {
        self.activity
    }
}

impl PartialEq for Work {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl Eq for Work {}

/// What this crate's locks, lines and caches cost, and the calls into a kernel that all above it share. Indices 0 to 15.
impl Work {
    /// Entering and leaving the kernel once.
    pub const SYSCALL: Self = Self::new(0, "syscall");
    /// What a kernel does for one call besides the file system's own work: descriptor lookup, permission, locks of the file table.
    pub const CALL: Self = Self::new(1, "call");
    /// Taking and releasing an uncontended lock whose line this core owns; also one atomic update of an owned line.
    pub const LOCK: Self = Self::new(2, "lock");
    /// Getting a cache line from another core of the same socket.
    pub const LINE_SAME_SOCKET: Self = Self::new(3, "line_same_socket");
    /// Getting a cache line from a core of another socket.
    pub const LINE_CROSS_SOCKET: Self = Self::new(4, "line_cross_socket");
    /// One step of a search: compare and follow a link that is in a cache.
    pub const STEP: Self = Self::new(5, "step");
    /// One access that misses every cache: a load from DRAM that the next instruction waits for.
    pub const MISS: Self = Self::new(6, "miss");
    /// A call of futex(2) that changes nothing: it finds the word changed, or no task asleep.
    pub const FUTEX: Self = Self::new(7, "futex");
    /// Making a sleeping task run: wake-up and context switch.
    pub const WAKEUP: Self = Self::new(8, "wakeup");

    /// The kinds that this crate declares.
    pub const OF_SIM: &[Self] = &[
        Self::SYSCALL,
        Self::CALL,
        Self::LOCK,
        Self::LINE_SAME_SOCKET,
        Self::LINE_CROSS_SOCKET,
        Self::STEP,
        Self::MISS,
        Self::FUTEX,
        Self::WAKEUP,
    ];
}

/// Small work that code does all the time, see [`crate::ran`]. A machine prices any of these, under `[ran]`, or none. Indices 43 to
/// 48.
impl Work {
    /// A block of memory: getting it, and freeing it some time.
    pub const ALLOC: Self = Self::new(43, "alloc");
    /// Hashing 16 bytes of a key.
    pub const HASH: Self = Self::new(44, "hash");
    /// A node of a tree or a bucket of a table that is searched or changed, where no [`Work::STEP`] prices it.
    pub const NODE: Self = Self::new(45, "node");
    /// A line of metadata that is encoded, decoded or copied in memory.
    pub const BYTES: Self = Self::new(46, "bytes");
    /// A line under a checksum.
    pub const CHECKSUM: Self = Self::new(47, "checksum");
    /// A credit of a journal: one block or entry that a transaction reserves.
    pub const HANDLE: Self = Self::new(48, "handle");

    /// The kinds of this table.
    pub const RAN: &[Self] =
        &[Self::ALLOC, Self::HASH, Self::NODE, Self::BYTES, Self::CHECKSUM, Self::HANDLE];
}

/// A machine: shape and costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Name of the preset.
    pub name: String,
    /// Number of sockets.
    pub sockets: u16,
    /// Cores in each socket; core `c` is on socket `c / cores_per_socket`.
    pub cores_per_socket: u16,
    /// Each core has two hardware threads, which together do so many thousandths of the work that one does which has the core to
    /// itself. None: one. As on Linux, the second thread of core `c` is the processor `c` plus the number of cores. Needs
    /// [`Machine::scheduling`].
    pub two_threads_per_mille: Option<u32>,
    /// Cost of each kind of [`Work`] by [`Work::index`], in picoseconds.
    pub work_ps: [u64; Work::MAX],
    /// Time that one core needs to copy a byte that is in no cache, in picoseconds.
    pub copy_ps_per_byte: u64,
    /// Time that memory needs per copied byte, in picoseconds: the bandwidth shared by the cores of the machine, or of a socket.
    pub dram_ps_per_byte: u64,
    /// Each socket has memory of that bandwidth, and its cores copy from and to it. Otherwise the machine has one.
    pub dram_per_socket: bool,
    /// The memory of a socket under load, see [`crate::memory`]: then the two prices of a copied byte are not used. None: copies
    /// cost those.
    pub memory: Option<MemoryModel>,
    /// Size of the last-level cache of a socket.
    pub cache: Bytes,
    /// The private cache of a core and what the levels cost. None: no private caches, see [`crate::cache`].
    pub caches: Option<Caches>,
    /// How tasks share a core. None: each runs as if the core were its own, however many there are.
    pub scheduling: Option<Scheduling>,
    /// The version of Linux that file systems are below, whose ways a design follows that has its original there. None: none.
    pub linux: Option<(u16, u16)>,
    /// What is charged for a named part ([`crate::Part`]) beside what the design charges there. The small work of a design
    /// ([`Work::RAN`]) is not charged inside of such a part.
    pub parts: Vec<PartPrice>,
    /// The run stands for the originals of designs: theirs are the prices of parts, and the ways on the medium.
    pub originals: bool,
}

/// The price of a named part of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartPrice {
    /// Its name in results: `design.part`.
    pub part: String,
    /// Charged each time that the part runs, in picoseconds.
    pub ps: u64,
}

/// What lies between a core and memory, besides the last-level cache whose size is the machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caches {
    /// Size of the private cache of a core.
    pub private: Bytes,
    /// Time that a core needs to copy a byte that its private cache has, in picoseconds.
    pub private_copy_ps_per_byte: u64,
    /// Time that a core needs to copy a byte that the cache of its socket has, in picoseconds.
    pub socket_copy_ps_per_byte: u64,
    /// Time of a load that the cache of the socket serves and the next instruction waits for, in picoseconds.
    pub socket_hit_ps: u64,
    /// A line that is written back leaves the caches, as on Cascade Lake; otherwise it stays.
    pub flush_evicts: bool,
    /// The cache of a socket has hashed sets of so many lines, of which one that is full gives up any, so that a part of what does
    /// not fit stays. None: it gives up what was used least recently of all.
    pub ways: Option<u16>,
}

impl Caches {
    #[inline]
    pub(crate) fn private_lines(&self) -> u64 {
        self.private.0 / LINE_BYTES as u64
    }
}

/// When a core goes from one task to another: the three times of the Completely Fair Scheduler of Linux, as an administrator
/// finds them below /sys/kernel/debug/sched or in sysctl(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// The tasks of a core each run once in this time (sched_latency_ns).
    pub latency: Nanos,
    /// But none for less than this (sched_min_granularity_ns).
    pub granularity: Nanos,
    /// A task that wakes preempts one that has run longer by more than this (sched_wakeup_granularity_ns).
    pub wakeup_granularity: Nanos,
}

impl Machine {
    /// A machine for unit tests: every kind of work costs 1 ns, a core copies 1 B/ns, memory 4 B/ns, two
    /// sockets of 40 cores.
    pub fn unit() -> Self {
        Self {
            name: "unit".to_owned(),
            sockets: 2,
            cores_per_socket: 40,
            two_threads_per_mille: None,
            work_ps: std::array::from_fn(|index| if index < Work::OPTIONAL { 1_000 } else { 0 }),
            copy_ps_per_byte: 1_000,
            dram_ps_per_byte: 250,
            dram_per_socket: false,
            memory: None,
            cache: Bytes::mib(16),
            caches: None,
            scheduling: None,
            linux: None,
            parts: Vec::new(),
            originals: false,
        }
    }

    /// Number of cores of the machine.
    pub fn cores(&self) -> u16 {
        self.sockets * self.cores_per_socket
    }

    /// Number of processors, as the operating system counts them: hardware threads, or cores that have one.
    pub fn processors(&self) -> u16 {
        self.cores() * if self.two_threads_per_mille.is_some() { 2 } else { 1 }
    }

    /// The core of a processor.
    #[inline]
    pub(crate) fn core_of(&self, processor: u16) -> u16 {
        if self.two_threads_per_mille.is_none() { processor } else { processor % self.cores().max(1) }
    }

    /// The other hardware thread of a processor's core.
    #[inline]
    pub(crate) fn sibling(&self, processor: u16) -> Option<u16> {
        self.two_threads_per_mille.map(|_| (processor + self.cores()) % self.processors().max(1))
    }

    /// Lines of the last-level cache of a socket.
    #[inline]
    pub(crate) fn cache_lines(&self) -> u64 {
        self.cache.0 / LINE_BYTES as u64
    }

    /// The socket of a processor.
    pub fn socket(&self, processor: u16) -> u16 {
        self.core_of(processor) / self.cores_per_socket.max(1)
    }

    /// The cost of `n` units of `work`, rounded to the nearest nanosecond.
    #[inline]
    pub fn cost(&self, work: Work, n: u64) -> Nanos {
        Nanos((self.work_ps[work.index()] * n + 500) / 1_000)
    }

    /// The cost of moving a cache line from processor `from` to processor `to`; nothing within a core.
    #[inline]
    pub fn transfer(&self, from: u16, to: u16) -> Nanos {
        if from == to || self.core_of(from) == self.core_of(to) {
            Nanos::ZERO
        } else if self.socket(from) == self.socket(to) {
            self.cost(Work::LINE_SAME_SOCKET, 1)
        } else {
            self.cost(Work::LINE_CROSS_SOCKET, 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_costs_nothing_at_home_and_most_across_sockets() {
        let mut machine = Machine::unit();
        machine.work_ps[Work::LINE_CROSS_SOCKET.index()] = 3_000;
        assert_eq!(machine.transfer(3, 3), Nanos(0));
        assert_eq!(machine.transfer(3, 4), Nanos(1));
        assert_eq!(machine.transfer(3, 43), Nanos(3));
    }

    #[test]
    fn the_second_threads_of_all_cores_come_after_the_first() {
        let machine = Machine { two_threads_per_mille: Some(1_250), ..Machine::unit() };
        assert_eq!((machine.cores(), machine.processors()), (80, 160));
        assert_eq!((machine.core_of(83), machine.socket(83), machine.socket(121)), (3, 0, 1));
        assert_eq!((machine.sibling(3), machine.sibling(83)), (Some(83), Some(3)));
        assert_eq!((machine.transfer(3, 83), machine.transfer(3, 84)), (Nanos(0), Nanos(1)));
        assert_eq!(Machine::unit().sibling(3), None);
    }
}
