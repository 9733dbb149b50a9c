//! Where I/Os go: the offsets, sizes and directions that jobs draw, beside what fio draws.

use super::*;
use crate::fio::{clones, parse, read};
use std::collections::BTreeSet;

/// The source of the first clone of the first job.
fn source(text: &str, seed: u64) -> Source {
    let mut parsed = parse::parse(&format!("[a]\n{text}\n"), &parse::Outside::default());
    let spec = Arc::new(read::read(&parsed.sections[0], &mut parsed.problems));
    let clones = clones::all(&[spec], &mut parsed.problems);
    assert_eq!(parsed.problems, [], "{text}");
    Source::new(&clones[0], Seed(seed))
}

/// The I/Os of a pass of which each ends at once.
fn pass(source: &mut Source) -> Vec<Io> {
    let mut ios = Vec::new();
    loop {
        match source.next(Nanos::ZERO, Nanos::MAX, 0) {
            Next::Io(io) => ios.push(io),
            Next::End | Next::Late => return ios,
            Next::Think(_) | Next::Drain => {}
        }
    }
}

fn ios(text: &str) -> Vec<Io> {
    pass(&mut source(text, 1))
}

fn share(ios: &[Io], of: impl Fn(&Io) -> bool) -> f64 {
    ios.iter().filter(|io| of(io)).count() as f64 / ios.len() as f64
}

#[test]
fn sequential_io_goes_from_the_beginning_to_the_end() {
    let ios = ios("rw=read\nsize=1m\nbs=64k\noffset=4k");
    let places: Vec<_> = ios.iter().map(|io| (io.offset, io.len, io.kind)).collect();
    let expected: Vec<_> = (0..16).map(|k| (4096 + k * 65536, 65536, Kind::Read)).collect();
    assert_eq!(places, expected);
}

#[test]
fn a_map_gives_each_block_once_in_a_pass_whatever_the_sizes() {
    for text in [
        "rw=randread\nsize=4m",
        "rw=randrw\nsize=4m\nbsrange=4k-64k",
        "rw=randwrite\nsize=4m\nbssplit=4k/50:16k/30:64k/20",
        "rw=randread:8\nsize=4m",
        "rw=randread\nsize=4m\npercentage_random=30",
        "rw=randrw\nsize=4m\nbs=4k,16k\nnrfiles=4",
        "rw=randread\nsize=4m\nrandom_generator=lfsr",
    ] {
        let mut source = source(text, 3);
        for _ in 0..2 {
            let mut seen = BTreeSet::new();
            for io in pass(&mut source) {
                for block in (io.offset..io.offset + io.len).step_by(4096) {
                    assert!(seen.insert((io.file, block)), "{text}: {block} of file {} twice", io.file);
                }
            }
            assert_eq!(seen.len(), 1024, "{text}: every block");
            source.restart(u64::MAX);
        }
    }
}

#[test]
fn without_a_map_blocks_repeat_and_the_amount_is_the_same() {
    let ios = ios("rw=randread\nsize=4m\nnorandommap");
    let places: BTreeSet<_> = ios.iter().map(|io| io.offset).collect();
    assert_eq!(ios.len(), 1024);
    // Of n draws from n blocks 1 - 1/e are distinct on average.
    let distinct = places.len() as f64 / 1024.0;
    assert!((distinct - 0.632).abs() < 0.04, "{distinct}");
}

#[test]
fn mixes_and_splits_have_their_percentages() {
    let mixed = ios("rw=randrw\nrwmixread=70\nsize=64m\nnorandommap");
    let reads = share(&mixed, |io| io.kind == Kind::Read);
    assert!((reads - 0.7).abs() < 0.015, "{reads}");
    let split = ios("rw=randread\nbssplit=4k/60:16k/40\nsize=64m\nnorandommap");
    let small = share(&split, |io| io.len == 4096);
    assert!((small - 0.6).abs() < 0.02, "{small}");
    let own = ios("rw=randrw\nbs=4k,8k\nsize=16m\nnorandommap");
    assert!(own.iter().all(|io| io.len == if io.kind == Kind::Read { 4096 } else { 8192 }));
    let range = ios("rw=randread\nbsrange=1k-4k\nsize=4m\nnorandommap");
    let lens: BTreeSet<_> = range.iter().map(|io| io.len).collect();
    assert!(lens.into_iter().eq([1024, 2048, 3072, 4096]));
}

#[test]
fn one_size_is_for_sequential_io_and_another_for_random_io_if_the_job_says_so() {
    let sized = |text: &str| {
        let mut source = source(&format!("bs=4k,64k\nbs_is_seq_rand=1\n{text}"), 1);
        let lens: BTreeSet<_> = pass(&mut source).iter().map(|io| io.len).collect();
        assert!(lens.iter().all(|len| *len <= source.spec.max_size()), "{text}: the buffer is smaller");
        lens
    };
    assert_eq!(sized("rw=write\nsize=100k"), BTreeSet::from([4096]));
    assert_eq!(sized("rw=randread\nsize=1m\nnorandommap"), BTreeSet::from([65536]));
    assert_eq!(
        sized("rw=randwrite\nsize=4m\npercentage_random=50\nnorandommap"),
        BTreeSet::from([4096, 65536])
    );
    assert_eq!(ios("rw=write\nsize=100k\nbs=4k,64k\nbs_is_seq_rand=1").len(), 25);
    assert!(sized("rw=randread\nsize=1m").contains(&65536));
}

