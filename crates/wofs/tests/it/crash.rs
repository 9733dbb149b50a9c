//! Crashes at every point of programs leave what was before or after the call.

use check::Limits;
use check::configured::virtually;
use check::crash::programs::{self, Program};
use check::crash::{Effort, Tally, Watch, explore_many, lints};
use check::op::{File, Op, Pattern};
use vfs::RenameFlags;

use crate::harness::{SEED, subject};

fn explore(name: &str, programs: &[Program], nested: usize) {
    let subject = subject(None);
    let program = |number: usize| programs[number].clone();
    let watch = Watch { limits: Limits::of(2), explored: &|_| () };
    let tally: Tally =
        explore_many(&subject, (programs.len(), &program), (&Effort::usual(SEED, nested), &[]), &watch);
    println!(
        "{name}: {} programs, {} without space, {} points, {} images, {} states, {} nested",
        tally.programs,
        tally.without_space,
        tally.points,
        tally.distinct_images,
        tally.distinct_states,
        tally.nested_images
    );
    tally.violations.iter().take(8).for_each(|violation| println!("  {violation}"));
    assert_eq!(tally.violations.len(), 0, "seed {SEED}");
}

#[test]
fn crashes_of_every_operation_leave_what_was_before_or_after_it() {
    explore("one operation", &programs::all(), 1);
}

#[test]
fn crashes_of_random_programs_leave_what_was_before_or_after_each_operation() {
    let count = std::env::var("WEIR_CRASH_RANDOM").ok().and_then(|count| count.parse().ok()).unwrap_or(40);
    let random: Vec<_> = (0..count).map(|number| programs::random(SEED, number)).collect();
    explore("random programs", &random, 1);
}

fn write(name: &str, at: u64, len: usize, tag: u8) -> Op {
    Op::Write(File::At(name.into()), Some(at), Pattern { len, tag })
}

fn append(name: &str, len: usize, tag: u8) -> Op {
    Op::Write(File::At(name.into()), None, Pattern { len, tag })
}

fn create(name: &str) -> Op {
    Op::Create(name.into())
}

fn unlink(name: &str) -> Op {
    Op::Unlink(name.into())
}

fn rename(from: &str, to: &str) -> Op {
    Op::Rename(from.into(), to.into(), RenameFlags::empty())
}

fn chmod(name: &str, mode: u32) -> Op {
    Op::Chmod(name.into(), mode)
}

fn cut(name: &str, size: u64) -> Op {
    Op::Truncate(File::At(name.into()), size)
}

/// Stories in which places of names, and numbers of files, are used again.
fn reuse_of_names() -> Vec<Program> {
    let to_and_fro = [rename("a", "b"), rename("b", "a"), rename("a", "b"), rename("b", "a")];
    vec![
        Program::new("rename to and fro", vec![create("a"), append("a", 5000, 1)], to_and_fro.to_vec()),
        Program::new(
            "create, unlink, create",
            vec![create("a")],
            vec![unlink("a"), create("b"), unlink("b"), create("a"), unlink("a"), create("c")],
        ),
        Program::new(
            "rename over, again",
            vec![create("a"), append("a", 100, 1), create("b"), append("b", 9000, 2)],
            vec![
                rename("a", "b"),
                create("a"),
                append("a", 50, 3),
                rename("b", "a"),
                create("b"),
                unlink("a"),
            ],
        ),
        Program::new(
            "a number used again",
            vec![create("a"), append("a", 9000, 1), chmod("a", 0o600), unlink("a")],
            vec![create("b"), append("b", 3, 2), cut("b", 9000), chmod("b", 0o640)],
        ),
        Program::new(
            "links of one file",
            vec![create("a"), append("a", 5000, 1), Op::Link("a".into(), "c".into())],
            vec![
                unlink("a"),
                chmod("c", 0o600),
                rename("c", "b"),
                Op::Link("b".into(), "a".into()),
                unlink("b"),
                create("c"),
            ],
        ),
    ]
}

/// Stories in which blocks, and places of DATA and ATTR, are used again.
fn reuse_of_blocks() -> Vec<Program> {
    vec![
        Program::new(
            "cut, change, grow",
            vec![create("a"), append("a", 9000, 1)],
            vec![
                cut("a", 4096),
                chmod("a", 0o600),
                cut("a", 9000),
                write("a", 4096, 4096, 2),
                cut("a", 100),
                cut("a", 8192),
            ],
        ),
        Program::new(
            "appends, a cut, an append",
            vec![create("a"), append("a", 5000, 1)],
            vec![
                append("a", 900, 2),
                append("a", 4096, 3),
                cut("a", 5500),
                append("a", 100, 4),
                append("a", 9000, 5),
            ],
        ),
        Program::new(
            "appends, growth",
            vec![create("a"), append("a", 5000, 1)],
            vec![append("a", 700, 2), cut("a", 20_000), append("a", 10, 3), write("a", 30_000, 10, 4)],
        ),
        Program::new(
            "appends of two files",
            vec![create("a"), create("b"), append("a", 4096, 1)],
            vec![append("b", 4096, 2), append("a", 4096, 3), append("b", 9000, 4), append("a", 9000, 5)],
        ),
        Program::new(
            "overwrites of a part",
            vec![create("a"), append("a", 12_288, 1)],
            vec![
                write("a", 4096, 4096, 2),
                write("a", 0, 4096, 3),
                write("a", 4000, 5000, 4),
                write("a", 4096, 4096, 5),
            ],
        ),
    ]
}

/// Stories in which packages are stored over others.
pub(crate) fn reuse() -> Vec<Program> {
    let mut programs = [reuse_of_names(), reuse_of_blocks()].concat();
    let filled = (0..15).map(|name| create(&format!("n{name}")));
    programs.push(Program::new(
        "more names than a container has",
        filled.collect(),
        vec![create("a"), create("b"), unlink("a")],
    ));
    // Crashes of a long story, each operation with the stories before it.
    let story: Vec<Op> = programs
        .iter()
        .flat_map(|program| program.core.clone())
        .filter(|op| !matches!(op, Op::Link(..)))
        .collect();
    programs.push(Program::new("all of these", vec![create("a"), create("b")], story));
    programs
}

#[test]
fn crashes_of_stories_in_which_places_and_numbers_are_used_again_leave_what_was_before_or_after() {
    explore("stories of reuse", &reuse(), 2);
}

#[test]
fn what_has_returned_is_flushed_and_fenced_and_commits_keep_their_order() {
    let found: Vec<_> = programs::all()
        .into_iter()
        .filter(|program| !program.together)
        .flat_map(|program| {
            let subject = subject(None);
            virtually(SEED, move || lints(&subject, &program, &[]))
        })
        .collect();
    assert_eq!(found, Vec::<String>::new());
}
