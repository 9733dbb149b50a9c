//! What happens to a cell's image after the run: checked, and kept where it was asked for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs::FsType;
use media::Region;
use media::Storage;

use super::Run;
use crate::error::Error;
use crate::plan::CellSpec;

/// Pieces in which an image is copied out.
const PIECE: usize = 1 << 20;

/// Checks and keeps the unmounted image, as the run asks for.
pub(super) fn after(
    spec: &CellSpec,
    run: &Run,
    design: &'static dyn FsType,
    region: &Arc<Region>,
) -> Result<(), Error> {
    let kept = run.save_image.as_ref().map(|folder| folder.join(file_name(spec, run)));
    if let Some(path) = &kept {
        save(region, path).map_err(|source| Error::Io { action: "write", path: path.clone(), source })?;
    }
    if !run.check && kept.is_none() {
        return Ok(());
    }
    let report = design.fsck(&Storage::from(region));
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
fn save(region: &Region, path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    results::file::replace(path, |file| write(region, file))
}

/// Leaves holes where the region holds zeros.
fn write(region: &Region, file: &mut File) -> std::io::Result<()> {
    file.set_len(region.len())?;
    let mut piece = vec![0_u8; PIECE];
    for offset in (0..region.len()).step_by(PIECE) {
        let len = PIECE.min((region.len() - offset) as usize);
        region.peek(offset, &mut piece[..len]).map_err(std::io::Error::other)?;
        if piece[..len].iter().any(|byte| *byte != 0) {
            file.write_all_at(&piece[..len], offset)?;
        }
    }
    Ok(())
}
