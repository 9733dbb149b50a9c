//! The end of a server: who has a pool open, and how a server says how it has left it.
//!
//! A server that was unmounted still has its pool open (`flock`) while it writes back what it had buffered. The list of locks names
//! its process, and the process's list of mounts says that it no longer serves a directory: such a pool is waited for, as is one
//! whose directory a running program is about to unmount; any other that is in use is refused.
//!
//! ```text
//!   weir umount ── listens on a socket of its own ── weir.end:SOCKET ──► server: connects
//!               ── umount(2) ──────────────────────────────────────────► server: writes back, leaves the pool
//!               ◄── "clean", or what has failed; nothing when the server was killed ── end of the process
//! ```

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::failure::{Exit, Failure};
use crate::{mounted, output};

/// How often a pool that is being left is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// After this long the wait is told, and then as often again.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// The longest wait: gigabytes onto a slow disk.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a server says that has left a clean pool.
const CLEAN: &str = "clean";

/// A wait for a server, of which its user is told.
struct Wait<'a> {
    pool: &'a Path,
    began: Instant,
    told: Duration,
}

impl<'a> Wait<'a> {
    fn for_pool(pool: &'a Path) -> Self {
        Self { pool, began: Instant::now(), told: Duration::ZERO }
    }

    /// Says that the server is still at work, now and then; fails when that has taken too long.
    fn goes_on(&mut self, server: Option<u32>) -> Result<(), Failure> {
        let (pool, waited) = (self.pool.display(), self.began.elapsed());
        let server = server.map_or_else(|| "the server".to_owned(), |server| format!("process {server}"));
        let secs = waited.as_secs();
        if waited >= PATIENCE {
            let what = format!(
                "{pool}: {server} has not left it after {secs} s: wait until that process has ended, then repeat this command"
            );
            return Err(Failure::new(Exit::Run, what));
        }
        if waited >= self.told + TELL_EVERY {
            output::say(&format!("waiting for {server}, which writes {pool} back ({secs} s)"));
            self.told = waited;
        }
        Ok(())
    }
}

/// Waits while a server that was unmounted has not left its pool yet. Any other that uses it is not waited for.
pub(crate) fn wait_until_left(pool: &Path) -> Result<(), Failure> {
    let mut wait = Wait::for_pool(pool);
    while let Some(server) = leaving(pool) {
        wait.goes_on(Some(server))?;
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Opens a pool once a server that was unmounted has left it. One that a program unmounts at the moment of opening is waited for,
/// too.
pub(crate) fn once_left<T, E>(
    pool: &Path,
    open: impl Fn() -> Result<T, E>,
    is_in_use: impl Fn(&E) -> bool,
) -> Result<Result<T, E>, Failure> {
    loop {
        wait_until_left(pool)?;
        match open() {
            Err(error) if is_in_use(&error) && leaving(pool).is_some() => {}
            opened => return Ok(opened),
        }
    }
}

/// The process of the server that has the pool open and serves no directory any more, or none but one that a program is about to
/// unmount.
fn leaving(pool: &Path) -> Option<u32> {
    let server = holder(pool)?;
    let command = std::fs::read(format!("/proc/{server}/cmdline")).ok()?;
    let mounts = command.split(|byte| *byte == 0).any(|argument| argument == b"mount");
    let serves = || {
        let stays = |dir: &PathBuf| !mounted::is_being_unmounted(dir);
        mounted::places_of(pool).iter().any(stays) || !mounted::places_elsewhere(pool, server).is_empty()
    };
    (mounts && !serves()).then_some(server)
}

/// What to do about a pool that is in use.
pub(crate) fn advice_in_use(pool: &Path) -> String {
    let (here, server) = (mounted::places_of(pool), holder(pool));
    let there = server.map(|server| mounted::places_elsewhere(pool, server)).unwrap_or_default();
    match (here.first(), there.first(), server) {
        (Some(dir), ..) => format!(": it is mounted on {0}; `weir umount {0}` ends that", dir.display()),
        (None, Some(dir), Some(server)) => {
            let dir = dir.display();
            format!(
                ": process {server} has mounted it on {dir} in another mount namespace; stop that service or container"
            )
        }
        (None, _, Some(process)) => format!(" (process {process})"),
        (None, ..) => String::new(),
    }
}

/// The process that has locked the file: `/proc/locks`, proc(5). None as well where it is out of sight, in another container.
fn holder(file: &Path) -> Option<u32> {
    let data = std::fs::metadata(file).ok()?;
    let device = mounted::device_of(file).unwrap_or_else(|| data.dev());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let id = format!("{major:02x}:{minor:02x}:{}", data.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    holder_in(&locks, &id)
}

fn holder_in(locks: &str, id: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, process, file, ..] = fields.as_slice() else { return None };
        (file == id).then(|| process.parse().ok().filter(|process| *process > 0)).flatten()
    })
}

