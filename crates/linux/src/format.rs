//! A model has no format: what this interface asks for beside room is refused.

use std::io::Write;
use std::ops::Range;

use design::{Format, FsError, FsckReport, Needs, Options};
use media::Storage;
use sim::Bytes;

/// Why a model cannot be made, mounted from an image, checked or crashed.
pub(super) const REFUSAL: &str = "a model of the kernel's file system keeps all in memory and has no image: it answers \
     `weir bench`, `weir run` and `weir check model`; for images take ext4, or another design of `weir list fs`";

/// The smallest storage: 16 pages.
const MIN_SIZE: Bytes = Bytes::kib(64);

/// What stands in the place of a format.
pub(super) struct NoFormat(pub(super) &'static str);

impl NoFormat {
    fn refused<T>(&self) -> Result<T, FsError> {
        Err(FsError::Unsupported { what: format!("{}: {REFUSAL}", self.0) })
    }
}

impl Format for NoFormat {
    fn needs(&self, _: &Options) -> Needs {
        Needs::Either
    }

    fn min_size(&self, _: &Options) -> Bytes {
        MIN_SIZE
    }

    /// Room is all that there is to make; the mount begins with nothing in it.
    fn mkfs(&self, storage: &Storage, _: &Options) -> Result<(), FsError> {
        let size = Bytes(storage.memory()?.len());
        if size < MIN_SIZE {
            return Err(FsError::TooSmall { design: self.0, needed: MIN_SIZE, size });
        }
        Ok(())
    }

    fn recognises(&self, _: &Storage) -> bool {
        false
    }

    fn recover(&self, _: &Storage) -> Result<Vec<String>, FsError> {
        self.refused()
    }

    fn replay(&self, _: &Storage) -> Result<Vec<String>, FsError> {
        self.refused()
    }

    fn fsck(&self, _: &Storage) -> FsckReport {
        FsckReport::unchecked(format!("{}: {REFUSAL}", self.0))
    }

    fn repair(&self, _: &Storage) -> Result<Vec<String>, FsError> {
        self.refused()
    }

    fn grow(&self, _: &Storage) -> Result<Bytes, FsError> {
        self.refused()
    }

    fn may_have_holes(&self) -> bool {
        false
    }

    fn journal(&self, _: &Storage) -> Result<Vec<Range<u64>>, FsError> {
        self.refused()
    }

    fn dump(&self, _: &Storage, _: &str, _: &mut dyn Write) -> Result<(), FsError> {
        self.refused()
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}
