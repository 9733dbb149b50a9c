//! Parity of log zones that are full: lines of one that are damaged are computed.
//!
//! In a pool with `incompat::PARITY` the last sixteenth of a zone is kept from records.
//!
//! ```text
//! lines 0 … 15/16: records │ head: a line, with a seal │ columns: as many lines as are left
//! ```
//!
//! Column c is the XOR of the lines c, c + n, c + 2n … that hold records, of n columns: of at most 16 lines. So any damage to n
//! neighbouring lines is computed, and to lines further apart if no two are of one column. The head says how many lines hold
//! records; its seal is that of a record, seeded with secret, opening and line, so that the head of an earlier use of the zone is
//! none.
//!
//! | rule | |
//! |---|---|
//! | P1 | a computed line counts only in a record with its seal: columns need neither a seal nor a fence before the head |
//! | P2 | a zone ends (parity, no further record) after the fence of its last record: the head never says too many lines |
//! | P3 | the XOR is kept in DRAM while a zone is open, of what was stored without an error: not of what is damaged by then |
//! | P4 | a head without its seal is none |
//! | P5 | no index is saved while a zone is there of which lines were computed: its checksum would be of damaged bytes |
//!
//! A zone ends when its shard leaves it for another, under the fence of the call that opens that, and at an unmount, which also
//! gives parity to zones that a crash has left without. Nothing waits for parity, and it waits for nothing after P2:
//!
//! | a crash, or a failure | leaves |
//! |---|---|
//! | before the head is durable | a zone without parity, as before; the unmount of the next mount ends it |
//! | when the head is durable and columns are not | a zone whose end is known; by columns that lack nothing is computed (P1) |
//! | while the next zone is opened | its word, its Open and this parity, each or not: none is needed for another |
//! | within the last operation of a zone | that was not fenced, so the zone was open: no parity (P2) |
//! | after the zone was freed, and used again | a head that the new opening does not seal (P4) |
//! | the medium refuses a record | the zone ends before it, unless it has only its Open, which may not be durable |
//! | the medium refuses the head or a column | a zone without parity; the call does not fail |
//! | a flush of a record fails | a Void in another zone, which counts for the record whether it is read or computed |
//! | a copy of the cleaner is the last record | it has a fence of its own: as any other |
//!
//! Damage is of two kinds. A line that cannot be read (poisoned) is known: if it is the only one of its column it is what the
//! others of the column lead to. A line with other bytes is known by its record, whose seal is wrong, and by its column, which
//! does not fit: the lines of the record in such columns are tried, one in each, and the seal decides. Records are read again
//! after that. What is missing then is damage as it is without parity, and so is the end of the log: a zone with parity is
//! damaged if its last records are missing, also where a crash would explain that in a zone without.
//!
//! Where the parity itself is damaged nothing is lost; fsck says so, and how many log zones have parity.
//!
//! A mount uses computed lines in DRAM, says so, and stores nothing to the zone. The cleaner empties it as any other; `weir fsck`
//! counts and names such zones, and `--repair` moves what is live to another zone and frees this one.

use std::ops::Range;

use media::MediaError;
use media::nvmm::Region;
use sim::ran;
use zerocopy::{FromBytes, IntoBytes};

use crate::format::layout::{BLOCK, FILE_MAX, Geometry, Head, LINE, RECORD_LINES_MAX, kind};
use crate::format::mutant;
use crate::format::raw::Refused;
use crate::format::record::{Record, Seal};
use crate::format::zone::{Computed, Damage, Log};
use base::error::Result;
use base::persist::checksum::charge_for;

/// Lines under the seals that are tried for one zone, at most: 256 MiB. What is not found then is damage.
const TRIED_LINES_MAX: u64 = 4 << 20;
/// Choices of a line in each column that are tried for one record; of more, only neighbouring lines are.
const CHOICES_MAX: usize = 4096;

/// The XOR of the lines that a shard has written to its zone, by columns; it grows with the first ones.
#[derive(Debug, Default)]
pub(crate) struct Strip(Vec<u8>);

impl Strip {
    /// Adds lines that were stored from a line of the zone on.
    pub(crate) fn add(&mut self, geometry: &Geometry, line: u32, bytes: &[u8]) {
        let Some(columns) = geometry.columns() else { return };
        // What was stored is read, and the strip changed, which is larger than a core's first cache.
        sim::copy(bytes.len() as u64);
        for (at, bytes) in (line..).zip(bytes.chunks_exact(LINE)) {
            let column = (at % columns) as usize * LINE;
            if self.0.len() <= column {
                self.0.resize(column + LINE, 0);
            }
            change(&mut self.0, column, bytes);
        }
    }

