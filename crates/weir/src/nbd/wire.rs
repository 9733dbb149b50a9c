//! Numbers of the protocol, all of them big-endian on the wire.

use std::io::{self, Read};

pub(super) const MAGIC: u64 = 0x4e42_444d_4147_4943; // NBDMAGIC
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054; // IHAVEOPT
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(super) const SIMPLE_MAGIC: u32 = 0x6744_6698;
pub(super) const STRUCTURED_MAGIC: u32 = 0x668e_33ef;

/// Flags of the handshake, the same both ways.
pub(super) const FIXED_NEWSTYLE: u16 = 1;
pub(super) const NO_ZEROES: u16 = 2;

/// Options.
pub(super) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
}

/// Replies to options.
pub(super) mod reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const UNSUPPORTED: u32 = (1 << 31) + 1;
    pub(crate) const INVALID: u32 = (1 << 31) + 3;
    pub(crate) const UNKNOWN: u32 = (1 << 31) + 6;
    pub(crate) const TOO_BIG: u32 = (1 << 31) + 9;
}

/// Pieces of information about an export.
pub(super) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
pub(super) mod flag {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Requests, and their flags.
pub(super) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISCONNECT: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 2;
}

/// Chunks of structured replies.
pub(super) mod chunk {
    pub(crate) const DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const ERROR: u16 = (1 << 15) + 1;
}

/// Errors of the protocol.
pub(super) mod errno {
    pub(crate) const EIO: u32 = 5;
    pub(crate) const EINVAL: u32 = 22;
    pub(crate) const ENOSPC: u32 = 28;
}

/// The longest option that is read; a name is at most 4,096 bytes.
pub(super) const LONGEST_OPTION: u32 = 16 * 1024;
/// The longest read or write, which the protocol lets every client assume.
pub(super) const LONGEST_REQUEST: u32 = 32 << 20;

pub(super) fn read_u16(input: &mut impl Read) -> io::Result<u16> {
    let mut bytes = [0; 2];
    input.read_exact(&mut bytes)?;
    Ok(u16::from_be_bytes(bytes))
}

pub(super) fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

pub(super) fn read_u64(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// The client breaks the protocol.
pub(super) fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
