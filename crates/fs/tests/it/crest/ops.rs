//! Calls: what each stores, and what it means to a user.

use fs::crest::format::layout::{LINE, ROOT_INO, item, times};
use fs::crest::format::mutant;
use fs::crest::format::place::Block;
use fs::crest::format::record::{
    Body, Create, Cut, Extent, Hole, Id, Item, Names, Owner, Record, Times, Void, Write, Xattr, group,
};
use fs::crest::format::tree::{Inode, Slot};
use fs::crest::format::zone::Want;

use super::image::{CELLS, NEVER, Unit, ZONE_BLOCKS};
use super::view::{File, View};
use super::world::{CELL_BYTES, NoSpace, NotNow, World, block_cells, checksum};

/// A path: a name in the root (0) or in the directory that is called [`DIR`] (1).
pub(crate) type Path = (u8, u8);
/// The name of the directory.
pub(crate) const DIR: Path = (0, 9);

/// An operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create(Path),
    Mkdir,
    Symlink(Path),
    Unlink(Path),
    Link(Path, Path),
    Rename(Path, Path),
    Exchange(Path, Path),
    /// Cells from one on.
    Write(Path, u8, u8),
    /// Cells of one block from one on, in the record.
    Inline(Path, u8, u8),
    /// A cell in place, without a new place of its block: `atomic=words`.
    InPlace(Path, u8),
    /// A cell through a mapping, and msync.
    MapStore(Path, u8),
    /// The last cell, which begins a block, and the next.
    WriteOverEnd(Path),
    /// Two blocks with a hole between them: a group, where records are short.
    WriteTwo(Path),
    /// A new length in cells.
    Truncate(Path, u8),
    Punch(Path, u8),
    Allocate(Path, u8),
    Chmod(Path),
    Chown(Path),
    Utimes(Path),
    SetXattr(Path),
    RemoveXattr(Path),
    Clone(Path, Path),
    Move(Path),
    /// Copies one record of the n-th sealed zone.
    CleanStep(u8),
    /// Copies all, and frees the zone.
    Clean(u8),
    /// A write to the first cell is in flight while the file is cut.
    WriteDuringCut(Path, u8),
    /// A write beyond the new end is in flight while the file is cut.
    WriteBeyondCut(Path, u8),
    /// A write is in flight during `utimes`.
    WriteDuringUtimes(Path),
    /// A crash that leaves all stores, and a mount.
    Remount,
    /// Free blocks have bytes of a file that is gone: an image of a copy of the pool, in which two files were made since.
    Foreign,
    /// A flush fails: the call returns EIO.
    FailedCreate(Path),
    FailedWrite(Path),
}

pub(super) type Outcome = Result<(), Stop>;

/// Why a call did not happen.
#[derive(Debug)]
pub(crate) enum Stop {
    NotNow,
    NoSpace,
}

impl From<NotNow> for Stop {
    fn from(_: NotNow) -> Self {
        Self::NotNow
    }
}

impl From<NoSpace> for Stop {
    fn from(_: NoSpace) -> Self {
        Self::NoSpace
    }
}

/// A call on a world by a shard's task, and its effect on what users see.
pub(crate) struct Call<'a> {
    pub world: &'a mut World,
    pub want: &'a mut View,
    pub shard: usize,
    /// What users see between the two calls of an operation that stands for two.
    pub between: Vec<View>,
}

