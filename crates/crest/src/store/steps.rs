//! The cleaner in steps: empties the oldest log zones, a few lines at a time, before zones run out.
//!
//! ```text
//! read some lines of the victim ── of each record: ask the state what is live (live.rs) ── append all copies, FENCE
//! victim is parsed ── its word := free, FENCE ── free
//! ```
//!
//! A step is made by a call before it locks anything (`Index::tend`). It has no copy of the log in memory: of the victim it reads
//! what it parses, and the state of the objects that a record names says what of it is live. The cleaner that stops all logs and
//! reads them (`cleaner.rs`) remains for calls that find no zone all the same, and says alone that nothing can be gained.
//!
//! S1. A victim is no shard's current zone, and the log of each shard was locked since it was left: all of its records are
//!     published.
//! S2. The zone that takes a copy is open before the state is asked: what supersedes the part later waits for that zone, by
//!     its `before`.
//! S3. Adds that are copied are noted before the copy is stored (`origins.rs`): a removal waits for copies of its add.
//! S4. A copy is stored, and a victim freed, only if all logs were not cleaned at once since the victim was chosen: that
//!     cleaner drops what waits by all records, and may have freed the victim.
//! S5. A record of a group that is not whole is passed over: it does not count. A gap that a crash does not explain, or a
//!     zone that ends before the line where its shard left it, ends the work on it: the other cleaner tells of damage.
//! S6. A shard looks whether a zone is still there under its opening when it has claimed it, and a claim ends behind the free
//!     zone: the list from which it is chosen is older. Another shard may have emptied it since, and a third one may write to
//!     it under a new opening.
//!
//! # When a removed name is dead
//!
//! A name is there if a present zone has its add (by id) and no present zone has a removal of that add. Neither order nor time
//! decides: so of each add that was removed, at each moment and in each subset of zones that a crash can leave,
//!
//! > **a present zone with a copy of the add ⇒ a present zone with a copy of the removal.**
//!
//! *Present* is a zone from the store of its word until the fence behind the word that frees it.
//!
//! *An add is copied*: it was asked for while the name was there. If the name dies before the copy is stored, the victim is
//! present and has the add, so the removal is kept; when the victim goes, the copy is noted (S3).
//!
//! *A removal is copied*: the copy is fenced before the victim's word is stored.
//!
//! *A zone with a removal is freed* (the removal is dropped): no other zone has the add, not the one where it was made, by its
//! id, nor one with a copy of it. The victim's own copies go with it, by one word. Both answers may be older than the free zone:
//! an add that was removed is copied only by who asked before, whose victim is present.
//!
//! *A zone with an add is freed*: always, for it leaves fewer adds.
//!
//! *A zone is freed that is not the victim any more*: this breaks it. It frees, without a look, what another shard has written
//! there. S6 prevents it for steps among themselves, S4 beside the cleaner of all logs.
//!
//! Each shard works on one victim at a time, and different shards on different ones: a zone is present for what waits until it is
//! freed, so it does not matter which of two is freed first. A crash leaves two copies of some records, of which the one in the
//! zone that was opened later holds; that may be the victim, because a shard that rests has a zone open for long.
//!
//! Victims are taken in the order of their openings, so what waits for older zones is copied once or twice at most. No zone is
//! emptied unless a quarter of the log is dead, by the lines that live records take at most; and no shard goes on that has
//! copied twice what it has gained.
//!
//! Lock order: `crest.cleaner` of a shard; then inodes; then `crest.log` (`locks.rs`).

use std::collections::BTreeSet;

use sim::sync::Ordering::Relaxed;
use sim::{Mutex, Work};

use super::Store;
use super::log::Call;
use super::origins::Origin;
use crate::format::clean::Present;
use crate::format::layout::{LINE, RECORD_LINES_MAX};
use crate::format::live::{Known, Object, live};
use crate::format::mutant;
use crate::format::raw::Refused;
use crate::format::record::{AddId, Body, Record, Seal};
use crate::format::zone::Want;
use crate::{locks, parts};
use base::error::Error;
use base::persist::checksum::charge_for;

/// Lines of the victim that a step parses: 8 KiB, many times what a call adds.
const STEP: u32 = 128;

