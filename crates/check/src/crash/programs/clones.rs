//! Programs of files that share blocks.

use vfs::FallocateMode;

use super::{Program, Table, and, at, create, fallocate, foo, truncate, unlink, write};
use crate::op::{Op, Pattern};

/// Blocks of one file become those of another, or of another part of it.
fn clone(from: &str, to: &str, len: u64) -> Op {
    Op::Clone((at(from), 0), (at(to), 0), len)
}

/// `foo` with `len` bytes, and `bar` without any.
fn two(len: usize) -> Vec<Op> {
    and(foo(len), [create("bar")])
}

/// Files that share blocks. They are not among [`super::all`] either; a design without clones refuses these calls.
pub fn clones() -> Vec<Program> {
    let mut table = Table(Vec::new());
    made(&mut table);
    changed(&mut table);
    table.0
}

/// A clone is made.
fn made(table: &mut Table) {
    table.add("clone", two(12_288), vec![clone("foo", "bar", 12_288)]);
    table.add("clone, the end in a block", two(5000), vec![clone("foo", "bar", 5000)]);
    table.add(
        "clone over blocks",
        and(two(8192), [write("bar", 0, 20_000, 3)]),
        vec![clone("foo", "bar", 8192)],
    );
    table.add(
        "clone of a hole over a block",
        and(
            vec![create("foo"), truncate("foo", 8192), write("foo", 8192, 4096, 1)],
            [create("bar"), write("bar", 0, 9000, 3)],
        ),
        vec![clone("foo", "bar", 12_288)],
    );
    table.add(
        "clone behind the end",
        and(two(8192), [write("bar", 0, 100, 3)]),
        vec![Op::Clone((at("foo"), 4096), (at("bar"), 8192), 4096)],
    );
    table.add("clone within a file", foo(9000), vec![Op::Clone((at("foo"), 0), (at("foo"), 8192), 8192)]);
    table.add(
        "clone of reserved blocks",
        and(two(4096), [fallocate(FallocateMode::ZERO_RANGE, 4096, 8192)]),
        vec![clone("foo", "bar", 12_288), write("foo", 4096, 100, 2), write("bar", 5000, 100, 3)],
    );
}

/// One of the files is changed, or goes.
fn changed(table: &mut Table) {
    let append = |path: &str, len, tag| Op::Write(at(path), None, Pattern { len, tag });
    let cloned = |len: usize| and(two(len), [clone("foo", "bar", len as u64)]);
    table.add("write to a cloned file", cloned(12_288), vec![write("foo", 100, 9000, 2)]);
    table.add("write to a clone", cloned(12_288), vec![write("bar", 100, 9000, 2)]);
    table.add(
        "append to a cloned file, and to the clone",
        cloned(5000),
        vec![append("foo", 100, 2), append("bar", 50, 3)],
    );
    table.add(
        "extend a clone",
        cloned(5000),
        vec![truncate("bar", 5500), truncate("foo", 9000), truncate("bar", 9000)],
    );
    table.add(
        "zero and punch a clone",
        cloned(12_288),
        vec![
            fallocate(FallocateMode::ZERO_RANGE, 4096, 4096),
            write("foo", 4096, 100, 2),
            fallocate(FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE, 8192, 4096),
        ],
    );
    table.add(
        "remove a cloned file, fill another",
        and(cloned(12_288), [create("beside")]),
        vec![unlink("foo"), write("beside", 0, 12_288, 2)],
    );
    table.add("remove a clone", cloned(12_288), vec![unlink("bar"), write("foo", 12_288, 100, 2)]);
    table.add(
        "clone, remove the source, remount",
        two(5000),
        vec![clone("foo", "bar", 5000), unlink("foo"), Op::Remount, append("bar", 100, 2)],
    );
    table.add(
        "clone of a clone",
        and(cloned(8192), [create("baz")]),
        vec![clone("bar", "baz", 8192), unlink("bar"), write("foo", 0, 4096, 2), Op::Remount, unlink("foo")],
    );
}
