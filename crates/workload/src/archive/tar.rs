//! GNU tar: `tar cf ARCHIVE TREE` and `tar xf ARCHIVE`.
//!
//! | packing | calls |
//! |---|---|
//! | archive | creat, fstat; writes of records of 10,240 bytes, the last filled up with zeros; close |
//! | directory | lstat, open, fstat twice, getdents; what is in it; fstat, close |
//! | file | lstat; unless it is empty open, fstat, reads as far as the record goes, fstat, close |
//!
//! | unpacking | calls |
//! |---|---|
//! | archive | open, reads of records, fstat twice, close |
//! | directory | mkdir; at the end utimens, chown, open, fstat, chmod, close, the deepest first |
//! | file | open (new), a write for what each record holds of it, futimens, fchown, fchmod, close |

use std::io::{self, Read as _, Write as _};

use sim::Seed;
use tar::{Archive, EntryType, Header};
use vfs::{Errno, Fd, OpenFlags, Owner, SetAttr, SetTime, Syscalls, Timestamp};

use super::options::Program;
use super::run::{DIRECTORY, FILE, Noting, begin};
use super::stream::{RECORD, Records, errno_of};
use super::tree::{Entry, content};
use crate::app::control::Failure;
use crate::app::listing::Listing;
use crate::tree::CallFailed;

/// Bytes of a header, and what contents are filled up to.
const BLOCK: usize = 512;
/// When the files of a generated archive were changed: the year 2016.
const MTIME: u64 = 1_468_281_600;

/// An error of reading or writing `path`.
pub(super) fn at(path: &str) -> impl Fn(io::Error) -> Failure + '_ {
    move |error| match errno_of(&error) {
        Some(errno) => Failure::new(format!("{path}: {errno}"), Some(errno)),
        None => Failure::new(format!("{path}: {error}; the archive is damaged"), None),
    }
}

/// The path of an entry as text, if it stays within the directory where it is unpacked.
pub(super) fn safe_path(bytes: &[u8]) -> Result<String, String> {
    let path = std::str::from_utf8(bytes).map_err(|_| "a name that is not UTF-8".to_owned())?;
    let leaves = path.starts_with('/') || path.split('/').any(|part| part == "..") || path.is_empty();
    if leaves {
        return Err(format!("the path \"{path}\" leads out of the directory"));
    }
    Ok(path.trim_end_matches('/').to_owned())
}

fn header(path: &str, size: Option<u64>, mtime: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    let (name, kind, mode) = match size {
        Some(_) => (path.to_owned(), EntryType::Regular, 0o644),
        None => (format!("{path}/"), EntryType::Directory, 0o755),
    };
    header.set_path(name)?;
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size.unwrap_or(0));
    header.set_mtime(mtime);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    Ok(header)
}

/// The archive of a generated tree.
pub(super) fn in_memory(seed: Seed, client: u64, entries: &[Entry]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.write_all(header(&entry.path, entry.size, MTIME)?.as_bytes())?;
        if entry.size.is_some() {
            bytes.write_all(&content(seed, client, entry))?;
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
    }
    bytes.resize((bytes.len() + 2 * BLOCK).next_multiple_of(RECORD), 0);
    Ok(bytes)
}

/// Packs `root` into `archive`.
pub(super) fn pack(
    calls: &dyn Syscalls,
    root: &str,
    archive: &str,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    let fd = calls
        .open(archive.as_bytes(), OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE, 0o666)
        .map_err(CallFailed::of("open", archive))?;
    calls.fstat(fd).map_err(CallFailed::of("fstat", archive))?;
    let mut records = Records::new(calls, fd);
    calls.lstat(root.as_bytes()).map_err(CallFailed::of("lstat", root))?;
    pack_directory(calls, root, &mut records, note)?;
    records.write_all(&[0; 2 * BLOCK]).map_err(at(archive))?;
    records.pad(RECORD).map_err(at(archive))?;
    note.wrote(records.bytes);
    Ok(calls.close(fd).map_err(CallFailed::of("close", archive))?)
}

