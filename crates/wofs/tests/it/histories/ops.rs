//! The operations: what they store, in which order, with which fences. At each fence every subset of the stores is crashed.

use std::collections::BTreeMap;

use wofs::layout::{BLOCK, Kind};
use wofs::map::Piece;
use wofs::merge::{File, Merged};
use wofs::mutant;
use wofs::package::{Attr, Create, Data, Key, Package, Place, Unlink};

use super::world::{CELL, Store, Want, World, attributes, setter};

/// An operation on names of one letter. Offsets and lengths of writes are in blocks, sizes in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create(u8),
    Unlink(u8),
    Rename(u8, u8),
    Link(u8, u8),
    Chmod(u8),
    Write(u8, u64, u64),
    /// A write in two pieces.
    Pieces(u8),
    /// A write whose bytes look like a package.
    Forge(u8),
    Append(u8),
    Truncate(u8, u64),
    /// A block is a container no more.
    Release(u64),
}

/// Why an operation did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its names are not as it needs them.
    Pointless,
    /// No place for this kind.
    Full(Kind),
    /// No block.
    NoBlock,
    /// Something that is not allowed.
    Wrong(String),
}

/// An operation under way.
struct Run {
    world: World,
    found: BTreeMap<Place, Package>,
    merged: Merged,
    after: Want,
    pick: usize,
    fresh: Vec<(Kind, Place)>,
    crashes: Vec<World>,
}

/// What an operation leads to: the world after it, and those after crashes in it.
pub(crate) fn step(world: &World, op: Op, pick: usize) -> Result<(World, Vec<World>), Stop> {
    let mut world = world.clone();
    world.trace.push(format!("{op:?}"));
    let (found, merged) = world.merged();
    let after = world.want.clone();
    let mut run = Run { world, found, merged, after, pick, fresh: Vec::new(), crashes: Vec::new() };
    run.run(op)?;
    let Run { mut world, after, crashes, .. } = run;
    world.want = after;
    let seen = world.tree().map_err(Stop::Wrong)?;
    if seen != world.want.tree() {
        return Err(Stop::Wrong(format!("after the last fence {seen:?} instead of {:?}", world.want.tree())));
    }
    Ok((world, crashes))
}

impl Run {
    fn run(&mut self, op: Op) -> Result<(), Stop> {
        match op {
            Op::Create(name) => self.create(name),
            Op::Unlink(name) => self.unlink(name),
            Op::Rename(from, to) => self.rename(from, to),
            Op::Link(from, to) => self.link(from, to),
            Op::Chmod(name) => self.attr(name, None),
            Op::Truncate(name, cells) => self.attr(name, Some(cells * CELL)),
            Op::Write(name, first, blocks) => self.write(name, first, blocks, false),
            Op::Forge(name) => self.write(name, 0, 1, true),
            Op::Pieces(name) => self.pieces(name),
            Op::Append(name) => self.append(name),
            Op::Release(block) => self.release(block),
        }
    }

    fn vtail(&mut self) -> u64 {
        self.world.next += 1;
        self.world.next - 1
    }

    /// The CREATE that gives a name, and its file.
    fn named(&self, name: u8) -> Option<(Place, Key)> {
        let mut files = self.merged.files.iter();
        files.find_map(|(key, file)| {
            let place = file
                .names
                .iter()
                .find(|place| matches!(&self.found[place], Package::Create(one) if one.name == [name]));
            // Where births are ignored, packages still have them.
            place.map(|place| (*place, self.found[place].key())).filter(|(_, own)| own.0 == key.0)
        })
    }

    fn file(&self, key: Key) -> File {
        let files = &self.merged.files;
        files.get(&key).or_else(|| files.get(&(key.0, 0))).cloned().unwrap_or_default()
    }

    fn get(&self, name: u8) -> Result<(Place, Key, u32), Stop> {
        let (place, key) = self.named(name).ok_or(Stop::Pointless)?;
        Ok((place, key, *self.after.names.get(&name).ok_or(Stop::Pointless)?))
    }

