//! Inodes that are in a saved index until a call uses them.

use std::sync::Arc;

use parking_lot::Mutex;
use sim::ran;
use zerocopy::FromBytes;

use super::inode::Inode;
use super::saved_inode::Entry;
use super::sharing::Sharing;
use crate::format::layout::ROOT_INO;
use crate::format::saved::{HEADER, Head, Piece};

/// Bytes of an inode in the index.
pub(crate) const INDEXED: u64 = 16;

/// The bytes of a saved index.
pub(crate) struct Pieces {
    /// Bytes of each piece but the last.
    each: u64,
    zones: Vec<Box<[u8]>>,
    len: u64,
}

impl Pieces {
    /// Copies bytes of the stream; none if it has none there.
    pub(crate) fn copy(&self, mut at: u64, mut out: &mut [u8]) -> Option<()> {
        while !out.is_empty() {
            let piece = self.zones.get((at / self.each) as usize)?.get(HEADER..)?;
            let rest = piece.get((at % self.each) as usize..).filter(|rest| !rest.is_empty())?;
            let (now, later) = out.split_at_mut(rest.len().min(out.len()));
            now.copy_from_slice(&rest[..now.len()]);
            at += now.len() as u64;
            out = later;
        }
        Some(())
    }

    pub(crate) fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.copy(at, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// The entry at a place of the stream.
    fn entry(&self, at: u64) -> Option<Entry> {
        let mut len = [0; 4];
        self.copy(at, &mut len)?;
        let len = u64::from(u32::from_le_bytes(len));
        let mut bytes = vec![0; len.min(self.len) as usize];
        self.copy(at + 4, &mut bytes)?;
        Entry::decode(&bytes)
    }

    /// Pieces in their order, if they are all of a saved index.
    pub(crate) fn of(mut read: Vec<(Piece, Box<[u8]>)>, each: u64) -> Option<Self> {
        read.sort_unstable_by_key(|(piece, _)| piece.index);
        let end = read.last()?.0.index;
        let fits = |(place, (piece, _)): (u32, &(Piece, Box<[u8]>))| {
            let is_end = place == end;
            piece.index == place && (piece.last != 0) == is_end && (is_end || piece.len == each)
        };
        let whole = (0..).zip(&read).all(fits);
        let len = read.iter().map(|(piece, _)| piece.len).sum();
        whole.then(|| Self { each, len, zones: read.into_iter().map(|(_, bytes)| bytes).collect() })
    }

    pub(crate) fn head(&self) -> Option<Head> {
        let mut bytes = [0; size_of::<Head>()];
        self.copy(self.len.checked_sub(bytes.len() as u64)?, &mut bytes)?;
        Head::read_from_bytes(&bytes).ok()
    }
}

struct Taken {
    words: Vec<u64>,
    left: u64,
}

/// Inodes that are in a saved index until a call uses them.
pub(crate) struct Cold {
    pieces: Pieces,
    index: u64,
    inodes: u64,
    sharing: Sharing,
    /// Those that were taken out.
    taken: Mutex<Taken>,
}

impl Cold {
    /// All inodes of a saved index. `index`: where its index begins, and how many it has.
    pub(crate) fn new(pieces: Pieces, (index, inodes): (u64, u64), sharing: Sharing) -> Self {
        let taken = Taken { words: vec![0; inodes.div_ceil(64) as usize], left: inodes };
        Self { pieces, index, inodes, sharing, taken: Mutex::new(taken) }
    }

    fn ino(&self, place: u64) -> Option<u64> {
        self.pieces.word(self.index + INDEXED * place)
    }

    /// The place of an inode in the index.
    fn place(&self, ino: u64) -> Option<u64> {
        let (mut low, mut high) = (0, self.inodes);
        while low < high {
            let middle = low.midpoint(high);
            match self.ino(middle)?.cmp(&ino) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn is_taken(&self, place: u64) -> bool {
        self.taken.lock().words[(place / 64) as usize] >> (place % 64) & 1 == 1
    }

    /// What is kept of an inode, unless it was taken out.
    pub(crate) fn entry(&self, ino: u64) -> Option<Entry> {
        self.find(ino).map(|(_, entry)| entry)
    }

    fn find(&self, ino: u64) -> Option<(u64, Entry)> {
        let place = self.place(ino).filter(|place| !self.is_taken(*place))?;
        Some((place, self.pieces.entry(self.pieces.word(self.index + INDEXED * place + 8)?)?))
    }

    /// An inode as it becomes one in DRAM, and its place for [`Cold::take`]; none if it was taken out.
    pub(crate) fn inode(&self, ino: u64) -> Option<(u64, Arc<Inode>)> {
        let _own = ran::aside();
        let (place, entry) = self.find(ino)?;
        let parent = if entry.parent == 0 { ROOT_INO } else { entry.parent };
        Some((place, Arc::new(Inode::new(entry.state(), parent, self.sharing))))
    }

    /// Takes an inode out; false: that was done before.
    pub(crate) fn take(&self, place: u64) -> bool {
        let mut taken = self.taken.lock();
        let word = &mut taken.words[(place / 64) as usize];
        let is_first = *word >> (place % 64) & 1 == 0;
        *word |= 1 << (place % 64);
        taken.left -= u64::from(is_first);
        is_first
    }

    /// How many there are still.
    pub(crate) fn len(&self) -> u64 {
        self.taken.lock().left
    }

    /// Whether all were taken out.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of those that are there still, in order.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        (0..self.inodes).filter(|place| !self.is_taken(*place)).filter_map(|place| self.ino(place)).collect()
    }
}
