//! `mount -t fuse.weir POOL DIR` and lines of `/etc/fstab`: mount(8) calls a program `mount.fuse.weir`, which is this one under
//! another name.
//!
//! ```text
//! /srv/pool.weir  /mnt/x  fuse.weir  fs=hinfs,allow_other,nofail  0 0
//! ```

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The name under which mount(8) calls its program for our type.
const NAME: &str = "mount.fuse.weir";

/// The arguments of `weir mount` that say what mount(8) has said, if this program was called under that name.
pub(crate) fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let given: Vec<OsString> = given.into_iter().collect();
    let by_type = given.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(NAME)));
    if by_type { translate(&given[1..]) } else { given }
}

/// mount(8) gives `POOL DIR [-sfnv] [-N NAMESPACE] [-o WORDS] [-t TYPE]`.
fn translate(given: &[OsString]) -> Vec<OsString> {
    let (mut places, mut words, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let mut design = OsString::from("pmfs");
    let mut rest = given.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("-o") => {
                let list = rest.next().and_then(|list| list.to_str()).unwrap_or_default();
                for word in list.split(',') {
                    match word.strip_prefix("fs=") {
                        Some(name) => design = name.into(),
                        None => words.push(word),
                    }
                }
            }
            Some("-t" | "-N") => drop(rest.next()),
            Some(long) if long.starts_with("--") => kept.push(argument.clone()),
            Some(short) if short.starts_with('-') => {}
            _ => places.push(argument.clone()),
        }
    }
    let words = OsString::from(words.join(","));
    let head = ["weir", "mount"].map(OsString::from);
    let tail = [OsString::from("-o"), words];
    head.into_iter().chain([design]).chain(places).chain(tail).chain(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(arguments: &[&str]) -> Vec<String> {
        let given = arguments.iter().map(OsString::from);
        arguments_of(given)
    }

    fn arguments_of(given: impl Iterator<Item = OsString>) -> Vec<String> {
        arguments(given).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn what_mount_says_is_understood() {
        let said = [
            "/sbin/mount.fuse.weir",
            "/srv/pool",
            "/mnt/x",
            "-n",
            "-o",
            "rw,fs=hinfs,buffer=1GiB",
            "-t",
            "fuse.weir",
        ];
        let expected = ["weir", "mount", "hinfs", "/srv/pool", "/mnt/x", "-o", "rw,buffer=1GiB"];
        assert_eq!(words(&said), expected);
    }

    #[test]
    fn under_its_own_name_nothing_changes() {
        assert_eq!(words(&["weir", "list", "-t"]), ["weir", "list", "-t"]);
    }
}
