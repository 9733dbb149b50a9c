//! Edited images: no call panics or hangs, and fsck and mount agree; the check finds a design that violates this.

use crate::shared::harness;
use std::sync::Arc;

use crate::shared::harness::small;
use check::canary::{Flaw, flawed};
use check::fuzz::{Effort, Failure, Fuzzer, Mutant, Tally};
use check::{Configured, Limits};

fn fuzz(design: &Arc<Configured>, seed: u64, mutants: u64) -> Tally {
    let fuzzer = Fuzzer::new(design, seed).expect("the images can be made");
    fuzzer.run(&Effort { seed, mutants: 0..mutants, limits: Limits::of(1) }, &|| ())
}

/// Every design. Unlike the command, tests check every sum for overflow: `WEIR_FUZZ_MUTANTS` tries more of them,
/// `WEIR_FUZZ_FS=words` only designs whose names contain the words.
#[test]
fn mutants_are_refused_or_used_and_nothing_panics() {
    let mutants = std::env::var("WEIR_FUZZ_MUTANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(500);
    let wanted = std::env::var("WEIR_FUZZ_FS").unwrap_or_default();
    for design in harness::names().filter(|name| name.contains(&wanted)).map(small) {
        let tally = fuzz(&design, 7, mutants);
        println!("{}: {tally:?}", design.name());
        assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
        assert!(tally.refused > 30 && tally.sound > 5, "{tally:?}");
        let reads_all = design.design().checking().mount_reads_all;
        // A mount that reads all knows any damage, and refuses it.
        let none_came_through = reads_all && tally.damaged == 0 && tally.refused > 100;
        assert!(tally.damaged > 50 || none_came_through, "{tally:?}");
    }
}

/// What campaigns of `weir check fuzz` have found: the design, the seed of its images, and the edits.
const FOUND: [(&str, u64, &str); 9] = [
    // A directory has an entry of itself, and a rename took its lock twice.
    ("ext4", 1, "3 1077264:0c 1077272:0c0000000c000301 1077280:62617200 1077292:66"),
    // fsck was content with a feature for which a mount that writes refuses the image.
    ("ext2", 1, "8 1125:08"),
    // The first inode that is not special has number 0, and the repair counted from one below it.
    ("ext2", 1, "3 1108:00"),
    // The size of a block is no number.
    ("ext4", 1, "4 1048:ffffffff"),
    ("ext2", 1, "6 1048:ffffffff"),
    // fsck was content without the device of the journal, for which a mount refuses the image.
    ("ext2", 1, "10 1116:ff 1237:01"),
    // The file of orphans has a number beyond the inodes.
    ("ext2", 1, "10 1117:ff 1665:b0"),
    // A record stood behind the end of its log, with the id of one in the log that goes on from there.
    (
        "crest",
        7,
        "4 671808:4a8ad02440a56f1a 671844:a4410000 671860:a160 671868:03 671872:666f6f00 671936:34afa8e5d6e19db7 \
         671944:0202 671953:30 671960:0300000000000100 671972:a481 671976:0700000008000000 671988:c8602a36 \
         671992:fe9c971703000000 672000:62617200",
    ),
    // A record that makes a name had the id of one that had made another, which was removed.
    ("crest", 7, "7 655616:51f251e0cb601482 655633:30"),
];

#[test]
fn mutants_that_were_found_are_refused_or_used() {
    for (name, seed, edits) in FOUND {
        let fuzzer = Fuzzer::new(&small(name), seed).expect("the images can be made");
        let mutant: Mutant = edits.parse().expect("edits");
        fuzzer.try_one(&mutant).unwrap_or_else(|what| panic!("{name}: {mutant}: {what}"));
    }
}

#[test]
fn the_same_seed_gives_the_same_mutants() {
    let run = || {
        let tally = fuzz(&small("pmfs"), 3, 200);
        (tally.refused, tally.damaged, tally.sound, tally.kept, tally.features, tally.touched)
    };
    assert_eq!(run(), run());
}

/// The word is one of 20,000, in the journal, which nothing but the canary reads of an unmounted image. Seeds are tried until one
/// finds it, to no more than 30,000 mutants.
#[test]
fn a_word_that_makes_a_design_panic_or_loop_is_found_and_made_short() {
    for (fault, says) in [(Flaw::PanicAt(8192), "panicked"), (Flaw::LoopAt(8192), "without end")] {
        let design = flawed(&small("pmfs"), fault);
        let find = |seed| {
            let failures = fuzz(&design, seed, 1_000).failures.into_iter();
            failures.map(|failure| (seed, failure)).find(|(_, failure)| failure.what.contains(says))
        };
        let found = (1..=30).find_map(find);
        let (seed, Failure { mutant, what }) = found.unwrap_or_else(|| panic!("{fault:?} was not found"));
        println!("{fault:?}: seed {seed}: {mutant}: {what}");
        assert!(mutant.edits.iter().map(|edit| edit.bytes.len()).sum::<usize>() <= 8, "{mutant}");
        let fuzzer = Fuzzer::new(&design, seed).expect("the images can be made");
        assert_eq!(fuzzer.try_one(&mutant), Err(what));
    }
}
