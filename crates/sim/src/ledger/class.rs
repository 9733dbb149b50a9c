//! The classes of locks and of cache lines: their names, numbers and order.

use parking_lot::Mutex;

use super::{LOCK_CLASSES, Number, number_of};

/// The name that a family of locks has in the ledger, and its place in the documented lock order; or that of a family of cache
/// lines for which cores wait as for locks ([`crate::Line`]).
///
/// Declare one as a `static` for each kind of lock ("pmfs.inode"), not for each lock. The crate or design lists what it declares.
#[derive(Debug)]
pub struct LockClass {
    name: &'static str,
    line: Option<&'static str>,
    /// The classes below which it may be taken; none: nothing is declared.
    above: Option<&'static [&'static LockClass]>,
    several: bool,
    number: Number,
}

/// The classes that have been waited for, in the order of their numbers.
pub(super) static WAITED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

impl LockClass {
    /// A class called `name`: `design.lock`.
    pub const fn new(name: &'static str) -> Self {
        Self { name, line: None, above: None, several: false, number: Number::new() }
    }

    /// Declares the order of locks: one of this class may be taken while the task holds locks of these classes, or of those that
    /// are above them. Debug builds panic on any other order ([`crate::sync`]).
    #[must_use]
    pub const fn under(self, above: &'static [&'static LockClass]) -> Self {
        Self { above: Some(above), ..self }
    }

    /// Lets a task hold several locks of this class, in an order that the header of the module gives.
    #[must_use]
    pub const fn several(self) -> Self {
        Self { several: true, ..self }
    }

    /// The classes below which a lock of this one may be taken, as declared; none where nothing is.
    pub fn above(&self) -> Option<&'static [&'static LockClass]> {
        self.above
    }

    pub(crate) fn has_several(&self) -> bool {
        self.several
    }

    /// The part of the name before the point: the design, suite or crate.
    pub(crate) fn system(&self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }

    /// A class of cache lines called `name`: `design.line`, with what is on such a line.
    pub const fn of_lines(name: &'static str, what: &'static str) -> Self {
        Self { name, line: Some(what), above: None, several: false, number: Number::new() }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Of a class of cache lines: what is on such a line.
    pub fn line(&self) -> Option<&'static str> {
        self.line
    }

    /// Its number in the ledger, given out at the first wait. Classes beyond the limit share the last number.
    pub(super) fn number(&self) -> usize {
        self.number.of(|| number_of(self.name, &WAITED).min(LOCK_CLASSES - 1))
    }
}