/// The end of a server, as the program that unmounts it hears of it.
pub(crate) struct Report {
    /// None where it ended when it was asked, or before.
    stream: Option<UnixStream>,
    /// It had ended before it was asked: it was killed, or has ended itself.
    gone: bool,
}

impl Report {
    /// Asks the server of the mount on `dir` to say how it ends. None where it cannot: it is of an older version, or does not see
    /// the folder of temporary files. Fails if it does not answer.
    pub(crate) fn ask(dir: &Path, pool: &Path) -> Result<Option<Self>, Failure> {
        let Some(folder) = Folder::make() else { return Ok(None) };
        let socket = folder.0.join("end");
        let (Ok(listener), Some(asking)) = (UnixListener::bind(&socket), asking(dir, &socket)) else {
            return Ok(None);
        };
        Ok(match answer_to(asking, (dir, pool))? {
            Some(ASKED) => Self::of(&listener).ok(),
            Some(ABORTED) => Some(Self { stream: None, gone: false }),
            Some(GONE) => Some(Self { stream: None, gone: true }),
            _ => None,
        })
    }

    /// The server has connected before it answered.
    fn of(listener: &UnixListener) -> io::Result<Self> {
        let (stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(TELL_EVERY))?;
        Ok(Self { stream: Some(stream), gone: false })
    }

    /// Whether the server had ended before the unmount.
    pub(crate) fn has_gone(&self) -> bool {
        self.gone
    }

    /// Waits for the end of the server; fails unless it has left a clean pool.
    pub(crate) fn wait(self, pool: &Path) -> Result<(), Failure> {
        if self.gone {
            return Ok(());
        }
        let mut wait = Wait::for_pool(pool);
        let mut said = Vec::new();
        if let Some(mut stream) = self.stream {
            while let Err(error) = stream.read_to_end(&mut said) {
                match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => wait.goes_on(None)?,
                    _ => break,
                }
            }
        }
        let pool = pool.display();
        let what = match &*String::from_utf8_lossy(&said) {
            CLEAN => return Ok(()),
            "" => format!(
                "{pool}: the server ended before it had written everything back; the next mount recovers the pool as after a \
                 crash"
            ),
            failure => format!("the server failed after the unmount: {failure}"),
        };
        Err(Failure::new(Exit::Run, what))
    }
}

/// The end of a process that has asked a server: it will say how it ends; the mount was aborted; there is no server any more.
const ASKED: i32 = 0;
const ABORTED: i32 = 3;
const GONE: i32 = 4;
const REFUSED: i32 = 1;

