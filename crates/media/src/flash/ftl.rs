//! The translation layer: lines of flash, their open ends, and the page map.
//!
//! A *line* (super-block) is written from its first page to its last and erased as a whole. Lines belong to a *group* of dies:
//!
//! | allocation | groups of a partition | a line is |
//! |---|---|---|
//! | off | one, of all its dies | the same block of each die; one-shot pages go round the dies, channel first |
//! | on | one for each die | one block |
//!
//! So a page's number within its line says where it is: `i / oneshot` is the one-shot page, the remainder by the number of dies
//! is the die. A group has two open lines, one for hosts and one for collection, a list of free lines in the order in which
//! they became free, and the lines that are full.
//!
//! The *place* of a page is 32 bits: the number of a *slot* and the page within the line. A line has a slot while it holds a
//! valid page; the slot holds the reverse map, page by page as they are written. A page is valid when the map and the reverse
//! map agree, which needs no bitmap. Places and names cost 4 + 4 bytes for a page that was written, and nothing for others.
//!
//! References: NVMeVirt (FAST 2023), section 3.4; "We Ain't Afraid of No File Fragmentation" (FAST 2024), section 4.

use std::collections::VecDeque;

use super::FlashError;
use super::array::Place;
use super::command::Hint;
use super::config::{Allocation, Config, PAGE, SECTOR};
use super::map::{NONE, PageMap};
use super::victims::Victims;
use super::volatile::{Undo, Volatile};

/// A run of pages that one group writes.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Pages that are needed: the map points to them, or a power loss would bring them back.
    pub(super) valid: u32,
    /// Pages written.
    pub(super) written: u32,
    /// Times it was erased.
    pub(super) erases: u32,
    /// Where its reverse map is; [`NONE`] without needed pages.
    pub(super) slot: u32,
    pub(super) state: State,
    /// When it became full, in pages written to the device.
    pub(super) closed_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Open,
    Full,
}

/// Who writes: each has its own open line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Host = 0,
    Collection = 1,
}

/// The dies that lines of a group lie on, and its lines.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) first_die: u32,
    pub(super) dies: u32,
    /// Its lines are `first_line..first_line + blocks`.
    pub(super) first_line: u32,
    /// Free lines that were never written: `fresh..first_line + blocks`.
    fresh: u32,
    /// Free lines that were erased, oldest first; they come after the fresh ones.
    erased: VecDeque<u32>,
    /// The open lines, by role; [`NONE`] if there is none.
    open: [u32; 2],
    /// Pages of the host's open one-shot page that are held in the write buffer.
    pub(super) held: u64,
    /// Its full lines.
    pub(super) victims: Victims,
}

/// The reverse map of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) line: u32,
    /// The page that was written to each place of the line.
    pub(super) names: Vec<u32>,
}

/// A share of the dies with its own cursor.
#[derive(Clone, Debug)]
struct Partition {
    /// Its groups are `first..first + groups`.
    first: u32,
    groups: u32,
    /// The group that is written next.
    cursor: u32,
    /// Pages that may be written before lines are counted.
    credits: i64,
    /// Pages that the next count adds.
    pub(super) refill: i64,
}

/// Pages were written, one place after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) group: u32,
    /// The first place.
    pub(super) place: u32,
    pub(super) count: u32,
    /// The die whose one-shot page they complete.
    pub(super) closes: Option<u32>,
}

/// Needed pages of a flash page that is collected: a buffer that is used again and again.
#[derive(Clone, Debug, Default)]
pub(super) struct Moving {
    pub(super) names: Vec<u32>,
    /// Where each lies.
    pub(super) places: Vec<u32>,
}

/// Reverse maps of erased lines that are kept for the next lines: the open ones of a partition.
const SPARE_NAMES: usize = 4;

/// Counters of pages and lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages that hosts wrote.
    pub host_pages: u64,
    /// Pages that collection wrote again.
    pub moved_pages: u64,
    /// Pages of one-shot pages that were programmed before they were complete.
    pub padded_pages: u64,
    /// Lines collected.
    pub collections: u64,
    /// Hints that were followed.
    pub hints_followed: u64,
    /// Hints whose die had no room.
    pub hints_refused: u64,
}

