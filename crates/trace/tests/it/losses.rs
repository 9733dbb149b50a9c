//! What is not known is lost by its name, and every consumer hears of it.

use trace::compile::{Options, Program};
use trace::import::strace::{Importer, Start};
use trace::import::{Emitter, Sums};
use trace::record::{Head, Loss, Record};
use trace::remains;
use trace::scope::Scope;
use trace::snapshot::Snapshot;
use trace::stat::stat;
use trace::{Error, Reader, Writer};

use crate::shared::{all, reader, text};

/// Text of strace, started in a directory, about the files below `/w`.
fn import(lines: &str) -> (String, Sums) {
    import_in(lines, b"/w")
}

fn import_in(lines: &str, directory: &[u8]) -> (String, Sums) {
    let writer = Writer::new(Vec::new(), &Head::new("test", b"/w"), true).unwrap();
    let mut importer = Importer::new(Emitter::new(writer), Scope::new(&[b"/w"]), Start::Unknown, directory);
    importer.read(lines.as_bytes(), "out.txt").unwrap();
    let (out, sums) = importer.finish(None).unwrap();
    let records = all(Reader::new(std::io::Cursor::new(out), "t").unwrap()).unwrap();
    (text(&records), sums)
}

/// Names and counts of lost calls.
fn lost(lines: &str) -> Vec<(String, u64)> {
    let losses = import(lines).1.losses;
    losses.iter().map(|loss| (String::from_utf8_lossy(&loss.name).into_owned(), loss.count)).collect()
}

fn one(name: &str, count: u64) -> Vec<(String, u64)> {
    vec![(name.to_owned(), count)]
}

#[test]
fn a_call_on_an_unknown_descriptor_is_lost_unless_its_answer_shows_that_it_is_no_file() {
    assert_eq!(lost("1 1.0 write(5, \"x\", 1) = 1\n"), one("write", 1));
    assert_eq!(
        lost("1 1.0 pread64(4, \"x\", 1, 0) = 1\n1 1.1 pread64(4, \"x\", 1, 0) = 1\n"),
        one("pread", 2)
    );
    for shows in [
        "fstat(1, {st_mode=S_IFIFO|0600, st_size=0, ...}) = 0",
        "newfstatat(1, \"\", {st_mode=S_IFCHR|0620, st_rdev=makedev(0x88, 0), ...}, AT_EMPTY_PATH) = 0",
        "lseek(1, 0, SEEK_CUR) = -1 ESPIPE (Illegal seek)",
        "ioctl(1, TCGETS, {B38400 opost isig icanon echo ...}) = 0",
    ] {
        assert_eq!(lost(&format!("{shows}\nwrite(1, \"x\", 1) = 1\n")), [], "{shows}");
    }
    assert_eq!(lost("close(77) = -1 EBADF (Bad file descriptor)\n"), []);
    assert_eq!(lost("3 1.0 mkdirat(9, \"d\", 0777) = 0\n"), one("mkdir", 1));
}

#[test]
fn io_uring_is_lost_by_name_and_mappings_are_told_without_a_lost_call() {
    let ring = "io_uring_setup(8, {flags=0}) = 3\nio_uring_enter(3, 5, 0, 0, NULL, 8) = 5\n";
    assert_eq!(lost(ring), [("io_uring_enter".to_owned(), 5), ("io_uring_setup".to_owned(), 1)]);
    assert_eq!(lost("io_uring_setup(8, {flags=0}) = -1 ENOSYS (Function not implemented)\n"), []);
    let mapped = "openat(AT_FDCWD</w>, \"f\", O_RDWR) = 3</w/f>\n\
                  mmap(NULL, 100, PROT_READ|PROT_WRITE, MAP_SHARED, 3</w/f>, 0) = 0x7000\n";
    let (text, sums) = import(mapped);
    assert_eq!((sums.losses.calls(), sums.losses.silent_names().as_deref()), (0, Some("1 mmap")));
    assert!(text.contains("L bytes 1 \"mmap\"") && text.contains("dropped=0"), "{text}");
}

