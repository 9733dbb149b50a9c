//! The order in which tasks take the processors of the host: the cores of one socket, those of the next, and the second hardware
//! threads of all cores last.
//!
//! What the kernel tells in `/sys/devices/system/cpu/cpuN/topology` decides; processors of which it tells nothing are cores of one
//! socket.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A processor, sorted by the order in which tasks take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Which hardware thread of its core it is.
    thread: usize,
    socket: u32,
    core: u32,
    processor: usize,
}

/// The processors on which the calling thread may run, in the order in which tasks take them; none where the host does not say.
pub(crate) fn processors() -> Vec<usize> {
    ordered(&allowed(), told).into_iter().map(|place| place.processor).collect()
}

/// Numbers of workers that show how this host scales: 1, 2 and 4, whole sockets, and all hardware threads, each at most once.
pub fn counts() -> Vec<u64> {
    counts_of(&ordered(&allowed(), told))
}

fn allowed() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect()
}

/// The socket and the core of a processor, as the kernel tells; asked for once, since every task that is started wants to know.
fn told(processor: usize) -> Option<(u32, u32)> {
    static ALL: OnceLock<Vec<Option<(u32, u32)>>> = OnceLock::new();
    let all = ALL.get_or_init(|| (0..rustix::thread::CpuSet::MAX_CPU).map(read).collect());
    all.get(processor).copied().flatten()
}

fn read(processor: usize) -> Option<(u32, u32)> {
    let number = |file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/{file}");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    Some((number("physical_package_id")?, number("core_id")?))
}

fn ordered(processors: &[usize], told: impl Fn(usize) -> Option<(u32, u32)>) -> Vec<Place> {
    let mut threads: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    let place = |processor: &usize| {
        let (socket, core) = told(*processor).unwrap_or((0, *processor as u32));
        let thread = threads.entry((socket, core)).or_default();
        *thread += 1;
        Place { thread: *thread - 1, socket, core, processor: *processor }
    };
    let mut places: Vec<Place> = processors.iter().map(place).collect();
    places.sort_unstable_by_key(|place| (place.thread, place.socket, place.core, place.processor));
    places
}

fn counts_of(places: &[Place]) -> Vec<u64> {
    let cores = places.iter().filter(|place| place.thread == 0);
    let mut sockets: BTreeMap<u32, u64> = BTreeMap::new();
    cores.for_each(|place| *sockets.entry(place.socket).or_default() += 1);
    let filled = sockets.values().scan(0, |sum, cores| {
        *sum += cores;
        Some(*sum)
    });
    let all = places.len() as u64;
    let mut counts: Vec<u64> = [1, 2, 4].into_iter().chain(filled).chain([all]).collect();
    counts.retain(|count| (1..=all.max(1)).contains(count));
    counts.sort_unstable();
    counts.dedup();
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores with two threads each, numbered as the firmware of many servers does: threads last.
    const TWO_SOCKETS: fn(usize) -> Option<(u32, u32)> =
        |processor| Some((processor as u32 % 2, processor as u32 / 2 % 2));

    fn order(allowed: &[usize], told: fn(usize) -> Option<(u32, u32)>) -> Vec<usize> {
        ordered(allowed, told).into_iter().map(|place| place.processor).collect()
    }

    #[test]
    fn cores_of_one_socket_come_first_then_the_other_sockets_and_hardware_threads_last() {
        assert_eq!(order(&[0, 1, 2, 3, 4, 5, 6, 7], TWO_SOCKETS), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(order(&[4, 5, 6], TWO_SOCKETS), [4, 6, 5], "of processors that this process may use");
    }

    #[test]
    fn processors_of_which_nothing_is_told_keep_their_order_and_are_cores() {
        assert_eq!(order(&[0, 1, 5], |_| None), [0, 1, 5]);
        assert!(ordered(&[0, 1, 5], |_| None).iter().all(|place| place.thread == 0));
    }

    #[test]
    fn counts_are_small_numbers_whole_sockets_and_all_hardware_threads() {
        assert_eq!(counts_of(&ordered(&[0, 1, 2, 3, 4, 5, 6, 7], TWO_SOCKETS)), [1, 2, 4, 8]);
        assert_eq!(counts_of(&ordered(&[0, 2], TWO_SOCKETS)), [1, 2]);
        assert_eq!(counts_of(&ordered(&[3], TWO_SOCKETS)), [1]);
    }
}
