//! Records of the preloaded library, and their calls as lines of strace.

use std::fmt::Write as _;

use crate::call::{NOW, OMIT};
use crate::words::error_name;

/// Bytes in front of a record's words (`struct record` of `crates/trace/preload/ring.c`).
pub(super) const HEAD: usize = 80;

/// A record.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Its place among all records.
    pub(super) number: u64,
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) begin_ns: u64,
    pub(super) duration_ns: u64,
    /// Of the gap before it, what the thread did not compute.
    pub(super) other_ns: u64,
    /// What the call gave, or −errno.
    pub(super) result: i64,
    /// The call, and a letter for each argument.
    name: Box<[u8]>,
    letters: usize,
    args: Vec<Arg>,
}

/// An argument.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Number(i64),
    Text(Box<[u8]>),
}

impl Record {
    /// Reads a whole record; none if it is no record.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let what = bytes.get(56..HEAD)?;
        let what = &what[..what.iter().position(|byte| *byte == 0)?];
        let letters = what.iter().position(|byte| *byte == b':').map_or(what.len(), |at| at + 1);
        let count = what.len() - letters;
        let mut next = HEAD + 8 * count;
        let mut args = Vec::with_capacity(count);
        for (at, letter) in what[letters..].iter().enumerate() {
            if *letter != b's' {
                args.push(Arg::Number(word(HEAD + 8 * at)?.cast_signed()));
                continue;
            }
            let len = usize::try_from(word(next)?).ok()?;
            let text = bytes.get(next + 8..(next + 8).checked_add(len)?)?;
            args.push(Arg::Text(text.into()));
            next += 8 + len.next_multiple_of(8);
        }
        Some(Self {
            number: word(16)?,
            tid: half(4)?,
            pid: half(8)?,
            begin_ns: word(24)?,
            duration_ns: word(32)?,
            other_ns: word(40)?,
            result: word(48)?.cast_signed(),
            name: what.into(),
            letters,
            args,
        })
    }

    /// The call's name.
    pub(super) fn name(&self) -> &[u8] {
        self.name[..self.letters].strip_suffix(b":").unwrap_or(&self.name)
    }

    /// When it ended.
    pub(super) fn end_ns(&self) -> u64 {
        self.begin_ns + self.duration_ns
    }

    /// A number among its arguments.
    pub(super) fn number_at(&self, at: usize) -> i64 {
        if let Some(Arg::Number(number)) = self.args.get(at) { *number } else { 0 }
    }

    /// A text among them.
    pub(super) fn text_at(&self, at: usize) -> &[u8] {
        if let Some(Arg::Text(text)) = self.args.get(at) { text } else { b"" }
    }

    /// The arguments as strace writes them.
    pub(super) fn arguments(&self) -> String {
        if self.name() == b"fcntl" {
            return self.fcntl();
        }
        if self.name() == b"ioctl" && self.number_at(1) != 0 {
            return format!("{}, FICLONE, {}", self.number_at(0), self.number_at(2));
        }
        match self.name() {
            b"io_submit" => return self.control_block(),
            b"sendmsg" | b"recvmsg" => return self.message(),
            _ => {}
        }
        let mut out = String::new();
        for (letter, arg) in self.name[self.letters..].iter().zip(&self.args) {
            if !out.is_empty() {
                out.push_str(", ");
            }
            match arg {
                Arg::Text(text) => quote(text, &mut out),
                Arg::Number(number) => print(*letter, *number, &mut out),
            }
        }
        if self.name() == b"pipe2" { format!("[{out}]") } else { out }
    }

    /// One control block of `io_submit` (aio_abi.h).
    fn control_block(&self) -> String {
        let [data, kind, fd, bytes, offset] = [0, 1, 2, 3, 4].map(|at| self.number_at(at));
        let kind = match kind {
            0 | 7 => "IOCB_CMD_PREAD",
            1 | 8 => "IOCB_CMD_PWRITE",
            2 => "IOCB_CMD_FSYNC",
            3 => "IOCB_CMD_FDSYNC",
            5 => "IOCB_CMD_POLL",
            _ => "IOCB_CMD_NOOP",
        };
        format!(
            "0, 1, [{{aio_data={data}, aio_lio_opcode={kind}, aio_fildes={fd}, aio_nbytes={bytes}, aio_offset={offset}}}]"
        )
    }

    /// A message with a descriptor in it, and what that leads to where it was received.
    fn message(&self) -> String {
        let [socket, fd, is_cloexec] = [0, 1, 2].map(|at| self.number_at(at));
        let mut beside = String::new();
        for byte in self.text_at(3) {
            match byte {
                b'"' | b'\\' | b'<' | b'>' => write!(beside, "\\x{byte:02x}"),
                b' '..=b'~' => write!(beside, "{}", char::from(*byte)),
                other => write!(beside, "\\x{other:02x}"),
            }
            .expect("a string takes all");
        }
        if !beside.is_empty() {
            beside = format!("<{beside}>");
        }
        let flags = if is_cloexec == 0 { "0" } else { "MSG_CMSG_CLOEXEC" };
        format!("{socket}, {{msg_control=[{{cmsg_type=SCM_RIGHTS, cmsg_data=[{fd}{beside}]}}]}}, {flags}")
    }

    /// `fcntl` has a third argument of many kinds.
    fn fcntl(&self) -> String {
        let [fd, command, arg, kind, start, len] = [0, 1, 2, 3, 4, 5].map(|at| self.number_at(at));
        // fcntl.h of Linux; the numbers of 64-bit hosts
        let lock = |command: &str| {
            let kind = ["F_RDLCK", "F_WRLCK", "F_UNLCK"].get(kind as usize).unwrap_or(&"F_UNLCK");
            format!("{fd}, {command}, {{l_type={kind}, l_start={start}, l_len={len}}}")
        };
        match command {
            0 => format!("{fd}, F_DUPFD, {arg}"),
            1030 => format!("{fd}, F_DUPFD_CLOEXEC, {arg}"),
            2 => format!("{fd}, F_SETFD, {}", if arg & 1 == 1 { "FD_CLOEXEC" } else { "0" }),
            4 => format!("{fd}, F_SETFL, {arg:#x}"),
            5 => lock("F_GETLK"),
            6 => lock("F_SETLK"),
            7 => lock("F_SETLKW"),
            36 => lock("F_OFD_GETLK"),
            37 => lock("F_OFD_SETLK"),
            38 => lock("F_OFD_SETLKW"),
            other => format!("{fd}, {other:#x}"),
        }
    }

    /// What stands behind `=`.
    pub(super) fn outcome(&self) -> String {
        let nanos = format!("<{}>", seconds(self.duration_ns));
        match self.result {
            -4095..=-1 => format!("-1 {} {nanos}", error_name(self.result.unsigned_abs() as u32)),
            result => format!("{result} {nanos}"),
        }
    }
}

