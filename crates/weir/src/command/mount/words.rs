//! The words after `-o`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use design::{Design, MountWord};
use fuse::{Cache, FLAG_WORDS, MountFlags};
use vfs::AccessTimes;

use crate::failure::Failure;
use crate::partition::Part;

/// What the words ask for.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) allow_other: bool,
    pub(super) non_empty: bool,
    /// What any file system does that is mounted with them ([`FLAG_WORDS`]).
    pub(super) flags: MountFlags,
    /// None where nothing is said of it.
    pub(super) access_times: Option<AccessTimes>,
    pub(super) cache: Cache,
    pub(super) threads: Option<usize>,
    /// How long a thread looks for the next request before it sleeps.
    pub(super) poll: Option<Duration>,
    /// Keep access-control lists.
    pub(super) lists: bool,
    /// A sync does not wait for the disk under the pool.
    pub(super) volatile: bool,
    /// The pool is a file on a file system that maps it directly.
    pub(super) dax: bool,
    /// The file that has the journal of the pool, if that is named.
    pub(super) journal: Option<PathBuf>,
    /// The part of the pool's file that holds the file system.
    pub(super) part: Part,
    /// Everything else: options of the design.
    pub(super) design: BTreeMap<String, String>,
}

/// The longest time to look for a request; a core that looks is lost for programs.
const POLL_MICROS_MOST: u64 = 1000;

/// Our own, and those of mount(8) that are no flags.
const OWN: [&str; 21] = [
    "remount",
    "allow_other",
    "nonempty",
    "noatime",
    "relatime",
    "strictatime",
    "atime",
    "cache=pages",
    "cache=direct",
    "direct_io",
    "volatile",
    "dax",
    "threads=N",
    "poll=N",
    "acl",
    "noacl",
    "sloppy",
    "fs=NAME",
    "journal_path=NAME",
    "partition=N",
    "offset=N",
];

/// What mount(8), fstab and systemd write for themselves, and what is so anyway.
const IGNORED: [&str; 25] = [
    "remount",
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "_netdev",
    "default_permissions",
    "silent",
    "loud",
    "mand",
    "nomand",
    "iversion",
    "noiversion",
    "norelatime",
    "nostrictatime",
    "sloppy",
    "user_xattr",
];

/// Words of other FUSE file systems, each with why it is refused and what to do.
const REFUSED: [(&str, &str); 7] = [
    (
        "fsname",
        "the list of mounts has the path of the pool there, by which umount(8), fstab and weir find the mount",
    ),
    ("subtype", "the type of the mount is fuse.weir.DESIGN, by which weir knows its own mounts"),
    ("uid", "a pool keeps the owner of each file: chown(1) the files, once"),
    ("gid", "a pool keeps the group of each file: chgrp(1) the files, once"),
    ("umask", "a pool keeps the mode of each file: chmod(1) the files, once"),
    (
        "allow_root",
        "allow_other lets root in as well; modes and owners are checked by the kernel for everyone",
    ),
    ("nouser_xattr", "extended attributes of users are always kept"),
];

/// The same, with a value: of mount(8), and what the list of mounts says of ours.
const IGNORED_PAIRS: [&str; 9] =
    ["user", "comment", "helper", "uhelper", "user_id", "group_id", "rootmode", "max_read", "blksize"];

/// Labels that SELinux gives a mount; where it is off, mount(8) passes over them, too.
const LABELS: [&str; 4] = ["context", "fscontext", "defcontext", "rootcontext"];
/// Where a host that has SELinux shows it.
const SELINUX: &str = "/sys/fs/selinux/enforce";

impl Default for Words {
    fn default() -> Self {
        Self {
            allow_other: false,
            non_empty: false,
            // As of any FUSE mount: a pool may come from another user.
            flags: MountFlags::NOSUID | MountFlags::NODEV,
            access_times: None,
            cache: Cache::default(),
            threads: None,
            poll: None,
            lists: false,
            volatile: false,
            dax: false,
            journal: None,
            part: Part::default(),
            design: BTreeMap::new(),
        }
    }
}

