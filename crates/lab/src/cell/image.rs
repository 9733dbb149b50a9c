//! What happens to a cell's image after the run: checked, and kept where it was asked for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use design::Design;
use media::Storage;
use results::Sample;

use super::{IMAGE_LOST, Run};
use crate::error::Error;
use crate::plan::CellSpec;

/// Pieces in which an image is copied out.
const PIECE: usize = 1 << 20;

/// Checks and keeps the unmounted image, as the run asks for. An image that cannot be written loses nothing of the sample, which
/// says so.
pub(super) fn after(
    spec: &CellSpec,
    run: &Run,
    design: &'static dyn Design,
    storage: &Storage,
    sample: &mut Sample,
) -> Result<(), Error> {
    let mut kept = run.save_image.as_ref().map(|folder| folder.join(file_name(spec, run)));
    if !run.check && kept.is_none() {
        return Ok(());
    }
    if let Some(path) = &kept
        && let Err(error) = save(storage, path)
    {
        sample.counters.insert(IMAGE_LOST.to_owned(), 1);
        sample.notes.push(format!("The image {} could not be written: {error}.", path.display()));
        kept = None;
    }
    let report = design.format().fsck(storage);
    let Some(first) = report.violations.first() else { return Ok(()) };
    let more = report.violations.len() - 1;
    let image = kept.map_or_else(String::new, |path| format!("; the image is kept at {}", path.display()));
    let what = format!("fsck: {first}, and {more} more{image}");
    Err(Error::Corrupt { cell: spec.title(), what })
}

/// `fileserver-hinfs-threads-8-on-optane.100-repeat-0.img`. Titles leave the medium out; cells that differ in nothing else may
/// run side by side.
fn file_name(spec: &CellSpec, run: &Run) -> PathBuf {
    let medium = spec.axes.get("medium").map_or("", String::as_str);
    let name = format!("{} on {medium} repeat {}", spec.title(), run.repeat);
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    PathBuf::from(name.chars().map(plain).collect::<String>() + ".img")
}

/// Writes the region to a file, whole or not at all.
fn save(storage: &Storage, path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    results::file::replace(path, |file| write(storage, file))
}

/// Leaves holes where there are zeros. The image is that of the block device, if there is one.
fn write(storage: &Storage, file: &mut File) -> std::io::Result<()> {
    let len = match (storage.block(), storage.memory()) {
        (Ok(device), _) => device.geometry().bytes.0,
        (_, Ok(region)) => region.len(),
        _ => 0,
    };
    file.set_len(len)?;
    let mut piece = vec![0_u8; PIECE];
    for offset in (0..len).step_by(PIECE) {
        let bytes = &mut piece[..PIECE.min((len - offset) as usize)];
        match (storage.block(), storage.memory()) {
            (Ok(device), _) => device.peek(offset, bytes),
            (_, Ok(region)) => region.peek(offset, bytes),
            _ => Ok(()),
        }
        .map_err(std::io::Error::other)?;
        if bytes.iter().any(|byte| *byte != 0) {
            file.write_all_at(bytes, offset)?;
        }
    }
    Ok(())
}
