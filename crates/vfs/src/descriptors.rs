//! The descriptor table of a process.
//!
//! Numbers are given out lowest first, from a bitmap behind one lock, as the kernel's `file_lock`. The slots
//! themselves are in segments that never move, each behind a lock of its own that is held for one reference
//! count, so that threads with different descriptors do not contend: a lookup takes two uncontended atomic
//! updates to take a reference and two to give it back.
//!
//! Closing a descriptor that another thread is using takes it out of the table at once; the thread that gives
//! the last reference back closes the open file ([`Descriptors::put`]).
//!
//! Lock order: `vfs.descriptors`, then a slot. Slots are never held over a yield.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sim::LockClass;

use crate::errno::{Errno, Result};
use crate::syscalls::Fd;

pub(crate) static DESCRIPTORS: LockClass = LockClass::new("vfs.descriptors");

/// Slots of the first segment; each further one is as long as all before it.
const FIRST_SLOTS: usize = 64;
const SEGMENTS: usize = 26;

type Slot<T> = Mutex<Option<Arc<T>>>;

/// Descriptors that lead to values of `T`.
pub(crate) struct Descriptors<T> {
    segments: [OnceLock<Box<[Slot<T>]>>; SEGMENTS],
    numbers: sim::Mutex<Numbers>,
}

impl<T> Descriptors<T> {
    /// At most `limit` descriptors.
    pub(crate) fn new(limit: u32) -> Self {
        let numbers = sim::Mutex::new(&DESCRIPTORS, Numbers { used: Vec::new(), first: 0, limit });
        Self { segments: [const { OnceLock::new() }; SEGMENTS], numbers }
    }

    /// Takes the lowest free number. `EMFILE`.
    pub(crate) fn reserve(&self) -> Result<Fd> {
        self.numbers.lock().take().map(Fd)
    }

    /// Gives a reserved number back.
    pub(crate) fn cancel(&self, fd: Fd) {
        self.numbers.lock().give(fd.0);
    }

    /// Makes a reserved number lead to `file`.
    pub(crate) fn install(&self, fd: Fd, file: Arc<T>) {
        let (segment, index) = place(fd);
        let slots = self.segments[segment].get_or_init(|| {
            let _in_open_file = sim::ran::aside();
            new_segment(segment)
        });
        *slots[index].lock() = Some(file);
    }

    /// The file of a descriptor. `EBADF`. The caller gives the reference back with [`Descriptors::put`].
    #[inline]
    pub(crate) fn get(&self, fd: Fd) -> Result<Arc<T>> {
        self.slot(fd).and_then(|slot| slot.lock().clone()).ok_or(Errno::EBADF)
    }

    /// Takes a descriptor out of the table. `EBADF`.
    pub(crate) fn take(&self, fd: Fd) -> Result<Arc<T>> {
        let mut numbers = self.numbers.lock();
        let file = self.slot(fd).and_then(|slot| slot.lock().take()).ok_or(Errno::EBADF)?;
        numbers.give(fd.0);
        Ok(file)
    }

    /// Gives a reference back; the value, when it was the last.
    #[inline]
    pub(crate) fn put(file: Arc<T>) -> Option<T> {
        Arc::into_inner(file)
    }

    /// Takes all descriptors out of the table.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Arc<T>> + '_ {
        let slots = self.segments.iter_mut().filter_map(OnceLock::get_mut).flatten();
        slots.filter_map(|slot| slot.get_mut().take())
    }

    #[inline]
    fn slot(&self, fd: Fd) -> Option<&Slot<T>> {
        let (segment, index) = place(fd);
        self.segments.get(segment)?.get()?.get(index)
    }
}

/// The segment of a number, and its place there.
#[inline]
fn place(fd: Fd) -> (usize, usize) {
    let n = fd.0 as usize;
    match (n / FIRST_SLOTS).checked_ilog2() {
        None => (0, n),
        Some(log) => (log as usize + 1, n - (FIRST_SLOTS << log)),
    }
}

#[cold]
fn new_segment<T>(segment: usize) -> Box<[Slot<T>]> {
    let slots = FIRST_SLOTS << segment.saturating_sub(1);
    (0..slots).map(|_| Mutex::new(None)).collect()
}

/// Which numbers are in use.
struct Numbers {
    used: Vec<u64>,
    /// All words before this one are full.
    first: usize,
    limit: u32,
}

impl Numbers {
    fn take(&mut self) -> Result<u32> {
        let word = (self.first..self.used.len())
            .find(|word| self.used[*word] != u64::MAX)
            .unwrap_or(self.used.len());
        self.first = word;
        let bit = self.used.get(word).map_or(0, |used| used.trailing_ones());
        let number = word as u32 * u64::BITS + bit;
        if number >= self.limit {
            return Err(Errno::EMFILE);
        }
        if word == self.used.len() {
            let _in_open_file = sim::ran::aside();
            self.used.push(0);
        }
        self.used[word] |= 1 << bit;
        Ok(number)
    }

    fn give(&mut self, number: u32) {
        let word = (number / u64::BITS) as usize;
        self.used[word] &= !(1 << (number % u64::BITS));
        self.first = self.first.min(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_given() {
        let table = Descriptors::<()>::new(200);
        for n in 0..200 {
            assert_eq!(table.reserve(), Ok(Fd(n)));
            table.install(Fd(n), Arc::new(()));
        }
        assert_eq!(table.reserve(), Err(Errno::EMFILE));
        for n in [150, 3, 64] {
            table.take(Fd(n)).expect("it is open");
        }
        let again: Vec<_> = (0..3).map(|_| table.reserve()).collect();
        assert_eq!(again, [Ok(Fd(3)), Ok(Fd(64)), Ok(Fd(150))]);
    }

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for n in 0..10_000 {
            assert_eq!(place(Fd(n)), expected);
            expected.1 += 1;
            if expected.1 == FIRST_SLOTS << (expected.0.max(1) - 1) {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn a_number_beyond_the_table_is_a_bad_descriptor() {
        let table = Descriptors::<()>::new(10);
        assert_eq!(table.get(Fd(0)), Err(Errno::EBADF));
        assert_eq!(table.take(Fd(u32::MAX)), Err(Errno::EBADF));
    }

    #[test]
    fn the_last_reference_ends_the_value() {
        let table = Descriptors::new(10);
        let fd = table.reserve().expect("there is one");
        table.install(fd, Arc::new(7));
        let used = table.get(fd).expect("it is open");
        assert_eq!(Descriptors::put(table.take(fd).expect("it is open")), None);
        assert_eq!(Descriptors::put(used), Some(7));
    }
}
