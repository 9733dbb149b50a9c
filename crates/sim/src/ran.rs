//! Small work that code does all the time: memory got, keys hashed, nodes of maps visited, metadata encoded, checksums, credits of
//! a journal. A machine may price it ([`Work::RAN`]); without a price nothing is charged or counted, and no time passes.
//!
//! | kind | a unit is | charged by |
//! |---|---|---|
//! | [`Work::ALLOC`] | a block of memory, got now and freed some time | [`allocate`], where a call gets it |
//! | [`Work::HASH`] | 16 bytes of a key | [`hash`] |
//! | [`Work::NODE`] | a node of a tree or a bucket of a table, searched or changed, that no [`Work::STEP`] prices | [`node`] |
//! | [`Work::BYTES`] | a line of metadata that is encoded, decoded or copied in memory | [`bytes`] |
//! | [`Work::CHECKSUM`] | a line under a checksum | [`checksum`] |
//! | [`Work::HANDLE`] | a credit that a transaction reserves, or an entry of its log | [`handle`] |
//!
//! Where memory is got in one of the usual ways, [`push`], [`extend`], [`copied`], [`zeroed`], [`collected`], [`boxed`] and
//! [`shared`] get it and charge for it in one.
//!
//! # The check
//!
//! A charge is a line of code that can be forgotten. So debug builds also count what a task *does*, apart from what it is charged:
//! allocations by [`CountingAllocator`], which a test program installs; hashes, nodes, checksums and handles by [`did`], which the
//! code that does the work calls. [`Tally`] has both, and [`Tally::forgotten`] names the kinds of which more was done
//! than charged. The counts are a task's own, so what other tasks do while this one is suspended is not in them.
//!
//! Charges may let other tasks run, as any [`crate::work`] may: no borrow or foreign guard is held over one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use crate::clock;
use crate::context;
use crate::machine::Work;

/// All but [`Work::BYTES`] are counted as they are done: nothing tells a copy of metadata from other instructions.
const KINDS: usize = Work::RAN.len();

/// The place of a kind in [`Work::RAN`]. Searches of trees and maps whose price is [`Work::STEP`] count as [`Work::NODE`].
#[inline]
const fn place(kind: Work) -> usize {
    let kind = if kind.index() == Work::STEP.index() { Work::NODE } else { kind };
    kind.index() - Work::ALLOC.index()
}

/// Charges for `n` blocks of memory.
#[inline]
pub fn allocate(n: u64) {
    charge(Work::ALLOC, n);
}

/// Charges for hashing a key of so many bytes.
#[inline]
pub fn hash(bytes: u64) {
    charge(Work::HASH, bytes.div_ceil(16).max(1));
}

/// Charges for `n` nodes of a tree, or buckets of a table.
#[inline]
pub fn node(n: u64) {
    charge(Work::NODE, n);
}

/// Charges for encoding, decoding or copying so many bytes of metadata.
#[inline]
pub fn bytes(bytes: u64) {
    charge(Work::BYTES, lines(bytes));
}

/// Charges for a checksum over so many bytes.
#[inline]
pub fn checksum(bytes: u64) {
    charge(Work::CHECKSUM, lines(bytes));
}

/// Charges for `n` credits of a journal.
#[inline]
pub fn handle(n: u64) {
    charge(Work::HANDLE, n);
}

/// Adds to a list; charges for its memory when it has to grow.
#[inline]
pub fn push<T>(list: &mut Vec<T>, value: T) {
    if list.len() == list.capacity() {
        allocate(1);
    }
    list.push(value);
}

/// Adds all items to a list, as [`push`] does.
#[inline]
pub fn extend<T>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) {
    items.into_iter().for_each(|item| push(list, item));
}

/// A copy of some bytes.
#[inline]
pub fn copied(from: &[u8]) -> Vec<u8> {
    allocate(u64::from(!from.is_empty()));
    bytes(from.len() as u64);
    from.to_vec()
}

/// So many zero bytes.
#[inline]
pub fn zeroed(len: usize) -> Vec<u8> {
    allocate(u64::from(len > 0));
    bytes(len as u64);
    vec![0; len]
}

/// A list of all items, which grows where their number is not known before.
#[inline]
pub fn collected<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let items = items.into_iter();
    let known = items.size_hint().0;
    allocate(u64::from(known > 0));
    let mut list = Vec::with_capacity(known);
    extend(&mut list, items);
    list
}

/// A value in a block of its own.
#[inline]
pub fn boxed<T>(value: T) -> Box<T> {
    allocate(1);
    Box::new(value)
}

/// The same, with a count of references.
#[inline]
pub fn shared<T>(value: T) -> Arc<T> {
    allocate(1);
    Arc::new(value)
}

const fn lines(bytes: u64) -> u64 {
    bytes.div_ceil(crate::units::LINE_BYTES as u64)
}

#[inline]
fn charge(kind: Work, n: u64) {
    if n > 0 && (!cfg!(debug_assertions) || note_charged(kind, n)) {
        clock::priced_alone(kind, n);
    }
}

/// In debug builds: a charge of one of these kinds, or of [`Work::STEP`], goes into the tally. False if it is left out.
pub(crate) fn note_charged(kind: Work, n: u64) -> bool {
    if OMITTED.get().is_some_and(|(omitted, _)| omitted == place(kind)) && is_omitted() {
        return false;
    }
    with_counts(|counts| &counts.charged[place(kind)], n);
    true
}

