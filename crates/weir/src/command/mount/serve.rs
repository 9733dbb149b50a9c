//! Pool, design, kernel: from the first to the last request.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use design::{Design, Options, Phase};
use fuse::{Backing, MountError, MountFlags, Server};
use media::Storage;
use media::nvmm::Access;
use media::{MediaError, Medium, Region};
use pool::{PoolError, Source};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use sim::{Bytes, Machine, Seed, Setup};
use vfs::FileSystem;

use super::recording;
use super::words::Words;
use super::{MEMORY, Mount};
use crate::command::umount::Unmounting;
use crate::command::{image, mkfs};
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};
use crate::pool_file::Mode;
use crate::server_end::Waiting;
use crate::{mounted, partition, pool_file, server_end};

/// Everything that a mount needs, checked as far as it can be without opening the pool.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) design: &'static dyn Design,
    options: Options,
    words: Words,
    source: Source,
    pub(super) dir: PathBuf,
    size: Option<Bytes>,
    sparse: bool,
    mode: Option<Mode>,
    replace_stale: bool,
    medium: Medium,
    /// The file with the journal of the pool, if it is named.
    journal: Option<PathBuf>,
    /// The trace of the kernel's requests.
    record: Option<PathBuf>,
    pub(super) tell_ready: bool,
}

/// The line by which the process in the background says that the mount is ready.
pub(super) const READY: &str = "ready";

/// Threads on a host of few cores: some may wait for its disk at the same time.
const THREADS_LEAST: usize = 4;

/// How long a server looks for the next request before it sleeps, by default: longer than it takes to wake the program on another
/// core of a virtual machine, which it has answered.
const POLL: Duration = Duration::from_micros(50);

impl Job {
    pub(super) fn new(mount: &Mount, design: &'static dyn Design, words: &Words) -> Result<Self, Failure> {
        let options = Options::resolve(design.name(), design.options(), &words.design)
            .map_err(|error| Failure::usage(format!("-o: {error}")))?;
        let medium = Medium::parse(mount.medium.as_deref().unwrap_or("dram"))?;
        let in_memory = mount.pool.as_os_str() == MEMORY;
        if !words.part.is_all() && (in_memory || mount.size.is_some()) {
            return Err(Failure::usage(
                "-o partition and -o offset are for the image of a disk, which must exist",
            ));
        }
        if in_memory && mount.size.is_none() {
            return Err(Failure::usage("a pool in memory needs its size: --size 1GiB"));
        }
        let absolute =
            |path: &Path| std::path::absolute(path).map_err(|error| Failure::io("find", path, &error));
        let source = match (in_memory, words.dax) {
            (true, _) => Source::Memory,
            (false, true) => Source::Dax(absolute(&mount.pool)?),
            (false, false) => Source::File(absolute(&mount.pool)?),
        };
        Ok(Self {
            design,
            options,
            words: words.clone(),
            source,
            dir: mounted::absolute(&mount.dir)?,
            size: mount.size,
            sparse: mount.sparse,
            mode: mount.mode,
            replace_stale: mount.replace_stale,
            medium,
            journal: words.journal.as_deref().map(absolute).transpose()?,
            record: mount.record.as_deref().map(absolute).transpose()?,
            tell_ready: false,
        })
    }

    /// Mounts, serves until it is unmounted, and leaves a clean pool. A mount that is refused leaves no new pool behind.
    pub(super) fn serve(self, output: &Output) -> Result<(), Failure> {
        // What is being unmounted may be on the directory still.
        self.source.path().map_or(Ok(()), server_end::wait_until_left)?;
        self.check_directory()?;
        let (region, is_new) = self.region(output)?;
        let (storage, journal) = self.storage(&region)?;
        let regions: Vec<_> = std::iter::once(region).chain(journal).collect();
        if !is_new {
            self.note_unused(output);
        }
        end_on_panic();
        leave_no_core();
        fuse::become_flusher();
        let setup = Setup::real_clock(host(), Seed(0));
        let quiet = output.is_quiet();
        let new_pool = self.source.path().filter(|_| is_new).map(Path::to_owned);
        let served = sim::run(&setup, move || self.in_run(&storage, &regions, quiet));
        let served = served.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        if let (Err(Ended::Refused(_)), Some(pool)) = (&served, new_pool) {
            let _ = std::fs::remove_file(pool);
        }
        served.map_err(|(Ended::Refused(failure) | Ended::Served(failure))| failure)
    }