/// The translation layer.
#[derive(Clone, Debug)]
pub(super) struct Ftl {
    pub(super) oneshot_pages: u32,
    pub(super) flash_pages: u32,
    cells: u32,
    planes: u32,
    /// Pages of a line are `1 << shift` places apart.
    shift: u32,
    pub(super) blocks: u32,
    block_pages: u32,
    pub(super) config: Config,
    pub(super) map: PageMap,
    partitions: Vec<Partition>,
    pub(super) groups: Vec<Group>,
    pub(super) lines: Vec<Line>,
    pub(super) slots: Vec<Slot>,
    free_slots: Vec<u32>,
    /// Empty reverse maps that have their memory still.
    spare_names: Vec<Vec<u32>>,
    pub(super) moving: Moving,
    pub(super) counters: Counters,
    /// What a power loss would undo; `None` with a capacitor.
    pub(super) volatile: Option<Volatile>,
}

impl Ftl {
    pub(super) fn new(config: &Config) -> Self {
        let dies = config.dies() / config.partitions;
        let (groups, width) = match config.allocation {
            Allocation::Off => (1, dies),
            Allocation::On => (dies, 1),
        };
        let block_pages = config.block_pages() as u32;
        let line_pages = block_pages * width;
        let blocks = config.lines();
        let group = |number: u32| Group {
            first_die: number * width,
            dies: width,
            first_line: number * blocks,
            fresh: number * blocks,
            erased: VecDeque::new(),
            open: [NONE; 2],
            held: 0,
            victims: Victims::new(number * blocks, blocks, line_pages),
        };
        let partition = |number: u32| Partition {
            first: number * groups,
            groups,
            cursor: 0,
            credits: i64::from(line_pages),
            refill: i64::from(line_pages),
        };
        let free = Line { valid: 0, written: 0, erases: 0, slot: NONE, state: State::Free, closed_at: 0 };
        let all = groups * config.partitions;
        Self {
            oneshot_pages: config.oneshot_pages() as u32,
            flash_pages: (config.flash_page / PAGE) as u32,
            cells: config.timing.cells,
            planes: config.planes,
            shift: line_pages.next_power_of_two().trailing_zeros(),
            blocks,
            block_pages,
            map: PageMap::new(config.visible() / PAGE),
            partitions: (0..config.partitions).map(partition).collect(),
            groups: (0..all).map(group).collect(),
            lines: vec![free; (all * blocks) as usize],
            slots: Vec::new(),
            free_slots: Vec::new(),
            spare_names: Vec::new(),
            moving: Moving::default(),
            counters: Counters::default(),
            volatile: (!config.capacitor).then(Volatile::default),
            config: config.clone(),
        }
    }

    // ---- places ----

    /// The line of a place and the page within it.
    #[inline]
    pub(super) fn line_of(&self, place: u32) -> (u32, u32) {
        let within = place & ((1 << self.shift) - 1);
        (self.slots[(place >> self.shift) as usize].line, within)
    }

    /// Pages of a line are `1 << place_shift()` places apart.
    pub(super) fn place_shift(&self) -> u32 {
        self.shift
    }

    #[inline]
    pub(super) fn group_of(&self, line: u32) -> u32 {
        line / self.blocks
    }

    /// Pages of a line of this group.
    #[inline]
    pub(super) fn line_pages(&self, group: u32) -> u32 {
        self.block_pages * self.groups[group as usize].dies
    }

    /// Where page `within` of a line lies.
    #[inline]
    pub(super) fn locate(&self, line: u32, within: u32) -> Place {
        let group = &self.groups[self.group_of(line) as usize];
        let oneshot = within / self.oneshot_pages;
        let page_of_block = oneshot / group.dies * self.oneshot_pages + within % self.oneshot_pages;
        let flash_page = page_of_block / self.flash_pages;
        Place {
            die: group.first_die + oneshot % group.dies,
            plane: flash_page % self.planes,
            cell: flash_page % self.cells,
        }
    }

    /// The physical place of a logical page, and a number that pages of the same flash page share.
    #[inline]
    pub(super) fn lookup(&self, lpn: u64) -> Option<(Place, u64)> {
        let place = self.map.find(lpn);
        if place == NONE {
            return None;
        }
        let (line, within) = self.line_of(place);
        let flash_page = u64::from(line) << 32 | u64::from(within / self.flash_pages);
        Some((self.locate(line, within), flash_page))
    }

    // ---- writing ----

