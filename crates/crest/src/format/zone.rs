//! Zones: the words of the table, the records of a log zone, and which zone may be taken or is cleaned next.
//!
//! # States of a zone
//!
//! ```text
//! free ──word log, fence──► open ──full──► sealed ──nothing live: word free──► freed ──fence of the same task──► free
//! ```
//!
//! A *freed* zone still counts as present for everything that waits for it: a crash may bring it back.

use std::fmt;
use std::ops::Range;

use twox_hash::XxHash3_64;

use super::layout::{BITS_40, LINE};
use super::mutant::{self, Rules};
use super::raw::Refused;
use super::record::{Body, Id, Previous, Record, Seal, removals};

/// What a zone is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Use {
    /// Free, or blocks of data.
    #[default]
    Free,
    /// Records.
    Log,
    /// A saved index.
    Saved,
    /// Not used, because the medium failed here.
    Bad,
    /// A further table of zones.
    Table,
}

/// The word of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Word {
    /// What the zone is used for.
    pub usage: Use,
    /// The shard that writes it.
    pub shard: u16,
    /// The number of this use: no zone of the pool has had it before.
    pub opening: u64,
}

impl Word {
    const KINDS: [Use; 5] = [Use::Free, Use::Log, Use::Saved, Use::Bad, Use::Table];

    /// The word as it is stored: kind 4, shard 12, opening 40, check 8 bits.
    pub fn pack(self, zone: u32) -> u64 {
        let kind = Self::KINDS.iter().position(|kind| *kind == self.usage).unwrap_or_default() as u64 + 1;
        let low = kind | u64::from(self.shard & 0xFFF) << 4 | (self.opening & BITS_40) << 16;
        low | check(zone, low) << 56
    }

    /// A stored word with the check that its other bits should have.
    pub(crate) fn checked(zone: u32, word: u64) -> u64 {
        let low = word & (1 << 56) - 1;
        low | check(zone, low) << 56
    }

    /// The word that is stored; none if its check is wrong.
    pub fn unpack(zone: u32, word: u64) -> Option<Self> {
        let low = word & (1 << 56) - 1;
        let usage = Self::KINDS.get((low & 0xF).checked_sub(1)? as usize)?;
        let sound = check(zone, low) == word >> 56;
        sound.then_some(Self { usage: *usage, shard: (low >> 4 & 0xFFF) as u16, opening: low >> 16 })
    }

    /// The word that counts of the two copies, and whether the other one differs; none if both are damaged.
    ///
    /// A mount stores it in both copies, and fences, before it answers the first call: otherwise a later poisoned line of copy A
    /// would undo what was seen.
    pub fn decide(zone: u32, copies: [u64; 2]) -> Option<(Self, bool)> {
        let [a, b] = copies.map(|copy| Self::unpack(zone, copy));
        Some((a.or(b)?, copies[0] != copies[1]))
    }
}

fn check(zone: u32, low: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(u64::from(zone), &low.to_le_bytes()) & 0xFF
}

/// A record and where it lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// The zone.
    pub zone: u32,
    /// Its opening.
    pub opening: u64,
    /// The first line.
    pub line: u32,
    /// Lines.
    pub lines: u32,
    /// What it says.
    pub record: Record,
}

/// What is wrong in a log. A pool with damage is mounted read-only until its owner accepts the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// Lines hold no record though others follow.
    Gap {
        /// The zone.
        zone: u32,
        /// The first such line.
        line: u32,
    },
    /// The zone ended at a later line when its shard left it.
    LostEnd {
        /// The zone.
        zone: u32,
        /// Lines that should hold records.
        lines: u32,
    },
    /// A record of a kind that this code does not know.
    UnknownKind {
        /// The zone.
        zone: u32,
        /// The line.
        line: u32,
        /// The kind.
        kind: u8,
    },
    /// A sealed record with a field out of range.
    Malformed {
        /// The zone.
        zone: u32,
        /// The line.
        line: u32,
    },
}

