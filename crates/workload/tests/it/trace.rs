//! Traces line by line: what each format says, and what is none of it.

use std::io::Cursor;

use workload::block::trace::{Devices, Format, Reader, TraceError, packed};
use workload::block::{Op, Request};

fn format(word: &str) -> Format {
    Format::of(word).unwrap()
}

fn read(format: Format, text: &str) -> Vec<Result<Request, TraceError>> {
    Reader::new(Cursor::new(text.to_owned()), format, None).collect()
}

/// Time, kind, offset and length of every request; the text must be good.
fn good(format: Format, text: &str) -> Vec<(u64, Op, u64, u64)> {
    let requests = read(format, text).into_iter().map(Result::unwrap);
    requests.map(|r| (r.at_ns, r.op, r.offset, r.bytes)).collect()
}

#[test]
fn each_format_means_what_its_manual_says() {
    let expected = [(0, Op::Write, 4096, 8192), (2_500_000, Op::Read, 0, 512)];
    let fio =
        "fio version 3 iolog\n5 f add\n7 f open\n10 f write 4096 8192\n2510 f read 0 512\n2600 f close\n";
    assert_eq!(good(Format::Fio, fio), expected);
    let blktrace = "8,0 1 1 1.000000000 9 Q WS 8 + 16 [a]\n8,0 1 2 1.000000001 9 D WS 8 + 16 [a]\n\
                    8,0 1 3 1.002500001 9 D R 0 + 1 [a]\n8,0 1 4 2.0 0 C R 0 + 1 [0]\nTotal (8,0):\n rubbish\n";
    assert_eq!(good(Format::Blktrace, blktrace), expected);
    let msr = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
               128166372003061629,usr,0,Write,4096,8192,100\n128166372003086629,usr,0,Read,0,512,100\n";
    assert_eq!(good(format("msr"), msr), expected);
    let mqsim = "1000 0 8 16 0\n2501000 0 0 1 1\n";
    assert_eq!(good(format("mqsim"), mqsim), expected);
    let alibaba = "7,W,4096,8192,1577808000000031\n7,R,0,512,1577808000002531\n";
    assert_eq!(good(format("alibaba"), alibaba), expected);
    let spc = "0,8,8192,w,0.551706\n0,0,512,R,0.554206\n";
    assert_eq!(good(format("spc"), spc), expected);
    let fiu = "89966104807 1 a 8 16 W 6 0 b1d8\n89968604807 1 a 0 1 R 6 0 -\n";
    assert_eq!(good(format("fiu"), fiu), expected);
    let systor = "Timestamp,Response,IOType,LUN,Offset,Size\n1455592426.061237000,0.0,W,4,4096,8192\n\
                  1455592426.063737000,,R,4,0,512\n";
    assert_eq!(good(format("systor17"), systor), expected);
    let tencent = "1538323200,8,16,1,9\n1538323201,0,1,0,9\n";
    let seconds = [(0, Op::Write, 4096, 8192), (1_000_000_000, Op::Read, 0, 512)];
    assert_eq!(good(format("tencent"), tencent), seconds);
    let own = Format::described("time:us,op,offset,size", "x;y").unwrap();
    assert_eq!(good(own, "# mine\ntime;op;at;len\n1;write;4096;8192\n2501;read;0;512\n"), expected);
}

#[test]
fn flushes_and_discards_are_told_apart() {
    let fio = "fio version 3 iolog\n0 f datasync 0 0\n1 f trim 4096 4096\n";
    assert_eq!(good(Format::Fio, fio), [(0, Op::Flush, 0, 0), (1_000, Op::Discard, 4096, 4096)]);
    let blktrace =
        "8,0 1 1 0.0 9 D FN 0 + 0 [a]\n8,0 1 1 0.1 9 D FWFS 8 + 8 [a]\n8,0 1 1 0.2 9 D DS 8 + 8 [a]\n";
    let requests = good(Format::Blktrace, blktrace);
    assert_eq!(
        requests.iter().map(|r| r.1).collect::<Vec<_>>(),
        [Op::Flush, Op::Flush, Op::Write, Op::Discard]
    );
}

