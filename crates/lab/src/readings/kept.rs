//! Samples on disk: a run goes on where it was interrupted.
//!
//! A file of lines. The first names the format and the build; each further one is the key of a cell, which is everything that
//! decides its sample ([`crate::Runner`]), and the sample. Lines are written when a cell has run; the last may be torn by a power
//! loss or a kill, and is then cut off. Samples of another build are not taken: its model may differ.
//!
//! One process has the file at a time (an advisory lock). Lock order: the file's lock only.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use results::Sample;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The name of the format.
const SCHEMA: &str = "weir.cells/1";

/// The first line.
#[derive(PartialEq, Serialize, Deserialize)]
struct Head {
    schema: String,
    build: String,
}

/// The open file, which goes with a run that has kept nothing in it.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
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
        let head = Head { schema: SCHEMA.to_owned(), build: build.to_owned() };
        let (known, end) = read(&file, &head).map_err(io("read"))?;
        file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0))).map_err(io("write"))?;
        if end == 0 {
            writeln!(file, "{}", line(&head)).map_err(io("write"))?;
        }
        let state = State { file, used: !known.is_empty(), failure: None };
        Ok((Self { path: path.to_owned(), state: Mutex::new(state) }, known))
    }

    /// Adds a sample. After the first that cannot be written the file is left alone: a run does not fail for want of a copy.
    pub fn add(&self, key: &str, sample: &Sample) {
        let text = line(&(key, sample)) + "\n";
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

fn line(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("our records have string keys only")
}

/// What the file holds below `head`, and where the whole lines end; nothing if its head is another.
fn read(file: &File, head: &Head) -> std::io::Result<(Known, u64)> {
    let mut known = Known::new();
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    let mut end = reader.read_until(b'\n', &mut text)? as u64;
    if serde_json::from_slice::<Head>(&text).ok().as_ref() != Some(head) {
        return Ok((known, 0));
    }
    loop {
        text.clear();
        let bytes = reader.read_until(b'\n', &mut text)? as u64;
        let whole = text.ends_with(b"\n").then(|| serde_json::from_slice::<(String, Sample)>(&text).ok());
        let Some((key, sample)) = whole.flatten() else { return Ok((known, end)) };
        known.insert(key, sample);
        end += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ops: u64) -> Sample {
        Sample { ops, ..Sample::default() }
    }

    #[test]
    fn samples_come_back_and_a_torn_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells/p.jsonl");
        let (kept, known) = Kept::open(&path, "a").unwrap();
        assert!(known.is_empty());
        kept.add("one", &sample(1));
        kept.add("two", &sample(2));
        drop(kept);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let (kept, known) = Kept::open(&path, "a").unwrap();
        assert_eq!(known.into_iter().collect::<Vec<_>>(), [("one".to_owned(), sample(1))]);
        kept.add("three", &sample(3));
        drop(kept);
        let keys: Vec<_> = Kept::open(&path, "a").unwrap().1.into_keys().collect();
        assert_eq!(keys, ["one", "three"]);
    }

    #[test]
    fn samples_of_another_build_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        Kept::open(&path, "a").unwrap().0.add("one", &sample(1));
        assert!(Kept::open(&path, "b").unwrap().1.is_empty());
        assert!(Kept::open(&path, "a").unwrap().1.is_empty(), "they are gone for good");
    }

    #[test]
    fn a_run_that_keeps_nothing_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        drop(Kept::open(&path, "a").unwrap());
        assert!(!path.exists());
        Kept::open(&path, "a").unwrap().0.add("one", &sample(1));
        drop(Kept::open(&path, "a").unwrap());
        assert_eq!(Kept::open(&path, "a").unwrap().1.len(), 1, "what an earlier run has kept stays");
    }

    #[test]
    fn what_cannot_be_written_is_told_once_and_ends_no_run() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let state = State { file: full, used: false, failure: None };
        let kept = Kept { path: "cells".into(), state: Mutex::new(state) };
        kept.add("one", &sample(1));
        kept.add("two", &sample(2));
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
