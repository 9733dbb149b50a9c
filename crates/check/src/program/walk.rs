//! The steps of a trace one after the other: which inodes they mean, at which offsets they write. What a call got is believed; a
//! name that must have led somewhere and is not known is made up, which the trace's compiler does in the same way.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace::call::Op;
use trace::compile::{Program, Step};
use trace::contents::{APPEND as RWF_APPEND, Contents, DSYNC, SYNC};
use trace::record::Kind;
use trace::words::{APPEND, CREAT, EXCHANGE, EXCL, KEEP_SIZE, MAP_SHARED, NOFOLLOW, TMPFILE, TRUNC};

use super::halves::HALF;
use super::mapped::{Mapped, Stores, differing};
use super::operations::BLOCK;
use super::story::{
    Attr, CallInfo, Deed, Done, Entry, Inode, Node, OUTSIDE, ROOT, Slice, Story, StoryError, What, When,
};

/// The usual mask of permissions, until the program sets its own.
const UMASK: u32 = 0o022;
const O_DSYNC: u32 = 0o1_0000;
const O_SYNC: u32 = 0o401_0000;
const O_DIRECT: u32 = 0o4_0000;
const PUNCH: u32 = 2;
const COLLAPSE: u32 = 8;
const ZERO: u32 = 16;
const INSERT: u32 = 32;
const MS_SYNC: u32 = 4;
/// As the kernel has it (path_resolution(7)).
const LINKS_MAX: u32 = 40;
/// The most bytes of one file that a copy within the kernel may need here.
const COPY_MAX: u64 = 256 << 20;

#[derive(Clone, Copy, Debug)]
struct Open {
    inode: Inode,
    flags: u32,
    position: u64,
}

/// What a file contains now, as pieces in the order in which they were written, for copies within the kernel.
#[derive(Clone, Debug, Default)]
struct Live {
    size: u64,
    pieces: Vec<(u64, Option<Slice>, u64)>,
}

pub(super) struct Walk<'a> {
    story: &'a mut Story,
    program: &'a Program,
    contents: &'a Contents,
    numbers: FxHashMap<Box<[u8]>, u32>,
    bound: FxHashMap<Entry, Inode>,
    parents: FxHashMap<Inode, Inode>,
    handles: FxHashMap<u32, usize>,
    open: Vec<Open>,
    live: FxHashMap<Inode, Live>,
    mappings: FxHashMap<i64, (Inode, i64)>,
    umask: u32,
    mapped: Mapped,
    /// Calls that never returned.
    late: Vec<(Step, When)>,
}

/// Where a path leads.
enum Lead {
    Inode(Inode, Option<Entry>),
    Nothing(Entry),
    Broken,
}

impl<'a> Walk<'a> {
    pub(super) fn new(story: &'a mut Story, program: &'a Program, contents: &'a Contents) -> Self {
        for _ in 0..2 {
            story.inodes.push(node(Kind::Directory, 0o755, true));
        }
        Self {
            story,
            program,
            contents,
            numbers: FxHashMap::default(),
            bound: FxHashMap::default(),
            parents: FxHashMap::default(),
            handles: FxHashMap::default(),
            open: Vec::new(),
            live: FxHashMap::default(),
            mappings: FxHashMap::default(),
            umask: UMASK,
            mapped: Mapped::new(&contents.samples),
            late: Vec::new(),
        }
    }

