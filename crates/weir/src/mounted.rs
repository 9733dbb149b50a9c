//! What is mounted where: the list of mounts of this process.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::pool_file::found;

/// The list.
const LIST: &str = "/proc/self/mounts";

/// A line of the list of mounts.
pub(crate) struct Mounted {
    /// The pool, or `memory`.
    pub(crate) source: PathBuf,
    dir: PathBuf,
    kind: String,
    /// The user who has mounted it, where that may be another than root.
    pub(crate) owner: Option<u32>,
}

impl Mounted {
    fn of(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let (source, dir, kind, words) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let owner = words.split(',').find_map(|word| word.strip_prefix("user_id="));
        Some(Self {
            source: plain(source).into(),
            dir: plain(dir).into(),
            kind: kind.to_owned(),
            owner: owner.and_then(|user| user.parse().ok()),
        })
    }

    fn is_ours(&self) -> bool {
        self.kind.starts_with("fuse.weir")
    }

    /// The design that serves it.
    pub(crate) fn design(&self) -> Option<&str> {
        self.kind.strip_prefix("fuse.weir.")
    }
}

/// A directory as the list names it: without symbolic links. The last part of the path may be a mount whose server has gone.
pub(crate) fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    let dir = std::path::absolute(dir).map_err(|error| Failure::io("find", dir, &error))?;
    let by_parent = || match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => parent.canonicalize().map(|parent| parent.join(name)),
        _ => Ok(dir.clone()),
    };
    Ok(dir.canonicalize().or_else(|_| by_parent()).unwrap_or(dir))
}

/// What we have mounted on `dir`; `otherwise` names the program for mounts that are not ours.
pub(crate) fn ours(dir: &Path, otherwise: &str) -> Result<Mounted, Failure> {
    let shown = dir.display();
    let mounted = on(dir)?.ok_or_else(|| Failure::usage(format!("nothing is mounted on {shown}")))?;
    if mounted.is_ours() {
        return Ok(mounted);
    }
    let kind = mounted.kind;
    Err(Failure::usage(format!("{shown} is a mount of type {kind}, not of Weir: use {otherwise}")))
}

/// Whether what is mounted on `dir` is ours and its server has gone.
pub(crate) fn is_stale(dir: &Path) -> Result<bool, Failure> {
    const NOT_CONNECTED: i32 = 107;
    const ABORTED: i32 = 103;
    let gone = std::fs::metadata(dir)
        .and_then(|_| std::fs::read_dir(dir))
        .err()
        .and_then(|error| error.raw_os_error());
    let gone = gone.is_some_and(|errno| errno == NOT_CONNECTED || errno == ABORTED);
    Ok(gone && on(dir)?.is_some_and(|mounted| mounted.is_ours()))
}

/// What is mounted on `dir` last. A mount whose server has gone is in the list, too.
fn on(dir: &Path) -> Result<Option<Mounted>, Failure> {
    let list = Path::new(LIST);
    let text = std::fs::read_to_string(list).map_err(|error| Failure::io("read", list, &error))?;
    Ok(text.lines().filter_map(Mounted::of).rfind(|mounted| mounted.dir == dir))
}

/// The directories on which a pool is mounted.
pub(crate) fn places_of(pool: &Path) -> Vec<PathBuf> {
    let pool = std::path::absolute(pool).map_or_else(|_| pool.to_owned(), |pool| found(&pool));
    let text = std::fs::read_to_string(LIST).unwrap_or_default();
    let mounts = text.lines().filter_map(Mounted::of);
    let of_it = mounts.filter(|mounted| mounted.is_ours() && found(&mounted.source) == pool);
    of_it.map(|mounted| mounted.dir).collect()
}

/// A field of the list, in which spaces and the like are written as `\040`.
fn plain(field: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'\\').then(|| after.get(..3)).flatten();
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_list_are_read_as_they_were_meant() {
        assert_eq!(plain(r"/mnt/a\040b\134c"), r"/mnt/a b\c");
        assert_eq!(plain(r"/plain\"), r"/plain\");
    }
}
