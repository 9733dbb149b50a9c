//! Records as lines, and lines as records.
//!
//! A line is words with one blank between them. A path or name is in quotes; in it a quote, a backslash, control characters, and
//! bytes that are not UTF-8 stand as `\xHH`, so that a line is always UTF-8 and always one line.
//!
//! # How the format grows
//!
//! A record is known by its first byte. Digits are calls; a capital is a record that a reader must know to understand the trace,
//! and refuses otherwise; a small letter is a record of an *optional section*, which a reader that does not know it passes over:
//! what the other records say is true without it. To add a section:
//!
//! 1. Choose a small letter that no section has, and write its line as the others are written: words with one blank between them,
//!    texts in quotes. It may stand before or behind the record to which it belongs; say which. It is one line of at most 64 KiB.
//! 2. Name it in the head, `#sections NAME …` ([`SECTIONS`] is that key), so that tools can say what a trace has without
//!    reading it.
//! 3. Add a variant to [`Record`], its `print` and `read` here, its line to the tables of `docs/traces.md`.
//! 4. Decide for each tool: `anonymize` must not pass on a text that it does not understand, and `cut` keeps what belongs to the
//!    calls that it keeps. Both leave out the sections that they do not know.
//!
//! A section whose absence would make a replay wrong is none: it needs a capital, and a reader that refuses. A change of the
//! meaning of a record that stands needs a higher [`VERSION`](crate::VERSION).

use crate::call::{Call, Field, NOW, OMIT, Op};
use crate::record::{
    Count, End, Entry, Exit, Fork, Inherited, Kind, Loss, Missing, Received, Record, Sent, Shares, Status,
    Thread, Timed, Times,
};
use crate::words::{CLOEXEC, Table, error_name, error_number};

/// The key of the head that names the optional sections of a trace.
pub const SECTIONS: &str = "sections";

/// Whether a line is of an optional section.
pub(crate) fn is_optional(line: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_lowercase)
}

/// What is wrong with a line: a sentence's end.
pub(crate) type Wrong = String;

fn number(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    use std::io::Write as _;
    // Writing to memory does not fail.
    let _ = write!(out, "{value}");
}