impl Damage {
    /// Its zone.
    pub fn zone(&self) -> u32 {
        match self {
            Self::Gap { zone, .. }
            | Self::LostEnd { zone, .. }
            | Self::UnknownKind { zone, .. }
            | Self::Malformed { zone, .. } => *zone,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { zone, line } => {
                write!(f, "zone {zone}: line {line} holds no record, but later lines do")
            }
            Self::LostEnd { zone, lines } => {
                write!(f, "zone {zone}: records are missing before line {lines}, where its log ended")
            }
            Self::UnknownKind { zone, line, kind } => {
                write!(
                    f,
                    "zone {zone}: the record at line {line} is of the unknown kind {kind}; newer code wrote it"
                )
            }
            Self::Malformed { zone, line } => {
                write!(f, "zone {zone}: the record at line {line} has a field out of range")
            }
        }
    }
}

/// Lines of a zone that are damaged, and were computed from its parity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Computed {
    /// The zone.
    pub zone: u32,
    /// Its opening.
    pub opening: u64,
    /// The lines.
    pub lines: Vec<u32>,
}

impl Computed {
    /// What is damaged, in words.
    pub fn describe(&self) -> String {
        let Self { zone, lines, .. } = self;
        let first = lines.first().copied().unwrap_or_default();
        format!(
            "zone {zone}: {} damaged lines, the first at {first}, were computed from its parity, and nothing is lost; \
             `weir fsck --repair` moves its records to another zone",
            lines.len()
        )
    }
}

/// A line of a zone: the zone, its opening, the line.
pub type LineOf = (u32, u64, u32);

/// The records of one or more zones.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Those that count, unless a `Void` says otherwise.
    pub records: Vec<Found>,
    /// What is wrong.
    pub damage: Vec<Damage>,
    /// The largest id in any sealed record: clocks continue behind it.
    pub top: Id,
    /// Zone, opening, and the line behind its last record.
    pub ends: Vec<LineOf>,
    /// Zone, opening, and the line of the last record that counts.
    pub lasts: Vec<LineOf>,
    /// Zone, opening, and the first line that is missing in its last batch of copies: a crash's, if its shard did not go on.
    pub torn: Vec<LineOf>,
    /// Records that were read and count.
    pub read: u64,
    /// The largest inode number in one.
    pub last_ino: u64,
    /// Zones with parity.
    pub with_parity: Vec<u32>,
    /// What was computed from it.
    pub computed: Vec<Computed>,
}

impl Log {
    /// Reads a log zone: `bytes` is all of it.
    pub fn read_zone(&mut self, zone: u32, seal: Seal, bytes: &[u8]) {
        let Some(seal) = seal.of_zone(bytes) else {
            // The word was stored when the Open was durable.
            self.damage.push(Damage::Gap { zone, line: 0 });
            self.ends.push((zone, seal.opening, 0));
            return;
        };
        let lines = (bytes.len() / LINE) as u32;
        let (mut line, mut found, mut gaps) = (0, Vec::<Found>::new(), Vec::new());
        while line < lines {
            let rest = bytes.get(line as usize * LINE..).unwrap_or_default();
            let mut step = 1;
            match Record::decode(rest, seal, line) {
                Ok((record, taken)) => {
                    step = taken as u32;
                    self.top = self.top.max(record.id);
                    // The record of an add may be gone before that of its removal, which would hide another of this id.
                    self.top = removals(&record).fold(self.top, |top, ((add, _), _)| top.max(add));
                    found.push(Found { zone, opening: seal.opening, line, lines: step, record });
                }
                Err(Refused::NotSealed) => gaps.push(line),
                Err(Refused::UnknownKind(kind)) => {
                    self.damage.push(Damage::UnknownKind { zone, line, kind });
                }
                Err(Refused::Malformed) => self.damage.push(Damage::Malformed { zone, line }),
            }
            line += step;
        }
        self.ends.push((zone, seal.opening, found.last().map_or(0, |last| last.line + last.lines)));
        self.keep_counting(zone, found, &gaps, seal.rules);
    }

    /// Takes holes that end behind the last of the `blocks` that a file can have for damage: no call makes one.
    pub(crate) fn refuse_holes(&mut self, blocks: u64) {
        let is_long = |found: &Found| match &found.record.body {
            Body::Hole(hole) => hole.from.saturating_add(hole.count) > blocks,
            _ => false,
        };
        for found in self.records.extract_if(.., |found| is_long(found)) {
            self.damage.push(Damage::Malformed { zone: found.zone, line: found.line });
        }
    }

