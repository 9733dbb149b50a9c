//! The memory controller: FR-FCFS over a read and a write queue, with watermarks, in front of the banks.
//!
//! It acts when a bank becomes free or a request arrives, never by the cycle. An idle bank takes the oldest request for its open
//! row, else the oldest; reads before writes, until the write queue reaches its high watermark, from where on writes go first
//! until it is down to the low one. A bank for which no read waits takes a write at any time.
//!
//! # What the order never breaks
//!
//! * R1: requests to one line keep their order: a later write joins the one that waits, a read is served from it.
//! * R2: log lines are issued, and become durable, in the order in which they came. With `log_order = banked` they are not, but
//!   for those behind a superblock; what counts as durable is then the part of the log before the first line that is not.
//! * R3: with `log_bound = enforced` a data line waits until the log is durable up to its newest record. With `timing` it does
//!   not, and each line that was faster than its log is counted.
//!
//! # Persistence domains
//!
//! With `domain = adr` a write is durable when it is *accepted* into the queue (and R3 holds it back before that); with `media`
//! when the bank has written it.

use std::collections::VecDeque;

use super::Cause;
use super::bank::{Bank, Place, Timing};
use crate::machine::{Machine, Ps};

/// Hardware threads that there can be.
pub const THREADS: usize = 16;
/// Entries of the write queue that only log lines may take: else data that wait for the log could lock it out.
const LOG_RESERVE: usize = 2;
/// Places in what is kept of both queues.
const READS: usize = 0;
const WRITES: usize = 1;

/// A line on its way to NVRAM.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Its number.
    pub line: u64,
    /// Why it moves.
    pub cause: Cause,
    /// Words that are written, a bit each.
    pub mask: u8,
    /// The words; kept only where crashes are explored.
    pub data: [u64; 8],
    /// Log position that must be durable first (R3).
    pub need: u64,
    /// A log line: position up to which the log is durable with it.
    pub log_end: u64,
    /// When it reaches the controller.
    pub arrive: Ps,
    /// Number in order of arrival.
    pub id: u64,
    /// How many waits of each hardware thread end with it.
    pub waiters: [u8; THREADS],
    /// Whether it is a line of the hardware log, which keeps its order (R2).
    pub fifo: bool,
    /// A superblock: log lines behind it begin only when it is durable, since they may reuse the space that it frees.
    pub barrier: bool,
    /// Whether it is in the persistence domain.
    pub durable: bool,
}

impl Write {
    /// A line that nothing waits for.
    pub fn new(line: u64, cause: Cause, arrive: Ps) -> Self {
        Self {
            line,
            cause,
            mask: 0xff,
            data: [0; 8],
            need: 0,
            log_end: 0,
            arrive,
            id: 0,
            waiters: [0; THREADS],
            fifo: false,
            barrier: false,
            durable: false,
        }
    }

    fn join(&mut self, later: &Self) {
        for word in (0..8).filter(|word| later.mask & 1 << word != 0) {
            self.data[word] = later.data[word];
        }
        self.mask |= later.mask;
        self.need = self.need.max(later.need);
        self.log_end = self.log_end.max(later.log_end);
        for (own, more) in self.waiters.iter_mut().zip(later.waiters) {
            *own += more;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Read {
    line: u64,
    place: Place,
    arrive: Ps,
}

/// What has happened in the controller.
#[derive(Clone, Copy, Debug)]
pub enum Done {
    /// A line was read; its time.
    Read(u64, Ps),
    /// A write is durable: when the bank began (a crash since may leave part of it), when it was durable.
    Durable(Write, Ps, Ps),
}

/// A command to a bank, for the protocol checker and the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The line.
    pub line: u64,
    /// Why.
    pub cause: Cause,
    /// When it reached the controller.
    pub arrive: Ps,
    /// When the bank began.
    pub start: Ps,
    /// When it ended.
    pub finish: Ps,
}

/// Counts of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Lines moved, by cause.
    pub lines: [u64; 5],
    /// Energy in hundredths of a picojoule, by cause.
    pub energy: [u64; 5],
    /// Accesses to an open row.
    pub row_hits: u64,
    /// Reads served from the write queue.
    pub forwarded: u64,
    /// Writes that joined one that waited.
    pub joined: u64,
    /// Times at which a data line waited for the log (R3).
    pub held: u64,
    /// Data lines durable before their log (`log_bound = timing`).
    pub violations: u64,
    /// Sum over accesses of the write queue's length.
    pub queue_sum: u64,
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Idle,
    Read(Read),
    Write(Write),
}

/// What the order of writes is decided by, apart from the rest, so that a look through the queue reads little memory.
#[derive(Clone, Copy, Debug)]
struct Queued {
    line: u64,
    arrive: Ps,
    need: u64,
    id: u64,
    row: u64,
    bank: u32,
    column: u32,
    fifo: bool,
    barrier: bool,
    durable: bool,
    /// The write's place among the bodies.
    body: u16,
}

impl Queued {
    fn new(write: &Write, place: Place, body: usize) -> Self {
        let Write { line, arrive, need, id, fifo, barrier, durable, .. } = *write;
        let (bank, column, row) = (place.bank as u32, place.column, place.row);
        Self { line, arrive, need, id, row, bank, column, fifo, barrier, durable, body: body as u16 }
    }

