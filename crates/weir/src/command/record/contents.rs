//! `weir record --contents`: the file beside the trace, with what files contained before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{lgetxattr, llistxattr};
use trace::contents::{Writer, beside};
use trace::scope::Scope;

use super::Place;
use crate::failure::Failure;

/// The longest list or value of extended attributes (xattr(7): 64 KiB).
const ATTRIBUTE_BYTES: usize = 64 << 10;

/// An identity that no other trace of this host has.
pub(super) fn identity() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", now.as_nanos(), std::process::id())
}

/// Begins the file of contents, and puts what is below the roots into it.
pub(super) fn begin(
    place: &Place,
    scope: &Scope,
    roots: &[PathBuf],
    id: &str,
    limit: u64,
) -> Result<Writer, Failure> {
    let path = beside(&place.written);
    let failed = |error: io::Error| Failure::io("write", &path, &error);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    let mut writer =
        Writer::new(Box::new(BufWriter::with_capacity(1 << 16, file)), id, limit).map_err(failed)?;
    let mut first = None;
    for root in roots {
        let device = fs::symlink_metadata(root).map_or(0, |about| about.dev());
        keep(&mut writer, scope, root, *first.get_or_insert(device)).map_err(failed)?;
        walk(&mut writer, scope, root, device).map_err(failed)?;
    }
    Ok(writer)
}

/// Keeps everything in a folder of a device.
fn walk(writer: &mut Writer, scope: &Scope, folder: &Path, device: u64) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        keep(writer, scope, &path, device)?;
        if let Ok(about) = entry.metadata()
            && about.is_dir()
        {
            walk(writer, scope, &path, about.dev())?;
        }
    }
    Ok(())
}

/// Something in a folder of `device`.
fn keep(writer: &mut Writer, scope: &Scope, path: &Path, device: u64) -> io::Result<()> {
    let Some(name) = scope.inside(path.as_os_str().as_bytes()) else { return Ok(()) };
    let Ok(about) = fs::symlink_metadata(path) else { return Ok(()) };
    if about.dev() != device {
        writer.mount(&name)?;
    }
    if about.is_file() && about.len() > 0 {
        match fs::read(path) {
            Ok(bytes) => writer.initial(&name, &bytes)?,
            Err(error) => writer.unkept(&format!("{}: {error}", path.display()))?,
        }
    }
    attributes(writer, path, &name)
}

fn attributes(writer: &mut Writer, path: &Path, name: &[u8]) -> io::Result<()> {
    let mut list = vec![0_u8; ATTRIBUTE_BYTES];
    let Ok(len) = llistxattr(path, &mut list) else { return Ok(()) };
    for attribute in list[..len].split(|byte| *byte == 0).filter(|attribute| attribute.starts_with(b"user."))
    {
        let mut value = vec![0_u8; ATTRIBUTE_BYTES];
        if let Ok(len) = lgetxattr(path, attribute, &mut value) {
            writer.attribute(name, attribute, &value[..len])?;
        }
    }
    Ok(())
}

/// Puts the file where the trace is now.
pub(super) fn settle(place: &Place, trace: &Path) -> Result<PathBuf, Failure> {
    let (from, to) = (beside(&place.written), beside(trace));
    if from == to || fs::rename(&from, &to).is_ok() {
        return Ok(to);
    }
    let failed = |error: io::Error| Failure::io("write", &to, &error);
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to).map_err(failed)?;
    File::open(&from).and_then(|mut old| io::copy(&mut old, &mut new)).map_err(failed)?;
    let _ = fs::remove_file(&from);
    Ok(to)
}
