//! Traces of MobiGen (Jeong et al., "Framework for analyzing Android I/O stack behavior", Future Internet 2013), as Mobibench
//! replays them: `thread microseconds call arguments`.
//!
//! | call | arguments |
//! |---|---|
//! | open | path, flags, descriptor |
//! | close, fsync, fdatasync, fstat | descriptor |
//! | read, write | descriptor, bytes |
//! | pread, pwrite | descriptor, offset, bytes |
//! | access, stat, lstat, unlink | path |
//!
//! Lines stand thread by thread and are put into the order of their times. All threads share one table of descriptors. A path
//! without quotes is one that MobiGen has made up for a descriptor whose opening it did not see: the file is then
//! `descriptor/FD-N`, one for each opening. There are no results: every call is taken to succeed in full.

use std::io::{BufRead, Write};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Emitter, ImportError, Sums, Wrong, each_line};
use crate::call::{Call, Op};
use crate::record::{Loss, Shares};
use crate::words::{CREAT, TRUNC};

struct Line {
    thread: u32,
    at_ns: u64,
    /// In the file, for equal times and for messages.
    number: u64,
    words: Vec<String>,
}

/// Reads a trace. It is kept in memory, because it must be sorted.
pub fn import<W: Write>(source: impl BufRead, file: &str, out: Emitter<W>) -> Result<(W, Sums), ImportError> {
    let mut lines = Vec::new();
    each_line(source, file, |text, number| {
        lines.extend(line(text, number)?);
        Ok(())
    })?;
    lines.sort_by_key(|line: &Line| (line.at_ns, line.number));
    let mut script = Script { out, threads: FxHashMap::default(), open: FxHashSet::default(), made_up: 0 };
    for line in &lines {
        script.line(line).map_err(|wrong| match wrong {
            Wrong::Io(error) => ImportError::Io(error),
            Wrong::Text(what) => ImportError::Line { file: file.to_owned(), line: line.number, what },
        })?;
    }
    Ok(script.out.finish(None)?)
}

fn line(text: &[u8], number: u64) -> Result<Option<Line>, Wrong> {
    let text = std::str::from_utf8(text).map_err(|_| "the line is not text")?;
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    let thread = first.parse().map_err(|_| "the first word is no thread; this is no trace of MobiGen")?;
    let micros: u64 = words
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or("the second word is no time in microseconds")?;
    let words: Vec<String> = words.map(str::to_owned).collect();
    if words.is_empty() {
        return Err("the call is missing".into());
    }
    Ok(Some(Line { thread, at_ns: micros.saturating_mul(1000), number, words }))
}

struct Script<W: Write> {
    out: Emitter<W>,
    threads: FxHashMap<u32, u32>,
    open: FxHashSet<i32>,
    made_up: u32,
}

impl<W: Write> Script<W> {
    fn line(&mut self, line: &Line) -> Result<(), Wrong> {
        let thread = self.thread(line.thread, line.at_ns)?;
        let (name, args) = (line.words[0].as_str(), &line.words[1..]);
        let number = |at: usize, what: &str| -> Result<u64, Wrong> {
            let word = args.get(at).ok_or_else(|| Wrong::Text(format!("{name}: {what} is missing")))?;
            word.parse().map_err(|_| Wrong::Text(format!("{name}: {what} is no number: `{word}`")))
        };
        let fd = |at: usize| -> Result<i32, Wrong> {
            i32::try_from(number(at, "the descriptor")?)
                .map_err(|_| Wrong::Text(format!("{name}: the descriptor is too large")))
        };
        let (op, len, offset) = match name {
            "open" => return self.open(thread, line.at_ns, args, fd(2)?),
            "access" => return self.by_path(thread, line.at_ns, Op::Access, args),
            "stat" | "stat64" => return self.by_path(thread, line.at_ns, Op::Stat, args),
            "lstat" | "lstat64" => return self.by_path(thread, line.at_ns, Op::Lstat, args),
            "unlink" => return self.by_path(thread, line.at_ns, Op::Unlink, args),
            "close" => (Op::Close, 0, 0),
            "fsync" => (Op::Fsync, 0, 0),
            "fdatasync" => (Op::Fdatasync, 0, 0),
            "fstat" | "fstat64" => (Op::Fstat, 0, 0),
            "read" => (Op::Read, number(1, "the count of bytes")?, 0),
            "write" => (Op::Write, number(1, "the count of bytes")?, 0),
            "pread" => (Op::Pread, number(2, "the count of bytes")?, number(1, "the offset")?),
            "pwrite" => (Op::Pwrite, number(2, "the count of bytes")?, number(1, "the offset")?),
            other => return Err(Wrong::Text(format!("`{other}` is no call of this format"))),
        };
        let fd = fd(0)?;
        if !self.open.contains(&fd) {
            let why = "on descriptors that no call in the trace has opened";
            self.out.pass(thread, 0);
            self.out.lose(&Loss::calls(1, op.name(), why));
            return Ok(());
        }
        if op == Op::Close {
            self.open.remove(&fd);
        }
        let mut call = Call::new(op);
        (call.fd, call.len) = (Some(fd), len);
        call.offset = i64::try_from(offset).map_err(|_| "the offset is too large")?;
        let result = i64::try_from(len).map_err(|_| "the count of bytes is too large")?;
        Ok(self.out.call(thread, (line.at_ns, 0), call, result)?)
    }

    fn thread(&mut self, number: u32, at_ns: u64) -> Result<u32, Wrong> {
        if let Some(thread) = self.threads.get(&number) {
            return Ok(*thread);
        }
        let first = self.threads.values().min().copied();
        let ids = (1, number.saturating_add(1));
        let thread = match first {
            None => self.out.thread(ids, b"", at_ns)?,
            Some(first) => self.out.fork(first, ids, b"", Shares::THREAD, at_ns)?,
        };
        self.threads.insert(number, thread);
        Ok(thread)
    }

    fn open(&mut self, thread: u32, at_ns: u64, args: &[String], fd: i32) -> Result<(), Wrong> {
        let named = args[0].strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
        let path = named.map_or_else(
            || {
                self.made_up += 1;
                format!("descriptor/{fd}-{}", self.made_up)
            },
            |path| path.trim_start_matches('/').to_owned(),
        );
        let mut call = Call::new(Op::Open);
        // Mobibench opens what was opened for writing as a new file.
        call.flags = if args[1].starts_with("O_RDONLY") { 0 } else { 2 | CREAT | TRUNC };
        (call.path, call.mode) = (Some(path.into_bytes().into()), 0o644);
        self.open.insert(fd);
        Ok(self.out.call(thread, (at_ns, 0), call, i64::from(fd))?)
    }

    fn by_path(&mut self, thread: u32, at_ns: u64, op: Op, args: &[String]) -> Result<(), Wrong> {
        let path = args.first().ok_or_else(|| Wrong::Text(format!("{}: the path is missing", op.name())))?;
        let path = path.trim_matches('"').trim_start_matches('/');
        let mut call = Call::new(op);
        call.path = Some(path.as_bytes().into());
        Ok(self.out.call(thread, (at_ns, 0), call, 0)?)
    }
}
