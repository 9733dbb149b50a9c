//! What calls have written, and what was sent to the standard output, the standard error and sockets.
//!
//! strace shows the bytes of writes when its strings are long enough ([`flags_with_contents`]); those of reads are not asked for.
//! The standard output is the open file that the first process had as descriptor 1: copies by dup, fork and exec lead to it too,
//! and a descriptor 1 that leads elsewhere (a pipe of a shell's substitution) does not.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::line::Outcome;
use super::store::{class_of, result_of};
use super::{FLAGS, Importer, args, mapped};
use crate::contents::{APPEND, Channel, DSYNC, Frame, Of, SYNC, Sent, Writer};

/// The arguments of strace that show contents too: strings as long as any write (a longer one is named as cut), reads without
/// their bytes, sends to sockets; after an msync the thread waits (`mapped`). Everything else is as in
/// [`FLAGS`].
pub fn flags_with_contents() -> Vec<String> {
    let mut all: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
    if let Some(traced) = all.last_mut() {
        traced.push_str(",sendto,sendmsg,?io_submit");
    }
    let more = ["-s", "16777216", "-e", "raw=read,pread64,readv,preadv,preadv2", "-e"];
    all.extend(more.map(str::to_owned));
    all.push(format!("inject=msync:delay_exit={}", mapped::WAITS_NS / 1000));
    all
}

/// What is kept, and which descriptors lead to the first process's output.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) writer: Writer,
    /// By table and descriptor; whether exec closes it.
    channels: FxHashMap<(usize, i32), (Channel, bool)>,
}

impl<W: Write> Importer<W> {
    /// Keeps contents from now on.
    pub fn keep_contents(&mut self, writer: Writer) {
        self.kept = Some(Kept { writer, channels: FxHashMap::default() });
    }

    /// The first process has its output; the program is the first thread that shows itself.
    pub(super) fn first_channels(&mut self, number: u32, table: usize) {
        let Some(kept) = self.kept.as_mut().filter(|_| number == 1) else { return };
        kept.channels.insert((table, 1), (Channel::Stdout, false));
        kept.channels.insert((table, 2), (Channel::Stderr, false));
    }

    /// A process has a copy of a table.
    pub(super) fn copy_channels(&mut self, old: usize, new: usize) {
        let Some(kept) = &mut self.kept else { return };
        let of_old = kept.channels.iter().filter(|((table, _), _)| *table == old);
        let copies: Vec<_> = of_old.map(|((_, fd), channel)| ((new, *fd), *channel)).collect();
        kept.channels.extend(copies);
    }

    /// A process calls exec.
    pub(super) fn exec_channels(&mut self, tid: u32) {
        let own = self.runner(tid).table;
        if let Some(kept) = &mut self.kept {
            kept.channels.retain(|(table, _), (_, cloexec)| *table != own || !*cloexec);
        }
    }

