//! The non-blocking-writes traces of FIU (Useche et al., "Non-blocking writes to files", FAST 2015).
//!
//! A file for each processor; lines are `seq ns READ|WRITE inode inode_size offset size HIT|MISS|APPEND` and
//! `seq ns OPEN|CLOSE|FSYNC|FDATASYNC inode inode_size`. The files are merged by the sequence number. There are no names, threads
//! or descriptors: an inode is the file `i/NUMBER`, which existed with the size of its first line; one thread makes all calls; an
//! inode has one descriptor, opened when it is first used and closed when it was closed as often as opened. A read or write beyond
//! the recorded size is counted.

use std::io::{BufRead, Write};

use rustc_hash::FxHashMap;

use super::{Emitter, ImportError, Sums};
use crate::call::{Call, Op};
use crate::record::{Entry, Kind, Record};

/// A line.
#[derive(Clone, Debug)]
struct Line {
    sequence: u64,
    at_ns: u64,
    op: Op,
    inode: u64,
    inode_size: u64,
    offset: u64,
    size: u64,
}

fn parse(text: &str) -> Result<Line, String> {
    let mut words = text.split_whitespace();
    let mut number = |what: &str| {
        let word = words.next().ok_or_else(|| format!("{what} is missing"))?;
        word.parse::<u64>().map_err(|_| format!("{what} is no number: `{word}`"))
    };
    let (sequence, at_ns) = (number("the sequence number")?, number("the time")?);
    let word = words.next().ok_or("the operation is missing")?;
    let op = match word {
        "READ" => Op::Pread,
        "WRITE" => Op::Pwrite,
        "OPEN" => Op::Open,
        "CLOSE" => Op::Close,
        "FSYNC" => Op::Fsync,
        "FDATASYNC" => Op::Fdatasync,
        other => return Err(format!("`{other}` is no operation of this format")),
    };
    let mut number = |what: &str| {
        let word = words.next().ok_or_else(|| format!("{what} is missing"))?;
        word.parse::<u64>().map_err(|_| format!("{what} is no number: `{word}`"))
    };
    let (inode, inode_size) = (number("the inode")?, number("the size of the inode")?);
    let moves = matches!(op, Op::Pread | Op::Pwrite);
    let (offset, size) = if moves { (number("the offset")?, number("the size")?) } else { (0, 0) };
    if offset.checked_add(size).is_none_or(|end| end > i64::MAX as u64) {
        return Err("the offset is too large".to_owned());
    }
    Ok(Line { sequence, at_ns, op, inode, inode_size, offset, size })
}

/// A file with its next line.
struct Source<R> {
    lines: R,
    file: String,
    number: u64,
    next: Option<Line>,
}

impl<R: BufRead> Source<R> {
    fn advance(&mut self) -> Result<(), ImportError> {
        let mut text = String::new();
        loop {
            text.clear();
            self.number += 1;
            if self.lines.read_line(&mut text)? == 0 {
                self.next = None;
                return Ok(());
            }
            if !text.trim().is_empty() {
                break;
            }
        }
        let line = parse(&text);
        let what = |what| ImportError::Line { file: self.file.clone(), line: self.number, what };
        self.next = Some(line.map_err(what)?);
        Ok(())
    }
}

/// Reads the files of a day, with what messages call them.
pub fn import<W: Write, R: BufRead>(
    sources: Vec<(R, String)>,
    mut out: Emitter<W>,
) -> Result<(W, Sums), ImportError> {
    let mut sources: Vec<_> =
        sources.into_iter().map(|(lines, file)| Source { lines, file, number: 0, next: None }).collect();
    sources.iter_mut().try_for_each(Source::advance)?;
    let mut inodes = FxHashMap::default();
    let mut thread = None;
    loop {
        let ready = sources.iter_mut().filter(|source| source.next.is_some());
        let first = ready.min_by_key(|source| source.next.as_ref().map(|line| line.sequence));
        let Some(source) = first else { break };
        let Some(line) = source.next.take() else { break };
        let thread = match thread {
            Some(thread) => thread,
            None => *thread.insert(out.thread((1, 1), b"", line.at_ns)?),
        };
        store(&mut out, thread, &mut inodes, &line)?;
        source.advance()?;
    }
    Ok(out.finish(None)?)
}

/// An inode: its descriptor, and how often it is open; none when it is closed.
#[derive(Clone, Copy, Debug)]
struct Inode {
    fd: i32,
    opens: u32,
    size: u64,
}

fn store<W: Write>(
    out: &mut Emitter<W>,
    thread: u32,
    inodes: &mut FxHashMap<u64, Inode>,
    line: &Line,
) -> std::io::Result<()> {
    let fd = i32::try_from(inodes.len()).unwrap_or(i32::MAX).saturating_add(3);
    let path: Box<[u8]> = format!("i/{}", line.inode).into_bytes().into();
    if !inodes.contains_key(&line.inode) {
        let entry = Entry {
            kind: Kind::File,
            mode: 0o644,
            size: line.inode_size,
            group: 0,
            path: path.clone(),
            target: None,
        };
        out.record(&Record::Entry(entry))?;
    }
    let inode = inodes.entry(line.inode).or_insert(Inode { fd, opens: 0, size: line.inode_size });
    let times = (line.at_ns, 0);
    if inode.opens == 0 && line.op != Op::Close {
        let mut call = Call::new(Op::Open);
        (call.path, call.flags) = (Some(path), 2);
        out.call(thread, times, call, i64::from(inode.fd))?;
        inode.opens = 1;
    } else if line.op == Op::Open {
        inode.opens += 1;
    }
    match line.op {
        Op::Open => return Ok(()),
        Op::Close if inode.opens != 1 => {
            inode.opens = inode.opens.saturating_sub(1);
            return Ok(());
        }
        Op::Close => inode.opens = 0,
        _ => {}
    }
    let end = line.offset + line.size;
    inode.size = inode.size.max(line.inode_size);
    if line.op == Op::Pread && end > inode.size {
        out.count("reads beyond the recorded size", 1);
    }
    inode.size = inode.size.max(end);
    let mut call = Call::new(line.op);
    (call.fd, call.len, call.offset) = (Some(inode.fd), line.size, line.offset.cast_signed());
    out.call(thread, times, call, line.size.cast_signed())
}