/// Nanoseconds as seconds with all decimals.
pub(super) fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// A text in quotes.
pub(super) fn quote(text: &[u8], out: &mut String) {
    out.push('"');
    for byte in text {
        match byte {
            b'"' | b'\\' => write!(out, "\\x{byte:02x}"),
            b' '..=b'~' => write!(out, "{}", char::from(*byte)),
            other => write!(out, "\\x{other:02x}"),
        }
        .expect("a string takes all");
    }
    out.push('"');
}

/// `AT_…` flags (fcntl.h).
const AT: &[(i64, &str)] =
    &[(0x100, "AT_SYMLINK_NOFOLLOW"), (0x400, "AT_SYMLINK_FOLLOW"), (0x1000, "AT_EMPTY_PATH")];
const ACCESS: &[(i64, &str)] = &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")];
/// Kinds and properties of mappings (mman.h of x86 and Arm).
const MAP: &[(i64, &str)] =
    &[(1, "MAP_SHARED"), (2, "MAP_PRIVATE"), (0x10, "MAP_FIXED"), (0x8000, "MAP_POPULATE")];

/// What processes share (sched.h), and how things are mounted (mount.h).
const CLONE: &[(i64, &str)] = &[(0x200, "CLONE_FS"), (0x400, "CLONE_FILES"), (0x2_0000, "CLONE_NEWNS")];
const MOUNT: &[(i64, &str)] = &[
    (1 << 12, "MS_BIND"),
    (1 << 13, "MS_MOVE"),
    (1 << 17, "MS_UNBINDABLE"),
    (1 << 18, "MS_PRIVATE"),
    (1 << 19, "MS_SLAVE"),
    (1 << 20, "MS_SHARED"),
];

