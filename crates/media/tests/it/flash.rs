//! The SSD model against numbers that were computed by hand or by an independent implementation of the published algorithm.

use media::flash::{Command, Data, FlashError, Hint, Op, Outcome, Queues, Ssd, SsdModel};
use sim::{Bytes, KIB, MIB, Nanos};

/// A device with `written` bytes from its start on, idle long after.
fn written(model: &str, written: u64) -> (Ssd, Nanos) {
    let config = SsdModel::parse(model).unwrap().config().unwrap();
    let mut ssd = Ssd::new(&config, Data::Drop).unwrap();
    let mut now = Nanos::ZERO;
    for offset in (0..written).step_by(config.max_transfer as usize) {
        let bytes = config.max_transfer.min(written - offset);
        now = finish(&mut ssd, Command::new(Op::Write, offset, bytes), now);
    }
    // A whole second: the beginning of a bucket of every link.
    (ssd, Nanos::from_secs(now.0 / 1_000_000_000 + 1))
}

/// Submits as often as it takes.
fn finish(ssd: &mut Ssd, command: Command, mut now: Nanos) -> Nanos {
    loop {
        match ssd.submit(&command, now).unwrap() {
            Outcome::Done { at } => return at,
            Outcome::Busy { retry_at } => now = retry_at,
        }
    }
}

/// How long one command takes on an idle device.
fn latency(model: &str, op: Op, offset: u64, bytes: u64) -> u64 {
    let (mut ssd, now) = written(model, 2 * MIB);
    (finish(&mut ssd, Command::new(op, offset, bytes), now) - now).0
}

#[test]
fn one_read_of_the_fast24_device_takes_the_published_time_to_the_nanosecond() {
    let vectors = [
        (0, 4, 57_276),
        (256, 4, 69_276), // the next row of one-shot pages is of most significant bits
        (0, 8, 72_535),
        (0, 32, 108_023), // of which 4 us are the rounding to buckets
        (0, 64, 112_023),
        (0, 128, 120_023),
        (0, 256, 160_023),
    ];
    for (offset_kib, kib, ns) in vectors {
        let measured = latency("fast24", Op::Read, offset_kib * KIB, kib * KIB);
        assert_eq!(measured, ns, "{kib} KiB at {offset_kib} KiB");
    }
}

#[test]
fn one_buffered_write_takes_the_published_time() {
    assert_eq!(latency("fast24", Op::Write, 0, 4 * KIB), 4_000 + 460 + 32 * 36);
    assert_eq!(latency("nvmevirt.970pro", Op::Write, 0, 4 * KIB), 5_612);
}

#[test]
fn an_upstream_read_of_up_to_16_kib_is_small_and_goes_to_four_layers() {
    // Four pages lie on four dies of different channels: one 4-KiB read each, then four turns on the PCIe link.
    assert_eq!(latency("nvmevirt.970pro", Op::Read, 0, 4 * KIB), 57_276);
    let four = latency("nvmevirt.970pro", Op::Read, 0, 16 * KIB);
    assert!((57_276..57_276 + 8_000).contains(&four), "{four}");
    // 32 KiB are two pages of each of four flash pages, with the firmware time of a large read.
    let eight = latency("nvmevirt.970pro", Op::Read, 0, 32 * KIB);
    assert!((72_535..72_535 + 12_000).contains(&eight), "{eight}");
}

#[test]
fn a_write_that_is_forced_to_flash_waits_for_the_program() {
    let (mut ssd, now) = written("fast24", 0);
    let mut command = Command::new(Op::Write, 0, 32 * KIB);
    command.fua = true;
    // Firmware 4,000 + 8 * 460, PCIe 256 * 36 and its two buckets, channel 256 * 152, program.
    let at = (finish(&mut ssd, command, now) - now).0;
    let parts = 4_000 + 8 * 460 + 256 * 36 + 256 * 152 + 185_000;
    assert!((parts..=parts + 8_000).contains(&at), "{at} for {parts}");
}