/// Decimal digits, without the formatter: most of a trace is numbers.
fn decimal(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn signed(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    decimal(value.unsigned_abs(), out);
}

/// A name in quotes.
pub(crate) fn quoted(name: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let is_text = std::str::from_utf8(name).is_ok();
    out.push(b'"');
    for byte in name {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f => {}
            0x80.. if !is_text => {}
            plain => {
                out.push(*plain);
                continue;
            }
        }
        out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    out.push(b'"');
}

fn times(times: &Times, out: &mut Vec<u8>) {
    decimal(times.gap_ns, out);
    if times.other_ns > 0 || times.skipped > 0 {
        out.push(b'/');
        decimal(times.other_ns, out);
    }
    if times.skipped > 0 {
        out.push(b'/');
        decimal(u64::from(times.skipped), out);
    }
}

fn time(value: i64, out: &mut Vec<u8>) {
    match value {
        NOW => out.extend_from_slice(b"now"),
        OMIT => out.extend_from_slice(b"omit"),
        value => signed(value, out),
    }
}

fn field(field: Field, call: &Call, out: &mut Vec<u8>) {
    let path = |path: &Option<Box<[u8]>>, out: &mut Vec<u8>| quoted(path.as_deref().unwrap_or_default(), out);
    match field {
        Field::Fd => signed(i64::from(call.fd.unwrap_or(-1)), out),
        Field::Fd2 => signed(i64::from(call.fd2.unwrap_or(-1)), out),
        Field::Path => path(&call.path, out),
        Field::Path2 | Field::Target | Field::Attr => path(&call.path2, out),
        Field::Len => decimal(call.len, out),
        Field::Offset | Field::Device | Field::Uid => signed(call.offset, out),
        Field::Offset2 | Field::Gid => signed(call.offset2, out),
        Field::Atime => time(call.offset, out),
        Field::Mtime => time(call.offset2, out),
        Field::Mode => number(format_args!("0{:o}", call.mode), out),
        Field::Number => decimal(u64::from(call.mode), out),
        Field::Words(table) => table.print(call.flags, out),
    }
}

fn call(timed: &Timed, out: &mut Vec<u8>) {
    decimal(u64::from(timed.thread), out);
    out.push(b' ');
    times(&timed.times, out);
    out.push(b' ');
    decimal(timed.times.duration_ns, out);
    out.push(b' ');
    out.extend_from_slice(timed.call.op.name().as_bytes());
    for one in timed.call.op.fields() {
        out.push(b' ');
        field(*one, &timed.call, out);
    }
    out.extend_from_slice(b" = ");
    if timed.result < 0 {
        out.push(b'-');
        out.extend_from_slice(error_name(timed.result.unsigned_abs() as u32).as_bytes());
    } else {
        decimal(timed.result.unsigned_abs(), out);
    }
}

fn entry(entry: &Entry, out: &mut Vec<u8>) {
    let letter = entry.kind.letter() as char;
    number(format_args!("S {letter} 0{:o} {} ", entry.mode, entry.size), out);
    quoted(&entry.path, out);
    if let Some(target) = &entry.target {
        out.push(b' ');
        quoted(target, out);
    }
    if entry.group != 0 {
        number(format_args!(" ={}", entry.group), out);
    }
}

fn shares(shares: Shares) -> String {
    let words = [(shares.process, "thread"), (shares.files, "files"), (shares.vfork, "vfork")];
    let words: Vec<_> = words.iter().filter(|(has, _)| *has).map(|(_, word)| *word).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}

fn end(end: &End, out: &mut Vec<u8>) {
    number(format_args!("E at={} calls={} dropped={}", end.at_ns, end.calls, end.dropped), out);
    if let Some(user) = end.user_ns {
        number(format_args!(" user={user}"), out);
    }
    number(format_args!(" level={}", end.level_ns), out);
    if let Some(noise) = end.noise_ns {
        number(format_args!(" noise={noise}"), out);
    }
    for word in &end.more {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}

fn loss(loss: &Loss, out: &mut Vec<u8>) {
    let kind = match loss.kind {
        Missing::Calls => "calls",
        Missing::Bytes => "bytes",
    };
    number(format_args!("L {kind} {} ", loss.count), out);
    quoted(&loss.name, out);
    out.push(b' ');
    quoted(&loss.reason, out);
    if !loss.program.is_empty() {
        out.push(b' ');
        quoted(&loss.program, out);
    }
}

/// Adds a record as a line with its end.
pub(crate) fn print(record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::Call(timed) => call(timed, out),
        Record::Entry(of) => entry(of, out),
        Record::Thread(thread) => {
            number(format_args!("T {} {} {} ", thread.number, thread.pid, thread.tid), out);
            quoted(&thread.name, out);
        }
        Record::Fork(fork) => {
            let words = shares(fork.shares);
            number(format_args!("F {} {} {} {words}", fork.parent, fork.child, fork.after_ns), out);
        }
        Record::Inherited(open) => {
            number(format_args!("D {} {} ", open.thread, open.fd), out);
            quoted(&open.path, out);
            out.push(b' ');
            Table::Open.print(open.flags, out);
            number(format_args!(" {}", open.position), out);
        }
        Record::Exit(exit) => {
            number(format_args!("X {} ", exit.thread), out);
            times(&exit.times, out);
            match exit.status {
                Status::Exited(code) => number(format_args!(" exit {code}"), out),
                Status::Killed(signal) => number(format_args!(" signal {signal}"), out),
                Status::Replaced => number(" replaced 0", out),
            }
        }
        Record::Count(count) => {
            number(format_args!("C {} ", count.count), out);
            quoted(&count.what, out);
        }
        Record::Loss(of) => loss(of, out),
        Record::Sent(sent) => number(format_args!("P {} {} {}", sent.thread, sent.fd, sent.number), out),
        Record::Received(received) => {
            number(format_args!("R {} {} {} ", received.thread, received.number, received.fd), out);
            Table::Descriptor.print(if received.cloexec { CLOEXEC } else { 0 }, out);
        }
        Record::End(of) => end(of, out),
    }
    out.push(b'\n');
}

// ---- reading ----

/// The words of a line, one after the other.
pub(crate) struct Words<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// The next word; none at the end of the line.
    fn try_word(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b' ').unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(word)
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<&'a [u8], Wrong> {
        self.try_word().filter(|word| !word.is_empty()).ok_or_else(|| format!("{what} is missing"))
    }

    pub(crate) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, Wrong> {
        parse(self.word(what)?).ok_or_else(|| format!("{what} is not a number that fits"))
    }

    fn octal(&mut self) -> Result<u32, Wrong> {
        let word = self.word("the mode")?;
        let digits = std::str::from_utf8(word).ok();
        let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
        mode.ok_or_else(|| format!("{} is not an octal mode", shown(word)))
    }

    pub(crate) fn quoted(&mut self, what: &str) -> Result<Box<[u8]>, Wrong> {
        let inner =
            self.rest.strip_prefix(b"\"").ok_or_else(|| format!("{what} does not begin with a quote"))?;
        let end = inner.iter().position(|byte| *byte == b'"').ok_or_else(|| format!("{what} has no end"))?;
        let rest = &inner[end + 1..];
        self.rest = match rest.split_first() {
            None => rest,
            Some((b' ', rest)) => rest,
            Some(_) => return Err(format!("there is no blank after {what}")),
        };
        unescaped(&inner[..end]).ok_or_else(|| format!("{what} has a backslash without xHH"))
    }

    fn times(&mut self) -> Result<Times, Wrong> {
        let wrong = || "the gap is not GAP, GAP/OTHER or GAP/OTHER/CALLS".to_owned();
        let mut parts = self.word("the gap")?.split(|byte| *byte == b'/');
        let mut part = || parts.next().map_or(Ok(0), |part| parse(part).ok_or_else(wrong));
        let (gap_ns, other_ns) = (part()?, part()?);
        let skipped = u32::try_from(part()?).map_err(|_| wrong())?;
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Times { gap_ns, other_ns, skipped, duration_ns: 0 })
    }

    fn time(&mut self) -> Result<i64, Wrong> {
        match self.word("a time")? {
            b"now" => Ok(NOW),
            b"omit" => Ok(OMIT),
            word => parse(word).ok_or_else(|| format!("{} is no time", shown(word))),
        }
    }

    fn words(&mut self, table: Table) -> Result<u32, Wrong> {
        let word = self.word("the flags")?;
        table.parse(word).ok_or_else(|| format!("{} is not a flag of this call", shown(word)))
    }

    fn end(&self) -> Result<(), Wrong> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("{} is too much", shown(self.rest))) }
    }
}

