//! Users and groups of a process, and what permission bits allow them.
//!
//! The rules are Linux's, without capabilities: user 0 has all of them, other users have none. Errors follow
//! the kernel: `EACCES` when the bits of an inode deny, `EPERM` when only its owner or root may do a thing.

use bitflags::bitflags;

use crate::attr::{FileKind, NewInode, Owner, SetAttr, SetTime};
use crate::errno::{Errno, Result};

/// Set-user-id.
pub(crate) const SETUID: u32 = 0o4000;
/// Set-group-id.
pub(crate) const SETGID: u32 = 0o2000;
/// Sticky.
pub(crate) const STICKY: u32 = 0o1000;
/// Execution by the group.
pub(crate) const GROUP_EXECUTE: u32 = 0o010;
const ANY_EXECUTE: u32 = 0o111;
const OTHERS_WRITE: u32 = 0o002;

bitflags! {
    /// Kinds of access to an inode, in the bits of a mode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u32 {
        /// Executing a file, searching a directory.
        const EXECUTE = 1;
        /// Writing.
        const WRITE = 2;
        /// Reading.
        const READ = 4;
    }
}

/// User, group and supplementary groups of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    uid: u32,
    gid: u32,
    groups: Box<[u32]>,
}

/// The part of an inode's attributes that permission depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its kind.
    pub kind: FileKind,
    /// Its permission bits.
    pub perm: u32,
    /// Its owner.
    pub owner: Owner,
}

impl Credentials {
    /// A user with a group and supplementary groups.
    pub fn new(uid: u32, gid: u32, groups: &[u32]) -> Self {
        Self { uid, gid, groups: groups.into() }
    }

    /// The superuser.
    pub fn root() -> Self {
        Self::new(0, 0, &[])
    }

    /// Those of the process that runs this program.
    pub fn of_this_process() -> Self {
        let groups: Vec<u32> = rustix::process::getgroups()
            .unwrap_or_default()
            .into_iter()
            .map(rustix::process::Gid::as_raw)
            .collect();
        Self::new(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw(), &groups)
    }

    /// User and group.
    pub fn owner(&self) -> Owner {
        Owner { uid: self.uid, gid: self.gid }
    }

    /// Whether this is the superuser.
    #[inline]
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether `gid` is the group or one of the supplementary groups.
    pub(crate) fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    fn owns(&self, subject: &Subject) -> bool {
        self.is_root() || self.uid == subject.owner.uid
    }

    /// `EACCES` unless the bits allow everything in `want`. Exactly one of the three classes counts: the
    /// owner's bits for the owner even when the group's would allow more. Root lacks only the execution of a
    /// file that no class may execute.
    pub fn check(&self, subject: &Subject, want: Access) -> Result<()> {
        let allowed = if self.is_root() {
            let executable = subject.kind == FileKind::Directory || subject.perm & ANY_EXECUTE != 0;
            if executable { Access::all() } else { Access::READ | Access::WRITE }
        } else {
            Access::from_bits_truncate(subject.perm >> self.class_shift(subject.owner))
        };
        if allowed.contains(want) { Ok(()) } else { Err(Errno::EACCES) }
    }

    fn class_shift(&self, owner: Owner) -> u32 {
        if self.uid == owner.uid {
            6
        } else if self.in_group(owner.gid) {
            3
        } else {
            0
        }
    }

