//! Where the time went, and how much was moved.
//!
//! Every task has a ledger that only it writes: time by operation kind and activity, waits by named lock,
//! counts of what happened to media. The cells are relaxed atomics, so that any thread may read a [`Snapshot`]
//! at any time under both clocks; a measured window is the difference of two snapshots.
//!
//! Under the virtual clock every nanosecond that a task advances is charged to exactly one (operation,
//! activity). Under the real clock modelled and waited time is charged as it passes, and
//! [`Activity::SOFTWARE`] is what remains of an operation.
//!
//! | time of | is booked on |
//! |---|---|
//! | CPU work, taking locks | what the kind of work says, [`Activity::SOFTWARE`]; in a scope that collects work, that |
//! | copies | [`Activity::COPY`]; in a scope that collects work, that |
//! | the medium | the activity in scope |
//! | waiting for the medium's bandwidth | [`Activity::MEDIUM_WAIT`] |
//! | a line of a memory under load, beyond its idle latency | [`Activity::MEMORY_LATENCY`] |
//! | waiting for a turn at that memory's greatest traffic | [`Activity::MEMORY_TURN`] |
//! | waiting for locks, conditions | [`Activity::LOCK_WAIT`], in a scope that collects waits, that; and the lock's name |
//! | waiting for a cache line | as CPU work; and the name of the line, or of the lock whose word it is |
//! | sleeping | [`Activity::SLEEP`], in a scope that collects waits, that |
//!
//! Besides time, the ledger of the virtual clock counts for each operation kind what the time is the price of: units of each kind
//! of
//! [`Work`], copied bytes, lines that a socket's cache served ([`Snapshot::units`]); and the time of named parts ([`part`]), which
//! are
//! no further division of the total but overlap with everything.

mod class;
mod guards;

pub use class::LockClass;
pub use guards::{OpGuard, PartGuard, Scope, calls, count, current_scope, op, part, scope};

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::clock;
use crate::context;
use crate::machine::Work;
use crate::ran;
use crate::units::Nanos;

/// What a task was doing while time passed: a small number with a name in results. The crate whose time it is declares an
/// activity and lists it.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    index: u8,
    collects: Collects,
    name: &'static str,
}

/// What is booked on an activity while it is in scope, besides the medium's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collects {
    Nothing,
    /// CPU work and copies.
    Work,
    /// Waits for locks, conditions and cores, and sleep.
    Waits,
}

impl Activity {
    /// Limit of activities.
    pub const MAX: usize = 14;

    /// Declares activity `index` (below [`Activity::MAX`], one of its own).
    pub const fn new(index: u8, name: &'static str) -> Self {
        assert!((index as usize) < Self::MAX, "the index of an activity is out of range");
        Self { index, collects: Collects::Nothing, name }
    }

    /// The same, and in its scope CPU work and copies are booked on it too.
    #[must_use]
    pub const fn with_work(self) -> Self {
        Self { collects: Collects::Work, ..self }
    }

    /// The same, and in its scope waits are booked on it too.
    #[must_use]
    pub const fn with_waits(self) -> Self {
        Self { collects: Collects::Waits, ..self }
    }

    /// Its place in a snapshot.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Where CPU work is booked that is `otherwise` outside of this scope.
    #[inline]
    pub(crate) fn of_work(self, otherwise: Self) -> Self {
        if self.collects == Collects::Work { self } else { otherwise }
    }

    /// Where a wait is booked that is `otherwise` outside of this scope.
    #[inline]
    pub(crate) fn of_wait(self, otherwise: Self) -> Self {
        if self.collects == Collects::Waits { self } else { otherwise }
    }
}

impl PartialEq for Activity {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl Eq for Activity {}

/// The activities that this crate books by itself. Indices 0 to 6, 12 and 13.
impl Activity {
    /// CPU work other than copying: searching, checking, book-keeping.
    pub const SOFTWARE: Self = Self::new(0, "software");
    /// Copying bytes between memory and a caller's buffer.
    pub const COPY: Self = Self::new(1, "copy");
    /// The medium serving file data: what its time is booked on unless another activity is in scope.
    pub const DATA: Self = Self::new(2, "data");
    /// Waiting for the medium's limited bandwidth.
    pub const MEDIUM_WAIT: Self = Self::new(3, "medium_wait");
    /// Waiting for a lock; the ledger also keeps the lock's name.
    pub const LOCK_WAIT: Self = Self::new(4, "lock_wait");
    /// Sleeping by choice.
    pub const SLEEP: Self = Self::new(5, "sleep");
    /// Waiting for a core that another task has.
    pub const CORE_WAIT: Self = Self::new(6, "core_wait");
    /// The time of a line from a memory under load beyond the latency of the memory when it is idle.
    pub const MEMORY_LATENCY: Self = Self::new(12, "memory_latency");
    /// Waiting for a turn at the greatest traffic of a memory.
    pub const MEMORY_TURN: Self = Self::new(13, "memory_turn");

