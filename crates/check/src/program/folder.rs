//! A tree in a folder of the host. Nothing outside the folder is touched: names are single components, every folder on a path was
//! made here before and is none that a link leads to, and files are made new.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use rustix::fs::{XattrFlags, lsetxattr};
use trace::contents::ContentsError;
use trace::record::Kind;
use vfs::FileKind;

use super::states::State;
use super::story::Inode;
use super::tree::{Found, Names, Trees};
use crate::names;
use crate::tree::Tree;

/// Why a tree cannot be put into a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The host refused.
    #[error("{}: {error}{}", path.display(), advice(error))]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The contents cannot be read.
    #[error(transparent)]
    Contents(#[from] ContentsError),
    /// The user has ended the run.
    #[error("interrupted; nothing is said of what was explored until then")]
    Interrupted,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; trees of states need room: name a folder with more by TMPDIR, or give fewer --jobs"
        }
        _ => "",
    }
}

/// What was left out of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// FIFOs, sockets and devices.
    pub special: Vec<String>,
    /// Extended attributes that the folder's file system refuses.
    pub attributes: usize,
    /// Owners, which only root can set.
    pub owners: usize,
}

/// Puts the tree of a state into a folder, which must be empty.
pub fn put(trees: &Trees<'_>, names: &Names, state: &State, folder: &Path) -> Result<LeftOut, FolderError> {
    let story = trees.story();
    let mut left_out = LeftOut::default();
    let mut first: FxHashMap<Inode, PathBuf> = FxHashMap::default();
    let mut modes = Vec::new();
    for (components, inode) in &names.paths {
        let mut path = folder.to_owned();
        path.extend(components.iter().map(|name| OsStr::from_bytes(&story.names[*name as usize])));
        let failed = |error: io::Error| FolderError::Io { path: path.clone(), error };
        let found = trees.found(*inode, state);
        if found.about.kind != Kind::Directory
            && let Some(other) = first.get(inode)
        {
            fs::hard_link(other, &path).map_err(failed)?;
            continue;
        }
        let mode = Permissions::from_mode(found.about.mode & 0o1777);
        match found.about.kind {
            Kind::Directory => {
                if !components.is_empty() {
                    DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
                }
                modes.push((path.clone(), mode));
            }
            Kind::File => {
                let file = write(&found, &path)?;
                file.set_permissions(mode).map_err(failed)?;
            }
            Kind::Symlink => {
                let target = found.about.target.clone().unwrap_or_default();
                symlink(OsStr::from_bytes(&target), &path).map_err(failed)?;
            }
            _ => {
                left_out.special.push(path.strip_prefix(folder).unwrap_or(&path).display().to_string());
                continue;
            }
        }
        if !own(&path, found.about.owner) {
            left_out.owners += 1;
        }
        for (name, value) in &found.about.attributes {
            let mut bytes = vec![0; value.len as usize];
            story.blobs.copy(*value, &mut bytes)?;
            if lsetxattr(path.as_path(), OsStr::from_bytes(name), &bytes, XattrFlags::empty()).is_err() {
                left_out.attributes += 1;
            }
        }
        first.insert(*inode, path);
    }
    for (path, mode) in modes.into_iter().rev() {
        fs::set_permissions(&path, mode).map_err(|error| FolderError::Io { path: path.clone(), error })?;
    }
    Ok(left_out)
}

/// Sets the owner that a program has set; false: only root may.
fn own(path: &Path, owner: (i64, i64)) -> bool {
    let id = |id: i64| u32::try_from(id).ok();
    owner == (-1, -1) || lchown(path, id(owner.0), id(owner.1)).is_ok()
}

/// Puts a tree that was seen on a design into a folder, which must be empty.
pub(crate) fn put_seen(tree: &Tree, folder: &Path) -> Result<LeftOut, FolderError> {
    let mut left_out = LeftOut::default();
    let mut modes = Vec::new();
    for (name, entry) in tree {
        let mut path = folder.to_owned();
        path.extend(
            name.split('/')
                .filter(|part| !part.is_empty())
                .map(|part| OsStr::from_bytes(&names::bytes(part)).to_owned()),
        );
        let failed = |error: io::Error| FolderError::Io { path: path.clone(), error };
        let mode = Permissions::from_mode(entry.perm & 0o1777);
        match entry.kind {
            FileKind::Directory => {
                if !name.is_empty() {
                    DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
                }
                modes.push((path.clone(), mode));
            }
            FileKind::Regular if entry.same_as != *name => {
                let mut other = folder.to_owned();
                other.extend(
                    entry.same_as.split('/').map(|part| OsStr::from_bytes(&names::bytes(part)).to_owned()),
                );
                fs::hard_link(other, &path).map_err(failed)?;
            }
            FileKind::Regular => {
                let file = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&path)
                    .map_err(failed)?;
                file.write_all_at(&entry.content, 0).map_err(failed)?;
                file.set_permissions(mode).map_err(failed)?;
                for (name, value) in &entry.xattrs {
                    let name = names::bytes(name);
                    let set = lsetxattr(path.as_path(), OsStr::from_bytes(&name), value, XattrFlags::empty());
                    left_out.attributes += usize::from(set.is_err());
                }
            }
            FileKind::Symlink => symlink(OsStr::from_bytes(&entry.content), &path).map_err(failed)?,
            _ => left_out.special.push(name.clone()),
        }
    }
    for (path, mode) in modes.into_iter().rev() {
        fs::set_permissions(&path, mode).map_err(|error| FolderError::Io { path: path.clone(), error })?;
    }
    Ok(left_out)
}

fn write(found: &Found<'_>, path: &Path) -> Result<File, FolderError> {
    let failed = |error: io::Error| FolderError::Io { path: path.to_owned(), error };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.set_len(found.size()).map_err(failed)?;
    found.contents(&mut |at, bytes| file.write_all_at(bytes, at).map_err(failed))?;
    Ok(file)
}

/// Removes a folder with what is in it, also what its modes forbid to list.
pub fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() {
        open_up(folder);
        let _ = fs::remove_dir_all(folder);
    }
}

fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Where trees of states are put: in memory, where the host has that for everybody.
pub fn scratch() -> Result<PathBuf, FolderError> {
    let memory = Path::new("/dev/shm");
    let base = if std::env::var_os("TMPDIR").is_none() && memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let path = base.join(format!("weir-crash-{}", std::process::id()));
    let made = DirBuilder::new().mode(0o700).create(&path);
    made.map_err(|error| FolderError::Io { path: path.clone(), error })?;
    Ok(path)
}
