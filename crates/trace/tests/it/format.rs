//! The format: what is written is read, and what cannot be read is told with its place.

use std::io::{Cursor, Write as _};

use proptest::prelude::*;
use trace::call::{Call, Field, Op};
use trace::record::*;
use trace::{Ending, Error, Reader, Writer};

use crate::shared::{all, reader, text};

fn name() -> impl Strategy<Value = Box<[u8]>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Vec::into_boxed_slice),
        "[a-z/é\"\\\\ \n]{0,20}".prop_map(|text| text.into_bytes().into_boxed_slice()),
    ]
}

fn a_call() -> impl Strategy<Value = Call> {
    let numbers = (any::<u64>(), any::<i64>(), any::<i64>(), any::<u32>(), any::<u32>());
    (0..Op::ALL.len(), any::<i32>(), any::<i32>(), name(), name(), numbers).prop_map(
        |(op, fd, fd2, path, path2, (len, offset, offset2, flags, mode))| {
            let mut call = Call::new(Op::ALL[op]);
            for field in call.op.fields() {
                match field {
                    Field::Fd => call.fd = Some(fd),
                    Field::Fd2 => call.fd2 = Some(fd2),
                    Field::Path => call.path = Some(path.clone()),
                    Field::Path2 | Field::Target | Field::Attr => call.path2 = Some(path2.clone()),
                    Field::Len => call.len = len,
                    Field::Offset | Field::Device | Field::Uid | Field::Atime => call.offset = offset,
                    Field::Offset2 | Field::Gid | Field::Mtime => call.offset2 = offset2,
                    Field::Mode | Field::Number => call.mode = mode,
                    Field::Words(_) => call.flags = flags,
                }
            }
            call
        },
    )
}

fn times() -> impl Strategy<Value = Times> {
    (any::<u64>(), any::<u64>(), any::<u32>(), any::<u64>())
        .prop_map(|(gap_ns, other_ns, skipped, duration_ns)| Times { gap_ns, other_ns, skipped, duration_ns })
}

fn record() -> impl Strategy<Value = Record> {
    let entry = (any::<u32>(), any::<u64>(), any::<u64>(), name(), proptest::option::of(name())).prop_map(
        |(mode, size, group, path, target)| {
            Record::Entry(Entry { kind: Kind::File, mode, size, group, path, target })
        },
    );
    let call = (any::<u32>(), times(), a_call(), -133..i64::MAX)
        .prop_map(|(thread, times, call, result)| Record::Call(Timed { thread, times, call, result }));
    let thread = (any::<u32>(), any::<u32>(), any::<u32>(), name())
        .prop_map(|(number, pid, tid, name)| Record::Thread(Thread { number, pid, tid, name }));
    let fork = (any::<u32>(), any::<u32>(), any::<u64>(), any::<[bool; 3]>()).prop_map(
        |(parent, child, after_ns, [process, files, vfork])| {
            Record::Fork(Fork { parent, child, after_ns, shares: Shares { process, files, vfork } })
        },
    );
    let open = (any::<u32>(), any::<i32>(), name(), any::<u32>(), any::<u64>()).prop_map(
        |(thread, fd, path, flags, position)| {
            Record::Inherited(Inherited { thread, fd, path, flags, position })
        },
    );
    let exit = (any::<u32>(), times(), any::<u32>()).prop_map(|(thread, times, code)| {
        let times = Times { duration_ns: 0, ..times };
        Record::Exit(Exit { thread, times, status: Status::Killed(code) })
    });
    let count = (any::<u64>(), name()).prop_map(|(count, what)| Record::Count(Count { count, what }));
    let loss = (any::<u64>(), name(), name(), name()).prop_map(|(count, name, reason, program)| {
        Record::Loss(Loss { kind: Missing::Bytes, name, reason, program, count })
    });
    let passed = (any::<u32>(), any::<i32>(), any::<u32>(), any::<bool>()).prop_map(
        |(thread, fd, number, cloexec)| {
            if cloexec {
                Record::Sent(Sent { thread, fd, number })
            } else {
                Record::Received(Received { thread, number, fd, cloexec: fd % 2 == 0 })
            }
        },
    );
    prop_oneof![entry, call, thread, fork, open, exit, count, loss, passed]
}

/// A whole trace of these records.
fn written(records: &[Record], compressed: bool) -> Vec<u8> {
    let mut head = Head::new("test", b"/r");
    head.set("unknown", b"is kept");
    let mut writer = Writer::new(Vec::new(), &head, compressed).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.finish([], End { at_ns: 7, user_ns: Some(3), level_ns: 2, ..End::default() }).unwrap()
}

fn read(bytes: Vec<u8>) -> Reader {
    Reader::new(Cursor::new(bytes), "t").unwrap()
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in proptest::collection::vec(record(), 0..30), compressed: bool) {
        let mut reader = read(written(&records, compressed));
        prop_assert_eq!(reader.head().get("unknown"), Some(&b"is kept"[..]));
        let mut found = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            found.push(record);
        }
        let Some(Record::End(end)) = found.pop() else { panic!("the end is missing") };
        prop_assert_eq!((end.at_ns, end.user_ns, end.level_ns), (7, Some(3), 2));
        prop_assert_eq!(found, records);
        prop_assert_eq!((reader.ending(), reader.lost()), (Ending::Whole, 0));
    }

    #[test]
    fn no_line_makes_the_reader_panic(line in "[STFDXCLPRE0-9]( [-a-z0-9=\"/\\\\x]{0,8}){0,9}") {
        let _ = all(reader(&format!("{line}\n")));
    }

    #[test]
    fn damage_is_told_or_harmless(at in 0..400_usize, bit in 0..8_u32) {
        let mut bytes = written(&sample(), true);
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(reader) = Reader::new(Cursor::new(bytes), "t") {
            let _ = all(reader);
        }
    }
}