#[test]
fn io_submit_is_stored_as_what_it_submits_and_an_event_that_says_less_is_a_loss() {
    let lines = r#"
openat(AT_FDCWD</w>, "f", O_RDWR|O_CREAT, 0600) = 3</w/f>
io_submit(0x7f0, 3, [{aio_data=7, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=3</w/f>, aio_buf="a, b]"..., aio_nbytes=4096, aio_offset=8192}, {aio_data=8, aio_lio_opcode=IOCB_CMD_PREADV, aio_fildes=3</w/f>, aio_buf=[{iov_base=0x1, iov_len=10}, {iov_base=0x2, iov_len=20}], aio_offset=0}, {aio_data=9, aio_lio_opcode=IOCB_CMD_FDSYNC, aio_fildes=3</w/f>}]) = 2
io_getevents(0x7f0, 1, 2, [{data=7, obj=0x7ff, res=4096, res2=0}, {data=8, obj=0x7fe, res=12, res2=0}], NULL) = 2
"#;
    let (text, sums) = import(lines);
    assert!(text.contains("pwrite 3 4096 8192 = 4096\n") && text.contains("pread 3 30 0 = 30\n"), "{text}");
    assert!(!text.contains("fdatasync"), "the third was not taken: {text}");
    assert_eq!((sums.losses.calls(), sums.losses.names().as_deref()), (1, Some("1 io_getevents")));
}

#[test]
fn a_descriptor_that_is_passed_is_the_same_open_file_also_where_it_arrives_before_it_was_sent() {
    let lines = r#"
1 1.0 openat(AT_FDCWD</w>, "f", O_RDWR|O_CREAT, 0600) = 3</w/f> <0.1>
1 1.2 write(3</w/f>, "x", 100) = 100 <0.1>
2 1.3 openat(AT_FDCWD</w>, "own", O_RDWR|O_CREAT, 0600) = 3</w/own> <0.1>
1 1.4 sendmsg(5<socket:[1]>, {msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3</w/f>]}], msg_controllen=24, msg_flags=0}, 0 <unfinished ...>
2 1.5 recvmsg(6<socket:[2]>, {msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[4</w/f>]}], msg_flags=0}, MSG_CMSG_CLOEXEC) = 1 <0.1>
1 1.6 <... sendmsg resumed>) = 1 <0.2>
1 1.7 close(3</w/f>) = 0 <0.1>
2 1.8 write(4</w/f>, "y", 50) = 50 <0.1>
"#;
    let (records, sums) = import(lines);
    assert!(sums.losses.is_empty(), "{:?}", sums.losses);
    assert!(records.contains("P 1 3 1\nR 2 1 4 cloexec\n"), "{records}");
    let program = Program::compile(reader(&records), Options::default()).unwrap();
    let size = |name: &str| program.last.iter().find(|entry| &*entry.path == name.as_bytes()).unwrap().size;
    assert_eq!((size("f"), size("own"), program.summary.contradictions), (150, 0, 0));
    // From a process that is not in the text.
    let alone: String =
        lines.lines().filter(|line| !line.contains("sendmsg")).map(|line| format!("{line}\n")).collect();
    assert_eq!(lost(&alone), one("open", 1));
}

#[test]
fn a_descriptor_that_is_taken_out_of_another_process_is_lost_by_name() {
    let lines = r#"
1 1.0 openat(AT_FDCWD</w>, "f", O_RDWR|O_CREAT, 0600) = 3</w/f> <0.1>
2 1.2 pidfd_getfd(4<anon_inode:[pidfd]>, 3, 0) = 5</w/f> <0.1>
2 1.4 write(5</w/f>, "x", 8) = 8 <0.1>
"#;
    assert!(lost(lines).contains(&("open".to_owned(), 1)), "{:?}", lost(lines));
    let elsewhere = lines.replace("5</w/f>", "5</etc/f>");
    assert!(
        lost(&elsewhere).iter().all(|(name, _)| name != "open" && name != "write"),
        "{:?}",
        lost(&elsewhere)
    );
}