/// The inodes of a pool, to be asked for what they have.
pub(crate) trait Objects {
    /// Shows an inode as it is between two calls; false: it is not there.
    fn show(&self, ino: u64, to: &mut dyn FnMut(&dyn Object)) -> bool;
}

/// A zone that is being emptied.
struct Victim {
    zone: u32,
    opening: u64,
    seal: Seal,
    /// The line that is parsed next.
    line: u32,
    /// The count of cleanings of all logs at once when it was chosen.
    cleanings: u64,
    /// The other zones that were there then, by number.
    others: Vec<Present>,
    /// The smallest opening of these.
    oldest: u64,
    /// The first line that holds no record.
    gap: Option<u32>,
    /// Where the operation or batch begins to which that line belongs, of which a crash has left a part.
    torn: Option<u32>,
    /// Whether that is a batch.
    is_batch: bool,
    /// The line behind the last record.
    end: u32,
    /// Lines that were copied.
    copied: u32,
}

/// The work of a shard.
#[derive(Default)]
pub(crate) struct Stepper {
    victim: Option<Victim>,
    bytes: Vec<u8>,
    /// Opening of a zone that was open for copies when it was looked at last.
    place: Option<u64>,
    /// Lines that were gained and copied since it rested last.
    gained: u64,
    copied: u64,
}

/// The zones that are worked on, and those that cannot be: zone and opening.
#[derive(Debug, Default)]
struct Claims {
    taken: BTreeSet<(u32, u64)>,
    refused: BTreeSet<(u32, u64)>,
}

/// The work of all shards.
pub(crate) struct Steps {
    pub(crate) steppers: Vec<Mutex<Stepper>>,
    claims: parking_lot::Mutex<Claims>,
    /// Whether no record says that others do not count, which only what has read all of them can tell.
    pub(crate) are_on: bool,
}

/// Why the work on a victim ends early.
enum Stop {
    /// All logs were cleaned at once meanwhile.
    Moved,
    /// It cannot be read, or is damaged.
    Damaged,
    /// A copy found no zone, or the medium has refused it.
    NoPlace,
}

impl From<Error> for Stop {
    fn from(_: Error) -> Self {
        Self::NoPlace
    }
}

impl Steps {
    pub(crate) fn new(shards: usize, are_on: bool) -> Self {
        let steppers = (0..shards).map(|_| Mutex::new(&locks::CLEANER, Stepper::default())).collect();
        Self { steppers, claims: parking_lot::Mutex::default(), are_on }
    }
}

/// The pool beside a victim.
struct Beside<'a> {
    store: &'a Store,
    objects: &'a dyn Objects,
    victim: &'a Victim,
}

impl Known for Beside<'_> {
    fn ask<R>(&self, ino: u64, question: impl FnOnce(&dyn Object) -> R) -> Option<R> {
        let (mut question, mut answer) = (Some(question), None);
        self.objects.show(ino, &mut |object| answer = question.take().map(|question| question(object)));
        answer
    }

    fn has_copy(&self, add: AddId) -> bool {
        if self.store.rules.lacks(mutant::REMOVAL_DIES_AT_ONCE) {
            return false;
        }
        let Victim { zone, others, .. } = self.victim;
        let origins = &self.store.logs.origins;
        let is_there = match origins.of(add) {
            Origin::Here(zone, opening) => place_of(others, zone).is_some_and(|other| other == opening),
            Origin::Earlier => others.iter().any(|other| other.opening < self.store.mounted),
        };
        is_there || origins.has_copy(add, *zone)
    }

    fn has_older(&self, before: u64) -> bool {
        self.victim.oldest < before
    }
}

/// The opening of a zone among these.
fn place_of(zones: &[Present], zone: u32) -> Option<u64> {
    let at = zones.binary_search_by_key(&zone, |other| other.zone).ok()?;
    zones.get(at).map(|other| other.opening)
}

