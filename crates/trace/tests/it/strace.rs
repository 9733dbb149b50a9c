//! Text of strace as records: threads, halves of calls, descriptors, names.

use trace::import::strace::{Importer, Start, Told};
use trace::import::{Emitter, Sums};
use trace::record::Head;
use trace::scope::Scope;
use trace::{Reader, Writer};

use crate::shared::{all, text};

fn import(lines: &str, roots: &[&str]) -> (String, Sums) {
    let writer = Writer::new(Vec::new(), &Head::new("test", b"/"), true).unwrap();
    let mut importer = Importer::new(Emitter::new(writer), Scope::new(roots), Start::Unknown, b"/w");
    importer.read(lines.as_bytes(), "out.txt").unwrap();
    let (out, sums) = importer.finish(None).unwrap();
    let records = all(Reader::new(std::io::Cursor::new(out), "t").unwrap()).unwrap();
    (text(&records), sums)
}

/// The calls alone, without thread and times.
fn calls(lines: &str) -> Vec<String> {
    let (text, _) = import(lines, &["/w"]);
    let calls = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    calls.map(|line| line.splitn(4, ' ').nth(3).unwrap().to_owned()).collect()
}

#[test]
fn every_form_of_a_call_is_the_same_call() {
    let same = [
        r#"open("/w/a", O_RDONLY) = 3"#,
        r#"7 1000.000001 openat(AT_FDCWD</w>, "a", O_RDONLY) = 3</w/a> <0.000012>"#,
        r#"[pid 7] 10:00:01.5 openat(AT_FDCWD, "a", O_RDONLY)   = 3"#,
        r#"7 1000.5 openat(9</w>, "\x61", O_RDONLY) = 3</w/a>"#,
        r#"7 1000.5 openat2(AT_FDCWD</w>, "./a", {flags=O_RDONLY, resolve=0}, 24) = 3</w/a>"#,
    ];
    for line in same {
        let found = calls(line);
        assert_eq!(found.len(), 1, "{line}");
        assert_eq!(found[0].replace("./", ""), "open \"a\" rdonly 00 = 3", "{line}");
    }
}

#[test]
fn at_flags_and_missing_paths_choose_the_call() {
    let lines = r#"
openat(AT_FDCWD</w>, "f", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0640) = 3</w/f>
newfstatat(3</w/f>, "", {st_mode=S_IFREG|0640, st_size=0, ...}, AT_EMPTY_PATH) = 0
newfstatat(AT_FDCWD</w>, "l", {st_mode=S_IFLNK|0777, st_size=1, ...}, AT_SYMLINK_NOFOLLOW) = 0
statx(AT_FDCWD</w>, "f", AT_STATX_SYNC_AS_STAT, STATX_ALL, {stx_mask=STATX_ALL, stx_mode=S_IFREG|0640, stx_size=0, ...}) = 0
unlinkat(AT_FDCWD</w>, "d", AT_REMOVEDIR) = -1 ENOTEMPTY (Directory not empty)
utimensat(3</w/f>, NULL, [{tv_sec=5, tv_nsec=7}, UTIME_OMIT], 0) = 0
linkat(AT_FDCWD</w>, "/proc/self/fd/3", AT_FDCWD</w>, "named", AT_SYMLINK_FOLLOW) = 0
renameat2(AT_FDCWD</w>, "f", AT_FDCWD</w>, "g", RENAME_NOREPLACE) = 0
fchownat(AT_FDCWD</w>, "g", -1, 100, AT_SYMLINK_NOFOLLOW) = -1 EPERM (Operation not permitted)
symlinkat("../x", AT_FDCWD</w>, "s") = 0
faccessat2(AT_FDCWD</w>, "g", R_OK|X_OK, AT_EACCESS) = 0
mknodat(AT_FDCWD</w>, "p", S_IFIFO|0600) = 0
umask(022) = 077
"#;
    let wanted = [
        "open \"f\" rdwr,creat,excl,cloexec 0640 = 3",
        "fstat 3 = 0",
        "lstat \"l\" = 0",
        "stat \"f\" = 0",
        "rmdir \"d\" = -ENOTEMPTY",
        "futimes 3 5000000007 omit = 0",
        "linkfd 3 \"named\" = 0",
        "rename \"f\" \"g\" noreplace = 0",
        "lchown \"g\" -1 100 = -EPERM",
        "symlink \"s\" \"../x\" = 0",
        "access \"g\" 05 = 0",
        "mknod \"p\" 010600 0 = 0",
        "umask 022 = 63",
    ];
    assert_eq!(calls(lines), wanted);
}