    /// Stores the parity of a zone that ends at a line; the caller fences.
    pub(crate) fn store(
        self,
        region: &Region,
        geometry: &Geometry,
        (zone, seal): (u32, Seal),
        end: u32,
    ) -> Result<()> {
        let at = geometry.zone_at(zone) + u64::from(geometry.record_lines()) * LINE as u64;
        region.nt_store(at + LINE as u64, &self.0)?;
        charge_for(LINE);
        region.nt_store(at, &head(geometry, seal, end))?;
        Ok(())
    }
}

/// Changes a line by XOR.
fn change(all: &mut [u8], at: usize, by: &[u8]) {
    let bytes = all.get_mut(at..at + by.len()).unwrap_or_default();
    bytes.iter_mut().zip(by).for_each(|(byte, by)| *byte ^= by);
}

/// The head of the parity of a zone that ends at a line.
fn head(geometry: &Geometry, seal: Seal, end: u32) -> [u8; LINE] {
    let mut body = [0; crate::format::layout::BODY];
    body[..4].copy_from_slice(&end.to_le_bytes());
    body[4..12].copy_from_slice(&seal.nonce.to_le_bytes());
    let mut bytes = [0; LINE];
    let head =
        Head { seal: 0, kind: kind::PARITY, lines: 1, part: 0, group: 0, sets: 0, items: 0, id: 0, body };
    bytes.copy_from_slice(head.as_bytes());
    let sum = seal.of(geometry.record_lines(), &bytes);
    bytes[..size_of::<u64>()].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Where the records of a zone end, if this line is the head of its parity, and their seal. The head has the nonce of the zone, so
/// that its Open can be computed.
fn end_of(geometry: &Geometry, seal: Seal, bytes: &[u8]) -> Option<(u32, Seal)> {
    let line = geometry.record_lines();
    let head = Head::read_from_bytes(bytes).ok()?;
    let end = u32::from_le_bytes(head.body[..4].try_into().ok()?);
    let nonce = u64::from_le_bytes(head.body[4..12].try_into().ok()?);
    let seal = if seal.keyed && seal.nonce == 0 { Seal { nonce, ..seal } } else { seal };
    let is_sealed = head.seal == seal.of(line, bytes) || seal.rules.lacks(mutant::PARITY_UNSEALED);
    (is_sealed && head.kind == kind::PARITY && (1..=line).contains(&end)).then_some((end, seal))
}

/// Whether this line is the head of a zone's parity.
pub(crate) fn has_head(geometry: &Geometry, seal: Seal, line: &[u8]) -> bool {
    end_of(geometry, seal, line).is_some()
}

/// Loads a zone; answers the lines that the medium refuses, which read as zeros, and so are gaps.
fn load(region: &Region, at: u64, bytes: &mut [u8]) -> Result<Vec<u32>, MediaError> {
    let (mut lines, mut refused) = (Vec::new(), None);
    if region.load(at, bytes).is_ok() {
        return Ok(lines);
    }
    for (line, part) in (0u32..).zip(bytes.chunks_mut(LINE)) {
        if let Err(error) = region.load(at + u64::from(line) * LINE as u64, part) {
            part.fill(0);
            lines.push(line);
            refused = Some(error);
        }
    }
    // Where nothing can be read, the medium is what failed.
    match refused {
        Some(error) if bytes.iter().all(|byte| *byte == 0) => Err(error),
        _ => Ok(lines),
    }
}

/// Reads a log zone with what can be computed of it. `bytes`: room for the zone.
pub(crate) fn read_zone(
    region: &Region,
    geometry: &Geometry,
    (zone, seal): (u32, Seal),
    bytes: &mut [u8],
    log: &mut Log,
) -> Result<(), MediaError> {
    let unread = load(region, geometry.zone_at(zone), bytes)?;
    charge_for(bytes.len());
    let records = geometry.record_lines() as usize * LINE;
    let seal = seal.of_zone(bytes).unwrap_or(seal);
    let end = bytes.get(records..records + LINE).and_then(|head| end_of(geometry, seal, head));
    let seal = end.map_or(seal, |end| end.1);
    let read = |bytes: &[u8]| {
        let mut found = Log::default();
        found.read_zone(zone, seal, &bytes[..records]);
        found.refuse_holes(FILE_MAX / BLOCK);
        found
    };
    let mut found = read(bytes);
    let Some((columns, (end, _))) = geometry.columns().zip(end) else {
        log.add(found);
        return Ok(());
    };
    if missing(&found, end).is_some() {
        ran::bytes(bytes.len() as u64);
        let lines = Damaged::of(bytes, (columns, end), seal, &unread).compute();
        if !lines.is_empty() {
            found = read(bytes);
            found.computed.push(Computed { zone, opening: seal.opening, lines });
        }
        if let Some(line) = missing(&found, end).filter(|_| found.damage.is_empty()) {
            let is_end = found.ends.iter().all(|(.., behind)| *behind <= line);
            let lost = Damage::LostEnd { zone, lines: end };
            found.damage.push(if is_end { lost } else { Damage::Gap { zone, line } });
        }
    }
    found.with_parity.push(zone);
    log.add(found);
    Ok(())
}

/// The first line before the end of a zone that is in no record; records are in the order of their lines.
pub(crate) fn missing(log: &Log, end: u32) -> Option<u32> {
    let mut line = 0;
    for found in &log.records {
        if found.line != line {
            break;
        }
        line += found.lines;
    }
    (line < end).then_some(line)
}

/// Lines of its parity that do not fit the records of a zone; none if it has no parity that can be read. `bytes`: room for the
/// zone.
pub(crate) fn misfits(
    region: &Region,
    geometry: &Geometry,
    (zone, seal): (u32, Seal),
    bytes: &mut [u8],
) -> Option<usize> {
    let (columns, records) = (geometry.columns()?, geometry.record_lines() as usize * LINE);
    load(region, geometry.zone_at(zone), bytes).ok()?;
    let (end, seal) = end_of(geometry, seal.of_zone(bytes)?, &bytes[records..records + LINE])?;
    let read = Damaged::of(bytes, (columns, end), seal, &[]);
    Some((0..columns).filter(|column| !read.fits(*column)).count())
}

/// A zone of which records are missing.
struct Damaged<'a> {
    zone: &'a mut [u8],
    /// Lines with records.
    end: u32,
    columns: u32,
    seal: Seal,
    /// Of each column the XOR of all its lines: zero, where all is well.
    rest: Vec<u8>,
    /// Lines that were changed here.
    changed: Vec<u32>,
    tried: u64,
}

