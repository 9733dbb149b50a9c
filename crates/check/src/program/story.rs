//! What a trace shows of a program, on inodes instead of paths: the deeds that change a file system, the syncs, what was
//! acknowledged, and what could not be seen.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use trace::Reader;
use trace::call::Op;
use trace::compile::{Options, Program};
use trace::contents::{Channel, Contents, ContentsError, Frame, KEY};
pub use trace::record::Kind;
use trace::record::{Record, Status};

use super::halves::{HALF, Whole};
use super::walk::Walk;

/// A number of [`Story::inodes`]. 0 is the root, 1 stands for everything outside it.
pub type Inode = u32;
/// The root.
pub const ROOT: Inode = 0;
/// Everything outside the root.
pub const OUTSIDE: Inode = 1;

/// A name in a directory: its inode, and a number of [`Story::names`].
pub type Entry = (Inode, u32);

/// Why a trace cannot be used. The sentence says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoryError {
    /// The trace itself.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// Its contents.
    #[error(transparent)]
    Contents(#[from] ContentsError),
    /// It has not seen everything.
    #[error("{what}: {advice}")]
    Unseen {
        /// What is missing.
        what: String,
        /// What to do.
        advice: String,
    },
    /// It cannot be understood.
    #[error("{0}")]
    Other(String),
}

/// Bytes of a deed: where they are among all bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice {
    /// A number of [`Blobs`].
    pub blob: u32,
    /// The first byte.
    pub start: u64,
    /// How many.
    pub len: u64,
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attr {
    /// Permission bits.
    Mode(u32),
    /// User and group; −1: unchanged.
    Owner(i64, i64),
    /// An extended attribute; none: removed.
    Extended(Box<[u8]>, Option<Slice>),
}

/// A change of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A new inode gets its first name.
    Make(Entry, Inode),
    /// An inode gets a further name, or an unnamed one its first.
    Link(Entry, Inode),
    /// A name goes.
    Unlink(Entry, Inode),
    /// A name moves.
    Rename {
        /// The old name.
        from: Entry,
        /// The new one.
        to: Entry,
        /// What moves.
        inode: Inode,
        /// What had the new name.
        replaced: Option<Inode>,
        /// Both stay, with their names exchanged.
        exchange: bool,
    },
    /// Bytes are written.
    Write {
        /// Where.
        inode: Inode,
        /// Where in it.
        offset: u64,
        /// What.
        bytes: Slice,
        /// Past the page cache.
        direct: bool,
        /// Copied within the kernel from whole blocks of another file, which some file systems share instead.
        shares: bool,
    },
    /// The size is set; `allocates`: by fallocate, which only makes it larger.
    Size {
        /// Of what.
        inode: Inode,
        /// The size.
        size: u64,
    },
    /// A range becomes zeros.
    Zero {
        /// Where.
        inode: Inode,
        /// From.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// An attribute is set.
    Set(Inode, Attr),
    /// A sync.
    Sync(What),
}

/// What a sync is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A file. `range`: only data there, and what is needed to read it.
    File {
        /// Which.
        inode: Inode,
        /// Without what reading the data does not need.
        data_only: bool,
        /// Bytes from and to; none: all.
        range: Option<(u64, u64)>,
        /// It is part of the write just before, and covers that.
        of_write: bool,
    },
    /// A directory.
    Folder(Inode),
    /// Everything on one file system: a number of [`Node::device`].
    Device(u32),
    /// Everything.
    All,
}

/// A deed, and the call that did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// A number of [`Story::calls`].
    pub call: u32,
    /// What.
    pub deed: Deed,
}

