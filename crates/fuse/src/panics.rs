//! What becomes of a request in which the design panics: its caller is answered `EIO`, and the thread goes on.
//!
//! Locks that the call held are released as it unwinds. A call that only reads leaves nothing behind; one that changes the file
//! system may leave half of a change in memory, and [`Backing::panicked`] decides what follows from that. To ask the root for some
//! attributes is a command, such as a sync, which counts as the fsync of a file.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::options::Backing;
use crate::wire::abi::opcode;

thread_local! {
    static SERVING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread serves a request, whose caller is answered if it panics: for a panic hook.
pub fn is_serving() -> bool {
    SERVING.get()
}

/// Serves a request. None when that panics.
pub(crate) fn caught<T>(serve: impl FnOnce() -> T) -> Option<T> {
    SERVING.set(true);
    let done = catch_unwind(AssertUnwindSafe(serve));
    SERVING.set(false);
    done.ok()
}

/// The operations in which the design has panicked: a bit for the number of each.
#[derive(Debug, Default)]
pub(crate) struct Panics(AtomicU64);

impl Panics {
    /// Tells of a panic, once for each operation.
    pub(crate) fn tell(&self, number: u32, backing: &dyn Backing) {
        let bit = 1 << (number & 63);
        if self.0.fetch_or(bit, Relaxed) & bit == 0 {
            let (name, changes) = operation(number);
            backing.panicked(name, changes);
        }
    }
}

/// The name of an operation, and whether it changes the file system.
fn operation(number: u32) -> (&'static str, bool) {
    let reading = READING.iter().find(|(reading, _)| *reading == number).map(|(_, name)| (*name, false));
    let changing =
        || CHANGING.iter().find(|(changing, _)| *changing == number).map(|(_, name)| (*name, true));
    reading.or_else(changing).unwrap_or(("a request", true))
}

/// Whether an operation asks for a change.
pub(crate) fn is_change(number: u32) -> bool {
    // An ioctl may only ask: it sees to this itself.
    const NOT_ALWAYS: [u32; 5] =
        [opcode::FORGET, opcode::BATCH_FORGET, opcode::RELEASE, opcode::FSYNC, opcode::IOCTL];
    CHANGING.iter().any(|(changing, _)| *changing == number) && !NOT_ALWAYS.contains(&number)
}

const READING: [(u32, &str); 13] = [
    (opcode::LOOKUP, "lookup"),
    (opcode::GETATTR, "getattr"),
    (opcode::STATX, "statx"),
    (opcode::READLINK, "readlink"),
    (opcode::OPEN, "open"),
    (opcode::OPENDIR, "opendir"),
    (opcode::READ, "read"),
    (opcode::READDIR, "readdir"),
    (opcode::READDIRPLUS, "readdir"),
    (opcode::STATFS, "statfs"),
    (opcode::GETXATTR, "getxattr"),
    (opcode::LISTXATTR, "listxattr"),
    (opcode::LSEEK, "lseek"),
];

const CHANGING: [(u32, &str); 21] = [
    (opcode::FORGET, "forget"),
    (opcode::BATCH_FORGET, "forget"),
    (opcode::SETATTR, "setattr"),
    (opcode::SYMLINK, "symlink"),
    (opcode::MKNOD, "mknod"),
    (opcode::MKDIR, "mkdir"),
    (opcode::UNLINK, "unlink"),
    (opcode::RMDIR, "rmdir"),
    (opcode::RENAME, "rename"),
    (opcode::RENAME2, "rename"),
    (opcode::LINK, "link"),
    (opcode::WRITE, "write"),
    (opcode::RELEASE, "release"),
    (opcode::FSYNC, "fsync"),
    (opcode::SETXATTR, "setxattr"),
    (opcode::REMOVEXATTR, "removexattr"),
    (opcode::CREATE, "create"),
    (opcode::TMPFILE, "tmpfile"),
    (opcode::FALLOCATE, "fallocate"),
    (opcode::IOCTL, "ioctl"),
    (opcode::COPY_FILE_RANGE, "copy_file_range"),
];
