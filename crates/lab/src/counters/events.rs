//! The events of the host's processor and kernel, and how one is opened (perf_event_open(2)).

use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Software};
use perf_event::{Builder, Counter, ReadFormat};
use results::events::REAL;

/// An event by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name, with the unit last where it is no count of events; the counter is `event.NAME`.
    pub name: &'static str,
    /// What the kernel calls it.
    what: What,
    /// Events of a group are on the processor's counters at the same time; `None`: an event of the kernel, which needs none.
    pub group: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Software(Software),
    Hardware(Hardware),
    Cache(CacheId, CacheOp, CacheResult),
}

/// All, in the order of groups. A processor has four or more counters besides those of cycles and instructions (Intel 64 and IA-32
/// Architectures Software Developer's Manual, volume 3, section 20.2), so that no group has more than four.
pub const EVENTS: &[Event] = &[
    software("page_faults", Software::PAGE_FAULTS),
    software("minor_faults", Software::PAGE_FAULTS_MIN),
    software("major_faults", Software::PAGE_FAULTS_MAJ),
    software("context_switches", Software::CONTEXT_SWITCHES),
    software("task_clock_ns", Software::TASK_CLOCK),
    hardware("cycles", Hardware::CPU_CYCLES),
    hardware("instructions", Hardware::INSTRUCTIONS),
    cache("dtlb_loads", 1, CacheId::DTLB, CacheOp::READ, CacheResult::ACCESS),
    cache("dtlb_load_misses", 1, CacheId::DTLB, CacheOp::READ, CacheResult::MISS),
    cache("dtlb_stores", 1, CacheId::DTLB, CacheOp::WRITE, CacheResult::ACCESS),
    cache("dtlb_store_misses", 1, CacheId::DTLB, CacheOp::WRITE, CacheResult::MISS),
    cache("itlb_loads", 2, CacheId::ITLB, CacheOp::READ, CacheResult::ACCESS),
    cache("itlb_load_misses", 2, CacheId::ITLB, CacheOp::READ, CacheResult::MISS),
    cache("l1d_loads", 2, CacheId::L1D, CacheOp::READ, CacheResult::ACCESS),
    cache("l1d_load_misses", 2, CacheId::L1D, CacheOp::READ, CacheResult::MISS),
    cache("llc_loads", 3, CacheId::LL, CacheOp::READ, CacheResult::ACCESS),
    cache("llc_load_misses", 3, CacheId::LL, CacheOp::READ, CacheResult::MISS),
    cache("llc_stores", 3, CacheId::LL, CacheOp::WRITE, CacheResult::ACCESS),
    cache("llc_store_misses", 3, CacheId::LL, CacheOp::WRITE, CacheResult::MISS),
];

const fn software(name: &'static str, what: Software) -> Event {
    Event { name, what: What::Software(what), group: None }
}

const fn hardware(name: &'static str, what: Hardware) -> Event {
    Event { name, what: What::Hardware(what), group: Some(0) }
}

const fn cache(name: &'static str, group: u8, id: CacheId, op: CacheOp, result: CacheResult) -> Event {
    Event { name, what: What::Cache(id, op, result), group: Some(group) }
}

/// Whose work is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The program's.
    User,
    /// The program's, and the kernel's for it.
    UserAndKernel,
}

impl Event {
    /// The name of its counter in results.
    pub fn counter(&self) -> String {
        format!("{REAL}{}", self.name)
    }

    /// Whether the kernel counts it, whatever the processor can.
    pub fn is_software(&self) -> bool {
        self.group.is_none()
    }

    /// Opens it for this thread, and for every thread and process that begins under it; it does not count yet. What the kernel
    /// counts is counted for the program and for the kernel where this user may, because a switch is always the kernel's.
    pub(crate) fn open(&self, of: Of, leader: Option<&mut Counter>) -> io::Result<Counter> {
        let mut builder = match self.what {
            What::Software(event) => Builder::new(event),
            What::Hardware(event) => Builder::new(event),
            What::Cache(which, operation, result) => Builder::new(Cache { which, operation, result }),
        };
        builder.inherit(true).enabled(false);
        builder.read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
        if of == Of::UserAndKernel || self.is_software() {
            builder.include_kernel().include_hv();
        }
        let open = |builder: &Builder<'_>, leader: Option<&mut Counter>| match leader {
            Some(leader) => builder.build_with_group(leader),
            None => builder.build(),
        };
        match open(&builder, leader) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.counts_for_users() => {
                builder.exclude_kernel(true).exclude_hv(true).build()
            }
            other => other,
        }
    }

    /// Whether it still counts something where only the program's own work may be counted.
    fn counts_for_users(&self) -> bool {
        self.is_software() && self.name != "context_switches"
    }
}
