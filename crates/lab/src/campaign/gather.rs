//! What the shards have come to: every file is read, verified and trusted for its samples only, and each cell counts once.

use std::collections::{BTreeMap, BTreeSet};

use results::{CostRecord, Environment, HostFacts, ResultFile, Sample};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::folder::{Attempt, Campaign, Kind};
use super::{Error, Fault, ranges};
use crate::canonical;
use crate::cells::{self, Cell, Cost, Known};
use crate::plan::Plan;
use crate::runner::{CellToRun, Runner, Settings, Silent};

/// A cell that is there.
#[derive(Clone, Debug)]
pub struct Found<S = Sample> {
    /// The sample.
    pub sample: S,
    /// The hash of its bytes.
    pub hash: String,
    /// What it took.
    pub cost: Cost,
    /// Which host measured it.
    pub host: usize,
    /// Its file and line.
    pub place: String,
}

/// All cells that are there.
#[derive(Clone, Debug)]
pub struct Gathered<S = Sample> {
    /// By key.
    pub found: BTreeMap<String, Found<S>>,
    /// The hosts, in the order in which they were met.
    pub hosts: Vec<HostFacts>,
    /// Samples that came again, with the same bytes.
    pub repeated: usize,
}

/// Reads the shards, and refuses what is wrong in any of them; with `partial` shards may lack.
pub fn gather(campaign: &Campaign, cells: &[CellToRun], partial: bool) -> Result<Gathered, Error> {
    gather_by(campaign, cells, partial, &of_its_seed)
}

/// The same of records of another kind; `check` says what is wrong with the record of a cell.
pub fn gather_by<S: Serialize + DeserializeOwned>(
    campaign: &Campaign,
    cells: &[CellToRun],
    partial: bool,
    check: &dyn Fn(&CellToRun, &S) -> Result<(), String>,
) -> Result<Gathered<S>, Error> {
    let (attempts, others) = campaign.attempts()?;
    let mut gathering = Gathering {
        campaign,
        wanted: cells.iter().map(|cell| (cell.key.as_str(), cell)).collect(),
        check,
        gathered: Gathered { found: BTreeMap::new(), hosts: Vec::new(), repeated: 0 },
        faults: Vec::new(),
    };
    for path in others {
        gathering
            .faults
            .push(Fault::damaged(format!("{}: is no file of a shard: take it away", path.display())));
    }
    // Whole files are read first: a file that was left holds nothing that a whole one of the same shard must have.
    let mut attempts: Vec<_> =
        attempts.into_iter().filter(|one| partial || one.kind == Kind::Whole).collect();
    attempts.sort_by_key(|attempt| attempt.kind);
    attempts.iter().try_for_each(|attempt| gathering.read(attempt))?;
    if !partial {
        gathering.complain_of_missing();
    }
    match gathering.faults {
        faults if faults.is_empty() => Ok(gathering.gathered),
        mut faults => {
            faults.sort_by_key(|fault| std::cmp::Reverse(fault.kind));
            Err(Error::Refused(faults))
        }
    }
}

struct Gathering<'a, S> {
    campaign: &'a Campaign,
    wanted: BTreeMap<&'a str, &'a CellToRun>,
    check: &'a dyn Fn(&CellToRun, &S) -> Result<(), String>,
    gathered: Gathered<S>,
    faults: Vec<Fault>,
}

