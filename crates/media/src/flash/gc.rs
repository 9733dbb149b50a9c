//! Garbage collection: a full line is read, its valid pages are written to the group's own open line, its blocks are erased.
//!
//! Hosts do it: when the credits of a partition are used up, and no more lines are free than the threshold, one line is
//! collected there and then (foreground collection of NVMeVirt); the credits then grow by the pages that it had free. Its
//! reads, programs and erases occupy the dies from now on, which is all that a host sees of it. Valid pages stay in their
//! group: with allocation by hints, on their die. A power cut loses none of them, with or without a capacitor: firmware erases
//! a line when the copies of its pages are on flash.
//!
//! The published code collects one line, whatever came of it, so that free lines run out when victims are nearly full; it does
//! not collect at all with allocation by hints. Here collection goes on until lines are free, unless the defect
//! `single_collection` is asked for.

use super::array::Array;
use super::config::Victim;
use super::ftl::{Ftl, Role, State};
use super::map::{NONE, Short};
use super::{FlashError, PAGE};

impl Ftl {
    /// Collects in every group that has too few free lines.
    pub(super) fn collect_where_needed(
        &mut self,
        group: u32,
        now: u64,
        array: &mut Array,
    ) -> Result<(), FlashError> {
        for group in self.peers(group) {
            while self.free_lines(group) <= self.config.gc.threshold {
                let Some(line) = self.victim(group) else { break };
                self.collect(line, now, array)?;
                if self.config.defects.single_collection {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The line of a group that is collected next; none if no full line has an invalid page.
    fn victim(&mut self, group: u32) -> Option<u32> {
        if self.config.gc.victim == Victim::Greedy {
            return self.groups[group as usize].victims.fewest();
        }
        let first = self.groups[group as usize].first_line;
        let pages = self.line_pages(group);
        let lines = &self.lines[first as usize..(first + self.blocks) as usize];
        let full = lines.iter().zip(first..);
        let full = full.filter(|(line, _)| line.state == State::Full && line.valid < pages);
        let best = match self.config.gc.victim {
            Victim::Greedy | Victim::Fifo => full.min_by_key(|(line, _)| line.closed_at),
            Victim::CostBenefit => {
                let now = self.pages_written();
                let gain = |valid: u32, closed_at: u64| {
                    let used = f64::from(valid) / f64::from(pages);
                    (1.0 - used) / (2.0 * used).max(1e-9) * (now - closed_at + 1) as f64
                };
                full.max_by(|(a, _), (b, _)| {
                    gain(a.valid, a.closed_at).total_cmp(&gain(b.valid, b.closed_at))
                })
            }
        };
        best.map(|(_, number)| number)
    }

    fn collect(&mut self, line: u32, now: u64, array: &mut Array) -> Result<(), FlashError> {
        let group = self.group_of(line);
        let pages = self.line_pages(group);
        let slot = self.lines[line as usize].slot;
        let valid = self.lines[line as usize].valid;
        let freed = pages - valid;
        self.groups[group as usize].victims.remove(line, valid);
        self.lines[line as usize].state = State::Open; // in no list while its pages move
        if slot != NONE {
            let names = std::mem::take(&mut self.slots[slot as usize].names);
            for (at, names) in
                (0..).step_by(self.flash_pages as usize).zip(names.chunks(self.flash_pages as usize))
            {
                self.gather(slot << self.place_shift() | at, names);
                self.move_gathered(line, at, now, array)?;
            }
            self.keep_names(names);
        }
        let (first, dies) = (self.groups[group as usize].first_die, self.groups[group as usize].dies);
        for die in first..first + dies {
            array.erase(now, die);
        }
        self.free_line(line);
        self.set_refill(group, freed);
        self.counters.collections += 1;
        Ok(())
    }

    /// Finds the needed pages of one flash page, whose first page lies at `first`. Whether a page is needed is as good as
    /// random, so nothing here branches on it: the looks into the map, which miss the processor's caches, overlap.
    fn gather(&mut self, first: u32, names: &[u32]) {
        let mut moving = std::mem::take(&mut self.moving);
        moving.names.resize(names.len(), NONE);
        moving.places.resize(names.len(), NONE);
        let mut count = 0;
        for (place, name) in (first..).zip(names) {
            moving.names[count] = *name;
            moving.places[count] = place;
            let needed = *name != NONE && self.is_needed(Short(*name), place);
            count += usize::from(needed);
        }
        moving.names.truncate(count);
        moving.places.truncate(count);
        self.moving = moving;
    }

    /// Reads what was gathered of the flash page that begins with page `at` of the line, and writes it elsewhere.
    fn move_gathered(&mut self, line: u32, at: u32, now: u64, array: &mut Array) -> Result<(), FlashError> {
        let moving = std::mem::take(&mut self.moving);
        let count = moving.names.len();
        if count > 0 {
            array.read(now, now, self.locate(line, at), count as u64 * PAGE, false);
        }
        let mut done = 0;
        while done < count {
            let written = self.append(self.group_of(line), Role::Collection, &moving.names[done..])?;
            let end = done + written.count as usize;
            let pages = moving.names[done..end].iter().zip(&moving.places[done..end]);
            for ((name, old), new) in pages.zip(written.place..) {
                self.repoint(Short(*name), *old, new);
            }
            self.counters.moved_pages += u64::from(written.count);
            if let Some(die) = written.closes {
                array.program(now, now, die, u64::from(self.oneshot_pages) * PAGE);
            }
            done = end;
        }
        self.moving = moving;
        Ok(())
    }

    /// Whether a page is valid, or the copy that a power loss would bring back.
    #[inline]
    fn is_needed(&self, short: Short, place: u32) -> bool {
        let is_kept = self.volatile.as_ref().is_some_and(|volatile| volatile.keeps(place));
        (self.map.get(short) == place) | is_kept
    }

    /// A page has moved.
    #[inline]
    fn repoint(&mut self, short: Short, old: u32, new: u32) {
        if let Some(volatile) = &mut self.volatile {
            volatile.moved(old, new);
        }
        self.map.replace(short, old, new);
    }
}
