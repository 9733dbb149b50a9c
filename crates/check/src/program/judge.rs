//! Which trees are judged, in which order, and what came of it.
//!
//! States are taken in turn from all points, first the ones that show most, so that no budget is spent on the first points. Their
//! trees are compared by hash; a tree is judged once for what was acknowledged, whichever models have it. Judgements run in
//! parallel, and what comes of them does not depend on how many at once.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::Bits;
use super::alike::{Promise, bucket, lost_at, site};
use super::checker::{Checker, Place, Verdict};
use super::folder::{FolderError, LeftOut, put, put_seen};
use super::model::Model;
use super::operations::{NEVER, Operations};
use super::points::{Point, points};
use super::states::{State, States};
use super::story::Story;
use super::tree::{Names, Trees};
use super::world::World;
use crate::tree::Tree;

/// What tells judgements apart: the hash of a tree, and how many acknowledgements had begun.
type Key = (u64, usize);

/// Judges trees.
pub trait Oracle: Sync {
    /// What it says of a state's tree, when so many acknowledgements had begun.
    fn judge(&self, of: &Asked<'_>) -> Result<Verdict, FolderError>;

    /// What it says of a tree that was seen on a design.
    fn judge_seen(&self, tree: &Tree, acks: usize, worker: usize) -> Result<Verdict, FolderError>;
}

/// A state whose tree is to be judged.
pub struct Asked<'a> {
    /// Trees of the program.
    pub trees: &'a Trees<'a>,
    /// The names of the state.
    pub names: &'a Names,
    /// The state.
    pub state: &'a State,
    /// Acknowledgements that had begun.
    pub acks: usize,
    /// A number of the worker.
    pub worker: usize,
}

/// The user's checker, on trees in folders.
pub struct ByCommand<'a> {
    /// The program.
    pub story: &'a Story,
    /// The command.
    pub checker: Checker,
    /// Where trees go.
    pub scratch: PathBuf,
    /// The one folder into which each of them goes, where that is asked for.
    pub root_at: Option<PathBuf>,
    /// Where the command runs.
    pub world: World,
    /// What had to be left out of trees.
    pub left_out: Mutex<LeftOut>,
}

impl ByCommand<'_> {
    /// Runs the command on a tree that `put` makes.
    fn on(
        &self,
        worker: usize,
        acks: usize,
        put: &dyn Fn(&Path) -> Result<LeftOut, FolderError>,
    ) -> Result<Verdict, FolderError> {
        let folder = self.scratch.join(worker.to_string());
        let failed = |error| FolderError::Io { path: folder.clone(), error };
        let place = Place::new(folder.clone(), self.root_at.as_deref()).map_err(failed)?;
        let left_out = put(place.tree());
        let told = acks.checked_sub(1).map_or(0, |last| self.story.acks[last].bytes);
        let judged = left_out.and_then(|left_out| {
            if left_out != LeftOut::default() {
                *self.left_out.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = left_out;
            }
            let run = |at: &Path| self.checker.run(&place, at, &self.story.told[..told]);
            self.world.within(worker, place.tree(), run).map_err(failed)
        });
        place.remove();
        judged
    }
}

impl Oracle for ByCommand<'_> {
    fn judge(&self, of: &Asked<'_>) -> Result<Verdict, FolderError> {
        self.on(of.worker, of.acks, &|folder| put(of.trees, of.names, of.state, folder))
    }

    fn judge_seen(&self, tree: &Tree, acks: usize, worker: usize) -> Result<Verdict, FolderError> {
        self.on(worker, acks, &|folder| put_seen(tree, folder))
    }
}

/// How far a search goes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Distinct trees of each model.
    pub states: usize,
    /// Time for each model.
    pub time: Duration,
    /// The seed of draws.
    pub seed: u64,
    /// Judgements at once.
    pub jobs: usize,
    /// Once it is set, no judgement begins.
    pub stop: Option<Arc<AtomicBool>>,
}

/// States that are looked at for each tree that may be judged.
const LOOKED: usize = 40;

