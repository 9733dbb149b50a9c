//! The hard disk: rates of a data sheet, the order of its queue, and what its cache promises.

use std::sync::Arc;

use media::block::{BlockDevice, DiskDevice, Request, WriteFlags};
use sim::{Bytes, Machine, Nanos, Seed, Setup};

const PAGE: u64 = 4096;
const SIZE: u64 = 32 << 30;

/// Runs `work` on a new disk; how long it took.
fn timed(work: impl FnOnce(&Arc<DiskDevice>) + Send + 'static) -> f64 {
    let disk = DiskDevice::new(Bytes(SIZE), 32).expect("memory");
    let run = move || {
        work(&disk);
        sim::now()
    };
    let took = sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), run).expect("the run ends");
    took.0 as f64 / 1e9
}

/// Places all over the disk, from a seed.
fn places(seed: u64, count: usize) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 20) % (SIZE / PAGE) * PAGE
    };
    (0..count).map(|_| next()).collect()
}

/// Random reads of a page a second, with so many outstanding.
fn random_reads(depth: usize) -> f64 {
    let count = 1000;
    let took = timed(move |disk| {
        let mut outstanding = std::collections::VecDeque::new();
        let mut buffer = vec![0; PAGE as usize];
        for off in places(7, count) {
            if outstanding.len() == depth {
                disk.wait(outstanding.pop_front().expect("some")).expect("read");
            }
            outstanding.push_back(disk.submit(Request::Read { off, buf: &mut buffer }));
        }
        disk.wait_all(outstanding.into()).expect("read");
    });
    count as f64 / took
}

#[test]
fn random_reads_are_those_of_a_disk_of_7200_turns_and_gain_from_a_queue() {
    let (one, many) = (random_reads(1), random_reads(32));
    assert!((75.0..=100.0).contains(&one), "{one} a second");
    assert!((150.0..=250.0).contains(&many), "{many} a second with 32 outstanding");
}

#[test]
fn reading_on_costs_the_bytes_alone_and_half_as_much_at_the_outer_edge() {
    let rate = |from: u64| {
        let bytes = 256 << 20;
        let took = timed(move |disk| {
            let mut buffer = vec![0; 1 << 20];
            for part in 0..bytes >> 20 {
                disk.read(from + (part << 20), &mut buffer).expect("read");
            }
        });
        bytes as f64 / took / 1e6
    };
    let (outer, inner) = (rate(0), rate(SIZE - (256 << 20)));
    assert!((outer / 209.0 - 1.0).abs() < 0.03, "{outer} MB/s");
    assert!((inner / 105.5 - 1.0).abs() < 0.03, "{inner} MB/s");
}

#[test]
fn a_write_is_complete_in_the_cache_and_a_flush_takes_what_the_disk_takes() {
    let write = |disk: &DiskDevice, flags| disk.write(8 << 30, &[1; PAGE as usize], flags).expect("write");
    let written = timed(move |disk| write(disk, WriteFlags::default()));
    let forced = timed(move |disk| write(disk, WriteFlags::FUA));
    let flushed = timed(move |disk| {
        write(disk, WriteFlags::default());
        disk.flush().expect("flush");
        let empty = sim::now();
        disk.flush().expect("flush");
        assert_eq!(sim::now(), empty, "there is nothing left to write");
    });
    assert!(written < 50e-6, "{written} s");
    assert!(forced > 5e-3 && flushed > 5e-3 && flushed < 30e-3, "{forced} s, {flushed} s");
}

#[test]
fn a_flush_waits_for_a_write_that_a_later_one_was_joined_to() {
    timed(|disk| {
        let mut buffer = vec![0; PAGE as usize];
        let page = [1; PAGE as usize];
        let busy = disk.submit(Request::Read { off: SIZE / 2, buf: &mut buffer });
        disk.write(0, &page, WriteFlags::default()).expect("write");
        let flush = disk.submit(Request::Flush);
        disk.write(PAGE, &page, WriteFlags::default()).expect("write");
        disk.wait(busy).expect("read");
        let free = sim::now();
        disk.wait(flush).expect("flush");
        assert!(
            sim::now().since(free) > Nanos::from_millis(1),
            "the arm has to come back for the first write"
        );
    });
}

#[test]
fn a_full_cache_writes_at_the_rate_of_the_disk() {
    let bytes: u64 = 512 << 20;
    let took = timed(move |disk| {
        let data = vec![1; 1 << 20];
        for part in 0..bytes >> 20 {
            disk.write(part << 20, &data, WriteFlags::default()).expect("write");
        }
        disk.flush().expect("flush");
    });
    let rate = bytes as f64 / took / 1e6;
    assert!((100.0..=210.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn the_cache_is_written_while_nothing_is_asked_for() {
    timed(|disk| {
        for off in places(3, 50) {
            disk.write(off, &[1; PAGE as usize], WriteFlags::default()).expect("write");
        }
        sim::sleep(Nanos::from_secs(2));
        let begin = sim::now();
        disk.flush().expect("flush");
        assert_eq!(sim::now(), begin);
    });
}

#[test]
fn what_was_written_is_read_and_requests_that_overlap_keep_their_order() {
    timed(|disk| {
        let mut buffer = vec![0; PAGE as usize];
        let first = disk.submit(Request::Write { off: 0, data: &[1; 4096], flags: WriteFlags::FUA });
        let second = disk.submit(Request::Write { off: 0, data: &[2; 4096], flags: WriteFlags::default() });
        let read = disk.submit(Request::Read { off: 0, buf: &mut buffer });
        disk.wait_all(vec![read, second, first]).expect("all");
        assert_eq!(buffer, [2; 4096]);
        assert!(disk.discard(0, 4096).is_err(), "a disk discards nothing");
    });
}
