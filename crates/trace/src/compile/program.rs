//! A compiled trace in memory.

use std::io::Read;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::packed::{Item, Unpacker};
use super::{Options, Sink, Step, Summary, Wait, compile};
use crate::error::{Error, Result};
use crate::reader::Reader;
use crate::record::{Entry, Thread};

/// A compiled trace in memory: about 150 bytes a step.
#[derive(Debug, Default)]
pub struct Program {
    /// Threads, in the order in which they begin.
    pub threads: Vec<ThreadSteps>,
    /// The paths, names of attributes and contents of links that steps name by number.
    pub paths: Vec<Box<[u8]>>,
    /// What must exist before the first step, directories before what is in them.
    pub initial: Vec<Entry>,
    /// What exists after the last step, directories before what is in them.
    pub last: Vec<Entry>,
    /// The sums.
    pub summary: Summary,
    /// Every step in the order of the trace.
    steps: Vec<Step>,
    /// Where the waits of each step end in `waits`.
    ends: Vec<u64>,
    waits: Vec<Wait>,
    /// Where each thread is in `threads`, by its number.
    places: FxHashMap<u32, usize>,
}

/// A thread and its steps.
#[derive(Clone, Debug)]
pub struct ThreadSteps {
    /// The thread.
    pub thread: Thread,
    /// Its steps: numbers for [`Program::step`].
    pub steps: Vec<u32>,
}

impl Program {
    /// Compiles a trace into memory.
    pub fn compile(reader: Reader, options: Options) -> Result<Self> {
        let mut program = Self::default();
        compile(reader, options, &mut program)?;
        Ok(program)
    }

    /// Opens a trace or a compiled trace, whichever it is.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        let name = path.display().to_string();
        let file = std::fs::File::open(path).map_err(|error| Error::io(&name, error))?;
        if Unpacker::is_packed(&file) {
            Self::load(file, &name)
        } else {
            Self::compile(Reader::open(path)?, options)
        }
    }

    /// Reads what [`Packed`](super::Packed) has written.
    pub fn load(source: impl Read, file: &str) -> Result<Self> {
        let mut unpacker = Unpacker::new(source, file)?;
        let mut program = Self::default();
        loop {
            match unpacker.next()? {
                Item::Thread(thread) => program.thread(&thread)?,
                Item::Path(path) => program.path(&path)?,
                Item::Step(step, waits) => program.step(&step, &waits)?,
                Item::Initial(entry) => program.initial(&entry)?,
                Item::Last(entry) => program.last(&entry)?,
                Item::End(summary) => {
                    program.end(&summary)?;
                    return Ok(program);
                }
            }
        }
    }

    /// All steps in the order of the trace: what a replay in the recorded order makes.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// A step.
    pub fn get(&self, number: u32) -> &Step {
        &self.steps[number as usize]
    }

    /// What a step waits for.
    pub fn waits(&self, number: u32) -> &[Wait] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.waits[start as usize..self.ends[number] as usize]
    }

    /// A path.
    pub fn path_of(&self, number: Option<u32>) -> &[u8] {
        number.and_then(|number| self.paths.get(number as usize)).map_or(b"", |path| path)
    }

    /// Where the steps of a thread are in `threads`.
    pub fn thread_at(&self, number: u32) -> Option<usize> {
        self.places.get(&number).copied()
    }
}

impl Sink for Program {
    fn thread(&mut self, thread: &Thread) -> Result<()> {
        match self.places.get(&thread.number) {
            Some(at) => self.threads[*at].thread = thread.clone(),
            None => {
                self.places.insert(thread.number, self.threads.len());
                self.threads.push(ThreadSteps { thread: thread.clone(), steps: Vec::new() });
            }
        }
        Ok(())
    }

    fn path(&mut self, path: &[u8]) -> Result<()> {
        self.paths.push(path.into());
        Ok(())
    }

    fn step(&mut self, step: &Step, waits: &[Wait]) -> Result<()> {
        let number = self.steps.len() as u32;
        if let Some(at) = self.places.get(&step.thread) {
            self.threads[*at].steps.push(number);
        }
        self.steps.push(*step);
        self.waits.extend_from_slice(waits);
        self.ends.push(self.waits.len() as u64);
        Ok(())
    }

    fn initial(&mut self, entry: &Entry) -> Result<()> {
        self.initial.push(entry.clone());
        Ok(())
    }

    fn last(&mut self, entry: &Entry) -> Result<()> {
        self.last.push(entry.clone());
        Ok(())
    }

    fn end(&mut self, summary: &Summary) -> Result<()> {
        self.summary = summary.clone();
        Ok(())
    }
}
