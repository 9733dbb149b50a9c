//! A format on storage: how to make, recognise, recover, check and repair an image of it.

use std::io;
use std::ops::Range;

use media::Storage;
use sim::Bytes;

use crate::error::FsError;
use crate::needs::Needs;
use crate::options::Options;
use crate::report::FsckReport;

/// A format of images. Several designs may mount one; what a check or a simulator reads has no default.
pub trait Format: Sync {
    /// What it is made on with these options.
    fn needs(&self, options: &Options) -> Needs;

    /// The smallest storage that [`Format::mkfs`] accepts with these options.
    fn min_size(&self, options: &Options) -> Bytes;

    /// Bytes of the storage for each inode, where making the file system fixes their number; 0: inodes come from free space.
    fn bytes_per_inode(&self, _options: &Options) -> u64 {
        0
    }

    /// The storage that files and their metadata of so many bytes fill with these options: more where each byte has a second
    /// place.
    fn size_for(&self, files: Bytes, _options: &Options) -> Bytes {
        files
    }

    /// The UUID of the journal that an image keeps on another device, which then is the memory beside the block device.
    fn outside_journal(&self, _: &Storage) -> Option<[u8; 16]> {
        None
    }

    /// The size of such a journal for an image of `size` bytes; none where the format makes none.
    fn outside_journal_size(&self, _options: &Options, _size: Bytes) -> Option<Bytes> {
        None
    }

    /// Makes an empty file system.
    fn mkfs(&self, storage: &Storage, options: &Options) -> Result<(), FsError>;

    /// Whether the storage holds this format, made for the design that names it.
    fn recognises(&self, storage: &Storage) -> bool;

    /// Brings an image that was not unmounted to the state in which mounting would use it; says what was done. Give it a
    /// private mapping when the image itself must not change.
    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError>;

    /// The part of the recovery that repairs nothing: what a check does before it looks, so that it reports what is wrong with the
    /// image itself.
    fn replay(&self, storage: &Storage) -> Result<Vec<String>, FsError>;

    /// Checks every invariant of the format without changing anything. An image that was not unmounted must have been
    /// recovered; one that was not is reported as such, and not checked further.
    fn fsck(&self, storage: &Storage) -> FsckReport;

    /// Repairs what [`Format::fsck`] found in an image that was recovered, or could not be, as far as that can be done without
    /// giving up what can still be read; says what was done. Call it in a run: files are given names.
    fn repair(&self, storage: &Storage) -> Result<Vec<String>, FsError>;

    /// The same, also where it loses more than the design's rules allow ([`FsError::WouldLose`]).
    ///
    /// # Errors
    /// Those of [`Format::repair`].
    fn repair_at_any_loss(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        self.repair(storage)
    }

    /// Grows an unmounted file system to the size of its storage, which was made larger; returns the size before. Nothing changes
    /// where it has that size already. A crash leaves it with one size or the other. Call it in a run, as a mount.
    fn grow(&self, storage: &Storage) -> Result<Bytes, FsError>;

    /// The size to which such a file system can grow; none: that of any storage.
    fn grows_to(&self, _storage: &Storage) -> Result<Option<Bytes>, FsError> {
        Ok(None)
    }

    /// Makes an unmounted file system smaller, so that the storage behind `size` is not used; returns the size before. A crash
    /// leaves it with one size or the other. Call it in a run, as a mount.
    ///
    /// # Errors
    /// [`FsError::NoShrink`] where something is in the way, or the design cannot do so.
    fn shrink(&self, _storage: &Storage, _size: Bytes) -> Result<Bytes, FsError> {
        let why = "a pool of this design is never made smaller: give a size above that, or make a new pool with `weir mkfs` and \
                   copy its files there";
        Err(FsError::NoShrink { why: why.to_owned() })
    }

    /// Whether it asks for the host's space before it stores to a block ([`media::Region::back`]), so that its pool may have holes.
    fn may_have_holes(&self) -> bool;

    /// The bytes of an image that only serve to undo or redo other stores after a crash.
    ///
    /// # Errors
    /// [`FsError::NoJournal`] where no such bytes can be told apart.
    fn journal(&self, storage: &Storage) -> Result<Vec<Range<u64>>, FsError>;

    /// Makes the checksums of an edited image right, so that a check tries what they guard. `image` is the image before the edits,
    /// and the edited one may be shorter. A format without checksums has nothing to do, and neither has one whose checksums an edit
    /// rarely hits.
    fn certify(&self, _image: &[u8], _edited: &mut [u8]) {}

    /// Describes a part of the image for people: `superblock`, `journal`, `inode N`, `dir N`; see [`Format::dump_parts`].
    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn io::Write) -> Result<(), FsError>;

    /// The parts that [`Format::dump`] knows, with what they show.
    fn dump_parts(&self) -> &'static [(&'static str, &'static str)];
}
