//! Load files of dbench 4 as the calls that its `fileio` backend makes of them, for one client and one pass.
//!
//! A line is an operation, its arguments (words or quoted paths, numbers decimal or `0x`), and the status that is expected. Paths
//! have backslashes. What an operation does:
//!
//! | operation | calls |
//! |---|---|
//! | NTCreateX name options disposition handle | stat; open for both, or mkdir and open (below); fstat |
//! | Close, Flush, ReadX, WriteX, LockX, UnlockX | close, fsync, pread, pwrite, lock |
//! | QUERY_PATH_INFORMATION, QUERY_FILE_INFORMATION, QUERY_FS_INFORMATION | stat, fstat, statfs |
//! | SET_FILE_INFORMATION | utimes of the open file |
//! | FIND_FIRST | stat; with a wildcard: the directory opened, listed, closed |
//! | Unlink, Mkdir, Rmdir, Rename | the call of the name, after a stat |
//! | Deltree | unlink and rmdir of all that the file has made below, by name |
//!
//! Disposition 2 creates a file, 4 and 5 empty it; option bit 1 stands for a directory, which is made and opened as one.
//!
//! Before each name `fileio` does a stat, and where that fails lists the parent directory to compare names without case: the trace
//! has both. Times are not known: gaps and durations are 0.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use super::{Emitter, ImportError, Sums, Wrong, each_line};
use crate::call::{Call, NOW, Op};
use crate::record::{Entry, Kind, Record};
use crate::words::{CREAT, DIRECTORY, TRUNC, Table};

/// Bytes of the buffer with which glibc lists a directory.
const LIST_BYTES: u64 = 32 << 10;
/// Bit of NTCreateX's options: a directory is wanted.
const WANTS_DIRECTORY: u64 = 1;

/// Reads a load file.
pub fn import<W: Write>(source: impl BufRead, file: &str, out: Emitter<W>) -> Result<(W, Sums), ImportError> {
    let mut load = Load { out, thread: 0, open: BTreeMap::new(), tree: BTreeMap::new(), next: 3 };
    load.thread = load.out.thread((1, 1), b"dbench", 0)?;
    each_line(source, file, |text, _| load.line(text))?;
    let left = load.open.len() as u64;
    if left > 0 {
        load.out.count("handles that the file does not close", left);
    }
    Ok(load.out.finish(None)?)
}

/// An open handle.
#[derive(Clone, Debug)]
struct Open {
    fd: i32,
    path: String,
}

struct Load<W: Write> {
    out: Emitter<W>,
    thread: u32,
    open: BTreeMap<u64, Open>,
    /// What exists, and whether it is a directory.
    tree: BTreeMap<String, bool>,
    next: i32,
}

/// The words of a line; quotes hold one together.
fn words(text: &str) -> Result<Vec<String>, Wrong> {
    let (mut all, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('"') {
            let end = inner.find('"').ok_or("a quote has no end")?;
            all.push(inner[..end].to_owned());
            rest = inner[end + 1..].trim_start();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            all.push(rest[..end].to_owned());
            rest = rest[end..].trim_start();
        }
    }
    Ok(all)
}

/// An operation with its arguments.
struct Line<'a> {
    name: &'a str,
    args: &'a [String],
    /// What the file expects: 0, or −errno.
    expected: i64,
}

impl Line<'_> {
    fn number(&self, at: usize, what: &str) -> Result<u64, Wrong> {
        let word =
            self.args.get(at).ok_or_else(|| Wrong::Text(format!("{}: {what} is missing", self.name)))?;
        let value = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        value.ok_or_else(|| Wrong::Text(format!("{}: {what} is no number: `{word}`", self.name)))
    }

    fn path(&self, at: usize) -> Result<String, Wrong> {
        let word =
            self.args.get(at).ok_or_else(|| Wrong::Text(format!("{}: the name is missing", self.name)))?;
        let parts: Vec<&str> = word.split(['\\', '/']).filter(|part| !part.is_empty()).collect();
        Ok(parts.join("/"))
    }
}

/// What a status of the protocol is as an error.
fn status(word: &str) -> Option<i64> {
    match word {
        "NT_STATUS_OK" | "SUCCESS" | "0x00000000" | "0x0" => Some(0),
        "NT_STATUS_OBJECT_NAME_COLLISION" => Some(-17),
        "NT_STATUS_ACCESS_DENIED" | "NT_STATUS_SHARING_VIOLATION" => Some(-13),
        "NT_STATUS_OBJECT_PATH_INVALID" => Some(-20),
        "NT_STATUS_DIRECTORY_NOT_EMPTY" => Some(-39),
        word if word.starts_with("NT_STATUS_") || word.starts_with("0x") => Some(-2),
        _ => None,
    }
}

