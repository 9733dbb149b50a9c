//! Programs with one fault each, and the same mended. The columns are posix, ext4, xfs, btrfs and f2fs; A: atomicity,
//! D: durability.

use super::{Recorded, Rule, View, judged};

const MODELS: [&str; 5] = ["posix", "ext4", "xfs", "btrfs", "f2fs"];

/// What each model breaks of a program that `make` writes.
fn verdicts(make: &dyn Fn(&mut Recorded), rule: &Rule) -> Vec<String> {
    let mut program = Recorded::new();
    make(&mut program);
    let outcome = judged(&program.end(), &MODELS, rule);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    MODELS.iter().map(|model| outcome.broken(model)).collect()
}

pub(super) fn expect(name: &str, expected: [&str; 5], make: &dyn Fn(&mut Recorded), rule: &Rule) {
    assert_eq!(verdicts(make, rule), expected, "{name}");
}

pub(super) const D: [&str; 5] = ["D"; 5];
const A: [&str; 5] = ["A"; 5];
pub(super) const NONE: [&str; 5] = [""; 5];

pub(super) fn is(found: bool, what: &str) -> Result<(), String> {
    if found { Ok(()) } else { Err(what.to_owned()) }
}

/// What was told to be done has its file with these bytes.
fn told_is_there(
    path: &'static str,
    bytes: &'static [u8],
) -> impl Fn(&View<'_>) -> Result<(), String> + Sync {
    move |view| is(view.told().is_empty() || view.holds(path, bytes), "what was told is gone")
}

#[test]
fn a_write_with_o_dsync_is_durable_when_it_returns() {
    let rule = told_is_there("log", b"record");
    let with = |flags: &'static str| {
        move |program: &mut Recorded| {
            program.had("log", b"      ");
            let log = program.open("log", flags);
            program.pwrite(log, 0, b"record").told("stored");
        }
    };
    expect("broken", D, &with("wronly"), &rule);
    expect("mended", NONE, &with("wronly,dsync"), &rule);
}

