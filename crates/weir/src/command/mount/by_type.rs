//! `mount -t fuse.weir POOL DIR` and lines of `/etc/fstab`: mount(8) calls a program `mount.fuse.weir`, umount(8) a program
//! `umount.fuse.weir`. Both are this one under another name.
//!
//! ```text
//! /srv/pool.weir  /mnt/x  fuse.weir        fs=hinfs,allow_other,nofail  0 0
//! /srv/pool.weir  /mnt/x  fuse.weir.hinfs  allow_other,nofail           0 0
//! ```
//!
//! mount(8) keeps `suid`, `dev` and `exec` to itself, since they are what it does anyway, and says `nosuid`, `nodev` and `noexec`
//! where they were asked for or a line for users does not say otherwise. So for root, and on such lines, this way of mounting
//! begins with `suid,dev`. For a remount mount(8) says all flags that the mount is to have, so there all others are cleared first.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The names under which mount(8) and umount(8) call their programs for our type.
const NAMES: [&str; 2] = ["mount.fuse.weir", "umount.fuse.weir"];

/// The arguments of `weir mount` or `weir umount` that say what was said, if this program was called under one of those names.
pub(crate) fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let given: Vec<OsString> = given.into_iter().collect();
    let name = given.first().and_then(|name| Path::new(name).file_name()).and_then(OsStr::to_str);
    match NAMES.iter().position(|known| Some(*known) == name) {
        Some(0) => translate_mount(&given[1..], rustix::process::geteuid().is_root()),
        Some(_) => translate_umount(&given[1..]),
        None => given,
    }
}

/// Every flag is off.
const CLEARED: &str = "suid,dev,exec,async,nodirsync,diratime,nolazytime,symfollow,";

/// What mount(8) and umount(8) say: places, flags of one letter, lists of words, and a type with a part of our own.
#[derive(Default)]
struct Said<'a> {
    places: Vec<OsString>,
    flags: Vec<&'a str>,
    words: Vec<&'a str>,
    design: Option<&'a str>,
    /// Our own long options.
    long: Vec<OsString>,
}

fn understand(given: &[OsString]) -> Said<'_> {
    let mut said = Said::default();
    let mut rest = given.iter();
    let mut fs = None;
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("-o") => {
                let list = rest.next().and_then(|list| list.to_str()).unwrap_or_default();
                for word in list.split(',') {
                    match word.strip_prefix("fs=") {
                        Some(name) => fs = Some(name),
                        None => said.words.push(word),
                    }
                }
            }
            Some("-t") => {
                let kind = rest.next().and_then(|kind| kind.to_str()).unwrap_or_default();
                said.design = kind.strip_prefix("fuse.weir.");
            }
            Some("-N") => drop(rest.next()),
            Some(long) if long.starts_with("--") => said.long.push(argument.clone()),
            Some(short) if short.starts_with('-') => said.flags.push(short),
            _ => said.places.push(argument.clone()),
        }
    }
    said.design = fs.or(said.design);
    said
}

/// mount(8) gives `POOL DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`.
fn translate_mount(given: &[OsString], is_root: bool) -> Vec<OsString> {
    let said = understand(given);
    let by_line = ["user", "users", "owner", "group"];
    let by_line = said.words.iter().any(|word| by_line.contains(word) || word.starts_with("user="));
    let privileges = match is_root || by_line {
        true if said.words.contains(&"remount") => CLEARED,
        true => "suid,dev,",
        false => "",
    };
    let sloppy = if said.flags.contains(&"-s") { ",sloppy" } else { "" };
    let words = format!("{privileges}{}{sloppy}", said.words.join(","));
    let head = ["weir", "mount", said.design.unwrap_or(super::AUTO)].map(OsString::from);
    let tail = [OsString::from("-o"), words.into()];
    let flags = [("-f", "--fake"), ("-v", "--verbose")];
    let flags =
        flags.into_iter().filter(|(short, _)| said.flags.contains(short)).map(|(_, long)| long.into());
    head.into_iter().chain(said.places).chain(tail).chain(flags).chain(said.long).collect()
}

/// umount(8) gives `DIR [-nlfvr] [-N NAMESPACE] [-t TYPE]`.
fn translate_umount(given: &[OsString]) -> Vec<OsString> {
    let said = understand(given);
    let flags = [("-l", "--lazy"), ("-v", "--verbose")];
    let flags =
        flags.into_iter().filter(|(short, _)| said.flags.contains(short)).map(|(_, long)| long.into());
    ["weir", "umount"]
        .map(OsString::from)
        .into_iter()
        .chain(said.places)
        .chain(flags)
        .chain(said.long)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(arguments: &[&str]) -> Vec<OsString> {
        arguments.iter().map(OsString::from).collect()
    }

    fn mounts(arguments: &[&str], is_root: bool) -> Vec<OsString> {
        translate_mount(&given(arguments), is_root)
    }

    #[test]
    fn what_mount_says_is_understood() {
        let said = ["/srv/pool", "/mnt/x", "-n", "-o", "rw,fs=hinfs,buffer=1GiB", "-t", "fuse.weir"];
        let expected = ["weir", "mount", "hinfs", "/srv/pool", "/mnt/x", "-o"];
        assert_eq!(mounts(&said, true), given(&[&expected[..], &["suid,dev,rw,buffer=1GiB"]].concat()));
        assert_eq!(mounts(&said, false), given(&[&expected[..], &["rw,buffer=1GiB"]].concat()));
        let said = ["/srv/pool", "/mnt/x", "-o", "rw,noexec,nodev,fs=hinfs,user"];
        let suid = given(&[&expected[..], &["suid,dev,rw,noexec,nodev,user"]].concat());
        assert_eq!(mounts(&said, false), suid, "the line says suid, which only root may have");
        let said = ["/srv/pool", "/mnt/x", "-o", "rw,nosuid,remount,ro", "-t", "fuse.weir.hinfs"];
        let all = format!("{CLEARED}rw,nosuid,remount,ro");
        assert_eq!(mounts(&said, true), given(&[&expected[..], &[&all]].concat()));
        let said = ["/srv/pool", "/mnt/x", "-s", "-f", "-v", "-o", "ro", "-t", "fuse.weir.hinfs"];
        let all = [&expected[..], &["ro,sloppy", "--fake", "--verbose"]].concat();
        assert_eq!(mounts(&said, false), given(&all));
    }

    #[test]
    fn what_umount_says_is_understood() {
        let said = ["/mnt/x", "-n", "-l", "-t", "fuse.weir.hinfs"];
        assert_eq!(translate_umount(&given(&said)), given(&["weir", "umount", "/mnt/x", "--lazy"]));
    }

    #[test]
    fn under_its_own_name_nothing_changes() {
        let own = given(&["weir", "list", "-t"]);
        assert_eq!(arguments(own.clone()), own);
    }
}
