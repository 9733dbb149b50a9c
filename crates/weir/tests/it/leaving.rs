//! The end of a mount: `weir umount` returns when the pool is clean, and fails when it is not.
//!
//! It takes root and `/dev/fuse`; without them the tests say that they are skipped.

use crate::shared::place;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, Signal};

use crate::shared::place::{Place, can_mount, stderr, weir};

/// These tests run one after the other: a new mount namespace keeps the mounts of all, and a program that is being started has
/// their
/// open files.
static ALONE: Mutex<()> = Mutex::new(());

/// None where this host does not let us mount.
fn alone() -> Option<MutexGuard<'static, ()>> {
    can_mount().then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A mount of something else, undone at the end.
struct Other(PathBuf);

impl Other {
    fn new(kind: &str, dir: &Path, words: &str) -> Self {
        fs::create_dir_all(dir).expect("a directory");
        let words = std::ffi::CString::new(words).expect("no zero");
        rustix::mount::mount(kind, dir, kind, MountFlags::empty(), words.as_c_str()).expect("a mount");
        Self(dir.to_owned())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn run(args: &[&str], paths: &[&Path]) -> Output {
    weir().args(args).args(paths).output().expect("weir runs")
}

fn done(args: &[&str], paths: &[&Path]) {
    let output = run(args, paths);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
}

/// Fills the DRAM buffer of a mount of hinfs, so that its server has much to write back.
fn fill_buffer(dir: &Path) {
    let file = File::create(dir.join("file")).expect("a file");
    for block in 0..768 {
        file.write_all_at(&[7; 4096], block * 4096).expect("a write");
    }
}

/// Words with which an unmount takes a second.
const SLOW: &str = "buffer=4MiB,medium_write=1ms";

#[test]
fn an_unmount_returns_when_the_pool_is_clean_also_where_files_and_locks_have_other_devices() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("hinfs");
    let folder = place.folder.path();
    // An overlay of two file systems gives its files devices of their own.
    let lower = Other::new("tmpfs", &folder.join("lower"), "");
    let upper = Other::new("tmpfs", &folder.join("upper"), "");
    let [top, work] = ["top", "work"].map(|name| upper.0.join(name));
    fs::create_dir(&top).unwrap();
    fs::create_dir(&work).unwrap();
    let words =
        format!("lowerdir={},upperdir={},workdir={}", lower.0.display(), top.display(), work.display());
    let overlay = Other::new("overlay", &folder.join("overlay"), &words);
    let pool = overlay.0.join("pool.weir");
    let (slow, dir) = (SLOW, place.dir());
    done(&["mount", "hinfs", "--size", "64MiB", "-o", slow], &[&pool, &dir]);
    fill_buffer(&dir);
    done(&["umount"], &[&dir]);
    done(&["fsck"], &[&pool]);
    // Others that unmount do not wait; those that use the pool next do.
    done(&["mount", "hinfs", "-o", slow], &[&pool, &dir]);
    fill_buffer(&dir);
    rustix::mount::unmount(&dir, UnmountFlags::empty()).unwrap();
    done(&["fsck"], &[&pool]);
}

#[test]
fn an_unmount_fails_when_its_server_could_not_write_everything_back() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("hinfs");
    let mut server = place.command(SLOW).arg("--foreground").stderr(Stdio::null()).spawn().unwrap();
    while !place.is_mounted() {
        assert_eq!(server.try_wait().unwrap(), None, "the server has ended");
        std::thread::yield_now();
    }
    fill_buffer(&place.dir());
    let umount = weir().arg("umount").arg(place.dir()).stderr(Stdio::piped()).spawn().unwrap();
    while place.is_mounted() {
        std::thread::yield_now();
    }
    rustix::process::kill_process(Pid::from_child(&server), Signal::KILL).unwrap();
    server.wait().unwrap();
    let output = umount.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("before it had written everything back"), "{}", stderr(&output));
    place.check();
}

/// Neither the program nor the mount is held by it.
#[test]
fn an_unmount_of_a_server_that_does_not_answer_fails_and_says_what_to_do() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("pmfs");
    let mut server = place.command("").arg("--foreground").stderr(Stdio::null()).spawn().unwrap();
    while !place.is_mounted() {
        assert_eq!(server.try_wait().unwrap(), None, "the server has ended");
        std::thread::yield_now();
    }
    let process = Pid::from_child(&server);
    rustix::process::kill_process(process, Signal::STOP).unwrap();
    let refused = run(&["umount"], &[&place.dir()]);
    rustix::process::kill_process(process, Signal::CONT).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    for part in ["has not answered", &format!("kill -9 {}", server.id()), "--lazy"] {
        assert!(stderr(&refused).contains(part), "{}", stderr(&refused));
    }
    assert!(place.is_mounted());
    done(&["umount"], &[&place.dir()]);
    assert!(server.wait().unwrap().success());
    place.check();
}

