//! Which part of a file holds the file system: all of it, or a partition of the image of a disk.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use design::{Design, Needs, Options};
use media::block::MemoryDevice;
use media::block::partition::{Disk, Partition, TableError, partitions};
use media::{MediaError, Region, Storage};
use sim::Bytes;

use crate::failure::{Exit, Failure};

/// The part that holds the file system.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// The partition by number, if the file is the image of a disk (MBR, GPT)
    #[arg(long, value_name = "N", conflicts_with = "offset")]
    pub(crate) partition: Option<u32>,
    /// Where the file system begins in the file, if other data is before it
    #[arg(long, value_name = "BYTES")]
    pub(crate) offset: Option<Bytes>,
}

impl Part {
    pub(crate) fn is_all(self) -> bool {
        self.partition.is_none() && self.offset.is_none_or(|offset| offset.0 == 0)
    }

    /// Its bytes; none where it is all of the file.
    pub(crate) fn range(self, region: &Region, path: &Path) -> Result<Option<Range<u64>>, Failure> {
        let (shown, size) = (path.display(), Bytes(region.len()));
        match (self.partition, self.offset) {
            _ if self.is_all() => Ok(None),
            (Some(_), Some(_)) => Err(Failure::usage("give a partition or an offset, not both")),
            (Some(number), None) => numbered(region, number, path).map(Some),
            (None, Some(offset)) if offset >= size => Err(Failure::usage(format!(
                "{shown} has {size}: no file system begins at byte {} (offset)",
                offset.0
            ))),
            (None, offset) => Ok(Some(offset.unwrap_or_default().0..region.len())),
        }
    }
}

/// The part of a file as a design takes it: a block device, which may begin at any sector, or memory, which begins at a page.
pub(crate) fn storage(
    design: &dyn Design,
    region: &Arc<Region>,
    range: Option<&Range<u64>>,
) -> Result<Storage, MediaError> {
    let Some(range) = range else { return Ok(Storage::from(region)) };
    if design.format().needs(&Options::defaults(design.options())) == Needs::Block {
        return Ok(Storage::of_block(MemoryDevice::range(Arc::clone(region), range.clone())?));
    }
    Ok(Storage::of_memory(Arc::new(Region::part(region, range.clone())?)))
}

/// What to do about an offset at which no file system of a design can begin.
pub(crate) fn misplaced(design: &dyn Design, error: MediaError, path: &Path) -> Failure {
    let shown = path.display();
    match error {
        MediaError::Misaligned { offset, align } => Failure::usage(format!(
            "{shown}: offset {offset}: a file system of {} begins at a multiple of {align} bytes",
            design.name()
        )),
        error => Failure::new(Exit::Run, format!("{shown}: {error}")),
    }
}

fn numbered(region: &Region, number: u32, path: &Path) -> Result<Range<u64>, Failure> {
    let shown = path.display();
    let table = partitions(&Disk { len: region.len(), read: &|at, buffer| region.peek(at, buffer) });
    let all = table.map_err(|error| refused(&error, path))?;
    if all.is_empty() {
        return Err(Failure::usage(format!(
            "{shown} has no partition table: leave the number of a partition out, or say where the file system begins (offset)"
        )));
    }
    let found = all.iter().find(|partition| partition.number == number);
    found
        .map(|partition| partition.range.clone())
        .ok_or_else(|| Failure::usage(format!("{shown} has no partition {number}; it has {}", listed(&all))))
}

fn refused(error: &TableError, path: &Path) -> Failure {
    let exit = if matches!(error, TableError::Damaged(_)) { Exit::Corrupt } else { Exit::Run };
    Failure::new(exit, format!("{}: {error}", path.display()))
}

/// What to do about a file that is no file system but an image of a disk; it may be locked.
pub(crate) fn advice(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let len = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let read = |at, buffer: &mut [u8]| {
        file.read_exact_at(buffer, at).map_err(|error| MediaError::io("read the file", &error))
    };
    match partitions(&Disk { len, read: &read }) {
        Ok(all) if all.is_empty() => None,
        Ok(all) => Some(format!(
            "it is the image of a disk, and fsck, df, dump, explain and mount take one of its partitions: --partition N, of a \
             mount -o partition=N; it has {}",
            listed(&all)
        )),
        Err(error) => Some(format!("it seems to be the image of a disk, but {error}")),
    }
}

fn listed(all: &[Partition]) -> String {
    let describe = |Partition { number, range, label }: &Partition| {
        format!("{number} ({}, {label})", Bytes(range.end - range.start))
    };
    all.iter().map(describe).collect::<Vec<_>>().join(", ")
}
