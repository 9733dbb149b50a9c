//! DBENCH: what the program dbench 4 does of a load file, call for call.
//!
//! A load file holds what a client of a file server asked for, an operation a line; `fileio`, the back end of dbench, makes of each
//! the calls that a server would make. Debian's package has one of 458,344 lines, made of a run of NetBench. It is not a part of
//! Weir, and is found where the package puts it.
//!
//! | module | holds |
//! |---|---|
//! | `load` | load files: their lines, checked |
//! | `client` | a client: the calls of a line |

mod client;
mod load;

use std::sync::Arc;

use sim::Bytes;
use vfs::Syscalls;

use super::control::{Failure, Kind};
use super::run::{self, Place, Plan, Run};
use super::variables::{MAX_CLIENTS, Reader, Values};
use crate::suite::{How, Job, JobError, LoadError, Processes, Settings, Workload};
use load::{KINDS, Load};

pub(super) const DETAIL: &str = "\
Each client reads a load file of dbench 4 line by line and makes the calls that dbench makes: names are looked up with a search for
other spellings where they are missing, sizes and times are asked for, files are read, written, locked, synced, renamed, removed.
Client K works below clients/clientK. A client that has done all lines begins again; what the file left open is closed first.

  load      the file; without it that of the Debian package dbench, /usr/share/dbench/client.txt
  clients   how many there are (--threads)
  passes    how often each does the file, whatever time is left; 0: until the time is over

An operation is a line. Throughput as dbench has it is the sum of bytes that were read and written. A line whose call ends in
another way than the file says ends the run where dbench ends; where dbench goes on it is counted (dbench.unexpected).
";

/// The file of Debian's package, and where a build from source puts it.
const PLACES: [&str; 4] = [
    "/usr/share/dbench/client.txt",
    "/usr/share/client.txt",
    "/usr/local/share/dbench/client.txt",
    "/usr/local/share/client.txt",
];

/// A load file with variables.
#[derive(Debug)]
struct Dbench {
    load: Arc<Load>,
    clients: u64,
    /// 0: until the time is over.
    passes: u64,
    values: Values,
}

pub(super) fn load(settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let mut reader = Reader::new("dbench", "clients", settings);
    let file = reader.text("load");
    let clients = reader.count("clients", 1, 1..=MAX_CLIENTS)?;
    let passes = reader.count("passes", 0, 0..=1_000_000)?;
    let values = reader.finish()?;
    let place = match file {
        Some(file) => file,
        None => PLACES
            .iter()
            .find(|place| std::path::Path::new(place).is_file())
            .map_or_else(missing, |place| Ok((*place).to_owned()))?,
    };
    let load = Load::open(place.as_ref()).map_err(LoadError::Wrong)?;
    Ok(Arc::new(Arcs(Arc::new(Dbench { load, clients, passes, values }))))
}

fn missing() -> Result<String, LoadError> {
    Err(LoadError::Host(format!(
        "app/dbench: there is no load file: install the Debian package dbench, which has {}, or name a file (-D load=FILE; \
         in a plan: vars)",
        PLACES[0]
    )))
}

/// The workload, which its runs share.
#[derive(Debug)]
struct Arcs(Arc<Dbench>);

impl Workload for Arcs {
    fn settings(&self) -> String {
        format!("app/dbench {} clients {} passes {}", self.0.load.digest, self.0.clients, self.0.passes)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let mut values = self.0.values.clone();
        if let Some((_, file)) = values.iter_mut().find(|(name, _)| name == "load") {
            file.clone_from(&self.0.load.file);
        }
        values
    }

    fn data_bytes(&self) -> u64 {
        self.0.load.most_bytes.saturating_mul(self.0.clients)
    }

    fn small_files(&self) -> u64 {
        (self.0.load.paths.len() as u64).saturating_mul(self.0.clients)
    }

    fn tasks(&self) -> u64 {
        self.0.clients
    }

    fn ends(&self) -> bool {
        self.0.passes > 0
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["clients"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Ok(Arc::new(Run::new(Arc::clone(&self.0), how, processes)))
    }
}

impl Plan for Dbench {
    fn name(&self) -> &'static str {
        "dbench"
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.clients
    }

    fn buffer(&self) -> Bytes {
        Bytes(self.load.longest as u64)
    }

    /// The file makes its own tree.
    fn prepare(&self, _how: &How, _calls: &dyn Syscalls) -> Result<(), Failure> {
        Ok(())
    }

    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        Box::new(client::Client::new(&self.load, client, self.passes, place.processes.start()))
    }
}
