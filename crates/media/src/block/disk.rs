//! A hard disk: one arm, one spindle, a queue of which the nearest request is served, and a cache of writes that a power loss
//! empties.
//!
//! | what | takes | source |
//! |---|---|---|
//! | a seek over the share `d` of the tracks | 1.0 ms + 14.1 ms √d; within a track nothing | mean 8.5 ms, \[1\]; √d \[R\] |
//! | rotation | until the first byte passes, 8.33 ms a turn | 7,200 turns a minute |
//! | bytes under the head | 210 MB/s at the outer edge, half at the inner | \[1\]; the inner edge \[I\] |
//! | bytes over the link | 600 MB/s | SATA 3, 6 Gb/s with 8b/10b |
//! | write cache | 64 MiB | \[1\] |
//! | queue | 32 requests, of which the soonest under the head is next | native command queueing |
//!
//! \[1\]: Seagate Barracuda 7200.14 (ST1000DM003), product manual; \[R\]: recalled, as all of \[1\] is, and not read again; \[I\]:
//! assumed. √d is the shape of published seek curves.
//!
//! Tracks are as long as a turn lasts at the rate of their place, so that reading on costs nothing but the bytes. A read that goes
//! on where the last request ended finds what the disk has read ahead since. Writes are complete when they are in the cache, unless
//! it is full or they have FUA; what is in it is written when there is nothing else to do, in the order of its places, and before a
//! flush ends. A disk that is made small has the seeks of a whole one: distances count by its own width.
//!
//! Which request is next is decided when the disk is free, among those that have come by then. So a request's end is not known when
//! it is submitted: [`Ticket::done_at`] is what it would be in the order of arrival, and [`BlockDevice::wait`] waits for the true
//! one.
//!
//! Lock order: the state is a leaf, and not held while a task waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use sim::math::ln;
use sim::{Activity, Bytes, Nanos};

use super::port::now;
use super::{BlockDevice, Geometry, MemoryDevice, Port, Request, Ticket};
use crate::MediaError;
use crate::cost::{Turn, clock_runs};

/// A turn of the spindle, in ns.
const TURN: f64 = 60e9 / 7200.0;
/// A seek to the next track, and what is added over the whole width, in ns.
const SEEK_LEAST: f64 = 1.0e6;
const SEEK_REST: f64 = 14.1e6;
/// Bytes a ns at the outer edge.
const OUTER: f64 = 0.210;
/// Bytes a ns over the link.
const LINK: f64 = 0.600;
/// Bytes of the write cache.
const CACHE: u64 = 64 << 20;
/// Requests that the disk chooses from.
pub(super) const QUEUE: u32 = 32;

/// The device.
#[derive(Debug)]
pub struct DiskDevice {
    memory: Arc<MemoryDevice>,
    geometry: Geometry,
    port: Port,
    state: Mutex<State>,
}

/// Where bytes lie.
#[derive(Clone, Copy, Debug)]
struct Layout {
    bytes: f64,
    /// Turns from the first byte to the last.
    turns: f64,
}

impl Layout {
    fn new(bytes: u64) -> Self {
        let whole = Self { bytes: bytes as f64, turns: 1.0 };
        Self { turns: whole.turns_to(bytes), ..whole }
    }

    /// Turns that pass from the first byte to `off`, where the rate falls to its half over the width.
    fn turns_to(self, off: u64) -> f64 {
        let twice = 2.0 * self.bytes;
        -ln(1.0 - off as f64 / twice) * twice / (OUTER * TURN)
    }

    /// The time from `at` until the arm and the spindle have come from one place to another.
    fn position(self, from: u64, to: u64, at: f64) -> f64 {
        let (from, to) = (self.turns_to(from), self.turns_to(to));
        let tracks = (from - to).abs();
        let seek = if tracks < 1.0 { 0.0 } else { SEEK_LEAST + SEEK_REST * (tracks / self.turns).sqrt() };
        let wait = (to - (at + seek) / TURN).rem_euclid(1.0);
        // What is due this moment and not quite, by rounding, has not just passed.
        seek + if wait > 1.0 - 1e-6 { 0.0 } else { wait * TURN }
    }

    fn transfer(self, off: u64, len: u64) -> f64 {
        (self.turns_to(off + len) - self.turns_to(off)) * TURN
    }
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Read,
    /// Past the cache.
    Write,
    /// Everything that came into the cache before this number.
    Flush(u64),
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// The number that [`State::served`] has it by.
    id: u64,
    arrival: f64,
    off: u64,
    len: u64,
    wanted: Wanted,
}

/// What the cache has of a place.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    len: u64,
    /// The number of the first write of it: what came later waits with it.
    number: u64,
}

