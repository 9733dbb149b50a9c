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

use std::collections::{BTreeMap, BTreeSet};

use sim::sync::Ordering::Relaxed;
use sim::{MutexGuard, Work};

use super::Volume;
use super::clean::{Present, Survey};
use super::log::{Call, Tail};
use super::merge::merge;
use super::mutant::{self, Rules};
use super::parity;
use super::parts;
use super::record::{Body, Id, Record};
use super::zone::{Found, Log, Use, Want, Word};
use crate::error::Result;

/// A sealed zone, and what must be kept of it, the newest first.
struct Sealed {
    zone: u32,
    copies: Vec<Record>,
}

impl Sealed {
    fn lines(&self) -> u32 {
        self.copies.iter().map(|copy| copy.lines() as u32).sum()
    }
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
    /// done last.
    pub(super) fn clean(&self) -> Result<bool> {
        if !self.logs.changed.swap(false, Relaxed) {
            return Ok(false);
        }
        let _part = sim::part(&parts::CLEAN);
        let before = self.zones.stock().free;
        let mut tails: Vec<_> = self.logs.tails.iter().map(sim::Mutex::lock).collect();
        let (mut most, mut without_gain) = (before, 0);
        while without_gain < PASSES && self.clean_once(&mut tails, &BTreeSet::new())? {
            let free = self.zones.stock().free;
            without_gain = if free > most { 0 } else { without_gain + 1 };
            most = most.max(free);
        }
        Ok(self.zones.stock().free > before)
    }

    /// Empties these zones, whatever they hold: for repair.
    pub(super) fn evacuate(&self, zones: &BTreeSet<u32>) -> Result<()> {
        let mut tails: Vec<_> = self.logs.tails.iter().map(sim::Mutex::lock).collect();
        while self.clean_once(&mut tails, zones)? {}
        Ok(())
    }

    /// Frees all empty zones, or else empties some; whether it has done anything. `wanted`: zones that are emptied in any case, and
    /// whose damage is accepted.
    fn clean_once(&self, tails: &mut [MutexGuard<'_, Tail>], wanted: &BTreeSet<u32>) -> Result<bool> {
        let mut sealed = self.survey(tails, wanted)?;
        let empty = |sealed: &Sealed| sealed.copies.is_empty();
        let (freed, rest): (Vec<_>, Vec<_>) = sealed.drain(..).partition(empty);
        if !freed.is_empty() {
            let zones: Vec<_> = freed.iter().map(|sealed| sealed.zone).collect();
            self.free_zones(&zones)?;
            return Ok(true);
        }
        let mut rest = rest;
        let mut any = false;
        while let Some(victim) = self.victim(&mut rest, wanted) {
            for copy in &victim.copies {
                let call = Call { want: Want::Copies, after: 0, makes: false, needs: &[] };
                let shard = self.shard();
                self.append(&mut tails[shard], shard, call, std::slice::from_ref(copy))?;
                if !self.rules.lacks(mutant::CLEANED_BEFORE_FENCE) {
                    self.region.fence();
                }
            }
            self.free_zones(&[victim.zone])?;
            any = true;
        }
        Ok(any)
    }

    /// The sealed zones with what must be kept of each.
    fn survey(&self, tails: &[MutexGuard<'_, Tail>], accepted: &BTreeSet<u32>) -> Result<Vec<Sealed>> {
        let zones = self.zones.log_zones();
        let log = self.read_logs(&zones)?;
        sim::work(Work::STEP, log.records.len() as u64);
        if accepted.is_empty() && !log.damage.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<Found> = log.records;
        let orphans = self.orphans.lock().clone();
        let tree = merge(&found, &orphans, self.rules);
        let forgets = self.from_image && self.rules.lacks(mutant::IMAGE_WITHOUT_WAITS);
        let rules = if forgets { Rules::without(mutant::WAITS_FORGOTTEN) } else { self.rules };
        let survey = Survey::new(&found, &tree, &zones, self.mounted, rules);
        let is_open = |zone: u32| tails.iter().any(|tail| tail.open.is_some_and(|at| at.zone == zone));
        let mut sealed: Vec<Sealed> = zones
            .iter()
            .filter(|zone| !is_open(zone.zone))
            .map(|zone| Sealed { zone: zone.zone, copies: Vec::new() })
            .collect();
        sealed.sort_unstable_by_key(|sealed| sealed.zone);
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_unstable_by_key(|index| {
            std::cmp::Reverse((found[*index].record.id, found[*index].record.part))
        });
        for index in order {
            let Ok(place) = sealed.binary_search_by_key(&found[index].zone, |sealed| sealed.zone) else {
                continue;
            };
            sealed[place].copies.extend(survey.live(index));
        }
        if self.zones.stock().free == 0
            && let Some(spare) = spare_copies(&found, &sealed)
        {
            sealed[spare].copies.clear();
        }
        Ok(sealed)
    }

    /// Takes the zone that is emptied next.
    fn victim(&self, rest: &mut Vec<Sealed>, wanted: &BTreeSet<u32>) -> Option<Sealed> {
        if let Some(place) = rest.iter().position(|sealed| wanted.contains(&sealed.zone)) {
            return Some(rest.swap_remove(place));
        }
        let live: Vec<_> = rest.iter().map(|sealed| (sealed.zone, sealed.lines())).collect();
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
    let is_full = sealed.iter().all(|sealed| !sealed.copies.is_empty());
    spare.max_by_key(|place| opening(sealed[*place].zone)).filter(|_| is_full)
}
