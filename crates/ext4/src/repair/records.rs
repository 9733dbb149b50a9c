//! The records of a block of a directory, made to make sense. What e2fsck keeps is kept: it lets a record that makes no sense join
//! the one before it, closes a hole of eight bytes, and shortens a record that runs over the end (`salvage_directory`). Where it
//! gives up the rest of the block, the records that follow are found here.

use crate::layout::{le16, le32, put16, put32};
use crate::records::{self, LEAST_RECORD, records};

/// Length of the record of `.`.
pub(super) const DOT_BYTES: usize = 12;
/// Inode, length of the record, length of the name, kind.
const HEADER_BYTES: usize = 8;
/// The last kind that a record says.
const MOST_KIND: u8 = 7;

/// Makes the records of a block lead to its end one after the other. `inodes`: how many the file system has.
///
/// A record that makes no sense ends where others begin that do and lead to the end of the block: where it says itself, if it can
/// be so; else at the first such place. It is kept when only its length is wrong.
pub(super) fn cover(block: &mut [u8], end: usize, inodes: u64) {
    let (mut at, mut last) = (0, None);
    while at < end {
        let left = end - at;
        if left < HEADER_BYTES {
            return absorb(block, last, at, left);
        }
        let (len, name_len) = (usize::from(le16(block, at + 4)), usize::from(block[at + 6]));
        if is_whole(block, at, end) {
            if name_len == 0 {
                put32(block, at, 0);
            }
            let next = true_end(block, at, end, inodes);
            put16(block, at + 4, (next - at) as u16);
            (last, at) = (Some(at), next);
            continue;
        }
        let said =
            Some(at + len).filter(|next| len > 0 && len % 4 == 0 && leads_to_end(block, *next, end, inodes));
        let least = at + HEADER_BYTES + 4;
        let next =
            said.or_else(|| (least..end).step_by(4).find(|next| leads_to_end(block, *next, end, inodes)));
        let next = next.unwrap_or(end);
        let room = next - at;
        if room >= LEAST_RECORD && name_len > 0 && has_name(block, at, next, inodes) {
            put16(block, at + 4, room as u16);
            last = Some(at);
        } else if last.is_some() || room >= LEAST_RECORD {
            absorb(block, last, at, room);
            last = last.or(Some(at));
        } else {
            // A hole at the beginning that no record fits into.
            block.copy_within(next..end, at);
            block[end - room..end].fill(0);
            continue;
        }
        at = next;
    }
}

/// Where a record ends whose length is possible: where it says, unless that leads nowhere and records begin before it that lead to
/// the end of the block.
fn true_end(block: &[u8], at: usize, end: usize, inodes: u64) -> usize {
    let said = at + usize::from(le16(block, at + 4));
    if is_chain(block, said, end, inodes) {
        return said;
    }
    let least = at + (HEADER_BYTES + usize::from(block[at + 6])).next_multiple_of(4).max(LEAST_RECORD);
    (least..said).step_by(4).find(|next| leads_to_end(block, *next, end, inodes)).unwrap_or(said)
}

/// Whether the length of a record is possible.
fn is_whole(block: &[u8], at: usize, end: usize) -> bool {
    let (len, name_len) = (usize::from(le16(block, at + 4)), usize::from(block[at + 6]));
    len >= LEAST_RECORD && len % 4 == 0 && at + len <= end && HEADER_BYTES + name_len <= len
}

