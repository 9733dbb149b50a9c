//! The queue of the copier's requests: bounded, many readers put in, the copier alone takes out, and none of them waits.
//!
//! Place `p` of the queue is slot `p` modulo the number of slots, and the turn of a slot says what it holds:
//!
//! | turn | the slot |
//! |---|---|
//! | `2 p` | is free for place `p` |
//! | `2 p + 1` | holds place `p`, or will in a moment |
//!
//! A reader takes a place by one compare-and-swap of the tail, fills its slot and stores the turn; the copier sees the request from
//! then on. The queue is full when the slot of the tail is not free yet.

use super::atomics::{AtomicU64, Ordering};

/// Words of a request.
const WORDS: usize = 3;

struct Slot {
    turn: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The queue.
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    tail: AtomicU64,
    /// Only the copier changes it.
    head: AtomicU64,
}

impl Ring {
    /// An empty queue of so many requests, at least one.
    pub(crate) fn new(requests: usize) -> Self {
        let slot = |place: u64| Slot {
            turn: AtomicU64::new(2 * place),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        let slots = (0..requests.max(1) as u64).map(slot).collect();
        Self { slots, tail: AtomicU64::new(0), head: AtomicU64::new(0) }
    }

    fn slot(&self, place: u64) -> &Slot {
        &self.slots[(place % self.slots.len() as u64) as usize]
    }

    /// Puts a request in; false: the queue is full.
    pub(crate) fn push(&self, request: [u64; WORDS]) -> bool {
        let mut place = self.tail.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(place);
            let turn = slot.turn.load(Ordering::Acquire);
            if turn < 2 * place {
                return false;
            }
            if turn > 2 * place {
                // Another reader has taken the place.
                place = self.tail.load(Ordering::Relaxed);
                continue;
            }
            match self.tail.compare_exchange(place, place + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Err(other) => place = other,
                Ok(_) => {
                    for (word, value) in slot.words.iter().zip(request) {
                        word.store(value, Ordering::Relaxed);
                    }
                    slot.turn.store(2 * place + 1, Ordering::Release);
                    return true;
                }
            }
        }
    }

    /// Takes the oldest request out. Only the copier calls it.
    pub(crate) fn pop(&self) -> Option<[u64; WORDS]> {
        let place = self.head.load(Ordering::Relaxed);
        let slot = self.slot(place);
        if slot.turn.load(Ordering::Acquire) != 2 * place + 1 {
            return None;
        }
        let request = std::array::from_fn(|word| slot.words[word].load(Ordering::Relaxed));
        slot.turn.store(2 * (place + self.slots.len() as u64), Ordering::Release);
        self.head.store(place + 1, Ordering::Relaxed);
        Some(request)
    }
}
