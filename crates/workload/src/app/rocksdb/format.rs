//! Sizes of what RocksDB writes: records of its log, entries of its memtable, blocks of its tables. No bytes, only how many.
//!
//! | of | from |
//! |---|---|
//! | the log | RocksDB's wiki, "Write Ahead Log File Format": blocks of 32 KiB, fragments with a head of 7 bytes |
//! | a batch | `db/write_batch.cc`: 12 bytes, then for each entry its kind, and key and value after their lengths |
//! | the memtable | `db/memtable.cc`, `ShouldFlushNow`; `memory/arena.cc`; `memtable/inlineskiplist.h` |
//! | a table | `table/block_based`: blocks of 4 KiB, a restart every 16 entries, a tail of 5 bytes; no compression |
//!
//! Keys are those of db_bench: the number in 8 bytes, largest digit first, and 8 digits of zero. Sizes were compared with those
//! that RocksDB 7.8.3 writes; what a table has besides its blocks is as long as in its tables.

use rand::RngExt as _;
use sim::Rng;

/// Bytes of a key.
const KEY: u64 = 16;
/// Bytes of a key in memtables and tables: the sequence number and the kind are added.
const INTERNAL: u64 = KEY + 8;

/// Bytes of a number with 7 bits a byte.
fn varint(number: u64) -> u64 {
    u64::from((number | 1).ilog2()) / 7 + 1
}

/// Bytes of a batch of so many values.
pub(super) fn batch(count: u64, value: u64) -> u64 {
    12 + count * (1 + varint(KEY) + KEY + varint(value) + value)
}

/// How far a log is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogEnd(u64);

impl LogEnd {
    const BLOCK: u64 = 32 << 10;
    const HEAD: u64 = 7;

    /// Bytes that a record adds: its fragments with their heads, and what fills a block in which no head has room.
    pub(super) fn append(&mut self, record: u64) -> u64 {
        let (mut left, mut added) = (record, 0);
        loop {
            let room = Self::BLOCK - (self.0 + added) % Self::BLOCK;
            if room < Self::HEAD {
                added += room;
                continue;
            }
            let fragment = left.min(room - Self::HEAD);
            added += Self::HEAD + fragment;
            left -= fragment;
            if left == 0 {
                break;
            }
        }
        self.0 += added;
        added
    }

    /// Bytes of the log.
    pub(super) fn bytes(self) -> u64 {
        self.0
    }
}

/// The memory of a memtable.
#[derive(Clone, Debug)]
pub(super) struct Arena {
    limit: u64,
    block: u64,
    allocated: u64,
    unused: u64,
}

impl Arena {
    /// What an arena has without a block.
    const INLINE: u64 = 2048;

    /// Of a memtable that is full at about `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        let block = (limit / 8).clamp(4 << 10, 1 << 20).next_multiple_of(4 << 10);
        Self { limit, block, allocated: Self::INLINE, unused: Self::INLINE }
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, value: u64, rng: &mut Rng) {
        let entry = varint(INTERNAL) + INTERNAL + varint(value) + value;
        let mut node = 8;
        // A node of the skip list has a further level in a quarter of the cases.
        while node < 12 * 8 && rng.random_range(0..4) == 0 {
            node += 8;
        }
        let bytes = (entry + node).next_multiple_of(16);
        if bytes <= self.unused {
            self.unused -= bytes;
        } else if bytes > self.block / 4 {
            self.allocated += bytes;
        } else {
            self.allocated += self.block;
            self.unused = self.block - bytes;
        }
    }

    /// Whether the memtable is to be written to a table.
    pub(super) fn is_full(&self) -> bool {
        let most = self.limit + self.block * 6 / 10;
        self.allocated + self.block >= most && (self.allocated > most || self.unused < self.block / 4)
    }
}

/// A block of a table: up to which entry, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) end: u32,
    pub(super) bytes: u32,
}

/// Sizes of the blocks of a table that is being written.
#[derive(Debug)]
pub(super) struct Blocks {
    value: u64,
    done: Vec<Block>,
    bytes: u64,
    entries: u32,
    /// Of the block that is being filled.
    filled: u64,
    restarts: u64,
    since_restart: u64,
    last: u32,
}

impl Blocks {
    const TARGET: u64 = 4096;
    /// A block that is fuller than this is ended rather than made longer than its target.
    const NEARLY: u64 = (Self::TARGET * 90).div_ceil(100);
    const INTERVAL: u64 = 16;
    const TAIL: u64 = 5;
    /// Of the index for each block: the first key that tells it from the next, its place.
    const INDEXED: u64 = 19;
    /// Properties, index of these, and footer.
    const REST: u64 = 968;

    /// Of tables with values of so many bytes.
    pub(super) fn new(value: u64) -> Self {
        Self {
            value,
            done: Vec::new(),
            bytes: 0,
            entries: 0,
            filled: 0,
            restarts: 1,
            since_restart: 0,
            last: 0,
        }
    }

    fn estimate(&self) -> u64 {
        self.filled + 4 * self.restarts + 4
    }

