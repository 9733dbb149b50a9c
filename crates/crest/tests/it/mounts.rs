//! Mounts after crashes of pools whose logs have passed their ends: records that were dropped as zones were read are missed by none.

use std::collections::BTreeSet;
use std::sync::Arc;

use check::NEW;
use crest::design::CrestDesign;
use crest::format::mutant;
use design::{Design, Mutant};
use media::Storage;
use media::nvmm::Region;
use sim::{Bytes, Seed, Setup};
use vfs::Ino;

use crate::support::{Given, copy_of, machine, made, names_in, options, region};

const SEED: u64 = 20_261_130;
/// Zones of 16 KiB, some 120: the rounds below write 130 lines each.
const SIZE: Bytes = Bytes::mib(2);
const ROUNDS: u64 = 640;
/// Rounds after which a file has its second name, loses the first one, and the second one: some 30, 60 and 100 zones.
const LATER: [u64; 3] = [60, 120, 200];
const ONE: Given<'_> = &[("shards", "1")];

/// The names of the root after a crash, or none if there is no mount.
fn names_after_crash(region: &Arc<Region>, bug: Option<Mutant>) -> Option<BTreeSet<Vec<u8>>> {
    let fs = CrestDesign.mount(&Storage::from(&copy_of(region)), &options(ONE, bug)).ok()?;
    let names = names_in(&*fs, fs.root());
    // A name may be there without its inode.
    names.iter().all(|name| fs.lookup(fs.root(), name).is_ok()).then_some(names)
}

/// Files that get another name, and lose the first one, while many come and go; with crashes in the second lap of the log. How many of
/// these there were, and how many lead to other names.
fn crashes(bug: Option<Mutant>) -> (u64, u64) {
    let run = sim::run(&Setup::virtual_clock(machine(1), Seed(SEED)), move || {
        let region = region(SIZE);
        let fs = made(&region, &options(ONE, None));
        let (root, mut inos, mut expected) = (fs.root(), Vec::<Ino>::new(), BTreeSet::new());
        let (mut number, mut wrong) = (0, 0);
        for round in 0..ROUNDS {
            let name =
                |kind: &str, back: u64| Some(format!("{kind} {}", round.checked_sub(back)?).into_bytes());
            let first = name("first", 0).expect("a round");
            inos.push(fs.create(root, &first, &NEW).expect("room").ino);
            expected.insert(first);
            if let Some(second) = name("second", LATER[0]) {
                fs.link(inos[(round - LATER[0]) as usize], root, &second).expect("room");
                expected.insert(second);
            }
            for gone in [name("first", LATER[1]), name("second", LATER[2])].into_iter().flatten() {
                fs.unlink(root, &gone).expect("a name");
                expected.remove(&gone);
            }
            for _ in 0..40 {
                fs.create(root, b"x", &NEW).expect("room");
                fs.unlink(root, b"x").expect("a name");
            }
            if round > ROUNDS / 2 && round % 16 == 0 {
                number += 1;
                wrong += u64::from(names_after_crash(&region, bug).as_ref() != Some(&expected));
            }
        }
        (number, wrong)
    });
    run.expect("the run ends")
}

#[test]
fn a_file_keeps_its_second_name_in_whatever_order_zones_are_read() {
    let (number, wrong) = crashes(None);
    assert!(number > 10, "{number} crashes");
    assert_eq!(wrong, 0, "of {number} crashes");
    let (_, wrong) = crashes(Some(mutant::SIEVED_THOUGH_LINKED));
    println!("without the rule {wrong} of {number}");
    assert!(wrong > 0, "canary");
}