    /// The activities that this crate declares.
    pub const OF_SIM: &[Self] = &[
        Self::SOFTWARE,
        Self::COPY,
        Self::DATA,
        Self::MEDIUM_WAIT,
        Self::LOCK_WAIT,
        Self::SLEEP,
        Self::CORE_WAIT,
        Self::MEMORY_LATENCY,
        Self::MEMORY_TURN,
    ];
}

/// A kind of operation, as the ledger sees it: a small number with a name. `vfs` declares one for each system
/// call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    index: u8,
    name: &'static str,
}

impl Op {
    /// Limit of operation kinds.
    pub const MAX: usize = 40;
    /// Outside any operation.
    pub const NONE: Self = Self { index: 0, name: "none" };
    /// An operation whose kind is known only when it is done: [`OpGuard::set_op`] decides. Snapshots see it from then on.
    pub const UNDECIDED: Self = Self { index: Self::MAX as u8, name: "undecided" };

    /// Declares operation kind `index` (1..[`Op::MAX`]).
    pub const fn new(index: u8, name: &'static str) -> Self {
        assert!(index > 0 && (index as usize) < Self::MAX, "operation index out of range");
        Self { index, name }
    }

    /// Its place in a snapshot.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// Something counted besides time, by the activity in whose scope it happened.
///
/// Declare one as a `static` where it is counted, with its name in results (`design.what`), the unit of its number, and what it
/// means to a reader of results.
#[derive(Debug)]
pub struct Count {
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    number: Number,
}

/// The counts that have been used, in the order of their numbers.
static COUNTED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

impl Count {
    /// Limit of counts in one process.
    const MAX: usize = 24;

    /// A count called `name` in results, of `unit`: "bytes", "lines", "pages", or "" for events.
    pub const fn new(name: &'static str, unit: &'static str, meaning: &'static str) -> Self {
        Self { name, unit, meaning, number: Number::new() }
    }

    /// Its name in results.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What one of it is; empty for events.
    pub fn unit(&self) -> &'static str {
        self.unit
    }

    /// What is counted, in one line.
    pub fn meaning(&self) -> &'static str {
        self.meaning
    }

    #[inline]
    fn number(&self) -> usize {
        self.number.of(|| {
            let number = number_of(self.name, &COUNTED);
            assert!(number < Self::MAX, "{} is one count too many: raise Count::MAX", self.name);
            number
        })
    }
}

/// The classes that this crate declares.
pub static CLASSES: &[&LockClass] = &[&crate::sync::CONDVAR, &crate::task::JOIN];

/// Limit of lock classes in one process.
const LOCK_CLASSES: usize = 128;

/// The number of a declared thing in the ledger: given out when it is first needed, so that none is taken by what a process
/// never uses.
#[derive(Debug)]
struct Number(AtomicU32);

impl Number {
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    fn of(&self, give: impl FnOnce() -> usize) -> usize {
        match self.0.load(Relaxed) {
            0 => self.set(give()),
            number => number as usize - 1,
        }
    }

    #[cold]
    fn set(&self, number: usize) -> usize {
        self.0.store(number as u32 + 1, Relaxed);
        number
    }
}

