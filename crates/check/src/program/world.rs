//! Where a checker runs: its tree at the path where the program was recorded, as programs write absolute paths, and a network of
//! its own, which has nothing but its loopback. Both are namespaces of the thread that starts the checker (namespaces(7)); no other
//! program sees what is mounted there, and the kernel unmounts it when the thread and the checker have ended.
//!
//! They need `CAP_SYS_ADMIN`, which a user has in a user namespace of the process ([`enter`]). Where the host refuses that, a
//! checker runs in the scratch folder and with the host's network, and [`World::lacks`] says so.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::net::{AddressFamily, SendFlags, SocketType, send, socket};
use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, LinkNameSpaceType, capabilities, move_into_link_name_space};

/// Enters a user namespace in which this user may have mounts and networks of its own; nothing else changes. The process must have
/// one thread. What is refused here, [`World::new`] finds out.
pub fn enter() {
    let is_able = |own: rustix::thread::CapabilitySets| own.effective.contains(CapabilitySet::SYS_ADMIN);
    if capabilities(None).is_ok_and(is_able) {
        return;
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if unshare(CloneFlags::CLONE_NEWUSER).is_ok() {
        // user_namespaces(7): an unprivileged user maps itself, and its group after giving up setgroups(2).
        let _ = fs::write("/proc/self/uid_map", format!("{user} {user} 1"));
        let _ = fs::write("/proc/self/setgroups", "deny");
        let _ = fs::write("/proc/self/gid_map", format!("{group} {group} 1"));
    }
}

/// Where checkers run.
#[derive(Debug)]
pub struct World {
    /// The path at which they see their trees; none: where the trees are.
    at: Option<PathBuf>,
    /// The networks of workers; none: that of the host.
    networks: Option<Mutex<BTreeMap<usize, OwnedFd>>>,
    /// A sentence for each thing that was asked for and that the host has refused.
    pub lacks: Vec<String>,
}

impl World {
    /// With trees at `root`, and the host's network only if that is `shared`. `scratch`: a folder that has the trees.
    pub fn new(root: Option<&Path>, shared: bool, scratch: &Path) -> Self {
        let mut world = Self { at: None, networks: None, lacks: Vec::new() };
        match root.map(|root| (root, can_bind(root, scratch))) {
            Some((root, Ok(()))) => world.at = Some(root.to_owned()),
            Some((root, Err(why))) => world.lacks.push(format!(
                "the checker sees trees in a scratch folder, not at {}, where the program was recorded ({why}); --root-at PATH \
                 puts them elsewhere",
                root.display()
            )),
            None => {}
        }
        match alone(network) {
            _ if shared => {}
            Ok(first) => world.networks = Some(Mutex::new(BTreeMap::from([(0, first)]))),
            Err(why) => world.lacks.push(format!("the checker is not kept from the network ({why})")),
        }
        world
    }

    /// Whether trees are seen at the path where the program was recorded.
    pub fn is_bound(&self) -> bool {
        self.at.is_some()
    }

    /// Does something where the checker of a worker sees its tree, and says at which path that is.
    pub fn within<T: Send>(
        &self,
        worker: usize,
        tree: &Path,
        work: impl FnOnce(&Path) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        if self.at.is_none() && self.networks.is_none() {
            return work(tree);
        }
        alone(|| {
            if let Some(at) = &self.at {
                bind(tree, at)?;
            }
            if let Some(networks) = &self.networks {
                let mut networks = networks.lock().unwrap_or_else(PoisonError::into_inner);
                let own = match networks.get(&worker) {
                    Some(own) => own.try_clone()?,
                    None => networks.entry(worker).or_insert(alone(network)?).try_clone()?,
                };
                drop(networks);
                move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Network))?;
            }
            work(self.at.as_deref().unwrap_or(tree))
        })
    }
}

/// Does something in a thread of its own, whose namespaces end with it.
fn alone<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let joined = std::thread::scope(|scope| scope.spawn(work).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Leaves the mounts of the process, and puts a folder over another one.
fn bind(tree: &Path, at: &Path) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    // Nothing that is mounted here may be seen elsewhere.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    Ok(mount_bind(tree, at)?)
}

/// Whether a tree can be put at a path without hiding the scratch folder.
fn can_bind(root: &Path, scratch: &Path) -> Result<(), String> {
    if scratch.starts_with(root) {
        return Err("it has the scratch folder, too".to_owned());
    }
    if !fs::symlink_metadata(root).is_ok_and(|about| about.is_dir()) {
        return Err("it is not there any more".to_owned());
    }
    alone(|| bind(scratch, root)).map_err(|error| error.to_string())
}

/// A new network whose loopback is up.
fn network() -> io::Result<OwnedFd> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let made = File::open("/proc/thread-self/ns/net")?;
    let asks = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&asks, &loopback_up(), SendFlags::empty())?;
    Ok(made.into())
}

/// The request of rtnetlink(7) that sets the loopback, which is the first interface of every network, up.
fn loopback_up() -> Vec<u8> {
    const NEWLINK: u16 = 16;
    const REQUEST: u16 = 1;
    const UP: u32 = 1;
    let mut asked = Vec::new();
    // The header: its length with what follows, what, how, a number, to the kernel.
    asked.extend(32_u32.to_ne_bytes());
    asked.extend(NEWLINK.to_ne_bytes());
    asked.extend(REQUEST.to_ne_bytes());
    asked.extend([0; 8]);
    // The interface: of no family, of no type, number 1, the flags and which of them change.
    asked.extend([0; 4]);
    asked.extend(1_u32.to_ne_bytes());
    asked.extend(UP.to_ne_bytes());
    asked.extend(UP.to_ne_bytes());
    asked
}
