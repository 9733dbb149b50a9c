//! Partition tables of images of disks: MBR with logical partitions, and GPT.
//!
//! A table is read, never written. One that contradicts itself is refused: a partition that begins at the wrong byte would be
//! checked, and perhaps repaired, as what it is not.
//!
//! | table | refused |
//! |---|---|
//! | any | a partition that is empty, begins in the table's sector, ends behind the disk, or overlaps another |
//! | MBR | a chain of logical partitions that does not end, or leads out of its extended partition or to what is no table |
//! | GPT | a header or entries with a wrong checksum, a header of another sector, a partition outside of what it spans |
//!
//! Sources: the UEFI specification, version 2.10, chapter 5; `block/partitions/msdos.c` and `efi.c` of Linux.

use std::ops::Range;

use crc::{CRC_32_ISO_HDLC, Crc};

use crate::MediaError;

/// Bytes of a sector in an MBR; a GPT has these or larger ones.
const SECTOR: u64 = 512;
/// Where the entries of an MBR begin; the signature follows the four of them.
const MBR_ENTRIES: usize = 446;
const MBR_ENTRY: usize = 16;
const SIGNATURE: [u8; 2] = [0x55, 0xAA];
/// Kinds of entries of an MBR: what stands for a GPT, and extended partitions.
const PROTECTIVE: u8 = 0xEE;
const EXTENDED: [u8; 3] = [0x05, 0x0F, 0x85];
/// The first number of a logical partition, and most of them (Linux ends at 255 minor numbers).
const FIRST_LOGICAL: u32 = 5;
const LOGICAL_MOST: usize = 250;

const GPT_SIGNATURE: &[u8; 8] = b"EFI PART";
const GPT_HEADER: usize = 92;
/// Bytes of all entries, at most: 64 times what the specification asks for.
const ENTRIES_MOST: u64 = 1 << 20;
const GPT_SUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// A partition of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as the kernel counts: logical ones of an MBR from 5 on.
    pub number: u32,
    /// Its bytes.
    pub range: Range<u64>,
    /// Its name in a GPT, its kind in an MBR.
    pub label: String,
}

/// Why the table of a disk cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It contradicts itself, or the size of the disk.
    #[error("the partition table is damaged: {0}")]
    Damaged(String),
    /// It cannot be read.
    #[error(transparent)]
    Media(#[from] MediaError),
}

/// Reads from a byte of a disk on.
pub type ReadAt<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), MediaError> + 'a;

/// A disk, or an image of one.
#[derive(Clone, Copy)]
pub struct Disk<'a> {
    /// Its bytes.
    pub len: u64,
    /// Reads from a byte on; the range is within the disk.
    pub read: &'a ReadAt<'a>,
}

type Result<T, E = TableError> = std::result::Result<T, E>;

fn damaged<T>(what: impl Into<String>) -> Result<T> {
    Err(TableError::Damaged(what.into()))
}

/// The partitions of a disk, in the order of their numbers; none where it has no table. A file system may have the signature of an
/// MBR in its first sector, and has no entries there.
pub fn partitions(disk: &Disk<'_>) -> Result<Vec<Partition>> {
    let Some(entries) = mbr_at(disk, 0)? else { return Ok(Vec::new()) };
    let mut found =
        if entries.iter().any(|entry| entry.kind == PROTECTIVE) { gpt(disk)? } else { mbr(disk, &entries)? };
    found.sort_by_key(|partition| partition.number);
    check(disk, &found)?;
    Ok(found)
}

/// Refuses partitions that cannot be meant.
fn check(disk: &Disk<'_>, found: &[Partition]) -> Result<()> {
    for Partition { number, range, .. } in found {
        match () {
            () if range.is_empty() => return damaged(format!("partition {number} is empty")),
            () if range.start < SECTOR => return damaged(format!("partition {number} begins in the table")),
            () if range.end > disk.len => {
                let (end, size) = (range.end, disk.len);
                return damaged(format!(
                    "partition {number} ends at byte {end}, and the image has {size}: it may be cut short"
                ));
            }
            () => {}
        }
    }
    let mut in_order: Vec<_> = found.iter().collect();
    in_order.sort_by_key(|partition| partition.range.start);
    match in_order.windows(2).find(|pair| pair[0].range.end > pair[1].range.start) {
        Some(pair) => damaged(format!("partitions {} and {} overlap", pair[0].number, pair[1].number)),
        None => Ok(()),
    }
}

/// An entry of an MBR, in sectors.
#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: u8,
    start: u64,
    len: u64,
}

