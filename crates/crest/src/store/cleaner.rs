//! The cleaner: frees log zones in which nothing is live, and empties others when zones run short.
//!
//! It runs in the call that finds no room, with the logs of all shards locked: no record is between its fence and its publication,
//! and no index in DRAM knows where a record lies, so a copy changes nothing there. It reads all records and asks `clean.rs` what
//! of each must be kept. Each copy has a fence of its own, because a crash that left a later one of two would look like damage.
//!
//! A crash may leave the last free zone with some copies of a zone that was being emptied, and nothing is appended to a zone of an
//! earlier mount. So where no zone is free, one is freed in which each record is a copy of one that another zone has.
//!
//! Lock order: `crest.log` of all shards, then `crest.orphans`, `crest.zones`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use sim::sync::Ordering::Relaxed;
use sim::{MutexGuard, Work};

use super::Store;
use super::alloc::Blocks;
use super::log::{Call, Tail, UNKNOWN};
use super::parity;
use crate::format::clean::{Present, Survey};
use crate::format::merge::merge;
use crate::format::mutant::{self, Rules};
use crate::format::record::{Body, Id};
use crate::format::sieve::{Facts, Sieve};
use crate::format::zone::{Damage, Found, Log, Use, Want, Word};
use crate::parts;
use base::error::{Error, Result};

/// A sealed zone: its records among all that were found, and the lines of what must be kept of them.
#[derive(Debug)]
struct Sealed {
    zone: u32,
    records: Range<usize>,
    lines: u32,
}

/// Passes of the cleaner, one after the other, that gain no zone: then it moves the same records about, and ends.
const PASSES: u32 = 4;

impl Store {
    /// Reads log zones. Damage is in what it answers.
    pub(crate) fn read_logs(&self, zones: &[Present]) -> Result<Log> {
        let mut log = Log::default();
        let mut bytes = sim::ran::zeroed(self.geometry.zone_bytes as usize);
        for Present { zone, opening, .. } in zones {
            let seal = self.seal(*opening);
            parity::read_zone(&self.region, &self.geometry, (*zone, seal), &mut bytes, &mut log)?;
        }
        self.losses.tell_computed(&log.computed);
        self.judge_torn(&mut log);
        Ok(log)
    }

    /// A batch of copies was durable where its shard has left the zone behind it: a line that is missing is no crash's.
    fn judge_torn(&self, log: &mut Log) {
        let left = |zone, opening| self.logs.origins.end_of(zone, opening).unwrap_or_default();
        let lost = log.torn.iter().filter(|(zone, opening, gap)| *gap < left(*zone, *opening));
        log.damage.extend(lost.map(|(zone, _, line)| Damage::Gap { zone: *zone, line: *line }));
    }

    /// The same without records that are dead for certain, and what is known of these then. `open`: inodes that live without a
    /// name.
    fn read_candidates(&self, zones: &[Present], open: &BTreeSet<u64>) -> Result<(Log, Option<Sieve>)> {
        if !self.rules.sieves() {
            return Ok((self.read_logs(zones)?, None));
        }
        let (mut all, mut facts) = (Log::default(), Facts::new(open, self.rules));
        let mut bytes = sim::ran::zeroed(self.geometry.zone_bytes as usize);
        for Present { zone, opening, .. } in zones {
            let (seal, mut log) = (self.seal(*opening), Log::default());
            parity::read_zone(&self.region, &self.geometry, (*zone, seal), &mut bytes, &mut log)?;
            facts.sift_zone(&mut log.records);
            all.add(log);
        }
        let Ok(sieve) = facts.settle(&all.records) else { return Ok((self.read_logs(zones)?, None)) };
        self.losses.tell_computed(&all.computed);
        self.judge_torn(&mut all);
        all.records.retain_mut(|found| sieve.keeps(found));
        Ok((all, Some(sieve)))
    }

