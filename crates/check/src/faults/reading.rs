//! Poisoned lines under programs that only read.
//!
//! The image has objects of every kind. Each line that reading it touches is poisoned in turn. An object may answer `EIO` only if
//! reaching or reading it loads that line; every other object must read as before. File data that is not read as a block is read
//! line by line, so that `EIO` is confined to the poisoned line. What is read without an error is as it was: contents, the names of
//! a directory, extended attributes. Writing the whole line heals it, and then everything reads as before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use media::event::Tap;
use media::fault::Fault;
use media::nvmm::Region;
use sim::LINE_BYTES;
use vfs::{Errno, FileKind, FileSystem, Ino, IoFlags, LeftOut, XattrMode};

use super::operations::LinesRead;
use super::{Failure, Kind, Outcome, Tally, violation};
use crate::configured::{self, fsck, try_virtually, unmount};
use crate::crash::record::agree;
use crate::crash::{Subject, programs};
use crate::model::Model;
use crate::names;
use crate::observe::observe;
use crate::op::{Op, Pattern, Runner, find, split};
use crate::tree::{Entry, Tree, difference};

/// Bytes of file data that are read at a time where no line fails.
const BLOCK_BYTES: usize = 4096;

/// The name under which violations are reported.
const NAME: &str = "reading poisoned lines";

/// Poisons every line that reading a tree leads over, one after the other.
pub fn poison_reading(subject: &Subject, seed: u64) -> Tally {
    let owned = subject.clone();
    let tally = try_virtually(seed, move || {
        let mut tally = Tally { programs: 1, ..Tally::default() };
        match Reading::new(&owned) {
            Ok(reading) => reading.poison_all(&mut tally),
            Err(what) => tally.violations.push(violation(NAME, what)),
        }
        tally
    });
    tally.unwrap_or_else(|what| Tally { violations: vec![violation(NAME, what)], ..Tally::default() })
}

struct Reading<'a> {
    subject: &'a Subject,
    region: Arc<Region>,
    tree: Tree,
    /// By path: the lines over which reading it leads when nothing was read before.
    lines: BTreeMap<String, BTreeSet<u64>>,
}

impl<'a> Reading<'a> {
    fn new(subject: &'a Subject) -> Result<Self, String> {
        let region = configured::region(subject.size);
        subject.design.mkfs(&region).map_err(|error| format!("mkfs: {error}"))?;
        let mut reading = Self { subject, region, tree: Tree::new(), lines: BTreeMap::new() };
        let mut runner = Runner::new(reading.mount()?);
        let mut model = Model::of(&*runner.fs, subject.promises)?;
        let attribute = |path: &str, len| {
            let value = Pattern { len, tag: 7 };
            Op::SetXattr(path.to_owned(), "user.a".to_owned(), value, XattrMode::Set)
        };
        let attributes = [attribute("A/foo", 100), attribute("B", 300)];
        // Without holes the space between is two megabytes of data, each line of which would be tried.
        let fills = |op: &Op| matches!(op, Op::Write(_, Some(at), _) if *at > 1 << 20);
        let leaves_out = |op: &Op| subject.promises.left_out.contains(LeftOut::HOLES) && fills(op);
        let ops = programs::bit_of_everything().into_iter().chain(attributes);
        for op in ops.filter(|op| !leaves_out(op)) {
            let done = agree(&mut runner, &mut model, &op)?;
            done.ok_or_else(|| format!("there is no space for {op:?}"))?;
        }
        unmount(&*runner.fs)?;
        reading.tree = model.tree();
        for (path, entry) in reading.tree.clone() {
            let fs = reading.mount()?;
            let lines = Arc::new(LinesRead::default());
            reading.region.attach(Arc::clone(&lines) as Arc<dyn Tap>);
            read_object(&*fs, &path, (&entry, &reading.tree), &mut Vec::new())?;
            reading.region.detach(&lines);
            unmount(&*fs)?;
            reading.lines.insert(path, lines.take().all);
        }
        Ok(reading)
    }

    fn mount(&self) -> Result<Arc<dyn FileSystem>, String> {
        self.subject.design.mount(&self.region).map_err(|error| format!("mount: {error}"))
    }

    fn poison_all(&self, tally: &mut Tally) {
        let all: BTreeSet<u64> = self.lines.values().flatten().copied().collect();
        for at in all {
            tally.note(NAME, Failure { kind: Kind::Poison, at }, self.poison(at));
        }
    }

    fn poison(&self, line: u64) -> Result<Outcome, String> {
        let fs = self.mount()?;
        self.region.inject(Fault::Poison { offset: line });
        let mut healed = false;
        for (path, entry) in &self.tree {
            let mut refused = Vec::new();
            read_object(&*fs, path, (entry, &self.tree), &mut refused)?;
            if !refused.is_empty() && !self.lines[path].contains(&line) {
                return Err(format!("\"{path}\" cannot be read, but does not lead over the line"));
            }
            // One piece alone: the line is the file's data, not what leads there.
            if let [Some(at)] = refused[..] {
                heal(&*fs, path, entry, at)?;
                healed = true;
            }
        }
        self.region.clear_faults();
        let seen = observe(&*fs)?;
        difference(&seen, &self.tree).map_or(Ok(()), Err)?;
        unmount(&*fs)?;
        fsck(&self.subject.design, &self.region)?;
        Ok(if healed { Outcome::Absorbed } else { Outcome::Undone })
    }
}

