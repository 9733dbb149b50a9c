//! The program on a design of Weir: its deeds are replayed with their contents on a region with a recorder, images of each crash
//! point are mounted, and their trees are judged as those of models are.
//!
//! Before the program is blamed, the design is: where it promises that every call is durable when it returns, a recovered tree must
//! be that before or after the call under way. Otherwise the fault is the design's.
//!
//! Images are gathered in a run under the virtual clock, and judged after it: such a run cannot wait for a process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use media::event::{Event, Mark, Promise as Durable};
use media::nvmm::null::Null;
use media::recorder::{Plan, Point, Scratch, Trace};
use rustc_hash::FxHashMap;
use sim::{Bytes, Seed};
use trace::record::Kind;
use vfs::{
    Atomicity, Durability, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags,
    Owner, RenameFlags, Renaming, SetAttr, XattrMode,
};

use super::alike::{Promise, bucket};
use super::checker::Verdict;
use super::folder::FolderError;
use super::judge::Oracle;
use super::story::{Attr, Deed, Entry, Inode, OUTSIDE, ROOT, Slice, Story, What};
use crate::configured::{self, try_virtually, unmount, usual_size};
use crate::crash::Subject;
use crate::crash::record::{IDLE, fill_free_blocks};
use crate::observe::observe;
use crate::tree::{Tree, fingerprint, without_times};

/// Images of a crash point, at most: all where there are so few.
const IMAGES: usize = 64;
const OWNER: Owner = Owner { uid: 0, gid: 0 };

/// A tree that a crash has left on a design.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// What can be seen.
    pub tree: Tree,
    /// Calls that had returned.
    pub done: usize,
    /// The next one was under way.
    pub inside: bool,
    /// Acknowledgements that had begun.
    pub acks: usize,
}

/// What a design has left.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Distinct trees, in the order of their crash points.
    pub trees: Vec<Recovered>,
    /// Crash points.
    pub points: usize,
    /// Images that were mounted.
    pub images: usize,
    /// Bugs of the design.
    pub bugs: Vec<String>,
    /// It was ended by the number of trees.
    pub cut: bool,
}

/// Something that is broken on a design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDesign {
    /// The design.
    pub design: String,
    /// What is broken.
    pub promise: Promise,
    /// What the judge says.
    pub message: String,
    /// When the crash came: `inside write log 0..64`.
    pub moment: String,
    /// Trees that are broken so.
    pub trees: usize,
    /// Acknowledgements that had begun.
    pub acks: usize,
}

/// Judges what was gathered on a design: what is broken, and faults of the checker.
pub fn judge(
    story: &Story,
    design: &str,
    gathered: &Gathered,
    oracle: &dyn Oracle,
    jobs: usize,
) -> Result<(Vec<OnDesign>, Vec<String>), FolderError> {
    let next = AtomicUsize::new(0);
    let work = |worker: usize| -> Result<Vec<(usize, Verdict)>, FolderError> {
        let mut done = Vec::new();
        while let Some((at, one)) =
            Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, gathered.trees.get(at)?)))
        {
            done.push((at, oracle.judge_seen(&one.tree, one.acks, worker)?));
        }
        Ok(done)
    };
    let parts: Vec<Result<Vec<(usize, Verdict)>, FolderError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|worker| scope.spawn(move || work(worker))).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut verdicts = BTreeMap::new();
    for part in parts {
        verdicts.extend(part?);
    }
    let (mut found, mut faults): (BTreeMap<String, OnDesign>, Vec<String>) = (BTreeMap::new(), Vec::new());
    for (at, verdict) in verdicts {
        let one = &gathered.trees[at];
        let message = match verdict {
            Verdict::Sound | Verdict::Nothing => continue,
            Verdict::Fault(what) => {
                faults.push(what);
                continue;
            }
            Verdict::Broken(message) => message,
        };
        if let Some(known) = found.get_mut(&bucket(&message)) {
            known.trees += 1;
            continue;
        }
        let untold = matches!(oracle.judge_seen(&one.tree, 0, 0)?, Verdict::Broken(_));
        let promise = if untold { Promise::Atomicity } else { Promise::Durability };
        let (design, moment) = (design.to_owned(), moment(story, one));
        let new = OnDesign { design, promise, message: message.clone(), moment, trees: 1, acks: one.acks };
        found.insert(bucket(&message), new);
    }
    Ok((found.into_values().collect(), faults))
}

fn moment(story: &Story, one: &Recovered) -> String {
    let calls = story.deeds.iter().map(|done| done.call).collect::<BTreeSet<_>>();
    let call = |at: usize| calls.iter().nth(at).map(|call| super::cause::shown(story, *call));
    match (one.inside, call(one.done), one.done.checked_sub(1).and_then(call)) {
        (true, Some(call), _) => format!("inside {call}"),
        (_, _, Some(call)) => format!("after {call}"),
        _ => "at the beginning".to_owned(),
    }
}

