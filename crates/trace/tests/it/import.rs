//! The other formats. The lines are our own, in their form.

use std::io::Cursor;

use trace::import::{Emitter, ImportError, Sums, dbench, fio, mobigen, nbw};
use trace::record::Head;
use trace::{Reader, Writer};

use crate::shared::{all, compiled, text};

type Imported = Result<(Vec<u8>, Sums), ImportError>;

fn emitter() -> Emitter<Vec<u8>> {
    Emitter::new(Writer::new(Vec::new(), &Head::new("test", b"/"), true).unwrap())
}

/// The records as text; they also compile without contradiction.
fn records(imported: Imported) -> String {
    let (bytes, _) = imported.unwrap();
    let text = text(&all(Reader::new(Cursor::new(bytes), "t").unwrap()).unwrap());
    assert_eq!(compiled(&text).summary.contradictions, 0, "{text}");
    text
}

fn calls(text: &str) -> Vec<&str> {
    let calls = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    calls.map(|line| line.splitn(4, ' ').nth(3).unwrap()).collect()
}

#[test]
fn a_load_file_of_dbench_becomes_the_calls_of_its_file_backend() {
    let load = r#"
# a comment
Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients\client1" NT_STATUS_OK
NTCreateX "\clients\client1\a.txt" 0x40 0x2 100 NT_STATUS_OK
WriteX 100 0 65536 65536 NT_STATUS_OK
WriteX 100 0xffff 1 1 NT_STATUS_OK
Flush 100 NT_STATUS_OK
LockX 100 0 10 NT_STATUS_OK
Close 100 NT_STATUS_OK
QUERY_PATH_INFORMATION "\clients\client1\none" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
Rename "\clients\client1\a.txt" "\clients\client1\b.txt" NT_STATUS_OK
NTCreateX "\clients\client1\b.txt" 0x0 0x1 101 NT_STATUS_OK
ReadX 101 0 512 512 NT_STATUS_OK
SET_FILE_INFORMATION 101 1004 NT_STATUS_OK
FIND_FIRST "\clients\client1\*" 260 1366 1 NT_STATUS_OK
QUERY_FS_INFORMATION 1001 NT_STATUS_OK
Close 101 NT_STATUS_OK
Unlink "\clients\client1\b.txt" 0x3 NT_STATUS_OK
Deltree "\clients\client1" NT_STATUS_OK
"#;
    let text = records(dbench::import(load.as_bytes(), "client.txt", emitter()));
    let found = calls(&text);
    for wanted in [
        "mkdir \"clients/client1\" 0777 = 0",
        "open \"clients/client1/a.txt\" rdwr,creat 0644 = 4",
        "pwrite 4 65536 0 = 65536",
        "pwrite 4 1 65535 = 1",
        "fsync 4 = 0",
        "lock 4 ex 10 0 = 0",
        "stat \"clients/client1/none\" = -ENOENT",
        "rename \"clients/client1/a.txt\" \"clients/client1/b.txt\" - = 0",
        "unlink \"clients/client1/b.txt\" = 0",
        "rmdir \"clients/client1\" = 0",
        "statfs \"\" = 0",
    ] {
        assert!(found.contains(&wanted), "{wanted} is missing in {found:#?}");
    }
    // A name that is not there costs a search of its directory.
    assert!(found.iter().filter(|call| call.starts_with("getdents")).count() >= 4, "{found:#?}");
}

#[test]
fn a_load_file_with_an_error_is_told_with_its_line() {
    for (load, says) in [
        ("Fly 1 NT_STATUS_OK\n", "client.txt:1: `Fly` is no operation"),
        ("\nClose 7 NT_STATUS_OK\n", "client.txt:2: Close: handle 7 was opened by no line before"),
        ("ReadX x 0 1 1 NT_STATUS_OK\n", "client.txt:1: ReadX: the handle is no number"),
        ("Unlink \"a\n", "client.txt:1: a quote has no end"),
    ] {
        let message = dbench::import(load.as_bytes(), "client.txt", emitter()).unwrap_err().to_string();
        assert!(message.starts_with(says), "{message}");
    }
}

