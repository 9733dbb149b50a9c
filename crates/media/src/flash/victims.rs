//! Full lines by their number of valid pages: greedy collection finds the one with the fewest at once.
//!
//! One list for each number, linked both ways through the lines' own numbers; a line moves to the next list when a page of it
//! becomes invalid. `least` is never above the lowest list that is not empty.

use super::map::NONE;

/// The full lines of one group.
#[derive(Clone, Debug)]
pub(super) struct Victims {
    /// The first line of this group.
    first: u32,
    /// The head of the list for each number of valid pages.
    heads: Vec<u32>,
    links: Vec<(u32, u32)>,
    least: usize,
}

impl Victims {
    /// For lines `first..first + lines` of `pages` pages each.
    pub(super) fn new(first: u32, lines: u32, pages: u32) -> Self {
        let (heads, links) = (vec![NONE; pages as usize + 1], vec![(NONE, NONE); lines as usize]);
        Self { first, heads, links, least: 0 }
    }

    pub(super) fn insert(&mut self, line: u32, valid: u32) {
        let head = std::mem::replace(&mut self.heads[valid as usize], line);
        if head != NONE {
            self.links[(head - self.first) as usize].0 = line;
        }
        self.links[(line - self.first) as usize] = (NONE, head);
        self.least = self.least.min(valid as usize);
    }

    pub(super) fn remove(&mut self, line: u32, valid: u32) {
        let (before, after) = self.links[(line - self.first) as usize];
        match before {
            NONE => self.heads[valid as usize] = after,
            before => self.links[(before - self.first) as usize].1 = after,
        }
        if after != NONE {
            self.links[(after - self.first) as usize].0 = before;
        }
    }

    /// The line with the fewest valid pages, unless all pages of all lines are valid.
    pub(super) fn fewest(&mut self) -> Option<u32> {
        let end = self.heads.len() - 1;
        while self.least < end && self.heads[self.least] == NONE {
            self.least += 1;
        }
        (self.least < end).then(|| self.heads[self.least])
    }

    /// The number of lines in all lists, and whether the lists are sound; for tests.
    pub(super) fn count(&self, valid: impl Fn(u32) -> u32) -> Result<usize, String> {
        let mut count = 0;
        for (pages, head) in self.heads.iter().enumerate() {
            let mut line = *head;
            while line != NONE {
                if valid(line) as usize != pages {
                    return Err(format!("line {line} is listed with {pages} valid pages"));
                }
                count += 1;
                line = self.links[(line - self.first) as usize].1;
            }
        }
        Ok(count)
    }
}
