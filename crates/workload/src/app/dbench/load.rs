//! Load files of dbench 4.
//!
//! A line is an operation, its arguments and the status that is expected. Arguments are words, or names in quotes; numbers are
//! decimal or `0x`; `#` begins a comment. Names have backslashes, and `client1` in them stands for the client.
//!
//! | operation | arguments |
//! |---|---|
//! | `NTCreateX` | name, options (bit 0: a directory), disposition, handle |
//! | `Close`, `Flush` | handle |
//! | `ReadX`, `WriteX` | handle, offset, size, size that is done |
//! | `LockX`, `UnlockX` | handle, offset, size |
//! | `QUERY_PATH_INFORMATION` | name, level |
//! | `QUERY_FILE_INFORMATION`, `SET_FILE_INFORMATION` | handle, level |
//! | `QUERY_FS_INFORMATION` | level |
//! | `FIND_FIRST` | name, level, names at most, names that are found |
//! | `Unlink`, `Mkdir`, `Rmdir`, `Deltree` | name (`Unlink` has attributes in some files) |
//! | `Rename` | old name, new name |
//! | `Sleep` | microseconds |

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustc_hash::FxHashMap;

use crate::app::control::{Does, Kind};

const fn kind(name: &'static str, does: Does) -> Kind {
    Kind { name, does }
}

/// The kinds of operations.
pub(super) const KINDS: &[Kind] = &[
    kind("NTCreateX", Does::Other),
    kind("Close", Does::Other),
    kind("ReadX", Does::Reads),
    kind("WriteX", Does::Writes),
    kind("Flush", Does::Other),
    kind("LockX", Does::Other),
    kind("UnlockX", Does::Other),
    kind("QUERY_PATH_INFORMATION", Does::Other),
    kind("QUERY_FILE_INFORMATION", Does::Other),
    kind("SET_FILE_INFORMATION", Does::Other),
    kind("QUERY_FS_INFORMATION", Does::Other),
    kind("FIND_FIRST", Does::Other),
    kind("Unlink", Does::Other),
    kind("Mkdir", Does::Other),
    kind("Rmdir", Does::Other),
    kind("Deltree", Does::Other),
    kind("Rename", Does::Other),
    kind("Sleep", Does::Other),
];

/// An operation. Names are numbers of [`Load::paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Create { path: u32, directory: bool, disposition: u32, handle: u32 },
    Close(u32),
    Read { handle: u32, offset: u64, size: u32, done: u32 },
    Write { handle: u32, offset: u64, size: u32, done: u32 },
    Flush(u32),
    Lock { handle: u32, offset: u64, size: u32 },
    Unlock { handle: u32, offset: u64, size: u32 },
    QueryPath(u32),
    QueryFile(u32),
    SetFile(u32),
    QueryFs,
    Find { path: u32, most: u32 },
    Unlink(u32),
    Mkdir(u32),
    Rmdir(u32),
    Deltree(u32),
    Rename { from: u32, to: u32 },
    Sleep { us: u32 },
}

impl Op {
    /// The place of its kind in [`KINDS`].
    pub(super) fn kind(self) -> usize {
        match self {
            Self::Create { .. } => 0,
            Self::Close(_) => 1,
            Self::Read { .. } => 2,
            Self::Write { .. } => 3,
            Self::Flush(_) => 4,
            Self::Lock { .. } => 5,
            Self::Unlock { .. } => 6,
            Self::QueryPath(_) => 7,
            Self::QueryFile(_) => 8,
            Self::SetFile(_) => 9,
            Self::QueryFs => 10,
            Self::Find { .. } => 11,
            Self::Unlink(_) => 12,
            Self::Mkdir(_) => 13,
            Self::Rmdir(_) => 14,
            Self::Deltree(_) => 15,
            Self::Rename { .. } => 16,
            Self::Sleep { .. } => 17,
        }
    }
}

/// Creates what is not there, and fails where something is.
pub(super) const CREATE: u32 = 2;
/// Empties what is there; the second makes it where nothing is.
pub(super) const OVERWRITE: [u32; 2] = [4, 5];

/// An operation of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) op: Op,
    /// Whether it is expected to succeed.
    pub(super) succeeds: bool,
    /// Its line in the file.
    pub(super) number: u32,
}

/// A load file.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) file: String,
    /// Tells files apart that have the same name.
    pub(super) digest: String,
    pub(super) lines: Vec<Line>,
    /// Names with slashes, as the file has them: those of client 1.
    pub(super) paths: Vec<String>,
    /// The longest read or write.
    pub(super) longest: usize,
    /// Bytes of a client's files at their most.
    pub(super) most_bytes: u64,
}

/// A read or write beyond this is a mistake.
const LONGEST: u64 = 64 << 20;

