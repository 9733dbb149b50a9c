//! Pages in memory: frames, which page is in which, and which frame is given up next.
//!
//! Victims are found by a clock over counts of use, as in PostgreSQL. A frame that is pinned keeps its page. Everything here is
//! done under the engine's latch and makes no call.

use super::log::{Buffer, Change};
use super::page;
use super::tree::Tree;

/// Uses that are remembered of a page.
const MOST_USES: u8 = 5;

/// A page: the number of its file, and its own there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageId {
    pub(super) file: u16,
    pub(super) block: u32,
}

/// A frame of the pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    /// The page, where `is_taken`.
    pub(super) file: u16,
    pub(super) block: u32,
    pub(super) is_taken: bool,
    uses: u8,
    pub(super) pins: u16,
    /// The position of the first log unit that changed the page since it was written; 0: it is as in its file.
    pub(super) dirty_since: u64,
    /// The same of the copy that is being written now.
    pub(super) writing_since: u64,
}

/// What a search for a victim has found.
pub(super) enum Victim {
    /// This frame is free now.
    Free(u32),
    /// This frame must be written first.
    Dirty(u32),
    /// All are pinned or being written.
    None,
}

/// Pages and the log in memory.
pub(super) struct State {
    page_len: usize,
    data: Vec<u8>,
    pub(super) frames: Vec<Frame>,
    pub(super) free: Vec<u32>,
    hand: usize,
    /// Of each file the frame of each page, and 1.
    map: Vec<Vec<u32>>,
    pub(super) log: Buffer,
    /// A page whose last change is before this position is logged as a whole.
    pub(super) images_to: u64,
    /// Pages by which files have grown, for which their files have no place yet.
    pub(super) added: Vec<PageId>,
    /// Whether a file gets a page of zeros for each page by which it grows.
    pub(super) extends: bool,
    /// Frames with changes.
    pub(super) dirty: usize,
}

impl State {
    pub(super) fn new(page_len: usize, frames: usize, files: usize, log: Buffer) -> Self {
        Self {
            page_len,
            data: vec![0; page_len * frames],
            frames: vec![Frame::default(); frames],
            free: (0..frames as u32).rev().collect(),
            hand: 0,
            map: vec![Vec::new(); files],
            log,
            images_to: 0,
            added: Vec::new(),
            extends: false,
            dirty: 0,
        }
    }

    pub(super) fn page_len(&self) -> usize {
        self.page_len
    }

    pub(super) fn bytes(&self, frame: u32) -> &[u8] {
        let from = frame as usize * self.page_len;
        &self.data[from..from + self.page_len]
    }

    pub(super) fn bytes_mut(&mut self, frame: u32) -> &mut [u8] {
        let from = frame as usize * self.page_len;
        &mut self.data[from..from + self.page_len]
    }

    pub(super) fn frame_of(&self, id: PageId) -> Option<u32> {
        self.map[usize::from(id.file)].get(id.block as usize).and_then(|frame| frame.checked_sub(1))
    }

    /// The frame of a page that is used now.
    pub(super) fn resident(&mut self, id: PageId) -> Option<u32> {
        let frame = self.frame_of(id)?;
        let uses = &mut self.frames[frame as usize].uses;
        *uses = (*uses + 1).min(MOST_USES);
        Some(frame)
    }

    /// Puts a page into a free frame.
    pub(super) fn install(&mut self, frame: u32, id: PageId) {
        let map = &mut self.map[usize::from(id.file)];
        if map.len() <= id.block as usize {
            map.resize(id.block as usize + 1, 0);
        }
        map[id.block as usize] = frame + 1;
        self.frames[frame as usize] =
            Frame { file: id.file, block: id.block, is_taken: true, uses: 1, ..Frame::default() };
    }

    /// Looks for a frame to give up; passes over at most `patience` dirty ones in search of one that is not.
    pub(super) fn victim(&mut self, patience: usize) -> Victim {
        let (mut dirty, mut seen) = (None, 0);
        for _ in 0..self.frames.len() * (usize::from(MOST_USES) + 2) {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[at];
            if !frame.is_taken || frame.pins > 0 || frame.writing_since > 0 {
                continue;
            }
            if frame.uses > 0 {
                frame.uses -= 1;
            } else if frame.dirty_since == 0 {
                frame.is_taken = false;
                let (file, block) = (frame.file, frame.block);
                self.map[usize::from(file)][block as usize] = 0;
                return Victim::Free(at as u32);
            } else {
                dirty = Some(at as u32);
                seen += 1;
                if seen > patience {
                    break;
                }
            }
        }
        dirty.map_or(Victim::None, Victim::Dirty)
    }