    /// Lets the hint of a write command choose the die, by its first page (FAST 2024, section 4.2). `start` is the first sector
    /// of the namespace.
    pub(super) fn follow_hint(&mut self, first: u64, hint: Hint, start: u64) {
        if self.config.allocation == Allocation::Off {
            return;
        }
        let partition = (first % u64::from(self.config.partitions)) as usize;
        let pages_per_sector = PAGE / SECTOR;
        let (lpn, append) = match hint {
            Hint::None => return,
            Hint::Append { prior_lba } => (start.saturating_add(prior_lba) / pages_per_sector, true),
            Hint::Overwrite => (first, false),
        };
        let place = self.map.find(lpn);
        if place == NONE {
            return;
        }
        let (line, within) = self.line_of(place);
        let group = self.group_of(line);
        let Partition { first, groups, .. } = self.partitions[partition];
        if !(first..first + groups).contains(&group) {
            return;
        }
        let stays =
            !append || (!self.config.defects.append_skips && self.is_newest_of_open_page(line, within));
        let die = group - first + u32::from(!stays);
        self.partitions[partition].cursor = die % groups;
        self.counters.hints_followed += 1;
    }

    /// Whether a page was written last to a one-shot page that is not complete.
    fn is_newest_of_open_page(&self, line: u32, within: u32) -> bool {
        let Line { written, state, .. } = self.lines[line as usize];
        state == State::Open && within + 1 == written && !written.is_multiple_of(self.oneshot_pages)
    }

    /// Writes a host's page: invalidates the old copy, takes the next place, maps it.
    pub(super) fn write(&mut self, lpn: u64) -> Result<Written, FlashError> {
        let partition = (lpn % u64::from(self.config.partitions)) as usize;
        let short = self.map.name(lpn).ok_or(FlashError::TooManyPages)?;
        let group = self.group_with_room(partition)?;
        let written = self.append(group, Role::Host, &[short.0])?;
        let old = self.map.set(short, written.place);
        match &mut self.volatile {
            // The old copy is needed until the new one is durable.
            Some(volatile) => volatile.wrote(written.group, short, old, written.place),
            None if old != NONE => self.invalidate(old),
            None => {}
        }
        self.counters.host_pages += 1;
        if written.closes.is_some() {
            let Partition { groups, cursor, .. } = &mut self.partitions[partition];
            *cursor = (*cursor + 1) % *groups;
        }
        Ok(written)
    }

    /// The group under the cursor, or the next one that has room: hints may fill one die more than the others.
    fn group_with_room(&mut self, partition: usize) -> Result<u32, FlashError> {
        let Partition { first, groups, cursor, .. } = self.partitions[partition];
        for step in 0..groups {
            let group = first + (cursor + step) % groups;
            if self.has_room(group) {
                if step > 0 {
                    self.counters.hints_refused += 1;
                    self.partitions[partition].cursor = (cursor + step) % groups;
                }
                return Ok(group);
            }
        }
        Err(FlashError::NoFreeLine { die: self.groups[(first + cursor) as usize].first_die })
    }

    /// Whether a host's page has a place: in the open line, or in a free one that collection does not need.
    fn has_room(&self, group: u32) -> bool {
        let reserve = u32::from(self.config.allocation == Allocation::On);
        self.groups[group as usize].open[Role::Host as usize] != NONE || self.free_lines(group) > reserve
    }

    /// Takes the next places of a group's open line for these pages, or for as many as its one-shot page has room for.
    pub(super) fn append(&mut self, group: u32, role: Role, names: &[u32]) -> Result<Written, FlashError> {
        let line = match self.groups[group as usize].open[role as usize] {
            NONE => self.open_line(group, role)?,
            line => line,
        };
        let all = self.line_pages(group);
        let this = &mut self.lines[line as usize];
        let (within, slot) = (this.written, this.slot);
        let room = self.oneshot_pages - within % self.oneshot_pages;
        let count = room.min(names.len() as u32);
        this.valid += count;
        this.written += count;
        let is_full = this.written == all;
        self.push_names(slot, names[..count as usize].iter().copied());
        if is_full {
            self.close_line(group, role, u64::from(count) - 1);
        }
        let closes = (count == room).then(|| self.locate(line, within).die);
        Ok(Written { group, place: slot << self.shift | within, count, closes })
    }

    fn push_names(&mut self, slot: u32, more: impl ExactSizeIterator<Item = u32>) {
        let names = &mut self.slots[slot as usize].names;
        if names.capacity() - names.len() < more.len() {
            names.reserve_exact(more.len().max(self.oneshot_pages as usize * 8));
        }
        names.extend(more);
    }

    fn open_line(&mut self, group: u32, role: Role) -> Result<u32, FlashError> {
        let end = (group + 1) * self.blocks;
        let this = &mut self.groups[group as usize];
        let fresh = (this.fresh < end).then_some(this.fresh);
        let line = match fresh {
            Some(line) => {
                this.fresh += 1;
                line
            }
            None => this.erased.pop_front().ok_or(FlashError::NoFreeLine { die: this.first_die })?,
        };
        this.open[role as usize] = line;
        let slot = self.take_slot(line)?;
        let this = &mut self.lines[line as usize];
        (this.slot, this.state) = (slot, State::Open);
        Ok(line)
    }

