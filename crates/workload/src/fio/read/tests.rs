//! Options of jobs: what each is read as, and what is refused with which reason.

use super::*;
use crate::fio::parse::{Outside, Problems, parse};

fn spec(text: &str) -> Result<JobSpec, String> {
    let mut parsed = parse(&format!("[a]\nsize=1m\n{text}\n"), &Outside::default());
    let spec = read(&parsed.sections[0], &mut parsed.problems);
    let problems = Problems { file: "t.fio".to_owned(), all: parsed.problems };
    if problems.all.is_empty() { Ok(spec) } else { Err(problems.to_string()) }
}

#[test]
fn every_mode_of_the_manual_is_read() {
    for (name, random, reads, writes, trims) in [
        ("read", false, true, false, false),
        ("write", false, false, true, false),
        ("trim", false, false, false, true),
        ("randread", true, true, false, false),
        ("randwrite", true, false, true, false),
        ("randtrim", true, false, false, true),
        ("rw", false, true, true, false),
        ("readwrite", false, true, true, false),
        ("randrw", true, true, true, false),
        ("trimwrite", false, false, true, true),
        ("randtrimwrite", true, false, true, true),
    ] {
        let expected = Mode { random, reads, writes, trims, modifier: 0 };
        assert_eq!(spec(&format!("rw={name}")).unwrap().mode, expected, "{name}");
    }
    assert_eq!(spec("rw=randread:8").unwrap().mode.modifier, 8);
    assert_eq!(spec("rw=write:4k").unwrap().mode.modifier, 4096);
    assert_eq!(spec("rw=read:-8k").unwrap().mode.modifier, -8192);
}

#[test]
fn defaults_are_those_of_the_manual() {
    let job = spec("").unwrap();
    assert_eq!((job.mode, job.depth, job.jobs, job.loops), (READ, 1, 1, 1));
    assert_eq!(job.sizes, [const { Sizes::Fixed(4096) }; 3]);
    assert_eq!((job.reads_percent, job.rand_repeat, job.fallocate), (50, true, Fallocate::Native));
    assert_eq!(job.fill, Fill::Random { refill: false, scramble: true });
    assert!(job.verify.is_none() && job.create_fsync && !job.direct);
}

#[test]
fn sizes_mixes_and_rates_are_read() {
    let job = spec("rw=randrw\nbsrange=1k-4k,2k-8k\nrwmixwrite=30\nrate=1m,500k\nnorandommap").unwrap();
    assert_eq!(job.sizes[0], Sizes::Range(1024, 4096));
    assert_eq!(job.sizes[1], Sizes::Range(2048, 8192));
    assert_eq!((job.reads_percent, job.map), (70, false));
    assert_eq!(job.pace.rates[..2], [Some(Rate::Bytes(1 << 20)), Some(Rate::Bytes(500 << 10))]);
    let only_writes = spec("rw=randrw\nrate_iops=,100").unwrap();
    assert_eq!(only_writes.pace.rates, [None, Some(Rate::Ios(100)), Some(Rate::Ios(100))]);
    let split = spec("rw=randread\nbssplit=4k/50:8k/").unwrap();
    assert_eq!(split.sizes[0], Sizes::Split(vec![(4096, 50.0), (8192, 50.0)]));
}

#[test]
fn of_two_options_that_set_the_same_thing_the_later_one_holds() {
    let mix = |text: &str| spec(text).unwrap().reads_percent;
    assert_eq!(mix("rwmixread=70\nrwmixwrite=80"), 20);
    assert_eq!(mix("rwmixwrite=80\nrwmixread=70"), 70);
    assert_eq!((mix("rwmixwrite=80"), mix("rwmixread=70")), (20, 70));
    let direct = |text: &str| spec(text).unwrap().direct;
    assert!(!direct("direct=1\nbuffered=1") && direct("buffered=1\ndirect=1"));
    assert!(direct("buffered=0") && !direct("buffered=0\ndirect=0"));
    let global = parse("[global]\ndirect=1\n[a]\nsize=1m\nbuffered=1\n", &Outside::default());
    assert!(!read(&global.sections[0], &mut Vec::new()).direct, "a job wins over the global section");
    let vars = [("direct".to_owned(), "1".to_owned())];
    let outside = Outside { vars: &vars, lenient: false };
    let given = parse("[a]\nsize=1m\nbuffered=1\n", &outside);
    assert!(read(&given.sections[0], &mut Vec::new()).direct, "what is given from outside wins");
}

#[test]
fn a_direction_that_a_range_or_a_split_leaves_out_keeps_its_block_size() {
    let job = spec("rw=rw\nbs=64k\nbsrange=4k-8k,").unwrap();
    assert_eq!(job.sizes[..2], [Sizes::Range(4096, 8192), Sizes::Fixed(65536)]);
    let job = spec("rw=rw\nbs=64k,32k\nbssplit=,4k/50:8k/50").unwrap();
    assert_eq!(job.sizes[..2], [Sizes::Fixed(65536), Sizes::Split(vec![(4096, 50.0), (8192, 50.0)])]);
}

#[test]
fn names_are_split_at_colons_unless_escaped() {
    let job = spec(r"filename=a\:b:/mnt/x/c").unwrap();
    assert_eq!(job.names, ["a:b", "mnt/x/c"]);
}

#[test]
fn values_that_are_wrong_are_told_with_line_option_and_what_would_be_right() {
    for (text, told) in [
        ("rw=reed", "t.fio:3: rw: there is no mode \"reed\""),
        ("bs=4q", "t.fio:3: bs: \"4q\" is not a whole number"),
        ("bs=0", "t.fio:3: bs: an I/O of no bytes"),
        ("direct=yes", "t.fio:3: direct: \"yes\" is neither 0 nor 1"),
        ("rwmixread=101", "t.fio:3: rwmixread: \"101\" is not a percentage"),
        ("ioengine=rados", "t.fio:3: ioengine: the engine \"rados\" is not"),
        ("filename=/dev/sda", "t.fio:3: filename: /dev/sda is not a file"),
        ("directory=../x", "t.fio:3: directory: \"../x\" leads up"),
        ("time_based", "t.fio:3: time_based: it needs runtime"),
        ("rate=1m\nrate_iops=5", "t.fio:4: rate_iops: there is a rate in bytes as well"),
        ("numjobs=0", "t.fio:3: numjobs: it must be at least 1"),
        ("iodepth=5000", "t.fio:3: iodepth: at most 1024"),
        ("direct=1\nbs=1000", "t.fio:3: direct: O_DIRECT takes multiples of 512"),
        ("percentile_list=50:101", "t.fio:3: percentile_list:"),
        ("file_service_type=zipf:1", "t.fio:3: file_service_type: files are chosen by"),
        ("verify=sha3-224", "t.fio:3: verify:"),
        ("rw=write\nverify=pattern", "t.fio:4: verify: pattern needs verify_pattern"),
        ("rw=write\nverify=md5\nbs=16", "t.fio:4: verify: a block of 16 bytes has no room"),
        ("size=10%", "t.fio:3: size: a percentage needs filesize"),
        ("rw=randread:-8", "t.fio:3: rw: randread:-8: the number of I/Os"),
        ("zonemode=zbd\nzonesize=1m", "t.fio:3: zonemode: a file has no write pointers"),
        ("zonesize=1m", "t.fio:3: zonesize: it needs zonemode=strided"),
        ("zonemode=strided", "t.fio:3: zonemode: strided needs zonesize"),
    ] {
        let error = spec(text).unwrap_err();
        assert!(error.contains(told), "{text}: {error}");
    }
}
