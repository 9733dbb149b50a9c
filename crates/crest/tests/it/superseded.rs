//! Records that later ones supersede: without them a log leads to the same tree, in whatever order it is read.

use std::collections::BTreeSet;

use crest::format::inline::{Inline, Patch};
use crest::format::layout::times;
use crest::format::merge::merge;
use crest::format::mutant::{self, Rules};
use crest::format::record::{Body, Create, Cut, Extent, Hole, Id, Owner, Record, Times, Write, Xattr};
use crest::format::superseded::drop_superseded;
use crest::format::zone::Found;
use design::Mutant;
use rand::RngExt;
use rand::seq::SliceRandom;
use sim::Seed;

const FILES: [u64; 2] = [17, 18];
const BLOCKS: u64 = 6;

/// What one call may have written; times do not follow the order of ids, as those of two shards need not.
fn body(rng: &mut impl RngExt, place: &mut u64) -> Body {
    let (ino, time, block) =
        (FILES[rng.random_range(0..2)], rng.random_range(1..40), rng.random_range(0..BLOCKS));
    let set_time = rng.random_bool(0.8).then_some(time);
    match rng.random_range(0..10) {
        0..4 => {
            let extents = (0..rng.random_range(0..3)).map(|_| {
                *place += 4;
                let (file, unwritten) = (rng.random_range(0..BLOCKS), rng.random_bool(0.1));
                Extent { file, place: *place, count: rng.random_range(1..4), unwritten, ..Extent::default() }
            });
            let (extents, grows) = (extents.collect(), rng.random_bool(0.3));
            let size = grows.then(|| rng.random_range(0..4 * 4096));
            Body::Write(Write { ino, extents, size, time: set_time })
        }
        4..6 => {
            let (from, len) = (rng.random_range(0..4), rng.random_range(1..5));
            let patch = Patch { from, bytes: vec![rng.random(); len] };
            Body::Inline(Inline { ino, block, patch, time: set_time })
        }
        6 => Body::Cut(Cut { ino, size: rng.random_range(0..5 * 4096), before: 1, time }),
        7 => {
            let (removed, name) = (rng.random_bool(0.3), vec![rng.random_range(b'a'..b'c')]);
            let value = if removed { Vec::new() } else { vec![rng.random(); 3] };
            Body::Xattr(Xattr { ino, name, value, time, removed, ..Xattr::default() })
        }
        8 => Body::Hole(Hole { ino, from: block, count: 1, before: 1, time }),
        _ if rng.random() => {
            Body::Owner(Owner { ino, mode: rng.random_range(0..8), time, ..Owner::default() })
        }
        _ => Body::Times(Times {
            ino,
            mask: times::MTIME,
            stamp: time,
            atime: 0,
            mtime: rng.random_range(1..9),
        }),
    }
}

/// Records of two files, some of them with copies in another zone, in no order.
fn history(seed: u64) -> Vec<Found> {
    let mut rng = Seed(seed).rng();
    let (mut found, mut place) = (Vec::new(), 100);
    let create = |ino| {
        Body::Create(Create { ino, dir: 1, name: vec![ino as u8], mode: 0o100_644, ..Create::default() })
    };
    let mut bodies: Vec<Body> = FILES.map(create).into();
    bodies.extend((0..rng.random_range(2..40)).map(|_| body(&mut rng, &mut place)));
    for (at, body) in (1..).zip(bodies) {
        let record = Record::alone(Id::new(at, rng.random_range(0..3)), body);
        let copies = if rng.random_bool(0.2) { 2 } else { 1 };
        for copy in 0..copies {
            let zone = 2 * record.id.shard() as u32 + copy;
            found.push(Found {
                zone,
                opening: u64::from(zone) + 1,
                line: at as u32,
                lines: 1,
                record: record.clone(),
            });
        }
    }
    found.shuffle(&mut rng);
    found
}

/// What a log leads to, in words, without the numbers of records.
fn tree(found: &[Found]) -> Vec<String> {
    let tree = merge(found, &BTreeSet::new(), Rules::ALL);
    let inodes = tree.inodes.in_order().map(|(ino, inode)| {
        let blocks: Vec<_> = inode.blocks.in_order().map(|(block, held)| (block, held.value)).collect();
        let bytes: Vec<_> = inode
            .patches
            .iter()
            .filter(|(_, patches)| !patches.is_empty())
            .map(|(block, patches)| {
                let mut bytes = [None; 16];
                for Patch { from, bytes: new } in patches.iter().map(|held| &held.value) {
                    (usize::from(*from)..).zip(new).for_each(|(at, byte)| bytes[at] = Some(*byte));
                }
                (*block, bytes)
            })
            .collect();
        let xattrs: Vec<_> = inode.xattrs.iter().map(|(name, held)| (name, &held.value)).collect();
        let cuts: Vec<_> = inode.cuts.iter().map(|(_, size)| size).collect();
        let times = (inode.atime.value, inode.mtime.value, inode.ctime.value);
        format!("{:?}", (ino, inode.owner.value, inode.bytes(), times, blocks, bytes, xattrs, cuts))
    });
    inodes.collect()
}

/// Histories that lead to another tree without what is dropped, and how many records are, of all.
fn wrong(rules: Rules) -> (Vec<u64>, usize, usize) {
    let (mut wrong, mut dropped, mut all) = (Vec::new(), 0, 0);
    for seed in 0..3_000 {
        let found = history(seed);
        let mut kept = found.clone();
        drop_superseded(&mut kept, rules);
        all += found.len();
        dropped += found.len() - kept.len();
        if tree(&kept) != tree(&found) {
            wrong.push(seed);
        }
    }
    (wrong, dropped, all)
}

#[test]
fn what_stays_leads_to_the_tree_of_all_records() {
    let (seeds, dropped, all) = wrong(Rules::ALL);
    println!("{dropped} of {all} records dropped");
    assert_eq!(seeds, Vec::<u64>::new(), "seeds");
    assert!(dropped * 20 > all, "{dropped} of {all}: too few to show anything");
}

#[test]
fn each_rule_is_needed() {
    let mutants: [Mutant; 5] = [
        mutant::SUPERSEDED_IN_PART,
        mutant::SUPERSEDED_TIMES,
        mutant::SUPERSEDED_SIZE,
        mutant::SUPERSEDED_BY_EARLIER,
        mutant::SUPERSEDED_BY_BYTES,
    ];
    for bug in mutants {
        let found = wrong(Rules::without(bug)).0.len();
        println!("{}: {found} of 3000 histories", bug.name());
        assert!(found > 0, "{} is not found", bug.name());
    }
}

#[test]
fn of_overwrites_of_one_block_the_last_stays() {
    let write = |at: u64| {
        let extent = Extent { file: 0, place: 100 + at, count: 1, ..Extent::default() };
        let write = Write { ino: 17, extents: [extent].into_iter().collect(), size: None, time: Some(at) };
        let record = Record::alone(Id::new(at, 0), Body::Write(write));
        Found { zone: 0, opening: 1, line: at as u32, lines: 1, record }
    };
    let mut found: Vec<Found> = (1..=1_000).map(write).collect();
    drop_superseded(&mut found, Rules::ALL);
    assert_eq!(found.iter().map(|found| found.record.id.time()).collect::<Vec<_>>(), [1_000]);
}
