//! Which I/O is next: direction, file, offset, length, and when it is due.
//!
//! A source is that of one clone; its tasks ask it in turn. It knows nothing of calls or clocks.
//!
//! | decided by | how |
//! |---|---|
//! | direction | `rwmixread`, drawn for each I/O; of one that is not due yet the other one, if it has no rate or is due earlier |
//! | file | `file_service_type`, among those that are not finished |
//! | offset | next in sequence, or drawn (`distribution`), or drawn among blocks that were not visited (`map`) |
//! | length | `bs`, `bsrange`, `bssplit`; shortened at the end of a file and before a visited block |
//! | due | the number or bytes of earlier I/Os of the direction by the rate, from the start of the job |
//!
//! Streams of randomness follow fio: `randrepeat` (default) fixes offsets, `allrandrepeat` everything, `randseed` sets the seed of
//! all; what is left follows the seed of the run. With `randrepeat` a pass draws the same offsets as the one before it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rand::RngExt as _;
use rand_distr::{Distribution as _, Exp1};
use sim::{Nanos, Rng, Seed};

use super::clones::JobClone;
use super::distribution::Sampler;
use super::job::{Direction, JobSpec, Rate, Service, Sizes};
use super::log::Recorded;
use super::map::BlockMap;
use super::verify::Stamp;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Trim,
    Fsync,
    Fdatasync,
    /// A read whose content must be that of a write.
    Verify(Stamp),
}

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Io {
    pub(super) kind: Kind,
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// The number of the write, for what it writes.
    pub(super) number: u64,
    /// From the start of the job; none without a rate.
    pub(super) due: Option<Nanos>,
}

/// What the source says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Io(Io),
    /// Ask again when no I/O is under way.
    Drain,
    /// Sleep so long, then ask again.
    Think(Nanos),
    /// The pass is over.
    End,
    /// What comes next is due after the end of the job, which lasts until then.
    Late,
}

/// A file as the source sees it; offsets are from the beginning of its region.
#[derive(Debug)]
struct State {
    first: u64,
    bytes: u64,
    /// Where the current zone begins (`zonemode=strided`).
    zone: u64,
    next: [u64; 3],
    map: Option<BlockMap>,
    samplers: [Option<Sampler>; 3],
    finished: bool,
}

/// What was written and is not read back yet, by file and offset: length and number.
type Written = BTreeMap<(usize, u64), (u64, u64)>;

/// The I/O of a clone.
#[derive(Debug)]
pub(super) struct Source {
    spec: Arc<JobSpec>,
    clone: u64,
    seeds: Seeds,
    offsets: Rng,
    mix: Rng,
    sizes: Rng,
    choice: Rng,
    arrivals: Rng,
    files: Vec<State>,
    current: usize,
    /// I/Os before another file is chosen.
    stay: u64,
    /// I/Os that follow the last random offset.
    burst: u64,
    /// Bytes of a map's block.
    unit: u64,
    /// Bytes of I/O in the current zone.
    zone_bytes: u64,
    /// I/Os of the log that were given out.
    replayed: usize,
    pass: u64,
    pass_left: u64,
    /// I/Os and bytes by direction, of the whole job.
    ios: [u64; 3],
    bytes: [u64; 3],
    /// When the next arrival of a Poisson process is due.
    arrival: [Nanos; 3],
    shift: Nanos,
    writes: u64,
    since_thinking: u64,
    thought: Nanos,
    sync_owed: VecDeque<Io>,
    write_owed: Option<Io>,
    written: Written,
    since_backlog: u64,
    backlog: VecDeque<Io>,
}

/// Where the streams start.
#[derive(Clone, Copy, Debug)]
struct Seeds {
    offsets: Seed,
    others: Seed,
}

/// fio's default seed, by which repeatable streams start.
const REPEATABLE: Seed = Seed(0xb189_9bed);

