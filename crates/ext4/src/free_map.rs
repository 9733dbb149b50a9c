//! What a group can give out now: its block bitmap, without what is busy or set aside (Linux: the buddy bitmap of mballoc).
//!
//! A map is made when its group is first searched, and then follows each change; [`Groups`](super::groups::Groups) has the lock. It
//! takes an eighth of a byte a block, as the bitmap on the device does.

/// The blocks of one group.
#[derive(Debug)]
pub(super) struct FreeMap {
    /// One bit a block; a set one cannot be given out.
    taken: Box<[u64]>,
    blocks: u32,
    /// No run of free blocks is longer.
    longest: u32,
}

impl FreeMap {
    /// The map of a group whose bitmap says `bitmap`.
    pub(super) fn new(bitmap: &[u8], blocks: u32) -> Self {
        sim::ran::allocate(1);
        let mut taken = vec![u64::MAX; blocks.div_ceil(64) as usize].into_boxed_slice();
        for (word, bytes) in taken.iter_mut().zip(bitmap.chunks(8)) {
            let mut whole = [0xff; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        Self { taken, blocks, longest: blocks }
    }

    /// Blocks can be given out no more: they are in use, busy or set aside.
    pub(super) fn take(&mut self, at: u32, len: u32) {
        self.each_word(at, len, |word, mask| *word |= mask);
    }

    /// Blocks can be given out again.
    pub(super) fn give(&mut self, at: u32, len: u32) {
        self.each_word(at, len, |word, mask| *word &= !mask);
        self.longest = self.blocks;
    }

    fn each_word(&mut self, at: u32, len: u32, change: impl Fn(&mut u64, u64)) {
        sim::ran::did(sim::Work::NODE, 1);
        let end = (at + len).min(self.blocks);
        let mut at = at;
        while at < end {
            let upto = end.min((at / 64 + 1) * 64);
            let bits = upto - at;
            let mask = (u64::MAX >> (64 - bits)) << (at % 64);
            change(&mut self.taken[(at / 64) as usize], mask);
            at = upto;
        }
    }

    /// An upper bound of the length of a run of free blocks.
    pub(super) fn longest(&self) -> u32 {
        self.longest
    }

    /// The first free run of `want` blocks at or behind block `from`, or the longest run there; with `at_goal` what is free at
    /// `from`, if anything is. First block and length.
    pub(super) fn find(&mut self, from: u32, want: u32, at_goal: bool) -> Option<(u32, u32)> {
        sim::ran::did(sim::Work::NODE, 1);
        let mut best: Option<(u32, u32)> = None;
        let mut at = from;
        while let Some(free) = self.next(at, self.blocks, 0) {
            let limit = self.blocks.min(free.saturating_add(want));
            let end = self.next(free, limit, u64::MAX).unwrap_or(limit);
            let len = end - free;
            if best.is_none_or(|(_, most)| len > most) {
                best = Some((free, len));
            }
            if len >= want || at_goal && free == from {
                return best;
            }
            at = end;
        }
        if from == 0 {
            self.longest = best.map_or(0, |(_, len)| len);
        }
        best
    }

    /// The next block at or behind `from`, before `end`, that is free (`flip` 0) or taken (all ones).
    fn next(&self, from: u32, end: u32, flip: u64) -> Option<u32> {
        let mut at = from;
        while at < end {
            let found = (!(self.taken[(at / 64) as usize] ^ flip)) >> (at % 64);
            if found != 0 {
                return Some(at + found.trailing_zeros()).filter(|at| *at < end);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use sim::Seed;

    use super::*;

    /// The same search, a block at a time.
    fn slow(taken: &[bool], from: u32, want: u32, at_goal: bool) -> Option<(u32, u32)> {
        let free = |at: u32| !taken[at as usize];
        let blocks = taken.len() as u32;
        let mut best: Option<(u32, u32)> = None;
        let mut at = from;
        while at < blocks {
            let len = (at..blocks).take(want as usize).take_while(|at| free(*at)).count() as u32;
            if len > best.map_or(0, |(_, most)| most) {
                best = Some((at, len));
            }
            if len >= want || at_goal && at == from && len > 0 {
                return best;
            }
            at += len.max(1);
        }
        best
    }

    #[test]
    fn a_search_by_words_finds_what_a_search_by_blocks_finds() {
        for seed in 1..200 {
            let mut random = Seed(seed).rng();
            let blocks: u32 = random.random_range(1..=700);
            let bitmap: Vec<u8> = (0..88).map(|_| random.random::<u8>() & random.random::<u8>()).collect();
            let mut taken: Vec<bool> =
                (0..blocks).map(|at| bitmap[at as usize / 8] & 1 << (at % 8) != 0).collect();
            let mut map = FreeMap::new(&bitmap, blocks);
            for _ in 0..100 {
                let at = random.random_range(0..blocks);
                let len = random.random_range(1..=(blocks - at).min(130));
                let gives = random.random();
                if gives {
                    map.give(at, len);
                } else {
                    map.take(at, len);
                }
                taken[at as usize..][..len as usize].fill(!gives);
                let from = if random.random() { 0 } else { random.random_range(0..blocks) };
                let (want, at_goal) = (random.random_range(1..=100), random.random());
                let found = map.find(from, want, at_goal);
                assert_eq!(found, slow(&taken, from, want, at_goal), "seed {seed}");
                let longest = slow(&taken, 0, blocks, false).map_or(0, |(_, len)| len);
                assert!(map.longest() >= longest, "seed {seed}: {} for {longest}", map.longest());
            }
        }
    }
}