impl<W: Write> Load<W> {
    fn line(&mut self, text: &[u8]) -> Result<(), Wrong> {
        let text = std::str::from_utf8(text).map_err(|_| "the line is not text")?;
        if text.trim().is_empty() || text.trim_start().starts_with('#') {
            return Ok(());
        }
        let words = words(text)?;
        let expected = words.last().and_then(|word| status(word));
        let args = &words[1..words.len() - usize::from(expected.is_some() && words.len() > 1)];
        let line = Line { name: &words[0], args, expected: expected.unwrap_or(0) };
        match line.name {
            "NTCreateX" => self.create(&line),
            "Close"
            | "Flush"
            | "ReadX"
            | "WriteX"
            | "LockX"
            | "UnlockX"
            | "QUERY_FILE_INFORMATION"
            | "SET_FILE_INFORMATION" => self.by_handle(&line),
            "QUERY_PATH_INFORMATION" => self.resolve(&line.path(0)?, line.expected).map(drop),
            "QUERY_FS_INFORMATION" => {
                let mut call = Call::new(Op::Statfs);
                call.path = Some(Box::default());
                self.call(call, 0)
            }
            "FIND_FIRST" => self.find(&line),
            "Unlink" => self.name(&line, Op::Unlink),
            "Rmdir" => self.name(&line, Op::Rmdir),
            "Mkdir" => self.name(&line, Op::Mkdir),
            "Rename" => self.rename(&line),
            "Deltree" => self.deltree(&line.path(0)?),
            "Sleep" => Ok(()),
            other => Err(Wrong::Text(format!("`{other}` is no operation of a load file of dbench 4"))),
        }
    }

    fn call(&mut self, call: Call, result: i64) -> Result<(), Wrong> {
        Ok(self.out.call(self.thread, (0, 0), call, result)?)
    }

    fn by_path(&mut self, op: Op, path: &str, result: i64) -> Result<(), Wrong> {
        let mut call = Call::new(op);
        call.path = Some(path.as_bytes().into());
        call.mode = if op == Op::Mkdir { 0o777 } else { 0 };
        self.call(call, result)
    }

    /// What must have existed before, because the file uses it and has not made it.
    fn exists(&mut self, path: &str, directory: bool) -> Result<(), Wrong> {
        if path.is_empty() || self.tree.contains_key(path) {
            return Ok(());
        }
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        self.exists(&parent, true)?;
        self.tree.insert(path.to_owned(), directory);
        let (kind, mode) = if directory { (Kind::Directory, 0o777) } else { (Kind::File, 0o644) };
        let entry = Entry { kind, mode, size: 0, group: 0, path: path.as_bytes().into(), target: None };
        Ok(self.out.record(&Record::Entry(entry))?)
    }

    /// How `fileio` finds a name: a stat, and where it fails a search of the parent. Says whether it is there.
    fn resolve(&mut self, path: &str, expected: i64) -> Result<bool, Wrong> {
        if expected >= 0 {
            self.exists(path, false)?;
        }
        let there = path.is_empty() || self.tree.contains_key(path);
        self.by_path(Op::Stat, path, if there { 0 } else { -2 })?;
        if !there {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
            self.list(&parent)?;
        }
        Ok(there)
    }

    fn list(&mut self, path: &str) -> Result<(), Wrong> {
        let there = path.is_empty() || self.tree.get(path).copied().unwrap_or(false);
        let fd = self.next;
        let mut open = Call::new(Op::Open);
        (open.path, open.flags) = (Some(path.as_bytes().into()), DIRECTORY);
        self.call(open, if there { i64::from(fd) } else { -2 })?;
        if !there {
            return Ok(());
        }
        self.next += 1;
        // What the entries take, as the kernel lays them out (getdents64(2)); `.` and `..` among them.
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let below = self.tree.range(prefix.clone()..).map(|(name, _)| name);
        let names = below.take_while(|name| name.starts_with(&prefix)).map(|name| name[prefix.len()..].len());
        let bytes: usize = names.map(|len| (20 + len).next_multiple_of(8)).sum::<usize>() + 48;
        for result in [i64::try_from(bytes).unwrap_or(i64::MAX), 0] {
            let mut list = Call::new(Op::Getdents);
            (list.fd, list.len) = (Some(fd), LIST_BYTES);
            self.call(list, result)?;
        }
        self.on_fd(Op::Close, fd, (0, 0), 0)
    }

    fn on_fd(&mut self, op: Op, fd: i32, (len, offset): (u64, u64), result: i64) -> Result<(), Wrong> {
        let mut call = Call::new(op);
        (call.fd, call.len) = (Some(fd), len);
        call.offset = i64::try_from(offset).map_err(|_| "the offset is too large")?;
        if op == Op::Futimes {
            (call.offset, call.offset2) = (NOW, NOW);
        }
        self.call(call, result)
    }