/// A state that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// A number of the points.
    pub point: usize,
    /// What had persisted.
    pub state: State,
    /// Acknowledgements that had begun; none, where it is broken whatever was told.
    pub acks: usize,
    /// What the judge says.
    pub message: String,
    /// Operations that had begun at the earliest moment of the state and are lost.
    pub lost: usize,
}

impl Violation {
    /// The promise that is broken.
    pub fn promise(&self) -> Promise {
        if self.acks == 0 { Promise::Atomicity } else { Promise::Durability }
    }
}

/// What came of a model.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// The model.
    pub model: String,
    /// Crash points, and those that were left out.
    pub points: usize,
    /// Points of which no state was taken.
    pub points_left_out: usize,
    /// States that were looked at, some of them twice.
    pub states: usize,
    /// Distinct ones without those in which a piece is torn.
    pub sets: usize,
    /// Those in which one is.
    pub torn: usize,
    /// Legal states that there are, without torn ones; at least so many, if `is_counted` is false.
    pub legal: usize,
    /// Whether all of them were counted.
    pub is_counted: bool,
    /// Whether all legal states were looked at.
    pub is_exact: bool,
    /// Distinct trees.
    pub trees: usize,
    /// It was ended by its time.
    pub cut: bool,
    /// By kind: what is broken, at most [`KEPT`] each, and how many there were.
    pub violations: BTreeMap<Kind, (usize, Vec<Violation>)>,
    /// Faults of the checker, by message.
    pub faults: BTreeMap<String, usize>,
    /// Trees of which the checker said nothing.
    pub nothing: usize,
}

impl Explored {
    /// Takes for each point the legal sets that there are, if they are enumerated, and those that were looked at.
    fn count(&mut self, points: &[(Option<usize>, usize)]) {
        self.sets = points.iter().map(|(_, looked)| looked).sum();
        let all_of = |(legal, looked): &(Option<usize>, usize)| {
            legal.unwrap_or_else(|| (super::states::ALL_MAX + 1).max(*looked))
        };
        self.legal = points.iter().map(all_of).sum::<usize>().max(1);
    }
}

/// Facts that tell violations apart whose causes may differ, also where a checker says the same of all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The message, without numbers.
    pub said: String,
    /// The promise that is broken.
    pub promise: Promise,
    /// Names that are not there, of those of a crash that loses nothing: without numbers.
    pub gone: BTreeSet<String>,
    /// The call of the first operation that is lost.
    pub lost: String,
}

/// Violations of one kind that are kept: each may be reduced to its cause, which takes many judgements.
pub const KEPT: usize = 3;

/// Names of a kind, at most.
const GONE: usize = 8;

/// Judges trees, and remembers what came of them.
pub struct Judge<'a> {
    oracle: &'a dyn Oracle,
    memo: FxHashMap<Key, Verdict>,
    jobs: usize,
    stop: Option<Arc<AtomicBool>>,
    /// Judgements that were made.
    pub runs: usize,
}

/// A tree that waits for its judgement.
struct Waiting {
    key: Key,
    point: usize,
    state: State,
}

impl<'a> Judge<'a> {
    /// A judge that remembers nothing yet.
    pub fn new(oracle: &'a dyn Oracle, limits: &Limits) -> Self {
        let (jobs, stop) = (limits.jobs.max(1), limits.stop.clone());
        Self { oracle, memo: FxHashMap::default(), jobs, stop, runs: 0 }
    }

