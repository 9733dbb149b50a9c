//! Submission queues in front of a device: what a host driver sees.
//!
//! A command waits in its queue until the commands before it have been taken. The device takes the command at the head at once,
//! or, when its write buffer is full, at the time that it names; until then that queue stands still and the others go on
//! (NVMeVirt, FAST 2023, section 3.2). Events are processed in the order of time, then of arrival, so a run repeats.
//!
//! ```text
//! post ──► queue ──► taken (submit at that time) ──► completion, in order of time
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use sim::Nanos;

use super::command::{Command, FlashError, Outcome};
use super::ssd::Ssd;

/// Entries of a queue: NVMeVirt's limit.
pub const QUEUE_ENTRIES: usize = 1_024;
/// I/O queues: NVMeVirt's limit.
pub const QUEUES: u16 = 72;

/// A command that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the poster called it.
    pub tag: u64,
    /// When it was posted.
    pub posted: Nanos,
    /// When it completed.
    pub at: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    tag: u64,
    posted: Nanos,
    command: Command,
}

/// What happens at a time; earlier first, then in the order in which it was put in.
type Event<T> = Reverse<(Nanos, u64, T)>;

/// Queues and what is on its way.
#[derive(Debug, Default)]
pub struct Queues {
    entries: Vec<VecDeque<Waiting>>,
    /// When the device looks at a queue again.
    fetches: BinaryHeap<Event<u16>>,
    done: BinaryHeap<Event<(u64, Nanos)>>,
    sequence: u64,
}

impl Queues {
    /// `count` queues, at least one, at most [`QUEUES`].
    pub fn new(count: u16) -> Self {
        let count = count.clamp(1, QUEUES);
        Self { entries: vec![VecDeque::new(); usize::from(count)], ..Self::default() }
    }

    /// How many queues there are.
    pub fn count(&self) -> u16 {
        self.entries.len() as u16
    }

    /// Puts a command into a queue at `now`; false when the queue is full.
    ///
    /// Times of posts must not go back behind a completion that was taken out.
    pub fn post(&mut self, queue: u16, tag: u64, command: Command, now: Nanos) -> bool {
        let entries = &mut self.entries[usize::from(queue)];
        if entries.len() >= QUEUE_ENTRIES {
            return false;
        }
        entries.push_back(Waiting { tag, posted: now, command });
        if entries.len() == 1 {
            self.fetch_at(now, queue);
        }
        true
    }

    /// The next completion, with everything that the device takes until then taken. None: nothing is on its way.
    pub fn next(&mut self, ssd: &mut Ssd) -> Result<Option<Completion>, FlashError> {
        self.next_before(ssd, Nanos::MAX)
    }

    /// The next completion before `limit`, if there is one: what can be known before something is posted at `limit`.
    pub fn next_before(&mut self, ssd: &mut Ssd, limit: Nanos) -> Result<Option<Completion>, FlashError> {
        loop {
            let fetch = self.fetches.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
            let done = self.done.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
            if fetch.min(done) >= limit {
                return Ok(None);
            }
            if fetch <= done {
                self.fetch(ssd)?;
                continue;
            }
            let Some(Reverse((at, _, (tag, posted)))) = self.done.pop() else { return Ok(None) };
            return Ok(Some(Completion { tag, posted, at }));
        }
    }

    /// Commands that wait in queues.
    pub fn waiting(&self) -> usize {
        self.entries.iter().map(VecDeque::len).sum()
    }

    /// The device takes the command at the head of a queue, if it can.
    fn fetch(&mut self, ssd: &mut Ssd) -> Result<(), FlashError> {
        let Some(Reverse((now, _, queue))) = self.fetches.pop() else { return Ok(()) };
        let entries = &mut self.entries[usize::from(queue)];
        let Some(head) = entries.front().copied() else { return Ok(()) };
        match ssd.submit(&head.command, now)? {
            Outcome::Busy { retry_at } => self.fetch_at(retry_at, queue),
            Outcome::Done { at } => {
                entries.pop_front();
                let next = entries.front().map(|next| next.posted.max(now));
                self.sequence += 1;
                self.done.push(Reverse((at, self.sequence, (head.tag, head.posted))));
                if let Some(next) = next {
                    self.fetch_at(next, queue);
                }
            }
        }
        Ok(())
    }

    fn fetch_at(&mut self, at: Nanos, queue: u16) {
        self.sequence += 1;
        self.fetches.push(Reverse((at, self.sequence, queue)));
    }
}
