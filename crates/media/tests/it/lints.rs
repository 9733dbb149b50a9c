//! A canary for each lint: a program that breaks the rule is reported, and its correct twin is not.

use std::sync::Arc;

use media::fault::{Fault, Target};
use media::nvmm::null::Null;
use media::recorder::{Class, Describe, Lint, Mode, OpCounts, ReadSet, Recorder, Rule, Structure};
use media::{Mark, Promise, Region, Tap};
use sim::{ByteRun, Bytes};

/// Lines 0..16 are metadata, the rest is data.
fn describe() -> Describe {
    Box::new(|off| Structure {
        name: format!("block {}", off / 1024),
        class: if off < 1024 { Class::Metadata } else { Class::Data },
    })
}

fn region() -> (Region, Arc<Recorder>) {
    let region = Region::anonymous(Bytes(1 << 16), Box::new(Null)).expect("memory");
    let recorder = Recorder::attach(&region, Mode::Adr, Some(describe())).expect("a snapshot");
    (region, recorder)
}

/// Runs `work` as a call that promises `promise`; returns the lints.
fn lints(promise: Promise, work: impl FnOnce(&Region)) -> Vec<Lint> {
    let (region, recorder) = region();
    region.mark(Mark::OpBegin("call"));
    work(&region);
    region.mark(Mark::OpEnd("call", promise));
    recorder.lints()
}

fn rules(promise: Promise, work: impl FnOnce(&Region)) -> Vec<Rule> {
    lints(promise, work).into_iter().map(|lint| lint.rule).collect()
}

fn persist(region: &Region, off: u64, value: u64) {
    region.store_u64(off, value).expect("in range");
    region.flush(off, 8);
    region.fence();
}

#[test]
fn a_correct_call_is_clean() {
    assert_eq!(rules(Promise::All, |region| persist(region, 0, 1)), []);
}

#[test]
fn l1_a_line_that_was_not_flushed_is_reported_at_return() {
    let found = lints(Promise::All, |region| region.store_u64(640, 1).expect("in range"));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].rule, found[0].offset, found[0].op), (Rule::UnflushedAtReturn, 640, "call"));
    assert_eq!(found[0].to_string(), "L1 unflushed at return: call, bytes 640..640+64 (block 0), 1 times");
}

#[test]
fn l1_a_buffered_call_may_leave_data_and_nothing_but_data() {
    let store = |off| move |region: &Region| region.store_u64(off, 1).expect("in range");
    assert_eq!(rules(Promise::Metadata, store(4096)), []);
    assert_eq!(rules(Promise::Metadata, store(0)), [Rule::UnflushedAtReturn]);
    assert_eq!(rules(Promise::Nothing, store(0)), []);
}

#[test]
fn l2_a_missing_fence_is_reported_at_return() {
    let flushed = rules(Promise::All, |region| {
        region.store_u64(0, 1).expect("in range");
        region.flush(0, 8);
    });
    assert_eq!(flushed, [Rule::UnfencedAtReturn]);
    let streamed = rules(Promise::All, |region| region.nt_store(0, &[1; 64]).expect("in range"));
    assert_eq!(streamed, [Rule::UnfencedAtReturn]);
}

#[test]
fn l1_l2_a_dropped_flush_or_fence_is_caught() {
    // The switch that proves a crash harness: a correct program, and the medium forgets one instruction.
    let drop = |target| {
        rules(Promise::All, |region| {
            region.inject(Fault::DropNth { target, nth: 1 });
            persist(region, 0, 1);
        })
    };
    assert!(drop(Target::Flush).contains(&Rule::UnflushedAtReturn));
    assert_eq!(drop(Target::Fence), [Rule::UnfencedAtReturn]);
}

#[test]
fn l3_a_commit_before_its_content_is_reported() {
    let commit = |durable: bool| {
        rules(Promise::All, move |region| {
            region.store(128, &[1; 100]).expect("in range");
            region.flush(128, 100);
            if durable {
                region.fence();
            }
            region.mark(Mark::Commit { at: 0, needs: &[ByteRun::new(128, 100), ByteRun::new(512, 8)] });
            persist(region, 0, 128);
        })
    };
    assert_eq!(commit(true), []);
    assert_eq!(commit(false), [Rule::CommitOrder]);
}

#[test]
fn l4_a_flush_of_clean_lines_is_reported() {
    let twice = rules(Promise::All, |region| {
        region.store_u64(0, 1).expect("in range");
        region.flush(0, 8);
        region.flush(0, 8);
        region.fence();
    });
    assert_eq!(twice, [Rule::RedundantFlush]);
    let useful = rules(Promise::All, |region| {
        region.store_u64(0, 1).expect("in range");
        region.flush(0, 8);
        region.store_u64(8, 1).expect("in range");
        region.flush(0, 8);
        region.fence();
    });
    assert_eq!(useful, [], "the second flush writes back the second store");
}

