//! Info-ZIP: `zip -qr ARCHIVE TREE` and `unzip -q ARCHIVE`.
//!
//! | packing | calls |
//! |---|---|
//! | names | stat of each, open, fstat, getdents, close of directories; then stat of each again |
//! | archive | made and removed (is the place writable?), a temporary file; at the end close, lstat, rename, chmod |
//! | entry | stat twice; of a file open, a read of 64 KiB, reads of 32 KiB until there is nothing, close |
//! | | writes of 16 KiB; of a file the header once more, with an lseek before and behind |
//!
//! A file of one block of deflate that does not become smaller is stored instead. Before its bytes the program writes the header
//! by itself, and tries by two more lseek whether the archive can be sought. A longer one keeps what deflate made of it. The crate
//! does not write extended times.
//!
//! | unpacking | calls |
//! |---|---|
//! | archive | stat, open, reads of blocks of 8 KiB: the directory at its end, then entries |
//! | directory | stat of each directory above and of itself, mkdir, stat, chmod; at the end utimens, chmod |
//! | file | stat of each directory above, four of itself, open (new or emptied), writes of 64 KiB, fchmod, close, utimens |

use std::cell::Cell;
use std::io::{self, Cursor, Read, Write};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use sim::Seed;
use vfs::{Errno, OpenFlags, RenameFlags, SetAttr, SetTime, Syscalls, Timestamp};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::options::Codec;
use super::run::{DIRECTORY, FILE, Noting, begin, compute};
use super::stream::{Blocks, Buffered};
use super::tar::{at, write_all};
use super::tree::{Entry, content};
use crate::app::control::Failure;
use crate::app::listing::Listing;
use crate::tree::CallFailed;

/// Bytes of the first read of a file, and of the following ones: the window of deflate, twice and once.
const FIRST: usize = 64 << 10;
const NEXT: usize = 32 << 10;
/// Literals that a block of the program's deflate takes (`LIT_BUFSIZE`): bytes that repeat nothing fill it one by one.
const BLOCK: usize = 0x8000 - 1;
/// The level of deflate that zip uses.
const LEVEL: u32 = 6;
/// Bytes that unzip writes at once.
const OUTPUT: usize = 64 << 10;
/// The file that becomes the archive, in its directory.
const TEMPORARY: &str = "ziWeir00";

/// The path of an entry, if it stays within the directory where it is unpacked.
pub(super) fn safe_path(name: &str) -> Result<String, String> {
    super::tar::safe_path(name.as_bytes())
}

fn wrong(path: &str) -> impl Fn(ZipError) -> Failure + '_ {
    move |error| match error {
        ZipError::Io(error) => at(path)(error),
        error => Failure::new(format!("{path}: {error}; the archive is damaged"), None),
    }
}

fn options(codec: Codec, is_directory: bool) -> SimpleFileOptions {
    let method = if codec.is_on { CompressionMethod::Deflated } else { CompressionMethod::Stored };
    let level = codec.is_on.then_some(i64::from(LEVEL));
    // The same bytes at each time of day.
    let options = SimpleFileOptions::default().compression_method(method).compression_level(level);
    let mode = if is_directory { 0o755 } else { 0o644 };
    options.last_modified_time(DateTime::default()).unix_permissions(mode)
}

/// The archive of a generated tree.
pub(super) fn in_memory(seed: Seed, client: u64, entries: &[Entry], codec: Codec) -> io::Result<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        if entry.size.is_none() {
            writer.add_directory(entry.path.as_str(), options(codec, true))?;
        } else {
            writer.start_file(entry.path.as_str(), options(codec, false))?;
            writer.write_all(&content(seed, client, entry))?;
        }
    }
    Ok(writer.finish()?.into_inner())
}

/// Names in the order in which they are packed, each with whether it is a directory.
type Names = Vec<(String, bool)>;

fn stat(calls: &dyn Syscalls, path: &str) -> Result<vfs::Attr, Failure> {
    Ok(calls.stat(path.as_bytes()).map_err(CallFailed::of("stat", path))?)
}

fn collect(calls: &dyn Syscalls, path: &str, names: &mut Names) -> Result<(), Failure> {
    names.push((path.to_owned(), true));
    let fd = Listing::open(calls, path.as_bytes()).map_err(CallFailed::of("open", path))?;
    let (mut listing, mut found) = (Listing::default(), Vec::new());
    while listing.fill(calls, fd).map_err(CallFailed::of("getdents", path))? {
        found.extend(listing.names().filter(|name| *name != b"." && *name != b"..").map(<[u8]>::to_vec));
    }
    found.sort();
    for name in found {
        let below = format!("{path}/{}", String::from_utf8_lossy(&name));
        if stat(calls, &below)?.kind == vfs::FileKind::Directory {
            collect(calls, &below, names)?;
        } else {
            names.push((below, false));
        }
    }
    Ok(calls.close(fd).map_err(CallFailed::of("close", path))?)
}

