//! Calls about blocks of which records have bytes: what makes such a record, and what may not meet one.

use fs::crest::format::inline::Inline;
use fs::crest::format::mutant;
use fs::crest::format::place::Block;
use fs::crest::format::record::{Body, Record, Write, group};
use fs::crest::format::zone::Want;

use super::image::{CELLS, Unit};
use super::ops::{Call, Outcome, Path, Stop};
use super::world::{CELL_BYTES, NotNow, patch};

impl Call<'_> {
    /// Gives a block a new place, with all that it holds.
    pub(super) fn move_to_new(&mut self, ino: u64, block: u64, time: Option<u64>) -> Outcome {
        let cells = self.content(ino, block);
        self.place_cells(ino, block, &cells, time)
    }

    pub(super) fn place_cells(&mut self, ino: u64, block: u64, cells: &[u32], time: Option<u64>) -> Outcome {
        let new = self.free_block(&[], Want::Data)?;
        let extent = self.extent(block, new, cells);
        let write = Write { ino, extents: vec![extent].into(), size: None, time };
        self.store(ino, (Self::cells(new, cells).collect(), write))
    }

    /// The written block of a cell within the file, and what is known of it.
    fn written(&self, ino: u64, cell: usize) -> Result<(u64, Block), NotNow> {
        let found = self.facts(ino, (cell / CELLS) as u64).filter(|_| cell < self.size(ino));
        found.filter(|(_, facts)| !facts.unwritten).ok_or(NotNow)
    }

    pub(super) fn inline(&mut self, path: Path, cell: usize, count: usize) -> Outcome {
        let ino = self.ino(path)?;
        let last = cell + count - 1;
        if cell / CELLS != last / CELLS || last >= self.size(ino) {
            return Err(Stop::NotNow);
        }
        self.written(ino, cell)?;
        let values: Vec<u32> = (0..count).map(|_| self.token()).collect();
        let (time, block) = (self.stamp(&[ino]), (cell / CELLS) as u64);
        let id = self.world.next_id(self.shard, &[self.ids(ino).1, self.block_id(ino, block)]);
        let inline = Inline { ino, block, patch: patch(cell, &values), time: Some(time) };
        let record = Record::alone(id, Body::Inline(inline));
        self.world.commit(self.shard, Want::Records, &[], &[record])?;
        self.world.block_ids.insert((ino, block), id.time());
        self.want.file(ino).write(cell, &values, time);
        Ok(())
    }

    pub(super) fn in_place(&mut self, path: Path, cell: usize) -> Outcome {
        let ino = self.ino(path)?;
        let (place, facts) = self.written(ino, cell)?;
        if !facts.takes_stores(self.world.rules) {
            return Err(Stop::NotNow);
        }
        let (value, time) = (self.token(), self.stamp(&[ino]));
        // The data may be durable without the record, and the record without the data.
        for (has_data, has_time) in [(true, false), (false, true)] {
            let mut seen = self.want.clone();
            if has_data {
                seen.file(ino).cells[cell] = value;
            }
            if has_time {
                seen.file(ino).changed(time);
            }
            self.between.push(seen);
        }
        self.world.store(self.shard as u8, Unit::Cell { at: place as usize * CELLS + cell % CELLS, value });
        self.store(
            ino,
            (Vec::new(), Write { ino, extents: Vec::new().into(), size: None, time: Some(time) }),
        )?;
        self.want.file(ino).write(cell, &[value], time);
        Ok(())
    }

    /// The page gets a block that can be stored to, with the times, and then the bytes without a record.
    pub(super) fn map_store(&mut self, path: Path, cell: usize) -> Outcome {
        let ino = self.ino(path)?;
        let (_, facts) = self.written(ino, cell)?;
        let ignores = self.world.rules.lacks(mutant::MAPPED_OVER_INLINE);
        let facts = Block { bytes_in_log: facts.bytes_in_log && !ignores, ..facts };
        if !facts.takes_stores(self.world.rules) {
            let time = self.stamp(&[ino]);
            self.move_to_new(ino, (cell / CELLS) as u64, Some(time))?;
            self.want.file(ino).changed(time);
            self.boundary();
        }
        let (place, _) = self.written(ino, cell)?;
        let value = self.token();
        self.world.store(self.shard as u8, Unit::Cell { at: place as usize * CELLS + cell % CELLS, value });
        self.world.fence(self.shard as u8);
        self.world.survey();
        self.want.file(ino).cells[cell] = value;
        Ok(())
    }

    pub(super) fn write_over_end(&mut self, path: Path) -> Outcome {
        let ino = self.ino(path)?;
        let Some(last) = self.size(ino).checked_sub(1).filter(|last| last.is_multiple_of(CELLS)) else {
            return Err(Stop::NotNow);
        };
        if !self.world.rules.lacks(mutant::PIECE_SPLIT_AT_END) {
            return self.write(path, last, 2);
        }
        let (place, _) = self.written(ino, last)?;
        let (values, time) = ([self.token(), self.token()], self.stamp(&[ino]));
        let (size, block) = ((last + 2) * CELL_BYTES, (last / CELLS) as u64);
        let (changed, cut) = self.ids(ino);
        let id = self.world.next_id(self.shard, &[changed, cut, self.block_id(ino, block)]);
        let extents = vec![self.extent(block, place, &values)];
        let bodies = vec![
            Body::Inline(Inline { ino, block, patch: patch(last, &values[..1]), time: None }),
            Body::Write(Write { ino, extents: extents.into(), size: Some(size as u64), time: Some(time) }),
        ];
        let data = [Unit::Cell { at: place as usize * CELLS + 1, value: values[1] }];
        self.world.commit(self.shard, Want::Records, &data, &group(id, bodies))?;
        self.world.ids.insert(ino, (id.time(), cut));
        self.world.block_ids.insert((ino, block), id.time());
        self.want.file(ino).write(last, &values, time);
        Ok(())
    }
}
