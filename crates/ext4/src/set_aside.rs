//! What is set aside in memory: chunks of cores and windows of inodes ([`preallocation`](super::preallocation) says which).

use sim::map::TreeMap;
use sim::ran;

/// What is set aside.
#[derive(Debug, Default)]
pub(crate) struct Preallocations {
    /// What is left of the chunks of each core.
    pub(super) chunks: TreeMap<u16, Vec<Run>>,
    /// Windows of each inode.
    pub(super) windows: TreeMap<u64, Vec<Window>>,
}

/// Blocks of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) len: u32,
}

/// Blocks of the device for blocks of a file from `index` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) index: u64,
    pub(super) run: Run,
}

impl Window {
    pub(super) fn holds(&self, index: u64) -> bool {
        (self.index..self.index + u64::from(self.run.len)).contains(&index)
    }
}

impl Preallocations {
    /// All of it.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        let windows = self.windows.values().flatten().map(|window| window.run);
        self.chunks.values().flatten().copied().chain(windows)
    }

    /// Blocks of a chunk of this core: of the first that has them all, or with `parts` some of the first.
    pub(super) fn take_chunk(&mut self, core: u16, want: u32, parts: bool) -> Option<Run> {
        let chunks = self.chunks.get_mut(&core)?;
        let at = chunks.iter().position(|run| parts || run.len >= want)?;
        let taken = Run { start: chunks[at].start, len: want.min(chunks[at].len) };
        chunks[at] = Run { start: taken.start + u64::from(taken.len), len: chunks[at].len - taken.len };
        if chunks[at].len == 0 {
            chunks.remove(at);
        }
        Some(taken)
    }

    /// Blocks of a window of this inode for block `index`.
    pub(super) fn take_window(&mut self, ino: u64, index: u64, want: u32) -> Option<Run> {
        let windows = self.windows.get_mut(&ino)?;
        let at = windows.iter().position(|window| window.holds(index))?;
        let Window { index: first, run } = windows.swap_remove(at);
        let before = (index - first) as u32;
        let taken = Run { start: run.start + u64::from(before), len: want.min(run.len - before) };
        let after = run.len - before - taken.len;
        if before > 0 {
            ran::push(windows, Window { index: first, run: Run { start: run.start, len: before } });
        }
        if after > 0 {
            let run = Run { start: taken.start + u64::from(taken.len), len: after };
            ran::push(windows, Window { index: index + u64::from(taken.len), run });
        }
        Some(taken)
    }

    /// How many blocks from `index` on no window of this inode covers, of `len`.
    pub(super) fn uncovered(&self, ino: u64, index: u64, len: u32) -> u32 {
        let windows = self.windows.get(&ino).into_iter().flatten();
        let next = windows.map(|window| window.index).filter(|start| *start > index).min();
        next.map_or(len, |next| len.min((next - index).min(u64::from(u32::MAX)) as u32))
    }
}
