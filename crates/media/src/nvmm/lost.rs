//! The end of a process whose mapped file is taken away.
//!
//! Who cuts a mapped file short, or fills the disk under a file with holes, makes the next access to what is missing a `SIGBUS`.
//! There is nothing to return from it with: the access has no other outcome. What had been stored is in the host's page cache, as
//! after any end of a process, and recovery finds it there.

use std::sync::OnceLock;

/// What to say, and the exit code.
static LAST_WORDS: OnceLock<(&str, i32)> = OnceLock::new();

/// From here on a process that loses its mapped file writes `message` to the standard error and ends with `code`, instead of
/// dying of a signal. The first call decides.
pub fn say_when_lost(message: &'static str, code: i32) {
    if LAST_WORDS.set((message, code)).is_err() {
        return;
    }
    // SAFETY: all zero is a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = end as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the handler does only what a handler may (signal-safety(7)): it reads an initialised value, writes, ends.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
}

extern "C" fn end(_: libc::c_int) {
    let (message, code) = LAST_WORDS.get().copied().unwrap_or(("", 1));
    // SAFETY: the bytes are those of a static string; neither call returns to the access that failed.
    unsafe {
        libc::write(2, message.as_ptr().cast(), message.len());
        libc::_exit(code)
    }
}