impl Words {
    /// Reads the lists for a mount of `design`; without one, what may be an option of a design is passed over. Of two words that
    /// contradict each other the later one holds.
    pub(super) fn parse(lists: &[String], design: Option<&dyn Design>) -> Result<Self, Failure> {
        Self::default().changed(lists, design)
    }

    /// Reads the lists for a change of a mount of `design`, which the list of mounts describes by `present`: what they do not name
    /// stays as it is.
    pub(super) fn of_remount(
        present: &str,
        lists: &[String],
        design: Option<&dyn Design>,
    ) -> Result<Self, Failure> {
        // What that list says nothing of.
        let times = Some(AccessTimes::Strict);
        let unsaid = Self { flags: MountFlags::empty(), access_times: times, ..Self::default() };
        unsaid.changed(&[present.to_owned()], None)?.changed(lists, design)
    }

    fn changed(self, lists: &[String], design: Option<&dyn Design>) -> Result<Self, Failure> {
        let mut words = Self { design: BTreeMap::new(), ..self };
        let given: Vec<_> =
            lists.iter().flat_map(|list| list.split(',')).filter(|word| !word.is_empty()).collect();
        for word in &given {
            words.take(word, design)?;
        }
        let Some(design) = design else { return Ok(words) };
        let unknown = |key: &str| design.options().iter().all(|option| option.name != key);
        if given.contains(&"sloppy") {
            words.design.retain(|key, _| !unknown(key));
        }
        match words.design.keys().find(|key| unknown(key)) {
            Some(key) => Err(Failure::usage(unknown_word(key, design))),
            None => Ok(words),
        }
    }

    /// Refuses what only root may ask the kernel for.
    pub(super) fn check_allowed(&self, is_root: bool) -> Result<(), Failure> {
        let privileged = [("suid", MountFlags::NOSUID), ("dev", MountFlags::NODEV)];
        let asked =
            privileged.into_iter().find(|(_, flag)| !self.flags.contains(*flag)).map(|(word, _)| word);
        // `fusermount3` mounts for other users, and does not know this flag.
        let asked = asked.or(self.flags.contains(MountFlags::NOSYMFOLLOW).then_some("nosymfollow"));
        match asked.filter(|_| !is_root) {
            Some(word) => Err(Failure::usage(format!("-o {word}: only root may give this option"))),
            None => Ok(()),
        }
    }

    fn take(&mut self, word: &str, design: Option<&dyn Design>) -> Result<(), Failure> {
        if let Some((_, why)) = refused(word) {
            return Err(Failure::usage(format!("-o {word}: {why}")));
        }
        if let Some((set, _, flag)) = FLAG_WORDS.iter().find(|(set, clear, _)| *set == word || *clear == word)
        {
            self.flags.set(*flag, *set == word);
            return Ok(());
        }
        match word {
            "allow_other" => self.allow_other = true,
            "nonempty" => self.non_empty = true,
            "noatime" => self.access_times = Some(AccessTimes::Never),
            "relatime" | "atime" => self.access_times = Some(AccessTimes::Relative),
            "strictatime" => self.access_times = Some(AccessTimes::Strict),
            "cache=pages" => self.cache = Cache::Pages,
            "cache=direct" | "direct_io" => self.cache = Cache::Direct,
            "acl" | "noacl" => self.lists = word == "acl",
            "volatile" => self.volatile = true,
            "dax" => self.dax = true,
            known if IGNORED.contains(&known) || known.starts_with("x-") || known.starts_with("X-") => {}
            other => self.take_pair(other, design)?,
        }
        Ok(())
    }

