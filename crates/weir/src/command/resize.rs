//! `weir resize`: a pool with more space.
//!
//! The file grows first, then the file system in it. After a crash between the two the file has space that nothing uses, and the
//! same command goes on.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use design::Design;
use media::nvmm::Access;
use media::{Region, Storage};
use sim::{Bytes, Machine, Seed, Setup};

use super::image;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::pool_file;

/// What the format of a design counts in.
const BLOCK: u64 = 4096;

/// Make an unmounted pool larger
#[derive(Args, Debug)]
#[command(after_help = "Example: weir resize pool.weir 8GiB\n\
    A pool with holes (made with --sparse, or trimmed) grows by a hole; any other pool reserves the space at once.\n\
    A pool cannot shrink: copy its files to a smaller one.\n\
    For ext2, ext4 and ext4-dax use resize2fs(8); redo cannot grow.")]
pub(crate) struct Resize {
    /// The pool, which must not be mounted
    pool: PathBuf,
    /// The new size of the whole pool, rounded up to blocks of 4 KiB
    size: Bytes,
    /// The design [default: the design that recognises the pool]
    #[arg(long)]
    fs: Option<String>,
}

impl Resize {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let shown = self.pool.display();
        let region = image::open(&self.pool, None, Access::ReadWrite)?;
        let design = image::design(&region, self.fs.as_deref(), &self.pool)?;
        let (size, now) = (self.rounded()?, Bytes(region.len()));
        if size < now {
            return Err(Failure::usage(format!(
                "{shown} has {now} already, and a pool is never made smaller: give a size above that, \
                 or make a new pool with `weir mkfs` and copy its files there"
            )));
        }
        // Also says whether the design can grow, before the file does.
        let before = self.grow(design, region)?;
        if size > now {
            pool_file::extend_holes(&self.pool, size)?;
            let larger = image::open(&self.pool, Some(size), Access::ReadWrite);
            let after = self.grow(design, larger.map_err(|failure| kept(now, failure))?);
            after.map_err(unfinished)?;
        }
        output.note(&match before < size {
            true => format!("{shown}: {} grew from {before} to {size}", design.name()),
            false => format!("{shown}: {} has {size} already; nothing was done", design.name()),
        });
        if output.is_json() {
            let (before, size) = (before.0, size.0);
            output.document(&serde_json::json!({
                "schema": "weir.resize/1", "fs": design.name(), "before_bytes": before, "size_bytes": size
            }));
        }
        Ok(())
    }

    /// Whole blocks.
    fn rounded(&self) -> Result<Bytes, Failure> {
        let rounded = self.size.0.checked_next_multiple_of(BLOCK).map(Bytes);
        rounded.ok_or_else(|| Failure::usage(format!("{} is larger than any file can be", self.size)))
    }

    /// Grows the file system to its region; its size before.
    fn grow(&self, design: &'static dyn Design, region: Arc<Region>) -> Result<Bytes, Failure> {
        let grown = sim::run(&Setup::real_clock(Machine::unit(), Seed(0)), move || {
            let before = design.format().grow(&Storage::from(&region))?;
            region.sync()?;
            Ok::<_, design::FsError>(before)
        });
        let grown = grown.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        grown.map_err(|error| match error {
            design::FsError::NoGrowth { .. } => Failure::usage(format!("{}: {error}", self.pool.display())),
            error => image::unusable(&self.pool, error),
        })
    }
}

/// The file could not grow.
fn kept(now: Bytes, failure: Failure) -> Failure {
    let Failure { exit, message } = failure;
    Failure { exit, message: format!("{}; the pool still has {now}", message.replace("--size", "size")) }
}

/// The file has grown, the file system has not.
fn unfinished(failure: Failure) -> Failure {
    let Failure { exit, message } = failure;
    Failure { exit, message: format!("{message}; repeat the command to finish") }
}