/// A call, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInfo {
    /// The word of a trace: `rename`; of a rename that exchanges two names, `exchange`.
    pub name: &'static str,
    /// The path that it is about, and of a rename or link the second.
    pub paths: [Option<String>; 2],
    /// Bytes from and to, of a write.
    pub range: Option<(u64, u64)>,
    /// The thread in the trace.
    pub thread: u32,
    /// The line of the trace.
    pub line: u64,
    /// Nanoseconds since the beginning.
    pub begin_ns: u64,
    /// When it had returned; the greatest number of one that never did.
    pub end_ns: u64,
    /// Its stack, the innermost first: numbers of [`Story::frames`]; empty where none was recorded.
    pub stack: Vec<u32>,
}

/// What a program has told, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// When it began to tell.
    pub at_ns: u64,
    /// All that was told so far has so many bytes of [`Story::told`].
    pub bytes: usize,
    /// How many calls of the trace had ended.
    pub calls: u64,
    /// The stack of the call that told it, as in [`CallInfo::stack`].
    pub stack: Vec<u32>,
}

/// Which bytes are acknowledgements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// None.
    None,
    /// Whole lines of the standard output.
    #[default]
    Lines,
    /// Every byte of the standard output.
    Writes,
    /// Whole messages to sockets.
    Socket,
    /// The end of the program with exit code 0.
    Exit,
    /// Whole lines that are written to the file that has this path below the root when it is first seen.
    File(String),
}

/// An inode as it was made, or as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// The target of a symbolic link.
    pub target: Option<Box<[u8]>>,
    /// It existed before.
    pub initial: bool,
    /// The contents that it had before.
    pub bytes: Option<Slice>,
    /// Its size before.
    pub size: u64,
    /// Extended attributes that it had before.
    pub attributes: BTreeMap<Box<[u8]>, Slice>,
    /// A path of it, for messages.
    pub path: String,
    /// Its file system: 0 that of the root, others are mounted below it.
    pub device: u32,
}

/// All bytes: those of the trace's contents, and copies that the program made within the kernel.
#[derive(Debug, Default)]
pub struct Blobs {
    contents: Option<Contents>,
    own: Vec<Arc<Vec<u8>>>,
    cache: Mutex<Cache>,
}

/// Contents that were read.
#[derive(Debug, Default)]
struct Cache {
    /// By number.
    known: FxHashMap<u32, Arc<Vec<u8>>>,
    /// How many bytes they are.
    bytes: usize,
}

/// Numbers from here on are copies.
const OWN: u32 = 1 << 31;
/// Bytes that are kept at once.
const CACHE_BYTES: usize = 64 << 20;

impl Blobs {
    /// Adds bytes that no trace has.
    pub fn add(&mut self, bytes: Vec<u8>) -> Slice {
        let len = bytes.len() as u64;
        self.own.push(Arc::new(bytes));
        Slice { blob: OWN + self.own.len() as u32 - 1, start: 0, len }
    }

    /// All bytes of a number.
    pub fn get(&self, blob: u32) -> Result<Arc<Vec<u8>>, ContentsError> {
        if blob >= OWN {
            return Ok(self.own.get((blob - OWN) as usize).cloned().unwrap_or_default());
        }
        let mut cache = self.cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = cache.known.get(&blob) {
            return Ok(Arc::clone(known));
        }
        let bytes = self.contents.as_ref().map_or(Ok(Vec::new()), |contents| contents.read(blob))?;
        if cache.bytes + bytes.len() > CACHE_BYTES {
            cache.known.clear();
            cache.bytes = 0;
        }
        cache.bytes += bytes.len();
        let bytes = Arc::new(bytes);
        cache.known.insert(blob, Arc::clone(&bytes));
        Ok(bytes)
    }

    /// Writes a slice into `to`, which is as long.
    pub fn copy(&self, slice: Slice, to: &mut [u8]) -> Result<(), ContentsError> {
        let bytes = self.get(slice.blob)?;
        let from = bytes.get(slice.start as usize..).unwrap_or_default();
        let len = to.len().min(from.len());
        to[..len].copy_from_slice(&from[..len]);
        Ok(())
    }
}

