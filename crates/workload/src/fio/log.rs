//! I/O that was recorded and is replayed (`read_iolog`): fio's iolog of version 2 or 3, also packed with gzip, zstd or xz.
//!
//! ```text
//! fio version 3 iolog        TIME FILE ACTION [OFFSET LENGTH]     in microseconds since the job began
//! fio version 2 iolog        FILE ACTION [OFFSET LENGTH], and FILE wait MICROSECONDS
//! ```
//!
//! Files are those that the log names, below `/fio`, as large as the log reaches. The times of the log are a schedule, as a rate
//! is: an I/O that is late does not shift those behind it. As at fio a log is replayed once, whatever `loops` and `size` say.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, Read as _};
use std::path::Path;

use sim::Nanos;

use super::source::Kind;
use super::value::Parsed;
use crate::block::trace::packed;

/// A log with more I/Os is refused.
const MOST: usize = 8 << 20;

/// One I/O of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) kind: Kind,
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Since the job began; none where it follows at once.
    pub(super) at: Option<Nanos>,
}

/// How a log is replayed.
#[derive(Clone, Debug, Default)]
pub(super) struct How {
    /// At once, whatever the times are (`replay_no_stall`).
    pub(super) no_stall: bool,
    /// All on this file (`replay_redirect`).
    pub(super) redirect: Option<String>,
    /// Percent of the recorded speed (`replay_time_scale`).
    pub(super) speed: u64,
    /// What offsets are divided by, and then rounded down to a multiple of (`replay_scale`, `replay_align`).
    pub(super) scale: u64,
    pub(super) align: u64,
}

/// A log, read.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) files: Vec<String>,
    /// How far each file reaches.
    pub(super) ends: Vec<u64>,
    pub(super) ios: Vec<Recorded>,
    /// The checksum of the text and of how it is replayed.
    sum: u32,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log({} I/Os, {:08x})", self.ios.len(), self.sum)
    }
}

impl Log {
    /// Reads the log at `path`; `name` checks the name of a file.
    pub(super) fn read(path: &Path, how: &How, name: &impl Fn(&str) -> Parsed<String>) -> Parsed<Self> {
        let told = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let input = File::open(path).and_then(packed::open).map_err(told)?;
        Self::parse(input, how, name).map_err(|what| format!("{}: {what}", path.display()))
    }

    fn parse(mut input: impl BufRead, how: &How, name: &impl Fn(&str) -> Parsed<String>) -> Parsed<Self> {
        let mut reader =
            Reader { how, name, version: 0, waited: Nanos::ZERO, names: Vec::new(), log: Log::new(how) };
        let (mut line, mut number) = (Vec::new(), 0_u64);
        loop {
            line.clear();
            let read = input.by_ref().take(1 << 16).read_until(b'\n', &mut line);
            if read.map_err(|error| format!("line {}: {error}", number + 1))? == 0 {
                break;
            }
            number += 1;
            reader.log.sum = crc32c::crc32c_append(reader.log.sum, &line);
            let text = std::str::from_utf8(&line).map_err(|_| {
                format!("line {number}: this is no text: fio's iolog is expected; blkparse prints binary traces as text, \
                         which weir sim flash replays")
            })?;
            reader.line(text.trim()).map_err(|what| format!("line {number}: {what}"))?;
        }
        let log = reader.log;
        if log.ios.is_empty() { Err("the log has no I/O".to_owned()) } else { Ok(log) }
    }

    fn new(how: &How) -> Self {
        let sum = crc32c::crc32c(format!("{how:?}").as_bytes());
        Self { files: Vec::new(), ends: Vec::new(), ios: Vec::new(), sum }
    }

    /// Whether an I/O of that kind is in it.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.ios.iter().any(|io| io.kind == kind)
    }

    /// The longest I/O.
    pub(super) fn longest(&self) -> u64 {
        self.ios.iter().map(|io| io.len).max().unwrap_or(0)
    }
}

struct Reader<'a, N> {
    how: &'a How,
    name: &'a N,
    version: u32,
    /// Version 2: the waits so far.
    waited: Nanos,
    /// The names as the log has them, with the places of their files.
    names: Vec<(String, usize)>,
    log: Log,
}