impl<'a> Damaged<'a> {
    fn of(zone: &'a mut [u8], (columns, end): (u32, u32), seal: Seal, unread: &[u32]) -> Self {
        let mut rest = zone[zone.len() - columns as usize * LINE..].to_vec();
        let first = (zone.len() / LINE) as u32 - columns;
        // What stands in columns that no record has is of an earlier use of the zone.
        let used = end.min(columns) as usize;
        rest[used * LINE..].fill(0);
        for (line, bytes) in (0..end).zip(zone.chunks_exact(LINE)) {
            change(&mut rest, (line % columns) as usize * LINE, bytes);
        }
        let mut this = Self { zone, end, columns, seal, rest, changed: Vec::new(), tried: 0 };
        let column = |line: u32| if line < end { Some(line % columns) } else { line.checked_sub(first) };
        let of_records = unread.iter().copied().filter(|line| *line < end);
        for line in of_records {
            let others = unread.iter().filter(|other| **other != line && column(**other) == column(line));
            if others.count() == 0 {
                this.change(line);
            }
        }
        this
    }

    fn of_column(&self, line: u32) -> &[u8] {
        &self.rest[(line % self.columns) as usize * LINE..][..LINE]
    }

    fn fits(&self, line: u32) -> bool {
        self.of_column(line).iter().all(|byte| *byte == 0)
    }

    /// Gives a line the bytes that make its column fit.
    fn change(&mut self, line: u32) {
        let column = (line % self.columns) as usize * LINE;
        change(self.zone, line as usize * LINE, &self.rest[column..column + LINE]);
        self.rest[column..column + LINE].fill(0);
        self.changed.push(line);
    }

    /// Changes lines until the records that contain them are sealed; answers these lines.
    fn compute(mut self) -> Vec<u32> {
        let (mut line, mut sealed) = (0, Vec::new());
        while line < self.end {
            let rest = &self.zone[line as usize * LINE..self.end as usize * LINE];
            match Record::decode(rest, self.seal, line) {
                Ok((_, lines)) => {
                    sealed.push(line..line + lines as u32);
                    line += lines as u32;
                }
                Err(Refused::NotSealed) if self.tried < TRIED_LINES_MAX => match self.choose(line) {
                    Some(lines) => lines.into_iter().for_each(|line| self.change(line)),
                    None => line += 1,
                },
                Err(_) => line += 1,
            }
        }
        let mut lines = self.changed;
        lines.retain(|line| sealed.iter().any(|record| record.contains(line)));
        lines.sort_unstable();
        lines
    }

