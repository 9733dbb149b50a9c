//! Pages of B+-trees: a header, and entries of equal length in the order of their keys.
//!
//! | offset | bytes | holds |
//! |---|---|---|
//! | 0 | 8 | LSN: the end of the log record that changed the page last |
//! | 8 | 4 | CRC-32C of the rest, set when the page is written to its file |
//! | 12 | 2 | level: 0 of a leaf |
//! | 14 | 2 | number of entries |
//! | 16 | 4 | number of the page in its file |
//! | 20 | 2 | bytes of a row; of an inner page 4, the number of the page below |
//! | 22 | 2 | file of the page |
//! | 24 | 2 | place of the last insertion, and 1 |
//! | 32 | | entries: key, row |
//!
//! A page that only holds counts (the first of each file) has them from byte 32 on, and no entries.

/// Bytes of the header.
pub(super) const HEADER: usize = 32;
/// Bytes of a key.
pub(super) const KEY: usize = 8;
/// Bytes of a child's number.
pub(super) const CHILD: usize = 4;

fn u16_at(page: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([page[at], page[at + 1]]))
}

fn put_u16(page: &mut [u8], at: usize, value: usize) {
    page[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

/// Number of `N` bytes at a place.
pub(super) fn u32_at(page: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&page[at..at + 4]);
    u32::from_le_bytes(bytes)
}

pub(super) fn u64_at(page: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// An empty page.
pub(super) fn format(page: &mut [u8], file: u16, block: u32, level: usize, row: usize) {
    page.fill(0);
    put_u16(page, 12, level);
    page[16..20].copy_from_slice(&block.to_le_bytes());
    put_u16(page, 20, row);
    page[22..24].copy_from_slice(&file.to_le_bytes());
}

pub(super) fn lsn(page: &[u8]) -> u64 {
    u64_at(page, 0)
}

pub(super) fn set_lsn(page: &mut [u8], lsn: u64) {
    page[..8].copy_from_slice(&lsn.to_le_bytes());
}

fn checksum(page: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page[..8]), &page[12..])
}

/// Sets the checksum.
pub(super) fn seal(page: &mut [u8]) {
    let sum = checksum(page);
    page[8..12].copy_from_slice(&sum.to_le_bytes());
}

/// Whether a page from a file is whole: its checksum is right, or it was never written.
pub(super) fn is_whole(page: &[u8]) -> bool {
    u32_at(page, 8) == checksum(page) || page.iter().all(|byte| *byte == 0)
}

/// The file and the number of a page.
pub(super) fn place(page: &[u8]) -> (u16, u32) {
    (u16_at(page, 22) as u16, u32_at(page, 16))
}

pub(super) fn level(page: &[u8]) -> usize {
    u16_at(page, 12)
}

pub(super) fn count(page: &[u8]) -> usize {
    u16_at(page, 14)
}

/// Bytes of a row.
pub(super) fn row_len(page: &[u8]) -> usize {
    u16_at(page, 20)
}

fn entry(page: &[u8]) -> usize {
    KEY + row_len(page)
}

/// Bytes from the beginning that matter.
pub(super) fn used(page: &[u8]) -> usize {
    HEADER + count(page) * entry(page)
}

/// How many entries with rows of `row` bytes a page has room for.
pub(super) fn capacity(page_len: usize, row: usize) -> usize {
    (page_len - HEADER) / (KEY + row)
}

pub(super) fn is_full(page: &[u8]) -> bool {
    count(page) >= capacity(page.len(), row_len(page))
}

pub(super) fn key(page: &[u8], at: usize) -> u64 {
    u64_at(page, HEADER + at * entry(page))
}

pub(super) fn row(page: &[u8], at: usize) -> &[u8] {
    let from = HEADER + at * entry(page) + KEY;
    &page[from..from + row_len(page)]
}

/// The page below entry `at` of an inner page.
pub(super) fn child(page: &[u8], at: usize) -> u32 {
    u32_at(page, HEADER + at * entry(page) + KEY)
}

/// The number of entries with smaller keys.
pub(super) fn search(page: &[u8], wanted: u64) -> usize {
    first_beyond(page, 0, |key| key < wanted)
}

/// The first entry from `low` on whose key is not one of those before it.
fn first_beyond(page: &[u8], mut low: usize, is_before: impl Fn(u64) -> bool) -> usize {
    let mut high = count(page);
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_before(key(page, middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The place of a key.
pub(super) fn find(page: &[u8], wanted: u64) -> Option<usize> {
    let at = search(page, wanted);
    (at < count(page) && key(page, at) == wanted).then_some(at)
}

/// The entry of an inner page below which a key is: the last whose key is not larger. The first has no lower bound: its own key,
/// which may be larger than what came or stayed below it, means nothing.
pub(super) fn way(page: &[u8], wanted: u64) -> usize {
    first_beyond(page, 1, |key| key <= wanted) - 1
}

/// Puts an entry at `at`; the page must have room.
pub(super) fn insert(page: &mut [u8], at: usize, key: u64, row: &[u8]) {
    let (len, count) = (entry(page), count(page));
    let (from, end) = (HEADER + at * len, HEADER + count * len);
    page.copy_within(from..end, from + len);
    page[from..from + KEY].copy_from_slice(&key.to_le_bytes());
    page[from + KEY..from + len].copy_from_slice(row);
    put_u16(page, 14, count + 1);
    put_u16(page, 24, at + 1);
}

/// Removes entry `at`.
pub(super) fn remove(page: &mut [u8], at: usize) {
    let (len, count) = (entry(page), count(page));
    let from = HEADER + at * len;
    page.copy_within(from + len..HEADER + count * len, from);
    put_u16(page, 14, count - 1);
    put_u16(page, 24, 0);
}

/// Changes bytes of the row of entry `at`.
pub(super) fn update(page: &mut [u8], at: usize, offset: usize, bytes: &[u8]) {
    let from = HEADER + at * entry(page) + KEY + offset;
    page[from..from + bytes.len()].copy_from_slice(bytes);
}

/// Keeps the first `count` entries.
pub(super) fn truncate(page: &mut [u8], count: usize) {
    put_u16(page, 14, count);
    put_u16(page, 24, 0);
}

/// Where a full page is split for an entry that goes to `at`: there if entries come in ascending order, or in the middle.
pub(super) fn split_at(page: &[u8], at: usize) -> usize {
    let is_ascending = at > 0 && u16_at(page, 24) == at;
    if is_ascending { at } else { count(page) / 2 }
}

/// Puts the entries of `from`, from entry `at` on, into an empty page.
pub(super) fn take(page: &mut [u8], from: &[u8], at: usize) {
    let len = entry(from);
    let bytes = &from[HEADER + at * len..used(from)];
    page[HEADER..HEADER + bytes.len()].copy_from_slice(bytes);
    put_u16(page, 14, count(from) - at);
}