impl Store {
    /// Makes a step of a shard's work; whether there was something to do.
    pub(crate) fn step(&self, stepper: &mut Stepper, objects: &dyn Objects) -> bool {
        let Some(mut victim) = stepper.victim.take().or_else(|| self.choose(stepper)) else { return false };
        let done = self.parse(&mut victim, stepper, objects).and_then(|is_parsed| match is_parsed {
            true => self.free_victim(&victim).map(|()| true),
            false => Ok(false),
        });
        let key = (victim.zone, victim.opening);
        match done {
            Ok(false) => {
                stepper.victim = Some(victim);
                return true;
            }
            Ok(true) => {
                stepper.copied += u64::from(victim.copied);
                stepper.gained += u64::from(self.geometry.record_lines().saturating_sub(victim.copied));
            }
            Err(Stop::Damaged) => _ = self.steps.claims.lock().refused.insert(key),
            Err(Stop::Moved | Stop::NoPlace) => {}
        }
        self.steps.claims.lock().taken.remove(&key);
        !matches!(done, Err(Stop::NoPlace))
    }

    /// The zone that was opened first of those that no shard writes or works on, if cleaning gains enough.
    fn choose(&self, stepper: &mut Stepper) -> Option<Victim> {
        let (lines, spent) = (u64::from(self.geometry.record_lines()), (stepper.copied, stepper.gained));
        (stepper.copied, stepper.gained) = if spent.0 > 2 * (spent.1 + lines) { (0, 0) } else { spent };
        if spent != (stepper.copied, stepper.gained) {
            return None;
        }
        let cleanings = self.logs.cleanings.load(Relaxed);
        let (known, zones) = (self.logs.origins.zones(), self.zones.log_zones());
        // Locked in turn, which is what S1 wants.
        let open: Vec<_> = self.logs.tails.iter().filter_map(|tail| tail.lock().open).collect();
        let is_sealed = |zone: &&Present| open.iter().all(|at| at.zone != zone.zone);
        let sealed = zones.iter().filter(is_sealed).count() as u64;
        let written = sealed * lines + open.iter().map(|at| u64::from(at.line)).sum::<u64>();
        let dead = written.saturating_sub(self.zones.live_lines());
        if dead < (written / 4).max(lines) {
            return None;
        }
        // Those of all adds that records of sealed zones name: what a shard opened meanwhile is among them.
        let present = self.zones.log_zones();
        let is_there = |zone: u32, opening| place_of(&present, zone) == Some(opening);
        self.logs
            .origins
            .forget(|zone, opening| !known.contains(&(zone, opening)) || is_there(zone, opening));
        self.steps.claims.lock().refused.retain(|(zone, opening)| is_there(*zone, *opening));
        let mut sealed: Vec<_> = zones.iter().filter(is_sealed).collect();
        sealed.sort_unstable_by_key(|zone| zone.opening);
        let Present { zone, opening, .. } = *sealed.into_iter().find(|zone| self.claim(zone))?;
        let others: Vec<_> = present.into_iter().filter(|other| other.zone != zone).collect();
        let oldest = others.iter().map(|other| other.opening).min().unwrap_or(u64::MAX);
        let (seal, line, gap, torn, end, copied) = (self.seal(opening), 0, None, None, 0, 0);
        let is_batch = false;
        Some(Victim {
            zone,
            opening,
            seal,
            line,
            cleanings,
            others,
            oldest,
            gap,
            torn,
            is_batch,
            end,
            copied,
        })
    }

    /// Claims a zone that was listed; false: another shard works on it or has freed it since, or it cannot be emptied.
    fn claim(&self, listed: &Present) -> bool {
        let key = (listed.zone, listed.opening);
        let mut claims = self.steps.claims.lock();
        if claims.refused.contains(&key) || !claims.taken.insert(key) {
            return false;
        }
        drop(claims);
        // A shard gives its claim back behind the free zone: what is there now stays until this shard frees it.
        let is_there =
            self.zones.is_log(listed.zone, listed.opening) || self.rules.lacks(mutant::VICTIM_OF_OLD_LIST);
        if !is_there {
            self.steps.claims.lock().taken.remove(&key);
        }
        is_there
    }

    /// Whether all logs were cleaned at once since a victim was chosen. The log of the shard is locked.
    fn is_moved(&self, victim: &Victim) -> bool {
        self.logs.cleanings.load(Relaxed) != victim.cleanings
            && !self.rules.lacks(mutant::STEP_BESIDE_CLEANER)
    }

