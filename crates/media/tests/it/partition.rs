//! Partition tables of images of disks.

use crc::{CRC_32_ISO_HDLC, Crc};
use media::MediaError;
use media::block::partition::{Disk, Partition, TableError, partitions};
use rand::RngExt;
use sim::Seed;

const SECTOR: usize = 512;
const MIB: u64 = 1 << 20;

fn read(disk: &[u8]) -> Result<Vec<Partition>, TableError> {
    let bytes = |at: u64, buffer: &mut [u8]| {
        let size = disk.len() as u64;
        let outside = MediaError::OutOfRange { offset: at, len: buffer.len() as u64, size };
        let from = disk.get(at as usize..at as usize + buffer.len()).ok_or(outside)?;
        buffer.copy_from_slice(from);
        Ok(())
    };
    partitions(&Disk { len: disk.len() as u64, read: &bytes })
}

fn put(disk: &mut [u8], at: usize, bytes: &[u8]) {
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A table of entries (kind, first sector, sectors) in a sector.
fn table(disk: &mut [u8], sector: usize, entries: &[(u8, u32, u32)]) {
    let base = sector * SECTOR;
    for (slot, (kind, start, len)) in entries.iter().enumerate() {
        let at = base + 446 + slot * 16;
        disk[at + 4] = *kind;
        put(disk, at + 8, &start.to_le_bytes());
        put(disk, at + 12, &len.to_le_bytes());
    }
    put(disk, base + 510, &[0x55, 0xAA]);
}

fn ranges(found: &[Partition]) -> Vec<(u32, u64, u64)> {
    found.iter().map(|part| (part.number, part.range.start, part.range.end)).collect()
}

/// An extended partition from sector 8192 on, with two logical ones.
fn with_logical() -> Vec<u8> {
    let mut disk = vec![0; 8 << 20];
    table(&mut disk, 0, &[(0x83, 2048, 4096), (0x05, 8192, 8000), (0, 0, 0), (0x82, 6144, 100)]);
    table(&mut disk, 8192, &[(0x83, 63, 1000), (0x05, 2000, 3000)]);
    table(&mut disk, 8192 + 2000, &[(0x83, 1, 2000)]);
    disk
}

#[test]
fn primary_and_logical_partitions_have_the_numbers_of_the_kernel() {
    let found = read(&with_logical()).expect("a sound table");
    let sectors = [(1, 2048, 6144), (4, 6144, 6244), (5, 8255, 9255), (6, 10193, 12193)];
    let bytes = sectors.map(|(number, start, end)| (number, start * 512, end * 512));
    assert_eq!(ranges(&found), bytes);
    assert_eq!(found[0].label, "type 0x83");
}

#[test]
fn a_file_without_a_table_has_no_partitions() {
    assert_eq!(read(&vec![0; 1 << 20]), Ok(Vec::new()));
    assert_eq!(read(&[0; 100]), Ok(Vec::new()));
    // The boot sector of a file system has the signature, and a program where a table would be.
    let mut boot = vec![0; 1 << 20];
    boot[400..510].fill(0xE9);
    put(&mut boot, 510, &[0x55, 0xAA]);
    assert_eq!(read(&boot), Ok(Vec::new()));
}

#[test]
fn a_table_that_contradicts_itself_is_refused_with_the_reason() {
    let mut cases: Vec<(Vec<u8>, &str)> = Vec::new();
    let mut of = |entries: &[(u8, u32, u32)], why| {
        let mut disk = vec![0; 4 << 20];
        table(&mut disk, 0, entries);
        cases.push((disk, why));
    };
    of(&[(0x83, 2048, 1000), (0x83, 3000, 100)], "1 and 2 overlap");
    of(&[(0x83, 2048, 100_000)], "cut short");
    of(&[(0x83, 0, 100)], "begins in the table");
    of(&[(0x83, 2048, 0)], "is empty");
    of(&[(0x05, 2048, 100)], "where there is no table");
    let mut circle = with_logical();
    table(&mut circle, 8192 + 2000, &[(0x83, 1, 1), (0x05, 2000, 3000)]);
    cases.push((circle, "does not end"));
    let mut out = with_logical();
    table(&mut out, 8192, &[(0x83, 63, 1000), (0x05, 9000, 3000)]);
    cases.push((out, "outside of the extended one"));
    let mut wide = with_logical();
    table(&mut wide, 8192, &[(0x83, 63, 9000)]);
    cases.push((wide, "ends outside of the extended one"));
    for (disk, why) in cases {
        let error = read(&disk).expect_err(why);
        assert!(error.to_string().contains(why), "{why}: {error}");
    }
}

fn sum(bytes: &[u8]) -> [u8; 4] {
    Crc::<u32>::new(&CRC_32_ISO_HDLC).checksum(bytes).to_le_bytes()
}

/// Seals a header of a GPT and its entries, which lie in `entries`.
fn seal(disk: &mut [u8], (header, entries): (usize, usize)) {
    let of_entries = sum(&disk[entries..entries + 128 * 128]);
    put(disk, header + 88, &of_entries);
    put(disk, header + 16, &[0; 4]);
    let of_header = sum(&disk[header..header + 92]);
    put(disk, header + 16, &of_header);
}

/// A disk of 16 MiB with two partitions in a GPT and its copy.
fn with_gpt(sector: usize) -> Vec<u8> {
    let mut disk = vec![0; 16 << 20];
    let last = disk.len() / sector - 1;
    let table_sectors = 128 * 128 / sector;
    table(&mut disk, 0, &[(0xEE, 1, u32::try_from(last).expect("a small disk"))]);
    for (place, entries) in [(1, 2), (last, last - table_sectors)] {
        let (header, at) = (place * sector, entries * sector);
        put(&mut disk, header, b"EFI PART\x00\x00\x01\x00\x5c\x00\x00\x00");
        let numbers = [place, last + 1 - place, 2 + table_sectors, last - table_sectors - 1];
        for (slot, number) in numbers.into_iter().enumerate() {
            put(&mut disk, header + 24 + slot * 8, &(number as u64).to_le_bytes());
        }
        put(&mut disk, header + 72, &(entries as u64).to_le_bytes());
        put(&mut disk, header + 80, &128_u32.to_le_bytes());
        put(&mut disk, header + 84, &128_u32.to_le_bytes());
        for (slot, (start, end, name)) in [(1, 3, "boot"), (4, 9, "root")].into_iter().enumerate() {
            let entry = at + [0, 2][slot] * 128;
            put(&mut disk, entry, &[7; 32]);
            put(&mut disk, entry + 32, &(start * MIB / sector as u64).to_le_bytes());
            put(&mut disk, entry + 40, &(end * MIB / sector as u64 - 1).to_le_bytes());
            let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
            put(&mut disk, entry + 56, &name);
        }
        seal(&mut disk, (header, at));
    }
    disk
}

#[test]
fn a_gpt_is_read_with_sectors_of_512_and_4096_bytes() {
    for sector in [512, 4096] {
        let found = read(&with_gpt(sector)).expect("a sound table");
        assert_eq!(ranges(&found), [(1, MIB, 3 * MIB), (3, 4 * MIB, 9 * MIB)], "{sector}");
        assert_eq!(found[1].label, "root");
    }
}

#[test]
fn a_gpt_that_is_damaged_anywhere_is_refused_and_its_copy_named() {
    let sound = with_gpt(SECTOR);
    // The signature, the size of the header, its checksum, its place, the entries' place, number and checksum; an entry.
    for at in [512, 524, 528, 536, 584, 592, 600, 1024 + 32] {
        let mut disk = sound.clone();
        disk[at] ^= 1;
        let error = read(&disk).expect_err("a byte is wrong").to_string();
        assert!(
            error.contains("damaged") && error.contains("copy at the end of the disk is sound"),
            "{at}: {error}"
        );
    }
    // Without a copy there is none to name.
    assert_eq!(read(&sound[..12 << 20]).map(|found| found.len()), Ok(2), "what it says is in there");
    let mut alone = sound[..12 << 20].to_vec();
    alone[528] ^= 1;
    assert!(!read(&alone).expect_err("a byte is wrong").to_string().contains("copy at the end"));
}

#[test]
fn a_gpt_whose_partition_is_outside_of_what_it_spans_is_refused() {
    let mut disk = with_gpt(SECTOR);
    put(&mut disk, 1024 + 40, &u64::MAX.to_le_bytes());
    seal(&mut disk, (512, 1024));
    let error = read(&disk).expect_err("it ends nowhere").to_string();
    assert!(error.contains("which the GPT does not span"), "{error}");
}

/// Whatever bytes are in a table, it is read or refused.
#[test]
fn tables_of_any_bytes_are_read_or_refused() {
    let seed = Seed(7);
    println!("{seed:?}");
    let mut rng = seed.derive("partition", 0).rng();
    for sound in [with_logical(), with_gpt(SECTOR)] {
        for _ in 0..300 {
            let mut disk = sound.clone();
            for _ in 0..rng.random_range(1..6) {
                let at = [446, 512, 1024, 8192 * 512 + 446][rng.random_range(0..4)] + rng.random_range(0..96);
                disk[at] = rng.random();
            }
            if rng.random() {
                seal(&mut disk, (512, 1024));
            }
            let _ = read(&disk);
        }
    }
}
