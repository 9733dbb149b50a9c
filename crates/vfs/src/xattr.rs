//! Names of extended attributes.

use crate::errno::{Errno, Result};
use crate::walk::NAME_MAX;

/// Longest value, in bytes.
pub(crate) const SIZE_MAX: usize = 1 << 16;

/// What the first part of a name stands for. `system.` has no attributes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// Whoever may read or write the file.
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

/// What is asked of a name before its file is looked up: `ERANGE` unless it has 1 to 255 bytes.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name.len() {
        1..=NAME_MAX if name.contains(&0) => Err(Errno::EINVAL),
        1..=NAME_MAX => Ok(()),
        _ => Err(Errno::ERANGE),
    }
}
