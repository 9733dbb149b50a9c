//! Programs that read what they have changed: a cache may have what was there before.

use vfs::FallocateMode;

use super::{Program, Table, and, at, fallocate, foo, truncate, write};
use crate::op::{Op, Pattern};

/// All of `foo` is read.
fn read() -> Op {
    Op::Read(at("foo"), 0, 16_384)
}

/// A file is read, changed and read again. They are not among [`super::all`].
pub fn reads() -> Vec<Program> {
    let mut table = Table(Vec::new());
    let mut add = |name, change| table.add(name, and(foo(5000), [read()]), vec![change, read()]);
    add("append to a file that was read", Op::Write(at("foo"), None, Pattern { len: 100, tag: 2 }));
    add("write to a file that was read", write("foo", 4000, 500, 2));
    add("cut a file that was read", truncate("foo", 4100));
    add("zero a file that was read", fallocate(FallocateMode::ZERO_RANGE, 0, 4500));
    table.0
}
