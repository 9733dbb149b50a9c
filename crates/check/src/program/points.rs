//! Crash points: moments, with what has begun, what syncs have covered, and what is free to be lost or kept.
//!
//! What may be lost grows with every call that begins and shrinks with every sync that returns; what was told grows when a telling
//! begins. So the moments just before a sync returns, just before something is told, and the last one have all legal states of the
//! moments before them, and are the points. A sync covers what had ended before it began.

use rustc_hash::FxHashMap;

use super::Bits;
use super::closure::Closure;
use super::model::{FileSync, FolderSync, Model, Order, SizeAfter};
use super::operations::{BLOCK, Change, Micro, NEVER, NONE, Operations, Sync};
use super::story::{Inode, What};

/// A moment.
#[derive(Clone, Debug)]
pub struct Point {
    /// Just before this time.
    pub at_ns: u64,
    /// What must be in every state.
    pub covered: Bits,
    /// What may be in a state without what is older.
    pub loose: Bits,
    /// What has begun and is not covered, in order.
    pub free: Vec<u32>,
    /// How many acknowledgements have begun.
    pub acks: usize,
}

/// The most numbers that the free lists of all points may have; beyond, points are left out evenly.
const FREE_MAX: usize = 8 << 20;

/// The points of a program, and how many were left out.
pub fn points(operations: &Operations, model: &Model) -> (Vec<Point>, usize) {
    let moments = moments(operations);
    let mut run = Run::new(operations, model);
    let (mut all, mut held, mut left_out) = (Vec::new(), 0, 0);
    let worst = operations.all.len() + operations.inodes + 1;
    let stride = (moments.len() * worst / FREE_MAX).max(1);
    for (number, moment) in moments.iter().enumerate() {
        run.until(*moment);
        let is_last = number + 1 == moments.len();
        if number % stride != 0 && !is_last || held > FREE_MAX {
            left_out += 1;
            continue;
        }
        let point = run.point(*moment);
        held += point.free.len();
        all.push(point);
    }
    (all, left_out)
}

/// The moment just before a time.
pub(super) fn point_at(operations: &Operations, model: &Model, at_ns: u64) -> Point {
    let mut run = Run::new(operations, model);
    run.until(at_ns);
    run.point(at_ns)
}

/// When points are.
fn moments(operations: &Operations) -> Vec<u64> {
    let syncs = operations.syncs.iter().map(|sync| sync.end_ns).filter(|end_ns| *end_ns != NEVER);
    let mut all: Vec<u64> = syncs.chain(operations.acks.iter().map(|ack| ack.at_ns)).collect();
    all.push(operations.end_ns);
    all.sort_unstable();
    all.dedup();
    all
}

/// Follows syncs through time.
struct Run<'a> {
    operations: &'a Operations,
    model: &'a Model,
    covered: Bits,
    loose: Bits,
    /// By their end.
    syncs: Vec<Sync>,
    next: usize,
    /// When syncs of files began, and on which file systems.
    file_syncs: Vec<(u64, u32)>,
    /// When the first sync of a file had ended.
    first_sync: FxHashMap<Inode, u64>,
    next_log: usize,
    /// Everything below this number is covered: passes begin there.
    low: u32,
    /// From each number on, the earliest end: the order of ends is nearly, not quite, that of the numbers.
    earliest: Vec<u64>,
}

impl<'a> Run<'a> {
    fn new(operations: &'a Operations, model: &'a Model) -> Self {
        let mut syncs = operations.syncs.clone();
        syncs.sort_by_key(|sync| sync.end_ns);
        let (mut file_syncs, mut first_sync) = (Vec::new(), FxHashMap::default());
        for sync in &syncs {
            if let What::File { inode, .. } = sync.what {
                file_syncs.push((sync.begin_ns, sync.device.unwrap_or(0)));
                first_sync.entry(inode).or_insert(sync.end_ns);
            }
        }
        file_syncs.sort_unstable();
        let mut earliest: Vec<u64> = operations.all.iter().map(|micro| micro.end_ns).collect();
        for at in (1..earliest.len()).rev() {
            earliest[at - 1] = earliest[at - 1].min(earliest[at]);
        }
        let empty = Bits::new(operations.all.len());
        let (covered, loose) = (empty.clone(), empty);
        Self {
            operations,
            model,
            covered,
            loose,
            syncs,
            next: 0,
            file_syncs,
            first_sync,
            next_log: 0,
            low: 0,
            earliest,
        }
    }

    /// Everything that has happened before a moment.
    fn until(&mut self, at_ns: u64) {
        if self.model.volatile {
            return;
        }
        while let Some(sync) = self.syncs.get(self.next).copied().filter(|sync| sync.end_ns < at_ns) {
            self.next += 1;
            self.cover(&sync);
        }
        if self.model.log_takes_names {
            while let Some((begin_ns, device)) =
                self.file_syncs.get(self.next_log).copied().filter(|(begin_ns, _)| *begin_ns < at_ns)
            {
                self.log_names(begin_ns, device);
                self.next_log += 1;
            }
        }
    }