    /// Adds the next key. The bytes of the block that it does not go into any more, if one ended before it.
    pub(super) fn add(&mut self, key: u32) -> Option<u64> {
        let restart = if self.since_restart >= Self::INTERVAL { 4 } else { 0 };
        let with =
            self.estimate() + INTERNAL + self.value + restart + 4 + varint(INTERNAL) + varint(self.value);
        let is_full =
            self.estimate() >= Self::TARGET || (with > Self::TARGET && self.estimate() > Self::NEARLY);
        let ended = (self.filled > 0 && is_full).then(|| self.end_block());
        if self.since_restart >= Self::INTERVAL {
            (self.restarts, self.since_restart) = (self.restarts + 1, 0);
        }
        let is_whole = self.since_restart == 0;
        let shared = if is_whole { 0 } else { 4 + u64::from((self.last ^ key).leading_zeros() / 8) };
        self.filled += 1 + varint(INTERNAL - shared) + varint(self.value) + INTERNAL - shared + self.value;
        (self.last, self.since_restart, self.entries) = (key, self.since_restart + 1, self.entries + 1);
        ended
    }

    fn end_block(&mut self) -> u64 {
        let bytes = self.estimate() + Self::TAIL;
        self.done.push(Block { end: self.entries, bytes: bytes as u32 });
        self.bytes += bytes;
        (self.filled, self.restarts, self.since_restart) = (0, 1, 0);
        bytes
    }

    /// Bytes of the blocks that have ended.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the index of so many blocks.
    pub(super) fn index_bytes(blocks: usize) -> u64 {
        Self::INDEXED * blocks as u64
    }

    /// All blocks, and the bytes of the last of them and of all that comes after it.
    pub(super) fn finish(mut self) -> (Box<[Block]>, u64) {
        let last = if self.filled > 0 { self.end_block() } else { 0 };
        let rest = Self::index_bytes(self.done.len()) + Self::REST;
        (self.done.into_boxed_slice(), last + rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    /// Sizes of writes that db_bench 7.8.3 made with values of 8192 bytes (strace).
    #[test]
    fn records_of_a_log_are_as_long_as_those_of_the_program() {
        let mut end = LogEnd::default();
        let four: Vec<u64> = (0..4).map(|_| end.append(batch(1, 8192))).collect();
        assert_eq!(four, [8231, 8231, 8231, 8238], "the fourth goes over the end of a block");
        assert_eq!(LogEnd::default().append(batch(2, 8192)), 16_443);
        assert_eq!(end.bytes(), 3 * 8231 + 8238);
        // 489 of them were one log of 4,025,812 bytes.
        let mut end = LogEnd::default();
        for _ in 0..489 {
            end.append(batch(1, 8192));
        }
        assert_eq!(end.bytes(), 4_025_812);
    }

    #[test]
    fn a_block_in_which_no_head_has_room_is_filled() {
        let mut end = LogEnd::default();
        assert_eq!(end.append(LogEnd::BLOCK - 7 - 6), LogEnd::BLOCK - 6);
        assert_eq!(end.append(10), 6 + 7 + 10);
        assert_eq!(LogEnd::default().append(LogEnd::BLOCK - 7), LogEnd::BLOCK, "one fragment, exactly");
    }

    /// Entries in the memtables of db_bench 7.8.3 when it began to write them to a table (its LOG).
    #[test]
    fn a_memtable_is_full_where_the_programs_is() {
        for (limit, value, entries) in [(4 << 20, 8192, 489), (1 << 20, 100, 7011)] {
            let (mut arena, mut rng) = (Arena::new(limit), Seed(1).rng());
            let mut count = 0;
            while !arena.is_full() {
                arena.add(value, &mut rng);
                count += 1;
            }
            assert!((entries * 98..=entries * 102).contains(&(count * 100)), "{limit} {value}: {count}");
        }
    }

    /// Tables of db_bench 7.8.3: 446 keys of 8192 bytes are 3,671,918 bytes of blocks and 3,681,541 in all; 6,774 of 100 bytes of
    /// 100,000 are 206 blocks of 821,862 bytes and 826,729 in all.
    #[test]
    fn tables_are_as_long_as_those_of_the_program() {
        for (value, keys, blocks, data, all) in
            [(8192, 446, 446, 3_671_918, 3_681_541_u64), (100, 6774, 206, 821_862, 826_729)]
        {
            let mut table = Blocks::new(value);
            let of_blocks: u64 = (0..keys).filter_map(|key| table.add(key * 100_000 / keys)).sum();
            assert_eq!(of_blocks, table.bytes());
            let (found, rest) = table.finish();
            let sum: u64 = found.iter().map(|block| u64::from(block.bytes)).sum();
            assert!(sum.abs_diff(data) * 100 < data, "{value}: {sum} bytes of blocks");
            assert!(found.len().abs_diff(blocks) * 50 < blocks, "{value}: {} blocks", found.len());
            assert!((of_blocks + rest).abs_diff(all) * 100 < all, "{value}: {} bytes", of_blocks + rest);
            assert_eq!(found.last().unwrap().end, keys);
        }
    }
}
