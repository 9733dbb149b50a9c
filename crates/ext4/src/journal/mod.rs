//! The journal: jbd2's format and its order of writes.
//!
//! Every change of metadata is made inside a [`Handle`], which belongs to the running transaction. A commit closes it:
//!
//! | step | what | why |
//! |---|---|---|
//! | 1 | no new handle; those that are open end | a transaction is all or nothing |
//! | 2 | its blocks are copied; handles begin again, in the next transaction | what comes later must not be in it |
//! | 3 | ordered mode: data of files that got blocks or grew is written | no file shows what was there |
//! | 4 | revoke records, descriptors and blocks go to the log; a flush | |
//! | 5 | the commit block, with FUA | now it has happened |
//! | 6 | blocks that it freed may be used again | not earlier: a crash would bring their old owner back |
//!
//! A committed block goes home at a checkpoint: when the log is short of space, half a minute later, and at the end. It goes home
//! as the last transaction that has committed has it, from the copy that was logged, so that an open transaction never leaks.
//!
//! A block that was freed is revoked: a replay must not write an old transaction's metadata over what the block became.
//!
//! Lock order: `ext4.commit`, then pages, then `ext4.journal`. A task that has a handle does not begin another.
//!
//! Source: S. Tweedie, "Journaling the Linux ext2fs Filesystem" (LinuxExpo 1998); the format in `format.rs`.

pub(crate) mod attach;
pub(crate) mod credits;
mod external;
pub(crate) mod fast;
pub(crate) mod format;
pub(crate) mod recovery;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use media::block::{Hint, Piece, Queue};
use media::event::Mark;
use sim::map::{TreeMap, TreeSet};
use sim::{ByteRun, Condvar, LockClass, Mutex, MutexGuard, Nanos, Work, ran};
use vfs::Timestamp;

use super::{Volume, mutant};
use base::cache::{Mapping, Page};
use base::error::{Error, Result};
use design::Mutant;
pub use external::journal_uuid;
pub(crate) use external::make as make_external;
use format::{
    COMMIT, DESCRIPTOR, Format, HEADER_BYTES, MAGIC, REVOKE, REVOKE_HEADER_BYTES, SUPERBLOCK_BYTES,
    TAG_ESCAPED, TAG_LAST, TAG_SAME_UUID, Tag, be32, put_be32, superblock_checksum,
};

pub(super) static COMMIT_LOCK: LockClass = LockClass::new("ext4.commit").under(&[&super::INODE]);
pub(super) static STATE: LockClass =
    LockClass::new("ext4.journal").under(&[&super::SUPERBLOCK, &COMMIT_LOCK]);
pub(super) static WAIT: LockClass = LockClass::new("ext4.journal_wait");

/// What happens to file data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataMode {
    /// It is written before the transaction that made its blocks the file's.
    Ordered,
    /// It is written at any time.
    Writeback,
    /// It goes through the journal.
    Journal,
}

/// Where the blocks of the journal are on its device.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalMap(pub(crate) Vec<u64>);

/// The journal of a mounted file system.
pub(crate) struct Journal {
    /// The device that the log is on.
    log: Queue,
    /// The device of the file system.
    home: Queue,
    map: JournalMap,
    pub(crate) format: Format,
    pub(crate) mode: DataMode,
    mutant: Option<Mutant>,
    commit: Mutex<()>,
    state: Mutex<State>,
    /// Mappings whose data the commit under way may still have to write. A look takes a lock of the host.
    committing: parking_lot::Mutex<Vec<Arc<Mapping>>>,
    changed: Condvar,
}

struct State {
    running: Option<Running>,
    /// The last transaction that has begun: it runs, is being committed, or has committed.
    last_tid: u32,
    /// The number of the next transaction in the log. Transactions that log nothing have none.
    sequence: u32,
    /// The last transaction that is durable.
    committed: u32,
    /// A commit waits for the open handles.
    closing: bool,
    /// Where the next transaction goes.
    head: u32,
    /// Blocks of the log in use.
    used: u32,
    /// The log's superblock says that there is nothing to replay.
    empty: bool,
    /// Committed blocks that are not home: as they were committed.
    checkpoint: TreeMap<u64, (Arc<[u8]>, Arc<Page>)>,
    /// When the first of them was committed.
    waiting_since: Option<Nanos>,
    superblock: Vec<u8>,
    failed: bool,
}