    /// Messages that were kept.
    pub(super) fn messages(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.writer.messages())
    }

    pub(super) fn keep_stack(&mut self, of: Of, frames: &[Frame]) -> io::Result<()> {
        self.kept.as_mut().map_or(Ok(()), |kept| kept.writer.stack(of, frames))
    }

    /// The frames of all stacks that were kept, with their numbers.
    pub fn frames(&self) -> Vec<(Frame, u32)> {
        let frames = self.kept.iter().flat_map(|kept| kept.writer.frames());
        let mut frames: Vec<_> = frames.map(|(frame, number)| (frame.clone(), number)).collect();
        frames.sort_unstable_by_key(|(_, number)| *number);
        frames
    }

    /// Keeps the line of source of a frame.
    pub fn source(&mut self, frame: u32, place: &str) -> io::Result<()> {
        self.kept.as_mut().map_or(Ok(()), |kept| kept.writer.source(frame, place))
    }

    pub(super) fn flush_contents(&mut self) -> io::Result<()> {
        self.kept.as_mut().map_or(Ok(()), |kept| kept.writer.flush())
    }

    pub(super) fn finish_contents(&mut self) -> io::Result<()> {
        if self.kept.is_none() {
            return Ok(());
        }
        let halves =
            self.threads.iter().filter_map(|(tid, runner)| Some((runner.half.as_ref()?.at_ns, *tid)));
        let mut halves: Vec<_> = halves.collect();
        halves.sort_unstable();
        halves.into_iter().try_for_each(|(_, tid)| self.never_returns(tid))?;
        let Some(mut kept) = self.kept.take() else { return Ok(()) };
        self.watched.look_at_all(self.out.calls(), &mut kept.writer)?;
        kept.writer.finish()
    }

    /// A whole call.
    pub(super) fn call(
        &mut self,
        tid: u32,
        name: &[u8],
        text: &[u8],
        outcome: Outcome<'_>,
        at_ns: u64,
        child: Option<u32>,
    ) -> io::Result<()> {
        let before = self.out.calls();
        self.store_line(tid, name, text, outcome, at_ns, child)?;
        if self.kept.is_none() || !self.threads.contains_key(&tid) {
            return Ok(());
        }
        let times = (at_ns, outcome.duration_ns.unwrap_or(0));
        match result_of(outcome.text) {
            Some(result) if result >= 0 => {
                self.follow(tid, name, text, result);
                self.keep(tid, (name, text), result, times, before)
            }
            None => self.half(tid, (name, text), at_ns),
            _ => Ok(()),
        }
    }

    /// A thread ends whose call has begun and not returned.
    pub(super) fn never_returns(&mut self, tid: u32) -> io::Result<()> {
        let Some(half) = self.runner(tid).half.take() else { return Ok(()) };
        if half.is_done || half.is_orphan {
            Ok(())
        } else {
            self.half(tid, (&half.name, &half.args), half.at_ns)
        }
    }

    /// A call that has not returned to the program may have had its effect, all of it or a part: it is put together as if it had
    /// returned, and kept beside the trace.
    fn half(&mut self, tid: u32, (name, text): (&[u8], &[u8]), at_ns: u64) -> io::Result<()> {
        if self.kept.is_none() || !changes(name) {
            return Ok(());
        }
        let all = args::split(text);
        let shown = writes(name).map(|vector| all.get(1).and_then(|text| bytes_of(text, vector)));
        let is_told = !UNTOLD.iter().any(|known| known.as_bytes() == name) && shown != Some(None);
        let bytes = shown.flatten();
        let (calls, thread, begin_ns) =
            (self.out.calls(), self.runner(tid).number, self.out.since_begin(at_ns));
        let mut line = None;
        if is_told {
            let result = bytes.as_ref().map_or(0, Vec::len).to_string();
            let outcome = Outcome { text: result.as_bytes(), duration_ns: None };
            self.out.put_aside();
            let stored = self.store_line(tid, name, text, outcome, at_ns, None);
            line = self.out.were_put_aside().into_iter().next();
            stored?;
            if line.is_none() {
                return Ok(()); // it is about no file that is stored
            }
        }
        let flags = flags_of(all.get(4).copied().unwrap_or_default());
        let effect = line.as_deref().map(|line| (line, bytes.as_deref(), flags));
        self.kept.as_mut().map_or(Ok(()), |kept| kept.writer.half((calls, thread, begin_ns), name, effect))
    }

    /// Which descriptors lead to the output.
    fn follow(&mut self, tid: u32, name: &[u8], text: &[u8], result: i64) {
        let table = self.runner(tid).table;
        let Some(kept) = &mut self.kept else { return };
        let all = args::split(text);
        let arg = |at: usize| all.get(at).copied().unwrap_or_default();
        let fd = args::fd(arg(0)).and_then(|fd| fd.number).unwrap_or(-1);
        let made = i32::try_from(result).unwrap_or(-1);
        match name {
            b"close" => drop(kept.channels.remove(&(table, fd))),
            b"dup" | b"dup2" | b"dup3" => {
                let cloexec = args::has(arg(2), "O_CLOEXEC");
                kept.dup(table, (fd, made), cloexec);
            }
            b"fcntl" if arg(1).starts_with(b"F_DUPFD") => {
                kept.dup(table, (fd, made), arg(1).ends_with(b"CLOEXEC"));
            }
            b"fcntl" if arg(1) == b"F_SETFD" => {
                if let Some((_, cloexec)) = kept.channels.get_mut(&(table, fd)) {
                    *cloexec = args::has(arg(2), "FD_CLOEXEC");
                }
            }
            b"close_range" if !args::has(arg(2), "CLOSE_RANGE_CLOEXEC") => {
                let bound = |at: usize| args::number(arg(at)).unwrap_or(0);
                let range = bound(0)..=bound(1).max(0);
                kept.channels.retain(|(of, fd), _| *of != table || !range.contains(&i64::from(*fd)));
            }
            _ => {}
        }
    }

    /// Keeps the bytes of a call that has succeeded.
    fn keep(
        &mut self,
        tid: u32,
        (name, text): (&[u8], &[u8]),
        result: i64,
        (at_ns, duration_ns): (u64, u64),
        before: u64,
    ) -> io::Result<()> {
        let (calls, thread, table) = (self.out.calls(), self.runner(tid).number, self.runner(tid).table);
        let begin_ns = self.out.since_begin(at_ns);
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let stored = calls > before;
        if stored && matches!(name, b"setxattr" | b"lsetxattr" | b"fsetxattr") {
            let all = args::split(text);
            let value = all.get(2).and_then(|text| args::string(text));
            return value.map_or(Ok(()), |(value, _)| kept.writer.call(calls, &value, 0));
        }
        let Some(vector) = writes(name) else { return Ok(()) };
        let all = args::split(text);
        let fd = all.first().and_then(|text| args::fd(text)).unwrap_or_default();
        let output = fd.number.and_then(|fd| kept.channels.get(&(table, fd))).map(|(channel, _)| *channel);
        let is_socket = fd.beside.as_deref().and_then(class_of) == Some("calls on sockets");
        let channel = output.or(is_socket.then_some(Channel::Socket));
        if !stored && channel.is_none() {
            return Ok(());
        }
        let shown = all.get(1).and_then(|text| bytes_of(text, vector));
        let Some(bytes) = shown.as_deref().and_then(|bytes| bytes.get(..result.max(0) as usize)) else {
            let what =
                format!("{result} bytes of {}, of which strace shows fewer", String::from_utf8_lossy(name));
            return kept.writer.unkept(&what);
        };
        if stored {
            let flags = all.get(4).copied().unwrap_or_default();
            kept.writer.call(calls, bytes, flags_of(flags))?;
        }
        let sent =
            |channel| Sent { calls, thread, begin_ns, end_ns: begin_ns + duration_ns, channel, bytes: 0 };
        channel.map_or(Ok(()), |channel| kept.writer.sent(&sent(channel), bytes))
    }
}