    /// `EPERM` unless this is the owner or root.
    pub fn check_owner(&self, subject: &Subject) -> Result<()> {
        if self.owns(subject) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Whether the name of `victim` may be taken out of `dir`: `EACCES` without the right to write and search
    /// it, `EPERM` in a sticky directory for a user who owns neither.
    pub fn check_removal(&self, dir: &Subject, victim: &Subject) -> Result<()> {
        self.check(dir, Access::WRITE | Access::EXECUTE)?;
        let sticky = dir.perm & STICKY != 0;
        if sticky && !self.owns(dir) && !self.owns(victim) { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Whether an open with `O_CREAT` may find `found` in `dir`: `EACCES` for a symbolic link, socket or device of another user,
    /// who does not own the directory either, in a sticky directory that all may write to. Root is no exception. So does Linux
    /// since 4.19 (`may_create_in_sticky`); for files and pipes it depends on sysctls there, which are off here.
    pub(crate) fn check_found_by_create(&self, dir: &Subject, found: &Subject) -> Result<()> {
        let exempt = matches!(found.kind, FileKind::Regular | FileKind::Fifo | FileKind::Directory);
        let shared = dir.perm & STICKY != 0 && dir.perm & OTHERS_WRITE != 0;
        let owners = [self.uid, dir.owner.uid];
        if shared && !exempt && !owners.contains(&found.owner.uid) { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// What a new inode of `kind` in `dir` starts with, when the process asks for `mode` under `umask`. In a
    /// set-group-id directory it gets the directory's group, and a directory the bit too; a file keeps the
    /// bit of its own only when its maker is in that group.
    pub fn new_inode(&self, dir: &Subject, kind: FileKind, mode: u32, umask: u32) -> NewInode {
        let mut owner = self.owner();
        let mut perm = mode & !umask & if kind == FileKind::Directory { 0o1777 } else { 0o7777 };
        if dir.perm & SETGID != 0 {
            owner.gid = dir.owner.gid;
            if kind == FileKind::Directory {
                perm |= SETGID;
            } else if mode & GROUP_EXECUTE != 0 && !self.may_set_gid(owner.gid) {
                perm &= !SETGID;
            }
        }
        NewInode { perm, owner }
    }

    fn may_set_gid(&self, gid: u32) -> bool {
        self.is_root() || self.in_group(gid)
    }

    /// The permission bits that remain when this user changes the contents of a regular file: root leaves
    /// all, others clear set-user-id, and set-group-id where it means what it says.
    pub fn perm_after_write(&self, subject: &Subject) -> u32 {
        if self.is_root() || subject.kind != FileKind::Regular {
            subject.perm
        } else {
            self.without_set_id(subject)
        }
    }

    /// The permission bits that remain when this user has changed the owner of an inode: root keeps no more of
    /// them than others, but for the set-group-id bit of a file that the group may not execute.
    pub fn perm_after_chown(&self, subject: &Subject) -> u32 {
        if subject.kind == FileKind::Directory { subject.perm } else { self.without_set_id(subject) }
    }

    fn without_set_id(&self, subject: &Subject) -> u32 {
        let mut perm = subject.perm & !SETUID;
        if perm & GROUP_EXECUTE != 0 || !self.may_set_gid(subject.owner.gid) {
            perm &= !SETGID;
        }
        perm
    }

    /// Whether `set` is allowed, and what it comes to: a changed owner clears the set-id bits of what is not
    /// a directory, and a user outside the group cannot set set-group-id. The size is not looked at.
    pub(crate) fn check_setattr(&self, subject: &Subject, set: &SetAttr) -> Result<SetAttr> {
        let mut allowed = *set;
        if set.uid.is_some() || set.gid.is_some() {
            self.check_chown(subject, set)?;
            if set.perm.is_none() {
                let perm = self.perm_after_chown(subject);
                allowed.perm = (perm != subject.perm).then_some(perm);
            }
        }
        if let Some(perm) = set.perm {
            self.check_owner(subject)?;
            let gid = set.gid.unwrap_or(subject.owner.gid);
            let denied = if self.may_set_gid(gid) { 0 } else { SETGID };
            allowed.perm = Some(perm & 0o7777 & !denied);
        }
        self.check_times(subject, set)?;
        Ok(allowed)
    }

    fn check_chown(&self, subject: &Subject, set: &SetAttr) -> Result<()> {
        let uid_kept = set.uid.is_none_or(|uid| uid == subject.owner.uid);
        let gid_ours = set.gid.is_none_or(|gid| gid == subject.owner.gid || self.in_group(gid));
        let owner_may = self.uid == subject.owner.uid && uid_kept && gid_ours;
        if self.is_root() || owner_may { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// A user with the right to write may set both times to the present; only the owner may set other times.
    fn check_times(&self, subject: &Subject, set: &SetAttr) -> Result<()> {
        match (set.atime, set.mtime) {
            (None, None) => Ok(()),
            (Some(SetTime::Now), Some(SetTime::Now)) => {
                self.check_owner(subject).or_else(|_| self.check(subject, Access::WRITE))
            }
            _ => self.check_owner(subject),
        }
    }
}
