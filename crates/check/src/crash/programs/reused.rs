//! Programs in which space is used again.

use super::{Program, create, truncate, unlink, write};
use crate::op::{File, Op, Pattern};
use vfs::RenameFlags;

fn append(name: &str, len: usize, tag: u8) -> Op {
    Op::Write(File::At(name.into()), None, Pattern { len, tag })
}

fn rename(from: &str, to: &str) -> Op {
    Op::Rename(from.into(), to.into(), RenameFlags::empty())
}

fn chmod(name: &str, mode: u32) -> Op {
    Op::Chmod(name.into(), mode)
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
            vec![create("b"), append("b", 3, 2), truncate("b", 9000), chmod("b", 0o640)],
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
                truncate("a", 4096),
                chmod("a", 0o600),
                truncate("a", 9000),
                write("a", 4096, 4096, 2),
                truncate("a", 100),
                truncate("a", 8192),
            ],
        ),
        Program::new(
            "appends, a cut, an append",
            vec![create("a"), append("a", 5000, 1)],
            vec![
                append("a", 900, 2),
                append("a", 4096, 3),
                truncate("a", 5500),
                append("a", 100, 4),
                append("a", 9000, 5),
            ],
        ),
        Program::new(
            "appends, growth",
            vec![create("a"), append("a", 5000, 1)],
            vec![append("a", 700, 2), truncate("a", 20_000), append("a", 10, 3), write("a", 30_000, 10, 4)],
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

/// Stories in which names, numbers of inodes, blocks and the places of records are used again, for designs whose records count
/// until something else is stored over them.
pub fn reused() -> Vec<Program> {
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
