//! Result files on disk: read with errors that say what to do, written whole or not at all.
//!
//! Writing goes to a temporary file beside the target, which is synced and then renamed over it, so a reader
//! or a power cut sees the old file or the new one.

use crate::claim::ClaimsFile;
use crate::record::{RESULT_SCHEMA, RESULTS_SCHEMA, ResultFile, ResultsFile};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it answered.
        source: io::Error,
    },
    /// The text is not JSON at all.
    #[error("{path}:{line}:{column}: not a Weir file: {what}. Give the JSON file that a run wrote")]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Line of the error, from 1.
        line: usize,
        /// Column of the error, from 1.
        column: usize,
        /// What the parser met.
        what: String,
    },
    /// It is JSON, but of another schema.
    #[error("{path}: schema is {found}, but this Weir reads \"{wanted}\". {advice}")]
    Schema {
        /// The file.
        path: PathBuf,
        /// The schema that it states.
        found: String,
        /// The schema that was expected.
        wanted: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// It claims the right schema and breaks it.
    #[error("{path}:{line}:{column}: breaks the schema \"{wanted}\": {what}. The file was edited or damaged")]
    Broken {
        /// The file.
        path: PathBuf,
        /// Line of the error, from 1.
        line: usize,
        /// Column of the error, from 1.
        column: usize,
        /// The schema that it breaks.
        wanted: &'static str,
        /// How.
        what: String,
    },
}

impl ResultFile {
    /// Reads a result.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileError> {
        read(path.as_ref(), RESULT_SCHEMA)
    }

    /// Reads the result of a file that holds one, or all of a file that holds several, in its order.
    pub fn read_all(path: impl AsRef<Path>) -> Result<Vec<Self>, FileError> {
        let path = path.as_ref();
        let text = fs::read(path).map_err(|source| io_error("read", path, source))?;
        Self::parse_all(path, &text)
    }

    /// The same from the text of a file, which messages call `path`.
    pub fn parse_all(path: &Path, text: &[u8]) -> Result<Vec<Self>, FileError> {
        let schema = schema_of(path, text)?;
        if schema.as_ref().is_some_and(|schema| schema == RESULTS_SCHEMA) {
            return Ok(parse::<ResultsFile>(path, text, RESULTS_SCHEMA)?.results);
        }
        check_schema(path, schema.as_ref(), RESULT_SCHEMA)?;
        Ok(vec![parse(path, text, RESULT_SCHEMA)?])
    }

    /// Writes it whole or not at all.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        write_atomic(path.as_ref(), to_json(self))
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

impl<R: Serialize> ResultsFile<R> {
    /// The text of the document.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

impl ClaimsFile {
    /// Writes it whole or not at all.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        write_atomic(path.as_ref(), to_json(self))
    }

    /// The text of the document.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

fn to_json(document: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("our documents have string keys only");
    text.push('\n');
    text
}

/// The one key that tells what a file is.
#[derive(Deserialize)]
struct Probe {
    schema: Option<serde_json::Value>,
}

fn read<T: DeserializeOwned>(path: &Path, wanted: &'static str) -> Result<T, FileError> {
    let text = fs::read(path).map_err(|source| io_error("read", path, source))?;
    check_schema(path, schema_of(path, &text)?.as_ref(), wanted)?;
    parse(path, &text, wanted)
}

fn schema_of(path: &Path, text: &[u8]) -> Result<Option<serde_json::Value>, FileError> {
    let probe: Probe = serde_json::from_slice(text).map_err(|error| not_json(path, &error))?;
    Ok(probe.schema)
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8], wanted: &'static str) -> Result<T, FileError> {
    serde_json::from_slice(text).map_err(|error| broken(path, wanted, &error))
}

