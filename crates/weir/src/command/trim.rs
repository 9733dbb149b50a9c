//! `weir trim`: gives the host the space of free blocks back.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use design::{Design, Options};
use media::Storage;
use media::nvmm::Access;
use sim::{Bytes, Machine, Seed, Setup};
use vfs::Errno;

use super::image;
use crate::failure::{Exit, Failure};
use crate::mounted;
use crate::output::Output;

/// Return the space of a pool's free blocks to the host
#[derive(Args, Debug)]
#[command(after_help = "Example: weir trim /mnt/x\n\
    The pool reserves space again when it needs it; if the host has none then, the pool is full.")]
pub(crate) struct Trim {
    /// An unmounted pool, or the directory of a mount
    #[arg(value_name = "POOL|DIR")]
    place: PathBuf,
}

impl Trim {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let dir = mounted::absolute(&self.place)?;
        // The kernel may refuse to say what another user's mount is.
        let is_mount = self.place.is_dir() || mounted::is_mounted(&dir)?;
        let bytes = if is_mount { of_mount(&dir) } else { of_pool(&self.place) }?;
        output.note(&format!("{}: {bytes} returned to the host", self.place.display()));
        if output.is_json() {
            output.document(&serde_json::json!({ "schema": "weir.trim/1", "bytes": bytes.0 }));
        }
        Ok(())
    }
}

fn of_mount(dir: &Path) -> Result<Bytes, Failure> {
    let mounted = mounted::ours(dir, "fstrim")?;
    let (pool, design) = (&mounted.source, mounted.design());
    if !pool.is_absolute() {
        return Err(refused(dir, "its pool is in memory, whose space is free again after the unmount"));
    }
    let before = taken(pool);
    let mut digits = [0; 20];
    rustix::fs::getxattr(dir, fuse::TRIM_XATTR, &mut digits).map_err(|errno| match errno {
        rustix::io::Errno::OPNOTSUPP => unsupported(dir, design.and_then(fs::by_name)),
        errno => refused(dir, &mounted.why_silent(errno)),
    })?;
    Ok(given(before, pool))
}

/// Mounts it for as long as that takes.
fn of_pool(pool: &Path) -> Result<Bytes, Failure> {
    let region = image::open(pool, None, Access::ReadWrite)?;
    let design = image::design(&region, None, pool)?;
    let options = Options::resolve(design.name(), design.options(), &BTreeMap::new())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let before = taken(pool);
    let trimmed = sim::run(&Setup::real_clock(Machine::unit(), Seed(0)), move || {
        let volume = design.mount(&Storage::from(&region), &options)?;
        let trimmed = volume.trim();
        // Also of a design that refuses: the pool is to be as it was.
        let left = volume.unmount();
        region.sync()?;
        Ok::<_, design::FsError>(trimmed.and(left))
    });
    let trimmed = trimmed.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    let trimmed = trimmed.map_err(|error| image::unusable(pool, error))?;
    trimmed.map_err(|errno| match errno {
        Errno::EOPNOTSUPP => unsupported(pool, Some(design)),
        errno => refused(pool, &errno.to_string()),
    })?;
    Ok(given(before, pool))
}

/// What a file takes of the host.
fn taken(pool: &Path) -> u64 {
    std::fs::metadata(pool).map_or(0, |data| data.blocks() * 512)
}

fn given(before: u64, pool: &Path) -> Bytes {
    Bytes(before.saturating_sub(taken(pool)))
}

/// The design gives nothing back, or the host cannot take it.
fn unsupported(place: &Path, design: Option<&dyn Design>) -> Failure {
    if let Some(design) = design.filter(|design| !design.format().may_have_holes()) {
        let can = fs::FILE_SYSTEMS.iter().filter(|design| design.format().may_have_holes());
        let can = can.map(|design| design.name()).collect::<Vec<_>>().join(", ");
        return refused(place, &format!("{} does not give space back; {can} do", design.name()));
    }
    let why = "not supported: the file system of the host cannot punch holes in a file; \
               move the pool to one that can, such as ext4, XFS, Btrfs or tmpfs";
    Failure { exit: Exit::Host, ..refused(place, why) }
}

fn refused(place: &Path, why: &str) -> Failure {
    Failure::new(
        Exit::Run,
        format!("{}: the space of its free blocks was not returned: {why}", place.display()),
    )
}
