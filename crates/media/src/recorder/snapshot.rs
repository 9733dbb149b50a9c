//! Content by shared pages, crash images, and a region that takes on one image after another.
//!
//! A snapshot is a table of shared pages; a page of zeros is no page. An image is a snapshot and the lines
//! that differ from it, so it costs what it changes. Fingerprints are sums over lines, so they too cost what
//! changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::{Bytes, LINE_BYTES, PAGE_BYTES};

use crate::block::BlockDevice;
use crate::cost::CostModel;
use crate::event::{BlockEvent, Event, Tap, TaskId};
use crate::fault::Fault;
use crate::{MediaError, Region};

pub(super) const LINE: u64 = LINE_BYTES as u64;
const PAGE: u64 = PAGE_BYTES as u64;
const LINES_PER_PAGE: u64 = PAGE / LINE;

/// What a line holds.
pub(super) type LineBytes = [u8; LINE_BYTES];
type Page = [u8; PAGE_BYTES];

/// The content of a region at one moment.
#[derive(Clone)]
pub struct Snapshot {
    len: u64,
    pages: Arc<Vec<Option<Arc<Page>>>>,
    fingerprint: u64,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({} bytes, {:016x})", self.len, self.fingerprint)
    }
}

impl Snapshot {
    /// Copies a region, unseen by its taps and untouched by its faults. No task may store meanwhile.
    pub fn of(region: &Region) -> Result<Self, MediaError> {
        Self::read(region.len(), |off, to| region.copy_out(off, to))
    }

    /// The same of a block device.
    pub fn of_block(device: &dyn BlockDevice) -> Result<Self, MediaError> {
        Self::read(device.geometry().bytes.0, |off, to| device.peek(off, to))
    }

    fn read(len: u64, read: impl Fn(u64, &mut [u8]) -> Result<(), MediaError>) -> Result<Self, MediaError> {
        let mut snapshot = Self { len, pages: Arc::default(), fingerprint: 0 };
        let mut pages = Vec::with_capacity(len.div_ceil(PAGE) as usize);
        for number in 0..len.div_ceil(PAGE) {
            let mut page = [0; PAGE_BYTES];
            let here = PAGE.min(len - number * PAGE) as usize;
            read(number * PAGE, &mut page[..here])?;
            pages.push((page != [0; PAGE_BYTES]).then(|| Arc::new(page)));
            snapshot.fingerprint = snapshot.fingerprint.wrapping_add(hash_page(number, &page));
        }
        snapshot.pages = Arc::new(pages);
        Ok(snapshot)
    }

    /// Size in bytes.
    #[allow(clippy::len_without_is_empty)] // regions are never empty
    pub fn len(&self) -> u64 {
        self.len
    }

    /// A number that differs, but for accidents of one in 2^64, when the content does.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(super) fn line(&self, line: u64) -> LineBytes {
        let at = (line % LINES_PER_PAGE * LINE) as usize;
        let page = self.pages.get((line / LINES_PER_PAGE) as usize).and_then(Option::as_ref);
        page.map_or([0; LINE_BYTES], |page| *page[at..].first_chunk().expect("a line lies inside its page"))
    }

    /// Changes a line, in a copy of its page if the page is shared.
    pub(super) fn set_line(&mut self, line: u64, bytes: &LineBytes) {
        let old = self.line(line);
        if old == *bytes {
            return;
        }
        self.fingerprint =
            self.fingerprint.wrapping_sub(hash_line(line, &old)).wrapping_add(hash_line(line, bytes));
        let pages = Arc::make_mut(&mut self.pages);
        if let Some(slot) = pages.get_mut((line / LINES_PER_PAGE) as usize) {
            let page = Arc::make_mut(slot.get_or_insert_with(|| Arc::new([0; PAGE_BYTES])));
            let at = (line % LINES_PER_PAGE * LINE) as usize;
            page[at..at + LINE_BYTES].copy_from_slice(bytes);
        }
    }

    fn page(&self, number: usize) -> Option<&Arc<Page>> {
        self.pages.get(number).and_then(Option::as_ref)
    }
}

fn hash_page(number: u64, page: &Page) -> u64 {
    let lines = page.as_chunks::<LINE_BYTES>().0.iter().zip(number * LINES_PER_PAGE..);
    lines.fold(0, |sum: u64, (bytes, line)| sum.wrapping_add(hash_line(line, bytes)))
}

/// The part of a line in a fingerprint; nothing for zeros.
fn hash_line(line: u64, bytes: &LineBytes) -> u64 {
    if *bytes == [0; LINE_BYTES] {
        return 0;
    }
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(line.wrapping_mul(0x9e37_79b9_7f4a_7c15), |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) ^ mixed >> 32
    })
}

/// What a crash left.
#[derive(Clone, Debug)]
pub struct Image {
    pub(super) base: Snapshot,
    /// Lines that differ from the base, without repeats.
    pub(super) delta: Vec<(u64, LineBytes)>,
    /// A line that cannot be read.
    pub(super) poisoned: Option<u64>,
}

impl Image {
    /// Size in bytes.
    #[allow(clippy::len_without_is_empty)] // regions are never empty
    pub fn len(&self) -> u64 {
        self.base.len
    }