/// The others of a process end with it, by whatever it ends.
#[test]
fn calls_that_the_end_of_their_process_cuts_off_are_not_lost() {
    let begin = "1 1.0 openat(AT_FDCWD</w>, \"a\", O_RDWR|O_CREAT, 0600) = 3</w/a> <0.1>\n\
                 1 1.1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 2 <0.1>\n\
                 2 1.2 fsync(3</w/a> <unfinished ...>\n";
    for end in [
        "1 1.3 exit_group(0) = ?\n2 1.4 <... fsync resumed>) = ?\n2 1.5 +++ exited with 0 +++\n1 1.5 +++ exited with 0 +++\n",
        "1 1.3 execve(\"/bin/x\", [\"x\"], 0x1 /* 0 vars */) = 0 <0.1>\n2 1.3 +++ exited with 0 +++\n",
        "1 1.3 write(3</w/a>, \"x\", 4096 <unfinished ...>) = ?\n1 1.5 +++ killed by SIGXFSZ +++\n2 1.5 +++ killed by SIGXFSZ +++\n",
    ] {
        assert_eq!(lost(&format!("{begin}{end}")), [], "{end}");
    }
    // Another thread that goes on is no end.
    let ended = format!("{begin}2 1.3 <... fsync resumed>) = 0 <0.1>\n");
    assert!(import(&ended).0.contains(" fsync 3 = 0\n"));
}

#[test]
fn paths_below_a_new_root_are_those_of_the_host_and_names_that_may_lead_elsewhere_are_lost() {
    let lines =
        "chroot(\"/w/jail\") = 0\nchdir(\"/\") = 0\nmkdir(\"/d\", 0755) = 0\nmkdir(\"../../e\", 0755) = 0\n";
    let (text, sums) = import(lines);
    assert!(sums.losses.is_empty() && text.contains("mkdir \"jail/d\" 0755 = 0\n"), "{text}");
    let mount = |line: &str| lost(&format!("unshare(CLONE_NEWNS) = 0\n{line} = 0\n"));
    assert_eq!(mount("mount(\"none\", \"/\", NULL, MS_REC|MS_PRIVATE, NULL)"), []);
    assert_eq!(mount("mount(\"proc\", \"/proc\", \"proc\", 0, NULL)"), []);
    assert_eq!(mount("mount(\"tmpfs\", \"/w/tmp\", \"tmpfs\", 0, NULL)"), one("mount", 1));
    assert_eq!(mount("mount(\"/w\", \"/mnt\", NULL, MS_BIND, NULL)"), one("mount", 1));
    assert_eq!(lost("setns(3</proc/1/ns/mnt>, CLONE_NEWNS) = 0\n"), one("setns", 1));
    assert_eq!(lost("setns(3</proc/1/ns/net>, CLONE_NEWNET) = 0\n"), []);
    assert_eq!(lost("pivot_root(\".\", \".\") = 0\n"), one("pivot_root", 1));
}

#[test]
fn descriptors_that_a_thread_unshares_are_its_own_and_a_loss_because_no_record_says_it() {
    let lines = r#"
1 1.0 openat(AT_FDCWD</w>, "f", O_RDWR|O_CREAT, 0600) = 3 <0.1>
1 1.1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 2 <0.1>
2 1.2 unshare(CLONE_FILES) = 0 <0.1>
1 1.3 close(3) = 0 <0.1>
2 1.4 write(3, "x", 1) = 1 <0.1>
"#;
    let (text, sums) = import(lines);
    assert!(text.contains(" write 3 1 = 1\n"), "{text}");
    assert_eq!(sums.losses.names().as_deref(), Some("1 unshare"));
}

#[test]
fn an_opened_path_that_leads_below_a_root_is_stored_under_the_name_there() {
    let lines = r#"
openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT, 0600) = 3</w/a>
openat(AT_FDCWD</w>, "/proc/self/fd/3", O_RDONLY) = 4</w/a>
openat(AT_FDCWD</w>, "/dev/fd/3", O_RDONLY) = 5</w/a>
openat(AT_FDCWD</w>, "/home/u/sub/b", O_RDWR|O_CREAT, 0600) = 6</w/sub/b>
rename("/home/u/sub/b", "/home/u/sub/c") = 0
"#;
    let (text, sums) = import(lines);
    assert_eq!(text.matches("open \"a\" rdonly").count(), 2, "{text}");
    assert!(
        text.contains("open \"sub/b\" rdwr,creat") && text.contains("rename \"sub/b\" \"sub/c\""),
        "{text}"
    );
    // That calls before may have gone the same way is said.
    assert_eq!(sums.losses.calls(), 1);
}

