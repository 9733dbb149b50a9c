//! What is below the roots before a program begins: names, kinds, sizes, modes, links. Never contents.
//!
//! A snapshot is taken before the program starts, because what the program does later would change it. By default a trace gets
//! those entries only that its calls touch ([`Snapshot::touch`]), each before the first such call: so a trace of a small program
//! in a large tree is small, and is as exact as a whole one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::record::{Entry, Kind};
use crate::remains::Before;
use crate::scope::{Scope, join, normal};

/// Entries that no record has named yet, by their path in the trace.
#[derive(Debug, Default)]
pub struct Snapshot {
    entries: BTreeMap<Box<[u8]>, Entry>,
    /// Directories whose entries have all been given.
    listed: FxHashSet<Box<[u8]>>,
    /// Directories that could not be read.
    unread: u64,
    before: Before,
}

impl Snapshot {
    /// Walks the roots. What disappears meanwhile, or may not be read, is left out and counted ([`Snapshot::unread`]).
    pub fn take(scope: &Scope) -> io::Result<Self> {
        let mut snapshot = Self::default();
        let mut groups = FxHashMap::default();
        for root in scope.roots() {
            let path = Path::new(OsStr::from_bytes(root));
            let about = fs::symlink_metadata(path)?;
            snapshot.add(scope, path, &about, &mut groups);
            snapshot.walk(scope, path, &mut groups);
        }
        Ok(snapshot)
    }

    fn walk(&mut self, scope: &Scope, directory: &Path, groups: &mut FxHashMap<(u64, u64), u64>) {
        let mut waiting = vec![directory.to_owned()];
        while let Some(directory) = waiting.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                self.unread += 1;
                continue;
            };
            for entry in entries.flatten() {
                let path = entry.path();
                let Ok(about) = entry.metadata() else { continue };
                self.add(scope, &path, &about, groups);
                if about.is_dir() {
                    waiting.push(path);
                }
            }
        }
    }

    fn add(&mut self, scope: &Scope, path: &Path, about: &Metadata, groups: &mut FxHashMap<(u64, u64), u64>) {
        let Some(name) = scope.inside(path.as_os_str().as_bytes()) else { return };
        let Some(kind) = Kind::of_mode(about.mode()) else { return };
        self.before.add(about);
        let next = groups.len() as u64 + 1;
        let is_shared = about.nlink() > 1 && kind != Kind::Directory;
        let group = if is_shared { *groups.entry((about.dev(), about.ino())).or_insert(next) } else { 0 };
        let target = (kind == Kind::Symlink).then(|| fs::read_link(path).unwrap_or_default());
        let target = target.map(|target| target.as_os_str().as_bytes().into());
        let size = if kind == Kind::File { about.size() } else { 0 };
        let entry = Entry { kind, mode: about.mode() & 0o7777, size, group, path: name.clone(), target };
        self.entries.insert(name, entry);
    }

    /// Directories that could not be read.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// The files as they are now, for a comparison at the end; it can be taken once.
    pub fn before(&mut self) -> Before {
        std::mem::take(&mut self.before)
    }

    /// Entries that are left.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A call is about to use a path: what is on it, directories first, and what links on it lead to.
    pub fn touch(&mut self, path: &[u8], give: &mut dyn FnMut(Entry) -> io::Result<()>) -> io::Result<()> {
        let plain = normal(&join(b"/", path));
        self.touch_following(&plain[1..], 0, give)
    }

    fn touch_following(
        &mut self,
        path: &[u8],
        links: u32,
        give: &mut dyn FnMut(Entry) -> io::Result<()>,
    ) -> io::Result<()> {
        const LINKS_MAX: u32 = 40;
        if self.entries.is_empty() || links > LINKS_MAX {
            return Ok(());
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            let Some(entry) = self.entries.remove(&path[..end]) else { continue };
            let target = entry.target.clone();
            give(entry)?;
            if let Some(target) = target {
                let directory = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
                let mut led = path[..directory].to_vec();
                led.extend_from_slice(&target);
                led.extend_from_slice(&path[end..]);
                let led = normal(&join(b"/", &led));
                self.touch_following(&led[1..], links + 1, give)?;
            }
        }
        Ok(())
    }

    /// A call is about to list a directory, or to move it with all that is below it.
    pub(crate) fn touch_all(
        &mut self,
        directory: &[u8],
        deep: bool,
        give: &mut dyn FnMut(Entry) -> io::Result<()>,
    ) -> io::Result<()> {
        self.touch(directory, give)?;
        let plain = normal(&join(b"/", directory));
        let directory = &plain[1..];
        if !deep && !self.listed.insert(directory.into()) {
            return Ok(());
        }
        let mut prefix = directory.to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        let below = self
            .entries
            .range::<[u8], _>((Bound::Included(&*prefix), Bound::Unbounded))
            .map(|(path, _)| path);
        let below = below.take_while(|path| path.starts_with(&prefix));
        let names: Vec<Box<[u8]>> =
            below.filter(|path| deep || !path[prefix.len()..].contains(&b'/')).cloned().collect();
        for name in names {
            // A parent stands before what is in it: names are sorted.
            if let Some(entry) = self.entries.remove(&name) {
                give(entry)?;
            }
        }
        Ok(())
    }

    /// All that is left, directories first.
    pub fn rest(&mut self, give: &mut dyn FnMut(Entry) -> io::Result<()>) -> io::Result<()> {
        std::mem::take(&mut self.entries).into_values().try_for_each(give)
    }
}
