//! Every tree that a crash leaves on a design must be legal in the model of `check::program` that stands for it: else the model is
//! stronger than a file system, and a check of a user's program would call that sound which is not. A model that allows everything
//! would pass as well; so random trees that break a rule of all file systems, or of those with one order of names, must be refused,
//! each of them. The share of all random trees that a model refuses is printed beside, and is no bound.
//!
//! `WEIR_INCLUSION=500 cargo test -p weir-fs --test it inclusion:: -- --nocapture` takes so many programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::crash::Subject;
use check::program::Bits;
use check::program::designs::{Recovered, gather, size_for};
use check::program::members::Membership;
use check::program::model::Model;
use check::program::operations::Operations;
use check::program::story::{CallInfo, Deed, Done, Entry, Inode, Kind, Node, ROOT, Story, What};
use check::program::tree::Trees;
use rand::RngExt;
use sim::Seed;

use crate::shared::harness::subject;

const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
const CALLS: usize = 6;

fn node(kind: Kind) -> Node {
    Node {
        kind,
        mode: 0o644,
        target: None,
        initial: false,
        bytes: None,
        size: 0,
        attributes: BTreeMap::new(),
        path: String::new(),
        device: 0,
    }
}

/// A random program over three names of the root.
struct Random {
    story: Story,
    bound: [Option<Inode>; 3],
    sizes: Vec<u64>,
    /// What the first call writes, if it writes: each call has a letter of its own.
    letter: u8,
}

impl Random {
    fn new(seed: u64, letter: u8) -> Self {
        let mut random = Self { story: Story::default(), bound: [None; 3], sizes: vec![0, 0], letter };
        random.story.inodes = vec![node(Kind::Directory), node(Kind::Directory)];
        random.story.names = NAMES.iter().map(|name| (*name).into()).collect();
        let mut rng = Seed(seed).rng();
        while random.story.calls.len() < CALLS {
            let (kind, one, other) = (rng.random_range(0..8), rng.random_range(0..3), rng.random_range(0..3));
            let (at, len) = (rng.random_range(0..6000_u64), rng.random_range(1..5000_u64));
            if let Some((name, deed)) = random.deed((kind, one, other), (at, len)) {
                random.push(name, deed);
            }
        }
        random.story.end_ns = 1000 * (CALLS as u64 + 2);
        random
    }

    fn push(&mut self, name: &'static str, deed: Deed) {
        let call = self.story.calls.len() as u32;
        let begin_ns = 1000 * (u64::from(call) + 1);
        let (paths, range) = ([None, None], None);
        let (end_ns, stack) = (begin_ns + 100, Vec::new());
        let info = CallInfo { name, paths, range, thread: 1, line: 1, begin_ns, end_ns, stack };
        self.story.calls.push(info);
        self.story.deeds.push(Done { call, deed });
    }

    fn deed(
        &mut self,
        (kind, one, other): (u32, usize, usize),
        (at, len): (u64, u64),
    ) -> Option<(&'static str, Deed)> {
        let entry = |name: usize| -> Entry { (ROOT, name as u32) };
        let here = self.bound[one];
        Some(match (kind, here) {
            (0..=3, None) => {
                self.story.inodes.push(node(Kind::File));
                self.sizes.push(0);
                let inode = self.story.inodes.len() as Inode - 1;
                self.bound[one] = Some(inode);
                ("open", Deed::Make(entry(one), inode))
            }
            (0..=2, Some(inode)) => {
                let offset = at.min(self.sizes[inode as usize]);
                let letter = self.letter + self.story.calls.len() as u8;
                let bytes = self.story.blobs.add(vec![letter; len as usize]);
                let size = &mut self.sizes[inode as usize];
                *size = (*size).max(offset + len);
                ("write", Deed::Write { inode, offset, bytes, direct: false })
            }
            (3, Some(inode)) => {
                let size = at.min(self.sizes[inode as usize]);
                if size == self.sizes[inode as usize] {
                    return None;
                }
                self.sizes[inode as usize] = size;
                ("truncate", Deed::Size { inode, size })
            }
            (4, Some(inode)) => {
                self.bound[one] = None;
                ("unlink", Deed::Unlink(entry(one), inode))
            }
            (5, Some(inode)) if one != other && self.bound[other] != here => {
                let replaced = self.bound[other].replace(inode);
                self.bound[one] = None;
                (
                    "rename",
                    Deed::Rename { from: entry(one), to: entry(other), inode, replaced, exchange: false },
                )
            }
            (6, Some(inode)) => {
                let sync = What::File { inode, data_only: false, range: None, of_write: false };
                ("fsync", Deed::Sync(sync))
            }
            (7, _) => ("fsync", Deed::Sync(What::Folder(ROOT))),
            _ => return None,
        })
    }
}

