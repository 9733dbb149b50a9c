//! Where the names of a process lead: its working directory and root, symbolic links, and calls after which names lead elsewhere.
//!
//! Paths of a process that has called `chroot` begin at its root. What is mounted, and what another mount namespace has, no line
//! says: a `mount` at or above a file below a root, a bind mount, `pivot_root` and entering a mount namespace are losses.
//!
//! While a program is recorded, a path that is below no root as text is looked up on the host, because a symbolic link on it may
//! lead below one. What was found is kept until a name outside the roots changes. Of a text alone only `-y` says where an opened
//! path has led: the directory of the path is then another name of the one that was opened.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::args::{self, FdRef};
use super::{Importer, Lost};
use crate::scope::{join, normal};

/// What a process shares with others by `CLONE_FS`.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The working directory as the host has it, if it is known.
    pub(super) cwd: Option<Box<[u8]>>,
    /// The root as the host has it, without a slash at the end; empty where it is the host's.
    pub(super) root: Box<[u8]>,
}

/// A path as a call names it, and whether the call follows a link in its last component.
type Asked = (Box<[u8]>, bool);

/// Where paths lead that are below no root as text.
#[derive(Debug, Default)]
pub(super) struct Links {
    found: FxHashMap<Asked, Option<Box<[u8]>>>,
}

impl Links {
    /// The path without symbolic links, on the last component only if the call follows one there.
    fn real(&mut self, path: &[u8], follows: bool) -> Option<Box<[u8]>> {
        let key = (path.into(), follows);
        if let Some(known) = self.found.get(&key) {
            return known.clone();
        }
        let real = real(path, follows);
        self.found.insert(key, real.clone());
        real
    }
}

fn real(path: &[u8], follows: bool) -> Option<Box<[u8]>> {
    let whole = |path: &[u8]| {
        let found = fs::canonicalize(Path::new(OsStr::from_bytes(path))).ok()?;
        Some(Box::<[u8]>::from(found.as_os_str().as_bytes()))
    };
    if let Some(found) = follows.then(|| whole(path)).flatten() {
        return Some(found);
    }
    let at = path.iter().rposition(|byte| *byte == b'/')?;
    let directory = whole(if at == 0 { b"/" } else { &path[..at] })?;
    Some(join(&directory, &path[at + 1..]).into())
}

/// What `/proc/self/fd/3/more`, `/dev/fd/3` and the like name: the descriptor, and what stands behind.
fn magic(path: &[u8], pid: u32) -> Option<(i32, &[u8])> {
    let standard = [(&b"/dev/stdin"[..], 0), (b"/dev/stdout", 1), (b"/dev/stderr", 2)];
    if let Some((_, fd)) = standard.iter().find(|(name, _)| *name == path) {
        return Some((*fd, b""));
    }
    let own = format!("/proc/{pid}/fd/");
    let starts = [&b"/proc/self/fd/"[..], b"/proc/thread-self/fd/", b"/dev/fd/", own.as_bytes()];
    let rest = starts.iter().find_map(|start| path.strip_prefix(*start))?;
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let fd = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((fd, rest[end..].strip_prefix(b"/").unwrap_or_default()))
}

/// Where a path leads, as far as it is known.
#[derive(Debug)]
pub(super) struct Leads {
    /// The path as the host has it.
    pub(super) real: Vec<u8>,
    /// The directory to which it is relative is not known.
    pub(super) is_unknown: bool,
}

const APART: &str = "a thread has descriptors of its own from there, which no record says";
const ELSEWHERE: &str = "after it names may lead elsewhere than recorded calls have shown";

impl<W: Write> Importer<W> {
    /// A place like another.
    pub(super) fn own_place(&mut self, place: usize) -> usize {
        self.places.push(self.places[place].clone());
        self.places.len() - 1
    }

    /// A path of a call, in a directory or the working directory.
    pub(super) fn leads(&mut self, tid: u32, directory: Option<&FdRef>, path: &[u8]) -> Leads {
        let (table, place, pid) = (self.runner(tid).table, self.runner(tid).place, self.runner(tid).pid);
        if path.first() == Some(&b'/') {
            if let Some((fd, rest)) = magic(path, pid) {
                let slot = self.tables[table].get(&fd).and_then(|slot| slot.path.clone());
                let slot = slot.filter(|path| path.first() == Some(&b'/'));
                let is_unknown = !self.tables[table].contains_key(&fd);
                return match slot {
                    Some(of_fd) if rest.is_empty() => Leads { real: of_fd.into(), is_unknown: false },
                    Some(of_fd) => Leads { real: join(&of_fd, rest), is_unknown: false },
                    None => Leads { real: path.to_vec(), is_unknown },
                };
            }
            let root = &self.places[place].root;
            // Nothing leads above a root.
            let real = if root.is_empty() { path.to_vec() } else { [&**root, &normal(path)].concat() };
            return Leads { real, is_unknown: false };
        }
        match self.directory(tid, directory) {
            Some(directory) => Leads { real: join(&directory, path), is_unknown: false },
            None => Leads { real: join(b"/", path), is_unknown: true },
        }
    }