#[test]
fn a_page_is_sensed_again_by_each_command_that_reads_it() {
    let (mut ssd, now) = written("fast24", MIB);
    let first = finish(&mut ssd, Command::new(Op::Read, 0, 4 * KIB), now);
    let (mut fresh, _) = written("fast24", MIB);
    finish(&mut fresh, Command::new(Op::Read, 4 * KIB, 4 * KIB), now);
    let second = finish(&mut fresh, Command::new(Op::Read, 0, 4 * KIB), now);
    assert!(second.0 - first.0 >= 29_760, "{first} {second}");
}

#[test]
fn a_flush_waits_for_every_die_and_forces_nothing() {
    let (mut ssd, now) = written("fast24", 0);
    finish(&mut ssd, Command::new(Op::Write, 0, 4 * KIB), now);
    assert_eq!(finish(&mut ssd, Command::new(Op::Flush, 0, 0), now + Nanos(10_000)), now + Nanos(10_000));
}

#[test]
fn zoned_devices_take_their_published_times() {
    // Firmware 32,150, sense 25,485, channel 32 * (152 + 12), PCIe 32 * 38.
    let zns = "nvmevirt.zns";
    assert_eq!(latency(zns, Op::Read, 0, 4 * KIB), 32_150 + 25_485 + 32 * 164 + 32 * 38);
    // No early completion: the write ends with the program of its one-shot page.
    let (mut ssd, now) = written(zns, 0);
    let at = (finish(&mut ssd, Command::new(Op::Write, 0, 128 * KIB), now) - now).0;
    let parts = 1024 * 38 + 1024 * 164 + 1_913_640;
    assert!((parts..parts + 12_000).contains(&at), "{at} for {parts}");
}

#[test]
fn a_zone_takes_writes_at_its_pointer_only() {
    let (mut ssd, now) = written("nvmevirt.zns", 128 * KIB);
    let again = ssd.submit(&Command::new(Op::Write, 0, 128 * KIB), now);
    assert_eq!(again, Err(FlashError::NotAtWritePointer { zone: 0, lba: 0, pointer: 256 }));
    let short = ssd.submit(&Command::new(Op::Write, 128 * KIB, 4 * KIB), now);
    assert!(matches!(short, Err(FlashError::BadZoneWrite { zone: 0, .. })), "{short:?}");
    let done = finish(&mut ssd, Command::new(Op::ResetZone, 0, 512), now);
    finish(&mut ssd, Command::new(Op::Write, 0, 128 * KIB), done);
    assert_eq!(ssd.statistics().erases, (0, 1, 1));
}

#[test]
fn a_zone_that_is_not_whole_oneshot_pages_fills_to_its_end() {
    let (mut ssd, mut now) = written("nvmevirt.zn540,zone=1MiB", 0);
    for k in 0..8 {
        now = finish(&mut ssd, Command::new(Op::Write, k * 128 * KIB, 128 * KIB), now);
    }
    let now = finish(&mut ssd, Command::new(Op::ResetZone, 0, 512), now + Nanos::from_secs(1));
    finish(&mut ssd, Command::new(Op::Write, 0, 128 * KIB), now);
}

#[test]
fn units_serve_pieces_in_turn() {
    let model = "nvmevirt.units,read_delay=5000ns,read_time=2000ns,write_delay=1us,write_time=3us";
    let config = SsdModel::parse(model).unwrap().config().unwrap();
    let mut ssd = Ssd::new(&config, Data::Drop).unwrap();
    let mut at = |op, offset, bytes| match ssd.submit(&Command::new(op, offset, bytes), Nanos(0)).unwrap() {
        Outcome::Done { at } => at.0,
        Outcome::Busy { .. } => panic!("units are never busy"),
    };
    assert_eq!(at(Op::Read, 0, 4 * KIB), 7_000);
    assert_eq!(at(Op::Read, 4 * KIB, 8 * KIB), 9_000, "two pieces on units 1 and 2");
    assert_eq!(at(Op::Write, 0, 4 * KIB), 7_000 + 1_000 + 3_000, "after the read of unit 0");
    assert_eq!(at(Op::Flush, 0, 0), 11_000);
}

