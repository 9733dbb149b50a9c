//! Data that is checked when it is read back (`verify`).
//!
//! A block is cut into intervals (`verify_interval`, default: the smallest block). Each begins with a header, and the digest
//! in it is of the bytes behind it:
//!
//! ```text
//!  0    2     4     8      16       24   28       36       40
//!  │magic│kind │ len │ seed │ offset │ job │ number │ crc32c │ digest of the data │ data …
//! ```
//!
//! `seed` is that of the job, `offset` the place in the file, `number` that of the write: a block of another place, of another
//! job or of an earlier write is found as surely as a flipped bit. `verify=pattern` has no header: every byte is the pattern's.
//! The layout is not fio's: a file that fio has written is not verified here, nor the other way round.

use md5::{Digest as _, Md5};
use rand::Rng as _;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use sim::Seed;
use twox_hash::XxHash32;

use super::content;
use super::value::{Parsed, Piece};

/// What the digest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Crc7,
    Crc16,
    Crc32,
    Crc32c,
    Crc64,
    Md5,
    Sha256,
    Sha512,
    /// The header alone.
    Meta,
    /// Written like the others, and not compared.
    Null,
    /// No header: the pattern is compared.
    Pattern,
    Sha1,
    /// XXH32 of seed 0.
    XxHash,
}

const KINDS: [(&str, Kind); 14] = [
    ("crc7", Kind::Crc7),
    ("crc16", Kind::Crc16),
    ("crc32", Kind::Crc32),
    ("crc32c", Kind::Crc32c),
    ("crc32c-intel", Kind::Crc32c),
    ("crc64", Kind::Crc64),
    ("md5", Kind::Md5),
    ("sha1", Kind::Sha1),
    ("sha256", Kind::Sha256),
    ("sha512", Kind::Sha512),
    ("xxhash", Kind::XxHash),
    ("meta", Kind::Meta),
    ("null", Kind::Null),
    ("pattern", Kind::Pattern),
];

const MAGIC: u16 = 0xacca;
/// Bytes of a header without the digest.
const HEADER: u64 = 40;

/// `verify` and its options.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verify {
    pub(super) kind: Kind,
    /// What the data is, instead of random bytes.
    pub(super) pattern: Option<Vec<Piece>>,
    pub(super) interval: u64,
    /// Writes after which what was written is read back; 0: at the end of a pass.
    pub(super) backlog: u64,
    pub(super) reads_back: bool,
    pub(super) fatal: bool,
}

/// The kind called `text`; none for `0`.
pub(super) fn kind(text: &str) -> Parsed<Option<Kind>> {
    if text == "0" || text == "none" {
        return Ok(None);
    }
    let found = KINDS.iter().find(|(name, _)| *name == text);
    let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
    found.map(|(_, kind)| Some(*kind)).ok_or_else(|| format!("\"{text}\" is none of {}", names.join(", ")))
}

/// Which write a block is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) seed: u64,
    pub(super) job: u32,
    pub(super) number: u64,
}

impl Kind {
    fn digest(self, data: &[u8]) -> Vec<u8> {
        use crc::{CRC_7_MMC, CRC_16_ARC, CRC_32_ISO_HDLC, CRC_64_XZ, Crc};
        const SEVEN: Crc<u8> = Crc::<u8>::new(&CRC_7_MMC);
        const SIXTEEN: Crc<u16> = Crc::<u16>::new(&CRC_16_ARC);
        const THIRTY_TWO: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
        const SIXTY_FOUR: Crc<u64> = Crc::<u64>::new(&CRC_64_XZ);
        match self {
            Self::Crc7 => vec![SEVEN.checksum(data)],
            Self::Crc16 => SIXTEEN.checksum(data).to_le_bytes().into(),
            Self::Crc32 => THIRTY_TWO.checksum(data).to_le_bytes().into(),
            Self::Crc32c => crc32c::crc32c(data).to_le_bytes().into(),
            Self::Crc64 => SIXTY_FOUR.checksum(data).to_le_bytes().into(),
            Self::Md5 => Md5::digest(data).to_vec(),
            Self::Sha256 => Sha256::digest(data).to_vec(),
            Self::Sha512 => Sha512::digest(data).to_vec(),
            Self::Sha1 => Sha1::digest(data).to_vec(),
            Self::XxHash => XxHash32::oneshot(0, data).to_le_bytes().into(),
            Self::Meta | Self::Null | Self::Pattern => Vec::new(),
        }
    }