#[test]
fn sizes_offsets_and_flags_of_data_calls_survive() {
    let lines = r#"
openat(AT_FDCWD</w>, "f", O_RDWR) = 3</w/f>
readv(3</w/f>, [{iov_base="ab", iov_len=2}, {iov_base=""..., iov_len=4096}], 2) = 100
pwrite64(3</w/f>, "\0\0\0 = 5) \"\n"..., 8192, 4096) = 8192
pwritev2(3</w/f>, [{iov_base="x", iov_len=10}], 1, -1, RWF_DSYNC) = 10
lseek(3</w/f>, -10, SEEK_END) = 90
fallocate(3</w/f>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0
sync_file_range(3</w/f>, 0, 1048576, SYNC_FILE_RANGE_WRITE) = 0
fadvise64(3</w/f>, 0, 0, POSIX_FADV_SEQUENTIAL) = 0
flock(3</w/f>, LOCK_EX|LOCK_NB) = -1 EAGAIN (Resource temporarily unavailable)
fcntl(3</w/f>, F_SETLKW, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=19}) = 0
fsetxattr(3</w/f>, "user.x", "v", 1, XATTR_CREATE) = 0
getdents64(3</w/f>, 0x5 /* 3 entries */, 32768) = 72
fdatasync(3</w/f>) = 0
close(3</w/f>) = 0
"#;
    let wanted = [
        "open \"f\" rdwr 00 = 3",
        "read 3 4098 = 100",
        "pwrite 3 8192 4096 = 8192",
        "pwrite 3 10 -1 = 10",
        "lseek 3 -10 end = 90",
        "fallocate 3 4096 0 keep_size,punch_hole = 0",
        "syncrange 3 1048576 0 write = 0",
        "fadvise 3 0 0 2 = 0",
        "flock 3 ex,nb = -EAGAIN",
        "lock 3 ex 19 0 = 0",
        "fsetxattr 3 \"user.x\" 1 create = 0",
        "getdents 3 32768 = 72",
        "fdatasync 3 = 0",
        "close 3 = 0",
    ];
    assert_eq!(calls(lines), wanted);
}

#[test]
fn halves_of_calls_are_joined_and_stand_where_they_end() {
    let lines = r#"
1 100.000000 openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT, 0600 <unfinished ...>
1 100.000500 <... openat resumed>) = 3</w/a> <0.000400>
1 100.001000 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD|CLONE_SETTLS, child_tid=0x1, exit_signal=0} => {parent_tid=[2]}, 88) = 2 <0.000050>
2 100.002000 write(3</w/a>, ""..., 10 <unfinished ...>
1 100.002500 fsync(3</w/a>) = 0 <0.000100>
2 100.003000 <... write resumed>) = 10 <0.000900>
2 100.004000 +++ exited with 0 +++
1 100.005000 +++ killed by SIGKILL +++
"#;
    let (text, _) = import(lines, &["/w"]);
    let wanted = "\
T 1 1 1 \"\"
1 0 400000 open \"a\" rdwr,creat 0600 = 3
T 2 1 2 \"\"
F 1 2 600000 thread,files
1 600000 50000 fork 2 = 0
1 1450000 100000 fsync 3 = 0
2 1000000 900000 write 3 10 = 10
X 2 1100000 exit 0
X 1 2400000 signal 9
";
    assert_eq!(text.split_once("E at").unwrap().0, wanted);
}

