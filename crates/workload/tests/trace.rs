//! Traces line by line: what each format says, and what is none of it.

use std::io::Cursor;

use workload::block::trace::{Format, Reader, TraceError};
use workload::block::{Op, Request};

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
    assert_eq!(good(Format::Msr, msr), expected);
    let mqsim = "1000 0 8 16 0\n2501000 0 0 1 1\n";
    assert_eq!(good(Format::Mqsim, mqsim), expected);
}

#[test]
fn flushes_and_discards_are_told_apart() {
    let fio = "fio version 3 iolog\n0 f datasync 0 0\n1 f trim 4096 4096\n";
    assert_eq!(good(Format::Fio, fio), [(0, Op::Flush, 0, 0), (1_000, Op::Discard, 4096, 4096)]);
    let blktrace =
        "8,0 1 1 0.0 9 D FN 0 + 0 [a]\n8,0 1 1 0.1 9 D FWFS 8 + 8 [a]\n8,0 1 1 0.2 9 D DS 8 + 8 [a]\n";
    let requests = good(Format::Blktrace, blktrace);
    assert_eq!(requests.iter().map(|r| r.1).collect::<Vec<_>>(), [Op::Write, Op::Discard]);
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
        ("128166372003061629,usr,0,Read,7014609920,24576,41286", Some(Format::Msr)),
        ("0 0 1024 8 1", Some(Format::Mqsim)),
        ("hello world", None),
        ("", None),
    ] {
        assert_eq!(Format::detect(line), format, "{line}");
    }
}

#[test]
fn a_bad_line_has_its_number_and_reading_goes_on() {
    let lines = read(Format::Mqsim, "0 0 8 8 1\n\nnonsense\n5 0 8 8 1\n3 0 8 8 1\n6 0 8 0 1\n");
    let numbers: Vec<_> = lines.iter().map(|line| line.as_ref().err().map(ToString::to_string)).collect();
    assert!(numbers[0].is_none() && numbers[2].is_none());
    for (at, begins) in
        [(1, "line 3: not five numbers"), (3, "line 5: the clock"), (4, "line 6: a request of nothing")]
    {
        assert!(numbers[at].as_ref().unwrap().starts_with(begins), "{:?}", numbers[at]);
    }
}

#[test]
fn a_trace_of_several_devices_is_restricted_to_one() {
    let text = "0 0 8 8 1\n5 1 16 8 1\n6 0 24 8 1\n";
    assert!(read(Format::Mqsim, text)[1].is_err());
    let only = Reader::new(Cursor::new(text), Format::Mqsim, Some("1".to_owned()));
    assert_eq!(only.map(|request| request.unwrap().offset).collect::<Vec<_>>(), [16 * 512]);
}
