//! Order, thresholds, ages, waiting, the journal's pressure.

use std::sync::Arc;

use sim::{Bytes, Clock, Nanos, TaskSpec};
use vfs::SetAttr;

use crate::hinfs::support::{DESIGNS, Mounted, PAGE, cost, free_region, run, virtually};

/// Which of the first `blocks` blocks of a file have `byte` on the medium: looks behind the buffer, through the image.
fn on_medium(mounted: &Mounted, blocks: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    for number in 0..mounted.region.len() / PAGE as u64 {
        let mut page = [0; PAGE];
        mounted.region.peek(number * PAGE as u64, &mut page).expect("inside");
        found.extend(blocks.iter().copied().filter(|byte| page == [*byte; PAGE]));
    }
    found.sort_unstable();
    found
}

#[test]
fn write_back_starts_below_five_percent_and_ends_above_twenty() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 100, &[]);
        let file = hinfs.settled("file", 200);
        (0..95).for_each(|block| hinfs.write(file, block * PAGE as u64, &[1; PAGE]));
        sim::sleep(Nanos::from_millis(100));
        assert_eq!((hinfs.counter("pages_used"), hinfs.counter("lines_written_back")), (95, 0));
        hinfs.write(file, 95 * PAGE as u64, &[1; PAGE]);
        sim::sleep(Nanos::from_millis(100));
        let used = hinfs.counter("pages_used");
        assert!(
            (76..80).contains(&used),
            "until 21 of 100 are free, and what three other tasks have in hand: {used}"
        );
        assert_eq!(hinfs.counter("blocks_listed"), used);
        assert_eq!(hinfs.counter("lines_written_back"), (96 - used) * 64);
        assert_eq!(hinfs.counter("stalls"), 0);
        hinfs.end();
    });
}

#[test]
fn the_least_recently_written_block_goes_first_whoever_reads() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 10, &[("writeback_tasks", "1")]);
        let file = hinfs.settled("file", 20);
        let write = |block: u8| hinfs.write(file, u64::from(block) * PAGE as u64, &[100 + block; PAGE]);
        (0..9).for_each(write);
        write(0);
        hinfs.read(file, PAGE as u64, PAGE);
        (9..10).for_each(write);
        sim::sleep(Nanos::from_millis(10));
        assert_eq!(on_medium(&hinfs, &[100, 101, 102, 103]), [101, 102, 103], "block 0 was written again");
        hinfs.end();
    });
}

#[test]
fn blocks_are_written_back_thirty_seconds_after_their_last_write() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 100, &[]);
        let file = hinfs.create("file");
        hinfs.write(file, 0, &vec![1; 20 * PAGE]);
        sim::sleep(Nanos::from_secs(20));
        hinfs.write(file, 0, &[2; PAGE]);
        sim::sleep(Nanos::from_secs(9));
        assert_eq!((hinfs.counter("lines_written_back"), hinfs.counter("transactions_open")), (0, 1));
        // All of them, in one round at most 5 s after they were old enough; the one written later stays.
        sim::sleep(Nanos::from_secs(7));
        assert_eq!((hinfs.counter("lines_written_back"), hinfs.counter("pages_used")), (19 * 64, 1));
        assert_eq!(hinfs.counter("transactions_open"), 1, "it waits for the last block");
        sim::sleep(Nanos::from_secs(20));
        assert_eq!((hinfs.counter("pages_used"), hinfs.counter("transactions_open")), (0, 0));
        hinfs.end();
    });
}

#[test]
fn old_blocks_are_found_even_when_write_back_is_often_called_for_other_reasons() {
    virtually(1, || {
        // The journal is short of space all the time, which wakes the tasks all the time.
        let hinfs = Mounted::new(
            "hinfs",
            free_region(Bytes::mib(16)),
            &[("jsize", "64k"), ("medium_write", "200ns")],
        );
        let old = hinfs.settled("old", 1);
        hinfs.write(old, 0, &[1; PAGE]);
        for n in 0..400 {
            let file = hinfs.create(&format!("{n}"));
            hinfs.write(file, 0, &[2; 100]);
            sim::sleep(Nanos::from_millis(100));
        }
        assert!(hinfs.counter("journal_evictions") > 0);
        assert_eq!(on_medium(&hinfs, &[1]), [1]);
        hinfs.end();
    });
}

#[test]
fn nclfw_evicts_4096_bytes_and_clfw_the_dirty_lines() {
    virtually(1, || {
        for (design, lines) in [("hinfs", 1 + 2 + 64), ("hinfs-nclfw", 3 * 64), ("hinfs-wb", 1 + 2 + 64)] {
            let mounted = Mounted::paper(design, 64, &[]);
            let file = mounted.settled("file", 3);
            mounted.write(file, 10, &[1; 5]);
            mounted.write(file, PAGE as u64 + 60, &[1; 10]);
            mounted.write(file, 2 * PAGE as u64, &[1; PAGE]);
            let spent = cost(|| sim::sleep(Nanos::from_secs(36)));
            assert_eq!((spent.data_lines, mounted.counter("lines_written_back")), (lines, lines), "{design}");
            mounted.end();
        }
    });
}

