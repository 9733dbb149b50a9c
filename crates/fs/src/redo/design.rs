//! Redo in the table of designs.

use std::sync::Arc;

use ::vfs::{FileSystem, Promises};
use design::{Checking, Design, Format, FsError, Mutant, OptionSpec, Options};
use media::Storage;
use sim::{Bytes, LockClass};

use super::format::{RedoFormat, damaged};
use super::log::{Volume, capacity};
use super::mutant;
use super::vfs::Redo;

/// Redo.
pub(crate) struct RedoDesign;

pub(super) const NAME: &str = "redo";

impl Design for RedoDesign {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "all state in DRAM, every change in a redo log; the template for new designs"
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    fn format(&self) -> &dyn Format {
        &RedoFormat
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        vec![&super::vfs::VOLUME]
    }

    fn promises(&self, _: &Options) -> Promises {
        Promises::STRICT
    }

    fn checking(&self) -> Checking {
        // An image takes long to mount: all files are read.
        Checking { crash_every: 3, mount_reads_all: true, ..Checking::default() }
    }

    fn dram(&self, _: &Options, size: Bytes) -> Bytes {
        Bytes(capacity(size.0))
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        if !RedoFormat.recognises(storage) {
            let found = "the magic number is another".to_owned();
            return Err(FsError::WrongFormat { design: NAME, found });
        }
        let volume = Volume::open(storage.memory()?, options.mutant()).map_err(damaged)?;
        Ok(Arc::new(Redo::new(volume)))
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutant::ALL
    }
}
