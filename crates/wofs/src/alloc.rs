//! Free blocks, containers, and the places in them.
//!
//! When there is no place for a package and no block for a container, space is sought in this order: blocks that appends have
//! reserved, containers in which nothing is needed, and dead packages, which are stored over with zeros so that what waits for them
//! to be gone becomes free. So no call fails for lack of space while dead packages have some.

use std::ops::Range;
use std::sync::Arc;

use media::nvmm::Region;
use sim::Run;
use sim::map::{HashMap, TreeMap};

use crate::layout::{BLOCK, Geometry, Kind, UNIT};
use crate::ledger::Ledger;
use crate::map::Piece;
use crate::mkfs::set_bit;
use crate::mutant::{self, Rules};
use crate::package::{Attr, Data, Key, Place};
use base::error::{Error, Result};
use base::persist::free_map::FreeMap;

/// A place that was taken for a package.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
}

/// All that the lock protects.
pub(crate) struct Space {
    region: Arc<Region>,
    geometry: Geometry,
    blocks: FreeMap,
    ledger: Ledger,
    containers: TreeMap<u64, Kind>,
    /// Of a file: the number of the DATA that has them, and blocks on the device behind its end.
    reserved: HashMap<Key, (u64, Range<u64>)>,
    rules: Rules,
}

impl Space {
    pub(crate) fn new(
        region: Arc<Region>,
        (blocks, containers): (FreeMap, TreeMap<u64, Kind>),
        ledger: Ledger,
        rules: Rules,
    ) -> Self {
        let geometry = Geometry::of(region.len());
        Self { region, geometry, blocks, ledger, containers, reserved: HashMap::default(), rules }
    }

    /// Free blocks, with those that come back when they are needed.
    pub(crate) fn free_blocks(&self) -> u64 {
        let reserved: u64 = self.reserved.values().map(|(_, blocks)| blocks.end - blocks.start).sum();
        let dead =
            |(block, _): &(&u64, &Kind)| !self.geometry.is_pinned(**block) && self.ledger.alive(**block) == 0;
        self.blocks.free() + reserved + self.containers.iter().filter(dead).count() as u64
    }
}

/// # Places
impl Space {
    /// Takes a place for a package.
    pub(crate) fn take(&mut self, kind: Kind) -> Result<Slot> {
        loop {
            if let Some(place) = self.ledger.take(kind, 0) {
                return Ok(Slot { kind, place });
            }
            if !self.new_container(kind)? && !self.find_space()? {
                return Err(Error::NoSpace);
            }
        }
    }

    /// Gives a place back on which no package was stored, or one that does not count.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.ledger.give_back(slot.kind, slot.place);
    }

    /// Makes a free block a container; false: there is none.
    fn new_container(&mut self, kind: Kind) -> Result<bool> {
        if !self.region.grants_space() {
            return Ok(false);
        }
        sim::ran::node(2);
        let Some(block) = self.blocks.take_first() else { return Ok(false) };
        let made = self.make_container(kind, block);
        match made {
            Ok(()) => kind.places(block).for_each(|place| self.ledger.add_blank(kind, place)),
            Err(_) => self.put(block, 1),
        }
        made.map(|()| true)
    }

    /// Zeros and a fence first, so that nothing that lay there counts; then the bit, and a fence: any task may take the places.
    fn make_container(&mut self, kind: Kind, block: u64) -> Result<()> {
        if !self.rules.lacks(mutant::NOT_ZEROED) {
            self.region.nt_zero(block * BLOCK, BLOCK)?;
            self.region.fence();
        }
        if self.rules.lacks(mutant::BIT_UNFLUSHED) {
            let (word, bit) = self.geometry.bit(kind, block);
            self.region.store_u64(word, self.region.load_u64(word)? | bit)?;
        } else {
            set_bit(&self.region, &self.geometry, (kind, block), true)?;
        }
        self.region.fence();
        self.containers.insert(block, kind);
        Ok(())
    }

    /// Looks for space; false: there is none. What is found may be of another kind.
    fn find_space(&mut self) -> Result<bool> {
        let before = self.blocks.free();
        for (_, (_, blocks)) in std::mem::take(&mut self.reserved).drain() {
            self.put(blocks.start, blocks.end - blocks.start);
        }
        if self.blocks.free() == before {
            self.release_containers()?;
        }
        Ok(self.blocks.free() > before || self.blank()?)
    }

    /// Makes free blocks of containers in which nothing is needed.
    fn release_containers(&mut self) -> Result<()> {
        let all: Vec<_> = sim::ran::collected(self.containers.iter().map(|(block, kind)| (*block, *kind)));
        for (block, kind) in all.into_iter().filter(|(block, _)| !self.geometry.is_pinned(*block)) {
            let places = sim::ran::collected(kind.places(block));
            if self.ledger.alive(block) > 0 || !self.ledger.take_container(kind, &places) {
                continue;
            }
            if let Err(error) = set_bit(&self.region, &self.geometry, (kind, block), false) {
                for place in &places {
                    self.ledger.give_back(kind, *place);
                }
                return Err(error);
            }
            if !self.rules.lacks(mutant::RELEASE_UNFENCED) {
                self.region.fence();
            }
            self.ledger.released(&places);
            self.containers.remove(&block);
            self.blocks.put(block);
            sim::ran::node(1);
        }
        Ok(())
    }

    /// Stores zeros over all dead packages that may be stored over, so that those that wait for them become free. False: there are
    /// none.
    fn blank(&mut self) -> Result<bool> {
        if self.rules.lacks(mutant::NO_BLANKING) {
            return Ok(false);
        }
        let dead = self.ledger.take_dead();
        let mut stored = Ok(());
        let mut erased = 0;
        for (_, place) in &dead {
            stored = self.region.write(*place, &[0_u8; UNIT as usize]);
            if stored.is_err() {
                break;
            }
            self.region.flush(*place, UNIT);
            erased += 1;
        }
        self.region.fence();
        for (at, (kind, place)) in dead.iter().enumerate() {
            if at < erased {
                self.ledger.blanked(*kind, *place);
            } else {
                self.ledger.give_back(*kind, *place);
            }
        }
        stored?;
        Ok(!dead.is_empty())
    }
}

