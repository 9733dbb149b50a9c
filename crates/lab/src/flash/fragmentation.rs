//! What requests take on an SSD alone: a file in pieces, raw reads of a device that was filled.
//!
//! Writes of a layout go to the device one call after the other, each waited for, as after fdatasync. Then the device is left
//! idle, and the target is read with direct I/O. What the host does in a read is [`HostCost`]; with none, the time is the
//! device's alone.

use media::flash::queues::Queues;
use media::flash::{Command, Data, Op, Outcome, PAGE, Ssd, SsdModel};
use sim::{MIB, Nanos};
use workload::block::Request;
use workload::fragmentation::layout::Layout;
use workload::fragmentation::raw;

use super::host::HostCost;
use super::replay::wait;
use super::{command, commands};
use crate::error::Error;

/// Where the places of random reads come from: they are the same in every run.
const SEED: u64 = 1;

/// What is read, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Bytes of a call.
    pub(super) call: u64,
    /// Requests that may be outstanding.
    pub(super) depth: usize,
}

impl Reading {
    /// Figure 12: calls of 1 MiB.
    pub(super) const CALLS: Self = Self { call: MIB, depth: 1_023 };
}

/// Writes a layout on a fresh device and reads the target; returns the time of the reads with the host's cost, and that of the
/// device alone.
pub(super) fn pieces(
    model: &SsdModel,
    layout: &Layout,
    reading: Reading,
    host: HostCost,
) -> Result<[Nanos; 2], Error> {
    let mut ssd = Ssd::new(&model.config()?, Data::Drop)?;
    let traffic = layout.traffic();
    let mut now = Nanos::ZERO;
    for call in &traffic.writes {
        let mut done = now;
        for request in call {
            for command in commands(request, &ssd) {
                done = done.max(wait(&mut ssd, &command, now)?);
                now = ssd.now();
            }
        }
        now = now.max(done);
    }
    // A whole second: the beginning of a bucket of the links.
    let start = Nanos::from_secs(ssd.idle_at().0 / 1_000_000_000 + 1);
    let reads = traffic.reads(reading.call);
    let read = |host| calls(&mut ssd.clone(), &reads, reading.depth, host, start);
    Ok([read(host)?, read(HostCost::NONE)?])
}

/// Carries calls out one after the other, the requests of each at once but for `depth`; returns how long it takes.
pub(super) fn calls(
    ssd: &mut Ssd,
    calls: &[Vec<Request>],
    depth: usize,
    host: HostCost,
    start: Nanos,
) -> Result<Nanos, Error> {
    let mut now = start;
    for requests in calls {
        now += host.before(requests.iter().map(|request| request.bytes).sum());
        let mut flying: Vec<Nanos> = Vec::new();
        for request in requests {
            if flying.len() >= depth {
                flying.sort_unstable();
                now = now.max(flying.remove(0));
            }
            now += host.request;
            match ssd.submit(&command(request), now)? {
                Outcome::Done { at } => flying.push(at),
                Outcome::Busy { .. } => {
                    return Err(Error::Setting("a read found the device busy".to_owned()));
                }
            }
        }
        now = flying.into_iter().fold(now, Nanos::max);
    }
    Ok(now.since(start))
}

/// The device after `raw::fill`, before which its open flash page held `phase` pages, and the beginning of a bucket long after.
pub(super) fn filled(model: &SsdModel, phase: u64) -> Result<(Ssd, Nanos), Error> {
    let mut ssd = Ssd::new(&model.config()?, Data::Drop)?;
    let mut now = Nanos::ZERO;
    let end = ssd.size(0)?.0;
    for page in 1..=phase {
        now = wait(&mut ssd, &Command::new(Op::Write, end - page * PAGE, PAGE), now)?;
    }
    for request in raw::fill() {
        now = wait(&mut ssd, &command(&request), now)?;
    }
    let start = Nanos::from_secs(ssd.idle_at().0 / 1_000_000_000 + 1);
    Ok((ssd, start))
}

/// Draws of places in figure 7.
const INTERFACE_DRAWS: u64 = 10;
/// Reads of figure 8.
pub(super) const ALIGNED_READS: u64 = 40_000;

/// Figure 7: how long 8 MiB take in blocks of this size, mean of ten draws, on a device that was filled.
pub(super) fn interface(
    filled: &(Ssd, Nanos),
    block: u64,
    depth: usize,
    host: HostCost,
) -> Result<Nanos, Error> {
    let mut total = Nanos::ZERO;
    for draw in 0..INTERFACE_DRAWS {
        let mut ssd = filled.0.clone();
        let reads = raw::interface(block, draw);
        total += if depth == 1 {
            calls(&mut ssd, &reads, usize::MAX, host, filled.1)?
        } else {
            closed(&mut ssd, reads.into_iter().flatten(), depth, host, filled.1)?
        };
    }
    Ok(total / INTERFACE_DRAWS)
}

/// Requests with `depth` outstanding, each followed by the next; returns how long all take.
fn closed(
    ssd: &mut Ssd,
    mut requests: impl Iterator<Item = Request>,
    depth: usize,
    host: HostCost,
    start: Nanos,
) -> Result<Nanos, Error> {
    let mut queues = Queues::new(1);
    let mut post = |queues: &mut Queues, at: Nanos| {
        let Some(request) = requests.next() else { return };
        let at = at + host.before(request.bytes) + host.request;
        queues.post(0, 0, command(&request), at);
    };
    (0..depth).for_each(|_| post(&mut queues, start));
    let mut last = start;
    while let Some(done) = queues.next(ssd)? {
        last = done.at;
        post(&mut queues, last);
    }
    Ok(last.since(start))
}

/// Figure 8: how long 4-KiB reads at multiples of `align` bytes take, 32 outstanding.
pub(super) fn alignment(filled: &(Ssd, Nanos), align: u64, host: HostCost) -> Result<Nanos, Error> {
    let mut ssd = filled.0.clone();
    let depth = raw::OUTSTANDING as usize;
    closed(&mut ssd, raw::alignment(align, ALIGNED_READS, SEED), depth, host, filled.1)
}