#[test]
fn a_writer_without_a_page_waits_for_write_back_and_no_longer() {
    virtually(1, || {
        for design in DESIGNS {
            for pages in [2, 3, 7] {
                for tasks in ["1", "4"] {
                    let mounted = Mounted::paper(design, pages, &[("writeback_tasks", tasks)]);
                    let file = mounted.settled("file", 64);
                    let spent =
                        cost(|| (0..64).for_each(|b| mounted.write(file, b * PAGE as u64, &[1; PAGE])));
                    assert!(
                        mounted.counter("stalls") > 0,
                        "{design}, {pages} pages, {tasks}: {:?}",
                        mounted.fs.counters()
                    );
                    // 64 blocks of 12.8 us, and little besides.
                    assert!(spent.time < Nanos::from_millis(3), "{design}, {pages} pages: {spent:?}");
                    mounted.end();
                }
            }
        }
    });
}

/// Time that write-back takes for about 1,000 blocks of one file.
fn time_of_one_file(tasks: &'static str) -> f64 {
    let blocks = 1_000;
    let hinfs = Mounted::paper("hinfs", 4_000, &[("writeback_tasks", tasks), ("low", "1%"), ("high", "25%")]);
    let file = hinfs.settled("file", 4_000);
    let written = |hinfs: &Mounted| hinfs.counter("lines_written_back") / 64;
    let page = [1; PAGE];
    (0..3_961).for_each(|block| hinfs.write(file, block * PAGE as u64, &page));
    let (start, before) = (sim::now(), written(&hinfs));
    while written(&hinfs) < before + blocks / 2 {
        sim::sleep(Nanos::from_micros(10));
    }
    let time = sim::now().since(start).0 as f64;
    hinfs.end();
    time
}

#[test]
fn several_tasks_write_blocks_of_one_file_at_once() {
    virtually(1, || {
        let (alone, together) = (time_of_one_file("1"), time_of_one_file("4"));
        assert!(alone / together > 2.7, "the medium admits three writers: {alone} ns, then {together} ns");
    });
}

#[test]
fn a_block_in_flight_is_read_from_dram_and_dropped_after_it_has_landed() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 100, &[]);
        let file = hinfs.settled("file", 200);
        (0..96).for_each(|block| hinfs.write(file, block * PAGE as u64, &[2; PAGE]));
        // The oldest blocks are under way now, for 12.8 us.
        sim::sleep(Nanos::from_micros(5));
        assert_eq!(hinfs.counter("lines_written_back"), 0);
        let read = cost(|| assert_eq!(hinfs.read(file, 0, PAGE), [2; PAGE]));
        assert!(read.time < Nanos::from_micros(3), "nobody waits to read: {read:?}");
        let written = cost(|| hinfs.write(file, 0, &[3; PAGE]));
        assert!(written.time > Nanos::from_micros(3), "a writer waits for the landing: {written:?}");
        assert_eq!(hinfs.read(file, 0, PAGE), [3; PAGE]);
        hinfs.unlink("file");
        let other = hinfs.settled("other", 200);
        sim::sleep(Nanos::from_millis(1));
        assert_eq!(
            hinfs.read(other, 0, 200 * PAGE),
            vec![0x11; 200 * PAGE],
            "no flight of the old file lands here"
        );
        hinfs.end();
    });
}

#[test]
fn a_file_can_be_synced_and_removed_while_its_blocks_are_in_flight() {
    virtually(1, || {
        for delay in (0..30).map(|half| half * 500) {
            let hinfs = Arc::new(Mounted::paper("hinfs", 100, &[]));
            let file = hinfs.settled("file", 200);
            (0..96).for_each(|block| hinfs.write(file, block * PAGE as u64, &[2; PAGE]));
            let other = Arc::clone(&hinfs);
            let sync = sim::spawn(TaskSpec::named("sync"), move || {
                sim::sleep(Nanos(delay));
                other.fs.sync().expect("sync");
            });
            sim::sleep(Nanos(7_000));
            hinfs.unlink("file");
            sync.join();
            assert_eq!(hinfs.counter("pages_used"), 0, "sync {delay} ns after the writes, removal 7,000");
            Arc::into_inner(hinfs).expect("the other task has ended").end();
        }
    });
}