    fn goes_on(&self) -> Result<(), FolderError> {
        let stops = self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed));
        if stops { Err(FolderError::Interrupted) } else { Ok(()) }
    }

    /// What it says of one state.
    pub fn ask(&mut self, trees: &mut Trees<'_>, state: &State, acks: usize) -> Result<Verdict, FolderError> {
        let key = (trees.hash(state)?, acks);
        if let Some(known) = self.memo.get(&key) {
            return Ok(known.clone());
        }
        let verdict = self.anew(trees, state, acks)?;
        self.memo.insert(key, verdict.clone());
        Ok(verdict)
    }

    /// The same, whatever it has said before.
    pub fn anew(
        &mut self,
        trees: &mut Trees<'_>,
        state: &State,
        acks: usize,
    ) -> Result<Verdict, FolderError> {
        self.goes_on()?;
        let names = trees.names(&state.set);
        self.runs += 1;
        self.oracle.judge(&Asked { trees, names: &names, state, acks, worker: 0 })
    }

    fn all(&mut self, trees: &Trees<'_>, waiting: &[Waiting]) -> Result<(), FolderError> {
        let next = AtomicUsize::new(0);
        let (judge, oracle) = (&*self, self.oracle);
        let work = |worker: usize| -> Result<Vec<(Key, Verdict)>, FolderError> {
            let mut done = Vec::new();
            loop {
                judge.goes_on()?;
                let at = next.fetch_add(1, Relaxed);
                let Some(one) = waiting.get(at) else { return Ok(done) };
                let names = trees.names_of(&one.state.set);
                let asked = Asked { trees, names: &names, state: &one.state, acks: one.key.1, worker };
                done.push((one.key, oracle.judge(&asked)?));
            }
        };
        let done: Vec<Result<Vec<_>, FolderError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.jobs).map(|worker| scope.spawn(move || work(worker))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        for part in done {
            let part = part?;
            self.runs += part.len();
            self.memo.extend(part);
        }
        Ok(())
    }

    /// Searches the states of a model.
    pub fn explore(
        &mut self,
        story: &Story,
        operations: &Operations,
        model: &Model,
        limits: &Limits,
    ) -> Result<(Explored, Vec<Point>), FolderError> {
        let (points, points_left_out) = points(operations, model);
        let found = Found { story, operations, points: &points };
        let mut trees = Trees::new(story, operations, model.stale, model.tear);
        let mut explored = Explored {
            model: model.name.clone(),
            points: points.len(),
            points_left_out,
            is_exact: points_left_out == 0,
            is_counted: points_left_out == 0,
            ..Explored::default()
        };
        let mut search = Search { began: Instant::now(), seen: FxHashSet::default(), waiting: Vec::new() };
        let mut all: Vec<(usize, States<'_>)> = points
            .iter()
            .enumerate()
            .map(|(number, point)| (number, States::new(operations, model, point, limits.seed)))
            .collect();
        let mut legal: Vec<(Option<usize>, usize)> =
            all.iter().map(|(_, states)| (states.legal(), 0)).collect();
        explored.is_counted &= legal.iter().all(|(legal, _)| legal.is_some());
        explored.is_exact &= explored.is_counted;
        let mut sets: FxHashSet<u64> = FxHashSet::default();
        'search: while !all.is_empty() {
            let mut at = 0;
            while at < all.len() {
                let (point, states) = &mut all[at];
                let Some(state) = states.next_state() else {
                    all.remove(at);
                    continue;
                };
                at += 1;
                explored.states += 1;
                if state.torn.is_some() {
                    explored.torn += 1;
                } else if sets.insert(FxBuildHasher.hash_one((*point, &state.set))) {
                    legal[*point].1 += 1;
                }
                self.goes_on()?;
                let key = (trees.hash(&state)?, points[*point].acks);
                if search.seen.insert(key) {
                    search.waiting.push(Waiting { key, point: *point, state });
                }
                let is_full = search.seen.len() >= limits.states
                    || explored.states >= limits.states.saturating_mul(LOOKED);
                if search.waiting.len() >= 32 * self.jobs || is_full {
                    self.settle(&mut trees, &found, &mut search, &mut explored)?;
                }
                if is_full || search.began.elapsed() > limits.time {
                    explored.cut = !is_full;
                    explored.is_exact = false;
                    break 'search;
                }
            }
        }
        self.settle(&mut trees, &found, &mut search, &mut explored)?;
        explored.trees = search.seen.len();
        explored.count(&legal);
        drop(all);
        Ok((explored, points))
    }

    fn settle(
        &mut self,
        trees: &mut Trees<'_>,
        found: &Found<'_>,
        search: &mut Search,
        explored: &mut Explored,
    ) -> Result<(), FolderError> {
        let waiting = std::mem::take(&mut search.waiting);
        let (known, new): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|one| self.memo.contains_key(&one.key));
        self.all(trees, &new)?;
        let waiting: Vec<Waiting> = known.into_iter().chain(new).collect();
        self.untold(trees, &waiting)?;
        for one in waiting {
            match &self.memo[&one.key] {
                Verdict::Sound => {}
                Verdict::Nothing => explored.nothing += 1,
                Verdict::Fault(what) => *explored.faults.entry(what.clone()).or_default() += 1,
                Verdict::Broken(message) => {
                    let Waiting { point, state, key: (hash, acks), .. } = one;
                    // Broken whatever was told: then it is said without that.
                    let untold = match self.memo.get(&(hash, 0)) {
                        Some(Verdict::Broken(message)) => Some(message),
                        _ => None,
                    };
                    let (message, acks) =
                        untold.map_or((message.clone(), acks), |message| (message.clone(), 0));
                    let lost = lost_at(found.operations, &found.points[point], &state, acks).1.len();
                    let violation = Violation { point, state, acks, message, lost };
                    let kept = explored.violations.entry(found.kind_of(trees, &violation)).or_default();
                    kept.0 += 1;
                    keep(&mut kept.1, violation);
                }
            }
        }
        Ok(())
    }

    /// Judges what is broken once more, with nothing told.
    fn untold(&mut self, trees: &Trees<'_>, waiting: &[Waiting]) -> Result<(), FolderError> {
        let mut seen = FxHashSet::default();
        let mut asked = Vec::new();
        for one in waiting {
            let key = (one.key.0, 0);
            let is_broken = matches!(self.memo[&one.key], Verdict::Broken(_));
            if is_broken && !self.memo.contains_key(&key) && seen.insert(key) {
                asked.push(Waiting { key, point: one.point, state: one.state.clone() });
            }
        }
        self.all(trees, &asked)
    }
}