    fn take_pair(&mut self, word: &str, design: Option<&dyn Design>) -> Result<(), Failure> {
        match word.split_once('=') {
            Some(("threads", number)) => {
                let threads = number.parse().ok().filter(|threads| (1..=256).contains(threads));
                let wrong = || Failure::usage(format!("-o {word}: write a number from 1 to 256"));
                self.threads = Some(threads.ok_or_else(wrong)?);
            }
            Some(("poll", micros)) => {
                let micros = micros.parse().ok().filter(|micros| *micros <= POLL_MICROS_MOST);
                let wrong =
                    || Failure::usage(format!("-o {word}: write microseconds, from 0 to {POLL_MICROS_MOST}"));
                self.poll = Some(Duration::from_micros(micros.ok_or_else(wrong)?));
            }
            Some(("journal_path", file)) => self.journal = Some(file.into()),
            Some(("partition", number)) => {
                let number = number.parse().ok().filter(|number| *number > 0);
                let wrong =
                    || Failure::usage(format!("-o {word}: write the number of a partition, from 1 on"));
                self.part.partition = Some(number.ok_or_else(wrong)?);
            }
            Some(("offset", size)) => {
                let wrong = || Failure::usage(format!("-o {word}: write bytes, such as 1048576 or 1MiB"));
                self.part.offset = Some(size.parse().map_err(|_| wrong())?);
            }
            Some(("cache", _)) => {
                return Err(Failure::usage(format!("-o {word}: write cache=pages or cache=direct")));
            }
            Some((key, _)) if IGNORED_PAIRS.contains(&key) => {}
            Some((key, _)) if LABELS.contains(&key) => {
                if Path::new(SELINUX).exists() {
                    return Err(Failure::usage(format!("-o {key}: weir does not set labels of SELinux")));
                }
            }
            Some((key, value)) => self.take_design(word, (key, Some(value)), design)?,
            None => self.take_design(word, (word, None), design)?,
        }
        Ok(())
    }

    /// A word of the design: one of the kernel's driver, or an option, which its options know.
    fn take_design(
        &mut self,
        word: &str,
        (key, value): (&str, Option<&str>),
        design: Option<&dyn Design>,
    ) -> Result<(), Failure> {
        let meant = design.map_or(MountWord::Unknown, |design| design.mount_word(key, value));
        let (key, value) = match meant {
            MountWord::Ignored => return Ok(()),
            MountWord::Refused(reason) => return Err(Failure::usage(format!("-o {word}: {reason}"))),
            MountWord::Own(key, value) => (key, value),
            MountWord::Unknown => (key, value.unwrap_or("true").to_owned()),
        };
        self.design.insert(key.to_owned(), value);
        Ok(())
    }
}

/// The word of this list that is meant, with or without a value.
fn refused(word: &str) -> Option<&'static (&'static str, &'static str)> {
    let key = word.split_once('=').map_or(word, |(key, _)| key);
    REFUSED.iter().find(|(refused, _)| *refused == key)
}

