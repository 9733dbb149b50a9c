//! The FAST 2024 study's experiments on the device alone: which claims follow from the order of the writes.
//!
//! Writes of a layout go to the device one call after the other, each waited for, as after fdatasync. Then the device is left
//! idle, and the target is read with direct I/O. What the host does in a read is [`HostCost`]; with none, the time is the
//! device's alone.
//!
//! These numbers are the device's answer. A claim that says ext4 is measured by ext4; its value here says what a file system has
//! to come to that hands out blocks in the order of the writes.

use media::flash::queues::Queues;
use media::flash::{Command, Data, Op, Outcome, PAGE, Ssd, SsdModel};
use sim::{KIB, MIB, Nanos};
use workload::block::Request;
use workload::fragmentation::layout::{self, Dummy, Layout, Traffic, Writing};
use workload::fragmentation::{STRIPE, TARGET, raw};

use super::host::HostCost;
use super::replay::wait;
use super::{command, commands};
use crate::error::Error;

/// Where the places of random reads come from: they are the same in every run.
pub const SEED: u64 = 1;

/// What is read, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of a call.
    pub call: u64,
    /// Requests that may be outstanding.
    pub depth: usize,
}

impl Reading {
    /// Figure 12: calls of 1 MiB.
    pub const CALLS: Self = Self { call: MIB, depth: 1_023 };
    /// Figures 3 and 4: one call, as many requests as the queue takes.
    pub const ONE_CALL: Self = Self { call: TARGET, depth: 1_023 };
    /// The same with a queue of one.
    pub const ONE_REQUEST: Self = Self { call: TARGET, depth: 1 };
}

/// A number of the device, beside the claim whose name it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The claim.
    pub id: &'static str,
    /// With the host's cost.
    pub value: f64,
    /// Of the device alone.
    pub device: f64,
    /// Whether the claim asks for no more than this: it needs no file system.
    pub complete: bool,
}

/// A device on which a layout was written.
#[derive(Debug)]
pub struct Written {
    /// The device.
    pub ssd: Ssd,
    /// What was written.
    pub traffic: Traffic,
}

/// Writes a layout on a fresh device.
pub fn write(model: &SsdModel, layout: &Layout) -> Result<Written, Error> {
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
    Ok(Written { ssd, traffic })
}

impl Written {
    /// Reads the target; returns MiB a second.
    pub fn read(&self, reading: Reading, host: HostCost) -> Result<f64, Error> {
        let mut ssd = self.ssd.clone();
        // A whole second: the beginning of a bucket of the links.
        let start = Nanos::from_secs(ssd.idle_at().0 / 1_000_000_000 + 1);
        let took = calls(&mut ssd, &self.traffic.reads(reading.call), reading.depth, host, start)?;
        Ok(TARGET as f64 / MIB as f64 / took.as_secs_f64())
    }

    /// The die of each page of the target, in the order of the file.
    pub fn dies(&self) -> Vec<u32> {
        let pages = self.traffic.extents.iter().flat_map(|(start, len)| (*start..start + len).step_by(4096));
        pages.filter_map(|page| self.ssd.layout(page)).map(|place| place.die).collect()
    }

    /// Pages on the most loaded die of each stretch of the file as long as a stripe, by the ideal; the mean over stretches.
    pub fn collisions(&self) -> f64 {
        let dies = self.dies();
        let worst = |stretch: &[u32]| {
            let most = stretch.iter().map(|die| stretch.iter().filter(|other| *other == die).count()).max();
            let ideal = stretch.len().div_ceil(self.ssd.config().dies() as usize);
            most.unwrap_or(0) as f64 / ideal as f64
        };
        let stretches = dies.chunks((STRIPE / 4096) as usize);
        let count = stretches.len().max(1);
        stretches.map(worst).sum::<f64>() / count as f64
    }
}