#[test]
fn a_child_of_vfork_that_shows_itself_first_gets_its_parent() {
    let lines = r#"
5 1.0 vfork( <unfinished ...>
6 1.1 execve("/bin/touch", ["touch"], 0x1 /* 3 vars */) = 0 <0.1>
5 1.3 <... vfork resumed>) = 6 <0.3>
6 1.4 openat(AT_FDCWD</w>, "n", O_WRONLY|O_CREAT, 0666) = 3</w/n> <0.1>
6 1.6 +++ exited with 0 +++
5 1.7 wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 6 <0.1>
"#;
    let (text, _) = import(lines, &["/w"]);
    assert!(text.contains("F 1 2 0 vfork\n"), "{text}");
    assert!(text.contains("T 2 6 6 \"touch\"\n"), "{text}");
    assert!(text.contains("1 0 300000000 fork 2 = 0\n"), "{text}");
    assert!(text.contains("wait 2 = 0\n"), "{text}");
}

#[test]
fn a_thread_that_ends_before_the_call_that_made_it_returns_is_the_one_that_was_made() {
    let lines = r#"
1 1.0 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD|CLONE_SETTLS, child_tid=0x1, exit_signal=0} <unfinished ...>
2 1.1 openat(AT_FDCWD</w>, "n", O_WRONLY|O_CREAT, 0666) = 3</w/n> <0.1>
2 1.3 +++ exited with 0 +++
1 1.4 <... clone3 resumed> => {parent_tid=[2]}, 88) = 2 <0.4>
"#;
    let (text, _) = import(lines, &["/w"]);
    assert!(text.contains("fork 2 = 0\n"), "{text}");
}

#[test]
fn lines_of_a_child_are_held_while_two_threads_make_one() {
    let lines = r#"
1 1.0 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 2 <0.1>
1 1.2 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
2 1.2 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>
9 1.3 openat(AT_FDCWD</w>, "n", O_WRONLY|O_CREAT, 0666) = 3</w/n> <0.1>
1 1.4 <... clone resumed>) = 8 <0.1>
2 1.4 <... clone resumed>) = 9 <0.1>
8 1.5 openat(AT_FDCWD</w>, "m", O_WRONLY|O_CREAT, 0666) = 3</w/m> <0.1>
"#;
    let (text, _) = import(lines, &["/w"]);
    assert!(text.contains("T 4 9 9 \"\"\nF 2 4 "), "{text}");
    assert!(text.contains("T 3 8 8 \"\"\nF 1 3 "), "{text}");
    assert!(
        text.contains("4 0 100000000 open \"n\"") || text.contains("4 100000000 100000000 open \"n\""),
        "{text}"
    );
}

