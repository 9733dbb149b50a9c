//! Archives: tar, untar, zip and unzip of a tree of files, in the real formats.
//!
//! The bytes of headers are those of the crates `tar` and `zip`; the calls around them are the ones that GNU tar 1.34, Info-ZIP zip
//! 3.0 and unzip 6.00 make (`strace`).
//!
//! | module | holds |
//! |---|---|
//! | `options` | variables with their checks, the tree or the archive that a run begins with |
//! | `tree` | a generated tree: sizes, names, contents |
//! | `stream` | files as programs read and write them: in records, in blocks, through a buffer |
//! | `tar`, `zip` | the programs |
//! | `run` | the programs as a workload |

mod options;
mod run;
mod stream;
mod tar;
mod tree;
mod zip;

use std::sync::Arc;

use sim::Nanos;

use crate::suite::{Entry, LoadError, Settings, Suite, Switch, Workload};
use options::{Options, Program};

/// The suite.
#[derive(Clone, Copy, Debug)]
pub struct Archive;

const DETAIL: &str = "\
A tree of files is packed into an archive, or unpacked from one, by the calls of GNU tar or Info-ZIP. Nothing is synced.

  clients  how many programs work at once, each on a tree of its own (--threads)
  files    of a tree; their sizes are lognormal
  median   of the sizes
  sigma_percent
           of the logarithm of the sizes, in hundredths
  largest  size of a file; larger ones are as large
  width    entries of a directory, mean; a tree is eight levels deep at most
  codec    deflate, or null: zip stores files, and nothing is computed
  deflate, inflate
           bytes that zip and unzip compress or inflate a second, of what is unpacked; under the virtual clock only
  from     untar, unzip: an archive of this host in the place of the generated one

An operation is a file or a directory. 60 % of the files hold text, 30 % records that resemble each other, 10 % random bytes.
";

const WORKLOADS: &[(Entry, Program)] = &[
    (Entry { name: "tar", summary: "GNU tar packs a tree of files" }, Program::Tar),
    (Entry { name: "untar", summary: "GNU tar unpacks an archive" }, Program::Untar),
    (Entry { name: "zip", summary: "Info-ZIP's zip packs a tree of files" }, Program::Zip),
    (Entry { name: "unzip", summary: "Info-ZIP's unzip unpacks an archive" }, Program::Unzip),
];

impl Suite for Archive {
    fn name(&self) -> &'static str {
        "archive"
    }

    fn summary(&self) -> &'static str {
        "tar, untar, zip and unzip of a tree of files"
    }

    fn entries(&self) -> Vec<Entry> {
        WORKLOADS.iter().map(|(entry, _)| *entry).collect()
    }

    fn usual(&self) -> Vec<Entry> {
        self.entries()
    }

    fn usual_time(&self, _modelled: bool) -> Nanos {
        Nanos::MAX
    }

    fn file_counts(&self) -> &'static [&'static str] {
        &["files"]
    }

    fn switches(&self) -> &'static [Switch] {
        &[]
    }

    fn load(&self, name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        let found = WORKLOADS.iter().find(|(entry, _)| entry.name == name);
        let (entry, program) = found.ok_or_else(|| LoadError::Unknown(name.to_owned()))?;
        Ok(Arc::new(Options::read(entry.name, *program, settings)?))
    }

    fn describe(&self, name: &str) -> Option<String> {
        WORKLOADS.iter().any(|(entry, _)| entry.name == name).then(|| DETAIL.to_owned())
    }
}
