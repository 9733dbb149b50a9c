//! Regions that cells have left, for cells of the same size that come after them.
//!
//! A host takes its time to give a process memory: it clears each page, and on a virtual machine may have to ask its own host for
//! it. Clearing what a cell has touched costs no more, and mostly less. There are never more spare regions than cells that have run
//! side by side.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use media::cost::CostModel;
use media::{MediaError, Region};
use sim::Bytes;

/// The regions.
#[derive(Debug, Default)]
pub struct RegionPool(Mutex<Vec<Region>>);

impl RegionPool {
    /// A region of `size` bytes, all of them zero.
    pub fn take(&self, size: Bytes, model: Box<dyn CostModel>) -> Result<Region, MediaError> {
        let mut regions = self.lock();
        match regions.iter().position(|region| region.len() == size.0) {
            Some(at) => {
                let region = regions.swap_remove(at);
                drop(regions);
                region.renewed(model)
            }
            None => {
                // Its memory makes room for the new one's.
                let _ = regions.pop();
                drop(regions);
                Region::anonymous(size, model)
            }
        }
    }

    /// Keeps a region that has no other user.
    pub fn keep(&self, region: Arc<Region>) {
        self.lock().extend(Arc::into_inner(region));
    }

    /// Gives the memory back to the host.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Region>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::nvmm::null::Null;

    #[test]
    fn a_cell_finds_nothing_of_the_one_before_it() {
        let spare = RegionPool::default();
        let size = Bytes(64 << 20);
        for _ in 0..3 {
            let region = spare.take(size, Box::new(Null)).unwrap();
            let mut all = vec![1; size.as_usize()];
            region.peek(0, &mut all).unwrap();
            assert!(all.iter().all(|byte| *byte == 0));
            for offset in [0, 5 << 20, (64 << 20) - 100] {
                region.nt_store(offset, &[7; 100]).unwrap();
            }
            spare.keep(Arc::new(region));
        }
    }

    #[test]
    fn a_region_of_another_size_is_not_kept_beside_a_new_one() {
        let spare = RegionPool::default();
        spare.keep(Arc::new(spare.take(Bytes(1 << 20), Box::new(Null)).unwrap()));
        let other = spare.take(Bytes(2 << 20), Box::new(Null)).unwrap();
        assert_eq!((other.len(), spare.lock().len()), (2 << 20, 0));
    }
}
