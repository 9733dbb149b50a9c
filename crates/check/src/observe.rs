//! A mounted design as a tree, checked on the way: every name resolves, `.` and `..` are right, numbers and link counts agree,
//! everything can be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use vfs::{Attr, Errno, FileKind, FileSystem, Ino, IoFlags};

use crate::names;
use crate::tree::{Entry, Tree};

struct Walk<'a> {
    fs: &'a dyn FileSystem,
    tree: Tree,
    first: BTreeMap<Ino, String>,
}

/// Reads everything; a contradiction is an error.
pub fn observe(fs: &dyn FileSystem) -> Result<Tree, String> {
    let root = fs.getattr(fs.root()).map_err(|errno| format!("the root: {}", errno.name()))?;
    let mut walk = Walk { fs, tree: Tree::new(), first: BTreeMap::new() };
    walk.directory("", &root, root.ino)?;
    let names = walk.tree.values().filter(|entry| entry.kind != FileKind::Directory);
    let mut counts: BTreeMap<&String, u32> = BTreeMap::new();
    names.for_each(|entry| *counts.entry(&entry.same_as).or_default() += 1);
    for (path, count) in counts {
        let nlink = walk.tree.get(path).map_or(0, |entry| entry.nlink);
        if nlink != count {
            return Err(format!("\"{path}\" has {nlink} links and {count} names"));
        }
    }
    Ok(walk.tree)
}

impl Walk<'_> {
    fn directory(&mut self, path: &str, attr: &Attr, parent: Ino) -> Result<(), String> {
        let failed = |what: &str, errno: Errno| format!("\"{path}\": {what}: {}", errno.name());
        if path.split('/').count() > 30 {
            return Err(format!("\"{path}\" is deeper than any program makes"));
        }
        self.add(path, attr, Vec::new())?;
        let mut entries = Vec::new();
        self.fs
            .readdir(attr.ino, 0, &mut |entry| {
                entries.push((names::shown(entry.name), entry.ino));
                true
            })
            .map_err(|errno| failed("readdir", errno))?;
        let dots: Vec<_> = entries.iter().filter(|(name, _)| name == "." || name == "..").cloned().collect();
        if dots != [(".".to_owned(), attr.ino), ("..".to_owned(), parent)] {
            return Err(format!("\"{path}\": . and .. are {dots:?}, expected {} and {parent}", attr.ino));
        }
        entries.retain(|(name, _)| name != "." && name != "..");
        entries.sort(); // the first path of an inode is then the same as the model's
        let mut subdirs = 0;
        for (name, ino) in entries {
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let child =
                self.fs.lookup(attr.ino, &names::bytes(&name)).map_err(|errno| failed(&name, errno))?;
            if child.ino != ino {
                return Err(format!("\"{below}\": readdir says inode {ino}, lookup {}", child.ino));
            }
            subdirs += u32::from(child.kind == FileKind::Directory);
            self.child(&below, &child, attr.ino)?;
        }
        if attr.nlink != 2 + subdirs {
            return Err(format!("\"{path}\": {} links with {subdirs} subdirectories", attr.nlink));
        }
        Ok(())
    }

    fn child(&mut self, path: &str, attr: &Attr, parent: Ino) -> Result<(), String> {
        if self.tree.contains_key(path) {
            return Err(format!("\"{path}\" is listed twice"));
        }
        match attr.kind {
            FileKind::Directory => return self.directory(path, attr, parent),
            FileKind::Symlink => {
                let target = self.fs.readlink(attr.ino);
                let target = target.map_err(|errno| format!("\"{path}\": readlink: {}", errno.name()))?;
                self.add(path, attr, target)?;
            }
            FileKind::Regular => {
                if attr.size > 1 << 26 {
                    return Err(format!("\"{path}\" has {} bytes, more than any program writes", attr.size));
                }
                let mut content = vec![0xEE; attr.size as usize + 1];
                let read = self.fs.read(attr.ino, 0, &mut content, IoFlags::empty());
                let read = read.map_err(|errno| format!("\"{path}\": read: {}", errno.name()))?;
                if read as u64 != attr.size {
                    return Err(format!("\"{path}\": {read} bytes could be read of {}", attr.size));
                }
                content.truncate(read);
                self.add(path, attr, content)?;
            }
            _ => self.add(path, attr, Vec::new())?,
        }
        Ok(())
    }

    /// Every attribute that is listed, once, has a value.
    fn attributes(&self, ino: Ino) -> Result<BTreeMap<String, Vec<u8>>, Errno> {
        let listed = match self.fs.listxattr(ino) {
            Err(Errno::EOPNOTSUPP) => Vec::new(),
            listed => listed?,
        };
        let mut found = BTreeMap::new();
        for name in listed.split_inclusive(|byte| *byte == 0) {
            let name = name.strip_suffix(&[0]).ok_or(Errno::EIO)?;
            let value = self.fs.getxattr(ino, name)?;
            if found.insert(names::shown(name), value).is_some() {
                return Err(Errno::EEXIST);
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: &str, attr: &Attr, content: Vec<u8>) -> Result<(), String> {
        let xattrs = self
            .attributes(attr.ino)
            .map_err(|errno| format!("\"{path}\": extended attributes: {}", errno.name()))?;
        let same_as = self.first.entry(attr.ino).or_insert_with(|| path.to_owned()).clone();
        let entry = Entry {
            kind: attr.kind,
            perm: attr.perm,
            owner: (attr.owner.uid, attr.owner.gid),
            rdev: attr.rdev,
            nlink: attr.nlink,
            same_as,
            atime: Some(attr.atime),
            mtime: Some(attr.mtime),
            xattrs,
            content: Arc::new(content),
        };
        self.tree.insert(path.to_owned(), entry);
        Ok(())
    }
}
