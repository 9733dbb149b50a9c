//! What a campaign runs: plans with every default and the texts that they name, the build, and the cells of each shard. It is
//! written once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use results::InputRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::{Bytes, Clock, MIB, Nanos};

use super::{Error, Fault};
use crate::plan::Plan;
use crate::runner::{CellToRun, Runner};

/// The name of the format.
pub const SCHEMA: &str = "weir.campaign/1";

/// The least time of a shard: an engine spends about 0.25 s on starting a task (Slurm 22.05: 200 tasks of `true` on 4 slots in
/// 49 s), which must stay below a hundredth.
pub(crate) const LEAST_SHARD: Nanos = Nanos::from_secs(60);

/// What a process of the command fills beside the memory of its cells.
const PROGRAM: Bytes = Bytes(256 * MIB);

/// Everything that a campaign runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// What it is called: the names of its plans.
    pub name: String,
    /// The version of Weir.
    pub weir_version: String,
    /// The build that runs it ([`crate::environment::build`]).
    pub build: String,
    /// The processor and system that the build is for.
    pub target: String,
    /// The plans.
    pub plans: Vec<PlanRecord>,
    /// What is run instead of plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandRecord>,
    /// How long it will take.
    pub estimate: Estimate,
    /// The cells of each shard.
    pub shards: Vec<Shard>,
}

/// A plan with all that it names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The plan, as results have it.
    pub plan: Value,
    /// The texts that it names.
    pub inputs: Vec<InputRecord>,
}

/// A command whose cells the campaign runs: the build knows all that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRecord {
    /// Its words behind `weir`.
    pub arguments: Vec<String>,
    /// Of a check: how many programs are a cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_each: Option<usize>,
}

/// How long a campaign will take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Processor time of all cells, the likely least.
    pub low_ns: u64,
    /// The likely most.
    pub high_ns: u64,
    /// What it is computed from.
    pub basis: String,
}

/// Cells that are run together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// The keys of the cells, the longest first.
    pub cells: Vec<String>,
    /// Processor time that they are expected to take.
    pub cpu_ns: u64,
    /// Memory that the largest of them is expected to fill, and the command beside it.
    pub memory_bytes: u64,
}

impl Manifest {
    /// The plans, which can be run where the texts that they name are what they were; and whether all are of the virtual clock.
    pub fn plans(&self) -> Result<Vec<Plan>, Error> {
        self.plans.iter().map(|record| Ok(Plan::from_json(&record.plan)?)).collect()
    }

    /// How many cells there are, each once.
    pub fn cells(&self) -> usize {
        self.shards.iter().map(|shard| shard.cells.len()).sum()
    }

    /// Refuses plans whose cells are not those of the shards: their texts have changed, or the program.
    pub fn check(&self, cells: &[CellToRun]) -> Result<(), Error> {
        let here: BTreeSet<&str> = cells.iter().map(|cell| cell.key.as_str()).collect();
        let all = || self.shards.iter().flat_map(|shard| &shard.cells);
        let there: BTreeSet<&str> = all().map(String::as_str).collect();
        if here == there && all().count() == there.len() {
            return Ok(());
        }
        let changed = cells.iter().find(|cell| !there.contains(cell.key.as_str()));
        let which = changed.map_or("a cell".to_owned(), |cell| format!("the cell \"{}\"", cell.title));
        Err(Fault::foreign(format!(
            "{which} has another key here than the campaign has: campaign.json or a text of it was changed after \
             `weir campaign new`; make the campaign again in a new folder"
        ))
        .into())
    }
}

/// Refuses plans that cannot be shared among hosts.
pub fn admit(plans: &[Plan]) -> Result<(), Error> {
    if let Some(plan) = plans.iter().find(|plan| !plan.counters.is_none()) {
        return Err(crate::Error::Setting(format!(
            "plan {}: counts of events are of runs under a host's own clock, and are not shared among hosts: run it by `weir run` \
             on one",
            plan.name
        ))
        .into());
    }
    match plans.iter().find(|plan| plan.clock == Clock::Real) {
        None => Ok(()),
        Some(plan) => Err(crate::Error::Setting(format!(
            "plan {}: real-clock cells are not shared among hosts yet, because their times would be of several hosts: run it by \
             `weir run` on one, or give it clock = \"virtual\"",
            plan.name
        ))
        .into()),
    }
}

