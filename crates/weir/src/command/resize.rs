//! `weir resize`: a pool of another size.
//!
//! A file that grows does so before the file system in it, and one that shrinks after it. So after a crash between the two the
//! file has space that nothing uses, and the same command goes on.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use design::{Design, FsError};
use media::nvmm::Access;
use media::{Region, Storage};
use sim::{Bytes, Machine, Seed, Setup};

use super::image;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::pool_file;

/// What the format of a design counts in.
const BLOCK: u64 = 4096;

/// Give an unmounted pool another size
#[derive(Args, Debug)]
#[command(after_help = "Example: weir resize pool.weir 8GiB\n\
    A pool with holes (made with --sparse, or trimmed) grows by a hole; any other pool reserves the space at once.\n\
    Only crest shrinks, and if no file lies behind the new end; it grows to 8 times its first size.\n\
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
            let before = self.shrink(design, region, size)?;
            pool_file::cut(&self.pool, now, size).map_err(unfinished)?;
            self.tell(output, design, (before, size), "shrank");
            return Ok(());
        }
        let most = design.format().grows_to(&Storage::from(&region)).map_err(|error| self.failed(error))?;
        if let Some(most) = most.filter(|most| size > *most) {
            return Err(Failure::usage(format!(
                "{shown}: {} pools grow to eight times the size with which they were made, this one to {most}: \
                 give a smaller size, or make a new pool with `weir mkfs` and copy its files there",
                design.name()
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
        self.tell(output, design, (before, size), "grew");
        Ok(())
    }

    /// Says what was done.
    fn tell(&self, output: &Output, design: &dyn Design, (before, size): (Bytes, Bytes), how: &str) {
        let (shown, name) = (self.pool.display(), design.name());
        output.note(&match before == size {
            false => format!("{shown}: {name} {how} from {before} to {size}"),
            true => format!("{shown}: {name} has {size} already; nothing was done"),
        });
        if output.is_json() {
            let (before, size) = (before.0, size.0);
            output.document(&serde_json::json!({
                "schema": "weir.resize/1", "fs": name, "before_bytes": before, "size_bytes": size
            }));
        }
    }

    /// Whole blocks.
    fn rounded(&self) -> Result<Bytes, Failure> {
        let rounded = self.size.0.checked_next_multiple_of(BLOCK).map(Bytes);
        rounded.ok_or_else(|| Failure::usage(format!("{} is larger than any file can be", self.size)))
    }

    /// Grows the file system to its region; its size before.
    fn grow(&self, design: &'static dyn Design, region: Arc<Region>) -> Result<Bytes, Failure> {
        let grown = resized(region, move |storage| design.format().grow(storage))?;
        grown.map_err(|error| self.failed(error))
    }

    /// Makes the file system smaller; its size before.
    fn shrink(
        &self,
        design: &'static dyn Design,
        region: Arc<Region>,
        size: Bytes,
    ) -> Result<Bytes, Failure> {
        let now = Bytes(region.len());
        let shrunk = resized(region, move |storage| design.format().shrink(storage, size))?;
        shrunk.map_err(|error| match error {
            FsError::NoShrink { why } => Failure::usage(format!("{} has {now}: {why}", self.pool.display())),
            error => self.failed(error),
        })
    }

    fn failed(&self, error: FsError) -> Failure {
        match error {
            FsError::NoGrowth { .. } => Failure::usage(format!("{}: {error}", self.pool.display())),
            error => image::unusable(&self.pool, error),
        }
    }
}

/// What a design answers that gives the file system on a region another size, which is durable then.
fn resized(
    region: Arc<Region>,
    resize: impl FnOnce(&Storage) -> Result<Bytes, FsError> + Send + 'static,
) -> Result<Result<Bytes, FsError>, Failure> {
    let done = sim::run(&Setup::real_clock(Machine::unit(), Seed(0)), move || {
        let before = resize(&Storage::from(&region))?;
        region.sync()?;
        Ok(before)
    });
    done.map_err(|error| Failure::new(Exit::Internal, error.to_string()))
}

/// The file could not grow.
fn kept(now: Bytes, failure: Failure) -> Failure {
    let Failure { exit, message } = failure;
    Failure { exit, message: format!("{}; the pool still has {now}", message.replace("--size", "size")) }
}

/// Of file and file system only one has the new size.
fn unfinished(failure: Failure) -> Failure {
    let Failure { exit, message } = failure;
    Failure { exit, message: format!("{message}; repeat the command to finish") }
}
