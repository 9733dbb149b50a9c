//! A program under a scheme: memory as the program sees it, and the operations that its calls become.
//!
//! A transaction is carried out at once on [`Program`]'s memory and leaves its operations behind, which a hardware thread then
//! executes in simulated time. What a software scheme adds is added here:
//!
//! | | instructions besides loads, stores, clwb and fences |
//! |---|---|
//! | begin, commit | 20 each |
//! | undo record | 4, a load for each old word, a store past the caches for each word of the record |
//! | redo record | 4, the stores |
//! | a load while redo records are open | 6 and a load of the write set |
//! | a line written back | 3 |
//!
//! With `log_coalesce = first` a block has one record a transaction: undo logging writes it at the first store, redo logging at the
//! commit, undo+redo logging at the first store and, if the block was stored again, once more at the commit.
//!
//! Redo logging stores in place and writes back after its acknowledgement; a fence for these stands before the log is truncated
//! and nowhere else, since the records stay until then.
//!
//! `sw_cost` scales the instructions that stand here as numbers. A software log is that of the process (`process.rs`) or, with
//! `sw_log = thread`, each thread's own, an equal share of `log_size`.

mod process;

use super::{Scheme, Software};
use crate::log::Format;
use crate::log::record::{Growth, Kind as RecordKind, MOST_GROWTHS, MOST_WORDS, Record};
use crate::machine::{LINE, Machine};
use crate::op::{Kind, Op};
use crate::workload::PmCtx;

/// Volatile memory begins here: what lies above is no NVRAM.
pub(crate) const VOLATILE: u64 = 1 << 44;
const CALL: u32 = 20;
const RECORD: u32 = 4;
const PROBE: u32 = 6;
const WRITE_BACK: u32 = 3;

/// Words that a transaction stored, for the oracle.
pub type Effects = Vec<(u64, u64)>;

/// Where logs and data lie in NVRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Byte address of the data.
    pub heap: u64,
    /// Bytes of data.
    pub heap_bytes: u64,
    /// Bytes of one log.
    pub log_bytes: u64,
    /// Logs: one, or for software with `sw_log = thread` one a thread.
    pub logs: u64,
    /// How often a log can grow.
    pub growths: usize,
}

impl Layout {
    /// Of a run.
    pub fn new(machine: &Machine, scheme: &Scheme, threads: u64) -> Self {
        let logs = if scheme.software.is_some() && !shares(scheme, machine) { threads } else { 1 };
        let log_bytes = machine.log_size / logs / LINE * LINE;
        // The same under every scheme, so that data lie in the same banks.
        let heap = (machine.log_size + threads * Format::SUPERBLOCK).next_multiple_of(4096);
        let heap_bytes = machine.footprint.next_multiple_of(LINE * threads);
        let mut layout = Self { heap, heap_bytes, log_bytes, logs, growths: 0 };
        let most = if machine.log_grow == 0 { MOST_GROWTHS } else { 0 };
        while layout.growths < most && layout.extent(layout.growths + 1) <= machine.memory {
            layout.growths += 1;
        }
        layout
    }

    /// Bytes from zero to the end of what logs take that have grown so often.
    pub fn extent(&self, growths: usize) -> u64 {
        self.bytes() + self.logs * Growth::bytes(self.log_bytes, growths)
    }

    /// Where the further areas of a log lie: behind the data, all of one log together.
    fn growth(&self, index: u64) -> Growth {
        let base = self.bytes().next_multiple_of(LINE) + index * Growth::bytes(self.log_bytes, self.growths);
        Growth { base, most: self.growths, ..Growth::default() }
    }

    /// All of NVRAM that is used as long as no log grows.
    pub fn bytes(&self) -> u64 {
        self.heap + self.heap_bytes
    }

    /// The log of number `index`.
    pub fn log(&self, index: u64, scheme: &Scheme, machine: &Machine) -> Format {
        let grain = if machine.log_grain == 1 { 1 } else { 8 };
        let (undo, redo, words) = match (scheme.software, scheme.hardware) {
            (Some(software), _) => (software.undo, software.redo, grain),
            (_, Some(hardware)) => {
                let words = if hardware.words == 0 { grain } else { hardware.words };
                (hardware.undo, hardware.redo, words)
            }
            _ => (false, false, grain),
        };
        let base = index * (self.log_bytes + Format::SUPERBLOCK);
        let padded = scheme.software.is_some() && machine.sw_record == 1;
        let (growth, holes) = (self.growth(index), shares(scheme, machine));
        Format { base, size: self.log_bytes, words, undo, redo, crc: true, padded, holes, growth }
    }
}