/// Carries calls out one after the other, the requests of each at once but for `depth`; returns how long it takes.
pub fn calls(
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

/// The same in MB a second.
fn aligned_rate(filled: &(Ssd, Nanos), align: u64, host: HostCost) -> Result<f64, Error> {
    Ok((ALIGNED_READS * 4 * KIB) as f64 / 1e6 / alignment(filled, align, host)?.as_secs_f64())
}

/// One experiment: its rows, each with a label, the value with the host's cost, and that of the device alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// What the numbers are.
    pub unit: &'static str,
    /// The rows.
    pub rows: Vec<(String, f64, f64)>,
}

/// Every experiment by name, with what it asks.
pub const EXPERIMENTS: [(&str, &str); 6] = [
    ("interface", "figure 7: time of 8 MiB by size of the request, queue depth 1 and 32"),
    ("alignment", "figure 8: throughput of 4-KiB reads by alignment"),
    ("degree", "figures 3 and 4: throughput by number of pieces, queue depth 1 and 1,023"),
    ("pseudo", "figure 11: dies restored by padding, without the approach"),
    (
        "sequences",
        "figure 12: random dummies, the sizes of the artifact's program and those of 64 other draws",
    ),
    ("hypothetical", "figure 12: contiguous, appends and overwrites, with and without the approach"),
];

/// Carries out one experiment on a device.
pub fn experiment(name: &str, model: &SsdModel, host: HostCost) -> Result<Experiment, Error> {
    match name {
        "interface" => interface_rows(model, host),
        "alignment" => alignment_rows(model, host),
        "degree" => degree_rows(model, host),
        "pseudo" => pseudo_rows(model, host),
        "hypothetical" => hypothetical_rows(model, host),
        "sequences" => sequences_rows(model, host),
        _ => Err(Error::Unknown {
            what: "experiment",
            name: name.to_owned(),
            advice: document::nearest(name, EXPERIMENTS.iter().map(|(name, _)| *name)),
        }),
    }
}

fn interface_rows(model: &SsdModel, host: HostCost) -> Result<Experiment, Error> {
    let filled = filled(model, 0)?;
    let mut rows = Vec::new();
    for depth in [1, 32] {
        for kib in [8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4] {
            let ms = |host| Ok::<_, Error>(interface(&filled, kib * KIB, depth, host)?.0 as f64 / 1e6);
            rows.push((format!("{kib} KiB, depth {depth}"), ms(host)?, ms(HostCost::NONE)?));
        }
    }
    Ok(Experiment { name: "interface", unit: "ms", rows })
}

fn alignment_rows(model: &SsdModel, host: HostCost) -> Result<Experiment, Error> {
    let filled = filled(model, 0)?;
    let steps = (1..=8).map(|k| k * 4).chain((2..=32).map(|k| k * 32));
    let rows = steps.map(|kib| {
        let at = |host| aligned_rate(&filled, kib * KIB, host);
        Ok((format!("{kib} KiB"), at(host)?, at(HostCost::NONE)?))
    });
    Ok(Experiment { name: "alignment", unit: "MB/s", rows: rows.collect::<Result<_, Error>>()? })
}

fn degree_rows(model: &SsdModel, host: HostCost) -> Result<Experiment, Error> {
    let mut rows = Vec::new();
    for (allocation, depth, reading) in [
        ("off", "1023", Reading::ONE_CALL),
        ("on", "1023", Reading::ONE_CALL),
        ("off", "1", Reading::ONE_REQUEST),
        ("on", "1", Reading::ONE_REQUEST),
    ] {
        for pieces in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
            let written = write(&with(model, allocation)?, &layout::degree(pieces))?;
            let label = format!("{pieces} pieces, {allocation}, depth {depth}");
            rows.push((label, written.read(reading, host)?, written.read(reading, HostCost::NONE)?));
        }
    }
    Ok(Experiment { name: "degree", unit: "MiB/s", rows })
}