impl<S: Serialize + DeserializeOwned> Gathering<'_, S> {
    /// Takes the cells of a file.
    fn read(&mut self, attempt: &Attempt) -> Result<(), Error> {
        let path = attempt.path.display();
        let Some(contents) = cells::read_file_of(&attempt.path)? else {
            // One that was left may be as short as its process lived.
            if attempt.kind == Kind::Whole {
                self.faults.push(Fault::damaged(format!(
                    "{path}: is no file of cells: run shard {} again, by `weir campaign run DIR --missing`",
                    attempt.shard
                )));
            }
            return Ok(());
        };
        if let Err(fault) = self.campaign.check_head(attempt, &contents.head) {
            self.faults.push(fault);
            return Ok(());
        }
        if let Some((line, what)) = contents.wrong.filter(|_| attempt.kind == Kind::Whole) {
            self.faults.push(Fault::damaged(format!(
                "{path}:{line}: {what}; run shard {} again, by `weir campaign run DIR --missing`",
                attempt.shard
            )));
        }
        let host = self.host(contents.head.shard.map(|shard| shard.host).unwrap_or_default());
        let shard: BTreeSet<&String> = self.campaign.manifest.shards[attempt.shard].cells.iter().collect();
        for cell in contents.cells {
            let place = format!("{path}:{}", cell.line);
            match self.check(&cell, shard.contains(&cell.key)) {
                Err(what) => self.faults.push(Fault::damaged(format!("{place}: {what}"))),
                Ok(()) => self.take(cell, host, place),
            }
        }
        Ok(())
    }

    /// The number of a host.
    fn host(&mut self, host: HostFacts) -> usize {
        let hosts = &mut self.gathered.hosts;
        hosts.iter().position(|known| known.id == host.id).unwrap_or_else(|| {
            hosts.push(host);
            hosts.len() - 1
        })
    }

    /// A sample must be of its shard, and what its cell says.
    fn check(&self, cell: &Cell<S>, is_of_shard: bool) -> Result<(), String> {
        let wanted = self.wanted.get(cell.key.as_str()).filter(|_| is_of_shard);
        let wanted = wanted.ok_or_else(|| format!("the cell {} is not one of this shard", cell.key))?;
        (self.check)(wanted, &cell.sample).map_err(|what| format!("{}: {what}", wanted.title))
    }

    /// A cell that came before must have the same bytes.
    fn take(&mut self, cell: Cell<S>, host: usize, place: String) {
        let Cell { key, cost, sample, hash, .. } = cell;
        match self.gathered.found.get(&key) {
            None => {
                self.gathered.found.insert(key, Found { sample, hash, cost, host, place });
            }
            Some(known) if known.hash == hash => self.gathered.repeated += 1,
            Some(known) => {
                let title = self.wanted.get(key.as_str()).map_or("", |cell| cell.title.as_str());
                self.faults.push(Fault::damaged(format!(
                    "{title}: {} and {place} have two samples of one cell that differ{}: a build, a host or its memory is not what \
                     it says; find out which is right by --verify, and take the other file away",
                    known.place,
                    first_difference(&known.sample, &sample)
                )));
            }
        }
    }

    fn complain_of_missing(&mut self) {
        let shards = self.campaign.manifest.shards.iter().enumerate();
        let lacks = |key: &String| !self.gathered.found.contains_key(key);
        let (mut none, mut some) = (Vec::new(), Vec::new());
        for (number, shard) in shards {
            match shard.cells.iter().filter(|key| lacks(key)).count() {
                0 => {}
                count if count == shard.cells.len() => none.push(number),
                count => some.push((number, count)),
            }
        }
        if !none.is_empty() {
            self.faults.push(Fault::missing(format!(
                "{} of {} shards are not done: {}; run them by `weir campaign submit DIR --missing` or \
                 `weir campaign run DIR --missing`, or merge what is there by --partial",
                none.len(),
                self.campaign.manifest.shards.len(),
                ranges(&none)
            )));
        }
        for (number, count) in some {
            let what = format!("shard {number}: {count} of its cells are in none of its files: run it again");
            self.faults.push(Fault::damaged(what));
        }
    }
}

/// A sample must be of the repeat and seed of its cell, and whole.
fn of_its_seed(cell: &CellToRun, sample: &Sample) -> Result<(), String> {
    let CellToRun { repeat, seed, .. } = cell;
    let Sample { repeat: has, seed: from, partial, .. } = sample;
    if (has, from) != (repeat, &seed.0) {
        return Err(format!("is repeat {has} with seed {from}, not repeat {repeat} with seed {}", seed.0));
    }
    if *partial { Err("was cut short".to_owned()) } else { Ok(()) }
}

/// The first key at which two samples differ, with both values.
fn first_difference(one: &impl Serialize, two: &impl Serialize) -> String {
    fn walk(one: &Value, two: &Value, at: &str) -> Option<String> {
        match (one, two) {
            (Value::Object(a), Value::Object(b)) => {
                let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                let none = &Value::Null;
                keys.into_iter().find_map(|key| {
                    walk(a.get(key).unwrap_or(none), b.get(key).unwrap_or(none), &format!("{at}.{key}"))
                })
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                (0..a.len()).find_map(|at_item| walk(&a[at_item], &b[at_item], &format!("{at}[{at_item}]")))
            }
            (one, two) if one == two => None,
            (one, two) => {
                let short = |value: &Value| value.to_string().chars().take(40).collect::<String>();
                Some(format!(" (at {}: {} and {})", at.trim_start_matches('.'), short(one), short(two)))
            }
        }
    }
    let (one, two) = (serde_json::to_value(one), serde_json::to_value(two));
    walk(&one.unwrap_or_default(), &two.unwrap_or_default(), "").unwrap_or_default()
}

impl<S: Serialize> Gathered<S> {
    /// Processor time of all cells, each once.
    pub fn cpu_ns(&self) -> u64 {
        self.found.values().map(|found| found.cost.cpu_ns).sum()
    }

