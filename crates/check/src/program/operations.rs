//! Micro-operations: what persists alone.
//!
//! | kind | one is |
//! |---|---|
//! | names | one atomic change of one or two entries of folders |
//! | cut | a set size (truncate, fallocate), or a range that becomes zeros |
//! | attribute | one attribute of one inode |
//! | extend | the size that a write moves, a step for each block |
//! | data | the bytes of a write in one block |
//!
//! They stand in the order in which their calls ended, and are applied in this order. What is true in every model stands in
//! [`Micro::needs`]: names of one entry in their order, attributes of one kind, data after the cut that freed its block, data of
//! one page after the data before it (the page goes out with what it holds), unless it bypasses the page cache.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Bits;
use super::model::Model;
use super::story::{Ack, Attr, Deed, Entry, Inode, Slice, Story, What};

/// A block, a page.
pub const BLOCK: u64 = 4096;

/// What a micro-operation changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Entries, and what they lead to then.
    Names {
        /// The entry that matters: where something is made or goes to, or what goes.
        entry: Entry,
        /// What it leads to.
        leads: Option<Inode>,
        /// Another entry that changes with it, and what that leads to.
        other: Option<(Entry, Option<Inode>)>,
        /// Whose name it is.
        subject: Inode,
        /// A file that had the name.
        replaced: bool,
        /// The inode is made by it.
        makes: bool,
    },
    /// The size is set.
    Cut {
        /// The size.
        to: u64,
        /// It is more than before.
        grows: bool,
    },
    /// A range becomes zeros.
    Zero {
        /// From.
        from: u64,
        /// To.
        to: u64,
    },
    /// An attribute is set.
    Set(Attr),
    /// The size is at least this.
    Extend {
        /// The size before.
        from: u64,
        /// The size.
        to: u64,
        /// The block was allocated before.
        inside: bool,
    },
    /// Bytes of one block.
    Data {
        /// Where in the file.
        offset: u64,
        /// What.
        bytes: Slice,
        /// It is the first in its block, which is allocated for it.
        fresh: bool,
        /// It bypasses the page cache.
        direct: bool,
    },
}

/// When a call that never returned had returned.
pub const NEVER: u64 = u64::MAX;

/// No micro-operation.
pub const NONE: u32 = u32::MAX;

/// A micro-operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Micro {
    /// A number of [`Story::calls`].
    pub call: u32,
    /// The inode; of names, the subject.
    pub inode: Inode,
    /// Its file system.
    pub device: u32,
    /// What changes.
    pub change: Change,
    /// Those that it needs in every model.
    pub needs: [u32; 3],
    /// Data before it in its page.
    pub page: u32,
    /// Whether it is of a copy within the kernel that may share blocks, and what is before it in the order of the file.
    pub shared: Option<u32>,
    /// When its call began.
    pub begin_ns: u64,
    /// When its call had returned.
    pub end_ns: u64,
}

impl Micro {
    /// Whether a journal has it: names, attributes, set sizes.
    pub(crate) fn is_metadata(&self) -> bool {
        matches!(
            self.change,
            Change::Names { .. } | Change::Cut { .. } | Change::Zero { .. } | Change::Set(_)
        )
    }

    /// The names that it gives: an entry, and the inode that has it then; an exchange gives two.
    pub fn given(&self) -> impl Iterator<Item = (Entry, Inode)> {
        let both = match self.change {
            Change::Names { entry, leads, other, .. } => [Some((entry, leads)), other],
            _ => [None; 2],
        };
        both.into_iter().flatten().filter_map(|(entry, leads)| Some((entry, leads?)))
    }

    /// Whether it is about an inode; an exchange is about two.
    pub fn is_of(&self, inode: Inode) -> bool {
        self.inode == inode || self.given().any(|(_, given)| given == inode)
    }

    /// Whether a part of it may persist in a model: bytes of more than one of its units.
    pub(crate) fn tears(&self, model: &Model) -> bool {
        let Change::Data { offset, bytes, .. } = &self.change else { return false };
        let (unit, is_shared) = (model.tear, model.shares && self.shared.is_some());
        unit > 0 && !is_shared && offset / unit != (offset + bytes.len - 1) / unit
    }

    /// Whether it touches an entry of a folder; of a rename, the folder that it goes to, of an exchange both.
    pub fn is_in(&self, folder: Inode) -> bool {
        let own = matches!(&self.change, Change::Names { entry, .. } if entry.0 == folder);
        own || self.given().any(|(entry, _)| entry.0 == folder)
    }
}

/// A sync, and when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// A number of [`Story::calls`].
    pub call: u32,
    /// What it is about.
    pub what: What,
    /// The file system; none: all.
    pub device: Option<u32>,
    /// When it began.
    pub begin_ns: u64,
    /// When it had returned.
    pub end_ns: u64,
    /// How many names the file had; of what is no file, 1.
    pub links: u32,
}