struct Running {
    tid: u32,
    handles: u32,
    reserved: u32,
    pages: TreeMap<u64, Arc<Page>>,
    revoked: TreeSet<u64>,
    ordered: TreeMap<u64, Arc<Mapping>>,
    freed: Vec<(u64, u32)>,
    begun: Nanos,
}

/// The right to change metadata: part of a transaction, or nothing where there is no journal.
pub(crate) struct Handle<'a> {
    journal: Option<&'a Journal>,
    /// Counts the handles of a mounted file system.
    open: Option<&'a AtomicU32>,
    credits: u32,
    pub(crate) tid: u32,
    /// It takes blocks that were reserved before.
    promised: bool,
}

impl<'a> Handle<'a> {
    /// Without a journal, of a file system that is not mounted.
    pub(crate) fn none() -> Self {
        Self { journal: None, open: None, credits: 0, tid: 0, promised: false }
    }

    pub(crate) fn journal(&self) -> Option<&'a Journal> {
        self.journal
    }

    /// The same for blocks that were reserved before.
    pub(crate) fn reserved(mut self) -> Self {
        self.promised = true;
        self
    }

    /// Whether its blocks were reserved before.
    pub(crate) fn is_promised(&self) -> bool {
        self.promised
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open {
            open.fetch_sub(1, Relaxed);
        }
        let Some(journal) = self.journal else { return };
        let mut state = journal.state.lock();
        let closing = state.closing;
        if let Some(running) = &mut state.running {
            running.handles -= 1;
            running.reserved -= self.credits;
            if running.handles == 0 && closing {
                drop(state);
                journal.changed.notify_all();
            }
        }
    }
}

impl Journal {
    /// A journal whose log is empty, by its superblock's bytes.
    pub(crate) fn new(
        (log, home): (Queue, Queue),
        map: JournalMap,
        format: Format,
        superblock: Vec<u8>,
        (mode, mutant): (DataMode, Option<Mutant>),
    ) -> Self {
        let state = State {
            running: None,
            last_tid: 0,
            sequence: be32(&superblock, 0x18).max(1),
            committed: 0,
            closing: false,
            head: format.first,
            used: 0,
            empty: true,
            checkpoint: TreeMap::new(),
            waiting_since: None,
            superblock,
            failed: false,
        };
        Self {
            log,
            home,
            map,
            format,
            mode,
            mutant,
            commit: Mutex::new(&COMMIT_LOCK, ()),
            state: Mutex::new(&STATE, state),
            committing: parking_lot::Mutex::default(),
            changed: Condvar::of_class(&WAIT),
        }
    }

    /// Most blocks of one transaction: a quarter of the log, as in jbd2.
    fn most(&self) -> u32 {
        self.format.len() / 4
    }

    /// The most blocks that one change may free where each is revoked: their revokes fill an eighth of a transaction.
    pub(crate) fn revokes_of_one_change(&self) -> u64 {
        u64::from(self.most()).div_ceil(8) * self.format.revokes_per_block() as u64
    }

    /// Blocks of the log that the running transaction needs for what it has changed.
    fn needed(&self, running: &Running) -> usize {
        running.pages.len() + running.revoked.len().div_ceil(self.format.revokes_per_block())
    }

    /// Adds a page, whose lock the caller holds, to the running transaction as the content of `block`.
    pub(crate) fn add_as(&self, block: u64, page: &Arc<Page>) {
        let mut state = self.state.lock();
        let running = state.running.as_mut().expect("a handle is open, so its transaction runs");
        running.revoked.remove(&block);
        if running.pages.insert(block, Arc::clone(page)).is_none() {
            page.pin();
        }
    }

    /// A block of metadata is freed.
    pub(crate) fn revoke(&self, block: u64, _page: Option<&Arc<Page>>) {
        let mut state = self.state.lock();
        let running = state.running.as_mut().expect("a handle is open, so its transaction runs");
        if let Some(page) = running.pages.remove(&block) {
            page.unpin();
        }
        if !self.has(mutant::REVOKE_LEFT_OUT) {
            running.revoked.insert(block);
        }
    }

    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// How many blocks it has.
    pub(crate) fn blocks(&self) -> u64 {
        self.map.0.len() as u64
    }

    /// Whether the log has room for what the running transaction has changed.
    pub(crate) fn running_fits(&self) -> bool {
        let state = self.state.lock();
        let Some(running) = &state.running else { return true };
        let descriptors = running.pages.len().div_ceil(self.format.tags_per_block());
        self.needed(running) + descriptors < self.format.len() as usize
    }

