//! The write buffer: what hosts have written and dies have not yet programmed.
//!
//! A write needs as many pages of it as it has itself, or the device is busy. Pages are given back when the die has
//! programmed them; pages of a one-shot page that is not complete stay. The model keeps the times at which pages come back,
//! so that a device that is busy can say until when.

use std::collections::VecDeque;

/// Pages of 4 KiB, and when they come back.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    free: u64,
    /// Times and pages, in order of time.
    returns: VecDeque<(u64, u64)>,
}

impl WriteBuffer {
    pub(crate) fn new(pages: u64) -> Self {
        Self { free: pages, returns: VecDeque::new() }
    }

    /// Takes `pages` at `now`, or says when there will be enough; `None` if what is on its way is not enough.
    pub(crate) fn take(&mut self, now: u64, pages: u64) -> Result<(), Option<u64>> {
        while let Some((_, back)) = self.returns.front().filter(|(at, _)| *at <= now) {
            self.free += back;
            self.returns.pop_front();
        }
        if self.free >= pages {
            self.free -= pages;
            return Ok(());
        }
        let mut free = self.free;
        let enough = self.returns.iter().find(|(_, back)| {
            free += back;
            free >= pages
        });
        Err(enough.map(|(at, _)| *at))
    }

    /// `pages` come back at `at`.
    pub(crate) fn give_back(&mut self, at: u64, pages: u64) {
        // Programs end almost in order: the place is near the end.
        let after = self.returns.iter().rev().take_while(|(other, _)| *other > at).count();
        self.returns.insert(self.returns.len() - after, (at, pages));
    }

    /// Pages that are free at once.
    pub(crate) fn give_back_now(&mut self, pages: u64) {
        self.free += pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_says_when_there_is_room() {
        let mut buffer = WriteBuffer::new(8);
        assert_eq!(buffer.take(0, 8), Ok(()));
        assert_eq!(buffer.take(0, 1), Err(None), "nothing is on its way");
        buffer.give_back(300, 2);
        buffer.give_back(100, 1);
        assert_eq!((buffer.take(0, 1), buffer.take(0, 2)), (Err(Some(100)), Err(Some(300))));
        assert_eq!(buffer.take(100, 1), Ok(()));
        assert_eq!(buffer.take(299, 1), Err(Some(300)));
        assert_eq!(buffer.take(300, 2), Ok(()));
    }
}