#[test]
fn what_is_no_file_below_a_root_is_counted_with_its_time() {
    let lines = r#"
1 1.0 openat(AT_FDCWD</w>, "/etc/passwd", O_RDONLY) = 3</etc/passwd> <0.1>
1 1.2 read(3</etc/passwd>, ""..., 100) = 100 <0.1>
1 1.4 pipe2([4<pipe:[1]>, 5<pipe:[1]>], 0) = 0 <0.1>
1 1.6 write(5<pipe:[1]>, ""..., 1) = 1 <0.1>
1 1.8 futex(0x1, FUTEX_WAIT, 1, NULL) = 0 <0.1>
1 2.0 openat(AT_FDCWD</w>, "f", O_RDONLY) = 6</w/f> <0.1>
1 2.2 mmap(NULL, 100, PROT_READ|PROT_WRITE, MAP_SHARED, 6</w/f>, 0) = 0x7000 <0.1>
1 2.3 msync(0x7000, 50, MS_SYNC) = 0 (DELAYED) <0.1>
1 2.4 munmap(0x7000, 100) = 0 <0.1>
1 2.6 io_uring_setup(8, {}) = 7 <0.1>
1 2.8 sendfile(5<pipe:[1]>, 6</w/f>, NULL, 4096) = 100 <0.1>
1 3.0 copy_file_range(6</w/f>, [5], 6</w/f>, NULL, 10, 0) = 10 <0.1>
"#;
    let (text, sums) = import(lines, &["/w"]);
    assert!(text.contains("1 1000000000/500000000/5 100000000 open \"f\""), "{text}");
    assert!(text.contains("mmap 6 100 0 read,write,shared = 0\n"), "{text}");
    assert!(text.contains("msync 0 50 0 sync = 0\n"), "{text}");
    assert!(text.contains("munmap 0 = 0\n") && text.contains("sendfile 6 4096 -1 = 100\n"), "{text}");
    assert!(text.contains("copy 6 6 10 5 -1 = 10\n"), "{text}");
    let has =
        |part: &str| sums.counts.iter().find(|(what, _)| what.contains(part)).map_or(0, |(_, count)| *count);
    assert_eq!(
        (
            has("calls on files outside"),
            has("writes of files outside"),
            has("on pipes"),
            has("pipes and"),
            has("waits")
        ),
        (1, 1, 1, 1, 1),
        "{:?}",
        sums.counts
    );
    let losses = (sums.losses.names(), sums.losses.silent_names());
    assert_eq!((losses.0.as_deref(), losses.1.as_deref()), (Some("1 io_uring_setup"), Some("1 mmap")));
}

#[test]
fn files_below_dev_shm_are_files_and_devices_are_not() {
    let lines = r#"
1 1.0 openat(AT_FDCWD</dev/shm/w>, "f", O_RDONLY) = 3</dev/shm/w/f> <0.1>
1 1.2 read(3</dev/shm/w/f>, ""..., 100) = 100 <0.1>
1 1.4 write(2</dev/null<char 1:3>>, ""..., 1) = 1 <0.1>
1 1.6 close(3</dev/shm/w/f>) = 0 <0.1>
"#;
    let (text, sums) = import(lines, &["/dev/shm/w"]);
    for call in ["open \"f\" rdonly 00 = 3\n", "read 3 100 = 100\n", "close 3 = 0\n"] {
        assert!(text.contains(call), "{call}: {text}");
    }
    assert_eq!(sums.counts.get("calls on devices"), Some(&1), "{:?}", sums.counts);
}

#[test]
fn descriptors_that_were_open_before_are_said_first() {
    let lines =
        "1 1.0 write(1</w/log>, \"x\", 1) = 1 <0.1>\n1 1.2 dup2(1</w/log>, 2</dev/null>) = 2</w/log> <0.1>\n";
    let (text, _) = import(lines, &["/w"]);
    let calls: Vec<_> = text.lines().skip(1).take(3).collect();
    assert_eq!(calls[0], "D 1 1 \"log\" rdwr 0");
    assert!(calls[1].ends_with("write 1 1 = 1") && calls[2].ends_with("dup 1 - = 2"), "{text}");
}

#[test]
fn a_descriptor_that_something_else_replaces_is_closed_in_the_trace() {
    let lines = r#"
openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT, 0600) = 3</w/a>
dup2(0</dev/null>, 3</w/a>) = 3</dev/null>
write(3</dev/null>, "x", 1) = 1
"#;
    assert_eq!(calls(lines), ["open \"a\" rdwr,creat 0600 = 3", "close 3 = 0"]);
}