impl Seeds {
    fn of(spec: &JobSpec, run: Seed) -> Self {
        let fixed = spec.rand_seed.map(Seed);
        let all = if spec.all_rand_repeat { REPEATABLE } else { run };
        let offsets = if spec.rand_repeat { REPEATABLE } else { all };
        Self { offsets: fixed.unwrap_or(offsets), others: fixed.unwrap_or(all) }
    }
}

impl Source {
    /// The source of a clone in a run with this seed.
    pub(super) fn new(clone: &JobClone, run: Seed) -> Self {
        let (spec, seeds) = (Arc::clone(&clone.spec), Seeds::of(&clone.spec, run));
        let stream = |label: &str| seeds.others.derive(label, clone.number).rng();
        let unit = spec.min_size();
        let state = |file: &super::clones::FileSpec| {
            let drawn = spec.zones.map_or(file.bytes, |zones| zones.range.min(file.bytes));
            State {
                first: file.offset,
                bytes: file.bytes,
                zone: 0,
                next: [0; 3],
                map: spec.map.then(|| BlockMap::new(drawn / unit)),
                samplers: Direction::ALL.map(|d| sampler(&spec, d, drawn)),
                finished: false,
            }
        };
        let files = clone.files.iter().map(state).collect();
        let mut source = Self {
            clone: clone.number,
            offsets: seeds.offsets.derive("offsets", clone.number).rng(),
            mix: stream("mix"),
            sizes: stream("sizes"),
            choice: stream("files"),
            arrivals: stream("arrivals"),
            seeds,
            files,
            unit,
            zone_bytes: 0,
            replayed: 0,
            current: usize::MAX,
            stay: 0,
            burst: 0,
            pass: clone.pass,
            pass_left: clone.pass,
            ios: [0; 3],
            bytes: [0; 3],
            arrival: [Nanos::ZERO; 3],
            shift: Nanos::ZERO,
            writes: 0,
            since_thinking: 0,
            thought: Nanos::ZERO,
            sync_owed: VecDeque::new(),
            write_owed: None,
            written: Written::new(),
            since_backlog: 0,
            backlog: VecDeque::new(),
            spec,
        };
        source.first_arrivals();
        source
    }

    /// Begins another pass of at most `left` bytes.
    pub(super) fn restart(&mut self, left: u64) {
        self.pass_left = self.pass.min(left);
        for file in &mut self.files {
            (file.zone, file.next, file.finished) = (0, [0; 3], false);
            file.map.as_mut().map(BlockMap::clear);
        }
        (self.current, self.stay, self.burst, self.zone_bytes) = (usize::MAX, 0, 0, 0);
        if self.spec.rand_repeat {
            self.offsets = self.seeds.offsets.derive("offsets", self.clone).rng();
        }
    }

    /// Bytes that all passes so far have moved: of trims that are followed by writes, those of the writes.
    pub(super) fn moved(&self) -> u64 {
        self.bytes[0] + self.bytes[1] + if self.spec.mode.writes { 0 } else { self.bytes[2] }
    }

    /// Whether `number_ios` has been reached.
    pub(super) fn is_exhausted(&self) -> bool {
        let done: u64 = self.ios.iter().sum();
        self.spec.number_ios.is_some_and(|number| done >= number.saturating_mul(self.spec.loops))
    }

    /// What is to be read back, in the order of files and offsets; it is forgotten here.
    pub(super) fn take_written(&mut self) -> VecDeque<Io> {
        let written = std::mem::take(&mut self.written);
        let read = |((file, offset), (len, number)): ((usize, u64), (u64, u64))| {
            let kind = Kind::Verify(self.stamp(number));
            Io { kind, file, offset, len, number, due: None }
        };
        written.into_iter().map(read).collect()
    }

    /// The stamp of write `number`.
    pub(super) fn stamp(&self, number: u64) -> Stamp {
        Stamp { seed: self.seeds.others.0, job: self.clone as u32, number }
    }

