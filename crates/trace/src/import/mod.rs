//! Traces of other programs as traces of Weir.
//!
//! | format | module | what it lacks |
//! |---|---|---|
//! | rings of a preloaded library | [`preload`] | what stays inside libc or is made without it; it says what |
//! | output of strace(1) | [`strace`] | the computing between calls, unless the caller knows the program's CPU time |
//! | load files of dbench | [`dbench`] | times |
//! | MobiGen's text of strace | [`mobigen`] | the opening of most descriptors |
//! | FIU's non-blocking writes | [`nbw`] | names, threads, descriptors, unlink |
//! | fio's iologs, version 2 and 3 | [`fio`] | threads; of version 2, times |
//!
//! iBench (Harter et al., SOSP 2011) and LASR are not among them: we have found no description of their lines, and none is guessed.

pub mod dbench;
mod emit;
pub mod fio;
pub mod mobigen;
pub mod nbw;
pub mod preload;
pub mod strace;

use std::io::{self, BufRead};

pub use emit::{Emitter, Sums};

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The host refused to read or write.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line is not of this format.
    #[error("{file}:{line}: {what}")]
    Line {
        /// Which file.
        file: String,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
}

/// Hands each line of a file, without its end, to `take`, which says what is wrong with it.
fn each_line(
    mut source: impl BufRead,
    file: &str,
    mut take: impl FnMut(&[u8], u64) -> Result<(), Wrong>,
) -> Result<(), ImportError> {
    let (mut text, mut line) = (Vec::new(), 0);
    loop {
        text.clear();
        if source.read_until(b'\n', &mut text)? == 0 {
            return Ok(());
        }
        line += 1;
        take(text.trim_ascii_end(), line).map_err(|wrong| match wrong {
            Wrong::Io(error) => ImportError::Io(error),
            Wrong::Text(what) => ImportError::Line { file: file.to_owned(), line, what },
        })?;
    }
}

/// What is wrong with a line, or why its record could not be written.
enum Wrong {
    Io(io::Error),
    Text(String),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self::Text(what)
    }
}

impl From<&str> for Wrong {
    fn from(what: &str) -> Self {
        Self::Text(what.to_owned())
    }
}
