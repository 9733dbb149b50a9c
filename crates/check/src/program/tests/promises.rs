//! Promises that need no checker, and acknowledgements in a file.

use super::*;
use crate::program::promises::{ByPromises, Promised};

/// A log that gets a record, and then one of which nothing was told. `synced`: the first before it is told, in a file.
fn log(synced: bool) -> Story {
    let mut recorded = Recorded::new();
    recorded.had("log", b"first\n").had("acks", b"");
    let (log, acks) = (recorded.open("log", "wronly,append"), recorded.open("acks", "wronly,append"));
    recorded.write(log, b"second\n");
    if synced {
        recorded.fsync(log);
    }
    recorded.write(acks, b"half a").write(acks, b" line\n").write(log, &[b'3'; 6000]);
    recorded.end();
    Story::open(&recorded.path(), &Acknowledge::File("acks".to_owned()), false).unwrap()
}

fn broken_promises(story: &Story, promised: &[Promised]) -> String {
    let operations = Operations::of(story);
    let oracle = ByPromises::new(story, &operations, promised).unwrap();
    let model = Model::named("ext4").unwrap();
    run(story, &operations, &oracle, std::slice::from_ref(&model), &LIMITS, false)
        .unwrap()
        .broken(&model.name)
}

#[test]
fn lines_that_are_written_to_a_file_are_acknowledgements() {
    let story = log(true);
    assert_eq!(story.told, b"half a line\n");
    assert_eq!(
        story.acks.iter().map(|ack| ack.bytes).collect::<Vec<_>>(),
        [12],
        "a line counts when it is whole"
    );
}

#[test]
fn a_file_that_was_never_written_acknowledges_nothing_and_is_an_error() {
    let mut recorded = Recorded::new();
    recorded.save("a", b"1");
    recorded.end();
    let error = Story::open(&recorded.path(), &Acknowledge::File("b".to_owned()), false).unwrap_err();
    assert!(error.to_string().contains("has written nothing"), "{error}");
}

#[test]
fn what_follows_the_told_part_of_a_log_breaks_durable_and_not_its_tolerant_form() {
    assert_ne!(broken_promises(&log(true), &[Promised::Durable]), "");
    assert_eq!(broken_promises(&log(true), &[Promised::DurablePrefix]), "");
    assert_ne!(broken_promises(&log(false), &[Promised::DurablePrefix]), "", "the told part itself is lost");
}