    /// What follows from I/Os that were given out: the write after a trim, a sync.
    pub(super) fn owed(&mut self) -> Option<Io> {
        self.write_owed.take().or_else(|| self.sync_owed.pop_front())
    }

    /// The next I/O at `now` of a job that ends at `limit`, both from its start, with `under_way` I/Os that have not ended.
    pub(super) fn next(&mut self, now: Nanos, limit: Nanos, under_way: usize) -> Next {
        if let Some(io) = self.owed() {
            return Next::Io(io);
        }
        if let Some(next) = self.read_back(under_way).or_else(|| self.think(now, under_way)) {
            return next;
        }
        if self.spec.log.is_some() {
            return self.replay(limit);
        }
        if self.pass_left == 0 || self.is_exhausted() {
            return Next::End;
        }
        let direction = self.direction(now);
        let due = self.due(direction);
        if due.is_some_and(|due| due >= limit) {
            return Next::Late;
        }
        let Some(mut io) = self.place(direction) else { return Next::End };
        io.due = due;
        self.count(direction, &io);
        Next::Io(io)
    }

    /// The next I/O of the log.
    fn replay(&mut self, limit: Nanos) -> Next {
        let found = self.spec.log.as_ref().and_then(|log| log.ios.get(self.replayed).copied());
        let Some(Recorded { kind, file, offset, len, at }) = found else { return Next::End };
        let due = at.map(|at| at + self.shift);
        if due.is_some_and(|due| due >= limit) {
            return Next::Late;
        }
        self.replayed += 1;
        let io = Io { kind, file, offset, len, number: self.writes, due };
        match kind {
            Kind::Read => self.count(Direction::Read, &io),
            Kind::Write => self.count(Direction::Write, &io),
            Kind::Trim => self.ios[Direction::Trim as usize] += 1,
            Kind::Fsync | Kind::Fdatasync | Kind::Verify(_) => {}
        }
        Next::Io(io)
    }

    /// Reads of the backlog, when enough was written.
    fn read_back(&mut self, under_way: usize) -> Option<Next> {
        let backlog = self.spec.verify.as_ref().map_or(0, |verify| verify.backlog);
        if let Some(io) = self.backlog.pop_front() {
            return Some(Next::Io(io));
        }
        if backlog == 0 || self.since_backlog < backlog {
            return None;
        }
        if under_way > 0 {
            return Some(Next::Drain);
        }
        self.since_backlog = 0;
        self.backlog = self.take_written();
        self.backlog.pop_front().map(Next::Io)
    }

    /// A pause, when one is due.
    fn think(&mut self, now: Nanos, under_way: usize) -> Option<Next> {
        let thinking = self.spec.thinking?;
        let enough = self.since_thinking >= thinking.blocks;
        let long =
            thinking.after.is_some_and(|after| self.since_thinking > 0 && now.since(self.thought) >= after);
        if !enough && !long {
            return None;
        }
        if under_way > 0 {
            return Some(Next::Drain);
        }
        self.since_thinking = 0;
        self.thought = now + thinking.time;
        if self.spec.pace.ignores_thinking {
            self.shift += thinking.time;
        }
        Some(Next::Think(thinking.time))
    }

    fn direction(&mut self, now: Nanos) -> Direction {
        match (self.spec.mode.reads, self.spec.mode.writes, self.spec.mode.trims) {
            (true, true, _) => {
                let drawn = self.mix.random_range(0..100) < self.spec.reads_percent;
                let (drawn, other, percent) = if drawn {
                    (Direction::Read, Direction::Write, 100 - self.spec.reads_percent)
                } else {
                    (Direction::Write, Direction::Read, self.spec.reads_percent)
                };
                match (self.due(drawn), self.due(other)) {
                    (Some(due), Some(earlier)) if due > now && earlier < due => other,
                    // A direction without a rate is not held back by the other one's.
                    (Some(due), None) if due > now && percent > 0 => other,
                    _ => drawn,
                }
            }
            (true, ..) => Direction::Read,
            (_, true, false) => Direction::Write,
            _ => Direction::Trim,
        }
    }