    /// Loads lines of a victim, from the one that is parsed next on.
    fn load_lines(&self, victim: &Victim, bytes: &mut Vec<u8>, lines: u32) -> Result<(), Stop> {
        bytes.resize(lines as usize * LINE, 0);
        let at = self.geometry.zone_at(victim.zone) + u64::from(victim.line) * LINE as u64;
        self.region.load(at, bytes).map_err(|_| Stop::Damaged)?;
        charge_for(bytes.len());
        Ok(())
    }

    /// Parses some lines of a victim, and copies what is live; whether all of it is parsed.
    fn parse(&self, victim: &mut Victim, stepper: &mut Stepper, objects: &dyn Objects) -> Result<bool, Stop> {
        let mut bytes = std::mem::take(&mut stepper.bytes);
        let done = self.parse_lines(victim, stepper, &mut bytes, objects);
        stepper.bytes = bytes;
        done
    }

    fn parse_lines(
        &self,
        victim: &mut Victim,
        stepper: &mut Stepper,
        bytes: &mut Vec<u8>,
        objects: &dyn Objects,
    ) -> Result<bool, Stop> {
        let records = self.next_records(victim, bytes)?;
        let is_parsed = victim.line >= self.geometry.record_lines();
        let ends_before = |left: u32| victim.end < left;
        let end = self.logs.origins.end_of(victim.zone, victim.opening);
        if is_parsed && end.is_some_and(ends_before) || end.is_some_and(|end| victim.lacks_copies_before(end))
        {
            return Err(Stop::Damaged);
        }
        self.keep(victim, stepper, &records, objects)?;
        Ok(is_parsed)
    }

    /// The next records of a victim that count.
    fn next_records(&self, victim: &mut Victim, bytes: &mut Vec<u8>) -> Result<Vec<Record>, Stop> {
        let (begin, end) = (victim.line, self.geometry.record_lines());
        let mut loaded = (end - begin).min(STEP + RECORD_LINES_MAX as u32);
        self.load_lines(victim, bytes, loaded)?;
        if begin == 0 {
            victim.seal = victim.seal.of_zone(bytes).ok_or(Stop::Damaged)?;
        }
        let mut records = Vec::with_capacity(STEP as usize);
        while victim.line < end && victim.line - begin < STEP {
            let (line, at) = (victim.line, (victim.line - begin) as usize * LINE);
            let (record, lines) = match Record::decode(&bytes[at..], victim.seal, line) {
                Ok((record, lines)) => (record, lines as u32),
                Err(Refused::NotSealed) => {
                    victim.gap.get_or_insert(line);
                    victim.line += 1;
                    continue;
                }
                Err(_) => return Err(Stop::Damaged),
            };
            sim::work(Work::STEP, 1);
            let group = u32::from(record.group);
            victim.note(line, lines, &record)?;
            victim.end = line + lines;
            if group > 0 && record.part == 0 && line - begin + group > loaded && line + group <= end {
                if line > begin {
                    // The next step begins with the group.
                    break;
                }
                loaded = group;
                self.load_lines(victim, bytes, loaded)?;
            }
            let members = match group {
                0 => vec![(record, lines)],
                _ if record.part > 0 => Vec::new(),
                _ => group_at(&bytes[at..], victim.seal, line, group),
            };
            victim.line += if members.is_empty() { lines } else { 0 };
            for (record, lines) in members {
                if matches!(record.body, Body::Void(_)) {
                    return Err(Stop::Damaged);
                }
                records.push(record);
                victim.line += lines;
            }
        }
        Ok(records)
    }

