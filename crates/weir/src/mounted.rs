//! What is mounted where: the list of mounts of this process.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A line of the list of mounts.
struct Mounted {
    source: String,
    kind: String,
}

/// A directory as the list names it.
pub(crate) fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(dir).map_err(|error| Failure::io("find", dir, &error))
}

/// The pool that we have mounted on `dir`; `otherwise` names the program for mounts that are not ours.
pub(crate) fn ours(dir: &Path, otherwise: &str) -> Result<PathBuf, Failure> {
    let shown = dir.display();
    let mounted = find(dir)?.ok_or_else(|| Failure::usage(format!("nothing is mounted on {shown}")))?;
    if mounted.kind.starts_with("fuse.weir") {
        return Ok(PathBuf::from(mounted.source));
    }
    let kind = mounted.kind;
    Err(Failure::usage(format!("what is mounted on {shown} is not ours but {kind}: use {otherwise}")))
}

/// What is mounted on `dir` last. A mount whose server has gone is in the list, too.
fn find(dir: &Path) -> Result<Option<Mounted>, Failure> {
    let list = Path::new("/proc/self/mounts");
    let text = std::fs::read_to_string(list).map_err(|error| Failure::io("read", list, &error))?;
    let mut lines = text.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (source, target, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (Path::new(&plain(target)) == dir).then(|| Mounted { source: plain(source), kind: kind.to_owned() })
    });
    Ok(lines.next_back())
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
