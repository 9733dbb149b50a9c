//! `weir mkfs`: a file system in a pool.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use fs::{FsError, FsType, Options};
use media::nvmm::Access;
use media::{Region, Storage};
use sim::Bytes;

use super::image;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::pool_file::{self, Mode};

/// Make a file system in a pool.
#[derive(Args, Debug)]
#[command(
    override_usage = "weir mkfs [OPTIONS] <FS> <POOL>",
    after_help = "Example: weir mkfs hinfs pool.weir --size 1GiB"
)]
pub(crate) struct Mkfs {
    /// The design (`weir list fs`) and the pool, which is a file
    // One argument of two words: clap takes the first of two for the pool where an option follows it and it may be missing.
    #[arg(value_names = ["FS", "POOL"], num_args = 1..=2, required = true)]
    words: Vec<PathBuf>,
    #[arg(long, hide = true, value_name = "FS")]
    fs: Option<String>,
    /// Size of the pool; required for a new pool
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// An option of the design (`weir show DESIGN`); repeatable
    #[arg(short = 'O', long = "option", value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Overwrite a pool that holds a file system
    #[arg(long)]
    force: bool,
    /// Reserve the host's space for a new pool as the pool fills, not at once (`weir trim` returns it)
    #[arg(long)]
    sparse: bool,
    /// Put the journal into this file, which mounts and checks then need beside the pool (ext4; mke2fs: -J device=)
    #[arg(long, value_name = "FILE", conflicts_with = "sparse")]
    journal: Option<PathBuf>,
    /// Permissions of a new pool, in octal; an existing pool keeps its own, and a note reports wider ones [default: 600]
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
}

/// What the words mean.
struct Target {
    design: &'static dyn FsType,
    pool: PathBuf,
    journal: Option<PathBuf>,
}

impl Mkfs {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let target = self.target()?;
        let Target { design, pool, journal } = &target;
        let mut options = options(&self.options)?;
        if journal.is_some() && design.options().iter().any(|option| option.name == EXTERNAL) {
            options.insert(EXTERNAL.to_owned(), "true".to_owned());
        }
        let options = Options::resolve(design.name(), design.options(), &options)
            .map_err(|error| Failure::usage(error.to_string()))?;
        self.check_size(&target, &options)?;
        let (existed, had_journal) = (pool.exists(), journal.as_ref().is_none_or(|journal| journal.exists()));
        if self.sparse {
            make_holes(&target, existed, self.size.unwrap_or_default())?;
        }
        let checks = existed && !self.force;
        let region = make(&target, &options, self.size, checks).inspect_err(|_| {
            // A file without a file system is of no use.
            let new = [Some(pool).filter(|_| !existed), journal.as_ref().filter(|_| !had_journal)];
            new.into_iter().flatten().for_each(|file| drop(std::fs::remove_file(file)));
        })?;
        pool_file::permit(pool, !existed, self.mode, output)?;
        if let Some(journal) = journal {
            pool_file::permit(journal, !had_journal, self.mode, output)?;
        }
        region.sync().map_err(|error| Failure::new(Exit::Run, format!("{}: {error}", pool.display())))?;
        output.note(&format!("{}: {} in {}", pool.display(), design.name(), Bytes(region.len())));
        if output.is_json() {
            let bytes = region.len();
            output.document(
                &serde_json::json!({ "schema": "weir.mkfs/1", "fs": design.name(), "size_bytes": bytes }),
            );
        }
        Ok(())
    }

    /// The design and the pool.
    fn target(&self) -> Result<Target, Failure> {
        let (name, pool) = match (self.words.as_slice(), &self.fs) {
            ([name, pool], None) => (name.to_string_lossy().into_owned(), pool),
            ([pool], Some(name)) => (name.clone(), pool),
            ([_], None) => {
                let what = "name the design and the pool: `weir mkfs pmfs pool.weir --size 1GiB`";
                return Err(Failure::usage(what));
            }
            _ => {
                return Err(Failure::usage("give one design and one pool: `weir mkfs pmfs pool.weir`"));
            }
        };
        let (design, pool) = (lab::plan::matrix::design(&name)?, pool.clone());
        Ok(Target { design, pool, journal: self.journal.clone() })
    }

    /// Nothing is made or changed when the size is missing or too small.
    fn check_size(&self, Target { design, pool, .. }: &Target, options: &Options) -> Result<(), Failure> {
        let shown = pool.display().to_string();
        let existing = std::fs::metadata(pool).map(|data| Bytes(data.len())).ok();
        match existing.max(self.size) {
            Some(size) => image::check_size(&shown, size, *design, options),
            None => Err(Failure::usage(format!("{shown} does not exist: give its size with --size"))),
        }
    }
}