/// Whether the threads of a process share a software log.
pub fn shares(scheme: &Scheme, machine: &Machine) -> bool {
    scheme.software.is_some() && machine.sw_log == 0
}

/// A software log of a thread.
#[derive(Clone, Debug)]
struct Log {
    format: Format,
    tail: u64,
    mirrored: u64,
}

/// What a thread's open transaction has done.
#[derive(Clone, Debug, Default)]
struct Open {
    active: bool,
    /// Shared log: whether it has a record, and whether the thread has ended.
    has_records: bool,
    ended: bool,
    lines: Vec<u64>,
    /// Blocks that have a record, and whether it is out of date.
    logged: Vec<(u64, bool)>,
    deferred: Vec<(u64, u64)>,
    effects: Effects,
    number: u64,
}

/// Counts of what the program executes, begin and commit calls aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Stores to persistent memory.
    pub stores: u64,
    /// Fences.
    pub fences: u64,
    /// Cache-line write-backs.
    pub write_backs: u64,
    /// Stores of log records.
    pub log_stores: u64,
    /// Loads of values for the log.
    pub log_loads: u64,
    /// Transactions.
    pub transactions: u64,
    /// Growths of logs.
    pub log_growths: u64,
}

/// Memory and scheme; see the module.
#[derive(Clone, Debug)]
pub struct Program {
    scheme: Scheme,
    layout: Layout,
    shared: bool,
    memory: Vec<u64>,
    logs: Vec<Log>,
    open: Vec<Open>,
    thread: usize,
    /// Operations of the thread under way.
    pub ops: Vec<Op>,
    gap: u32,
    cost: u64,
    fence_each: bool,
    first_only: bool,
    setup: bool,
    /// Bytes of stores past the caches, by place; kept where crashes are explored.
    pub payload: Option<Vec<u64>>,
    /// What each thread's transactions stored, in order; kept where crashes are explored.
    pub effects: Option<Vec<Vec<Effects>>>,
    /// Counts.
    pub executed: Executed,
    /// A transaction that was too long for its log.
    pub overflow: Option<u64>,
    free: Vec<(u64, u64)>,
}

impl Program {
    /// Empty memory for `threads` threads. `track`: keep bytes, for crashes.
    pub fn new(scheme: &Scheme, machine: &Machine, threads: usize, track: bool) -> Self {
        let layout = Layout::new(machine, scheme, threads as u64);
        let log = |index| Log { format: layout.log(index, scheme, machine), tail: 0, mirrored: 0 };
        let share = layout.heap_bytes / threads as u64;
        let part = |thread: u64| (layout.heap + thread * share, layout.heap + (thread + 1) * share);
        Self {
            scheme: *scheme,
            layout,
            shared: shares(scheme, machine),
            memory: vec![0; (layout.heap_bytes / 8) as usize],
            logs: (0..threads as u64).map(|thread| log(thread % layout.logs)).collect(),
            open: vec![Open::default(); threads],
            thread: 0,
            ops: Vec::new(),
            gap: 0,
            cost: machine.sw_cost,
            fence_each: machine.sw_fence == 0,
            first_only: machine.log_coalesce == 1,
            setup: true,
            payload: track.then(Vec::new),
            effects: track.then(|| vec![Vec::new(); threads]),
            executed: Executed::default(),
            overflow: None,
            free: (0..threads as u64).map(part).collect(),
        }
    }

    /// Takes over the data of another program that was set up, whose data lie at the same place.
    pub fn adopt(&mut self, other: &Self) {
        debug_assert_eq!(
            (self.layout.heap, self.layout.heap_bytes),
            (other.layout.heap, other.layout.heap_bytes)
        );
        self.memory.clone_from(&other.memory);
        self.free.clone_from(&other.free);
    }

    /// Where things lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The data, from the heap's start.
    pub fn memory(&self) -> &[u64] {
        &self.memory
    }