#[test]
fn a_number_that_is_given_again_was_closed_before() {
    let overlap = r#"
1 1.0 openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT, 0600) = 3</w/a> <0.1>
1 1.1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 2 <0.1>
1 1.2 close(3</w/a> <unfinished ...>
2 1.3 openat(AT_FDCWD</w>, "b", O_RDWR|O_CREAT, 0600) = 3</w/b> <0.1>
2 1.4 write(3</w/b>, "x", 10) = 10 <0.1>
1 1.5 <... close resumed>) = 0 <0.3>
2 1.6 write(3</w/b>, "x", 10) = 10 <0.1>
"#;
    let (records, sums) = import(overlap);
    assert!(sums.losses.is_empty(), "{:?}", sums.losses);
    let program = Program::compile(reader(&records), Options::default()).unwrap();
    let sizes: Vec<u64> = program.last.iter().map(|entry| entry.size).collect();
    assert_eq!((sizes, records.matches(" close 3 = 0").count()), (vec![0, 20], 1), "{records}");
    // Without a close that has begun, one was missed.
    let missed: String =
        overlap.lines().filter(|line| !line.contains("close")).map(|line| format!("{line}\n")).collect();
    assert_eq!(lost(&missed), one("close", 1));
    // A call that is still running when its descriptor goes is of the file that has gone.
    let running = r#"
1 1.0 openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT, 0600) = 3</w/a> <0.1>
1 1.1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 2 <0.1>
2 1.2 read(3</w/a>,  <unfinished ...>
1 1.3 close(3</w/a>) = 0 <0.1>
2 1.4 <... read resumed>"x", 10) = 10 <0.3>
"#;
    assert_eq!(lost(running), one("read", 1));
}

#[test]
fn processes_of_which_a_text_has_no_line_are_lost() {
    let lines = "1 1.0 clone(child_stack=NULL, flags=SIGCHLD) = 2 <0.1>\n1 1.2 fsync(3</w/f>) = 0 <0.1>\n";
    let followed = format!("{lines}2 1.3 +++ killed by SIGKILL +++\n");
    let names = |lines: &str| lost(lines).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(
        (names(lines), names(&followed)),
        (vec!["clone".to_owned(), "open".to_owned()], vec!["open".to_owned()])
    );
}

#[test]
fn relative_paths_without_a_known_directory_are_relative_to_where_the_program_began() {
    let (text, sums) = import_in("mkdir(\"d\", 0755) = 0\n", b"/w/x");
    assert!(sums.losses.is_empty() && text.contains("mkdir \"x/d\""), "{text}");
}

#[test]
fn every_consumer_hears_of_losses() {
    let records = "T 1 1 1 \"\"\n1 0 0 sync = 0\n1 0 0 sync = 0\nL calls 3 \"io_uring_enter\" \"why\" \"prog\"\n\
                   L calls 1 \"io_uring_enter\" \"why\" \"prog\"\nL bytes 2 \"mmap\" \"no call\"\nE at=9 calls=2 dropped=4 level=0\n";
    let refused = Program::compile(reader(records), Options::default()).unwrap_err();
    assert!(
        matches!(&refused, Error::Lossy { what, .. } if what.contains("4 calls are missing (4 io_uring_enter)")),
        "{refused}"
    );
    let program = Program::compile(reader(records), Options { allow_drops: true }).unwrap();
    assert_eq!((program.summary.lost, program.summary.losses.calls()), (4, 4));
    assert_eq!(program.summary.losses.silent_names().as_deref(), Some("2 mmap"));
    let mut packed = trace::compile::Packed::new(Vec::new(), "p").unwrap();
    trace::compile::compile(reader(records), Options { allow_drops: true }, &mut packed).unwrap();
    let loaded = Program::load(std::io::Cursor::new(packed.finish().unwrap()), "p").unwrap();
    assert_eq!(loaded.summary, program.summary);
    let stat = stat(reader(records)).unwrap();
    assert_eq!(stat.losses.lines(), ["4 io_uring_enter of prog: why", "2 mmap: no call"]);
    // A part lacks what the whole does, also where it ends before.
    let part = trace::cut::Part { last_call: Some(1), ..trace::cut::Part::default() };
    let mut kept = Vec::new();
    let end = trace::cut::cut(reader(records), &part, &mut |record| {
        kept.push(record.clone());
        Ok(())
    });
    assert_eq!(
        (end.unwrap().dropped, kept.iter().filter(|record| matches!(record, Record::Loss(_))).count()),
        (4, 3)
    );
    // Also where the recorder was killed before the end.
    let cut = reader(records.split("E at").next().unwrap());
    assert!(Program::compile(cut, Options::default()).is_err());
}