#[test]
fn an_unmount_fails_when_its_server_has_lost_the_pool() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("pmfs");
    place.mount("");
    // The pool is cut short: whatever the server does next ends it.
    File::options().write(true).open(place.pool()).unwrap().set_len(0).unwrap();
    let refused = run(&["umount"], &[&place.dir()]);
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    assert!(!place.is_mounted());
    let lost = stderr(&refused);
    assert!(lost.contains("the server ended before it had written everything back"), "{lost}");
}

/// Any user may have mounted it there. In a mount namespace of its own: other programs read the list of mounts as text.
#[test]
fn a_mount_on_a_name_that_is_no_text_is_in_nobodys_way() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("pmfs");
    done(&["mkfs", "pmfs", "--size", "64MiB"], &[&place.pool()]);
    for name in ["not text \\377", "strange"] {
        let script = r#"set -e
            other="$4/$(printf "$5")"; mkdir "$other"; mount -t tmpfs none "$other"
            [ "$5" = strange ] && dir="$4/$(printf "pool \\376")" || dir="$3"
            mkdir -p "$dir"; "$1" mount pmfs "$2" "$dir"
            "$1" fsck "$2" 2>&1 | grep -q "it is mounted on"
            "$1" sync "$dir"; "$1" umount "$dir""#;
        let mut elsewhere = Command::new("unshare");
        elsewhere.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        elsewhere.arg(weir().get_program()).args([&place.pool(), &place.dir()]);
        let output = elsewhere.arg(place.folder.path()).arg(name).output().expect("unshare runs");
        assert!(output.status.success(), "{name}: {}", stderr(&output));
    }
    place.check();
}

#[test]
fn an_unmount_that_was_refused_leaves_nothing_open_in_the_server() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("pmfs");
    let mut server = place.serve("");
    let open = || fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    let in_use = File::create(place.dir().join("file")).unwrap();
    let refuse = || {
        let refused = run(&["umount"], &[&place.dir()]);
        assert!(stderr(&refused).contains("is in use"), "{}", stderr(&refused));
    };
    refuse();
    let before = open();
    (0..5).for_each(|_| refuse());
    assert_eq!(open(), before);
    drop(in_use);
    place.umount();
    assert!(server.wait().unwrap().success());
}

#[test]
fn an_image_that_a_loop_device_uses_is_not_changed() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("ext4");
    done(&["mkfs", "ext4", "--size", "64MiB"], &[&place.pool()]);
    let losetup = Command::new("losetup").args(["--find", "--show"]).arg(place.pool()).output();
    let Some(device) = losetup.ok().filter(|output| output.status.success()) else {
        return println!("skipped: losetup is missing");
    };
    let device = String::from_utf8_lossy(&device.stdout).trim().to_owned();
    let (pool, dir) = (place.pool(), place.dir());
    let refused: Vec<_> = [
        run(&["mount", "ext4"], &[&pool, &dir]),
        run(&["mkfs", "ext4", "--force"], &[&pool]),
        run(&["fsck", "--repair"], &[&pool]),
    ]
    .into();
    let looked = run(&["fsck"], &[&pool]);
    assert!(Command::new("losetup").args(["--detach", &device]).status().unwrap().success());
    for refused in refused {
        assert!(!refused.status.success());
        for part in ["pool.weir", &device, "losetup --detach"] {
            assert!(stderr(&refused).contains(part), "{}", stderr(&refused));
        }
    }
    assert!(looked.status.success(), "to read it does no harm: {}", stderr(&looked));
    done(&["mount", "ext4"], &[&pool, &dir]);
    place.umount();
    place.check();
}