/// A program as micro-operations.
#[derive(Clone, Debug, Default)]
pub struct Operations {
    /// The micro-operations.
    pub all: Vec<Micro>,
    /// The syncs.
    pub syncs: Vec<Sync>,
    /// What was acknowledged.
    pub acks: Vec<Ack>,
    /// Those of each inode.
    pub of_inode: FxHashMap<Inode, Vec<u32>>,
    /// All that change names.
    pub names: Bits,
    /// Inodes that were made without a name.
    pub unnamed: FxHashSet<Inode>,
    /// Inodes that there are.
    pub inodes: usize,
    /// File systems that there are.
    pub devices: usize,
    /// When the last thing happened.
    pub end_ns: u64,
}

#[derive(Default)]
struct Builder {
    out: Operations,
    /// What names lead to, and how many lead to each inode.
    bound: FxHashMap<Entry, Inode>,
    links: FxHashMap<Inode, u32>,
    entries: FxHashMap<Entry, u32>,
    attributes: FxHashMap<(Inode, Vec<u8>), u32>,
    /// By inode: the last cut.
    cuts: FxHashMap<Inode, u32>,
    /// By block: the last data, and the cut that freed it.
    pages: FxHashMap<(Inode, u64), u32>,
    freed: FxHashMap<(Inode, u64), u32>,
    /// From this block on everything is freed by this cut.
    freed_from: FxHashMap<Inode, (u64, u32)>,
    allocated: FxHashSet<(Inode, u64)>,
    sizes: FxHashMap<Inode, u64>,
    devices: Vec<u32>,
}

impl Operations {
    /// Takes a program apart.
    pub fn of(story: &Story) -> Self {
        let devices: Vec<u32> = story.inodes.iter().map(|node| node.device).collect();
        let mut builder = Builder { devices, ..Builder::default() };
        for (number, node) in story.inodes.iter().enumerate() {
            builder.sizes.insert(number as Inode, node.size);
            builder.allocated.extend((0..node.size.div_ceil(BLOCK)).map(|block| (number as Inode, block)));
        }
        story.before.iter().for_each(|(entry, inode)| builder.lead(*entry, Some(*inode)));
        for done in &story.deeds {
            let call = &story.calls[done.call as usize];
            builder.deed(done.call, &done.deed, (call.begin_ns, call.end_ns));
        }
        let devices = builder.devices.iter().max().map_or(1, |last| *last as usize + 1);
        let mut out = builder.out;
        out.devices = devices;
        out.inodes = story.inodes.len();
        let last_told = story.acks.last().map_or(0, |ack| ack.at_ns);
        out.end_ns = story.end_ns.max(last_told).saturating_add(1);
        out.acks.clone_from(&story.acks);
        out.names = Bits::new(out.all.len());
        let mut named = FxHashSet::default();
        for (number, micro) in out.all.iter().enumerate() {
            let number = number as u32;
            out.of_inode.entry(micro.inode).or_default().push(number);
            for (_, inode) in micro.given().filter(|(_, inode)| *inode != micro.inode) {
                out.of_inode.entry(inode).or_default().push(number);
            }
            if let Change::Names { makes, .. } = micro.change {
                out.names.add(number);
                let is_first = named.insert(micro.inode) && !story.inodes[micro.inode as usize].initial;
                if is_first && !makes {
                    out.unnamed.insert(micro.inode);
                }
            }
        }
        out
    }
}

impl Builder {
    fn push(&mut self, call: u32, inode: Inode, change: Change, needs: [u32; 3], times: (u64, u64)) -> u32 {
        let (begin_ns, end_ns) = times;
        let device = self.device(inode);
        self.out.all.push(Micro {
            call,
            inode,
            device,
            change,
            needs,
            page: NONE,
            shared: None,
            begin_ns,
            end_ns,
        });
        self.out.all.len() as u32 - 1
    }

    fn device(&self, inode: Inode) -> u32 {
        self.devices.get(inode as usize).copied().unwrap_or(0)
    }

    fn deed(&mut self, call: u32, deed: &Deed, times: (u64, u64)) {
        match deed {
            Deed::Make(entry, inode) => {
                self.name(call, (*entry, Some(*inode)), None, (*inode, false, true), times);
            }
            Deed::Link(entry, inode) => {
                self.name(call, (*entry, Some(*inode)), None, (*inode, false, false), times);
            }
            Deed::Unlink(entry, inode) => {
                self.name(call, (*entry, None), None, (*inode, false, false), times);
            }
            Deed::Rename { from, to, inode, replaced, exchange } => {
                let other = Some((*from, replaced.filter(|_| *exchange)));
                let over = replaced.is_some() && !exchange;
                self.name(call, (*to, Some(*inode)), other, (*inode, over, false), times);
            }
            Deed::Write { inode, offset, bytes, direct, shares } => {
                self.write(call, *inode, (*offset, *bytes, *direct, *shares), times);
            }
            Deed::Size { inode, size } => self.size(call, *inode, *size, times),
            Deed::Zero { inode, offset, len } => {
                let needs = [self.cuts.get(inode).copied().unwrap_or(NONE), NONE, NONE];
                let number =
                    self.push(call, *inode, Change::Zero { from: *offset, to: offset + len }, needs, times);
                let first = offset.div_ceil(BLOCK);
                for block in first..((offset + len) / BLOCK).max(first) {
                    self.allocated.remove(&(*inode, block));
                    self.freed.insert((*inode, block), number);
                    self.pages.remove(&(*inode, block));
                }
            }
            Deed::Set(inode, attr) => {
                let key = match attr {
                    Attr::Mode(_) => b"m".to_vec(),
                    Attr::Owner(..) => b"o".to_vec(),
                    Attr::Extended(name, _) => [b"x", &name[..]].concat(),
                };
                let before = self.attributes.get(&(*inode, key.clone())).copied().unwrap_or(NONE);
                let number = self.push(call, *inode, Change::Set(attr.clone()), [before, NONE, NONE], times);
                self.attributes.insert((*inode, key), number);
            }
            Deed::Sync(what) => {
                let links = match what {
                    What::File { inode, .. } => self.links.get(inode).copied().unwrap_or(0),
                    _ => 1,
                };
                let device = match what {
                    What::File { inode, .. } | What::Folder(inode) => Some(self.device(*inode)),
                    What::Device(device) => Some(*device),
                    What::All => None,
                };
                let (begin_ns, end_ns) = times;
                self.out.syncs.push(Sync { call, what: *what, device, begin_ns, end_ns, links });
            }
        }
    }

