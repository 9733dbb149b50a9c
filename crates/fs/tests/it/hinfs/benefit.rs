//! Which writes are lazy and which are eager.

use sim::Nanos;

use crate::hinfs::support::{Mounted, PAGE, cost, free_region, virtually};
use sim::Bytes;

/// How many pieces of `body` were written eagerly.
fn eager(mounted: &Mounted, body: impl FnOnce()) -> u64 {
    let before = mounted.counter("eager_writes");
    body();
    mounted.counter("eager_writes") - before
}

#[test]
fn blocks_are_lazy_until_a_sync_judges_them() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 64, &[]);
        let file = hinfs.settled("file", 8);
        // Each line once: the sync flushes as many as were written, buffering gains nothing.
        assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[1; PAGE])), 0);
        hinfs.fsync(file);
        assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[2; PAGE])), 1);
        // Another block of the file is none that was judged.
        assert_eq!(eager(&hinfs, || hinfs.write(file, PAGE as u64, &[3; PAGE])), 0);
        hinfs.end();
    });
}

#[test]
fn the_inequality_decides_at_each_sync() {
    virtually(1, || {
        // 50 ns and 200 ns: buffering wins when less than three quarters of the written lines are flushed.
        for (writes, flushed, lazy) in [(4, 3, false), (5, 3, true), (8, 6, false), (9, 6, true)] {
            let hinfs = Mounted::paper("hinfs", 64, &[]);
            let file = hinfs.settled("file", 1);
            for n in 0..writes {
                hinfs.write(file, n % flushed * 64, &[1; 64]);
            }
            hinfs.fsync(file);
            let next = eager(&hinfs, || hinfs.write(file, 0, &[2; 64]));
            assert_eq!(next, u64::from(!lazy), "{flushed} of {writes} lines");
        }
    });
}

#[test]
fn an_eager_block_becomes_lazy_when_its_writes_coalesce() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 64, &[]);
        let file = hinfs.settled("file", 1);
        hinfs.write(file, 0, &[1; 64]);
        hinfs.fsync(file);
        // Eager now; the ghost counts what would have been flushed: one line of ten writes.
        assert_eq!(eager(&hinfs, || (0..10).for_each(|_| hinfs.write(file, 0, &[2; 16]))), 10);
        let (right, wrong) = (hinfs.counter("predictions_right"), hinfs.counter("predictions_wrong"));
        hinfs.fsync(file);
        assert_eq!(
            (hinfs.counter("predictions_right"), hinfs.counter("predictions_wrong")),
            (right, wrong + 1)
        );
        assert_eq!(eager(&hinfs, || (0..10).for_each(|_| hinfs.write(file, 0, &[3; 16]))), 0);
        hinfs.fsync(file);
        assert_eq!(hinfs.counter("predictions_right"), right + 1);
        assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[4; 16])), 0, "lazy again, and remembered");
        hinfs.end();
    });
}

#[test]
fn a_file_that_is_not_synced_for_five_seconds_is_lazy_again() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 64, &[]);
        let file = hinfs.settled("file", 2);
        for block in 0..2 {
            hinfs.write(file, block * PAGE as u64, &[1; PAGE]);
        }
        hinfs.fsync(file);
        sim::sleep(Nanos::from_millis(4_900));
        assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[2; PAGE])), 1);
        sim::sleep(Nanos::from_millis(200));
        assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[3; PAGE])), 0);
        assert_eq!(eager(&hinfs, || hinfs.write(file, PAGE as u64, &[3; PAGE])), 0);
        assert_eq!(hinfs.read(file, 0, PAGE), [3; PAGE]);
        hinfs.end();
    });
}

/// By the fsync of a file, and by the sync of all files, which looks at those with something in the buffer.
#[test]
fn the_five_seconds_begin_anew_at_each_sync() {
    virtually(1, || {
        for all in [false, true] {
            let hinfs = Mounted::paper("hinfs", 64, &[]);
            let file = hinfs.settled("file", 2);
            let sync = || if all { hinfs.fs.sync().expect("sync") } else { hinfs.fsync(file) };
            hinfs.write(file, 0, &[1; PAGE]);
            sync();
            sim::sleep(Nanos::from_millis(4_000));
            assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[2; PAGE])), 1);
            assert_eq!(eager(&hinfs, || hinfs.write(file, PAGE as u64, &[2; PAGE])), 0);
            sync();
            sim::sleep(Nanos::from_millis(4_000));
            assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[3; PAGE])), 1, "all files: {all}");
            hinfs.end();
        }
    });
}

