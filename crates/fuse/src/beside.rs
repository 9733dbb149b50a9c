//! Calls of the program beside those of the kernel: what the kernel is told, where a program serves files that it goes on to use
//! itself ([`crate::Cache::Shared`], [`vfs::Shared`]).
//!
//! # What the kernel has, and when it is told
//!
//! | the kernel has | kept | told of a call of the program |
//! |---|---|---|
//! | a name, or that there is none | for one use: it asks again at each | – |
//! | attributes, sizes among them | the same | – |
//! | the entries of a directory | never | – |
//! | bytes of reads and writes by calls | never: each call asks | – |
//! | pages of a file that is mapped | until they are dropped | a change: dropped after it, before it returns |
//! | stores to such pages (1) | until they are written | a read or change: written and dropped before it |
//! | the target of a symbolic link | with its inode, whose target never changes | – |
//! | the inode of a name that has gone (2) | until memory is short | a removal: it forgets the name, soon after the call |
//!
//! (1) Only where the file is open for reading and writing. (2) It keeps the space of the file from being freed.
//!
//! So a call of the program tells the kernel nothing unless a tool maps the file or has looked at what is removed, and pays one
//! look into the table of the kernel's inodes.
//!
//! A page is the unit of stores: where program and tool change one page at the same time, the later of both pages stays as a whole.
//! Without that coincidence each sees what the other has stored before.
//!
//! # Locks
//!
//! Dropping pages waits until reads of them and writes of what was stored to them have been answered, and forgetting a name until
//! the requests in its directory have. So:
//!
//! 1. No request thread tells the kernel anything of that kind: it would wait for another, or for itself.
//! 2. The program's thread does it outside all locks that a request may take: those of the design, claims of names, the shards of
//!    [`crate::nodes`]. `vfs::watch` holds the callers to it.
//! 3. Names are forgotten by the thread of `invalidate.rs`, for which no call of the program waits. Nor does a request: that
//!    thread may wait for the lock of a directory, which an unlink holds while it waits for the lock of a file, which a write holds
//!    until it is answered. So direct writes are answered here by those who serve them, and not by that thread.
//!
//! A program that hands pages of its own mount to a call, as the buffer of a read or write, breaks the second rule: the design
//! would wait for a page fault that waits for it.
//!
//! # Races
//!
//! | the kernel | the program | why nothing old stays |
//! |---|---|---|
//! | reads a page | writes it | the mark of `Nodes::set_cached`: see below |
//! | looks a name up | removes it, and gives the number to another file | the answer holds a reference (`vfs::Shared`) |
//! | asks for attributes | changes them | the answer is used once |
//! | lists a directory with attributes | removes what is listed | it is not offered (`READDIRPLUS`) |
//! | appends | appends | the design knows the end, not the kernel (`Handler::put_beside`) |
//! | writes a page to which a tool has stored | truncates the file | what lies beyond the end is dropped (the same) |
//!
//! A read of a page is marked in the table before the design is asked, and the program looks for the mark after it has written.
//! Either it sees the mark, or the read has come later and is new.
//!
//! Two things a tool sees later than it would on a disk's file system. A map ends where the file ended when the tool last asked:
//! what the program has added is `SIGBUS` until the next fstat(2). And where the program moves a directory below one that was in
//! it, a tool in that one may hear `ELOOP` until it walks the new path from the root.

use std::ops::Range;
use std::sync::Arc;

use vfs::{Ino, Watcher};

use crate::handler::{Handler, Kept};
use crate::wire::Device;

/// Tells the kernel of calls that the program makes beside it.
pub struct Beside {
    handler: Arc<Handler>,
    device: Arc<Device>,
}

impl Beside {
    pub(crate) fn new(handler: Arc<Handler>, device: Arc<Device>) -> Self {
        Self { handler, device }
    }

    fn drop_pages(&self, ino: Ino, bytes: &Range<u64>) {
        // No file reaches so far.
        const END: u64 = i64::MAX.cast_unsigned();
        if bytes.is_empty() || bytes.start > END {
            return;
        }
        // 0 stands for all that follow.
        let len = if bytes.end > END { 0 } else { bytes.end - bytes.start };
        // The kernel refuses when it has no such inode any more.
        let _ = self.device.drop_pages(self.handler.numbers().node(ino), bytes.start, len);
    }
}

impl Watcher for Beside {
    fn about_to_use(&self, ino: Ino, bytes: Range<u64>) {
        if self.handler.kept(ino) == Kept::PagesAndStores {
            self.drop_pages(ino, &bytes);
        }
    }

    fn changed(&self, ino: Ino, bytes: Range<u64>) {
        if self.handler.kept(ino) != Kept::Nothing {
            self.drop_pages(ino, &bytes);
        }
    }

    fn removed(&self, parent: Ino, name: &[u8], ino: Ino) {
        if self.handler.knows(ino) {
            self.handler.forget_name(parent, name);
        }
    }
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Beside")
    }
}