#[test]
fn l5_a_fence_with_nothing_to_order_is_reported_and_counted() {
    let (region, recorder) = region();
    region.mark(Mark::OpBegin("call"));
    for _ in 0..3 {
        persist(&region, 0, 1);
        region.fence();
    }
    region.mark(Mark::OpEnd("call", Promise::All));
    let found = recorder.lints();
    assert_eq!((found.len(), found[0].rule, found[0].count), (1, Rule::EmptyFence, 3));
    assert!(found[0].rule.is_performance());
    let expected = OpCounts { calls: 1, fences: 6, lines: 3, empty_fences: 3, redundant_lines: 0 };
    assert_eq!(recorder.op_counts(), [("call", expected)]);
}

#[test]
fn l6_a_commit_by_a_byte_copy_is_reported() {
    let commit = |how: fn(&Region)| {
        rules(Promise::Nothing, move |region| {
            region.mark(Mark::Commit { at: 16, needs: &[] });
            how(region);
            // Only the first store to the place commits.
            region.write(16, &[1_u8; 8]).expect("in range");
        })
    };
    assert_eq!(commit(|region| region.store_u64(16, 1).expect("in range")), []);
    assert_eq!(commit(|region| region.store_pair(16, [1, 2]).expect("in range")), []);
    assert_eq!(commit(|region| region.nt_store(16, &[1; 8]).expect("in range")), []);
    assert_eq!(commit(|region| region.write(16, &1_u64).expect("in range")), [Rule::TornCommit]);
    assert_eq!(commit(|region| region.nt_store(0, &[1; 64]).expect("in range")), [Rule::TornCommit]);
}

#[test]
fn l7_freeing_while_the_pointer_may_survive_is_reported() {
    let free = |durable: bool| {
        rules(Promise::All, move |region| {
            region.store_u64(0, 0).expect("in range");
            region.flush(0, 8);
            if durable {
                region.fence();
            }
            region.mark(Mark::Free { off: 4096, len: 4096, pointer: 0 });
            region.fence();
        })
    };
    assert_eq!(free(false), [Rule::FreeBeforeCommit]);
    assert_eq!(free(true), [Rule::EmptyFence]);
}

#[test]
fn l8_recovery_that_reads_unguaranteed_bytes_is_reported() {
    let (region, recorder) = region();
    region.store_u64(64, 7).expect("in range");
    region.store_u64(4096, 7).expect("in range");
    region.mark(Mark::Commit { at: 128, needs: &[] });
    region.store_u64(128, 1).expect("in range");
    let point = recorder.crash_point();
    let luck = [ByteRun::new(64, 8), ByteRun::new(4096, 8)];
    assert_eq!(point.unguaranteed(), luck, "a commit store is meant to be read either way");

    let image = point.image(&point.all()).region(Box::new(Null)).expect("a region");
    let reads = Arc::new(ReadSet::new(image.len()));
    image.attach(Arc::clone(&reads) as Arc<dyn Tap>);
    image.load_u64(64).expect("in range");
    assert!(!reads.touches(64, 8), "not a recovery");
    image.mark(Mark::RecoveryBegin);
    for off in [56, 72, 128, 4096] {
        image.load_u64(off).expect("in range");
    }
    assert_eq!(
        reads.lints(point.unguaranteed(), Some(&describe())),
        [],
        "neighbours, commits and data are fine"
    );
    image.load_u64(64).expect("in range");
    let found = reads.lints(point.unguaranteed(), Some(&describe()));
    assert_eq!((found.len(), found[0].rule, found[0].offset), (1, Rule::ReadOfLuck, 64));
    assert!(reads.touches(60, 8) && !reads.touches(80, 8));
    reads.clear();
    assert!(!reads.touches(64, 8));
    image.mark(Mark::RecoveryBegin);
    image.store_u16(66, 1).expect("in range");
    image.load_u64(64).expect("in range");
    assert!(
        reads.touches(64, 2) && !reads.touches(66, 2) && reads.touches(68, 4),
        "it wrote two of these bytes"
    );
}

#[test]
fn l3_l8_a_commit_store_vouches_for_what_its_line_holds_before_it() {
    let (region, recorder) = region();
    region.write(64, &[1_u64, 2]).expect("in range");
    region.write(96, &[3_u64]).expect("in range");
    region.mark(Mark::Commit { at: 80, needs: &[ByteRun::new(64, 16)] });
    region.store_u64(80, 1).expect("in range");
    assert_eq!(recorder.lints(), [], "the line persists in order");
    assert_eq!(recorder.crash_point().unguaranteed(), [ByteRun::new(96, 8)], "no fence has made it durable");
    region.write(128, &[1_u64]).expect("in range");
    region.nt_store(192, &[1; 8]).expect("in range");
    region.mark(Mark::Commit { at: 200, needs: &[ByteRun::new(192, 8)] });
    region.mark(Mark::Commit { at: 200, needs: &[ByteRun::new(128, 8)] });
    let found: Vec<_> = recorder.lints().iter().map(|lint| (lint.rule, lint.count)).collect();
    assert_eq!(found, [(Rule::CommitOrder, 2)], "another line, and a line that does not persist in order");
}
