//! All small histories of the rules by which packages are written over (`docs/designs/wofs.md`).
//!
//! A history is a sequence of operations, each of which may be crashed at each of its fences with any subset of what is not fenced:
//! a package is old, torn or new. What programs see must be what they saw before or after the operation. Histories go on after a
//! crash. The packages, the merge and the ledger are those of the design; the device and the operations are small (`world`, `ops`).
//!
//! `WEIR_WOFS_SECONDS=60` tries longer histories for so many seconds a family.

mod ops;
mod world;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use design::Mutant;
use rand::RngExt;
use sim::Seed;
use wofs::layout::Kind;
use wofs::mutant::{self, Rules};

use ops::Op::{self, Append, Chmod, Create, Forge, Link, Pieces, Release, Rename, Truncate, Unlink, Write};
use ops::{Stop, step};
use world::{Setup, World};

const SEED: u64 = 20_261_129;

/// Histories over a few operations.
#[derive(Clone, Debug)]
struct Family {
    name: &'static str,
    setup: Setup,
    /// What has happened before.
    start: Vec<Op>,
    ops: Vec<Op>,
    /// Operations of all histories.
    depth: usize,
    /// A name can always be removed.
    removes: bool,
}

fn plain(blocks: u64, places: [u64; 4]) -> Setup {
    Setup { blocks, places, pool: false }
}

fn names() -> Vec<Op> {
    let (a, b, c) = (b'a', b'b', b'c');
    vec![
        Create(a),
        Create(b),
        Unlink(a),
        Unlink(b),
        Rename(a, b),
        Rename(b, a),
        Rename(a, c),
        Rename(c, b),
        Unlink(c),
        Link(a, c),
    ]
}

fn data(name: u8) -> Vec<Op> {
    let cuts = [0, 1, 2, 5].map(|cells| Truncate(name, cells));
    let writes = [(0, 1), (0, 2), (1, 1), (2, 1)].map(|(first, blocks)| Write(name, first, blocks));
    let others = [Create(name), Unlink(name), Pieces(name), Append(name), Chmod(name)];
    others.into_iter().chain(writes).chain(cuts).collect()
}

fn families() -> Vec<Family> {
    let (a, b) = (b'a', b'b');
    let family =
        |name, setup, ops, depth| Family { name, setup, start: Vec::new(), ops, depth, removes: false };
    let pool = |blocks| Setup { blocks, places: [0; 4], pool: true };
    let releases = |blocks| (0..blocks).map(Release);
    let cuts = vec![Write(a, 0, 2), Write(a, 2, 1), Write(a, 1, 1), Truncate(a, 2), Truncate(a, 4), Chmod(a)];
    let start = vec![Create(a), Write(a, 0, 2), Truncate(a, 2), Chmod(a), Truncate(a, 4)];
    vec![
        family("names", plain(1, [0, 2, 3, 0]), names(), 4),
        Family { removes: true, ..family("tight", plain(1, [0, 1, 3, 0]), names(), 4) },
        family("data", plain(6, [2, 1, 1, 3]), data(a), 3),
        family(
            "words",
            plain(5, [2, 1, 1, 1]),
            vec![Create(a), Append(a), Write(a, 0, 2), Write(a, 0, 1), Truncate(a, 0)],
            5,
        ),
        Family { start, ..family("cuts", plain(6, [3, 1, 1, 2]), cuts, 3) },
        family(
            "appends",
            plain(6, [2, 1, 2, 2]),
            [
                Append(a),
                Append(b),
                Write(b, 0, 1),
                Truncate(a, 1),
                Truncate(a, 4),
                Create(a),
                Create(b),
                Unlink(b),
            ]
            .into(),
            4,
        ),
        family(
            "pool",
            pool(6),
            [Create(a), Create(b), Unlink(a), Unlink(b), Write(a, 0, 1), Forge(a), Chmod(a)]
                .into_iter()
                .chain(releases(6))
                .collect(),
            4,
        ),
        family(
            "mixed",
            plain(7, [2, 2, 3, 3]),
            names().into_iter().chain(data(a)).chain(data(b)).collect(),
            2,
        ),
    ]
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    steps: u64,
    states: u64,
    crashes: u64,
}

impl Family {
    fn begin(&self, rules: Rules) -> World {
        let world = World::new(self.setup, rules);
        self.start.iter().fold(world, |world, op| step(&world, *op, 0).map_or(world, |(world, _)| world))
    }

    /// One step; an error is a violation with its history.
    fn step(&self, world: &World, op: Op, pick: usize, tried: &mut Tried) -> Result<Vec<World>, String> {
        let wrong = |what: &str| format!("{}: {}; {op:?}\n  {what}", self.name, world.trace.join("; "));
        match step(world, op, pick) {
            Ok((next, mut crashed)) => {
                tried.steps += 1;
                tried.crashes += crashed.len() as u64;
                crashed.push(next);
                Ok(crashed)
            }
            Err(Stop::Wrong(what)) => Err(wrong(&what)),
            Err(Stop::Full(Kind::Unlink)) if self.removes && matches!(op, Unlink(_)) => {
                Err(wrong("a name cannot be removed"))
            }
            Err(_) => Ok(Vec::new()),
        }
    }