impl Kept {
    fn dup(&mut self, table: usize, (from, to): (i32, i32), cloexec: bool) {
        let channel = self.channels.get(&(table, from)).map(|(channel, _)| *channel);
        match channel {
            Some(_) if from == to => {}
            Some(channel) => drop(self.channels.insert((table, to), (channel, cloexec))),
            None => drop(self.channels.remove(&(table, to))),
        }
    }
}

/// Whether a call writes the bytes of its second argument, and whether this is a vector.
fn writes(name: &[u8]) -> Option<bool> {
    match name {
        b"write" | b"pwrite64" | b"pwrite" | b"sendto" => Some(false),
        b"writev" | b"pwritev" | b"pwritev2" | b"sendmsg" => Some(true),
        _ => None,
    }
}

/// Calls that change files, and whose arguments do not say how: by which descriptor, or how much.
const UNTOLD: [&str; 5] = ["open", "openat", "creat", "copy_file_range", "sendfile"];

/// Whether a call may change files, or what they contain.
fn changes(name: &[u8]) -> bool {
    const NAMES: &[&str] = &[
        "open",
        "openat",
        "creat",
        "truncate",
        "ftruncate",
        "fallocate",
        "mkdir",
        "mkdirat",
        "rmdir",
        "unlink",
        "unlinkat",
        "rename",
        "renameat",
        "renameat2",
        "link",
        "linkat",
        "symlink",
        "symlinkat",
        "copy_file_range",
        "sendfile",
    ];
    writes(name).is_some_and(|_| !name.starts_with(b"send"))
        || NAMES.iter().any(|known| known.as_bytes() == name)
}

fn flags_of(text: &[u8]) -> u8 {
    let all = [("RWF_DSYNC", DSYNC), ("RWF_SYNC", SYNC), ("RWF_APPEND", APPEND)];
    all.iter().filter(|(word, _)| args::has(text, word)).map(|(_, bit)| bit).sum()
}

/// The bytes that an argument shows: of a string, or of a vector of strings, also within the structure of sendmsg.
fn bytes_of(text: &[u8], vector: bool) -> Option<Vec<u8>> {
    if !vector {
        return args::string(text).filter(|(_, cut)| !cut).map(|(bytes, _)| bytes.into());
    }
    let text = if text.starts_with(b"{") { args::member(text, "msg_iov")? } else { text };
    let inner = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let mut all = Vec::new();
    for part in args::split(inner) {
        let base = args::member(part, "iov_base")?;
        let (bytes, cut) = args::string(base)?;
        if cut {
            return None;
        }
        all.extend_from_slice(&bytes);
    }
    Some(all)
}