    fn create(&mut self, line: &Line<'_>) -> Result<(), Wrong> {
        let path = line.path(0)?;
        let (options, disposition) = (line.number(1, "the options")?, line.number(2, "the disposition")?);
        let creates = disposition == 2;
        let there = self.resolve(&path, if creates { -2 } else { line.expected })?;
        let is_directory = options & WANTS_DIRECTORY != 0 || self.tree.get(&path).copied().unwrap_or(false);
        if line.expected < 0 {
            let mut open = Call::new(Op::Open);
            (open.path, open.flags) = (Some(path.as_bytes().into()), 2);
            return self.call(open, line.expected);
        }
        if options & WANTS_DIRECTORY != 0 && creates {
            self.by_path(Op::Mkdir, &path, if there { -17 } else { 0 })?;
        }
        let (fd, mut open) = (self.next, Call::new(Op::Open));
        self.next += 1;
        open.path = Some(path.as_bytes().into());
        open.mode = 0o644;
        open.flags = if is_directory { DIRECTORY } else { 2 };
        if !is_directory {
            open.flags |= if creates { CREAT } else { 0 };
            open.flags |= if matches!(disposition, 4 | 5) { TRUNC } else { 0 };
        }
        self.tree.insert(path.clone(), is_directory);
        self.call(open, i64::from(fd))?;
        self.on_fd(Op::Fstat, fd, (0, 0), 0)?;
        self.open.insert(line.number(3, "the handle")?, Open { fd, path });
        Ok(())
    }

    fn by_handle(&mut self, line: &Line<'_>) -> Result<(), Wrong> {
        let handle = line.number(0, "the handle")?;
        let Some(open) = self.open.get(&handle).cloned() else {
            return Err(Wrong::Text(format!("{}: handle {handle} was opened by no line before", line.name)));
        };
        let fd = open.fd;
        let range =
            |load: &Line<'_>| Ok::<_, Wrong>((load.number(2, "the size")?, load.number(1, "the offset")?));
        match line.name {
            "Close" => {
                self.open.remove(&handle);
                self.on_fd(Op::Close, fd, (0, 0), 0)
            }
            "Flush" => self.on_fd(Op::Fsync, fd, (0, 0), 0),
            "QUERY_FILE_INFORMATION" => self.on_fd(Op::Fstat, fd, (0, 0), 0),
            "SET_FILE_INFORMATION" => self.on_fd(Op::Futimes, fd, (0, 0), 0),
            "ReadX" | "WriteX" => {
                let range = range(line)?;
                let done = line.number(3, "the result").unwrap_or(range.0);
                let done = i64::try_from(done).map_err(|_| "the result is too large")?;
                let op = if line.name == "ReadX" { Op::Pread } else { Op::Pwrite };
                self.on_fd(op, fd, range, done)
            }
            _ => {
                let (len, offset) = range(line)?;
                let mut call = Call::new(Op::Lock);
                let word: &[u8] = if line.name == "LockX" { b"ex" } else { b"un" };
                (call.fd, call.len, call.flags) = (Some(fd), len, Table::Lock.bit(word).unwrap_or(0));
                call.offset = i64::try_from(offset).map_err(|_| "the offset is too large")?;
                self.call(call, 0)
            }
        }
    }

    fn find(&mut self, line: &Line<'_>) -> Result<(), Wrong> {
        let path = line.path(0)?;
        let (parent, last) = path.rsplit_once('/').unwrap_or(("", &path));
        if !last.contains(['*', '?', '<', '>']) {
            return self.resolve(&path, line.expected).map(drop);
        }
        self.exists(parent, true)?;
        self.by_path(Op::Stat, parent, 0)?;
        self.list(parent)
    }

    fn name(&mut self, line: &Line<'_>, op: Op) -> Result<(), Wrong> {
        let path = line.path(0)?;
        let expected = if op == Op::Mkdir { -2 } else { line.expected };
        let there = self.resolve(&path, expected)?;
        match op {
            Op::Mkdir if line.expected >= 0 && !there => drop(self.tree.insert(path.clone(), true)),
            Op::Mkdir => return self.by_path(op, &path, -17),
            _ if line.expected >= 0 => drop(self.tree.remove(&path)),
            _ => {}
        }
        self.by_path(op, &path, line.expected)
    }

    fn rename(&mut self, line: &Line<'_>) -> Result<(), Wrong> {
        let (from, to) = (line.path(0)?, line.path(1)?);
        self.resolve(&from, line.expected)?;
        self.resolve(&to, -2)?;
        let mut call = Call::new(Op::Rename);
        (call.path, call.path2) = (Some(from.as_bytes().into()), Some(to.as_bytes().into()));
        if line.expected >= 0 {
            let moved: Vec<String> = self.below(&from);
            for name in moved {
                let is_directory = self.tree.remove(&name).unwrap_or(false);
                self.tree.insert(format!("{to}{}", &name[from.len()..]), is_directory);
            }
            for open in self.open.values_mut().filter(|open| open.path == from) {
                open.path.clone_from(&to);
            }
        }
        self.call(call, line.expected)
    }

    /// A name and all below it.
    fn below(&self, path: &str) -> Vec<String> {
        let is_below = |name: &&String| {
            name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.tree.range(path.to_owned()..).map(|(name, _)| name).filter(is_below).cloned().collect()
    }

    fn deltree(&mut self, path: &str) -> Result<(), Wrong> {
        self.by_path(Op::Stat, path, if self.tree.contains_key(path) { 0 } else { -2 })?;
        for name in self.below(path).into_iter().rev() {
            let is_directory = self.tree.remove(&name).unwrap_or(false);
            self.by_path(if is_directory { Op::Rmdir } else { Op::Unlink }, &name, 0)?;
        }
        Ok(())
    }
}