/// Whether this charge, of the kind that has some left out, is.
#[cold]
fn is_omitted() -> bool {
    match OMITTED.get() {
        Some((kind, Some(before))) => {
            OMITTED.set(before.checked_sub(1).map(|before| (kind, Some(before))));
            before == 0
        }
        omitted => omitted.is_some(),
    }
}

/// Counts `n` units of `kind`, one of [`Work::RAN`], as done; the caller of the code that does them charges for them. Release
/// builds count nothing.
#[inline]
pub fn did(kind: Work, n: u64) {
    if cfg!(debug_assertions) {
        with_counts(|counts| &counts.done[place(kind)], n);
    }
}

#[inline]
fn with_counts(cell: impl FnOnce(&Counts) -> &Cell<u64>, n: u64) {
    if let Some(cx) = context::current().filter(|cx| cx.ran.aside.get() == 0) {
        let cell = cell(&cx.ran);
        cell.set(cell.get() + n);
    }
}

/// The counts of one task; they stay zero in release builds.
#[derive(Default)]
pub(crate) struct Counts {
    done: [Cell<u64>; KINDS],
    charged: [Cell<u64>; KINDS],
    /// How many [`Aside`] there are.
    aside: Cell<u32>,
}

/// What the current task did and was charged, by the places of [`Work::RAN`]. A part of it is the difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    done: [u64; KINDS],
    charged: [u64; KINDS],
}

/// A kind of work of which more was done than was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The kind.
    pub kind: Work,
    /// Units that were done.
    pub done: u64,
    /// Units that were charged.
    pub charged: u64,
}

impl Tally {
    /// All that the current task has done so far; zeros outside a run and in release builds.
    pub fn of_task() -> Self {
        let get = |cells: &[Cell<u64>; KINDS]| std::array::from_fn(|at| cells[at].get());
        context::current()
            .map_or_else(Self::default, |cx| Self { done: get(&cx.ran.done), charged: get(&cx.ran.charged) })
    }

    /// What came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |a: &[u64; KINDS], b: &[u64; KINDS]| std::array::from_fn(|at| a[at] - b[at]);
        Self { done: less(&self.done, &earlier.done), charged: less(&self.charged, &earlier.charged) }
    }

    /// Units of `kind` that were done.
    pub fn done(&self, kind: Work) -> u64 {
        self.done[place(kind)]
    }

    /// Units of `kind` that were charged.
    pub fn charged(&self, kind: Work) -> u64 {
        self.charged[place(kind)]
    }

    /// The kinds of which more was done than was charged.
    pub fn forgotten(&self) -> impl Iterator<Item = Forgotten> + '_ {
        let all = Work::RAN.iter().map(|kind| Forgotten {
            kind: *kind,
            done: self.done(*kind),
            charged: self.charged(*kind),
        });
        all.filter(|one| one.done > one.charged)
    }
}

/// Until the guard is dropped nothing that the current task does or is charged is in its [`Tally`]: it is the work of a model or
/// of a harness, not of what is measured. Prices are charged all the same.
#[derive(Debug)]
#[must_use = "the tally goes on when the guard is dropped"]
pub struct Aside(());

/// See [`Aside`].
#[inline]
pub fn aside() -> Aside {
    if cfg!(debug_assertions)
        && let Some(cx) = context::current()
    {
        cx.ran.aside.set(cx.ran.aside.get() + 1);
    }
    Aside(())
}

impl Drop for Aside {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions)
            && let Some(cx) = context::current()
        {
            cx.ran.aside.set(cx.ran.aside.get().saturating_sub(1));
        }
    }
}

/// Until the guard is dropped, small work of the current task costs nothing: what it belongs to has a price that covers it, as a
/// named part of a design, or the path of a kernel above the front end. It is counted as charged.
#[derive(Debug)]
#[must_use = "small work costs again when the guard is dropped"]
pub struct Covered(());

/// See [`Covered`].
#[inline]
pub fn covered() -> Covered {
    if let Some(cx) = context::current() {
        cx.covered.set(cx.covered.get() + 1);
    }
    Covered(())
}

impl Drop for Covered {
    #[inline]
    fn drop(&mut self) {
        if let Some(cx) = context::current() {
            cx.covered.set(cx.covered.get().saturating_sub(1));
        }
    }
}

thread_local! {
    /// The place of the kind of which charges are left out on this host thread: all, or the one before which so many come.
    static OMITTED: Cell<Option<(usize, Option<u64>)>> = const { Cell::new(None) };
}

/// Leaves out charges of `kind` while `body` runs, in debug builds: all of them, or the one before which `after` others come. It is
/// for a test that the check finds them missing. It holds for the host thread, so in a virtual run for all tasks.
pub fn omitting<T>(kind: Work, after: Option<u64>, body: impl FnOnce() -> T) -> T {
    let before = OMITTED.replace(Some((place(kind), after)));
    let value = body();
    OMITTED.set(before);
    value
}

/// The system's allocator, which counts the blocks that a task gets. A test program installs it with `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

// SAFETY: every call is passed on to the system's allocator as it is. Counting reads one thread-local pointer, which needs no
// destructor and no memory, and adds to cells of the current task: neither allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        did(Work::ALLOC, 1);
        // SAFETY: the caller's promise is the one that is wanted here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        did(Work::ALLOC, 1);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        did(Work::ALLOC, 1);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, bytes) }
    }
}