/// The place of `name` in `names`, where it is put at the end if it has none.
#[cold]
fn number_of(name: &'static str, names: &Mutex<Vec<&'static str>>) -> usize {
    let _own = ran::aside();
    let mut names = names.lock();
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// Columns of the units of work: every kind of [`Work`], and what follows.
const UNITS: usize = Work::MAX + 2;
/// Bytes that were copied.
pub(crate) const COPIED_BYTES: usize = Work::MAX;
/// Lines that the cache of a socket served.
pub(crate) const SOCKET_LINES: usize = Work::MAX + 1;

/// A named part of operations, as a function of a design: the ledger keeps how often it ran and how long it took, parts inside of
/// it
/// included.
///
/// Declare one as a `static` where the part is, with its name in results (`design.part`). A machine may have a price for what the
/// original of the design does there ([`crate::Machine::parts`]): it is charged as software when the part begins.
#[derive(Debug)]
pub struct Part {
    name: &'static str,
    number: Number,
}

/// The parts that have been run, in the order of their numbers.
static PARTS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

impl Part {
    /// Limit of parts that are run in one process.
    pub(crate) const MAX: usize = 96;

    /// A part called `name`: `design.part`.
    pub const fn new(name: &'static str) -> Self {
        Self { name, number: Number::new() }
    }

    pub(crate) fn number(&self) -> usize {
        self.number.of(|| {
            let number = number_of(self.name, &PARTS);
            assert!(number < Self::MAX, "{} is one part too many: raise Part::MAX", self.name);
            number
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

/// What parts of operations of one kind came to.
struct Parts {
    count: [AtomicU64; Part::MAX],
    ns: [AtomicU64; Part::MAX],
}

impl Parts {
    fn new() -> Box<Self> {
        let _own = ran::aside();
        Box::new(Self {
            count: [const { AtomicU64::new(0) }; Part::MAX],
            ns: [const { AtomicU64::new(0) }; Part::MAX],
        })
    }
}

/// Rows of a ledger: a row for each kind, and one for an operation that is not decided yet.
const ROWS: usize = Op::MAX + 1;

/// One task's ledger.
pub(crate) struct Ledger {
    /// The kind of the operation that has begun and not ended; [`Op::NONE`] between operations.
    under_way: AtomicU8,
    time: Box<[[AtomicU64; Activity::MAX]]>,
    /// Time from begin to end of the operations, measured, not summed from the parts.
    total: [AtomicU64; Op::MAX],
    calls: [AtomicU64; Op::MAX],
    /// A row is made at the first wait in an operation of its kind: most tasks never have one.
    waits: [OnceLock<Box<Waits>>; ROWS],
    /// An operation that is not decided yet has waited for a lock or a line.
    undecided_waited: AtomicBool,
    counts: [[AtomicU64; Count::MAX]; Activity::MAX],
    /// Virtual clock: of what the time of an operation kind is the price. A row is made at the first work of its kind: a task has
    /// few kinds, and may have a small stack.
    units: [OnceLock<Box<Units>>; ROWS],
    /// A row is made at the first part of an operation of its kind.
    parts: [OnceLock<Box<Parts>>; ROWS],
}

/// Units of an operation kind.
type Units = [AtomicU64; UNITS];

/// What operations of one kind have waited for by name.
struct Waits {
    lock: [AtomicU64; LOCK_CLASSES],
    line: [AtomicU64; LOCK_CLASSES],
    /// Both together, by the activity that the time is booked on.
    named: [AtomicU64; Activity::MAX],
}

impl Waits {
    fn new() -> Box<Self> {
        let _own = ran::aside();
        Box::new(Self {
            lock: [const { AtomicU64::new(0) }; LOCK_CLASSES],
            line: [const { AtomicU64::new(0) }; LOCK_CLASSES],
            named: [const { AtomicU64::new(0) }; Activity::MAX],
        })
    }

    fn move_to(&self, other: &Self) {
        move_row(&self.lock, &other.lock);
        move_row(&self.line, &other.line);
        move_row(&self.named, &other.named);
    }
}

/// Adds to a cell that only this task writes: no locked instruction is needed.
#[inline]
fn bump(cell: &AtomicU64, n: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            under_way: AtomicU8::new(Op::NONE.index),
            // Not on the stack of the task that starts another, which may be small.
            time: (0..ROWS).map(|_| [const { AtomicU64::new(0) }; Activity::MAX]).collect(),
            total: [const { AtomicU64::new(0) }; Op::MAX],
            calls: [const { AtomicU64::new(0) }; Op::MAX],
            waits: [const { OnceLock::new() }; ROWS],
            undecided_waited: AtomicBool::new(false),
            counts: [const { [const { AtomicU64::new(0) }; Count::MAX] }; Activity::MAX],
            units: [const { OnceLock::new() }; ROWS],
            parts: [const { OnceLock::new() }; ROWS],
        }
    }

    /// Adds `n` units to a column of [`UNITS`].
    #[inline]
    pub(crate) fn add_units(&self, op: u8, unit: usize, n: u64) {
        bump(&self.units_of(op as usize)[unit], n);
    }

    #[inline]
    fn units_of(&self, row: usize) -> &Units {
        self.units[row].get_or_init(|| {
            let _own = ran::aside();
            Box::new([const { AtomicU64::new(0) }; UNITS])
        })
    }

    fn add_part(&self, op: u8, part: &Part, ns: u64) {
        let parts = self.parts[op as usize].get_or_init(Parts::new);
        bump(&parts.count[part.number()], 1);
        bump(&parts.ns[part.number()], ns);
    }

    /// The task is in an operation of this kind from now on.
    #[inline]
    pub(crate) fn set_under_way(&self, op: Op) {
        self.under_way.store(op.index, Relaxed);
    }

    #[inline]
    pub(crate) fn add(&self, op: u8, activity: Activity, ns: u64) {
        bump(&self.time[op as usize][activity.index()], ns);
    }

    /// Adds a wait that is booked on `activity` to the lock's name.
    pub(crate) fn add_lock_wait(&self, op: u8, activity: Activity, class: &LockClass, ns: u64) {
        bump(&self.named(op, activity, ns).lock[class.number()], ns);
    }

    /// Adds what was waited for a cache line, which is booked on `activity`, to the name of the line or of its lock.
    pub(crate) fn add_line_wait(&self, op: u8, activity: Activity, class: &LockClass, ns: u64) {
        bump(&self.named(op, activity, ns).line[class.number()], ns);
    }

    /// The waits of `op`, after a wait of `ns` with a name has been added to `activity`.
    fn named(&self, op: u8, activity: Activity, ns: u64) -> &Waits {
        let waits = self.waits(op as usize);
        bump(&waits.named[activity.index()], ns);
        if op == Op::UNDECIDED.index {
            self.undecided_waited.store(true, Relaxed);
        }
        waits
    }

    fn waits(&self, row: usize) -> &Waits {
        self.waits[row].get_or_init(Waits::new)
    }

    /// Moves what an undecided operation has booked to its kind.
    fn decide(&self, op: Op) {
        let row = &self.time[Op::UNDECIDED.index()];
        if self.undecided_waited.swap(false, Relaxed)
            && let Some(waits) = self.waits[Op::UNDECIDED.index()].get()
        {
            waits.move_to(self.waits(op.index()));
        }
        if let Some(parts) = self.parts[Op::UNDECIDED.index()].get() {
            let to = self.parts[op.index()].get_or_init(Parts::new);
            move_row(&parts.count, &to.count);
            move_row(&parts.ns, &to.ns);
        }
        if let Some(units) = self.units[Op::UNDECIDED.index()].get() {
            move_row(&units[..], &self.units_of(op.index())[..]);
        }
        move_row(row, &self.time[op.index()]);
    }

    /// Time from begin to end of the operations of a kind, and of one that is under way what it has booked.
    fn total(&self, op: usize) -> u64 {
        let total = self.total[op].load(Relaxed);
        if op == Op::NONE.index() || op != usize::from(self.under_way.load(Relaxed)) {
            return total;
        }
        total.max(self.time[op].iter().map(|cell| cell.load(Relaxed)).sum())
    }

    fn add_into(&self, sum: &mut Snapshot) {
        for op in 0..Op::MAX {
            sum.total[op] += self.total(op);
            sum.calls[op] += self.calls[op].load(Relaxed);
            add_row(&mut sum.time[op], &self.time[op]);
            if let Some(units) = self.units[op].get() {
                add_row(&mut sum.units[op], &units[..]);
            }
            if let Some(parts) = self.parts[op].get() {
                add_row(&mut sum.parts[op].count, &parts.count);
                add_row(&mut sum.parts[op].ns, &parts.ns);
            }
            if let Some(waits) = self.waits[op].get() {
                add_row(&mut sum.lock_wait[op], &waits.lock);
                add_row(&mut sum.line_wait[op], &waits.line);
                add_row(&mut sum.named[op], &waits.named);
            }
        }
        for (row, cells) in sum.counts.iter_mut().zip(&self.counts) {
            add_row(row, cells);
        }
    }
}

/// Adds a row to another and empties it.
fn move_row(from: &[AtomicU64], to: &[AtomicU64]) {
    for (from, to) in from.iter().zip(to) {
        bump(to, from.load(Relaxed));
        from.store(0, Relaxed);
    }
}

fn add_row(sums: &mut [u64], cells: &[AtomicU64]) {
    for (sum, cell) in sums.iter_mut().zip(cells) {
        *sum += cell.load(Relaxed);
    }
}

/// The ledgers of a run: those of its tasks, and the sum over the tasks that have ended.
#[derive(Default)]
pub(crate) struct Ledgers {
    open: Vec<Arc<Ledger>>,
    ended: Snapshot,
}

impl Ledgers {
    pub(crate) fn open(&mut self, ledger: &Arc<Ledger>) {
        self.open.push(Arc::clone(ledger));
    }

    pub(crate) fn close(&mut self, ledger: &Arc<Ledger>) {
        if let Some(place) = self.open.iter().position(|open| Arc::ptr_eq(open, ledger)) {
            self.open.swap_remove(place).add_into(&mut self.ended);
        }
    }

    fn sum(&self) -> Snapshot {
        let mut sum = self.ended.clone();
        self.open.iter().for_each(|ledger| ledger.add_into(&mut sum));
        sum
    }
}

/// The sum of some ledgers at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    time: Box<[[u64; Activity::MAX]; Op::MAX]>,
    total: [u64; Op::MAX],
    calls: [u64; Op::MAX],
    lock_wait: Box<[[u64; LOCK_CLASSES]]>,
    line_wait: Box<[[u64; LOCK_CLASSES]]>,
    named: Box<[[u64; Activity::MAX]; Op::MAX]>,
    counts: [[u64; Count::MAX]; Activity::MAX],
    units: Box<[[u64; UNITS]; Op::MAX]>,
    parts: Box<[PartSums]>,
}

/// What parts of operations of one kind came to, in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartSums {
    count: [u64; Part::MAX],
    ns: [u64; Part::MAX],
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            time: Box::new([[0; Activity::MAX]; Op::MAX]),
            total: [0; Op::MAX],
            calls: [0; Op::MAX],
            lock_wait: vec![[0; LOCK_CLASSES]; Op::MAX].into_boxed_slice(),
            line_wait: vec![[0; LOCK_CLASSES]; Op::MAX].into_boxed_slice(),
            named: Box::new([[0; Activity::MAX]; Op::MAX]),
            counts: [[0; Count::MAX]; Activity::MAX],
            units: Box::new([[0; UNITS]; Op::MAX]),
            parts: vec![PartSums { count: [0; Part::MAX], ns: [0; Part::MAX] }; Op::MAX].into_boxed_slice(),
        }
    }
}

