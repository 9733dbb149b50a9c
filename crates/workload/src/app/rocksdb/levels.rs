//! The tables of a database by level, and which of them are merged next: RocksDB's level style, of its version 7.8.
//!
//! | level | is merged when | into |
//! |---|---|---|
//! | 0 | it has so many tables (4), or as many bytes as level 1 may have | level 1: all of them, and what they overlap there |
//! | 1 to 5 | it has more bytes than it may: 256 MiB, then ten times the level before | the next: one table, and what it overlaps |
//!
//! Of a level's tables that is merged first which overlaps the fewest bytes for its own. More tables of the level are taken as long
//! as the next level's part stays the same. A table that overlaps nothing only changes its level. What RocksDB does besides and
//! this does not: merging tables of level 0 with each other while the first merge is under way, and merges by age.

use std::collections::BTreeSet;
use std::sync::Arc;

use vfs::Fd;

use super::format::Block;

/// Levels of a database.
const LEVELS: usize = 7;
/// A merge takes at most so many tables' bytes beyond what it must.
const WIDEST: u64 = 25;

/// A table: its keys in order, and where they lie in its file.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) number: u64,
    /// Open for reading until the table is removed.
    pub(super) fd: Fd,
    pub(super) bytes: u64,
    pub(super) keys: Box<[u32]>,
    pub(super) blocks: Box<[Block]>,
}

impl Table {
    fn smallest(&self) -> u32 {
        self.keys.first().copied().unwrap_or(0)
    }

    pub(super) fn largest(&self) -> u32 {
        self.keys.last().copied().unwrap_or(0)
    }
}

/// Sizes that decide what is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Tables of level 0.
    pub(super) trigger: u64,
    /// Bytes of level 1.
    pub(super) base: u64,
    /// Bytes of a table.
    pub(super) table: u64,
}

/// All tables.
#[derive(Debug)]
pub(super) struct Levels {
    shape: Shape,
    tables: [Vec<Arc<Table>>; LEVELS],
    /// Numbers of tables that are being merged.
    busy: BTreeSet<u64>,
}

/// Tables that are merged.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) from: usize,
    pub(super) upper: Vec<Arc<Table>>,
    pub(super) lower: Vec<Arc<Table>>,
    /// The largest keys of the tables below the result: its tables end there rather than elsewhere.
    pub(super) boundaries: Vec<u32>,
}

impl Merge {
    pub(super) fn inputs(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.upper.iter().chain(&self.lower)
    }

    /// Whether the one table changes its level and nothing is written.
    pub(super) fn is_move(&self) -> bool {
        self.upper.len() == 1 && self.lower.is_empty()
    }
}

fn bytes(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|table| table.bytes).sum()
}

/// From the smallest to the largest key.
fn range<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> (u32, u32) {
    tables.fold((u32::MAX, 0), |(low, high), table| (low.min(table.smallest()), high.max(table.largest())))
}