    /// Blocks that become free when the running transaction has committed.
    pub(crate) fn free_later(&self, start: u64, count: u32) {
        let mut state = self.state.lock();
        let running = state.running.as_mut().expect("a handle is open, so its transaction runs");
        ran::push(&mut running.freed, (start, count));
    }

    /// Data of the mapping must be written before the running transaction commits.
    pub(crate) fn order(&self, mapping: &Arc<Mapping>) {
        let mut state = self.state.lock();
        let running = state.running.as_mut().expect("a handle is open, so its transaction runs");
        // A removed file may have left its number to this one.
        running.ordered.insert(mapping.number(), Arc::clone(mapping));
    }

    /// The last transaction that has begun: every change so far is in it or in one before it. It may be closed already, and its
    /// commit under way.
    pub(crate) fn last_tid(&self) -> u32 {
        self.state.lock().last_tid
    }

    /// When the running transaction began.
    pub(crate) fn running_since(&self) -> Option<Nanos> {
        self.state.lock().running.as_ref().map(|running| running.begun)
    }

    /// When the first of the committed blocks that are not home was committed.
    pub(crate) fn waiting_since(&self) -> Option<Nanos> {
        self.state.lock().waiting_since
    }

    /// How many committed blocks are not home. Each is in memory twice: its page, and the copy that was logged.
    pub(crate) fn waiting_blocks(&self) -> u64 {
        self.state.lock().checkpoint.len() as u64
    }

    /// Whether a transaction is durable.
    pub(crate) fn has_committed(&self, tid: u32) -> bool {
        self.state.lock().has_committed(tid)
    }

    fn piece_offset(&self, block: u32) -> Result<u64> {
        let at = self.map.0.get(block as usize).copied();
        let at = at.ok_or_else(|| Error::Corrupt(format!("the journal has no block {block}")))?;
        Ok(at * u64::from(self.format.block_bytes))
    }