    fn take_slot(&mut self, line: u32) -> Result<u32, FlashError> {
        let slot = self.free_slots.pop().unwrap_or(self.slots.len() as u32);
        if u64::from(slot + 1) << self.shift > u64::from(NONE) {
            return Err(FlashError::TooManyPages);
        }
        if slot as usize == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let names = self.spare_names.pop().unwrap_or_default();
        self.slots[slot as usize] = Slot { line, names };
        Ok(slot)
    }

    /// The open line of a role is full; its last `uncounted` pages but one are not in the counters yet.
    fn close_line(&mut self, group: u32, role: Role, uncounted: u64) {
        let line = self.groups[group as usize].open[role as usize];
        self.groups[group as usize].open[role as usize] = NONE;
        let now = self.pages_written() + uncounted;
        let this = &mut self.lines[line as usize];
        (this.state, this.closed_at) = (State::Full, now);
        let valid = this.valid;
        self.groups[group as usize].victims.insert(line, valid);
        if valid == 0 {
            self.release_slot(line);
        }
    }

    /// Frees the reverse map of a line that nothing points to any more.
    fn release_slot(&mut self, line: u32) {
        let slot = std::mem::replace(&mut self.lines[line as usize].slot, NONE);
        if slot != NONE {
            let names = std::mem::take(&mut self.slots[slot as usize].names);
            self.keep_names(names);
            self.free_slots.push(slot);
        }
    }

    /// Keeps the memory of a reverse map for the next line.
    pub(super) fn keep_names(&mut self, mut names: Vec<u32>) {
        if names.capacity() > 0 && self.spare_names.len() < SPARE_NAMES {
            names.clear();
            self.spare_names.push(names);
        }
    }

    /// A page is no longer needed.
    #[inline]
    pub(super) fn invalidate(&mut self, place: u32) {
        let (line, _) = self.line_of(place);
        let valid = self.lines[line as usize].valid - 1;
        self.set_valid(line, valid);
        if valid == 0 && self.lines[line as usize].state == State::Full {
            self.release_slot(line);
        }
    }

    /// Changes the number of needed pages of a line.
    #[inline]
    fn set_valid(&mut self, line: u32, valid: u32) {
        let this = &mut self.lines[line as usize];
        let old = std::mem::replace(&mut this.valid, valid);
        if this.state == State::Full {
            let victims = &mut self.groups[(line / self.blocks) as usize].victims;
            victims.remove(line, old);
            victims.insert(line, valid);
        }
    }

    /// Forgets the copies that newer ones, durable at `now`, have replaced.
    pub(super) fn retire(&mut self, now: u64) {
        let Some(mut volatile) = self.volatile.take() else { return };
        volatile.retire(now, |old| self.invalidate(old));
        self.volatile = Some(volatile);
    }

    /// What is not yet programmed at `now` is gone: the copies before it are valid again. Returns what was undone, latest first.
    pub(super) fn power_cut(&mut self, now: u64) -> Vec<Undo> {
        self.retire(now);
        let mut undone = self.volatile.as_mut().map_or_else(Vec::new, Volatile::power_cut);
        undone.retain(|undo| {
            if self.map.get(undo.short) != undo.new {
                // A later version was programmed earlier, or the page was trimmed.
                if undo.old != NONE {
                    self.invalidate(undo.old);
                }
                return false;
            }
            self.map.set(undo.short, undo.old);
            self.invalidate(undo.new);
            true
        });
        for group in 0..self.groups.len() as u32 {
            self.pad(group);
            self.groups[group as usize].held = 0;
        }
        undone
    }

    /// Unmaps a page.
    pub(super) fn trim(&mut self, lpn: u64) {
        let Some(short) = self.map.short(lpn) else { return };
        let old = self.map.set(short, NONE);
        if old != NONE {
            self.invalidate(old);
        }
    }