    /// Adds what was read of other zones.
    pub fn add(&mut self, mut other: Self) {
        self.records.append(&mut other.records);
        self.damage.append(&mut other.damage);
        self.ends.append(&mut other.ends);
        self.lasts.append(&mut other.lasts);
        self.torn.append(&mut other.torn);
        self.read += other.read;
        self.last_ino = self.last_ino.max(other.last_ino);
        self.with_parity.append(&mut other.with_parity);
        self.computed.append(&mut other.computed);
        self.top = self.top.max(other.top);
    }

    /// Drops incomplete groups, reports gaps.
    fn keep_counting(&mut self, zone: u32, mut found: Vec<Found>, gaps: &[u32], rules: Rules) {
        let last = found.last().map_or(0, |last| last.line);
        let unexplained = |gap: &&u32| {
            **gap < last && (rules.lacks(mutant::TORN_GROUP_IS_DAMAGE) || !may_be_torn(&found, **gap))
        };
        if rules.lacks(mutant::GAP_IS_TAIL) {
            let end = gaps.first().copied().unwrap_or(u32::MAX);
            found.retain(|record| record.line < end);
        } else if let Some(line) = gaps.iter().find(unexplained) {
            self.damage.push(Damage::Gap { zone, line: *line });
        }
        let batch = found.last().filter(|last| last.record.batch > 0);
        let torn = gaps.iter().find(|gap| batch.is_some_and(|last| last.operation().contains(gap)));
        self.torn.extend(torn.zip(batch).map(|(line, last)| (zone, last.opening, *line)));
        if !rules.lacks(mutant::GROUP_IN_PART) {
            let whole: Vec<bool> = found.iter().map(|record| is_whole(&found, record)).collect();
            let mut whole = whole.into_iter();
            found.retain(|_| whole.next() == Some(true));
        }
        self.lasts.extend(found.last().map(|last| (zone, last.opening, last.line)));
        self.read += found.len() as u64;
        let inos = found.iter().map(|found| found.record.body.last_ino());
        self.last_ino = inos.fold(self.last_ino, u64::max);
        self.records.append(&mut found);
    }
}

/// Zones that end before the line that their shard noted when it left them, or lack one before it. `ends`, `torn`: as in [`Log`].
pub fn lost_ends<'a>(
    records: impl Iterator<Item = &'a Found>,
    (ends, torn): (&[LineOf], &[LineOf]),
    rules: Rules,
) -> Vec<Damage> {
    let lost = |found: &Found| {
        let Body::Open(open) = &found.record.body else { return None };
        let Previous { zone, opening, lines } = open.previous?;
        let of = |of: &[LineOf]| of.iter().find(|one| (one.0, one.1) == (zone, opening)).map(|one| one.2);
        let lines = u32::from(lines);
        let gap = of(torn).filter(|gap| *gap < lines).map(|line| Damage::Gap { zone, line });
        gap.or_else(|| of(ends).filter(|end| *end < lines).map(|_| Damage::LostEnd { zone, lines }))
    };
    if rules.lacks(mutant::LAST_RECORDS_UNKNOWN) { Vec::new() } else { records.filter_map(lost).collect() }
}

impl Record {
    /// The lines that were stored under one fence with a record at these: of its group, or of its batch up to it; or its own.
    pub(crate) fn operation(&self, line: u32, lines: u32) -> Range<u32> {
        match (self.batch, self.group) {
            (0, 0) => line..line + lines,
            (0, group) => {
                let start = line.saturating_sub(u32::from(self.part));
                start..start + u32::from(group)
            }
            (batch, _) => line.saturating_sub(u32::from(batch) - 1)..line + lines,
        }
    }
}

impl Found {
    fn operation(&self) -> Range<u32> {
        self.record.operation(self.line, self.lines)
    }

    fn belongs_to(&self, other: &Self) -> bool {
        let is_batch = self.record.batch > 0 && other.record.batch > 0;
        is_batch && self.operation().start == other.operation().start
            || (self.record.id, self.record.group) == (other.record.id, other.record.group)
                && self.operation() == other.operation()
    }
}

