//! `weir mount`: a design behind `/dev/fuse`.
//!
//! ```text
//!   weir mount ──► checks ──┬── --foreground ──► serve until unmounted
//!                           └── else: starts itself in the background ──► serve …
//!                                        ◄── one line when the mount is ready, or its error
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `words.rs` | the words after `-o` |
//! | `serve.rs` | pool, design, kernel: from the first to the last request |
//! | `recording.rs` | the trace of the requests |
//! | `background.rs` | the process that stays |
//! | `remount.rs` | `-o remount` |
//! | `by_type.rs` | the same for mount(8) and fstab |

mod background;
pub(crate) mod by_type;
mod recording;
mod remount;
mod serve;
mod words;

use std::path::PathBuf;

use clap::Args;
use design::Design;
use media::nvmm::Access;
use sim::Bytes;

use super::image;
use crate::failure::Failure;
use crate::output::Output;
use crate::pool_file::Mode;
use words::Words;

/// Mount a file system
#[derive(Args, Debug)]
#[command(
    after_help = "Example: weir mount hinfs pool.weir /mnt/x --size 4GiB; weir umount /mnt/x",
    after_long_help = "Examples:
  weir mount hinfs pool.weir /mnt/x --size 4GiB    create the pool if it does not exist, and mount it
  weir mount pmfs pool.weir /mnt/x -o ro,allow_other
  weir umount /mnt/x

Mount options: ro sync dirsync allow_other nonempty noexec dev suid nosymfollow noatime
nodiratime relatime strictatime lazytime remount cache=pages|direct acl
threads=N poll=MICROSECONDS volatile dax journal_path=FILE partition=N offset=BYTES,
and the options of the design (`weir show hinfs`): buffer=512MiB. Options of mount(8) and fstab
that have no effect here (defaults, auto, user, nofail, x-…) are accepted. docs/mount.md
explains each option."
)]
pub(crate) struct Mount {
    /// The design (`weir list fs`), or `auto`: the design that the pool was made for
    #[arg(value_name = "FS")]
    design: String,
    /// The pool: a file, a file on a DAX mount (with -o dax), or `memory`
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    /// The mount point
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Mount options, separated by commas (--help lists them); -O is -o
    #[arg(short = 'o', short_alias = 'O', long = "options", value_name = "OPTIONS")]
    words: Vec<String>,
    /// Create the pool with this size if it does not exist
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Reserve space for a new pool as it fills (`weir trim` returns it)
    #[arg(long, requires = "size")]
    sparse: bool,
    /// Permissions of a new pool, in octal; an existing pool keeps its own, and a note reports wider ones [default: 600]
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// First unmount DIR if its server has ended
    #[arg(long)]
    replace_stale: bool,
    /// Emulate a medium: hinfs,latency=400ns (`weir list media`) [default: dram, which adds no delay]
    #[arg(long, value_name = "MEDIUM")]
    medium: Option<String>,
    /// Record the requests of the kernel as a trace (docs/traces.md)
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Serve in this process until Ctrl-C, SIGTERM or an unmount
    #[arg(short, long)]
    foreground: bool,
    /// Tell the process that started this one when the mount is ready.
    #[arg(long, hide = true)]
    tell_ready: bool,
    /// Check the words and mount nothing (`mount -f`).
    #[arg(long, hide = true)]
    fake: bool,
}

/// The name that stands for the design that a pool was made for.
const AUTO: &str = "auto";

/// The pool that is not in a file.
const MEMORY: &str = "memory";

impl Mount {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        if self.fake {
            return Ok(());
        }
        if self.words.iter().any(|list| list.split(',').any(|word| word == "remount")) {
            return remount::remount(&self);
        }
        let design = self.design()?;
        let words = Words::parse(&self.words, Some(design))?;
        words.check_allowed(rustix::process::geteuid().is_root())?;
        let mut job = serve::Job::new(&self, design, &words)?;
        if self.foreground || self.tell_ready {
            job.tell_ready = self.tell_ready;
            return job.serve(output);
        }
        background::start(&job, output)
    }

    /// The design that is named, or the one that the pool was made for.
    fn design(&self) -> Result<&'static dyn Design, Failure> {
        if self.design != AUTO {
            return Ok(lab::plan::matrix::stored(&self.design)?);
        }
        let part = Words::parse(&self.words, None)?.part;
        let region = image::open(&self.pool, None, Access::ReadOnly)?;
        image::identify(&region, None, (&self.pool, part)).map(|(design, _)| design)
    }
}