    /// A number that differs, but for accidents of one in 2^64, when the image does.
    pub fn fingerprint(&self) -> u64 {
        let poison = self.poisoned.map_or(0, |line| hash_line(line, &[0xff; LINE_BYTES]).rotate_left(17));
        self.delta.iter().fold(self.base.fingerprint.wrapping_add(poison), |sum, (line, bytes)| {
            sum.wrapping_sub(hash_line(*line, &self.base.line(*line))).wrapping_add(hash_line(*line, bytes))
        })
    }

    /// All of it.
    pub fn content(&self) -> Snapshot {
        let mut content = self.base.clone();
        for (line, bytes) in &self.delta {
            content.set_line(*line, bytes);
        }
        content
    }

    /// Offsets of the lines that differ from the guaranteed content.
    pub fn persisted_lines(&self) -> Vec<u64> {
        self.delta.iter().map(|(line, _)| line * LINE).collect()
    }

    /// What the line that holds `off` contains.
    pub fn line_at(&self, off: u64) -> [u8; LINE_BYTES] {
        let changed = self.delta.iter().find(|(line, _)| *line == off / LINE);
        changed.map_or_else(|| self.base.line(off / LINE), |(_, bytes)| *bytes)
    }

    /// A new region that holds the image. For many images in turn, use [`Scratch`].
    pub fn region(&self, model: Box<dyn CostModel>) -> Result<Arc<Region>, MediaError> {
        let mut scratch = Scratch::new(Bytes(self.base.len), model)?;
        scratch.load(self)?;
        let Scratch { region, touched, .. } = scratch;
        region.detach(&touched);
        Ok(region)
    }
}

/// A region that becomes one image after another, at the price of the pages that differ.
#[derive(Debug)]
pub struct Scratch {
    region: Arc<Region>,
    touched: Arc<TouchedPages>,
    /// What the untouched pages hold; none: zeros.
    base: Option<Snapshot>,
}

impl Scratch {
    /// A region of zeros.
    pub fn new(len: Bytes, model: Box<dyn CostModel>) -> Result<Self, MediaError> {
        let region = Arc::new(Region::anonymous(len, model)?);
        let touched = Arc::new(TouchedPages::new(len.0.div_ceil(PAGE)));
        region.attach(Arc::clone(&touched) as Arc<dyn Tap>);
        Ok(Self { region, touched, base: None })
    }

    /// The region.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Makes the region hold `image`. No task may use the region meanwhile. Queues of its cost model are
    /// emptied.
    pub fn load(&mut self, image: &Image) -> Result<&Arc<Region>, MediaError> {
        self.mark_changed_pages(&image.base);
        for number in self.touched.drain() {
            let at = number as u64 * PAGE;
            let len = PAGE.min(image.base.len - at) as usize;
            let zeros = [0; PAGE_BYTES];
            let page = image.base.page(number).map_or(&zeros, |page| &**page);
            self.region.copy_in(at, &page[..len])?;
        }
        for (line, bytes) in &image.delta {
            let len = LINE.min(image.base.len - line * LINE) as usize;
            self.region.copy_in(line * LINE, &bytes[..len])?;
            self.touched.add(line * LINE, LINE);
        }
        self.base = Some(image.base.clone());
        self.region.clear_faults();
        self.region.model().reset();
        if let Some(line) = image.poisoned {
            self.region.inject(Fault::Poison { offset: line * LINE });
        }
        Ok(&self.region)
    }

    /// Pages in which the new base differs from the old one count as touched.
    fn mark_changed_pages(&self, base: &Snapshot) {
        if self.base.as_ref().is_some_and(|old| Arc::ptr_eq(&old.pages, &base.pages)) {
            return;
        }
        for number in 0..base.pages.len() {
            let old = self.base.as_ref().and_then(|old| old.page(number));
            let same = match (old, base.page(number)) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                (old, new) => old.is_none() && new.is_none(),
            };
            if !same {
                self.touched.add(number as u64 * PAGE, 1);
            }
        }
    }
}

/// Which pages were stored to: a bit for each.
#[derive(Debug)]
struct TouchedPages {
    bits: Box<[AtomicU64]>,
}

impl TouchedPages {
    fn new(pages: u64) -> Self {
        Self { bits: (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    fn add(&self, off: u64, len: u64) {
        if len == 0 {
            return;
        }
        for page in off / PAGE..=(off + len - 1) / PAGE {
            if let Some(word) = self.bits.get((page / 64) as usize) {
                word.fetch_or(1 << (page % 64), Relaxed);
            }
        }
    }

    /// The touched pages; afterwards none is.
    fn drain(&self) -> Vec<usize> {
        let mut pages = Vec::new();
        for (index, word) in self.bits.iter().enumerate() {
            let mut bits = word.swap(0, Relaxed);
            while bits != 0 {
                pages.push(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        pages
    }
}

impl Tap for TouchedPages {
    fn event(&self, _: TaskId, event: Event<'_>) {
        match event {
            Event::Store { off, data, .. }
            | Event::NtStore { off, data }
            | Event::Block(BlockEvent::Write { off, data, .. }) => self.add(off, data.len() as u64),
            Event::Block(BlockEvent::Discard { off, len, .. }) => self.add(off, len),
            _ => {}
        }
    }
}