    fn place(&self) -> Place {
        Place { bank: self.bank as usize, row: self.row, column: self.column }
    }
}

/// The controller and its banks.
#[derive(Clone, Debug)]
pub struct Controller {
    machine: Machine,
    timing: Timing,
    banks: Vec<Bank>,
    jobs: Vec<Job>,
    starts: Vec<Ps>,
    /// When each bank's job ends; `Ps::MAX` where it has none.
    finishes: Vec<Ps>,
    /// A bit for each bank that has no job.
    idle: u64,
    /// Superblocks that are being written.
    barriers: u32,
    reads: Vec<Read>,
    /// In order of arrival.
    writes: Vec<Queued>,
    /// Reads and writes that wait for each bank, and a bit for each bank for which some do.
    waiting: [Vec<u16>; 2],
    wanted: [u64; 2],
    /// Times of arrival that lay ahead when the controller acted last, and those since.
    arrivals: Vec<Ps>,
    /// `log_order = banked`: number and end of each log line that is not durable, or lies behind one that is not.
    log_open: VecDeque<(u64, u64, bool)>,
    banked: bool,
    /// The writes themselves, and the places among them that are free.
    bodies: Vec<Write>,
    free: Vec<u16>,
    draining: bool,
    channel: Ps,
    burst: Ps,
    log_finish: Ps,
    log_durable: u64,
    /// `domain = adr`: when the newest log line enters the queue.
    log_accepted: Ps,
    next_id: u64,
    next: Ps,
    adr: bool,
    enforced: bool,
    /// Counts.
    pub stats: MemoryStats,
    /// Commands, if they are kept.
    pub commands: Option<Vec<Command>>,
}

impl Controller {
    /// With empty queues.
    pub fn new(machine: &Machine) -> Self {
        let banks = machine.banks as usize;
        Self {
            timing: Timing::new(machine),
            banks: vec![Bank::default(); banks],
            jobs: vec![Job::Idle; banks],
            starts: vec![0; banks],
            finishes: vec![Ps::MAX; banks],
            idle: u64::MAX >> (64 - banks),
            barriers: 0,
            waiting: [vec![0; banks], vec![0; banks]],
            wanted: [0; 2],
            arrivals: Vec::with_capacity(64),
            log_open: VecDeque::new(),
            banked: machine.log_order == 1,
            reads: Vec::with_capacity(256),
            writes: Vec::with_capacity(256),
            bodies: Vec::with_capacity(256),
            free: Vec::new(),
            draining: false,
            channel: 0,
            burst: machine.burst * 1000,
            log_finish: 0,
            log_durable: 0,
            log_accepted: 0,
            next_id: 1,
            next: Ps::MAX,
            adr: machine.domain == 1,
            enforced: machine.log_bound == 0,
            stats: MemoryStats::default(),
            commands: None,
            machine: machine.clone(),
        }
    }

    /// When it wants to act next; `Ps::MAX` if it has nothing to do.
    #[inline]
    pub fn next(&self) -> Ps {
        self.next
    }

    /// Log position up to which all records are durable.
    pub(crate) fn log_durable(&self) -> u64 {
        self.log_durable
    }

    /// Whether data may enter the write queue.
    pub fn has_room(&self) -> bool {
        self.writes.len() + LOG_RESERVE < self.machine.write_queue as usize
    }

    /// Whether a further write would leave reads first.
    pub(crate) fn is_below_watermark(&self) -> bool {
        (self.writes.len() + 1) * 100 < (self.machine.write_queue * self.machine.high_watermark) as usize
    }

