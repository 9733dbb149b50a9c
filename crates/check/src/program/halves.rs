//! Calls that never returned: the program was killed, or ended by another thread, while they ran. Each may have had its effect,
//! whole or in part, whatever came later: its pieces are free at every point after its begin, and nothing waits for them.
//!
//! The contents of a trace have each as the line that it would be. It is put into the trace where it began, so that its descriptor
//! and its paths mean what they meant then; [`super::walk`] takes it after everything else.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use trace::contents::{Contents, Half};
use trace::record::Record;
use trace::{Reader, Writer};

use super::story::StoryError;

/// Numbers of calls from here on are those of halves.
pub(super) const HALF: u64 = 1 << 62;

/// A trace with the calls that never returned.
pub(super) struct Whole {
    /// Its text; none: the file itself.
    text: Option<Arc<[u8]>>,
    name: String,
    /// Lines of the file by those of the text.
    pub(super) lines: Vec<u64>,
    /// Calls that never returned, by lines of the text: numbers of [`Contents::halves`].
    pub(super) halves: FxHashMap<u64, usize>,
}

impl Whole {
    /// Puts calls into a trace.
    pub(super) fn of(path: &Path, contents: &mut Contents) -> Result<Self, StoryError> {
        let name = path.display().to_string();
        let mut known: Vec<usize> = (0..contents.halves.len()).collect();
        known.retain(|at| contents.halves[*at].effect.is_some());
        known.sort_by_key(|at| contents.halves[*at].calls);
        for at in &known {
            let effect = contents.halves[*at].effect.as_ref();
            let written = effect.and_then(|effect| effect.written);
            contents.calls.extend(written.map(|written| (HALF + *at as u64, written)));
        }
        let mut whole = Self { text: None, name, lines: Vec::new(), halves: FxHashMap::default() };
        if !known.is_empty() {
            whole.put(Reader::open(path)?, &known, &contents.halves)?;
        }
        Ok(whole)
    }

    fn put(&mut self, mut reader: Reader, known: &[usize], halves: &[Half]) -> Result<(), StoryError> {
        let unwritten = |error: std::io::Error| StoryError::Other(error.to_string());
        let mut writer = Writer::new(Vec::new(), reader.head(), false).map_err(unwritten)?;
        // The head: its first line, and one for each key.
        self.lines = vec![0; reader.head().keys.len() + 2];
        let (mut calls, mut known, mut end) = (0, known.iter().peekable(), None);
        while let Some(record) = reader.next()? {
            let comes_later =
                matches!(record, Record::Call(_) | Record::Exit(_) | Record::Count(_) | Record::End(_));
            while let Some(at) = known.next_if(|at| comes_later && halves[**at].calls <= calls) {
                let line = halves[*at].effect.as_ref().map_or(&b""[..], |effect| &effect.line);
                let call = Record::of_line(line).map_err(|wrong| {
                    StoryError::Other(format!(
                        "{}: a call that never returned: {wrong}; record again",
                        self.name
                    ))
                })?;
                writer.write(&call).map_err(unwritten)?;
                self.halves.insert(self.lines.len() as u64, *at);
                self.lines.push(reader.line());
            }
            calls += u64::from(matches!(record, Record::Call(_)));
            if let Record::End(last) = record {
                end = Some(last);
                continue;
            }
            writer.write(&record).map_err(unwritten)?;
            self.lines.push(reader.line());
        }
        let text = match end {
            Some(end) => writer.finish([], end).map_err(unwritten)?,
            None => {
                writer.flush().map_err(unwritten)?;
                writer.get_ref().clone()
            }
        };
        self.text = Some(text.into());
        Ok(())
    }

    /// Reads it.
    pub(super) fn reader(&self, path: &Path) -> trace::Result<Reader> {
        match &self.text {
            Some(text) => Reader::new(Cursor::new(Arc::clone(text)), &self.name),
            None => Reader::open(path),
        }
    }

    /// The line of the file.
    pub(super) fn line(&self, line: u64) -> u64 {
        self.lines.get(line as usize).copied().unwrap_or(line)
    }
}