    /// The directory that a path is relative to; none where it is not known.
    pub(super) fn directory(&mut self, tid: u32, of: Option<&FdRef>) -> Option<Vec<u8>> {
        let (table, place) = (self.runner(tid).table, self.runner(tid).place);
        match of {
            Some(FdRef { number: None, beside: Some(beside) }) => {
                self.places[place].cwd = Some(beside.clone());
                Some(beside.to_vec())
            }
            Some(FdRef { number: Some(_), beside: Some(beside) }) => Some(beside.to_vec()),
            Some(FdRef { number: Some(fd), beside: None }) => {
                self.tables[table].get(fd).and_then(|slot| slot.path.clone()).map(Vec::from)
            }
            _ => self.places[place].cwd.clone().map(Vec::from),
        }
    }

    /// The path below a root to which links on a path lead, if they do.
    pub(super) fn inside_by_links(&mut self, real: &[u8], follows: bool) -> Option<(Vec<u8>, Box<[u8]>)> {
        let found = self.links.as_mut()?.real(&normal(real), follows)?;
        let inside = self.scope.inside(&found)?;
        Some((found.into(), inside))
    }

    /// A link outside the roots may have come or moved.
    pub(super) fn forget_links(&mut self) {
        if let Some(links) = &mut self.links {
            links.found.clear();
        }
    }

    /// An opened path has led below a root, as `-y` says, and does not as text: its directory is another name of the one there.
    pub(super) fn learn_alias(&mut self, tid: u32, full: &[u8], led: &[u8]) {
        let (full, led) = (normal(full), normal(led));
        let parts = |path: &[u8]| -> Vec<usize> {
            path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect()
        };
        let (mut one, mut other) = (full.len(), led.len());
        for (at, at_other) in parts(&full).into_iter().rev().zip(parts(&led).into_iter().rev()) {
            if full[at..one] != led[at_other..other] {
                break;
            }
            (one, other) = (at, at_other);
        }
        if self.links.is_some() || one == full.len() || one == 0 || full.starts_with(b"/proc/") {
            return;
        }
        self.scope.alias(&full[..one], &led[..other]);
        let number = self.runner(tid).number;
        let why = "calls by names that lead through a symbolic link, of which the text says it only here";
        self.lose(number, 0, 1, Lost { name: b"open", why });
    }

    /// Calls that change where names lead. False: it is none of them.
    pub(super) fn moves_names(
        &mut self,
        tid: u32,
        name: &[u8],
        text: &[u8],
        (times, result): ((u64, u64), i64),
    ) -> bool {
        const NAMES: [&[u8]; 8] =
            [b"chroot", b"unshare", b"setns", b"pivot_root", b"move_mount", b"mount", b"umount2", b"umount"];
        if !NAMES.contains(&name) {
            return false;
        }
        let all = args::split(text);
        let arg = |at: usize| all.get(at).copied().unwrap_or_default();
        let is_done = result >= 0;
        let loses = match name {
            b"chroot" => {
                self.new_root(tid, arg(0), is_done);
                false
            }
            b"unshare" => {
                self.unshared(tid, arg(0), is_done);
                false
            }
            b"setns" => is_done && (args::has(arg(1), "CLONE_NEWNS") || arg(1).starts_with(b"0")),
            b"pivot_root" | b"move_mount" => is_done,
            b"mount" => is_done && self.is_mount_seen(tid, arg(1), arg(3)),
            _ => is_done && self.is_mount_seen(tid, arg(0), b""),
        };
        let number = self.runner(tid).number;
        if loses {
            self.lose(number, times.1, 1, Lost { name, why: ELSEWHERE });
        } else {
            self.out.skip(number, times.1, "calls on roots, mounts and namespaces");
        }
        self.forget_links();
        true
    }

    fn new_root(&mut self, tid: u32, path: &[u8], is_done: bool) {
        let Some((path, _)) = args::string(path).filter(|_| is_done) else { return };
        let leads = self.leads(tid, None, &path);
        let place = self.runner(tid).place;
        let root = normal(&leads.real);
        self.places[place].root = if root == b"/" { Box::default() } else { root.into() };
    }

    fn unshared(&mut self, tid: u32, flags: &[u8], is_done: bool) {
        if !is_done {
            return;
        }
        if args::has(flags, "CLONE_FILES") {
            let shared = self.runner(tid).table;
            let number = self.runner(tid).number;
            if self.threads.values().filter(|runner| runner.table == shared).count() > 1 {
                self.lose(number, 0, 1, Lost { name: b"unshare", why: APART });
            }
            self.tables.push(self.tables[shared].clone());
            self.runner(tid).table = self.tables.len() - 1;
        }
        if args::has(flags, "CLONE_FS") || args::has(flags, "CLONE_NEWNS") {
            let place = self.runner(tid).place;
            self.runner(tid).place = self.own_place(place);
        }
    }

    /// Whether a mount may change where names of files below a root lead, or give them others. One that only says with which other
    /// namespaces it is shared does not.
    fn is_mount_seen(&mut self, tid: u32, target: &[u8], flags: &[u8]) -> bool {
        const SHARING: [&str; 4] = ["MS_PRIVATE", "MS_SLAVE", "MS_SHARED", "MS_UNBINDABLE"];
        if SHARING.iter().any(|word| args::has(flags, word)) {
            return false;
        }
        if args::has(flags, "MS_BIND") || args::has(flags, "MS_MOVE") {
            return true;
        }
        let Some((path, _)) = args::string(target) else { return true };
        let real = normal(&self.leads(tid, None, &path).real);
        let is_above = |root: &[u8]| {
            real == b"/" || root.strip_prefix(&*real).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        self.scope.inside(&real).is_some() || self.scope.roots().any(is_above)
    }
}