    fn digest_bytes(self) -> u64 {
        match self {
            Self::Crc7 => 1,
            Self::Crc16 => 2,
            Self::Crc32 | Self::Crc32c | Self::XxHash => 4,
            Self::Crc64 => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
            Self::Meta | Self::Null | Self::Pattern => 0,
        }
    }

    fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

impl Verify {
    /// Bytes of a header with its digest.
    pub(super) fn header_bytes(&self) -> u64 {
        if self.kind == Kind::Pattern { 0 } else { HEADER + self.kind.digest_bytes() }
    }

    /// Fills a block that is written at `offset`.
    pub(super) fn fill(&self, block: &mut [u8], offset: u64, stamp: Stamp) {
        if let (Kind::Pattern, Some(pattern)) = (self.kind, &self.pattern) {
            return content::repeat(pattern, offset, block);
        }
        let head = self.header_bytes() as usize;
        let mut at = offset;
        for part in block.chunks_mut(self.interval as usize) {
            let (header, data) = part.split_at_mut(head.min(part.len()));
            match &self.pattern {
                Some(pattern) => content::repeat(pattern, at, data),
                None => Seed(stamp.seed).derive("verify", stamp.number ^ at).rng().fill_bytes(data),
            }
            header.copy_from_slice(&self.header(at, part_len(header, data), stamp, data)[..header.len()]);
            at += part_len(header, data);
        }
    }

    fn header(&self, offset: u64, len: u64, stamp: Stamp, data: &[u8]) -> Vec<u8> {
        let mut header = Vec::with_capacity(self.header_bytes() as usize);
        header.extend(MAGIC.to_le_bytes());
        header.extend((self.kind as u16).to_le_bytes());
        header.extend((len as u32).to_le_bytes());
        header.extend(stamp.seed.to_le_bytes());
        header.extend(offset.to_le_bytes());
        header.extend(stamp.job.to_le_bytes());
        header.extend(stamp.number.to_le_bytes());
        header.extend(crc32c::crc32c(&header).to_le_bytes());
        header.extend(self.kind.digest(data));
        header
    }

