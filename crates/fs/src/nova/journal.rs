//! The undo journals: one block for each shard, for changes of several words.
//!
//! A transaction writes the old values of all words that it will change into records of one line each, from the beginning of the
//! block, and holds the shard's lock until it has ended, so a journal holds at most one.
//!
//! ```text
//! record:   | number 4, index 1, count 1, words 1, zero 1 | address 8, old value 8 | … | … | checksum 8 |
//! ```
//!
//! 1. Everything that will be reachable, and the records, each record's first word last. *Fence*: undo is armed.
//! 2. The new words. *Fence*.
//! 3. The number into the shard's `committed` word. *Fence*: the change counts, and the records do not any more.
//!
//! A journal is armed when record 0 has a number beyond `committed` and all of its `count` records are there. The published code
//! has a head and a tail to store and so needs a fourth fence, or nine as it is written; here a record says for itself that it is
//! whole, because a line persists in the order of its stores.
//!
//! A crash in step 1 may leave any of the records. They stay, and the next transaction takes a number that none of them has: so a
//! later crash cannot arm some of its records with some of theirs. A record that it was about to replace then has the first word
//! of the old one, and is damaged only if all records of the old one are there.
//!
//! When the medium fails in step 2 or 3, the old words are stored again and the records are given up. If that fails as well,
//! nothing may be changed until the next mount, which undoes the transaction ([`Error::Failed`]).
//!
//! Lock order: `nova.journal` after inodes; a leaf but for the medium.

use std::sync::atomic::Ordering;

use media::event::Mark;
use media::nvmm::Region;
use sim::{ByteRun, LockClass, Mutex, Work, ran};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Volume;
use super::alloc::home;
use super::layout::{BLOCK, Geometry, checksum};
use super::mutant;
use super::parts;
use base::error::{Error, Result};
use design::Mutant;

pub(super) static JOURNAL: LockClass = LockClass::new("nova.journal").under(&[&super::inode::INODE]);

const RECORD: u64 = 64;
/// Words that a record takes.
const WORDS: usize = 3;
/// Words that a transaction can change.
const WORDS_MAX: usize = WORDS * (BLOCK / RECORD) as usize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Record {
    number: u32,
    index: u8,
    count: u8,
    used: u8,
    zero: u8,
    words: [[u64; 2]; WORDS],
    checksum: u64,
}

impl Record {
    fn compute_checksum(&self) -> u64 {
        let bytes = self.as_bytes();
        checksum(&[&bytes[..bytes.len() - 8]]).into()
    }

    fn first_word(&self) -> u64 {
        let first = self.as_bytes().first_chunk::<8>();
        u64::from_le_bytes(*first.expect("a record is longer than a word"))
    }
}

/// The journal of one shard: the number of its last transaction.
pub(crate) struct Journal(Mutex<u32>);

/// The words that a transaction is to change, with their new values.
#[derive(Default)]
pub(crate) struct Words(Vec<(u64, u64)>);

impl Words {
    pub(crate) fn add(&mut self, at: u64, new: u64) {
        ran::push(&mut self.0, (at, new));
    }

    pub(crate) fn extend(&mut self, words: impl Iterator<Item = (u64, u64)>) {
        ran::extend(&mut self.0, words);
    }

    /// The first word by itself ([`mutant::RENAME_IN_TWO_STEPS`]).
    pub(crate) fn split_first(&self) -> Self {
        Self(ran::collected(self.0[..1].iter().copied()))
    }
}

impl Journal {
    /// The journal of a shard that was recovered.
    pub(crate) fn load(region: &Region, geometry: &Geometry, shard: u64) -> Result<Self> {
        let committed = region.load_u64(Geometry::shard_at(shard))? as u32;
        // A transaction that never was armed may have left its number in any record. One that cannot be read arms nothing.
        let records = (0..BLOCK / RECORD).map(|index| geometry.journal_at(shard) + RECORD * index);
        let numbers = records.filter_map(|at| region.load_u64(at).ok()).map(|word| word as u32);
        let last = numbers.fold(committed, |last, number| if is_later(number, last) { number } else { last });
        Ok(Self(Mutex::new(&JOURNAL, last)))
    }
}

fn is_later(number: u32, than: u32) -> bool {
    number.wrapping_sub(than).cast_signed() > 0
}

/// The records of an armed journal; none when it is not. An error when they are damaged.
fn armed(region: &Region, geometry: &Geometry, shard: u64) -> Result<Vec<Record>> {
    let base = geometry.journal_at(shard);
    let committed = region.load_u64(Geometry::shard_at(shard))? as u32;
    // Only the first word of a record says whether the rest is there, and only all of them whether the transaction is.
    let first = load_head(region, base)?;
    if !is_later(first.number, committed) || first.count == 0 {
        return Ok(Vec::new());
    }
    let damaged =
        |index: usize| Error::Corrupt(format!("journal of shard {shard}: record {index} is damaged"));
    for index in 0..usize::from(first.count) {
        if index as u64 >= BLOCK / RECORD {
            return Err(damaged(0));
        }
        let head = load_head(region, base + RECORD * index as u64)?;
        let is_next =
            head.number == first.number && head.count == first.count && usize::from(head.index) == index;
        if !is_next {
            return Ok(Vec::new());
        }
    }
    let read = |index: usize| {
        let record: Record = region.read(base + RECORD * index as u64)?;
        let is_possible = (1..=WORDS).contains(&record.used.into());
        if is_possible && record.checksum == record.compute_checksum() {
            Ok(record)
        } else {
            Err(damaged(index))
        }
    };
    (0..usize::from(first.count)).map(read).collect()
}

