//! What is known of files, directories and the whole.

use std::ffi::{OsStr, OsString};

use vfs::{Attr, FileKind, StatFs, Timestamp};

/// Attributes of a file, as `stat` gives them.
#[derive(Clone, Debug)]
pub struct Metadata(pub(crate) Attr);

impl Metadata {
    /// Its kind.
    pub fn kind(&self) -> FileKind {
        self.0.kind
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.0.kind == FileKind::Regular
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.0.kind == FileKind::Directory
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.0.kind == FileKind::Symlink
    }

    /// Its size in bytes.
    #[allow(clippy::len_without_is_empty)] // std's metadata has none either
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// Its permission bits (`0o7777`).
    pub fn mode(&self) -> u32 {
        self.0.perm
    }

    /// Its inode number.
    pub fn ino(&self) -> u64 {
        self.0.ino.0
    }

    /// Its names.
    pub fn nlink(&self) -> u32 {
        self.0.nlink
    }

    /// Its user and group.
    pub fn owner(&self) -> (u32, u32) {
        (self.0.owner.uid, self.0.owner.gid)
    }

    /// The space that it takes, in bytes.
    pub fn allocated(&self) -> u64 {
        self.0.blocks * 512
    }

    /// When it was last read.
    pub fn accessed(&self) -> Timestamp {
        self.0.atime
    }

    /// When its contents last changed.
    pub fn modified(&self) -> Timestamp {
        self.0.mtime
    }

    /// When its attributes last changed.
    pub fn changed(&self) -> Timestamp {
        self.0.ctime
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub(crate) name: OsString,
    pub(crate) kind: Option<FileKind>,
}

impl DirEntry {
    /// The name, without the directory's.
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// The kind of what it leads to, where the directory knows it.
    pub fn kind(&self) -> Option<FileKind> {
        self.kind
    }
}

/// The space of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space(pub(crate) StatFs);

impl Space {
    /// Bytes that files can take in all.
    pub fn total(&self) -> u64 {
        self.0.blocks * u64::from(self.0.frsize)
    }

    /// Bytes that are free.
    pub fn free(&self) -> u64 {
        self.0.blocks_free * u64::from(self.0.frsize)
    }

    /// Inodes that are free.
    pub fn free_inodes(&self) -> u64 {
        self.0.files_free
    }
}