/// A buffered line would have been written back at that age, so that the sync would have flushed none.
#[test]
fn a_sync_does_not_count_lines_of_direct_writes_that_write_back_would_have_flushed() {
    virtually(1, || {
        for (age_ms, direct) in [(29_900, 1), (30_100, 0)] {
            let hinfs = Mounted::paper("hinfs", 64, &[("eager_timeout", "1000s")]);
            let file = hinfs.settled("file", 1);
            hinfs.write(file, 0, &[1; PAGE]);
            hinfs.fsync(file);
            assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[2; PAGE])), 1);
            sim::sleep(Nanos::from_millis(age_ms));
            hinfs.fsync(file);
            assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[3; PAGE])), direct, "{age_ms} ms");
            hinfs.end();
        }
    });
}

#[test]
fn appends_that_are_synced_become_eager() {
    virtually(1, || {
        for (policy, eager_pieces) in [("inherit", 9 * 2), ("lazy", 0)] {
            let hinfs = Mounted::paper("hinfs", 64, &[("new_blocks", policy)]);
            let file = hinfs.create("log");
            let pieces = eager(&hinfs, || {
                for n in 0..10 {
                    hinfs.write(file, n * 8192, &[n as u8; 8192]);
                    hinfs.fsync(file);
                }
            });
            assert_eq!(pieces, eager_pieces, "{policy}");
            hinfs.end();
        }
    });
}

#[test]
fn a_medium_as_fast_as_dram_is_written_directly() {
    virtually(1, || {
        let hinfs = Mounted::new("hinfs", free_region(Bytes::mib(8)), &[("medium_write", "50ns")]);
        let file = hinfs.create("file");
        assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[1; 3 * PAGE])), 3);
        assert_eq!((hinfs.counter("pages_used"), hinfs.counter("ghosts")), (0, 0), "and nothing is counted");
        hinfs.fsync(file);
        assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[2; 3 * PAGE])), 3, "nor judged by a sync");
        hinfs.end();
    });
}

#[test]
fn synchronous_writes_are_eager_and_judge_nothing() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 64, &[]);
        let file = hinfs.settled("file", 2);
        assert_eq!(eager(&hinfs, || hinfs.write_sync(file, 100, &[1; PAGE])), 2);
        assert_eq!(eager(&hinfs, || hinfs.write(file, 100, &[2; 10])), 0);
        // Into a buffered block: through the page, whose lines are flushed at once.
        let spent = cost(|| hinfs.write_sync(file, 300, &[3; 10]));
        assert_eq!(spent.data_lines, 2, "the one that was dirty, and the new one");
        assert_eq!(hinfs.counter("pages_used"), 0);
        assert_eq!(hinfs.read(file, 100, 10), [2; 10]);
        hinfs.end();
        let sync = Mounted::paper("hinfs", 64, &[("sync", "true")]);
        let file = sync.create("file");
        assert_eq!(eager(&sync, || sync.write(file, 0, &[1; 2 * PAGE])), 2);
        sync.end();
    });
}

#[test]
fn the_state_of_blocks_is_kept_for_no_more_than_the_pool_has_pages() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 8, &[]);
        let file = hinfs.settled("file", 40);
        for block in 0..40 {
            hinfs.write(file, block * PAGE as u64, &[1; PAGE]);
            hinfs.fsync(file);
            assert!(hinfs.counter("ghosts") <= 8);
        }
        // The last 8 are remembered as eager, the others are forgotten.
        let pieces = |range: std::ops::Range<u64>| {
            eager(&hinfs, || range.for_each(|block| hinfs.write(file, block * PAGE as u64, &[2; PAGE])))
        };
        assert_eq!(pieces(32..40), 8);
        assert_eq!(pieces(0..4), 0);
        hinfs.end();
    });
}

#[test]
fn a_removed_file_leaves_no_state_behind_for_the_next_in_its_slot() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 64, &[]);
        for _ in 0..3 {
            let file = hinfs.create("file");
            assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[1; PAGE])), 0);
            hinfs.fsync(file);
            assert_eq!(eager(&hinfs, || hinfs.write(file, 0, &[1; PAGE])), 1);
            hinfs.unlink("file");
            assert_eq!((hinfs.counter("ghosts"), hinfs.counter("pages_used")), (0, 0));
        }
        hinfs.end();
    });
}