#[test]
fn names_of_any_bytes_survive() {
    let lines = r#"openat(AT_FDCWD</w>, "a\n\"b\\\303\244\377\74c", O_RDONLY) = -1 ENOENT (No such file or directory)"#;
    assert_eq!(calls(lines), [r#"open "a\x0a\x22b\x5c\xc3\xa4\xff<c" rdonly 00 = -ENOENT"#]);
}

#[test]
fn the_first_stat_of_a_file_says_what_it_was() {
    let lines = r#"
newfstatat(AT_FDCWD</w>, "old", {st_mode=S_IFREG|0600, st_size=77, ...}, 0) = 0
openat(AT_FDCWD</w>, "new", O_WRONLY|O_CREAT, 0600) = 3</w/new>
write(3</w/new>, "x", 1) = 1
newfstatat(3</w/new>, "", {st_mode=S_IFREG|0600, st_size=1, ...}, AT_EMPTY_PATH) = 0
newfstatat(AT_FDCWD</w>, "old", {st_mode=S_IFREG|0600, st_size=99, ...}, 0) = 0
"#;
    let (text, _) = import(lines, &["/w"]);
    let entries: Vec<_> = text.lines().filter(|line| line.starts_with("S ")).collect();
    assert_eq!(entries, ["S f 0600 77 \"old\""]);
}

#[test]
fn lines_that_are_not_understood_make_a_lossy_trace_and_foreign_files_none() {
    let (text, sums) =
        import("sync() = 0\nsync() = 0\nsync() = 0\nsync() = 0\nwhat is this?\nsync() = 0\n", &["/"]);
    assert_eq!(sums.losses.names().as_deref(), Some("1 line"));
    assert!(text.contains("dropped=1"), "{text}");
    let writer = Writer::new(Vec::new(), &Head::default(), false).unwrap();
    let mut importer = Importer::new(Emitter::new(writer), Scope::new(&["/"]), Start::Unknown, b"/");
    let refused = importer.read(&b"<html>\n"[..], "page.html").unwrap_err().to_string();
    assert!(refused.starts_with("page.html:1: ") && refused.contains("no output of strace"), "{refused}");
}

#[test]
fn a_last_line_that_was_cut_is_no_loss() {
    let (text, sums) = import("sync() = 0\nsync() = 0\nsync() = 0\nsync() = 0\nopenat(AT_FD", &["/"]);
    assert!(text.contains("dropped=0"), "{text}");
    assert_eq!(sums.counts.get("last line, which was cut"), Some(&1));
}

#[test]
fn exec_of_another_thread_replaces_the_first() {
    let lines = r#"
1 1.0 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 2 <0.1>
2 1.2 execve("/bin/x", ["x"], 0x1 /* 0 vars */ <unfinished ...>
1 1.3 +++ superseded by execve in pid 2 +++
1 1.4 <... execve resumed>) = 0 <0.2>
1 1.5 openat(AT_FDCWD</w>, "n", O_WRONLY|O_CREAT, 0666) = 3</w/n> <0.1>
"#;
    let (text, _) = import(lines, &["/w"]);
    assert!(text.contains("X 1 ") && text.contains("replaced 0"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("2 ") && line.contains("open \"n\"")), "{text}");
}

#[test]
fn the_thread_without_a_number_is_the_one_that_gets_one_later_and_a_broken_line_is_one_line() {
    let lines = r#"
openat(AT_FDCWD, "a", O_RDWR|O_CREAT, 0600) = 3
clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, exit_signal=0}strace: Process 81 attached
 => {parent_tid=[81]}, 88) = 81
[pid    81] write(3, "two", 3 <unfinished ...>
[pid    80] fork(strace: Process 82 attached
 <unfinished ...>
[pid    81] <... write resumed>)       = 3
[pid    80] <... fork resumed>)        = 82
[pid    82] write(3, "four", 4)        = 4
[pid    82] +++ exited with 0 +++
[pid    81] +++ exited with 0 +++
fork()                                  = 83
write(3, "one", 3)      = 3
strace: Process 83 attached
[pid    83] +++ exited with 0 +++
+++ exited with 0 +++
"#;
    let (text, sums) = import(lines, &["/w"]);
    assert!(sums.losses.is_empty(), "{:?}", sums.losses);
    assert!(text.contains("T 1 80 80") && text.contains("F 1 2 ") && text.contains("F 1 3 "), "{text}");
    for write in ["\n1 0 0 write 3 3 = 3\n", "\n2 0 0 write 3 3 = 3\n", "\n3 0 0 write 3 4 = 4\n"] {
        assert!(text.contains(write), "{write:?} {text}");
    }
}

