//! What is kept beside a trace: calls that never returned, and stacks.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use tempfile::TempDir;
use trace::contents::{Contents, Of, Writer as Kept, beside};
use trace::import::Emitter;
use trace::import::strace::{Importer, Start, flags_with_contents};
use trace::record::Head;
use trace::scope::Scope;
use trace::{Reader, Writer};

use crate::shared::{all, text};

/// The trace of some lines, and its contents.
fn import(lines: &str, folder: &TempDir) -> (String, Contents) {
    let trace = folder.path().join("x.wtrace");
    let writer = Writer::new(Vec::new(), &Head::new("test", b"/"), true).unwrap();
    let mut importer = Importer::new(Emitter::new(writer), Scope::new(&["/w"]), Start::Unknown, b"/w");
    let out = File::create(beside(&trace)).unwrap();
    importer.keep_contents(Kept::new(Box::new(out), "id", 1 << 20).unwrap());
    importer.read(lines.as_bytes(), "out.txt").unwrap();
    let (out, _) = importer.finish(None).unwrap();
    let records = all(Reader::new(std::io::Cursor::new(out), "t").unwrap()).unwrap();
    (text(&records), Contents::open(&trace, Some(b"id")).unwrap())
}

#[test]
fn a_call_that_never_returned_is_kept_with_what_it_would_have_done() {
    let lines = r#"
1 100.000000 openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT, 0600) = 3</w/a> <0.000100>
1 100.001000 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD|CLONE_SETTLS, child_tid=0x1, exit_signal=0} => {parent_tid=[2]}, 88) = 2 <0.000050>
2 100.002000 pwrite64(3</w/a>, "bytes", 5, 8 <unfinished ...>
1 100.002500 rename("a", "b") = ?
1 100.002500 openat(AT_FDCWD</w>, "c", O_RDWR|O_TRUNC) = ?
2 100.003000 +++ killed by SIGKILL +++
1 100.005000 +++ killed by SIGKILL +++
"#;
    let folder = tempfile::tempdir().unwrap();
    let (text, contents) = import(lines, &folder);
    assert!(!text.contains("write") && !text.contains("rename"), "{text}");
    let halves: Vec<_> = contents
        .halves
        .iter()
        .map(|half| {
            let line = half.effect.as_ref().map(|effect| String::from_utf8_lossy(&effect.line).into_owned());
            (String::from_utf8_lossy(&half.call).into_owned(), half.begin_ns, line)
        })
        .collect();
    let line = |line: &str| Some(line.to_owned());
    let wanted = [
        ("rename".to_owned(), 2_500_000, line("1 0 0 rename \"a\" \"b\" - = 0")),
        ("openat".to_owned(), 2_500_000, None),
        ("pwrite64".to_owned(), 2_000_000, line("2 0 0 pwrite 3 5 8 = 5")),
    ];
    assert_eq!(halves, wanted);
    let effect = contents.halves[2].effect.as_ref().unwrap();
    assert_eq!(contents.read(effect.written.unwrap().bytes).unwrap(), b"bytes");
}

#[test]
fn the_stack_behind_a_call_is_that_calls() {
    let lines = r#"
1 100.000000 openat(AT_FDCWD</w>, "a", O_RDWR|O_CREAT, 0600) = 3</w/a> <0.000100>
 > /lib/libc.so.6(__open+0x10) [0x100]
 > /w/p(main+0x20) [0x1200]
1 100.001000 write(3</w/a>, "x", 1) = 1 <0.000100>
 > /lib/libc.so.6(__write+0x10) [0x110]
 > /w/p(save+0x7) [0x1107]
 > /w/p(main+0x30) [0x1210]
1 100.002000 write(1</dev/null>, "told\n", 5) = 5 <0.000100>
 > /w/p(main+0x40) [0x1220]
1 100.003000 unlink("a") = 0 <0.000100>
1 100.005000 +++ exited with 0 +++
"#;
    let folder = tempfile::tempdir().unwrap();
    let (text, contents) = import(lines, &folder);
    assert!(!text.contains("strange") && text.matches(" = ").count() == 3, "{text}");
    let shown = |frames: &[u32]| {
        let symbols =
            frames.iter().map(|frame| String::from_utf8_lossy(&contents.frames[*frame as usize].0.symbol));
        symbols.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown(&contents.stacks[&1]), "__open+0x10 main+0x20");
    assert_eq!(shown(&contents.stacks[&2]), "__write+0x10 save+0x7 main+0x30");
    assert!(!contents.stacks.contains_key(&3), "the unlink has none");
    assert_eq!(shown(&contents.sent_stacks[&0]), "main+0x40");
}

#[test]
fn a_frame_is_stored_once_and_has_its_line_of_source() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("x.wtrace");
    let frame = trace::contents::Frame { module: (*b"/w/p").into(), symbol: (*b"main").into(), place: 7 };
    let mut writer = Kept::new(Box::new(File::create(beside(&trace)).unwrap()), "id", 1 << 20).unwrap();
    writer.stack(Of::Call(1), std::slice::from_ref(&frame)).unwrap();
    writer.stack(Of::Call(2), &[frame.clone(), frame.clone()]).unwrap();
    writer.source(0, "/src/p.c:12").unwrap();
    writer.finish().unwrap();
    let contents = Contents::open(&trace, Some(b"id")).unwrap();
    assert_eq!(contents.frames, [(frame, Some("/src/p.c:12".to_owned()))]);
    assert_eq!(contents.stacks[&2], [0, 0]);
}

/// Skipped, with a word, where strace is missing, may not trace, or shows no stacks.
#[test]
fn the_real_strace_shows_stacks_that_are_understood() {
    let (folder, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (root, out) = (folder.path().canonicalize().unwrap(), place.path().join("out"));
    let mut strace = Command::new("strace");
    strace.args(flags_with_contents()).arg("-k").arg("-o").arg(&out);
    strace.args(["--", "sh", "-c", "echo text >f; mv f g; echo told >&2"]).current_dir(&root);
    let told = Command::new("strace").arg("-V").output();
    let has_stacks = told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("stack-trace="));
    if !has_stacks || !strace.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: strace is missing, may not trace here, or shows no stacks");
        return;
    }
    let trace = place.path().join("x.wtrace");
    let root = root.as_os_str().as_bytes();
    let writer = Writer::new(Vec::new(), &Head::new("test", root), true).unwrap();
    let mut importer = Importer::new(Emitter::new(writer), Scope::new(&[root]), Start::Unknown, root);
    let kept = File::create(beside(&trace)).unwrap();
    importer.keep_contents(Kept::new(Box::new(kept), "id", 1 << 20).unwrap());
    importer.read(&std::fs::read(&out).unwrap()[..], "out").unwrap();
    assert_eq!(importer.strange(), None, "a line of the real strace is not understood");
    importer.finish(None).unwrap();
    let contents = Contents::open(&trace, Some(b"id")).unwrap();
    let has_libc = |stack: &Vec<u32>| {
        stack
            .iter()
            .any(|frame| contents.frames[*frame as usize].0.module.windows(4).any(|part| part == b"libc"))
    };
    let with_libc = contents.stacks.values().filter(|stack| has_libc(stack)).count();
    assert!(with_libc >= 3, "open, write and rename: {:?}", contents.stacks);
    assert_eq!(contents.sent_stacks.len(), contents.sent.len(), "what was told has its stack");
}
