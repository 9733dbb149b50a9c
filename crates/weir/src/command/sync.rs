//! `weir sync`: makes everything on a mount durable.

use std::path::PathBuf;

use clap::Args;
use rustix::fs::{Mode, OFlags};

use crate::failure::{Exit, Failure};
use crate::mounted;
use crate::output::Output;

/// Make everything on a mount durable
#[derive(Args, Debug)]
#[command(after_help = "\
The kernel does not forward sync(1) and sync(2) to a FUSE mount, so they do not write out the data that a design buffers in DRAM. \
This command first writes back what programs have stored through shared mappings, then the buffered data. fsync(2) does both for \
one file.")]
pub(crate) struct Sync {
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Sync {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let dir = mounted::absolute(&self.dir)?;
        let mounted = mounted::ours(&dir, "sync -f")?;
        let mut nothing: [u8; 0] = [];
        let opened = rustix::fs::open(&dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        // The kernel writes to the server what it has kept back of shared maps.
        let written = opened.and_then(rustix::fs::syncfs);
        let synced = written.and_then(|()| rustix::fs::getxattr(&dir, fuse::SYNC_XATTR, &mut nothing));
        synced.map(drop).map_err(|errno| {
            let shown = dir.display();
            let why = mounted.why_silent(errno);
            Failure::new(Exit::Run, format!("cannot make everything on {shown} durable: {why}"))
        })?;
        if output.is_json() {
            output.document(&serde_json::json!({ "schema": "weir.sync/1", "dir": dir }));
        }
        Ok(())
    }
}