/// What a trace shows of a program.
#[derive(Debug, Default)]
pub struct Story {
    /// The inodes.
    pub inodes: Vec<Node>,
    /// The names.
    pub names: Vec<Box<[u8]>>,
    /// Which names there were before.
    pub before: Vec<(Entry, Inode)>,
    /// The calls that have deeds.
    pub calls: Vec<CallInfo>,
    /// The deeds, in the order in which their calls ended.
    pub deeds: Vec<Done>,
    /// What was acknowledged.
    pub acks: Vec<Ack>,
    /// The bytes of it.
    pub told: Vec<u8>,
    /// The file to which it was written, if it was told so: a channel, which need not be durable itself.
    pub told_in: Option<String>,
    /// All bytes.
    pub blobs: Blobs,
    /// The absolute path of the root when it was recorded.
    pub root: Vec<u8>,
    /// Everything below it was recorded; otherwise only some folders.
    pub is_whole: bool,
    /// Files that were mapped for writing.
    pub mapped: Vec<String>,
    /// What this trace cannot show; with any of it, nothing is ever sound.
    pub unseen: Vec<String>,
    /// Frames of stacks, each with its line of source, where that is known.
    pub frames: Vec<(Frame, Option<String>)>,
    /// Notes on what is not judged.
    pub notes: Vec<String>,
    /// When the last record was, in nanoseconds.
    pub end_ns: u64,
}

/// When a call happened, by its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    pub(super) number: u64,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// The line of the trace's file.
    pub(super) line: u64,
}

/// What one pass over the records gives.
#[derive(Debug, Default)]
struct Records {
    by_line: FxHashMap<u64, When>,
    /// Clocks of threads.
    clocks: FxHashMap<u32, u64>,
    calls: u64,
    first: Option<(u32, u64, u64)>,
    counts: Vec<(String, u64)>,
    lost: u64,
    /// The missing calls by name, where the recorder knows them.
    named: Option<String>,
    cut: bool,
    end_ns: u64,
    /// The trace has an entry of its root.
    is_whole: bool,
}

impl Records {
    fn read(mut reader: Reader, whole: &Whole, contents: &Contents) -> Result<Self, StoryError> {
        let mut records = Self::default();
        while let Some(record) = reader.next()? {
            let line = reader.line();
            if let Some(half) = whole.halves.get(&line) {
                let (number, begin_ns) = (HALF + *half as u64, contents.halves[*half].begin_ns);
                let when = When { number, begin_ns, end_ns: u64::MAX, line: whole.line(line) };
                records.by_line.insert(line, when);
                continue;
            }
            records.record(&record, line, whole.line(line));
        }
        records.lost = reader.lost();
        records.named = reader.losses().names();
        records.cut = matches!(reader.ending(), trace::Ending::Cut(_));
        Ok(records)
    }

    fn record(&mut self, record: &Record, line: u64, of_file: u64) {
        match record {
            Record::Thread(thread) => {
                self.clocks.entry(thread.number).or_insert(0);
            }
            Record::Fork(fork) => {
                let parent = self.clocks.get(&fork.parent).copied().unwrap_or(0);
                self.clocks.insert(fork.child, parent + fork.after_ns);
            }
            Record::Call(timed) => {
                let clock = self.clocks.entry(timed.thread).or_insert(0);
                let begin_ns = *clock + timed.times.gap_ns;
                *clock = begin_ns + timed.times.duration_ns;
                self.calls += 1;
                self.end_ns = self.end_ns.max(*clock);
                let when = When { number: self.calls, begin_ns, end_ns: *clock, line: of_file };
                self.by_line.insert(line, when);
            }
            Record::Exit(exit) => {
                let at = self.clocks.get(&exit.thread).copied().unwrap_or(0) + exit.times.gap_ns;
                self.end_ns = self.end_ns.max(at);
                if exit.thread == 1 {
                    let code = if let Status::Exited(code) = exit.status { code } else { 1 };
                    self.first = Some((code, at, self.calls));
                }
            }
            Record::Count(count) => {
                self.counts.push((String::from_utf8_lossy(&count.what).into_owned(), count.count));
            }
            Record::Entry(entry) => self.is_whole |= entry.path.is_empty(),
            Record::Inherited(_)
            | Record::Loss(_)
            | Record::Sent(_)
            | Record::Received(_)
            | Record::End(_) => {}
        }
    }