fn shown(word: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(word).chars().take(40).collect();
    format!("`{}`", text.escape_debug())
}

fn parse<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// What stands between quotes, with `\xHH` as bytes.
fn unescaped(inner: &[u8]) -> Option<Box<[u8]>> {
    if !inner.contains(&b'\\') {
        return Some(inner.into());
    }
    let mut name = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            name.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(after.strip_prefix(b"x")?.get(..2)?).ok()?;
        name.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[3..];
    }
    Some(name.into())
}

fn read_field(one: Field, call: &mut Call, words: &mut Words<'_>) -> Result<(), Wrong> {
    match one {
        Field::Fd => call.fd = Some(words.number("a descriptor")?),
        Field::Fd2 => call.fd2 = Some(words.number("the second descriptor")?),
        Field::Path => call.path = Some(words.quoted("the path")?),
        Field::Path2 | Field::Target | Field::Attr => call.path2 = Some(words.quoted("the second name")?),
        Field::Len => call.len = words.number("the length")?,
        Field::Offset => call.offset = words.number("the offset")?,
        Field::Device => call.offset = words.number("the device")?,
        Field::Uid => call.offset = words.number("the user")?,
        Field::Offset2 => call.offset2 = words.number("the second offset")?,
        Field::Gid => call.offset2 = words.number("the group")?,
        Field::Atime => call.offset = words.time()?,
        Field::Mtime => call.offset2 = words.time()?,
        Field::Mode => call.mode = words.octal()?,
        Field::Number => call.mode = words.number("a number")?,
        Field::Words(table) => call.flags = words.words(table)?,
    }
    Ok(())
}

fn read_call(words: &mut Words<'_>) -> Result<Record, Wrong> {
    let thread = words.number("the thread")?;
    let mut times = words.times()?;
    times.duration_ns = words.number("the duration")?;
    let word = words.word("the call")?;
    let op = Op::named(word).ok_or_else(|| format!("{} is no call of this version", shown(word)))?;
    let mut call = Call::new(op);
    let in_call = |wrong: Wrong| format!("{}: {wrong}", op.name());
    op.fields().iter().try_for_each(|one| read_field(*one, &mut call, words)).map_err(in_call)?;
    if words.try_word() != Some(b"=") {
        return Err(in_call("there is no ` = ` before the result".to_owned()));
    }
    let word = words.word("the result").map_err(in_call)?;
    let result = match word.strip_prefix(b"-") {
        Some(name) => error_number(name).map(|errno| -i64::from(errno)),
        None => parse(word),
    };
    let result = result.ok_or_else(|| in_call(format!("{} is no result", shown(word))))?;
    Ok(Record::Call(Timed { thread, times, call, result }))
}

fn read_entry(words: &mut Words<'_>) -> Result<Record, Wrong> {
    let letter = words.word("the kind")?;
    let kind = match letter {
        [letter] => Kind::of_letter(*letter),
        _ => None,
    };
    let kind = kind.ok_or_else(|| format!("{} is no kind of file", shown(letter)))?;
    let (mode, size) = (words.octal()?, words.number("the size")?);
    let path = words.quoted("the path")?;
    let target = if words.rest.first() == Some(&b'"') { Some(words.quoted("the target")?) } else { None };
    let group = words.try_word().map(|word| {
        let digits = word.strip_prefix(b"=").and_then(parse);
        digits.ok_or_else(|| format!("{} is no group of links", shown(word)))
    });
    Ok(Record::Entry(Entry { kind, mode, size, group: group.transpose()?.unwrap_or(0), path, target }))
}

