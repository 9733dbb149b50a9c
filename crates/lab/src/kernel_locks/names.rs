//! Which lock a wait is for: the table `presets/kernels/locks.toml`, by the functions of the wait's call chain.

use std::sync::OnceLock;

use serde::Deserialize;

/// The table's text.
const TEXT: &str = include_str!("../../shipped/kernels/locks.toml");

/// What stands before the function where no lock of the table is meant.
const UNNAMED: &str = "kernel:";

/// The kind of what sleeps for no lock.
const SLEEP: &str = "sleep";
/// The group of functions that are of no kind.
const ANY: &str = "any";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    functions: toml::Table,
    foreign: Foreign,
    lock: Vec<Lock>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Foreign {
    functions: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lock {
    name: String,
    what: String,
    kind: String,
    callers: Vec<String>,
    /// For readers of the table; the test looks that there is one.
    #[cfg_attr(not(test), allow(dead_code))]
    source: String,
}

/// The table, ready for use.
pub(super) struct Names {
    /// Functions of locks, each with the kind that it tells.
    functions: Vec<(Pattern, Option<&'static str>)>,
    foreign: Vec<Pattern>,
    locks: Vec<(Vec<Pattern>, &'static Lock)>,
}

/// A name of functions: whole, or its beginning or end beside a `*`.
#[derive(Debug, Clone, Copy)]
enum Pattern {
    Whole(&'static str),
    Beginning(&'static str),
    End(&'static str),
}

/// What a wait is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) name: String,
    pub(super) what: &'static str,
    pub(super) kind: &'static str,
    /// The functions from the one that asked for the lock on outwards.
    pub(super) beyond: usize,
    /// The system call of files inside which it happened, without its prefix: `pwrite64`.
    pub(super) call: Option<String>,
}

impl Pattern {
    fn new(text: &'static str) -> Self {
        match (text.strip_prefix('*'), text.strip_suffix('*')) {
            (Some(end), _) => Self::End(end),
            (None, Some(beginning)) => Self::Beginning(beginning),
            (None, None) => Self::Whole(text),
        }
    }

    fn fits(self, function: &str) -> bool {
        match self {
            Self::Whole(name) => function == name,
            Self::Beginning(name) => function.starts_with(name),
            Self::End(name) => function.ends_with(name),
        }
    }
}

fn patterns(names: &'static [String]) -> Vec<Pattern> {
    names.iter().map(|name| Pattern::new(name)).collect()
}

fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| toml::from_str(TEXT).expect("the preset of locks is part of the program and tested"))
}

impl Names {
    /// The table that comes with Weir.
    pub(super) fn get() -> &'static Self {
        static NAMES: OnceLock<Names> = OnceLock::new();
        NAMES.get_or_init(|| {
            let file = file();
            let groups = file.functions.iter().flat_map(|(kind, names)| {
                let kind = Some(kind.as_str()).filter(|kind| *kind != ANY);
                let names = names.as_array().into_iter().flatten().filter_map(|name| name.as_str());
                names.map(move |name| (Pattern::new(name), kind))
            });
            Self {
                functions: groups.collect(),
                foreign: patterns(&file.foreign.functions),
                locks: file.lock.iter().map(|lock| (patterns(&lock.callers), lock)).collect(),
            }
        })
    }

    /// What a wait is for whose call chain has these functions, the innermost first; none where it is no wait of a call of
    /// files. `told` is the kind that the kernel says, for chains whose functions do not.
    pub(super) fn meaning(&self, chain: &[&str], told: Option<&'static str>) -> Option<Meaning> {
        let is_foreign = |function: &&&str| self.foreign.iter().any(|pattern| pattern.fits(function));
        let call = chain.iter().rev().find_map(|function| call_of(function));
        if call.is_none() || chain.iter().any(|function| is_foreign(&function)) {
            return None;
        }
        let of_lock = |function: &str| self.functions.iter().find(|(pattern, _)| pattern.fits(function));
        let inner = chain.iter().map_while(|function| of_lock(function)).collect::<Vec<_>>();
        let beyond = inner.len();
        let kind = inner.iter().rev().find_map(|(_, kind)| *kind).or(told).unwrap_or(SLEEP);
        let caller = chain.get(beyond).copied()?;
        let fits = |(callers, lock): &&(Vec<Pattern>, &Lock)| {
            lock.kind == kind && callers.iter().any(|pattern| pattern.fits(caller))
        };
        let found = self.locks.iter().find(fits).map(|(_, lock)| *lock);
        Some(Meaning {
            name: found.map_or_else(|| format!("{UNNAMED}{caller}"), |lock| lock.name.clone()),
            what: found.map_or("", |lock| &lock.what),
            kind,
            beyond,
            call,
        })
    }

    /// Whether a task whose call chain this is spins: it runs, and waits.
    pub(super) fn spins(chain: &[&str]) -> bool {
        const SPINNING: [&str; 6] = [
            "queued_spin_lock_slowpath",
            "queued_read_lock_slowpath",
            "queued_write_lock_slowpath",
            "spin_on_owner",
            "osq_lock",
            "optimistic_spin",
        ];
        chain.first().is_some_and(|function| SPINNING.iter().any(|name| function.ends_with(name)))
    }
}

/// What a lock of the table protects; none where no lock of it is called so.
pub fn meaning_of(name: &str) -> Option<&'static str> {
    file().lock.iter().find(|lock| lock.name == name).map(|lock| lock.what.as_str())
}

/// The system call of files that a function of the kernel serves, on any architecture: `__x64_sys_pwrite64` is `pwrite64`.
fn call_of(function: &str) -> Option<String> {
    let (before, name) = function.split_once("_sys_")?;
    (before.starts_with("__") && kinds(name).is_some()).then(|| name.to_owned())
}

/// The kinds of operations in results that a system call is booked as, the first that a result has.
pub(super) fn kinds(call: &str) -> Option<&'static [&'static str]> {
    Some(match call {
        "open" | "openat" | "openat2" | "creat" => &["create", "open"],
        "close" => &["close"],
        "read" | "pread64" | "readv" | "preadv" | "preadv2" => &["read"],
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => &["write"],
        "lseek" => &["seek"],
        "fsync" | "fdatasync" | "sync_file_range" => &["fsync"],
        "msync" => &["msync"],
        "sync" | "syncfs" => &["sync"],
        "truncate" | "ftruncate" => &["truncate"],
        "fallocate" => &["fallocate"],
        "stat" | "fstat" | "lstat" | "newstat" | "newfstat" | "newlstat" | "newfstatat" | "statx" => {
            &["stat"]
        }
        "getdents" | "getdents64" => &["readdir"],
        "mkdir" | "mkdirat" => &["mkdir"],
        "rmdir" => &["rmdir"],
        "mknod" | "mknodat" => &["mknod", "create"],
        "unlink" | "unlinkat" => &["unlink", "rmdir"],
        "rename" | "renameat" | "renameat2" => &["rename"],
        "link" | "linkat" => &["link"],
        "symlink" | "symlinkat" => &["symlink"],
        "readlink" | "readlinkat" => &["readlink"],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(chain: &str) -> Option<(String, &'static str)> {
        let chain: Vec<&str> = chain.split('<').collect();
        Names::get().meaning(&chain, None).map(|meaning| (meaning.name, meaning.kind))
    }

    #[test]
    fn a_lock_is_told_by_the_function_that_asked_for_it_and_the_kind_of_the_lock() {
        let expected = [
            (
                "rwsem_down_write_slowpath<down_write<path_openat<do_filp_open<__x64_sys_openat",
                "kernel.directory",
            ),
            ("rwsem_down_write_slowpath<down_write<do_unlinkat<__x64_sys_unlinkat", "kernel.directory"),
            ("__mutex_lock<lock_rename<do_renameat2<__x64_sys_renameat2", "kernel.rename_dirs"),
            (
                "native_queued_spin_lock_slowpath<_raw_spin_lock<d_move<vfs_rename<__x64_sys_rename",
                "kernel.rename",
            ),
            (
                "rwsem_spin_on_owner<rwsem_down_write_slowpath<down_write<ext4_buffered_write_iter<__x64_sys_pwrite64",
                "linux.inode",
            ),
            (
                "rwsem_down_write_slowpath<down_write<xfs_ilock<xfs_file_buffered_write<__arm64_sys_pwrite64",
                "linux.xfs_iolock",
            ),
            ("__schedule<schedule<jbd2_log_wait_commit<ext4_sync_file<__x64_sys_fsync", "linux.commit"),
            (
                "_raw_read_lock<start_this_handle<jbd2__journal_start<__x64_sys_pwrite64",
                "linux.journal_state",
            ),
            ("_raw_spin_lock<list_lru_add<d_lru_add<__x64_sys_close", "linux.dentry_lru"),
        ];
        for (chain, name) in expected {
            assert_eq!(named(chain).map(|named| named.0).as_deref(), Some(name), "{chain}");
        }
    }

    #[test]
    fn a_wait_inside_of_a_lock_is_one_for_that_lock_and_one_further_out_is_not() {
        let waker = "_raw_spin_lock_irqsave<rwsem_wake<up_write<ext4_buffered_write_iter<__x64_sys_write";
        assert_eq!(named(waker), Some(("linux.inode".to_owned(), "rwsem")));
        // The function that writes the file is in the chain, and what is waited for is another lock.
        let inner =
            "rwsem_down_read_slowpath<down_read<ext4_map_blocks<ext4_buffered_write_iter<__x64_sys_write";
        assert_eq!(named(inner), Some(("linux.extents".to_owned(), "rwsem")));
    }

    #[test]
    fn what_the_table_does_not_have_is_shown_by_its_function_and_what_is_no_call_of_files_is_not_counted() {
        let unknown = "_raw_spin_lock<some_new_function<vfs_write<__x64_sys_pwrite64";
        assert_eq!(named(unknown), Some(("kernel:some_new_function".to_owned(), "spinlock")));
        for chain in [
            "_raw_spin_lock<run_timer_softirq<handle_softirqs<irq_exit_rcu<vfs_write<__x64_sys_pwrite64",
            "__schedule<schedule<do_nanosleep<__x64_sys_clock_nanosleep",
            "rwsem_down_read_slowpath<down_read<lock_mm_and_find_vma<asm_exc_page_fault",
            "__schedule<schedule<unix_stream_read_generic<sock_read_iter<__x64_sys_read",
        ] {
            assert_eq!(named(chain), None, "{chain}");
        }
    }

    #[test]
    fn each_lock_of_the_table_has_a_source_a_known_kind_and_functions_of_its_own() {
        let (file, mut seen) = (file(), std::collections::BTreeSet::new());
        for lock in &file.lock {
            assert!(file.functions.contains_key(&lock.kind) && lock.kind != ANY, "{}", lock.name);
            assert!(lock.source.contains(".c") && !lock.what.is_empty(), "{}", lock.name);
            for caller in &lock.callers {
                assert!(seen.insert((&lock.kind, caller)), "{} {caller} is in the table twice", lock.name);
            }
        }
    }

    #[test]
    fn a_spinning_task_is_told_by_its_innermost_function() {
        assert!(Names::spins(&["rwsem_spin_on_owner", "rwsem_down_write_slowpath"]));
        assert!(Names::spins(&["__pv_queued_spin_lock_slowpath"]));
        assert!(!Names::spins(&["recently_deleted", "find_inode_bit"]) && !Names::spins(&[]));
    }
}
