//! Reading a pool: every record that may count.
//!
//! It does not mark its reads as those of a recovery, of which a lint wants that the crash has guaranteed them (L8): records, words
//! and superblocks have checks of their own, which tell what is whole.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use design::FsError;
use media::nvmm::Region;
use sim::TaskSpec;

use crate::format::clean::Present;
use crate::format::merge::merge;
use crate::format::mutant::Rules;
use crate::format::record::{Previous, Seal};
use crate::format::sieve::Facts;
use crate::format::superseded::drop_superseded;
use crate::format::tree::Tree;
use crate::format::zone::{Damage, Log, lost_ends};
use crate::store::parity;
use crate::store::zone_table::{self, Table};

/// Tasks that read zones side by side, at most.
const READERS_MAX: usize = 16;

/// Times that a mount reads the logs through the sieve, at most, before it keeps all records.
const PASSES: u32 = 3;

/// A pool as a mount reads it.
pub(crate) struct Loaded {
    table: Table,
    pub(crate) log: Log,
    pub(crate) tree: Tree,
}

impl Deref for Loaded {
    type Target = Table;
    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Loaded {
    /// With the tree that the records lead to.
    fn merged(mut self, rules: Rules) -> Self {
        self.tree = merge(&self.log.records, &BTreeSet::new(), rules);
        self
    }

    /// Where the log of each shard ended: its last zone.
    pub(crate) fn ends(&self) -> Vec<Option<Previous>> {
        let mut ends: Vec<Option<Previous>> = vec![None; self.superblock.shards as usize];
        for (zone, opening, lines) in &self.log.ends {
            let word = self.words.get(*zone as usize).copied().flatten();
            let Some(end) = word.and_then(|word| ends.get_mut(usize::from(word.shard))) else { continue };
            // What is left of a batch behind a gap lies behind the end that the next zone notes.
            let gap = self.log.torn.iter().find(|torn| (torn.0, torn.1) == (*zone, *opening));
            let lines = gap.map_or(lines, |(_, _, gap)| gap);
            if end.is_none_or(|end| end.opening < *opening) {
                *end = Some(Previous { zone: *zone, opening: *opening, lines: *lines as u16 });
            }
        }
        ends
    }
}

/// Reads a pool, without judging it.
pub(crate) fn load(region: &Arc<Region>, rules: Rules) -> Result<Loaded, FsError> {
    Ok(load_logs(region, zone_table::load(region)?, rules, None)?.0.merged(rules))
}

/// Reads the logs of a pool that is mounted: of the records those that may count.
pub(crate) fn load_sieved(region: &Arc<Region>, table: Table, rules: Rules) -> Result<Loaded, FsError> {
    // Inodes of which a pass has dropped records that count: the next one keeps them.
    let (mut table, mut spared) = (table, BTreeSet::new());
    let mut pass = if rules.sieves() { 0 } else { PASSES };
    while pass < PASSES {
        let (mut loaded, facts) = load_logs(region, table, rules, Some(&spared))?;
        pass = match facts.settle(&loaded.log.records) {
            Ok(sieve) => {
                loaded.log.records.retain_mut(|found| sieve.keeps(found));
                drop_superseded(&mut loaded.log.records, rules);
                return Ok(loaded.merged(rules));
            }
            Err(missed) if missed.is_empty() => PASSES,
            Err(missed) => {
                spared.extend(missed);
                pass + 1
            }
        };
        table = loaded.table;
    }
    Ok(load_logs(region, table, rules, None)?.0.merged(rules))
}

/// Reads the logs; with `spared` without records about inodes that are gone, but for these, and what is known of them. A task
/// has at most twice the records that it keeps in memory, and those of two zones.
fn load_logs(
    region: &Arc<Region>,
    table: Table,
    rules: Rules,
    spared: Option<&BTreeSet<u64>>,
) -> Result<(Loaded, Facts), FsError> {
    let mut loaded = Loaded { table, log: Log::default(), tree: Tree::default() };
    let zones = loaded.present();
    let (geometry, secret) = (loaded.geometry, loaded.superblock.secret[0]);
    let (sieves, facts) = (spared.is_some(), Facts::new(spared.unwrap_or(&BTreeSet::new()), rules));
    let mut all_facts = facts.clone();
    let read = move |region: &Region, zones: &[Present]| -> Result<(Log, Facts), FsError> {
        let mut bytes = vec![0; geometry.zone_bytes as usize];
        let (mut all, mut facts) = (Log::default(), facts.clone());
        let mut kept = 0;
        for Present { zone, opening, .. } in zones {
            let (seal, mut log) =
                (Seal { secret, opening: *opening, keyed: geometry.keyed, nonce: 0, rules }, Log::default());
            parity::read_zone(region, &geometry, (*zone, seal), &mut bytes, &mut log)?;
            if sieves {
                facts.sift_zone(&mut log.records);
            }
            all.add(log);
            if sieves && all.records.len() > 2 * kept + geometry.record_lines() as usize {
                facts.sift_again(&mut all.records);
                drop_superseded(&mut all.records, rules);
                kept = all.records.len();
            }
        }
        Ok((all, facts))
    };
    for read in by_tasks(region, &loaded, &zones, read) {
        let (log, more) = read?;
        loaded.log.add(log);
        all_facts.add(more);
    }
    let lost: Vec<Damage> = lost_ends(loaded.log.records.iter(), (&loaded.log.ends, &loaded.log.torn), rules);
    loaded.log.damage.extend(lost);
    Ok((loaded, all_facts))
}

/// What `work` answers of shares of these zones, on each of which a task works; in the order of the zones. All tasks have ended.
pub(crate) fn by_tasks<J: Clone + Send + 'static, R: Send + 'static>(
    region: &Arc<Region>,
    table: &Table,
    zones: &[J],
    work: impl Fn(&Region, &[J]) -> R + Clone + Send + 'static,
) -> Vec<R> {
    let tasks = READERS_MAX.min(table.superblock.shards as usize).max(1);
    let mut shares = zones.chunks(zones.len().div_ceil(tasks).max(1));
    let first = shares.next().unwrap_or_default();
    let spawn = |(task, share): (u16, &[J])| {
        let (region, share, work) = (Arc::clone(region), share.to_vec(), work.clone());
        let spec = TaskSpec::named(format!("crest.read {task}")).on_core(task);
        sim::spawn(spec, move || work(&region, &share))
    };
    let others: Vec<_> = (1..).zip(shares).map(spawn).collect();
    let first = work(region, first);
    std::iter::once(first).chain(others.into_iter().map(sim::JoinHandle::join)).collect()
}