/// MiB/s of `count` reads with `depth` outstanding.
fn throughput(model: &str, bytes: u64, depth: u64, count: u64, offset: impl Fn(u64) -> u64) -> f64 {
    let (mut ssd, start) = written(model, 512 * MIB);
    let mut queues = Queues::new(1);
    let (mut next, mut last) = (0, start);
    while next < depth.min(count) {
        assert!(queues.post(0, next, Command::new(Op::Read, offset(next), bytes), start));
        next += 1;
    }
    while let Some(done) = queues.next(&mut ssd).unwrap() {
        last = done.at;
        if next < count {
            queues.post(0, next, Command::new(Op::Read, offset(next), bytes), last);
            next += 1;
        }
    }
    (count * bytes) as f64 / MIB as f64 / (last - start).as_secs_f64()
}

fn near(measured: f64, published: f64, within: f64) {
    assert!((measured / published - 1.0).abs() < within, "{measured} for {published}");
}

#[test]
fn throughput_saturates_where_the_links_do() {
    let sequential = |i: u64| i * 256 * KIB % (512 * MIB);
    near(throughput("fast24", 256 * KIB, 32, 4_000, sequential), 3094.0, 0.01);
    let sixteen = "fast24,channels=8,buffer=16MiB";
    near(throughput(sixteen, 256 * KIB, 32, 4_000, sequential), 3354.0, 0.01);
}

/// Offsets without a pattern, multiples of `align`, below 512 MiB.
fn scattered(i: u64, align: u64) -> u64 {
    let mut x = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) % (512 * MIB / align) * align
}

#[test]
fn aligned_random_reads_dip_where_they_share_dies() {
    // MB/s by alignment in KiB, as the published algorithm gives.
    for (align, megabytes) in [(4, 700.0), (32, 700.0), (64, 375.0), (128, 196.0), (256, 101.0), (192, 382.0)]
    {
        let mib = throughput("fast24", 4 * KIB, 32, 20_000, |i| scattered(i, align * KIB));
        near(mib * MIB as f64 / 1e6, megabytes, 0.04);
    }
}

#[test]
fn eight_mib_of_random_blocks_take_the_published_times() {
    // Microseconds by size of the block in KiB, at queue depth 1 and 32.
    for (kib, one, many) in [
        (256_u64, 5_300.0, 2_700.0),
        (128, 8_000.0, 3_000.0),
        (64, 14_700.0, 3_300.0),
        (32, 28_400.0, 3_300.0),
        (4, 130_000.0, 12_100.0),
    ] {
        let count = 8 * 1024 / kib;
        let batch = |depth, batch: u64| {
            8e6 / throughput("fast24", kib * KIB, depth, count, |i| scattered(batch << 32 | i, kib * KIB))
        };
        let time = |depth| (0..10).map(|number| batch(depth, number)).sum::<f64>() / 10.0;
        near(time(1), one, 0.04);
        near(time(32), many, 0.06);
    }
}

#[test]
fn sustained_writes_are_bound_by_programs() {
    let (mut ssd, now) = written("fast24", 0);
    let mut queues = Queues::new(1);
    let total = 512 * MIB;
    let write = |i: u64| Command::new(Op::Write, i * 256 * KIB, 256 * KIB);
    (0..32).for_each(|i| assert!(queues.post(0, i, write(i), now)));
    let (mut next, mut last) = (32, now);
    while let Some(done) = queues.next(&mut ssd).unwrap() {
        last = done.at;
        if next * 256 * KIB < total {
            queues.post(0, next, write(next), last);
            next += 1;
        }
    }
    near(total as f64 / (last - now).as_secs_f64() / 1e6, 1171.0, 0.02);
}

#[test]
fn hints_put_an_append_on_the_next_die_and_an_overwrite_on_its_own() {
    let die = |ssd: &Ssd, offset| ssd.layout(offset).unwrap().die;
    for (allocation, expected) in [("off", [0, 0, 0, 0]), ("on", [0, 1, 2, 1])] {
        let (mut ssd, mut now) = written(&format!("fast24,allocation={allocation}"), 0);
        let mut write = |ssd: &mut Ssd, offset, bytes, hint| {
            now = finish(ssd, Command::new(Op::Write, offset, bytes).with_hint(hint), now);
        };
        // The file's pieces of 32 KiB at 0, 256 and 512 KiB, 224 KiB of others between; then its second piece again.
        for piece in 0..3_u64 {
            let hint = match piece {
                0 => Hint::None,
                _ => Hint::Append { prior_lba: ((piece - 1) * 256 + 28) * KIB / 512 },
            };
            write(&mut ssd, piece * 256 * KIB, 32 * KIB, hint);
            let others = piece * 256 * KIB + 32 * KIB;
            write(&mut ssd, others, 224 * KIB, Hint::None);
        }
        let before = [0, 256, 512].map(|kib| die(&ssd, kib * KIB));
        write(&mut ssd, 256 * KIB, 32 * KIB, Hint::Overwrite);
        let dies = [before[0], before[1], before[2], die(&ssd, 256 * KIB)];
        assert_eq!(dies, expected, "allocation {allocation}");
    }
}