    /// So many of the cells that are there, drawn by the campaign's hash.
    pub fn drawn<'c>(&self, campaign: &Campaign, cells: &'c [CellToRun], count: usize) -> Vec<&'c CellToRun> {
        let mut drawn: Vec<&CellToRun> =
            cells.iter().filter(|cell| self.found.contains_key(&cell.key)).collect();
        drawn.sort_by_cached_key(|cell| canonical::sha256(format!("{} {}", campaign.digest, cell.key)));
        drawn.truncate(count);
        drawn
    }

    /// What is wrong where a run of the cell here has come to another sample.
    pub fn differs(&self, cell: &CellToRun, here: &S) -> Option<Fault> {
        let found = self.found.get(&cell.key)?;
        (hash_of(here) != found.hash).then(|| {
            Fault::damaged(format!(
                "{}: {} has another sample than a run here{}",
                cell.title,
                found.place,
                first_difference(&found.sample, here)
            ))
        })
    }

    /// The facts in which all hosts agree.
    pub fn environment(&self) -> Environment {
        shared(self.hosts.iter().map(|host| &host.environment))
    }
}

impl Gathered {
    /// The samples by the keys of their cells.
    pub fn known(&self) -> Known {
        self.found.iter().map(|(key, found)| (key.clone(), found.sample.clone())).collect()
    }

    /// What the cells of a plan took.
    fn costs<'k>(&self, keys: impl Iterator<Item = &'k String>) -> Vec<CostRecord> {
        let cost = |found: &Found| {
            let Cost { cpu_ns, wall_ns } = found.cost;
            CostRecord { host: found.host, cpu_ns, wall_ns }
        };
        keys.filter_map(|key| self.found.get(key)).map(cost).collect()
    }

    /// The results of the plans, in their order: what one machine would have given, with hosts and costs.
    pub fn results(&self, plans: &[Plan]) -> Result<Vec<ResultFile>, Error> {
        let mut runner = Runner::new(Settings::default(), &Silent);
        runner.know(self.known());
        let mut results = runner.assemble(plans)?;
        for (result, plan) in results.iter_mut().zip(plans) {
            result.costs = self.costs(Runner::keys(plan)?.iter());
            result.hosts.clone_from(&self.hosts);
            result.environment = self.environment();
        }
        Ok(results)
    }

    /// Runs that many of the cells again here, and refuses samples that differ.
    pub fn verify(
        &self,
        (campaign, plans): (&Campaign, &[Plan]),
        cells: &[CellToRun],
        count: usize,
        runner: &mut Runner<'_>,
    ) -> Result<Vec<String>, Error> {
        let drawn = self.drawn(campaign, cells, count);
        runner.measure_these(plans, &drawn.iter().map(|cell| cell.key.clone()).collect())?;
        let whole = |cell: &CellToRun| runner.sample(&cell.key).filter(|sample| !sample.partial);
        let faults: Vec<Fault> = drawn.iter().filter_map(|cell| self.differs(cell, whole(cell)?)).collect();
        let titles = drawn.iter().filter(|cell| runner.sample(&cell.key).is_some());
        let titles = titles.map(|cell| cell.title.clone()).collect();
        if faults.is_empty() { Ok(titles) } else { Err(Error::Refused(faults)) }
    }
}

fn hash_of(sample: &impl Serialize) -> String {
    canonical::sha256(serde_json::to_string(sample).expect("our records have string keys only"))
}

/// The facts in which all hosts agree.
fn shared<'e>(mut all: impl Iterator<Item = &'e Environment>) -> Environment {
    let document = |facts: &Environment| serde_json::to_value(facts).unwrap_or_default();
    let Some(mut shared) = all.next().map(document) else { return Environment::default() };
    for facts in all.map(document) {
        if let Value::Object(map) = &mut shared {
            map.retain(|key, value| facts.get(key) == Some(value));
        }
    }
    serde_json::from_value(shared).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_in_which_hosts_differ_are_left_out() {
        let host = |model: &str| Environment {
            weir_version: "1".into(),
            cpu_model: Some(model.into()),
            cores: Some(2),
            ..Environment::default()
        };
        let both = shared([host("a"), host("b")].iter());
        assert_eq!((both.weir_version.as_str(), both.cpu_model, both.cores), ("1", None, Some(2)));
        assert_eq!(shared([host("a"), host("a")].iter()), host("a"));
        assert_eq!(shared([].iter()), Environment::default());
    }

    #[test]
    fn the_first_difference_of_two_samples_is_told_with_both_values() {
        let (one, two) = (Sample { ops: 1, ..Sample::default() }, Sample { ops: 2, ..Sample::default() });
        assert_eq!(first_difference(&one, &two), " (at ops: 1 and 2)");
        assert_eq!(first_difference(&one, &one), "");
    }
}