    /// A place for a package.
    fn place(&mut self, kind: Kind) -> Result<Place, Stop> {
        if let Some(place) = self.world.ledger.take(kind, self.pick) {
            return Ok(place);
        }
        if self.world.setup.pool {
            let block = self.block(1)?;
            if !self.world.rules.lacks(mutant::NOT_ZEROED) {
                self.world.medium.clear(block);
            }
            self.world.pending.push(Store::Bit(block, Some(kind)));
            let places = self.world.places(block, kind);
            self.fresh.extend(places[1..].iter().map(|place| (kind, *place)));
            return Ok(places[0]);
        }
        while !self.world.rules.lacks(mutant::NO_BLANKING) {
            let dead = self.world.ledger.take_dead();
            if dead.is_empty() {
                break;
            }
            self.world.pending.extend(dead.iter().map(|(_, place)| Store::Erase(*place)));
            self.fence()?;
            for (kind, place) in dead {
                self.world.ledger.blanked(kind, place);
            }
            if let Some(place) = self.world.ledger.take(kind, self.pick) {
                (self.found, self.merged) = self.world.merged();
                return Ok(place);
            }
        }
        Err(Stop::Full(kind))
    }

    fn block(&self, blocks: u64) -> Result<u64, Stop> {
        self.world.free_run(&self.merged, &self.found, blocks).ok_or(Stop::NoBlock)
    }

    fn put(&mut self, place: Place, package: Package) {
        self.world.pending.push(Store::Put(place, package));
    }

    /// Crashes every subset of the stores since the last fence, then makes them durable.
    fn fence(&mut self) -> Result<(), Stop> {
        let world = &self.world;
        let counts: Vec<usize> = world.pending.iter().map(|store| world.medium.outcomes(store)).collect();
        let mut outcome = vec![0; counts.len()];
        loop {
            let mut medium = world.medium.clone();
            for (store, outcome) in world.pending.iter().zip(&outcome) {
                medium.apply(store, *outcome, world.rules);
            }
            let mut crashed = World::mount(world.setup, world.rules, medium, self.after.clone());
            let what = format!("crash {outcome:?} of {:?}", world.pending);
            let seen = crashed.tree().map_err(|wrong| Stop::Wrong(format!("{wrong} after a {what}")))?;
            if seen == world.want.tree() {
                crashed.want = world.want.clone();
            } else if seen != self.after.tree() {
                let (before, after) = (world.want.tree(), self.after.tree());
                return Err(Stop::Wrong(format!(
                    "{seen:?}, neither {before:?} nor {after:?}, after a {what}"
                )));
            }
            crashed.trace.clone_from(&world.trace);
            crashed.trace.push(what);
            self.crashes.push(crashed);
            let Some(turn) = (0..counts.len()).find(|at| outcome[*at] + 1 < counts[*at]) else { break };
            outcome[..turn].fill(0);
            outcome[turn] += 1;
        }
        for store in std::mem::take(&mut self.world.pending) {
            self.world.medium.apply(&store, 1, self.world.rules);
        }
        for (kind, place) in std::mem::take(&mut self.fresh) {
            self.world.ledger.add_blank(kind, place);
        }
        Ok(())
    }

    fn create(&mut self, name: u8) -> Result<(), Stop> {
        if self.named(name).is_some() {
            return Err(Stop::Pointless);
        }
        let place = self.place(Kind::Create)?;
        let (vtail, id) = (self.vtail(), self.after.files.keys().max().map_or(1, |id| id + 1));
        let used: Vec<u32> = self.merged.files.keys().map(|key| key.0).collect();
        let ino = (1..u32::MAX).find(|ino| !used.contains(ino)).expect("there are few");
        self.after.names.insert(name, id);
        self.after.files.insert(id, (0, Vec::new()));
        self.put(place, create((ino, vtail as u32), name, vtail, 0, false));
        self.fence()?;
        self.world.ledger.created(place, &[]);
        Ok(())
    }