    /// All histories of so many operations.
    fn all(&self, rules: Rules, depth: usize) -> Result<Tried, String> {
        let (mut tried, mut seen) = (Tried::default(), BTreeSet::new());
        let mut front = vec![self.begin(rules)];
        for _ in 0..depth {
            let mut next = Vec::new();
            for world in &front {
                for op in &self.ops {
                    for found in self.step(world, *op, 0, &mut tried)? {
                        let mut hasher = DefaultHasher::new();
                        found.fingerprint().hash(&mut hasher);
                        if seen.insert(hasher.finish()) {
                            next.push(found);
                        }
                    }
                }
            }
            front = next;
        }
        tried.states = seen.len() as u64;
        Ok(tried)
    }

    /// Random histories of 14 operations: so many, or as many as there is time for. A quarter of the steps go on from a crash.
    fn random(&self, rules: Rules, histories: u64, until: Option<Instant>) -> Result<Tried, String> {
        let mut tried = Tried::default();
        for history in 0..histories {
            if until.is_some_and(|until| Instant::now() > until) {
                break;
            }
            let mut rng = Seed(SEED).derive(self.name, history).rng();
            let mut world = self.begin(rules);
            for _ in 0..14 {
                let op = self.ops[rng.random_range(0..self.ops.len())];
                let mut found = self.step(&world, op, rng.random_range(0..64), &mut tried)?;
                if let Some(next) = found.pop() {
                    let crashed = !found.is_empty() && rng.random_range(0..4) == 0;
                    world = if crashed { found.swap_remove(rng.random_range(0..found.len())) } else { next };
                }
            }
        }
        Ok(tried)
    }
}

#[test]
fn all_small_histories_and_their_crashes_show_what_was_before_or_after_each_call() {
    let seconds = std::env::var("WEIR_WOFS_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    for family in families() {
        let tried = family.all(Rules::default(), family.depth).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{}: all of {} operations: {tried:?}", family.name, family.depth);
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let histories = if until.is_some() { u64::MAX } else { 150 };
        let random =
            family.random(Rules::default(), histories, until).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{}: random, seed {SEED}: {random:?}", family.name);
    }
}

/// Those that need longer stories than programs tell, or a device that is almost full; histories find all of the others that concern
/// packages alone, too.
const ONLY_HERE: [Mutant; 7] = [
    mutant::BIN_BY_LARGER,
    mutant::MEMBER_FREED_ALONE,
    mutant::NOT_ZEROED,
    mutant::RELEASE_UNFENCED,
    mutant::FREED_IN_PAIR,
    mutant::NO_BLANKING,
    mutant::PATCH_NOT_TAGGED,
];

/// Bugs in what is stored or fenced, or of several tasks, which only a mounted file system has.
const ELSEWHERE: [Mutant; 3] =
    [mutant::CRC_BEFORE_LAST_FIELD, mutant::BIT_UNFLUSHED, mutant::NUMBER_BEFORE_PLACE];

/// The families that are tried first.
fn first_families(mutant: Mutant) -> &'static [&'static str] {
    match mutant.name() {
        "no-blanking" => &["tight"],
        "patch-not-tagged" => &["words"],
        "attrs-freed-in-pair" => &["cuts"],
        "extent-not-reserved" => &["appends"],
        "container-not-zeroed" | "container-reused-unfenced" => &["pool"],
        "birth-ignored" => &["mixed", "data"],
        _ => &[],
    }
}

#[test]
fn histories_find_each_rule_that_is_left_out() {
    let wanted = std::env::var("WEIR_WOFS_MUTANT").unwrap_or_default();
    let mut missed = Vec::new();
    let all = mutant::ALL.iter().chain(&ONLY_HERE);
    for mutant in all.filter(|mutant| !ELSEWHERE.contains(mutant) && mutant.name().contains(&wanted)) {
        let rules = Rules::but(Some(*mutant));
        let first = first_families(*mutant);
        let mut all = families();
        all.sort_by_key(|family| !first.contains(&family.name));
        let shallow = all.iter().find_map(|family| family.all(rules, family.depth.min(3)).err());
        let found = shallow.or_else(|| all.iter().find_map(|family| family.random(rules, 2_000, None).err()));
        match found {
            Some(what) => println!("{}: {what}", mutant.name()),
            None => missed.push(mutant.name()),
        }
    }
    assert_eq!(missed, [""; 0]);
}

/// One operation again and again uses no more places than a few.
#[test]
fn places_return_by_reuse_alone() {
    let (a, b, c) = (b'a', b'b', b'c');
    let loops: &[(&[Op], &[Op])] = &[
        (&[Create(a), Write(a, 0, 2)], &[Write(a, 0, 1)]),
        (&[Create(a), Write(a, 0, 2)], &[Truncate(a, 2), Truncate(a, 4)]),
        (&[Create(a)], &[Chmod(a)]),
        (&[Create(a)], &[Rename(a, b), Rename(b, a)]),
        (&[Create(a), Link(a, c)], &[Rename(c, b), Rename(b, c)]),
        (&[Create(a)], &[Create(b), Rename(b, a)]),
        (&[Create(a)], &[Create(b), Unlink(b)]),
        (&[Create(a), Append(a)], &[Truncate(a, 0), Append(a), Chmod(a), Append(a)]),
    ];
    for (first, again) in loops {
        let mut world = World::new(plain(8, [4; 4]), Rules::default());
        let rounds = again.iter().cycle().take(40 * again.len());
        for op in first.iter().chain(rounds) {
            world = step(&world, *op, 0).unwrap_or_else(|stop| panic!("{again:?}: {stop:?}")).0;
        }
    }
}
