//! Names of extended attributes.

use crate::errno::{Errno, Result};
use crate::walk::NAME_MAX;

/// Longest value, in bytes.
pub(crate) const SIZE_MAX: usize = 1 << 16;

/// What the first part of a name stands for. There is no `system` here, and so no access-control lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Users who may read or write the file.
    User,
    /// Root only; others do not see them.
    Trusted,
    /// Everybody reads, root writes.
    Security,
}

impl Namespace {
    /// That of a name.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let dot = name.iter().position(|byte| *byte == b'.')?;
        match &name[..dot] {
            b"user" => Some(Self::User),
            b"trusted" => Some(Self::Trusted),
            b"security" => Some(Self::Security),
            _ => None,
        }
    }
}

/// The namespace of a name: `EOPNOTSUPP` when there is no such one, `EINVAL` for its prefix alone.
pub fn namespace(name: &[u8]) -> Result<Namespace> {
    let namespace = Namespace::of(name).ok_or(Errno::EOPNOTSUPP)?;
    let rest = name.splitn(2, |byte| *byte == b'.').nth(1);
    if rest.is_none_or(<[u8]>::is_empty) { Err(Errno::EINVAL) } else { Ok(namespace) }
}

/// A list of names, each ended by a zero byte, without those that only root may see.
pub fn shown(names: &[u8], is_root: bool) -> Vec<u8> {
    let names = names.split_inclusive(|byte| *byte == 0);
    let shown = names.filter(|name| is_root || Namespace::of(name) != Some(Namespace::Trusted));
    let _covered = crate::charges::of_front();
    sim::ran::collected(shown.flatten().copied())
}

/// What is asked of a name before its file is looked up: `ERANGE` unless it has 1 to 255 bytes.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name.len() {
        1..=NAME_MAX if name.contains(&0) => Err(Errno::EINVAL),
        1..=NAME_MAX => Ok(()),
        _ => Err(Errno::ERANGE),
    }
}