    fn unlink(&mut self, name: u8) -> Result<(), Stop> {
        let (hides, key, _) = self.get(name)?;
        let place = self.place(Kind::Unlink)?;
        self.after.names.remove(&name);
        self.after.drop_nameless();
        let vtail = self.vtail();
        self.put(place, unlink(key, hides, vtail, None));
        self.fence()?;
        self.world.ledger.unlinked(place, hides);
        self.end_nameless(key, 1);
        Ok(())
    }

    /// Ends a file that has lost its last name.
    fn end_nameless(&mut self, key: Key, lost: usize) {
        if self.file(key).names.len() == lost {
            self.world.ledger.ended(if self.merged.files.contains_key(&key) { key } else { (key.0, 0) });
        }
    }

    fn link(&mut self, from: u8, to: u8) -> Result<(), Stop> {
        let (_, key, id) = self.get(from)?;
        if self.named(to).is_some() {
            return Err(Stop::Pointless);
        }
        let place = self.place(Kind::Create)?;
        let (vtail, mode) = (self.vtail(), self.file(key).attributes.mode);
        self.after.names.insert(to, id);
        self.put(place, create(key, to, vtail, mode, false));
        self.fence()?;
        self.world.ledger.created(place, &[]);
        Ok(())
    }

    fn rename(&mut self, from: u8, to: u8) -> Result<(), Stop> {
        let (old, key, id) = self.get(from)?;
        let target = self.named(to);
        if from == to || self.after.names.get(&to) == Some(&id) {
            return Err(Stop::Pointless);
        }
        let hidden: Vec<(Place, Key)> = target.into_iter().chain([(old, key)]).collect();
        let mut unlinks = Vec::new();
        for (hides, key) in &hidden {
            unlinks.push((self.place(Kind::Unlink)?, *hides, *key));
        }
        if self.world.rules.lacks(mutant::OLD_CREATE_FREED) {
            self.world.ledger.hide(old);
        }
        let place = self.place(Kind::Create)?;
        self.after.names.remove(&from);
        self.after.names.insert(to, id);
        self.after.drop_nameless();
        let first = self.vtail();
        self.world.next += unlinks.len() as u64;
        let (vtail, mode) = (first + unlinks.len() as u64, self.file(key).attributes.mode);
        for (number, (at, hides, key)) in (first..).zip(&unlinks) {
            self.put(*at, unlink(*key, *hides, number, Some((place, vtail))));
        }
        self.fence()?;
        self.put(place, create(key, to, vtail, mode, true));
        self.fence()?;
        self.world.ledger.created(place, &hidden.iter().map(|(hides, _)| *hides).collect::<Vec<_>>());
        for (at, hides, _) in unlinks {
            self.world.ledger.unlinked(at, hides);
        }
        if let Some((_, key)) = target {
            self.end_nameless(key, 1);
        }
        Ok(())
    }

    fn attr(&mut self, name: u8, size: Option<u64>) -> Result<(), Stop> {
        let (_, key, id) = self.get(name)?;
        let file = self.file(key);
        let size = size.unwrap_or(file.size);
        let place = self.place(Kind::Attr)?;
        let contents = self.after.files.get_mut(&id).expect("it is there");
        let is_cut = self.world.trace.last().is_some_and(|op| op.starts_with("Truncate"));
        if !is_cut {
            contents.0 = 1 - contents.0;
        }
        contents.1.resize((size / CELL) as usize, 0);
        let mode = contents.0;
        self.zero_tail(&file, size);
        let attr = Attr { vtail: self.vtail(), key, attributes: attributes(mode), size };
        self.put(place, Package::Attr(attr));
        self.fence()?;
        let ledger_key = self.ledger_key(key);
        self.world.ledger.changed(ledger_key, place, &attr);
        let cut = file.map.clone().take(size.div_ceil(BLOCK)..u64::MAX);
        self.world.ledger.lost(ledger_key, &cut);
        Ok(())
    }