    /// Refuses a directory that cannot be mounted on before a pool is made for it.
    fn check_directory(&self) -> Result<(), Failure> {
        if self.replace_stale && mounted::is_stale(&self.dir)? {
            Unmounting { dir: &self.dir, lazy: true }.run()?;
        }
        fuse::check_directory(&self.dir, self.words.non_empty).map_err(|error| refused(&error))
    }

    /// What the attribute `weir.result` of the root tells: `weir explain DIR`.
    fn result_so_far(&self) -> Arc<dyn Fn(fuse::Moved) -> Vec<u8> + Send + Sync> {
        let axes = [("fs", self.design.name().to_owned()), ("medium", self.medium.to_string())];
        let axes: BTreeMap<_, _> = axes.into_iter().map(|(axis, value)| (axis.to_owned(), value)).collect();
        let since = Instant::now();
        Arc::new(move |moved| lab::cell::so_far("mount", axes.clone(), since, moved).to_json().into_bytes())
    }

    /// The pool, with its journal where that is in another file.
    fn storage(&self, region: &Arc<Region>) -> Result<(Storage, Option<Arc<Region>>), Failure> {
        let Some(pool) = self.source.path() else { return Ok((Storage::from(region), None)) };
        let open = |file: &Path| {
            let access = if self.discards() { Access::Private } else { Access::ReadWrite };
            self.open_file(file, access)
        };
        let range = self.words.part.range(region, pool)?;
        let part = partition::storage(self.design, region, range.as_ref());
        let part = part.map_err(|error| partition::misplaced(self.design, error, pool))?;
        image::storage(self.design, &part, (pool, self.journal.as_deref()), &open)
    }

    /// Opens a file with this mount's medium.
    fn open_file(&self, file: &Path, access: Access) -> Result<Arc<Region>, Failure> {
        let medium = || self.medium.build().map_err(Failure::from);
        medium()?;
        let open = || {
            let medium = self.medium.build().map_err(|_| MediaError::Empty)?;
            Region::file(file, None, access, medium)
        };
        let opened = server_end::once_left(file, open, |error| *error == MediaError::InUse)?;
        opened.map(Arc::new).map_err(|error| image::refused(file, &error))
    }

    /// `regions` are those of the storage.
    fn in_run(&self, storage: &Storage, regions: &[Arc<Region>], quiet: bool) -> Result<(), Ended> {
        let mounted = self.design.mount(storage, &self.options());
        let mounted = mounted.map_err(|error| Ended::Refused(self.unusable(error)))?;
        let source = self.source.clone();
        mounted.listen(Box::new(move |what| report(&format!("{source}: {what}"))));
        let pool = Arc::new(Pool {
            regions: regions.to_vec(),
            source: self.source.clone(),
            told: AtomicBool::new(false),
            volatile: self.words.volatile,
            discards: self.discards(),
            waiting: Mutex::default(),
        });
        let mut options = self.fuse_options(&pool);
        options.recorder =
            recording::begin(self.record.as_deref(), self.design.name()).map_err(Ended::Refused)?;
        let server = match Server::new(Arc::clone(&mounted), &self.dir, &options) {
            Ok(server) => server,
            Err(error) => {
                let _ = mounted.unmount();
                recording::abandon(self.record.as_deref());
                return Err(Ended::Refused(refused(&error)));
            }
        };
        end_on_signal(&server);
        self.say_ready(quiet);
        let served = server.serve();
        let recorded = recording::end(options.recorder.as_deref(), self.record.as_deref());
        let left = self.leave(&*mounted, &pool, served).and(recorded);
        if let (Err(failure), true) = (&left, self.tell_ready) {
            report(&failure.message);
        }
        pool.tell_waiting(left.as_ref().err());
        left.map_err(Ended::Served)
    }