fn pseudo_rows(model: &SsdModel, host: HostCost) -> Result<Experiment, Error> {
    let model = with(model, "off")?;
    let mut rows = Vec::new();
    for (what, writing) in [("append", Writing::Appends(256)), ("overwrite", Writing::Overwrites(256))] {
        for (state, restored) in [("off", false), ("on", true)] {
            let written = write(&model, &layout::pseudo(writing, restored))?;
            let read = |host| written.read(Reading::CALLS, host);
            rows.push((format!("{what}, {state}"), read(host)?, read(HostCost::NONE)?));
        }
    }
    Ok(Experiment { name: "pseudo", unit: "MiB/s", rows })
}

fn hypothetical_rows(model: &SsdModel, host: HostCost) -> Result<Experiment, Error> {
    let mut rows = Vec::new();
    for (name, layout) in layout::FIGURE_12 {
        for allocation in ["off", "on"] {
            if layout.writing == Writing::AtOnce && allocation == "on" {
                continue;
            }
            let written = write(&with(model, allocation)?, &layout)?;
            let read = |host| written.read(Reading::CALLS, host);
            rows.push((format!("{name}, {allocation}"), read(host)?, read(HostCost::NONE)?));
        }
    }
    Ok(Experiment { name: "hypothetical", unit: "MiB/s", rows })
}

/// One sequence of sizes is no trend: the artifact's, and what many others give.
fn sequences_rows(model: &SsdModel, host: HostCost) -> Result<Experiment, Error> {
    const DRAWS: u64 = 64;
    let mut rows = Vec::new();
    for (what, writing) in [("append", Writing::Appends(256)), ("overwrite", Writing::Overwrites(256))] {
        for allocation in ["off", "on"] {
            let model = with(model, allocation)?;
            let read = |dummy| {
                let written = write(&model, &Layout { writing, dummy, phase: 0 })?;
                let read = |host| written.read(Reading::CALLS, host);
                Ok::<_, Error>((read(host)?, read(HostCost::NONE)?))
            };
            let published = read(Dummy::Published)?;
            rows.push((format!("{what}, {allocation}, the program's"), published.0, published.1));
            let draws =
                (SEED..=DRAWS).map(|seed| read(Dummy::Random(seed))).collect::<Result<Vec<_>, _>>()?;
            let (with_host, device): (Vec<f64>, Vec<f64>) = draws.into_iter().unzip();
            let (with_host, device) = (spread(&with_host), spread(&device));
            let names = ["least", "mean", "most", "standard deviation"];
            for (name, (value, device)) in names.iter().zip(with_host.into_iter().zip(device)) {
                rows.push((
                    format!("{what}, {allocation}, {DRAWS} draws from seed {SEED}, {name}"),
                    value,
                    device,
                ));
            }
        }
    }
    Ok(Experiment { name: "sequences", unit: "MiB/s", rows })
}

/// Least, mean, most, and the standard deviation.
fn spread(values: &[f64]) -> [f64; 4] {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    [least, mean, values.iter().copied().fold(0.0, f64::max), variance.sqrt()]
}

/// The device with its allocation switched.
fn with(model: &SsdModel, allocation: &str) -> Result<SsdModel, Error> {
    let mut model = model.clone();
    model
        .set("allocation", allocation, "the experiment")
        .map_err(|error| Error::Setting(error.to_string()))?;
    Ok(model)
}

/// Every claim on which the device has an answer.
pub fn answers(model: &SsdModel, host: HostCost) -> Result<Vec<Answer>, Error> {
    let mut answers = answers_of_device(model, 0, host)?;
    let rows = hypothetical_rows(model, host)?.rows;
    answers.extend(rows_12(&rows));
    answers.extend(pseudo_answers(&pseudo_rows(model, host)?.rows));
    answers.extend(degree_answers(&degree_rows(model, host)?.rows));
    Ok(answers)
}

