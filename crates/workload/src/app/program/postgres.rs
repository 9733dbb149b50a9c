//! A PostgreSQL server in the directory under test, with the settings that the layer `postgres` of `app/tpcc` is made after.
//!
//! | place | holds |
//! |---|---|
//! | `DIR/data` | the data directory, made by initdb |
//! | a folder of temporary files | the socket, through which alone the server listens, and scripts of clients |
//!
//! The server refuses root: then it and its clients run as the user `postgres`. It is asked to end by a fast shutdown (SIGINT); one
//! that does not, or that this process leaves behind, ends by an immediate one (SIGQUIT), which takes its own processes with it.

use std::fs::{DirBuilder, File, Permissions, set_permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use sim::{Bytes, Nanos};
use tempfile::TempDir;

use super::process::{Group, LOOK, Watcher, all_of, in_memory, last_lines, numbers};
use super::{Place, found, is_program};

const PACKAGE: &str = "install the Debian package postgresql";
/// Where Debian's packages have the programs of each version: `15/bin/postgres`.
const VERSIONS: &str = "/usr/lib/postgresql";
const PROGRAMS: [&str; 4] = ["initdb", "postgres", "psql", "pgbench"];
/// As whom it runs for root.
const USER: &str = "postgres";
/// The name of its superuser.
const ROLE: &str = "tpcc";
/// A start or an end that takes longer has failed.
const PATIENCE: Nanos = Nanos::from_secs(120);

/// The server's program; its others are beside it.
pub(super) fn find() -> Result<PathBuf, String> {
    let folder = folder().ok_or_else(|| format!("PostgreSQL's initdb is not installed: {PACKAGE}"))?;
    if let Some(missing) = PROGRAMS.iter().find(|program| !is_program(&folder.join(program))) {
        return Err(format!("{} is not installed: {PACKAGE}", folder.join(missing).display()));
    }
    user()?;
    Ok(folder.join("postgres"))
}

/// The folder of initdb by `PATH`, or that of the newest of Debian's versions.
fn folder() -> Option<PathBuf> {
    let by_path = found("initdb").and_then(|initdb| Some(initdb.canonicalize().ok()?.parent()?.to_owned()));
    let newest = || {
        let versions = std::fs::read_dir(VERSIONS).ok()?.filter_map(Result::ok).map(|entry| entry.path());
        let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
        let programs = |path: &PathBuf| is_program(&path.join("bin/initdb"));
        Some(versions.filter(programs).max_by_key(number)?.join("bin"))
    };
    by_path.or_else(newest)
}

/// As whom programs run: another user for root.
fn user() -> Result<Option<(u32, u32)>, String> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    let missing = || format!("PostgreSQL refuses root, and there is no user {USER}: {PACKAGE}");
    numbers(&passwd, USER).map(Some).ok_or_else(missing)
}

/// A server that listens.
pub(super) struct Server<'r> {
    place: &'r Place<'r>,
    user: Option<(u32, u32)>,
    /// Of the socket.
    scratch: TempDir,
    /// Of its clients.
    group: Group,
    log: File,
    running: Option<(Child, Watcher)>,
}

impl<'r> Server<'r> {
    /// Makes a database and starts its server, with so many bytes of buffers and places for clients; none after an interrupt.
    pub(super) fn start(place: &'r Place<'r>, pool: u64, clients: u64) -> Result<Option<Self>, String> {
        let told = |error: io::Error| error.to_string();
        let scratch = tempfile::Builder::new().prefix("weir-").tempdir().map_err(told)?;
        let mut server = Self {
            place,
            user: user()?,
            scratch,
            group: Group::new().map_err(told)?,
            log: in_memory().map_err(told)?,
            running: None,
        };
        server.make_folders().map_err(told)?;
        // What initdb writes is durable with the checkpoint after the tables are loaded.
        let made = ["-D", "data", "-U", ROLE, "--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync"];
        if server.client("initdb", &made, "")?.is_none() {
            return Ok(None);
        }
        server.configure(pool, clients)?;
        let command = &mut server.command("postgres");
        command.args(["-D", "data"]);
        command.stdin(std::process::Stdio::null());
        command.stdout(server.log.try_clone().map_err(told)?).stderr(server.log.try_clone().map_err(told)?);
        let child = command.process_group(0).spawn().map_err(told)?;
        let watcher = Watcher::new("QUIT", child.id()).map_err(told)?;
        server.running = Some((child, watcher));
        Ok(server.wait_until_ready()?.then_some(server))
    }

    /// The data directory, and that of the socket, belong to the user of the server, who gets through the one under test.
    fn make_folders(&self) -> io::Result<()> {
        set_permissions(self.place.directory, Permissions::from_mode(0o711))?;
        let data = self.data();
        DirBuilder::new().mode(0o700).create(&data)?;
        if let Some((user, group)) = self.user {
            chown(&data, Some(user), Some(group))?;
            chown(self.scratch.path(), Some(user), Some(group))?;
        }
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.place.directory.join("data")
    }

