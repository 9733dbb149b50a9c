//! What the cache keeps, and what it lets go.

use media::block::MemoryDevice;

use super::*;

const PAGE: u32 = 4096;
const CAPACITY: u64 = 256;

fn cache() -> PageCache {
    let device = MemoryDevice::ram(Bytes::mib(64)).expect("memory");
    PageCache::new(Queue::new(device), PAGE, Bytes(CAPACITY * u64::from(PAGE)))
}

#[test]
fn pages_that_were_forgotten_give_their_memory_back_at_once() {
    let cache = cache();
    let mut made = Vec::new();
    for number in 1..=1000 {
        let mapping = Mapping::new(number);
        made.extend((0..64).map(|index| Arc::downgrade(&cache.page(&mapping, index))));
        cache.forget(&mapping, 0, u64::MAX);
        let held = made.iter().filter(|page| page.strong_count() > 0).count();
        assert_eq!(held, 0, "after {number} files");
        made.clear();
    }
    let listed = cache.ring.lock().len();
    assert!(listed <= 2 * (FORGOTTEN + CAPACITY as usize), "the ring has {listed} pages");
}

#[test]
fn a_file_that_is_read_once_fills_the_cache_and_never_exceeds_it() {
    let (cache, mapping) = (cache(), Mapping::new(1));
    let most = (0..10 * CAPACITY).map(|index| {
        cache.page(&mapping, index);
        cache.buffers.pages()
    });
    assert_eq!(most.max(), Some(CAPACITY));
    let missed = |cache: &PageCache| cache.misses.load(Relaxed);
    assert_eq!(missed(&cache), 10 * CAPACITY);
    // The last pages are there, but for the room that the hand makes.
    let before = missed(&cache);
    let kept = CAPACITY - CAPACITY / CLUSTER_PART;
    (10 * CAPACITY - kept..10 * CAPACITY).for_each(|index| drop(cache.page(&mapping, index)));
    assert_eq!(missed(&cache), before);
}

#[test]
fn a_page_that_is_used_again_gets_a_second_chance() {
    let (cache, mapping) = (cache(), Mapping::new(1));
    for index in 0..10 * CAPACITY {
        cache.page(&mapping, index);
        cache.page(&mapping, 0);
    }
    assert_eq!(cache.misses.load(Relaxed), 10 * CAPACITY);
}

#[test]
fn pages_that_are_dirty_pinned_or_in_use_are_not_evicted() {
    let (cache, mapping) = (cache(), Mapping::new(1));
    let dirty = cache.page(&mapping, 0);
    {
        let _state = dirty.state.write();
        cache.mark_dirty(&mapping, &dirty);
    }
    drop(dirty);
    cache.page(&mapping, 1).pin();
    let used = cache.page(&mapping, 2);
    (3..10 * CAPACITY).for_each(|index| drop(cache.page(&mapping, index)));
    assert!((0..3).all(|index| mapping.has(index)));
    assert!((3..CAPACITY).all(|index| !mapping.has(index)));
    drop(used);
}

#[test]
fn pages_that_are_all_dirty_stay_and_the_search_for_one_to_evict_ends() {
    let (cache, mapping) = (cache(), Mapping::new(1));
    for index in 0..2 * CAPACITY {
        let page = cache.page(&mapping, index);
        let _state = page.state.write();
        cache.mark_dirty(&mapping, &page);
    }
    assert_eq!(cache.buffers.pages(), 2 * CAPACITY);
}