/// The claims that ask for no more than the device. Its open flash page holds `phase` pages before the first write.
pub fn answers_of_device(model: &SsdModel, phase: u64, host: HostCost) -> Result<Vec<Answer>, Error> {
    let mut answers = Vec::new();
    let filled = filled(model, phase)?;
    let time = |block, depth, host| Ok::<_, Error>(interface(&filled, block, depth, host)?.0 as f64);
    let ratio = |a, b, depth, host| Ok::<_, Error>(time(a, depth, host)? / time(b, depth, host)?);
    let complete = |id, value, device| Answer { id, value, device, complete: true };
    let (small, large) = (4 * KIB, 256 * KIB);
    let one = (ratio(small, large, 1, host)?, ratio(small, large, 1, HostCost::NONE)?);
    answers.push(complete("frag.interface.qd1", one.0, one.1));
    let many = (ratio(32 * KIB, large, 32, host)?, ratio(32 * KIB, large, 32, HostCost::NONE)?);
    answers.push(complete("frag.interface.qd32", many.0, many.1));
    let dip =
        |host| Ok::<_, Error>(aligned_rate(&filled, large, host)? / aligned_rate(&filled, small, host)?);
    answers.push(complete("frag.alignment.stripe", dip(host)?, dip(HostCost::NONE)?));
    Ok(answers)
}

/// A row's two values.
fn row(rows: &[(String, f64, f64)], label: &str) -> [f64; 2] {
    rows.iter().find(|(name, ..)| name == label).map_or([f64::NAN; 2], |(_, with, device)| [*with, *device])
}

/// An answer that a file system has to confirm.
fn answer(id: &'static str, [value, device]: [f64; 2]) -> Answer {
    Answer { id, value, device, complete: false }
}

fn rows_12(rows: &[(String, f64, f64)]) -> Vec<Answer> {
    const ROWS: [(&str, &str); 9] = [
        ("frag.contiguous", "contiguous, off"),
        ("frag.append.worst.off", "append-worst, off"),
        ("frag.append.worst.on", "append-worst, on"),
        ("frag.append.random.off", "append-random, off"),
        ("frag.append.random.on", "append-random, on"),
        ("frag.overwrite.worst.off", "overwrite-worst, off"),
        ("frag.overwrite.worst.on", "overwrite-worst, on"),
        ("frag.overwrite.random.off", "overwrite-random, off"),
        ("frag.overwrite.random.on", "overwrite-random, on"),
    ];
    let mut answers: Vec<Answer> = ROWS.iter().map(|(id, label)| answer(id, row(rows, label))).collect();
    let [whole, off, on] =
        ["contiguous, off", "append-worst, off", "append-worst, on"].map(|label| row(rows, label));
    let again = row(rows, "overwrite-worst, off");
    let both = [0, 1];
    answers.push(answer("frag.overwrite.as_append", both.map(|i: usize| again[i] / off[i])));
    let share = |i: usize| (1.0 / on[i] - 1.0 / whole[i]) / (1.0 / off[i] - 1.0 / whole[i]);
    answers.push(answer("frag.splitting.share", both.map(share)));
    answers
}

fn pseudo_answers(rows: &[(String, f64, f64)]) -> [Answer; 2] {
    [("frag.pseudo.append", "append"), ("frag.pseudo.overwrite", "overwrite")].map(|(id, what)| {
        let [off, on] = ["off", "on"].map(|state| row(rows, &format!("{what}, {state}")));
        answer(id, [on[0] / off[0], on[1] / off[1]])
    })
}

fn degree_answers(rows: &[(String, f64, f64)]) -> [Answer; 2] {
    let at = |pieces: u32| row(rows, &format!("{pieces} pieces, off, depth 1023"));
    let ratio = |a: [f64; 2], b: [f64; 2]| [a[0] / b[0], a[1] / b[1]];
    [answer("frag.dof.knee", ratio(at(128), at(32))), answer("frag.dof.flat", ratio(at(32), at(1)))]
}
