//! Replay after a crash: three passes over the log, as in jbd2.
//!
//! | pass | does |
//! |---|---|
//! | scan | follows descriptors and commit blocks from the start until one is missing or wrong: the end |
//! | revoke | notes for each revoked block the last transaction that revoked it |
//! | verify | reads each block that is to be written home, and checks it |
//! | replay | writes each block home unless a transaction at or after its own revoked it |
//!
//! A log is never longer than its blocks, so each pass ends. A transaction whose commit block is missing did not happen.
//!
//! # A log that is damaged
//!
//! | what has a wrong checksum | replay of a mount | of a repair ([`Care::Salvage`]) |
//! |---|---|---|
//! | a descriptor, a revoke block, or a commit block | is refused, and nothing is written | ends before that transaction |
//! | (nothing, but the log begins at a block outside of it) | is refused, and nothing is written | ends before it begins |
//! | a logged block | is refused, and nothing is written | leaves this block out |
//! | what committed earlier than the transaction before it | ends there: these are blocks of an older log | the same |
//!
//! With `async_commit` a commit block may be on the device before its transaction: a wrong checksum there is the end of the log
//! unless another commit follows. The kernel refuses the same logs but has written by then what it could. e2fsck drops all
//! transactions if a descriptor is wrong.
//!
//! # A torn superblock
//!
//! On memory a power loss may leave words of a block old ([`mend_torn`]). Two words of the journal's superblock change while it is
//! in use: one holds the sequence number and the start of the log, the other the checksum. With either value of the first the
//! image is right: a log that was just emptied is at home already and may be replayed again, and one that was just begun has no
//! transaction yet.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use media::block::{Hint, Piece, Queue};

use super::fast::FastCommits;
use super::format::{
    CHECKSUM_1, COMMIT, COMPAT_AT, COMPAT_CHECKSUM, CRC32C, DESCRIPTOR, Format, HEADER_BYTES, INCOMPAT_AT,
    MAGIC, REVOKE, REVOKE_HEADER_BYTES, SUPERBLOCK_BYTES, TAG_ESCAPED, TAG_LAST, TAG_SAME_UUID, Tag, be32,
    commit_time, put_be32, superblock_checksum,
};
use super::{JournalMap, format};
use crate::mutant;
use base::error::{Error, Result};
use design::Mutant;

/// What a recovery did.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) transactions: u32,
    pub(crate) blocks: u32,
    pub(crate) revoked: u32,
    /// The number of the first transaction that did not happen, where the log was not empty.
    pub(crate) end: Option<u32>,
    /// That transaction had begun.
    pub(crate) unfinished: bool,
    /// The fast commits after them, which are to be replayed.
    pub(crate) fast: FastCommits,
    /// What was not replayed because it is damaged, in words.
    pub(crate) given_up: Vec<String>,
}

impl Replayed {
    /// What it did, in words; none if there was nothing to do.
    pub(crate) fn note(&self) -> Option<String> {
        let mut note = String::new();
        if self.transactions > 0 {
            let (transactions, blocks) = (self.transactions, self.blocks);
            let _ =
                write!(note, "journal: {transactions} transactions were replayed, {blocks} blocks written");
        }
        let start = |note: &str| if note.is_empty() { "journal: " } else { "; " };
        if self.fast.commits > 0 {
            let _ = write!(note, "{}{} fast commits were replayed", start(&note), self.fast.commits);
        }
        if let Some(end) = self.end.filter(|_| self.unfinished) {
            let _ = write!(note, "{}transaction {end} had not committed", start(&note));
        }
        Some(note).filter(|note| !note.is_empty())
    }
}

/// What a replay does where the log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// It fails before it writes anything.
    Refuse,
    /// It replays what is sound.
    Salvage,
}

/// The log of a journal.
pub(crate) struct Log<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) home: &'a Queue,
    pub(crate) map: &'a JournalMap,
    pub(crate) format: Format,
    /// Blocks of the file system.
    pub(crate) blocks: u64,
    /// Whether the log lies in memory, where a crash tears blocks that a device writes whole.
    pub(crate) tears: bool,
    /// A seeded bug.
    pub(crate) mutant: Option<Mutant>,
}