/// The first word of a record, without the rest.
fn load_head(region: &Region, at: u64) -> Result<Record> {
    let mut head = Record::default();
    head.as_mut_bytes()[..8].copy_from_slice(&region.load_u64(at)?.to_le_bytes());
    Ok(head)
}

/// Words of an unfinished transaction in the journal of a shard.
pub(crate) fn unfinished(region: &Region, geometry: &Geometry, shard: u64) -> Result<Vec<(u64, u64)>> {
    let records = armed(region, geometry, shard)?;
    let words = records.iter().flat_map(|record| record.words[..record.used.into()].iter());
    Ok(words.map(|[at, old]| (*at, *old)).collect())
}

/// Undoes the unfinished transaction of a shard; answers how many words that took.
pub(crate) fn recover(
    region: &Region,
    geometry: &Geometry,
    shard: u64,
    mutant: Option<Mutant>,
) -> Result<usize> {
    let words = unfinished(region, geometry, shard)?;
    let Some(number) =
        (!words.is_empty()).then(|| region.load_u64(geometry.journal_at(shard))).transpose()?
    else {
        return Ok(0);
    };
    let skipped = usize::from(mutant == Some(mutant::UNDO_SKIPS_FIRST));
    // The oldest value of a word that is there twice comes last.
    for (at, old) in words.iter().skip(skipped).rev() {
        let possible = at.is_multiple_of(8) && *at < geometry.blocks * BLOCK;
        if !possible {
            return Err(Error::Corrupt(format!("journal of shard {shard}: a word at {at}")));
        }
        region.store_u64(*at, *old)?;
        region.flush(*at, 8);
    }
    region.fence();
    store_committed(region, shard, number as u32)?;
    Ok(words.len())
}

/// Gives up an unfinished transaction whose records are damaged: the words that it changed stay as they are.
pub(crate) fn give_up(region: &Region, geometry: &Geometry, shard: u64) -> Result<()> {
    let number = region.load_u64(geometry.journal_at(shard))?;
    store_committed(region, shard, number as u32)
}

fn store_committed(region: &Region, shard: u64, number: u32) -> Result<()> {
    let at = Geometry::shard_at(shard);
    region.mark(Mark::Commit { at, needs: &[] });
    region.store_u64(at, number.into())?;
    region.flush(at, 8);
    region.fence();
    Ok(())
}

impl Volume {
    /// Changes all words or, when it fails, none; durable on return. What they make reachable was written and flushed before,
    /// and is `needs`.
    pub(crate) fn transact(&self, words: &Words, needs: &[ByteRun]) -> Result<()> {
        let _part = sim::part(&parts::TRANSACTION);
        let words = &words.0;
        if words.len() > WORDS_MAX {
            return Err(Error::Invalid("a transaction of too many words"));
        }
        ran::handle(words.len() as u64);
        let shard = home(self.journals.len());
        let mut last = self.journals[shard].0.lock();
        let number = last.wrapping_add(1);
        *last = number;
        self.write_records(shard as u64, number, words)?;
        self.region.fence();
        let done =
            self.store_words(words, needs).and_then(|()| store_committed(&self.region, shard as u64, number));
        if self.has(mutant::ROLLBACK_LEFT_OUT) {
            return done;
        }
        done.or_else(|error| self.take_back(shard as u64, number, words).and(Err(error)))
    }

    fn write_records(&self, shard: u64, number: u32, words: &[(u64, u64)]) -> Result<()> {
        let base = self.geometry.journal_at(shard);
        let count = words.len().div_ceil(WORDS) as u8;
        ran::did(Work::HANDLE, words.len() as u64);
        ran::bytes(RECORD * u64::from(count));
        for (index, chunk) in words.chunks(WORDS).enumerate() {
            let mut record =
                Record { number, index: index as u8, count, used: chunk.len() as u8, ..Record::default() };
            for (place, (at, _)) in record.words.iter_mut().zip(chunk) {
                *place = [*at, self.region.load_u64(*at)?];
            }
            record.checksum = record.compute_checksum();
            let at = base + RECORD * index as u64;
            self.region.store(at + 8, &record.as_bytes()[8..])?;
            self.region.mark(Mark::Commit { at, needs: &[ByteRun::new(at + 8, RECORD - 8)] });
            self.region.store_u64(at, record.first_word())?;
            self.region.flush(at, RECORD);
        }
        Ok(())
    }

    fn store_words(&self, words: &[(u64, u64)], needs: &[ByteRun]) -> Result<()> {
        for (at, new) in words {
            self.region.mark(Mark::Commit { at: *at, needs });
            self.region.store_u64(*at, *new)?;
        }
        for (at, _) in words {
            self.region.flush(*at, 8);
        }
        self.region.fence();
        Ok(())
    }

    /// Puts the old words back after a failure. The next mount does, if this fails.
    #[cold]
    fn take_back(&self, shard: u64, number: u32, words: &[(u64, u64)]) -> Result<()> {
        let undo = || {
            let base = self.geometry.journal_at(shard);
            for index in (0..words.len()).rev() {
                let record: Record = self.region.read(base + RECORD * (index / WORDS) as u64)?;
                let [at, old] = record.words[index % WORDS];
                self.region.store_u64(at, old)?;
                self.region.flush(at, 8);
            }
            self.region.fence();
            store_committed(&self.region, shard, number)
        };
        undo().map_err(|_| {
            self.failed.store(true, Ordering::Relaxed);
            Error::Failed
        })
    }
}