    /// How often a thread's log has grown, of those that grew most often.
    pub fn growths(&self) -> usize {
        self.logs.iter().map(|log| log.format.growth.times()).max().unwrap_or(0)
    }

    /// Ends the set-up: from now on calls become operations.
    pub fn start(&mut self) {
        self.setup = false;
        self.executed = Executed::default();
    }

    /// Which thread calls from now on.
    pub fn switch(&mut self, thread: usize) {
        self.thread = thread;
    }

    fn word(&self, addr: u64) -> usize {
        ((addr - self.layout.heap) / 8) as usize
    }

    fn push(&mut self, op: Op) {
        let gap = std::mem::take(&mut self.gap);
        self.ops.push(Op { gap: op.gap + gap, ..op });
    }

    /// An operation that logging adds.
    fn add(&mut self, kind: Kind, addr: u64, value: u64) {
        match kind {
            Kind::Fence => self.executed.fences += 1,
            Kind::Clwb => self.executed.write_backs += 1,
            _ => {}
        }
        self.push(Op { logging: true, ..Op::new(kind, addr, value) });
    }

    fn work(&mut self, instructions: u32) {
        self.gap += (u64::from(instructions) * self.cost / 100) as u32;
    }

    /// Stores past the caches, at most a record, or through them where the log is cached.
    fn store_log(&mut self, addr: u64, words: &[u64], cached: bool) {
        self.executed.log_stores += words.len() as u64;
        if cached {
            for (index, word) in words.iter().enumerate() {
                self.add(Kind::Store, addr + 8 * index as u64, *word);
            }
            return;
        }
        let place = self.payload.as_mut().map_or(0, |payload| {
            payload.extend_from_slice(words);
            payload.len() - words.len()
        });
        let op =
            Op { words: words.len() as u16, logging: true, ..Op::new(Kind::NtStore, addr, place as u64) };
        self.push(op);
    }

    fn append(&mut self, record: &Record) {
        let cached = self.scheme.software.is_some_and(|software| software.cached_log);
        if self.shared {
            return self.append_shared(record, cached);
        }
        let step = 8 * self.logs[self.thread].format.step(record.kind) as u64;
        self.make_space(step);
        let log = &mut self.logs[self.thread];
        let length = log.format.length(record.kind);
        // The words matter only where crashes are explored.
        let words =
            if self.payload.is_some() { log.format.encode(record, log.tail) } else { [0; MOST_WORDS] };
        let format = log.format;
        let mut position = log.tail;
        log.tail += step;
        let mut rest = &words[..length];
        while !rest.is_empty() {
            // A record may cross the end of the area.
            let area = format.area_of(position);
            let whole = ((area.size - (position - area.start) % area.size) / 8) as usize;
            let (now, later) = rest.split_at(rest.len().min(whole));
            self.store_log(format.place(position), now, cached);
            position += 8 * now.len() as u64;
            rest = later;
        }
    }

    /// Lets the thread's log grow if a record of so many bytes does not fit before its head.
    fn make_space(&mut self, bytes: u64) {
        let log = &mut self.logs[self.thread];
        let area = log.format.area();
        if log.tail + bytes <= log.mirrored.max(area.start) + area.size {
            return;
        }
        if !log.format.grow(log.tail) {
            self.overflow = Some(log.tail + bytes - log.mirrored);
            return;
        }
        let (words, base) = (log.format.superblock(log.mirrored), log.format.base);
        self.executed.log_growths += 1;
        let software = self.scheme.software.expect("only software logs are filled here");
        self.store_log(base, &words, software.cached_log);
        if software.ordered && !software.cached_log {
            self.add(Kind::Fence, 0, 0);
        }
    }

    /// Records a store before it happens.
    fn log(&mut self, addr: u64, value: u64) {
        let Some(software) = self.scheme.software else { return };
        let base = self.logs[self.thread].format.aligned(addr);
        if self.first_only {
            let logged = &mut self.open[self.thread].logged;
            if let Some(entry) = logged.iter_mut().find(|(block, _)| *block == base) {
                entry.1 = true;
                return;
            }
            // What only the commit needs is written at the commit.
            logged.push((base, !software.undo));
            if !software.undo {
                return;
            }
        }
        self.log_block(software, base, Some((addr, value)));
        if software.ordered && software.undo && self.fence_each && !software.cached_log {
            self.add(Kind::Fence, 0, 0);
        }
    }