    /// Copies what of these records is live.
    fn keep(
        &self,
        victim: &mut Victim,
        stepper: &mut Stepper,
        records: &[Record],
        objects: &dyn Objects,
    ) -> Result<(), Stop> {
        let (shard, end) = (self.shard(), self.geometry.record_lines());
        let mut rest = records;
        loop {
            let beside = Beside { store: self, objects, victim };
            let asked = rest.iter().enumerate();
            let mut copies = asked.filter_map(|(at, record)| Some((at, live(record, &beside)?))).peekable();
            let Some(first) = copies.peek().map(|(_, copy)| copy.lines() as u32) else { return Ok(()) };
            let copies: Vec<_> = copies.collect();
            let mut tail = self.logs.tails[shard].lock();
            if self.is_moved(victim) {
                return Err(Stop::Moved);
            }
            let Some(at) = tail.open.filter(|at| at.line + first <= end) else {
                if !self.zones.has_room(Want::Removals) {
                    return Err(Stop::NoPlace);
                }
                let at = self.open_zone(&mut tail, shard, Want::Copies)?;
                self.region.fence();
                stepper.place = Some(at.opening);
                continue;
            };
            if stepper.place != Some(at.opening) {
                stepper.place = Some(at.opening);
                continue;
            }
            let (last, batch, lines) = self.batch(copies, end - at.line);
            let call = Call { want: Want::Copies, after: 0, makes: false, needs: &[] };
            self.append_records(&mut tail, shard, call, &batch)?;
            if !self.rules.lacks(mutant::CLEANED_BEFORE_FENCE) {
                self.region.fence();
            }
            // Some of it may be dead already, which no other count has.
            tail.soft += u64::from(lines);
            victim.copied += lines;
            rest = &rest[last + 1..];
        }
    }

    /// The first of these copies that are stored under one fence, in so many lines at most: the index of the last one, they
    /// themselves, and their lines. Each says which lines before it are of them, so that a crash that leaves only some of these
    /// is told from damage; in a pool without such batches it is one.
    fn batch(&self, copies: Vec<(usize, Record)>, room: u32) -> (usize, Vec<Record>, u32) {
        let most = if self.geometry.batches { usize::MAX } else { 1 };
        let (mut last, mut batch, mut lines) = (0, Vec::new(), 0);
        for (at, mut copy) in copies.into_iter().take(most) {
            let more = copy.lines() as u32;
            if lines + more > room {
                break;
            }
            if self.geometry.batches && !self.rules.lacks(mutant::BATCH_UNMARKED) {
                copy.batch = lines as u16 + 1;
            }
            lines += more;
            last = at;
            batch.push(copy);
        }
        (last, batch, lines)
    }

    /// Frees a victim that is parsed.
    fn free_victim(&self, victim: &Victim) -> Result<(), Stop> {
        debug_assert!(
            self.is_emptied(victim.zone, victim.cleanings),
            "a zone is freed with records that are live"
        );
        let tail = self.logs.tails[self.shard()].lock();
        if self.is_moved(victim) {
            return Err(Stop::Moved);
        }
        self.free_zones(&[victim.zone])?;
        self.logs.changed.store(true, Relaxed);
        drop(tail);
        sim::count(&parts::EMPTIED, 1);
        Ok(())
    }
}

impl Victim {
    /// Whether it lacks a line of a batch before the one where its shard left it, which so was durable.
    fn lacks_copies_before(&self, left: u32) -> bool {
        self.is_batch && self.gap.is_some_and(|gap| gap < left)
    }

    /// Judges a record by the lines before it that hold none.
    fn note(&mut self, line: u32, lines: u32, record: &Record) -> Result<(), Stop> {
        let Some(gap) = self.gap else { return Ok(()) };
        let operation = record.operation(line, lines);
        let is_torn = operation.contains(&gap) && self.torn.is_none_or(|torn| torn == operation.start);
        if !is_torn {
            return Err(Stop::Damaged);
        }
        self.torn = Some(operation.start);
        self.is_batch = record.batch > 0;
        Ok(())
    }
}

/// The records of a group that begins with these bytes, each with its lines; none if it is not whole.
fn group_at(bytes: &[u8], seal: Seal, line: u32, group: u32) -> Vec<(Record, u32)> {
    let (mut members, mut at): (Vec<(Record, u32)>, u32) = (Vec::new(), 0);
    while at < group {
        let rest = bytes.get(at as usize * LINE..).unwrap_or_default();
        let Ok((record, lines)) = Record::decode(rest, seal, line + at) else { return Vec::new() };
        let is_member = u32::from(record.group) == group
            && u32::from(record.part) == at
            && members.first().is_none_or(|first| first.0.id == record.id);
        if !is_member {
            return Vec::new();
        }
        members.push((record, lines as u32));
        at += lines as u32;
    }
    if at == group { members } else { Vec::new() }
}
