//! The bytes of a device: kept, kept where they are not zero, or dropped.

use rustc_hash::FxHashMap;

use super::config::PAGE;

/// What becomes of the bytes that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// Every page that was written takes 4 KiB of memory.
    Keep,
    /// Pages of zeros take none.
    Sparse,
    /// Nothing is kept: the device is a model of time only, and reads of bytes are refused.
    #[default]
    Drop,
}

/// Bytes by logical page.
#[derive(Clone, Debug)]
pub(super) struct Store {
    data: Data,
    pages: FxHashMap<u64, Box<[u8]>>,
}

impl Store {
    pub(super) fn new(data: Data) -> Self {
        Self { data, pages: FxHashMap::default() }
    }

    pub(super) fn keeps(&self) -> bool {
        self.data != Data::Drop
    }

    /// Writes `bytes` from byte `offset` of the device on.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (lpn, within, part) in pieces(offset, bytes.len()) {
            self.write_page(lpn, within, &bytes[part]);
        }
    }

    fn write_page(&mut self, lpn: u64, within: usize, bytes: &[u8]) {
        let page = self.pages.entry(lpn).or_insert_with(|| vec![0; PAGE as usize].into_boxed_slice());
        page[within..within + bytes.len()].copy_from_slice(bytes);
        if self.data == Data::Sparse && page.iter().all(|byte| *byte == 0) {
            self.pages.remove(&lpn);
        }
    }

    /// Reads; what was never written is zero.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) {
        for (lpn, within, part) in pieces(offset, bytes.len()) {
            let to = &mut bytes[part];
            match self.pages.get(&lpn) {
                Some(page) => to.copy_from_slice(&page[within..within + to.len()]),
                None => to.fill(0),
            }
        }
    }

    /// The bytes of a page, if it has any.
    pub(super) fn page(&self, lpn: u64) -> Option<Box<[u8]>> {
        self.pages.get(&lpn).cloned()
    }

    /// Makes a page what it was.
    pub(super) fn restore(&mut self, lpn: u64, content: Option<Box<[u8]>>) {
        match content {
            Some(page) => self.pages.insert(lpn, page),
            None => self.pages.remove(&lpn),
        };
    }
}

/// The pages that a range touches: page, first byte in it, range of the buffer.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let part = done..len.min(done + PAGE as usize - within);
            done = part.end;
            (at / PAGE, within, part)
        })
    })
}