/// One count of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The count's name.
    pub name: &'static str,
    by_activity: [u64; Activity::MAX],
}

impl Counted {
    /// The sum over all scopes.
    pub fn total(&self) -> u64 {
        self.by_activity.iter().sum()
    }

    /// What was counted in the scope of `activity`.
    pub fn of(&self, activity: Activity) -> u64 {
        self.by_activity[activity.index()]
    }
}

impl Snapshot {
    /// The ledger of the current task; empty outside a run.
    pub fn of_task() -> Self {
        let mut sum = Self::default();
        if let Some(cx) = context::current() {
            cx.ledger.add_into(&mut sum);
        }
        sum
    }

    /// The sum over all tasks of the current run, background tasks and ended ones included; empty outside a
    /// run. This is an interaction: under the virtual clock every task has come at least as far as the
    /// current one.
    pub fn of_run() -> Self {
        let Some(cx) = context::current() else { return Self::default() };
        clock::interact();
        cx.run.ledgers.lock().sum()
    }

    /// Time of operations of kind `op` spent on `activity`.
    pub fn time(&self, op: Op, activity: Activity) -> Nanos {
        Nanos(self.time[op.index()][activity.index()])
    }

    /// Time of operations of kind `op` spent on all activities.
    pub fn booked(&self, op: Op) -> Nanos {
        Nanos(self.time[op.index()].iter().sum())
    }

