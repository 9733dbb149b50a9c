//! `weir mkfs`: a file system in a pool.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use design::{Design, FsError, Options};
use media::nvmm::Access;
use media::{Region, Storage};
use sim::Bytes;

use super::image;
use crate::contents;
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
    /// Size of the pool, required for a new one; an existing pool that is larger keeps its size
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// An option of the design (`weir show DESIGN`); repeatable
    #[arg(short = 'O', long = "option", value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Overwrite a file that holds a file system or other data
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
    design: &'static dyn Design,
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
        let mut new = NewFiles::default();
        if self.sparse {
            make_holes(&target, existed, self.size.unwrap_or_default(), &mut new)?;
        }
        let checks = !self.force && !self.sparse;
        let region = make(&target, &options, self.size.filter(|_| !self.sparse), checks, &mut new)?;
        new.keep();
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
        let (design, pool) = (lab::plan::matrix::stored(&name)?, pool.clone());
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

/// Files that this command has made. Unless they are kept they are removed: without a file system they are of no use.
#[derive(Default)]
struct NewFiles(Vec<PathBuf>);

impl NewFiles {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        self.0.iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}

/// Opens a file to be overwritten, or makes it. `checks`: not if it holds anything, of which it is asked before it grows.
fn claim(file: &Path, size: Option<Bytes>, checks: bool, new: &mut NewFiles) -> Result<Arc<Region>, Failure> {
    if !file.exists() {
        let region = image::open(file, size, Access::New)?;
        new.0.push(file.to_owned());
        return Ok(region);
    }
    if checks && std::fs::metadata(file).is_ok_and(|data| data.is_file() && data.len() > 0) {
        let region = image::open(file, None, Access::ReadOnly)?;
        let holder =
            fs::FILE_SYSTEMS.iter().find(|design| design.format().recognises(&Storage::from(&region)));
        let known = holder.map(|design| format!("a {} file system", design.name()));
        let found = contents::found(&region).map_err(|error| image::refused(file, &error))?;
        if let Some(what) = known.or(found.map(str::to_owned)) {
            let file = file.display();
            return Err(Failure::usage(format!("{file} holds {what}; overwrite it with --force")));
        }
    }
    image::open(file, size, Access::ReadWrite)
}

/// Makes the file system, in files that may have to be made, too. `checks`: not over what is there.
fn make(
    Target { design, pool, journal }: &Target,
    options: &Options,
    size: Option<Bytes>,
    checks: bool,
    new: &mut NewFiles,
) -> Result<Arc<Region>, Failure> {
    let region = claim(pool, size, checks, new)?;
    let storage = match journal {
        Some(file) => beside(*design, &region, (file, options, checks), new)?,
        None => Storage::from(&region),
    };
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

/// A pool, with the file for its journal beside it, which is made if it does not exist.
fn beside(
    design: &dyn Design,
    region: &Arc<Region>,
    (file, options, checks): (&Path, &Options, bool),
    new: &mut NewFiles,
) -> Result<Storage, Failure> {
    let name = design.name();
    let size = design.format().outside_journal_size(options, Bytes(region.len()));
    let size = size.ok_or_else(|| {
        Failure::usage(format!("{name} makes no journal in another file: leave out --journal"))
    })?;
    let journal = claim(file, Some(size).filter(|_| !file.exists()), checks, new)?;
    image::beside(&Storage::from(region), &journal).map_err(|error| image::refused(file, &error))
}

/// Makes a file system in a new file of holes. When that fails nothing is left of it.
pub(super) fn make_sparse(
    design: &'static dyn Design,
    options: &Options,
    pool: &Path,
    size: Bytes,
) -> Result<(), Failure> {
    let target = Target { design, pool: pool.to_owned(), journal: None };
    let mut new = NewFiles::default();
    make_holes(&target, false, size, &mut new)?;
    make(&target, options, None, false, &mut new)?;
    new.keep();
    Ok(())
}

/// Makes the file, all of it a hole.
fn make_holes(
    Target { design, pool, .. }: &Target,
    existed: bool,
    size: Bytes,
    new: &mut NewFiles,
) -> Result<(), Failure> {
    let (shown, name) = (pool.display(), design.name());
    if existed {
        return Err(Failure::usage(format!(
            "{shown} exists, and --sparse is for a new pool: leave it out (with --force a file system is \
             overwritten; `weir trim` gives the space of free blocks back), or name another file"
        )));
    }
    if !design.format().may_have_holes() {
        return Err(Failure::usage(format!("{name} reserves all its space at once: leave out --sparse")));
    }
    pool_file::make_sparse(pool, size)?;
    new.0.push(pool.clone());
    Ok(())
}

pub(super) fn options(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let parse = |text: &String| {
        let pair = text.split_once('=');
        let (key, value) = pair.ok_or_else(|| Failure::usage(format!("--option {text}: write KEY=VALUE")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(parse).collect()
}