/// Tasks that each write small files, with little of everything.
fn crowd(clock: Clock, design: &'static str, pages: &'static str, tasks: u64, files: u64) -> Nanos {
    run(clock, tasks, move || {
        let options =
            [("jsize", "64k"), ("buffer", pages), ("medium_write", "200ns"), ("writeback_tasks", "1")];
        let mounted = Arc::new(Mounted::new(design, free_region(Bytes::mib(64)), &options));
        let start = sim::now();
        let writers: Vec<_> = (0..tasks)
            .map(|task| {
                let mounted = Arc::clone(&mounted);
                sim::spawn(TaskSpec::named("writer").on_core(task as u16), move || {
                    for n in 0..files {
                        let (name, fill) = (format!("{task}.{n}"), (task + n) as u8);
                        let file = mounted.create(&name);
                        (0..6).for_each(|part| mounted.write(file, part * 3000, &[fill; 3000]));
                        match n % 4 {
                            0 => mounted.unlink(&name),
                            1 => mounted.fsync(file),
                            2 => mounted.truncate(file, 4100),
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(sim::JoinHandle::join);
        let took = sim::now().since(start);
        mounted.fs.unmount().expect("unmount");
        mounted.check();
        assert_eq!((mounted.counter("pages_used"), mounted.counter("transactions_open")), (0, 0));
        took
    })
}

#[test]
fn nobody_waits_for_ever_for_pages_or_the_journal() {
    for design in DESIGNS {
        for (pages, tasks) in [("8k", 1), ("8k", 40), ("64k", 3), ("16MiB", 40)] {
            let took = crowd(Clock::Virtual, design, pages, tasks, 100);
            println!("{design}, buffer {pages}, {tasks} tasks, 64 KiB of journal: {took}");
            // No task may be woken by the 5-second round alone.
            assert!(took < Nanos::from_secs(1), "{design}, {pages}, {tasks} tasks: {took}");
        }
    }
}

#[test]
fn nobody_waits_for_ever_on_real_threads() {
    for design in DESIGNS {
        for (pages, tasks) in [("8k", 8), ("16MiB", 8)] {
            let took = crowd(Clock::Real, design, pages, tasks, 50);
            println!("{design}, buffer {pages}, {tasks} threads: {took}");
            assert!(took < Nanos::from_secs(20));
        }
    }
}

#[test]
fn creating_files_does_not_wait_for_a_transaction_that_stays_open() {
    virtually(1, || {
        let hinfs = Mounted::new(
            "hinfs",
            free_region(Bytes::mib(16)),
            &[("jsize", "64k"), ("medium_write", "200ns")],
        );
        let file = hinfs.create("open");
        hinfs.write(file, 0, &[1; PAGE]);
        assert_eq!(hinfs.counter("transactions_open"), 1);
        let spent = cost(|| {
            (0..1000).for_each(|n| {
                hinfs.create(&format!("{n}"));
            });
        });
        println!("1000 creates behind an open transaction in 64 KiB of journal: {}", spent.time);
        assert!(spent.time < Nanos::from_millis(50));
        // Its few entries are moved out of the way; its data stays buffered.
        assert_eq!((hinfs.counter("journal_evictions"), hinfs.counter("transactions_open")), (0, 1));
        assert!(hinfs.counter("journal_moves") > 0);
        hinfs.end();
    });
}

/// Write-back takes the ticket of a transaction that a writer has in its hands, which waits for pages, and the writer returns
/// it when another transaction has been moved out of the way and the journal has space again: nothing tells of it any more but
/// what write-back has left in the file. `creates` of them decide when the journal becomes short. Returns how often
/// write-back found a transaction gone.
fn return_a_transaction_late(creates: usize) -> u64 {
    let options = [("jsize", "64k"), ("dirty_age", "1h"), ("wake", "1h"), ("medium_write", "200ns")];
    let hinfs = Arc::new(Mounted::paper("hinfs", 1024, &options));
    let create = |prefix: &str, files: usize| {
        for n in 0..files {
            hinfs.create(&format!("{prefix}{n}"));
        }
    };
    let lines = hinfs.settled("lines", 1000);
    (0..950).for_each(|block| hinfs.write(lines, block * PAGE as u64, &[1; 64]));
    let first = hinfs.create("first");
    hinfs.write(first, 0, &[2; PAGE]);
    create("before", creates);
    let file = hinfs.create("file");
    hinfs.write(file, 0, &[3; PAGE]);
    let other = Arc::clone(&hinfs);
    let writer = sim::spawn(TaskSpec::named("writer").on_core(1), move || {
        other.write(file, PAGE as u64, &vec![4; 500 * PAGE]);
    });
    sim::sleep(Nanos::from_micros(100));
    create("meanwhile", 20);
    writer.join();
    let spent = cost(|| create("after", 300));
    assert!(spent.time < Nanos::from_millis(50), "{creates}: {spent:?}, {:?}", hinfs.fs.counters());
    let gone = hinfs.counter("transactions_gone");
    Arc::into_inner(hinfs).expect("the writer has ended").end();
    gone
}

#[test]
fn a_transaction_that_was_in_a_writer_s_hands_is_not_forgotten() {
    virtually(1, || {
        let gone: u64 = (40..100).map(return_a_transaction_late).sum();
        assert!(gone > 0, "the test must show what it is about");
    });
}

#[test]
fn the_journal_s_pressure_completes_only_as_many_transactions_as_needed() {
    virtually(1, || {
        let hinfs = Mounted::new(
            "hinfs",
            free_region(Bytes::mib(64)),
            &[("jsize", "64k"), ("medium_write", "200ns")],
        );
        for n in 0..1000 {
            let file = hinfs.create(&format!("{n}"));
            hinfs.write(file, 0, &[1; PAGE]);
        }
        let open = hinfs.counter("transactions_open");
        println!("open transactions in 1024 entries of journal: {open}");
        // A create takes about as much as a first write: a quarter of the journal is open transactions, at least.
        assert!(open >= 15, "{open}");
        hinfs.end();
    });
}

#[test]
fn what_changes_attributes_commits_what_is_open() {
    virtually(1, || {
        let hinfs = Mounted::paper("hinfs", 64, &[]);
        let root = hinfs.fs.root();
        let perm = SetAttr { perm: Some(0o600), ..SetAttr::default() };
        let steps: [&dyn Fn(vfs::Ino); 6] = [
            &|file| {
                hinfs.fs.setattr(file, &perm).expect("chmod");
            },
            &|file| {
                hinfs.fs.link(file, root, b"link").expect("link");
            },
            &|_| {
                hinfs
                    .fs
                    .rename((root, b"link"), (root, b"moved"), vfs::RenameFlags::empty().into())
                    .expect("rename");
            },
            &|_| hinfs.unlink("moved"),
            &|file| hinfs.truncate(file, 100),
            &|file| hinfs.fs.fallocate(file, vfs::FallocateMode::KEEP_SIZE, 0, 99_999).expect("fallocate"),
        ];
        let file = hinfs.create("file");
        for (number, step) in steps.iter().enumerate() {
            hinfs.write(file, hinfs.size(file), &[number as u8; 5000]);
            assert_eq!(hinfs.counter("transactions_open"), 1, "step {number}");
            step(file);
            assert_eq!(hinfs.counter("transactions_open"), 0, "step {number}");
        }
        // The access time is beside what a transaction logs.
        hinfs.write(file, hinfs.size(file), &[9; 5000]);
        hinfs.fs.accessed(file).expect("accessed");
        assert_eq!(hinfs.counter("transactions_open"), 1);
        hinfs.end();
    });
}

#[test]
fn sync_waits_for_what_write_back_has_in_hand() {
    for seed in 0..20 {
        virtually(seed, move || {
            let hinfs = Mounted::paper("hinfs", 20, &[]);
            let file = hinfs.settled("file", 20);
            (0..20).for_each(|block| hinfs.write(file, block * PAGE as u64, &[7; PAGE]));
            // Write-back has chosen blocks by now and is writing some of them.
            sim::sleep(Nanos(seed * 1_300));
            hinfs.fs.sync().expect("sync");
            assert_eq!(on_medium(&hinfs, &[7]).len(), 20);
            assert_eq!(hinfs.counter("pages_used"), 0);
            hinfs.end();
        });
    }
}

#[test]
fn an_open_file_without_a_name_can_be_written_until_its_release() {
    virtually(1, || {
        for design in DESIGNS {
            let mounted = Mounted::paper(design, 4, &[]);
            let free = mounted.fs.statfs().expect("statfs").blocks_free;
            let file = mounted.create("file");
            mounted.open(file);
            mounted.write(file, 0, &[1; 3 * PAGE]);
            mounted.unlink("file");
            mounted.write(file, 3 * PAGE as u64, &vec![2; 10 * PAGE]);
            mounted.truncate(file, 5 * PAGE as u64 + 1);
            mounted.write(file, 8 * PAGE as u64, &[3; 10]);
            let mut expected = vec![1; 3 * PAGE];
            expected.resize(5 * PAGE + 1, 2);
            expected.resize(8 * PAGE, 0);
            expected.extend([3; 10]);
            assert!(mounted.read(file, 0, 100_000) == expected, "{design}");
            mounted.fs.release(file);
            assert_eq!((mounted.counter("pages_used"), mounted.counter("transactions_open")), (0, 0));
            assert_eq!(mounted.fs.statfs().expect("statfs").blocks_free, free);
            mounted.end();
        }
    });
}