    /// When the next I/O of a direction is due.
    fn due(&self, direction: Direction) -> Option<Nanos> {
        const SECOND: u128 = 1_000_000_000;
        let at = direction as usize;
        let rate = self.spec.pace.rates[at]?;
        if self.spec.pace.poisson {
            return Some(self.arrival[at] + self.shift);
        }
        let nanos = match rate {
            Rate::Bytes(rate) => u128::from(self.bytes[at]) * SECOND / u128::from(rate),
            Rate::Ios(rate) => u128::from(self.ios[at]) * SECOND / u128::from(rate),
        };
        Some(Nanos(nanos as u64) + self.shift)
    }

    fn first_arrivals(&mut self) {
        for direction in Direction::ALL {
            let interval = self.interval(direction, self.spec.sizes[direction as usize].min());
            self.arrival[direction as usize] = interval;
        }
    }

    /// A random time between two arrivals, after an I/O of `len` bytes.
    fn interval(&mut self, direction: Direction, len: u64) -> Nanos {
        let Some(rate) = self.spec.pace.rates[direction as usize].filter(|_| self.spec.pace.poisson) else {
            return Nanos::ZERO;
        };
        let seconds = match rate {
            Rate::Bytes(rate) => len as f64 / rate as f64,
            Rate::Ios(rate) => 1.0 / rate as f64,
        };
        let drawn: f64 = Exp1.sample(&mut self.arrivals);
        Nanos((drawn * seconds * 1e9) as u64)
    }

    /// Notes what is given out, and what follows from it.
    fn count(&mut self, direction: Direction, io: &Io) {
        let at = direction as usize;
        self.ios[at] += 1;
        self.bytes[at] += io.len;
        self.pass_left = self.pass_left.saturating_sub(io.len);
        self.since_thinking += 1;
        let interval = self.interval(direction, io.len);
        self.arrival[at] += interval;
        match direction {
            Direction::Write => self.has_written(io),
            Direction::Trim if self.spec.mode.writes => {
                let write = Io { kind: Kind::Write, due: None, ..*io };
                self.ios[Direction::Write as usize] += 1;
                self.bytes[Direction::Write as usize] += io.len;
                self.write_owed = Some(write);
                self.has_written(&write);
            }
            Direction::Read | Direction::Trim => {}
        }
    }

    fn has_written(&mut self, io: &Io) {
        self.writes += 1;
        for (every, kind) in [(self.spec.fsync, Kind::Fsync), (self.spec.fdatasync, Kind::Fdatasync)] {
            if every > 0 && self.writes.is_multiple_of(every) {
                self.sync_owed.push_back(Io { kind, len: 0, due: None, ..*io });
            }
        }
        if self.spec.verify.is_none() {
            return;
        }
        self.since_backlog += 1;
        let (file, start, end) = (io.file, io.offset, io.offset + io.len);
        // What it overwrites is not what was written there before any more.
        let reach = self.spec.max_size();
        let before = self.written.range((file, start.saturating_sub(reach))..(file, end));
        let over: Vec<_> =
            before.filter(|((_, at), (len, _))| at + len > start).map(|(key, _)| *key).collect();
        for key in over {
            self.written.remove(&key);
        }
        self.written.insert((file, start), (io.len, io.number));
    }

    /// An I/O of `direction`; none when no file has one.
    fn place(&mut self, direction: Direction) -> Option<Io> {
        loop {
            let file = self.file()?;
            match self.place_in(file, direction) {
                Some((offset, len)) => {
                    let kind = match direction {
                        Direction::Read => Kind::Read,
                        Direction::Write => Kind::Write,
                        Direction::Trim => Kind::Trim,
                    };
                    let offset = self.files[file].first + offset;
                    self.stay = self.stay.saturating_sub(1);
                    return Some(Io { kind, file, offset, len, number: self.writes, due: None });
                }
                None => {
                    self.files[file].finished = true;
                    self.stay = 0;
                }
            }
        }
    }