/// The facts by which violations are told apart.
struct Found<'a> {
    story: &'a Story,
    operations: &'a Operations,
    points: &'a [Point],
}

impl Found<'_> {
    fn kind_of(&self, trees: &mut Trees<'_>, violation: &Violation) -> Kind {
        let point = &self.points[violation.point];
        let mut whole = point.covered.clone();
        point.free.iter().for_each(|number| whole.add(*number));
        let (all, own) = (trees.names(&whole), trees.names(&violation.state.set));
        let own: FxHashSet<&[u32]> = own.paths.iter().map(|(path, _)| &path[..]).collect();
        let gone = all.paths.iter().filter(|(path, _)| !own.contains(&path[..])).take(GONE);
        let shown = |path: &[u32]| {
            let parts = path.iter().map(|name| String::from_utf8_lossy(&self.story.names[*name as usize]));
            bucket(&parts.collect::<Vec<_>>().join("/"))
        };
        let lost = point.free.iter().find(|number| !violation.state.set.has(**number));
        Kind {
            said: bucket(&violation.message),
            promise: violation.promise(),
            gone: gone.map(|(path, _)| shown(path)).collect(),
            lost: lost.map_or_else(String::new, |number| site(self.story, self.operations, *number)),
        }
    }
}

/// Keeps those in which the fewest operations are lost, and of these the earliest.
fn keep(kept: &mut Vec<Violation>, new: Violation) {
    let place = kept.iter().position(|old| (old.lost, old.point) > (new.lost, new.point));
    kept.insert(place.unwrap_or(kept.len()), new);
    kept.truncate(KEPT);
}

struct Search {
    began: Instant,
    seen: FxHashSet<Key>,
    waiting: Vec<Waiting>,
}

/// The state in which everything has persisted whose call has returned.
pub fn whole(operations: &Operations) -> State {
    let mut set = Bits::new(operations.all.len());
    let returned = operations.all.iter().enumerate().filter(|(_, micro)| micro.end_ns != NEVER);
    returned.for_each(|(number, _)| set.add(number as u32));
    State { set, torn: None }
}

/// The state in which nothing has.
pub fn nothing(operations: &Operations) -> State {
    State { set: Bits::new(operations.all.len()), torn: None }
}
