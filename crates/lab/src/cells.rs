//! Samples on disk, by the keys of their cells: a run goes on where it was interrupted, and a campaign's shards are such files.
//!
//! A file of lines of JSON (`weir.cells/2`). The first ([`Head`]) names the format and the build; each further one is the hash of
//! the rest of the line, the key of a cell ([`crate::Runner`]), what it cost and the sample; a part of a check
//! (`weir campaign new DIR -- check crash`) has a record of its own in the sample's place. Lines are written when a cell has run;
//! the last may be torn by a power loss or a kill. Samples of another build are not taken: its model may differ.
//!
//! [`Kept::open`] is for one host: one process has the file at a time (an advisory lock), and what is torn is cut off.
//! [`Kept::create`] makes a file that no other process writes to. Lock order: the file's lock, then the state.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use results::{HostFacts, Sample};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::canonical::sha256;
use crate::error::Error;

/// The name of the format.
pub const SCHEMA: &str = "weir.cells/2";

/// The first line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// [`SCHEMA`].
    pub schema: String,
    /// The build whose samples these are.
    pub build: String,
    /// Of a shard of a campaign: of which, and who writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardHead>,
}

/// What the first line says of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardHead {
    /// The campaign, by the hash of its manifest.
    pub campaign: String,
    /// Which of its shards.
    pub shard: usize,
    /// The host.
    pub host: HostFacts,
    /// The process.
    pub writer: Writer,
}

/// A process that writes, told from others of its host and of other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// The boot of the host and its space of process numbers.
    pub boot: String,
    /// Its number.
    pub process: u32,
    /// When it began, in ticks of the host's clock since its boot.
    pub started: u64,
}

impl Writer {
    /// This process.
    pub fn here() -> Self {
        Self::of(std::process::id()).unwrap_or_default()
    }

    /// Whether this process of this host still runs.
    pub fn alive(&self) -> bool {
        Self::of(self.process).as_ref() == Some(self)
    }

    /// The process of this host that has this number now; none if there is none, or only its exit code.
    pub fn of(process: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name in brackets may have blanks and brackets; the start is the 20th field behind it (proc(5), field 22).
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let boot = sha256(format!("{} {}", boot.trim(), space.display()))[..16].to_owned();
        Some(Self { boot, process, started })
    }
}

impl Head {
    /// The first line of a file of samples of this build.
    pub fn of(build: &str) -> Self {
        Self { schema: SCHEMA.to_owned(), build: build.to_owned(), shard: None }
    }
}

/// What a cell took on its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Processor time of the thread that ran it.
    pub cpu_ns: u64,
    /// Wall time from its beginning to its end.
    pub wall_ns: u64,
}

/// The open file, which goes with a run that has kept nothing in it.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    /// Whether failed cells are kept: one that runs again fails again.
    failures: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Whether it has a sample.
    used: bool,
    /// Why not every sample could be written.
    failure: Option<Error>,
}

/// Samples by the keys of their cells.
pub type Known = BTreeMap<String, Sample>;

