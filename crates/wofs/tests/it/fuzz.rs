//! Edited images: no call panics or hangs, and fsck and mount agree.

use check::Limits;
use check::fuzz::{Effort, Fuzzer};

use crate::harness::small;

#[test]
fn edited_images_are_refused_or_used_and_nothing_panics() {
    let mutants = std::env::var("WEIR_FUZZ_MUTANTS").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    let fuzzer = Fuzzer::new(&small(None), 7).expect("the images can be made");
    let tally = fuzzer.run(&Effort { seed: 7, mutants: 0..mutants, limits: Limits::of(2) }, &|| ());
    println!("refused {}, damaged {}, sound {}", tally.refused, tally.damaged, tally.sound);
    tally.failures.iter().take(4).for_each(|failure| println!("{failure:#?}"));
    assert!(tally.failures.is_empty());
    // A mount reads all and refuses what fsck reports.
    assert!(tally.damaged == 0 && tally.refused > 30 && tally.sound > 5);
}