#[test]
fn a_letter_of_blkparse_means_what_its_place_says() {
    let line = |flags: &str, rest: &str| format!("8,0 1 1 0.5 9 D {flags} {rest}\n");
    let kinds = |flags: &str, rest: &str| -> Vec<(Op, bool)> {
        let requests = read(Format::Blktrace, &line(flags, rest));
        requests.into_iter().map(Result::unwrap).map(|request| (request.op, request.fua)).collect()
    };
    for flags in ["FN", "FF", "FFS", "F"] {
        assert_eq!(kinds(flags, "[kworker/1:1H]"), [(Op::Flush, false)], "{flags}");
    }
    assert_eq!(kinds("WFS", "8 + 8 [a]"), [(Op::Write, true)]);
    assert_eq!(kinds("WSM", "8 + 8 [a]"), [(Op::Write, false)]);
    assert_eq!(kinds("FWSM", "8 + 8 [a]"), [(Op::Flush, false), (Op::Write, false)]);
    assert_eq!(kinds("FWFS", "8 + 8 [a]"), [(Op::Flush, false), (Op::Write, true)]);
    assert_eq!(kinds("RA", "8 + 8 [a]"), [(Op::Read, false)]);
}

#[test]
fn a_request_that_the_device_hands_back_counts_once() {
    let text = "8,0 1 1 0.1 9 D WS 8 + 8 [a]\n8,0 1 2 0.2 9 R WS 8 + 8 [0]\n8,0 1 3 0.3 9 D WS 8 + 8 [a]\n\
                8,0 1 4 0.4 9 D WS 8 + 8 [a]\n8,0 1 5 0.5 9 D R 16 + 8 [a]\n";
    let requests = good(Format::Blktrace, text);
    let kinds: Vec<_> = requests.iter().map(|(_, op, offset, _)| (*op, *offset)).collect();
    assert_eq!(kinds, [(Op::Write, 4096), (Op::Write, 4096), (Op::Read, 8192)]);
}

#[test]
fn version_2_of_fio_has_no_times_but_waits() {
    let text = "fio version 2 iolog\nf add\nf open\nf write 0 512\nf wait 200\nf read 0 512\nf close\n";
    let mut reader = Reader::new(Cursor::new(text), Format::Fio, None);
    let times: Vec<u64> = reader.by_ref().map(|request| request.unwrap().at_ns).collect();
    assert_eq!(times, [0, 200_000]);
    assert!(!reader.has_times());
}

#[test]
fn a_format_is_known_by_its_first_line() {
    for (line, format) in [
        ("fio version 3 iolog", Some(Format::Fio)),
        ("8,0 3 1 0.0 697 G W 223490 + 8 [k]", Some(Format::Blktrace)),
        ("128166372003061629,usr,0,Read,7014609920,24576,41286", Some(format("msr"))),
        ("0 0 1024 8 1", Some(format("mqsim"))),
        ("419,W,10792964096,4096,1577808000000031", Some(format("alibaba"))),
        ("1538323200,12910952,128,0,1063", Some(format("tencent"))),
        ("0,20941264,8192,W,0.551706", Some(format("spc"))),
        ("89966104807 4892 syslogd 904265560 8 W 6 0 b1d8", Some(format("fiu"))),
        ("Timestamp,Response,IOType,LUN,Offset,Size", Some(format("systor17"))),
        ("1455592426.061237000,0.000279000,R,4,8393130496,16384", Some(format("systor17"))),
        ("hello world", None),
        ("", None),
    ] {
        assert_eq!(Format::detect(line), format, "{line}");
    }
}

#[test]
fn a_bad_line_has_its_number_and_reading_goes_on() {
    let lines = read(format("mqsim"), "0 0 8 8 1\n\nnonsense\n5 0 8 8 1\n3 0 8 8 1\n6 0 8 0 1\n");
    let numbers: Vec<_> = lines.iter().map(|line| line.as_ref().err().map(ToString::to_string)).collect();
    assert!(numbers[0].is_none() && numbers[2].is_none());
    for (at, begins) in [
        (1, "line 3: 1 fields, and there must be 5"),
        (3, "line 5: the clock"),
        (4, "line 6: a request of nothing"),
    ] {
        assert!(numbers[at].as_ref().unwrap().starts_with(begins), "{:?}", numbers[at]);
    }
}