fn pack_directory(
    calls: &dyn Syscalls,
    path: &str,
    records: &mut Records<'_>,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    let started = begin();
    let fd = Listing::open(calls, path.as_bytes()).map_err(CallFailed::of("open", path))?;
    let attr = calls.fstat(fd).map_err(CallFailed::of("fstat", path))?;
    let header = header(path, None, attr.mtime.secs.max(0) as u64).map_err(at(path))?;
    records.write_all(header.as_bytes()).map_err(at(path))?;
    let (mut listing, mut names) = (Listing::default(), Vec::new());
    while listing.fill(calls, fd).map_err(CallFailed::of("getdents", path))? {
        names.extend(listing.names().filter(|name| *name != b"." && *name != b"..").map(<[u8]>::to_vec));
    }
    note.done(DIRECTORY, 0, started);
    names.sort();
    for name in names {
        if note.is_over() {
            break;
        }
        let below = format!("{path}/{}", String::from_utf8_lossy(&name));
        let attr = calls.lstat(below.as_bytes()).map_err(CallFailed::of("lstat", &below))?;
        match attr.kind {
            vfs::FileKind::Directory => pack_directory(calls, &below, records, note)?,
            _ => pack_file(calls, &below, &attr, records, note)?,
        }
    }
    calls.fstat(fd).map_err(CallFailed::of("fstat", path))?;
    Ok(calls.close(fd).map_err(CallFailed::of("close", path))?)
}

fn pack_file(
    calls: &dyn Syscalls,
    path: &str,
    attr: &vfs::Attr,
    records: &mut Records<'_>,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    let started = begin();
    let header = header(path, Some(attr.size), attr.mtime.secs.max(0) as u64).map_err(at(path))?;
    records.write_all(header.as_bytes()).map_err(at(path))?;
    if attr.size > 0 {
        let fd = calls.open(path.as_bytes(), OpenFlags::READ, 0).map_err(CallFailed::of("open", path))?;
        calls.fstat(fd).map_err(CallFailed::of("fstat", path))?;
        let mut left = attr.size as usize;
        while left > 0 {
            let room = records.room();
            let wanted = room.len().min(left);
            let read = calls.read(fd, &mut room[..wanted]).map_err(CallFailed::of("read", path))?;
            if read == 0 {
                return Err(Failure::new(format!("{path} is {left} bytes shorter than it was"), None));
            }
            records.fill(read).map_err(at(path))?;
            left -= read;
        }
        calls.fstat(fd).map_err(CallFailed::of("fstat", path))?;
        calls.close(fd).map_err(CallFailed::of("close", path))?;
        records.pad(BLOCK).map_err(at(path))?;
        note.read(attr.size);
    }
    note.done(FILE, attr.size, started);
    Ok(())
}

/// Unpacks `archive` into the working directory.
pub(super) fn unpack(calls: &dyn Syscalls, archive: &str, note: &mut Noting<'_>) -> Result<(), Failure> {
    let fd = calls.open(archive.as_bytes(), OpenFlags::READ, 0).map_err(CallFailed::of("open", archive))?;
    for _ in 0..2 {
        calls.fstat(fd).map_err(CallFailed::of("fstat", archive))?;
    }
    let mut source = Archive::new(Records::new(calls, fd));
    let (mut directories, mut buffer) = (Vec::new(), vec![0; RECORD]);
    for entry in source.entries().map_err(at(archive))? {
        let mut entry = entry.map_err(at(archive))?;
        let started = begin();
        let path = safe_path(&entry.path_bytes())
            .map_err(|told| Failure::new(format!("{archive}: {told}"), None))?;
        let last = Attributes::of(entry.header()).map_err(at(archive))?;
        match entry.header().entry_type() {
            EntryType::Directory => {
                with_parents(calls, &path, || calls.mkdir(path.as_bytes(), 0o700))
                    .map_err(CallFailed::of("mkdir", &path))?;
                directories.push((path, last));
                note.done(DIRECTORY, 0, started);
            }
            EntryType::Regular | EntryType::GNUSparse | EntryType::Continuous => {
                let size = entry.size();
                unpack_file(calls, &path, &mut entry, &last, &mut buffer)?;
                note.wrote(size);
                note.done(FILE, size, started);
            }
            _ => note.skipped(),
        }
        if note.is_over() {
            break;
        }
    }
    let mut rest = source.into_inner();
    // To the archive's end, as tar reads it.
    while rest.read(&mut buffer).map_err(at(archive))? > 0 {}
    note.read(rest.bytes);
    calls.close(fd).map_err(CallFailed::of("close", archive))?;
    directories.iter().rev().try_for_each(|(path, last)| last.give_directory(calls, path))
}