type Key = (PathBuf, u64, Option<SystemTime>);

/// What this process has read: a plan loads the workload of each of its cells.
static LOADED: Mutex<Vec<(Key, Arc<Load>)>> = Mutex::new(Vec::new());

impl Load {
    /// Reads a file, unless that was done.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, String> {
        let told = |error: std::io::Error| format!("app/dbench: load file {}: {error}", path.display());
        let about = std::fs::metadata(path).map_err(told)?;
        let key = (path.to_owned(), about.len(), about.modified().ok());
        let mut known = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, load)) = known.iter().find(|(one, _)| *one == key) {
            return Ok(Arc::clone(load));
        }
        let file = std::fs::File::open(path).map_err(told)?;
        let load = Arc::new(Self::read(BufReader::new(file), &path.display().to_string())?);
        known.push((key, Arc::clone(&load)));
        Ok(load)
    }

    /// Reads a file called `file` in messages.
    pub(super) fn read(source: impl BufRead, file: &str) -> Result<Self, String> {
        let mut parser = Parser::default();
        let (mut len, mut sum) = (0, 0);
        for (number, text) in (1..).zip(source.split(b'\n')) {
            let text = text.map_err(|error| format!("app/dbench: load file {file}: {error}"))?;
            (len, sum) = (len + text.len(), crc32c::crc32c_append(sum, &text));
            parser.line(number, &text).map_err(|what| format!("{file}:{number}: {what}"))?;
        }
        if parser.lines.is_empty() {
            return Err(format!("{file}: no operation is in the load file"));
        }
        Ok(Self {
            file: file.to_owned(),
            digest: format!("{len}-{sum:08x}"),
            longest: parser.longest,
            most_bytes: parser.most_bytes,
            lines: parser.lines,
            paths: parser.paths,
        })
    }
}

/// Reads lines, and follows which handles are open and how long files are.
#[derive(Default)]
struct Parser {
    lines: Vec<Line>,
    paths: Vec<String>,
    numbers: FxHashMap<String, u32>,
    /// The file of each open handle.
    open: FxHashMap<u32, u32>,
    sizes: FxHashMap<u32, u64>,
    bytes: u64,
    most_bytes: u64,
    longest: usize,
}

/// The words of a line; quotes hold one together. A `#` before a word ends the line.
fn words(text: &str) -> Result<Vec<&str>, String> {
    let (mut all, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() && !rest.starts_with('#') {
        let (word, after) = match rest.strip_prefix('"') {
            Some(inner) => inner.split_once('"').ok_or("a quote has no end")?,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        all.push(word);
        rest = after.trim_start();
    }
    Ok(all)
}

/// What a line has besides its operation.
struct Arguments<'a> {
    op: &'a str,
    words: &'a [&'a str],
}

impl<'a> Arguments<'a> {
    fn word(&self, at: usize, what: &str) -> Result<&'a str, String> {
        self.words.get(at).copied().ok_or_else(|| format!("{}: {what} is missing", self.op))
    }

    fn number(&self, at: usize, what: &str, most: u64) -> Result<u64, String> {
        let word = self.word(at, what)?;
        let value = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        value.filter(|value| *value <= most).ok_or_else(|| {
            format!(
                "{}: {what} is `{}`, and must be a number from 0 to {most}",
                self.op,
                word.escape_default()
            )
        })
    }

    fn small(&self, at: usize, what: &str) -> Result<u32, String> {
        self.number(at, what, u32::MAX.into()).map(|value| value as u32)
    }

    fn range(&self) -> Result<(u32, u64, u32), String> {
        let handle = self.small(0, "the handle")?;
        Ok((handle, self.number(1, "the offset", i64::MAX as u64)?, self.small(2, "the size")?))
    }
}

impl Parser {
    fn line(&mut self, number: u32, text: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(text).map_err(|_| "the line is not text")?;
        let words = words(text)?;
        let Some((op, words)) = words.split_first() else { return Ok(()) };
        let Some((status, words)) = words.split_last() else {
            return Err(format!("{op}: the status is missing"));
        };
        let succeeds = match *status {
            "NT_STATUS_OK" | "0x00000000" => true,
            other if other.starts_with("NT_STATUS_") || other.starts_with("0x") => false,
            other => {
                let other = other.escape_default();
                return Err(format!("{}: `{other}` is no status, as NT_STATUS_OK", op.escape_default()));
            }
        };
        let op = self.operation(&Arguments { op, words }, succeeds)?;
        self.lines.push(Line { op, succeeds, number });
        Ok(())
    }