    /// A sync of any file takes the new names of files of its file system that were synced before they got them.
    fn log_names(&mut self, begin_ns: u64, device: u32) {
        for number in self.low..self.ended(begin_ns) {
            let micro = &self.operations.all[number as usize];
            let Change::Names { subject, .. } = micro.change else { continue };
            let mut named = micro.given().map(|(_, inode)| inode).chain([subject]);
            let logged =
                named.any(|inode| self.first_sync.get(&inode).is_some_and(|end| *end < micro.begin_ns));
            let is_here = micro.device == device && micro.end_ns < begin_ns;
            if is_here && !self.covered.has(number) && logged {
                self.loose.add(number);
            }
        }
    }

    /// Behind this number, nothing had ended at a time.
    fn ended(&self, at_ns: u64) -> u32 {
        self.earliest.partition_point(|end_ns| *end_ns <= at_ns) as u32
    }

    fn cover(&mut self, sync: &Sync) {
        let checkpoint = self.is_checkpoint(sync);
        let mut new = Bits::new(self.operations.all.len());
        let mut loose = Vec::new();
        let end = self.ended(sync.end_ns);
        for number in self.low..end {
            let micro = &self.operations.all[number as usize];
            let own = micro.call == sync.call;
            let elsewhere = sync.device.is_some_and(|device| device != micro.device);
            if elsewhere || (micro.end_ns >= sync.begin_ns && !own) || self.covered.has(number) {
                continue;
            }
            if self.takes(sync, number, own) || checkpoint && micro.is_metadata() {
                new.add(number);
                loose.push(number);
            }
        }
        let own = matches!(sync.what, What::File { .. }) && self.model.file_sync == FileSync::Own
            || matches!(sync.what, What::All | What::Device(_))
            || self.model.folder_sync == FolderSync::Entries && matches!(sync.what, What::Folder(_));
        match sync.what {
            What::File { inode, .. } if self.model.file_sync == FileSync::Journal => {
                let last = self.last_change(sync, inode);
                if let Some(number) = last {
                    new.add(number);
                }
            }
            What::File { inode, .. } | What::Folder(inode) if self.logs_names(sync) => {
                for number in self.above(sync, inode) {
                    new.add(number);
                    loose.push(number);
                }
            }
            What::Folder(inode) if self.model.folder_sync == FolderSync::Journal => {
                let last = self.before(sync).filter(|(_, micro)| {
                    micro.is_in(inode) || micro.is_of(inode) && micro.is_metadata() || leaves(micro, inode)
                });
                let last = last.last().map(|(number, _)| number);
                if let Some(number) = last {
                    new.add(number);
                }
            }
            _ => {}
        }
        if own && self.model.names != Order::Any {
            for number in loose {
                self.loose.add(number);
            }
        }
        let begun: Vec<u32> = (self.low..end).filter(|number| !self.covered.has(*number)).collect();
        let mut closure = Closure::new(self.operations, self.model, &self.loose, &begun);
        closure.fill(&mut new);
        for number in begun {
            if new.has(number) {
                self.covered.add(number);
            }
        }
        while (self.low as usize) < self.operations.all.len() && self.covered.has(self.low) {
            self.low += 1;
        }
    }

    /// Whether a sync covers the names of what is synced and new folders above it, whatever is older.
    fn logs_names(&self, sync: &Sync) -> bool {
        match sync.what {
            What::File { .. } => self.model.file_sync == FileSync::Own,
            What::Folder(_) => {
                self.model.folder_sync == FolderSync::Entries && self.model.names == Order::One
            }
            What::Device(_) | What::All => false,
        }
    }

    /// Whether a sync of a file covers all names and attributes, where a model does that for want of another way.
    fn is_checkpoint(&self, sync: &Sync) -> bool {
        let What::File { inode, of_write: false, .. } = sync.what else { return false };
        let is_new = |number: &u32| !self.covered.has(*number);
        self.model.checkpoints && (sync.links > 1 || self.above(sync, inode).iter().any(is_new))
    }

