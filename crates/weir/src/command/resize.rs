//! `weir resize`: a pool with more space.
//!
//! The file grows first, then the file system in it. After a crash between the two the file has space that nothing uses, and the
//! same command goes on.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fs::FsType;
use media::nvmm::Access;
use media::{Region, Storage};
use sim::{Bytes, Machine, Seed, Setup};

use super::image;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::pool_file;

/// Make an unmounted pool larger
#[derive(Args, Debug)]
#[command(after_help = "Example: weir resize pool.weir 8GiB\n\
    It is never made smaller: copy its files to a new pool for that.")]
pub(crate) struct Resize {
    /// The pool
    pool: PathBuf,
    /// Its new size
    size: Bytes,
    /// The design [default: the one that recognises the pool]
    #[arg(long)]
    fs: Option<String>,
}

impl Resize {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let shown = self.pool.display();
        let region = image::open(&self.pool, None, Access::ReadWrite)?;
        let design = image::design(&region, self.fs.as_deref(), &self.pool)?;
        let (size, now) = (self.size, Bytes(region.len()));
        if size < now {
            return Err(Failure::usage(format!(
                "{shown} has {now}, and a file system is not made smaller: make a new pool of {size} and copy its files"
            )));
        }
        // Also says whether the design can grow, before the file does.
        let before = self.grow(design, region)?;
        if size > now {
            pool_file::extend_holes(&self.pool, size)?;
            self.grow(design, image::open(&self.pool, Some(size), Access::ReadWrite)?)?;
        }
        output.note(&format!("{shown}: {} grew from {before} to {size}", design.name()));
        if output.is_json() {
            let (before, size) = (before.0, size.0);
            output.document(&serde_json::json!({
                "schema": "weir.resize/1", "fs": design.name(), "before_bytes": before, "size_bytes": size
            }));
        }
        Ok(())
    }

    /// Grows the file system to its region; its size before.
    fn grow(&self, design: &'static dyn FsType, region: Arc<Region>) -> Result<Bytes, Failure> {
        let grown = sim::run(&Setup::real_clock(Machine::unit(), Seed(0)), move || {
            let before = design.grow(&Storage::from(&region))?;
            region.sync()?;
            Ok::<_, fs::FsError>(before)
        });
        let grown = grown.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        grown.map_err(|error| match error {
            fs::FsError::NoGrowth { .. } => Failure::usage(format!("{}: {error}", self.pool.display())),
            error => image::unusable(&self.pool, error),
        })
    }
}
