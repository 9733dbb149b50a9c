//! The handshake: fixed newstyle, with structured replies if the client wants them.
//!
//! | option | answer |
//! |---|---|
//! | GO, INFO | size, flags, block sizes, description; GO ends the handshake |
//! | EXPORT_NAME | size and flags; a wrong name disconnects, as the protocol has it |
//! | LIST, ABORT, STRUCTURED_REPLY | as the protocol says |
//! | anything else | "unsupported", and the client goes on |

use std::io::{self, Read, Write};

use super::Export;
use super::wire::{
    FIXED_NEWSTYLE, LONGEST_OPTION, LONGEST_REQUEST, MAGIC, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    broken, flag, info, option, read_u32, read_u64, reply,
};

/// What was agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    /// Replies are structured: errors carry a sentence.
    pub(super) structured: bool,
}

/// Talks until the client begins to send requests, or leaves.
pub(super) fn negotiate(stream: &mut (impl Read + Write), export: &Export) -> io::Result<Option<Session>> {
    let mut hello = Vec::from(MAGIC.to_be_bytes());
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    stream.write_all(&hello)?;
    let client = read_u32(stream)?;
    if client & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return Err(broken(format!("unknown flags {client:#x} in the handshake")));
    }
    let mut session = Session::default();
    loop {
        if read_u64(stream)? != OPTION_MAGIC {
            return Err(broken("an option that does not begin as one"));
        }
        let (kind, length) = (read_u32(stream)?, read_u32(stream)?);
        if length > LONGEST_OPTION {
            io::copy(&mut Read::by_ref(stream).take(u64::from(length)), &mut io::sink())?;
            answer(stream, kind, reply::TOO_BIG, b"the option is too long")?;
            continue;
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match kind {
            option::EXPORT_NAME => {
                return export_name(stream, export, &data, client, session).map(Some);
            }
            option::GO | option::INFO => {
                if information(stream, export, kind, &data)? && kind == option::GO {
                    return Ok(Some(session));
                }
            }
            option::LIST => list(stream, export)?,
            option::STRUCTURED_REPLY if data.is_empty() => {
                session.structured = true;
                answer(stream, kind, reply::ACK, &[])?;
            }
            option::STRUCTURED_REPLY => answer(stream, kind, reply::INVALID, b"it takes no data")?,
            option::ABORT => {
                // The client need not wait for the answer.
                let _ = answer(stream, kind, reply::ACK, &[]);
                return Ok(None);
            }
            _ => answer(stream, kind, reply::UNSUPPORTED, b"")?,
        }
    }
}

fn answer(stream: &mut impl Write, kind: u32, reply: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::from(OPTION_REPLY_MAGIC.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(reply.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

/// Size and transmission flags.
fn size_and_flags(export: &Export) -> Vec<u8> {
    let geometry = export.device.geometry();
    let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::SEND_WRITE_ZEROES;
    flags |= flag::CAN_MULTI_CONN; // a flush of one connection covers the writes that others saw complete
    if geometry.discard {
        flags |= flag::SEND_TRIM;
    }
    let mut bytes = Vec::from(geometry.bytes.0.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    bytes
}

fn export_name(
    stream: &mut impl Write,
    export: &Export,
    name: &[u8],
    client: u32,
    session: Session,
) -> io::Result<Session> {
    if !is_name(export, name) {
        return Err(broken(format!("there is no export \"{}\"", String::from_utf8_lossy(name))));
    }
    let mut bytes = size_and_flags(export);
    if client & u32::from(NO_ZEROES) == 0 {
        bytes.extend([0; 124]);
    }
    stream.write_all(&bytes)?;
    Ok(session)
}

fn is_name(export: &Export, name: &[u8]) -> bool {
    name.is_empty() || name == export.name.as_bytes()
}

fn list(stream: &mut impl Write, export: &Export) -> io::Result<()> {
    let mut data = Vec::from((export.name.len() as u32).to_be_bytes());
    data.extend(export.name.as_bytes());
    data.extend(export.description.as_bytes());
    answer(stream, option::LIST, reply::SERVER, &data)?;
    answer(stream, option::LIST, reply::ACK, &[])
}

/// Answers INFO and GO; false if the export is not there or the option is malformed.
fn information(stream: &mut impl Write, export: &Export, kind: u32, mut data: &[u8]) -> io::Result<bool> {
    let name = match read_u32(&mut data) {
        Ok(length) if (length as usize) + 2 <= data.len() => &data[..length as usize],
        _ => {
            answer(stream, kind, reply::INVALID, b"the name is longer than the option")?;
            return Ok(false);
        }
    };
    if !is_name(export, name) {
        answer(stream, kind, reply::UNKNOWN, format!("the export is called \"{}\"", export.name).as_bytes())?;
        return Ok(false);
    }
    let mut about = Vec::from(info::EXPORT.to_be_bytes());
    about.extend(size_and_flags(export));
    answer(stream, kind, reply::INFO, &about)?;
    let mut blocks = Vec::from(info::BLOCK_SIZE.to_be_bytes());
    blocks.extend(export.device.geometry().block_bytes.to_be_bytes());
    blocks.extend(4_096_u32.to_be_bytes());
    blocks.extend(LONGEST_REQUEST.to_be_bytes());
    answer(stream, kind, reply::INFO, &blocks)?;
    let mut description = Vec::from(info::DESCRIPTION.to_be_bytes());
    description.extend(export.description.as_bytes());
    answer(stream, kind, reply::INFO, &description)?;
    answer(stream, kind, reply::ACK, &[])?;
    Ok(true)
}
