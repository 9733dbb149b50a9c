//! Variables with their checks.

use std::sync::Arc;

use sim::Nanos;

use super::run::{self, Load};
use crate::app::run::Run;
use crate::app::variables::{Reader, Values};
use crate::suite::{How, Job, JobError, LoadError, Processes, Settings, Workload};

/// Larger files are a mistake.
const MOST: u64 = 1 << 44;
/// Small files are counted in these units.
pub(super) const UNIT: u64 = 1024;
/// A page, by which small files are counted.
const PAGE: u64 = 4096;

/// Whose order and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// Bonnie of 1996.
    Bonnie,
    /// Bonnie++ 2.00a.
    BonniePlus,
}

/// All variables, checked.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// The workload's name.
    pub(super) name: &'static str,
    /// What is measured.
    pub(super) passes: &'static [usize],
    pub(super) program: Program,
    pub(super) size: u64,
    pub(super) chunk: u64,
    /// Bytes of the passes by bytes.
    pub(super) chars: u64,
    /// Bytes of a stdio buffer; 1: a call for each byte.
    pub(super) stdio: u64,
    /// What a byte computes where there is a buffer.
    pub(super) char_time: Nanos,
    pub(super) seeks: u64,
    pub(super) seekers: u64,
    /// Small files.
    pub(super) files: u64,
    pub(super) sizes: (u64, u64),
    pub(super) directories: u64,
    pub(super) sync: bool,
    values: Values,
}

impl Options {
    /// What `settings` say of the workload `name`, which is a program's as a whole or one pass.
    pub(super) fn read(
        name: &'static str,
        passes: &'static [usize],
        program: Program,
        settings: &Settings,
    ) -> Result<Self, LoadError> {
        let mut reader = Reader::of(format!("bonnie/{name}"), "seekers", settings);
        let program = match (passes.len(), program) {
            (1, _) => {
                reader.word("program", &[("bonnie", Program::Bonnie), ("bonnie++", Program::BonniePlus)])?
            }
            (_, program) => program,
        };
        let plus = program == Program::BonniePlus;
        let either = |bonnie: u64, bonnie_plus: u64| if plus { bonnie_plus } else { bonnie };
        let size = reader.bytes("size", 100 << 20, 4096..=MOST)?;
        let ram = reader.bytes("ram", 0, 0..=MOST)?;
        if size < 2 * ram {
            let least = format!("at least {}, twice ram={}", sim::Bytes(2 * ram), sim::Bytes(ram));
            return Err(reader.wrong("size", &sim::Bytes(size).to_string(), &least));
        }
        let chunk = reader.bytes("chunk", either(16 << 10, 8 << 10), 256..=1 << 20)?;
        if !chunk.is_power_of_two() || chunk > size {
            let expected = "a power of two from 256B to 1MiB, no larger than the file";
            return Err(reader.wrong("chunk", &sim::Bytes(chunk).to_string(), expected));
        }
        let small = passes.iter().all(|pass| *pass >= run::SMALL);
        let usual_files = if small { 16 } else { either(0, 16) };
        let (chars, stdio) = (either(size, size.min(20 << 20)), either(4096, 1));
        let largest = reader.bytes("largest", 0, 0..=1 << 30)?;
        let options = Self {
            name,
            passes,
            program,
            size: size / chunk * chunk,
            chunk,
            chars: reader.bytes("chars", chars, 1..=size)?,
            stdio: reader.bytes("stdio", stdio, 1..=1 << 20)?,
            char_time: reader.time("char_time", CHAR)?,
            seeks: reader.count("seeks", either(4000, 8192), 0..=1_000_000_000)?,
            seekers: reader.count("seekers", either(3, 5), 1..=1024)?,
            files: UNIT * reader.count("files", usual_files, u64::from(small)..=1_000_000)?,
            sizes: (reader.bytes("smallest", 0, 0..=largest)?, largest),
            directories: reader.count("directories", 0, 0..=100_000)?,
            sync: reader.flag("sync", false)?,
            values: reader.finish()?,
        };
        Ok(options)
    }

    /// Chunks of the large file.
    pub(super) fn chunks(&self) -> u64 {
        self.size / self.chunk
    }

    fn has_large_file(&self) -> bool {
        self.passes.iter().any(|pass| *pass < run::SMALL)
    }
}

/// putc(3) of glibc 2.36 takes 5.7 ns a byte and getc(3) 5.3 ns, with Bonnie's counts of bytes, on a file of tmpfs (an AMD EPYC
/// virtual machine at 2.6 GHz, median of three passes of 100 MiB, in which the calls take less than 0.4 ns a byte).
const CHAR: Nanos = Nanos(5);

impl Workload for Options {
    fn settings(&self) -> String {
        format!("bonnie/{} {:?}", self.name, self.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.values.clone()
    }

    fn data_bytes(&self) -> u64 {
        let large = if self.has_large_file() { self.size.max(self.chars) } else { 0 };
        large + self.files * self.sizes.1.next_multiple_of(PAGE)
    }

    fn small_files(&self) -> u64 {
        self.files + self.directories
    }

    fn tasks(&self) -> u64 {
        if self.passes.contains(&run::SEEKS) { self.seekers } else { 1 }
    }

    fn ends(&self) -> bool {
        true
    }

    fn sizes(&self) -> &'static [&'static str] {
        if self.has_large_file() { &["size", "files"] } else { &["files", "largest"] }
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Ok(Arc::new(Run::new(Arc::new(Load::new(self.clone())), how, processes)))
    }
}