/// Makes the directories above where the archive does not have them.
fn with_parents<T>(
    calls: &dyn Syscalls,
    path: &str,
    mut call: impl FnMut() -> vfs::Result<T>,
) -> vfs::Result<T> {
    match call() {
        Err(Errno::ENOENT) => {}
        done => return done,
    }
    for (at, _) in path.match_indices('/') {
        match calls.mkdir(&path.as_bytes()[..at], 0o755) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    call()
}

fn unpack_file(
    calls: &dyn Syscalls,
    path: &str,
    entry: &mut tar::Entry<'_, Records<'_>>,
    last: &Attributes,
    buffer: &mut [u8],
) -> Result<(), Failure> {
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
    let fd = with_parents(calls, path, || calls.open(path.as_bytes(), flags, 0o600))
        .map_err(CallFailed::of("open", path))?;
    let mut left = entry.size();
    while left > 0 {
        let read = entry.read(buffer).map_err(at(path))?;
        if read == 0 {
            return Err(Failure::new(
                format!("{path}: {left} bytes are missing; the archive is damaged"),
                None,
            ));
        }
        write_all(calls, fd, path, &buffer[..read])?;
        left -= read as u64;
    }
    for set in last.one_by_one() {
        calls.fsetattr(fd, &set).map_err(CallFailed::of("fsetattr", path))?;
    }
    Ok(calls.close(fd).map_err(CallFailed::of("close", path))?)
}

pub(super) fn write_all(calls: &dyn Syscalls, fd: Fd, path: &str, data: &[u8]) -> Result<(), CallFailed> {
    let mut left = data;
    while !left.is_empty() {
        match calls.write(fd, left).map_err(CallFailed::of("write", path))? {
            0 => return Err(CallFailed::of("write", path)(Errno::ENOSPC)),
            wrote => left = &left[wrote..],
        }
    }
    Ok(())
}

/// What an entry says of owner, mode and time.
struct Attributes {
    mtime: u64,
    owner: Owner,
    mode: u32,
}

impl Attributes {
    fn of(header: &Header) -> io::Result<Self> {
        let owner = Owner { uid: header.uid()? as u32, gid: header.gid()? as u32 };
        Ok(Self { mtime: header.mtime()?, owner, mode: header.mode()? & 0o7777 })
    }

    /// Time, owner, mode: a call each.
    fn one_by_one(&self) -> [SetAttr; 3] {
        let mtime = Some(SetTime::To(Timestamp { secs: self.mtime.cast_signed(), nanos: 0 }));
        [
            SetAttr { mtime, ..SetAttr::default() },
            SetAttr { uid: Some(self.owner.uid), gid: Some(self.owner.gid), ..SetAttr::default() },
            SetAttr { perm: Some(self.mode), ..SetAttr::default() },
        ]
    }

    fn give_directory(&self, calls: &dyn Syscalls, path: &str) -> Result<(), Failure> {
        let [time, owner, mode] = self.one_by_one();
        for set in [time, owner] {
            calls.setattr(path.as_bytes(), &set).map_err(CallFailed::of("setattr", path))?;
        }
        let fd = Listing::open(calls, path.as_bytes()).map_err(CallFailed::of("open", path))?;
        calls.setattr(path.as_bytes(), &mode).map_err(CallFailed::of("chmod", path))?;
        Ok(calls.close(fd).map_err(CallFailed::of("close", path))?)
    }
}

/// The files of an archive with what they hold.
pub(super) fn files(bytes: &[u8], program: Program) -> io::Result<Vec<(String, Vec<u8>)>> {
    if program.is_zip() {
        return super::zip::files(bytes);
    }
    let mut found = Vec::new();
    for entry in Archive::new(bytes).entries()? {
        let mut entry = entry?;
        if entry.header().entry_type() == EntryType::Regular {
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            found.push((path, content));
        }
    }
    Ok(found)
}
