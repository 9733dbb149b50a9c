//! What can go wrong in an experiment, each with place, reason and remedy.

use std::io;
use std::path::{Path, PathBuf};

use sim::{Bytes, MIB};

use document::Problem;

/// Why an experiment could not be set up, run or judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plan, preset or machine file is wrong.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// A name that nothing has.
    #[error("there is no {what} called \"{name}\"; {advice}")]
    Unknown {
        /// The kind of thing.
        what: &'static str,
        /// As given.
        name: String,
        /// The nearest names, or where to look.
        advice: String,
    },
    /// A setting that cannot be served.
    #[error("{0}")]
    Setting(String),
    /// This host cannot do it.
    #[error("{0}")]
    Host(String),
    /// Several things are wrong, a line each.
    #[error("{}", lines(.0))]
    Several(Vec<Error>),
    /// The operating system refused a file.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it answered.
        source: io::Error,
    },
    /// A cell failed while it ran.
    #[error("{cell}: {what}")]
    Cell {
        /// Which cell.
        cell: String,
        /// What went wrong.
        what: String,
    },
    /// An image is not what it should be after a run.
    #[error("{cell}: {what}")]
    Corrupt {
        /// Which cell.
        cell: String,
        /// What is wrong, and where the image is.
        what: String,
    },
}

/// More errors than this are not told one by one.
const MOST_TOLD: usize = 20;

fn lines(errors: &[Error]) -> String {
    let lines: Vec<String> = errors.iter().take(MOST_TOLD).map(Error::to_string).collect();
    let more = errors.len().saturating_sub(MOST_TOLD);
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    lines.join("\n") + &more
}

impl Error {
    /// Errors as one, each once; none of none.
    pub fn together(errors: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut each: Vec<Self> = Vec::new();
        for error in errors {
            let parts = if let Self::Several(parts) = error { parts } else { vec![error] };
            for part in parts {
                if !each.iter().any(|other| other.to_string() == part.to_string()) {
                    each.push(part);
                }
            }
        }
        if each.len() > 1 { Some(Self::Several(each)) } else { each.pop() }
    }
}

/// A file's text. `what` and `advice` are for a file that is not there.
pub fn read_to_string(path: &Path, what: &'static str, advice: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => {
            Error::Unknown { what, name: path.display().to_string(), advice: advice.to_owned() }
        }
        _ => Error::Io { action: "read", path: path.to_owned(), source },
    })
}

/// A size that is at least `needed`, as one writes it on a command line: `5MiB`.
pub fn rounded_up(needed: Bytes) -> String {
    format!("{}MiB", needed.0.div_ceil(MIB))
}