impl Entry {
    fn partition(self, number: u32, base: u64) -> Partition {
        let start = (base + self.start) * SECTOR;
        Partition {
            number,
            range: start..start + self.len * SECTOR,
            label: format!("type 0x{:02x}", self.kind),
        }
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes.iter().skip(at).take(N).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn bytes_at(disk: &Disk<'_>, at: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    (disk.read)(at, &mut bytes)?;
    Ok(bytes)
}

/// The entries of the MBR in a sector that are used; none where there is no MBR.
fn mbr_at(disk: &Disk<'_>, sector: u64) -> Result<Option<Vec<Entry>>> {
    let at = sector.saturating_mul(SECTOR);
    if at.saturating_add(SECTOR) > disk.len {
        return Ok(None);
    }
    let bytes = bytes_at(disk, at, SECTOR as usize)?;
    let entries: Vec<_> = bytes[MBR_ENTRIES..].chunks_exact(MBR_ENTRY).take(4).collect();
    // As in Linux: an entry is active or not, and says nothing else there. What does is the program of a boot sector.
    if bytes[SECTOR as usize - 2..] != SIGNATURE || entries.iter().any(|entry| entry[0] & 0x7F != 0) {
        return Ok(None);
    }
    let read =
        |entry: &&[u8]| Entry { kind: entry[4], start: number::<4>(entry, 8), len: number::<4>(entry, 12) };
    Ok(Some(entries.iter().map(read).collect()))
}

fn mbr(disk: &Disk<'_>, entries: &[Entry]) -> Result<Vec<Partition>> {
    let mut found = Vec::new();
    for (number, entry) in (1..).zip(entries).filter(|(_, entry)| entry.kind != 0) {
        match EXTENDED.contains(&entry.kind) {
            true => found.extend(logical(disk, *entry)?),
            false => found.push(entry.partition(number, 0)),
        }
    }
    Ok(found)
}

/// The logical partitions of an extended one: a chain of tables, each with a partition and the place of the next table.
fn logical(disk: &Disk<'_>, extended: Entry) -> Result<Vec<Partition>> {
    let (mut found, mut next) = (Vec::new(), 0);
    for _ in 0..LOGICAL_MOST {
        let at = extended.start + next;
        if next >= extended.len.max(1) {
            return damaged(format!(
                "the chain of logical partitions leads to sector {at}, outside of the extended one"
            ));
        }
        let Some(entries) = mbr_at(disk, at)? else {
            return damaged(format!(
                "the chain of logical partitions leads to sector {at}, where there is no table"
            ));
        };
        let (links, parts): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .filter(|entry| entry.kind != 0)
            .partition(|entry| EXTENDED.contains(&entry.kind));
        for part in parts {
            let number = FIRST_LOGICAL + found.len() as u32;
            let end = next.saturating_add(part.start).saturating_add(part.len);
            if end > extended.len {
                return damaged(format!("logical partition {number} ends outside of the extended one"));
            }
            found.push(part.partition(number, at));
        }
        match links.first() {
            Some(link) if link.len > 0 => next = link.start,
            _ => return Ok(found),
        }
    }
    damaged("the chain of logical partitions does not end")
}

/// The partitions of a GPT, with sectors of 512 or 4096 bytes.
fn gpt(disk: &Disk<'_>) -> Result<Vec<Partition>> {
    let sectors = [SECTOR, 4096];
    let has = |at: u64| {
        at + GPT_HEADER as u64 <= disk.len && bytes_at(disk, at, 8).is_ok_and(|bytes| bytes == GPT_SIGNATURE)
    };
    let first = sectors.into_iter().find(|sector| has(*sector));
    let read = match first {
        Some(sector) => gpt_at(disk, sector, 1),
        None => damaged("the first sector stands for a GPT, and none follows it"),
    };
    read.map_err(|error| match error {
        TableError::Damaged(what) if copy_is_sound(disk, &sectors) => TableError::Damaged(format!(
            "{what}; the copy at the end of the disk is sound: write it back with gdisk, in a copy of the image, or say where the \
             file system begins"
        )),
        error => error,
    })
}

fn copy_is_sound(disk: &Disk<'_>, sectors: &[u64]) -> bool {
    sectors.iter().any(|sector| {
        let last = (disk.len / sector).saturating_sub(1);
        last > 1 && gpt_at(disk, *sector, last).is_ok()
    })
}

/// The GPT whose header is in sector `place`.
fn gpt_at(disk: &Disk<'_>, sector: u64, place: u64) -> Result<Vec<Partition>> {
    let header = bytes_at(disk, place * sector, sector as usize)?;
    let len = number::<4>(&header, 12) as usize;
    if header[..8] != *GPT_SIGNATURE || !(GPT_HEADER..=sector as usize).contains(&len) {
        return damaged(format!("the header of the GPT in sector {place} says that it has {len} bytes"));
    }
    let mut summed = header[..len].to_vec();
    summed[16..20].fill(0);
    if u64::from(GPT_SUM.checksum(&summed)) != number::<4>(&header, 16) {
        return damaged(format!("the header of the GPT in sector {place} has a wrong checksum"));
    }
    if number::<8>(&header, 24) != place {
        return damaged(format!("the header of the GPT in sector {place} is one for another sector"));
    }
    let usable = number::<8>(&header, 40)..=number::<8>(&header, 48);
    let (entries, count, size) =
        (number::<8>(&header, 72), number::<4>(&header, 80), number::<4>(&header, 84));
    let bytes = count.saturating_mul(size);
    let at = entries.saturating_mul(sector);
    if size < 128 || bytes > ENTRIES_MOST || at.saturating_add(bytes) > disk.len {
        return damaged(format!("the GPT has {count} entries of {size} bytes in sector {entries}"));
    }
    let table = bytes_at(disk, at, bytes as usize)?;
    if u64::from(GPT_SUM.checksum(&table)) != number::<4>(&header, 88) {
        return damaged("the entries of the GPT have a wrong checksum");
    }
    let used = (1..)
        .zip(table.chunks_exact(size as usize))
        .filter(|(_, entry)| entry[..16].iter().any(|byte| *byte != 0));
    used.map(|(part, entry)| {
        let (first, last) = (number::<8>(entry, 32), number::<8>(entry, 40));
        if first > last || !usable.contains(&first) || !usable.contains(&last) {
            return damaged(format!(
                "partition {part} is from sector {first} to {last}, which the GPT does not span"
            ));
        }
        let units: Vec<_> = entry[56..128].chunks_exact(2).map(|unit| number::<2>(unit, 0) as u16).collect();
        let label = String::from_utf16_lossy(units.split(|unit| *unit == 0).next().unwrap_or_default());
        Ok(Partition { number: part, range: first * sector..(last + 1) * sector, label })
    })
    .collect()
}
