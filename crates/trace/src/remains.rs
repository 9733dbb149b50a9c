//! What the files below the roots are when a recording ends, beside what the trace says of them.
//!
//! Whatever a recorder cannot see, a file that has been written shows it: in its size, in the time of its last change, by being
//! there at all. A recorder looks at the files before the program begins and compares when it has ended ([`missing`]); what the
//! trace does not explain is a loss, whatever the cause: a call that no recorder knows, a mapping, another program.
//!
//! | the trace says of a file | it is lost if |
//! |---|---|
//! | it has made or changed it | it is not there, or its size is another |
//! | it has named it and not changed it | its size or the time of its last change is not that of before |
//! | nothing | likewise, or it was not there before; then another program may have written it |
//!
//! The last two need a walk of the roots before ([`Before`]). Changes within one tick of the file system's clock (a few
//! milliseconds) after the program has begun, which leave the size, are not noticed.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::reader::Reader;
use crate::record::{Kind, Loss};
use crate::scope::Scope;
use crate::state::{Effect, State};

/// The name under which the account has files that no call explains.
const NAME: &str = "write";
const SIZE: &str = "files have other sizes at the end than those to which the recorded calls lead";
const GONE: &str = "files that recorded calls have made or changed are not there at the end";
const CHANGED: &str = "files that recorded calls name have changed without a recorded call";
const UNNAMED: &str =
    "files that no recorded call names have come or changed: the program or another one has written them";

/// A file as it was: size and time of the last change.
type Was = (u64, i64, i64);

fn was(about: &Metadata) -> Was {
    (about.size(), about.mtime(), about.mtime_nsec())
}

/// The files below the roots before a program begins, by device and inode.
#[derive(Debug, Default)]
pub struct Before {
    files: FxHashMap<(u64, u64), Was>,
}

impl Before {
    pub(crate) fn add(&mut self, about: &Metadata) {
        if about.is_file() {
            self.files.insert((about.dev(), about.ino()), was(about));
        }
    }
}

/// What the records of a trace, of which the end may be missing, do not explain of the files as they are now. Without `before` only
/// files that the records have made or changed are looked at. `is_own` says whether a path is the recorder's.
pub fn missing(
    mut reader: Reader,
    scope: &Scope,
    before: Option<&Before>,
    is_own: &dyn Fn(&Path) -> bool,
) -> Result<Vec<Loss>> {
    let (mut state, mut effect) = (State::new(), Effect::default());
    while let Some(record) = reader.next()? {
        // A call on a descriptor that no record has opened changes nothing that is known.
        let _ = state.apply(&record, &mut effect);
    }
    let mut found = Found::default();
    found.known(&mut state, scope);
    if let Some(before) = before {
        found.walk(&mut state, scope, before, is_own);
    }
    Ok(found.losses())
}

/// Files that the records do not explain.
#[derive(Debug, Default)]
struct Found {
    sizes: u64,
    gone: u64,
    changed: u64,
    unnamed: u64,
}

impl Found {
    /// Files that the records have made or changed.
    fn known(&mut self, state: &mut State, scope: &Scope) {
        for (name, size) in state.changed_files() {
            let path = [scope.base(), b"/", &name].concat();
            match fs::symlink_metadata(OsStr::from_bytes(&path)) {
                Ok(about) if about.is_file() => self.sizes += u64::from(about.size() != size),
                Ok(_) => self.gone += 1,
                Err(error) => self.gone += u64::from(error.kind() == ErrorKind::NotFound),
            }
        }
    }

    /// Files that they have not changed.
    fn walk(&mut self, state: &mut State, scope: &Scope, before: &Before, is_own: &dyn Fn(&Path) -> bool) {
        let mut waiting: Vec<PathBuf> = scope.roots().map(|root| OsStr::from_bytes(root).into()).collect();
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let (path, Ok(about)) = (entry.path(), entry.metadata()) else { continue };
                if is_own(&path) {
                    continue;
                }
                if about.is_dir() {
                    waiting.push(path);
                } else if about.is_file() {
                    let was = before.files.get(&(about.dev(), about.ino()));
                    self.unchanged(state, scope.inside(path.as_os_str().as_bytes()), &about, was);
                }
            }
        }
    }

    fn unchanged(
        &mut self,
        state: &mut State,
        name: Option<Box<[u8]>>,
        about: &Metadata,
        before: Option<&Was>,
    ) {
        let node = name.and_then(|name| state.node_at(&name)).map(|node| state.tree.node(node));
        match node.filter(|node| node.kind == Kind::File) {
            Some(node) if node.changed => {}
            // Times that the program has set, or that a mapping has moved, say nothing.
            Some(node) if node.restamped => {
                self.changed += u64::from(before.is_some_and(|before| before.0 != about.size()));
            }
            Some(_) => self.changed += u64::from(before != Some(&was(about))),
            None => self.unnamed += u64::from(before != Some(&was(about))),
        }
    }

    fn losses(&self) -> Vec<Loss> {
        let calls = [(self.sizes, SIZE), (self.gone, GONE), (self.changed, CHANGED)];
        let calls = calls.map(|(files, why)| Loss::calls(files, NAME, why));
        let all = calls.into_iter().chain([Loss::bytes(self.unnamed, NAME, UNNAMED)]);
        all.filter(|loss| loss.count > 0).collect()
    }
}
