//! The records of a trace as data.

use crate::call::Call;

/// The version of the format that this crate writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// `S`: something that existed before the trace began.
    Entry(Entry),
    /// `T`: a thread, before its first record.
    Thread(Thread),
    /// `F`: a thread or process begins.
    Fork(Fork),
    /// `D`: a descriptor that was open before the trace began.
    Inherited(Inherited),
    /// A number: a call.
    Call(Timed),
    /// `X`: a thread ends.
    Exit(Exit),
    /// `C`: so many of something were seen and not stored.
    Count(Count),
    /// `L`: so many of something are missing.
    Loss(Loss),
    /// `P`: a descriptor is sent to another process.
    Sent(Sent),
    /// `R`: a descriptor that was sent is received.
    Received(Received),
    /// `E`: the end of a whole trace.
    End(End),
}

impl Record {
    /// Reads a line of a trace, without its end. The error says what is wrong with it.
    pub fn of_line(line: &[u8]) -> Result<Self, String> {
        crate::text::read(line)
    }
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file, `f`.
    File,
    /// A directory, `d`.
    Directory,
    /// A symbolic link, `l`.
    Symlink,
    /// A FIFO, `p`.
    Fifo,
    /// A socket, `s`.
    Socket,
    /// A character device, `c`.
    Character,
    /// A block device, `b`.
    Block,
}

impl Kind {
    const LETTERS: [(Self, u8, u32); 7] = [
        (Self::File, b'f', 0o10_0000),
        (Self::Directory, b'd', 0o4_0000),
        (Self::Symlink, b'l', 0o12_0000),
        (Self::Fifo, b'p', 0o1_0000),
        (Self::Socket, b's', 0o14_0000),
        (Self::Character, b'c', 0o2_0000),
        (Self::Block, b'b', 0o6_0000),
    ];

    /// The letter in an `S` record.
    pub fn letter(self) -> u8 {
        Self::LETTERS.iter().find(|(kind, ..)| *kind == self).map_or(b'f', |(_, letter, _)| *letter)
    }

    /// The kind with this letter.
    pub(crate) fn of_letter(letter: u8) -> Option<Self> {
        Self::LETTERS.iter().find(|(_, known, _)| *known == letter).map(|(kind, ..)| *kind)
    }

    /// The kind in the high bits of `st_mode`; without any, a file, as mknod(2) has it.
    pub fn of_mode(mode: u32) -> Option<Self> {
        if mode & 0o17_0000 == 0 {
            return Some(Self::File);
        }
        Self::LETTERS.iter().find(|(.., bits)| *bits == mode & 0o17_0000).map(|(kind, ..)| *kind)
    }
}

/// Something that existed at the beginning. It may stand anywhere before the first record that depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// Names with the same number other than 0 are hard links of one file.
    pub group: u64,
    /// Where it is; empty: the root itself.
    pub path: Box<[u8]>,
    /// What a symbolic link contains.
    pub target: Option<Box<[u8]>>,
}

/// A thread. Numbers begin at 1 and are never used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number in the trace.
    pub number: u32,
    /// The process of the recorded host.
    pub pid: u32,
    /// The thread of the recorded host.
    pub tid: u32,
    /// The program; empty if unknown.
    pub name: Box<[u8]>,
}

/// Which parts of a process a new thread shares with its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// It is a thread of the same process.
    pub process: bool,
    /// It has the same table of descriptors; otherwise a copy.
    pub files: bool,
    /// The parent waits until the child has called exec or has ended.
    pub vfork: bool,
}

impl Shares {
    /// What a thread shares.
    pub(crate) const THREAD: Self = Self { process: true, files: true, vfork: false };
}

/// The beginning of a thread that another has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Who makes it.
    pub parent: u32,
    /// Who begins.
    pub child: u32,
    /// When: nanoseconds after the end of the parent's previous call.
    pub after_ns: u64,
    /// What they share.
    pub shares: Shares,
}

/// A descriptor that is open at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// A thread of the process.
    pub thread: u32,
    /// The number.
    pub fd: i32,
    /// What it leads to.
    pub path: Box<[u8]>,
    /// As of `open`.
    pub flags: u32,
    /// The position; 0 if unknown.
    pub position: u64,
}

/// When a call happened, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// From the end of the thread's previous recorded call to the beginning of this one. Of the first call of a thread: from its
    /// `F` record, or from the beginning of the trace.
    pub gap_ns: u64,
    /// The part of the gap that is known not to be the thread's own computing: it waited, or was in calls that are not stored.
    pub other_ns: u64,
    /// Calls in the gap that the recorder saw and did not store. Each has cost what the recorder costs.
    pub skipped: u32,
    /// How long the call took.
    pub duration_ns: u64,
}

