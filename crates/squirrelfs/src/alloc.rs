//! Free pages and free inode numbers, in DRAM only: the medium says which are in use.
//!
//! The published code keeps free pages in a tree for each processor and free numbers in one global tree, a node for each. Here they
//! are bitmaps; a search charges what a tree of that many nodes costs.
//!
//! Lock order: `squirrelfs.pages` and `squirrelfs.numbers` are leaves; of several cores one is locked at a time.

use std::sync::Arc;

use media::event::Mark;
use media::nvmm::Region;
use sim::map::height;
use sim::sync::{AtomicU64, Ordering::SeqCst};
use sim::{LockClass, Mutex, ran};

use crate::inode::INODE;
use crate::layout::{Layout, PAGE, descriptor};
use crate::object::PagePlace;
use crate::parts;
use base::error::{Error, Result};
use base::persist::free_map::FreeMap;

pub(crate) static PAGES: LockClass = LockClass::new("squirrelfs.pages").under(&[&INODE]);
pub(crate) static NUMBERS: LockClass = LockClass::new("squirrelfs.numbers").under(&[&INODE]);

/// Free pages of a mounted volume.
pub(crate) struct FreePages {
    region: Arc<Region>,
    layout: Layout,
    /// For each core, those of its share of the pages.
    cores: Vec<Mutex<FreeMap>>,
    /// Pages of a share.
    share: u64,
    /// Those of all shares: what statfs asks.
    free: AtomicU64,
}

impl FreePages {
    /// The pages for which `is_free`, shared out among so many cores.
    pub(crate) fn new(
        region: &Arc<Region>,
        layout: Layout,
        cores: u64,
        is_free: impl Fn(u64) -> bool,
    ) -> Self {
        let cores = cores.clamp(1, layout.pages);
        let share = layout.pages.div_ceil(cores);
        let mut free = 0;
        let maps = (0..cores).map(|core| {
            let first = core * share;
            let pages = layout.pages.saturating_sub(first).min(share);
            let mut map = FreeMap::new(pages);
            (0..pages).filter(|page| is_free(first + page)).for_each(|page| {
                map.put(page);
            });
            free += map.free();
            Mutex::new(&PAGES, map)
        });
        let cores = maps.collect();
        Self { region: Arc::clone(region), layout, cores, share, free: AtomicU64::new(free) }
    }

    pub(crate) fn free(&self) -> u64 {
        self.free.load(SeqCst)
    }

    /// Takes as many as `count` pages, the lowest of this core first, then of the core that has most.
    pub(crate) fn take(&self, count: u64) -> Vec<PagePlace> {
        let _part = sim::part(&parts::ALLOC_PAGE);
        let mut taken = Vec::with_capacity(count.min(self.free()) as usize);
        ran::allocate(1);
        let own = usize::from(sim::core()) % self.cores.len();
        while (taken.len() as u64) < count && self.region.grants_space() {
            let Some(page) = self.take_of(own).or_else(|| self.take_of_fullest()) else { break };
            ran::push(&mut taken, self.place(page));
        }
        self.free.fetch_sub(taken.len() as u64, SeqCst);
        taken
    }

    fn take_of(&self, core: usize) -> Option<u64> {
        let mut map = self.cores[core].lock();
        ran::node(height(map.free() as usize).max(2));
        map.take_first().map(|page| core as u64 * self.share + page)
    }

    /// Takes a page of the core that has most. Another task may take its last one meanwhile: then of the next.
    fn take_of_fullest(&self) -> Option<u64> {
        loop {
            let all = (0..self.cores.len()).map(|core| (self.cores[core].lock().free(), core));
            let (_, core) = all.max().filter(|(free, _)| *free > 0)?;
            if let Some(page) = self.take_of(core) {
                return Some(page);
            }
        }
    }

