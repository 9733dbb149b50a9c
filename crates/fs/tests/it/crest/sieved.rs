//! The sieve on logs of a mount: what it keeps leads to the tree of all records, and is little where most of them are dead.

use std::collections::BTreeSet;

use check::{NEW, Runner};
use fs::crest::format::layout::{Geometry, SUPERBLOCKS, Superblock};
use fs::crest::format::merge::merge;
use fs::crest::format::mutant::Rules;
use fs::crest::format::record::Seal;
use fs::crest::format::sieve::Facts;
use fs::crest::format::tree::Tree;
use fs::crest::format::zone::{Found, Log, Use, Word};
use media::nvmm::Region;
use sim::Bytes;

use super::mount::{churn, made, mounted, old_files};
use crate::shared::harness::virtually;

/// The records of each log zone.
fn zones_of(region: &Region) -> Vec<Vec<Found>> {
    let superblock: Superblock = region.read(SUPERBLOCKS[0]).expect("a load");
    let geometry = Geometry::of(&superblock);
    let mut bytes = vec![0; geometry.zone_bytes as usize];
    let read = |zone: u32| {
        let word = region.load_u64(geometry.words_at(zone)[0]).expect("a load");
        let Some(Word { usage: Use::Log, opening, .. }) = Word::unpack(zone, word) else { return Vec::new() };
        region.peek(geometry.zone_at(zone), &mut bytes).expect("a load");
        let (secret, keyed, mut log) = (superblock.secret[0], geometry.keyed, Log::default());
        log.read_zone(zone, Seal { secret, opening, keyed, nonce: 0, rules: Rules::ALL }, &bytes);
        assert_eq!(log.damage, []);
        log.records
    };
    (0..geometry.zones).map(read).collect()
}

/// What the sieve keeps of these; none: all is needed.
fn sieved(mut zones: Vec<Vec<Found>>) -> Option<Vec<Found>> {
    let nothing = BTreeSet::new();
    // Two tasks read a half each.
    let mut all = Facts::new(&nothing, Rules::ALL);
    let half = zones.len() / 2;
    for share in zones.chunks_mut(half) {
        let mut facts = Facts::new(&nothing, Rules::ALL);
        for zone in share {
            facts.sift_zone(zone);
        }
        all.add(facts);
    }
    let mut records = zones.concat();
    let sieve = all.settle(&records).ok()?;
    records.retain_mut(|found| sieve.keeps(found));
    Some(records)
}

/// A tree in words, without the numbers of records.
fn in_words(tree: &Tree) -> Vec<String> {
    let names = tree.names.iter().map(|name| format!("{:?}", (name.dir, name.ino, &name.name, name.add)));
    let inodes = tree.inodes.in_order().map(|(ino, inode)| {
        let blocks: Vec<_> = inode.blocks.in_order().map(|(block, held)| (block, held.value)).collect();
        let xattrs: Vec<_> = inode.xattrs.iter().map(|(name, held)| (name, &held.value)).collect();
        let times = (inode.atime.value, inode.mtime.value, inode.ctime.value);
        let values = (&inode.birth.value, inode.owner.value, inode.links, inode.bytes());
        format!("{:?}", (ino, values, times, blocks, xattrs))
    });
    names.chain(inodes).collect()
}

/// Records in all, and those that are kept; both lead to one tree.
fn compare(region: &Region, moment: &str) -> (usize, usize) {
    let zones = zones_of(region);
    let all = zones.concat();
    let kept = sieved(zones).unwrap_or_else(|| all.clone());
    let tree = |records: &[Found]| in_words(&merge(records, &BTreeSet::new(), Rules::ALL));
    assert_eq!(tree(&kept), tree(&all), "{moment}");
    (all.len(), kept.len())
}

#[test]
fn what_is_kept_leads_to_the_tree_of_all_records() {
    virtually(1, || {
        let region = made(Bytes::kib(512));
        let mut runner = Runner::new(mounted(&region));
        for op in old_files() {
            runner.run(&op).unwrap_or_else(|errno| panic!("{op:?}: {errno}"));
        }
        for round in 0..6_000 {
            let op = churn(round);
            runner.run(&op).unwrap_or_else(|errno| panic!("{round}: {op:?}: {errno}"));
            if round % 97 == 0 {
                compare(&region, &format!("round {round}"));
            }
        }
    });
}

#[test]
fn of_a_churned_log_little_is_kept() {
    virtually(1, || {
        let region = made(Bytes::mib(4));
        let fs = mounted(&region);
        let live = 100;
        for number in 0..live {
            fs.create(fs.root(), format!("live {number}").as_bytes(), &NEW).expect("an empty pool");
        }
        for _ in 0..10_000 {
            fs.create(fs.root(), b"churn", &NEW).expect("there is room");
            fs.unlink(fs.root(), b"churn").expect("it is there");
        }
        let zones = zones_of(&region).iter().filter(|zone| !zone.is_empty()).count();
        let (all, kept) = compare(&region, "after the churn");
        println!("{kept} of {all} records of {zones} zones");
        // An Open and the two sides of a pair that two zones share, of each zone; and the latest time of the directory.
        assert!(all > 20 * kept && kept <= live + 4 * zones + 4, "{kept} of {all} records of {zones} zones");
    });
}
