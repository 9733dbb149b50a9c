//! The copier: fills entries that were published, and gives frames to them.
//!
//! One copier serves a mount, as published. It takes requests from a queue. A request that finds the queue full leaves its entry in
//! Prep, and the copier looks through all entries for such ones when the queue is empty. It never waits for a reader, and none
//! wakes it: when it finds nothing to do it sleeps, first for [`super::cache::Settings::poll`] and then for longer and longer.
//!
//! Frames come from a budget: when that is used up, the copier takes one from the least recently used of a few entries that its
//! hand meets.

use std::sync::Arc;

use sim::sync::Ordering;
use sim::{Nanos, PAGE_BYTES, Work, ran};

use super::cache::{BLOCK, COPIED, EVICTED, FRAMES_AT_ONCE, Request, Shared};
use super::entry::Entry;
use super::frame::Frame;
use super::memory::Piece;
use super::mutant::END_IN_TWO_STEPS;
use super::table::{FileTable, Way};
use super::word::{State, Word};
use crate::nova::Extent;

/// Frames that the hand looks at to find a victim.
const CANDIDATES: usize = 8;
/// Its longest sleep, unless the first is longer: a tick of a kernel of 250 Hz.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(4);

/// The place of an entry.
struct Owner {
    file: Arc<FileTable>,
    page: u64,
    way: usize,
}

impl Owner {
    fn entry(&self) -> Option<&Entry> {
        Some(&self.file.get(self.page)?.ways.get(self.way)?.entry)
    }
}

/// Who had each frame last.
#[derive(Default)]
pub(super) struct Frames {
    /// None: the frame is free.
    owners: Vec<Option<Owner>>,
    free: Vec<u32>,
    hand: usize,
}

impl Frames {
    fn give_back(&mut self, frame: u32) {
        if let Some(owner) = self.owners.get_mut(frame as usize) {
            *owner = None;
            ran::push(&mut self.free, frame);
        }
    }
}

impl Shared {
    pub(super) fn copy_until_stopped(&self) {
        let (first, mut sleep) = (self.settings.poll, self.settings.poll);
        while !self.stopped.load(Ordering::Acquire) {
            // What readers have published by now is seen.
            sim::interact();
            if let Some(words) = self.requests.pop() {
                // The slot comes from the core of the reader.
                sim::work(Work::LINE_SAME_SOCKET, 1);
                self.serve(Request::of_words(words));
                sleep = first;
            } else if self.overflowed.swap(false, Ordering::AcqRel) {
                self.sweep();
                sleep = first;
            } else {
                let asleep = self.asleep.lock();
                if !self.stopped.load(Ordering::Acquire) {
                    drop(self.ended.wait_timeout(asleep, sleep));
                }
                sleep = (sleep * 2).min(LONGEST_SLEEP.max(first));
            }
        }
    }

    fn serve(&self, Request { inode, page, way, version }: Request) {
        if let Some(file) = self.file(inode) {
            self.fill(Owner { file, page, way }, version);
        }
    }

    /// Fills every entry that waits, whether the queue has it or not.
    fn sweep(&self) {
        for file in self.all_files() {
            for (page, way) in file.waiting() {
                sim::interact();
                if self.stopped.load(Ordering::Acquire) {
                    return;
                }
                let owner = Owner { file: Arc::clone(&file), page, way };
                let version = owner.entry().map(|entry| entry.word().version());
                if let Some(version) = version {
                    self.fill(owner, version);
                }
            }
        }
    }