    /// Checks a block that was read at `offset`; without a stamp it may be of any write. Words say what is wrong and where.
    pub(super) fn check(&self, block: &[u8], offset: u64, stamp: Option<Stamp>) -> Result<(), String> {
        match (self.kind, &self.pattern) {
            (Kind::Null, _) => return Ok(()),
            (Kind::Pattern, Some(pattern)) => return check_pattern(pattern, block, offset),
            _ => {}
        }
        let mut at = offset;
        for part in block.chunks(self.interval as usize) {
            self.check_part(part, at, stamp)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn check_part(&self, part: &[u8], at: u64, stamp: Option<Stamp>) -> Result<(), String> {
        let head = self.header_bytes() as usize;
        let (Some(header), Some(data)) = (part.get(..head), part.get(head..)) else {
            return Err(format!("offset {at}: the block ends within its header"));
        };
        let number = |range: std::ops::Range<usize>| {
            let mut bytes = [0; 8];
            bytes[..range.len()].copy_from_slice(&header[range]);
            u64::from_le_bytes(bytes)
        };
        if number(0..2) != u64::from(MAGIC) {
            return Err(format!(
                "offset {at}: no header there: {:#06x} in place of {MAGIC:#06x}",
                number(0..2)
            ));
        }
        if number(36..40) != u64::from(crc32c::crc32c(&header[..36])) {
            return Err(format!("offset {at}: the header is damaged: its checksum is wrong"));
        }
        if (number(4..8), number(16..24)) != (part.len() as u64, at) {
            let (len, offset) = (number(4..8), number(16..24));
            return Err(format!("offset {at}: the header is that of {len} bytes at offset {offset}"));
        }
        let found = Stamp { seed: number(8..16), job: number(24..28) as u32, number: number(28..36) };
        if let Some(stamp) = stamp.filter(|stamp| *stamp != found) {
            let (job, number) = (found.job, found.number);
            return Err(format!(
                "offset {at}: the block is of write {number} of job {job}, and write {} of job {} was the last there",
                stamp.number, stamp.job
            ));
        }
        if self.kind.digest(data) != header[HEADER as usize..] {
            return Err(format!(
                "offset {at}: the data is not what was written: its {} is wrong",
                self.kind.name()
            ));
        }
        Ok(())
    }
}

fn part_len(header: &[u8], data: &[u8]) -> u64 {
    (header.len() + data.len()) as u64
}

fn check_pattern(pattern: &[Piece], block: &[u8], offset: u64) -> Result<(), String> {
    let mut expected = vec![0; block.len()];
    content::repeat(pattern, offset, &mut expected);
    match block.iter().zip(&expected).position(|(found, wanted)| found != wanted) {
        None => Ok(()),
        Some(at) => {
            let (place, found, wanted) = (offset + at as u64, block[at], expected[at]);
            Err(format!("offset {place}: {found:#04x} in place of {wanted:#04x} of the pattern"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::value;
    use std::fmt::Write as _;

    const STAMP: Stamp = Stamp { seed: 7, job: 3, number: 99 };

    fn verify(kind: Kind) -> Verify {
        let pattern = (kind == Kind::Pattern).then(|| value::pattern("0xdead%o").unwrap());
        Verify { kind, pattern, interval: 512, backlog: 0, reads_back: true, fatal: false }
    }

    /// The canary of every verification: a flipped bit, anywhere, is found.
    #[test]
    fn every_kind_finds_every_flipped_byte() {
        for (name, kind) in KINDS {
            let verify = verify(kind);
            let mut block = vec![0; 1024];
            verify.fill(&mut block, 8192, STAMP);
            assert_eq!(verify.check(&block, 8192, Some(STAMP)), Ok(()), "{name}");
            for at in (0..1024).step_by(5) {
                block[at] ^= 0x10;
                let head = at % 512 < verify.header_bytes() as usize;
                let found = verify.check(&block, 8192, Some(STAMP)).is_err();
                let must = match kind {
                    Kind::Null => false,
                    Kind::Meta => head,
                    _ => true,
                };
                // The kind is in the header, which has a checksum of its own.
                assert_eq!(found, must, "{name}: byte {at}");
                block[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn a_block_of_another_place_or_an_earlier_write_is_found() {
        let verify = verify(Kind::Crc32c);
        let mut block = vec![0; 512];
        verify.fill(&mut block, 4096, STAMP);
        let told = verify.check(&block, 8192, None).unwrap_err();
        assert!(told.contains("offset 8192: the header is that of 512 bytes at offset 4096"), "{told}");
        let told = verify.check(&block, 4096, Some(Stamp { number: 100, ..STAMP })).unwrap_err();
        assert!(told.contains("write 99 of job 3, and write 100"), "{told}");
        assert!(verify.check(&[0; 512], 0, None).unwrap_err().contains("no header there"));
    }

    /// RFC 1321 and FIPS 180-4: the digests of "abc"; xxHash's specification: that of nothing; the check values of the catalogue
    /// of CRCs.
    #[test]
    fn digests_are_those_of_their_standards() {
        let hex = |kind: Kind, data: &[u8]| {
            let mut text = String::new();
            kind.digest(data).iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text
        };
        assert_eq!(hex(Kind::Md5, b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex(Kind::Sha1, b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(Kind::XxHash.digest(b""), 0x02cc_5d05_u32.to_le_bytes());
        assert!(hex(Kind::Sha256, b"abc").starts_with("ba7816bf8f01cfea"));
        assert!(hex(Kind::Sha512, b"abc").starts_with("ddaf35a193617aba"));
        assert_eq!(Kind::Crc32c.digest(b"123456789"), 0xe306_9283_u32.to_le_bytes());
        assert_eq!(Kind::Crc32.digest(b"123456789"), 0xcbf4_3926_u32.to_le_bytes());
    }
}