    /// The file that is served now.
    fn file(&mut self) -> Option<usize> {
        let open: Vec<usize> = if self.files.len() == 1 {
            return (!self.files[0].finished).then_some(0);
        } else {
            (0..self.files.len()).filter(|file| !self.files[*file].finished).collect()
        };
        if self.stay > 0 && !self.files[self.current].finished {
            return Some(self.current);
        }
        let after = |current: usize| open.iter().find(|file| current == usize::MAX || **file > current);
        let (chosen, stay) = match self.spec.service {
            Service::RoundRobin(stay) => (after(self.current).or(open.first()).copied()?, stay),
            Service::Random(stay) if !open.is_empty() => {
                (open[self.choice.random_range(0..open.len())], stay)
            }
            Service::Random(_) => return None,
            Service::Sequential(_) => (open.first().copied()?, u64::MAX),
        };
        (self.current, self.stay) = (chosen, stay);
        Some(chosen)
    }

    /// Goes on to the next zone when the current one has had its bytes (`zonemode=strided`).
    fn stride(&mut self, file: usize, direction: Direction) {
        let Some(zones) = self.spec.zones else { return };
        let state = &mut self.files[file];
        if self.zone_bytes >= zones.size {
            self.zone_bytes = 0;
            state.zone += zones.range + zones.skip;
            if state.zone >= state.bytes {
                state.zone = 0;
            }
        }
        if self.zone_bytes.is_multiple_of(zones.range) {
            state.next = [state.zone; 3];
            state.map.as_mut().map(BlockMap::clear);
        }
        let next = &mut state.next[direction as usize];
        if *next >= state.zone + zones.range {
            *next = state.zone;
        }
    }

    /// Where a sequential I/O begins, by the arithmetic of fio 3.33. With a skip (`rw=read:8k`, `rw=read:-8k`) an I/O that would
    /// begin beyond an end of the file begins at the other end, until `size` is done; behind an `offset` it often ends there.
    fn sequential(&self, file: usize, direction: Direction) -> u64 {
        let State { first, bytes, .. } = self.files[file];
        let (mut next, skip) = (self.files[file].next[direction as usize], self.spec.mode.modifier);
        if skip == 0 || next >= bytes {
            return next;
        }
        let whole = first + bytes;
        if skip < 0 && next == 0 && first > 0 {
            next = bytes.wrapping_sub(first);
        }
        if next == 0 {
            return 0;
        }
        match next.wrapping_add_signed(skip) {
            beyond if beyond >= whole && skip > 0 => first,
            beyond if beyond >= whole => bytes.wrapping_add_signed(skip),
            next => next,
        }
    }

    /// Offset and length within the region of a file.
    fn place_in(&mut self, file: usize, direction: Direction) -> Option<(u64, u64)> {
        self.stride(file, direction);
        let (random, again) = self.is_random(direction);
        let wanted = self.length(direction, random);
        let least = self.spec.sizes_of(direction, random).min();
        let place = if random { None } else { self.follow(file, direction, (wanted, least), again) };
        let (start, len) = match place {
            Some(place) => place,
            None if !self.spec.mode.random => return None,
            None => self.draw(file, direction, (wanted, least))?,
        };
        self.files[file].next[direction as usize] = start + len;
        self.zone_bytes += len;
        Some((start, len))
    }

    /// A random place for `wanted` bytes, or fewer, but not fewer than `least`.
    fn draw(&mut self, file: usize, direction: Direction, (wanted, least): (u64, u64)) -> Option<(u64, u64)> {
        if self.files[file].map.is_some() {
            return self.unvisited(file, (wanted, least));
        }
        let at = direction as usize;
        let sampler = self.files[file].samplers[at].as_ref().expect("the direction is one of the job's");
        let start = self.files[file].zone + sampler.draw(&mut self.offsets) * self.spec.align[at];
        Some((start, self.fit(self.files[file].bytes.saturating_sub(start), (wanted, least))?))
    }