impl Call<'_> {
    /// Leaves what a copy of the pool writes to its free zones in those of this one.
    fn foreign(&mut self) -> Outcome {
        let (mut copy, mut want) = (self.world.clone(), self.want.clone());
        copy.salt = 1;
        for tail in &mut copy.tails {
            tail.previous = tail.open.take().or(tail.previous);
        }
        for name in [7, 8] {
            let mut call = Call { world: &mut copy, want: &mut want, shard: self.shard, between: Vec::new() };
            call.create((0, name), 0o100_644, b"")?;
        }
        let lines = self.world.setup.zone_lines;
        for zone in self.world.free_zones() {
            let of_copy = copy.current.log(zone as usize).chunks_exact(LINE);
            for (line, bytes) in of_copy.enumerate() {
                let unit =
                    Unit::Line { at: zone as usize * lines + line, bytes: bytes.try_into().expect("a line") };
                self.world.store(self.shard as u8, unit);
            }
        }
        self.world.fence(self.shard as u8);
        Ok(())
    }

    pub(crate) fn run(&mut self, op: Op) -> Outcome {
        self.world.now += 1;
        match op {
            Op::Create(path) => self.create(path, 0o100_644, b""),
            Op::Foreign => self.foreign(),
            Op::Mkdir => self.create(DIR, 0o40_755, b""),
            Op::Symlink(path) => self.create(path, 0o120_777, b"t"),
            Op::Unlink(path) => self.names(&[path], &[]),
            Op::Link(from, to) => {
                let ino = self.ino(from)?;
                self.names(&[], &[(to, ino)])
            }
            Op::Rename(from, to) => self.rename(from, to),
            Op::Exchange(one, two) => {
                let inos = (self.ino(one)?, self.ino(two)?);
                if inos.0 == inos.1 {
                    return Err(Stop::NotNow);
                }
                self.names(&[one, two], &[(two, inos.0), (one, inos.1)])
            }
            Op::Write(path, cell, count) => self.write(path, cell.into(), count.into()),
            Op::Inline(path, cell, count) => self.inline(path, cell.into(), count.into()),
            Op::InPlace(path, cell) => self.in_place(path, cell.into()),
            Op::MapStore(path, cell) => self.map_store(path, cell.into()),
            Op::WriteOverEnd(path) => self.write_over_end(path),
            Op::WriteTwo(path) => self.write_two(path),
            Op::Truncate(path, cells) => self.truncate(path, cells.into()),
            Op::Punch(path, block) => self.punch(path, block.into()),
            Op::Allocate(path, block) => self.allocate(path, block.into()),
            Op::Chmod(path) => self.owner(path, 1, 0),
            Op::Chown(path) => self.owner(path, 0, 1),
            Op::Utimes(path) => self.utimes(path),
            Op::SetXattr(path) => self.xattr(path, false),
            Op::RemoveXattr(path) => self.xattr(path, true),
            Op::Clone(from, to) => self.clone_file(from, to),
            Op::Move(path) => self.move_block(path),
            Op::CleanStep(nth) => self.clean(nth, true),
            Op::Clean(nth) => self.clean(nth, false),
            Op::WriteDuringCut(path, cells) => self.write_during_cut(path, cells.into()),
            Op::WriteBeyondCut(path, cells) => self.write_beyond_cut(path, cells.into()),
            Op::WriteDuringUtimes(path) => self.write_during_utimes(path),
            Op::Remount => {
                self.remount();
                Ok(())
            }
            Op::FailedCreate(path) => self.failed_create(path),
            Op::FailedWrite(path) => self.failed_write(path),
        }
    }

    // ---- what is there

    fn key(&self, path: Path) -> Result<(u64, u8), NotNow> {
        let dir = if path.0 == 0 { Some(&ROOT_INO) } else { self.want.names.get(&(ROOT_INO, DIR.1)) };
        Ok((*dir.ok_or(NotNow)?, path.1))
    }

    pub(super) fn ino(&self, path: Path) -> Result<u64, NotNow> {
        self.want.names.get(&self.key(path)?).copied().ok_or(NotNow)
    }

    fn inode(&self, ino: u64) -> Result<&Inode, NotNow> {
        self.world.tree.inodes.get(ino).ok_or(NotNow)
    }

    pub(super) fn size(&self, ino: u64) -> usize {
        self.want.files.get(&ino).map_or(0, |file| file.cells.len())
    }

    /// The time of a change of these inodes: later than any time that a call has set on them.
    pub(super) fn stamp(&self, inos: &[u64]) -> u64 {
        let last = inos.iter().filter_map(|ino| self.world.tree.inodes.get(*ino));
        let last = last
            .map(|inode| inode.mtime.value.stamp.max(inode.ctime.value.stamp).max(inode.atime.value.stamp));
        let now = self.world.now;
        if self.world.rules.lacks(mutant::STAMP_FROM_CLOCK) {
            now
        } else {
            last.map(|last| last + 1).fold(now, u64::max)
        }
    }

    pub(super) fn token(&mut self) -> u32 {
        self.world.token += 1;
        self.world.token
    }

    pub(super) fn ids(&self, ino: u64) -> (u64, u64) {
        self.world.ids.get(&ino).copied().unwrap_or_default()
    }

    pub(super) fn block_id(&self, ino: u64, block: u64) -> u64 {
        self.world.block_ids.get(&(ino, block)).copied().unwrap_or_default()
    }

    // ---- names

    fn create(&mut self, path: Path, mode: u16, target: &[u8]) -> Outcome {
        let (dir, name) = self.key(path)?;
        if self.want.names.contains_key(&(dir, name)) {
            return Err(Stop::NotNow);
        }
        let time = self.stamp(&[dir]);
        let ino = self.world.next_inode(self.shard as u8);
        let id = self.world.next_id(self.shard, &[]);
        let create =
            Create { ino, dir, name: vec![name], mode, time, target: target.to_vec(), ..Create::default() };
        self.world.commit(self.shard, Want::Records, &[], &[Record::alone(id, Body::Create(create))])?;
        self.world.ids.insert(ino, (id.time(), 0));
        self.want.files.insert(ino, File { mode, target: target.to_vec(), ..File::born(time) });
        self.want.add((dir, name), ino, time);
        Ok(())
    }

    fn names(&mut self, from: &[Path], to: &[(Path, u64)]) -> Outcome {
        let from: Vec<_> = from.iter().map(|path| self.key(*path)).collect::<Result<_, _>>()?;
        let to: Vec<_> =
            to.iter().map(|(path, ino)| Ok((self.key(*path)?, *ino))).collect::<Result<_, NotNow>>()?;
        let mut inos: Vec<u64> = to.iter().map(|(_, ino)| *ino).collect();
        for key in &from {
            let ino = *self.want.names.get(key).ok_or(NotNow)?;
            let is_dir = self.want.files.get(&ino).is_some_and(|file| file.mode & 0o170_000 == 0o40_000);
            if is_dir && self.want.names.keys().any(|(dir, _)| *dir == ino) && to.is_empty() {
                return Err(Stop::NotNow);
            }
            inos.push(ino);
        }
        if to.iter().any(|(key, _)| self.want.names.contains_key(key) && !from.contains(key)) {
            return Err(Stop::NotNow);
        }
        let dirs = from.iter().chain(to.iter().map(|(key, _)| key)).map(|key| key.0);
        let time = self.stamp(&dirs.chain(inos.iter().copied()).collect::<Vec<_>>());
        let items = self.items(&from, &to);
        let id = self.world.next_id(self.shard, &[]);
        let want = if to.is_empty() { Want::Removals } else { Want::Records };
        let record = Record::alone(id, Body::Names(Names { time, items }));
        self.world.commit(self.shard, want, &[], &[record])?;
        // The adds come first for the counts: an inode that moves never has no name.
        for (_, ino) in &to {
            self.want.file(*ino).links += 1;
        }
        for key in &from {
            self.want.remove(*key, time);
        }
        for (key, ino) in to {
            self.want.add(key, ino, time);
            self.want.file(ino).links -= 1;
        }
        Ok(())
    }

    fn items(&self, from: &[(u64, u8)], to: &[((u64, u8), u64)]) -> Vec<Item> {
        let times = item::DIR | item::INODE;
        let adds = to.iter().enumerate().map(|(index, ((dir, name), ino))| Item {
            what: item::ADD | times,
            index: index as u8,
            dir: *dir,
            ino: *ino,
            added: Id::default(),
            name: vec![*name],
        });
        let removes = from.iter().filter_map(|(dir, name)| {
            let entry = self.world.tree.look_up(*dir, &[*name])?;
            let (added, index) = entry.add;
            Some(Item {
                what: item::REMOVE | times,
                index,
                dir: *dir,
                ino: entry.ino,
                added,
                name: Vec::new(),
            })
        });
        removes.chain(adds).collect()
    }

    fn rename(&mut self, from: Path, to: Path) -> Outcome {
        let ino = self.ino(from)?;
        let target = self.ino(to).ok();
        if from == to
            || target == Some(ino)
            || from == DIR
            || target == self.ino(DIR).ok() && target.is_some()
        {
            return Err(Stop::NotNow);
        }
        let removed = if target.is_some() { vec![from, to] } else { vec![from] };
        self.names(&removed, &[(to, ino)])
    }

    // ---- data

    /// A free block that no file has. `taken`: blocks of this call.
    pub(super) fn free_block(&mut self, taken: &[u64], want: Want) -> Result<u64, Stop> {
        let used = self.world.tree.references(self.world.rules);
        let zones = self.world.setup.zones as u64;
        let of = |zone: u64| (0..ZONE_BLOCKS as u64).map(move |block| zone * ZONE_BLOCKS as u64 + block);
        let is_free = |block: &u64| !used.contains_key(block) && !taken.contains(block);
        let mine = |zone: &u64| of(*zone).any(|block| used.contains_key(&block) || taken.contains(&block));
        let begun = (0..zones).filter(mine).flat_map(of).find(is_free);
        if let Some(block) = begun {
            return Ok(block);
        }
        if self.world.setup.scarce && !self.world.stock().grants(want, self.world.rules) {
            return Err(Stop::NoSpace);
        }
        let zone = self.world.free_zones().last().copied().ok_or(Stop::NoSpace)?;
        of(u64::from(zone)).next().ok_or(Stop::NoSpace)
    }

    pub(super) fn cells(place: u64, cells: &[u32]) -> impl Iterator<Item = Unit> {
        let from = place as usize * CELLS;
        cells.iter().enumerate().map(move |(index, value)| Unit::Cell { at: from + index, value: *value })
    }

    pub(super) fn extent(&self, file: u64, place: u64, cells: &[u32]) -> Extent {
        let checksums = if self.world.setup.checked { vec![checksum(cells)] } else { Vec::new() };
        Extent { file, place, count: 1, checksums, ..Extent::default() }
    }

    /// What a block of a file holds as a call may change it, bytes beyond the end as zeros.
    pub(super) fn content(&self, ino: u64, block: u64) -> [u32; CELLS] {
        let cells = self.want.files.get(&ino).map_or(&[][..], |file| &file.cells);
        let cell = |index: usize| cells.get(block as usize * CELLS + index).copied().unwrap_or(0);
        std::array::from_fn(cell)
    }

    pub(super) fn facts(&self, ino: u64, block: u64) -> Option<(u64, Block)> {
        let slot = self.inode(ino).ok()?.blocks.get(block)?.value;
        let Slot::Block { place, unwritten, checksum, .. } = slot else { return None };
        let references = self.world.tree.references(self.world.rules).get(&place).copied().unwrap_or(0);
        let bytes_in_log = self.has_patches(ino, block);
        Some((place, Block { references, checked: checksum.is_some(), unwritten, bytes_in_log }))
    }

    /// Whether records have bytes of a block.
    fn has_patches(&self, ino: u64, block: u64) -> bool {
        let patches = self.inode(ino).ok().and_then(|inode| inode.patches.get(&block));
        patches.is_some_and(|patches| !patches.is_empty())
    }

    /// What must be stored when a file grows over an end within a block: zeros in place, or a new block.
    fn zero_tail(&mut self, ino: u64, cell: usize) -> Result<(Vec<Unit>, Vec<Extent>), Stop> {
        let (size, block) = (self.size(ino), (self.size(ino) / CELLS) as u64);
        let Some((place, facts)) = self.facts(ino, block) else { return Ok(Default::default()) };
        if size.is_multiple_of(CELLS) || cell <= size || self.world.rules.lacks(mutant::TAIL_NOT_ZEROED) {
            return Ok(Default::default());
        }
        let cells = self.content(ino, block);
        if facts.takes_stores(self.world.rules) {
            let within = size % CELLS;
            let zeros =
                (within..CELLS).map(|index| Unit::Cell { at: place as usize * CELLS + index, value: 0 });
            return Ok((zeros.collect(), Vec::new()));
        }
        let place = self.free_block(&[], Want::Data)?;
        Ok((Self::cells(place, &cells).collect(), vec![self.extent(block, place, &cells)]))
    }

    pub(super) fn write(&mut self, path: Path, cell: usize, count: usize) -> Outcome {
        let ino = self.ino(path)?;
        let values: Vec<u32> = (0..count).map(|_| self.token()).collect();
        let time = self.stamp(&[ino]);
        let write = self.prepare(ino, cell, &values, time)?;
        self.store(ino, write)?;
        self.want.file(ino).write(cell, &values, time);
        Ok(())
    }

    /// The data and the record of a write.
    fn prepare(
        &mut self,
        ino: u64,
        cell: usize,
        values: &[u32],
        time: u64,
    ) -> Result<(Vec<Unit>, Write), Stop> {
        let (size, end) = (self.size(ino), cell + values.len());
        let (mut data, mut extents) = self.zero_tail(ino, cell)?;
        let mut taken: Vec<u64> = extents.iter().map(|extent: &Extent| extent.place).collect();
        for block in cell / CELLS..end.div_ceil(CELLS) {
            let mut cells = self.content(ino, block as u64);
            for (index, value) in cells.iter_mut().enumerate() {
                let at = block * CELLS + index;
                if (cell..end).contains(&at) {
                    *value = values[at - cell];
                }
            }
            let beyond = cell.max(block * CELLS) >= size;
            let own = self
                .facts(ino, block as u64)
                .filter(|(_, facts)| beyond && facts.takes_stores(self.world.rules));
            let place = match own {
                Some((place, _)) => place,
                None => self.free_block(&taken, Want::Data)?,
            };
            let from = if own.is_some() { size.max(block * CELLS) - block * CELLS } else { 0 };
            data.extend(Self::cells(place, &cells).skip(from));
            taken.push(place);
            extents.push(self.extent(block as u64, place, &cells));
        }
        let grows = end > size || self.world.rules.lacks(mutant::EVERY_WRITE_HAS_SIZE);
        let size = grows.then_some((end.max(size) * CELL_BYTES) as u64);
        Ok((data, Write { ino, extents: extents.into(), size, time: Some(time) }))
    }

    /// Commits a write, with the id that its blocks, the last cut and, if it extends the file, the size demand.
    pub(super) fn store(&mut self, ino: u64, (data, write): (Vec<Unit>, Write)) -> Outcome {
        let (changed, cut) = self.ids(ino);
        let mut objects = vec![cut];
        objects.extend(write.extents.iter().map(|extent| self.block_id(ino, extent.file)));
        if write.size.is_some() {
            objects.push(changed);
        }
        let id = self.world.next_id(self.shard, &objects);
        let (extents, grows) = (write.extents.clone(), write.size.is_some());
        let records = write.split(id, self.world.setup.record_lines);
        self.world.commit(self.shard, Want::Records, &data, &records)?;
        for extent in extents {
            self.world.block_ids.insert((ino, extent.file), id.time());
        }
        if grows {
            self.world.ids.insert(ino, (id.time(), cut));
        }
        Ok(())
    }

    fn write_two(&mut self, path: Path) -> Outcome {
        let ino = self.ino(path)?;
        let time = self.stamp(&[ino]);
        let values = [self.token(), self.token(), self.token(), self.token()];
        let (mut data, mut write) = self.prepare(ino, 0, &values[..2], time)?;
        let place = self
            .free_block(&write.extents.iter().map(|extent| extent.place).collect::<Vec<_>>(), Want::Data)?;
        data.extend(Self::cells(place, &values[2..]));
        write.extents.push(self.extent(2, place, &values[2..]));
        let size = self.size(ino).max(3 * CELLS);
        write.size = (size > self.size(ino)).then_some((size * CELL_BYTES) as u64);
        if !self.size(ino).is_multiple_of(CELLS) && self.size(ino) < 2 * CELLS && self.size(ino) > CELLS {
            return Err(Stop::NotNow);
        }
        self.store(ino, (data, write))?;
        self.want.file(ino).write(0, &values[..2], time);
        self.want.file(ino).write(2 * CELLS, &values[2..], time);
        Ok(())
    }

    fn truncate(&mut self, path: Path, cells: usize) -> Outcome {
        let ino = self.ino(path)?;
        let time = self.stamp(&[ino]);
        if cells == self.size(ino) {
            return Err(Stop::NotNow);
        }
        if cells > self.size(ino) {
            let (data, extents) = self.zero_tail(ino, cells)?;
            let size = Some((cells * CELL_BYTES) as u64);
            self.store(ino, (data, Write { ino, extents: extents.into(), size, time: Some(time) }))?;
        } else {
            self.cut(ino, cells, time)?;
        }
        self.want.file(ino).cells.resize(cells, 0);
        self.want.file(ino).changed(time);
        Ok(())
    }

    fn cut(&mut self, ino: u64, cells: usize, time: u64) -> Outcome {
        let beyond = |key: &(u64, u64)| key.0 == ino && key.1 as usize >= cells / CELLS;
        let mut objects = vec![self.ids(ino).0];
        objects.extend(self.world.block_ids.iter().filter(|(key, _)| beyond(key)).map(|(_, id)| *id));
        let id = self.world.next_id(self.shard, &objects);
        // The zone is open before the number of the next opening is taken.
        let before = self.world.openings + 1;
        let cut = Cut { ino, size: (cells * CELL_BYTES) as u64, before, time };
        self.world.commit(self.shard, Want::Removals, &[], &[Record::alone(id, Body::Cut(cut))])?;
        self.world.ids.insert(ino, (id.time(), id.time()));
        Ok(())
    }

    fn punch(&mut self, path: Path, block: u64) -> Outcome {
        let ino = self.ino(path)?;
        if self.inode(ino)?.blocks.get(block).is_none() || (block as usize + 1) * CELLS > self.size(ino) {
            return Err(Stop::NotNow);
        }
        let time = self.stamp(&[ino]);
        let id = self.world.next_id(self.shard, &[self.ids(ino).1, self.block_id(ino, block)]);
        let hole = Hole { ino, from: block, count: 1, before: self.world.openings + 1, time };
        self.world.commit(self.shard, Want::Removals, &[], &[Record::alone(id, Body::Hole(hole))])?;
        self.world.block_ids.insert((ino, block), id.time());
        self.want.file(ino).punch(block as usize, time);
        Ok(())
    }

    /// `fallocate` of a hole within the file.
    fn allocate(&mut self, path: Path, block: u64) -> Outcome {
        let ino = self.ino(path)?;
        if self.facts(ino, block).is_some() {
            return Err(Stop::NotNow);
        }
        let time = self.stamp(&[ino]);
        let place = self.free_block(&[], Want::Data)?;
        let extent = Extent { file: block, place, count: 1, unwritten: true, ..Extent::default() };
        let write = Write { ino, extents: vec![extent].into(), size: None, time: Some(time) };
        self.store(ino, (Vec::new(), write))?;
        self.want.file(ino).changed(time);
        Ok(())
    }

    fn clone_file(&mut self, from: Path, to: Path) -> Outcome {
        let (source, ino) = (self.ino(from)?, self.ino(to)?);
        let size = self.size(source);
        for block in 0..size.div_ceil(CELLS) as u64 {
            if self.has_patches(source, block) && !self.world.rules.lacks(mutant::CLONED_WITHOUT_INLINE) {
                self.move_to_new(source, block, None)?;
            }
        }
        if source == ino || size == 0 || self.size(ino) > size || !self.size(ino).is_multiple_of(CELLS) {
            return Err(Stop::NotNow);
        }
        let time = self.stamp(&[ino]);
        let blocks = (0..size.div_ceil(CELLS) as u64).filter_map(|block| {
            let slot = self.inode(source).ok()?.blocks.get(block)?.value;
            let Slot::Block { place, unwritten, checksum, .. } = slot else { return None };
            let checksums = checksum.into_iter().collect();
            Some(Extent { file: block, place, count: 1, cloned: true, unwritten, checksums })
        });
        let extents: Vec<_> = blocks.collect();
        if extents.len() < size.div_ceil(CELLS) {
            return Err(Stop::NotNow);
        }
        let grows = size > self.size(ino);
        let size = grows.then_some((size * CELL_BYTES) as u64);
        self.store(ino, (Vec::new(), Write { ino, extents: extents.into(), size, time: Some(time) }))?;
        let cells = self.want.file(source).cells.clone();
        self.want.file(ino).cells = cells;
        self.want.file(ino).changed(time);
        Ok(())
    }

    fn move_block(&mut self, path: Path) -> Outcome {
        let ino = self.ino(path)?;
        let (place, facts) = self.facts(ino, 0).ok_or(NotNow)?;
        if facts.references > 1 || facts.unwritten {
            return Err(Stop::NotNow);
        }
        if facts.bytes_in_log {
            return self.move_to_new(ino, 0, None);
        }
        let cells = block_cells(&self.world.current, place).to_vec();
        self.place_cells(ino, 0, &cells, None)
    }

    // ---- attributes

    fn owner(&mut self, path: Path, mode: u16, uid: u32) -> Outcome {
        let ino = self.ino(path)?;
        let time = self.stamp(&[ino]);
        let file = &self.want.files[&ino];
        let (mut mode, uid) = (file.mode ^ mode, file.uid ^ uid);
        let (wanted, partly) = (mode, self.world.rules.lacks(mutant::OWNER_IN_PART));
        if partly && uid != file.uid {
            mode = self.inode(ino)?.birth.value.mode;
        }
        let (changed, cut) = self.ids(ino);
        let id = self.world.next_id(self.shard, &[changed]);
        let owner = Owner { ino, mode, uid, gid: 0, time };
        self.world.commit(self.shard, Want::Records, &[], &[Record::alone(id, Body::Owner(owner))])?;
        self.world.ids.insert(ino, (id.time(), cut));
        let file = self.want.file(ino);
        (file.mode, file.uid, file.ctime) = (wanted, uid, time);
        Ok(())
    }

    fn utimes(&mut self, path: Path) -> Outcome {
        let ino = self.ino(path)?;
        let stamp = self.stamp(&[ino]);
        let (atime, mtime) = (1_000_000 - self.world.now, 2_000_000 - self.world.now);
        let id = self.world.next_id(self.shard, &[]);
        let mask = times::ATIME | times::MTIME | times::CTIME;
        let set = Times { ino, mask, stamp, atime, mtime };
        self.world.commit(self.shard, Want::Records, &[], &[Record::alone(id, Body::Times(set))])?;
        let file = self.want.file(ino);
        (file.atime, file.mtime, file.ctime) = (atime, mtime, stamp);
        Ok(())
    }

    fn xattr(&mut self, path: Path, removed: bool) -> Outcome {
        let ino = self.ino(path)?;
        if removed && self.want.file(ino).xattr.is_none() {
            return Err(Stop::NotNow);
        }
        let time = self.stamp(&[ino]);
        let (changed, cut) = self.ids(ino);
        let id = self.world.next_id(self.shard, &[changed]);
        let value = self.token() as u8;
        let before = self.world.openings + 1;
        let set =
            Xattr { ino, name: b"user.a".to_vec(), value: vec![value], blocks: None, before, time, removed };
        self.world.commit(self.shard, Want::Records, &[], &[Record::alone(id, Body::Xattr(set))])?;
        self.world.ids.insert(ino, (id.time(), cut));
        let file = self.want.file(ino);
        (file.xattr, file.ctime) = ((!removed).then_some(value), time);
        Ok(())
    }

    // ---- cleaning

    fn clean(&mut self, nth: u8, one: bool) -> Outcome {
        let zone = *self.world.sealed().get(usize::from(nth)).ok_or(NotNow)?;
        if !self.world.copy_next(self.shard, zone)? {
            return Err(Stop::NotNow);
        }
        while !one && self.world.copy_next(self.shard, zone)? {}
        Ok(())
    }

    // ---- calls side by side, calls that fail

    /// The writer below the boundary has stored its data, knows the old size, and commits after the cut.
    fn write_during_cut(&mut self, path: Path, cells: usize) -> Outcome {
        let ino = self.ino(path)?;
        if cells < CELLS || cells >= self.size(ino) {
            return Err(Stop::NotNow);
        }
        let values = [self.token()];
        let time = self.stamp(&[ino]);
        let write = self.prepare(ino, 0, &values, time)?;
        self.world.now += 1;
        let later = self.stamp(&[ino]) + 1;
        self.cut(ino, cells, later)?;
        self.want.file(ino).cells.truncate(cells);
        self.want.file(ino).changed(later);
        self.boundary();
        self.store(ino, write)?;
        self.want.file(ino).write(0, &values, later);
        Ok(())
    }

    fn write_beyond_cut(&mut self, path: Path, cells: usize) -> Outcome {
        let ino = self.ino(path)?;
        let last = self.size(ino).wrapping_sub(1);
        if self.size(ino) < CELLS || cells > last / CELLS * CELLS {
            return Err(Stop::NotNow);
        }
        let values = [self.token()];
        let time = self.stamp(&[ino]);
        let write = self.prepare(ino, last, &values, time)?;
        if self.world.rules.lacks(mutant::CUT_PASSES_NOTHING) {
            self.cut(ino, cells, time + 1)?;
            self.boundary();
            self.store(ino, write)?;
        } else {
            self.store(ino, write)?;
            self.want.file(ino).write(last, &values, time);
            self.boundary();
            self.cut(ino, cells, time + 1)?;
        }
        self.want.file(ino).cells.truncate(cells);
        self.want.file(ino).changed(time + 1);
        Ok(())
    }

    fn write_during_utimes(&mut self, path: Path) -> Outcome {
        let ino = self.ino(path)?;
        let values = [self.token()];
        let time = self.stamp(&[ino]);
        let write = self.prepare(ino, 0, &values, time)?;
        self.world.now += 1;
        self.utimes(path)?;
        self.boundary();
        let (mtime, ctime) = (self.want.file(ino).mtime, self.want.file(ino).ctime);
        self.store(ino, write)?;
        self.want.file(ino).write(0, &values, time);
        (self.want.file(ino).mtime, self.want.file(ino).ctime) = (mtime, ctime);
        Ok(())
    }

    /// Between two calls of one operation: a crash from here on may show what users see now.
    pub(super) fn boundary(&mut self) {
        self.between.push(self.want.clone());
    }

    fn remount(&mut self) {
        let (image, now) = (self.world.current.clone(), self.world.now);
        *self.world = World::recover(image, self.world.setup, self.world.rules);
        // The clock may go back, but histories must differ from those without the mount.
        self.world.now = now / 2;
    }

    fn failed_create(&mut self, path: Path) -> Outcome {
        let (dir, name) = self.key(path)?;
        if self.want.names.contains_key(&(dir, name)) {
            return Err(Stop::NotNow);
        }
        let ino = self.world.next_inode(self.shard as u8);
        let id = self.world.next_id(self.shard, &[]);
        let (mode, time) = (0o100_600, self.stamp(&[dir]));
        let create = Create { ino, dir, name: vec![name], mode, time, ..Create::default() };
        let mut done = self.want.clone();
        done.files.insert(ino, File { mode, ..File::born(time) });
        done.add((dir, name), ino, time);
        self.between.push(done);
        self.fail(id, &[Record::alone(id, Body::Create(create))])
    }

    fn failed_write(&mut self, path: Path) -> Outcome {
        let ino = self.ino(path)?;
        let values = [self.token(), self.token()];
        let time = self.stamp(&[ino]);
        let (data, write) = self.prepare(ino, 0, &values, time)?;
        let mut done = self.want.clone();
        done.file(ino).write(0, &values, time);
        self.between.push(done);
        for unit in data {
            self.world.store(self.shard as u8, unit);
        }
        self.world.fence(self.shard as u8);
        let id = self.world.next_id(self.shard, &[self.ids(ino).0, self.ids(ino).1, self.block_id(ino, 0)]);
        self.fail(id, &group(id, vec![Body::Write(write)]))
    }

    /// The flush of these records fails: they may persist or not. The shard leaves the zone, and a `Void` says that they do not
    /// count.
    fn fail(&mut self, id: Id, records: &[Record]) -> Outcome {
        let lines = records.iter().map(|record| record.lines() as u32).sum();
        let Some((zone, opening, line)) = self.world.tails[self.shard].open else { return Err(Stop::NotNow) };
        if !self.world.fits(self.shard, lines) {
            return Err(Stop::NotNow);
        }
        let pending = self.world.pending.len();
        self.world.append(self.shard, Want::Records, records)?;
        for (task, _) in &mut self.world.pending[pending..] {
            *task = NEVER;
        }
        self.world.tails[self.shard] = super::world::Tail {
            open: None,
            previous: Some((zone, opening, line)),
            ..self.world.tails[self.shard]
        };
        self.world.bad.insert(zone);
        let void = Void { zone, opening, failed: id };
        let id = self.world.next_id(self.shard, &[]);
        if self.world.rules.lacks(mutant::VOID_MISSING) {
            self.world.survey();
            return Ok(());
        }
        self.world.commit(self.shard, Want::Removals, &[], &[Record::alone(id, Body::Void(void))])?;
        Ok(())
    }
}
