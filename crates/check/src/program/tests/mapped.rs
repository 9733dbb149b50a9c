//! Programs that store through a mapping, as samples of the file show it.

use super::seeds::{D, NONE, expect, is};
use super::{Recorded, View};

/// A file of two pages that is mapped.
fn mapped(program: &mut Recorded) -> i32 {
    program.had("f", &[b'o'; 8192]);
    let file = program.open("f", "rdwr");
    program.call(&format!("mmap {file} 8192 0 read,write,shared"));
    file
}

fn page(first: u8) -> Vec<u8> {
    let mut page = vec![b'o'; 4096];
    page[0] = first;
    page
}

fn first(view: &View<'_>, at: usize) -> u8 {
    view.file("f").and_then(|file| file.get(at).copied()).unwrap_or_default()
}

#[test]
fn a_store_is_durable_when_an_msync_of_its_page_has_returned() {
    let rule =
        |view: &View<'_>| is(view.told().is_empty() || first(view, 0) == b'n', "what was told is gone");
    let with = |offset: u64| {
        move |program: &mut Recorded| {
            mapped(program);
            program
                .sample("f", &[(0, &page(b'n'))])
                .call(&format!("msync 0 4096 {offset} sync"))
                .told("stored");
        }
    };
    expect("broken: the other page", D, &with(4096), &rule);
    expect("mended", NONE, &with(0), &rule);
}

#[test]
fn a_store_is_in_no_state_before_the_msync_that_shows_it() {
    let rule = |view: &View<'_>| is(first(view, 0) == b'o' || view.holds("log", b"L"), "no log");
    expect(
        "right",
        NONE,
        &|program| {
            program.had("log", b"");
            mapped(program);
            let log = program.open("log", "wronly");
            program.write(log, b"L").fsync(log);
            program.sample("f", &[(0, &page(b'n'))]).call("msync 0 8192 0 sync").told("stored");
        },
        &rule,
    );
}

#[test]
fn pages_of_one_msync_persist_in_any_order() {
    let rule = |view: &View<'_>| {
        is(first(view, 4096) == b'o' || first(view, 0) == b'n', "the second without the first")
    };
    let with = |apart: bool| {
        move |program: &mut Recorded| {
            mapped(program);
            if apart {
                program.sample("f", &[(0, &page(b'n'))]).call("msync 0 8192 0 sync");
                program.sample("f", &[(4096, &page(b'n'))]);
            } else {
                program.sample("f", &[(0, &[page(b'n'), page(b'n')].concat())]);
            }
            program.call("msync 0 8192 0 sync");
        }
    };
    expect("broken", ["A"; 5], &with(false), &rule);
    expect("mended", NONE, &with(true), &rule);
}

#[test]
fn what_another_sync_has_covered_blames_no_program() {
    let with = |at_once: bool| {
        let mut program = Recorded::new();
        let file = mapped(&mut program);
        program.sample("f", &[(0, &page(b'n'))]).call("msync 0 8192 0 async");
        if !at_once {
            program.call(&format!("fstat {file}"));
        }
        program.fsync(file).told("stored");
        program.sample("f", &[(4096, &page(b'n'))]);
        program.end()
    };
    let late = {
        let mut program = Recorded::new();
        mapped(&mut program);
        program.sample("f", &[(0, &page(b'n'))]).call("msync 0 8192 0 sync");
        // Just behind it another one, whose look came too late.
        program.call("msync 0 8192 0 sync").told("stored");
        program.sample("f", &[(4096, &page(b'n'))]).call("msync 0 8192 0 sync");
        program.end()
    };
    let stores = |story: &super::Story| story.calls.iter().filter(|call| call.name == "store").count();
    let (known, unknown) = (with(true), with(false));
    assert_eq!(stores(&late), 1, "nor is it after an msync without a look");
    assert_eq!(stores(&known), 2, "an fsync just behind an msync is of what that has shown");
    assert_eq!(stores(&unknown), 1, "whether the second store was before the fsync is not known");
    assert!(
        unknown.notes.iter().any(|note| note.contains("no look is of that moment")),
        "{:?}",
        unknown.notes
    );
    for story in [known, unknown] {
        assert!(story.notes.iter().any(|note| note.starts_with("f is mapped")), "{:?}", story.notes);
    }
}