    /// The place after the last I/O, or the same once more (`again`); none at the end, or where the map knows it.
    fn follow(
        &mut self,
        file: usize,
        direction: Direction,
        (wanted, least): (u64, u64),
        again: bool,
    ) -> Option<(u64, u64)> {
        let next = self.files[file].next[direction as usize];
        let start = match (again, self.spec.mode.random) {
            (true, _) => next.checked_sub(wanted)?,
            (_, true) => next,
            _ => self.sequential(file, direction),
        };
        let len = self.fit(self.files[file].bytes.saturating_sub(start), (wanted, least))?;
        let zone = self.files[file].zone;
        match self.files[file].map.as_mut().filter(|_| !again) {
            None => Some((start, len)),
            Some(map) => {
                let visited = map.visit(start.checked_sub(zone)? / self.unit, len.div_ceil(self.unit));
                (visited > 0).then_some((start, len.min(visited * self.unit)))
            }
        }
    }

    /// Whether the next offset is drawn; else it follows the last one, or is the last one again.
    fn is_random(&mut self, direction: Direction) -> (bool, bool) {
        if !self.spec.mode.random {
            return (false, false);
        }
        if self.burst > 0 {
            self.burst -= 1;
            return (false, self.spec.identical);
        }
        self.burst = self.spec.mode.modifier.saturating_sub(1).max(0).cast_unsigned();
        let percent = self.spec.random_percent[direction as usize];
        (percent == 100 || self.mix.random_range(0..100) < percent, false)
    }

    /// The length that is asked for.
    fn length(&mut self, direction: Direction, random: bool) -> u64 {
        match self.spec.sizes_of(direction, random) {
            Sizes::Fixed(size) => *size,
            Sizes::Range(low, high) if self.spec.unaligned => self.sizes.random_range(*low..=*high),
            Sizes::Range(low, high) => self.sizes.random_range(1..=high / low) * low,
            Sizes::Split(sizes) => {
                let mut drawn: f64 = self.sizes.random::<f64>() * 100.0;
                let found = sizes.iter().find(|(_, share)| {
                    drawn -= share;
                    drawn < 0.0
                });
                found.or(sizes.iter().rev().find(|(_, share)| *share > 0.0)).map_or(0, |(size, _)| *size)
            }
        }
    }

    /// `wanted`, or what is left in whole smallest blocks; none where not even one fits.
    fn fit(&self, left: u64, (wanted, least): (u64, u64)) -> Option<u64> {
        if wanted <= left {
            return Some(wanted);
        }
        let len = if self.spec.unaligned { left } else { left / least * least };
        (len >= least).then_some(len)
    }

    /// A random place among the blocks of a file that were not visited in this pass.
    fn unvisited(&mut self, file: usize, (wanted, least): (u64, u64)) -> Option<(u64, u64)> {
        let align = (least / self.unit).max(1);
        let zone = self.files[file].zone;
        let blocks =
            self.spec.zones.map_or(u64::MAX, |zones| zones.range).min(self.files[file].bytes) / self.unit;
        let map = self.files[file].map.as_mut().expect("asked only with a map");
        if map.left() == 0 {
            return None;
        }
        let drawn = self.offsets.random_range(0..blocks) / align * align;
        let block = map.next_free(drawn)?;
        let visited = map.visit(block, wanted.div_ceil(self.unit));
        Some((zone + block * self.unit, wanted.min(visited * self.unit)))
    }
}

fn sampler(spec: &JobSpec, direction: Direction, bytes: u64) -> Option<Sampler> {
    if !spec.mode.random || spec.map || !spec.does(direction) {
        return None;
    }
    let (least, align) = (spec.sizes_of(direction, true).min(), spec.align[direction as usize]);
    let places = bytes.saturating_sub(least) / align + 1;
    Some(Sampler::new(&spec.distribution[direction as usize], places, align))
}

#[cfg(test)]
mod tests;
