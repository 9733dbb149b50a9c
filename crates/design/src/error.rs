//! Why a file system cannot be made, mounted, checked or dumped.

use std::io;

use sim::Bytes;

use crate::options::OptionError;

/// Why a file system could not be made, mounted or dumped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// The region cannot hold the format.
    #[error("{design} needs at least {needed}; the region has {size}: give --size {needed} or more")]
    TooSmall {
        /// The design.
        design: &'static str,
        /// Smallest size.
        needed: Bytes,
        /// Size of the region.
        size: Bytes,
    },
    /// The format cannot fill the region.
    #[error("{design} images have at most {most}; the region has {size}: give a smaller size")]
    TooLarge {
        /// The design.
        design: &'static str,
        /// Largest size.
        most: Bytes,
        /// Size of the region.
        size: Bytes,
    },
    /// The image was made by later code.
    #[error(
        "{design} image of format version {found}: this weir reads versions up to {known}; the image was not changed"
    )]
    NewerFormat {
        /// The design.
        design: &'static str,
        /// The version of the image.
        found: u32,
        /// The latest version that can be read.
        known: u32,
    },
    /// The image is not of this design.
    #[error("not a {design} image: {found}")]
    WrongFormat {
        /// The design asked for.
        design: &'static str,
        /// What was found instead, and what to do.
        found: String,
    },
    /// The image is sound, and uses something that the design does not have.
    #[error("{what}")]
    Unsupported {
        /// What the image uses, and what to do.
        what: String,
    },
    /// The design cannot make a file system larger.
    #[error("{design} cannot be resized: {advice}")]
    NoGrowth {
        /// The design.
        design: &'static str,
        /// What to do instead.
        advice: &'static str,
    },
    /// The image cannot be made smaller.
    #[error("{why}")]
    NoShrink {
        /// Why not, and what to do instead.
        why: String,
    },
    /// The design has no bytes that only serve to undo or redo stores.
    #[error("{design} has no journal that could be left out: {why}")]
    NoJournal {
        /// The design.
        design: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// The image is damaged beyond what mounting may repair.
    #[error("{design} image is damaged: {what}; look with `weir fsck`")]
    Damaged {
        /// The design.
        design: &'static str,
        /// What is wrong and where.
        what: String,
    },
    /// A repair would lose more than its rules allow; nothing was changed.
    #[error("{what}")]
    WouldLose {
        /// What it would do and lose, and what to do.
        what: String,
    },
    /// There is no device for a journal of its own.
    #[error(
        "external_journal=true needs memory beside a block device: name it in a plan, or `weir mkfs ext4 IMAGE --journal FILE`"
    )]
    NoJournalDevice,
    /// An option is wrong.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The medium failed.
    #[error(transparent)]
    Media(#[from] media::MediaError),
    /// A dump was asked for a part that does not exist.
    #[error("there is no {part} to dump: {why}")]
    NoSuchPart {
        /// What was asked for.
        part: String,
        /// What there is.
        why: String,
    },
    /// Writing a dump failed.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl FsError {
    /// The same, told of a design that is built on the one that found it.
    #[must_use]
    pub fn of(self, design: &'static str) -> Self {
        match self {
            Self::WrongFormat { found, .. } => Self::WrongFormat { design, found },
            Self::Damaged { what, .. } => Self::Damaged { design, what },
            Self::NewerFormat { found, known, .. } => Self::NewerFormat { design, found, known },
            other => other,
        }
    }
}
