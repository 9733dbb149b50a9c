//! What CPU work costs under the virtual clock.
//!
//! A machine is a table: one cost for each kind of [`Work`], the speed of a copy, and the shape of the
//! machine. Values and their sources live in `presets/machines/*.toml`; nothing here is a default that a
//! result could rest on.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, LINE_BYTES, Nanos};

/// A kind of CPU work that a machine preset prices. The real clock charges none of it: there the work itself
/// takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Work {
    /// Entering and leaving the kernel once.
    Syscall,
    /// What the VFS does for one call besides the design's own work: descriptor lookup, permission, locks of
    /// the file table.
    Call,
    /// Walking one path component through the dentry cache, hit.
    PathComponent,
    /// Making the kernel's record of an open file, and freeing it at the close.
    OpenFile,
    /// Taking and releasing an uncontended lock whose line this core owns; also one atomic update of an owned
    /// line.
    Lock,
    /// Getting a cache line from another core of the same socket.
    LineSameSocket,
    /// Getting a cache line from a core of another socket.
    LineCrossSocket,
    /// One step of a search: compare and follow a link that is in a cache.
    Step,
    /// One access that misses every cache: a load from DRAM that the next instruction waits for.
    Miss,
    /// Issuing one cache-line write-back instruction, besides what the medium takes.
    FlushIssue,
    /// A store fence with nothing outstanding.
    Fence,
    /// A call of futex(2) that changes nothing: it finds the word changed, or nobody asleep.
    Futex,
    /// Making a sleeping task run: wake-up and context switch.
    Wakeup,
    /// What the block layer and a driver do for one request: a tag is taken and given back, the command written, its completion
    /// read.
    BlockRequest,
    /// What a load generator does around one operation: choosing a file, timing, statistics.
    Generator,
    /// A random number of the load generator. Filebench before 1.5 asks the kernel for each.
    Random,
}

impl Work {
    /// Number of kinds.
    pub const COUNT: usize = 16;

    /// Every kind with its key in a machine preset.
    pub const ALL: [(Self, &'static str); Self::COUNT] = [
        (Self::Syscall, "syscall"),
        (Self::Call, "call"),
        (Self::PathComponent, "path_component"),
        (Self::OpenFile, "open_file"),
        (Self::Lock, "lock"),
        (Self::LineSameSocket, "line_same_socket"),
        (Self::LineCrossSocket, "line_cross_socket"),
        (Self::Step, "step"),
        (Self::Miss, "miss"),
        (Self::FlushIssue, "flush_issue"),
        (Self::Fence, "fence"),
        (Self::Futex, "futex"),
        (Self::Wakeup, "wakeup"),
        (Self::BlockRequest, "block_request"),
        (Self::Generator, "generator"),
        (Self::Random, "random"),
    ];
}

/// A machine: shape and costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Cost of each kind of [`Work`], in picoseconds, in the order of [`Work::ALL`].
    pub work_ps: [u64; Work::COUNT],
    /// Time that one core needs to copy a byte that is in no cache, in picoseconds.
    pub copy_ps_per_byte: u64,
    /// Time that memory needs per copied byte, in picoseconds: the bandwidth shared by the cores of the machine, or of a socket.
    pub dram_ps_per_byte: u64,
    /// Each socket has memory of that bandwidth, and its cores copy from and to it. Otherwise the machine has one.
    pub dram_per_socket: bool,
    /// Size of the last-level cache of a socket.
    pub cache: Bytes,
    /// The private cache of a core and what the levels cost. None: no private caches, see [`crate::cache`].
    pub caches: Option<Caches>,
    /// How tasks share a core. None: each runs as if the core were its own, however many there are.
    pub scheduling: Option<Scheduling>,
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
            work_ps: [1_000; Work::COUNT],
            copy_ps_per_byte: 1_000,
            dram_ps_per_byte: 250,
            dram_per_socket: false,
            cache: Bytes::mib(16),
            caches: None,
            scheduling: None,
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
    pub fn core_of(&self, processor: u16) -> u16 {
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
        Nanos((self.work_ps[work as usize] * n + 500) / 1_000)
    }

    /// The cost of moving a cache line from processor `from` to processor `to`; nothing within a core.
    #[inline]
    pub fn transfer(&self, from: u16, to: u16) -> Nanos {
        if from == to || self.core_of(from) == self.core_of(to) {
            Nanos::ZERO
        } else if self.socket(from) == self.socket(to) {
            self.cost(Work::LineSameSocket, 1)
        } else {
            self.cost(Work::LineCrossSocket, 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_work_has_its_own_place_and_key() {
        for (index, (work, key)) in Work::ALL.iter().enumerate() {
            assert_eq!(*work as usize, index, "{key}");
        }
    }

    #[test]
    fn a_line_costs_nothing_at_home_and_most_across_sockets() {
        let mut machine = Machine::unit();
        machine.work_ps[Work::LineCrossSocket as usize] = 3_000;
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
