//! Atomics of lock-free code.
//!
//! | where | what an access costs and does |
//! |---|---|
//! | outside a run, under the real clock, in an ordinary virtual run | that of the standard library, and one predictable branch |
//! | in a run of [`crate::explore`] | a point before the access: another task may go on first |
//!
//! So an explored run can put another task between a load and the compare-and-swap that relies on it, or between two
//! compare-and-swaps; with the standard library's atomics all of them are one step there, and in an ordinary virtual run they
//! are so anyway. Only interleavings are explored: every task sees one order of all accesses, whatever [`Ordering`] says. That
//! an ordering is too weak is for `loom` or a real machine to show.
//!
//! Nothing is charged: an access of a line that the core has is part of the work around it. A word that several cores update
//! takes its [`Line`] along in [`Contended`].
//!
//! Code that waits in a loop for what another task stores calls [`spin_loop`] in it, or an ordinary virtual run, in which no
//! other task goes on by itself, would wait for ever.

use std::fmt;
pub use std::sync::atomic::Ordering;
use std::sync::atomic::{self, AtomicU32 as Word};

use super::{Line, virtual_task};
use crate::ledger::LockClass;
use crate::machine::Work;

/// Explored runs of this process that have not ended. Zero in every run that is measured.
static EXPLORED_RUNS: Word = Word::new(0);

/// The time for which an explored run counts.
pub(crate) struct Exploring(());

impl Exploring {
    pub(crate) fn begin() -> Self {
        EXPLORED_RUNS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Exploring {
    fn drop(&mut self) {
        EXPLORED_RUNS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// In an explored run other tasks may go on here.
#[inline]
fn point() {
    if EXPLORED_RUNS.load(Ordering::Relaxed) != 0 {
        explored_point();
    }
}

#[cold]
fn explored_point() {
    if let Some((cx, scheduler)) = virtual_task() {
        scheduler.turn(cx);
    }
}

/// One turn of a loop that waits for a store of another task. Under the real clock a hint to the processor. Under the virtual
/// clock a [`Work::STEP`], and time passes until another task has gone on; in an explored run every task that can goes on first.
///
/// When no other task can ever go on, the run fails as a deadlock.
pub fn spin_loop() {
    match virtual_task() {
        None => std::hint::spin_loop(),
        Some((cx, scheduler)) => scheduler.spin(cx, cx.run.machine.cost(Work::STEP, 1)),
    }
}

/// Methods that every atomic has, each an access of `$inner` after a point.
macro_rules! accesses {
    ($value:ty, $name:literal) => {
        /// The value.
        #[inline]
        pub fn load(&self, order: Ordering) -> $value {
            point();
            self.0.load(order)
        }

        /// Replaces the value.
        #[inline]
        pub fn store(&self, value: $value, order: Ordering) {
            point();
            self.0.store(value, order);
        }

        /// Replaces the value and returns the one before.
        #[inline]
        pub fn swap(&self, value: $value, order: Ordering) -> $value {
            point();
            self.0.swap(value, order)
        }

        /// Replaces the value by `new` if it is `current`. Either way the one before, as an error if it was another.
        #[inline]
        pub fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            point();
            self.0.compare_exchange(current, new, success, failure)
        }

        /// As [`Self::compare_exchange`]; under the real clock it may fail without a reason.
        #[inline]
        pub fn compare_exchange_weak(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            point();
            self.0.compare_exchange_weak(current, new, success, failure)
        }

        /// The value, of an atomic that no other task can have.
        #[inline]
        pub fn get_mut(&mut self) -> &mut $value {
            self.0.get_mut()
        }

        #[doc = concat!("The value at the end of the ", $name, "'s life.")]
        #[inline]
        pub fn into_inner(self) -> $value {
            self.0.into_inner()
        }
    };
}

/// Methods that read, compute and write in one access.
macro_rules! updates {
    ($value:ty: $($method:ident $what:literal),+) => {
        $(
            #[doc = concat!($what, " Returns the value before.")]
            #[inline]
            pub fn $method(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.$method(value, order)
            }
        )+
    };
}

macro_rules! integer {
    ($atomic:ident, $value:ty) => {
        #[doc = concat!("A `", stringify!($value), "` that tasks share without a lock.")]
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $atomic(atomic::$atomic);

        impl $atomic {
            /// One that holds `value`.
            pub const fn new(value: $value) -> Self {
                Self(atomic::$atomic::new(value))
            }

            accesses!($value, "atomic");
            updates!($value:
                fetch_add "Adds; wraps around on overflow.",
                fetch_sub "Subtracts; wraps around on overflow.",
                fetch_and "Keeps the bits that are set in `value`.",
                fetch_or "Sets the bits that are set in `value`.",
                fetch_xor "Turns the bits over that are set in `value`.",
                fetch_max "The greater of the two becomes the value.",
                fetch_min "The lesser of the two becomes the value."
            );

            /// Replaces the value by what `change` makes of it, trying again while others come between; the value before. An
            /// error with the value if `change` gives none.
            #[inline]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut seen = self.load(failure);
                while let Some(new) = change(seen) {
                    match self.compare_exchange_weak(seen, new, success, failure) {
                        Err(other) => seen = other,
                        before => return before,
                    }
                }
                Err(seen)
            }
        }

        impl fmt::Debug for $atomic {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$value> for $atomic {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    };
}

integer!(AtomicU8, u8);
integer!(AtomicU16, u16);
integer!(AtomicU32, u32);
integer!(AtomicU64, u64);
integer!(AtomicI64, i64);
integer!(AtomicUsize, usize);

/// A `bool` that tasks share without a lock.
#[derive(Default)]
#[repr(transparent)]
pub struct AtomicBool(atomic::AtomicBool);

impl AtomicBool {
    /// One that holds `value`.
    pub const fn new(value: bool) -> Self {
        Self(atomic::AtomicBool::new(value))
    }

    accesses!(bool, "atomic");
    updates!(bool:
        fetch_and "True if both are.",
        fetch_or "True if either is.",
        fetch_xor "True if just one is."
    );
}

impl fmt::Debug for AtomicBool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A pointer that tasks share without a lock. What it points to is the user's to keep alive.
#[repr(transparent)]
pub struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    /// One that holds `value`.
    pub const fn new(value: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(value))
    }

    accesses!(*mut T, "atomic");
}

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(std::ptr::null_mut())
    }
}

impl<T> fmt::Debug for AtomicPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An atomic, or several that lie together, on a cache line that cores take from each other.
#[derive(Debug)]
pub struct Contended<T> {
    line: Line,
    value: T,
}

impl<T> Contended<T> {
    /// `value` on a line of the class `class` that is in no core's cache.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        Self { line: Line::new(class), value }
    }

    /// The value, for one update: the current task gets the line first ([`Line::touch`]).
    #[inline]
    pub fn touch(&self) -> &T {
        self.line.touch();
        &self.value
    }

    /// The value, for what costs nothing: a statistic at the end, a look at a copy that the core has.
    #[inline]
    pub fn peek(&self) -> &T {
        &self.value
    }
}