#[test]
fn a_trace_of_several_devices_is_restricted_to_one() {
    let text = "0 0 8 8 1\n5 1 16 8 1\n6 0 24 8 1\n";
    assert!(read(format("mqsim"), text)[1].is_err());
    let only = Reader::new(Cursor::new(text), format("mqsim"), Some("1".to_owned()));
    assert_eq!(only.map(|request| request.unwrap().offset).collect::<Vec<_>>(), [16 * 512]);
}

#[test]
fn several_devices_lie_behind_each_other_or_on_top_of_each_other() {
    let text = "0 a 8 8 1\n5 b 16 8 1\n6 a 24 8 1\n";
    let reader = || Reader::new(Cursor::new(text), format("mqsim"), None);
    let offsets = |reader: Reader<Cursor<&str>>| -> Vec<u64> {
        reader.map(|request| request.unwrap().offset / 512).collect()
    };
    assert_eq!(offsets(reader().devices(Devices::Merge).placed(vec![0, 512_000])), [8, 1016, 24]);
    assert_eq!(offsets(reader().devices(Devices::Overlay)), [8, 16, 24]);
    let told = reader().nth(1).unwrap().unwrap_err().to_string();
    assert!(told.contains("a request of b in a trace of a") && told.contains("--devices merge"), "{told}");
}

#[test]
fn commands_that_are_passed_through_are_left_out_and_queued_requests_are_taken_on_demand() {
    let text = "8,0 0 1 0.1 9 Q WS 8 + 8 [a]\n8,0 0 2 0.2 9 D WS 8 + 8 [a]\n\
                8,0 0 3 0.3 9 D R 36 (12 01 00 00 24 00 ..) [smartd]\n8,0 0 4 0.4 9 D R 512 (85 08 0e 00) [x]\n";
    let mut reader = Reader::new(Cursor::new(text), Format::Blktrace, None);
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 1);
    assert_eq!((reader.passed_through(), reader.seen_queued()), (2, 1));
    let queued = Reader::new(Cursor::new(text), Format::Blktrace, None).queued(true);
    assert_eq!(queued.map(|request| request.unwrap().offset).collect::<Vec<_>>(), [4096]);
}

#[test]
fn packed_files_hold_the_same_text_in_one_member_or_several() {
    use std::io::{Read as _, Write as _};
    let gzip = |text: &str| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let zstd = |text: &str| {
        ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
    };
    let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
    let unpacked = |file: Vec<u8>| {
        let mut text = String::new();
        packed::open(Cursor::new(file)).unwrap().read_to_string(&mut text).map(|_| text)
    };
    for file in [
        b"one\ntwo\n".to_vec(),
        gzip("one\ntwo\n"),
        [gzip("one\n"), gzip("two\n")].concat(),
        zstd("one\ntwo\n"),
        [zstd("one\n"), skipped, zstd("two\n")].concat(),
    ] {
        assert_eq!(unpacked(file).unwrap(), "one\ntwo\n");
    }
    let whole = zstd(&"a line of a trace\n".repeat(5_000));
    assert!(unpacked(whole[..whole.len() - 5].to_vec()).is_err(), "a file that is cut off");
    for (magic, told) in
        [(&b"PK\x03\x04.."[..], "unzip"), (b"BZh9...", "bunzip2"), (b"\x07tae", "blkparse -i")]
    {
        let error = packed::open(Cursor::new(magic.to_vec())).err().unwrap().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn no_message_has_raw_bytes() {
    let text = b"0 0 8 8 1\n\x01\xff\x00 broken \xc3\x28\n";
    let mut reader = Reader::new(Cursor::new(&text[..]), format("mqsim"), None);
    let told = reader.nth(1).unwrap().unwrap_err().to_string();
    assert!(told.starts_with("line 2: ") && told.bytes().all(|byte| (b' '..127).contains(&byte)), "{told}");
}