#[derive(Debug)]
struct State {
    layout: Layout,
    /// Behind the last byte that passed under the head.
    head: u64,
    free_at: f64,
    pending: VecDeque<Pending>,
    /// Starts and ends of requests that nothing has waited for yet.
    served: BTreeMap<u64, (f64, f64)>,
    cache: BTreeMap<u64, Dirty>,
    cached: u64,
    /// When the cache was empty last and got something.
    cached_at: f64,
    /// When the last write from the cache ends.
    written_at: f64,
    writes: u64,
    ids: u64,
}

impl DiskDevice {
    /// An empty disk of so many bytes, to which the driver hands at most `depth` requests at a time.
    pub fn new(bytes: Bytes, depth: u32) -> Result<Arc<Self>, MediaError> {
        let memory = MemoryDevice::ram(bytes)?;
        let geometry = Geometry {
            queue_depth: depth.clamp(1, QUEUE),
            discard: false,
            volatile_cache: true,
            ..*memory.geometry()
        };
        let state = Mutex::new(State::new(Layout::new(geometry.bytes.0)));
        Ok(Arc::new(Self { memory, geometry, port: Port::new(), state }))
    }

    fn serve(&self, request: &mut Request<'_>) -> Result<(Turn, Option<u64>), MediaError> {
        sim::interact();
        let region = self.memory.region();
        match request {
            Request::Read { off, buf } => region.copy_out(*off, buf)?,
            Request::Write { off, data, .. } => region.copy_in(*off, data)?,
            Request::Discard { .. } => return Err(MediaError::NoDiscard),
            Request::Flush => {}
        }
        if !clock_runs() {
            return Ok((now(), None));
        }
        let arrival = sim::now();
        let (end, id) = self.state.lock().submit(request, arrival.0 as f64);
        Ok((Turn { arrival, start: arrival, end: nanos(end) }, id))
    }
}

fn nanos(ns: f64) -> Nanos {
    Nanos(ns.ceil() as u64)
}

impl State {
    fn new(layout: Layout) -> Self {
        Self {
            layout,
            head: 0,
            free_at: 0.0,
            pending: VecDeque::new(),
            served: BTreeMap::new(),
            cache: BTreeMap::new(),
            cached: 0,
            cached_at: 0.0,
            written_at: 0.0,
            writes: 0,
            ids: 0,
        }
    }

    /// Takes a request: its end, if none overtakes it, and its number, if that is not certain.
    fn submit(&mut self, request: &Request<'_>, at: f64) -> (f64, Option<u64>) {
        self.advance(at);
        let (off, len) = request.range().unwrap_or((self.head, 0));
        let wanted = match request {
            Request::Write { flags, .. } if !flags.fua && self.cached + len <= CACHE => {
                self.keep(off, len, at);
                return (at + len as f64 / LINK, None);
            }
            Request::Write { .. } => Wanted::Write,
            Request::Flush if self.cache.is_empty() => return (self.written_at.max(at), None),
            Request::Flush => Wanted::Flush(self.writes),
            _ => Wanted::Read,
        };
        self.ids += 1;
        self.pending.push_back(Pending { id: self.ids, arrival: at, off, len, wanted });
        (self.in_order(at), Some(self.ids))
    }

    /// When the last request would end, were they served as they came.
    fn in_order(&self, at: f64) -> f64 {
        let (mut time, mut head) = (self.free_at.max(at), self.head);
        for one in &self.pending {
            let places = self.cache.iter().filter(|_| matches!(one.wanted, Wanted::Flush(_)));
            let places = places.map(|(off, dirty)| (*off, dirty.len)).chain([(one.off, one.len)]);
            for (off, len) in places.filter(|(_, len)| *len > 0) {
                time += self.layout.position(head, off, time) + self.layout.transfer(off, len);
                head = off + len;
            }
        }
        time
    }

    /// Puts a write into the cache, as one with all that it touches there.
    fn keep(&mut self, off: u64, len: u64, at: f64) {
        if self.cache.is_empty() {
            self.cached_at = at;
        }
        self.writes += 1;
        let (mut start, mut end, mut number) = (off, off + len, self.writes);
        while let Some((other, dirty)) =
            self.cache.range(..=end).next_back().map(|(off, dirty)| (*off, *dirty))
            && other + dirty.len >= start
        {
            self.cache.remove(&other);
            self.cached -= dirty.len;
            (start, end) = (start.min(other), end.max(other + dirty.len));
            number = number.min(dirty.number);
        }
        self.cache.insert(start, Dirty { len: end - start, number });
        self.cached += end - start;
    }

    /// Serves what can be decided on by now.
    fn advance(&mut self, now: f64) {
        while self.free_at <= now {
            self.end_flushes();
            let arrived = |one: &Pending| one.arrival.max(self.free_at);
            let next = self.pending.iter().map(arrived).fold(f64::INFINITY, f64::min);
            let idle = if self.cache.is_empty() { f64::INFINITY } else { self.cached_at.max(self.free_at) };
            let at = next.min(idle);
            if at > now {
                return;
            }
            self.step(at, next <= at);
        }
    }