    /// Gives a page back, which has no owner and no use on the medium. A list takes the lock once for each page, as published.
    pub(crate) fn put(&self, places: &[PagePlace]) -> Result<()> {
        for place in places {
            let Some(page) = self.page_at(place.page) else {
                return Err(Error::Corrupt(format!("there is no page at {}", place.page)));
            };
            let pointer = place.descriptor + descriptor::OWNER;
            self.region.mark(Mark::Free { off: place.page, len: PAGE, pointer });
            let mut map = self.cores[(page / self.share) as usize].lock();
            ran::node(height(map.free() as usize).max(2));
            if !map.put(page % self.share) {
                return Err(Error::Corrupt(format!("page {page} is freed twice")));
            }
            self.free.fetch_add(1, SeqCst);
        }
        Ok(())
    }

    fn place(&self, page: u64) -> PagePlace {
        PagePlace { descriptor: self.layout.descriptor(page), page: self.layout.page(page) }
    }

    fn page_at(&self, at: u64) -> Option<u64> {
        let within = at.checked_sub(self.layout.first_page)?;
        Some(within / PAGE).filter(|page| *page < self.layout.pages)
    }
}

impl Layout {
    /// Where the page at an offset has its descriptor.
    pub(crate) fn place_of(&self, page_at: u64) -> PagePlace {
        let page = page_at.saturating_sub(self.first_page) / PAGE;
        PagePlace { descriptor: self.descriptor(page), page: page_at }
    }
}

/// Free inode numbers.
pub(crate) struct FreeNumbers {
    region: Arc<Region>,
    map: Mutex<FreeMap>,
}

impl FreeNumbers {
    /// The numbers for which `is_free`.
    pub(crate) fn new(region: &Arc<Region>, layout: Layout, is_free: impl Fn(u64) -> bool) -> Self {
        let mut map = FreeMap::new(layout.inodes);
        (1..layout.inodes).filter(|number| is_free(*number)).for_each(|number| {
            map.put(number);
        });
        Self { region: Arc::clone(region), map: Mutex::new(&NUMBERS, map) }
    }

    pub(crate) fn free(&self) -> u64 {
        self.map.lock().free()
    }

    /// Takes the lowest number.
    pub(crate) fn take(&self) -> Result<u64> {
        let _part = sim::part(&parts::ALLOC_INO);
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        let mut map = self.map.lock();
        ran::node(height(map.free() as usize).max(2));
        map.take_first().ok_or(Error::NoSpace)
    }

    /// Gives a number back whose inode is erased.
    pub(crate) fn put(&self, number: u64) {
        let mut map = self.map.lock();
        ran::node(height(map.free() as usize).max(2));
        map.put(number);
    }
}

#[cfg(test)]
mod tests {
    use media::nvmm::null::Null;
    use sim::schedule::{Schedule, Switch};
    use sim::{Bytes, Machine, Seed, Setup, TaskSpec};

    use super::*;

    /// Two tasks take a page each, on a core that has none, where two others have one each; from a point of the first task on the
    /// second goes on. How many they got, and the points of the run.
    fn taken(point: u64) -> (usize, u64) {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
        let schedule = Schedule::Directed(vec![Switch { point, to: 1 }]);
        let (done, order) = sim::explore(&setup, &schedule, || {
            let region = Arc::new(Region::anonymous(Bytes::mib(1), Box::new(Null)).expect("memory"));
            let layout = Layout::new(region.len(), 16).expect("room");
            let share = layout.pages.div_ceil(3);
            let is_free = |page: u64| page == share || page == 2 * share;
            let pages = Arc::new(FreePages::new(&region, layout, 3, is_free));
            assert_eq!(pages.free(), 2);
            let other = Arc::clone(&pages);
            let second = sim::spawn(TaskSpec::named("second"), move || other.take(1).len());
            pages.take(1).len() + second.join()
        });
        (done.expect("the run ends"), order.points)
    }

    #[test]
    fn a_task_gets_a_page_as_long_as_a_core_has_one() {
        let points = taken(u64::MAX).1;
        for point in 1..=points {
            assert_eq!(taken(point).0, 2, "another task goes on at point {point}");
        }
    }
}