    /// What makes the trace one that has not seen everything.
    fn unseen(&self) -> Vec<String> {
        const NAMED: [&str; 4] = ["io_uring", "io_submit", "mremap", "lines that were not understood"];
        let mut unseen = Vec::new();
        if self.lost > 0 {
            let named = self.named.as_ref().map(|names| format!(": {names}")).unwrap_or_default();
            unseen.push(format!("{} calls are missing in the trace{named}", self.lost));
        }
        if self.cut {
            unseen.push("the trace has no end: its recorder was killed, or the file was cut".to_owned());
        }
        for (what, count) in &self.counts {
            if NAMED.iter().any(|named| what.starts_with(named)) {
                unseen.push(format!("{count} times {what}"));
            }
        }
        unseen
    }
}

impl Story {
    /// Reads a trace with its contents. `allow_unseen`: also one that has not seen everything, which [`Story::unseen`] then tells.
    pub fn open(path: &Path, acknowledge: &Acknowledge, allow_unseen: bool) -> Result<Self, StoryError> {
        let reader = Reader::open(path)?;
        let root = reader.head().get("root").unwrap_or_default().to_vec();
        let mut contents = Contents::open(path, reader.head().get(KEY))?;
        let whole = Whole::of(path, &mut contents)?;
        let records = Records::read(whole.reader(path)?, &whole, &contents)?;
        let mut unseen = records.unseen();
        unseen.extend(contents.unkept.iter().cloned());
        if let Some(what) = unseen.first().filter(|_| !allow_unseen) {
            let what = format!("{}: {what}", path.display());
            let advice = "the program may have done what no state here has; record again without that, or give --allow-unseen";
            return Err(StoryError::Unseen { what, advice: advice.to_owned() });
        }
        let program = Program::compile(whole.reader(path)?, Options { allow_drops: true })?;
        let mut story =
            Self { root, unseen, end_ns: records.end_ns, is_whole: records.is_whole, ..Self::default() };
        let mut walk = Walk::new(&mut story, &program, &contents);
        walk.before();
        for step in program.steps() {
            walk.step(step, records.by_line.get(&step.line).copied())?;
        }
        walk.finish()?;
        if program.summary.unopened > 0 {
            story.unseen.push(format!(
                "{} calls on descriptors whose opening was not seen",
                program.summary.unopened
            ));
        }
        story.acknowledge(acknowledge, &contents, &records)?;
        story.note(&program, &records);
        story.frames.clone_from(&contents.frames);
        story.blobs.contents = Some(contents);
        if let Acknowledge::File(file) = acknowledge {
            story.acknowledge_in(file)?;
        }
        if let Some(what) = story.unseen.first().filter(|_| !allow_unseen) {
            let advice = "record the program again so that this is seen, or give --allow-unseen".to_owned();
            return Err(StoryError::Unseen { what: format!("{}: {what}", path.display()), advice });
        }
        Ok(story)
    }

