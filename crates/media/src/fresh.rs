//! Memory of the host that nothing has touched: what a program must do to cause a known number of page faults and misses.

use std::hint::black_box;
use std::io;

use memmap2::{Advice, MmapMut};

/// Bytes of a page of the host, and of a line of its caches, as far as the known numbers go.
pub const PAGE: usize = 4096;
const LINE: usize = 64;

/// Anonymous memory in small pages, none of which has been touched.
#[derive(Debug)]
pub struct Fresh(MmapMut);

impl Fresh {
    /// Maps `pages` pages.
    pub fn new(pages: usize) -> io::Result<Self> {
        let map = MmapMut::map_anon(pages * PAGE)?;
        // A kernel without huge pages has none to refuse.
        let _ = map.advise(Advice::NoHugePage);
        Ok(Self(map))
    }

    /// Stores to each page once: as many page faults as pages, the first time.
    pub fn touch(&mut self) {
        for at in (0..self.0.len()).step_by(PAGE) {
            black_box(&mut self.0[at..=at])[0] = 1;
        }
    }

    /// Loads from every line once, `stride` bytes further each time, beginning one line further after each pass: as many loads
    /// whatever the stride, and with a stride of a page each load in another page than the one before.
    pub fn walk(&self, stride: usize) -> usize {
        let mut sum = 0_u64;
        for first in (0..stride).step_by(LINE) {
            for at in (first..self.0.len()).step_by(stride) {
                sum += u64::from(black_box(self.0[at]));
            }
        }
        black_box(sum);
        self.0.len() / LINE
    }
}