    /// Cleans until there is room for a call that found none, or nothing is to be gained; whether there is room now, which another
    /// task may take first, or may have made. So a call that is refused has found no room, and cleaning could then gain less than
    /// a zone; and one that looks again has seen another task take what it had not.
    pub(crate) fn clean(&self, want: Want) -> Result<bool> {
        if self.rules.lacks(mutant::REFUSED_WHILE_CLEANING) && !self.logs.changed.swap(false, Relaxed) {
            return Ok(false);
        }
        if self.rules.lacks(mutant::REFUSED_UNCLEANED) {
            return Ok(false);
        }
        let _part = sim::part(&parts::CLEAN);
        let mut tails: Vec<_> = self.logs.tails.iter().map(sim::Mutex::lock).collect();
        if self.zones.has_room(want) {
            return Ok(true);
        }
        let died = (self.zones.gone() + tails.iter().map(|tail| tail.soft).sum::<u64>()).cast_signed();
        let dead = self.logs.quiet.load(Relaxed).saturating_add(died);
        let can_gain = self.zones.stock().can_gain(dead.max(0).cast_unsigned());
        if can_gain
            && (self.logs.changed.swap(false, Relaxed) || self.rules.lacks(mutant::REFUSED_WHILE_CLEANING))
        {
            let done = self.clean_locked(&mut tails, want, died);
            if done.is_err() || self.zones.has_room(want) {
                // It may have stopped before all was gained.
                self.logs.changed.store(true, Relaxed);
            }
            done?;
        }
        let has_room = self.zones.has_room(want);
        debug_assert!(
            has_room || self.gains_nothing(&mut tails, want),
            "a call is refused though a zone could be gained"
        );
        Ok(has_room)
    }

    /// Takes at most `most` neighbouring blocks.
    pub(crate) fn take_blocks(&self, most: u64) -> Result<Blocks> {
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        loop {
            match self.zones.take(self.shard(), most) {
                Err(Error::NoSpace) if self.clean(Want::Data)? => {}
                taken => return taken,
            }
        }
    }

