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

use super::Volume;
use super::clean::{Present, Survey};
use super::log::{Call, Tail, UNKNOWN};
use super::merge::merge;
use super::mutant::{self, Rules};
use super::parity;
use super::parts;
use super::record::{Body, Id};
use super::zone::{Found, Log, Use, Want, Word};
use base::error::Result;

/// A sealed zone: its records among all that were found, and the lines of what must be kept of them.
#[derive(Debug)]
struct Sealed {
    zone: u32,
    records: Range<usize>,
    lines: u32,
}

/// Passes of the cleaner, one after the other, that gain no zone: then it moves the same records about, and ends.
const PASSES: u32 = 4;

impl Volume {
    /// Reads log zones. Damage is in what it answers.
    pub(super) fn read_logs(&self, zones: &[Present]) -> Result<Log> {
        let mut log = Log::default();
        let mut bytes = sim::ran::zeroed(self.geometry.zone_bytes as usize);
        for Present { zone, opening, .. } in zones {
            let seal = self.seal(*opening);
            parity::read_zone(&self.region, &self.geometry, (*zone, seal), &mut bytes, &mut log)?;
        }
        self.tell_computed(&log.computed);
        Ok(log)
    }

    /// Frees what can be freed; whether a free zone has been gained. Nothing is done when no record was written since it was
    /// done last, or too little can have died since for a zone to be gained.
    pub(super) fn clean(&self) -> Result<bool> {
        if !self.logs.changed.swap(false, Relaxed) {
            return Ok(false);
        }
        let _part = sim::part(&parts::CLEAN);
        let before = self.zones.stock();
        let mut tails: Vec<_> = self.logs.tails.iter().map(sim::Mutex::lock).collect();
        let died = (self.zones.gone() + tails.iter().map(|tail| tail.soft).sum::<u64>()).cast_signed();
        let dead = self.logs.quiet.load(Relaxed).saturating_add(died);
        if !before.can_gain(dead.max(0).cast_unsigned()) {
            return Ok(false);
        }
        self.logs.quiet.store(UNKNOWN, Relaxed);
        let (mut most, mut without_gain) = (before.free, 0);
        while without_gain < PASSES {
            let (done, left) = self.clean_once(&mut tails, &BTreeSet::new())?;
            if !done {
                let quiet = left.map_or(UNKNOWN, |dead| i64::from(dead) - died);
                self.logs.quiet.store(quiet, Relaxed);
                break;
            }
            let free = self.zones.stock().free;
            without_gain = if free > most { 0 } else { without_gain + 1 };
            most = most.max(free);
        }
        Ok(self.zones.stock().free > before.free)
    }

    /// Empties these zones, whatever they hold: for repair.
    pub(super) fn evacuate(&self, zones: &BTreeSet<u32>) -> Result<()> {
        let mut tails: Vec<_> = self.logs.tails.iter().map(sim::Mutex::lock).collect();
        while self.clean_once(&mut tails, zones)?.0 {}
        Ok(())
    }

    /// Frees all empty zones, or else empties some; whether it has done anything, and else the most lines of a zone that are dead
    /// or may die although no name and no block goes. `wanted`: zones that are emptied in any case, and whose damage is accepted.
    fn clean_once(
        &self,
        tails: &mut [MutexGuard<'_, Tail>],
        wanted: &BTreeSet<u32>,
    ) -> Result<(bool, Option<u32>)> {
        let zones = self.zones.log_zones();
        let log = self.read_logs(&zones)?;
        sim::work(Work::STEP, log.records.len() as u64);
        if wanted.is_empty() && !log.damage.is_empty() {
            return Ok((false, None));
        }
        let found: Vec<Found> = log.records;
        let orphans = self.orphans.lock().clone();
        let tree = merge(&found, &orphans, self.rules);
        let forgets = self.from_image && self.rules.lacks(mutant::IMAGE_WITHOUT_WAITS);
        let rules = if forgets { Rules::without(mutant::WAITS_FORGOTTEN) } else { self.rules };
        let survey = Survey::new(&found, &tree, &zones, self.mounted, rules);
        let (mut sealed, dead) = self.sealed(&found, &survey, &zones, tails);
        let empty: Vec<_> = sealed.iter().filter(|sealed| sealed.lines == 0).map(|one| one.zone).collect();
        if !empty.is_empty() {
            self.free_zones(&empty)?;
            return Ok((true, None));
        }
        let mut any = false;
        while let Some(victim) = self.victim(&mut sealed, wanted) {
            let mut order: Vec<usize> = victim.records.collect();
            order.sort_unstable_by_key(|index| Reverse((found[*index].record.id, found[*index].record.part)));
            for copy in order.into_iter().filter_map(|index| survey.live(index)) {
                let call = Call { want: Want::Copies, after: 0, makes: false, needs: &[] };
                let shard = self.shard();
                self.append(&mut tails[shard], shard, call, &[copy])?;
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
        let (mut sealed, mut most, mut from) = (Vec::new(), 0, 0);
        for records in found.chunk_by(|a, b| a.zone == b.zone) {
            let zone = records[0].zone;
            let records = from..from + records.len();
            from = records.end;
            let lines = |index: usize| (survey.lines(index), found[index].record.body.is_firm());
            let (all, firm) = records.clone().map(lines).fold((0, 0), |(all, firm), (lines, is_firm)| {
                (all + lines, firm + if is_firm { lines } else { 0 })
            });
            let written = open(zone).map_or(self.geometry.record_lines(), |at| at.line);
            most = most.max(written.saturating_sub(1 + firm));
            if open(zone).is_none() {
                sealed.push(Sealed { zone, records, lines: all });
            }
        }
        // One without a record: its Open was not stored.
        let with: BTreeSet<u32> = sealed.iter().map(|sealed| sealed.zone).collect();
        let others = zones.iter().map(|zone| zone.zone);
        let others = others.filter(|zone| open(*zone).is_none() && !with.contains(zone));
        sealed.extend(others.map(|zone| Sealed { zone, records: 0..0, lines: 0 }));
        sealed.sort_unstable_by_key(|sealed| sealed.zone);
        if self.zones.stock().free == 0
            && let Some(spare) = spare_copies(found, &sealed)
        {
            sealed[spare].lines = 0;
        }
        (sealed, most)
    }

    /// Takes the zone that is emptied next.
    fn victim(&self, rest: &mut Vec<Sealed>, wanted: &BTreeSet<u32>) -> Option<Sealed> {
        if let Some(place) = rest.iter().position(|sealed| wanted.contains(&sealed.zone)) {
            return Some(rest.swap_remove(place));
        }
        let live: Vec<_> = rest.iter().map(|sealed| (sealed.zone, sealed.lines)).collect();
        let zone = self.zones.stock().victim(self.geometry.zones, &live, self.rules)?;
        let place = rest.iter().position(|sealed| sealed.zone == zone)?;
        Some(rest.swap_remove(place))
    }

    /// Frees log zones in which nothing is live; durable on return, and only then they may be used.
    fn free_zones(&self, zones: &[u32]) -> Result<()> {
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
