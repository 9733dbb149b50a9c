//! Access-control lists of POSIX.1e (draft 17), as the attributes `system.posix_acl_access` and `system.posix_acl_default` hold
//! them.
//!
//! ```text
//!   | version 2: u32 | tag: u16, permissions: u16, user or group: u32 | … sorted by tag, then by id
//! ```
//!
//! With `FUSE_POSIX_ACL` the kernel reads the lists to check permissions. It leaves three things to the server: the mode and the
//! list of a file agree (chmod changes the list, a new list the mode); a new file inherits the default list of its directory; a
//! list that says no more than a mode is not kept.
//!
//! References: acl(5); `include/uapi/linux/posix_acl_xattr.h` and `fs/posix_acl.c` of Linux.

use vfs::{Errno, Result};

/// Who may access a file.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// What new files of a directory inherit.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const ENTRY_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<Entry>);

/// Whether an attribute is a list.
pub(crate) fn is_list(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

impl Acl {
    /// `EINVAL` for bytes that are no valid list.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let (version, rest) = bytes.split_first_chunk::<4>().ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*version) != VERSION || rest.len() % ENTRY_BYTES != 0 {
            return Err(Errno::EINVAL);
        }
        let entries = rest.chunks_exact(ENTRY_BYTES).map(|bytes| Entry {
            tag: u16::from_le_bytes([bytes[0], bytes[1]]),
            perm: u16::from_le_bytes([bytes[2], bytes[3]]),
            id: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        });
        let list = Self(entries.collect());
        if list.is_valid() { Ok(list) } else { Err(Errno::EINVAL) }
    }

    /// One entry each of owner, group and others, sorted, and a mask where users or groups are named.
    fn is_valid(&self) -> bool {
        let one = |tag| self.0.iter().filter(|entry| entry.tag == tag).count() == 1;
        let named = self.0.iter().any(|entry| entry.tag & (USER | GROUP) != 0);
        let known = |entry: &Entry| {
            [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER].contains(&entry.tag) && entry.perm <= 7
        };
        let sorted = self.0.windows(2).all(|pair| match pair[0].tag.cmp(&pair[1].tag) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => pair[0].id < pair[1].id,
            std::cmp::Ordering::Greater => false,
        });
        let mask_needed = !named || one(MASK);
        one(USER_OBJ) && one(GROUP_OBJ) && one(OTHER) && mask_needed && sorted && self.0.iter().all(known)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for Entry { tag, perm, id } in &self.0 {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(perm.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// Whether it says no more than a mode does.
    pub(crate) fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// The entry that the group bits of the mode stand for.
    fn group_class(&self) -> u16 {
        if self.0.iter().any(|entry| entry.tag == MASK) { MASK } else { GROUP_OBJ }
    }

    fn perm_of(&self, tag: u16) -> u32 {
        self.0.iter().find(|entry| entry.tag == tag).map_or(0, |entry| u32::from(entry.perm))
    }

    fn set_perm(&mut self, tag: u16, perm: u32) {
        for entry in self.0.iter_mut().filter(|entry| entry.tag == tag) {
            entry.perm = (perm & 7) as u16;
        }
    }

    /// The nine permission bits that stand for it.
    pub(crate) fn perm(&self) -> u32 {
        self.perm_of(USER_OBJ) << 6 | self.perm_of(self.group_class()) << 3 | self.perm_of(OTHER)
    }

    /// What chmod makes of it.
    pub(crate) fn with_perm(mut self, perm: u32) -> Self {
        let group = self.group_class();
        self.set_perm(USER_OBJ, perm >> 6);
        self.set_perm(group, perm >> 3);
        self.set_perm(OTHER, perm);
        self
    }

    /// What a file starts with that is made with `perm` in a directory whose default list this is.
    pub(crate) fn inherited(self, perm: u32) -> Self {
        let both = self.perm() & perm;
        self.with_perm(both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Acl {
        Acl(entries.iter().map(|&(tag, perm, id)| Entry { tag, perm, id }).collect())
    }

    const NONE: u32 = u32::MAX;

    fn named() -> Acl {
        list(&[(USER_OBJ, 7, NONE), (USER, 6, 1000), (GROUP_OBJ, 5, NONE), (MASK, 6, NONE), (OTHER, 4, NONE)])
    }

    #[test]
    fn lists_survive_their_bytes_and_what_is_none_is_refused() {
        assert_eq!(Acl::parse(&named().bytes()), Ok(named()));
        let wrong = [
            list(&[(USER_OBJ, 7, NONE), (OTHER, 4, NONE)]),
            list(&[(USER_OBJ, 7, NONE), (USER, 6, 1), (GROUP_OBJ, 5, NONE), (OTHER, 4, NONE)]),
            list(&[(GROUP_OBJ, 5, NONE), (USER_OBJ, 7, NONE), (OTHER, 4, NONE)]),
            list(&[(USER_OBJ, 8, NONE), (GROUP_OBJ, 5, NONE), (OTHER, 4, NONE)]),
        ];
        for list in wrong {
            assert_eq!(Acl::parse(&list.bytes()), Err(Errno::EINVAL), "{list:?}");
        }
        let bytes = named().bytes();
        for end in (0..bytes.len()).filter(|end| end % ENTRY_BYTES != 4) {
            assert_eq!(Acl::parse(&bytes[..end]), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn the_group_bits_of_a_mode_are_the_mask() {
        assert_eq!(named().perm(), 0o764);
        let changed = named().with_perm(0o640);
        assert_eq!((changed.perm(), changed.perm_of(GROUP_OBJ)), (0o640, 5));
    }

    #[test]
    fn a_new_file_gets_no_more_than_was_asked_for() {
        let file = named().inherited(0o666);
        assert_eq!(file.perm(), 0o664);
        assert_eq!(file.perm_of(USER), 6, "the mask limits it, not the entry");
        assert_eq!(named().inherited(0o600).perm(), 0o600);
    }
}