    /// What existed before.
    pub(super) fn before(&mut self) {
        let mut groups: FxHashMap<u64, Inode> = FxHashMap::default();
        for entry in &self.program.initial {
            let Lead::Nothing(at) = self.resolve(&entry.path, false, true) else {
                if entry.path.is_empty() {
                    self.story.inodes[0].mode = entry.mode;
                }
                continue;
            };
            let known = groups.get(&entry.group).copied().filter(|_| entry.group != 0);
            let inode = known.unwrap_or_else(|| self.add(node(entry.kind, entry.mode, true), at));
            if let Some(mount) = self.contents.mounts.iter().position(|mount| *mount == entry.path) {
                self.story.inodes[inode as usize].device = mount as u32 + 1;
            }
            if entry.group != 0 {
                groups.insert(entry.group, inode);
            }
            self.bind(at, inode);
            self.story.before.push((at, inode));
            if known.is_none() {
                let bytes = self.contents.initial.get(&entry.path);
                let kept =
                    bytes.map(|blob| Slice { blob: *blob, start: 0, len: self.contents.len_of(*blob) });
                let own = &mut self.story.inodes[inode as usize];
                own.target.clone_from(&entry.target);
                own.size = kept.map_or(entry.size, |slice| slice.len);
                own.bytes = kept;
                if entry.kind == Kind::File && entry.size > 0 && kept.is_none() && at.0 != OUTSIDE {
                    let what = format!("{} existed before, and its contents were not kept", own.path);
                    self.story.unseen.push(what);
                }
                self.live.insert(
                    inode,
                    Live {
                        size: self.story.inodes[inode as usize].size,
                        pieces: kept.map(|slice| (0, Some(slice), slice.len)).into_iter().collect(),
                    },
                );
            }
        }
        for (path, name, blob) in &self.contents.attributes {
            if let Lead::Inode(inode, _) = self.resolve(path, false, false) {
                let value = Slice { blob: *blob, start: 0, len: self.contents.len_of(*blob) };
                self.story.inodes[inode as usize].attributes.insert(name.clone(), value);
            }
        }
    }

    /// After all steps: the calls that never returned.
    pub(super) fn finish(&mut self) -> Result<(), StoryError> {
        for (step, when) in std::mem::take(&mut self.late) {
            self.take(&step, Some(when))?;
        }
        self.samples(None, u64::MAX, self.story.end_ns)?;
        let told = |known: bool| {
            let halves = self.contents.halves.iter().filter(|half| half.effect.is_some() == known);
            halves.map(|half| String::from_utf8_lossy(&half.call).into_owned()).collect::<Vec<_>>().join(", ")
        };
        let (known, unknown) = (told(true), told(false));
        if !known.is_empty() {
            let what = format!("calls that never returned, judged with their effect and without: {known}");
            self.story.notes.push(what);
        }
        if !unknown.is_empty() {
            let what = format!("calls that never returned, and may have had their effect: {unknown}");
            self.story.notes.push(what);
        }
        Ok(())
    }

    /// A call that has failed: of what it may have left, nothing is known.
    fn failed(&mut self, step: &Step) {
        let Some((_, open)) = self.file(step.call.fd) else { return };
        let path = self.shown(open.inode);
        let note = match step.call.op {
            Op::Write | Op::Pwrite if open.flags & O_DSYNC != 0 => {
                format!("a synchronous write into {path} failed: what it may have left is not judged")
            }
            Op::Fsync | Op::Fdatasync => {
                format!(
                    "{} of {path} failed: it covers nothing, and what came before it may be lost for ever",
                    step.call.op.name()
                )
            }
            _ => return,
        };
        self.story.notes.push(note);
    }

    fn add(&mut self, mut node: Node, at: Entry) -> Inode {
        node.path = self.path_of(at);
        node.device = self.story.inodes[at.0 as usize].device;
        self.story.inodes.push(node);
        let inode = self.story.inodes.len() as Inode - 1;
        self.parents.insert(inode, at.0);
        inode
    }

    fn bind(&mut self, at: Entry, inode: Inode) {
        self.bound.insert(at, inode);
        self.parents.insert(inode, at.0);
        self.story.inodes[inode as usize].path = self.path_of(at);
    }

