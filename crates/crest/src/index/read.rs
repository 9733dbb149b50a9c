//! Reading the contents of files: bytes that are in frames, in records, and on the medium.

use std::ops::Range;

use super::Index;
use super::inode::State;
use super::map::{Place, Run};
use super::span::Span;
use crate::format::layout::BLOCK;
use crate::store::frames::Page;
use base::error::Result;

impl Index {
    /// Reads bytes of a file that has frames, which lie before its end.
    pub(crate) fn read_frames(&self, file: &State, span: Span, out: &mut [u8]) -> Result<()> {
        let Some(buffer) = file.buffer.as_deref() else { return self.read_medium(file, span, out) };
        let frames = buffer.frames.range(span.blocks());
        self.read_over(file, span, out, frames.map(|(block, frame)| (*block, frame.from(), frame.page())))
    }

    /// Reads bytes of a file that lie before its end: from some blocks on, those of frames, each from a byte of its block on.
    fn read_over<'f>(
        &self,
        file: &State,
        span: Span,
        out: &mut [u8],
        frames: impl Iterator<Item = (u64, usize, &'f Page)>,
    ) -> Result<()> {
        let mut at = span.start;
        let place = |at: u64| (at - span.start) as usize;
        for (block, from, page) in frames {
            let start = (block * BLOCK + from as u64).clamp(at, span.end);
            let end = ((block + 1) * BLOCK).min(span.end);
            self.read_medium(file, Span { start: at, end: start }, &mut out[place(at)..place(start)])?;
            if start < end {
                let within = (start - block * BLOCK) as usize;
                self.frames.read(page.0, within, &mut out[place(start)..place(end)]);
            }
            at = end;
        }
        self.read_medium(file, Span { start: at, end: span.end }, &mut out[place(at)..])
    }

    /// Reads bytes of a file that has pages in frames, which lie before its end.
    pub(crate) fn read_pages(&self, file: &State, span: Span, out: &mut [u8]) -> Result<()> {
        let Some(pages) = file.pages.as_deref() else { return self.read_medium(file, span, out) };
        let held = pages.held.range(span.blocks()).map(|(at, page)| (*at, 0, &page.frame));
        self.read_over(file, span, out, held)
    }

    /// Reads bytes of a file that lie before its end, from the medium.
    pub(crate) fn read_medium(&self, file: &State, span: Span, out: &mut [u8]) -> Result<()> {
        for run in file.blocks()?.runs(span.blocks()) {
            let start = span.start.max(run.file * BLOCK);
            let end = span.end.min((run.file + run.count) * BLOCK);
            let piece = &mut out[(start - span.start) as usize..(end - span.start) as usize];
            match run.place.filter(|place| !place.unwritten) {
                Some(place) => {
                    let part = Run { place: Some(place), ..run };
                    self.read_patched(file, &part, start, piece)?;
                }
                None => piece.fill(0),
            }
        }
        Ok(())
    }

    /// Reads what a file has in a block around `new`; returns where its bytes end there.
    pub(crate) fn load_rest(
        &self,
        file: &State,
        place: Option<Place>,
        block: u64,
        bytes: &mut [u8; BLOCK as usize],
        new: Range<usize>,
    ) -> Result<usize> {
        let end = file.size.saturating_sub(block * BLOCK).min(BLOCK) as usize;
        let at = block;
        let Some(Place { block, unwritten: false }) = place else { return Ok(0) };
        if 0 < new.start.min(end) || new.end < end {
            self.compare(file, at, block, None)?;
        }
        // Only what stays is read, so that what cannot be read can be overwritten.
        for rest in [0..new.start.min(end), new.end..end.max(new.end)] {
            if !rest.is_empty() {
                self.load_bytes(file, at, block, rest.start, &mut bytes[rest])?;
            }
        }
        Ok(end)
    }

    // ---- blocks of which records have bytes

    /// Loads bytes of a block that has a place, from `from` on: those that lie in records from DRAM.
    pub(crate) fn load_bytes(
        &self,
        file: &State,
        at: u64,
        block: u64,
        from: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let blocks = file.blocks()?;
        if !blocks.is_patched(at) {
            return Ok(self.region.load(block * BLOCK + from as u64, out)?);
        }
        let gaps = blocks.read_patches(at, from, out);
        let medium: usize = gaps.iter().map(Range::len).sum();
        if medium < out.len() {
            sim::copy((out.len() - medium) as u64);
        }
        for gap in gaps {
            self.region.load(block * BLOCK + (from + gap.start) as u64, &mut out[gap])?;
        }
        Ok(())
    }

    /// Loads bytes of a run of blocks that has a place, from byte `start` of the file on, and compares checksums.
    pub(crate) fn read_patched(&self, file: &State, run: &Run, start: u64, out: &mut [u8]) -> Result<()> {
        let end = start + out.len() as u64;
        let patched = file.blocks()?.patched(start / BLOCK..end.div_ceil(BLOCK));
        let (mut at, place) = (start, |at: u64| (at - start) as usize);
        for block in patched {
            let (from, to) = (start.max(block * BLOCK), end.min((block + 1) * BLOCK));
            self.read_plain(file, run, at, &mut out[place(at)..place(from)])?;
            if let Some(Place { block: first, .. }) = run.place {
                let medium = first + block - run.file;
                self.compare(file, block, medium, None)?;
                let within = (from - block * BLOCK) as usize;
                self.load_bytes(file, block, medium, within, &mut out[place(from)..place(to)]).inspect_err(
                    |error| self.losses.tell(&format!("inode {}: byte {from}: {error}", file.ino)),
                )?;
            }
            at = to;
        }
        self.read_plain(file, run, at, &mut out[place(at)..])
    }

    /// The same of blocks of which no record has bytes.
    fn read_plain(&self, file: &State, run: &Run, start: u64, out: &mut [u8]) -> Result<()> {
        match run.place.filter(|_| !out.is_empty()) {
            Some(place) => self.read_run(file, run, place, start, out),
            None => Ok(()),
        }
    }
}