impl<N: Fn(&str) -> Parsed<String>> Reader<'_, N> {
    fn line(&mut self, line: &str) -> Parsed<()> {
        if line.is_empty() {
            return Ok(());
        }
        if let Some(version) = line.strip_prefix("fio version ") {
            self.version = version.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
            return match self.version {
                2 | 3 => Ok(()),
                _ => Err(format!("\"{line}\": only versions 2 and 3 of fio's iolog are known")),
            };
        }
        let mut words = line.split_whitespace();
        let mut at = self.waited;
        match self.version {
            0 => {
                return Err(
                    "the first line must be \"fio version 2 iolog\" or \"fio version 3 iolog\"".to_owned()
                );
            }
            2 => {}
            _ => at = micros(words.next(), "a time in microseconds")?,
        }
        let (Some(file), Some(action)) = (words.next(), words.next()) else {
            return Err(format!("\"{line}\" has no file and action"));
        };
        let kind = match action {
            "add" | "open" | "close" | "unlink" => return Ok(()),
            "wait" => {
                self.waited += micros(words.next(), "a number of microseconds to wait")?;
                return Ok(());
            }
            "read" => Kind::Read,
            "write" => Kind::Write,
            "trim" => Kind::Trim,
            "sync" => Kind::Fsync,
            "datasync" => Kind::Fdatasync,
            _ => return Err(format!("no action of fio is called \"{action}\"")),
        };
        let file = self.file(file)?;
        let (mut offset, mut len) = (0, 0);
        if matches!(kind, Kind::Read | Kind::Write | Kind::Trim) {
            offset = number(words.next(), "an offset in bytes")? / self.how.scale.max(1);
            offset -= offset % self.how.align.max(1);
            len = number(words.next(), "a length in bytes")?;
        }
        self.add(Recorded { kind, file, offset, len, at: (!self.how.no_stall).then_some(at) })
    }

    /// The place of a file among those of the log.
    fn file(&mut self, name: &str) -> Parsed<usize> {
        if let Some((_, place)) = self.names.iter().find(|(known, _)| known == name) {
            return Ok(*place);
        }
        let path = match &self.how.redirect {
            Some(path) => path.clone(),
            None => (self.name)(name)?,
        };
        let place = self.log.files.iter().position(|known| *known == path).unwrap_or_else(|| {
            self.log.files.push(path);
            self.log.ends.push(0);
            self.log.files.len() - 1
        });
        self.names.push((name.to_owned(), place));
        Ok(place)
    }

    fn add(&mut self, io: Recorded) -> Parsed<()> {
        if !matches!(io.kind, Kind::Fsync | Kind::Fdatasync) {
            if io.len == 0 || io.len > 1 << 30 {
                return Err(format!("an I/O of {} bytes: it must have 1 byte to 1 GiB", io.len));
            }
            let end = io.offset.checked_add(io.len).filter(|end| *end <= 1 << 50);
            let end = end.ok_or_else(|| format!("an I/O at {}: beyond any file", io.offset))?;
            self.log.ends[io.file] = self.log.ends[io.file].max(end);
        }
        if self.log.ios.len() == MOST {
            return Err(format!("more than {MOST} I/Os: cut the log into parts"));
        }
        let at = io.at.map(|at| Nanos((u128::from(at.0) * 100 / u128::from(self.how.speed.max(1))) as u64));
        self.log.ios.push(Recorded { at, ..io });
        Ok(())
    }
}

fn number(word: Option<&str>, what: &str) -> Parsed<u64> {
    let word = word.ok_or_else(|| format!("{what} is missing"))?;
    word.parse().map_err(|_| format!("\"{word}\" is not {what}"))
}

fn micros(word: Option<&str>, what: &str) -> Parsed<Nanos> {
    Ok(Nanos(number(word, what)?.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str, how: &How) -> Parsed<Log> {
        Log::parse(text.as_bytes(), how, &|name| Ok(name.trim_start_matches('/').to_owned()))
    }

    const USUAL: How = How { no_stall: false, redirect: None, speed: 100, scale: 1, align: 1 };

    #[test]
    fn both_versions_are_read_with_their_times() {
        let third = "fio version 3 iolog\n0 /a add\n1 /a open\n10 /a write 4096 8192\n20 b read 0 512\n30 /a sync 0 0\n";
        let read = log(third, &USUAL).unwrap();
        assert_eq!(
            (&read.files[..], &read.ends[..]),
            (&["a".to_owned(), "b".to_owned()][..], &[12_288, 512][..])
        );
        let ios: Vec<_> = read.ios.iter().map(|io| (io.kind, io.file, io.offset, io.at.unwrap().0)).collect();
        let expected =
            [(Kind::Write, 0, 4096, 10_000), (Kind::Read, 1, 0, 20_000), (Kind::Fsync, 0, 0, 30_000)];
        assert_eq!(ios, expected);
        let second = "fio version 2 iolog\na write 0 512\na wait 200\na read 512 512\n";
        let times = |how: &How| log(second, how).unwrap().ios.iter().map(|io| io.at).collect::<Vec<_>>();
        assert_eq!(times(&USUAL), [Some(Nanos(0)), Some(Nanos(200_000))]);
        assert_eq!(times(&How { speed: 50, ..USUAL }), [Some(Nanos(0)), Some(Nanos(400_000))]);
        assert_eq!(times(&How { no_stall: true, ..USUAL }), [None, None]);
        let one = log(third, &How { redirect: Some("x".into()), scale: 2, align: 4096, ..USUAL }).unwrap();
        assert_eq!((one.files.len(), one.ios[0].offset, one.ends[0]), (1, 0, 8192));
    }

    #[test]
    fn what_is_no_log_is_told_with_its_line() {
        for (text, told) in [
            ("", "the log has no I/O"),
            ("a read 0 512", "line 1: the first line must be"),
            ("fio version 1 iolog", "line 1: \"fio version 1 iolog\": only versions 2 and 3"),
            ("fio version 3 iolog\n1 a reed 0 1", "line 2: no action of fio is called \"reed\""),
            ("fio version 3 iolog\nx a read 0 1", "line 2: \"x\" is not a time"),
            ("fio version 2 iolog\na read 0", "line 2: a length in bytes is missing"),
            ("fio version 2 iolog\na read 0 0", "line 2: an I/O of 0 bytes"),
        ] {
            let wrong = log(text, &USUAL).unwrap_err();
            assert!(wrong.contains(told), "{text}: {wrong}");
        }
    }
}
