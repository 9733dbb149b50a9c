//! The contents of files in DRAM.

use sim::map::TreeMap;
use sim::{ByteRun, ran};

use super::inode::{Block, Body, Inode};
use super::state::{BLOCK, Time};
use base::error::{Error, Result};

impl Inode {
    /// Size and blocks of a regular file.
    pub(super) fn file(&self) -> Result<(u64, &TreeMap<u64, Block>)> {
        match &self.body {
            Body::File { size, blocks } => Ok((*size, blocks)),
            Body::Dir(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    pub(super) fn file_mut(&mut self) -> Result<(&mut u64, &mut TreeMap<u64, Block>)> {
        match &mut self.body {
            Body::File { size, blocks } => Ok((size, blocks)),
            _ => Err(Error::Corrupt("data for what is no regular file".to_owned())),
        }
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8], now: Time) -> Result<()> {
        let (size, blocks) = self.file_mut()?;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % BLOCK) as usize;
            let len = (BLOCK as usize - within).min(data.len() - done);
            let block = blocks.get_or_default(at / BLOCK);
            if block.len() < within + len {
                ran::allocate(u64::from(block.capacity() < within + len));
                block.resize(within + len, 0);
            }
            block[within..within + len].copy_from_slice(&data[done..done + len]);
            done += len;
        }
        *size = (*size).max(offset + data.len() as u64);
        self.mtime = now;
        Ok(())
    }

    /// Charges for the copy of a write, which is done.
    pub(super) fn copied_in(&self, run: ByteRun) -> Result<()> {
        let (_, blocks) = self.file()?;
        let end = run.at + run.len;
        for (number, block) in blocks.range(run.at / BLOCK..end.div_ceil(BLOCK)) {
            let first = number * BLOCK;
            block.copied_in(end.min(first + BLOCK) - run.at.max(first));
        }
        Ok(())
    }

    /// A file that does not grow loses what is reserved beyond its end.
    pub(super) fn resize(&mut self, new: u64, now: Time) -> Result<()> {
        let size = self.file()?.0;
        let end = if new > size { new.next_multiple_of(BLOCK) } else { u64::MAX / BLOCK * BLOCK };
        self.punch(new, end, now)?;
        *self.file_mut()?.0 = new;
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        ByteRun { at: offset, len }: ByteRun,
        new: u64,
        now: Time,
    ) -> Result<()> {
        let (size, blocks) = self.file_mut()?;
        for block in offset / BLOCK..(offset + len).div_ceil(BLOCK) {
            blocks.get_or_default(block);
        }
        *size = (*size).max(new);
        self.mtime = now;
        Ok(())
    }

    /// Makes `start..end` read as zeros: whole blocks become holes, the edges are cleared.
    pub(super) fn punch(&mut self, start: u64, end: u64, now: Time) -> Result<()> {
        let (_, blocks) = self.file_mut()?;
        let touched = blocks.range(start / BLOCK..end.div_ceil(BLOCK)).map(|(block, _)| *block);
        let touched = ran::collected(touched);
        for block in touched {
            let first = block * BLOCK;
            let (from, to) = (start.max(first) - first, end.min(first + BLOCK) - first);
            if to - from == BLOCK {
                blocks.remove(&block);
            } else if let Some(bytes) = blocks.get_mut(&block) {
                let to = (to as usize).min(bytes.len());
                if let Some(cleared) = bytes.get_mut(from as usize..to) {
                    cleared.fill(0);
                }
            }
        }
        self.mtime = now;
        Ok(())
    }
}
