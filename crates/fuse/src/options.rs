//! How to mount.

use std::sync::Arc;

use vfs::{AccessTimes, Result};

/// What is called after the design has made something durable on its medium.
pub type AfterSync = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// What the kernel keeps of file data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// Pages that were read or written.
    #[default]
    Pages,
    /// Nothing: every read and write reaches the design.
    Direct,
}

/// How to mount.
#[derive(Clone)]
pub struct Options {
    /// What stands for the device in the list of mounts.
    pub source: String,
    /// The design's name, for the list of mounts: `fuse.weir.NAME`.
    pub design: String,
    /// Refuse every change.
    pub read_only: bool,
    /// Users other than the one who mounts may use it; the kernel lets root ask for this, others only if the host's
    /// `/etc/fuse.conf` says so.
    pub allow_other: bool,
    /// Honour device nodes and set-id bits. Only root may ask for this.
    pub privileged: bool,
    /// Mount on a directory that has entries, and hide them.
    pub non_empty: bool,
    /// Refuse to execute programs.
    pub no_exec: bool,
    /// When reading sets access times.
    pub access_times: AccessTimes,
    /// What the kernel keeps of file data.
    pub cache: Cache,
    /// Threads that serve requests.
    pub threads: usize,
    /// What else a sync waits for: where the medium is a file, that the host has written it to its disk.
    pub after_sync: Option<AfterSync>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("source", &self.source).finish_non_exhaustive()
    }
}
