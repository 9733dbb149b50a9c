//! Which block of the device holds which block of a file.

use std::ops::Range;

use sim::map::TreeMap;

/// Blocks that follow one another in the file and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First block on the device.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// The number of the DATA that maps them.
    pub from: u64,
}

/// The pieces of a file, by their first blocks. Blocks that are missing are holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    pieces: TreeMap<u64, Piece>,
    blocks: u64,
}

impl Map {
    /// Blocks that it maps.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// All pieces, in the order of the file.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, Piece)> + '_ {
        self.pieces.iter().map(|(first, piece)| (*first, *piece))
    }

    /// The part of a piece that begins at a block of the file; none: it is in a hole.
    pub fn find(&self, at: u64) -> Option<Piece> {
        let (first, piece) = self.pieces.range(..=at).next_back()?;
        let skipped = at - first;
        (skipped < piece.blocks).then(|| part(piece, skipped, piece.blocks))
    }

    /// The first mapped block at or after one.
    pub fn next_from(&self, at: u64) -> Option<u64> {
        match self.find(at) {
            Some(_) => Some(at),
            None => self.pieces.range(at..).next().map(|(first, _)| *first),
        }
    }

    /// Takes a range out; returns the pieces that lay there.
    pub fn take(&mut self, range: Range<u64>) -> Vec<Piece> {
        let mut taken = Vec::new();
        if range.is_empty() {
            return taken;
        }
        let before = self.pieces.range(..range.start).next_back().map(|(first, _)| *first);
        let within = self.pieces.range(range.clone()).map(|(first, _)| *first);
        let touched = sim::ran::collected(before.into_iter().chain(within));
        for first in touched {
            let Some(piece) = self.pieces.get(&first).copied() else { continue };
            let (from, to) = (range.start.max(first) - first, range.end.min(first + piece.blocks));
            let to = to.saturating_sub(first);
            if from >= to {
                continue;
            }
            self.pieces.remove(&first);
            for (start, end) in [(0, from), (to, piece.blocks)] {
                if start < end {
                    self.pieces.insert(first + start, part(&piece, start, end));
                }
            }
            self.blocks -= to - from;
            sim::ran::push(&mut taken, part(&piece, from, to));
        }
        taken
    }

    /// Maps blocks from `first` on; returns what they replace.
    pub fn put(&mut self, first: u64, piece: Piece) -> Vec<Piece> {
        let taken = self.take(first..first + piece.blocks);
        if piece.blocks == 0 {
            return taken;
        }
        self.blocks += piece.blocks;
        let before = self.pieces.range(..first).next_back().map(|(at, before)| (*at, *before));
        match before {
            Some((at, before)) if follows((at, &before), (first, &piece)) => {
                self.pieces.insert(at, Piece { blocks: before.blocks + piece.blocks, ..before });
            }
            _ => drop(self.pieces.insert(first, piece)),
        }
        taken
    }
}

/// Whether a piece goes on where one before it ends, by the same DATA.
fn follows((at, before): (u64, &Piece), (first, piece): (u64, &Piece)) -> bool {
    let is_next = at + before.blocks == first && before.block + before.blocks == piece.block;
    is_next && before.from == piece.from
}

fn part(piece: &Piece, from: u64, to: u64) -> Piece {
    Piece { block: piece.block + from, blocks: to - from, from: piece.from }
}