/// Reads an object and returns an error when it differs from what is expected. Adds each `EIO` to `refused`; for data with the
/// place of the piece.
fn read_object(
    fs: &dyn FileSystem,
    path: &str,
    (entry, tree): (&Entry, &Tree),
    refused: &mut Vec<Option<u64>>,
) -> Result<(), String> {
    let mut not = |what: &str, at: Option<u64>, errno: Errno| match errno {
        Errno::EIO => {
            refused.push(at);
            Ok(())
        }
        errno => Err(format!("\"{path}\": {what} answers {}", errno.name())),
    };
    let found = find(fs, path).and_then(|ino| fs.getattr(ino));
    let attr = match found {
        Ok(attr) => attr,
        Err(errno) => return not("lookup", None, errno),
    };
    for (name, value) in &entry.xattrs {
        match fs.getxattr(attr.ino, name.as_bytes()) {
            Ok(found) if found == *value => {}
            Ok(_) => return Err(format!("\"{path}\": another value of {name}")),
            Err(errno) => not("getxattr", None, errno)?,
        }
    }
    match entry.kind {
        FileKind::Directory => match names_in(fs, attr.ino) {
            Ok(names) => same_names(path, &names, tree),
            Err(errno) => not("readdir", None, errno),
        },
        FileKind::Symlink => match fs.readlink(attr.ino) {
            Ok(target) if target == *entry.content => Ok(()),
            Ok(_) => Err(format!("\"{path}\" leads elsewhere")),
            Err(errno) => not("readlink", None, errno),
        },
        FileKind::Regular if attr.size != entry.content.len() as u64 => {
            Err(format!("\"{path}\" has {} bytes", attr.size))
        }
        FileKind::Regular => {
            for (at, block) in (0u64..).step_by(BLOCK_BYTES).zip(entry.content.chunks(BLOCK_BYTES)) {
                let others = |at| Err(format!("\"{path}\": other bytes at {at}"));
                match reads(fs, attr.ino, at, block) {
                    Ok(None) => return others(at),
                    Ok(Some(read)) if read == block.len() => continue,
                    // It ends before a line that fails, or there is one: which?
                    Ok(Some(_)) | Err(_) => {}
                }
                for (at, line) in (at..).step_by(LINE_BYTES).zip(block.chunks(LINE_BYTES)) {
                    match reads(fs, attr.ino, at, line) {
                        Ok(Some(read)) if read == line.len() => {}
                        Ok(_) => return others(at),
                        Err(errno) => not("read", Some(at), errno)?,
                    }
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Reads a piece of at most a block; returns how many bytes it gave, none if they are others.
fn reads(fs: &dyn FileSystem, ino: Ino, at: u64, piece: &[u8]) -> Result<Option<usize>, Errno> {
    let mut bytes = [0xEE; BLOCK_BYTES];
    let read = fs.read(ino, at, &mut bytes[..piece.len()], IoFlags::empty())?;
    Ok((bytes[..read] == piece[..read]).then_some(read))
}

/// The names that a directory lists.
fn names_in(fs: &dyn FileSystem, dir: Ino) -> Result<BTreeSet<String>, Errno> {
    let mut names = BTreeSet::new();
    fs.readdir(dir, 0, &mut |entry| {
        names.insert(names::shown(entry.name));
        true
    })?;
    Ok(names)
}

/// Returns an error when a directory lists other names than it has in the tree.
fn same_names(path: &str, listed: &BTreeSet<String>, tree: &Tree) -> Result<(), String> {
    let below = tree.keys().filter(|other| !other.is_empty()).map(|other| split(other));
    let names = below.filter(|(dir, _)| *dir == path).map(|(_, name)| name.to_owned());
    let expected: BTreeSet<String> = names.chain([".".to_owned(), "..".to_owned()]).collect();
    let other = expected.symmetric_difference(listed).next();
    other.map_or(Ok(()), |name| {
        let word = if expected.contains(name) { "does not list" } else { "lists" };
        Err(format!("\"{path}\" {word} \"{name}\""))
    })
}

/// Writes the whole line at `at` of a file, unless the file ends within it, and reads it again: it must be well.
fn heal(fs: &dyn FileSystem, path: &str, entry: &Entry, at: u64) -> Result<(), String> {
    let Some(whole) = entry.content.get(at as usize..at as usize + LINE_BYTES) else { return Ok(()) };
    let healed = find(fs, path).and_then(|ino| {
        fs.write(ino, at, whole, IoFlags::SYNC)?;
        let mut bytes = [0; LINE_BYTES];
        fs.read(ino, at, &mut bytes, IoFlags::empty()).map(|_| bytes)
    });
    match healed {
        Ok(bytes) if bytes[..] == *whole => Ok(()),
        Ok(_) => Err(format!("\"{path}\" shows other bytes after its line was written")),
        Err(errno) => Err(format!("\"{path}\" is not healed by writing the line: {}", errno.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_leaves_a_name_out_is_noticed() {
        let mut model = Model::new(0o755, (0, 0));
        for path in ["A", "A/x", "B"] {
            model.run(&Op::Mkdir(path.to_owned()), None).expect("there is no such name");
        }
        let (tree, listed) =
            (model.tree(), |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(same_names("", &listed(&[".", "..", "A", "B"]), &tree), Ok(()));
        assert_eq!(same_names("A", &listed(&[".", "..", "x"]), &tree), Ok(()));
        assert_eq!(
            same_names("", &listed(&[".", "..", "B"]), &tree),
            Err("\"\" does not list \"A\"".to_owned())
        );
        assert_eq!(same_names("B", &listed(&[".", "..", "x"]), &tree), Err("\"B\" lists \"x\"".to_owned()));
    }
}
