//! Which blocks to read ahead of a program: windows that grow while it reads in sequence (`readahead.rs`).

use sim::{LockClass, Mutex, Run};

pub(super) static READAHEAD: LockClass = LockClass::new("ext4.readahead").under(&[&super::INODE]);

/// What was read ahead of a file, in blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readahead {
    start: u64,
    size: u64,
    /// The last window is submitted when this much of the one before is left.
    asynchronous: u64,
}

/// Blocks to read, and how far from their end the marked page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) asynchronous: u64,
}

impl Readahead {
    /// Nothing was read yet.
    pub(crate) fn none() -> Mutex<Self> {
        Mutex::new(&READAHEAD, Self::default())
    }

    /// The next window for a program that asks for `wanted` blocks from `index` on, has read block `previous` last, and has met a
    /// page that is missing, or (`marked`) the marked one. `cached` counts the pages in the cache before `index`, `missing` is the
    /// next one after it.
    pub(super) fn next(
        &mut self,
        Run { first: index, count: wanted }: Run,
        (most, previous): (u64, u64),
        marked: bool,
        cached: impl FnOnce(u64) -> u64,
        missing: impl FnOnce() -> Option<u64>,
    ) -> Option<Window> {
        let follows = index == self.start + self.size - self.asynchronous || index == self.start + self.size;
        if index > 0 && self.size > 0 && follows {
            self.start += self.size;
            self.size = next_size(self.size, most);
            self.asynchronous = self.size;
        } else if index > 0 && marked {
            let start = missing()?;
            self.start = start;
            self.size = next_size(start - index + wanted, most);
            self.asynchronous = self.size;
        } else if index == 0 || wanted > most || index.wrapping_sub(previous) <= 1 {
            self.start = index;
            self.size = first_size(wanted, most);
            self.asynchronous = if self.size > wanted { self.size - wanted } else { self.size };
        } else {
            let history = cached(most);
            if history <= wanted {
                return Some(Window { start: index, size: wanted, asynchronous: 0 });
            }
            let history = if history >= index { history * 2 } else { history };
            (self.start, self.size, self.asynchronous) = (index, (history + wanted).min(most), 1);
        }
        if index == self.start && self.size == self.asynchronous {
            let more = next_size(self.size, most);
            if self.size + more <= most {
                self.asynchronous = more;
                self.size += more;
            } else {
                (self.size, self.asynchronous) = (most, most / 2);
            }
        }
        Some(Window { start: self.start, size: self.size, asynchronous: self.asynchronous })
    }
}

fn first_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.max(1).next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

fn next_size(size: u64, most: u64) -> u64 {
    if size < most / 16 {
        size * 4
    } else if size <= most / 2 {
        size * 2
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads block after block; the windows that are submitted.
    fn sequence(blocks: u64) -> Vec<Window> {
        let (mut state, mut windows, mut cached, mut mark) = (Readahead::default(), Vec::new(), 0, None);
        for index in 0..blocks {
            let marked = mark == Some(index);
            if index >= cached || marked {
                let previous = index.wrapping_sub(1);
                let window = state
                    .next(Run::new(index, 1), (32, previous), marked, |_| index, || Some(cached))
                    .unwrap();
                cached = window.start + window.size;
                mark = Some(cached - window.asynchronous);
                windows.push(window);
            }
        }
        windows
    }

    #[test]
    fn windows_of_a_sequence_grow_to_128_kib_and_follow_each_other() {
        let windows = sequence(256);
        let sizes: Vec<_> = windows.iter().map(|window| window.size).collect();
        assert_eq!(sizes[..5], [4, 8, 16, 32, 32]);
        assert!(windows.windows(2).all(|pair| pair[0].start + pair[0].size == pair[1].start));
        // The second window is submitted when the first has been used for one block.
        assert_eq!(windows[0].asynchronous, 3);
    }

    #[test]
    fn a_read_at_random_reads_what_it_asks_for() {
        let mut state = Readahead::default();
        let window = state.next(Run::new(1_000, 1), (32, u64::MAX), false, |_| 0, || None);
        assert_eq!(window, Some(Window { start: 1_000, size: 1, asynchronous: 0 }));
    }
}
