//! Exim under the load of FxMark's study (`docs/applications.md`): clients that send messages of a line, each to a mailbox of its
//! own, a hundred in a connection. Each connection is an Exim that speaks SMTP on pipes (`-bs`), and delivers beside the next
//! message.
//!
//! | place | holds |
//! |---|---|
//! | `DIR/config`, `passwd`, `group` | what Exim reads; root's |
//! | `DIR/spool` | the spool, split, with the logs; of the user `Debian-exim` |
//! | `DIR/mail` | a mailbox for each client |
//!
//! Exim refuses to run without its user. It is started by threads with mounts of their own, where `/etc/passwd` and `/etc/group`
//! have it; the kernel unmounts that when the last of its processes has ended.

use std::fmt::Display;
use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use nix::sched::{CloneFlags, unshare};
use results::OperationRecord;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::process::geteuid;
use sim::Nanos;

use super::process::{Group, LOOK, last_lines, located, numbers};
use super::smtp::Session;
use super::{Counted, Place, Real, Started};
use crate::app::variables::{MAX_CLIENTS, Reader};
use crate::suite::{LoadError, Phase};

pub(super) const PROGRAM: Real = Real { name: "exim", find, clients: "clients", is_timed: true, read };

const USER: &str = "Debian-exim";
const PANICKED: &str = "a client has panicked";
/// Its numbers where the host has no such user; those of a system's users are below 1000 (Debian Policy, 9.2.2).
const NUMBERS: (u32, u32) = (990, 990);
/// Exim waits 3 s, up to ten times, for a mailbox that another delivery has locked (specification, appendfile, lock_interval).
const PATIENCE: Nanos = Nanos::from_secs(60);
/// The digits of a directory of a split spool (specification, split_spool_directory).
const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

struct Exim {
    clients: u64,
    messages: u64,
}

fn find() -> Result<PathBuf, String> {
    let path = located("exim4", "exim4-daemon-light")?;
    if geteuid().is_root() {
        Ok(path)
    } else {
        Err("Exim takes a configuration of root's alone: run this as root".to_owned())
    }
}

fn read(reader: &mut Reader) -> Result<Box<dyn Started>, LoadError> {
    let clients = reader.count("clients", 160, 1..=MAX_CLIENTS)?;
    let messages = reader.count("messages", 100, 1..=1_000_000)?;
    Ok(Box::new(Exim { clients, messages }))
}

impl Started for Exim {
    fn run(&self, place: &Place<'_>, watch: &mut dyn FnMut(Phase)) -> Result<Option<Counted>, String> {
        let files = Files::make(place, self.clients).map_err(|error| error.to_string())?;
        let group = Group::new().map_err(|error| error.to_string())?;
        let load = Load {
            place,
            files: &files,
            group: &group,
            is_over: AtomicBool::new(false),
            taken: AtomicU64::new(0),
        };
        let counted = self.measure(&load, watch).map_err(|told| files.with_logs(&told))?;
        let Some(counted) = counted else { return Ok(None) };
        if !load.wait_until_delivered()? {
            return Ok(None);
        }
        files.check(load.taken.load(Relaxed))?;
        Ok(Some(counted))
    }
}

/// What all clients share.
struct Load<'r> {
    place: &'r Place<'r>,
    files: &'r Files,
    group: &'r Group,
    is_over: AtomicBool,
    taken: AtomicU64,
}

impl Exim {
    /// Lets the clients work for the time of the run, and counts what was delivered in it.
    fn measure(&self, load: &Load<'_>, watch: &mut dyn FnMut(Phase)) -> Result<Option<Counted>, String> {
        watch(Phase::Begins);
        let end = sim::now() + Nanos::from_secs(load.place.seconds);
        std::thread::scope(|scope| {
            let clients = scope.spawn(|| self.clients(load));
            while sim::now() < end && !clients.is_finished() && !load.place.how.is_interrupted() {
                sim::sleep(LOOK.min(end.since(sim::now())));
            }
            let delivered = load.files.completed();
            watch(Phase::Ends);
            load.is_over.store(true, Relaxed);
            while !clients.is_finished() {
                if load.place.how.is_interrupted() {
                    load.group.end();
                }
                sim::sleep(LOOK);
            }
            let done = clients.join().map_err(|_| PANICKED.to_owned())?;
            if load.place.how.is_interrupted() {
                return Ok(None);
            }
            done?;
            counted(delivered.map_err(|error| error.to_string())?).map(Some)
        })
    }