/// The region that a program needs on a design.
pub fn size_for(design: &configured::Configured, story: &Story) -> Bytes {
    let before: u64 = story.inodes.iter().map(|node| node.size + 8192).sum();
    let written = story.deeds.iter().map(|done| match done.deed {
        Deed::Write { bytes, .. } => bytes.len + 8192,
        _ => 1024,
    });
    let bytes = (before + written.sum::<u64>()) * 2 + usual_size(design).0;
    Bytes(bytes.next_multiple_of(Bytes::mib(1).0))
}

/// Replays a program on a design, and gathers what crashes leave, at most so many trees.
pub fn gather(story: &Arc<Story>, subject: &Subject, trees: usize, seed: u64) -> Result<Gathered, String> {
    let (story, subject) = (Arc::clone(story), subject.clone());
    try_virtually(seed, move || Replayer::new(&story, &subject)?.gather(trees, seed))?
}

struct Replayer<'a> {
    story: &'a Story,
    subject: &'a Subject,
    fs: Arc<dyn FileSystem>,
    trace: Option<Arc<Trace>>,
    inos: FxHashMap<Inode, Ino>,
    /// The tree before the first and after each call, where the design promises that it is durable.
    expected: Vec<Tree>,
}

fn failed(what: impl std::fmt::Display) -> impl Fn(Errno) -> String {
    move |errno| {
        format!(
            "{what}: {}{}",
            errno.name(),
            if errno == Errno::ENOSPC { " (give more by --size)" } else { "" }
        )
    }
}

impl<'a> Replayer<'a> {
    fn new(story: &'a Story, subject: &'a Subject) -> Result<Self, String> {
        let (design, region) = (&subject.design, configured::region(subject.size));
        design.mkfs(&region).map_err(|error| format!("mkfs: {error}"))?;
        let fs = design.mount(&region).map_err(|error| format!("mount: {error}"))?;
        fill_free_blocks(&*fs)?;
        let inos = FxHashMap::from_iter([(ROOT, fs.root())]);
        let mut replayer = Self { story, subject, fs, trace: None, inos, expected: Vec::new() };
        for (entry, inode) in &story.before {
            replayer.before(*entry, *inode)?;
        }
        replayer.fs.sync().map_err(failed("sync"))?;
        let trace = Trace::attach(&region).map_err(|error| error.to_string())?;
        replayer.remember()?;
        let mut at = 0;
        while at < story.deeds.len() {
            let call = story.deeds[at].call;
            let name = story.calls[call as usize].name;
            region.mark(Mark::OpBegin(name));
            while let Some(done) = story.deeds.get(at).filter(|done| done.call == call) {
                replayer
                    .deed(&done.deed)
                    .map_err(|what| format!("{}: {what}", super::cause::shown(story, call)))?;
                at += 1;
            }
            region.mark(Mark::OpEnd(name, Durable::Nothing));
            replayer.remember()?;
        }
        if subject.promises.buffers_data() {
            sim::sleep(IDLE);
        }
        region.detach(&trace);
        replayer.trace = Some(trace);
        Ok(replayer)
    }

    fn is_strict(&self) -> bool {
        let promises = self.subject.promises;
        promises.metadata == Durability::OnReturn
            && promises.data == Durability::OnReturn
            && !promises.repaired
    }

    fn remember(&mut self) -> Result<(), String> {
        if self.is_strict() {
            self.expected.push(without_times(observe(&*self.fs)?));
        }
        Ok(())
    }