    /// Flushes end of which nothing is in the cache any more.
    fn end_flushes(&mut self) {
        if !self.pending.iter().any(|one| matches!(one.wanted, Wanted::Flush(_))) {
            return;
        }
        let oldest = self.cache.values().map(|dirty| dirty.number).min().unwrap_or(u64::MAX);
        let (free_at, served) = (self.free_at, &mut self.served);
        self.pending.retain(|one| match one.wanted {
            Wanted::Flush(last) if oldest > last => {
                served.insert(one.id, (one.arrival, free_at.max(one.arrival)));
                false
            }
            _ => true,
        });
    }

    /// Serves one: of the requests that have come by `at` the one that is soonest under the head, or a place of the cache.
    fn step(&mut self, at: f64, requested: bool) {
        let come = self.pending.iter().take(QUEUE as usize).enumerate().filter(|(_, one)| one.arrival <= at);
        let (flushes, others): (Vec<_>, Vec<_>) = come
            .map(|(place, one)| (place, *one))
            .partition(|(_, one)| matches!(one.wanted, Wanted::Flush(_)));
        let cost = |off| self.layout.position(self.head, off, at);
        let best =
            others.into_iter().min_by(|(_, a), (_, b)| self.reach(a, at).total_cmp(&self.reach(b, at)));
        let writes_back = !flushes.is_empty() || !requested;
        let dirty = writes_back.then(|| self.next_dirty()).flatten();
        match (best, dirty) {
            (Some((place, one)), other) if other.is_none_or(|off| self.reach(&one, at) <= cost(off)) => {
                let end = (at + self.reach(&one, at) + self.layout.transfer(one.off, one.len)).max(at);
                self.pending.remove(place);
                self.served.insert(one.id, (at, end));
                (self.head, self.free_at) = (one.off + one.len, end);
            }
            (_, Some(off)) => {
                let len = self.cache.remove(&off).map_or(0, |dirty| dirty.len);
                self.cached -= len;
                self.free_at = at + cost(off) + self.layout.transfer(off, len);
                (self.head, self.written_at) = (off + len, self.free_at);
            }
            // A flush that is left waits for what came before it, and the other requests are served above.
            (_, None) => unreachable!("there is something to write"),
        }
    }

    /// The time until a request is under the head; less than nothing if the disk has read ahead to it since it became free.
    fn reach(&self, one: &Pending, at: f64) -> f64 {
        if matches!(one.wanted, Wanted::Read) && one.off == self.head {
            let ahead = at - self.free_at;
            return -ahead.min(self.layout.transfer(one.off, one.len));
        }
        self.layout.position(self.head, one.off, at)
    }

    /// The next place of the cache in the direction of the spindle.
    fn next_dirty(&self) -> Option<u64> {
        let place = |(off, _): (&u64, &Dirty)| *off;
        self.cache.range(self.head..).next().map(place).or_else(|| self.cache.iter().next().map(place))
    }

    /// The start and end of a request that was decided on; otherwise when to ask again.
    fn ask(&mut self, id: u64, now: f64) -> Result<(f64, f64), f64> {
        self.advance(now);
        match self.served.remove(&id) {
            Some(times) => {
                // Requests that are never waited for leave their times here.
                self.served.retain(|_, (_, end)| *end + 1e9 > now);
                Ok(times)
            }
            None => Err(self.free_at.max(now + 1.0)),
        }
    }
}

impl BlockDevice for DiskDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn port(&self) -> &Port {
        &self.port
    }

    fn submit(&self, request: Request<'_>) -> Ticket {
        let mut number = None;
        let ticket = self.port.submit(&self.geometry, request, |request| {
            let (turn, id) = self.serve(request)?;
            number = id;
            Ok(turn)
        });
        Ticket { queued: number, ..ticket }
    }

    fn wait(&self, ticket: Ticket) -> Result<(), MediaError> {
        let mut turn = ticket.turn;
        if let Some(id) = ticket.queued {
            loop {
                sim::interact();
                let asked = self.state.lock().ask(id, sim::now().0 as f64);
                match asked {
                    Ok((start, end)) => {
                        (turn.start, turn.end) = (nanos(start), nanos(end));
                        break;
                    }
                    Err(again) => sim::medium_until(Activity::MEDIUM_WAIT, nanos(again)),
                }
            }
        }
        turn.pass(Nanos::ZERO);
        self.port().complete(&ticket);
        ticket.result
    }

    fn peek(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.memory.peek(off, buf)
    }

    fn reset(&self) {
        let mut state = self.state.lock();
        *state = State::new(state.layout);
    }
}