    /// An entry leads somewhere, or nowhere.
    fn lead(&mut self, entry: Entry, leads: Option<Inode>) {
        let before = match leads {
            Some(inode) => self.bound.insert(entry, inode),
            None => self.bound.remove(&entry),
        };
        if let Some(links) = before.and_then(|inode| self.links.get_mut(&inode)) {
            *links = links.saturating_sub(1);
        }
        if let Some(inode) = leads {
            *self.links.entry(inode).or_default() += 1;
        }
    }

    fn name(
        &mut self,
        call: u32,
        (entry, leads): (Entry, Option<Inode>),
        other: Option<(Entry, Option<Inode>)>,
        (subject, replaced, makes): (Inode, bool, bool),
        times: (u64, u64),
    ) {
        let last = |entry: &Entry| self.entries.get(entry).copied().unwrap_or(NONE);
        let needs = [last(&entry), other.as_ref().map_or(NONE, |(other, _)| last(other)), NONE];
        let change = Change::Names { entry, leads, other, subject, replaced, makes };
        let number = self.push(call, subject, change, needs, times);
        self.entries.insert(entry, number);
        if let Some((other, leads)) = other {
            self.entries.insert(other, number);
            self.lead(other, leads);
        }
        self.lead(entry, leads);
    }

    fn size(&mut self, call: u32, inode: Inode, size: u64, times: (u64, u64)) {
        let before = self.cuts.get(&inode).copied().unwrap_or(NONE);
        let old = self.sizes.insert(inode, size).unwrap_or(0);
        let change = Change::Cut { to: size, grows: size > old };
        let number = self.push(call, inode, change, [before, NONE, NONE], times);
        self.cuts.insert(inode, number);
        if size < old {
            let first = size.div_ceil(BLOCK);
            for block in first..old.div_ceil(BLOCK) {
                self.allocated.remove(&(inode, block));
                self.pages.remove(&(inode, block));
                self.freed.insert((inode, block), number);
            }
            self.freed_from.insert(inode, (first, number));
        }
    }

    fn write(
        &mut self,
        call: u32,
        inode: Inode,
        (offset, bytes, direct, shares): (u64, Slice, bool, bool),
        times: (u64, u64),
    ) {
        let (mut at, end) = (offset, offset + bytes.len);
        let mut size = self.sizes.get(&inode).copied().unwrap_or(0);
        while at < end {
            let block = at / BLOCK;
            let stop = end.min((block + 1) * BLOCK);
            let slice = Slice { start: bytes.start + at - offset, len: stop - at, ..bytes };
            let fresh = self.allocated.insert((inode, block));
            let beyond =
                self.freed_from.get(&inode).filter(|(first, _)| block >= *first).map(|(_, cut)| *cut);
            let freed = self.freed.get(&(inode, block)).copied().or(beyond).unwrap_or(NONE);
            let page = if direct { NONE } else { self.pages.get(&(inode, block)).copied().unwrap_or(NONE) };
            let change = Change::Data { offset: at, bytes: slice, fresh, direct };
            let data = self.push(call, inode, change, [freed, NONE, NONE], times);
            self.out.all[data as usize].page = page;
            self.out.all[data as usize].shared = shares.then_some(if at == offset { NONE } else { data - 1 });
            self.pages.insert((inode, block), data);
            if stop > size {
                // Past the page cache, the size is set when the data is on the medium.
                let written = if direct { data } else { NONE };
                let needs = [self.cuts.get(&inode).copied().unwrap_or(NONE), written, NONE];
                let change = Change::Extend { from: size, to: stop, inside: !fresh };
                let extend = self.push(call, inode, change, needs, times);
                self.out.all[extend as usize].shared = shares.then_some(data);
                size = stop;
            }
            at = stop;
        }
        self.sizes.insert(inode, size);
    }
}