    /// The clients, with mounts that they share with no other thread; the first that fails ends the others.
    fn clients(&self, load: &Load<'_>) -> Result<(), String> {
        load.files.mount_users()?;
        let client = |number| self.client(load, number).inspect_err(|_| load.is_over.store(true, Relaxed));
        std::thread::scope(|scope| {
            let clients: Vec<_> =
                (0..self.clients).map(|number| scope.spawn(move || client(number))).collect();
            let ended = clients.into_iter().map(|client| client.join().map_err(|_| PANICKED.to_owned())?);
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// Connections until the time is over.
    fn client(&self, load: &Load<'_>, client: u64) -> Result<(), String> {
        let recipient = mailbox(client);
        while !load.is_over.load(Relaxed) {
            let mut command = Command::new(load.place.path);
            command.arg("-C").arg(load.files.path("config")).arg("-bs").current_dir("/");
            let mut session = Session::open(&mut command, load.group)?;
            for _ in 0..self.messages {
                session.send(&recipient)?;
                load.taken.fetch_add(1, Relaxed);
                if load.is_over.load(Relaxed) {
                    break;
                }
            }
            session.close()?;
        }
        Ok(())
    }
}

impl Load<'_> {
    /// Whether the spool is empty now; not after an interrupt. An error if no message was delivered for long.
    fn wait_until_delivered(&self) -> Result<bool, String> {
        let told = |error: io::Error| error.to_string();
        let (mut left, mut since) = (u64::MAX, sim::now());
        loop {
            let now = count_files(&self.files.path("spool/input")).map_err(told)?;
            if self.place.how.is_interrupted() {
                return Ok(false);
            }
            if now == 0 {
                return Ok(true);
            }
            if now != left {
                (left, since) = (now, sim::now());
            } else if sim::now().since(since) > PATIENCE {
                let told = format!("{left} files are left in the spool, and none was removed in {PATIENCE}");
                return Err(self.files.with_logs(&told));
            }
            sim::sleep(LOOK);
        }
    }
}

/// A run that has delivered so many messages.
fn counted(delivered: u64) -> Result<Counted, String> {
    if delivered == 0 {
        return Err("no message was delivered in the time of the run: give it a longer --runtime".to_owned());
    }
    let operation = OperationRecord { count: delivered, ..OperationRecord::new("message") };
    Ok(Counted {
        ops: delivered,
        operations: vec![operation],
        unsaid: Some("Exim counts messages and no bytes"),
        ..Counted::default()
    })
}

/// What lies in the directory under test.
struct Files(PathBuf);

impl Files {
    fn make(place: &Place<'_>, clients: u64) -> io::Result<Self> {
        let files = Self(place.directory.to_owned());
        set_permissions(place.directory, Permissions::from_mode(0o711))?;
        let passwd = std::fs::read_to_string("/etc/passwd")?;
        let owner = numbers(&passwd, USER).unwrap_or(NUMBERS);
        let group = std::fs::read_to_string("/etc/group")?;
        let line = format!("{USER}:x:{}:", owner.1);
        std::fs::write(files.path("group"), with_line(&group, &line))?;
        let line = format!("{USER}:x:{}:{}::/nonexistent:/bin/false", owner.0, owner.1);
        std::fs::write(files.path("passwd"), with_line(&passwd, &line))?;
        std::fs::write(files.path("config"), configuration(place.directory, clients))?;
        for name in ["config", "passwd", "group"] {
            set_permissions(files.path(name), Permissions::from_mode(0o644))?;
        }
        let mut folders = ["spool", "spool/log", "spool/db", "spool/input", "spool/msglog", "mail"]
            .map(str::to_owned)
            .to_vec();
        // Exim makes the directory of a second when it needs it: the first message in it would do more than the others.
        let split =
            |of: &'static str| DIGITS.iter().map(move |digit| format!("spool/{of}/{}", char::from(*digit)));
        folders.extend(split("input").chain(split("msglog")));
        for folder in folders {
            DirBuilder::new().mode(0o750).create(files.path(&folder))?;
            chown(files.path(&folder), Some(owner.0), Some(owner.1))?;
        }
        Ok(files)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Gives this thread mounts of its own, with users and groups that have Exim's.
    fn mount_users(&self) -> Result<(), String> {
        let refused = |error: &dyn Display| {
            format!("this process may not have mounts of its own (CAP_SYS_ADMIN, unshare(2)): {error}")
        };
        unshare(CloneFlags::CLONE_NEWNS).map_err(|error| refused(&error))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).map_err(|error| refused(&error))?;
        for (name, over) in [("passwd", "/etc/passwd"), ("group", "/etc/group")] {
            mount_bind(self.path(name), over).map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    fn log(&self, name: &str) -> io::Result<String> {
        match std::fs::read(self.path("spool/log").join(name)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error),
        }
    }

    /// Messages that the log has as done.
    fn completed(&self) -> io::Result<u64> {
        Ok(self.log("mainlog")?.lines().filter(|line| line.ends_with(" Completed")).count() as u64)
    }

    /// What went wrong, with the end of Exim's logs.
    fn with_logs(&self, told: &str) -> String {
        let of = |name: &str| self.log(name).ok().filter(|log| !log.is_empty());
        match of("paniclog").or_else(|| of("mainlog")) {
            Some(log) => format!("{told}; Exim's log ends with: {}", last_lines(&log)),
            None => told.to_owned(),
        }
    }

    /// As many messages as were taken must be in mailboxes, and be logged as completed.
    fn check(&self, taken: u64) -> Result<(), String> {
        let told = |error: io::Error| error.to_string();
        let completed = self.completed().map_err(told)?;
        let mut delivered = 0;
        for entry in std::fs::read_dir(self.path("mail")).map_err(told)? {
            let mailbox = std::fs::read(entry.map_err(told)?.path()).map_err(told)?;
            delivered += messages_of(&mailbox);
        }
        agree(taken, delivered, completed).map_err(|told| self.with_logs(&told))
    }
}

fn agree(taken: u64, delivered: u64, completed: u64) -> Result<(), String> {
    if (delivered, completed) == (taken, taken) {
        return Ok(());
    }
    Err(format!(
        "{taken} messages were taken, {delivered} are in mailboxes, {completed} are logged as completed"
    ))
}

/// Messages of a mailbox, by the line that begins each of them.
fn messages_of(mailbox: &[u8]) -> u64 {
    mailbox.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"From ")).count() as u64
}

/// A file of users or groups that has a line for Exim's, if it had none.
fn with_line(text: &str, line: &str) -> String {
    let is_there = text.lines().any(|known| known.starts_with(&format!("{USER}:")));
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    if is_there { text.to_owned() } else { format!("{text}{end}{line}\n") }
}

fn count_files(folder: &Path) -> io::Result<u64> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        count += if entry.file_type()?.is_dir() { count_files(&entry.path())? } else { 1 };
    }
    Ok(count)
}