    /// Whether cleaning would gain less than a zone, which a refusal says: for checks, and without a charge. It looks at each
    /// of the
    /// first refusals of a mount, and then at fewer and fewer.
    fn gains_nothing(&self, tails: &mut [MutexGuard<'_, Tail>], want: Want) -> bool {
        let refusals = 1 + self.logs.refusals.fetch_add(1, Relaxed);
        let gave_up = self.logs.quiet.load(Relaxed) == UNKNOWN;
        let is_looked_at = refusals < 8 || refusals.is_power_of_two();
        if gave_up || self.geometry.parity || !self.rules.are_all() || !is_looked_at {
            return true;
        }
        let zones = self.zones.log_zones();
        let Some(log) = self.peek_logs(&zones) else { return true };
        let tree = merge(&log.records, &self.orphans.lock().clone(), self.rules);
        let survey = Survey::new(&log.records, &tree, &zones, self.mounted, self.rules);
        let (mut sealed, _) = self.sealed(&log.records, &survey, &zones, tails);
        sealed.iter().all(|sealed| sealed.lines > 0)
            && self.victim(&mut sealed, want, &BTreeSet::new()).is_none()
    }

    /// Whether nothing in a zone is live by all records, which is so before a step frees it: for checks, and without a charge. It
    /// looks at the first zones of a mount, and then at fewer and fewer. `cleanings`: of the time when the zone was chosen.
    pub(crate) fn is_emptied(&self, zone: u32, cleanings: u64) -> bool {
        let emptied = 1 + self.logs.emptied.fetch_add(1, Relaxed);
        if self.geometry.parity || !self.rules.are_all() || emptied > 8 && !emptied.is_power_of_two() {
            return true;
        }
        let tails: Vec<_> = self.logs.tails.iter().map(sim::Mutex::lock).collect();
        let Some(mut log) = self.peek_logs(&self.zones.log_zones()) else { return true };
        // The zone with a copy may have been opened before: the shard writes it since.
        log.records.iter_mut().filter(|found| found.zone == zone).for_each(|found| found.opening = 0);
        let tree = merge(&log.records, &self.orphans.lock().clone(), self.rules);
        let zones = self.zones.log_zones();
        let survey = Survey::new(&log.records, &tree, &zones, self.mounted, self.rules);
        let is_moved = self.logs.cleanings.load(Relaxed) != cleanings;
        drop(tails);
        is_moved || survey.is_empty(zone)
    }

    /// The records of these zones, without a charge; none if they cannot be read, or are damaged.
    fn peek_logs(&self, zones: &[Present]) -> Option<Log> {
        let (mut log, mut bytes) = (Log::default(), vec![0; self.geometry.zone_bytes as usize]);
        for Present { zone, opening, .. } in zones {
            self.region.peek(self.geometry.zone_at(*zone), &mut bytes).ok()?;
            log.read_zone(*zone, self.seal(*opening), &bytes);
        }
        log.damage.is_empty().then_some(log)
    }

    /// Cleans with all logs locked. `died`: lines that may have died until then.
    fn clean_locked(&self, tails: &mut [MutexGuard<'_, Tail>], want: Want, died: i64) -> Result<()> {
        sim::count(&parts::CLEANED, 1);
        self.logs.cleanings.fetch_add(1, Relaxed);
        self.logs.quiet.store(UNKNOWN, Relaxed);
        // Other tasks take zones for data meanwhile, but none for records.
        let (mut least, mut without_gain) = (self.zones.log_zones().len(), 0);
        while without_gain < PASSES {
            let (done, left) = self.clean_once(tails, want, &BTreeSet::new())?;
            if !done {
                let quiet = left.map_or(UNKNOWN, |dead| i64::from(dead) - died);
                self.logs.quiet.store(quiet, Relaxed);
                break;
            }
            if self.zones.has_room(want) && self.zones.stock().free >= self.geometry.zones / 8 {
                break;
            }
            let logs = self.zones.log_zones().len();
            without_gain = if logs < least { 0 } else { without_gain + 1 };
            least = least.min(logs);
        }
        Ok(())
    }

    /// Empties these zones, whatever they hold: for repair. One that is empty may be opened again for the copies of another, and is
    /// not emptied once more.
    pub(crate) fn evacuate(&self, zones: &BTreeSet<u32>) -> Result<()> {
        let mut tails: Vec<_> = self.logs.tails.iter().map(sim::Mutex::lock).collect();
        self.logs.cleanings.fetch_add(1, Relaxed);
        let wanted = || self.zones.log_zones().into_iter().filter(|log| zones.contains(&log.zone));
        let first: BTreeSet<_> = wanted().map(|log| (log.zone, log.opening)).collect();
        loop {
            let left = wanted().filter(|log| first.contains(&(log.zone, log.opening)));
            let left: BTreeSet<u32> = left.map(|log| log.zone).collect();
            if left.is_empty() || !self.clean_once(&mut tails, Want::Copies, &left)?.0 {
                return Ok(());
            }
        }
    }

    /// Frees all empty zones, or else empties some for a call that wants one; whether it has done anything, and else the most
    /// lines of a zone that are dead
    /// or may die although no name and no block goes. `wanted`: zones that are emptied in any case, and whose damage is accepted.
    fn clean_once(
        &self,
        tails: &mut [MutexGuard<'_, Tail>],
        want: Want,
        wanted: &BTreeSet<u32>,
    ) -> Result<(bool, Option<u32>)> {
        let zones = self.zones.log_zones();
        let orphans = self.orphans.lock().clone();
        let (log, sieve) = self.read_candidates(&zones, &orphans)?;
        sim::work(Work::STEP, log.read);
        if wanted.is_empty() && !log.damage.is_empty() {
            return Ok((false, None));
        }
        let found: Vec<Found> = log.records;
        let tree = merge(&found, &orphans, self.rules);
        let forgets = self.from_saved && self.rules.lacks(mutant::IMAGE_WITHOUT_WAITS);
        let rules = if forgets { Rules::without(mutant::WAITS_FORGOTTEN) } else { self.rules };
        let survey = Survey::sieved(&found, &tree, &zones, sieve.as_ref(), (self.mounted, rules));
        let (mut sealed, dead) = self.sealed(&found, &survey, &zones, tails);
        let empty: Vec<_> = sealed.iter().filter(|sealed| sealed.lines == 0).map(|one| one.zone).collect();
        let mut any = !empty.is_empty();
        if any {
            self.free_zones(&empty)?;
            sealed.retain(|sealed| sealed.lines > 0);
        } else if self.zones.stock().free == 0
            && let Some(spare) = spare_copies(&found, &sealed)
        {
            // Of two copies the survey takes the later ones for live, which go now.
            self.free_zones(&[sealed[spare].zone])?;
            return Ok((true, None));
        }
        while let Some(victim) = self.victim(&mut sealed, want, wanted) {
            let mut order: Vec<usize> = victim.records.collect();
            order.sort_unstable_by_key(|index| Reverse((found[*index].record.id, found[*index].record.part)));
            for copy in order.into_iter().filter_map(|index| survey.live(index)) {
                let call = Call { want: Want::Copies, after: 0, makes: false, needs: &[] };
                let shard = self.shard();
                self.append_records(&mut tails[shard], shard, call, &[copy])?;
                if !self.rules.lacks(mutant::CLEANED_BEFORE_FENCE) {
                    self.region.fence();
                }
            }
            self.free_zones(&[victim.zone])?;
            any = true;
        }
        Ok((any, Some(dead)))
    }

    /// The sealed zones by number, and the most lines of a zone that are dead or may die although no name and no block goes.
    fn sealed(
        &self,
        found: &[Found],
        survey: &Survey<'_, Found>,
        zones: &[Present],
        tails: &[MutexGuard<'_, Tail>],
    ) -> (Vec<Sealed>, u32) {
        let open = |zone: u32| tails.iter().find_map(|tail| tail.open.filter(|at| at.zone == zone));
        let (mut known, mut from) = (BTreeMap::new(), 0);
        for records in found.chunk_by(|a, b| a.zone == b.zone) {
            known.insert(records[0].zone, from..from + records.len());
            from += records.len();
        }
        let (mut sealed, mut most) = (Vec::new(), 0);
        // One without a record: its Open was not stored, or nothing of it may count.
        for Present { zone, .. } in zones {
            let records = known.remove(zone).unwrap_or_default();
            let lines = |index: usize| (survey.lines(index), found[index].record.body.is_firm());
            let (all, firm) = records.clone().map(lines).fold((0, 0), |(all, firm), (lines, is_firm)| {
                (all + lines, firm + if is_firm { lines } else { 0 })
            });
            let written = open(*zone).map_or(self.geometry.record_lines(), |at| at.line);
            most = most.max(written.saturating_sub(1 + firm));
            if open(*zone).is_none() {
                sealed.push(Sealed { zone: *zone, records, lines: all });
            }
        }
        sealed.sort_unstable_by_key(|sealed| sealed.zone);
        (sealed, most)
    }

    /// Takes the zone that is emptied next.
    fn victim(&self, rest: &mut Vec<Sealed>, want: Want, wanted: &BTreeSet<u32>) -> Option<Sealed> {
        if let Some(place) = rest.iter().position(|sealed| wanted.contains(&sealed.zone)) {
            return Some(rest.swap_remove(place));
        }
        let live: Vec<_> = rest.iter().map(|sealed| (sealed.zone, sealed.lines)).collect();
        let zone = self.zones.stock().victim(want, self.geometry.zones, &live, self.rules)?;
        let place = rest.iter().position(|sealed| sealed.zone == zone)?;
        Some(rest.swap_remove(place))
    }

    /// Frees log zones in which nothing is live; durable on return, and only then they may be used.
    pub(crate) fn free_zones(&self, zones: &[u32]) -> Result<()> {
        for zone in zones {
            self.store_words(*zone, Word { usage: Use::Free, shard: 0, opening: 0 })?;
        }
        self.region.fence();
        for zone in zones {
            self.zones.free_log(*zone);
        }
        Ok(())
    }
}

/// The sealed zone that was opened last of those in which each record is a copy of one that another zone has, if none is empty.
fn spare_copies(found: &[Found], sealed: &[Sealed]) -> Option<usize> {
    let mut zones: BTreeMap<(Id, u16), BTreeSet<u32>> = BTreeMap::new();
    let records = || found.iter().filter(|found| !matches!(found.record.body, Body::Open(_)));
    for Found { zone, record, .. } in records() {
        zones.entry((record.id, record.part)).or_default().insert(*zone);
    }
    let alone: BTreeSet<u32> =
        zones.values().filter(|zones| zones.len() == 1).flat_map(|zones| zones.iter().copied()).collect();
    let opening = |zone: u32| found.iter().find(|found| found.zone == zone).map_or(0, |found| found.opening);
    let spare = (0..sealed.len()).filter(|place| !alone.contains(&sealed[*place].zone));
    let is_full = sealed.iter().all(|sealed| sealed.lines > 0);
    spare.max_by_key(|place| opening(sealed[*place].zone)).filter(|_| is_full)
}