    /// Whether a log line may enter it.
    pub fn has_room_for_log(&self) -> bool {
        self.writes.len() < self.machine.write_queue as usize
    }

    /// The number that the next write gets.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// The lowest number of a write that is not durable; all below are.
    pub(crate) fn oldest_open(&self) -> u64 {
        let queued = self.writes.iter().filter(|write| !write.durable).map(|write| write.id);
        let busy = self.jobs.iter().filter_map(|job| match job {
            Job::Write(write) if !write.durable => Some(write.id),
            _ => None,
        });
        queued.chain(busy).min().unwrap_or(self.next_id)
    }

    /// Asks for a line. Answers at once if a write of it waits here.
    pub fn read(&mut self, line: u64, arrive: Ps) -> Option<Ps> {
        let arrive = arrive + self.machine.link * 1000;
        let busy = |job: &Job| matches!(job, Job::Write(write) if write.line == line);
        if self.writes.iter().any(|write| write.line == line) || self.jobs.iter().any(busy) {
            self.stats.forwarded += 1;
            return Some(arrive + self.burst);
        }
        let place = Place::of(line, &self.machine);
        self.reads.push(Read { line, place, arrive });
        self.waits(READS, place.bank);
        self.arrivals.push(arrive);
        self.next = self.next.min(arrive);
        None
    }

    /// Takes a write. `done` is told if it is durable at once.
    pub fn write(&mut self, mut write: Write, done: &mut Vec<Done>) {
        write.id = self.next_id;
        self.next_id += 1;
        let log = write.fifo;
        let same = self.writes.iter().position(|other| other.line == write.line);
        let last_log = || self.writes.iter().rposition(|other| other.fifo);
        let same = same.filter(|at| !log || last_log() == Some(*at));
        if let Some(at) = same {
            self.stats.joined += 1;
            self.join(at, &write, done);
        } else {
            if self.banked && log {
                self.log_open.push_back((write.id, write.log_end, false));
            }
            self.accept(&mut write, done);
            let place = Place::of(write.line, &self.machine);
            let body = self.free.pop().map_or(self.bodies.len(), usize::from);
            if body == self.bodies.len() {
                self.bodies.push(write);
            } else {
                self.bodies[body] = write;
            }
            self.writes.push(Queued::new(&write, place, body));
            self.waits(WRITES, place.bank);
            self.arrivals.push(write.arrive);
        }
        if log {
            self.accept_held(write.arrive, done);
        }
        self.next = self.next.min(write.arrive);
    }

    /// A request waits for a bank.
    fn waits(&mut self, which: usize, bank: usize) {
        self.waiting[which][bank] += 1;
        self.wanted[which] |= 1 << bank;
    }

    /// A request waits no more.
    fn waits_no_more(&mut self, which: usize, bank: usize) {
        self.waiting[which][bank] -= 1;
        if self.waiting[which][bank] == 0 {
            self.wanted[which] &= !(1 << bank);
        }
    }

    /// A log line is durable; the log is so up to the position that `write` then says.
    fn log_is_durable(&mut self, write: &mut Write) {
        if self.banked && write.fifo {
            // With `domain = adr` words may join a line that is durable; all before them are, too.
            let Some(open) = self.log_open.iter_mut().find(|(id, ..)| *id == write.id) else {
                self.log_durable = self.log_durable.max(write.log_end);
                return;
            };
            // Later words may have joined the line.
            *open = (open.0, open.1.max(write.log_end), true);
            write.log_end = 0;
            while let Some((_, end, true)) = self.log_open.front().copied() {
                self.log_open.pop_front();
                write.log_end = write.log_end.max(end);
            }
        }
        self.log_durable = self.log_durable.max(write.log_end);
    }

    /// Joins a write to the one of the same line that waits at `at`.
    fn join(&mut self, at: usize, write: &Write, done: &mut Vec<Done>) {
        let body = usize::from(self.writes[at].body);
        if self.bodies[body].durable {
            // The part that came before stays in the domain; this part enters it by itself.
            let mut part = *write;
            self.accept(&mut part, done);
            let whole = &mut self.bodies[body];
            whole.join(&part);
            whole.durable = part.durable;
            if !part.durable {
                whole.id = part.id;
            }
        } else {
            self.bodies[body].join(write);
            if self.adr {
                let mut whole = self.bodies[body];
                self.accept(&mut whole, done);
                self.bodies[body] = whole;
            }
        }
        self.looked_at(at);
    }

