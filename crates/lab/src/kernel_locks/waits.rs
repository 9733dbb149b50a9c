//! From events of tasks to their waits.
//!
//! | event | means |
//! |---|---|
//! | `Begins`, `Ends` | a task waits for a lock, and has it: tracepoints `lock:contention_begin` and `contention_end` |
//! | `Leaves`, `Enters` | a task gives its processor up and gets one: `sched:sched_switch` |
//! | `Seen` | a task was seen at a place of the kernel, at equal intervals of a processor's time: `cpu-clock` |
//!
//! A wait inside of another is a part of it. A task that leaves its processor while it waits for a lock that has told its beginning
//! waits for that lock; else it sleeps for what its call chain says, or has been preempted. A task that is seen spinning while no
//! lock has told a beginning spins for one that tells none: the semaphore of a write tells no wait while its owner runs
//! (kernel/locking/rwsem.c, `rwsem_optimistic_spin`).

use std::collections::BTreeMap;
use std::ops::Range;

/// An event of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// When, in nanoseconds of the monotonic clock.
    pub(super) at: u64,
    /// The process and the thread in which it happened.
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) what: What,
}

/// What happened; `stack` is the number of a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Begins { lock: u64, flags: u32, stack: u32 },
    Ends { lock: u64 },
    Leaves { preempted: bool, next: u32, stack: u32 },
    Seen { stack: u32 },
}

/// A wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) stack: u32,
    /// What the kernel says of the kind of the lock; none where it was not told.
    pub(super) flags: Option<u32>,
    pub(super) ns: u64,
}

/// What tasks waited for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) each: Vec<Wait>,
    /// Time for which another task had the processor of one that could run.
    pub(super) preempted_ns: u64,
    /// Events of the tasks within the time.
    pub(super) events: u64,
}

/// A task between two of its events.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// The outermost wait that has begun: the lock, what is said of it, the call chain, and when.
    waits: Option<(u64, u32, u32, u64)>,
    /// It is off its processor: whether by force, the call chain, and since when.
    off: Option<(bool, u32, u64)>,
}

/// The waits of the tasks whose process `is_ours`, within `window`; `interval_ns` is the time that one `Seen` stands for, and
/// `spins` says whether a call chain is that of a task which waits while it runs. Events are in the order of time.
pub(super) fn fold(
    events: &[Event],
    is_ours: impl Fn(u32) -> bool,
    spins: impl Fn(u32) -> bool,
    window: Range<u64>,
    interval_ns: u64,
) -> Waits {
    let (mut tasks, mut found): (BTreeMap<u32, Task>, Waits) = Default::default();
    let within = |from: u64, to: u64| to.min(window.end).saturating_sub(from.max(window.start));
    for event in events {
        if let What::Leaves { next, .. } = event.what
            && let Some((preempted, stack, since)) = tasks.get_mut(&next).and_then(|task| task.off.take())
        {
            found.has_been_off(preempted, stack, within(since, event.at));
        }
        if !is_ours(event.process) {
            continue;
        }
        found.events += u64::from(window.contains(&event.at));
        let task = tasks.entry(event.thread).or_default();
        match event.what {
            What::Begins { lock, flags, stack } => {
                task.waits.get_or_insert((lock, flags, stack, event.at));
            }
            What::Ends { lock } => {
                if let Some((_, flags, stack, since)) = task.waits.take_if(|waits| waits.0 == lock) {
                    found.push(stack, Some(flags), within(since, event.at));
                }
            }
            What::Leaves { preempted, stack, .. } if task.waits.is_none() => {
                task.off = Some((preempted, stack, event.at));
            }
            What::Seen { stack } if task.waits.is_none() && window.contains(&event.at) && spins(stack) => {
                found.push(stack, None, interval_ns);
            }
            What::Leaves { .. } | What::Seen { .. } => {}
        }
    }
    for task in tasks.into_values() {
        if let Some((_, flags, stack, since)) = task.waits {
            found.push(stack, Some(flags), within(since, window.end));
        } else if let Some((preempted, stack, since)) = task.off {
            found.has_been_off(preempted, stack, within(since, window.end));
        }
    }
    found
}