    /// Copies the page of an entry that has not been given up since its request was made.
    fn fill(&self, owner: Owner, version: u64) {
        let file = Arc::clone(&owner.file);
        let Some(set) = file.get(owner.page) else { return };
        let Some(Way { entry, line }) = set.ways.get(owner.way) else { return };
        line.touch();
        if !entry.begin_copy(version) {
            return;
        }
        let source = entry.source();
        let frame = self.frame_for(entry, owner);
        let mut bytes = [0; PAGE_BYTES];
        let copied = match frame {
            Some(frame) => {
                let loaded = self.region.load(source * BLOCK, &mut bytes).is_ok();
                frame.fill(&bytes) && loaded
            }
            None => false,
        };
        line.touch();
        let ended = if self.settings.mutant == Some(END_IN_TWO_STEPS) {
            Entry::end_copy_in_two_steps
        } else {
            Entry::end_copy
        };
        if copied && ended(entry) {
            self.count(COPIED);
            return;
        }
        if entry.give_up() {
            // The writer left the block to the copier.
            self.blocks.give_back(Extent { offset: source * BLOCK, blocks: 1 });
            self.blocks.lend(-1);
        }
        let mut frames = self.frames.lock();
        if file.gone.load(Ordering::Relaxed) {
            Self::empty(entry, &mut frames);
        }
    }

    /// Gives back the frames of a file that is removed: no reader has it, and its pages were invalidated. The frame of an entry
    /// that is being copied comes back when the copy has ended.
    pub(super) fn free_frames(&self, file: &FileTable) {
        let mut frames = self.frames.lock();
        file.gone.store(true, Ordering::Relaxed);
        let mut steps = 0;
        for set in file.sets() {
            for Way { entry, .. } in &set.ways {
                steps += 1;
                Self::empty(entry, &mut frames);
            }
        }
        sim::work(Work::STEP, steps);
    }

    /// Takes the frame of an entry that no other task has.
    fn empty(entry: &Entry, frames: &mut Frames) {
        let word = entry.word();
        let idle = matches!(word.state(), State::Invalid | State::Ready);
        if let Some(frame) = Some(word).filter(|_| idle).and_then(|word| Self::take_from(entry, word)) {
            frames.give_back(frame);
        }
    }

    /// The frame of an entry that the copier has, or a free one, or one that another entry gives up.
    fn frame_for(&self, entry: &Entry, owner: Owner) -> Option<&Frame> {
        let mut frames = self.frames.lock();
        let kept = entry.frame.load(Ordering::Acquire).checked_sub(1);
        let number = match kept.or_else(|| frames.free.pop()) {
            Some(number) => number,
            None if (frames.owners.len() as u64) < self.settings.frames => {
                let number = frames.owners.len() as u64;
                if number.is_multiple_of(FRAMES_AT_ONCE) {
                    let frame = |number| Frame::new(Piece::of(&self.memory, number));
                    self.pool.add_chunk(number / FRAMES_AT_ONCE, frame);
                }
                ran::push(&mut frames.owners, None);
                number as u32
            }
            None => self.take_frame(&mut frames)?,
        };
        *frames.owners.get_mut(number as usize)? = Some(owner);
        entry.frame.store(number + 1, Ordering::Release);
        self.pool.get(number.into())
    }

    /// Takes the frame of the entry that was used longest ago, of a few.
    fn take_frame(&self, frames: &mut Frames) -> Option<u32> {
        let all = frames.owners.len();
        for _ in 0..all.div_ceil(CANDIDATES) {
            let from = frames.hand;
            frames.hand = (from + CANDIDATES) % all;
            let found = (0..CANDIDATES.min(all)).filter_map(|step| {
                let number = (from + step) % all;
                let entry = frames.owners[number].as_ref()?.entry()?;
                let (word, holds) = (entry.word(), entry.frame.load(Ordering::Acquire) == number as u32 + 1);
                let free = matches!(word.state(), State::Invalid | State::Ready) && holds;
                let age =
                    if word.state() == State::Invalid { 0 } else { entry.stamp.load(Ordering::Relaxed) };
                free.then_some((age, number, word, entry))
            });
            let Some((_, number, word, entry)) = found.min_by_key(|(age, number, ..)| (*age, *number)) else {
                continue;
            };
            if let Some(taken) = Self::take_from(entry, word) {
                self.count(EVICTED);
                debug_assert_eq!(taken, number as u32, "an entry keeps its frame");
                return Some(taken);
            }
        }
        None
    }

    fn take_from(entry: &Entry, word: Word) -> Option<u32> {
        let owned = entry.claim(word)?;
        let frame = entry.frame.swap(0, Ordering::AcqRel);
        entry.retract(owned);
        frame.checked_sub(1)
    }
}
