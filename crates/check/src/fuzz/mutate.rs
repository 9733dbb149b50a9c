//! Mutants: an image of the corpus with a few bytes changed.
//!
//! | mutation | of |
//! |---|---|
//! | a bit flipped, a byte or word set to an edge value, a word moved by a little | lines that fsck or a mount has read |
//! | a word replaced by another of the image, or by a block's offset inside or outside of it | the same |
//! | a line or block zeroed, copied over another, two exchanged, one taken from another image | the same |
//! | the region cut short | the image |
//!
//! Half of the mutants then get the checksums that their bytes should have, where the format can tell (`Format::certify`):
//! otherwise a format that guards each record by a seal would refuse nearly all of them before it has read what the record says.
//!
//! Taps report which lines a mount reads, so mutations hit structures without knowledge of the format.

use std::fmt;
use std::str::FromStr;

use design::Format;
use rand::RngExt;
use sim::{LINE_BYTES, PAGE_BYTES, Rng};

/// Bytes of a word, as formats have them.
const WORD: usize = 8;
/// Mutations on top of each other, at most.
const MUTATIONS_MAX: u32 = 6;
/// A mutant with more edits than these is not mutated further.
pub(super) const EDITS_MAX: usize = 40;

/// Bytes put into an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Where.
    pub offset: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// An image of the corpus with edits. In text: the number of the image, `len` if it is cut, and offset and hexadecimal bytes of
/// each edit, as in `3 len=65536 4096:00ff`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Number of the image.
    pub base: usize,
    /// Length of the region, if it is cut short.
    pub len: Option<u64>,
    /// What is changed, in this order.
    pub edits: Vec<Edit>,
}

impl Mutant {
    /// An image as it is.
    pub(super) fn of(base: usize) -> Self {
        Self { base, len: None, edits: Vec::new() }
    }

    /// The same mutant of `image`, with an edit for each aligned word of 8 bytes that differs.
    pub(super) fn by_words(&self, image: &[u8]) -> Self {
        let uncut = Self { len: None, ..self.clone() }.apply(image);
        let words = uncut.chunks(WORD).zip(image.chunks(WORD)).zip((0..).step_by(WORD));
        let edits = words.filter(|((new, old), _)| new != old);
        let edits = edits.map(|((new, _), offset)| Edit { offset, bytes: new.to_vec() });
        Self { edits: edits.collect(), ..self.clone() }
    }

    /// Adds edits that make the checksums of what is edited right.
    pub(super) fn certify(&mut self, image: &[u8], format: &dyn Format) {
        let edited = Self { len: None, ..self.clone() }.apply(image);
        let mut certified = edited.clone();
        format.certify(image, &mut certified);
        let words = certified.chunks(WORD).zip(edited.chunks(WORD)).zip((0..).step_by(WORD));
        let edits = words.filter(|((new, old), _)| new != old);
        self.edits.extend(edits.map(|((new, _), offset)| Edit { offset, bytes: new.to_vec() }));
    }

    /// The bytes that this makes of its image.
    pub(super) fn apply(&self, image: &[u8]) -> Vec<u8> {
        let mut bytes = image.to_vec();
        for edit in &self.edits {
            let from = (edit.offset as usize).min(bytes.len());
            let len = edit.bytes.len().min(bytes.len() - from);
            bytes[from..from + len].copy_from_slice(&edit.bytes[..len]);
        }
        let len = self.len.map_or(bytes.len(), |len| (len as usize).clamp(1, bytes.len()));
        bytes.truncate(len);
        bytes
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.base)?;
        self.len.map_or(Ok(()), |len| write!(f, " len={len}"))?;
        for edit in &self.edits {
            write!(f, " {}:", edit.offset)?;
            edit.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        Ok(())
    }
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |word: &str| format!("\"{word}\": a mutant is like \"3 len=65536 4096:00ff\"");
        let mut words = text.split_whitespace();
        let base = words.next().and_then(|word| word.parse().ok()).ok_or_else(|| wrong(text))?;
        let mut mutant = Self::of(base);
        for word in words {
            if let Some(len) = word.strip_prefix("len=") {
                mutant.len = Some(len.parse().map_err(|_| wrong(word))?);
                continue;
            }
            let (offset, digits) = word.split_once(':').ok_or_else(|| wrong(word))?;
            let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
            let bytes = pairs.map(|pair| pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()));
            let bytes = bytes.collect::<Option<Vec<_>>>().ok_or_else(|| wrong(word))?;
            mutant.edits.push(Edit { offset: offset.parse().map_err(|_| wrong(word))?, bytes });
        }
        Ok(mutant)
    }
}

/// What mutations are made from.
pub(super) struct Mutator<'a> {
    pub(super) rng: &'a mut Rng,
    /// The image with the edits so far.
    pub(super) bytes: Vec<u8>,
    /// Another image of the same size.
    pub(super) other: &'a [u8],
    /// Lines that fsck, a mount or a read of the files has read.
    pub(super) lines: &'a [usize],
}