fn sample() -> Vec<Record> {
    let lines =
        "T 1 10 10 \"p\"\n1 5 2 open \"a\" wronly,creat 0644 = 3\n1 5 2 write 3 9 = 9\n1 1 1 close 3 = 0\n";
    all(reader(lines)).unwrap()
}

#[test]
fn a_trace_is_text_that_people_can_read() {
    let lines = "\
S d 0755 0 \"\"
S l 0777 0 \"l\" \"a b\"
S f 0644 12 \"x\\x0ay\" =4
T 1 10 10 \"sh\"
D 1 1 \"log\" wronly,append 100
1 15234/880/2 2100 open \"spool/x\" rdwr,creat,excl,cloexec 0640 = 3
1 0 1 rename \"a\" \"b\" noreplace = -EEXIST
1 0 1 utimes \"a\" now omit = 0
F 1 2 50 thread,files
X 2 5 signal 9
C 3 \"calls on pipes\"
";
    assert_eq!(text(&all(reader(lines)).unwrap()), lines);
}

#[test]
fn a_trace_that_was_cut_is_read_up_to_its_last_whole_record() {
    let bytes = written(&sample(), false);
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    for end in 40..bytes.len() {
        let mut reader = read(bytes[..end].to_vec());
        let mut records = 0;
        while reader.next().unwrap().is_some() {
            records += 1;
        }
        let whole = bytes[..end].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(reader.ending(), Ending::Cut(whole as u64), "{end}");
        assert!(records <= whole && whole < lines);
    }
}

#[test]
fn a_killed_recorder_leaves_all_that_it_has_flushed() {
    let records = sample();
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, &Head::new("test", b"/"), true).unwrap();
    writer.write(&records[0]).unwrap();
    writer.write(&records[1]).unwrap();
    writer.flush().unwrap();
    writer.write(&records[2]).unwrap();
    drop(writer);
    for tail in [&b""[..], &[0x1f, 0x8b, 8, 0], &[0x1f]] {
        let mut reader = read([&out[..], tail].concat());
        let found: Vec<_> = std::iter::from_fn(|| reader.next().unwrap()).collect();
        assert_eq!(found, records[..2], "{tail:?}");
        assert!(matches!(reader.ending(), Ending::Cut(_)));
    }
}

fn refusal(bytes: &[u8]) -> String {
    let reader = Reader::new(Cursor::new(bytes.to_vec()), "x.wtrace");
    reader.and_then(all).unwrap_err().to_string()
}

#[test]
fn what_is_no_trace_is_refused_with_the_reason() {
    for (bytes, says) in [
        (&b""[..], "is empty"),
        (b"hello\n", "does not begin with `#weir-trace`"),
        (b"#weir-trace x\n", "version is not a number"),
        (b"#weir-trace 2\n", "version 2, and this Weir reads up to version 1"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 0], "zstd"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "unxz"),
    ] {
        let message = refusal(bytes);
        assert!(message.contains(says) && message.contains("x.wtrace"), "{message}");
    }
}

#[test]
fn a_wrong_line_is_told_with_its_number_and_call() {
    let bad = |line: &str| refusal(format!("#weir-trace 1\n#root /\nT 1 1 1 \"\"\n{line}\n").as_bytes());
    for (line, says) in [
        ("Q 1", "`Q` is no record of this version"),
        ("1 0 0 frobnicate 3 = 0", "`frobnicate` is no call of this version"),
        ("1 0 0 read 3 = 0", "read: the length is not a number"),
        ("1 0 0 read 3 5", "read: there is no ` = ` before the result"),
        ("1 0 0 open \"a rdonly 0 = 3", "open: the path has no end"),
        ("1 0 0 open \"a\" speed 0 = 3", "open: `speed` is not a flag of this call"),
        ("1 0 0 open \"a\\q\" rdonly 0 = 3", "open: the path has a backslash without xHH"),
        ("1 0 0 close 3 = -EWHAT", "close: `-EWHAT` is no result"),
        ("1 0 0 close 3 = 0 more", "`more` is too much"),
        ("1 x 0 close 3 = 0", "close: the gap is not"),
        ("S q 0644 0 \"a\"", "`q` is no kind of file"),
    ] {
        let message = bad(line);
        assert!(message.starts_with("x.wtrace:4: ") && message.contains(says), "{line}: {message}");
    }
}

#[test]
fn a_line_without_end_is_no_way_to_fill_the_memory() {
    let mut bytes = b"#weir-trace 1\n".to_vec();
    bytes.extend(std::iter::repeat_n(b'x', 10 << 20));
    assert!(refusal(&bytes).contains("longer than any record"));
}

#[test]
fn missing_lines_are_told() {
    let lines = "T 1 1 1 \"\"\n1 0 0 sync = 0\nE at=0 calls=3 dropped=1 level=0\n";
    let mut reader = reader(lines);
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.lost(), 3);
}

#[test]
fn two_joined_traces_are_refused() {
    let one = written(&sample(), true);
    let message = refusal(&[&one[..], &one[..]].concat());
    assert!(message.contains("after the end of the trace"), "{message}");
}

#[test]
fn damaged_data_is_told_with_the_last_good_line() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut bytes = written(&sample(), true);
    let middle = bytes.len() - 30;
    bytes[middle] ^= 0xff;
    file.write_all(&bytes).unwrap();
    let found = Reader::open(file.path()).and_then(all);
    assert!(matches!(found, Err(Error::Damaged { .. } | Error::Line { .. })), "{found:?}");
}