/// Text of a program that is being recorded in a folder of this host.
fn live(lines: &str, root: &str, inherited: Vec<Told>) -> (String, Sums) {
    let writer = Writer::new(Vec::new(), &Head::new("test", root.as_bytes()), true).unwrap();
    let scope = Scope::new(&[root]);
    let mut importer = Importer::new(Emitter::new(writer), scope, Start::Unknown, root.as_bytes());
    importer.begins_with(inherited);
    lines.lines().for_each(|line| importer.line(line.as_bytes()).unwrap());
    let (out, sums) = importer.finish(None).unwrap();
    (text(&all(Reader::new(std::io::Cursor::new(out), "t").unwrap()).unwrap()), sums)
}

#[test]
fn what_a_program_begins_with_has_its_flags_and_position_and_two_numbers_of_one_file_share_it() {
    let told = |fd, path: &str, flags, position| Told { fd, path: path.as_bytes().into(), flags, position };
    let inherited = vec![
        told(0, "/dev/null", 0, 0),
        told(1, "/w/log", 0o2001, 21),
        told(2, "/w/log", 0o2001, 21),
        told(5, "/w/table", 2, 10),
        told(6, "/w/table", 2, 0),
    ];
    let lines = "1 1.0 write(2</w/log>, \"x\", 4) = 4 <0.1>\n1 1.2 write(5</w/table>, \"x\", 7) = 7 <0.1>\n";
    let (records, sums) = live(lines, "/w", inherited);
    assert!(sums.losses.is_empty(), "{:?}", sums.losses);
    for line in [
        "D 1 1 \"log\" wronly,append 21\n",
        "P 1 1 1\nR 1 1 2 -\n",
        "D 1 5 \"table\" rdwr 10\n",
        "D 1 6 \"table\" rdwr 0\n",
    ] {
        assert!(records.contains(line), "{line} {records}");
    }
}

#[test]
fn while_a_program_is_recorded_symbolic_links_lead_where_they_lead() {
    let place = tempfile::tempdir().unwrap();
    let home = place.path().canonicalize().unwrap();
    std::fs::create_dir_all(home.join("disk/work/sub")).unwrap();
    std::os::unix::fs::symlink("disk/work", home.join("link")).unwrap();
    std::os::unix::fs::symlink("disk/work/sub/file", home.join("to-file")).unwrap();
    std::fs::write(home.join("disk/work/sub/file"), "abc").unwrap();
    let root = home.join("disk/work").to_str().unwrap().to_owned();
    let at = |path: &str| home.join(path).to_str().unwrap().to_owned();
    let lines = format!(
        "mkdir(\"{}\", 0755) = 0\nrename(\"{}\", \"{}\") = 0\ntruncate(\"{}\", 1) = 0\nunlink(\"{}\") = 0\nmkdir(\"{}\", 0755) = 0\n",
        at("link/made"),
        at("link/sub/../made"),
        at("link/sub/moved"),
        at("to-file"),
        at("to-file"),
        at("elsewhere"),
    );
    let (records, sums) = live(&lines, &root, Vec::new());
    let calls: Vec<&str> = records
        .lines()
        .filter_map(|line| line.splitn(4, ' ').nth(3).filter(|_| line.starts_with("1 ")))
        .collect();
    let wanted =
        ["mkdir \"made\" 0755 = 0", "rename \"made\" \"sub/moved\" - = 0", "truncate \"sub/file\" 1 = 0"];
    assert_eq!((calls, sums.losses.is_empty()), (wanted.to_vec(), true));
    assert_eq!(sums.counts.get("calls on files outside the roots"), Some(&2));
}