/// The longest wait for the answer of a server.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// Starts the process that asks: a request that a server has read and does not answer holds its caller for good, even one that is
/// killed.
fn asking(dir: &Path, socket: &Path) -> Option<Child> {
    let mut asking = Command::new(std::env::current_exe().ok()?);
    asking.args(["umount", "--ask"]).arg(socket).arg(dir);
    asking.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

/// What that process does; returns its exit code.
pub(crate) fn ask_here(dir: &Path, socket: &Path) -> i32 {
    let Some(name) = fuse::end_xattr(socket) else { return REFUSED };
    match rustix::fs::getxattr(dir, name, &mut [0_u8; 1]) {
        Ok(_) => ASKED,
        Err(Errno::CONNABORTED) => ABORTED,
        Err(Errno::NOTCONN) => GONE,
        Err(_) => REFUSED,
    }
}

/// The exit code of the process that asks.
fn answer_to(mut asking: Child, (dir, pool): (&Path, &Path)) -> Result<Option<i32>, Failure> {
    let began = Instant::now();
    loop {
        match asking.try_wait() {
            Ok(None) if began.elapsed() < ANSWER_PATIENCE => std::thread::sleep(LOOK_EVERY),
            Ok(None) => break,
            ended => return Ok(ended.ok().flatten().and_then(|status| status.code())),
        }
    }
    // It may not end before the server does: it is not waited for.
    let _ = asking.kill();
    let (dir, secs) = (dir.display(), ANSWER_PATIENCE.as_secs());
    let server = holder(pool).map_or_else(|| "SERVER".to_owned(), |server| server.to_string());
    let what = format!(
        "the server of {dir} has not answered for {secs} s, and {dir} stays mounted: end the server with `kill -9 {server}`, then \
         `weir umount {dir}`; the next mount recovers the pool. `weir umount --lazy {dir}` only detaches the directory"
    );
    Err(Failure::new(Exit::Run, what))
}

/// A folder for this user alone, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Option<Self> {
        let names = (0..100).map(|n| format!("weir-umount-{}-{n}", std::process::id()));
        let mut paths = names.map(|name| std::env::temp_dir().join(name));
        paths.find(|path| std::fs::DirBuilder::new().mode(0o700).create(path).is_ok()).map(Self)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Who waits for the end of this server.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Vec<UnixStream>);

impl Waiting {
    /// Connects to the socket of one more that waits.
    pub(crate) fn add(&mut self, socket: &Path) -> io::Result<()> {
        // Those whose unmount was refused have gone.
        self.0.retain(|stream| is_open(stream).unwrap_or(false));
        self.0.push(UnixStream::connect(socket)?);
        Ok(())
    }

    /// Says how this server has left its pool; they wait until the connections are closed.
    pub(crate) fn tell(self, failed: Option<&Failure>) -> Vec<UnixStream> {
        let what = failed.map_or(CLEAN, |failure| &*failure.message);
        for mut stream in &self.0 {
            // It may have gone.
            let _ = stream.write_all(what.as_bytes());
        }
        self.0
    }
}

/// Whether the other end is there still; it never sends anything.
fn is_open(mut stream: &UnixStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let read = stream.read(&mut [0]);
    stream.set_nonblocking(false)?;
    Ok(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_unmounts_hears_how_the_server_has_ended() {
        let heard = |failed: Option<&Failure>| {
            let folder = Folder::make().expect("a folder");
            let socket = folder.0.join("end");
            let listener = UnixListener::bind(&socket).expect("a socket");
            let mut waiting = Waiting::default();
            waiting.add(&socket).expect("a connection");
            let report = Report::of(&listener).expect("a report");
            drop(waiting.tell(failed));
            report.wait(Path::new("pool"))
        };
        assert!(heard(None).is_ok());
        let failure = Failure::new(Exit::Run, "pool: the disk is broken");
        let told = heard(Some(&failure)).expect_err("it has failed");
        assert_eq!(told.exit, Exit::Run);
        assert!(told.message.contains("the disk is broken"), "{}", told.message);
    }

    #[test]
    fn the_list_of_locks_names_the_process_that_holds_one() {
        let locks = "1: POSIX  ADVISORY  WRITE 12 fd:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 fd:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 99 fd:01:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 fd:01:78 0 EOF\n";
        assert_eq!(holder_in(locks, "fd:01:77"), Some(4711));
        assert_eq!(holder_in(locks, "fd:01:78"), None, "it is in another container");
        assert_eq!(holder_in(locks, "fd:01:79"), None);
    }
}