    /// Takes over what has changed in the body of the write at `at`.
    fn looked_at(&mut self, at: usize) {
        let queued = &mut self.writes[at];
        let Write { arrive, need, id, durable, .. } = self.bodies[usize::from(queued.body)];
        (queued.arrive, queued.need, queued.id, queued.durable) = (arrive, need, id, durable);
    }

    /// Lets `thread` wait for a write of `line` that is not durable yet, if there is one.
    pub fn attach(&mut self, line: u64, thread: usize) -> bool {
        let here = self.writes.iter().find(|write| write.line == line && !write.durable);
        if let Some(queued) = here {
            self.bodies[usize::from(queued.body)].waiters[thread] += 1;
            return true;
        }
        let busy = self.jobs.iter_mut().filter_map(|job| match job {
            Job::Write(write) => Some(write),
            _ => None,
        });
        let mut busy = busy.filter(|write| write.line == line && !write.durable);
        let Some(write) = busy.next() else { return false };
        write.waiters[thread] += 1;
        true
    }

    /// `domain = adr`: the write is durable from now on, unless R3 holds it back.
    fn accept(&mut self, write: &mut Write, done: &mut Vec<Done>) {
        if !self.adr || write.durable {
            return;
        }
        if !write.fifo && write.need > self.log_durable {
            if self.enforced {
                return;
            }
            self.stats.violations += 1;
        }
        // Log lines enter one a cycle, so the newest may lie a few cycles ahead.
        if write.fifo {
            self.log_accepted = self.log_accepted.max(write.arrive);
        } else if write.need > 0 && self.enforced {
            write.arrive = write.arrive.max(self.log_accepted);
        }
        write.durable = true;
        self.log_is_durable(write);
        done.push(Done::Durable(*write, write.arrive, write.arrive));
        write.waiters = [0; THREADS];
    }

    /// `domain = adr`: data that waited for the log.
    fn accept_held(&mut self, now: Ps, done: &mut Vec<Done>) {
        if !self.adr {
            return;
        }
        for at in 0..self.writes.len() {
            let body = usize::from(self.writes[at].body);
            let mut write = self.bodies[body];
            if !write.durable {
                write.arrive = write.arrive.max(now);
                self.accept(&mut write, done);
                self.bodies[body] = write;
                self.looked_at(at);
            }
        }
    }

    /// Acts at `now`: ends what has ended, gives idle banks work.
    pub fn step(&mut self, now: Ps, done: &mut Vec<Done>) {
        for bank in 0..self.jobs.len() {
            let finish = self.finishes[bank];
            if finish > now {
                continue;
            }
            self.finishes[bank] = Ps::MAX;
            self.idle |= 1 << bank;
            match std::mem::replace(&mut self.jobs[bank], Job::Idle) {
                Job::Read(read) => done.push(Done::Read(read.line, finish)),
                Job::Write(write) => self.written(write, self.starts[bank], finish, done),
                Job::Idle => {}
            }
        }
        while self.issue(now) {}
        self.plan(now);
    }

    /// A bank has written a line.
    fn written(&mut self, mut write: Write, start: Ps, finish: Ps, done: &mut Vec<Done>) {
        self.barriers -= u32::from(write.barrier);
        if write.durable {
            return;
        }
        if !write.fifo && write.need > self.log_durable {
            self.stats.violations += 1;
        }
        write.durable = true;
        self.log_is_durable(&mut write);
        done.push(Done::Durable(write, start, finish));
    }

    /// When to act next.
    fn plan(&mut self, now: Ps) {
        let mut next = Ps::MAX;
        for finish in &self.finishes {
            next = next.min(*finish);
        }
        self.arrivals.retain(|arrive| *arrive > now);
        if self.adr {
            // Those that R3 holds back arrive later than they came.
            self.arrivals.clear();
            self.arrivals.extend(self.reads.iter().map(|read| read.arrive).filter(|arrive| *arrive > now));
            self.arrivals.extend(self.writes.iter().map(|write| write.arrive).filter(|arrive| *arrive > now));
        }
        self.next = self.arrivals.iter().copied().fold(next, Ps::min);
    }

