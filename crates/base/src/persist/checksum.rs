//! Checksums, whose time is charged.

use sim::{LINE_BYTES, Work, ran};

/// The price of a checksum of any kind over so many bytes.
pub fn charge_for(bytes: usize) {
    ran::did(Work::CHECKSUM, bytes.div_ceil(LINE_BYTES) as u64);
    ran::checksum(bytes as u64);
}

/// Of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// Of what has the checksum `sum`, and these bytes behind it.
pub fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    charge_for(bytes.len());
    crc32c::crc32c_append(sum, bytes)
}