/// Fails unless `path` is not there.
fn is_missing<T>(call: &'static str, path: &str, found: &vfs::Result<T>) -> Result<(), Failure> {
    match found {
        Err(Errno::ENOENT) => Ok(()),
        Ok(_) => Err(CallFailed::of(call, path)(Errno::EEXIST).into()),
        Err(errno) => Err(CallFailed::of(call, path)(*errno).into()),
    }
}

/// Packs `root` into `archive`, which is not there yet.
pub(super) fn pack(
    calls: &dyn Syscalls,
    root: &str,
    archive: &str,
    codec: Codec,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    is_missing("open", archive, &calls.open(archive.as_bytes(), OpenFlags::READ, 0))?;
    stat(calls, root)?;
    is_missing("stat", archive, &calls.stat(archive.as_bytes()))?;
    let mut names = Vec::new();
    collect(calls, root, &mut names)?;
    for (name, _) in &names {
        stat(calls, name)?;
    }
    let new = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
    let fd = calls.open(archive.as_bytes(), new, 0o666).map_err(CallFailed::of("open", archive))?;
    calls.close(fd).map_err(CallFailed::of("close", archive))?;
    stat(calls, archive)?;
    calls.unlink(archive.as_bytes()).map_err(CallFailed::of("unlink", archive))?;
    let new = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
    let temporary =
        archive.rsplit_once('/').map_or(TEMPORARY.to_owned(), |(above, _)| format!("{above}/{TEMPORARY}"));
    let temporary = temporary.as_str();
    let fd = calls.open(temporary.as_bytes(), new, 0o600).map_err(CallFailed::of("open", temporary))?;
    let tries_seeking = Cell::new(false);
    let mut archiving = Archiving {
        writer: ZipWriter::new(Buffered::new(calls, fd, &tries_seeking)),
        tries_seeking: &tries_seeking,
        codec,
    };
    for (name, is_directory) in names {
        if note.is_over() {
            break;
        }
        archiving.entry(calls, &name, is_directory, note)?;
    }
    let mut written = archiving.writer.finish().map_err(wrong(archive))?;
    written.flush().map_err(at(archive))?;
    note.wrote(written.bytes);
    calls.close(fd).map_err(CallFailed::of("close", temporary))?;
    is_missing("lstat", archive, &calls.lstat(archive.as_bytes()))?;
    let renamed = calls.rename(temporary.as_bytes(), archive.as_bytes(), RenameFlags::empty());
    renamed.map_err(CallFailed::of("rename", temporary))?;
    let mode = SetAttr { perm: Some(0o644), ..SetAttr::default() };
    Ok(calls.setattr(archive.as_bytes(), &mode).map_err(CallFailed::of("chmod", archive))?)
}

/// An archive that is written.
struct Archiving<'a> {
    writer: ZipWriter<Buffered<'a>>,
    tries_seeking: &'a Cell<bool>,
    codec: Codec,
}

impl Archiving<'_> {
    fn entry(
        &mut self,
        calls: &dyn Syscalls,
        name: &str,
        is_directory: bool,
        note: &mut Noting<'_>,
    ) -> Result<(), Failure> {
        let started = begin();
        for _ in 0..2 {
            stat(calls, name)?;
        }
        if is_directory {
            self.writer.add_directory(name, options(self.codec, true)).map_err(wrong(name))?;
            note.done(DIRECTORY, 0, started);
            return Ok(());
        }
        let fd = calls.open(name.as_bytes(), OpenFlags::READ, 0).map_err(CallFailed::of("open", name))?;
        let (mut buffer, mut wanted, mut size) = (vec![0; FIRST], FIRST, 0);
        loop {
            let read = calls.read(fd, &mut buffer[..wanted]).map_err(CallFailed::of("read", name))?;
            if size == 0 {
                self.begin(name, &buffer[..read])?;
            }
            if read == 0 {
                break;
            }
            if self.codec.is_on {
                compute(self.codec.deflate, read as u64);
            }
            self.writer.write_all(&buffer[..read]).map_err(at(name))?;
            size += read as u64;
            wanted = if read == wanted { NEXT } else { wanted - read };
        }
        calls.close(fd).map_err(CallFailed::of("close", name))?;
        note.read(size);
        note.done(FILE, size, started);
        Ok(())
    }

    /// Begins the entry of a file that starts with these bytes: all of it where they are fewer than a block of deflate takes.
    fn begin(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let is_stored = self.codec.is_on && bytes.len() < BLOCK && !shrinks(bytes);
        let codec = Codec { is_on: self.codec.is_on && !is_stored, ..self.codec };
        self.writer.start_file(name, options(codec, false)).map_err(wrong(name))?;
        self.tries_seeking.set(is_stored && !bytes.is_empty());
        Ok(())
    }
}

