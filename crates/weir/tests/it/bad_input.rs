//! Bad input: a message with place, reason and remedy, the right exit code, one JSON document, and nothing damaged.

use std::path::Path;

use crate::shared::{document, told, weir};
use serde_json::Value;

/// What is wrong, the command, its exit code, and what its message must hold: place, reason, remedy.
type Case = (&'static str, &'static [&'static str], i32, &'static [&'static str]);

const AXIS: &str = r#"[plan]
name = "a"
why = "b"
stop = "1s"
[[axis]]
fs = ["pmfs"]
[[axis]]
b = ["8MiB"]
sets = ["fs.buffer"]
[[workload]]
name = "filebench/varmail"
"#;

const SMALL: &str = r#"[plan]
name = "a"
why = "b"
stop = "1s"
region = "1MiB"
[[axis]]
fs = ["pmfs"]
[[workload]]
name = "filebench/varmail"
"#;

/// Files that the cases name, by name and text.
const FILES: [(&str, &str); 11] = [
    ("idle.f", "define process name=p {\n  thread name=t,memsize=1m {\n  }\n}\nrun 1\n"),
    ("statement.f", "frobnicate all\nrun 1\n"),
    (
        "fileset.f",
        "define process name=p {\n  thread name=t,memsize=1m {\n    flowop statfile name=s,filename=lost\n  }\n}\nrun 1\n",
    ),
    ("size.f", "define fileset name=a,path=/tmp,dirwidth=20,entries=9,size=99999999999999999999g\nrun 1\n"),
    ("key.toml", "[plan]\nname = \"a\"\nwhy = \"b\"\nstop = \"1s\"\nregon = \"1g\"\n"),
    ("axis.toml", AXIS),
    ("small.toml", SMALL),
    ("comments.f", "# nothing yet\n"),
    (
        "one.f",
        "define process name=p {\n  thread name=t,memsize=1m {\n    flowop eventlimit name=e\n  }\n}\nrun 1\n",
    ),
    ("none.pm", ""),
    ("stranger.pm", "not a file system, but some text that is longer than nothing"),
];

/// Commands that did something else than they were asked for.
const IDLE: [Case; 9] = [
    (
        "an empty checker",
        &["check", "crash", "trace:lost.wtrace", "--check", " "],
        2,
        &["--check: the command is empty", "judges a tree", "leave --check out"],
    ),
    (
        "a trace without its prefix",
        &["check", "crash", "lost.wtrace"],
        2,
        &["weir check crash trace:lost.wtrace"],
    ),
    (
        "a script of comments",
        &["bench", "comments.f", "--fs", "pmfs"],
        2,
        &["comments.f: ", "no process with a thread", "define process"],
    ),
    (
        "threads of a script without a variable for them",
        &["bench", "one.f", "--fs", "pmfs", "--threads", "4"],
        2,
        &["one.f: ", "sets $nthreads", "instances=$nthreads"],
    ),
    (
        "a limit below the first run",
        &["bench", "varmail", "--fs", "pmfs", "--runtime", "10ms", "--until", "steady", "--at-most", "1ms"],
        2,
        &["--at-most", "10ms", "--runtime less"],
    ),
    (
        "images in a file",
        &["bench", "varmail", "--fs", "pmfs", "--runtime", "1ms", "--save-image", "comments.f"],
        4,
        &["--save-image", "comments.f"],
    ),
    (
        "a setting of a medium twice",
        &["bench", "varmail", "--fs", "pmfs", "--medium", "hinfs,latency=1us,latency=2us"],
        2,
        &["latency is given twice"],
    ),
    (
        "an unlikely time of a medium",
        &["bench", "varmail", "--fs", "pmfs", "--medium", "cxl.asic,extra=1000h"],
        2,
        &["extra", "ns, us or ms, at most 1000ms"],
    ),
    ("a limit beyond all", &["compare", "a", "b", "--fail-over", "500%"], 2, &["from 0% to 100%"]),
];

const EXPERIMENTS: [Case; 28] = [
    (
        "a check of what has no image",
        &["check", "model", "--fs", "pmfs,device", "--ops", "10"],
        2,
        &["\"device\" is a device without a file system", "needs a design", "weir list fs"],
    ),
    (
        "a check of the kernel's files",
        &["check", "crash", "--fs", "host:/tmp"],
        2,
        &["\"host:/tmp\" is a directory of this host", "needs a design", "weir list fs"],
    ),
    (
        "a word for a number",
        &["bench", "varmail", "--fs", "pmfs", "-D", "nfiles=ten"],
        2,
        &["filebench/varmail:11:", "expected a number for $nfiles", "-D nfiles=ten", "such as 1000"],
    ),
    (
        "a family of media",
        &["bench", "varmail", "--fs", "pmfs", "--medium", "nova"],
        2,
        &["no medium \"nova\"", "nova.pcm", "nova.sttram"],
    ),
    (
        "files on a device",
        &["bench", "varmail", "--fs", "device", "--medium", "fast24"],
        2,
        &["filebench/varmail", "works on files", "take a fio job file"],
    ),
    (
        "a machine that is none under the real clock",
        &["bench", "varmail", "--fs", "pmfs", "--clock", "real", "--machine", "nope"],
        2,
        &["no machine called \"nope\"", "there are: ", "hinfs-server"],
    ),
    (
        "a warm-up that is none",
        &["bench", "varmail", "--fs", "pmfs", "--warm-up", "soon"],
        2,
        &["--warm-up", "soon", "neither a time such as 100ms, nor \"auto\""],
    ),
    (
        "unknown statement",
        &["bench", "statement.f", "--fs", "pmfs"],
        2,
        &["statement.f:1:1", "unknown statement \"frobnicate\"", "there are: "],
    ),
    (
        "missing fileset",
        &["bench", "fileset.f", "--fs", "pmfs"],
        2,
        &["fileset.f:3:", "unknown fileset \"lost\"", "there are none"],
    ),
    (
        "impossible size in a script",
        &["bench", "size.f", "--fs", "pmfs"],
        2,
        &["size.f:1:", "is not a number", "63 bits"],
    ),
    (
        "missing script",
        &["bench", "lost.f", "--fs", "pmfs"],
        2,
        &["lost.f", "there is no workload file", "weir list workloads"],
    ),
    ("missing plan", &["run", "lost.toml"], 2, &["lost.toml", "there is no plan file", "weir list plans"]),
    (
        "unknown key of a plan",
        &["run", "key.toml"],
        2,
        &["key.toml:5:1", "unknown key \"regon\"", "did you mean \"region\"?"],
    ),
    (
        "axis that a design cannot serve",
        &["run", "axis.toml"],
        2,
        &["axis.toml:7:1", "which pmfs does not have", "unaffected"],
    ),
    (
        "region of a plan too small",
        &["run", "small.toml", "--dry-run"],
        2,
        &["plan a", "pmfs needs at least", "region = \"5MiB\""],
    ),
    (
        "region too small",
        &["bench", "varmail", "--fs", "pmfs", "--region", "1MiB"],
        2,
        &["plan bench", "the region has 1 MiB", "--region 5MiB"],
    ),
    (
        "more memory than there is",
        &["bench", "varmail", "--fs", "pmfs", "--region", "9999TiB"],
        3,
        &["varmail pmfs", "this host has", "--region"],
    ),
    (
        "full while files are made",
        &["bench", "varmail", "--fs", "pmfs", "--region", "9MiB"],
        4,
        &["varmail pmfs: prepare: write", "the region of 9 MiB is full", "--region 18MiB"],
    ),
    (
        "no threads",
        &["bench", "varmail", "--fs", "pmfs", "--threads", "0"],
        2,
        &["--threads", "from 1 to 10000"],
    ),
    (
        "threads that are no number",
        &["bench", "varmail", "--fs", "pmfs", "--threads", "four"],
        2,
        &["--threads", "four", "from 1 to 10000"],
    ),
    (
        "a number of threads twice",
        &["bench", "varmail", "--fs", "pmfs", "--threads", "1,1"],
        2,
        &["--threads", "1 is given twice"],
    ),
    ("a design twice", &["bench", "varmail", "--fs", "pmfs,pmfs"], 2, &["--fs", "pmfs is given twice"]),
    ("no runs side by side", &["run", "--jobs", "0"], 2, &["--jobs", "from 1 to 4096", "one for each core"]),
    ("too little memory for any run", &["run", "--memory", "1k"], 2, &["--memory", "at least 64MiB"]),
    (
        "an option of a design that is not compared",
        &["bench", "varmail", "--fs", "pmfs", "-O", "buffer=1MiB"],
        2,
        &["\"buffer\"", "hinfs", "only pmfs is compared"],
    ),
    (
        "a script that does nothing",
        &["bench", "idle.f", "--fs", "pmfs"],
        2,
        &["idle.f:2:3", "no flowop", "thread"],
    ),
    (
        "a part that the plan does not have",
        &["run", "quick", "--only", "fs=ext9"],
        2,
        &["--only fs=ext9", "there are: pmfs, hinfs"],
    ),
    (
        "report of no format",
        &["bench", "varmail", "--fs", "pmfs", "-o", "a.xyz"],
        2,
        &["a.xyz", "must end in one of", ".html"],
    ),
];

const IMAGES: [Case; 26] = [
    (
        "no number",
        &["mkfs", "--fs", "pmfs", "--size", "many", "new.pm"],
        2,
        &["--size", "is not a size", "4KiB"],
    ),
    (
        "impossible size",
        &["mkfs", "--fs", "pmfs", "--size", "99999TiB", "new.pm"],
        4,
        &["new.pm", "cannot", "smaller --size"],
    ),
    (
        "image too small",
        &["mkfs", "--fs", "pmfs", "--size", "1MiB", "new.pm"],
        2,
        &["new.pm", "pmfs needs at least", "--size 5MiB"],
    ),
    (
        "image that is taken",
        &["mkfs", "--fs", "hinfs", "good.pm"],
        2,
        &["good.pm", "holds a pmfs file system", "--force"],
    ),
    ("no such image", &["fsck", "lost.pm"], 2, &["lost.pm", "No such file", "weir mkfs"]),
    ("a folder", &["fsck", "."], 2, &[".: ", "directory", "give the pool"]),
    ("an empty file", &["fsck", "none.pm"], 4, &["none.pm", "no bytes", "give"]),
    ("another design's image", &["fsck", "stranger.pm"], 2, &["stranger.pm", "no design recognises", "--fs"]),
    (
        "another design, by force",
        &["df", "--fs", "pmfs", "foreign.pm"],
        2,
        &["foreign.pm", "not a pmfs image: superblock: its magic is", "weir mkfs"],
    ),
    (
        "another version's image",
        &["fsck", "version.pm"],
        5,
        &["version.pm", "not one that this version writes", "copy the file first"],
    ),
    (
        "a truncated image",
        &["fsck", "short.pm"],
        5,
        &["short.pm", "the file system has 67108864 bytes", "copy the file first"],
    ),
    (
        "a stump of an image",
        &["fsck", "--fs", "pmfs", "stump.pm"],
        4,
        &["stump.pm", "a medium of 100 bytes", "restore the file"],
    ),
    (
        "both superblocks bad",
        &["df", "bad.pm"],
        5,
        &["bad.pm", "redundant copy: its checksum is wrong", "copy the file first"],
    ),
    ("a part that there is not", &["dump", "good.pm", "jornal"], 2, &["good.pm", "there is no", "journal"]),
    ("a pipe", &["fsck", "pipe.pm"], 2, &["pipe.pm", "not a regular file", "give another path"]),
    ("a device", &["mkfs", "pmfs", "/dev/null", "--size", "64MiB"], 2, &["/dev/null", "not a regular file"]),
    (
        "no design",
        &["mkfs", "new.pm", "--size", "64MiB"],
        2,
        &["name the design and the pool", "weir mkfs pmfs"],
    ),
    (
        "more inodes than fit",
        &["mkfs", "pmfs", "new.pm", "--size", "64MiB", "-O", "num_inodes=100000000"],
        2,
        &["new.pm", "num_inodes=100000000", "fewer"],
    ),
    (
        "a wrong option of a sparse image",
        &["mkfs", "nova", "--sparse", "new.pm", "--size", "64MiB", "-O", "shards=9999"],
        2,
        &["new.pm", "shards=9999", "from 1 to 256"],
    ),
    (
        "a sparse image that is too large",
        &["mkfs", "nova", "--sparse", "--size", "99999TiB", "new.pm"],
        4,
        &["new.pm", "give a smaller size"],
    ),
    (
        "a sparse image that is there",
        &["mkfs", "nova", "--sparse", "--size", "64MiB", "good.pm"],
        2,
        &["good.pm exists", "leave it out", "weir trim"],
    ),
    (
        "a pool of no size",
        &["resize", "good.pm", "0"],
        2,
        &["good.pm has 64 MiB", "never made smaller", "weir mkfs"],
    ),
    (
        "a pool larger than can be counted",
        &["resize", "good.pm", "18446744073709551615"],
        2,
        &["larger than any file can be"],
    ),
    ("no pool to resize", &["resize", "lost.pm", "1GiB"], 2, &["lost.pm", "No such file", "weir mkfs"]),
    (
        "another file to resize",
        &["resize", "stranger.pm", "1GiB"],
        2,
        &["stranger.pm", "no design", "weir fsck"],
    ),
    (
        "a truncated pool to trim",
        &["trim", "short.pm"],
        5,
        &["short.pm", "67108864 bytes", "copy the file first"],
    ),
];

/// What was understood as something else.
const MISTAKEN: [Case; 14] = [
    (
        "a file where a socket is to be",
        &["serve", "block", "--size", "64MiB", "--socket", "good.pm"],
        4,
        &["good.pm", "no socket", "does not exist"],
    ),
    (
        "a pool of another design to check",
        &["fsck", "good.pm", "--fs", "nova"],
        2,
        &["holds a pmfs file system", "give pmfs"],
    ),
    (
        "a pool of another design to mount",
        &["mount", "nova", "good.pm", ".", "-o", "nonempty"],
        2,
        &["holds a pmfs file system", "give pmfs"],
    ),
    (
        "a folder that is not there",
        &["mkfs", "pmfs", "lost/new.pm", "--size", "64MiB"],
        2,
        &["no folder lost", "make it"],
    ),
    ("a plan's file of another name", &["run", "idle.f"], 2, &["\"idle.f\"", "must end in .toml"]),
    ("a new plan's file of another name", &["plan", "new", "new.txt"], 2, &["new.txt", "must end in .toml"]),
    (
        "a machine's file of another name",
        &["calibrate", "-o", "host.txt"],
        2,
        &["host.txt", "must end in .toml"],
    ),
    (
        "a machine's file of another name to run on",
        &["bench", "varmail", "--fs", "pmfs", "--machine", "idle.f"],
        2,
        &["\"idle.f\"", "must end in .toml"],
    ),
    (
        "two values of an axis",
        &["run", "quick", "--only", "fs=pmfs", "--only", "fs=hinfs"],
        2,
        &["names fs twice", "one value"],
    ),
    ("a value that no cell has", &["run", "quick", "--only", "fs=ext9"], 2, &["no cell of the plan", "pmfs"]),
    (
        "a baseline called as the last run",
        &["baseline", "save", "latest"],
        2,
        &["the last run", "something else"],
    ),
    (
        "a cost that no machine has",
        &["show", "machine", "fxmark-server,walk=1ns"],
        2,
        &["fxmark-server", "walk"],
    ),
    ("no crash", &["sim", "logging", "--crash", "0"], 2, &["--crash", "1.."]),
    (
        "a transaction after all others",
        &["sim", "logging", "--timeline", "99999999"],
        2,
        &["--timeline", "0..=1000000"],
    ),
];

/// Words that other programs take, and limits that nothing says beforehand.
const STRANGERS: [Case; 20] = [
    (
        "workloads joined by commas",
        &["bench", "filebench/varmail,filebench/webserver", "--fs", "pmfs"],
        2,
        &["\"filebench/varmail,filebench/webserver\"", "separated by spaces"],
    ),
    (
        "a type of the mount",
        &["mount", "pmfs", "good.pm", ".", "-o", "subtype=mine"],
        2,
        &["subtype=mine", "fuse.weir.DESIGN"],
    ),
    ("a group of all files", &["mount", "pmfs", "good.pm", ".", "-o", "gid=5"], 2, &["gid=5", "chgrp(1)"]),
    (
        "a run longer than the clock",
        &["bench", "varmail", "--fs", "pmfs", "--runtime", "100000h"],
        2,
        &["filebench/varmail", "26 days", "less time"],
    ),
    (
        "a warm-up longer than the clock",
        &["bench", "varmail", "--fs", "pmfs", "--runtime", "1s", "--warm-up", "700h"],
        2,
        &["filebench/varmail", "26 days"],
    ),
    (
        "no design after --fs",
        &["bench", "varmail", "--fs"],
        2,
        &["a value is required for '--fs", "there are: ", "crest", "linux/xfs"],
    ),
    ("no design", &["bench", "varmail"], 2, &["--fs", "there are: ", "crest"]),
    ("every design, and one again", &["bench", "varmail", "--fs", "all,pmfs"], 2, &["--fs all", "alone"]),
    (
        "a file system of the kernel",
        &["bench", "varmail", "--fs", "tmpfs"],
        2,
        &["\"tmpfs\"", "did you mean \"linux/tmpfs\"?"],
    ),
    ("another", &["bench", "varmail", "--fs", "xfs"], 2, &["did you mean \"linux/xfs\"?"]),
    (
        "fewer than no threads",
        &["bench", "varmail", "--fs", "pmfs", "--threads", "-1"],
        2,
        &["'-1' for '--threads", "from 1 to 10000"],
    ),
    (
        "fewer than no repeats",
        &["bench", "varmail", "--fs", "pmfs", "--repeats", "-1"],
        2,
        &["'-1' for '--repeats", "1..=1000"],
    ),
    (
        "a trace whose lines nothing describes",
        &["trace", "import", "lasr", "idle.f", "-o", "new.wtrace"],
        2,
        &["lasr", "docs/traces.md"],
    ),
    ("a name that is no word", &["explain", "optane.100"], 2, &["optane.100", "weir show optane.100"]),
    ("a plan as a machine", &["show", "quick", "--toml"], 2, &["quick", "--machine", "--medium"]),
    (
        "a name of the mount",
        &["mount", "pmfs", "good.pm", ".", "-o", "fsname=mine"],
        2,
        &["fsname=mine", "path of the pool"],
    ),
    ("an owner of all files", &["mount", "pmfs", "good.pm", ".", "-o", "uid=5"], 2, &["uid=5", "chown(1)"]),
    ("root alone", &["mount", "pmfs", "good.pm", ".", "-O", "allow_root"], 2, &["allow_root", "allow_other"]),
    ("help of no command", &["help", "benhc"], 2, &["benhc", "bench"]),
    (
        "an SSD without spare space",
        &["sim", "flash", "idle.f", "--device", "fast24,capacity=2MiB"],
        2,
        &["blocks", "more capacity"],
    ),
];

/// Changes bytes of a copy of `good.pm`.
fn changed(home: &Path, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(home.join("good.pm")).unwrap();
    change(&mut bytes);
    std::fs::write(home.join(name), bytes).unwrap();
}

/// The checksum of PMFS's superblock: CRC-16/IBM-SDLC.
fn checksum(bytes: &[u8]) -> u16 {
    let step = |crc: u16| if crc & 1 == 1 { crc >> 1 ^ 0x8408 } else { crc >> 1 };
    !bytes.iter().fold(0xffff, |crc, byte| (0..8).fold(crc ^ u16::from(*byte), |crc, _| step(crc)))
}

/// A superblock (or its copy) with a block size that no version has written, and the checksum that belongs to it.
fn of_another_version(bytes: &mut [u8], at: usize) {
    assert_eq!(bytes[at..at + 2], checksum(&bytes[at + 2..at + 48]).to_le_bytes(), "the format has changed");
    bytes[at + 4] ^= 1;
    let sum = checksum(&bytes[at + 2..at + 48]);
    bytes[at..at + 2].copy_from_slice(&sum.to_le_bytes());
}

/// A folder with every file that the cases name.
fn folder() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        std::fs::write(home.path().join(name), text).unwrap();
    }
    let made =
        weir(home.path()).args(["mkfs", "--fs", "pmfs", "--size", "64MiB", "good.pm"]).output().unwrap();
    assert!(made.status.success(), "{}", told(&made));
    let pipe = home.path().join("pipe.pm");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    changed(home.path(), "foreign.pm", |bytes| bytes[..1024].fill(7));
    changed(home.path(), "version.pm", |bytes| {
        for at in [0, 512] {
            of_another_version(bytes, at);
        }
    });
    changed(home.path(), "short.pm", |bytes| bytes.truncate(40_000_000));
    changed(home.path(), "stump.pm", |bytes| bytes.truncate(100));
    changed(home.path(), "half.pm", |bytes| bytes[4] ^= 0xff);
    changed(home.path(), "bad.pm", |bytes| [4, 516].into_iter().for_each(|at| bytes[at] ^= 0xff));
    home
}

/// Names and bytes of all files of the folder, results aside.
fn files(home: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

fn check(cases: &[Case]) {
    let home = folder();
    let before = files(home.path());
    for (what, arguments, code, parts) in cases {
        let output = weir(home.path()).args(*arguments).arg("--json").output().unwrap();
        let message = told(&output);
        assert_eq!(output.status.code(), Some(*code), "{what}: {message}");
        for part in *parts {
            assert!(message.contains(part), "{what} must say {part:?}: {message}");
        }
        let error = document(&output);
        assert_eq!(error["error"]["exit_code"], *code, "{what}");
        assert!(error["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{what}");
    }
    assert!(before == files(home.path()), "files were changed, made or removed");
}

#[test]
fn bad_experiments_are_told_with_place_reason_and_remedy() {
    check(&EXPERIMENTS);
}

#[test]
fn what_would_do_something_else_than_it_was_asked_for_is_refused_before_it_runs() {
    check(&IDLE);
}

#[test]
fn words_of_other_programs_and_limits_are_told() {
    check(&STRANGERS);
}

#[test]
fn what_is_mistaken_is_told_before_anything_is_written_or_removed() {
    check(&MISTAKEN);
}

/// A mount of a file that is no pool gives no advice on its permissions, and none that would overwrite it.
#[test]
fn a_mount_of_another_file_speaks_of_no_permission_and_no_force() {
    let home = folder();
    std::fs::write(home.path().join("letter"), "hello").unwrap();
    std::fs::create_dir(home.path().join("dir")).unwrap();
    for file in ["letter", "stranger.pm", "none.pm"] {
        let output = weir(home.path()).args(["mount", "pmfs", file, "dir", "--foreground"]).output().unwrap();
        let told = told(&output);
        assert!(!output.status.success() && told.contains(file), "{told}");
        assert!(!told.contains("chmod") && !told.contains("--force"), "{told}");
    }
}

/// The result is measured, and so it is written, whatever bytes its name has.
#[test]
fn a_report_may_have_a_name_that_is_no_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = folder();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff.json");
    let output = weir(home.path())
        .args(["bench", "varmail", "--fs", "pmfs", "--runtime", "1ms", "-D", "nfiles=500", "-q", "-o"])
        .arg(name)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert!(home.path().join(name).exists());
}

#[test]
fn bad_images_are_told_with_place_reason_and_remedy_and_left_alone() {
    check(&IMAGES);
}

#[test]
fn a_bad_superblock_is_read_from_its_copy_and_said_so() {
    let home = folder();
    let before = files(home.path());
    let checked = document(&weir(home.path()).args(["fsck", "half.pm", "--json"]).output().unwrap());
    assert_eq!(checked["clean"], true);
    let note = Value::from("the primary superblock is bad; the redundant copy was used");
    assert!(checked["notes"].as_array().unwrap().contains(&note), "{checked}");
    assert!(weir(home.path()).args(["df", "half.pm"]).output().unwrap().status.success());
    assert!(before == files(home.path()), "looking changed an image");
}

/// Where the root's link count lies in an image with a journal of 4 MiB.
const LINKS_OF_ROOT: usize = 0x40_10a6;

#[test]
fn violations_are_one_document_and_an_exit_code() {
    let home = folder();
    changed(home.path(), "links.pm", |bytes| bytes[LINKS_OF_ROOT] ^= 1);
    let output = weir(home.path()).args(["fsck", "links.pm", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    assert_eq!(document(&output)["violations"][0]["predicate"], "link_count_right");
}

#[test]
fn repair_answers_as_e2fsck_does() {
    let home = folder();
    changed(home.path(), "links.pm", |bytes| bytes[LINKS_OF_ROOT] ^= 1);
    let code = |arguments: &[&str]| {
        let output = weir(home.path()).args(["fsck", "--repair", "--json"]).args(arguments).output().unwrap();
        (output.status.code(), output)
    };
    let (repaired, output) = code(&["links.pm"]);
    assert_eq!(repaired, Some(1), "{}", told(&output));
    assert_eq!(document(&output)["repairs"].as_array().map(Vec::len), Some(1), "{}", told(&output));
    let (clean, output) = code(&["links.pm"]);
    assert_eq!(clean, Some(0), "{}", told(&output));
    let (unreadable, output) = code(&["lost.pm"]);
    assert_eq!(unreadable, Some(8), "{}", told(&output));
}

/// Where the root's inode lies in an image of nova, the first of its shard, and where its log begins.
fn root_of_nova(bytes: &[u8]) -> (usize, usize) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let inode = word(3 * 4096 + 128 + 64);
    (inode, word(inode + 64))
}

#[test]
fn an_image_that_no_mount_recovers_is_repaired_and_what_is_left_is_named() {
    let home = folder();
    let pool = home.path().join("pool.nova");
    let repair = |damage: fn(&mut [u8])| {
        let _ = std::fs::remove_file(&pool);
        let made = weir(home.path()).args(["mkfs", "nova", "pool.nova", "--size", "64MiB"]).output().unwrap();
        assert!(made.status.success(), "{}", told(&made));
        let mut bytes = std::fs::read(&pool).unwrap();
        damage(&mut bytes);
        std::fs::write(&pool, bytes).unwrap();
        let checked = weir(home.path()).args(["fsck", "pool.nova"]).output().unwrap();
        assert_eq!(checked.status.code(), Some(5), "no mount takes it: {}", told(&checked));
        weir(home.path()).args(["fsck", "--repair", "pool.nova"]).output().unwrap()
    };
    let torn = repair(|bytes| bytes[root_of_nova(bytes).1 + 10] ^= 1);
    assert_eq!(torn.status.code(), Some(1), "{}", told(&torn));
    let again = weir(home.path()).args(["fsck", "--repair", "pool.nova"]).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", told(&again));
    // A record of an inode, of its owner or of its kind, which no checksum vouches for: it stays, and the repair says what may differ.
    let damages: [fn(&mut [u8]); 2] =
        [|bytes| bytes[root_of_nova(bytes).0 + 40] ^= 1, |bytes| bytes[root_of_nova(bytes).0 + 33] ^= 0x41];
    for damage in damages {
        let sealed = repair(damage);
        assert_eq!(sealed.status.code(), Some(1), "{}", told(&sealed));
        let left = String::from_utf8_lossy(&sealed.stdout).into_owned();
        assert!(
            left.contains("inode 1: ") && left.contains("owner and mode may be others than before"),
            "{left}"
        );
        let again = weir(home.path()).args(["fsck", "pool.nova"]).output().unwrap();
        assert_eq!(again.status.code(), Some(0), "{}", told(&again));
    }
}
