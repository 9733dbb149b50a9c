//! The options of ext4(5) and ext2(5) that are not options here: what they ask for, and why some are refused.

use MountWord::{Ignored, Own, Refused, Unknown};
use design::MountWord;

/// What is so anyway, or has no effect here: hints to the kernel's allocator, and safety that Weir does not give up.
const IGNORED: [&str; 49] = [
    "user_xattr",
    "discard",
    "nodiscard",
    "barrier",
    "nobarrier",
    "journal_checksum",
    "nojournal_checksum",
    "journal_async_commit",
    "auto_da_alloc",
    "noauto_da_alloc",
    "block_validity",
    "noblock_validity",
    "dioread_lock",
    "dioread_nolock",
    "nodioread_nolock",
    "i_version",
    "init_itable",
    "noinit_itable",
    "nombcache",
    "no_mbcache",
    "prefetch_block_bitmaps",
    "no_prefetch_block_bitmaps",
    "mblk_io_submit",
    "nomblk_io_submit",
    "nogrpid",
    "sysvgroups",
    "noquota",
    "warn_on_error",
    "nowarn_on_error",
    "debug",
    "nocheck",
    "bh",
    "nobh",
    "orlov",
    "oldalloc",
    "reservation",
    "noreservation",
    "barrier=0",
    "barrier=1",
    "auto_da_alloc=0",
    "auto_da_alloc=1",
    "errors=remount-ro",
    "errors=continue",
    "data_err=ignore",
    "data_err=abort",
    "check=none",
    "dax=never",
    "dax=inode",
    "sb=1",
];

/// The same, whatever their number is.
const IGNORED_NUMBERS: [&str; 7] = [
    "stripe",
    "inode_readahead_blks",
    "journal_ioprio",
    "min_batch_time",
    "max_batch_time",
    "mb_optimize_scan",
    "init_itable",
];

/// What Weir does not do, and what to do instead.
const REFUSED: [(&[&str], &str); 8] = [
    (
        &["quota", "usrquota", "grpquota", "prjquota", "usrjquota", "grpjquota", "jqfmt"],
        "weir keeps no account of users, groups or projects",
    ),
    (&["resuid", "resgid"], "the image says for whom its last blocks are kept: tune2fs -u, tune2fs -g"),
    (
        &["grpid", "bsdgroups"],
        "set the set-group-id bit of the directories whose group new files are to have",
    ),
    (&["nouser_xattr"], "attributes of users cannot be switched off"),
    (&["journal_dev"], "name the file with the journal: journal_path=FILE"),
    (&["max_dir_size_kb"], "weir does not limit directories"),
    (&["inlinecrypt", "test_dummy_encryption"], "weir does not encrypt"),
    (&["abort"], "a mount that only reads is -o ro"),
];

/// What an option asks for of a mount of ext2, of ext4 (`modern`), and of ext4 on memory (`dax`).
pub(super) fn word((modern, dax): (bool, bool), key: &str, value: Option<&str>) -> MountWord {
    let whole = value.map_or_else(|| key.to_owned(), |value| format!("{key}={value}"));
    let is_number = value.is_some_and(|value| value.parse::<u64>().is_ok());
    if IGNORED.contains(&&*whole) || is_number && IGNORED_NUMBERS.contains(&key) {
        return Ignored;
    }
    if let Some((_, reason)) = REFUSED.iter().find(|(keys, _)| keys.contains(&key)) {
        return Refused(reason);
    }
    match (key, value) {
        ("commit", Some("0")) if modern => Own("commit", "5s".to_owned()),
        ("commit", Some(seconds)) if modern && is_number => Own("commit", format!("{seconds}s")),
        ("noload" | "norecovery", None) if modern && !dax => Own("noload", "true".to_owned()),
        ("delalloc" | "nodelalloc", None) if modern && !dax => {
            Own("delalloc", (key == "delalloc").to_string())
        }
        ("delalloc" | "nodelalloc", None) => Ignored,
        ("minixdf" | "bsddf", None) if !dax => Own("minixdf", (key == "minixdf").to_string()),
        ("data", Some("ordered")) if dax => Ignored,
        ("data", Some(_)) if dax || !modern => Refused("this design has no data in a journal"),
        ("errors", _) => {
            Refused("write errors=remount-ro: after an error every change fails, and reads continue")
        }
        ("sb", _) => Refused("weir finds a copy of the superblock itself when the first one is damaged"),
        _ => Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_ext4(key: &str, value: Option<&str>) -> MountWord {
        word((true, false), key, value)
    }

    #[test]
    fn options_of_every_fstab_are_accepted() {
        for (key, value) in
            [("errors", Some("remount-ro")), ("user_xattr", None), ("discard", None), ("barrier", Some("1"))]
        {
            assert_eq!(of_ext4(key, value), Ignored, "{key}");
        }
        assert_eq!(of_ext4("commit", Some("30")), Own("commit", "30s".to_owned()));
        assert_eq!(of_ext4("nodelalloc", None), Own("delalloc", "false".to_owned()));
        assert_eq!(of_ext4("norecovery", None), Own("noload", "true".to_owned()));
    }

    #[test]
    fn what_weir_cannot_do_is_refused_with_the_reason() {
        for (key, value) in
            [("usrjquota", Some("aquota.user")), ("errors", Some("panic")), ("sb", Some("32768"))]
        {
            assert!(matches!(of_ext4(key, value), Refused(_)), "{key}");
        }
    }

    #[test]
    fn an_option_of_the_design_and_a_misspelt_word_are_left_to_others() {
        for (key, value) in
            [("data", Some("journal")), ("commit", Some("5s")), ("user_xatr", None), ("stripe", Some("x"))]
        {
            assert_eq!(of_ext4(key, value), Unknown, "{key}");
        }
    }
}
