//! Traces of ChampSim (`trace_instruction.h`, `input_instr`), as `.xz`, `.gz`, or plain.
//!
//! ```text
//! instruction   64 bytes, little endian
//!   0 ip 8 | 8 is branch 1 | 9 branch taken 1 | 10 destination registers 2 x 1 | 12 source registers 4 x 1
//!  16 destination memory 2 x 8 | 32 source memory 4 x 8         (address 0: none)
//! ```
//!
//! An access has no size in the format: it counts as a word. A load that reads a register which the last load wrote waits for it,
//! unless an instruction that only computes has written the register since. Like lackey's, these traces know no transactions.
//!
//! The format has no magic number. A file is refused as one of other records (those of CloudSuite have 96 bytes), if a branch byte
//! is neither 0 nor 1, or if some instructions have an address and others have none; and an archive of traces as what it is.

use std::io::{Cursor, Read};

use flate2::read::GzDecoder;
use lzma_rust2::XzReader;

use super::Trace;
use super::builder::Unmarked;
use crate::error::Error;

const RECORD: usize = 64;
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Bytes of an access.
const WORD: u64 = 8;

/// Whether a file is packed as ChampSim's traces are; a plain one is known by nothing.
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(XZ) || bytes.starts_with(GZIP)
}

/// A trace of one thread from the first `most` instructions of a file.
///
/// # Errors
/// [`Error::Trace`] for a file that is cut off, damaged, or holds no access.
pub fn import(bytes: &[u8], stores: u64, most: u64) -> Result<Trace, Error> {
    let mut reader: Box<dyn Read + '_> = if bytes.starts_with(XZ) {
        Box::new(XzReader::new(Cursor::new(bytes), true))
    } else if bytes.starts_with(GZIP) {
        Box::new(GzDecoder::new(bytes))
    } else {
        Box::new(bytes)
    };
    let mut head = Vec::new();
    let read = reader.by_ref().take(TAR_BLOCK).read_to_end(&mut head);
    read.map_err(|error| Error::Trace(format!("the file is cut off or damaged: {error}")))?;
    refuse_tar(&head)?;
    let mut reader = head.chain(reader);
    let mut import = Import { to: Unmarked::new(stores), loaded: [0; 2] };
    let mut first = None;
    for number in 0..most {
        let mut record = [0; RECORD];
        if !fill(&mut reader, &mut record, number)? {
            break;
        }
        let no_address = record[..8] == [0; 8];
        check(&record, number, no_address != *first.get_or_insert(no_address))?;
        import.take(&record);
    }
    import.to.finish()
}

/// Bytes of the header of a tar archive, and where its magic number is.
const TAR_BLOCK: u64 = 512;
const TAR_MAGIC: usize = 257;

/// Refuses an archive, of which `head` is the beginning.
fn refuse_tar(head: &[u8]) -> Result<(), Error> {
    if head.get(TAR_MAGIC..TAR_MAGIC + 5) != Some(b"ustar") {
        return Ok(());
    }
    let name: Vec<u8> = head[..100].iter().copied().take_while(|byte| *byte != 0).collect();
    let name = String::from_utf8_lossy(&name).escape_debug().to_string();
    Err(Error::Trace(format!(
        "the file is a tar archive whose first member is {name}: unpack it (tar xf), and give the member"
    )))
}

/// Refuses what cannot be a record; `differs`: one instruction has an address, and another has none.
fn check(record: &[u8; RECORD], number: u64, differs: bool) -> Result<(), Error> {
    let other = "the file is no trace of ChampSim, or has records of another size than its 64 bytes (CloudSuite's have 96)";
    if let Some(byte) = record[8..10].iter().find(|byte| **byte > 1) {
        return Err(Error::Trace(format!(
            "instruction {number}: a branch byte is {byte}, and must be 0 or 1: {other}"
        )));
    }
    if differs {
        return Err(Error::Trace(format!(
            "instruction {number}: some instructions have an address and others have none: {other}"
        )));
    }
    Ok(())
}

/// Reads the next record; false at the end.
fn fill(reader: &mut dyn Read, record: &mut [u8; RECORD], number: u64) -> Result<bool, Error> {
    let wrong = |what: String| Error::Trace(format!("instruction {number}: {what}"));
    let mut have = 0;
    while have < RECORD {
        match reader.read(&mut record[have..]) {
            Ok(0) if have == 0 => return Ok(false),
            Ok(0) => return Err(wrong(format!("the file ends after {have} of {RECORD} bytes"))),
            Ok(more) => have += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(wrong(format!("the file is cut off or damaged: {error}"))),
        }
    }
    Ok(true)
}

struct Import {
    to: Unmarked,
    /// Registers that the last load wrote; 0: none.
    loaded: [u8; 2],
}