#[test]
fn a_pool_that_is_mounted_in_another_mount_namespace_is_refused_at_once_and_by_its_place_there() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("pmfs");
    let (pool, dir) = (place.pool(), place.dir());
    done(&["mkfs", "pmfs", "--size", "64MiB"], &[&pool]);
    let script = r#""$1" mount pmfs "$2" "$3" && echo mounted && read -r line; "$1" umount "$3""#;
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    elsewhere.arg(weir().get_program()).args([&pool, &dir]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut elsewhere = elsewhere.spawn().expect("unshare runs");
    let mut line = String::new();
    let mut told = std::io::BufReader::new(elsewhere.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut line).unwrap();
    assert_eq!(line, "mounted\n");
    assert!(!place.is_mounted(), "it is mounted there only");
    let refused = run(&["fsck"], &[&pool]);
    drop(elsewhere.stdin.take());
    assert!(elsewhere.wait().unwrap().success());
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    for part in ["in another mount namespace", &dir.display().to_string()] {
        assert!(stderr(&refused).contains(part), "{}", stderr(&refused));
    }
    assert!(!stderr(&refused).contains("waiting"), "{}", stderr(&refused));
    place.check();
}

#[test]
fn a_mount_that_is_refused_leaves_no_pool() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("pmfs");
    let small = Other::new("tmpfs", &place.folder.path().join("small"), "size=32m");
    let pool = small.0.join("pool.weir");
    for _ in 0..2 {
        let refused = run(&["mount", "pmfs", "--size", "64MiB"], &[&pool, &place.dir()]);
        assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("give a smaller --size"), "{}", stderr(&refused));
        assert!(!pool.exists());
    }
    done(&["mount", "pmfs", "--size", "64MiB", "--sparse"], &[&pool, &place.dir()]);
    done(&["umount"], &[&place.dir()]);
    done(&["fsck"], &[&pool]);
}

/// Fills a pool to its last block.
fn fill(dir: &Path) -> File {
    let filler = File::create(dir.join("filler")).unwrap();
    for bytes in [1 << 20, 4096] {
        let mut end = filler.metadata().unwrap().len();
        while let Ok(written) = filler.write_at(&vec![1; bytes], end) {
            end += written as u64;
        }
    }
    filler
}

#[test]
fn a_full_pool_is_clean_after_its_unmount() {
    let Some(_alone) = alone() else { return };
    for design in place::DESIGNS {
        let place = Place::new(design);
        place.mount("");
        drop(fill(&place.dir()));
        place.umount();
        let checked = run(&["fsck"], &[&place.pool()]);
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(checked.status.success() && !said.contains("not unmounted"), "{design}: {said}");
        place.mount("");
        place.umount();
        place.check();
    }
}

/// The words of a mount in the list of mounts.
fn words_of(dir: &Path) -> Vec<String> {
    let list = fs::read_to_string("/proc/self/mounts").unwrap();
    let here = format!(" {} ", dir.display());
    let line = list.lines().find(|line| line.contains(&here)).expect("it is mounted");
    line.split(' ').nth(3).unwrap().split(',').map(str::to_owned).collect()
}

#[test]
fn a_mount_while_an_unmount_of_its_pool_runs_waits_for_it() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("hinfs");
    place.mount("");
    for round in 0..8_u8 {
        fs::write(place.dir().join("file"), vec![round; 4 << 20]).unwrap();
        // The command runs when `spawn` returns; whatever it has done by then, the mount is not refused.
        let mut leaving = weir().arg("umount").arg(place.dir()).spawn().expect("weir runs");
        let mounted = run(&["mount", "hinfs"], &[&place.pool(), &place.dir()]);
        assert!(mounted.status.success(), "round {round}: {}", stderr(&mounted));
        assert!(leaving.wait().expect("it ends").success(), "round {round}");
        assert!(fs::read(place.dir().join("file")).unwrap() == vec![round; 4 << 20], "round {round}");
    }
    place.umount();
    place.check();
}

#[test]
fn the_unmount_of_a_damaged_image_that_was_only_read_succeeds() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("ext4");
    place.mount("");
    fs::create_dir(place.dir().join("d")).unwrap();
    place.umount();
    let before = damage_root(&place.pool());
    place.mount("ro");
    let listed = fs::read_dir(place.dir()).map(|entries| entries.filter(Result::is_err).count());
    assert!(listed.is_err() || listed.is_ok_and(|errors| errors > 0), "the damage was seen");
    place.umount();
    assert!(fs::read(place.pool()).unwrap() == before, "the image is as it was");
}