fn read_fork(words: &mut Words<'_>) -> Result<Record, Wrong> {
    let (parent, child) = (words.number("the parent")?, words.number("the child")?);
    let after_ns = words.number("the time")?;
    let mut shares = Shares::default();
    for word in words.word("what is shared")?.split(|byte| *byte == b',') {
        match word {
            b"-" => {}
            b"thread" => shares.process = true,
            b"files" => shares.files = true,
            b"vfork" => shares.vfork = true,
            word => return Err(format!("{} is nothing that threads share", shown(word))),
        }
    }
    Ok(Record::Fork(Fork { parent, child, after_ns, shares }))
}

fn read_exit(words: &mut Words<'_>) -> Result<Record, Wrong> {
    let (thread, times) = (words.number("the thread")?, words.times()?);
    let how = words.word("how it ended")?;
    let value = words.number("the exit code")?;
    let status = match how {
        b"exit" => Status::Exited(value),
        b"signal" => Status::Killed(value),
        b"replaced" => Status::Replaced,
        how => return Err(format!("{} is no way to end", shown(how))),
    };
    Ok(Record::Exit(Exit { thread, times, status }))
}

fn read_loss(words: &mut Words<'_>) -> Result<Record, Wrong> {
    let kind = match words.word("what is missing")? {
        b"calls" => Missing::Calls,
        b"bytes" => Missing::Bytes,
        other => return Err(format!("{} is nothing that a trace can lack", shown(other))),
    };
    let count = words.number("the count")?;
    let (name, reason) = (words.quoted("the call")?, words.quoted("the reason")?);
    let program = if words.rest.is_empty() { Box::default() } else { words.quoted("the program")? };
    Ok(Record::Loss(Loss { kind, name, reason, program, count }))
}

fn read_end(words: &mut Words<'_>) -> Result<Record, Wrong> {
    let mut end = End::default();
    while let Some(word) = words.try_word() {
        let at = word.iter().position(|byte| *byte == b'=');
        let (key, value) = at.map_or((word, &b""[..]), |at| (&word[..at], &word[at + 1..]));
        let value = parse(value).ok_or_else(|| format!("{} is not KEY=NUMBER", shown(word)));
        match key {
            b"at" => end.at_ns = value?,
            b"calls" => end.calls = value?,
            b"dropped" => end.dropped = value?,
            b"user" => end.user_ns = Some(value?),
            b"level" => end.level_ns = value?,
            b"noise" => end.noise_ns = Some(value?),
            _ => end.more.push(word.into()),
        }
    }
    Ok(Record::End(end))
}

/// Reads a line without its end.
pub(crate) fn read(line: &[u8]) -> Result<Record, Wrong> {
    let mut words = Words { rest: line };
    let words = &mut words;
    if line.first().is_some_and(u8::is_ascii_digit) {
        let record = read_call(words)?;
        return words.end().map(|()| record);
    }
    let record = match words.word("a record")? {
        b"S" => read_entry(words),
        b"T" => {
            let (number, pid) = (words.number("the thread")?, words.number("the process")?);
            let tid = words.number("the thread of the host")?;
            Ok(Record::Thread(Thread { number, pid, tid, name: words.quoted("the program")? }))
        }
        b"F" => read_fork(words),
        b"D" => {
            let (thread, fd) = (words.number("the thread")?, words.number("the descriptor")?);
            let path = words.quoted("the path")?;
            let (flags, position) = (words.words(Table::Open)?, words.number("the position")?);
            Ok(Record::Inherited(Inherited { thread, fd, path, flags, position }))
        }
        b"X" => read_exit(words),
        b"C" => {
            Ok(Record::Count(Count { count: words.number("the count")?, what: words.quoted("of what")? }))
        }
        b"L" => read_loss(words),
        b"P" => {
            let (thread, fd) = (words.number("the thread")?, words.number("the descriptor")?);
            Ok(Record::Sent(Sent { thread, fd, number: words.number("the number")? }))
        }
        b"R" => {
            let (thread, number) = (words.number("the thread")?, words.number("the number")?);
            let (fd, flags) = (words.number("the descriptor")?, words.words(Table::Descriptor)?);
            Ok(Record::Received(Received { thread, number, fd, cloexec: flags & CLOEXEC != 0 }))
        }
        b"E" => read_end(words),
        other => Err(format!("{} is no record of this version", shown(other))),
    }?;
    words.end().map(|()| record)
}

/// What an error message names a line by: its call, as far as it can be made out.
pub(crate) fn call_of(line: &[u8]) -> Option<String> {
    let word = line.split(|byte| *byte == b' ').nth(3)?;
    Op::named(word).map(|op| op.name().to_owned())
}