/// Whether deflate makes the bytes fewer. Of many bytes with few values it does, by their codes alone, which saves the trial.
fn shrinks(bytes: &[u8]) -> bool {
    let values = bytes.iter().fold([false; 256], |mut seen, byte| {
        seen[usize::from(*byte)] = true;
        seen
    });
    if bytes.len() >= 1024 && values.iter().filter(|seen| **seen).count() <= 64 {
        return true;
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(LEVEL));
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    packed.is_ok_and(|packed| packed.len() < bytes.len())
}

/// Unpacks `archive` into the working directory.
pub(super) fn unpack(
    calls: &dyn Syscalls,
    archive: &str,
    codec: Codec,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    let size = stat(calls, archive)?.size;
    let fd = calls.open(archive.as_bytes(), OpenFlags::READ, 0).map_err(CallFailed::of("open", archive))?;
    let mut source = ZipArchive::new(Blocks::new(calls, fd, size)).map_err(wrong(archive))?;
    let mut directories = Vec::new();
    for number in 0..source.len() {
        if note.is_over() {
            break;
        }
        let mut entry = source.by_index(number).map_err(wrong(archive))?;
        let started = begin();
        let name = entry.name().map_err(wrong(archive))?.into_owned();
        let path = safe_path(&name).map_err(|told| Failure::new(format!("{archive}: {told}"), None))?;
        for (at, _) in path.match_indices('/') {
            above(calls, &path[..at])?;
        }
        if entry.is_dir() {
            make_directory(calls, &path)?;
            directories.push(path);
            note.done(DIRECTORY, 0, started);
        } else if entry.is_symlink() {
            note.skipped();
        } else {
            let mode = entry.unix_mode().unwrap_or(0o644) & 0o7777;
            let bytes = unpack_file(calls, &path, &mut entry, mode, codec)?;
            note.wrote(bytes);
            note.done(FILE, bytes, started);
        }
    }
    note.read(source.into_inner().bytes);
    for path in directories.iter().rev() {
        calls.setattr(path.as_bytes(), &times()).map_err(CallFailed::of("utimens", path))?;
        chmod(calls, path, 0o755)?;
    }
    Ok(calls.close(fd).map_err(CallFailed::of("close", archive))?)
}

fn times() -> SetAttr {
    // The beginning of 1980, the time of generated entries.
    let time = Some(SetTime::To(Timestamp { secs: 315_532_800, nanos: 0 }));
    SetAttr { atime: time, mtime: time, ..SetAttr::default() }
}

fn chmod(calls: &dyn Syscalls, path: &str, perm: u32) -> Result<(), Failure> {
    let mode = SetAttr { perm: Some(perm), ..SetAttr::default() };
    Ok(calls.setattr(path.as_bytes(), &mode).map_err(CallFailed::of("chmod", path))?)
}

/// Looks for a directory above, and makes it where the archive does not name it.
fn above(calls: &dyn Syscalls, path: &str) -> Result<(), Failure> {
    match calls.stat(path.as_bytes()) {
        Ok(_) => Ok(()),
        Err(Errno::ENOENT) => {
            Ok(calls.mkdir(path.as_bytes(), 0o777).map_err(CallFailed::of("mkdir", path))?)
        }
        Err(errno) => Err(CallFailed::of("stat", path)(errno).into()),
    }
}

fn make_directory(calls: &dyn Syscalls, path: &str) -> Result<(), Failure> {
    above(calls, path)?;
    stat(calls, path)?;
    chmod(calls, path, 0o755)
}

fn unpack_file(
    calls: &dyn Syscalls,
    path: &str,
    entry: &mut impl Read,
    mode: u32,
    codec: Codec,
) -> Result<u64, Failure> {
    for _ in 0..2 {
        is_missing("stat", path, &calls.stat(path.as_bytes()))?;
        is_missing("lstat", path, &calls.lstat(path.as_bytes()))?;
    }
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
    let fd = calls.open(path.as_bytes(), flags, 0o666).map_err(CallFailed::of("open", path))?;
    let (mut buffer, mut size) = (vec![0; OUTPUT], 0);
    loop {
        let mut filled = 0;
        while filled < OUTPUT {
            match entry.read(&mut buffer[filled..]).map_err(at(path))? {
                0 => break,
                read => filled += read,
            }
        }
        if filled == 0 {
            break;
        }
        if codec.is_on {
            compute(codec.inflate, filled as u64);
        }
        write_all(calls, fd, path, &buffer[..filled])?;
        size += filled as u64;
    }
    let mode = SetAttr { perm: Some(mode), ..SetAttr::default() };
    calls.fsetattr(fd, &mode).map_err(CallFailed::of("fchmod", path))?;
    calls.close(fd).map_err(CallFailed::of("close", path))?;
    calls.setattr(path.as_bytes(), &times()).map_err(CallFailed::of("utimens", path))?;
    Ok(size)
}

/// The files of an archive with what they hold.
pub(super) fn files(bytes: &[u8]) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    let mut found = Vec::new();
    for number in 0..archive.len() {
        let mut entry = archive.by_index(number)?;
        if entry.is_file() {
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            found.push((entry.name()?.into_owned(), content));
        }
    }
    Ok(found)
}