#[test]
fn a_write_with_o_dsync_covers_no_other_data() {
    let rule = |view: &View<'_>| {
        let file = view.file("db").unwrap_or_default();
        is(
            !file.get(8192..).is_some_and(|end| end.starts_with(b"commit")) || file[0] == b'n',
            "committed, and the page is old",
        )
    };
    let with = |synced: bool| {
        move |program: &mut Recorded| {
            program.had("db", &[b'o'; 12288]);
            let (pages, commits) = (program.open("db", "wronly"), program.open("db", "wronly,dsync"));
            program.pwrite(pages, 0, &[b'n'; 4096]);
            if synced {
                program.call(&format!("fdatasync {pages}"));
            }
            program.pwrite(commits, 8192, b"commit");
        }
    };
    expect("broken", A, &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_write_with_o_dsync_covers_no_size_that_another_write_has_moved() {
    let rule = told_is_there("s", b"new");
    let with = |folder: bool| {
        move |program: &mut Recorded| {
            program.had("f", &[b'o'; 4096]).had("t", b"new").had("s", b"old").rename("t", "s");
            let (appends, commits) = (program.open("f", "wronly,append"), program.open("f", "wronly,dsync"));
            program.write(appends, b"a new block").pwrite(commits, 0, b"in place");
            if folder {
                program.fsync_folder("");
            }
            program.told("saved");
        }
    };
    expect("broken", D, &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_write_with_o_dsync_covers_the_size_that_it_needs() {
    let rule = |view: &View<'_>| {
        let file = view.file("f").unwrap_or_default();
        is(view.told().is_empty() || file.get(8192..8198) == Some(b"record"), "what was told is gone")
    };
    let with = |flags: &'static str| {
        move |program: &mut Recorded| {
            let (appends, commits) = (program.had("f", b"old").open("f", "wronly"), program.open("f", flags));
            program.pwrite(appends, 8192, b"______").pwrite(commits, 8192, b"record").told("stored");
        }
    };
    expect("broken", D, &with("wronly"), &rule);
    expect("mended", NONE, &with("wronly,dsync"), &rule);
}

#[test]
fn an_exchange_is_covered_by_a_sync_of_either_file_or_folder() {
    let rule = told_is_there("a/x", b"two");
    let with = |file: &'static str, folder: &'static str| {
        move |program: &mut Recorded| {
            program.had_folder("a").had_folder("b").had("a/x", b"one").had("b/x", b"two");
            let synced = (!file.is_empty()).then(|| program.open(file, "rdwr"));
            program.call("rename \"a/x\" \"b/x\" exchange");
            if let Some(file) = synced {
                program.fsync(file);
            }
            if !folder.is_empty() {
                program.fsync_folder(folder);
            }
            program.told("switched");
        }
    };
    expect("not synced", D, &with("", ""), &rule);
    expect("one file", ["D", "", "", "", ""], &with("a/x", ""), &rule);
    expect("the other file", ["D", "", "", "", ""], &with("b/x", ""), &rule);
    expect("one folder", NONE, &with("", "a"), &rule);
    expect("the other folder", NONE, &with("", "b"), &rule);
}

#[test]
fn a_name_by_link_and_unlink_needs_its_folder() {
    let rule = told_is_there("new", b"contents");
    let with = |synced: bool| {
        move |program: &mut Recorded| {
            let tmp = program.save("tmp", b"contents");
            program.fsync(tmp).call("link \"tmp\" \"new\"").call("unlink \"tmp\"");
            if synced {
                program.fsync_folder("");
            }
            program.told("saved");
        }
    };
    expect("broken", D, &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_sync_of_a_file_that_changed_nothing_in_the_journal_covers_no_rename() {
    let rule = told_is_there("s", b"new");
    let with = |folder: bool| {
        move |program: &mut Recorded| {
            program.had("s", b"old").had("log", &[b'.'; 4096]);
            let (t, log) = (program.save("t", b"new"), program.open("log", "wronly"));
            program.fsync(t).rename("t", "s").pwrite(log, 0, b"done").call(&format!("fdatasync {log}"));
            if folder {
                program.fsync_folder("");
            }
            program.told("saved");
        }
    };
    expect("broken", D, &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_sync_of_another_folder_covers_a_rename_only_where_one_journal_is_forced() {
    let rule = told_is_there("a/s", b"new");
    let with = |folder: &'static str| {
        move |program: &mut Recorded| {
            program.had_folder("a").had_folder("b").had("a/s", b"old");
            let t = program.save("a/t", b"new");
            program.fsync(t).rename("a/t", "a/s").fsync_folder(folder).told("saved");
        }
    };
    expect("broken", ["D", "", "D", "D", ""], &with("b"), &rule);
    expect("mended", NONE, &with("a"), &rule);
}

#[test]
fn data_in_a_block_that_a_truncation_leaves_may_persist_before_it() {
    let rule = |view: &View<'_>| {
        let file = view.file("f").unwrap_or_default();
        is(file.first() != Some(&b'N') || file.len() == 4096, "the new header with the old tail")
    };
    let with = |synced: bool| {
        move |program: &mut Recorded| {
            program.had("f", &[b'o'; 16384]);
            let file = program.open("f", "wronly");
            program.call(&format!("ftruncate {file} 4096"));
            if synced {
                program.fsync(file);
            }
            program.pwrite(file, 0, b"N").fsync(file);
        }
    };
    expect("broken", A, &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_new_folder_needs_a_sync_of_its_parent_on_posix() {
    let rule = told_is_there("d/f", b"contents");
    let with = |parent: bool| {
        move |program: &mut Recorded| {
            program.call("mkdir \"d\" 0755");
            let file = program.save("d/f", b"contents");
            program.fsync(file).fsync_folder("d");
            if parent {
                program.fsync_folder("");
            }
            program.told("stored");
        }
    };
    expect("broken", ["D", "", "", "", ""], &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_sync_of_a_new_folder_covers_its_own_name_where_names_have_one_order() {
    let rule = |view: &View<'_>| is(view.told().is_empty() || view.folder("d/q"), "the folder is gone");
    let with = |parent: bool| {
        move |program: &mut Recorded| {
            program.had("x", b"x").call("mkdir \"d\" 0755").call("mkdir \"d/q\" 0755").fsync_folder("d/q");
            if parent {
                program.fsync_folder("d").fsync_folder("");
            }
            program.told("made");
        }
    };
    expect("broken", ["D", "", "", "", ""], &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_file_that_moves_into_a_new_folder_is_not_lost_where_names_have_one_order() {
    let rule = |view: &View<'_>| is(view.holds("x", b"x") != view.holds("q/x", b"x"), "x is lost");
    let with = |first: bool| {
        move |program: &mut Recorded| {
            program.had("x", b"x").call("mkdir \"q\" 0755");
            if first {
                program.fsync_folder("");
            }
            program.rename("x", "q/x").fsync_folder("q").fsync_folder("");
        }
    };
    expect("broken", ["A", "", "", "", ""], &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_header_longer_than_a_sector_may_be_torn() {
    let rule = |view: &View<'_>| {
        let file = view.file("f").unwrap_or_default();
        is(file.iter().take(1000).all(|byte| *byte == file[0]), "half of the header")
    };
    let with = |length: usize| {
        move |program: &mut Recorded| {
            program.had("f", &[b'o'; 4096]);
            let file = program.open("f", "wronly");
            program.pwrite(file, 0, &vec![b'n'; length]).fsync(file);
        }
    };
    expect("broken", A, &with(1000), &rule);
    let rule = |view: &View<'_>| {
        let file = view.file("f").unwrap_or_default();
        is(file.iter().take(500).all(|byte| *byte == file[0]), "half of the header")
    };
    expect("mended", NONE, &with(500), &rule);
}

#[test]
fn a_truncation_is_durable_after_fdatasync() {
    let rule = |view: &View<'_>| {
        is(view.told().is_empty() || view.holds("journal", b""), "the journal is hot again")
    };
    let with = |synced: bool| {
        move |program: &mut Recorded| {
            program.had("journal", &[b'j'; 5000]);
            let file = program.open("journal", "wronly");
            program.call(&format!("ftruncate {file} 0"));
            if synced {
                program.call(&format!("fdatasync {file}"));
            }
            program.told("committed");
        }
    };
    expect("broken", D, &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_log_of_names_may_persist_a_younger_one_first() {
    let rule = |view: &View<'_>| {
        let new = |path: &str| view.holds(path, b"new");
        is(!new("b") || new("a"), "b is new and a is old")
    };
    let with = |folder: bool| {
        move |program: &mut Recorded| {
            program.had("a", b"old").had("b", b"old").had("c", b"c");
            let (a, c) = (program.save("a.tmp", b"new"), program.open("c", "rdwr"));
            program.fsync(a);
            // What was synced belongs to an older transaction once all is; the name of `a` is not in the log.
            program.call("sync");
            program.rename("a.tmp", "a");
            if folder {
                program.fsync_folder("");
            }
            let b = program.save("b.tmp", b"new");
            program.fsync(b).rename("b.tmp", "b").fsync(c);
        }
    };
    expect("broken", ["A", "", "", "A", ""], &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn an_attribute_needs_the_sync_as_the_data_does() {
    let rule = |view: &View<'_>| {
        is(!view.holds("s", b"new") || view.attribute("s"), "the new file has no attribute")
    };
    let with = |first: bool| {
        move |program: &mut Recorded| {
            program.had("s", b"old");
            let t = program.save("t", b"new");
            if first {
                program.set_attribute("t", b"value").fsync(t);
            } else {
                program.fsync(t).set_attribute("t", b"value");
            }
            program.rename("t", "s");
        }
    };
    expect("broken", ["A", "", "", "", ""], &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn an_unnamed_file_needs_a_sync_of_its_name_and_on_btrfs_one_of_itself_after_that() {
    let rule = told_is_there("f", b"contents");
    let with = |again: bool, folder: bool| {
        move |program: &mut Recorded| {
            let file = program.open("", "wronly,directory,tmpfile");
            program.write(file, b"contents").fsync(file).call(&format!("linkfd {file} \"f\""));
            if again {
                program.fsync(file);
            }
            if folder {
                program.fsync_folder("");
            }
            program.told("stored");
        }
    };
    expect("broken", D, &with(false, false), &rule);
    expect("half", ["", "", "", "D", ""], &with(false, true), &rule);
    expect("mended", NONE, &with(true, true), &rule);
}

#[test]
fn an_old_generation_goes_only_after_the_new_one_is_durable() {
    let rule = |view: &View<'_>| {
        let whole = |path: &str| view.holds(path, b"generation");
        is(whole("1") || whole("2"), "no generation is whole")
    };
    let with = |synced: bool| {
        move |program: &mut Recorded| {
            program.had("1", b"generation");
            let file = program.save("2", b"generation");
            if synced {
                program.fsync(file).fsync_folder("");
            }
            program.call("unlink \"1\"");
        }
    };
    expect("broken", A, &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_rename_to_another_folder_needs_a_sync_of_that() {
    let rule = told_is_there("b/f", b"contents");
    let with = |folder: &'static str| {
        move |program: &mut Recorded| {
            program.had_folder("a").had_folder("b").had("a/f", b"contents");
            program.rename("a/f", "b/f").fsync_folder(folder).told("moved");
        }
    };
    expect("broken", ["D", "", "", "D", ""], &with("a"), &rule);
    expect("mended", NONE, &with("b"), &rule);
}

#[test]
fn a_copy_that_shares_blocks_persists_from_its_beginning() {
    let rule = |view: &View<'_>| {
        is(view.file("f").is_none_or(|bytes| bytes.iter().all(|byte| *byte == b'n')), "zeros in the copy")
    };
    let with = |place: u64| {
        move |program: &mut Recorded| {
            program.had("g", &vec![b'n'; 20_000]);
            let (from, to) = (program.open("g", "rdonly"), program.open("f", "wronly,creat"));
            program.call_for((1000, 100), &format!("copy {from} {to} 10000 {place} -1"), 10_000);
        }
    };
    // From the middle of a block nothing can be shared; up to the middle of one neither, unless it is the last.
    expect("not from a block's begin", A, &with(10_000), &rule);
    expect("not up to a block's end", A, &with(0), &rule);
    let last = |program: &mut Recorded| {
        program.had("g", &[b'n'; 10_000]);
        let (from, to) = (program.open("g", "rdonly"), program.open("f", "wronly,creat"));
        program.call_for((1000, 100), &format!("copy {from} {to} 10000 -1 -1"), 10_000);
    };
    expect("the whole file", ["A", "A", "", "", "A"], &last, &rule);
}

#[test]
fn a_copy_within_the_kernel_needs_a_sync_as_a_write_does() {
    let rule = |view: &View<'_>| {
        is(view.file("s").is_none_or(|bytes| bytes == b"contents"), "the copy is not whole")
    };
    let with = |synced: bool| {
        move |program: &mut Recorded| {
            program.had("f", b"contents");
            let (from, to) = (program.open("f", "rdonly"), program.open("t", "wronly,creat"));
            program.call_for((1000, 100), &format!("copy {from} {to} 8 -1 -1"), 8);
            if synced {
                program.fsync(to);
            }
            program.rename("t", "s");
        }
    };
    // Shared blocks are one change of the journal, older than the rename.
    expect("broken", ["A", "A", "", "", "A"], &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_symbolic_link_is_switched_durably_by_a_sync_of_its_folder() {
    let rule = |view: &View<'_>| {
        is(
            view.told().is_empty() || view.target("current").is_some_and(|to| to == b"two"),
            "the link is the old one",
        )
    };
    let with = |synced: bool| {
        move |program: &mut Recorded| {
            program.call("symlink \"current\" \"one\"").call("sync");
            program.call("symlink \"next\" \"two\"").rename("next", "current");
            if synced {
                program.fsync_folder("");
            }
            program.told("switched");
        }
    };
    expect("broken", D, &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_sync_covers_only_what_had_ended_before_it_began() {
    let rule = told_is_there("log", b"record");
    let with = |sync_at: u64| {
        move |program: &mut Recorded| {
            program.had("log", b"      ");
            let log = program.open("log", "wronly");
            let begun = 10_000;
            // The sync of the second thread ends after the write in any case.
            program.pwrite(log, 0, b"record");
            program.thread(2, 0).call_for((sync_at, begun - sync_at + 5_000), &format!("fsync {log}"), 0);
            program.told("stored");
        }
    };
    expect("broken", D, &with(2_150), &rule);
    expect("mended", NONE, &with(3_000), &rule);
}

#[test]
fn msync_covers_its_range_and_no_more() {
    let rule = |view: &View<'_>| {
        let file = view.file("f").unwrap_or_default();
        is(view.told().is_empty() || file.first() == Some(&b'n'), "what was told is gone")
    };
    let with = |offset: u64| {
        move |program: &mut Recorded| {
            program.had("f", &[b'o'; 8192]);
            let file = program.open("f", "rdwr");
            program.call(&format!("mmap {file} 8192 0 read,write,shared")).pwrite(file, 0, b"n");
            program.call(&format!("msync 0 4096 {offset} sync")).told("stored");
        }
    };
    expect("broken", D, &with(4096), &rule);
    expect("mended", NONE, &with(0), &rule);
}

#[test]
fn a_backup_by_a_link_needs_its_folder_before_the_file_is_replaced() {
    let rule = |view: &View<'_>| {
        is(
            !view.holds("s", b"new") || view.holds("s.bak", b"old"),
            "the new file is there without the backup",
        )
    };
    let with = |synced: bool| {
        move |program: &mut Recorded| {
            program.had("s", b"old").call("link \"s\" \"s.bak\"");
            if synced {
                program.fsync_folder("");
            }
            let new = program.save("t", b"new");
            program.fsync(new).rename("t", "s");
        }
    };
    expect("broken", ["A", "", "", "", ""], &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn an_answer_on_a_socket_counts_as_one_on_the_standard_output() {
    let rule = told_is_there("log", b"record");
    let with = |synced: bool| {
        move |program: &mut Recorded| {
            let log = program.answers_on_a_socket().had("log", b"      ").open("log", "wronly");
            program.pwrite(log, 0, b"record");
            if synced {
                program.fsync(log);
            }
            program.told("stored");
        }
    };
    expect("broken", D, &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn a_sync_covers_nothing_of_another_file_system() {
    let rule = told_is_there("m/s", b"new");
    let with = |sync: &'static str| {
        move |program: &mut Recorded| {
            program.had_mount("m").had("m/s", b"old");
            let new = program.save("m/t", b"new");
            program.fsync(new).rename("m/t", "m/s");
            match sync {
                "syncfs" => {
                    let other = program.open("o", "wronly,creat");
                    program.call(&format!("syncfs {other}"));
                }
                "sync" => drop(program.call("sync")),
                folder => drop(program.fsync_folder(folder)),
            }
            program.told("saved");
        }
    };
    expect("the folder of another one", D, &with(""), &rule);
    expect("another one as a whole", D, &with("syncfs"), &rule);
    expect("its own folder", NONE, &with("m"), &rule);
    expect("all of them", NONE, &with("sync"), &rule);
}

#[test]
fn names_on_two_file_systems_persist_in_any_order() {
    let rule = |view: &View<'_>| is(view.folder("m/a") || !view.folder("b"), "the second without the first");
    let with = |is_mount: bool| {
        move |program: &mut Recorded| {
            if is_mount {
                program.had_mount("m");
            } else {
                program.had_folder("m");
            }
            program.call("mkdir \"m/a\" 0755").call("mkdir \"b\" 0755");
        }
    };
    expect("two file systems", A, &with(true), &rule);
    expect("one", ["A", "", "", "", ""], &with(false), &rule);
}

#[test]
fn a_call_that_never_returned_may_have_had_its_effect_or_not() {
    let with = |program: &mut Recorded| {
        program.had("f", b"old").had("s", b"x").had("t", b"y");
        let file = program.open("f", "wronly");
        program.half(&format!("pwrite {file} 3 0"), b"new");
        program.thread(2, 5_000).half("rename \"t\" \"s\" -", b"").told("another thread goes on");
    };
    let never = |view: &View<'_>| is(view.holds("f", b"old") && view.holds("s", b"x"), "an effect");
    expect("with its effect", A, &with, &never);
    let always = |view: &View<'_>| {
        let done = view.holds("f", b"new") && view.holds("s", b"y");
        is(view.told().is_empty() || done, "no effect")
    };
    let mut program = Recorded::new();
    with(&mut program);
    let story = program.end();
    assert!(story.notes.iter().any(|note| note.contains("never returned") && note.contains("rename")));
    // The end of the program is judged without it.
    let outcome = judged(&story, &MODELS, &always);
    assert!(outcome.faults.iter().any(|fault| fault.contains("no effect")), "{:?}", outcome.faults);
}