    /// The lines to change so that a record begins at a line.
    fn choose(&mut self, line: u32) -> Option<Vec<u32>> {
        let firsts =
            [vec![line], Vec::new()].into_iter().filter(|first| first.is_empty() || !self.fits(line));
        let guesses: Vec<Guess> = firsts.filter_map(|first| self.guess(line, first)).collect();
        // A record that lies within what is damaged has all of its lines there.
        let all = guesses.iter().find_map(|guess| self.sealed(guess, &guess.open));
        all.or_else(|| guesses.iter().find_map(|guess| self.search(guess)))
    }

    /// The record that begins at a line, with its first line as it is, or changed; none if it has no line to change.
    fn guess(&self, line: u32, first: Vec<u32>) -> Option<Guess> {
        let mut head = self.zone.get(line as usize * LINE..)?.get(..LINE)?.to_vec();
        if !first.is_empty() {
            change(&mut head, 0, self.of_column(line));
        }
        let lines = u32::from(Head::read_from_bytes(&head).ok()?.lines);
        if !(1..=RECORD_LINES_MAX as u32).contains(&lines) || line + lines > self.end {
            return None;
        }
        let is_taken = |other: u32| first.iter().any(|one| (other - one).is_multiple_of(self.columns));
        let is_open = |other: &u32| !self.fits(*other) && !is_taken(*other);
        let open: Vec<u32> = (line + 1..line + lines).filter(is_open).collect();
        let changes = !(first.is_empty() && open.is_empty());
        changes.then_some(Guess { record: line..line + lines, first, open })
    }

    /// The lines of a record to change: one or none in each column or, where that leaves too many choices, neighbours.
    fn search(&mut self, guess: &Guess) -> Option<Vec<u32>> {
        let mut columns: Vec<Vec<u32>> = Vec::new();
        for line in &guess.open {
            match columns.iter_mut().find(|column| (line - column[0]).is_multiple_of(self.columns)) {
                Some(column) => column.push(*line),
                None => columns.push(vec![*line]),
            }
        }
        let choices = columns.iter().try_fold(1usize, |all, column| all.checked_mul(column.len() + 1));
        if let Some(choices) = choices.filter(|choices| *choices <= CHOICES_MAX) {
            return (0..choices).find_map(|choice| self.sealed(guess, &choice_of(&columns, choice)));
        }
        let open = &guess.open;
        (0..open.len()).find_map(|from| {
            let within = |line: &&u32| **line - open[from] < self.columns;
            let most = open[from..].iter().take_while(within).count();
            (1..=most).rev().find_map(|count| self.sealed(guess, &open[from..from + count]))
        })
    }

    /// The lines of a record that are changed, these among them, if it has its seal then.
    fn sealed(&mut self, guess: &Guess, lines: &[u32]) -> Option<Vec<u32>> {
        let Guess { record, first, .. } = guess;
        self.tried += record.len() as u64;
        if self.tried > TRIED_LINES_MAX {
            return None;
        }
        let range = record.start as usize * LINE..record.end as usize * LINE;
        let mut bytes = self.zone.get(range)?.to_vec();
        charge_for(bytes.len());
        let lines = [first, lines].concat();
        for line in &lines {
            change(&mut bytes, (line - record.start) as usize * LINE, self.of_column(*line));
        }
        let sum = self.seal.of(record.start, &bytes);
        bytes.starts_with(&sum.to_le_bytes()).then_some(lines)
    }
}

/// A record as it may be.
struct Guess {
    record: Range<u32>,
    /// Its first line, if that is changed.
    first: Vec<u32>,
    /// Further lines of columns that do not fit.
    open: Vec<u32>,
}

/// One of the choices of a line, or none, in each column.
fn choice_of(columns: &[Vec<u32>], mut choice: usize) -> Vec<u32> {
    let mut chosen = Vec::new();
    for column in columns {
        let pick = choice % (column.len() + 1);
        choice /= column.len() + 1;
        chosen.extend(pick.checked_sub(1).and_then(|pick| column.get(pick)));
    }
    chosen
}