    fn bytes(&self, slice: Slice) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; slice.len as usize];
        self.story.blobs.copy(slice, &mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn name(&self, entry: Entry) -> Result<(Ino, &'a [u8]), String> {
        let parent = self.inos.get(&entry.0).copied().ok_or("a folder outside the root")?;
        Ok((parent, &self.story.names[entry.1 as usize]))
    }

    fn ino(&self, inode: Inode) -> Result<Ino, String> {
        self.inos.get(&inode).copied().ok_or_else(|| "a file outside the root".to_owned())
    }

    fn before(&mut self, entry: Entry, inode: Inode) -> Result<(), String> {
        if entry.0 == OUTSIDE || inode == OUTSIDE || !self.inos.contains_key(&entry.0) {
            return Ok(());
        }
        if let Some(ino) = self.inos.get(&inode).copied() {
            let (parent, name) = self.name(entry)?;
            return self.fs.link(ino, parent, name).map(drop).map_err(failed("link"));
        }
        self.make(entry, inode)?;
        let node = &self.story.inodes[inode as usize];
        if let Some(slice) = node.bytes {
            let bytes = self.bytes(slice)?;
            self.write(inode, 0, &bytes)?;
        }
        for (name, value) in &node.attributes {
            let value = self.bytes(*value)?;
            let set = self.fs.setxattr(self.ino(inode)?, name, &value, XattrMode::Set);
            set.map_err(failed("an extended attribute"))?;
        }
        Ok(())
    }

    fn make(&mut self, entry: Entry, inode: Inode) -> Result<(), String> {
        let (parent, name) = self.name(entry)?;
        let node = &self.story.inodes[inode as usize];
        let new = NewInode { perm: node.mode, owner: OWNER };
        let special = |kind| self.fs.mknod(parent, name, kind, 0, &new);
        let made = match node.kind {
            Kind::File => self.fs.create(parent, name, &new),
            Kind::Directory => self.fs.mkdir(parent, name, &new),
            Kind::Symlink => self.fs.symlink(parent, name, node.target.as_deref().unwrap_or_default(), &new),
            Kind::Fifo => special(FileKind::Fifo),
            Kind::Socket => special(FileKind::Socket),
            Kind::Character => special(FileKind::CharDevice),
            Kind::Block => special(FileKind::BlockDevice),
        };
        let ino = made.map_err(failed(String::from_utf8_lossy(name)))?.ino;
        if node.kind == Kind::File {
            // What the program has open stays although its name goes.
            self.fs.open(ino, OpenFlags::READ | OpenFlags::WRITE).map_err(failed("open"))?;
        }
        self.inos.insert(inode, ino);
        Ok(())
    }

    fn write(&self, inode: Inode, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let (ino, mut done) = (self.ino(inode)?, 0);
        while done < bytes.len() {
            let written = self.fs.write(ino, offset + done as u64, &bytes[done..], IoFlags::empty());
            done += written.map_err(failed("write"))?.bytes;
        }
        Ok(())
    }

    fn deed(&mut self, deed: &Deed) -> Result<(), String> {
        let set = |fs: &dyn FileSystem, ino, set: SetAttr| fs.setattr(ino, &set).map(drop);
        match deed {
            Deed::Make(entry, _) if entry.0 == OUTSIDE => {}
            Deed::Make(entry, inode) => self.make(*entry, *inode)?,
            Deed::Link(entry, inode) if !self.inos.contains_key(inode) => self.make(*entry, *inode)?,
            Deed::Link(entry, inode) => {
                let (parent, name) = self.name(*entry)?;
                self.fs.link(self.ino(*inode)?, parent, name).map(drop).map_err(failed("link"))?;
            }
            Deed::Unlink(entry, inode) => {
                let (parent, name) = self.name(*entry)?;
                let is_folder = self.story.inodes[*inode as usize].kind == Kind::Directory;
                let gone = if is_folder { self.fs.rmdir(parent, name) } else { self.fs.unlink(parent, name) };
                gone.map_err(failed("unlink"))?;
            }
            Deed::Rename { from, to, exchange, .. } => {
                let flags = if *exchange { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
                let (from, to) = (self.name(*from)?, self.name(*to)?);
                self.fs.rename(from, to, Renaming::from(flags)).map_err(failed("rename"))?;
            }
            Deed::Write { inode, offset, bytes, .. } => {
                let bytes = self.bytes(*bytes)?;
                self.write(*inode, *offset, &bytes)?;
            }
            Deed::Size { inode, size } => {
                let size = SetAttr { size: Some(*size), ..SetAttr::default() };
                set(&*self.fs, self.ino(*inode)?, size).map_err(failed("truncate"))?;
            }
            Deed::Zero { inode, offset, len } => {
                let zeroed = self.fs.fallocate(
                    self.ino(*inode)?,
                    FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE,
                    *offset,
                    *len,
                );
                zeroed.map_err(failed("fallocate"))?;
            }
            Deed::Set(inode, attr) => self.set(*inode, attr)?,
            Deed::Sync(What::All | What::Device(_)) => self.fs.sync().map_err(failed("sync"))?,
            Deed::Sync(What::Folder(inode)) => {
                self.fs.fsync(self.ino(*inode)?, false).map_err(failed("fsync"))?;
            }
            Deed::Sync(What::File { inode, data_only, .. }) => {
                self.fs.fsync(self.ino(*inode)?, *data_only).map_err(failed("fsync"))?;
            }
        }
        Ok(())
    }

    fn set(&self, inode: Inode, attr: &Attr) -> Result<(), String> {
        let ino = self.ino(inode)?;
        let id = |id: &i64| u32::try_from(*id).ok();
        let done = match attr {
            Attr::Mode(mode) => {
                self.fs.setattr(ino, &SetAttr { perm: Some(*mode), ..SetAttr::default() }).map(drop)
            }
            Attr::Owner(user, group) => {
                let owner = SetAttr { uid: id(user), gid: id(group), ..SetAttr::default() };
                self.fs.setattr(ino, &owner).map(drop)
            }
            Attr::Extended(name, Some(value)) => {
                self.fs.setxattr(ino, name, &self.bytes(*value)?, XattrMode::Set)
            }
            Attr::Extended(name, None) => self.fs.removexattr(ino, name),
        };
        done.map_err(failed("an attribute"))
    }

    /// When calls with deeds begin.
    fn begins(&self) -> Vec<u64> {
        let mut calls: Vec<u32> = self.story.deeds.iter().map(|done| done.call).collect();
        calls.dedup();
        calls.iter().map(|call| self.story.calls[*call as usize].begin_ns).collect()
    }

    fn gather(&self, trees: usize, seed: u64) -> Result<Gathered, String> {
        let Some(trace) = &self.trace else { return Ok(Gathered::default()) };
        let begins = self.begins();
        let acks_at = |done: usize| {
            let until = begins.get(done).copied().unwrap_or(u64::MAX);
            self.story.acks.iter().take_while(|ack| ack.at_ns < until).count()
        };
        let plan = Plan { exhaustive_max: IMAGES, pair_units_max: 4, draws: 16, seed: Seed(seed) };
        let mut scratch =
            Scratch::new(self.subject.size, Box::new(Null)).map_err(|error| error.to_string())?;
        let (mut out, mut images, mut seen) = (Gathered::default(), BTreeMap::new(), BTreeSet::new());
        let (mut done, mut inside) = (0, false);
        let mut replay = trace.replay(self.subject.mode);
        let mut point = Some(Point::OpEnd);
        while let Some(kind) = point {
            if kind != Point::AfterCommit {
                out.points += 1;
                let crash = replay.state().crash_point();
                for choice in crash.choices(&plan) {
                    let image = crash.image(&choice);
                    let known = images.get(&image.fingerprint()).copied();
                    let moment = (done, inside, acks_at(done));
                    if known.is_some_and(|known| known == moment) {
                        continue;
                    }
                    images.insert(image.fingerprint(), moment);
                    out.images += 1;
                    let region = scratch.load(&image).map_err(|error| error.to_string())?;
                    let fs = self
                        .subject
                        .design
                        .mount(region)
                        .map_err(|error| format!("mount after a crash: {error}"))?;
                    let tree = without_times(observe(&*fs)?);
                    unmount(&*fs)?;
                    if let Some(bug) = self.bug(&tree, done, inside) {
                        out.bugs.push(bug);
                    }
                    if seen.insert((fingerprint(&tree), moment.2)) {
                        out.trees.push(Recovered { tree, done, inside, acks: moment.2 });
                    }
                    if seen.len() >= trees || out.bugs.len() > 4 {
                        out.cut = true;
                        return Ok(out);
                    }
                }
            }
            point = replay.next_point(|_, event| match event {
                Event::Mark(Mark::OpBegin(_)) => inside = true,
                Event::Mark(Mark::OpEnd(..)) => (done, inside) = (done + 1, false),
                _ => {}
            });
        }
        Ok(out)
    }

    /// What is wrong with a tree by the design's own promise.
    fn bug(&self, tree: &Tree, done: usize, inside: bool) -> Option<String> {
        let before = self.expected.get(done)?;
        let after = self.expected.get(done + 1).filter(|_| inside);
        if tree == before || after.is_some_and(|after| after == tree) {
            return None;
        }
        let after = after
            .filter(|after| self.subject.promises.write != Atomicity::Whole && is_mix(tree, before, after));
        if after.is_some() {
            return None;
        }
        let call =
            self.story.deeds.iter().map(|done| done.call).collect::<BTreeSet<_>>().into_iter().nth(done);
        let call = call.map_or_else(|| "the end".to_owned(), |call| super::cause::shown(self.story, call));
        let place = if inside { "inside" } else { "before" };
        let name = self.subject.design.name();
        Some(format!(
            "{name} promises that calls are durable when they return, and a crash {place} {call} leaves another tree"
        ))
    }
}

/// Whether a tree is one of two but for the bytes of files, each of which is that of one of them.
fn is_mix(tree: &Tree, before: &Tree, after: &Tree) -> bool {
    tree.len() == before.len()
        && tree.iter().all(|(path, entry)| {
            let (Some(old), Some(new)) = (before.get(path), after.get(path)) else { return false };
            let size = entry.content.len();
            (size == old.content.len() || size == new.content.len())
                && (0..size).all(|at| {
                    let byte = Some(&entry.content[at]);
                    byte == old.content.get(at) || byte == new.content.get(at)
                })
        })
}
