//! All histories of a family, breadth first: so the first violation that is found is a shortest one.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use fs::crest::format::layout::LINE;
use fs::crest::format::mutant::Rules;
use fs::crest::format::record::Body;
use fs::crest::format::zone::Want;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::image::{Image, Unit};
use super::ops::{Call, Op};
use super::view::View;
use super::world::{Setup, World, forget_zones, read_log, show};

/// Histories over a few operations.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub name: &'static str,
    pub setup: Setup,
    /// What has happened before, and by which shard.
    pub start: Vec<(Op, usize)>,
    pub ops: Vec<Op>,
    /// Most crashes in a history after each of which it goes on.
    pub crashes: u8,
    /// Whether each line of the log is lost in turn.
    pub poison: bool,
    /// Whether all that waits must be gone when everything has been cleaned.
    pub quiet: bool,
    /// Depth of the short check and of the long one.
    pub depth: (usize, usize),
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub histories: u64,
    pub states: u64,
    pub images: u64,
    /// Moments with more pending stores than all of whose subsets are tried.
    pub sampled: u64,
}

/// A history that leads to something that is not allowed.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub steps: usize,
    pub text: String,
}

struct Node {
    world: World,
    want: View,
    crashes: u8,
    paths: u64,
    trace: Vec<String>,
}

impl Node {
    fn digest(&self) -> u64 {
        let mut hasher = FxHasher::default();
        let World { durable, pending, tails, supers, openings, inodes, now, ids, block_ids, bad, .. } =
            &self.world;
        (durable, pending, tails, supers, openings, inodes, now).hash(&mut hasher);
        (ids, block_ids, bad, self.world.mounted, &self.want, self.crashes).hash(&mut hasher);
        hasher.finish()
    }
}

/// Tries all histories of so many operations. `progress` is told of each finished depth.
pub(crate) fn explore(
    family: &Family,
    rules: Rules,
    depth: usize,
    progress: &mut dyn FnMut(usize, &Counts),
) -> Result<Counts, Violation> {
    forget_zones();
    let mut search = Search {
        family,
        rules,
        counts: Counts::default(),
        seen: FxHashMap::default(),
        shown: FxHashMap::default(),
        crashed: FxHashSet::default(),
    };
    let mut frontier = vec![search.start()];
    for level in 1..=depth {
        let mut next = Vec::new();
        for node in &frontier {
            search.expand(node, &mut next, level == depth)?;
        }
        frontier = next;
        progress(level, &search.counts);
    }
    Ok(search.counts)
}

struct Search<'a> {
    family: &'a Family,
    rules: Rules,
    counts: Counts,
    /// States by digest: where in the next level, to add paths.
    seen: FxHashMap<u64, usize>,
    /// Images, by digest and crashes left, from which histories went on.
    crashed: FxHashSet<(u64, u8)>,
    /// What images show, by digest: the same ones come up again and again.
    shown: FxHashMap<u64, Rc<Result<View, String>>>,
}