impl Mutator<'_> {
    /// Adds one to a few mutations to `mutant`.
    pub(super) fn mutate(&mut self, mutant: &mut Mutant) {
        let mut count = 1;
        while count < MUTATIONS_MAX && self.rng.random_range(0..2) == 0 {
            count += 1;
        }
        for _ in 0..count {
            if self.rng.random_range(0..200) == 0 {
                mutant.len = Some(self.rng.random_range(1..=self.bytes.len() as u64));
                continue;
            }
            for edit in self.edits() {
                let at = edit.offset as usize;
                self.bytes[at..at + edit.bytes.len()].copy_from_slice(&edit.bytes);
                mutant.edits.push(edit);
            }
        }
    }

    fn edits(&mut self) -> Vec<Edit> {
        match self.rng.random_range(0..20) {
            0..3 => {
                let (at, bit) = (self.place(1), self.rng.random_range(0..8));
                vec![self.edit(at, &[self.bytes[at] ^ 1 << bit])]
            }
            3..5 => {
                let (at, byte) = (self.place(1), [0, 1, 0x7F, 0x80, 0xFF][self.rng.random_range(0..5)]);
                vec![self.edit(at, &[byte])]
            }
            5..14 => vec![self.word()],
            14..16 => self.piece(PAGE_BYTES),
            _ => self.piece(LINE_BYTES),
        }
    }

    /// A multiple of `unit`, mostly in a line that was read.
    fn place(&mut self, unit: usize) -> usize {
        let at = match self.lines.len() {
            1.. if self.rng.random_range(0..10) > 0 => {
                let line = self.lines[self.rng.random_range(0..self.lines.len())];
                line * LINE_BYTES + self.rng.random_range(0..LINE_BYTES)
            }
            _ => self.rng.random_range(0..self.bytes.len()),
        };
        at.min(self.bytes.len() - 1) / unit * unit
    }

    fn edit(&self, at: usize, bytes: &[u8]) -> Edit {
        let len = bytes.len().min(self.bytes.len() - at);
        Edit { offset: at as u64, bytes: bytes[..len].to_vec() }
    }

    /// A word of 2, 4 or 8 bytes with another value.
    fn word(&mut self) -> Edit {
        let len = [2, 4, 8, 8][self.rng.random_range(0..4)];
        let at = self.place(len);
        let mut word = [0; 8];
        let known = len.min(self.bytes.len() - at);
        word[..known].copy_from_slice(&self.bytes[at..at + known]);
        let (old, size) = (u64::from_le_bytes(word), self.bytes.len() as u64);
        let page = PAGE_BYTES as u64;
        let value = match self.rng.random_range(0..6) {
            0 => {
                let edges = [0, 1, 2, 8, 64, page, size, size - 1, size - 8, u64::MAX, u64::MAX / 2, 1 << 63];
                edges[self.rng.random_range(0..edges.len())]
            }
            1 => {
                let step = [1, 2, 8, 64, 128, page][self.rng.random_range(0..6)];
                if self.rng.random_range(0..2) == 0 { old.wrapping_add(step) } else { old.wrapping_sub(step) }
            }
            2 => self.rng.random_range(0..size / page) * page,
            3 => size.wrapping_add(self.rng.random_range(0..1 << 20) * page),
            4 => u64::MAX - self.rng.random_range(0..16) * 512,
            _ => {
                let from = self.place(8);
                let mut other = [0; 8];
                let known = 8.min(self.bytes.len() - from);
                other[..known].copy_from_slice(&self.bytes[from..from + known]);
                u64::from_le_bytes(other)
            }
        };
        self.edit(at, &value.to_le_bytes()[..len])
    }

    /// A line or block with other content.
    fn piece(&mut self, unit: usize) -> Vec<Edit> {
        let (at, from) = (self.place(unit), self.place(unit));
        let of = |bytes: &[u8], at: usize| bytes[at..bytes.len().min(at + unit)].to_vec();
        match self.rng.random_range(0..4) {
            0 => vec![self.edit(at, &vec![0; unit])],
            1 => vec![self.edit(at, &of(&self.bytes, from))],
            2 => {
                let (one, other) = (of(&self.bytes, at), of(&self.bytes, from));
                vec![self.edit(at, &other), self.edit(from, &one)]
            }
            _ => vec![self.edit(at, &of(self.other, at))],
        }
    }
}

#[cfg(test)]
mod tests {
    use sim::Seed;

    use super::*;

    #[test]
    fn a_mutant_is_told_and_read_again() {
        for text in ["0", "3 len=65536 4096:00ff", "12 8:0102030405060708 0:ff"] {
            assert_eq!(text.parse::<Mutant>().expect("a mutant").to_string(), text);
        }
        for text in ["", "x", "1 5", "1 5:0", "1 len=x", "1 5:zz", "1 5:é"] {
            assert!(text.parse::<Mutant>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_edits_are_what_makes_a_mutant_differ() {
        let image: Vec<u8> = (0..20_000).map(|at| (at / 7) as u8).collect();
        let other = vec![9; image.len()];
        for seed in 0..2_000 {
            let mut rng = Seed(seed).rng();
            let lines = [1, 5, 310];
            let mut mutator = Mutator { rng: &mut rng, bytes: image.clone(), other: &other, lines: &lines };
            let mut mutant = Mutant::of(0);
            mutator.mutate(&mut mutant);
            let uncut = Mutant { len: None, ..mutant.clone() };
            assert_eq!(uncut.apply(&image), mutator.bytes, "seed {seed}");
            assert!(mutant.len.is_some() || !mutant.edits.is_empty(), "seed {seed}");
        }
    }
}
