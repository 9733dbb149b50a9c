//! From a source to a mounted design, and back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use design::{Design, FsError, Options};
use media::Storage;
use media::{MediaError, Medium, Region};
use sim::{Bytes, Machine, Seed, Setup};
use vfs::{AccessTimes, Credentials, FileSystem, Mount, MountOptions, Process};

use crate::paths::{Inner, Pool};
#[cfg(feature = "serve")]
use crate::serve::Place;
use crate::source::Source;

/// Why a pool cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// No design has this name.
    #[error("there is no design \"{name}\": take one of {known}")]
    NoSuchDesign {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The pool does not exist, and no size was given.
    #[error("{0} does not exist, and a pool is made only with a size")]
    NoSize(Source),
    /// A pool was to be made, and the file is there.
    #[error("{} exists already: open it, or name another", .0.display())]
    Exists(PathBuf),
    /// The host refuses the memory or the file.
    #[error("{pool}: {error}")]
    Media {
        /// The pool.
        pool: Source,
        /// What it says.
        error: MediaError,
    },
    /// The medium was described wrongly.
    #[error(transparent)]
    Medium(media::MediumError),
    /// The design refuses the pool or an option.
    #[error("{pool}: {error}")]
    Design {
        /// The pool.
        pool: Source,
        /// What it says.
        error: FsError,
    },
    /// The design failed while it mounted.
    #[error("{pool}: {what}")]
    Failed {
        /// The pool.
        pool: Source,
        /// What happened.
        what: String,
    },
}

/// How to open a pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    design: String,
    options: BTreeMap<String, String>,
    size: Option<Bytes>,
    medium: Medium,
    read_only: bool,
    access_times: AccessTimes,
    volatile: bool,
}

impl PoolOptions {
    /// A pool of the design called `design` (`pmfs`, `hinfs`; `weir list fs` names all), on a medium that takes the time that the
    /// host takes.
    pub fn new(design: &str) -> Self {
        Self {
            design: design.to_owned(),
            options: BTreeMap::new(),
            size: None,
            medium: Medium::named("dram").expect("dram is a preset"),
            read_only: false,
            access_times: AccessTimes::default(),
            volatile: false,
        }
    }

    /// Makes the pool with this size if it is missing.
    #[must_use]
    pub fn size(self, size: Bytes) -> Self {
        Self { size: Some(size), ..self }
    }

    /// Sets an option of the design (`weir show hinfs` explains all): `option("buffer", "64MiB")`.
    #[must_use]
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Emulates a medium: every access then waits as it would there.
    #[must_use]
    pub fn medium(self, medium: Medium) -> Self {
        Self { medium, ..self }
    }

    /// Refuses every change with `EROFS`.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// When reading sets access times.
    #[must_use]
    pub fn access_times(self, access_times: AccessTimes) -> Self {
        Self { access_times, ..self }
    }

    /// A sync does not wait for the disk under a pool in a file: what it covered survives a crash of the program, not a power loss.
    #[must_use]
    pub fn volatile(self, volatile: bool) -> Self {
        Self { volatile, ..self }
    }

    /// Opens a pool in a file.
    pub fn open(&self, path: impl Into<PathBuf>) -> Result<Pool, PoolError> {
        self.open_source(&Source::File(path.into()))
    }

    /// Opens a pool, and recovers it where its last user has not closed it.
    pub fn open_source(&self, source: &Source) -> Result<Pool, PoolError> {
        self.mounted(source, |of| source.open(of, self.size, &self.medium).map(|(region, _)| region))
    }

    /// Makes a pool in a file, which must not exist.
    pub(crate) fn create(&self, path: PathBuf, size: Bytes) -> Result<Pool, PoolError> {
        let source = Source::File(path);
        self.mounted(&source, |of| source.create(of, size, &self.medium))
    }

    /// Mounts the region that `open` opens.
    fn mounted(
        &self,
        source: &Source,
        open: impl FnOnce((&'static dyn Design, &Options)) -> Result<Arc<Region>, PoolError>,
    ) -> Result<Pool, PoolError> {
        let design = self.design()?;
        let refused = |error| PoolError::Design { pool: source.clone(), error };
        let options = Options::resolve(design.name(), design.options(), &self.options);
        let options = options.map_err(|error| refused(error.into()))?;
        let region = open((design, &options))?;
        let mounted = mount(design, Arc::clone(&region), options);
        let mounted =
            mounted.map_err(|what| PoolError::Failed { pool: source.clone(), what })?.map_err(refused)?;
        let how = MountOptions {
            read_only: self.read_only,
            access_times: self.access_times,
            ..MountOptions::default()
        };
        let failed = |errno: vfs::Errno| PoolError::Failed { pool: source.clone(), what: errno.to_string() };
        let mount = Mount::new(mounted, how).map_err(failed)?;
        let process = Process::new(mount, Credentials::root());
        Ok(Pool::new(Inner {
            process,
            region,
            volatile: self.volatile,
            #[cfg(feature = "serve")]
            place: Place::new(design.name(), source.clone()),
        }))
    }

    fn design(&self) -> Result<&'static dyn Design, PoolError> {
        let found = fs::by_name(&self.design);
        found.ok_or_else(|| {
            let known: Vec<_> = fs::FILE_SYSTEMS.iter().copied().map(Design::name).collect();
            PoolError::NoSuchDesign { name: self.design.clone(), known: known.join(", ") }
        })
    }
}

/// Mounts in a run of its own, to which the design's background tasks belong; the program's threads need none.
fn mount(
    design: &'static dyn Design,
    region: Arc<Region>,
    options: Options,
) -> Result<Result<Arc<dyn FileSystem>, FsError>, String> {
    let setup = Setup::real_clock(Machine::unit(), Seed(0));
    sim::run(&setup, move || design.mount(&Storage::from(&region), &options))
        .map_err(|error| error.to_string())
}
