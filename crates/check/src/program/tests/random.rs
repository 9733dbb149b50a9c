//! Random trees that break a rule must be refused by the models, each of them.

use rand::RngExt;
use sim::Seed;
use trace::contents::ContentsError;

use super::super::Bits;
use super::super::closure::{Closure, spread};
use super::super::members::{Membership, SETS};
use super::super::model::Model;
use super::super::operations::Operations;
use super::super::points::point_at;
use super::super::random::random;
use super::super::states::State;
use super::super::story::{Deed, Inode, ROOT, Story, What};
use super::super::tree::Trees;

/// Programs that are tried.
const PROGRAMS: u64 = 40;
/// Draws of each program: a random half of what it did, in no order.
const DRAWS: u64 = 20;

/// A name that a program makes and does not touch again.
#[derive(Debug)]
struct Lasting {
    name: u32,
    inode: Inode,
    /// Nothing had the name before.
    is_first: bool,
    /// A sync of the file and one of the root came after all that changed it.
    is_synced: bool,
}

/// Whether a deed changes what a name leads to.
fn names(deed: &Deed, name: u32) -> bool {
    match deed {
        Deed::Make(entry, _) | Deed::Unlink(entry, _) => entry.1 == name,
        Deed::Rename { from, to, .. } => from.1 == name || to.1 == name,
        _ => false,
    }
}

fn lasting(story: &Story) -> Vec<Lasting> {
    let deeds = || story.deeds.iter().map(|done| &done.deed);
    let mut all = Vec::new();
    for (at, deed) in deeds().enumerate() {
        let Deed::Make(entry, inode) = *deed else { continue };
        let name = entry.1;
        if deeds().skip(at + 1).any(|deed| names(deed, name)) {
            continue;
        }
        let writes = |deed: &Deed| matches!(deed, Deed::Write { inode: own, .. } | Deed::Size { inode: own, .. } if *own == inode);
        let last = deeds().skip(at + 1).enumerate().rfind(|(_, deed)| writes(deed));
        let quiet = at + 1 + last.map_or(0, |(last, _)| last + 1);
        let of_file = deeds().skip(quiet).any(|deed| is_sync_of(deed, inode));
        let of_root = deeds().skip(quiet).any(|deed| matches!(deed, Deed::Sync(What::Folder(ROOT))));
        let is_first = !deeds().take(at).any(|deed| names(deed, name));
        all.push(Lasting { name, inode, is_first, is_synced: of_file && of_root });
    }
    all
}

fn is_sync_of(deed: &Deed, inode: Inode) -> bool {
    matches!(deed, Deed::Sync(What::File { inode: own, .. }) if *own == inode)
}

/// Whether a tree with these names is legal nowhere: a name that was synced, with its file, is not there.
fn lacks_synced(lasting: &[Lasting], there: &[u32]) -> bool {
    lasting.iter().any(|one| one.is_synced && !there.contains(&one.name))
}

/// Whether it is legal on no file system with one order of names: a name is there, and one that was made before it is not. A file
/// that was synced may come on top of what the order has (btrfs, f2fs).
fn lacks_older(story: &Story, lasting: &[Lasting], there: &[u32]) -> bool {
    (1..lasting.len()).any(|at| {
        let Lasting { name, inode, is_first, .. } = lasting[at];
        let is_logged = story.deeds.iter().any(|done| is_sync_of(&done.deed, inode));
        let is_younger = is_first && !is_logged && there.contains(&name);
        is_younger && lasting[..at].iter().any(|older| !there.contains(&older.name))
    })
}

/// Every random tree that breaks a rule is refused. `posix` is the weakest model: what it refuses, every other refuses.
#[test]
fn models_refuse_random_trees_that_break_a_rule() {
    let named = |name: &&str| Model::named(name).expect("a model");
    let models: Vec<Model> = ["posix", "ext4", "xfs", "btrfs", "f2fs"].iter().map(named).collect();
    let (mut refused, mut all, mut synced, mut ordered) = ([0_u64; 5], 0_u64, 0, 0);
    for seed in 0..PROGRAMS {
        let story = random(seed, b'a');
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
                let legal = has_set(&asked, &set).expect("bytes");
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

/// Whether the model allows the tree of a set of micro-operations at the end, none of them torn; none: there are too many sets.
fn has_set(asked: &Membership<'_>, set: &Bits) -> Result<Option<bool>, ContentsError> {
    let Membership { story, operations, model } = *asked;
    let point = point_at(operations, model, u64::MAX);
    let mut closure = Closure::new(operations, model, &point.loose, &point.free);
    let Some(sets) = closure.all(&point.covered, SETS) else { return Ok(None) };
    let mut trees = Trees::new(story, operations, model.stale, model.tear);
    let wanted = trees.hash(&State { set: set.clone(), torn: None })?;
    for places in sets {
        let set = spread(&point.covered, &point.free, &places);
        if trees.hash(&State { set, torn: None })? == wanted {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}