fn check_schema(
    path: &Path,
    found: Option<&serde_json::Value>,
    wanted: &'static str,
) -> Result<(), FileError> {
    if found.is_some_and(|schema| schema == wanted) {
        return Ok(());
    }
    let family = wanted.split('/').next().unwrap_or(wanted);
    let same_family = found.and_then(|s| s.as_str()).is_some_and(|s| s.split('/').next() == Some(family));
    let several = found.is_some_and(|schema| schema == RESULTS_SCHEMA);
    let advice = if several && wanted == RESULT_SCHEMA {
        "It holds several results: give the file of one of them"
    } else if same_family {
        "It comes from another version of Weir: read it with that version, or run the plan again"
    } else if wanted == RESULT_SCHEMA {
        "Give the result.json of a run"
    } else {
        "Give the output of `weir reproduce --json`"
    };
    let found = found.map_or_else(|| "missing".to_owned(), ToString::to_string);
    Err(FileError::Schema { path: path.to_owned(), found, wanted, advice })
}

fn not_json(path: &Path, error: &serde_json::Error) -> FileError {
    FileError::NotJson {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        what: message(error),
    }
}

fn broken(path: &Path, wanted: &'static str, error: &serde_json::Error) -> FileError {
    FileError::Broken {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        wanted,
        what: message(error),
    }
}

/// The parser's message without the position, which our own messages put in front.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// Writes a text or bytes to `path` so that a reader sees the old file or the new one, never a part.
pub fn write_atomic(path: &Path, text: impl AsRef<[u8]>) -> Result<(), FileError> {
    let written = replace(path, |file| file.write_all(text.as_ref()));
    written.map_err(|source| io_error("write", path, source))
}

/// Puts a file in the place of `path` once `fill` has written all of it: a process that is killed before
/// leaves the old one.
pub fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let temporary = temporary_beside(path);
    let written = File::create(&temporary).and_then(|mut file| {
        fill(&mut file)?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&temporary, path));
    replaced.inspect_err(|_| drop(fs::remove_file(&temporary)))
}

fn temporary_beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> FileError {
    FileError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    fn error_of(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        fs::write(&path, text).unwrap();
        ResultFile::read(&path).unwrap_err().to_string()
    }

    #[test]
    fn a_result_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        let file = ResultFile::new("p", serde_json::json!({"seed": 7}), 7, Clock::Virtual);
        file.write(&path).unwrap();
        assert_eq!(ResultFile::read(&path).unwrap(), file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn one_result_and_several_are_read_alike_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        let file = |name| ResultFile::new(name, serde_json::Value::Null, 7, Clock::Virtual);
        file("z").write(&path).unwrap();
        assert_eq!(ResultFile::read_all(&path).unwrap(), [file("z")]);
        write_atomic(&path, ResultsFile::new(vec![&file("z"), &file("a")]).to_json()).unwrap();
        assert_eq!(ResultFile::read_all(&path).unwrap(), [file("z"), file("a")]);
        let error = ResultFile::read(&path).unwrap_err().to_string();
        assert!(error.contains("several results"), "{error}");
        fs::write(&path, r#"{"schema":"weir.results/1"}"#).unwrap();
        let error = ResultFile::read_all(&path).unwrap_err().to_string();
        assert!(error.contains("missing field `results`"), "{error}");
    }

    #[test]
    fn text_that_is_not_json_is_named_with_its_place() {
        let error = error_of("{\n  \"schema\": oops");
        assert!(error.contains("result.json:2:") && error.contains("not a Weir file"), "{error}");
    }

    #[test]
    fn another_version_is_told_apart_from_another_document() {
        let newer = error_of(r#"{"schema":"weir.result/9"}"#);
        assert!(newer.contains("\"weir.result/9\"") && newer.contains("another version"), "{newer}");
        let other = error_of(r#"{"schema":"weir.claims/1"}"#);
        assert!(other.contains("Give the result.json"), "{other}");
        assert!(error_of("{}").contains("schema is missing"));
    }

    #[test]
    fn a_broken_record_names_the_missing_key() {
        let error = error_of(r#"{"schema":"weir.result/1"}"#);
        assert!(error.contains("missing field `name`"), "{error}");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_rubbish() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("taken");
        fs::create_dir_all(target.join("inside")).unwrap();
        assert!(write_atomic(&target, "new").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
