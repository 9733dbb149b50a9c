//! The state in DRAM as the cleaner asks for it that works in steps, and the calls that make its steps.

use sim::ran;
use sim::sync::Ordering::Relaxed;

use super::Index;
use super::inode::State;
use crate::format::layout::times;
use crate::format::live::Object;
use crate::format::mutant::{self, Rules};
use crate::format::record::AddId;
use crate::parts;
use crate::store::alloc::Zones;
use crate::store::steps::Objects;

/// An inode that is locked so that it does not change.
struct Seen<'a> {
    state: &'a State,
    zones: &'a Zones,
    rules: Rules,
}

impl Object for Seen<'_> {
    fn owner(&self) -> ((u16, u32, u32), u64) {
        let State { mode, uid, gid, .. } = *self.state;
        (((mode & 0o7777) as u16, uid, gid), self.state.changes_of_attributes().owner)
    }

    fn size(&self) -> (u64, u64) {
        (self.state.durable_size(), self.state.changes_of_attributes().cut)
    }

    fn holds(&self, times: u8, stamp: u64) -> bool {
        let State { atime, mtime, ctime, accessed, .. } = self.state;
        let believes = self.rules.lacks(mutant::TIMES_OF_DRAM);
        // Data in frames has times that no record has set.
        let (accessed, changed) = match believes {
            true => (false, false),
            false => (*accessed, self.state.stamp_ahead_of().is_some_and(|least| stamp >= least)),
        };
        let has = |bit: u8, known: u64, is_ahead: bool| times & bit != 0 && (is_ahead || known == stamp);
        has(times::ATIME, atime.stamp, accessed)
            || has(times::MTIME, mtime.stamp, changed)
            || has(times::CTIME, ctime.stamp, changed)
    }

    fn place(&self, block: u64) -> Option<((u64, bool), u32)> {
        let place = self.state.blocks().ok()?.get(block)?;
        Some(((place.block, place.unwritten), self.zones.placed_by(place.block)))
    }

    fn has_bytes(&self, block: u64) -> bool {
        let holds = !self.rules.lacks(mutant::INLINE_NOT_HELD);
        holds && self.state.blocks().is_ok_and(|blocks| blocks.is_patched(block))
    }

    fn attribute(&self, name: &[u8]) -> Option<(&[u8], u64)> {
        self.state.xattrs.get(name).map(|attribute| (&*attribute.value, attribute.since))
    }

    fn add_of(&self, name: &[u8]) -> Option<AddId> {
        self.state.names().ok()?.find(name).map(|known| known.add)
    }
}

impl Objects for Index {
    fn show(&self, ino: u64, to: &mut dyn FnMut(&dyn Object)) -> bool {
        let Ok(inode) = self.inodes.get(ino) else { return false };
        let Ok(state) = inode.settled() else { return false };
        to(&Seen { state: &state, zones: &self.zones, rules: self.rules });
        true
    }
}

impl Index {
    /// Cleans a part of the log where few zones are free: a call that may need one begins with it, before it locks anything. Where
    /// fewer are free it goes on until there are more, or no more is to be gained.
    #[inline]
    pub(crate) fn tend(&self) {
        if self.zones.is_low() {
            self.tend_now();
        }
    }

    #[cold]
    fn tend_now(&self) {
        if !self.steps.are_on || self.losses.is_read_only() || self.saved.load(Relaxed) {
            return;
        }
        let (_part, _own) = (sim::part(&parts::CLEAN), ran::aside());
        let stepper = &self.steps.steppers[self.shard()];
        loop {
            let (is_plenty, is_scarce) = self.zones.is_plenty_or_scarce();
            if is_plenty {
                return self.zones.rest();
            }
            let stepper = if is_scarce { Some(stepper.lock()) } else { stepper.try_lock() };
            let Some(mut stepper) = stepper else { return };
            if !self.step(&mut stepper, self) {
                return self.zones.rest();
            }
            if !is_scarce {
                return;
            }
        }
    }
}