    /// A folder for files of clients.
    pub(super) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The settings of tests/apps/tpcc.sh: a checkpoint after 48 MiB of log, as of `app/tpcc -D layer=postgres`, and no vacuum. The
    /// log has errors without the statements, so that its end says what is wrong.
    fn configure(&self, pool: u64, clients: u64) -> Result<(), String> {
        let path = self.data().join("postgresql.conf");
        let file = File::options().append(true).open(&path);
        let mut file = file.map_err(|error| format!("initdb has left no {}: {error}", path.display()))?;
        let (socket, kib, clients) = (self.scratch().display(), Bytes(pool).0.div_ceil(1024), clients + 10);
        write!(
            file,
            "listen_addresses = ''\nunix_socket_directories = '{socket}'\nport = 5432\nmax_connections = {clients}\n\
             shared_buffers = {kib}kB\nmax_wal_size = 96MB\nmin_wal_size = 48MB\ncheckpoint_timeout = 300s\nautovacuum = off\n\
             log_min_error_statement = panic\n"
        )
        .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A program of the server's version, as its user, whom no variable of the environment leads to another server.
    fn command(&self, program: &str) -> Command {
        let folder = self.place.path.parent().unwrap_or(Path::new("/"));
        let mut command = Command::new(folder.join(program));
        command.current_dir(self.place.directory).env_clear().env("PATH", folder).env("LC_ALL", "C");
        if let Some((user, group)) = self.user {
            command.gid(group).uid(user);
        }
        command
    }

    /// Where clients find the server.
    fn address(&self) -> [&std::ffi::OsStr; 6] {
        [
            "-h".as_ref(),
            self.scratch().as_os_str(),
            "-p".as_ref(),
            "5432".as_ref(),
            "-U".as_ref(),
            ROLE.as_ref(),
        ]
    }

    /// What a program prints; none after an interrupt. An error has what it and the server have printed last.
    fn client(&mut self, program: &str, arguments: &[&str], input: &str) -> Result<Option<String>, String> {
        let mut command = self.command(program);
        if self.running.is_some() {
            command.args(self.address());
        }
        let ended = self.group.run(command.args(arguments), input, self.place.how);
        match ended.map_err(|error| format!("{program}: {error}"))? {
            None => Ok(None),
            Some(ended) => {
                ended.success().map(Some).map_err(|told| self.with_log(&format!("{program}: {told}")))
            }
        }
    }

    /// What pgbench prints.
    pub(super) fn pgbench(&mut self, arguments: &[&str]) -> Result<Option<String>, String> {
        self.client("pgbench", &[arguments, &["postgres"]].concat(), "")
    }

    /// What statements print, without headings; the first that fails is an error.
    pub(super) fn sql(&mut self, statements: &str) -> Result<Option<String>, String> {
        let plain = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-f", "-"];
        self.client("psql", &plain, statements)
    }

    /// Whether it listens now; not after an interrupt. It tells in the last line of a file.
    fn wait_until_ready(&mut self) -> Result<bool, String> {
        let begin = sim::now();
        loop {
            let file = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            if file.lines().nth(7).is_some_and(|state| state.trim() == "ready") {
                return Ok(true);
            }
            if let Some(status) = self.ended()? {
                return Err(self.with_log(&format!("the server does not start: {status}")));
            }
            if self.place.how.is_interrupted() {
                return Ok(false);
            }
            if sim::now().since(begin) > PATIENCE {
                return Err(self.with_log(&format!("the server is not ready after {PATIENCE}")));
            }
            sim::sleep(LOOK);
        }
    }

    /// How the server has ended, if it has.
    fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        let Some((child, _)) = &mut self.running else { return Ok(None) };
        child.try_wait().map_err(|error| error.to_string())
    }

    fn with_log(&mut self, told: &str) -> String {
        let log = all_of(&mut self.log).unwrap_or_default();
        if log.is_empty() {
            told.to_owned()
        } else {
            format!("{told}; the server's log ends with: {}", last_lines(&log))
        }
    }

    /// Ends the server; an error if it has not ended as it was told.
    pub(super) fn stop(mut self) -> Result<(), String> {
        let status = self.shut_down();
        if status.is_some_and(|status| status.success()) {
            return Ok(());
        }
        let how =
            status.map_or_else(|| format!("it still ran after {PATIENCE}"), |status| status.to_string());
        Err(self.with_log(&format!("the server has not ended well: {how}")))
    }

    /// How it has ended, if it did after the fast shutdown.
    fn shut_down(&mut self) -> Option<ExitStatus> {
        let (mut child, _watcher) = self.running.take()?;
        self.group.end();
        let ended = signalled(&mut child, Signal::INT, PATIENCE);
        if ended.is_none() && signalled(&mut child, Signal::QUIT, Nanos::from_secs(10)).is_none() {
            signalled(&mut child, Signal::KILL, PATIENCE);
        }
        ended
    }
}

/// How a process ends after a signal, if it does in a time.
fn signalled(child: &mut Child, signal: Signal, patience: Nanos) -> Option<ExitStatus> {
    let begin = sim::now();
    // It fails if the process has ended.
    let _ = kill_process(Pid::from_child(child), signal);
    while sim::now().since(begin) < patience {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        sim::sleep(LOOK);
    }
    None
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.shut_down();
    }
}
