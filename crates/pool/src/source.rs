//! The region under a pool.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use design::{Design, FsError, Options};
use media::Storage;
use media::nvmm::Access;
use media::{CostModel, MediaError, Medium, Region};
use sim::{Bytes, Machine, RunError, Seed, Setup};

use crate::open::PoolError;

/// Where a pool lies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// In a file, through the host's page cache.
    File(PathBuf),
    /// In a file on a file system that maps persistent memory directly (DAX): the processor's flushes make things durable.
    Dax(PathBuf),
    /// In memory of this process, and gone with it.
    Memory,
}

impl Source {
    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Dax(path) => Some(path),
            Self::Memory => None,
        }
    }

    /// Opens the pool for this process alone. One that is missing is made, with `size` and an empty file system of this design;
    /// an existing one keeps its size. Says whether it was made.
    ///
    /// # Errors
    ///
    /// [`PoolError::NoSize`] when it is missing and has no size, [`PoolError::Media`] for what the host refuses (a pool that is in
    /// use, no space), [`PoolError::Design`] for what the design refuses. Nothing is left of a new pool.
    pub fn open(
        &self,
        of: (&'static dyn Design, &Options),
        size: Option<Bytes>,
        medium: &Medium,
    ) -> Result<(Arc<Region>, bool), PoolError> {
        if self.path().is_none_or(|path| !path.exists()) {
            let size = size.ok_or_else(|| PoolError::NoSize(self.clone()))?;
            match self.create(of, size, medium) {
                // Another process has made it meanwhile.
                Err(PoolError::Exists(_)) => {}
                made => return made.map(|region| (region, true)),
            }
        }
        let model = medium.build().map_err(PoolError::Medium)?;
        self.region(None, Access::ReadWrite, model).map(|region| (region, false))
    }

    /// Makes the pool, with an empty file system of this design, and opens it for this process alone.
    ///
    /// # Errors
    ///
    /// [`PoolError::Exists`] when there is such a file, or a link that leads to none; otherwise as for [`Source::open`].
    pub fn create(
        &self,
        (design, options): (&'static dyn Design, &Options),
        size: Bytes,
        medium: &Medium,
    ) -> Result<Arc<Region>, PoolError> {
        let model = medium.build().map_err(PoolError::Medium)?;
        let region = self.region(Some(size), Access::New, model)?;
        let made = match make(design, &Storage::from(&region), options) {
            Ok(made) => made.map_err(|error| PoolError::Design { pool: self.clone(), error }),
            Err(error) => Err(PoolError::Failed { pool: self.clone(), what: error.to_string() }),
        };
        // A pool without a file system is of no use.
        made.map(|()| region).inspect_err(|_| drop(self.path().map(std::fs::remove_file)))
    }

    fn region(
        &self,
        size: Option<Bytes>,
        access: Access,
        model: Box<dyn CostModel>,
    ) -> Result<Arc<Region>, PoolError> {
        let region = match self {
            Self::File(path) => Region::file(path, size, access, model),
            Self::Dax(path) => Region::direct(path, size, access, model),
            Self::Memory => Region::anonymous(size.unwrap_or(Bytes(0)), model),
        };
        region.map(Arc::new).map_err(|error| match (error, self.path()) {
            (MediaError::Io { errno: EXISTS, .. }, Some(path)) => PoolError::Exists(path.to_owned()),
            (error, _) => PoolError::Media { pool: self.clone(), error },
        })
    }
}

/// `EEXIST`.
const EXISTS: i32 = 17;

/// Makes a file system in storage. What it draws, such as a UUID, is unlike that of any other; in a run the seed of the run
/// decides.
///
/// # Errors
///
/// What the design refuses; or, outside, that it panicked.
pub fn make(
    design: &'static dyn Design,
    storage: &Storage,
    options: &Options,
) -> Result<Result<(), FsError>, RunError> {
    if sim::task::run_number().is_some() {
        return Ok(design.format().mkfs(storage, options));
    }
    // The standard library draws the keys of a hash from the host's random numbers.
    let setup = Setup::real_clock(Machine::unit(), Seed(RandomState::new().hash_one(())));
    let (storage, options) = (storage.clone(), options.clone());
    sim::run(&setup, move || design.format().mkfs(&storage, &options))
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path() {
            Some(path) => write!(f, "{}", path.display()),
            None => f.write_str("memory"),
        }
    }
}