#[test]
fn offset_modifiers_skip_or_make_runs() {
    let holes = ios("rw=write:4k\nsize=64k");
    assert!(holes.iter().map(|io| io.offset).eq((0..16).map(|k| k % 8 * 8192)));
    let runs = ios("rw=randread:4\nsize=16m\nnorandommap");
    let follows = runs.windows(2).filter(|pair| pair[1].offset == pair[0].offset + 4096).count() as f64;
    assert!((follows / runs.len() as f64 - 0.75).abs() < 0.01);
    let same = ios("rw=randread:2\nrw_sequencer=identical\nsize=1m\nnorandommap");
    assert!(same.chunks(2).all(|pair| pair[0].offset == pair[1].offset));
    let straight = ios("rw=randread\npercentage_random=0\nsize=1m\nnorandommap");
    assert!(straight.iter().map(|io| io.offset).eq((0..256).map(|k| k * 4096)));
}

/// Offsets that fio 3.33 writes to its log (`write_iolog`).
#[test]
fn skips_wrap_around_until_the_size_is_done() {
    let first = |text: &str| -> (Vec<u64>, usize) {
        let ios = ios(&format!("bs=4k\n{text}"));
        (ios.iter().take(6).map(|io| io.offset).collect(), ios.len())
    };
    assert_eq!(first("rw=read:4k\nsize=1m"), (vec![0, 8192, 16384, 24576, 32768, 40960], 256));
    let back = vec![0, 1_040_384, 1_036_288, 1_032_192, 1_028_096, 1_024_000];
    assert_eq!(first("rw=read:-8k\nsize=1m"), (back, 256));
    assert_eq!(first("rw=read:-4k\nsize=1m"), (vec![0; 6], 256));
    let behind = vec![1_036_288, 1_028_096, 1_019_904, 1_011_712, 1_003_520, 995_328];
    assert_eq!(first("rw=read:-12k\nsize=1m\noffset=256k"), (behind, 256));
    assert_eq!(first("rw=read:4k\nsize=1m\noffset=128k").1, 128);
}

#[test]
fn strided_zones_have_their_bytes_and_leave_out_what_is_between_them() {
    let strided = |text: &str| ios(&format!("bs=4k\nsize=1m\nzonemode=strided\n{text}"));
    let offsets = |ios: &[Io]| ios.iter().take(6).map(|io| io.offset).collect::<Vec<_>>();
    let read = strided("rw=read\nzonesize=16k\nzoneskip=48k");
    assert_eq!((offsets(&read), read.len()), (vec![0, 4096, 8192, 12288, 65536, 69632], 256));
    let twice = strided("rw=read\nzonesize=64k\nzonerange=32k\nzoneskip=32k");
    assert_eq!((twice[8].offset, twice[16].offset, twice.len()), (0, 65_536, 256));
    let random = strided("rw=randread\nzonesize=32k\nzonerange=32k\nzoneskip=32k");
    assert!(random.iter().all(|io| io.offset / 32_768 % 2 == 0) && random.len() == 256);
    let zone: BTreeSet<_> = random[..8].iter().map(|io| io.offset).collect();
    assert!(zone.len() == 8 && zone.iter().all(|offset| *offset < 32_768), "each block of a zone once");
}

#[test]
fn a_direction_without_a_rate_is_not_held_back() {
    let mut source = source("rw=randrw\nrwmixread=50\nsize=1m\nrate_iops=,10\nnorandommap", 1);
    let ios = pass(&mut source);
    assert_eq!((ios.len(), share(&ios, |io| io.kind == Kind::Write)), (256, 1.0 / 256.0));
}

#[test]
fn due_times_are_those_of_the_rate_exactly() {
    let due = |text: &str| ios(text).iter().map(|io| io.due.unwrap().0).collect::<Vec<_>>();
    let thousand = due("rw=read\nsize=1m\nrate_iops=1000");
    assert!(thousand.iter().copied().eq((0..256).map(|k| k * 1_000_000)));
    let bytes = due("rw=read\nsize=1m\nbs=64k\nrate=1m");
    assert!(bytes.iter().copied().eq((0..16).map(|k| k * 62_500_000)));
    let writes = ios("rw=randrw\nsize=1m\nrate_iops=,50\nnorandommap");
    assert!(writes.iter().all(|io| io.due.is_some() == (io.kind == Kind::Write)));
}

