//! fio's iologs, version 2 and 3, as calls of files: what fio's `ioengine=psync` makes of them (fio's HOWTO, "Trace file format").
//!
//! A file is opened when the log opens it, or at its first use; `add` only names it. Of version 3 the first word is a time in
//! microseconds from the beginning; of version 2 only `wait` says anything of time. `trim` becomes a punched hole.

use std::io::{BufRead, Write};

use rustc_hash::FxHashMap;

use super::{Emitter, ImportError, Sums, Wrong, each_line};
use crate::call::{Call, Op};

/// Reads an iolog.
pub fn import<W: Write>(source: impl BufRead, file: &str, out: Emitter<W>) -> Result<(W, Sums), ImportError> {
    let mut log = Log { out, version: 0, now_ns: 0, open: FxHashMap::default(), next: 3, thread: 0 };
    each_line(source, file, |text, _| log.line(text))?;
    if log.version == 0 {
        let what = "the file is empty; the first line must be \"fio version 3 iolog\"".to_owned();
        return Err(ImportError::Line { file: file.to_owned(), line: 1, what });
    }
    Ok(log.out.finish(None)?)
}

struct Log<W: Write> {
    out: Emitter<W>,
    version: u32,
    now_ns: u64,
    open: FxHashMap<Box<[u8]>, i32>,
    next: i32,
    thread: u32,
}

fn number(word: Option<&str>, what: &str) -> Result<u64, Wrong> {
    word.and_then(|word| word.parse().ok())
        .ok_or_else(|| Wrong::Text(format!("{what} is missing or no number")))
}

impl<W: Write> Log<W> {
    fn line(&mut self, text: &[u8]) -> Result<(), Wrong> {
        let text = std::str::from_utf8(text).map_err(|_| "the line is not text")?;
        if text.trim().is_empty() {
            return Ok(());
        }
        if self.version == 0 {
            return self.first(text);
        }
        let mut words = text.split_whitespace();
        if self.version == 3 {
            self.now_ns = number(words.next(), "the time in microseconds")?.saturating_mul(1000);
        }
        let (file, action) = (words.next().unwrap_or_default(), words.next());
        let action = action.ok_or("a line has a file and an action")?;
        let mut sizes =
            || Ok::<_, Wrong>((number(words.next(), "the offset")?, number(words.next(), "the length")?));
        match action {
            "add" => Ok(()),
            "open" => self.fd(file).map(drop),
            "close" => match self.open.remove(file.as_bytes()) {
                Some(fd) => self.call(Op::Close, fd, (0, 0), 0),
                None => Ok(()),
            },
            "wait" => {
                let micros = number(words.next(), "the microseconds to wait")?;
                self.now_ns = self.now_ns.saturating_add(micros.saturating_mul(1000));
                Ok(())
            }
            "read" => sizes().and_then(|range| self.on(file, Op::Pread, range)),
            "write" => sizes().and_then(|range| self.on(file, Op::Pwrite, range)),
            "trim" => sizes().and_then(|range| self.on(file, Op::Fallocate, range)),
            "sync" => self.on(file, Op::Fsync, (0, 0)),
            "datasync" => self.on(file, Op::Fdatasync, (0, 0)),
            "unlink" => {
                let mut call = Call::new(Op::Unlink);
                call.path = Some(path(file));
                Ok(self.out.call(self.thread, (self.now_ns, 0), call, 0)?)
            }
            other => Err(Wrong::Text(format!("no action of fio is called \"{other}\""))),
        }
    }

    fn first(&mut self, text: &str) -> Result<(), Wrong> {
        let version =
            text.trim().strip_prefix("fio version ").and_then(|rest| rest.split_whitespace().next());
        self.version = match version.and_then(|word| word.parse().ok()) {
            Some(version @ (2 | 3)) => version,
            Some(_) => return Err("only versions 2 and 3 of fio's iolog are known".into()),
            None => return Err("the first line must be \"fio version 3 iolog\"".into()),
        };
        self.thread = self.out.thread((1, 1), b"fio", 0)?;
        Ok(())
    }

    fn fd(&mut self, file: &str) -> Result<i32, Wrong> {
        if let Some(fd) = self.open.get(file.as_bytes()) {
            return Ok(*fd);
        }
        let (fd, mut call) = (self.next, Call::new(Op::Open));
        (call.path, call.flags, call.mode) = (Some(path(file)), 2, 0o644);
        self.next += 1;
        self.open.insert(file.as_bytes().into(), fd);
        self.out.call(self.thread, (self.now_ns, 0), call, i64::from(fd))?;
        Ok(fd)
    }

    fn on(&mut self, file: &str, op: Op, range: (u64, u64)) -> Result<(), Wrong> {
        let fd = self.fd(file)?;
        let moves = matches!(op, Op::Pread | Op::Pwrite);
        self.call(op, fd, range, if moves { range.1 } else { 0 })
    }

    fn call(&mut self, op: Op, fd: i32, (offset, len): (u64, u64), result: u64) -> Result<(), Wrong> {
        let mut call = Call::new(op);
        (call.fd, call.len) = (Some(fd), len);
        call.offset = i64::try_from(offset).map_err(|_| "the offset is too large")?;
        // Of fallocate: punch a hole and keep the size.
        call.flags = if op == Op::Fallocate { 3 } else { 0 };
        let result = i64::try_from(result).map_err(|_| "the length is too large")?;
        Ok(self.out.call(self.thread, (self.now_ns, 0), call, result)?)
    }
}

/// Relative to the root of the trace.
fn path(file: &str) -> Box<[u8]> {
    file.trim_start_matches('/').as_bytes().into()
}
