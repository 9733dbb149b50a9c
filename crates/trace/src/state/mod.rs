//! What a trace has shown so far: names, inodes, processes, descriptors. Records are applied in their order, and each answers with
//! what it depends on ([`Effect`]). [`crate::compile`] makes the order of a replay from that, [`crate::cut`] what the rest needs.
//!
//! A handle is a descriptor that the trace opens once: `open` and `dup` make one, and processes that fork share it. It is closed
//! when the last process that has it closes it. An open file ("open file description" in POSIX) has the position; `dup` shares it.

mod calls;
mod tree;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::call::Call;
use crate::record::{Entry, Fork, Inherited, Kind, Received, Record, Sent, Thread, Timed};
use crate::words::CLOEXEC;

pub(crate) use tree::{Binding, Lead, ROOT, Tree};

/// How a record uses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It may happen at the same time as other reads.
    Reads,
    /// It happens alone.
    Changes,
}

/// The second part of a "name" that stands for the locks of an inode.
const LOCKS: u32 = u32::MAX;
/// Likewise for which names a directory has. Here the uses are turned round: changes of single names, which may happen at the same
/// time, read it, and a listing, before and after which they must have happened, changes it.
const LISTING: u32 = u32::MAX - 1;

/// What a record depends on and does. A caller keeps it from record to record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effect {
    /// The handle of `fd`.
    pub(crate) fd: Option<u32>,
    /// The handle of `fd2`.
    pub(crate) fd2: Option<u32>,
    /// The handle that it opens.
    pub(crate) opened: Option<u32>,
    /// Handles that it closes because no process has them any more; of `close`, its own.
    pub(crate) closed: Vec<u32>,
    /// Inodes.
    pub(crate) objects: Vec<(u32, Use)>,
    /// Names, and locks of inodes.
    pub(crate) names: Vec<(Binding, Use)>,
    /// Open files whose position it uses.
    pub(crate) files: Vec<u32>,
    /// Open files that no handle leads to any more.
    pub(crate) gone: Vec<u32>,
    /// Names that a path led through; emptied into `names`.
    pub(crate) visits: Vec<Binding>,
}

impl Effect {
    /// A name comes or goes.
    fn name(&mut self, key: Binding) {
        self.names.extend([(key, Use::Changes), ((key.0, LISTING), Use::Reads)]);
    }

    fn clear(&mut self) {
        (self.fd, self.fd2, self.opened) = (None, None, None);
        self.closed.clear();
        self.objects.clear();
        self.names.clear();
        self.files.clear();
        self.gone.clear();
        self.visits.clear();
    }
}

/// A descriptor in a table.
#[derive(Clone, Copy, Debug)]
struct Slot {
    handle: u32,
    cloexec: bool,
}

/// A table of descriptors, and how many threads use it.
#[derive(Debug, Default)]
struct Descriptors {
    slots: FxHashMap<i32, Slot>,
    threads: u32,
}

/// An open file, and how many handles lead to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFile {
    pub(crate) node: u32,
    /// The name by which it was opened.
    pub(crate) key: Option<Binding>,
    pub(crate) flags: u32,
    pub(crate) position: u64,
    handles: u32,
}

/// A handle: the open file, and how many tables have it.
#[derive(Clone, Copy, Debug)]
struct Handle {
    file: u32,
    tables: u32,
}

/// What a trace has shown so far.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tree: Tree,
    groups: FxHashMap<u64, u32>,
    threads: FxHashMap<u32, u32>,
    tables: FxHashMap<u32, Descriptors>,
    handles: FxHashMap<u32, Handle>,
    files: FxHashMap<u32, OpenFile>,
    mappings: FxHashMap<u32, u32>,
    /// Handles that were sent and not received yet, by their number in the trace.
    sent: FxHashMap<u32, u32>,
    /// Inodes that were locked: closing one may give a lock back.
    locked: FxHashSet<u32>,
    next: u32,
}

/// Why a record cannot be applied.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A call on a descriptor that no call has opened: the number.
    Unopened(i32),
    /// A record of a thread that no `T` record has named.
    Unknown(u32),
    /// A descriptor is received that none has sent: the number.
    Unsent(u32),
}

