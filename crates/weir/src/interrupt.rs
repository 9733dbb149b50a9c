//! Ctrl-C, SIGTERM and SIGHUP: the first ends what runs now between two of its operations, the second quits at once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::failure::Exit;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Set by the first signal. Signals are caught from the first call on.
pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::clone(FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        // Where no handler can be set, a signal quits at once.
        let _ = ctrlc::set_handler(move || {
            if set.swap(true, Relaxed) {
                std::process::exit(Exit::Interrupted as i32);
            }
            anstream::eprintln!(
                "interrupted: the running cells end first; press Ctrl-C again to quit at once"
            );
        });
        flag
    }))
}

/// Returns whether a signal to end has arrived since the first call of `flag`.
pub(crate) fn happened() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Relaxed))
}