impl Import {
    fn take(&mut self, record: &[u8; RECORD]) {
        let address = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        let places = |from: usize, count: usize| (0..count).map(move |n| from + 8 * n);
        let loads = places(32, 4).map(address).filter(|addr| *addr != 0);
        let stores = places(16, 2).map(address).filter(|addr| *addr != 0);
        let after = record[12..16].iter().any(|register| *register != 0 && self.loaded.contains(register));
        let mut accesses = 0;
        for addr in loads {
            self.to.load(addr, WORD, after);
            self.loaded = [record[10], record[11]];
            accesses += 1;
        }
        for addr in stores {
            self.to.store(addr, WORD);
            accesses += 1;
        }
        if accesses == 0 {
            self.to.builder.instructions(1);
            let overwritten = |register: &&mut u8| record[10..12].contains(register);
            self.loaded.iter_mut().filter(overwritten).for_each(|register| *register = 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::run::Config;

    fn instruction(registers: [u8; 6], stores: [u64; 2], loads: [u64; 4]) -> Vec<u8> {
        let mut record = vec![0; 16];
        record[10..16].copy_from_slice(&registers);
        stores.iter().chain(&loads).for_each(|addr| record.extend(addr.to_le_bytes()));
        record
    }

    /// A load, one whose address it gives, arithmetic, and two stores.
    fn program() -> Vec<u8> {
        [
            instruction([5, 0, 0, 0, 0, 0], [0; 2], [0x7000, 0, 0, 0]),
            instruction([6, 0, 5, 0, 0, 0], [0; 2], [0x9008, 0, 0, 0]),
            instruction([7, 0, 6, 0, 0, 0], [0; 2], [0; 4]),
            instruction([0, 0, 7, 0, 0, 0], [0x7008, 0x9010], [0; 4]),
        ]
        .concat()
    }

    #[test]
    fn plain_gzip_and_xz_files_hold_the_same_program() {
        let plain = import(&program(), 2, u64::MAX).unwrap();
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&program()).unwrap();
        let gzip = packed.finish().unwrap();
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut packed = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        packed.write_all(&program()).unwrap();
        let xz = packed.finish().unwrap();
        for file in [gzip, xz] {
            assert!(is_packed(&file));
            assert_eq!(import(&file, 2, u64::MAX).unwrap(), plain);
            let cut = import(&file[..file.len() - 12], 2, u64::MAX).unwrap_err().to_string();
            assert!(cut.contains("cut off or damaged"), "{cut}");
        }
        let trace = Arc::new(plain);
        // The transaction of two stores, and what is behind it: nothing.
        assert_eq!((trace.share, trace.operations()), (2 * 4096, 2));
        let mut config = Config { scheme: "fwb".into(), workload: "trace".into(), ..Config::default() };
        (config.machine.warmup, config.trace) = (0, Some(trace));
        let outcome = crate::run(&config).unwrap();
        assert_eq!((outcome.executed.stores, outcome.executed.transactions), (2, 2));
    }

    /// A record of 64 bytes, at an address.
    fn at(ip: u64, loads: [u64; 4]) -> Vec<u8> {
        let mut record = instruction([1, 0, 2, 0, 0, 0], [0; 2], loads);
        record[..8].copy_from_slice(&ip.to_le_bytes());
        record
    }

    #[test]
    fn archives_and_records_of_another_size_are_refused() {
        let records: Vec<_> = (0..64).map(|n| at(0x40_0000 + 4 * n, [0x7000 + 8 * n, 0, 0, 0])).collect();
        assert!(import(&records.concat(), 0, u64::MAX).is_ok());
        // Each record is followed by half of one: zeros, and what a process number would be.
        for tail in [[0; 32], [7; 32]] {
            let wide: Vec<u8> =
                records.iter().flat_map(|record| record.iter().chain(&tail).copied()).collect();
            for most in [u64::MAX, 16] {
                let told = import(&wide, 0, most).unwrap_err().to_string();
                assert!(told.contains("records of another size"), "{told}");
            }
        }
        let mut header = vec![0; 512];
        header[..10].copy_from_slice(b"c.champsim");
        header[257..262].copy_from_slice(b"ustar");
        let tar = [header, records.concat()].concat();
        let told = import(&tar, 0, u64::MAX).unwrap_err().to_string();
        assert!(told.contains("a tar archive whose first member is c.champsim"), "{told}");
    }

    #[test]
    fn a_file_that_ends_within_an_instruction_is_refused() {
        let whole = program();
        let told = import(&whole[..100], 0, u64::MAX).unwrap_err().to_string();
        assert!(told.contains("instruction 1: the file ends after 36 of 64 bytes"), "{told}");
        assert!(import(&[0; 64], 0, u64::MAX).unwrap_err().to_string().contains("no load and no store"));
    }
}