/// A transaction that the scan found whole.
struct Found {
    sequence: u32,
    /// Where each logged block lies in the log, and its tag.
    tags: Vec<(u32, Tag)>,
    revoked: Vec<u64>,
}

/// What a scan found at a place of the log.
enum Step {
    /// A transaction, and when it committed.
    Whole(Found, u64),
    /// No transaction, or one that has begun and not committed.
    End { begun: bool },
    /// A transaction that had committed and is damaged.
    Damaged(String),
}

/// What a log has.
struct Scan {
    found: Vec<Found>,
    /// The number of the transaction after them.
    end: u32,
    unfinished: bool,
    damaged: Option<String>,
}

/// What a log has that is to be written home.
struct Contents {
    scan: Scan,
    /// Number of the transaction, place in the log, and tag.
    wanted: Vec<(u32, u32, Tag)>,
    fast: FastCommits,
    /// What is damaged.
    faults: Vec<String>,
}

/// Where a scan is.
struct Cursor {
    at: u32,
    /// Blocks of the log that may still be read.
    budget: u32,
    /// When the last transaction committed.
    time: u64,
}

impl Log<'_> {
    pub(crate) fn read(&self, block: u32) -> Result<Vec<u8>> {
        let missing = || Error::Corrupt(format!("the journal has no block {block}"));
        let at = self.map.0.get(block as usize).copied().ok_or_else(missing)?;
        let mut bytes = vec![0; self.format.block_bytes as usize];
        let off = at * u64::from(self.format.block_bytes);
        self.queue.read(&mut [(off, &mut bytes)])?;
        Ok(bytes)
    }

    /// Where the next block is; none if all have been read.
    fn next(&self, cursor: &mut Cursor) -> Option<u32> {
        cursor.budget = cursor.budget.checked_sub(1)?;
        let at = cursor.at;
        cursor.at = self.format.after(at);
        Some(at)
    }

    /// The next block if it is one of the journal's own, of this transaction.
    fn next_own(&self, sequence: u32, cursor: &mut Cursor) -> Result<Option<Vec<u8>>> {
        let Some(at) = self.next(cursor) else { return Ok(None) };
        let block = self.read(at)?;
        Ok(Some(block).filter(|block| be32(block, 0) == MAGIC && be32(block, 8) == sequence))
    }

    /// Reads one transaction.
    fn transaction(&self, sequence: u32, cursor: &mut Cursor) -> Result<Step> {
        let mut found = Found { sequence, tags: Vec::new(), revoked: Vec::new() };
        let format = &self.format;
        let (mut begun, mut fault) = (false, None);
        let mut logged = CHECKSUM_1.digest();
        loop {
            let here = cursor.at;
            let Some(block) = self.next_own(sequence, cursor)? else {
                let taken = self.mutant == Some(mutant::REPLAY_WITHOUT_COMMIT) && !found.tags.is_empty();
                return Ok(if taken { Step::Whole(found, cursor.time) } else { Step::End { begun } });
            };
            let kind = be32(&block, 4);
            if matches!(kind, DESCRIPTOR | REVOKE) && format.has_checksums() && !format.tail_is_right(&block)
            {
                let what = if kind == DESCRIPTOR { "descriptor" } else { "revoke block" };
                fault.get_or_insert_with(|| {
                    format!("its {what} at block {here} of the log has a wrong checksum")
                });
            }
            match kind {
                DESCRIPTOR => {
                    begun = true;
                    if format.csum_v1 {
                        logged.update(&block);
                    }
                    for tag in tags(format, &block) {
                        let Some(at) = self.next(cursor) else { return Ok(Step::End { begun }) };
                        if format.csum_v1 {
                            logged.update(&self.read(at)?);
                        }
                        found.tags.push((at, tag));
                    }
                }
                REVOKE => {
                    begun = true;
                    found.revoked.extend(revokes(format, &block));
                }
                COMMIT => return self.commit(found, (&block, logged.finalize()), fault, cursor),
                _ => return Ok(Step::End { begun }),
            }
        }
    }

    /// Judges a transaction by its commit block. `logged`: the checksum of version 1 of what it has logged.
    fn commit(
        &self,
        found: Found,
        (block, logged): (&[u8], u32),
        fault: Option<String>,
        cursor: &mut Cursor,
    ) -> Result<Step> {
        let format = &self.format;
        let right = match () {
            () if format.csum_v1 => Format::commit_has(block, logged),
            () => !format.has_checksums() || format.commit_is_right(block),
        };
        let time = commit_time(block);
        if right && fault.is_none() {
            return Ok(Step::Whole(found, time));
        }
        let (is_older, at_commit) = (time < cursor.time, fault.is_none());
        let sequence = found.sequence;
        if is_older
            || at_commit
                && (format.async_commit || self.tears)
                && !self.is_committed(sequence.wrapping_add(1), cursor)?
        {
            return Ok(Step::End { begun: !is_older });
        }
        let what = if format.csum_v1 { "what it has logged" } else { "its commit block" };
        let fault = fault.unwrap_or_else(|| format!("the checksum of {what} is wrong"));
        Ok(Step::Damaged(format!("transaction {sequence}: {fault}")))
    }

    /// Whether there is a commit block of a transaction, right or wrong.
    fn is_committed(&self, sequence: u32, cursor: &mut Cursor) -> Result<bool> {
        while let Some(block) = self.next_own(sequence, cursor)? {
            match be32(&block, 4) {
                COMMIT => return Ok(true),
                DESCRIPTOR => {
                    for _ in tags(&self.format, &block) {
                        self.next(cursor);
                    }
                }
                REVOKE => {}
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    /// The transactions of the log, from `start` on.
    fn scan(&self, start: u32, sequence: u32) -> Result<Scan> {
        let mut cursor = Cursor { at: start, budget: self.format.len(), time: 0 };
        let mut scan = Scan { found: Vec::new(), end: sequence, unfinished: false, damaged: None };
        if start < self.format.first || start >= self.format.end {
            scan.damaged = Some(format!("all of it: it starts at its block {start}, outside of the log"));
            return Ok(scan);
        }
        loop {
            match self.transaction(scan.end, &mut cursor)? {
                Step::Whole(found, time) => {
                    scan.found.push(found);
                    scan.end = scan.end.wrapping_add(1);
                    cursor.time = time;
                }
                Step::End { begun } => return Ok(Scan { unfinished: begun, ..scan }),
                Step::Damaged(what) => return Ok(Scan { damaged: Some(what), ..scan }),
            }
        }
    }

    /// For each revoked block the last transaction that revoked it.
    fn revoked(&self, found: &[Found]) -> BTreeMap<u64, u32> {
        let found = found.iter().filter(|_| self.mutant != Some(mutant::REPLAY_IGNORES_REVOKES));
        found.flat_map(|one| one.revoked.iter().map(|block| (*block, one.sequence))).collect()
    }

    /// Reads a logged block, and says what is wrong with it.
    fn logged(&self, sequence: u32, at: u32, tag: Tag) -> std::result::Result<Vec<u8>, String> {
        let place = format!("transaction {sequence}: logged block {}", tag.block);
        if tag.block >= self.blocks {
            return Err(format!("{place} is beyond the end of the file system"));
        }
        let data = self.read(at).map_err(|error| format!("{place}: {error}"))?;
        if self.format.has_checksums() && self.format.data_checksum(sequence, &data) != tag.checksum {
            return Err(format!("{place} has a wrong checksum"));
        }
        Ok(data)
    }

    /// Reads what the log has; none if it is empty. `superblock`: that of the journal.
    fn contents(&self, superblock: &[u8]) -> Result<Option<Contents>> {
        let (sequence, start) = (be32(superblock, 0x18), be32(superblock, 0x1c));
        if start == 0 {
            return Ok(None);
        }
        let scan = self.scan(start, sequence)?;
        let revoked = self.revoked(&scan.found);
        let is_revoked = |sequence: u32, block: u64| {
            revoked.get(&block).is_some_and(|by| by.wrapping_sub(sequence).cast_signed() >= 0)
        };
        // They belong to the transaction after the last one.
        let fast = if scan.damaged.is_none() { self.fast_commits(scan.end)? } else { FastCommits::default() };
        let mut contents = Contents { wanted: Vec::new(), faults: Vec::new(), fast, scan };
        for found in &contents.scan.found {
            for (at, tag) in found.tags.iter().filter(|(_, tag)| !is_revoked(found.sequence, tag.block)) {
                match self.logged(found.sequence, *at, *tag) {
                    Ok(_) => contents.wanted.push((found.sequence, *at, *tag)),
                    Err(fault) => contents.faults.push(fault),
                }
            }
        }
        let fast = &mut contents.fast;
        if !contents.faults.is_empty() && fast.commits > 0 {
            contents.faults.push(format!("{} fast commits, which change what was logged", fast.commits));
            *fast = FastCommits::default();
        }
        contents.faults.extend(contents.scan.damaged.take().into_iter().chain(fast.damaged.take()));
        Ok(Some(contents))
    }

    /// What a mount would hold against the log; the superblock is sound.
    pub(crate) fn check(&self, superblock: &[u8]) -> Result<()> {
        match self.contents(superblock)? {
            Some(contents) if !contents.faults.is_empty() => Err(Error::Corrupt(refusal(&contents.faults))),
            _ => Ok(()),
        }
    }

    /// Replays what the log has; it is not emptied.
    pub(crate) fn replay(&self, superblock: &[u8], care: Care) -> Result<Replayed> {
        let mut done = Replayed::default();
        let Some(Contents { scan, wanted, fast, faults }) = self.contents(superblock)? else {
            return Ok(done);
        };
        if care == Care::Refuse && !faults.is_empty() {
            return Err(Error::Corrupt(refusal(&faults)));
        }
        for (sequence, at, tag) in wanted {
            let mut data = self.logged(sequence, at, tag).map_err(Error::Corrupt)?;
            if tag.flags & TAG_ESCAPED != 0 {
                put_be32(&mut data, 0, MAGIC);
            }
            let off = tag.block * u64::from(self.format.block_bytes);
            self.home.write(&[Piece { off, data: &data, hint: Hint::None }], false)?;
            done.blocks += 1;
        }
        self.home.device().flush()?;
        done.transactions = scan.found.len() as u32;
        done.revoked = scan.found.iter().map(|one| one.revoked.len() as u32).sum();
        (done.end, done.unfinished) = (Some(scan.end), scan.unfinished);
        (done.fast, done.given_up) = (fast, faults);
        Ok(done)
    }

    /// Empties a log that has been replayed. The number of the next transaction is none that the log has seen (Linux:
    /// `jbd2_journal_recover`).
    pub(crate) fn empty(&self, superblock: &mut [u8], replayed: &Replayed) -> Result<()> {
        let next = replayed.end.map_or(be32(superblock, 0x18), |end| end.wrapping_add(1).max(1));
        put_be32(superblock, 0x18, next);
        put_be32(superblock, 0x1c, 0);
        self.write_superblock(superblock)
    }

    /// Writes the journal's superblock, sealed.
    pub(crate) fn write_superblock(&self, superblock: &mut [u8]) -> Result<()> {
        if self.format.has_checksums() {
            let checksum = superblock_checksum(superblock);
            put_be32(superblock, 0xfc, checksum);
        }
        self.write_bytes(superblock)
    }

    /// Writes the journal's superblock as it is.
    pub(crate) fn write_bytes(&self, superblock: &[u8]) -> Result<()> {
        let mut data = superblock[..SUPERBLOCK_BYTES].to_vec();
        data.resize(self.format.block_bytes as usize, 0);
        let at = self.map.0.first().copied().unwrap_or_default();
        let off = at * u64::from(self.format.block_bytes);
        Ok(self.queue.write(&[Piece { off, data: &data, hint: Hint::None }], true)?)
    }
}

/// Makes the checksum of a journal's superblock right if it is that of a state around the write that was cut: the log empty or
/// not, and a sequence number no farther away than the log is long. The write may have been that of a recovery, which found the
/// word of an earlier write beside the checksum of the one before. Anything else is damage, and stays.
pub(crate) fn mend_torn(superblock: &mut [u8]) {
    let has = be32(superblock, 0xfc);
    let checked = be32(superblock, 0x28) & (format::incompat::CSUM_V2 | format::incompat::CSUM_V3) != 0;
    if !checked || has == superblock_checksum(superblock) {
        return;
    }
    let sequence = be32(superblock, 0x18);
    let (first, end) = (be32(superblock, 0x14), be32(superblock, 0x10));
    let mut copy = superblock[..SUPERBLOCK_BYTES].to_vec();
    let mut is_of = |start: u32, near: u32| {
        put_be32(&mut copy, 0x18, near);
        put_be32(&mut copy, 0x1c, start);
        superblock_checksum(&copy) == has
    };
    let torn = (0..=end.min(MOST_STEPS)).any(|step| {
        let around = [sequence.wrapping_sub(step), sequence.wrapping_add(step)];
        around.into_iter().any(|near| is_of(0, near) || is_of(first, near))
    });
    if torn {
        let right = superblock_checksum(superblock);
        put_be32(superblock, 0xfc, right);
    }
}

/// Sequence numbers that are tried: a damaged length of the log must not take long.
const MOST_STEPS: u32 = 1 << 16;

/// The tags of a descriptor.
fn tags(format: &Format, block: &[u8]) -> Vec<Tag> {
    let end = block.len() - format.tail_bytes();
    let mut at = HEADER_BYTES;
    let mut tags = Vec::new();
    while at + format.tag_bytes() <= end {
        let tag = format.read_tag(&block[at..]);
        at += format.tag_bytes();
        if tag.flags & TAG_SAME_UUID == 0 {
            at += 16;
        }
        tags.push(tag);
        if tag.flags & TAG_LAST != 0 {
            break;
        }
    }
    tags
}

/// The blocks that a revoke block names.
fn revokes(format: &Format, block: &[u8]) -> Vec<u64> {
    let end = (be32(block, HEADER_BYTES) as usize).min(block.len() - format.tail_bytes());
    let bytes = format.revoke_bytes();
    let names = block.get(REVOKE_HEADER_BYTES..end).unwrap_or_default().chunks_exact(bytes);
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    names.map(number).collect()
}

/// What is said of a log that is not replayed.
fn refusal(faults: &[String]) -> String {
    let more = match faults.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more faults)"),
    };
    let first = &faults[0];
    format!("journal: {first}{more}; `weir fsck --repair` replays what is sound and says what it gives up")
}

/// Sets the features of a journal that a mount uses: revoke records, and the checksums and width of the file system. The log is
/// empty: others, of how it was written before, go.
pub(crate) fn set_features(superblock: &mut [u8], wide: bool, checksums: bool) {
    use format::incompat;
    if be32(superblock, 4) == format::SUPERBLOCK_V1 {
        put_be32(superblock, 4, format::SUPERBLOCK_V2);
        superblock[COMPAT_AT..].fill(0);
    }
    let compat = be32(superblock, COMPAT_AT) & !COMPAT_CHECKSUM;
    put_be32(superblock, COMPAT_AT, compat);
    let kept = be32(superblock, INCOMPAT_AT) & !(incompat::ASYNC_COMMIT | incompat::FAST_COMMIT);
    let mut incompat = kept | incompat::REVOKE;
    if wide {
        incompat |= incompat::IS_64BIT;
    }
    if checksums {
        incompat = incompat & !incompat::CSUM_V2 | incompat::CSUM_V3;
        superblock[0x50] = CRC32C;
    }
    put_be32(superblock, INCOMPAT_AT, incompat);
    let checksum = superblock_checksum(superblock);
    put_be32(superblock, 0xfc, checksum);
}