#[test]
fn mobigen_is_sorted_by_time_and_shares_descriptors() {
    let lines = "\
0 1000 open \"/data/a.db\" O_RDWR 5
0 3000 pwrite 5 4096 1024
0 4000 fsync 5
1 2000 write 5 8
1 2500 open data/data O_RDONLY 6
1 2600 read 6 16
1 2700 read 9 16
1 5000 unlink \"/data/a.db\"
0 6000 close 5
";
    let (bytes, sums) = mobigen::import(lines.as_bytes(), "m", emitter()).unwrap();
    let text = text(&all(Reader::new(Cursor::new(bytes), "t").unwrap()).unwrap());
    assert_eq!(
        calls(&text),
        [
            "open \"data/a.db\" rdwr,creat,trunc 0644 = 5",
            "write 5 8 = 8",
            "open \"descriptor/6-1\" rdonly 0644 = 6",
            "read 6 16 = 16",
            "pwrite 5 1024 4096 = 1024",
            "fsync 5 = 0",
            "unlink \"data/a.db\" = 0",
            "close 5 = 0",
        ]
    );
    assert_eq!(sums.losses.names().as_deref(), Some("1 read"));
    assert!(text.contains("2 0 0 write") || text.contains("2 1000000 0 write"), "{text}");
    assert!(
        mobigen::import(&b"0 x open\n"[..], "m", emitter()).unwrap_err().to_string().starts_with("m:1: ")
    );
}

#[test]
fn files_of_nbw_are_merged_by_their_sequence() {
    let one = "1 100 OPEN 7 500\n4 400 WRITE 7 500 500 100 APPEND\n6 600 CLOSE 7 600\n";
    let two = "2 200 READ 7 500 0 200 MISS\n3 300 FSYNC 9 50\n5 500 READ 7 600 0 100 HIT\n";
    let sources = vec![(Cursor::new(one), "0".to_owned()), (Cursor::new(two), "1".to_owned())];
    let text = records(nbw::import(sources, emitter()));
    assert_eq!(
        calls(&text),
        [
            "open \"i/7\" rdwr 00 = 3",
            "pread 3 200 0 = 200",
            "open \"i/9\" rdwr 00 = 4",
            "fsync 4 = 0",
            "pwrite 3 100 500 = 100",
            "pread 3 100 0 = 100",
            "close 3 = 0",
        ]
    );
    assert!(text.contains("S f 0644 500 \"i/7\"") && text.contains("S f 0644 50 \"i/9\""), "{text}");
    let wrong = vec![(Cursor::new("1 2 JUMP 3 4\n"), "day".to_owned())];
    assert_eq!(
        nbw::import(wrong, emitter()).unwrap_err().to_string(),
        "day:1: `JUMP` is no operation of this format"
    );
}

#[test]
fn iologs_of_fio_open_what_they_use() {
    let three = "fio version 3 iolog\n0 /d/f add\n5 /d/f open\n10 /d/f write 0 4096\n20 /d/f datasync\n30 /d/f read 0 512\n40 /d/f close\n";
    let text = records(fio::import(three.as_bytes(), "log", emitter()));
    assert_eq!(
        calls(&text),
        [
            "open \"d/f\" rdwr 0644 = 3",
            "pwrite 3 4096 0 = 4096",
            "fdatasync 3 = 0",
            "pread 3 512 0 = 512",
            "close 3 = 0",
        ]
    );
    assert!(text.contains("1 5000 0 open") && text.contains("1 10000 0 pread"), "{text}");
    let two = "fio version 2 iolog\nf open\nf wait 3 0\nf trim 0 4096\n";
    assert!(
        records(fio::import(two.as_bytes(), "log", emitter()))
            .contains("1 3000 0 fallocate 3 4096 0 keep_size,punch_hole")
    );
    for (log, says) in [
        ("hello\n", "log:1: the first line must be"),
        ("", "log:1: the file is empty"),
        ("fio version 3 iolog\n1 f fly\n", "log:2: no action of fio is called \"fly\""),
        ("fio version 3 iolog\n1 f read 0\n", "log:2: the length is missing"),
    ] {
        let message = fio::import(log.as_bytes(), "log", emitter()).unwrap_err().to_string();
        assert!(message.starts_with(says), "{message}");
    }
}
