//! The files of a file system: made, aged, drawn.

use std::sync::{Mutex, PoisonError};

use rand::RngExt as _;
use sim::Rng;
use vfs::{Fd, OpenFlags, Syscalls};

use super::profile::{FileSystem, Sizes};
use crate::app::control::Failure;
use crate::tree::CallFailed;

/// The files of `[filesystem]` number `number`.
#[derive(Debug)]
pub(super) struct Files {
    number: usize,
    directories: u64,
    sizes: Sizes,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the next file, of the next directory.
    next: u64,
    next_directory: u64,
    /// Numbers and sizes.
    all: Vec<(u64, u64)>,
}

impl Files {
    pub(super) fn new(number: usize, of: &FileSystem) -> Self {
        Self { number, directories: of.directories, sizes: of.sizes.clone(), state: Mutex::default() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The path of a file.
    pub(super) fn path(&self, file: u64) -> String {
        format!("fs{}/dir{}/file{file}", self.number, file % self.directories)
    }

    /// The size of a new file.
    pub(super) fn draw_size(&self, rng: &mut Rng) -> u64 {
        match &self.sizes {
            Sizes::Uniform(least, most) => rng.random_range(*least..=*most),
            Sizes::Weighted(sizes) => {
                let sum: u64 = sizes.iter().map(|(_, weight)| weight).sum();
                let mut drawn = rng.random_range(0..sum);
                let at = sizes.iter().position(|(_, weight)| match drawn.checked_sub(*weight) {
                    Some(rest) => {
                        drawn = rest;
                        false
                    }
                    None => true,
                });
                sizes[at.unwrap_or(0)].0
            }
        }
    }

    /// A file and its size; none if there are no files.
    pub(super) fn draw(&self, rng: &mut Rng) -> Option<(u64, u64)> {
        self.with(|state| {
            let count = state.all.len();
            (count > 0).then(|| state.all[rng.random_range(0..count)])
        })
    }

    /// The same, and no one else draws it from now on.
    pub(super) fn take(&self, rng: &mut Rng) -> Option<u64> {
        self.with(|state| {
            let count = state.all.len();
            (count > 0).then(|| state.all.swap_remove(rng.random_range(0..count)).0)
        })
    }

    /// The number of a new file, which is drawn once it is [`Files::made`].
    pub(super) fn number(&self) -> u64 {
        self.with(|state| {
            state.next += 1;
            state.next - 1
        })
    }

    /// The path of a new directory.
    pub(super) fn directory(&self) -> String {
        let number = self.with(|state| {
            state.next_directory += 1;
            state.next_directory - 1
        });
        format!("fs{}/meta/d{number}", self.number)
    }

    pub(super) fn made(&self, file: u64, size: u64) {
        self.with(|state| state.all.push((file, size)));
    }

    pub(super) fn grown(&self, file: u64, by: u64) {
        self.with(|state| {
            if let Some((_, size)) = state.all.iter_mut().find(|(number, _)| *number == file) {
                *size += by;
            }
        });
    }

    /// Makes directories and the files that a run begins with.
    pub(super) fn make(&self, of: &FileSystem, rng: &mut Rng, calls: &dyn Syscalls) -> Result<(), Failure> {
        let mkdir = |path: &str| calls.mkdir(path.as_bytes(), 0o755).map_err(CallFailed::of("mkdir", path));
        mkdir(&format!("fs{}", self.number))?;
        mkdir(&format!("fs{}/meta", self.number))?;
        for directory in 0..self.directories {
            mkdir(&format!("fs{}/dir{directory}", self.number))?;
        }
        let (mut made, mut bytes) = (0, 0);
        while made < of.files || bytes < of.init_size || (of.init_share > 0 && used(calls)? < of.init_share) {
            let (file, size) = (self.number(), self.draw_size(rng));
            write_new(calls, &self.path(file), size, of.create_block, false, &mut |_| ())?;
            self.made(file, size);
            (made, bytes) = (made + 1, bytes + size);
            if size == 0 && made > of.files {
                let told = "init_size or init_util: files of 0 bytes fill nothing; see min_filesize";
                return Err(Failure::new(told, None));
            }
        }
        Ok(())
    }
}

/// The part of the subject that is used, in millionths.
pub(super) fn used(calls: &dyn Syscalls) -> Result<u64, Failure> {
    let found = calls.statfs(b".").map_err(CallFailed::of("statfs", "."))?;
    let used = u128::from(found.blocks - found.blocks_free.min(found.blocks)) * 1_000_000;
    Ok((used / u128::from(found.blocks.max(1))) as u64)
}

/// Makes a file, and tells each block.
pub(super) fn write_new(
    calls: &dyn Syscalls,
    path: &str,
    size: u64,
    block: u64,
    fsync: bool,
    each: &mut dyn FnMut(u64),
) -> Result<(), CallFailed> {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
    let fd = calls.open(path.as_bytes(), flags, 0o644).map_err(CallFailed::of("open", path))?;
    write_on(calls, fd, path, size, block, each)?;
    if fsync {
        calls.fsync(fd).map_err(CallFailed::of("fsync", path))?;
    }
    calls.close(fd).map_err(CallFailed::of("close", path))
}

/// Writes so many bytes from the current offset on, and tells each block.
pub(super) fn write_on(
    calls: &dyn Syscalls,
    fd: Fd,
    path: &str,
    size: u64,
    block: u64,
    each: &mut dyn FnMut(u64),
) -> Result<(), CallFailed> {
    let data = vec![0; block.min(size) as usize];
    let mut left = size;
    while left > 0 {
        let len = left.min(block);
        let wrote = calls.write(fd, &data[..len as usize]).map_err(CallFailed::of("write", path))? as u64;
        if wrote < len {
            return Err(CallFailed::of("write", path)(vfs::Errno::ENOSPC));
        }
        left -= len;
        each(len);
    }
    Ok(())
}