    /// Writes a block's record; `store`: the word that is about to change.
    fn log_block(&mut self, software: Software, base: u64, store: Option<(u64, u64)>) {
        self.work(RECORD);
        let mut record = self.record(RecordKind::Update, base);
        let at = self.word(base);
        if !software.undo && self.logs[self.thread].format.words > 1 {
            self.probe(base);
        }
        for word in 0..self.logs[self.thread].format.words {
            record.undo[word] = self.memory[at + word];
            record.redo[word] = self.memory[at + word];
            // What a record holds was loaded, or is what is being stored.
            let addr = base + 8 * word as u64;
            if software.undo || store.is_none_or(|(stored, _)| stored != addr) {
                self.executed.log_loads += 1;
                self.add(Kind::Load, addr, 0);
            }
        }
        if let Some((addr, value)) = store {
            record.redo[((addr - base) / 8) as usize] = value;
        }
        self.append(&record);
    }

    /// Records of the newest values, where they were put off until the commit.
    fn log_newest(&mut self, software: Software) {
        if !self.first_only || !software.redo {
            return;
        }
        for (base, stale) in std::mem::take(&mut self.open[self.thread].logged) {
            if stale {
                self.log_block(software, base, None);
            }
        }
    }

    fn record(&self, kind: RecordKind, addr: u64) -> Record {
        let tx = self.open[self.thread].number as u16;
        Record { kind, thread: self.thread as u8, tx, addr, undo: [0; 8], redo: [0; 8] }
    }

    /// The log is needed no more from its tail on; the superblock says so before its space runs out.
    fn truncate(&mut self, software: Software) {
        if self.shared {
            return self.truncate_shared(software);
        }
        let log = &self.logs[self.thread];
        let area = log.format.area();
        if (log.tail - log.mirrored.max(area.start)) * 4 < area.size {
            return;
        }
        if software.ordered && !software.in_place && !software.cached_log {
            self.add(Kind::Fence, 0, 0);
        }
        let log = &mut self.logs[self.thread];
        log.mirrored = log.tail;
        let words = log.format.superblock(log.tail);
        let base = log.format.base;
        self.store_log(base, &words, software.cached_log);
        if software.ordered {
            self.add(Kind::Fence, 0, 0);
        }
    }

    fn write_back(&mut self) {
        let lines = std::mem::take(&mut self.open[self.thread].lines);
        for line in &lines {
            self.work(WRITE_BACK);
            self.add(Kind::Clwb, line * LINE, 0);
        }
        self.open[self.thread].lines = lines;
    }

    fn commit_software(&mut self, software: Software) {
        let forced = software.ordered && !software.cached_log;
        self.work(CALL);
        self.log_newest(software);
        if !software.in_place {
            if forced {
                self.add(Kind::Fence, 0, 0);
            }
            if self.shared {
                // The fence covers the data of earlier transactions.
                self.release(true);
            }
        } else if forced {
            self.write_back();
            self.add(Kind::Fence, 0, 0);
        }
        let record = self.record(RecordKind::Commit, 0);
        self.append(&record);
        if software.ordered {
            self.add(Kind::Fence, 0, 0);
        }
        self.acknowledge();
        if !software.in_place {
            for (addr, value) in std::mem::take(&mut self.open[self.thread].deferred) {
                self.push(Op::new(Kind::Store, addr, value));
            }
            if forced {
                self.write_back();
            }
        }
        self.truncate(software);
    }

    fn acknowledge(&mut self) {
        let number = self.open[self.thread].number;
        self.push(Op::new(Kind::Acknowledge, number, 0));
    }
}

impl PmCtx for Program {
    fn load(&mut self, addr: u64) -> u64 {
        self.read(Kind::Load, addr)
    }

    fn chase(&mut self, addr: u64) -> u64 {
        self.read(Kind::LoadAfterLoad, addr)
    }

