//! Attributes, the working directory, extended attributes.

use super::{OpenFile, Process};
use crate::attr::{FileKind, SetAttr};
use crate::credentials::{Access, STICKY};
use crate::errno::{Errno, Result};
use crate::flags::XattrMode;
use crate::syscalls::check_offset;
use crate::vnode::Vnode;
use crate::walk::Reached;
use crate::xattr::{self, Namespace};

impl Process {
    pub(super) fn change_directory(&self, path: &[u8]) -> Result<()> {
        let dir = self.resolve(path, true)?;
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        self.check(&dir, Access::EXECUTE)?;
        let before = std::mem::replace(&mut *self.cwd.lock(), dir.keep());
        drop(before);
        self.mount.reap();
        Ok(())
    }

    pub(super) fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        let vnode = self.resolve(path, false)?;
        if vnode.kind != FileKind::Symlink {
            return Err(Errno::EINVAL);
        }
        let target = self.mount.file_system().readlink(vnode.ino)?;
        self.mount.accessed(&vnode);
        Ok(target)
    }

    pub(super) fn truncate_path(&self, path: &[u8], size: u64) -> Result<()> {
        check_offset(size)?;
        let vnode = self.resolve(path, true)?;
        self.check_truncate(&vnode)?;
        self.set_size(&vnode, size)
    }

    fn check_truncate(&self, vnode: &Vnode) -> Result<()> {
        match vnode.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        self.mount.check_writable()?;
        self.check(vnode, Access::WRITE)
    }

    pub(super) fn change_attributes(&self, vnode: &Vnode, set: &SetAttr) -> Result<()> {
        self.mount.check_writable()?;
        if set.size.is_some() {
            self.check_truncate(vnode)?;
        }
        let others = SetAttr { size: None, ..*set };
        if let Some(size) = set.size {
            self.who.check_setattr(&vnode.subject(), &others)?;
            self.set_size(vnode, size)?;
        }
        if others == SetAttr::default() {
            return Ok(());
        }
        self.mount.setattr(vnode, |subject| self.who.check_setattr(subject, &others))
    }

    /// Of a link, owner and times can be changed.
    pub(super) fn change_link(&self, vnode: &Vnode, set: &SetAttr) -> Result<()> {
        if vnode.kind == FileKind::Symlink && (set.perm.is_some() || set.size.is_some()) {
            return Err(Errno::EOPNOTSUPP);
        }
        self.change_attributes(vnode, set)
    }

    /// The size changes by the right with which the file was opened, the rest as by path.
    pub(super) fn change_file(&self, file: &OpenFile, set: &SetAttr) -> Result<()> {
        if let Some(size) = set.size {
            self.truncate_file(file, size)?;
        }
        self.change_attributes(&file.vnode, &SetAttr { size: None, ..*set })
    }

    /// The vnode of a path, for a call on an attribute whose name can be one.
    pub(super) fn resolve_named(&self, path: &[u8], name: &[u8]) -> Result<Reached> {
        xattr::check_name(name)?;
        self.resolve(path, true)
    }

    pub(super) fn get_xattr(&self, vnode: &Vnode, name: &[u8]) -> Result<Vec<u8>> {
        xattr::check_name(name)?;
        self.check_xattr(vnode, name, Access::READ)?;
        self.mount.file_system().getxattr(vnode.ino, name)
    }

    pub(super) fn set_xattr(&self, vnode: &Vnode, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        xattr::check_name(name)?;
        if value.len() > xattr::SIZE_MAX {
            return Err(Errno::E2BIG);
        }
        self.check_xattr(vnode, name, Access::WRITE)?;
        let done = self.mount.file_system().setxattr(vnode.ino, name, value, mode);
        vnode.changed();
        done
    }

    pub(super) fn list_xattr(&self, vnode: &Vnode) -> Result<Vec<u8>> {
        let names = self.mount.file_system().listxattr(vnode.ino)?;
        Ok(xattr::shown(&names, self.who.is_root()))
    }

    pub(super) fn remove_xattr(&self, vnode: &Vnode, name: &[u8]) -> Result<()> {
        xattr::check_name(name)?;
        self.check_xattr(vnode, name, Access::WRITE)?;
        let done = self.mount.file_system().removexattr(vnode.ino, name);
        vnode.changed();
        done
    }

    /// The rules of a namespace, and of the name in it.
    fn check_xattr(&self, vnode: &Vnode, name: &[u8], want: Access) -> Result<()> {
        self.check_namespace(vnode, name, want)?;
        xattr::namespace(name).map(drop)
    }

    fn check_namespace(&self, vnode: &Vnode, name: &[u8], want: Access) -> Result<()> {
        let write = want == Access::WRITE;
        if write {
            self.mount.check_writable()?;
        }
        let denied = Err(if write { Errno::EPERM } else { Errno::ENODATA });
        match Namespace::of(name) {
            Some(Namespace::Trusted) => {
                if self.who.is_root() {
                    Ok(())
                } else {
                    denied
                }
            }
            Some(Namespace::Security) => {
                if write && !self.who.is_root() {
                    denied
                } else {
                    Ok(())
                }
            }
            Some(Namespace::User) => {
                let subject = vnode.subject();
                match vnode.kind {
                    FileKind::Directory if write && subject.perm & STICKY != 0 => {
                        self.who.check_owner(&subject)?;
                    }
                    FileKind::Regular | FileKind::Directory => {}
                    _ => return denied,
                }
                self.who.check(&subject, want)
            }
            None if name.starts_with(b"system.") => Err(Errno::EOPNOTSUPP),
            None => self.check(vnode, want).and(Err(Errno::EOPNOTSUPP)),
        }
    }
}