    fn operation(&mut self, args: &Arguments<'_>, succeeds: bool) -> Result<Op, String> {
        Ok(match args.op {
            "NTCreateX" => self.create(args, succeeds)?,
            "Close" => {
                let handle = self.handle(args)?;
                self.open.remove(&handle);
                Op::Close(handle)
            }
            "Flush" => Op::Flush(self.handle(args)?),
            "ReadX" | "WriteX" => self.transfer(args)?,
            "LockX" | "UnlockX" => {
                self.handle(args)?;
                let (handle, offset, size) = args.range()?;
                match args.op {
                    "LockX" => Op::Lock { handle, offset, size },
                    _ => Op::Unlock { handle, offset, size },
                }
            }
            "QUERY_PATH_INFORMATION" => Op::QueryPath(self.path(args, 0)?),
            "QUERY_FILE_INFORMATION" => Op::QueryFile(self.handle(args)?),
            "SET_FILE_INFORMATION" => Op::SetFile(self.handle(args)?),
            "QUERY_FS_INFORMATION" => Op::QueryFs,
            "FIND_FIRST" => {
                Op::Find { path: self.path(args, 0)?, most: args.small(2, "the number of names")? }
            }
            "Unlink" => {
                let path = self.path(args, 0)?;
                if succeeds {
                    self.resize(path, 0);
                }
                Op::Unlink(path)
            }
            "Mkdir" => Op::Mkdir(self.path(args, 0)?),
            "Rmdir" => Op::Rmdir(self.path(args, 0)?),
            "Deltree" => Op::Deltree(self.path(args, 0)?),
            "Rename" => self.rename(args, succeeds)?,
            "Sleep" => Op::Sleep { us: args.small(0, "the time")? },
            other => {
                let other = other.escape_default();
                return Err(format!(
                    "`{other}` is no operation of dbench 4, or one of its extended forms, which are not built"
                ));
            }
        })
    }

    /// A handle, which must be open.
    fn handle(&self, args: &Arguments<'_>) -> Result<u32, String> {
        let handle = args.small(0, "the handle")?;
        let is_open = self.open.contains_key(&handle);
        if is_open {
            Ok(handle)
        } else {
            Err(format!("{}: no line before has opened handle {handle}", args.op))
        }
    }

    fn path(&mut self, args: &Arguments<'_>, at: usize) -> Result<u32, String> {
        let word = args.word(at, "the name")?;
        let parts: Vec<&str> =
            word.split(['\\', '/']).filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.is_empty() || parts.contains(&"..") {
            return Err(format!("{}: `{}` is no name below the root", args.op, word.escape_default()));
        }
        let path = parts.join("/");
        if let Some(number) = self.numbers.get(&path) {
            return Ok(*number);
        }
        let number = self.paths.len() as u32;
        self.paths.push(path.clone());
        self.numbers.insert(path, number);
        Ok(number)
    }

    fn create(&mut self, args: &Arguments<'_>, succeeds: bool) -> Result<Op, String> {
        let path = self.path(args, 0)?;
        let directory = args.small(1, "the options")? & 1 != 0;
        let disposition = args.small(2, "the disposition")?;
        let handle = args.small(3, "the handle")?;
        if succeeds {
            if self.open.insert(handle, path).is_some() {
                return Err(format!("{}: handle {handle} is open already", args.op));
            }
            if OVERWRITE.contains(&disposition) {
                self.resize(path, 0);
            }
        }
        Ok(Op::Create { path, directory, disposition, handle })
    }

    fn transfer(&mut self, args: &Arguments<'_>) -> Result<Op, String> {
        let file = self.open[&self.handle(args)?];
        let (handle, offset, size) = args.range()?;
        args.number(2, "the size", LONGEST)?;
        let done = args.number(3, "the size that is done", size.into())? as u32;
        self.longest = self.longest.max(size as usize);
        if args.op == "ReadX" {
            return Ok(Op::Read { handle, offset, size, done });
        }
        let end = offset.checked_add(size.into()).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| format!("{}: the range ends beyond the largest offset", args.op))?;
        let len = self.sizes.get(&file).copied().unwrap_or(0);
        self.resize(file, len.max(end));
        Ok(Op::Write { handle, offset, size, done })
    }

    fn rename(&mut self, args: &Arguments<'_>, succeeds: bool) -> Result<Op, String> {
        let (from, to) = (self.path(args, 0)?, self.path(args, 1)?);
        if succeeds && from != to {
            let len = self.sizes.get(&from).copied().unwrap_or(0);
            self.resize(from, 0);
            self.resize(to, len);
        }
        Ok(Op::Rename { from, to })
    }

    /// A file has another length. What `Deltree` removes is at the beginning and the end, and is not followed.
    fn resize(&mut self, path: u32, len: u64) {
        let before = self.sizes.insert(path, len).unwrap_or(0);
        self.bytes = self.bytes.saturating_sub(before).saturating_add(len);
        self.most_bytes = self.most_bytes.max(self.bytes);
    }
}