    fn store(&mut self, addr: u64, value: u64) {
        if addr >= VOLATILE {
            if !self.setup {
                self.push(Op::new(Kind::Store, addr, value));
            }
            return;
        }
        let at = self.word(addr);
        if self.setup {
            self.memory[at] = value;
            return;
        }
        self.executed.stores += 1;
        if !self.open[self.thread].active {
            self.push(Op::new(Kind::Store, addr, value));
            self.memory[at] = value;
            return;
        }
        self.log(addr, value);
        self.memory[at] = value;
        let deferred = self.scheme.software.is_some_and(|software| !software.in_place);
        let open = &mut self.open[self.thread];
        let line = addr / LINE;
        if !open.lines.contains(&line) {
            open.lines.push(line);
        }
        if self.effects.is_some() {
            open.effects.push((addr, value));
        }
        if deferred {
            open.deferred.push((addr, value));
        } else {
            self.push(Op::new(Kind::Store, addr, value));
        }
    }

    fn store_past(&mut self, addr: u64, words: u64) {
        if !self.setup {
            self.push(Op { words: words as u16, ..Op::new(Kind::NtStore, addr, 0) });
        }
    }

    fn flush(&mut self, addr: u64) {
        if !self.setup {
            self.executed.write_backs += 1;
            self.push(Op::new(Kind::Clwb, addr, 0));
        }
    }

    fn fence(&mut self) {
        if !self.setup {
            self.executed.fences += 1;
            self.push(Op::new(Kind::Fence, 0, 0));
        }
    }

    fn alu(&mut self, instructions: u32) {
        if !self.setup {
            self.gap += instructions;
        }
    }

    fn tx_begin(&mut self) {
        let open = &mut self.open[self.thread];
        assert!(!open.active, "transactions do not nest");
        open.active = !self.setup;
        if self.setup {
            return;
        }
        open.lines.clear();
        open.logged.clear();
        open.has_records = false;
        let number = open.number;
        if self.scheme.software.is_some() {
            self.work(CALL);
        } else if self.scheme.hardware.is_some() {
            self.add(Kind::Begin, number, 0);
        }
    }

    fn tx_commit(&mut self) {
        if self.setup {
            return;
        }
        self.executed.transactions += 1;
        match (self.scheme.software, self.scheme.hardware) {
            (Some(software), _) => self.commit_software(software),
            (_, Some(hardware)) => {
                if hardware.clwb {
                    self.write_back();
                }
                let number = self.open[self.thread].number;
                self.add(Kind::Commit, number, 0);
            }
            _ => self.acknowledge(),
        }
        let open = &mut self.open[self.thread];
        open.active = false;
        let effects = std::mem::take(&mut open.effects);
        self.finish(effects);
    }

    fn done(&mut self) {
        if !self.setup {
            self.executed.transactions += 1;
            self.acknowledge();
            self.finish(Effects::default());
        }
    }

    fn alloc(&mut self, bytes: u64) -> u64 {
        let (at, end) = self.free[self.thread];
        let bytes = bytes.next_multiple_of(8);
        assert!(
            at + bytes <= end,
            "thread {}: {} bytes of data are too few",
            self.thread,
            self.layout.heap_bytes
        );
        self.free[self.thread].0 = at + bytes;
        at
    }

    fn left(&self) -> u64 {
        let (at, end) = self.free[self.thread];
        end - at
    }
}

impl Program {
    /// An operation has ended that stored these words.
    fn finish(&mut self, stored: Effects) {
        self.open[self.thread].number += 1;
        if let Some(effects) = &mut self.effects {
            effects[self.thread].push(stored);
        }
    }

    /// Looks an address up in the write set, if it is not empty.
    fn probe(&mut self, addr: u64) {
        if !self.open[self.thread].deferred.is_empty() {
            self.work(PROBE);
            let slot = VOLATILE + ((self.thread as u64) << 20) + (addr & 0x3f8);
            self.add(Kind::Load, slot, 0);
        }
    }

    fn read(&mut self, kind: Kind, addr: u64) -> u64 {
        if addr >= VOLATILE {
            if !self.setup {
                self.push(Op::new(kind, addr, 0));
            }
            return 0;
        }
        let value = self.memory[self.word(addr)];
        if !self.setup {
            self.probe(addr);
            self.push(Op::new(kind, addr, 0));
        }
        value
    }
}
