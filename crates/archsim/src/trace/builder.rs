//! Traces of programs that were not written for the simulator.
//!
//! Pages get numbers in the order of their first use, and an access is split at words: all memory of the program is then one range
//! of persistent memory. Where the program marks no transactions, `Unmarked` makes one of every so many stores.

use std::collections::BTreeMap;

use super::{BEGIN, CHASE, COMMIT, DONE, FENCE, FLUSH, LOAD, Trace, Writer};
use crate::error::Error;
use crate::machine::LINE;

const PAGE: u64 = 4096;
/// Accesses of an operation without a transaction.
const OPERATION: u64 = 1000;

/// A trace of one thread that is being built.
#[derive(Debug, Default)]
pub struct Builder {
    writer: Writer,
    pages: BTreeMap<u64, u64>,
    /// Words stored.
    pub stored: u64,
    open: bool,
}

impl Builder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Instructions that touch no memory.
    pub fn instructions(&mut self, count: u64) {
        self.writer.gap = self.writer.gap.saturating_add(count).min(u64::from(u32::MAX));
    }

    /// Takes instructions back that an access stands for.
    pub(super) fn instructions_less(&mut self, count: u64) {
        self.writer.gap = self.writer.gap.saturating_sub(count);
    }

    fn place(&mut self, addr: u64) -> u64 {
        let next = self.pages.len() as u64;
        *self.pages.entry(addr / PAGE).or_insert(next) * PAGE + addr % PAGE
    }

    /// The places of the pieces of `step` bytes that hold an access.
    fn pieces(&mut self, (addr, bytes): (u64, u64), step: u64) -> Vec<u64> {
        let numbers = addr / step..addr.saturating_add(bytes).div_ceil(step);
        numbers.map(|number| self.place(number * step)).collect()
    }

    /// Loads bytes; `after`: their address comes from the load before.
    pub fn load(&mut self, addr: u64, bytes: u64, after: bool) {
        for place in self.pieces((addr, bytes), 8) {
            self.writer.access(if after { CHASE } else { LOAD }, place);
        }
    }

    /// Stores bytes. Values are not known: every store changes its word.
    pub fn store(&mut self, addr: u64, bytes: u64) {
        for place in self.pieces((addr, bytes), 8) {
            self.stored += 1;
            self.writer.store(place, self.stored);
        }
    }

    /// Stores bytes past the caches.
    pub fn store_past(&mut self, addr: u64, bytes: u64) {
        let (mut at, end) = (addr & !7, addr.saturating_add(bytes).next_multiple_of(8));
        while at < end {
            let next = ((at / LINE + 1) * LINE).min(end);
            let place = self.place(at);
            self.writer.store_past(place, (next - at) / 8);
            at = next;
        }
    }

    /// Writes the lines back that hold bytes.
    pub fn flush(&mut self, addr: u64, bytes: u64) {
        for place in self.pieces((addr, bytes), LINE) {
            self.writer.access(FLUSH, place);
        }
    }

    /// Waits for write-backs and stores past the caches.
    pub fn fence(&mut self) {
        self.writer.mark(FENCE);
    }

    /// Begins a transaction, unless one is open.
    pub fn begin(&mut self) {
        if !std::mem::replace(&mut self.open, true) {
            self.writer.mark(BEGIN);
        }
    }

    /// Ends an operation: its transaction, if one is open.
    pub fn end(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.writer.mark(if open { COMMIT } else { DONE });
    }

    /// The trace.
    ///
    /// # Errors
    /// [`Error::Trace`] if nothing was loaded or stored.
    pub fn finish(self) -> Result<Trace, Error> {
        if self.pages.is_empty() {
            return Err(Error::Trace("there is no load and no store in it".into()));
        }
        let share = self.pages.len() as u64 * PAGE;
        let trace = Trace { threads: vec![self.writer.trace], share, config_hash: 0 };
        trace.check()?;
        Ok(trace)
    }
}

/// Accesses of a program that marks no transactions.
#[derive(Debug)]
pub(super) struct Unmarked {
    pub(super) builder: Builder,
    /// Stores of a transaction; 0: there is none, and an operation is a thousand accesses.
    stores: u64,
    accesses: u64,
}

impl Unmarked {
    pub(super) fn new(stores: u64) -> Self {
        Self { builder: Builder::new(), stores, accesses: 0 }
    }

    pub(super) fn load(&mut self, addr: u64, bytes: u64, after: bool) {
        self.builder.load(addr, bytes, after);
        self.count();
    }

    /// A store of at most a few words.
    pub(super) fn store(&mut self, addr: u64, bytes: u64) {
        if self.stores > 0 {
            self.builder.begin();
        }
        let before = self.builder.stored;
        self.builder.store(addr, bytes);
        if self.stores > 0 && before / self.stores != self.builder.stored / self.stores {
            self.builder.end();
        }
        self.count();
    }

    fn count(&mut self) {
        self.accesses += 1;
        if self.stores == 0 && self.accesses.is_multiple_of(OPERATION) {
            self.builder.end();
        }
    }

    pub(super) fn finish(mut self) -> Result<Trace, Error> {
        self.builder.end();
        self.builder.finish()
    }
}