impl Waits {
    fn push(&mut self, stack: u32, flags: Option<u32>, ns: u64) {
        if ns > 0 {
            self.each.push(Wait { stack, flags, ns });
        }
    }

    fn has_been_off(&mut self, preempted: bool, stack: u32, ns: u64) {
        if preempted {
            self.preempted_ns += ns;
        } else {
            self.push(stack, None, ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u32 = 7;

    fn event(at: u64, what: What) -> Event {
        Event { at, process: OURS, thread: OURS, what }
    }

    fn begins(at: u64, lock: u64, stack: u32) -> Event {
        event(at, What::Begins { lock, flags: 2, stack })
    }

    fn ends(at: u64, lock: u64) -> Event {
        event(at, What::Ends { lock })
    }

    fn leaves(at: u64, preempted: bool, stack: u32) -> Event {
        event(at, What::Leaves { preempted, next: 1, stack })
    }

    fn enters(at: u64) -> Event {
        Event { at, process: 1, thread: 1, what: What::Leaves { preempted: false, next: OURS, stack: 99 } }
    }

    fn folded(events: &[Event]) -> Waits {
        fold(events, |process| process == OURS, |stack| stack == 50, 100..1000, 5)
    }

    fn wait(stack: u32, flags: Option<u32>, ns: u64) -> Wait {
        Wait { stack, flags, ns }
    }

    #[test]
    fn a_wait_lasts_from_its_begin_to_its_end_and_one_inside_of_it_is_a_part_of_it() {
        // A mutex tells its beginning twice, once while it spins and once when it sleeps.
        let events = [begins(200, 1, 10), begins(210, 2, 11), ends(220, 2), begins(230, 1, 12), ends(300, 1)];
        assert_eq!(folded(&events).each, [wait(10, Some(2), 100)]);
    }

    #[test]
    fn time_off_the_processor_is_the_locks_while_one_is_waited_for_and_else_what_the_chain_says() {
        let events = [begins(200, 1, 10), leaves(210, false, 20), enters(290), ends(300, 1)];
        assert_eq!(folded(&events).each, [wait(10, Some(2), 100)]);
        let events = [leaves(200, false, 20), enters(260), leaves(300, true, 21), enters(330)];
        let found = folded(&events);
        assert_eq!((found.each, found.preempted_ns), (vec![wait(20, None, 60)], 30));
    }

    #[test]
    fn only_the_measured_time_counts_and_what_has_not_ended_counts_to_its_end() {
        let events = [begins(50, 1, 10), ends(150, 1), begins(950, 2, 11), ends(1_050, 2)];
        assert_eq!(folded(&events).each, [wait(10, Some(2), 50), wait(11, Some(2), 50)]);
        assert_eq!(folded(&[begins(900, 1, 10)]).each, [wait(10, Some(2), 100)]);
        assert_eq!(folded(&[leaves(900, false, 20)]).each, [wait(20, None, 100)]);
        assert_eq!(folded(&[leaves(20, false, 20), enters(80)]).each, []);
    }

    #[test]
    fn a_task_that_is_seen_spinning_waits_unless_its_lock_has_told_the_wait_already() {
        let seen = |at, stack| event(at, What::Seen { stack });
        let events = [seen(200, 50), seen(300, 51), begins(400, 1, 10), seen(410, 50), ends(420, 1)];
        assert_eq!(folded(&events).each, [wait(50, None, 5), wait(10, Some(2), 20)]);
    }

    #[test]
    fn other_processes_do_not_count() {
        let other = Event { process: 1, thread: 1, ..begins(200, 1, 10) };
        let end = Event { process: 1, thread: 1, ..ends(300, 1) };
        assert_eq!(folded(&[other, end]), Waits::default());
    }
}