    fn ledger_key(&self, key: Key) -> Key {
        if self.world.rules.lacks(mutant::BIRTH_IGNORED) { (key.0, 0) } else { key }
    }

    /// Zeros, durable, behind the end of a file that is about to grow by more than a patch.
    fn zero_tail(&mut self, file: &File, size: u64) {
        let last = file.map.find(file.size / BLOCK);
        if let Some(piece) = last.filter(|_| size > file.size && !file.size.is_multiple_of(BLOCK))
            && !self.world.rules.lacks(mutant::TAIL_NOT_ZEROED)
        {
            self.world.medium.zero_cell(piece.block, 1);
        }
    }

    fn tokens(&mut self, count: u64) -> Vec<u32> {
        let first = self.world.token;
        self.world.token += count as u32;
        (first..self.world.token).collect()
    }

    /// Puts tokens into what the file must hold.
    fn expect(&mut self, id: u32, at: u64, tokens: &[u32]) {
        let contents = &mut self.after.files.get_mut(&id).expect("it is there").1;
        contents.resize(contents.len().max(at as usize + tokens.len()), 0);
        contents[at as usize..at as usize + tokens.len()].copy_from_slice(tokens);
    }

    fn write(&mut self, name: u8, first: u64, blocks: u64, forged: bool) -> Result<(), Stop> {
        let (hides, key, id) = self.get(name)?;
        let file = self.file(key);
        let place = self.place(Kind::Data)?;
        let block = self.block(blocks)?;
        let size = file.size.max((first + blocks) * BLOCK);
        let tokens = self.tokens(blocks * 2);
        self.expect(id, first * 2, &tokens);
        self.zero_tail(&file, first * BLOCK + 1);
        let like = forged.then(|| unlink(key, hides, self.world.next + 50, None));
        self.world.pending.push(Store::Cells(block, tokens, like));
        let data = Data { vtail: self.vtail(), key, first, block, blocks, size, time: 0, index: 0, count: 1 };
        if !self.world.rules.lacks(mutant::DATA_PACKAGE_FIRST) {
            self.fence()?;
        }
        self.put(place, Package::Data(data));
        self.fence()?;
        self.commit(key, file, &[(place, data)]);
        Ok(())
    }

    fn pieces(&mut self, name: u8) -> Result<(), Stop> {
        let (_, key, id) = self.get(name)?;
        let file = self.file(key);
        let places = [self.place(Kind::Data)?, self.place(Kind::Data)?];
        let blocks = [self.block(3)?, self.block(3)? + 2];
        let size = file.size.max(2 * BLOCK);
        let tokens = self.tokens(4);
        self.expect(id, 0, &tokens);
        self.world.pending.push(Store::Cells(blocks[0], tokens[..2].to_vec(), None));
        self.world.pending.push(Store::Cells(blocks[1], tokens[2..].to_vec(), None));
        self.fence()?;
        let vtail = self.vtail();
        self.world.next += 1;
        let data = |at: u64| {
            let (block, index) = (blocks[at as usize], at as u16);
            Data { vtail: vtail + at, key, first: at, block, blocks: 1, size, time: 0, index, count: 2 }
        };
        let all = [(places[0], data(0)), (places[1], data(1))];
        for (place, data) in &all {
            self.put(*place, Package::Data(*data));
        }
        self.fence()?;
        self.commit(key, file, &all);
        Ok(())
    }

    /// Tells the ledger of DATA that is stored.
    fn commit(&mut self, key: Key, mut file: File, all: &[(Place, Data)]) {
        let key = self.ledger_key(key);
        let mut lost = Vec::new();
        for (place, data) in all {
            let live = data.size.div_ceil(BLOCK).saturating_sub(data.first).min(data.blocks);
            lost.extend(
                file.map.put(data.first, Piece { block: data.block, blocks: live, from: data.vtail }),
            );
            self.world.ledger.written(key, *place, data, live);
        }
        let last = all.last().expect("a write has a piece").1.vtail;
        self.world.ledger.set_size(key, last);
        self.world.ledger.lost(key, &lost);
    }