    /// Changes a page, and logs it.
    pub(super) fn change(&mut self, at: u32, change: &Change<'_>) {
        let frame = self.frames[at as usize];
        let from = at as usize * self.page_len;
        let bytes = &mut self.data[from..from + self.page_len];
        let is_first = page::lsn(bytes) < self.images_to && !matches!(change, Change::Image(_));
        change.apply(bytes);
        if is_first {
            let image = Change::Image(&bytes[..page::used(bytes)]);
            self.log.add(frame.file, frame.block, &image);
        } else {
            self.log.add(frame.file, frame.block, change);
        }
        page::set_lsn(bytes, self.log.end());
        self.soil(at, self.log.unit_start());
    }

    /// A page differs from its file since a position of the log.
    pub(super) fn soil(&mut self, at: u32, since: u64) {
        let frame = &mut self.frames[at as usize];
        if frame.dirty_since == 0 {
            frame.dirty_since = since;
            self.dirty += 1;
        }
    }

    /// A new page at the end of a file: a free frame, which must be there.
    pub(super) fn add_page(&mut self, file: u16) -> (u32, u32) {
        let meta = self.frame_of(PageId { file, block: 0 }).expect("the first page of a file is pinned");
        let block = page::u32_at(page::row(self.bytes(meta), 0), 0);
        self.change(meta, &Change::Update(0, 0, &(block + 1).to_le_bytes()));
        let frame = self.free.pop().expect("frames for new pages are kept free");
        let id = PageId { file, block };
        self.install(frame, id);
        self.bytes_mut(frame).fill(0);
        if self.extends {
            // Its file grows first: until then no one writes the page.
            let since = self.log.unit_start();
            let frame = &mut self.frames[frame as usize];
            (frame.pins, frame.writing_since) = (1, since);
            self.added.push(id);
        }
        (frame, block)
    }

    /// A copy of a page for its file, whose frame is pinned until [`Self::written`]: which page it is, and the position that the
    /// log must be written to. None if the page is as in its file, or is being written.
    pub(super) fn copy_out(&mut self, at: u32, into: &mut [u8]) -> Option<(PageId, u64)> {
        let frame = &mut self.frames[at as usize];
        if !frame.is_taken || frame.dirty_since == 0 || frame.writing_since > 0 {
            return None;
        }
        frame.pins += 1;
        frame.writing_since = frame.dirty_since;
        frame.dirty_since = 0;
        self.dirty -= 1;
        let id = PageId { file: frame.file, block: frame.block };
        into.copy_from_slice(self.bytes(at));
        page::seal(into);
        Some((id, page::lsn(into)))
    }

    pub(super) fn written(&mut self, at: u32) {
        let frame = &mut self.frames[at as usize];
        frame.pins -= 1;
        frame.writing_since = 0;
    }

    /// Frames with changes from before a position, those that changed first in front; not those that are being written.
    pub(super) fn oldest(&self, before: u64, most: usize) -> Vec<u32> {
        let is_one =
            |frame: &Frame| frame.dirty_since > 0 && frame.dirty_since < before && frame.writing_since == 0;
        let mut found: Vec<(u64, u32)> = (0..)
            .zip(&self.frames)
            .filter(|(_, frame)| is_one(frame))
            .map(|(at, frame)| (frame.dirty_since, at))
            .collect();
        if found.len() > most {
            found.select_nth_unstable(most);
            found.truncate(most);
        }
        found.sort_unstable_by_key(|(_, at)| {
            let frame = &self.frames[*at as usize];
            (frame.file, frame.block)
        });
        found.into_iter().map(|(_, at)| at).collect()
    }

    /// Whether a page has changes from before a position that are not in its file.
    pub(super) fn has_older(&self, before: u64) -> bool {
        let is_old = |since: u64| since > 0 && since < before;
        self.frames.iter().any(|frame| is_old(frame.dirty_since) || is_old(frame.writing_since))
    }

    /// Dirty frames that the clock would give up soon.
    pub(super) fn unused(&self, most: usize) -> Vec<u32> {
        let ahead = (0..self.frames.len()).map(|at| (self.hand + at) % self.frames.len());
        let is_one = |at: &usize| {
            let frame = &self.frames[*at];
            frame.dirty_since > 0 && frame.writing_since == 0 && frame.uses == 0 && frame.pins == 0
        };
        ahead.take(10 * most).filter(is_one).take(most).map(|at| at as u32).collect()
    }

    /// The position from which on the log is needed: the first change that is in no file.
    pub(super) fn needed_from(&self) -> u64 {
        let since = self.frames.iter().flat_map(|frame| [frame.dirty_since, frame.writing_since]);
        since.filter(|since| *since > 0).min().unwrap_or_else(|| self.log.end())
    }

    /// The frame of the leaf with a key, pinned; its pin is noted.
    pub(super) fn pin_leaf(&mut self, tree: Tree, key: u64, pinned: &mut Vec<u32>) -> Result<(), PageId> {
        let leaf = self.descend(tree, key)?.leaf();
        self.frames[leaf as usize].pins += 1;
        pinned.push(leaf);
        Ok(())
    }

    pub(super) fn unpin(&mut self, pinned: &[u32]) {
        for at in pinned {
            self.frames[*at as usize].pins -= 1;
        }
    }
}