    /// The kernel has gone: everything goes to the medium.
    fn leave(
        &self,
        mounted: &dyn FileSystem,
        pool: &Pool,
        served: std::io::Result<()>,
    ) -> Result<(), Failure> {
        let served =
            served.map_err(|error| Failure::new(Exit::Run, format!("{}: {error}", self.dir.display())));
        let left = mounted.unmount();
        // Nothing of a private copy was to be kept: what has gone wrong in it, callers have heard.
        if pool.discards {
            return served;
        }
        left.map_err(|errno| {
            Failure::new(
                Exit::Run,
                format!("{}: the unmount failed ({errno}); check the pool with `weir fsck`", self.source),
            )
        })?;
        let synced = pool.regions.iter().try_for_each(|region| region.sync());
        synced.map_err(|error| {
            Failure::new(Exit::Run, format!("{}: {error}; check the pool with `weir fsck`", self.source))
        })?;
        served
    }

    /// Names the options that have no effect on a pool that exists.
    fn note_unused(&self, output: &Output) {
        let specs = self.design.options().iter().filter(|spec| spec.when == Phase::Mkfs);
        for spec in specs.filter(|spec| self.words.design.contains_key(spec.name)) {
            let pool = &self.source;
            output.note(&format!(
                "note: -o {}: only mkfs uses it, and {pool} exists; it stays as it is",
                spec.name
            ));
        }
    }

    /// Whether the pool is to stay as it is: then the design works on a private copy, to which it may recover.
    fn discards(&self) -> bool {
        let is_there = matches!(&self.source, Source::File(path) if path.exists());
        self.words.flags.contains(MountFlags::RDONLY) && is_there
    }

    fn options(&self) -> Options {
        if self.discards() { self.options.clone().discarding() } else { self.options.clone() }
    }

    /// What the kernel is told.
    fn fuse_options(&self, pool: &Arc<Pool>) -> fuse::Options {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let poll = if cores > 1 { POLL } else { Duration::ZERO };
        fuse::Options {
            source: self.source.to_string(),
            design: self.design.name().to_owned(),
            flags: self.words.flags,
            allow_other: self.words.allow_other,
            non_empty: self.words.non_empty,
            access_times: self.words.access_times.unwrap_or_default(),
            cache: self.words.cache,
            threads: self.words.threads.unwrap_or(cores.max(THREADS_LEAST)),
            readers: cores,
            poll: self.words.poll.unwrap_or(poll),
            lists: self.words.lists,
            result_so_far: self.result_so_far(),
            backing: Arc::<Pool>::clone(pool),
            recorder: None,
        }
    }

    fn unusable(&self, error: design::FsError) -> Failure {
        match self.source.path() {
            Some(pool) => image::unusable(pool, error),
            None => Failure::from(error),
        }
    }

    /// Checks the size of a pool that is missing, and makes one of holes. Says whether it was made.
    fn prepare(&self) -> Result<bool, Failure> {
        let path = self.source.path();
        let Some(size) = self.size.filter(|_| path.is_none_or(|path| !path.exists())) else {
            return Ok(false);
        };
        if self.journal.is_some() {
            let (pool, name) = (&self.source, self.design.name());
            let what =
                format!("{pool} does not exist: make it with `weir mkfs {name} {pool} --journal FILE`");
            return Err(Failure::usage(what));
        }
        image::check_size(&self.source.to_string(), size, self.design, &self.options)?;
        let Some(path) = path.filter(|_| self.sparse) else { return Ok(false) };
        mkfs::make_sparse(self.design, &self.options, path, size).map(|()| true)
    }