impl Refused {
    /// The sentence for a message.
    pub(crate) fn sentence(&self, call: &str) -> String {
        match self {
            Self::Unopened(fd) => format!("{call}: descriptor {fd} was never opened"),
            Self::Unknown(thread) => format!("{call}: thread {thread} has no T record"),
            Self::Unsent(number) => format!("{call}: no descriptor was sent under the number {number}"),
        }
    }
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            tree: Tree::new(),
            groups: FxHashMap::default(),
            threads: FxHashMap::default(),
            tables: FxHashMap::default(),
            handles: FxHashMap::default(),
            files: FxHashMap::default(),
            mappings: FxHashMap::default(),
            sent: FxHashMap::default(),
            locked: FxHashSet::default(),
            next: 0,
        }
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Applies a record. After an error nothing has changed.
    pub(crate) fn apply(&mut self, record: &Record, effect: &mut Effect) -> Result<(), Refused> {
        effect.clear();
        match record {
            Record::Entry(entry) => {
                self.entry(entry);
            }
            Record::Thread(thread) => self.thread(thread),
            Record::Fork(fork) => self.fork(fork)?,
            Record::Inherited(open) => self.inherit(open, effect)?,
            Record::Call(timed) => self.call(timed, effect)?,
            Record::Exit(exit) => self.leave(exit.thread, effect)?,
            Record::Sent(sent) => self.send(*sent, effect)?,
            Record::Received(received) => self.receive(*received, effect)?,
            Record::Count(_) | Record::Loss(_) | Record::End(_) => {}
        }
        Ok(())
    }

    /// Something existed at the beginning. Says which node it is.
    pub(crate) fn entry(&mut self, entry: &Entry) -> u32 {
        let lead = self.tree.resolve(&entry.path, (false, true), &mut Vec::new());
        let known = self.groups.get(&entry.group).copied().filter(|_| entry.group != 0);
        let node = match (lead, known) {
            (Lead::Node(node, _), _) => node,
            (Lead::Unknown(key) | Lead::Absent(key), Some(node)) => {
                self.tree.link(node, key);
                self.tree.node(node).origins.push(key);
                return node;
            }
            (Lead::Unknown(key) | Lead::Absent(key), None) => self.tree.infer(key, entry.kind),
            // The path leads through something that is known not to exist.
            (Lead::Broken, _) => return ROOT,
        };
        if entry.group != 0 {
            self.groups.insert(entry.group, node);
        }
        let node_of = self.tree.node(node);
        (node_of.kind, node_of.mode) = (entry.kind, entry.mode);
        if !node_of.changed {
            (node_of.size, node_of.initial_size) = (entry.size, entry.size);
        }
        node_of.target.clone_from(&entry.target);
        node
    }

    fn thread(&mut self, thread: &Thread) {
        if !self.threads.contains_key(&thread.number) {
            let table = self.number();
            self.tables.insert(table, Descriptors { threads: 1, ..Descriptors::default() });
            self.threads.insert(thread.number, table);
        }
    }

    fn table_of(&self, thread: u32) -> Result<u32, Refused> {
        self.threads.get(&thread).copied().ok_or(Refused::Unknown(thread))
    }

    fn fork(&mut self, fork: &Fork) -> Result<(), Refused> {
        let (parent, old) = (self.table_of(fork.parent)?, self.table_of(fork.child)?);
        self.tables.remove(&old);
        if fork.shares.files {
            self.threads.insert(fork.child, parent);
            self.tables.entry(parent).or_default().threads += 1;
            return Ok(());
        }
        let slots = self.tables.get(&parent).map(|table| table.slots.clone()).unwrap_or_default();
        for slot in slots.values() {
            if let Some(handle) = self.handles.get_mut(&slot.handle) {
                handle.tables += 1;
            }
        }
        self.tables.insert(old, Descriptors { slots, threads: 1 });
        Ok(())
    }

    fn inherit(&mut self, open: &Inherited, effect: &mut Effect) -> Result<(), Refused> {
        let table = self.table_of(open.thread)?;
        let (node, key) = match self.tree.resolve(&open.path, (true, true), &mut effect.visits) {
            Lead::Node(node, key) => (node, key),
            Lead::Unknown(key) | Lead::Absent(key) => (self.tree.infer(key, Kind::File), Some(key)),
            Lead::Broken => (ROOT, None),
        };
        let file = OpenFile { node, key, flags: open.flags, position: open.position, handles: 0 };
        let handle = self.open(table, open.fd, file, effect);
        effect.opened = Some(handle);
        effect.objects.push((node, Use::Reads));
        let visits = std::mem::take(&mut effect.visits);
        effect.names.extend(visits.into_iter().map(|key| (key, Use::Reads)));
        Ok(())
    }

    /// What a descriptor leads to stays open under a number. It is a handle of no table until it is received.
    fn send(&mut self, sent: Sent, effect: &mut Effect) -> Result<(), Refused> {
        let table = self.table_of(sent.thread)?;
        let old = self.slot(table, sent.fd)?.handle;
        let file = self.handles.get(&old).map_or(0, |handle| handle.file);
        let handle = self.number();
        self.handles.insert(handle, Handle { file, tables: 1 });
        if let Some(file) = self.files.get_mut(&file) {
            file.handles += 1;
        }
        self.sent.insert(sent.number, handle);
        (effect.fd, effect.opened) = (Some(old), Some(handle));
        Ok(())
    }

    fn receive(&mut self, received: Received, effect: &mut Effect) -> Result<(), Refused> {
        let table = self.table_of(received.thread)?;
        let handle = self.sent.remove(&received.number).ok_or(Refused::Unsent(received.number))?;
        let slot = Slot { handle, cloexec: received.cloexec };
        effect.fd = Some(handle);
        self.replace(table, received.fd, slot, effect);
        Ok(())
    }

    /// Puts a new open file into a table. What was open under that number is closed.
    fn open(&mut self, table: u32, fd: i32, file: OpenFile, effect: &mut Effect) -> u32 {
        let number = self.number();
        self.files.insert(number, file);
        self.put(table, fd, number, file.flags & CLOEXEC != 0, effect)
    }

    fn put(&mut self, table: u32, fd: i32, file: u32, cloexec: bool, effect: &mut Effect) -> u32 {
        let handle = self.number();
        self.handles.insert(handle, Handle { file, tables: 1 });
        if let Some(file) = self.files.get_mut(&file) {
            file.handles += 1;
        }
        self.replace(table, fd, Slot { handle, cloexec }, effect);
        handle
    }

    fn replace(&mut self, table: u32, fd: i32, slot: Slot, effect: &mut Effect) {
        let old = self.tables.entry(table).or_default().slots.insert(fd, slot);
        if let Some(old) = old {
            self.release(old.handle, effect);
        }
    }

    /// A table has a handle no longer.
    fn release(&mut self, number: u32, effect: &mut Effect) {
        let Some(handle) = self.handles.get_mut(&number) else { return };
        handle.tables -= 1;
        if handle.tables > 0 {
            return;
        }
        let file_number = handle.file;
        self.handles.remove(&number);
        effect.closed.push(number);
        if let Some(file) = self.files.get_mut(&file_number) {
            file.handles -= 1;
            effect.objects.push((file.node, Use::Reads));
            effect.files.push(file_number);
            if self.locked.contains(&file.node) {
                effect.names.push(((file.node, LOCKS), Use::Changes));
            }
            if file.handles == 0 {
                self.files.remove(&file_number);
                effect.gone.push(file_number);
            }
        }
    }

    /// Releases what a table has, all of it or what exec closes. In the order of the numbers, so that two runs agree.
    fn release_slots(&mut self, table: u32, all: bool, effect: &mut Effect) {
        let Some(descriptors) = self.tables.get_mut(&table) else { return };
        let slots = descriptors.slots.iter().filter(|(_, slot)| all || slot.cloexec);
        let mut going: Vec<(i32, u32)> = slots.map(|(fd, slot)| (*fd, slot.handle)).collect();
        going.sort_unstable();
        for (fd, _) in &going {
            descriptors.slots.remove(fd);
        }
        for (_, handle) in going {
            self.release(handle, effect);
        }
    }

    /// A thread ends; with the last of its process, the descriptors go.
    fn leave(&mut self, thread: u32, effect: &mut Effect) -> Result<(), Refused> {
        let table = self.table_of(thread)?;
        self.threads.remove(&thread);
        let Some(descriptors) = self.tables.get_mut(&table) else { return Ok(()) };
        descriptors.threads = descriptors.threads.saturating_sub(1);
        if descriptors.threads == 0 {
            self.release_slots(table, true, effect);
            self.tables.remove(&table);
        }
        Ok(())
    }

    /// After exec a process shares its table with none.
    fn exec(&mut self, thread: u32, effect: &mut Effect) -> Result<(), Refused> {
        let mut table = self.table_of(thread)?;
        if self.tables.get(&table).is_some_and(|descriptors| descriptors.threads > 1) {
            let slots = self.tables.get(&table).map(|old| old.slots.clone()).unwrap_or_default();
            for slot in slots.values() {
                if let Some(handle) = self.handles.get_mut(&slot.handle) {
                    handle.tables += 1;
                }
            }
            if let Some(old) = self.tables.get_mut(&table) {
                old.threads -= 1;
            }
            table = self.number();
            self.tables.insert(table, Descriptors { slots, threads: 1 });
            self.threads.insert(thread, table);
        }
        self.release_slots(table, false, effect);
        Ok(())
    }

    fn slot(&self, table: u32, fd: i32) -> Result<Slot, Refused> {
        let slot = self.tables.get(&table).and_then(|table| table.slots.get(&fd));
        slot.copied().ok_or(Refused::Unopened(fd))
    }

    /// The open file of a handle.
    pub(crate) fn file_of(&self, handle: u32) -> Option<(u32, &OpenFile)> {
        let number = self.handles.get(&handle)?.file;
        self.files.get(&number).map(|file| (number, file))
    }

    /// Whether a handle leads to a FIFO, a socket or a device: what is written there is read elsewhere, and no file system has it.
    pub(crate) fn is_no_file(&self, handle: u32) -> bool {
        self.file_of(handle).is_some_and(|(_, file)| self.is_no_file_at(file.node))
    }

    /// Likewise of an inode.
    pub(crate) fn is_no_file_at(&self, node: u32) -> bool {
        let kind = self.tree.nodes.get(node as usize).map(|node| node.kind);
        kind.is_some_and(|kind| !matches!(kind, Kind::File | Kind::Directory | Kind::Symlink))
    }

    /// The inode that a path names now, if the trace has shown it.
    pub(crate) fn node_at(&mut self, path: &[u8]) -> Option<u32> {
        match self.tree.resolve(path, (false, false), &mut Vec::new()) {
            Lead::Node(node, _) => Some(node),
            _ => None,
        }
    }

    /// Files below the root that the trace has made or changed and that have a name: one name of each, and its size.
    pub(crate) fn changed_files(&self) -> Vec<(Vec<u8>, u64)> {
        let (mut files, mut seen, mut open) = (Vec::new(), FxHashSet::default(), vec![ROOT]);
        while let Some(directory) = open.pop() {
            for key in self.tree.children(directory) {
                let Some(number) = self.tree.get(key).filter(|number| seen.insert(*number)) else { continue };
                let node = &self.tree.nodes[number as usize];
                match node.kind {
                    Kind::Directory => open.push(number),
                    Kind::File if node.changed => files.push((self.tree.path_now(key), node.size)),
                    _ => {}
                }
            }
        }
        files
    }

    /// The descriptors of a thread's process: number, handle, whether exec closes it.
    pub(crate) fn descriptors(&self, thread: u32) -> Vec<(i32, u32, bool)> {
        let table = self.threads.get(&thread).and_then(|table| self.tables.get(table));
        let slots = table.into_iter().flat_map(|table| &table.slots);
        let mut all: Vec<_> = slots.map(|(fd, slot)| (*fd, slot.handle, slot.cloexec)).collect();
        all.sort_unstable();
        all
    }

    /// A thread's table of descriptors.
    pub(crate) fn table(&self, thread: u32) -> Option<u32> {
        self.threads.get(&thread).copied()
    }

    fn call(&mut self, timed: &Timed, effect: &mut Effect) -> Result<(), Refused> {
        let table = self.table_of(timed.thread)?;
        let is_lost = |fd: Option<i32>| {
            let lost = fd.and_then(|fd| self.slot(table, fd).err());
            // The kernel has said so itself.
            lost.filter(|_| timed.result != EBADF)
        };
        if let Some(lost) = is_lost(timed.call.fd).or_else(|| is_lost(timed.call.fd2)) {
            return Err(lost);
        }
        self.apply_call(table, timed, effect)?;
        let visits = std::mem::take(&mut effect.visits);
        effect.names.extend(visits.iter().map(|key| (*key, Use::Reads)));
        effect.visits = visits;
        effect.visits.clear();
        Ok(())
    }

    fn handle_of(&self, table: u32, fd: Option<i32>) -> Option<u32> {
        fd.and_then(|fd| self.slot(table, fd).ok()).map(|slot| slot.handle)
    }
}

/// "Bad file descriptor".
const EBADF: i64 = -9;

/// A call as far as the state needs it.
type Asked<'a> = &'a Call;
