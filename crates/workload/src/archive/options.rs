//! Variables with their checks, and what a run begins with.

use std::fmt::Display;
use std::io::{Cursor, Read};
use std::sync::Arc;

use sim::{Bytes, Rate};

use super::run::Load;
use super::tree::Shape;
use crate::app::run::Run;
use crate::app::variables::{MAX_CLIENTS, Reader, Values};
use crate::suite::{How, Job, JobError, LoadError, Processes, Settings, Workload};

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Tar,
    Untar,
    Zip,
    Unzip,
}

impl Program {
    pub(super) fn unpacks(self) -> bool {
        matches!(self, Self::Untar | Self::Unzip)
    }

    pub(super) fn is_zip(self) -> bool {
        matches!(self, Self::Zip | Self::Unzip)
    }

    /// The ending of its archives.
    pub(super) fn ending(self) -> &'static str {
        if self.is_zip() { "zip" } else { "tar" }
    }
}

/// What compressing and inflating takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    /// Whether there is any.
    pub(super) is_on: bool,
    pub(super) deflate: Rate,
    pub(super) inflate: Rate,
}

/// An archive of the host.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) bytes: Arc<Vec<u8>>,
    /// Bytes and files that it holds.
    unpacked: u64,
    entries: u64,
}

/// All variables, checked.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) name: &'static str,
    pub(super) program: Program,
    pub(super) clients: u64,
    pub(super) shape: Shape,
    pub(super) codec: Codec,
    pub(super) given: Option<Given>,
    values: Values,
}

impl Options {
    pub(super) fn read(name: &'static str, program: Program, settings: &Settings) -> Result<Self, LoadError> {
        let mut reader = Reader::of(format!("archive/{name}"), "clients", settings);
        let clients = reader.count("clients", 1, 1..=MAX_CLIENTS)?;
        let shape = Shape {
            files: reader.count("files", 5000, 1..=10_000_000)?,
            median: reader.bytes("median", 4 << 10, 1..=1 << 30)?,
            sigma_percent: reader.count("sigma_percent", 190, 0..=500)?,
            largest: reader.bytes("largest", 4 << 20, 1..=1 << 32)?,
            width: reader.count("width", 12, 2..=100_000)?,
        };
        let codec = Codec {
            is_on: reader.word("codec", &[("deflate", true), ("null", false)])?,
            deflate: reader.rate("deflate", DEFLATE)?,
            inflate: reader.rate("inflate", INFLATE)?,
        };
        let from = if program.unpacks() { reader.text("from") } else { None };
        let given = from.map(|path| given(&path, program).map_err(LoadError::Wrong)).transpose()?;
        Ok(Self { name, program, clients, shape, codec, given, values: reader.finish()? })
    }
}

/// zip -6 of a generated tree of 400 files, 8,827,362 bytes, takes 0.164 s of user time, and unzip of what came out 0.048 s (zip
/// 3.0, unzip 6.00, an AMD EPYC virtual machine at 2.6 GHz, median of five).
const DEFLATE: Rate = Rate(54_000_000);
const INFLATE: Rate = Rate(184_000_000);

/// Reads an archive of the host, whole.
fn given(path: &str, program: Program) -> Result<Given, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("from={path}: {error}"))?;
    let wrong = |error: &dyn Display| {
        format!("from={path}: {error}; this is no archive that {} unpacks", words(program))
    };
    let (unpacked, entries) = if program.is_zip() {
        count_zip(&bytes).map_err(|error| wrong(&error))?
    } else {
        count_tar(&bytes).map_err(|error| wrong(&error))?
    };
    Ok(Given { bytes: Arc::new(bytes), unpacked, entries })
}

fn words(program: Program) -> &'static str {
    if program.is_zip() { "unzip" } else { "tar (of a compressed one, give what is within)" }
}

fn count_zip(bytes: &[u8]) -> Result<(u64, u64), String> {
    let mut archive = ::zip::ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut sum = 0;
    for number in 0..archive.len() {
        let entry = archive.by_index(number).map_err(|error| error.to_string())?;
        super::zip::safe_path(&entry.name().map_err(|error| error.to_string())?)?;
        sum += entry.size().next_multiple_of(4096);
    }
    Ok((sum, archive.len() as u64))
}

fn count_tar(bytes: &[u8]) -> Result<(u64, u64), String> {
    let mut archive = ::tar::Archive::new(bytes);
    let (mut sum, mut count) = (0, 0);
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| format!("entry {}: {error}", count + 1))?;
        super::tar::safe_path(&entry.path_bytes())?;
        sum += entry.size().next_multiple_of(4096);
        let copied = std::io::copy(&mut entry.by_ref(), &mut std::io::sink());
        if copied.map_err(|error| error.to_string())? != entry.size() {
            return Err(format!("entry {} ends too early", count + 1));
        }
        count += 1;
    }
    Ok((sum, count))
}

impl Workload for Options {
    fn settings(&self) -> String {
        let given = self.given.as_ref().map(|given| crc32c::crc32c(&given.bytes));
        format!("archive/{} {:?} {given:?}", self.name, self.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.values.clone()
    }

    /// The tree and an archive that is as large.
    fn data_bytes(&self) -> u64 {
        let each = match &self.given {
            Some(given) => given.unpacked + given.bytes.len() as u64,
            None => self.shape.bytes().saturating_mul(2),
        };
        self.clients.saturating_mul(each)
    }

    fn small_files(&self) -> u64 {
        let each =
            self.given.as_ref().map_or(self.shape.files + self.shape.directories(), |given| given.entries);
        self.clients.saturating_mul(each)
    }

    fn tasks(&self) -> u64 {
        self.clients
    }

    fn ends(&self) -> bool {
        true
    }

    fn is_foreign(&self) -> bool {
        self.given.is_some()
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["files", "median", "largest", "clients"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Ok(Arc::new(Run::new(Arc::new(Load::new(self.clone())), how, processes)))
    }
}

/// The longest read or write of any of the programs.
pub(super) const BUFFER: Bytes = Bytes(64 << 10);