    /// Opens the pool; makes it when it is missing and its size is known. Says whether it was made. When this fails nothing is left
    /// of a new pool.
    fn region(&self, output: &Output) -> Result<(Arc<Region>, bool), Failure> {
        let is_sparse = self.prepare()?;
        let (region, is_new) = self.open()?;
        let is_made = is_sparse || is_new;
        self.give(&region, (is_made, is_sparse), output).inspect_err(|_| {
            self.source.path().filter(|_| is_made).map(std::fs::remove_file);
        })?;
        Ok((region, is_made))
    }

    fn open(&self) -> Result<(Arc<Region>, bool), Failure> {
        let path = self.source.path();
        if let Some(path) = path.filter(|_| self.discards()) {
            return self.open_file(path, Access::Private).map(|region| (region, false));
        }
        if let Some(path) = path {
            image::check_no_loop_device(path)?;
        }
        let open = || self.source.open((self.design, &self.options), self.size, &self.medium);
        let is_in_use =
            |error: &PoolError| matches!(error, PoolError::Media { error: MediaError::InUse, .. });
        let opened = match path {
            Some(path) => server_end::once_left(path, open, is_in_use)?,
            None => open(),
        };
        opened.map_err(|error| match (error, path) {
            (PoolError::NoSize(_), _) => Failure::usage(format!(
                "{} does not exist: make it with `weir mkfs`, or give --size to make it now",
                self.source
            )),
            (PoolError::Media { error, .. }, Some(pool)) => image::refused(pool, &error),
            (PoolError::Design { error, .. }, _) => self.unusable(error),
            (PoolError::Medium(error), _) => Failure::from(error),
            (error, _) => Failure::new(Exit::Run, error.to_string()),
        })
    }

    /// Gives a new pool its owner and its permissions; a sparse one has its owner.
    fn give(
        &self,
        region: &Arc<Region>,
        (is_new, is_sparse): (bool, bool),
        output: &Output,
    ) -> Result<(), Failure> {
        if is_new && !is_sparse {
            image::give_to_maker(self.design, &Storage::from(region), &self.options)?;
        }
        // Of a file that is no pool nothing is said but that: its permissions are its owner's business.
        if let Some(path) = self.source.path().filter(|path| is_new || image::holder(path).is_some()) {
            pool_file::permit(path, is_new, self.mode, output)?;
        }
        if is_new && self.source != Source::Memory {
            output.note(&format!("{}: {} in {}", self.source, self.design.name(), Bytes(region.len())));
        }
        Ok(())
    }

    fn say_ready(&self, quiet: bool) {
        if self.tell_ready {
            // Who has started this process may have ended; the mount is there all the same.
            let _ = writeln!(std::io::stdout(), "{READY}").and_then(|()| std::io::stdout().flush());
            super::background::let_go();
        } else if !quiet {
            let (name, dir) = (&self.source, self.dir.display());
            output::say(&format!("{name} is mounted on {dir}; Ctrl-C or `weir umount {dir}` ends it"));
        }
    }
}

/// Why a mount ended.
enum Ended {
    /// It has never served.
    Refused(Failure),
    /// Its end failed.
    Served(Failure),
}

/// The medium of a mount.
struct Pool {
    /// The pool, and its journal where that is in another file.
    regions: Vec<Arc<Region>>,
    source: Source,
    /// A write-back of it has failed, of which was told.
    told: AtomicBool,
    volatile: bool,
    discards: bool,
    /// Programs that wait for the end of this server.
    waiting: Mutex<Waiting>,
}

impl Pool {
    fn tell_waiting(&self, failed: Option<&Failure>) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        // What they wait for is the end of the process, which gives the lock of the pool back.
        for stream in waiting.tell(failed) {
            let _ = stream.into_raw_fd();
        }
    }
}

impl Backing for Pool {
    fn fence(&self) {
        self.regions.iter().for_each(|region| region.fence());
    }

    fn sync(&self) -> vfs::Result<()> {
        let mut synced = self.regions.iter().filter(|_| !self.volatile).map(|region| region.sync());
        synced.try_for_each(|synced| synced).map_err(|error| {
            if !self.told.swap(true, Relaxed) {
                let pool = &self.source;
                report(&format!(
                    "{pool}: {error}; no sync succeeds until it was unmounted and checked (`weir fsck`)"
                ));
            }
            vfs::Errno::EIO
        })
    }