    /// Fills the host's open one-shot page of a group with padding; returns its die if there was one.
    pub(super) fn pad(&mut self, group: u32) -> Option<u32> {
        let line = self.groups[group as usize].open[Role::Host as usize];
        if line == NONE || self.lines[line as usize].written.is_multiple_of(self.oneshot_pages) {
            return None;
        }
        let (first, slot) = (self.lines[line as usize].written, self.lines[line as usize].slot);
        let end = first.next_multiple_of(self.oneshot_pages);
        self.push_names(slot, std::iter::repeat_n(NONE, (end - first) as usize));
        self.lines[line as usize].written = end;
        self.counters.padded_pages += u64::from(end - first);
        if end == self.line_pages(group) {
            self.close_line(group, Role::Host, 0);
        }
        Some(self.locate(line, first).die)
    }

    // ---- free lines ----

    /// Pages that were programmed, or are about to be.
    pub(super) fn pages_written(&self) -> u64 {
        self.counters.host_pages + self.counters.moved_pages + self.counters.padded_pages
    }

    /// Lines of a group that are free.
    pub(super) fn free_lines(&self, group: u32) -> u32 {
        let this = &self.groups[group as usize];
        this.first_line + self.blocks - this.fresh + this.erased.len() as u32
    }

    /// A line was erased.
    pub(super) fn free_line(&mut self, line: u32) {
        self.release_slot(line);
        let this = &mut self.lines[line as usize];
        *this = Line { erases: this.erases + 1, valid: 0, written: 0, state: State::Free, ..this.clone() };
        let group = self.group_of(line) as usize;
        self.groups[group].erased.push_back(line);
    }

    /// Counts a page that was written to `group`; says whether its free lines are to be counted now, after which
    /// [`Self::refill_credits`] follows. NVMeVirt counts them when as many pages were written as the last collection freed.
    pub(super) fn spend_credit(&mut self, group: u32) -> bool {
        let partition = self.partition_of(group);
        partition.credits -= 1;
        partition.credits <= 0
    }

    /// Adds what the line collected last had free.
    pub(super) fn refill_credits(&mut self, group: u32) {
        let partition = self.partition_of(group);
        partition.credits += partition.refill.max(1);
    }

    /// The pages that were free in the line that is collected now.
    pub(super) fn set_refill(&mut self, group: u32, pages: u32) {
        self.partition_of(group).refill = i64::from(pages);
    }

    fn partition_of(&mut self, group: u32) -> &mut Partition {
        let groups = self.partitions[0].groups;
        &mut self.partitions[(group / groups) as usize]
    }

    /// The groups that share the credits of `group`.
    pub(super) fn peers(&self, group: u32) -> std::ops::Range<u32> {
        let groups = self.partitions[0].groups;
        let first = group / groups * groups;
        first..first + groups
    }

    /// Memory of both maps.
    pub(super) fn mapping_bytes(&self) -> u64 {
        let names = self.slots.iter().map(|slot| &slot.names).chain(&self.spare_names);
        let reverse: usize = names.map(|names| names.capacity() * 4).sum();
        self.map.bytes() + reverse as u64
    }

    /// Every invariant: each mapped page lies at one place whose reverse map names it, and counts are right.
    pub(super) fn verify(&self) -> Result<(), String> {
        let mut valid = vec![0_u32; self.lines.len()];
        for (short, place) in self.map.iter() {
            let (line, within) = self.line_of(place);
            let slot = &self.slots[(place >> self.shift) as usize];
            let state = self.lines[line as usize].state;
            if slot.names.get(within as usize) != Some(&short.0) || state == State::Free {
                return Err(format!(
                    "page {} lies in line {line}, which does not have it",
                    self.map.lpn(short)
                ));
            }
            valid[line as usize] += 1;
        }
        let kept = self.volatile.iter().flat_map(Volatile::kept);
        kept.for_each(|place| valid[self.line_of(place).0 as usize] += 1);
        for (number, (line, count)) in self.lines.iter().zip(&valid).enumerate() {
            if line.valid != *count || line.written > self.line_pages(self.group_of(number as u32)) {
                return Err(format!("line {number} has {count} needed pages and says {line:?}"));
            }
        }
        let free = self.lines.iter().filter(|line| line.state == State::Free).count() as u64;
        for (group, number) in self.groups.iter().zip(0..) {
            let full = |line: &&Line| line.state == State::Full;
            let lines = &self.lines[group.first_line as usize..(group.first_line + self.blocks) as usize];
            let listed = group.victims.count(|line| self.lines[line as usize].valid)?;
            if listed != lines.iter().filter(full).count() {
                return Err(format!("group {number} lists {listed} full lines"));
            }
        }
        let listed: u64 = (0..self.groups.len() as u32).map(|group| u64::from(self.free_lines(group))).sum();
        if free != listed {
            return Err(format!("{free} lines are free, {listed} are listed"));
        }
        Ok(())
    }
}
