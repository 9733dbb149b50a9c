//! Stacks of tasks: each with a guard page, used again by later tasks, and coloured.
//!
//! Mapped stacks all begin at the start of a page, so the frames in which tasks are suspended would compete
//! for the same few sets of the first-level cache (one page holds each of its 64 sets once). Starting each
//! stack a few lines lower than the one before spreads them.

use std::cell::RefCell;

use corosensei::stack::{DefaultStack, StackPointer};

use crate::units::{LINE_BYTES, PAGE_BYTES};

/// A mapped stack of which the first few lines are left out.
pub(super) struct Stack {
    mapped: DefaultStack,
    colour_bytes: usize,
}

// SAFETY: the mapping has a guard page and, because `Pool::take` asks for a page more than the smallest size,
// enough room below `base`, which stays aligned because a colour is a whole number of cache lines.
unsafe impl corosensei::stack::Stack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        StackPointer::new(self.mapped.base().get() - self.colour_bytes)
            .expect("a stack is not at address zero")
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.mapped.limit()
    }
}

/// Neighbours in number lie this many lines apart: odd, so that 64 stacks have 64 colours.
const COLOUR_STEP: usize = 13;
/// More free stacks than these are unmapped.
const MAX_FREE: usize = 256;

/// The stacks of ended tasks.
pub(super) struct Pool {
    stack_bytes: usize,
    free: RefCell<Vec<Stack>>,
    made: RefCell<usize>,
}

impl Pool {
    pub(super) fn new(stack_bytes: usize) -> Self {
        Self { stack_bytes, free: RefCell::default(), made: RefCell::default() }
    }

    pub(super) fn take(&self) -> Stack {
        self.free.borrow_mut().pop().unwrap_or_else(|| self.make())
    }

    pub(super) fn give_back(&self, stack: Stack) {
        let mut free = self.free.borrow_mut();
        if free.len() < MAX_FREE {
            free.push(stack);
        }
    }

    fn make(&self) -> Stack {
        let number = self.made.replace_with(|made| *made + 1);
        let colour_bytes = number * COLOUR_STEP * LINE_BYTES % PAGE_BYTES;
        let mapped =
            DefaultStack::new(self.stack_bytes + PAGE_BYTES).expect("address space for a task's stack");
        Stack { mapped, colour_bytes }
    }
}