/// # What calls have stored and fenced
impl Space {
    /// A CREATE, and UNLINKs with what they hide.
    pub(crate) fn named(&mut self, create: Option<Slot>, unlinks: &[(Slot, Place)]) {
        let hidden = sim::ran::collected(unlinks.iter().map(|(_, hidden)| *hidden));
        if let Some(slot) = create {
            self.ledger.created(slot.place, &hidden);
        }
        for (slot, hidden) in unlinks {
            self.ledger.unlinked(slot.place, *hidden);
        }
    }

    /// Only a seeded bug frees a CREATE without an UNLINK.
    pub(crate) fn hide(&mut self, place: Place) {
        self.ledger.hide(place);
    }

    /// A file has lost its last name.
    pub(crate) fn ended(&mut self, key: Key) {
        self.unreserve(key);
        self.ledger.ended(crate::merge::key_of(key, self.rules));
    }

    /// The DATA of a write, each with how many of its blocks are the file's; what they replace is free.
    pub(crate) fn written(&mut self, key: Key, all: &[(Slot, Data, u64)], replaced: &[Piece]) {
        self.unreserve(key);
        let own = crate::merge::key_of(key, self.rules);
        for (slot, data, live) in all {
            self.ledger.written(own, slot.place, data, *live);
        }
        if let Some((_, data, live)) = all.last() {
            if data.blocks > *live && !self.rules.lacks(mutant::NOT_RESERVED) {
                self.reserved.insert(key, (data.vtail, data.block + live..data.block + data.blocks));
            } else {
                self.put(data.block + live, data.blocks - live);
            }
            self.ledger.set_size(own, data.vtail);
        }
        self.lost(key, replaced);
    }

    /// The size of a DATA was patched, and so many more of its blocks are the file's.
    pub(crate) fn patched(&mut self, key: Key, vtail: u64, size: u64, more: u64) {
        self.ledger.patched(crate::merge::key_of(key, self.rules), vtail, size, more);
    }

    /// An ATTR, and the blocks that it cuts.
    pub(crate) fn changed(&mut self, key: Key, slot: Slot, attr: &Attr, cut: &[Piece]) {
        self.unreserve(key);
        self.ledger.changed(crate::merge::key_of(key, self.rules), slot.place, attr);
        self.lost(key, cut);
    }

    /// Blocks that are a file's no more.
    pub(crate) fn lost(&mut self, key: Key, pieces: &[Piece]) {
        self.ledger.lost(crate::merge::key_of(key, self.rules), pieces);
        for piece in pieces {
            self.put(piece.block, piece.blocks);
        }
    }
}

/// # Blocks
impl Space {
    /// Takes so many blocks, in as few pieces as their order allows, and up to `more` behind the last: pieces, blocks of `more`.
    pub(crate) fn take_blocks(&mut self, count: u64, more: u64) -> Result<(Vec<Run>, u64)> {
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        while self.blocks.free() < count {
            if !self.find_space()? {
                return Err(Error::NoSpace);
            }
        }
        sim::ran::node(self.blocks.depth());
        if let Some(first) = self.blocks.take_run(count + more, 1) {
            sim::ran::node((count + more).div_ceil(64) + 1);
            return Ok((sim::ran::collected([Run::new(first, count)]), more));
        }
        let mut pieces = Vec::new();
        let mut left = count;
        while left > 0 {
            let first = self.blocks.take_first().ok_or(Error::NoSpace)?;
            let mut blocks = 1;
            while blocks < left && self.blocks.take(first + blocks) {
                blocks += 1;
            }
            left -= blocks;
            sim::ran::node(blocks + 1);
            sim::ran::push(&mut pieces, Run::new(first, blocks));
        }
        Ok((pieces, 0))
    }

    pub(crate) fn put(&mut self, first: u64, blocks: u64) {
        let words = self.blocks.put_run(first, blocks);
        sim::ran::node(words);
    }

    /// Takes reserved blocks up to `end` for an append to the DATA with this number; false: they were given to others.
    pub(crate) fn claim(&mut self, key: Key, vtail: u64, blocks: Range<u64>) -> bool {
        if blocks.is_empty() || self.rules.lacks(mutant::NOT_RESERVED) {
            return true;
        }
        match self.reserved.get_mut(&key) {
            Some((by, reserved))
                if *by == vtail && reserved.start == blocks.start && blocks.end <= reserved.end =>
            {
                reserved.start = blocks.end;
                true
            }
            _ => false,
        }
    }

    /// Gives the blocks back that an append has claimed and not used.
    pub(crate) fn unclaim(&mut self, key: Key, blocks: &Range<u64>) {
        match self.reserved.get_mut(&key) {
            Some((_, reserved)) if reserved.start == blocks.end => reserved.start = blocks.start,
            _ => self.put(blocks.start, blocks.end - blocks.start),
        }
    }

    /// Frees what a file has reserved.
    pub(crate) fn unreserve(&mut self, key: Key) {
        if let Some((_, blocks)) = self.reserved.remove(&key) {
            self.put(blocks.start, blocks.end - blocks.start);
        }
    }
}
