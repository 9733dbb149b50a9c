//! Files of a database: how tables are written and read.
//!
//! A table is written in pieces of whole blocks of at most 1 MiB, is made durable, is opened for reading and stays open. A merge
//! reads block by block, as RocksDB does without `compaction_readahead_size`.

use std::sync::Arc;

use vfs::{Errno, FallocateMode, Fd, OpenFlags, Result as CallResult, Syscalls};

use super::super::control::Failure;
use super::format::Blocks;
use super::levels::Table;
use crate::tree::CallFailed;

pub(super) type Done<T = ()> = Result<T, Failure>;

/// Bytes that are collected before a write.
pub(super) const PIECE: u64 = 1 << 20;
/// What RocksDB reads of a table that it opens, besides the index: footer, its index, properties.
const OPENED: [u64; 3] = [53, 40, 879];

/// The files of a database, in one process.
pub(super) struct Files {
    calls: Arc<dyn Syscalls>,
    /// What is written: nothing is compressed, and no one reads what the bytes are.
    text: Box<[u8]>,
}

pub(super) fn log_path(number: u64) -> String {
    format!("db/{number:06}.log")
}

pub(super) fn table_path(number: u64) -> String {
    format!("db/{number:06}.sst")
}

fn of<T>(call: &'static str, path: &str, result: CallResult<T>) -> Done<T> {
    result.map_err(|errno| CallFailed::of(call, path)(errno).into())
}

impl Files {
    /// For writes of at most so many bytes.
    pub(super) fn new(calls: Arc<dyn Syscalls>, longest: u64) -> Self {
        Self { calls, text: vec![b'v'; longest as usize].into_boxed_slice() }
    }

    /// Makes a file, or empties it.
    pub(super) fn create(&self, path: &str) -> Done<Fd> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
        of("open", path, self.calls.open(path.as_bytes(), flags, 0o644))
    }

    /// Reserves room, where the file system can.
    pub(super) fn reserve(&self, fd: Fd, path: &str, len: u64) -> Done {
        match self.calls.fallocate(fd, FallocateMode::KEEP_SIZE, 0, len) {
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
            result => of("fallocate", path, result),
        }
    }

    pub(super) fn write(&self, fd: Fd, path: &str, len: u64) -> Done {
        let mut left = len as usize;
        while left > 0 {
            let wrote = of("write", path, self.calls.write(fd, &self.text[..left.min(self.text.len())]))?;
            if wrote == 0 {
                return of("write", path, Err(Errno::EIO));
            }
            left -= wrote.min(left);
        }
        Ok(())
    }

    pub(super) fn fdatasync(&self, fd: Fd, path: &str) -> Done {
        of("fdatasync", path, self.calls.fdatasync(fd))
    }

    pub(super) fn close(&self, fd: Fd, path: &str) -> Done {
        of("close", path, self.calls.close(fd))
    }

    /// A log that is not needed any more.
    pub(super) fn drop_log(&self, number: u64, fd: Fd, bytes: u64) -> Done {
        let path = log_path(number);
        of("ftruncate", &path, self.calls.ftruncate(fd, bytes))?;
        self.close(fd, &path)?;
        of("unlink", &path, self.calls.unlink(path.as_bytes()))
    }

    pub(super) fn drop_table(&self, table: &Table) -> Done {
        let path = table_path(table.number);
        self.close(table.fd, &path)?;
        of("unlink", &path, self.calls.unlink(path.as_bytes()))
    }

    /// Makes the names of files durable.
    pub(super) fn sync_directory(&self, directory: Fd) -> Done {
        of("fsync", "db", self.calls.fsync(directory))
    }

    pub(super) fn open_directory(&self) -> Done<Fd> {
        of("open", "db", self.calls.open(b"db", OpenFlags::READ | OpenFlags::DIRECTORY, 0))
    }

    pub(super) fn stat(&self, path: &str) -> Done {
        of("stat", path, self.calls.stat(path.as_bytes()).map(drop))
    }

    fn pread(&self, fd: Fd, path: &str, buffer: &mut [u8], offset: u64) -> Done {
        let read = of("pread", path, self.calls.pread(fd, buffer, offset))?;
        if read == buffer.len() {
            return Ok(());
        }
        let told = format!("pread of {path}: {read} bytes at {offset}, where {} must be", buffer.len());
        Err(Failure::new(told, None))
    }
}

