//! Access-control lists: the form that a program sees, and the form on the device.
//!
//! ```text
//! call, version 2:    version u32 | tag u16, permissions u16, id u32 | …
//! device, version 1:  version u32 | tag u16, permissions u16, of a named user or group id u32 | …
//! ```
//!
//! An early Weir stored the form of the call, which the kernel refuses. Such a list is read here; the next change of the inode's
//! attributes, and `weir fsck --repair`, store it in the form of the device.
//!
//! Source: the kernel's `fs/ext4/acl.h` and `include/uapi/linux/posix_acl_xattr.h`.

use super::layout::{le16, le32};

const OF_DEVICE: u32 = 1;
const OF_CALL: u32 = 2;
const USER: u16 = 2;
const GROUP: u16 = 8;
/// Tags of a list: owner, user, group of the owner, group, mask, others.
const TAGS: [u16; 6] = [1, USER, 4, GROUP, 0x10, 0x20];
/// What the call has as id of an entry that names no user and no group.
const NO_ID: u32 = u32::MAX;

/// Tag, permissions, user or group.
type Entry = (u16, u16, u32);

/// The version and the entries of a list in either form; none for bytes that are no list.
fn parse(bytes: &[u8]) -> Option<(u32, Vec<Entry>)> {
    let (head, mut rest) = bytes.split_first_chunk::<4>()?;
    let version = u32::from_le_bytes(*head);
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let tag = rest.get(..4).map(|entry| le16(entry, 0)).filter(|tag| TAGS.contains(tag))?;
        let is_named = matches!(tag, USER | GROUP);
        let len = match version {
            OF_CALL => 8,
            OF_DEVICE if is_named => 8,
            OF_DEVICE => 4,
            _ => return None,
        };
        let entry = rest.get(..len)?;
        let id = if is_named { le32(entry, 4) } else { NO_ID };
        entries.push((tag, le16(entry, 2), id));
        rest = &rest[len..];
    }
    (!entries.is_empty()).then_some((version, entries))
}

/// The form of the device, from that of the call.
pub(super) fn to_device(call: &[u8]) -> Option<Vec<u8>> {
    let (OF_CALL, entries) = parse(call)? else { return None };
    let mut bytes = OF_DEVICE.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(perm.to_le_bytes());
        if matches!(tag, USER | GROUP) {
            bytes.extend(id.to_le_bytes());
        }
    }
    Some(bytes)
}

/// The form of the call, from what is on the device.
pub(super) fn to_call(stored: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = OF_CALL.to_le_bytes().to_vec();
    for (tag, perm, id) in parse(stored)?.1 {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(perm.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    Some(bytes)
}

/// What the kernel would hold against a list on the device, in words.
pub(super) fn fault(stored: &[u8]) -> Option<&'static str> {
    match parse(stored) {
        None => Some("its list of access control is none"),
        Some((OF_CALL, _)) => Some("its list of access control has the form of an early Weir"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_on_the_device_has_ids_only_of_those_it_names() {
        let entries = [(1, 7, NO_ID), (USER, 6, 1234), (4, 5, NO_ID), (0x10, 6, NO_ID), (0x20, 4, NO_ID)];
        let mut call = OF_CALL.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            call.extend(
                [&u16::to_le_bytes(tag)[..], &u16::to_le_bytes(perm), &u32::to_le_bytes(id)].concat(),
            );
        }
        let device = to_device(&call).expect("a list");
        assert_eq!(
            device,
            b"\x01\0\0\0\x01\0\x07\0\x02\0\x06\0\xd2\x04\0\0\x04\0\x05\0\x10\0\x06\0\x20\0\x04\0"
        );
        assert_eq!(to_call(&device).as_ref(), Some(&call));
        assert_eq!(to_call(&call).as_ref(), Some(&call), "what an early Weir stored");
        assert_eq!(to_device(&device), None, "no call has this form");
        for end in [0, 3, 4, 6, 9, 15] {
            assert_eq!(to_call(&device[..end]), None, "{end} bytes");
        }
    }
}