impl Times {
    /// The thread's own computing before the call, when each recorded call costs `level_ns` of the gap before it.
    pub fn cpu_ns(&self, level_ns: u64) -> u64 {
        let cost = level_ns.saturating_mul(u64::from(self.skipped) + 1);
        self.gap_ns.saturating_sub(self.other_ns).saturating_sub(cost)
    }
}

/// A call with its result and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Who calls.
    pub thread: u32,
    /// When.
    pub times: Times,
    /// What.
    pub call: Call,
    /// The result, or −errno.
    pub result: i64,
}

/// How a thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// With this exit code.
    Exited(u32),
    /// By this signal.
    Killed(u32),
    /// Another thread of its process has called exec.
    Replaced,
}

/// The end of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Which.
    pub thread: u32,
    /// When; the duration is 0.
    pub times: Times,
    /// How.
    pub status: Status,
}

/// So many of something were seen and not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub count: u64,
    /// Of what.
    pub what: Box<[u8]>,
}

/// What a trace lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Missing {
    /// Calls: a replay would differ.
    Calls,
    /// Bytes that move without a call, through mappings: a replay makes all calls, and moves less.
    Bytes,
}

/// So many of something are missing. The account of a trace is the sum of these records ([`crate::losses`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loss {
    /// What.
    pub kind: Missing,
    /// The name of the call.
    pub name: Box<[u8]>,
    /// Why: one of the recorder's own phrases, which never has a name of the recorded host in it.
    pub reason: Box<[u8]>,
    /// The program; empty if it is not known or does not matter.
    pub program: Box<[u8]>,
    /// How many; at least, where the recorder cannot know it.
    pub count: u64,
}

impl Loss {
    /// So many calls are missing.
    pub fn calls(count: u64, name: &str, reason: &str) -> Self {
        let (name, reason) = (name.as_bytes().into(), reason.as_bytes().into());
        Self { kind: Missing::Calls, name, reason, program: Box::default(), count }
    }

    /// Bytes move without a call, after so many calls of this name.
    pub fn bytes(count: u64, name: &str, reason: &str) -> Self {
        Self { kind: Missing::Bytes, ..Self::calls(count, name, reason) }
    }
}

/// A descriptor of a thread is sent: what it leads to stays open under a number of the trace until it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Who sends it.
    pub thread: u32,
    /// Its descriptor.
    pub fd: i32,
    /// The number, which is never used again.
    pub number: u32,
}

/// A descriptor that was sent is received: the same open file, with its position, under a descriptor of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who receives it.
    pub thread: u32,
    /// The number under which it was sent.
    pub number: u32,
    /// The descriptor that it gets.
    pub fd: i32,
    /// Whether exec closes it.
    pub cloexec: bool,
}

/// The end of a whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Nanoseconds from the beginning.
    pub at_ns: u64,
    /// Calls in the trace; another count means that lines were lost.
    pub calls: u64,
    /// Calls that the recorder has lost.
    pub dropped: u64,
    /// User CPU time of the program, if the recorder knows it.
    pub user_ns: Option<u64>,
    /// What a recorded call costs of the gap before it ([`Times::cpu_ns`]).
    pub level_ns: u64,
    /// By how much the gaps differ from that cost where they should be equal to it, in sum. Where the program's own computing is
    /// not more, it cannot be told from what recording costs. A part of a trace has it only in that case.
    pub noise_ns: Option<u64>,
    /// Words that a newer recorder has added, as they stand.
    pub more: Vec<Box<[u8]>>,
}

impl End {
    /// Whether the gaps of a trace whose recorder slows the program down say what the program computed: its CPU time is known,
    /// and is more than the noise of what recording costs.
    pub fn tells_computing(&self) -> bool {
        match (self.user_ns, self.noise_ns) {
            (Some(user_ns), Some(noise_ns)) => user_ns > noise_ns,
            (None, Some(_)) => false,
            (Some(_), None) => true,
            (None, None) => self.level_ns > 0,
        }
    }
}

/// A line of the head: `#key value`.
pub type Key = (Box<[u8]>, Box<[u8]>);

/// The lines at the beginning, in their order, without the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Unknown keys are kept.
    pub keys: Vec<Key>,
}

impl Head {
    /// A head of the recorder's name and the root.
    pub fn new(recorder: &str, root: &[u8]) -> Self {
        let mut head = Self::default();
        head.set("recorder", recorder.as_bytes());
        head.set("root", root);
        head
    }

    /// Adds a key, or changes it.
    pub fn set(&mut self, key: &str, value: &[u8]) {
        match self.keys.iter_mut().find(|(known, _)| **known == *key.as_bytes()) {
            Some((_, old)) => *old = value.into(),
            None => self.keys.push((key.as_bytes().into(), value.into())),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.keys.iter().find(|(known, _)| **known == *key.as_bytes()).map(|(_, value)| &**value)
    }
}
