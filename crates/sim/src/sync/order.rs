//! The order in which a task takes locks, held to what the classes declare. Debug builds only.
//!
//! [`LockClass::under`] names the classes below which a lock of the class may be taken; the relation is transitive. A task that
//! waits for a lock of an ordered class while it holds another lock panics,
//!
//! * if both are of one system (the part of the name before the point) and the held class is not above the wanted one;
//! * if the wanted class is above the held one, of whatever systems they are;
//! * if it holds a lock of the same class, unless the class [has several](LockClass::several).
//!
//! An attempt (`try_lock`) waits for nothing, so it is not held to the order; what it took is held like any other lock. So tasks
//! that keep to the order wait for each other in no circle: follow the waits, and each class is strictly below the one before, but
//! for locks of one class, or of classes above each other, whose order the header of their module gives.
//!
//! What a task holds is kept in its context, because all tasks of the virtual clock share a thread; outside of a run, in the
//! thread.

use std::cell::RefCell;

use crate::context::{self, Context};
use crate::ledger::LockClass;
use crate::ran;

/// The locks that a task holds, in the order in which it took them. Empty in builds without debug assertions.
#[derive(Default)]
pub(crate) struct Held(RefCell<Vec<&'static LockClass>>);

thread_local! {
    /// Of a thread outside of a run.
    static HELD: Held = const { Held(RefCell::new(Vec::new())) };
}

/// Pairs of a wanted class and a held one, by their addresses: right ones, each in the place that its hash gives.
type Known = [[usize; 2]; 256];

thread_local! {
    /// Without it, one who takes a lock walks what classes declare: a quarter of the time of some tests.
    static KNOWN: RefCell<Known> = const { RefCell::new([[0; 2]; 256]) };
}

/// Calls with what the task holds. It is no work of the task that this takes memory.
fn with<T>(cx: Option<&Context>, call: impl FnOnce(&mut Vec<&'static LockClass>) -> T) -> Option<T> {
    let _own = ran::aside();
    match cx {
        Some(cx) => Some(call(&mut cx.held.0.borrow_mut())),
        // A destructor of the thread may come after the list has gone.
        None => HELD.try_with(|held| call(&mut held.0.borrow_mut())).ok(),
    }
}

/// The task is about to wait for a lock of this class.
#[inline]
pub(super) fn check(class: &'static LockClass) {
    if cfg!(debug_assertions) && class.above().is_some() {
        let wrong = with(context::current(), |held| {
            held.iter().find(|held| !is_right(class, held)).map(|held| held.name())
        });
        if let Some(held) = wrong.flatten() {
            wrong_order(class, held);
        }
    }
}

/// The task has taken a lock of this class.
#[inline]
pub(super) fn taken(class: &'static LockClass) {
    if cfg!(debug_assertions) {
        with(context::current(), |held| held.push(class));
    }
}

/// The task has released a lock of this class.
#[inline]
pub(super) fn released(class: &'static LockClass) {
    if cfg!(debug_assertions) {
        with(context::current(), |held| {
            if let Some(at) = held.iter().rposition(|other| is_same(class, other)) {
                held.remove(at);
            }
        });
    }
}

/// Whether a lock of `wanted` [may be waited for](may_be_taken) by a task that holds `held`; a right pair is remembered.
fn is_right(wanted: &'static LockClass, held: &'static LockClass) -> bool {
    let pair = [wanted, held].map(|class| std::ptr::from_ref(class).addr());
    let hash = (pair[0].rotate_left(32) ^ pair[1]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    KNOWN.with_borrow_mut(|known| {
        let place = &mut known[hash >> (usize::BITS - 8)];
        if *place == pair {
            return true;
        }
        let right = may_be_taken(wanted, held);
        if right {
            *place = pair;
        }
        right
    })
}

/// Whether a task that holds a lock of `held` may wait for one of `wanted`, which is ordered.
fn may_be_taken(wanted: &LockClass, held: &LockClass) -> bool {
    if is_same(wanted, held) {
        return wanted.has_several();
    }
    let of_one_system = wanted.system() == held.system() && held.above().is_some();
    if of_one_system { is_above(held, wanted) } else { !is_above(wanted, held) }
}

/// Whether `below` may be taken while `above` is held, by what classes declare. Classes can be above each other: those of objects
/// of which a task takes one's locks, then the next one's.
fn is_above(above: &LockClass, below: &LockClass) -> bool {
    let mut reached: Vec<&LockClass> = vec![below];
    let mut at = 0;
    while let Some(class) = reached.get(at).copied() {
        for next in class.above().into_iter().flatten().copied() {
            if is_same(next, above) {
                return true;
            }
            if !reached.iter().any(|known| is_same(known, next)) {
                reached.push(next);
            }
        }
        at += 1;
    }
    false
}

fn is_same(a: &LockClass, b: &LockClass) -> bool {
    std::ptr::eq(a, b)
}

#[cold]
fn wrong_order(wanted: &LockClass, held: &str) -> ! {
    panic!(
        "lock order: {} is taken while {held} is held, which is not declared to be above it",
        wanted.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    static TOP: LockClass = LockClass::new("order.top").under(&[]);
    static MIDDLE: LockClass = LockClass::new("order.middle").under(&[&TOP]);
    static BOTTOM: LockClass = LockClass::new("order.bottom").under(&[&MIDDLE]).several();
    static BESIDE: LockClass = LockClass::new("order.beside").under(&[&TOP]);
    static OTHER: LockClass = LockClass::new("other.low").under(&[&MIDDLE]);
    static PLAIN: LockClass = LockClass::new("order.plain");

    #[test]
    fn a_class_is_taken_below_those_that_are_above_it_at_any_distance() {
        assert!(may_be_taken(&MIDDLE, &TOP) && may_be_taken(&BOTTOM, &MIDDLE) && may_be_taken(&BOTTOM, &TOP));
        assert!(
            !may_be_taken(&TOP, &MIDDLE) && !may_be_taken(&TOP, &BOTTOM) && !may_be_taken(&MIDDLE, &BOTTOM)
        );
        assert!(!may_be_taken(&BESIDE, &MIDDLE) && !may_be_taken(&MIDDLE, &BESIDE), "siblings have no order");
        assert!(may_be_taken(&BOTTOM, &BOTTOM) && !may_be_taken(&TOP, &TOP));
    }

    #[test]
    fn what_is_remembered_of_a_pair_is_what_is_declared_of_it() {
        let all = [&TOP, &MIDDLE, &BOTTOM, &BESIDE, &OTHER];
        for _ in 0..2 {
            for (wanted, held) in all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other))) {
                let names = (wanted.name(), held.name());
                assert_eq!(is_right(wanted, held), may_be_taken(wanted, held), "{names:?}");
            }
        }
    }

    #[test]
    fn locks_of_another_system_are_held_to_what_is_declared_of_them() {
        assert!(
            may_be_taken(&OTHER, &MIDDLE) && !may_be_taken(&MIDDLE, &OTHER) && !may_be_taken(&TOP, &OTHER)
        );
        assert!(may_be_taken(&OTHER, &BESIDE) && may_be_taken(&BESIDE, &OTHER), "nothing is declared");
        assert!(may_be_taken(&MIDDLE, &PLAIN), "a class without an order");
    }
}
