//! The array: dies behind channels, and the link to the host. It knows physical places and times, no mapping.
//!
//! A die does one thing at a time, in the order of calls (NVMeVirt, FAST 2023, section 3.3):
//!
//! | operation | takes |
//! |---|---|
//! | read | sense, then the data leaves through the channel in bursts; the die is held until the last has left |
//! | program | the data comes through the channel, then the program |
//! | erase | the erase |
//!
//! With `plane_reads` each plane of a die senses by itself; a program holds all of them.

use super::config::{Config, Timing};
use super::link::Link;

/// Which physical page an operation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The die, counted over the device.
    pub(crate) die: u32,
    /// The plane of the die.
    pub(crate) plane: u32,
    /// Which bit of its cells: 0 is the least significant.
    pub(crate) cell: u32,
}

/// The dies and their links.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    timing: Timing,
    /// Planes that sense by themselves: 1 without `plane_reads`.
    planes: u32,
    channels_per_part: u32,
    dies_per_part: u32,
    /// When each plane is free, in ns.
    free_at: Vec<u64>,
    /// How long each die has been busy, in ns.
    busy_ns: Vec<u64>,
    channels: Vec<Link>,
    pcie: Link,
}

impl Array {
    pub(crate) fn new(config: &Config) -> Self {
        let timing = config.timing;
        let planes = if config.plane_reads { config.planes } else { 1 };
        let channel = Link::new(timing.channel_bytes_per_s, timing.transfer_ns_per_4k);
        Self {
            timing,
            planes,
            channels_per_part: config.channels / config.partitions,
            dies_per_part: config.dies() / config.partitions,
            free_at: vec![0; (config.dies() * planes) as usize],
            busy_ns: vec![0; config.dies() as usize],
            channels: vec![channel; config.channels as usize],
            pcie: Link::new(timing.pcie_bytes_per_s, 0),
        }
    }

    /// Reads `bytes` of one flash page from `at` on; returns when the last byte has left the channel, or the PCIe link if
    /// `to_host`.
    pub(crate) fn read(&mut self, now: u64, at: u64, place: Place, bytes: u64, to_host: bool) -> u64 {
        let plane = (place.die * self.planes + place.plane % self.planes) as usize;
        let start = self.free_at[plane].max(at);
        let sense = if bytes == 4_096 { &self.timing.read_4k_ns } else { &self.timing.read_ns };
        let mut left_die = start + sense[place.cell as usize];
        let channel = self.channel(place.die);
        let (mut done, mut left) = (left_die, bytes);
        while left > 0 {
            let burst = left.min(self.timing.burst_bytes);
            left_die = self.channels[channel].request(now, left_die, burst);
            done = if to_host { self.pcie.request(now, left_die, burst) } else { left_die };
            left -= burst;
        }
        self.busy_ns[place.die as usize] += left_die - start;
        self.free_at[plane] = left_die;
        done
    }

    /// Programs `bytes` into a die from `at` on; returns when it is durable.
    pub(crate) fn program(&mut self, now: u64, at: u64, die: u32, bytes: u64) -> u64 {
        let start = self.free_at(die).max(at);
        let channel = self.channel(die);
        let done = self.channels[channel].request(now, start, bytes) + self.timing.program_ns;
        self.occupy(die, start, done);
        done
    }

    /// Erases the blocks of a line that lie on this die.
    pub(crate) fn erase(&mut self, at: u64, die: u32) -> u64 {
        let start = self.free_at(die).max(at);
        let done = start + self.timing.erase_ns;
        self.occupy(die, start, done);
        done
    }

    /// Moves `bytes` over the PCIe link.
    pub(crate) fn host_transfer(&mut self, now: u64, at: u64, bytes: u64) -> u64 {
        self.pcie.request(now, at, bytes)
    }

    /// Power is lost: dies stop in the middle of what they do.
    pub(crate) fn stop(&mut self, now: u64) {
        self.free_at.iter_mut().for_each(|at| *at = now.min(*at));
    }

    /// When every die has done what it was told.
    pub(crate) fn all_free_at(&self) -> u64 {
        self.free_at.iter().copied().max().unwrap_or(0)
    }

    /// How long each die has been busy, in ns; what was told and lies ahead counts as well.
    pub(crate) fn busy_ns(&self) -> &[u64] {
        &self.busy_ns
    }

    fn planes_of(&self, die: u32) -> std::ops::Range<usize> {
        let first = (die * self.planes) as usize;
        first..first + self.planes as usize
    }

    fn free_at(&self, die: u32) -> u64 {
        self.free_at[self.planes_of(die)].iter().copied().max().unwrap_or(0)
    }

    fn occupy(&mut self, die: u32, start: u64, done: u64) {
        self.busy_ns[die as usize] += done - start;
        let planes = self.planes_of(die);
        self.free_at[planes].fill(done);
    }

    /// Dies of a partition are spread over its channels, channel first.
    fn channel(&self, die: u32) -> usize {
        let (part, within) = (die / self.dies_per_part, die % self.dies_per_part);
        (part * self.channels_per_part + within % self.channels_per_part) as usize
    }
}