/// Whether a record that ends before `end` can lead somewhere, and its name can be one.
fn has_name(block: &[u8], at: usize, end: usize, inodes: u64) -> bool {
    let (ino, name_len) = (u64::from(le32(block, at)), usize::from(block[at + 6]));
    let begin = at + HEADER_BYTES;
    ino > 0
        && ino <= inodes
        && block[at + 7] <= MOST_KIND
        && begin + name_len <= end
        && !block[begin..begin + name_len].iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// Whether records that make sense, the first of them in use, lead from `at` to the end of a block.
fn leads_to_end(block: &[u8], at: usize, end: usize, inodes: u64) -> bool {
    at + HEADER_BYTES <= end && le32(block, at) != 0 && is_chain(block, at, end, inodes)
}

/// Whether records that make sense lead from `at` to the end of a block.
fn is_chain(block: &[u8], mut at: usize, end: usize, inodes: u64) -> bool {
    let is_used = |at: usize| le32(block, at) != 0;
    while at + HEADER_BYTES <= end {
        let named = !is_used(at) || block[at + 6] > 0 && has_name(block, at, end, inodes);
        if !is_whole(block, at, end) || !named {
            return false;
        }
        at += usize::from(le16(block, at + 4));
    }
    at == end
}

/// `len` bytes from `at` on become room of the record at `last`, or a free record.
fn absorb(block: &mut [u8], last: Option<usize>, at: usize, len: usize) {
    match last {
        Some(last) => {
            let whole = le16(block, last + 4) + len as u16;
            put16(block, last + 4, whole);
        }
        None => {
            block[at..at + len].fill(0);
            put16(block, at + 4, len as u16);
        }
    }
}

/// Whether a block, whose records make sense, begins with `.` and `..` as the first block of a directory does.
pub(super) fn has_dots(block: &[u8], end: usize) -> bool {
    let mut first = records(block, end).map_while(Result::ok);
    let dot = first.next().is_some_and(|record| record.name == b"." && record.len == DOT_BYTES);
    dot && first.next().is_some_and(|record| record.name == b"..")
}

/// Gives a block `.` and `..`, before the names that it has; those for which no room is left are lost. Returns what `..` led to
/// (0: it was not there), and how many names were lost.
pub(super) fn put_dots(block: &mut [u8], end: usize, (ino, kind): (u32, u8)) -> (u32, u64) {
    let old = block.to_vec();
    let found: Vec<_> = records(&old, end).map_while(Result::ok).filter(|record| record.ino != 0).collect();
    let dotdot = found.iter().find(|record| record.name == b"..").map_or(0, |record| record.ino);
    block.fill(0);
    block[..DOT_BYTES].copy_from_slice(&[0, 0, 0, 0, DOT_BYTES as u8, 0, 1, kind, b'.', 0, 0, 0]);
    put32(block, 0, ino);
    block[DOT_BYTES..2 * DOT_BYTES].copy_from_slice(&[0, 0, 0, 0, 0, 0, 2, kind, b'.', b'.', 0, 0]);
    put32(block, DOT_BYTES, dotdot.max(1));
    put16(block, DOT_BYTES + 4, (end - DOT_BYTES) as u16);
    let names = found.iter().filter(|record| !matches!(record.name, b"" | b"." | b".."));
    let lost = names.filter(|record| {
        !records::put_into(block, end, record.name, (record.ino, record.kind)).unwrap_or(false)
    });
    let lost = lost.count() as u64;
    put32(block, DOT_BYTES, dotdot);
    (dotdot, lost)
}

/// A name as e2fsck makes it legal: no `/` and no zero byte.
pub(super) fn legal(name: &[u8]) -> Vec<u8> {
    name.iter().map(|byte| if matches!(byte, 0 | b'/') { b'.' } else { *byte }).collect()
}

/// The next name to try for one that is there already, in the room that its record has: `name~0`, then `name~1`, … as e2fsck.
pub(super) fn next_name(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let tilde = name.len().checked_sub(digits + 1).filter(|at| digits > 0 && name[*at] == b'~');
    if let Some(at) = tilde {
        for digit in name[at + 1..].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return name;
            }
            *digit = b'0';
        }
        // All were nines: one more digit in the place of the character before.
        name[at] = b'1';
        if at > 0 {
            name[at - 1] = b'~';
        }
        return name;
    }
    let len = if name.len() % 4 < 2 { name.len() + 2 } else { name.len().next_multiple_of(4) };
    let len = len.clamp(2, 255);
    name.resize(len, b'~');
    name[len - 2] = b'~';
    name[len - 1] = b'0';
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of records: inode, length, name.
    fn block(of: &[(u32, usize, &[u8])]) -> Vec<u8> {
        let mut block = vec![0; 64];
        let mut at = 0;
        for (ino, len, name) in of {
            put32(&mut block, at, *ino);
            put16(&mut block, at + 4, *len as u16);
            block[at + 6] = name.len() as u8;
            block[at + 8..at + 8 + name.len()].copy_from_slice(name);
            at += len;
        }
        block
    }

    fn names(block: &[u8]) -> Vec<String> {
        let found = records(block, block.len()).map(|record| record.expect("a whole record"));
        found
            .filter(|record| record.ino != 0)
            .map(|record| String::from_utf8_lossy(record.name).into())
            .collect()
    }

    #[test]
    fn records_behind_one_that_makes_no_sense_are_kept() {
        // One of six bytes' name in twelve bytes of record, between two that are whole.
        let mut bad = block(&[(11, 12, b"a"), (12, 12, b"b"), (13, 40, b"c")]);
        bad[12 + 6] = 200;
        cover(&mut bad, 64, 100);
        assert_eq!(names(&bad), ["a", "c"]);
        let mut hole = block(&[(11, 12, b"a")]);
        hole[12 + 4] = 8;
        hole[20..].copy_from_slice(&block(&[(12, 12, b"b"), (13, 32, b"c")])[..44]);
        cover(&mut hole, 64, 100);
        assert_eq!(names(&hole), ["a", "b", "c"]);
        let mut long = block(&[(11, 12, b"a"), (12, 400, b"b")]);
        cover(&mut long, 64, 100);
        assert_eq!(names(&long), ["a", "b"]);
        // The length of the first one, as of a `.`, and of one in the middle: nothing is lost but what the length says.
        for (at, len) in [
            (4, 4_u16),
            (4, 8),
            (4, 13),
            (4, 0),
            (4, 900),
            (4, 28),
            (16, 4),
            (16, 8),
            (16, 40),
            (16, 0),
            (16, 14),
        ] {
            let mut bad = block(&[(2, 12, b"."), (2, 12, b".."), (11, 16, b"eleven"), (12, 24, b"twelve")]);
            put16(&mut bad, at, len);
            cover(&mut bad, 64, 100);
            assert_eq!(names(&bad), [".", "..", "eleven", "twelve"], "length {len} at {at}");
        }
        let mut nothing = vec![0xff; 64];
        cover(&mut nothing, 64, 100);
        assert_eq!(names(&nothing), Vec::<String>::new());
    }

    #[test]
    fn a_first_block_without_dots_gets_them_and_keeps_its_names() {
        let mut bad = block(&[(11, 12, b"a"), (12, 52, b"b")]);
        assert!(!has_dots(&bad, 64));
        assert_eq!(put_dots(&mut bad, 64, (2, 2)), (0, 0));
        assert_eq!((le32(&bad, 0), le32(&bad, DOT_BYTES)), (2, 0));
        put32(&mut bad, DOT_BYTES, 2);
        assert!(has_dots(&bad, 64));
        assert_eq!(names(&bad), [".", "..", "a", "b"]);
    }

    #[test]
    fn a_name_that_is_there_already_is_numbered() {
        for (name, next) in
            [("a", "a~0"), ("file", "file~0"), ("files", "files~0"), ("a~0", "a~1"), ("abc", "ab~0")]
        {
            assert_eq!(String::from_utf8_lossy(&next_name(name.as_bytes())), next);
        }
        assert_eq!(next_name(b"file~9"), b"fil~10");
        assert_eq!(legal(b"a/b\0"), b"a.b.");
    }
}