fn words(table: &[(i64, &str)], number: i64) -> String {
    let all: Vec<&str> = table.iter().filter(|(bit, _)| number & bit != 0).map(|(_, word)| *word).collect();
    if all.is_empty() { "0".to_owned() } else { all.join("|") }
}

fn time(nanos: i64) -> String {
    match nanos {
        NOW => "UTIME_NOW".to_owned(),
        OMIT => "UTIME_OMIT".to_owned(),
        nanos => format!(
            "{{tv_sec={}, tv_nsec={}}}",
            nanos.div_euclid(1_000_000_000),
            nanos.rem_euclid(1_000_000_000)
        ),
    }
}

/// A number as the letter says (`crates/trace/preload/calls.c`).
fn print(letter: u8, number: i64, out: &mut String) {
    const AT_FDCWD: i64 = -100;
    const ADVICE: [&str; 6] = ["NORMAL", "RANDOM", "SEQUENTIAL", "WILLNEED", "DONTNEED", "NOREUSE"];
    const WHENCE: [&str; 5] = ["SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE"];
    let at = usize::try_from(number).unwrap_or(usize::MAX);
    match letter {
        b'd' if number == AT_FDCWD => out.push_str("AT_FDCWD"),
        b'o' => write!(out, "0{number:o}").expect("a string takes all"),
        b'O' => write!(out, "{:#x}", number as u32).expect("a string takes all"),
        b'a' => out.push_str(&words(ACCESS, number)),
        b'A' => out.push_str(&words(AT, number)),
        b'R' => out.push_str(if number & 0x200 == 0 { "0" } else { "AT_REMOVEDIR" }),
        b'C' => out.push_str(if number & 4 == 0 { "0" } else { "CLOSE_RANGE_CLOEXEC" }),
        b'w' => out.push_str(WHENCE.get(at).unwrap_or(&"SEEK_?")),
        b'V' => write!(out, "POSIX_FADV_{}", ADVICE.get(at).unwrap_or(&"?")).expect("a string takes all"),
        b'M' => out.push_str(&words(MAP, number)),
        b'L' => out.push_str(&words(CLONE, number)),
        b'K' => out.push_str(&words(MOUNT, number)),
        b'v' => write!(out, "[{{iov_base=\"\", iov_len={number}}}]").expect("a string takes all"),
        b'P' if number < 0 => out.push_str("NULL"),
        b'P' => write!(out, "[{number}]").expect("a string takes all"),
        b'D' => {
            let (major, minor) = (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff_ff00);
            write!(out, "makedev({major:#x}, {minor:#x})").expect("a string takes all");
        }
        b'm' => write!(out, "{{st_mode=0{number:o}").expect("a string takes all"),
        b'z' => write!(out, "st_size={number}}}").expect("a string takes all"),
        b't' => write!(out, "[{}", time(number)).expect("a string takes all"),
        b'u' => write!(out, "{}]", time(number)).expect("a string takes all"),
        _ => write!(out, "{number}").expect("a string takes all"),
    }
}