    fn name(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.story.names.len() as u32;
        self.story.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    fn path_of(&self, (directory, name): Entry) -> String {
        let own = String::from_utf8_lossy(&self.story.names[name as usize]).into_owned();
        match directory {
            ROOT => own,
            OUTSIDE => format!("/{own}"),
            _ => format!("{}/{own}", self.story.inodes[directory as usize].path),
        }
    }

    /// Follows a path. With `make`, folders on the way that are not known are made up.
    fn resolve(&mut self, path: &[u8], follow: bool, make: bool) -> Lead {
        self.resolve_from(ROOT, path, (follow, make), 0)
    }

    fn resolve_from(&mut self, start: Inode, path: &[u8], (follow, make): (bool, bool), links: u32) -> Lead {
        if links > LINKS_MAX {
            return Lead::Broken;
        }
        let mut at = if path.first() == Some(&b'/') { OUTSIDE } else { start };
        let parts: Vec<&[u8]> =
            path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
        let mut entry = None;
        for (place, part) in parts.iter().enumerate() {
            let is_last = place + 1 == parts.len();
            if *part == b".." {
                (at, entry) = (self.parents.get(&at).copied().unwrap_or(at), None);
                continue;
            }
            let key = (at, self.name(part));
            entry = Some(key);
            let next = match self.bound.get(&key).copied() {
                Some(inode) => inode,
                None if is_last => return Lead::Nothing(key),
                None if make => self.made_up(key, Kind::Directory),
                None => return Lead::Broken,
            };
            let target = self.story.inodes[next as usize].target.clone();
            match target.filter(|_| !is_last || follow) {
                None => at = next,
                Some(target) => match self.resolve_from(at, &target, (true, make), links + 1) {
                    Lead::Inode(inode, key) => (at, entry) = (inode, key),
                    lead if is_last => return lead,
                    _ => return Lead::Broken,
                },
            }
        }
        Lead::Inode(at, entry)
    }

    /// Something that must have existed before, of which the trace has said nothing.
    fn made_up(&mut self, at: Entry, kind: Kind) -> Inode {
        let inode = self.add(node(kind, if kind == Kind::Directory { 0o755 } else { 0o644 }, true), at);
        self.bind(at, inode);
        self.story.before.push((at, inode));
        if kind == Kind::File && !self.is_outside(at.0) {
            let path = self.path_of(at);
            self.story
                .notes
                .push(format!("{path} was there, and nothing has shown who made it or what it contained"));
        }
        inode
    }

    /// Whether a folder is outside the root.
    fn is_outside(&self, mut folder: Inode) -> bool {
        while let Some(parent) = self.parents.get(&folder).copied().filter(|parent| *parent != folder) {
            folder = parent;
        }
        folder == OUTSIDE
    }

    fn at(&mut self, path: Option<u32>, follow: bool) -> Option<(Inode, Option<Entry>)> {
        let path = self.program.path_of(path);
        match self.resolve(path, follow, true) {
            Lead::Inode(inode, entry) => Some((inode, entry)),
            Lead::Nothing(entry) => Some((self.made_up(entry, Kind::File), Some(entry))),
            Lead::Broken => None,
        }
    }

    fn file(&self, handle: Option<u32>) -> Option<(usize, Open)> {
        let at = *self.handles.get(&handle?)?;
        Some((at, self.open[at]))
    }

    /// Takes a step.
    pub(super) fn step(&mut self, step: &Step, when: Option<When>) -> Result<(), StoryError> {
        if step.result < 0 {
            self.failed(step);
            return Ok(());
        }
        if let Some(when) = when.filter(|when| when.number >= HALF) {
            self.late.push((*step, when));
            return Ok(());
        }
        self.maps_and_syncs(step, when)?;
        self.take(step, when)
    }

    /// Takes from a call that has returned the samples of mapped files at an msync, and notes the files that it syncs.
    fn maps_and_syncs(&mut self, step: &Step, when: Option<When>) -> Result<(), StoryError> {
        let of_fd = self.file(step.call.fd).map(|(_, open)| open.inode);
        match step.call.op {
            Op::Msync => {
                let inode = self.mappings.get(&i64::from(step.call.mode)).map(|(inode, _)| *inode);
                let calls = when.map_or(0, |when| when.number - 1);
                let at_ns = when.map_or(0, |when| when.begin_ns.saturating_sub(1));
                let is_sampled = self.samples(Some(step), calls, at_ns)?;
                // Between two msyncs there may be stores, also if nothing else is between them.
                self.mapped.calls(step.thread, Some(&[]));
                if !is_sampled {
                    self.mapped.calls(step.thread, Some(inode.as_slice()));
                }
                if let Some(inode) = inode {
                    self.mapped.msynced(step.thread, inode);
                }
            }
            Op::Fsync | Op::Fdatasync => self.mapped.calls(step.thread, Some(of_fd.as_slice())),
            Op::Sync | Op::Syncfs => self.mapped.calls(step.thread, None),
            _ => self.mapped.calls(step.thread, Some(&[])),
        }
        Ok(())
    }

    /// Takes the samples that were taken when so many calls had ended, as deeds at `at_ns`; whether there were any.
    fn samples(&mut self, step: Option<&Step>, calls: u64, at_ns: u64) -> Result<bool, StoryError> {
        let mut any = false;
        while let Some((inode, sample)) = self.mapped.next_until(calls) {
            any = true;
            let mut stored = Vec::new();
            for (offset, blob) in &sample.parts {
                let bytes = self.contents.read(*blob)?;
                let known = self.bytes_of(inode, *offset, bytes.len() as u64)?;
                stored.extend(differing(*offset, &bytes, &known).into_iter().map(|(offset, part)| {
                    (offset, Slice { blob: *blob, start: part.start, len: part.end - part.start })
                }));
            }
            match self.mapped.sampled(inode, !stored.is_empty()) {
                Stores::Known => self.stores(inode, &stored, step, at_ns),
                Stores::LostNow => self.story.notes.push(format!(
                    "{} was synced while it was mapped, and no look is of that moment: what was stored in it is not known",
                    self.shown(inode)
                )),
                Stores::Lost => {}
            }
        }
        Ok(any)
    }

    fn stores(&mut self, inode: Inode, stored: &[(u64, Slice)], step: Option<&Step>, at_ns: u64) {
        for (offset, bytes) in stored {
            let mut deeds = Vec::new();
            self.write(inode, *offset, *bytes, (false, false), &mut deeds);
            self.story.calls.push(CallInfo {
                name: "store",
                paths: [Some(self.shown(inode)), None],
                range: Some((*offset, offset + bytes.len)),
                thread: step.map_or(1, |step| step.thread),
                line: step.map_or(0, |step| step.line),
                begin_ns: at_ns,
                end_ns: at_ns,
                stack: Vec::new(),
            });
            let call = self.story.calls.len() as u32 - 1;
            self.story.deeds.extend(deeds.into_iter().map(|deed| Done { call, deed }));
        }
    }

    fn take(&mut self, step: &Step, when: Option<When>) -> Result<(), StoryError> {
        let mut deeds = Vec::new();
        let mut range = None;
        match step.call.op {
            Op::Open => self.opens(step, &mut deeds),
            Op::Dup => {
                if let (Some((at, _)), Some(new)) = (self.file(step.call.fd), step.opens) {
                    self.handles.insert(new, at);
                }
            }
            Op::SetFl => {
                if let Some((at, _)) = self.file(step.call.fd) {
                    let keep = !(APPEND | O_DIRECT);
                    self.open[at].flags = self.open[at].flags & keep | step.call.flags & !keep;
                }
            }
            // A call that never returned may still need it.
            Op::Close if !self.contents.halves.is_empty() => {}
            Op::Close => drop(step.call.fd.and_then(|fd| self.handles.remove(&fd))),
            Op::Read => self.moves(step.call.fd, step.result.max(0) as u64),
            Op::SendFile if step.call.offset < 0 => self.moves(step.call.fd, step.result.max(0) as u64),
            Op::Lseek => {
                if let Some((at, _)) = self.file(step.call.fd) {
                    self.open[at].position = step.result.max(0) as u64;
                }
            }
            Op::Write | Op::Pwrite | Op::ReceiveFile => range = self.writes(step, when, &mut deeds),
            Op::Copy | Op::Clone => range = self.copies(step, &mut deeds)?,
            Op::Mmap => self.maps(step),
            Op::Umask => self.umask = step.call.mode,
            Op::Munmap => drop(self.mappings.remove(&i64::from(step.call.mode))),
            _ => self.other(step, when, &mut deeds),
        }
        if deeds.is_empty() {
            return Ok(());
        }
        let call = self.call(step, when, range);
        self.story.deeds.extend(deeds.into_iter().map(|deed| Done { call, deed }));
        Ok(())
    }

    fn call(&mut self, step: &Step, when: Option<When>, range: Option<(u64, u64)>) -> u32 {
        let shown = |path: Option<u32>| {
            path.map(|path| String::from_utf8_lossy(self.program.path_of(Some(path))).into_owned())
        };
        let of_fd = |fd: Option<u32>| self.file(fd).map(|(_, open)| self.shown(open.inode));
        let first = shown(step.call.path).or_else(|| of_fd(step.call.fd));
        let second = shown(step.call.path2).or_else(|| of_fd(step.call.fd2));
        let (begin_ns, end_ns) = when.map_or((0, 0), |when| (when.begin_ns, when.end_ns));
        let is_exchange = step.call.op == Op::Rename && step.call.has(EXCHANGE);
        self.story.calls.push(CallInfo {
            name: if is_exchange { "exchange" } else { step.call.op.name() },
            paths: [first, second],
            range,
            thread: step.thread,
            line: when.map_or(step.line, |when| when.line),
            begin_ns,
            end_ns,
            stack: when.and_then(|when| self.contents.stacks.get(&when.number)).cloned().unwrap_or_default(),
        });
        self.story.calls.len() as u32 - 1
    }

    fn shown(&self, inode: Inode) -> String {
        let path = &self.story.inodes[inode as usize].path;
        if inode == ROOT { ".".to_owned() } else { path.clone() }
    }

    fn opens(&mut self, step: &Step, deeds: &mut Vec<Deed>) {
        let call = &step.call;
        let path = self.program.path_of(call.path);
        let inode = if call.flags & TMPFILE == TMPFILE {
            let unnamed = node(Kind::File, call.mode & 0o7777 & !self.umask, false);
            let folder = self.at(call.path, true).map_or(ROOT, |(inode, _)| inode);
            let device = self.story.inodes[folder as usize].device;
            self.story.inodes.push(Node { path: "(unnamed file)".to_owned(), device, ..unnamed });
            self.story.inodes.len() as Inode - 1
        } else {
            let follow = !(call.has(NOFOLLOW) || call.has(CREAT) && call.has(EXCL));
            match self.resolve(path, follow, true) {
                Lead::Inode(inode, _) => inode,
                Lead::Nothing(at) if call.has(CREAT) && !step.implied => {
                    let inode = self.add(node(Kind::File, call.mode & 0o7777 & !self.umask, false), at);
                    self.bind(at, inode);
                    deeds.push(Deed::Make(at, inode));
                    inode
                }
                Lead::Nothing(at) => self.made_up(at, Kind::File),
                Lead::Broken => return,
            }
        };
        if call.has(TRUNC) && call.flags & 3 != 0 && self.size(inode) > 0 {
            self.resize(inode, 0, deeds);
        }
        if let Some(handle) = step.opens {
            self.open.push(Open { inode, flags: call.flags, position: 0 });
            self.handles.insert(handle, self.open.len() - 1);
        }
    }

    fn size(&self, inode: Inode) -> u64 {
        self.live.get(&inode).map_or(0, |live| live.size)
    }

    fn resize(&mut self, inode: Inode, size: u64, deeds: &mut Vec<Deed>) {
        let live = self.live.entry(inode).or_default();
        if size < live.size {
            live.pieces.push((size, None, live.size - size));
        }
        live.size = size;
        deeds.push(Deed::Size { inode, size });
    }

    fn moves(&mut self, fd: Option<u32>, bytes: u64) {
        if let Some((at, _)) = self.file(fd) {
            self.open[at].position += bytes;
        }
    }

    /// Where a write goes, and moves the position.
    fn place(&mut self, at: usize, offset: i64, len: u64, append: bool) -> u64 {
        let Open { inode, flags, position } = self.open[at];
        let own = if offset < 0 { position } else { offset.max(0) as u64 };
        let start = if flags & APPEND != 0 || append { self.size(inode) } else { own };
        if offset < 0 {
            self.open[at].position = start + len;
        }
        start
    }

    fn write(
        &mut self,
        inode: Inode,
        offset: u64,
        bytes: Slice,
        (direct, shares): (bool, bool),
        deeds: &mut Vec<Deed>,
    ) {
        let live = self.live.entry(inode).or_default();
        live.size = live.size.max(offset + bytes.len);
        live.pieces.push((offset, Some(bytes), bytes.len));
        deeds.push(Deed::Write { inode, offset, bytes, direct, shares });
    }

    fn writes(&mut self, step: &Step, when: Option<When>, deeds: &mut Vec<Deed>) -> Option<(u64, u64)> {
        let len = step.result.max(0) as u64;
        let (at, open) = self.file(step.call.fd).filter(|_| len > 0)?;
        let written = when.and_then(|when| self.contents.calls.get(&when.number)).copied();
        let flags = written.map_or(0, |written| written.flags);
        let offset = if step.call.op == Op::Write { -1 } else { step.call.offset };
        let start = self.place(at, offset, len, flags & RWF_APPEND != 0);
        let Some(written) = written else {
            let (path, name) = (self.shown(open.inode), step.call.op.name());
            let what = match step.call.op {
                Op::ReceiveFile => format!(
                    "{len} bytes that the kernel copied into {path} from a file outside the root (give `weir record` a --root \
                     that has both)"
                ),
                _ => format!("{len} bytes that {name} put into {path}"),
            };
            self.story.unseen.push(what);
            return None;
        };
        let bytes = Slice { blob: written.bytes, start: 0, len };
        self.write(open.inode, start, bytes, (open.flags & O_DIRECT != 0, false), deeds);
        let full = open.flags & O_SYNC == O_SYNC || flags & SYNC != 0;
        if full || open.flags & O_DSYNC != 0 || flags & DSYNC != 0 {
            let (inode, range) = (open.inode, Some((start, start + len)));
            deeds.push(Deed::Sync(What::File { inode, data_only: !full, range, of_write: true }));
        }
        Some((start, start + len))
    }

    /// The bytes of a range of a file as they are now.
    fn bytes_of(&self, inode: Inode, from: u64, len: u64) -> Result<Vec<u8>, StoryError> {
        let mut bytes = vec![0; len as usize];
        let Some(live) = self.live.get(&inode) else { return Ok(bytes) };
        for (offset, slice, length) in &live.pieces {
            let (start, end) = ((*offset).max(from), (offset + length).min(from + len));
            if start >= end {
                continue;
            }
            let to = &mut bytes[(start - from) as usize..(end - from) as usize];
            match slice {
                None => to.fill(0),
                Some(slice) if slice.blob < 1 << 31 => {
                    let all = self.contents.read(slice.blob)?;
                    let first = (slice.start + start - offset) as usize;
                    to.copy_from_slice(&all[first..first + to.len()]);
                }
                Some(slice) => {
                    let part = Slice { start: slice.start + start - offset, ..*slice };
                    self.story.blobs.copy(part, to)?;
                }
            }
        }
        Ok(bytes)
    }

    fn copies(&mut self, step: &Step, deeds: &mut Vec<Deed>) -> Result<Option<(u64, u64)>, StoryError> {
        let is_clone = step.call.op == Op::Clone;
        let (from, to) = if is_clone { (step.call.fd2, step.call.fd) } else { (step.call.fd, step.call.fd2) };
        let (Some((from_at, source)), Some((to_at, target))) = (self.file(from), self.file(to)) else {
            return Ok(None);
        };
        let len = if is_clone { self.size(source.inode) } else { step.result.max(0) as u64 };
        if len == 0 {
            return Ok(None);
        }
        if len > COPY_MAX {
            let path = self.shown(target.inode);
            self.story.unseen.push(format!("a copy of {len} bytes within the kernel into {path}"));
            return Ok(None);
        }
        let (start, first) = if is_clone {
            (0, 0)
        } else {
            let first = if step.call.offset < 0 { source.position } else { step.call.offset as u64 };
            if step.call.offset < 0 {
                self.open[from_at].position += len;
            }
            (self.place(to_at, step.call.offset2, len, false), first)
        };
        let bytes = self.bytes_of(source.inode, first, len)?;
        let slice = self.story.blobs.add(bytes);
        // Blocks are shared as wholes; the last one of the source only as the last one of the target.
        let is_last = first + len == self.size(source.inode) && start + len >= self.size(target.inode);
        let ends = len.is_multiple_of(BLOCK) || is_last;
        let shares = ends && start.is_multiple_of(BLOCK) && first.is_multiple_of(BLOCK);
        self.write(target.inode, start, slice, (false, shares), deeds);
        Ok(Some((start, start + len)))
    }

    fn maps(&mut self, step: &Step) {
        let Some((_, open)) = self.file(step.call.fd) else { return };
        self.mappings.insert(step.result, (open.inode, step.call.offset));
        if step.call.has(MAP_SHARED) && step.call.has(2) {
            let path = self.shown(open.inode);
            self.mapped.maps(&path, open.inode);
            if !self.story.mapped.contains(&path) {
                self.story.mapped.push(path);
            }
        }
    }

    fn other(&mut self, step: &Step, when: Option<When>, deeds: &mut Vec<Deed>) {
        let call = &step.call;
        match call.op {
            Op::Fsync | Op::Fdatasync => {
                let Some((_, open)) = self.file(call.fd) else { return };
                let is_folder = self.story.inodes[open.inode as usize].kind == Kind::Directory;
                let (inode, data_only) = (open.inode, call.op == Op::Fdatasync);
                deeds.push(Deed::Sync(if is_folder {
                    What::Folder(inode)
                } else {
                    What::File { inode, data_only, range: None, of_write: false }
                }));
            }
            Op::Sync => deeds.push(Deed::Sync(What::All)),
            Op::Syncfs => {
                let Some((_, open)) = self.file(call.fd) else { return };
                deeds.push(Deed::Sync(What::Device(self.story.inodes[open.inode as usize].device)));
            }
            Op::Msync if call.has(MS_SYNC) => {
                let Some((inode, base)) = self.mappings.get(&i64::from(call.mode)).copied() else { return };
                let start = base.saturating_add(call.offset).max(0) as u64;
                let range = Some((start, start + call.len));
                deeds.push(Deed::Sync(What::File { inode, data_only: true, range, of_write: false }));
            }
            Op::Truncate | Op::Ftruncate => {
                let by_path = call.path.and_then(|path| self.at(Some(path), true)).map(|(inode, _)| inode);
                let inode = by_path.or_else(|| self.file(call.fd).map(|(_, open)| open.inode));
                if let Some(inode) = inode.filter(|inode| self.size(*inode) != call.len) {
                    self.resize(inode, call.len, deeds);
                }
            }
            Op::Fallocate => self.allocates(step, deeds),
            Op::Mkdir | Op::Mknod | Op::Symlink => self.makes(step, deeds),
            Op::Unlink | Op::Rmdir => {
                if let Some((inode, Some(at))) = self.at(call.path, false) {
                    self.bound.remove(&at);
                    deeds.push(Deed::Unlink(at, inode));
                }
            }
            Op::Rename => self.renames(step, deeds),
            Op::Link | Op::LinkFd => self.links(step, deeds),
            _ => self.attributes(step, when, deeds),
        }
    }

    fn allocates(&mut self, step: &Step, deeds: &mut Vec<Deed>) {
        let call = &step.call;
        let Some((_, open)) = self.file(call.fd) else { return };
        let (inode, offset, end) =
            (open.inode, call.offset.max(0) as u64, call.offset.max(0) as u64 + call.len);
        if call.has(COLLAPSE | INSERT) {
            let path = self.shown(inode);
            self.story.unseen.push(format!("a range of {path} that fallocate has moved"));
            return;
        }
        if call.has(PUNCH | ZERO) {
            self.live.entry(inode).or_default().pieces.push((offset, None, call.len));
            deeds.push(Deed::Zero { inode, offset, len: call.len });
        }
        if !call.has(KEEP_SIZE) && end > self.size(inode) {
            self.resize(inode, end, deeds);
        }
    }

    fn makes(&mut self, step: &Step, deeds: &mut Vec<Deed>) {
        let call = &step.call;
        let Lead::Nothing(at) = self.resolve(self.program.path_of(call.path), false, true) else { return };
        let kind = match call.op {
            Op::Mkdir => Kind::Directory,
            Op::Symlink => Kind::Symlink,
            _ => Kind::of_mode(call.mode).unwrap_or(Kind::File),
        };
        let mode = if kind == Kind::Symlink { 0o777 } else { call.mode & 0o7777 & !self.umask };
        let inode = self.add(node(kind, mode, false), at);
        if kind == Kind::Symlink {
            self.story.inodes[inode as usize].target = Some(self.program.path_of(call.path2).into());
        }
        self.bind(at, inode);
        deeds.push(Deed::Make(at, inode));
    }

    fn renames(&mut self, step: &Step, deeds: &mut Vec<Deed>) {
        let call = &step.call;
        let Some((inode, Some(from))) = self.at(call.path, false) else { return };
        let (to, replaced) = match self.resolve(self.program.path_of(call.path2), false, true) {
            Lead::Inode(replaced, Some(to)) => (to, Some(replaced)),
            Lead::Nothing(to) => (to, None),
            _ => return,
        };
        if replaced == Some(inode) {
            return; // two names of one file: nothing happens
        }
        let exchange = call.has(EXCHANGE);
        self.bound.remove(&from);
        self.bind(to, inode);
        if let Some(replaced) = replaced.filter(|_| exchange) {
            self.bind(from, replaced);
        }
        deeds.push(Deed::Rename { from, to, inode, replaced, exchange });
    }

    fn links(&mut self, step: &Step, deeds: &mut Vec<Deed>) {
        let call = &step.call;
        let by_fd = self.file(call.fd).map(|(_, open)| open.inode);
        let inode = by_fd.or_else(|| self.at(call.path, false).map(|(inode, _)| inode));
        let lead = self.resolve(self.program.path_of(call.path2), false, true);
        let (Some(inode), Lead::Nothing(to)) = (inode, lead) else { return };
        self.bind(to, inode);
        deeds.push(Deed::Link(to, inode));
    }

    fn attributes(&mut self, step: &Step, when: Option<When>, deeds: &mut Vec<Deed>) {
        let call = &step.call;
        let follow = call.op.follows();
        let by_path = call.path.filter(|_| changes(call.op)).and_then(|path| self.at(Some(path), follow));
        let inode =
            by_path.map(|(inode, _)| inode).or_else(|| self.file(call.fd).map(|(_, open)| open.inode));
        let Some(inode) = inode.filter(|_| changes(call.op)) else { return };
        let name = || self.program.path_of(call.path2).into();
        let attr = match call.op {
            Op::Chmod | Op::Fchmod => Attr::Mode(call.mode & 0o7777),
            Op::Chown | Op::Lchown | Op::Fchown => Attr::Owner(call.offset, call.offset2),
            Op::Removexattr | Op::Lremovexattr | Op::Fremovexattr => Attr::Extended(name(), None),
            _ => {
                let value =
                    when.and_then(|when| self.contents.calls.get(&when.number)).map(|written| written.bytes);
                let Some(blob) = value else {
                    self.story.unseen.push("the value of an extended attribute".to_owned());
                    return;
                };
                let len = self.contents.len_of(blob);
                Attr::Extended(name(), Some(Slice { blob, start: 0, len }))
            }
        };
        deeds.push(Deed::Set(inode, attr));
    }
}

/// Whether a call sets an attribute that this module follows.
fn changes(op: Op) -> bool {
    matches!(
        op,
        Op::Chmod
            | Op::Fchmod
            | Op::Chown
            | Op::Lchown
            | Op::Fchown
            | Op::Setxattr
            | Op::Lsetxattr
            | Op::Fsetxattr
            | Op::Removexattr
            | Op::Lremovexattr
            | Op::Fremovexattr
    )
}

fn node(kind: Kind, mode: u32, initial: bool) -> Node {
    Node {
        kind,
        mode,
        target: None,
        initial,
        bytes: None,
        size: 0,
        attributes: BTreeMap::new(),
        path: String::new(),
        device: 0,
    }
}