    fn append(&mut self, name: u8) -> Result<(), Stop> {
        let (_, key, id) = self.get(name)?;
        let file = self.file(key);
        let (at, cell) = (file.size / BLOCK, (file.size / CELL % 2) as usize);
        if at > 2 {
            return Err(Stop::Pointless);
        }
        let mapped = file.map.find(at);
        let holds = |data: &Data| (data.first..data.first + data.blocks).contains(&at);
        let own = |data: &Data| mapped.is_none_or(|piece| piece.from == data.vtail);
        let mut patched = setter(&self.found, &file).filter(|data| holds(data) && own(data));
        if self.world.rules.lacks(mutant::PATCHED_AFTER_TRUNCATE) {
            let by = |piece: Piece| {
                file.log.iter().find_map(|place| match &self.found[place] {
                    Package::Data(data) if data.vtail == piece.from => Some(*data),
                    _ => None,
                })
            };
            patched = patched.or_else(|| mapped.and_then(by));
        }
        let token = self.tokens(1)[0];
        self.expect(id, file.size / CELL, &[token]);
        let size = file.size + CELL;
        if let Some(data) = patched {
            let block = data.block + at - data.first;
            let mut cells = [self.world.medium.cell(block, 0), self.world.medium.cell(block, 1)];
            cells[cell] = token;
            self.world.pending.push(Store::Cells(block, cells.to_vec(), None));
            self.fence()?;
            let is_it = |(_, package): &(&Place, &Package)| package.vtail() == data.vtail;
            let place = *self.found.iter().find(is_it).expect("it was found").0;
            self.world.pending.push(Store::Patch(place, size));
            self.fence()?;
            let more = u64::from(mapped.is_none());
            self.world.ledger.patched(self.ledger_key(key), data.vtail, size, more);
            return Ok(());
        }
        let place = self.place(Kind::Data)?;
        let (block, blocks) =
            self.block(2).map(|block| (block, 2)).or_else(|_| self.block(1).map(|block| (block, 1)))?;
        let before = mapped.filter(|_| cell == 1).map_or(0, |piece| self.world.medium.cell(piece.block, 0));
        let cells = if cell == 1 { vec![before, token] } else { vec![token, 0] };
        self.world.pending.push(Store::Cells(block, cells, None));
        self.fence()?;
        let data =
            Data { vtail: self.vtail(), key, first: at, block, blocks, size, time: 0, index: 0, count: 1 };
        self.put(place, Package::Data(data));
        self.fence()?;
        self.commit(key, file, &[(place, data)]);
        Ok(())
    }

    fn release(&mut self, block: u64) -> Result<(), Stop> {
        let kind = self.world.kind_of(block).ok_or(Stop::Pointless)?;
        let places = self.world.places(block, kind);
        if !self.world.setup.pool || !self.world.ledger.take_container(kind, &places) {
            return Err(Stop::Pointless);
        }
        self.world.pending.push(Store::Bit(block, None));
        if !self.world.rules.lacks(mutant::RELEASE_UNFENCED) {
            self.fence()?;
        }
        self.world.ledger.released(&places);
        Ok(())
    }
}

fn create(key: Key, name: u8, vtail: u64, mode: u32, renamed: bool) -> Package {
    let (attributes, name) = (attributes(mode), vec![name]);
    Package::Create(Create { vtail, key, parent: 1, name, attributes, rdev: 0, changed: 0, renamed })
}

fn unlink(key: Key, hides: Place, vtail: u64, mate: Option<(Place, u64)>) -> Package {
    Package::Unlink(Unlink { vtail, key, parent: 1, hides, changed: 0, mate })
}