    /// Time from begin to end of all operations of kind `op`. Of one that had not ended when the snapshot was taken, what was
    /// booked until then: the rest is in later snapshots.
    pub fn total(&self, op: Op) -> Nanos {
        Nanos(self.total[op.index()])
    }

    /// Number of operations of kind `op`.
    pub fn calls(&self, op: Op) -> u64 {
        self.calls[op.index()]
    }

    /// Waits of operations of kind `op` by lock name, in the order of names, without zeros.
    pub fn lock_waits(&self, op: Op) -> Vec<(&'static str, Nanos)> {
        by_name(&self.lock_wait[op.index()])
    }

    /// What operations of kind `op` have waited for cache lines, by the name of the line or of the lock whose word it is, in the
    /// order of names, without zeros. It is booked as the CPU work of which it is a part.
    pub fn line_waits(&self, op: Op) -> Vec<(&'static str, Nanos)> {
        by_name(&self.line_wait[op.index()])
    }

    /// The part of [`Snapshot::time`] that has names in [`Snapshot::lock_waits`] and [`Snapshot::line_waits`].
    pub fn named(&self, op: Op, activity: Activity) -> Nanos {
        Nanos(self.named[op.index()][activity.index()])
    }

    /// Units of `work` that operations of kind `op` were charged. Taking a lock or updating a line is one [`Work::LOCK`]; the way
    /// of
    /// a line between cores is in [`Snapshot::line_waits`].
    pub fn units(&self, op: Op, work: Work) -> u64 {
        self.units[op.index()][work.index()]
    }

