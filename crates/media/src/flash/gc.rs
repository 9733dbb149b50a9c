//! Garbage collection: a full line is read, its valid pages are written to the group's own open line, its blocks are erased.
//!
//! Hosts do it: when the credits of a partition are used up, and no more lines are free than the threshold, one line is
//! collected there and then (foreground collection of NVMeVirt). Its reads, programs and erases occupy the dies from now on,
//! which is all that a host sees of it. Valid pages stay in their group: with allocation by hints, on their die.
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
                self.move_flash_page(line, slot, at, names, now, array)?;
            }
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

    /// Reads the valid pages of one flash page, which begins with page `at` of the line, and writes them elsewhere.
    fn move_flash_page(
        &mut self,
        line: u32,
        slot: u32,
        at: u32,
        names: &[u32],
        now: u64,
        array: &mut Array,
    ) -> Result<(), FlashError> {
        let place = |within: u32| slot << self.place_shift() | within;
        let needed = |within: u32, name: u32| name != NONE && self.is_needed(Short(name), place(within));
        let valid = (at..).zip(names).filter(|(within, name)| needed(*within, **name)).count() as u64;
        if valid == 0 {
            return Ok(());
        }
        array.read(now, now, self.locate(line, at), valid * PAGE, false);
        let group = self.group_of(line);
        for (within, name) in (at..).zip(names) {
            let (short, old) = (Short(*name), slot << self.place_shift() | within);
            if *name == NONE || !self.is_needed(short, old) {
                continue;
            }
            let written = self.append(group, Role::Collection, short)?;
            self.repoint(short, old, written.place);
            self.counters.moved_pages += 1;
            if let Some(die) = written.closes {
                array.program(now, now, die, u64::from(self.oneshot_pages) * PAGE);
            }
        }
        Ok(())
    }

    /// Whether a page is valid, or the copy that a power loss would bring back.
    fn is_needed(&self, short: Short, place: u32) -> bool {
        self.map.get(short) == place || self.volatile.as_ref().is_some_and(|v| v.keeps(place))
    }

    /// A page has moved.
    fn repoint(&mut self, short: Short, old: u32, new: u32) {
        if let Some(volatile) = &mut self.volatile {
            volatile.moved(old, new);
        }
        if self.map.get(short) == old {
            self.map.set(short, new);
        } else {
            // The copy that a power loss would bring back is no valid page.
            self.discount(new);
        }
    }
}