/// Into how many shards so much time is cut, `each` at least: no more than there are cells, one at least.
pub fn shards_of(cpu_ns: u64, each: Nanos, cells: usize) -> usize {
    let each = each.max(LEAST_SHARD);
    usize::try_from(cpu_ns.div_ceil(each.0)).unwrap_or(usize::MAX).clamp(1, cells.max(1))
}

/// Cells in that many shards, each with its expected time: the longest first, each to the shard that has least so far (R. L.
/// Graham, SIAM J. Appl. Math. 17, 1969: at most 4/3 of the best).
pub fn pack(cells: &[CellToRun], cpu_ns: &BTreeMap<String, u64>, count: usize) -> Vec<Shard> {
    let time = |cell: &CellToRun| cpu_ns.get(&cell.key).copied().unwrap_or_default();
    let mut order: Vec<&CellToRun> = cells.iter().collect();
    order.sort_by_key(|cell| (Reverse(time(cell)), &cell.key));
    let mut shards =
        vec![Shard { memory_bytes: PROGRAM.0, ..Shard::default() }; count.clamp(1, cells.len().max(1))];
    // Where times are equal, as those of nothing, the shard with fewest cells is next.
    let mut least: BinaryHeap<_> = (0..shards.len()).map(|at| Reverse((0, 0, at))).collect();
    for cell in order {
        let Some(Reverse((_, _, at))) = least.pop() else { break };
        let shard = &mut shards[at];
        shard.cells.push(cell.key.clone());
        shard.cpu_ns += time(cell);
        shard.memory_bytes = shard.memory_bytes.max(cell.memory.0.saturating_add(PROGRAM.0));
        least.push(Reverse((shard.cpu_ns, shard.cells.len(), at)));
    }
    shards
}

/// The cells of the plans, which are those of the manifest.
pub fn cells(manifest: &Manifest, plans: &[Plan]) -> Result<Vec<CellToRun>, Error> {
    let cells = Runner::cells(plans)?;
    manifest.check(&cells)?;
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    fn cell(number: u64) -> CellToRun {
        let (key, title, kind) = (format!("{number:04}"), format!("cell {number}"), "k".to_owned());
        CellToRun { key, title, kind, effort: number, memory: Bytes(number * MIB), repeat: 0, seed: Seed(1) }
    }

    #[test]
    fn five_thousand_cells_of_a_second_are_42_shards_of_two_minutes() {
        let each = Nanos::from_secs(120);
        assert_eq!(shards_of(5_000 * 1_000_000_000, each, 5_000), 42);
        assert_eq!(shards_of(1, each, 5_000), 1);
        assert_eq!(shards_of(u64::MAX, each, 7), 7, "no shard is empty");
        assert_eq!(shards_of(600_000_000_000, Nanos::from_secs(1), 5_000), 10, "a minute is the least");
    }

    #[test]
    fn every_cell_is_in_one_shard_and_shards_take_alike() {
        let cells: Vec<_> = (0..100).map(cell).collect();
        let times: BTreeMap<_, _> = cells.iter().map(|cell| (cell.key.clone(), cell.effort * 10)).collect();
        let shards = pack(&cells, &times, 7);
        let mut keys: Vec<&String> = shards.iter().flat_map(|shard| &shard.cells).collect();
        keys.sort();
        assert_eq!(keys, cells.iter().map(|cell| &cell.key).collect::<Vec<_>>());
        let (least, most) = (shards.iter().map(|s| s.cpu_ns).min(), shards.iter().map(|s| s.cpu_ns).max());
        assert!(most.unwrap() * 3 <= least.unwrap() * 4, "{least:?} {most:?}");
        assert!(shards.iter().any(|shard| shard.memory_bytes == (99 + 256) * MIB));
        assert!(
            pack(&cells, &BTreeMap::new(), 50).iter().all(|shard| shard.cells.len() == 2),
            "times that are not known"
        );
        assert_eq!(pack(&cells[..3], &times, 50).len(), 3, "no shard is empty");
    }
}