impl Search<'_> {
    fn start(&self) -> Node {
        let mut world = World::format(self.family.setup, self.rules);
        let mut want = View::new(1);
        for (op, shard) in &self.family.start {
            let done =
                Call { world: &mut world, want: &mut want, shard: *shard, between: Vec::new() }.run(*op);
            assert!(done.is_ok(), "{op:?} begins the family {}", self.family.name);
            world.reap(*shard as u8);
            world.fence(*shard as u8);
        }
        world.moments.clear();
        Node { world, want, crashes: self.family.crashes, paths: 1, trace: Vec::new() }
    }

    fn expand(&mut self, node: &Node, next: &mut Vec<Node>, last: bool) -> Result<(), Violation> {
        for op in &self.family.ops {
            for shard in 0..self.family.setup.shards {
                self.step(node, *op, shard, next, last)?;
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        node: &Node,
        op: Op,
        shard: usize,
        next: &mut Vec<Node>,
        last: bool,
    ) -> Result<(), Violation> {
        let (mut world, mut want) = (node.world.clone(), node.want.clone());
        let trace = |what: &str| {
            let step = format!("{op:?}@{shard}{what}");
            node.trace.iter().cloned().chain([step]).collect::<Vec<_>>()
        };
        let fail = |what: &str, text: String| Violation {
            steps: node.trace.len() + 1,
            text: format!("{}: {text}", trace(what).join(", ")),
        };
        world.moments.clear();
        let mut call = Call { world: &mut world, want: &mut want, shard, between: Vec::new() };
        let done = call.run(op);
        let between = call.between;
        if done.is_err() {
            return Ok(());
        }
        world.reap(shard as u8);
        world.note(true);
        self.counts.histories += node.paths;
        let seen = world.view().map_err(|error| fail("", error))?;
        if seen != want {
            return Err(fail("", difference(&seen, &[&want])));
        }
        let moments = std::mem::take(&mut world.moments);
        for moment in moments {
            let mut allowed = vec![&want];
            if !moment.after {
                allowed.push(&node.want);
                allowed.extend(&between);
            }
            let mut wrong = None;
            let all = moment.images(&mut |image| {
                let seen = self.recover(image, &allowed);
                let goes_on = node.crashes > 0 && !last && self.crashed.insert((image.digest, node.crashes));
                match seen.as_deref() {
                    Ok(Ok(want)) if goes_on => {
                        let world = World::recover(image.clone(), self.family.setup, self.rules);
                        let (want, crashes, trace) = (want.clone(), node.crashes - 1, trace(" crash"));
                        self.keep(Node { world, want, crashes, paths: node.paths, trace }, next);
                    }
                    Err(text) => wrong = wrong.take().or(Some(text.clone())),
                    _ => {}
                }
            });
            self.counts.sampled += u64::from(!all);
            if let Some(text) = wrong {
                return Err(fail(" crash", text));
            }
        }
        if self.family.poison {
            self.lose_lines(&world, &want).map_err(|text| fail("", text))?;
        }
        if self.family.quiet {
            quiesce(&world).map_err(|text| fail("", text))?;
        }
        if !last {
            self.keep(Node { world, want, crashes: node.crashes, paths: node.paths, trace: trace("") }, next);
        }
        Ok(())
    }

    fn keep(&mut self, node: Node, next: &mut Vec<Node>) {
        match self.seen.get(&node.digest()) {
            Some(index) => {
                if let Some(same) = next.get_mut(*index).filter(|same| same.digest() == node.digest()) {
                    same.paths += node.paths;
                }
            }
            None => {
                self.seen.insert(node.digest(), next.len());
                self.counts.states += 1;
                next.push(node);
            }
        }
    }

    /// Mounts an image, which must show one of the allowed states.
    fn recover(&mut self, image: &Image, allowed: &[&View]) -> Result<Rc<Result<View, String>>, String> {
        self.counts.images += 1;
        let shown = self.shown.entry(image.digest).or_insert_with(|| Rc::new(show(image, self.rules)));
        match &**shown {
            Ok(seen) if allowed.contains(&seen) => Ok(Rc::clone(shown)),
            Ok(seen) => Err(difference(seen, allowed)),
            Err(error) => Err(error.clone()),
        }
    }

    /// Loses each line of the log in turn: an older state must never be shown as if it were right.
    fn lose_lines(&mut self, world: &World, want: &View) -> Result<(), String> {
        let zones = world.present();
        let log = read_log(&world.current, &zones, self.rules);
        let noted = |zone: u32, opening: u64| {
            log.records.iter().any(|found| match &found.record.body {
                Body::Open(open) => {
                    open.previous.is_some_and(|last| (last.zone, last.opening) == (zone, opening))
                }
                _ => false,
            })
        };
        for (zone, opening, end) in &log.ends {
            let last =
                log.records.iter().filter(|found| found.zone == *zone).map(|found| found.record.id).max();
            for line in 0..*end {
                let of_last = log.records.iter().any(|found| {
                    found.zone == *zone
                        && Some(found.record.id) == last
                        && (found.line..found.line + found.lines).contains(&line)
                });
                // The end of a log that nothing follows cannot be told from a torn call.
                if of_last && !noted(*zone, *opening) {
                    continue;
                }
                let mut image = world.current.clone();
                let at = *zone as usize * image.zone_lines + line as usize;
                image.apply(&Unit::Line { at, bytes: [0xEE; LINE] });
                self.counts.images += 1;
                let lost = show(&image, self.rules);
                if lost.is_ok_and(|seen| seen != *want) {
                    return Err(format!("the loss of line {line} of zone {zone} shows an older state"));
                }
            }
        }
        Ok(())
    }
}

/// What the cleaner does by itself when zones run out. An error: it copied a zone of which nothing is gained.
pub(crate) fn make_room(world: &mut World, shard: usize) -> Result<(), String> {
    for _ in 0..4 * world.setup.zones {
        let zones = world.present();
        let survey = world.surveyed(&zones);
        let live: Vec<_> = world.sealed().iter().map(|zone| (*zone, survey.live_lines(*zone))).collect();
        let stock = world.stock();
        let Some(zone) = stock.victim(Want::Data, world.setup.zones as u32, &live, world.rules) else {
            return Ok(());
        };
        let least = live.iter().map(|(_, live)| *live).min().unwrap_or(0);
        if least >= stock.zone_lines {
            return Err(format!("the cleaner copies zone {zone}, all of which is live"));
        }
        while world.copy_next(shard, zone).unwrap_or(false) {}
        world.reap(shard as u8);
        world.fence(shard as u8);
    }
    Ok(())
}

/// Cleans everything, twice: then nothing may wait for anything.
fn quiesce(world: &World) -> Result<(), String> {
    let mut world = world.clone();
    for _ in 0..2 {
        for tail in &mut world.tails {
            tail.previous = tail.open.take().or(tail.previous);
        }
        for zone in world.sealed() {
            while world.copy_next(0, zone).map_err(|_| "no zone for the cleaner".to_owned())? {}
            world.reap(0);
            for task in 0..world.setup.shards {
                world.fence(task as u8);
            }
        }
    }
    world.survey();
    let zones = world.present();
    let (waiting, alone) = (world.surveyed(&zones), world.surveyed(&[]));
    let waits = (0..world.counting).find(|index| waiting.live(*index) != alone.live(*index));
    waits.map_or(Ok(()), |index| Err(format!("waits for ever: {:?}", world.found[index].record)))
}

fn difference(seen: &View, allowed: &[&View]) -> String {
    let want = allowed.first().expect("one state at least");
    for (ino, file) in &want.files {
        match seen.files.get(ino) {
            Some(other) if other != file => return format!("inode {ino} is {other:?}, not {file:?}"),
            _ => {}
        }
    }
    format!("shows {:?} {:?}, not {:?} {:?}", seen.names, seen.files.keys(), want.names, want.files.keys())
}
