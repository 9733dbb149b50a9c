//! The rules that all models share, and those that tell them apart, on sets of micro-operations.

use super::super::model::Model;
use super::super::operations::{Change, Operations};
use super::super::points::points;
use super::super::states::States;
use super::super::story::Story;
use super::super::tree::Trees;
use super::{Recorded, View, judged};

/// How many legal sets, and distinct trees, all points of a program have.
fn count(story: &Story, model: &str) -> (usize, usize) {
    let (operations, model) = (Operations::of(story), Model::named(model).unwrap());
    let mut trees = Trees::new(story, &operations, model.stale, model.tear);
    let (mut legal, mut distinct) = (0, std::collections::BTreeSet::new());
    for point in &points(&operations, &model).0 {
        let mut states = States::new(&operations, &model, point, 1);
        legal += states.legal().unwrap();
        while let Some(state) = states.next_state() {
            distinct.insert(trees.hash(&state).unwrap());
        }
    }
    (legal, distinct.len())
}

#[test]
fn posix_loses_each_piece_alone_and_a_journal_only_the_end() {
    let mut program = Recorded::new();
    program.call("mkdir \"a\" 0755").call("mkdir \"b\" 0755").call("mkdir \"c\" 0755");
    let story = program.end();
    assert_eq!(count(&story, "posix"), (8, 8));
    assert_eq!(count(&story, "ext4"), (4, 4));
    assert_eq!(count(&story, "tmpfs"), (1, 1));
}

#[test]
fn a_page_goes_out_with_what_it_holds() {
    let mut program = Recorded::new();
    program.had("f", &[b'.'; 300]);
    let file = program.open("f", "wronly");
    program.pwrite(file, 0, b"1").pwrite(file, 100, b"2").pwrite(file, 200, b"3");
    let story = program.end();
    assert_eq!(count(&story, "posix").0, 4, "a later write of a page is never without an earlier one");
    assert_eq!(count(&story, "ext4-dax").0, 8, "without a page cache each is alone");
}

#[test]
fn a_size_without_data_shows_zeros_and_old_bytes_only_where_the_model_has_them() {
    let shown = |model: &str| {
        let mut program = Recorded::new();
        program.had("f", b"");
        let file = program.open("f", "wronly");
        program.write(file, &[b'n'; 4096]);
        let rule = |view: &View<'_>| {
            let bytes = view.file("f").unwrap_or_default();
            let odd = bytes.iter().find(|byte| **byte != b'n');
            odd.map_or(Ok(()), |byte| Err(if *byte == 0 { "zeros" } else { "stale" }.to_owned()))
        };
        let outcome = judged(&program.end(), &[model], &rule);
        outcome.findings.iter().map(|finding| finding.cause.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(shown("ext4"), ["zeros"]);
    assert_eq!(shown("ext4-writeback"), ["stale"]);
    assert!(shown("ext4:zeros=no").is_empty());
    assert!(shown("xfs").is_empty(), "the size moves after the data of its block");
}

#[test]
fn a_rename_over_a_file_waits_for_its_data_only_in_the_kind_reading() {
    let broken = |model: &str| {
        let mut program = Recorded::new();
        program.had("s", b"old");
        program.save("t", b"new");
        program.rename("t", "s");
        let rule = |view: &View<'_>| match view.file("s").as_deref() {
            Some(b"old" | b"new") => Ok(()),
            other => Err(format!("{other:?}")),
        };
        judged(&program.end(), &[model], &rule).broken(model)
    };
    assert_eq!(broken("ext4"), "A");
    assert_eq!(broken("xfs"), "A");
    assert_eq!(broken("ext4:zeros=no,replace=yes"), "");
}

#[test]
fn the_hash_of_a_tree_has_all_that_a_checker_can_see() {
    let hashes = |second: &dyn Fn(&mut Recorded)| {
        let mut program = Recorded::new();
        program.had("f", b"1");
        second(&mut program);
        let story = program.end();
        let operations = Operations::of(&story);
        let mut trees = Trees::new(&story, &operations, false, 512);
        trees.hash(&super::super::judge::whole(&operations)).unwrap()
    };
    let plain = hashes(&|_| ());
    let all = [
        hashes(&|program| {
            program.set_attribute("f", b"v");
        }),
        hashes(&|program| {
            program.call("chmod \"f\" 0600");
        }),
        hashes(&|program| {
            program.call("link \"f\" \"g\"");
        }),
        hashes(&|program| {
            let other = program.save("g", b"1");
            program.fsync(other);
        }),
        hashes(&|program| {
            program.call("symlink \"g\" \"f\"");
        }),
        hashes(&|program| {
            program.call("truncate \"f\" 2");
        }),
    ];
    for (at, one) in all.iter().enumerate() {
        assert_ne!(*one, plain, "{at}");
        assert!(!all[..at].contains(one), "{at}");
    }
}

#[test]
fn overlapping_calls_of_threads_have_no_order_in_a_journal() {
    let mut program = Recorded::new();
    program.call_for((1000, 5000), "mkdir \"a\" 0755", 0);
    program.thread(2, 0).call_for((1500, 100), "mkdir \"b\" 0755", 0);
    let story = program.end();
    assert_eq!(count(&story, "ext4").0, 4, "each of them alone, too");
}

#[test]
fn the_checker_is_warned_of_when_it_accepts_an_empty_folder() {
    let mut program = Recorded::new();
    program.had("f", b"1").save("g", b"2");
    let outcome = judged(&program.end(), &["posix"], &|_| Ok(()));
    assert!(outcome.warnings.iter().any(|what| what.contains("empty folder")), "{:?}", outcome.warnings);
}

#[test]
fn a_checker_that_refuses_the_end_is_at_fault() {
    let mut program = Recorded::new();
    program.save("g", b"2");
    let outcome = judged(&program.end(), &["posix"], &|_| Err("no".to_owned()));
    assert!(outcome.faults[0].contains("without any crash"), "{:?}", outcome.faults);
    assert!(outcome.findings.is_empty());
}

#[test]
fn the_cause_is_one_lost_piece_and_the_fix_was_tried() {
    let mut program = Recorded::new();
    program.had("s", b"old");
    let new = vec![b'n'; 20_000];
    program.save("t", &new);
    program.rename("t", "s").told("saved");
    let rule = move |view: &View<'_>| {
        let bytes = view.file("s").unwrap_or_default();
        if bytes != b"old" && bytes != new {
            return Err(format!("s has {} bytes", bytes.len()));
        }
        if !view.told().is_empty() && bytes == b"old" {
            return Err("saved, and it is the old one".to_owned());
        }
        Ok(())
    };
    let story = program.end();
    let micro = Operations::of(&story);
    let outcome = judged(&story, &["posix", "ext4", "xfs"], &rule);
    let [whole, told] = &outcome.findings[..] else { panic!("{:#?}", outcome.findings) };
    assert_eq!(whole.cause.lost.len(), 1);
    assert!(matches!(
        micro.all[whole.cause.lost[0] as usize].change,
        Change::Data { .. } | Change::Extend { .. }
    ));
    assert_eq!(whole.fix.as_ref().unwrap().what, "fsync of t before the rename t → s");
    assert_eq!(told.fix.as_ref().unwrap().what, "fsync of the folder \".\" before the answer");
}