/// Overwrites the first block of the root directory of an ext4 image; returns the bytes of the image.
fn damage_root(image: &Path) -> Vec<u8> {
    let mut bytes = fs::read(image).unwrap();
    // The entry of `.`, the inode number 2 with a record of 12 bytes, begins a block.
    let entry = [2, 0, 0, 0, 12, 0, 1, 2, b'.'];
    let root = bytes.chunks(4096).position(|block| block.starts_with(&entry)).expect("a root directory");
    bytes[root * 4096..][..64].fill(0xA5);
    fs::write(image, &bytes).unwrap();
    bytes
}

#[test]
fn a_remount_changes_what_it_names_and_refuses_what_there_is_not() {
    let Some(_alone) = alone() else { return };
    let place = Place::new("pmfs");
    place.mount("suid,noexec,noatime");
    let (pool, dir, missing) = (place.pool(), place.dir(), place.folder.path().join("missing"));
    let has = |word: &str| words_of(&dir).iter().any(|known| known == word);
    done(&["mount", "pmfs", "-o", "remount,ro"], &[&pool, &dir]);
    assert!(has("ro") && has("noexec") && has("noatime") && !has("nosuid"), "{:?}", words_of(&dir));
    done(&["mount", "auto", "-o", "remount,rw,exec"], &[&pool, &dir]);
    assert!(has("rw") && !has("noexec") && has("noatime"), "{:?}", words_of(&dir));
    let cases: [(&str, &str, &Path, &str); 3] = [
        ("pmfs", "remount,bogusword", &pool, "bogusword"),
        ("pmfs", "remount,ro", &missing, "not of"),
        ("hinfs", "remount,ro", &pool, "a mount of pmfs"),
    ];
    for (design, words, pool, phrase) in cases {
        let refused = run(&["mount", design, "-o", words], &[pool, &dir]);
        assert_eq!(refused.status.code(), Some(2), "{words}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(phrase), "{words}: {}", stderr(&refused));
        assert!(has("rw"), "{words}: nothing has changed");
    }
    place.umount();
}

#[test]
fn a_file_that_cannot_have_its_lists_is_not_made() {
    let Some(_alone) = alone() else { return };
    for design in place::DESIGNS {
        let place = Place::new(design);
        place.mount("acl");
        let dir = place.dir().join("d");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("first"), "so that the directory has its block").unwrap();
        // Version 2; user rwx, user 1 rwx, group r-x, mask rwx, others ---.
        let mut list = 2_u32.to_le_bytes().to_vec();
        let entries: [(u16, u16, u32); 5] =
            [(1, 7, u32::MAX), (2, 7, 1), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)];
        for (tag, perm, id) in entries {
            list.extend([tag.to_le_bytes(), perm.to_le_bytes()].concat());
            list.extend(id.to_le_bytes());
        }
        let set = |name: &str| {
            rustix::fs::setxattr(&dir, name, &list, rustix::fs::XattrFlags::empty()).expect("lists");
        };
        set("system.posix_acl_default");
        let filler = fill(&place.dir());
        let made = fs::write(dir.join("file"), "").expect_err("the pool is full");
        assert_eq!(made.kind(), std::io::ErrorKind::StorageFull, "{design}");
        fs::create_dir(dir.join("sub")).expect_err("the pool is full");
        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["first"], "{design}");
        drop(filler);
        place.umount();
        place.check();
    }
}

#[test]
fn a_trim_and_an_explanation_of_another_users_mount_and_a_trim_of_memory_are_refused_with_the_reason() {
    const USER: u32 = 65_534;
    let Some(_alone) = alone() else { return };
    let place = Place::new("pmfs");
    done(&["mount", "pmfs", "memory", "--size", "16MiB"], &[&place.dir()]);
    let memory = run(&["trim"], &[&place.dir()]);
    assert_eq!(memory.status.code(), Some(4), "{}", stderr(&memory));
    assert!(stderr(&memory).contains("in memory"), "{}", stderr(&memory));
    place.umount();
    // The user may not be able to reach the folder of this build.
    let program = place.folder.path().join("weir");
    fs::copy(weir().get_program(), &program).unwrap();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    place.mount("");
    for command in ["trim", "explain"] {
        let refused =
            Command::new(&program).arg(command).arg(place.dir()).uid(USER).gid(USER).output().unwrap();
        assert_eq!(refused.status.code(), Some(4), "{command}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("user 0 has mounted it"), "{command}: {}", stderr(&refused));
        assert!(!stderr(&refused).contains("name a term"), "{command}: {}", stderr(&refused));
    }
    place.umount();
}