    fn discards(&self) -> bool {
        self.discards
    }

    fn tell_end(&self, socket: &Path) -> vfs::Result<()> {
        let added = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).add(socket);
        added.map_err(|_| vfs::Errno::ENOENT)
    }

    /// Half of a change must not reach the pool: the server ends where it stands.
    fn panicked(&self, operation: &str, changes: bool) {
        if changes {
            report(&format!(
                "{operation}: the design has panicked in a change; the server ends, the next mount recovers"
            ));
            std::process::abort();
        }
        report(&format!("{operation}: the design has panicked; its callers are answered EIO"));
    }
}

fn refused(error: &MountError) -> Failure {
    let option = match error {
        MountError::Stale(_) => ", or mount with --replace-stale",
        MountError::NotEmpty(_) => ", or -o nonempty",
        _ => "",
    };
    let exit = match error {
        MountError::NoDevice | MountError::NotAllowed { .. } => Exit::Host,
        MountError::Io { .. } => Exit::Run,
        _ => Exit::Usage,
    };
    Failure::new(exit, format!("{error}{option}"))
}

/// This host, by its shape: a mount takes the time that it takes.
fn host() -> Machine {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u16;
    Machine { name: "host".to_owned(), sockets: 1, cores_per_socket: cores, ..Machine::unit() }
}

/// No core dump: what users have written may be in this process's memory, and a dump goes where the host says.
fn leave_no_core() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// A panic ends the server where it stands: what it left half done in memory must not reach the pool, and what is in the pool is
/// as after a crash, which recovery is made for. One in a request is left to [`Pool::panicked`], after its caller was answered.
fn end_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        tell(info);
        if !fuse::is_serving() {
            std::process::abort();
        }
    }));
}

/// What an operator is to hear: on the standard error, and in the log of the system, because a server in the background has no
/// other place (RFC 3164: facility daemon, severity error).
fn report(what: &str) {
    output::say(what);
    if let Ok(socket) = UnixDatagram::unbound() {
        let _ = socket.send_to(format!("<27>weir[{}]: {what}", std::process::id()).as_bytes(), "/dev/log");
    }
}

/// Ctrl-C, SIGTERM and SIGHUP unmount; what is open stays served until it is closed, unless a second signal comes.
fn end_on_signal(server: &Server) {
    let unmounter = Mutex::new(Some(server.unmounter()));
    // There is one mount in a process.
    let _ =
        ctrlc::set_handler(move || match unmounter.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(unmounter) => drop(unmounter.unmount()),
            None => std::process::exit(Exit::Interrupted as i32),
        });
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Set in the process that is to panic.
    const PANIC: &str = "WEIR_TEST_PANIC";

    #[test]
    fn a_server_goes_on_when_nobody_can_hear_what_it_reports() {
        if std::env::var_os(PANIC).is_some() {
            end_on_panic();
            report("the disk under the pool has failed");
            std::process::exit(0);
        }
        let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else { return };
        let name = "command::mount::serve::tests::a_server_goes_on_when_nobody_can_hear_what_it_reports";
        let test = std::env::current_exe().unwrap();
        let mut reporting = Command::new(test);
        let status = reporting.args(["--exact", name, "--nocapture"]).env(PANIC, "1").stderr(full).status();
        assert!(status.unwrap().success());
    }

    #[test]
    fn a_panic_on_any_thread_ends_the_server() {
        if std::env::var_os(PANIC).is_some() {
            end_on_panic();
            let _ = std::thread::spawn(|| panic!("planted")).join();
            std::process::exit(0);
        }
        let name = "command::mount::serve::tests::a_panic_on_any_thread_ends_the_server";
        let test = std::env::current_exe().unwrap();
        let output =
            Command::new(test).args(["--exact", name, "--nocapture"]).env(PANIC, "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(6), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("planted"), "{output:?}");
    }
}
