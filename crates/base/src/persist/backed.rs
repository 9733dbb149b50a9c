//! Free blocks of a pool with holes, when the host has no space left: those that the host has given already.
//!
//! An allocator takes the lowest free blocks and has the host reserve space for them ([`Region::back`]). When the host refuses,
//! free blocks higher up may still have their space: files have given them back, and no trim has taken it.

use std::ops::RangeInclusive;

use media::nvmm::Region;
use sim::Run;

use super::free_map::FreeMap;

/// Of which blocks a map is, and which are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// The number in the image of the map's first block.
    pub base: u64,
    /// How many neighbouring blocks.
    pub count: RangeInclusive<u64>,
    /// The first is a multiple of this.
    pub align: u64,
}

/// Takes the lowest run of free blocks at or after `from` that can be stored to without asking the host for space.
pub fn take_given(
    map: &mut FreeMap,
    region: &Region,
    from: u64,
    Wanted { block_bytes, base, count, align }: Wanted,
) -> Option<Run> {
    let (least, most) = count.into_inner();
    let (mut at, mut given) = (from, 0..0);
    loop {
        let first = map.first_from(at)?.next_multiple_of(align);
        let offset = (base + first) * block_bytes;
        if offset >= given.end {
            given = region.backed_from(offset)?;
        }
        if offset < given.start {
            at = given.start.div_ceil(block_bytes) - base;
            continue;
        }
        let end = (given.end / block_bytes).saturating_sub(base);
        let run = (first..end).take_while(|block| map.is_free(*block)).take(most as usize).count() as u64;
        if run >= least.max(1) {
            (first..first + run).for_each(|block| {
                map.take(block);
            });
            return Some(Run::new(first, run));
        }
        at = first + run + 1;
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use media::nvmm::{Access, null::Null};

    use super::*;

    const BLOCK: u64 = 4096;

    #[test]
    fn only_free_blocks_that_have_space_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let file = File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        let data = |block: u64, blocks: u64| {
            file.write_all_at(&vec![1; (blocks * BLOCK) as usize], block * BLOCK).unwrap();
        };
        for (block, blocks) in [(600, 3), (1050, 20), (1100, 4)] {
            data(block, blocks);
        }
        let region = Region::file(&path, None, Access::ReadWrite, Box::new(Null)).unwrap();
        // The map begins at block 500.
        let mut map = FreeMap::new(4000);
        (0..4000).filter(|block| *block != 101).for_each(|block| assert!(map.put(block)));
        let wanted =
            |least, most, align| Wanted { block_bytes: BLOCK, base: 500, count: least..=most, align };
        let mut take =
            |from, wanted| take_given(&mut map, &region, from, wanted).map(|run| (run.first, run.count));
        assert_eq!(take(7, wanted(1, 9, 1)), Some((100, 1)), "its neighbour is in use");
        assert_eq!(take(7, wanted(2, 2, 1)), Some((550, 2)), "one block is too few");
        assert_eq!(take(7, wanted(4, 9, 8)), Some((552, 9)));
        assert_eq!(take(7, wanted(1, 9, 1)), Some((102, 1)));
        assert_eq!(take(561, wanted(1, 100, 1)), Some((561, 9)), "up to the hole");
        assert_eq!(take(570, wanted(5, 5, 1)), None);
        assert_eq!(take(570, wanted(4, 5, 1)), Some((600, 4)));
        assert_eq!(take(0, wanted(1, 1, 1)), None);
    }
}