/// A table that is being written.
pub(super) struct TableWriter<'a> {
    files: &'a Files,
    number: u64,
    path: String,
    fd: Fd,
    blocks: Blocks,
    keys: Vec<u32>,
    /// Bytes of blocks that are not in the file yet.
    collected: u64,
    written: u64,
}

impl<'a> TableWriter<'a> {
    pub(super) fn create(files: &'a Files, number: u64, value: u64) -> Done<Self> {
        let path = table_path(number);
        let fd = files.create(&path)?;
        let blocks = Blocks::new(value);
        Ok(Self { files, number, path, fd, blocks, keys: Vec::new(), collected: 0, written: 0 })
    }

    /// Reserves room for it.
    pub(super) fn reserve(&self, len: u64) -> Done {
        self.files.reserve(self.fd, &self.path, len)
    }

    pub(super) fn add(&mut self, key: u32) -> Done {
        self.keys.push(key);
        self.blocks.add(key).map_or(Ok(()), |bytes| self.collect(bytes))
    }

    /// Bytes of the blocks that are whole.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.bytes()
    }

    fn collect(&mut self, bytes: u64) -> Done {
        if self.collected + bytes > PIECE && self.collected > 0 {
            self.flush()?;
        }
        self.collected += bytes;
        Ok(())
    }

    fn flush(&mut self) -> Done {
        self.files.write(self.fd, &self.path, self.collected)?;
        self.written += self.collected;
        self.collected = 0;
        Ok(())
    }

    /// Ends the table, and opens it for reading.
    pub(super) fn finish(mut self) -> Done<Table> {
        let (blocks, rest) = std::mem::replace(&mut self.blocks, Blocks::new(0)).finish();
        self.collect(rest)?;
        self.flush()?;
        self.files.fdatasync(self.fd, &self.path)?;
        self.files.close(self.fd, &self.path)?;
        let calls = &self.files.calls;
        let fd = of("open", &self.path, calls.open(self.path.as_bytes(), OpenFlags::READ, 0))?;
        let index = Blocks::index_bytes(blocks.len());
        let mut end = self.written;
        for len in OPENED.into_iter().chain([index]) {
            end = end.saturating_sub(len);
            self.files.pread(fd, &self.path, &mut vec![0; len as usize], end)?;
        }
        let keys = self.keys.into_boxed_slice();
        Ok(Table { number: self.number, fd, bytes: self.written, keys, blocks })
    }

    /// Removes what was written.
    pub(super) fn give_up(self) -> Done {
        self.files.close(self.fd, &self.path)?;
        of("unlink", &self.path, self.files.calls.unlink(self.path.as_bytes()))
    }
}

/// Reads tables that follow each other, block by block.
pub(super) struct Run<'a> {
    files: &'a Files,
    tables: Vec<Arc<Table>>,
    /// Which table, which of its blocks, where that begins, and which key.
    table: usize,
    block: usize,
    offset: u64,
    key: usize,
    buffer: Vec<u8>,
}

impl<'a> Run<'a> {
    pub(super) fn new(files: &'a Files, tables: Vec<Arc<Table>>) -> Self {
        Self { files, tables, table: 0, block: 0, offset: 0, key: 0, buffer: Vec::new() }
    }

    /// The next key, and how many bytes were read for it.
    pub(super) fn next(&mut self) -> Done<Option<(u32, u64)>> {
        let Some(table) = self.tables.get(self.table) else { return Ok(None) };
        let Some(key) = table.keys.get(self.key).copied() else {
            (self.table, self.block, self.offset, self.key) = (self.table + 1, 0, 0, 0);
            return self.next();
        };
        let begins = self.block.checked_sub(1).map_or(0, |before| table.blocks[before].end as usize);
        let mut read = 0;
        if self.key == begins {
            let len = table.blocks[self.block].bytes;
            self.buffer.resize(len as usize, 0);
            self.files.pread(table.fd, &table_path(table.number), &mut self.buffer, self.offset)?;
            read = u64::from(len);
        }
        self.key += 1;
        if self.key == table.blocks[self.block].end as usize {
            self.offset += u64::from(table.blocks[self.block].bytes);
            self.block += 1;
        }
        Ok(Some((key, read)))
    }
}