#[test]
fn a_small_append_stays_on_its_flash_page_unless_the_defect_is_asked_for() {
    for (skips, expected) in [("yes", [0, 1, 2]), ("no", [0, 0, 0])] {
        let (mut ssd, mut now) = written(&format!("fast24,allocation=on,append_skips={skips}"), 0);
        let mut dies = [9; 3];
        for piece in 0..3_u64 {
            let hint = if piece == 0 { Hint::None } else { Hint::Append { prior_lba: (piece - 1) * 8 } };
            now = finish(&mut ssd, Command::new(Op::Write, piece * 4 * KIB, 4 * KIB).with_hint(hint), now);
            dies[piece as usize] = ssd.layout(piece * 4 * KIB).unwrap().die;
        }
        assert_eq!(dies, expected, "append_skips={skips}");
    }
}

#[test]
fn what_does_not_fit_the_device_is_refused() {
    let config = SsdModel::named("fast24").unwrap().config().unwrap();
    let mut ssd = Ssd::with_namespaces(&config, Data::Drop, &[Bytes::mib(1), Bytes::mib(2)]).unwrap();
    assert_eq!(ssd.size(1).unwrap(), Bytes::mib(2));
    let mut refused = |command: Command, now| ssd.submit(&command, Nanos(now)).unwrap_err().to_string();
    let read = |offset, bytes| Command::new(Op::Read, offset, bytes);
    assert!(refused(read(MIB - 4 * KIB, 8 * KIB), 0).contains("beyond the namespace"));
    assert!(refused(read(0, 512 * KIB), 0).contains("it may move 512 to 262144"));
    assert!(refused(read(0, 0), 0).contains("0 bytes"));
    assert!(refused(Command { namespace: 2, ..read(0, 512) }, 0).contains("no namespace 2"));
    assert!(refused(Command { lba: u64::MAX, ..read(0, 512) }, 0).contains("beyond"));
    assert!(refused(Command::new(Op::Trim, 0, 4096), 0).contains("trim=yes"));
    assert!(ssd.submit(&read(0, 4096), Nanos(100)).is_ok());
    let late = ssd.submit(&read(0, 4096), Nanos(99)).unwrap_err();
    assert_eq!(late, FlashError::Backwards { now: 99, last: 100 });
}

#[test]
fn impossible_devices_are_refused_with_the_reason() {
    for (model, reason) in [
        ("fast24,channels=3,partitions=2", "cannot be shared"),
        ("fast24,flash_page=5000", "whole pages"),
        ("fast24,oneshot_page=48KiB", "whole flash pages"),
        ("fast24,blocks=8", "lines to collect into"),
        ("fast24,buffer=64KiB", "can fill up for good"),
        ("fast24,channel=1MB/s", "moves nothing"),
        ("fast24,cells=4", "cells"),
        ("fast24,dies=0", "dies = 0"),
        ("nvmevirt.zns,zone_dies=1000", "1000 dies"),
        ("nvmevirt.units,units=0", "at least one unit"),
    ] {
        let error = SsdModel::parse(model).unwrap().config().unwrap_err().to_string();
        assert!(error.contains(reason), "{model}: {error}");
    }
    assert!(SsdModel::parse("fast25").unwrap_err().to_string().contains("did you mean \"fast24\"?"));
    assert!(SsdModel::parse("fast24,chanels=4").unwrap_err().to_string().contains("\"channels\""));
}

#[test]
fn every_preset_is_a_device_that_can_be_built() {
    for (name, _) in media::flash::model::PRESETS {
        let config = SsdModel::named(name).unwrap().config().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(Ssd::new(&config, Data::Drop).is_ok(), "{name}");
    }
}