    /// What had ended before a sync began.
    fn before(&self, sync: &Sync) -> impl Iterator<Item = (u32, &'a Micro)> + '_ {
        let (begin_ns, call) = (sync.begin_ns, sync.call);
        let all = self.operations.all.iter().enumerate().skip(self.low as usize);
        let all = all.map(|(number, micro)| (number as u32, micro));
        all.filter(move |(_, micro)| micro.end_ns < begin_ns || micro.call == call)
    }

    /// Whether a sync takes a micro-operation for what it is itself.
    fn takes(&self, sync: &Sync, number: u32, own: bool) -> bool {
        let micro = &self.operations.all[number as usize];
        match sync.what {
            What::All | What::Device(_) => true,
            What::Folder(inode) => match self.model.folder_sync {
                FolderSync::All => micro.is_metadata(),
                _ => {
                    let is_own = match micro.change {
                        Change::Names { leads, .. } => leads.is_some() && self.logs_names(sync),
                        _ => true,
                    };
                    micro.is_in(inode) || micro.is_of(inode) && is_own
                }
            },
            What::File { inode, data_only, range, of_write } => {
                if !micro.is_of(inode) || !self.is_synced(sync, inode) {
                    return false;
                }
                match &micro.change {
                    Change::Data { offset, bytes, .. } => match range {
                        _ if of_write => own,
                        Some((from, to)) => *offset < to && offset + bytes.len > from,
                        None => true,
                    },
                    // What reading the data needs.
                    Change::Extend { .. } => own || self.is_needed(sync, number),
                    Change::Cut { .. } | Change::Zero { .. } => true,
                    Change::Set(_) => !data_only,
                    Change::Names { makes, leads, .. } => {
                        self.model.file_sync == FileSync::Own
                            && (*makes || self.model.datasync_counts_names || !data_only)
                            && leads.is_some()
                    }
                }
            }
        }
    }

    /// Whether a sync covers a size that another call has moved. A write that syncs itself covers it if what was written needs it,
    /// and where a journal has it at once: within a block that was allocated.
    fn is_needed(&self, sync: &Sync, extend: u32) -> bool {
        let What::File { range: Some((start, end)), of_write: true, .. } = sync.what else { return true };
        let all = &self.operations.all;
        let Change::Extend { from, inside, .. } = all[extend as usize].change else { return true };
        let is_at_once = inside && matches!(self.model.size_after, SizeAfter::Nothing | SizeAfter::Allocated);
        // The data of an extend stands just before it: what writes that page moves the size.
        let is_page = matches!(all[extend as usize - 1].change,
            Change::Data { offset, .. } if (start / BLOCK..end.div_ceil(BLOCK)).contains(&(offset / BLOCK)));
        is_at_once || is_page || from < end
    }

    /// Whether a sync of a file covers anything: where that needs a name, the file must have one.
    fn is_synced(&self, sync: &Sync, inode: Inode) -> bool {
        if self.model.syncs_unnamed || !self.operations.unnamed.contains(&inode) {
            return true;
        }
        let own = self.operations.of_inode.get(&inode).into_iter().flatten();
        let mut own = own.map(|number| &self.operations.all[*number as usize]);
        own.any(|micro| matches!(micro.change, Change::Names { .. }) && micro.end_ns < sync.begin_ns)
    }

    /// The last change of a file that the journal has, as a sync of it counts them.
    fn last_change(&self, sync: &Sync, inode: Inode) -> Option<u32> {
        let What::File { data_only, of_write, .. } = sync.what else { return None };
        let counts = |number: u32, micro: &Micro| match &micro.change {
            Change::Names { makes, .. } => *makes || !data_only || self.model.datasync_counts_names,
            Change::Set(_) => !data_only,
            Change::Cut { .. } | Change::Zero { .. } => true,
            Change::Extend { .. } => micro.call == sync.call || self.is_needed(sync, number),
            Change::Data { .. } if self.model.shares && micro.shared.is_some() => true,
            Change::Data { fresh, .. } => *fresh && (!of_write || micro.call == sync.call),
        };
        let own = self.before(sync);
        let own = own.filter(|(number, micro)| micro.is_of(inode) && counts(*number, micro));
        own.last().map(|(number, _)| number)
    }

    /// The folders above the names of a file or folder that are new.
    fn above(&self, sync: &Sync, inode: Inode) -> Vec<u32> {
        let (mut all, mut waiting, mut seen) = (Vec::new(), vec![inode], vec![inode]);
        while let Some(inode) = waiting.pop() {
            for (number, micro) in self.before(sync) {
                for (entry, _) in micro.given().filter(|(_, given)| *given == inode) {
                    if inode != seen[0] {
                        all.push(number);
                    }
                    if !seen.contains(&entry.0) {
                        seen.push(entry.0);
                        waiting.push(entry.0);
                    }
                }
            }
            let made = self.operations.of_inode.get(&inode).into_iter().flatten();
            for number in made {
                if let Change::Names { entry, makes: true, .. } =
                    &self.operations.all[*number as usize].change
                    && !seen.contains(&entry.0)
                {
                    seen.push(entry.0);
                    waiting.push(entry.0);
                }
            }
        }
        all
    }

    fn point(&self, at_ns: u64) -> Point {
        let begun = (self.low..self.operations.all.len() as u32).filter(|number| {
            self.operations.all[*number as usize].begin_ns < at_ns && !self.covered.has(*number)
        });
        let free = if self.model.volatile { Vec::new() } else { begun.collect() };
        let acks = self.operations.acks.iter().take_while(|ack| ack.at_ns < at_ns).count();
        Point { at_ns, covered: self.covered.clone(), loose: self.loose.clone(), free, acks }
    }
}

/// Whether a rename takes a name out of a folder.
fn leaves(micro: &Micro, folder: Inode) -> bool {
    matches!(&micro.change, Change::Names { other: Some((other, _)), .. } if other.0 == folder)
}

/// Whether a number is one.
pub(super) fn some(number: u32) -> Option<u32> {
    Some(number).filter(|number| *number != NONE)
}