    /// Bytes that operations of kind `op` copied, from and to whichever cache or memory.
    pub fn copied_bytes(&self, op: Op) -> u64 {
        self.units[op.index()][COPIED_BYTES]
    }

    /// Lines of objects that the cache of a socket served to operations of kind `op`.
    pub fn socket_lines(&self, op: Op) -> u64 {
        self.units[op.index()][SOCKET_LINES]
    }

    /// The named parts of operations of kind `op`: how often each ran and how long it took, in the order of names.
    pub fn parts(&self, op: Op) -> Vec<(&'static str, u64, Nanos)> {
        let sums = &self.parts[op.index()];
        let names = PARTS.lock().clone();
        let all = names.into_iter().zip(sums.count.iter().zip(&sums.ns));
        let mut parts: Vec<_> = all.map(|(name, (count, ns))| (name, *count, Nanos(*ns))).collect();
        parts.retain(|(_, count, _)| *count > 0);
        parts.sort_unstable();
        parts
    }

    /// What was counted in the scope of `activity`.
    pub fn count(&self, count: &Count, activity: Activity) -> u64 {
        self.counts[activity.index()][count.number()]
    }

    /// What was counted in all scopes.
    pub fn count_all(&self, count: &Count) -> u64 {
        let number = count.number();
        self.counts.iter().map(|row| row[number]).sum()
    }

    /// What was counted, in the order of names, without zeros.
    pub fn counted(&self) -> Vec<Counted> {
        let names = COUNTED.lock().clone();
        let of =
            |(number, name)| Counted { name, by_activity: self.counts.each_ref().map(|row| row[number]) };
        let mut counted: Vec<_> =
            names.into_iter().enumerate().map(of).filter(|one| one.total() > 0).collect();
        counted.sort_unstable_by_key(|one| one.name);
        counted
    }

    /// What was added since `earlier`, a snapshot of the same ledgers.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut diff = self.clone();
        for op in 0..Op::MAX {
            diff.total[op] = diff.total[op].saturating_sub(earlier.total[op]);
            diff.calls[op] -= earlier.calls[op];
            subtract(&mut diff.time[op], &earlier.time[op]);
            subtract(&mut diff.units[op], &earlier.units[op]);
            subtract(&mut diff.parts[op].count, &earlier.parts[op].count);
            subtract(&mut diff.parts[op].ns, &earlier.parts[op].ns);
            subtract(&mut diff.lock_wait[op], &earlier.lock_wait[op]);
            subtract(&mut diff.line_wait[op], &earlier.line_wait[op]);
            subtract(&mut diff.named[op], &earlier.named[op]);
        }
        for (row, before) in diff.counts.iter_mut().zip(&earlier.counts) {
            subtract(row, before);
        }
        diff
    }
}

/// A row of waits with the names of its numbers.
fn by_name(row: &[u64; LOCK_CLASSES]) -> Vec<(&'static str, Nanos)> {
    let named = class::WAITED
        .lock()
        .iter()
        .copied()
        .zip(row)
        .map(|(name, ns)| (name, Nanos(*ns)))
        .collect::<Vec<_>>();
    let mut waits: Vec<_> = named.into_iter().filter(|(_, wait)| *wait > Nanos::ZERO).collect();
    waits.sort_unstable();
    waits
}

fn subtract(row: &mut [u64], earlier: &[u64]) {
    for (now, before) in row.iter_mut().zip(earlier) {
        *now -= before;
    }
}