    /// Writes blocks to the log from `head` on; returns where the next goes.
    fn write_log(&self, mut head: u32, blocks: &[Cow<'_, [u8]>], fua: bool) -> Result<u32> {
        ran::allocate(1);
        let mut pieces = Vec::with_capacity(blocks.len());
        for data in blocks {
            pieces.push(Piece { off: self.piece_offset(head)?, data, hint: Hint::None });
            head = self.format.after(head);
        }
        self.log.write(&pieces, fua)?;
        Ok(head)
    }

    /// Writes the journal's superblock: where a replay starts; 0: there is nothing to replay.
    fn write_superblock(&self, state: &mut State, start: u32, sequence: u32) -> Result<()> {
        put_be32(&mut state.superblock, 0x18, sequence);
        put_be32(&mut state.superblock, 0x1c, start);
        if self.format.has_checksums() {
            let checksum = superblock_checksum(&state.superblock);
            put_be32(&mut state.superblock, 0xfc, checksum);
        }
        state.empty = start == 0;
        let off = self.piece_offset(0)?;
        let mut data = ran::zeroed(self.format.block_bytes as usize);
        data[..state.superblock.len()].copy_from_slice(&state.superblock);
        self.log.write(&[Piece { off, data: &data, hint: Hint::None }], true)?;
        Ok(())
    }

    /// Writes all committed blocks home and empties the log. The caller has the commit lock.
    fn checkpoint(&self) -> Result<()> {
        let blocks = {
            let state = self.state.lock();
            let all = state.checkpoint.iter();
            ran::collected(all.map(|(block, (data, page))| (*block, Arc::clone(data), Arc::clone(page))))
        };
        if self.has(mutant::TAIL_BEFORE_HOME) {
            let mut state = self.state.lock();
            let sequence = state.sequence;
            self.write_superblock(&mut state, 0, sequence)?;
        }
        let size = u64::from(self.format.block_bytes);
        for batch in blocks.chunks(256) {
            let piece = |(block, data, _): &'_ (u64, Arc<[u8]>, Arc<Page>)| (block * size, Arc::clone(data));
            let pieces = ran::collected(batch.iter().map(piece));
            let pieces = pieces.iter().map(|(off, data)| Piece { off: *off, data, hint: Hint::None });
            let pieces = ran::collected(pieces);
            self.home.write(&pieces, false)?;
        }
        if !self.has(mutant::CHECKPOINT_WITHOUT_FLUSH) {
            self.home.device().flush()?;
        }
        let mut state = self.state.lock();
        state.waiting_since = None;
        for (block, data, page) in &blocks {
            page.unpin();
            if state.checkpoint.get(block).is_some_and(|(now, _)| Arc::ptr_eq(now, data)) {
                state.checkpoint.remove(block);
            }
        }
        (state.used, state.head) = (0, self.format.first);
        let sequence = state.sequence;
        self.write_superblock(&mut state, 0, sequence)
    }

    /// The log's blocks of a transaction, but for the commit block.
    fn log_blocks<'a>(
        &self,
        sequence: u32,
        copies: &'a [(u64, Arc<[u8]>)],
        revoked: &TreeSet<u64>,
    ) -> Vec<Cow<'a, [u8]>> {
        let format = &self.format;
        let mut blocks = Vec::new();
        let revoked = ran::collected(revoked.iter().copied());
        for chunk in revoked.chunks(format.revokes_per_block()) {
            let mut block = format.header(REVOKE, sequence);
            let bytes = format.revoke_bytes();
            put_be32(&mut block, HEADER_BYTES, (REVOKE_HEADER_BYTES + chunk.len() * bytes) as u32);
            for (index, number) in chunk.iter().enumerate() {
                let at = REVOKE_HEADER_BYTES + index * bytes;
                block[at..at + bytes].copy_from_slice(&number.to_be_bytes()[8 - bytes..]);
            }
            format.seal_tail(&mut block);
            ran::push(&mut blocks, Cow::Owned(block));
        }
        for chunk in copies.chunks(format.tags_per_block()) {
            let mut block = format.header(DESCRIPTOR, sequence);
            let mut at = HEADER_BYTES;
            ran::allocate(1);
            let mut logged = Vec::with_capacity(chunk.len());
            for (index, (number, data)) in chunk.iter().enumerate() {
                let escaped = be32(data, 0) == MAGIC;
                let last = if index + 1 == chunk.len() { TAG_LAST } else { 0 };
                let same = if index > 0 { TAG_SAME_UUID } else { 0 };
                let flags = last | same | if escaped { TAG_ESCAPED } else { 0 };
                let mut data = Cow::Borrowed(&**data);
                if escaped {
                    put_be32(data.to_mut(), 0, 0);
                }
                let checksum = format.data_checksum(sequence, &data);
                format.write_tag(&mut block[at..], Tag { block: *number, flags, checksum });
                at += format.tag_bytes();
                if index == 0 {
                    block[at..at + 16].copy_from_slice(&format.uuid);
                    at += 16;
                }
                logged.push(data);
            }
            format.seal_tail(&mut block);
            ran::push(&mut blocks, Cow::Owned(block));
            ran::allocate(u64::from(blocks.len() + logged.len() > blocks.capacity()));
            blocks.append(&mut logged);
        }
        blocks
    }

    /// Waits until the handles of the running transaction have ended, and takes it.
    fn close(&self, target: u32) -> Result<Option<Running>> {
        let mut state = self.state.lock();
        if state.failed {
            return Err(Error::Failed);
        }
        if state.has_committed(target) || state.running.is_none() {
            return Ok(None);
        }
        state.closing = true;
        while state.running.as_ref().is_some_and(|running| running.handles > 0) {
            state = self.changed.wait(state);
        }
        let running = state.running.take();
        let ordered = running.iter().flat_map(|running| running.ordered.values());
        let ordered = ran::collected(ordered.map(Arc::clone));
        *self.committing.lock() = ordered;
        Ok(running)
    }

    /// Whether the commit under way may still have to write data of the mapping.
    fn may_write(&self, mapping: &Arc<Mapping>) -> bool {
        self.committing.lock().iter().any(|other| Arc::ptr_eq(other, mapping))
    }

    fn reopen(&self) {
        self.state.lock().closing = false;
        self.changed.notify_all();
    }

    /// Steps 4 and 5.
    fn write_transaction(&self, running: &Running, copies: &[(u64, Arc<[u8]>)]) -> Result<()> {
        let sequence = self.state.lock().sequence;
        let blocks = self.log_blocks(sequence, copies, &running.revoked);
        let needed = blocks.len() as u32 + 1;
        if self.state.lock().used + needed > self.format.len() {
            self.checkpoint()?;
        }
        if needed > self.format.len() {
            return Err(Error::Corrupt(format!(
                "a transaction of {needed} blocks is larger than the journal"
            )));
        }
        let head = {
            let mut state = self.state.lock();
            let head = state.head;
            if state.empty {
                self.write_superblock(&mut state, head, sequence)?;
            }
            head
        };
        let first = head;
        let head = self.write_log(head, &blocks, false)?;
        self.flush_before_commit()?;
        let mut commit = self.format.header(COMMIT, sequence);
        let now = Timestamp::now();
        commit[0x30..0x38].copy_from_slice(&now.secs.to_be_bytes());
        put_be32(&mut commit, 0x38, now.nanos);
        self.format.seal_commit(&mut commit);
        self.mark_commit((first, head))?;
        let head = self.write_log(head, &[Cow::Owned(commit)], !self.has(mutant::COMMIT_WITHOUT_FUA))?;
        let mut state = self.state.lock();
        state.head = head;
        state.used += needed;
        state.sequence = sequence.wrapping_add(1).max(1);
        Ok(())
    }

    /// Makes the log and the data of ordered files survive a power loss, before the commit block says that they count.
    fn flush_before_commit(&self) -> Result<()> {
        let (home, log) = (self.home.device(), self.log.device());
        if self.has(mutant::COMMIT_WITHOUT_FLUSH) {
            return Ok(());
        }
        if home.geometry().volatile_cache {
            home.flush()?;
        }
        if log.geometry().volatile_cache && !Arc::ptr_eq(home, log) {
            log.flush()?;
        }
        Ok(())
    }

    /// Says that the next write, of the commit block at `end`, makes the blocks of the log from `first` on count.
    fn mark_commit(&self, (first, end): (u32, u32)) -> Result<()> {
        let size = u64::from(self.format.block_bytes);
        let (mut needs, mut at) = (Vec::new(), first);
        while at != end {
            ran::push(&mut needs, ByteRun::new(self.piece_offset(at)?, size));
            at = self.format.after(at);
        }
        let at = self.piece_offset(end)?;
        let needs: &[_] = &needs;
        let checked = self.format.has_checksums();
        let mark = if checked { Mark::CommitBlock { at, needs } } else { Mark::Commit { at, needs } };
        self.log.device().port().mark(mark);
        Ok(())
    }

    /// After step 5: what was logged waits to go home.
    fn committed(&self, running: &mut Running, copies: Vec<(u64, Arc<[u8]>)>) {
        let mut state = self.state.lock();
        state.committed = running.tid;
        for block in &running.revoked {
            if let Some((_, page)) = state.checkpoint.remove(block) {
                page.unpin();
            }
        }
        for (block, data) in copies {
            let Some(page) = running.pages.remove(&block) else { continue };
            state.waiting_since.get_or_insert_with(sim::now);
            if let Some((_, older)) = state.checkpoint.insert(block, (data, page)) {
                older.unpin();
            }
        }
    }
}

