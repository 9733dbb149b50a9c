//! Bytes of records, as their encodings have them.

use zerocopy::IntoBytes;

use super::layout::BODY;

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The seal is another, or the record would pass the end of the zone: these bytes were never a whole record here.
    NotSealed,
    /// The seal is right, but the kind is unknown: newer code wrote it.
    UnknownKind(u8),
    /// The seal is right, but a field is out of range: a bug wrote it.
    Malformed,
}

/// Kind, parts that count, items, body of the first line.
pub(crate) type Raw = (u8, u8, u8, [u8; BODY]);

/// The body of a first line.
pub(crate) fn body(raw: &(impl IntoBytes + zerocopy::Immutable)) -> [u8; BODY] {
    raw.as_bytes().try_into().expect("layout.rs asserts the size of every body")
}

/// Takes so many bytes from the front.
pub(crate) fn take<'a>(tail: &mut &'a [u8], len: usize) -> Result<&'a [u8], Refused> {
    let (front, rest) = tail.split_at_checked(len).ok_or(Refused::Malformed)?;
    *tail = rest;
    Ok(front)
}