fn unknown_word(key: &str, design: &dyn Design) -> String {
    let flags = FLAG_WORDS.iter().flat_map(|(set, clear, _)| [*set, *clear]);
    let known = OWN.iter().map(|word| word.trim_end_matches("=N").trim_end_matches("=NAME"));
    let known: Vec<_> = flags.chain(known).chain(design.options().iter().map(|option| option.name)).collect();
    let advice = document::nearest(key, known.iter().copied());
    let name = design.name();
    match advice.starts_with("did you mean") {
        true => format!("-o {key}: there is no such option; {advice}"),
        false => format!(
            "-o {key}: there is no such option; `weir mount --help` lists all, `weir show {name}` those of {name}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Words, Failure> {
        Words::parse(&[words.to_owned()], lab::plan::matrix::design("hinfs").ok())
    }

    #[test]
    fn a_line_of_fstab_is_understood() {
        let words =
            parse("defaults,noauto,nofail,x-systemd.automount,ro,medium_write=1us,new_blocks=lazy,sync")
                .unwrap();
        assert!(words.flags.contains(MountFlags::RDONLY | MountFlags::SYNCHRONOUS) && !words.allow_other);
        let design: Vec<_> = words.design.into_iter().collect();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(design, [pair("medium_write", "1us"), pair("new_blocks", "lazy")]);
    }

    #[test]
    fn options_of_ext4_in_an_fstab_are_understood_and_the_later_one_holds() {
        let ext4 = lab::plan::matrix::design("ext4").ok();
        let parse = |words: &str| Words::parse(&[words.to_owned()], ext4);
        let words =
            parse("errors=remount-ro,user_xattr,commit=30,discard,delalloc,nodelalloc,data=journal").unwrap();
        let given: Vec<_> = words.design.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(given, [("commit", "30s"), ("data", "journal"), ("delalloc", "false")]);
        let refused = parse("usrquota").expect_err("there are no quotas");
        assert!(refused.message.contains("keeps no account"), "{}", refused.message);
    }

    #[test]
    fn of_words_that_contradict_each_other_the_last_one_holds() {
        let flags = |words| parse(words).unwrap().flags;
        assert_eq!(flags("suid,dev,ro,noexec,rw,exec,nodev"), MountFlags::NODEV);
        assert_eq!(flags("rw,nosuid,dirsync,lazytime,suid,dev"), MountFlags::DIRSYNC | MountFlags::LAZYTIME);
        assert_eq!(parse("noatime,strictatime").unwrap().access_times, Some(AccessTimes::Strict));
        assert_eq!(parse("rw").unwrap().access_times, None);
        assert!(!parse("sync,async").unwrap().flags.contains(MountFlags::SYNCHRONOUS));
    }

    #[test]
    fn what_the_list_of_mounts_says_of_a_mount_is_understood() {
        let words =
            "rw,remount,nosuid,nodev,relatime,user_id=0,group_id=0,default_permissions,allow_other,user=me";
        let words = parse(words).unwrap();
        assert!(words.allow_other && words.design.is_empty());
    }

    #[test]
    fn a_remount_keeps_what_it_does_not_name() {
        let pmfs = lab::plan::matrix::design("pmfs").ok();
        let remount = |present: &str, words: &str| Words::of_remount(present, &[words.to_owned()], pmfs);
        let flags = |present: &str, words: &str| remount(present, words).unwrap().flags;
        let present = "rw,nosuid,noexec,relatime,user_id=0,group_id=0,default_permissions";
        let kept = MountFlags::NOSUID | MountFlags::NOEXEC;
        assert_eq!(flags(present, "remount,ro"), kept | MountFlags::RDONLY);
        assert_eq!(flags(present, "remount,exec,nodev"), MountFlags::NOSUID | MountFlags::NODEV);
        assert_eq!(remount(present, "ro").unwrap().access_times, Some(AccessTimes::Relative));
        assert_eq!(remount("ro,noatime", "rw").unwrap().access_times, Some(AccessTimes::Never));
        assert_eq!(remount("rw,nosuid", "ro").unwrap().access_times, Some(AccessTimes::Strict));
        let refused = remount(present, "remount,bogusword").expect_err("there is no such word");
        assert!(refused.message.contains("bogusword"), "{}", refused.message);
    }

    #[test]
    fn words_that_make_no_sense_are_refused_with_the_nearest_that_does() {
        let cases = [
            ("threads=0", "from 1 to 256"),
            ("threads=many", "from 1 to 256"),
            ("poll=2000", "from 0 to 1000"),
            ("cache=none", "cache=pages"),
            ("alow_other", "did you mean \"allow_other\"?"),
            ("bufer=1GiB", "did you mean \"buffer\"?"),
            ("norlatime", "did you mean"),
            ("quotas_of_users", "weir mount --help"),
        ];
        for (word, advice) in cases {
            let refused = parse(word).expect_err(word);
            assert!(refused.message.contains(advice), "{word}: {}", refused.message);
        }
        assert!(parse("alow_other,sloppy").is_ok(), "mount -s asks to pass over what is unknown");
    }

    #[test]
    fn words_of_other_file_systems_are_taken_or_refused_with_the_reason() {
        assert!(parse("user_xattr").unwrap().design.is_empty());
        for (word, reason) in [
            ("fsname=mine", "path of the pool"),
            ("subtype=x", "fuse.weir"),
            ("uid=1000", "chown(1)"),
            ("gid=5", "chgrp(1)"),
            ("umask=022", "chmod(1)"),
            ("allow_root", "allow_other"),
            ("nouser_xattr", "always kept"),
        ] {
            let refused = parse(word).expect_err(word);
            assert!(
                refused.message.contains(word) && refused.message.contains(reason),
                "{}",
                refused.message
            );
        }
    }

    #[test]
    fn only_root_may_ask_for_set_id_bits_and_devices_and_to_follow_no_link() {
        for word in ["suid", "dev", "nosymfollow"] {
            assert!(parse(word).unwrap().check_allowed(false).is_err(), "{word}");
            assert!(parse(word).unwrap().check_allowed(true).is_ok(), "{word}");
        }
        assert!(parse("user,exec").unwrap().check_allowed(false).is_ok());
    }
}
