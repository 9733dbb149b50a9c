//! The words after `-o`.

use std::collections::BTreeMap;

use fuse::Cache;
use vfs::AccessTimes;

use crate::failure::Failure;

/// What the words ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    pub(super) read_only: bool,
    pub(super) allow_other: bool,
    pub(super) non_empty: bool,
    pub(super) no_exec: bool,
    /// `dev` or `suid`.
    pub(super) privileged: bool,
    pub(super) access_times: AccessTimes,
    pub(super) cache: Cache,
    pub(super) threads: Option<usize>,
    /// Every write is a synchronous one.
    pub(super) synchronous: bool,
    /// A sync does not wait for the disk under the pool.
    pub(super) volatile: bool,
    /// The pool is a file on a file system that maps it directly.
    pub(super) dax: bool,
    /// Everything else: options of the design.
    pub(super) design: BTreeMap<String, String>,
}

/// What mount(8), fstab and systemd write for themselves, and what is so anyway.
const IGNORED: [&str; 23] = [
    "defaults",
    "rw",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "exec",
    "nodev",
    "nosuid",
    "async",
    "atime",
    "diratime",
    "nodiratime",
    "default_permissions",
    "nolazytime",
    "silent",
    "loud",
    "noiversion",
];

impl Words {
    pub(super) fn parse(lists: &[String]) -> Result<Self, Failure> {
        let mut words = Self::default();
        for word in lists.iter().flat_map(|list| list.split(',')).filter(|word| !word.is_empty()) {
            words.take(word)?;
        }
        Ok(words)
    }

    fn take(&mut self, word: &str) -> Result<(), Failure> {
        match word {
            "ro" => self.read_only = true,
            "allow_other" => self.allow_other = true,
            "nonempty" => self.non_empty = true,
            "noexec" => self.no_exec = true,
            "dev" | "suid" => self.privileged = true,
            "noatime" => self.access_times = AccessTimes::Never,
            "relatime" => self.access_times = AccessTimes::Relative,
            "strictatime" => self.access_times = AccessTimes::Strict,
            "cache=pages" => self.cache = Cache::Pages,
            "cache=direct" | "direct_io" => self.cache = Cache::Direct,
            "sync" => self.synchronous = true,
            "volatile" => self.volatile = true,
            "dax" => self.dax = true,
            known if IGNORED.contains(&known) || known.starts_with("x-") || known.starts_with("comment=") => {
            }
            other => self.take_pair(other)?,
        }
        Ok(())
    }

    fn take_pair(&mut self, word: &str) -> Result<(), Failure> {
        match word.split_once('=') {
            Some(("threads", number)) => {
                let threads = number.parse().ok().filter(|threads| (1..=256).contains(threads));
                let wrong = || Failure::usage(format!("-o {word}: write a number from 1 to 256"));
                self.threads = Some(threads.ok_or_else(wrong)?);
            }
            Some(("cache", _)) => {
                return Err(Failure::usage(format!("-o {word}: there are cache=pages and cache=direct")));
            }
            Some((key, value)) => drop(self.design.insert(key.to_owned(), value.to_owned())),
            // A flag of the design; its options say whether there is one.
            None => drop(self.design.insert(word.to_owned(), "true".to_owned())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_fstab_is_understood() {
        let lists = [
            "defaults,noauto,nofail,x-systemd.automount,ro".to_owned(),
            "buffer=1GiB,inherit,sync".to_owned(),
        ];
        let words = Words::parse(&lists).unwrap();
        assert!(words.read_only && words.synchronous && !words.allow_other);
        let design: Vec<_> = words.design.into_iter().collect();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(design, [pair("buffer", "1GiB"), pair("inherit", "true")]);
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for word in ["threads=0", "threads=many", "cache=none"] {
            assert!(Words::parse(&[word.to_owned()]).is_err(), "{word}");
        }
    }
}