impl Kept {
    /// Opens the file, or makes it, and returns what it holds of `build`.
    pub fn open(path: &Path, build: &str) -> Result<(Self, Known), Error> {
        let io = |action| move |source| Error::Io { action, path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io("make the folder of"))?;
        }
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(path).map_err(io("open"))?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::Host(format!("{} is in use by another weir: wait for it, or end it", path.display()))
        })?;
        let head = Head::of(build);
        let contents = read(&file).map_err(io("read"))?;
        let contents = contents.filter(|contents: &Contents| contents.head == head);
        let (cells, end) = contents.map_or((Vec::new(), 0), |contents| (contents.cells, contents.whole));
        file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0))).map_err(io("write"))?;
        if end == 0 {
            writeln!(file, "{}", json(&head)).map_err(io("write"))?;
        }
        let state = State { file, used: !cells.is_empty(), failure: None };
        let known = cells.into_iter().map(|cell| (cell.key, cell.sample)).collect();
        Ok((Self { path: path.to_owned(), failures: false, state: Mutex::new(state) }, known))
    }

    /// Makes a file that is not there yet, for a shard: it keeps failed cells, too, and stays when it is empty.
    pub fn create(path: &Path, head: &Head) -> Result<Self, Error> {
        let io = |action| move |source| Error::Io { action, path: path.to_owned(), source };
        let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(io("make"))?;
        writeln!(file, "{}", json(head)).map_err(io("write"))?;
        let state = State { file, used: true, failure: None };
        Ok(Self { path: path.to_owned(), failures: true, state: Mutex::new(state) })
    }

    /// Whether failed cells are kept.
    pub(crate) fn keeps_failures(&self) -> bool {
        self.failures
    }

    /// Adds a sample. After the first that cannot be written the file is left alone: a run does not fail for want of a copy.
    pub fn add(&self, key: &str, sample: &impl Serialize, cost: Cost) {
        self.add_text(&line(key, &json(sample), cost));
    }

    /// The same of a line of another file.
    pub(crate) fn add_text(&self, text: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_none() {
            state.used = true;
            let written = state.file.write_all(text.as_bytes());
            let io = |source| Error::Io { action: "write", path: self.path.clone(), source };
            state.failure = written.map_err(io).err();
        }
    }

    /// Why not every sample could be written.
    pub fn failure(&self) -> Option<Error> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failure.take()
    }

    /// Syncs the file and gives it the name `path`. Fails where a sample could not be written.
    pub(crate) fn rename(self, path: &Path) -> Result<(), Error> {
        let io = |source| Error::Io { action: "write", path: self.path.clone(), source };
        match self.failure() {
            Some(error) => Err(error),
            None => {
                let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.file.sync_all().and_then(|()| std::fs::rename(&self.path, path)).map_err(io)
            }
        }
    }

    /// Removes the file of a run that has ended whole.
    pub fn remove(&self) -> Result<(), Error> {
        let removed = std::fs::remove_file(&self.path);
        removed.map_err(|source| Error::Io { action: "remove", path: self.path.clone(), source })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.state.get_mut().unwrap_or_else(PoisonError::into_inner).used {
            // Only tidiness: the next run takes an empty file as a new one.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn json(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("our records have string keys only")
}

/// Before the hash, and between it and the rest, whose hash it is.
const HASH: (&str, &str) = ("{\"sha256\":\"", "\",");
/// Before the sample, which ends the line.
const SAMPLE: &str = ",\"sample\":";

/// The line of a cell.
fn line(key: &str, sample: &str, cost: Cost) -> String {
    let rest = format!("\"key\":{},\"cost\":{}{SAMPLE}{sample}}}", json(&key), json(&cost));
    format!("{}{}{}{rest}\n", HASH.0, sha256(&rest), HASH.1)
}

/// A cell of a file.
#[derive(Clone, Debug)]
pub struct Cell<S = Sample> {
    /// Its key, as the file has it.
    pub key: String,
    /// What it cost.
    pub cost: Cost,
    /// The sample.
    pub sample: S,
    /// The hash of the sample's bytes.
    pub hash: String,
    /// Its line in the file, from 1.
    pub line: usize,
    /// The text of that, with its end.
    pub(crate) text: String,
}

/// What a file holds.
#[derive(Clone, Debug)]
pub struct Contents<S = Sample> {
    /// The first line.
    pub head: Head,
    /// The cells up to the first line that is none.
    pub cells: Vec<Cell<S>>,
    /// Bytes up to there.
    pub whole: u64,
    /// The line after these, and what is wrong with it; none where the file ends.
    pub wrong: Option<(usize, &'static str)>,
}

/// What a file of cells holds; nothing if it is none, or one of another version.
pub fn read_file(path: &Path) -> Result<Option<Contents>, Error> {
    read_file_of(path)
}

/// The same of a file whose cells have records of this kind.
pub fn read_file_of<S: DeserializeOwned>(path: &Path) -> Result<Option<Contents<S>>, Error> {
    let io = |source| Error::Io { action: "read", path: path.to_owned(), source };
    File::open(path).and_then(|file| read(&file)).map_err(io)
}

/// The first line of a file of cells; none if it is no such file.
pub(crate) fn read_head(path: &Path) -> Option<Head> {
    let mut text = String::new();
    BufReader::new(File::open(path).ok()?).read_line(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn read<S: DeserializeOwned>(file: &File) -> std::io::Result<Option<Contents<S>>> {
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    let mut whole = reader.read_until(b'\n', &mut text)? as u64;
    let head = serde_json::from_slice::<Head>(&text).ok().filter(|head| head.schema == SCHEMA);
    let Some(head) = head.filter(|_| text.ends_with(b"\n")) else { return Ok(None) };
    let (mut cells, mut number) = (Vec::new(), 1);
    let wrong = loop {
        text.clear();
        let bytes = reader.read_until(b'\n', &mut text)? as u64;
        number += 1;
        if bytes == 0 {
            break None;
        }
        match parse(&text, number) {
            Ok(cell) => cells.push(cell),
            Err(what) => break Some((number, what)),
        }
        whole += bytes;
    };
    Ok(Some(Contents { head, cells, whole, wrong }))
}

/// The cell of a line, or what is wrong with it.
fn parse<S: DeserializeOwned>(text: &[u8], line: usize) -> Result<Cell<S>, &'static str> {
    #[derive(Deserialize)]
    struct Stored<S> {
        key: String,
        cost: Cost,
        sample: S,
    }
    if !text.ends_with(b"\n") {
        return Err("is torn: the process that wrote it was killed, or the disk was full");
    }
    let damaged = "does not have the hash that it says: it was changed or damaged";
    let text = std::str::from_utf8(text).map_err(|_| damaged)?;
    let body = text.trim_end_matches('\n');
    let parts = body.strip_prefix(HASH.0).and_then(|rest| rest.split_once(HASH.1));
    let (hash, rest) = parts.ok_or(damaged)?;
    if sha256(rest) != hash {
        return Err(damaged);
    }
    let sample = rest.split_once(SAMPLE).map(|(_, sample)| &sample[..sample.len().saturating_sub(1)]);
    let hash = sha256(sample.ok_or(damaged)?);
    let Stored { key, cost, sample } =
        serde_json::from_str(&format!("{{{rest}")).map_err(|_| "is no cell of this version of Weir")?;
    Ok(Cell { key, cost, sample, hash, line, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ops: u64) -> Sample {
        // Its shortest text has 17 digits.
        Sample { ops, throughput_ops_per_s: 1_234_567.890_123_456_7 / 3.0, ..Sample::default() }
    }

    const FREE: Cost = Cost { cpu_ns: 1, wall_ns: 2 };

    #[test]
    fn samples_come_back_and_a_torn_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells/p.jsonl");
        let (kept, known) = Kept::open(&path, "a").unwrap();
        assert!(known.is_empty());
        kept.add("one", &sample(1), FREE);
        kept.add("two", &sample(2), FREE);
        drop(kept);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let (kept, known) = Kept::open(&path, "a").unwrap();
        assert_eq!(known.into_iter().collect::<Vec<_>>(), [("one".to_owned(), sample(1))]);
        kept.add("three", &sample(3), FREE);
        drop(kept);
        let keys: Vec<_> = Kept::open(&path, "a").unwrap().1.into_keys().collect();
        assert_eq!(keys, ["one", "three"]);
    }

    /// Wherever a file is cut, the whole lines before are there and the rest is told.
    #[test]
    fn a_cut_file_gives_its_whole_lines_and_a_changed_byte_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        let kept = Kept::create(&path, &Head::of("a")).unwrap();
        (1..=3).for_each(|ops| kept.add(&ops.to_string(), &sample(ops), FREE));
        drop(kept);
        let whole = std::fs::read(&path).unwrap();
        let ends: Vec<usize> = (1..=whole.len()).filter(|at| whole[at - 1] == b'\n').collect();
        for cut in ends[0]..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let contents = read_file(&path).unwrap().unwrap();
            let lines = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(contents.cells.len(), lines - 1, "cut at {cut}");
            assert_eq!(contents.wrong.is_some(), !ends.contains(&cut), "cut at {cut}");
        }
        for at in (ends[0]..whole.len()).filter(|at| whole[*at] != b'\n') {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            let found = read_file(&path).unwrap().unwrap().wrong;
            assert!(found.is_some(), "the change of byte {at} is not found");
        }
    }

    #[test]
    fn samples_of_another_build_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        Kept::open(&path, "a").unwrap().0.add("one", &sample(1), FREE);
        assert!(Kept::open(&path, "b").unwrap().1.is_empty());
        assert!(Kept::open(&path, "a").unwrap().1.is_empty(), "they are gone for good");
    }

    #[test]
    fn a_run_that_keeps_nothing_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        drop(Kept::open(&path, "a").unwrap());
        assert!(!path.exists());
        Kept::open(&path, "a").unwrap().0.add("one", &sample(1), FREE);
        drop(Kept::open(&path, "a").unwrap());
        assert_eq!(Kept::open(&path, "a").unwrap().1.len(), 1, "what an earlier run has kept stays");
    }

    #[test]
    fn what_cannot_be_written_is_told_once_and_ends_no_run() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let state = State { file: full, used: false, failure: None };
        let kept = Kept { path: "cells".into(), failures: false, state: Mutex::new(state) };
        kept.add("one", &sample(1), FREE);
        kept.add("two", &sample(2), FREE);
        assert!(kept.failure().unwrap().to_string().contains("cannot write cells"));
        assert!(kept.failure().is_none());
    }

    #[test]
    fn a_file_in_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        let _kept = Kept::open(&path, "a").unwrap();
        let told = Kept::open(&path, "a").unwrap_err().to_string();
        assert!(told.contains("in use by another weir"), "{told}");
    }
}