fn mailbox(client: u64) -> String {
    format!("user{client}")
}

/// That of the study, with a name for each mailbox, which Exim wants to know before it takes one from an address.
fn configuration(directory: &Path, clients: u64) -> String {
    let directory = directory.display();
    let mailboxes: Vec<String> = (0..clients).map(mailbox).collect();
    format!(
        "primary_hostname = mail.example
exim_user = {USER}
exim_group = {USER}
spool_directory = {directory}/spool
log_file_path = {directory}/spool/log/%slog
split_spool_directory
deliver_drop_privilege
smtp_accept_queue_per_connection = 0
smtp_accept_max_per_connection = 0
host_lookup =
tls_advertise_hosts =
keep_environment =
acl_smtp_rcpt = accepted
begin acl
accepted:
  accept
begin routers
local:
  driver = accept
  local_parts = {}
  transport = mailbox
begin transports
mailbox:
  driver = appendfile
  file = {directory}/mail/$local_part_data
  use_lockfile = false
  no_check_owner
  delivery_date_add
  envelope_to_add
  return_path_add
  user = {USER}
  group = {USER}
",
        mailboxes.join(" : ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_lost_or_delivered_twice_is_an_error_with_the_three_counts() {
        agree(7, 7, 7).unwrap();
        for (taken, delivered, completed) in [(7, 6, 7), (7, 8, 7), (7, 7, 6)] {
            let told = agree(taken, delivered, completed).unwrap_err();
            let expected =
                format!("{taken} messages were taken, {delivered} are in mailboxes, {completed} are logged");
            assert!(told.starts_with(&expected), "{told}");
        }
        assert_eq!(messages_of(b"From a\nFrom: a\n\nthe body\n\nFrom b\nx\n"), 2);
        assert!(counted(0).is_err());
    }

    #[test]
    fn a_user_is_added_where_there_is_none() {
        assert_eq!(with_line("root:x:0:", "Debian-exim:x:990:"), "root:x:0:\nDebian-exim:x:990:\n");
        let has = "Debian-exim:x:105:\n";
        assert_eq!(with_line(has, "Debian-exim:x:990:"), has);
    }

    #[test]
    fn the_configuration_names_every_mailbox_and_puts_all_below_the_directory() {
        let text = configuration(Path::new("/mnt/x"), 3);
        assert!(text.contains("local_parts = user0 : user1 : user2\n"), "{text}");
        assert_eq!(text.matches("/mnt/x/").count(), 3, "{text}");
    }
}