impl Levels {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, tables: Default::default(), busy: BTreeSet::new() }
    }

    /// A memtable has become a table.
    pub(super) fn add(&mut self, table: Table) {
        self.tables[0].push(Arc::new(table));
    }

    /// How many tables level 0 has.
    pub(super) fn unsorted(&self) -> u64 {
        self.tables[0].len() as u64
    }

    /// How many tables there are.
    pub(super) fn count(&self) -> usize {
        self.tables.iter().map(Vec::len).sum()
    }

    fn is_free(&self, tables: &[Arc<Table>]) -> bool {
        tables.iter().all(|table| !self.busy.contains(&table.number))
    }

    fn overlapping(&self, level: usize, (low, high): (u32, u32)) -> Vec<Arc<Table>> {
        let Some(tables) = self.tables.get(level) else { return Vec::new() };
        // From level 1 on tables stand in the order of their keys.
        let first = tables.partition_point(|table| table.largest() < low);
        tables[first..].iter().take_while(|table| table.smallest() <= high).cloned().collect()
    }

    /// By how much a level is too large: from 1 on it is merged.
    fn score(&self, level: usize) -> f64 {
        let free = self.tables[level].iter().filter(|table| !self.busy.contains(&table.number));
        let (count, bytes) = free.fold((0_u64, 0), |(count, bytes), table| (count + 1, bytes + table.bytes));
        let may = (1..level).fold(self.shape.base, |may, _| may.saturating_mul(10)) as f64;
        let of_bytes = bytes as f64 / may;
        if level == 0 { of_bytes.max(count as f64 / self.shape.trigger as f64) } else { of_bytes }
    }

    /// Takes the tables that are merged next, if a level is too large.
    pub(super) fn take(&mut self) -> Option<Merge> {
        let mut scores: Vec<(f64, usize)> = (0..LEVELS - 1)
            .map(|level| (self.score(level), level))
            .filter(|(score, _)| *score >= 1.0)
            .collect();
        scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let merge = scores.into_iter().find_map(|(_, level)| self.candidate(level))?;
        self.busy.extend(merge.inputs().map(|table| table.number));
        Some(merge)
    }

    fn candidate(&self, level: usize) -> Option<Merge> {
        if level == 0 {
            let upper = self.tables[0].clone();
            let lower = self.overlapping(1, range(upper.iter()));
            let is_free = self.is_free(&upper) && self.is_free(&lower);
            return is_free.then(|| self.merge(0, upper, lower));
        }
        let ratio = |table: &Arc<Table>| {
            let over = bytes(&self.overlapping(level + 1, (table.smallest(), table.largest())));
            over.saturating_mul(1024) / table.bytes.max(1)
        };
        let mut order: Vec<(u64, &Arc<Table>)> =
            self.tables[level].iter().map(|table| (ratio(table), table)).collect();
        order.sort_by_key(|(ratio, table)| (*ratio, table.number));
        order.into_iter().find_map(|(_, table)| {
            let upper = vec![Arc::clone(table)];
            let lower = self.overlapping(level + 1, range(upper.iter()));
            let is_free = self.is_free(&upper) && self.is_free(&lower);
            is_free.then(|| self.widened(level, upper, lower))
        })
    }

    /// With all tables of the level that the part of the next level covers, if that stays as it is.
    fn widened(&self, level: usize, upper: Vec<Arc<Table>>, lower: Vec<Arc<Table>>) -> Merge {
        if !lower.is_empty() {
            let wider = self.overlapping(level, range(upper.iter().chain(&lower)));
            let fits = bytes(&wider) + bytes(&lower) < WIDEST * self.shape.table;
            let same = self.overlapping(level + 1, range(wider.iter())).len() == lower.len();
            if wider.len() > upper.len() && fits && same && self.is_free(&wider) {
                return self.merge(level, wider, lower);
            }
        }
        self.merge(level, upper, lower)
    }

    fn merge(&self, from: usize, upper: Vec<Arc<Table>>, lower: Vec<Arc<Table>>) -> Merge {
        let below = self.overlapping(from + 2, range(upper.iter().chain(&lower)));
        let boundaries = below.iter().map(|table| table.largest()).collect();
        Merge { from, upper, lower, boundaries }
    }

    /// The tables of a merge give way to its results.
    pub(super) fn finish(&mut self, merge: &Merge, results: Vec<Arc<Table>>) {
        let gone: BTreeSet<u64> = merge.inputs().map(|table| table.number).collect();
        self.busy.retain(|number| !gone.contains(number));
        for level in [merge.from, merge.from + 1] {
            self.tables[level].retain(|table| !gone.contains(&table.number));
        }
        let into = &mut self.tables[merge.from + 1];
        into.extend(results);
        into.sort_by_key(|table| table.smallest());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(number: u64, bytes: u64, keys: &[u32]) -> Table {
        Table { number, fd: Fd(0), bytes, keys: keys.into(), blocks: Box::default() }
    }

    fn levels() -> Levels {
        Levels::new(Shape { trigger: 4, base: 100, table: 10 })
    }

    fn numbers(tables: &[Arc<Table>]) -> Vec<u64> {
        tables.iter().map(|table| table.number).collect()
    }

    #[test]
    fn level_0_is_merged_with_all_that_it_overlaps_and_only_once() {
        let mut levels = levels();
        (0..3).for_each(|number| levels.add(table(number, 10, &[number as u32, 50])));
        assert!(levels.take().is_none());
        levels.add(table(3, 10, &[7]));
        let merge = levels.take().unwrap();
        assert_eq!((merge.from, numbers(&merge.upper), merge.lower.len()), (0, vec![0, 1, 2, 3], 0));
        assert!(levels.take().is_none(), "its tables are busy");
        levels.finish(&merge, vec![Arc::new(table(8, 20, &[0, 7])), Arc::new(table(9, 20, &[8, 50]))]);
        assert_eq!((levels.unsorted(), levels.count()), (0, 2));
        (10..14).for_each(|number| levels.add(table(number, 10, &[9, 20])));
        assert_eq!(numbers(&levels.take().unwrap().lower), [9]);
    }

    #[test]
    fn a_level_that_is_too_large_gives_the_table_that_overlaps_least() {
        let mut levels = levels();
        levels.tables[1] = vec![Arc::new(table(1, 60, &[0, 10])), Arc::new(table(2, 60, &[11, 20]))];
        levels.tables[2] = vec![Arc::new(table(3, 50, &[0, 5])), Arc::new(table(4, 20, &[15, 16]))];
        levels.tables[3] = vec![Arc::new(table(5, 50, &[12])), Arc::new(table(6, 50, &[17]))];
        let merge = levels.take().unwrap();
        assert_eq!((merge.from, numbers(&merge.upper), numbers(&merge.lower)), (1, vec![2], vec![4]));
        assert_eq!(merge.boundaries, [12, 17]);
        assert!(!merge.is_move());
        levels.finish(&merge, Vec::new());
        levels.tables[1].push(Arc::new(table(7, 60, &[30, 40])));
        let merge = levels.take().unwrap();
        assert!(merge.is_move() && numbers(&merge.upper) == [7]);
    }
}