/// Trees that a model refuses, of how many.
fn refused(design: &str, (model, tear): (&str, u64), seeds: std::ops::Range<u64>) -> (Vec<String>, usize) {
    let usual = subject(design, &[]);
    let mut model = Model::named(model).expect("a model");
    model.tear = tear;
    let (mut wrong, mut all) = (Vec::new(), 0);
    for seed in seeds {
        let story = Arc::new(Random::new(seed, b'a').story);
        let operations = Operations::of(&story);
        let subject = Subject { size: size_for(&usual.design, &story), ..usual.clone() };
        let gathered =
            gather(&story, &subject, 400, seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        wrong.extend(gathered.bugs.iter().map(|bug| format!("seed {seed}: {bug}")));
        let asked = Membership { story: &story, operations: &operations, model: &model };
        for one in &gathered.trees {
            let next = story.calls.get(one.done).map_or(u64::MAX, |call| call.begin_ns);
            let at_ns = if one.inside { next + 1 } else { next };
            all += 1;
            if asked.has(at_ns, &one.tree).expect("bytes") == Some(false) {
                let (done, inside) = (one.done, one.inside);
                wrong.push(format!(
                    "seed {seed}: after {done} calls (inside: {inside}): {:?}: {:?}",
                    story.deeds,
                    one.tree.keys()
                ));
            }
        }
    }
    (wrong, all)
}

fn programs() -> u64 {
    std::env::var("WEIR_INCLUSION").ok().and_then(|count| count.parse().ok()).unwrap_or(12)
}

fn holds(design: &str, model: (&str, u64)) {
    let (wrong, all) = refused(design, model, 0..programs());
    println!(
        "{design}: {} of {all} trees of {} programs are not legal in {}",
        wrong.len(),
        programs(),
        model.0
    );
    // One for each would be that of an empty file system.
    assert!(all as u64 > programs(), "{all} trees are too few to say anything");
    assert!(
        wrong.is_empty(),
        "{} of {all} trees of {design} are not legal in {model:?}: {}",
        wrong.len(),
        wrong[0]
    );
}

#[test]
fn every_tree_of_nova_is_legal_on_posix() {
    holds("nova", ("posix", 8));
}

#[test]
fn every_tree_of_pmfs_is_legal_on_posix() {
    holds("pmfs", ("posix", 8));
}

#[test]
fn every_tree_of_crest_is_legal_on_posix() {
    holds("crest", ("posix", 8));
}

#[test]
fn every_tree_of_ext4_is_legal_in_its_model() {
    holds("ext4", ("ext4", 512));
}

/// Draws of each program: a random half of what it did, in no order.
const DRAWS: u64 = 20;

/// Names that a program makes and does not touch again, in their order: name, inode, and whether a sync of the file and one of the
/// root came after all that changed it.
fn lasting(story: &Story) -> Vec<(u32, Inode, bool)> {
    let is_about = |deed: &Deed, inode: Inode, name: u32| match deed {
        Deed::Make(entry, _) => entry.1 == name,
        Deed::Unlink(entry, _) => entry.1 == name,
        Deed::Rename { from, to, .. } => from.1 == name || to.1 == name,
        Deed::Write { inode: own, .. } | Deed::Size { inode: own, .. } => *own == inode,
        _ => false,
    };
    let mut all = Vec::new();
    for (at, done) in story.deeds.iter().enumerate() {
        let Deed::Make(entry, inode) = done.deed else { continue };
        let later = &story.deeds[at + 1..];
        let is_named =
            |done: &Done| matches!(done.deed, Deed::Unlink(..) | Deed::Rename { .. } | Deed::Make(..));
        if later.iter().any(|done| is_named(done) && is_about(&done.deed, inode, entry.1)) {
            continue;
        }
        let quiet =
            later.iter().rposition(|done| is_about(&done.deed, inode, entry.1)).map_or(0, |last| last + 1);
        let of_file =
            |done: &Done| matches!(done.deed, Deed::Sync(What::File { inode: own, .. }) if own == inode);
        let of_root = |done: &Done| matches!(done.deed, Deed::Sync(What::Folder(ROOT)));
        all.push((entry.1, inode, later[quiet..].iter().any(of_file) && later[quiet..].iter().any(of_root)));
    }
    all
}

/// Whether a tree with these names is legal nowhere: a name that was synced, with its file, is not there.
fn lacks_synced(lasting: &[(u32, Inode, bool)], there: &[u32]) -> bool {
    lasting.iter().any(|(name, _, synced)| *synced && !there.contains(name))
}

/// Whether it is legal on no file system with one order of names: a name is there, and one that was made before it is not. A file
/// that was synced may come on top of what the order has (btrfs, f2fs).
fn lacks_older(story: &Story, lasting: &[(u32, Inode, bool)], there: &[u32]) -> bool {
    let is_synced = |inode: Inode| {
        story
            .deeds
            .iter()
            .any(|done| matches!(done.deed, Deed::Sync(What::File { inode: own, .. }) if own == inode))
    };
    (1..lasting.len()).any(|at| {
        let (name, inode, _) = lasting[at];
        let is_younger = there.contains(&name) && !is_synced(inode);
        is_younger && lasting[..at].iter().any(|(older, ..)| !there.contains(older))
    })
}

/// Every random tree that breaks a rule is refused. `posix` is the weakest model: what it refuses, every other refuses.
#[test]
fn models_refuse_random_trees_that_break_a_rule() {
    let named = |name: &&str| Model::named(name).expect("a model");
    let models: Vec<Model> = ["posix", "ext4", "xfs", "btrfs", "f2fs"].iter().map(named).collect();
    let (mut refused, mut all, mut synced, mut ordered) = ([0_u64; 5], 0_u64, 0, 0);
    for seed in 0..programs() {
        let story = Random::new(seed, b'a').story;
        let (operations, lasting) = (Operations::of(&story), lasting(&story));
        for draw in 0..DRAWS {
            let mut rng = Seed(seed).derive("draws", draw).rng();
            let mut set = Bits::new(operations.all.len());
            for number in 0..operations.all.len() as u32 {
                if rng.random_range(0..2) == 0 {
                    set.add(number);
                }
            }
            let names = Trees::new(&story, &operations, false, 512).names(&set);
            let there: Vec<u32> = names.paths.iter().filter_map(|(path, _)| path.first().copied()).collect();
            let (no_synced, no_older) =
                (lacks_synced(&lasting, &there), lacks_older(&story, &lasting, &there));
            (all, synced, ordered) = (all + 1, synced + u32::from(no_synced), ordered + u32::from(no_older));
            let mut by_posix = false;
            for (at, model) in models.iter().enumerate() {
                let asked = Membership { story: &story, operations: &operations, model };
                let legal = asked.has_set(u64::MAX, &set).expect("bytes");
                let name = &model.name;
                let must = no_synced || by_posix || at > 0 && no_older;
                assert!(
                    !must || legal != Some(true),
                    "seed {seed}, draw {draw}: {name} allows {there:?} of {lasting:?}"
                );
                refused[at] += u64::from(legal == Some(false));
                by_posix |= at == 0 && legal == Some(false);
            }
        }
    }
    println!(
        "of {all} random trees {synced} lack what was synced, {ordered} an older name; refused by each model: {refused:?}"
    );
    assert!(synced > 0 && ordered > 0, "no random tree breaks a rule: {synced}, {ordered}");
}

/// The canary of the comparison: a tree with bytes that a program has never written is refused.
#[test]
fn trees_of_other_programs_are_refused() {
    let model = Model::named("posix").expect("a model");
    let mut all = 0;
    let usual = subject("pmfs", &[]);
    for seed in 0..6 {
        let (own, other) = (Arc::new(Random::new(seed, b'a').story), Random::new(seed + 100, b'A').story);
        let subject = Subject { size: size_for(&usual.design, &own), ..usual.clone() };
        let gathered = gather(&own, &subject, 40, seed).expect("a run");
        let operations = Operations::of(&other);
        let asked = Membership { story: &other, operations: &operations, model: &model };
        let is_foreign =
            |one: &&Recovered| one.tree.values().any(|entry| entry.content.iter().any(|byte| *byte != 0));
        for one in gathered.trees.iter().filter(is_foreign) {
            all += 1;
            assert_ne!(asked.has(u64::MAX, &one.tree).expect("bytes"), Some(true), "seed {seed}");
        }
    }
    assert!(all > 0, "no program has written anything");
}
