//! How many legal states are made and hashed, for the log: timing decides no test.

use std::time::Instant;

use super::super::model::Model;
use super::super::operations::Operations;
use super::super::points::points;
use super::super::states::States;
use super::super::tree::Trees;
use super::Recorded;

#[test]
fn states_of_a_thousand_operations_are_made_and_hashed() {
    let mut program = Recorded::new();
    for number in 0..120 {
        let file = program.save(&format!("f{}.tmp", number % 10), &vec![number as u8; 9000]);
        if number % 7 == 0 {
            program.fsync(file);
        }
        program.rename(&format!("f{}.tmp", number % 10), &format!("f{}", number % 10)).told("saved");
    }
    let story = program.end();
    let (operations, model) = (Operations::of(&story), Model::named("ext4").unwrap());
    let (points, left_out) = points(&operations, &model);
    assert_eq!(left_out, 0);
    let mut trees = Trees::new(&story, &operations, false, 512);
    let (began, mut states, mut distinct) = (Instant::now(), 0_u64, std::collections::BTreeSet::new());
    let mut all: Vec<_> = points.iter().map(|point| States::new(&operations, &model, point, 1)).collect();
    for _ in 0..100 {
        for one in &mut all {
            if let Some(state) = one.next_state() {
                states += 1;
                distinct.insert(trees.hash(&state).unwrap());
            }
        }
    }
    let rate = states as f64 / began.elapsed().as_secs_f64();
    println!(
        "{} operations, {states} states, {} trees, {rate:.0} a second",
        operations.all.len(),
        distinct.len()
    );
    assert!(distinct.len() > 100);
}