    /// Gives one idle bank a request.
    fn issue(&mut self, now: Ps) -> bool {
        let idle = self.idle;
        if idle == 0 || (self.reads.is_empty() && self.writes.is_empty()) {
            return false;
        }
        let size = self.machine.write_queue as usize;
        if self.writes.len() * 100 >= size * self.machine.high_watermark as usize {
            self.draining = true;
        } else if self.writes.len() * 100 <= size * self.machine.low_watermark as usize {
            self.draining = false;
        }
        if self.machine.log_priority == 2 && self.issue_log(now, idle) {
            return true;
        }
        if self.draining && self.issue_write(now, idle) {
            return true;
        }
        self.issue_read(now, idle) || (!self.draining && self.issue_write(now, idle))
    }

    fn issue_read(&mut self, now: Ps, idle: u64) -> bool {
        if idle & self.wanted[READS] == 0 {
            return false;
        }
        let visible = self.reads.iter().take(self.machine.read_queue as usize).enumerate();
        let mut ready = visible.filter(|(_, read)| idle & 1 << read.place.bank != 0 && read.arrive <= now);
        let Some((first, read)) = ready.next() else { return false };
        let hit = |read: &Read| self.banks[read.place.bank].is_hit(read.place);
        let at =
            if hit(read) { first } else { ready.find(|(_, read)| hit(read)).map_or(first, |(at, _)| at) };
        let read = self.reads.remove(at);
        self.waits_no_more(READS, read.place.bank);
        self.start(Job::Read(read), read.place, (read.line, Cause::Fetch, read.arrive), now);
        true
    }

    /// Gives an idle bank the first log line, if it is for that bank.
    fn issue_log(&mut self, now: Ps, idle: u64) -> bool {
        let first = self.writes.iter().position(|write| write.fifo);
        let ready = |at: &usize| {
            let write = &self.writes[*at];
            idle & 1 << write.bank != 0 && write.arrive <= now && self.barriers == 0
        };
        let Some(at) = first.filter(ready) else { return false };
        self.take_write(at, now);
        true
    }

    fn issue_write(&mut self, now: Ps, idle: u64) -> bool {
        if self.machine.log_priority == 1 && self.issue_log(now, idle) {
            return true;
        }
        if idle & self.wanted[WRITES] == 0 {
            return false;
        }
        let mut first = None;
        // The first log line keeps back all behind it (banked: the first superblock), and a superblock that is being written
        // does so, too.
        let mut log_seen = self.barriers > 0;
        let mut held = 0;
        let visible = self.writes.iter().take(self.machine.write_queue as usize).enumerate();
        for (at, write) in visible {
            let log = write.fifo;
            let second_log = log && log_seen;
            log_seen |= log && (write.barrier || !self.banked);
            if second_log || idle & 1 << write.bank == 0 || write.arrive > now {
                continue;
            }
            if self.enforced && !log && write.need > self.log_durable {
                held += 1;
                continue;
            }
            if self.banks[write.bank as usize].is_hit(write.place()) {
                first = Some(at);
                break;
            }
            first = first.or(Some(at));
        }
        self.stats.held += held;
        let Some(at) = first else { return false };
        self.take_write(at, now);
        true
    }

    fn take_write(&mut self, at: usize, now: Ps) {
        self.stats.queue_sum += self.writes.len() as u64;
        let queued = self.writes.remove(at);
        self.waits_no_more(WRITES, queued.bank as usize);
        let write = self.bodies[usize::from(queued.body)];
        self.free.push(queued.body);
        self.barriers += u32::from(write.barrier);
        self.start(Job::Write(write), queued.place(), (write.line, write.cause, write.arrive), now);
    }

    fn start(&mut self, job: Job, place: Place, (line, cause, arrive): (u64, Cause, Ps), now: Ps) {
        let bank = &mut self.banks[place.bank];
        self.stats.row_hits += u64::from(bank.is_hit(place));
        let (time, energy) = bank.access(place, cause, &self.timing);
        self.stats.lines[cause as usize] += 1;
        self.stats.energy[cause as usize] += energy;
        let now = now.max(self.channel);
        self.channel = now + self.burst;
        let mut finish = now + time;
        if matches!(&job, Job::Write(write) if write.fifo) && !self.banked {
            finish = finish.max(self.log_finish);
            self.log_finish = finish;
        }
        self.jobs[place.bank] = job;
        (self.starts[place.bank], self.finishes[place.bank]) = (now, finish);
        self.idle &= !(1 << place.bank);
        if let Some(commands) = &mut self.commands {
            commands.push(Command { line, cause, arrive, start: now, finish });
        }
    }
}