#[test]
fn records_of_an_optional_section_are_passed_over_and_of_an_unknown_kind_refused() {
    let records =
        "T 1 1 1 \"\"\n1 0 0 sync = 0\nb 0 4096 \"abc\"\n1 0 0 sync = 0\nE at=9 calls=2 dropped=0 level=0\n";
    let mut read = reader(records);
    let mut count = 0;
    while read.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!((count, read.passed_over(), read.lost()), (4, 1, 0));
    let refused = all(reader("Q 1 2\n")).unwrap_err().to_string();
    assert!(refused.contains("no record of this version"), "{refused}");
}

/// What a trace with these records does not explain of a folder, which `change` changes after it was looked at.
fn unexplained(records: &str, change: impl FnOnce(&std::path::Path)) -> Vec<Loss> {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    std::fs::write(home.join("old"), "12345").unwrap();
    let old = std::fs::File::options().write(true).open(home.join("old")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1)).unwrap();
    let scope = Scope::new(&[home.to_str().unwrap()]);
    let before = Snapshot::take(&scope).unwrap().before();
    change(&home);
    remains::missing(reader(records), &scope, Some(&before), &|path| path.ends_with("own")).unwrap()
}

#[test]
fn sizes_that_the_records_do_not_explain_are_a_loss_whatever_the_cause() {
    use std::fs::write;
    let begin = "S f 0644 5 \"old\"\nT 1 1 1 \"\"\n1 0 0 open \"new\" wronly,creat 0600 = 3\n";
    let written = format!("{begin}1 0 0 write 3 10 = 10\n");
    let new = |home: &std::path::Path| write(home.join("new"), "0123456789").unwrap();
    assert_eq!(unexplained(&written, new), []);
    let names = |losses: Vec<Loss>| {
        losses.iter().map(|loss| String::from_utf8_lossy(&loss.reason).into_owned()).collect::<Vec<_>>()
    };
    let short = names(unexplained(begin, new));
    assert!(short.len() == 1 && short[0].contains("other sizes"), "{short:?}");
    let gone = names(unexplained(&written, |_| {}));
    assert!(gone.len() == 1 && gone[0].contains("not there"), "{gone:?}");
    let opened = format!("{written}1 0 0 open \"old\" rdwr 0 = 4\n");
    let changed = names(unexplained(&opened, |home| {
        new(home);
        write(home.join("old"), "54321").unwrap();
    }));
    assert!(changed.len() == 1 && changed[0].contains("have changed without"), "{changed:?}");
    // One that no call names may be another program's: no call is said to be missing.
    let unnamed = unexplained(&written, |home| {
        new(home);
        write(home.join("unnamed"), "x").unwrap();
        write(home.join("own"), "the recorder's").unwrap();
    });
    assert_eq!(
        unnamed.iter().map(|loss| (loss.kind, loss.count)).collect::<Vec<_>>(),
        [(trace::record::Missing::Bytes, 1)]
    );
    // Stores to a mapping move the time of the last change, of which the mapping has been told.
    let mapped = format!("{opened}1 0 0 mmap 4 5 0 read,write,shared = 0\n");
    assert_eq!(
        unexplained(&mapped, |home| {
            new(home);
            write(home.join("old"), "54321").unwrap();
        }),
        []
    );
}