    fn acknowledge(
        &mut self,
        how: &Acknowledge,
        contents: &Contents,
        records: &Records,
    ) -> Result<(), StoryError> {
        let wanted = match how {
            Acknowledge::Lines | Acknowledge::Writes => Channel::Stdout,
            Acknowledge::Socket => Channel::Socket,
            Acknowledge::Exit => {
                if let Some((0, at_ns, calls)) = records.first {
                    self.told = b"exit 0\n".to_vec();
                    self.acks.push(Ack { at_ns, bytes: self.told.len(), calls, stack: Vec::new() });
                }
                return Ok(());
            }
            // The bytes of a file are those of deeds, which come from the trace's contents.
            Acknowledge::None | Acknowledge::File(_) => return Ok(()),
        };
        for (number, sent) in contents.sent.iter().enumerate() {
            if sent.channel != wanted {
                continue;
            }
            let bytes = contents.read(sent.bytes)?;
            self.told.extend_from_slice(&bytes);
            let whole = match how {
                Acknowledge::Lines => self.whole_lines(),
                _ => self.told.len(),
            };
            let before = self.acks.last().map_or(0, |ack| ack.bytes);
            if whole > before {
                let stack = contents.sent_stacks.get(&(number as u64)).cloned().unwrap_or_default();
                self.acks.push(Ack { at_ns: sent.begin_ns, bytes: whole, calls: sent.calls, stack });
            }
        }
        let last_change = self.deeds.last().map_or(0, |done| self.calls[done.call as usize].begin_ns);
        if self.acks.first().is_some_and(|ack| ack.at_ns > last_change) && self.acks.len() > 1 {
            let what = "every acknowledgement comes after the last change: a pipe or file makes many programs hold their output \
                        back; let the program flush each line";
            self.notes.push(what.to_owned());
        }
        Ok(())
    }

    /// The number of bytes of what was told that are whole lines.
    fn whole_lines(&self) -> usize {
        self.told.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }

    /// Takes whole lines that were written to a file for acknowledgements: those of other programs that read it.
    fn acknowledge_in(&mut self, path: &str) -> Result<(), StoryError> {
        let path = path.trim_start_matches("./");
        let named: Vec<bool> = self.inodes.iter().map(|node| node.path == path).collect();
        let mut calls: Vec<u64> = self.calls.iter().map(|call| call.end_ns).collect();
        calls.sort_unstable();
        for Done { call, deed } in std::mem::take(&mut self.deeds) {
            if let Deed::Write { inode, bytes, .. } = &deed
                && named[*inode as usize]
            {
                let mut part = vec![0; bytes.len as usize];
                self.blobs.copy(*bytes, &mut part)?;
                self.told.extend_from_slice(&part);
                let (whole, before) = (self.whole_lines(), self.acks.last().map_or(0, |ack| ack.bytes));
                let CallInfo { begin_ns: at_ns, stack, .. } = self.calls[call as usize].clone();
                if whole > before {
                    let calls = calls.partition_point(|end| *end <= at_ns) as u64;
                    self.acks.push(Ack { at_ns, bytes: whole, calls, stack });
                }
            }
            self.deeds.push(Done { call, deed });
        }
        self.told_in = Some(path.to_owned());
        if self.told.is_empty() {
            return Err(StoryError::Other(format!(
                "--acknowledge file:{path}: the program has written nothing to a file of that path below the root of the trace"
            )));
        }
        Ok(())
    }

    fn note(&mut self, program: &Program, records: &Records) {
        let ranges =
            program.steps().iter().filter(|step| step.call.op == Op::SyncRange && step.result >= 0).count();
        if ranges > 0 {
            self.notes.push(format!(
                "{ranges} times sync_file_range, which covers nothing: no size, no name, and the drive is not flushed"
            ));
        }
        if !self.mapped.is_empty() {
            let (files, are) = (self.mapped.join(", "), if self.mapped.len() == 1 { "is" } else { "are" });
            self.notes.push(format!(
                "{files} {are} mapped for writing: of stores, only those are seen which are there at an msync and at the end"
            ));
        }
        for (what, count) in &records.counts {
            if what.starts_with("calls on sockets") || what.starts_with("calls that a signal") {
                self.notes.push(format!("{count} {what}"));
            }
        }
        self.notes.push("the tree before the program is taken as durable".to_owned());
    }
}
