//! When reading sets access times: what the mount was asked for, and what a remount has made of it.

use parking_lot::RwLock;
use rustix::mount::MountFlags;
use vfs::{AccessTimes, Attr, Timestamp};

use crate::options::Options;

/// What a mount says of access times.
#[derive(Clone, Copy, Debug)]
struct State {
    read_only: bool,
    asked: AccessTimes,
    directories: bool,
}

/// The same, as it is now.
#[derive(Debug)]
pub(crate) struct Times(RwLock<State>);

impl Times {
    pub(crate) fn new(options: &Options) -> Self {
        Self(RwLock::new(State {
            read_only: options.flags.contains(MountFlags::RDONLY),
            asked: options.access_times,
            directories: !options.flags.contains(MountFlags::NODIRATIME),
        }))
    }

    /// When reading a file or directory sets its access time.
    pub(crate) fn policy(&self, is_directory: bool) -> AccessTimes {
        let state = *self.0.read();
        if state.read_only || is_directory && !state.directories { AccessTimes::Never } else { state.asked }
    }

    /// The kernel has remounted: `ro` or `rw`, then what was said of access times. Says whether the words are known.
    pub(crate) fn remounted(&self, words: &[&str]) -> bool {
        let mut state = self.0.write();
        let mut new = *state;
        for word in words {
            match *word {
                "ro" | "rw" => new.read_only = *word == "ro",
                "noatime" => new.asked = AccessTimes::Never,
                "relatime" => new.asked = AccessTimes::Relative,
                "strictatime" => new.asked = AccessTimes::Strict,
                "diratime" | "nodiratime" => new.directories = *word == "diratime",
                _ => return false,
            }
        }
        *state = new;
        true
    }
}

/// Whether a relative access time is to move: it is older than the last change, or a day old.
pub(crate) fn is_stale(attr: &Attr) -> bool {
    const DAY_SECS: i64 = 24 * 60 * 60;
    attr.atime <= attr.mtime.max(attr.ctime) || Timestamp::now().secs - attr.atime.secs >= DAY_SECS
}