#[test]
fn poisson_arrivals_have_the_mean_and_the_deviation_of_an_exponential() {
    let ios = ios("rw=read\nsize=64m\nrate_iops=1000\nrate_process=poisson");
    let due: Vec<f64> = ios.iter().map(|io| io.due.unwrap().0 as f64).collect();
    let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((mean / 1e6 - 1.0).abs() < 0.03 && (deviation / mean - 1.0).abs() < 0.03, "{mean} {deviation}");
}

#[test]
fn an_io_that_is_due_after_the_end_is_not_given_out() {
    let mut source = source("rw=read\nsize=1m\nrate_iops=1000", 1);
    let mut given = 0;
    while let Next::Io(_) = source.next(Nanos::ZERO, Nanos::from_millis(10), 0) {
        given += 1;
    }
    assert_eq!((given, source.next(Nanos::ZERO, Nanos::from_millis(10), 0)), (10, Next::Late));
}

#[test]
fn repeatable_offsets_are_the_same_in_every_run_and_pass() {
    let offsets =
        |text: &str, seed| pass(&mut source(text, seed)).iter().map(|io| io.offset).collect::<Vec<_>>();
    let plain = "rw=randread\nsize=1m";
    assert_eq!(offsets(plain, 1), offsets(plain, 2));
    let free = "rw=randread\nsize=1m\nrandrepeat=0";
    assert_ne!(offsets(free, 1), offsets(free, 2));
    let chosen = |seed| format!("rw=randread\nsize=1m\nrandseed={seed}");
    assert_eq!(offsets(&chosen(5), 1), offsets(&chosen(5), 2));
    assert_ne!(offsets(&chosen(5), 1), offsets(&chosen(6), 1));
    let mut twice = source(plain, 1);
    let first: Vec<_> = pass(&mut twice).iter().map(|io| io.offset).collect();
    twice.restart(u64::MAX);
    assert!(pass(&mut twice).iter().map(|io| io.offset).eq(first));
}

#[test]
fn files_are_served_in_turn_at_random_or_one_by_one() {
    let files = |text: &str| {
        ios(&format!("rw=read\nsize=64k\nnrfiles=4\n{text}")).iter().map(|io| io.file).collect::<Vec<_>>()
    };
    assert_eq!(files("")[..6], [0, 1, 2, 3, 0, 1]);
    assert_eq!(files("file_service_type=roundrobin:2")[..6], [0, 0, 1, 1, 2, 2]);
    assert_eq!(files("file_service_type=sequential"), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
    let mut random = files("file_service_type=random");
    random.sort_unstable();
    assert_eq!(random, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
}

#[test]
fn syncs_follow_writes_and_writes_follow_trims() {
    let kinds: Vec<_> = ios("rw=write\nsize=24k\nfsync=2\nfdatasync=3").iter().map(|io| io.kind).collect();
    let (write, fsync, fdatasync) = (Kind::Write, Kind::Fsync, Kind::Fdatasync);
    let expected = [write, write, fsync, write, fdatasync, write, fsync, write, write];
    assert_eq!(kinds[..9], expected);
    assert_eq!(kinds[9..], [fsync, fdatasync]);
    let trims = ios("rw=randtrimwrite\nsize=64k");
    assert_eq!(trims.len(), 32, "the size is trimmed, and written");
    for pair in trims.chunks(2) {
        assert_eq!((pair[0].kind, pair[1].kind), (Kind::Trim, Kind::Write));
        assert_eq!(pair[0].offset, pair[1].offset);
    }
}

#[test]
fn a_number_of_ios_ends_the_job_and_thinking_comes_after_so_many() {
    let mut source = source("rw=read\nsize=1m\nnumber_ios=7\nthinktime=5\nthinktime_blocks=3", 1);
    assert_eq!(source.next(Nanos::ZERO, Nanos::MAX, 0), source.next(Nanos::ZERO, Nanos::MAX, 1).min_offset());
    assert!(matches!(source.next(Nanos::ZERO, Nanos::MAX, 2), Next::Io(_)));
    assert_eq!(source.next(Nanos::ZERO, Nanos::MAX, 2), Next::Drain);
    assert_eq!(source.next(Nanos::ZERO, Nanos::MAX, 0), Next::Think(Nanos::from_micros(5)));
    assert_eq!(pass(&mut source).len(), 4);
    assert!(source.is_exhausted());
}

impl Next {
    /// The I/O before this one of a sequential job.
    fn min_offset(self) -> Self {
        match self {
            Self::Io(io) => Self::Io(Io { offset: io.offset - io.len, ..io }),
            other => other,
        }
    }
}

#[test]
fn what_was_overwritten_is_not_read_back() {
    let mut source = source("rw=randwrite\nsize=64k\nio_size=1m\nnorandommap\nverify=crc32c\nloops=9", 1);
    let mut last = BTreeMap::new();
    for io in pass(&mut source) {
        last.insert(io.offset, io.number);
    }
    let read = source.take_written();
    assert_eq!(read.len(), last.len());
    assert!(read.iter().all(|io| last[&io.offset] == io.number && io.len == 4096));
    assert!(source.take_written().is_empty());
}