/// Makes the file system, in a file that may have to be made, too. `checks`: not over one that is there.
fn make(
    Target { design, pool, journal }: &Target,
    options: &Options,
    size: Option<Bytes>,
    checks: bool,
) -> Result<Arc<Region>, Failure> {
    let region = image::open(pool, size, Access::ReadWrite)?;
    let storage = match journal {
        Some(file) => beside(*design, &region, (file, options), checks)?,
        None => Storage::from(&region),
    };
    // Of a new file there is nothing to know, and to look into its holes may take space of the host.
    let mut known = fs::FILE_SYSTEMS.iter().filter(|_| checks);
    if let Some(holder) = known.find(|design| design.recognises(&Storage::from(&region))) {
        let (pool, name) = (pool.display(), holder.name());
        return Err(Failure::usage(format!("{pool} holds a {name} file system; overwrite it with --force")));
    }
    let made = pool::make(*design, &storage, options);
    made.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?.map_err(|error| match error {
        FsError::Media(error) => image::refused(pool, &error),
        error => image::unusable(pool, error),
    })?;
    image::give_to_maker(*design, &storage, options)?;
    let synced = journal.as_ref().map_or(Ok(()), |_| storage.memory().and_then(|journal| journal.sync()));
    synced.map_err(|error| image::refused(pool, &error))?;
    Ok(region)
}

/// The option by which a design makes its journal outside.
const EXTERNAL: &str = "external_journal";

/// A pool, with the file for its journal beside it, which is made if it does not exist. `checks`: not over a file system.
fn beside(
    design: &dyn FsType,
    region: &Arc<Region>,
    (file, options): (&Path, &Options),
    checks: bool,
) -> Result<Storage, Failure> {
    let name = design.name();
    let size = design.outside_journal_size(options, Bytes(region.len()));
    let size = size.ok_or_else(|| {
        Failure::usage(format!("{name} makes no journal in another file: leave out --journal"))
    })?;
    let journal = image::open(file, Some(size).filter(|_| !file.exists()), Access::ReadWrite)?;
    let mut known = fs::FILE_SYSTEMS.iter().filter(|_| checks);
    if let Some(holder) = known.find(|design| design.recognises(&Storage::from(&journal))) {
        let (file, name) = (file.display(), holder.name());
        return Err(Failure::usage(format!("{file} holds a {name} file system; overwrite it with --force")));
    }
    image::beside(region, &journal).map_err(|error| image::refused(file, &error))
}

/// Makes a file system in a new file of holes. When that fails nothing is left of it.
pub(super) fn make_sparse(
    design: &'static dyn FsType,
    options: &Options,
    pool: &Path,
    size: Bytes,
) -> Result<(), Failure> {
    let target = Target { design, pool: pool.to_owned(), journal: None };
    make_holes(&target, false, size)?;
    let made = make(&target, options, None, false);
    made.map(drop).inspect_err(|_| drop(std::fs::remove_file(pool)))
}

/// Makes the file, all of it a hole.
fn make_holes(Target { design, pool, .. }: &Target, existed: bool, size: Bytes) -> Result<(), Failure> {
    let (shown, name) = (pool.display(), design.name());
    if existed {
        return Err(Failure::usage(format!(
            "{shown} exists, and --sparse is for a new pool: leave it out (with --force a file system is \
             overwritten; `weir trim` gives the space of free blocks back), or name another file"
        )));
    }
    if !design.may_have_holes() {
        return Err(Failure::usage(format!("{name} reserves all its space at once: leave out --sparse")));
    }
    pool_file::make_sparse(pool, size)
}

pub(super) fn options(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let parse = |text: &String| {
        let pair = text.split_once('=');
        let (key, value) = pair.ok_or_else(|| Failure::usage(format!("--option {text}: write KEY=VALUE")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(parse).collect()
}