/// Whether all records of a record's operation were found; those of a zone are in the order of their lines.
fn is_whole(found: &[Found], record: &Found) -> bool {
    if record.record.group == 0 {
        return true;
    }
    let lines = record.operation();
    let first = found.partition_point(|other| other.line < lines.start);
    let near = found[first..].iter().take_while(|other| other.line < lines.end);
    let members = near.filter(|other| other.belongs_to(record));
    members.map(|member| member.lines).sum::<u32>() == lines.len() as u32
}

/// Whether a crash during the zone's last operation explains a gap at a line: the line is that operation's, or the first of the
/// zone, which the first operation stores together with its own.
fn may_be_torn(found: &[Found], gap: u32) -> bool {
    let Some(end) = found.last() else { return true };
    let lines = end.operation();
    let others = found.iter().filter(|other| !other.belongs_to(end));
    let is_first = others.clone().all(|other| matches!(other.record.body, Body::Open(_)));
    lines.contains(&gap) || is_first && gap == 0
}

/// What a zone is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Blocks of data.
    Data,
    /// Records of calls that may take space.
    Records,
    /// Records of calls that free space: unlink, truncate, punch; and of data that is in frames.
    Removals,
    /// Copies of records that the cleaner makes.
    Copies,
}

/// What is known of the zones of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stock {
    /// Zones that are free, durably.
    pub free: u32,
    /// Shards.
    pub shards: u32,
    /// Lines of a zone.
    pub zone_lines: u32,
    /// Live lines in log zones.
    pub live_lines: u64,
    /// Zones that are kept for the records of data that is in frames.
    pub buffered: u32,
}

/// Most shards of a pool of so many zones.
pub(crate) fn shards_max(zones: u32) -> u32 {
    (zones / 16).max(1)
}

impl Stock {
    fn live_zones(&self) -> u64 {
        self.live_lines.div_ceil(u64::from(self.zone_lines.max(1)))
    }

    /// Whether a free zone may be taken.
    ///
    /// One zone is kept for copies, one per shard for calls that free space, and data leaves an eighth of the live log, too: so
    /// that a removal always finds a line, and the cleaner a place for copies. Records of data that is in frames may take what
    /// removals may, for which both others leave them zones of their own.
    pub fn grants(&self, want: Want, rules: Rules) -> bool {
        u64::from(self.free) > self.kept(want, rules)
    }

    /// Zones that are kept from such a call.
    fn kept(&self, want: Want, rules: Rules) -> u64 {
        let copies = u64::from(!rules.lacks(mutant::CLEANER_WITHOUT_RESERVE));
        let removals = copies + u64::from(self.shards) + u64::from(self.buffered);
        match want {
            Want::Copies => 0,
            Want::Removals => copies,
            Want::Records => removals,
            Want::Data if rules.lacks(mutant::NO_RESERVE) => 0,
            Want::Data => removals + self.live_zones().div_ceil(8),
        }
    }

    /// Free zones of so many below which the log is cleaned in steps, and those below which calls wait for that: a tenth, or what
    /// is kept and some for each shard; and halfway to what is kept.
    pub fn marks(&self, zones: u32) -> (u32, u32) {
        let kept = self.kept(Want::Data, Rules::ALL) as u32;
        let low = (zones / 10).max(kept + self.shards + 1 + zones / 32);
        (low, kept + (low - kept) / 2)
    }

    /// Whether cleaning can gain a zone, if none has more dead lines than this.
    pub(crate) fn can_gain(&self, dead: u64) -> bool {
        dead.saturating_mul(16) > u64::from(self.zone_lines)
    }

    /// Which sealed zone is cleaned next, given the live lines of each: the one with the fewest, if cleaning it gains enough for a
    /// call that wants a zone.
    pub fn victim(&self, want: Want, zones: u32, live: &[(u32, u32)], rules: Rules) -> Option<u32> {
        let scarce = self.free < self.shards + 2 || !self.grants(want, rules);
        if self.free >= zones / 8 && !scarce {
            return None;
        }
        let (zone, live) = live.iter().copied().min_by_key(|(zone, live)| (*live, *zone))?;
        let (live, lines) = (u64::from(live), u64::from(self.zone_lines));
        let gains = if scarce { live * 16 < lines * 15 } else { live * 4 < lines * 3 };
        (gains || rules.lacks(mutant::CLEANER_NEVER_RESTS)).then_some(zone)
    }
}
