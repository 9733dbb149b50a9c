//! What a check of an image finds.

use std::fmt;

/// What fsck found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Violations; empty: the image is clean.
    pub violations: Vec<Violation>,
    /// Facts worth telling that are no violations: "primary superblock bad, copy used", "unclean: journal has 3 transactions".
    pub notes: Vec<String>,
    /// How many objects of each kind were checked.
    pub checked: Vec<(&'static str, u64)>,
}

impl FsckReport {
    /// Notes that an invariant does not hold.
    pub fn violate(&mut self, predicate: &'static str, what: impl Into<String>) {
        self.violations.push(Violation { predicate, what: what.into() });
    }

    /// Nothing could be checked, for this reason.
    pub fn unchecked(why: String) -> Self {
        Self { notes: vec![why], ..Self::default() }
    }
}

/// One violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the predicate, as in `size_covers_blocks`.
    pub predicate: &'static str,
    /// What is wrong and where.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (predicate {})", self.what, self.predicate)
    }
}