impl State {
    fn has_committed(&self, tid: u32) -> bool {
        self.committed.wrapping_sub(tid).cast_signed() >= 0
    }
}

impl Volume {
    /// Begins a change of metadata that touches at most `credits` blocks. Waits for a commit when the transaction is full.
    pub(crate) fn begin(&self, credits: u32) -> Result<Handle<'_>> {
        let _part = sim::part(&super::parts::HANDLE);
        self.check_running()?;
        let open = Some(&self.handles);
        let Some(journal) = &self.journal else {
            self.handles.fetch_add(1, Relaxed);
            return Ok(Handle { open, ..Handle::none() });
        };
        let credits = credits.min(journal.most());
        ran::handle(credits.into());
        let mut state = journal.state.lock();
        loop {
            if state.failed {
                return Err(Error::Failed);
            }
            if state.closing {
                state = journal.changed.wait(state);
                continue;
            }
            if state.running.is_none() {
                state.last_tid = state.last_tid.wrapping_add(1).max(1);
                state.running = Some(Running::new(state.last_tid));
            }
            let running = state.running.as_mut().expect("just made");
            let tid = running.tid;
            if journal.needed(running) as u32 + running.reserved + credits <= journal.most()
                || running.is_unused()
            {
                running.handles += 1;
                ran::did(Work::HANDLE, credits.into());
                running.reserved += credits;
                self.handles.fetch_add(1, Relaxed);
                return Ok(Handle { journal: Some(journal), open, credits, tid, promised: false });
            }
            drop(state);
            self.commit(tid)?;
            state = journal.state.lock();
        }
    }

    /// Makes transaction `tid` and all before it durable. The caller has no handle. False: another task has committed it, and may
    /// have flushed the device before the caller's data had arrived there.
    pub(crate) fn commit(&self, tid: u32) -> Result<bool> {
        let Some(journal) = &self.journal else { return Ok(false) };
        let _scope = sim::scope(media::charges::JOURNAL);
        let guard = journal.commit.lock();
        let result = self.commit_locked(journal, &guard, tid);
        if let Err(error) = &result {
            journal.state.lock().failed = true;
            journal.reopen();
            self.stop(&format!("journal: {error}"));
        }
        result
    }

    fn commit_locked(&self, journal: &Journal, _: &MutexGuard<'_, ()>, tid: u32) -> Result<bool> {
        let Some(mut running) = journal.close(tid)? else { return Ok(false) };
        let copy = |(block, page): (&u64, &Arc<Page>)| {
            ran::allocate(1);
            (*block, Arc::from(&*page.state.read().bytes))
        };
        let copies: Vec<(u64, Arc<[u8]>)> = ran::collected(running.pages.iter().map(copy));
        journal.reopen();
        let late = self.has(mutant::DATA_AFTER_COMMIT);
        if !late {
            self.write_ordered(&running)?;
        }
        if copies.is_empty() && running.revoked.is_empty() {
            // The caller may have written data that nothing else flushes.
            self.device.flush()?;
        } else {
            journal.write_transaction(&running, &copies)?;
        }
        if late {
            self.write_ordered(&running)?;
        }
        journal.committed(&mut running, copies);
        self.release_freed(&running.freed);
        Ok(true)
    }

    /// Step 3: data of the files that the transaction has made larger, or given blocks to.
    fn write_ordered(&self, running: &Running) -> Result<()> {
        running.ordered.values().try_for_each(|mapping| self.write_data(mapping))?;
        if let Some(journal) = &self.journal {
            journal.committing.lock().clear();
        }
        Ok(())
    }

    /// Before a change that gives blocks of a file up, for which a handle is open. If the change is lost, the file has the blocks
    /// that the commit under way gives it, so their data is written first (Linux: `jbd2_journal_begin_ordered_truncate`).
    pub(crate) fn write_for_commit(&self, mapping: &Arc<Mapping>) -> Result<()> {
        let Some(journal) = self.journal.as_ref().filter(|journal| journal.may_write(mapping)) else {
            return Ok(());
        };
        self.write_data(mapping).inspect_err(|error| {
            journal.state.lock().failed = true;
            self.stop(&format!("data of a commit: {error}"));
        })
    }

    /// Writes home what has committed and empties the log; if that fails, all changes stop.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let _scope = sim::scope(media::charges::JOURNAL);
        let _guard = journal.commit.lock();
        journal.checkpoint().inspect_err(|error| {
            journal.state.lock().failed = true;
            self.stop(&format!("checkpoint: {error}"));
        })
    }

    /// Makes everything durable that was changed so far; with `home`, also writes it home and empties the log.
    pub(crate) fn commit_all(&self, home: bool) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        self.commit(journal.last_tid())?;
        if home { self.checkpoint() } else { Ok(()) }
    }
}

impl Running {
    fn new(tid: u32) -> Self {
        Self {
            tid,
            handles: 0,
            reserved: 0,
            pages: TreeMap::new(),
            revoked: TreeSet::new(),
            ordered: TreeMap::new(),
            freed: Vec::new(),
            begun: sim::now(),
        }
    }

    fn is_unused(&self) -> bool {
        self.handles == 0 && self.pages.is_empty() && self.revoked.is_empty()
    }
}

/// The bytes of a superblock for an empty journal of `blocks` blocks.
pub(crate) fn new_superblock(block_bytes: u32, blocks: u32, uuid: &[u8; 16]) -> Vec<u8> {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    for (at, value) in [
        (0, MAGIC),
        (4, format::SUPERBLOCK_V2),
        (0xc, block_bytes),
        (0x10, blocks),
        (0x14, 1),
        (0x18, 1),
        (0x40, 1),
    ] {
        put_be32(&mut bytes, at, value);
    }
    bytes[0x30..0x40].copy_from_slice(uuid);
    bytes
}
