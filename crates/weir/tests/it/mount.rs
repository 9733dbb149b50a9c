//! The mount as programs see it: `weir mount` and `weir umount` on this host's kernel.
//!
//! It takes root and `/dev/fuse`; without them the tests say that they are skipped.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::shared::place::{DESIGNS, Place, can_mount, designs, pattern, promises, run, stderr, weir};

#[test]
fn what_was_written_is_there_after_an_unmount() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount("");
        let dir = place.dir();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        fs::write(dir.join("a/b/large"), pattern(1, 3_000_000)).unwrap();
        fs::write(dir.join("a/name"), "x").unwrap();
        fs::hard_link(dir.join("a/name"), dir.join("link")).unwrap();
        fs::rename(dir.join("a/name"), dir.join("renamed")).unwrap();
        symlink("a/b/large", dir.join("symlink")).unwrap();
        fs::set_permissions(dir.join("a"), fs::Permissions::from_mode(0o1751)).unwrap();
        place.umount();
        place.check();
        place.mount("ro");
        assert!(fs::read(dir.join("symlink")).unwrap() == pattern(1, 3_000_000));
        assert_eq!(fs::metadata(dir.join("a")).unwrap().mode() & 0o7777, 0o1751);
        let (link, renamed) =
            (fs::metadata(dir.join("link")).unwrap(), fs::metadata(dir.join("renamed")).unwrap());
        assert_eq!((link.ino(), link.nlink()), (renamed.ino(), 2));
        assert!(!dir.join("a/name").exists());
        let refused = fs::write(dir.join("new"), "x").expect_err("read-only");
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
        place.umount();
        place.check();
    }
}

#[test]
fn a_mount_a_sync_and_an_unmount_print_a_document_where_it_is_asked_for() {
    if !can_mount() {
        return;
    }
    let place = Place::new("pmfs");
    let (pool, dir) = (place.pool(), place.dir());
    let words = |words: &[&str]| -> Vec<OsString> { words.iter().map(OsString::from).collect() };
    let document = |arguments: Vec<OsString>| -> serde_json::Value {
        let ended = weir().args(&arguments).arg("--json").output().unwrap();
        assert!(ended.status.success(), "{arguments:?}: {}", stderr(&ended));
        serde_json::from_slice(&ended.stdout).expect("one document")
    };
    let paths = [pool.clone().into(), dir.clone().into()];
    let mounted = document([words(&["mount", "pmfs", "--size", "64MiB"]), paths.to_vec()].concat());
    assert_eq!((&mounted["schema"], &mounted["fs"]), (&"weir.mount/1".into(), &"pmfs".into()));
    assert!(mounted["server"].is_u64(), "{mounted}");
    let of_dir = |name: &str| [words(&[name]), vec![dir.clone().into()]].concat();
    assert_eq!(document(of_dir("sync"))["schema"], "weir.sync/1");
    let left = document(of_dir("umount"));
    assert_eq!((&left["schema"], &left["clean"]), (&"weir.umount/1".into(), &true.into()));
}

#[test]
fn names_that_begin_like_options_are_mounted() {
    if !can_mount() {
        return;
    }
    let place = Place::new("pmfs");
    let folder = place.folder.path();
    fs::create_dir(folder.join("-dir")).unwrap();
    let mut mount = weir();
    mount.current_dir(folder).args(["mount", "--size", "64MiB", "--", "pmfs", "-pool", "-dir"]);
    let mounted = mount.output().unwrap();
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    run(weir().current_dir(folder).args(["umount", "--", "-dir"]));
    run(weir().current_dir(folder).args(["fsck", "--", "-pool"]));
}

/// The bytes of the pool's file.
fn bytes(place: &Place) -> Vec<u8> {
    fs::read(place.pool()).expect("the pool")
}

#[test]
fn a_mount_for_reading_changes_no_byte_of_the_pool_and_never_becomes_writable() {
    for design in ["pmfs", "hinfs", "nova", "ext4", "ext2"].into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        for killed in [false, true] {
            let mut server = place.serve("");
            fs::write(place.dir().join("file"), pattern(2, 300_000)).expect("write");
            File::open(place.dir().join("file")).and_then(|file| file.sync_all()).expect("fsync");
            if killed {
                server.kill().expect("it runs");
                server.wait().expect("it ends");
                let gone = weir().args(["umount", "--lazy"]).arg(place.dir()).status().expect("weir runs");
                assert!(gone.success(), "{design}");
            } else {
                place.umount();
                server.wait().expect("it ends");
            }
            let before = bytes(&place);
            place.mount("ro");
            assert!(
                fs::read(place.dir().join("file")).expect("read") == pattern(2, 300_000),
                "{design}, {killed}"
            );
            let asked = place.command("remount,rw").output().expect("weir runs");
            assert!(stderr(&asked).contains("was mounted read-only"), "{design}: {}", stderr(&asked));
            // Past Weir's command.
            rustix::mount::mount_remount(place.dir(), rustix::mount::MountFlags::empty(), c"")
                .expect("root may");
            let refused = fs::write(place.dir().join("new"), "x").expect_err("read-only");
            assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem, "{design}");
            place.umount();
            assert!(
                bytes(&place) == before,
                "{design}, killed: {killed}: a mount for reading has changed the pool"
            );
        }
    }
}

#[test]
fn a_mount_tells_what_it_has_recovered_and_which_options_only_mkfs_uses() {
    if !can_mount() {
        return;
    }
    let place = Place::new("ext4");
    let mut server = place.serve("");
    fs::write(place.dir().join("file"), "x").expect("write");
    File::open(place.dir().join("file")).and_then(|file| file.sync_all()).expect("fsync");
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    assert!(weir().args(["umount", "--lazy"]).arg(place.dir()).status().expect("weir runs").success());
    let output = place.command("journal=8MiB").output().expect("weir runs");
    let said = stderr(&output);
    assert!(said.contains("transactions were replayed"), "{said}");
    assert!(said.contains("only mkfs uses") && said.contains("journal"), "{said}");
    place.umount();
}

#[test]
fn a_mount_says_what_it_has_done_while_it_serves() {
    if !can_mount() {
        return;
    }
    for design in DESIGNS {
        let place = Place::new(design);
        place.mount("cache=direct");
        let file = File::create(place.dir().join("file")).expect("a file");
        for block in 0..7 {
            file.write_all_at(&[1; 4096], block * 4096).expect("a write");
        }
        file.sync_all().expect("a sync");
        let said = |name: &str| {
            let output = weir().arg(name).arg(place.dir()).output().expect("weir runs");
            assert!(output.status.success(), "{}", stderr(&output));
            String::from_utf8(output.stdout).expect("text")
        };
        let explained = said("explain");
        for part in [design, "write   7 calls", "fsync   1 calls", "create   1 calls"] {
            assert!(explained.contains(part), "{part}: {explained}");
        }
        assert!(said("report").contains("real clock"));
        let mut value = [0; 16];
        let set = rustix::fs::getxattr(place.dir(), "user.other", &mut value);
        assert_eq!(set, Err(rustix::io::Errno::NODATA), "other attributes of the root are its own");
        drop(file);
        place.umount();
        assert!(!weir().arg("explain").arg(place.dir()).output().expect("weir runs").status.success());
    }
}

#[test]
fn a_run_on_a_mount_keeps_what_the_server_did_meanwhile_and_nothing_that_it_did_before() {
    if !can_mount() {
        return;
    }
    let place = Place::new("pmfs");
    place.mount("cache=direct");
    let inside = place.dir().join("a/b");
    fs::create_dir_all(&inside).expect("directories");
    File::create(inside.join("before")).and_then(|file| file.set_len(1 << 20)).expect("a file");
    let output = weir()
        .args(["bench", "filebench/varmail", "--clock", "real", "--runtime", "2000 ops"])
        .args(["--threads", "1", "--json", "-D", "nfiles=50", "--fs", &format!("host:{}", inside.display())])
        .output()
        .expect("weir runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sample = &result["samples"][0];
    let records = |list: &str| sample[list].as_array().expect("a list").clone();
    let of = |list: &str, kind: &str| records(list).into_iter().find(|record| record["kind"] == kind);
    let count = |list: &str, kind: &str| {
        of(list, kind).map_or(0, |record| record["count"].as_u64().expect("a number"))
    };
    for kind in ["fsync", "unlink", "create"] {
        let (called, served) = (count("operations", kind), count("served", kind));
        // The calls in which the measured time begins and ends may be counted by one side alone.
        assert!(called > 10 && called.abs_diff(served) <= 1, "{kind}: {called} calls, {served} requests");
    }
    for record in records("served") {
        let parts: u64 = record["time_ns"]
            .as_object()
            .expect("parts")
            .values()
            .filter_map(serde_json::Value::as_u64)
            .sum();
        assert_eq!(Some(parts), record["total_ns"].as_u64(), "{record}");
    }
    let (called, served) =
        (of("operations", "fsync").expect("calls"), of("served", "fsync").expect("requests"));
    assert!(served["total_ns"].as_u64() < called["total_ns"].as_u64(), "{served} {called}");
    place.umount();
}

fn time(secs: i64, nanos: u32) -> rustix::fs::Timespec {
    rustix::fs::Timespec { tv_sec: secs, tv_nsec: nanos.into() }
}

/// Extended attributes of a file, by name, and when its contents were changed last.
fn marks_of(path: &Path) -> (Vec<(String, Vec<u8>)>, i64, i64) {
    let mut names = vec![0; 4096];
    let len = rustix::fs::llistxattr(path, &mut names).expect("a list");
    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let len = rustix::fs::lgetxattr(path, name, &mut value).expect("a value");
        (String::from_utf8_lossy(name).into_owned(), value[..len].to_vec())
    };
    let mut attributes: Vec<_> = names.map(value).collect();
    attributes.sort();
    let stat = fs::symlink_metadata(path).expect("it is there");
    (attributes, stat.mtime(), stat.mtime_nsec())
}

#[test]
fn attributes_and_nanoseconds_survive_an_unmount_and_go_with_tar_and_rsync() {
    use rustix::fs::{AtFlags, CWD, Timestamps, XattrFlags, lsetxattr, setxattr, utimensat};
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount("");
        let dir = place.dir();
        let tree = dir.join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("file"), pattern(1, 5000)).unwrap();
        symlink("file", tree.join("link")).unwrap();
        setxattr(tree.join("file"), "user.note", &pattern(2, 3000), XattrFlags::CREATE).unwrap();
        setxattr(tree.join("file"), "user.empty", b"", XattrFlags::empty()).unwrap();
        setxattr(&tree, "user.note", b"a directory", XattrFlags::empty()).unwrap();
        lsetxattr(tree.join("link"), "trusted.note", b"a link", XattrFlags::empty()).unwrap();
        for (name, mtime) in [("file", time(1_600_000_000, 123_456_789)), ("link", time(5_000_000_000, 1))] {
            let times = Timestamps { last_access: mtime, last_modification: mtime };
            utimensat(CWD, tree.join(name), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        }
        let names = ["file", "link", ""];
        let before = names.map(|name| marks_of(&tree.join(name)));
        assert_eq!(before[0].0.len(), 2);
        assert_eq!((before[0].2, before[1].1, before[1].2), (123_456_789, 5_000_000_000, 1));
        place.umount();
        place.check();
        place.mount("");
        assert_eq!(names.map(|name| marks_of(&tree.join(name))), before, "{design}");
        fs::create_dir(dir.join("unpacked")).unwrap();
        let tar = || {
            let mut tar = Command::new("tar");
            tar.args(["--xattrs", "--xattrs-include=*", "--format=pax"]);
            tar
        };
        run(tar().arg("-C").arg(&dir).arg("-cf").arg(dir.join("archive")).arg("tree"));
        run(tar().arg("-C").arg(dir.join("unpacked")).arg("-xf").arg(dir.join("archive")));
        run(Command::new("rsync").arg("-aX").arg(&tree).arg(dir.join("synced")));
        let copies = ["unpacked", "synced"].map(|copy| dir.join(copy).join("tree"));
        for copy in copies.iter().filter(|copy| copy.exists()) {
            let after = names.map(|name| marks_of(&copy.join(name)));
            assert_eq!(after[..2], before[..2], "{design}: {}", copy.display());
            // Not every rsync gives directories their times.
            assert_eq!(after[2].0, before[2].0, "{design}: {}", copy.display());
        }
        place.umount();
        place.check();
    }
}

#[test]
fn the_calls_for_attributes_tell_sizes_and_refuse_what_there_is_not() {
    use rustix::fs::{
        XattrFlags, getxattr, getxattr_query, listxattr, listxattr_query, removexattr, setxattr,
    };
    use rustix::io::Errno;
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount("");
        let file = place.dir().join("file");
        fs::write(&file, "x").unwrap();
        setxattr(&file, "user.note", &[7; 100], XattrFlags::empty()).unwrap();
        let mut short = [0; 9];
        assert_eq!(getxattr_query(&file, "user.note"), Ok(100));
        assert_eq!(getxattr(&file, "user.note", &mut short), Err(Errno::RANGE));
        assert_eq!(listxattr_query(&file), Ok("user.note".len() + 1));
        assert_eq!(listxattr(&file, &mut short), Err(Errno::RANGE));
        assert_eq!(getxattr(&file, "user.other", &mut short), Err(Errno::NODATA));
        assert_eq!(setxattr(&file, "user.note", b"", XattrFlags::CREATE), Err(Errno::EXIST));
        assert_eq!(removexattr(&file, "user.other"), Err(Errno::NODATA));
        // The longest that the kernel lets through; then lists, which no design here has.
        let longest = vec![9; 1 << 16];
        assert_eq!(setxattr(&file, "user.long", &longest, XattrFlags::empty()), Ok(()));
        let mut read = vec![0; 1 << 16];
        assert_eq!(getxattr(&file, "user.long", &mut read), Ok(1 << 16));
        assert!(read == longest);
        assert_eq!(getxattr_query(&file, "system.posix_acl_access"), Err(Errno::OPNOTSUPP));
        assert_eq!(setxattr(&file, "system.nothing", b"", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
        assert_eq!(getxattr_query(&file, "user.note"), Ok(100));
        place.umount();
        place.check();
    }
}

/// What a user's program says. Another test may be starting a program: its child has the file open for a moment, as it was when it
/// was copied, and the kernel runs no file that is open for writing.
fn said_by(uid: u32, program: &mut Command) -> String {
    let output = loop {
        match program.uid(uid).gid(uid).output() {
            Err(busy) if busy.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
            ended => break ended.expect("the program runs"),
        }
    };
    assert!(output.status.success(), "{program:?}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_program_that_another_user_has_written_to_has_lost_its_privileges() {
    /// Revision 2, effective; one capability is permitted.
    const CAPABILITIES: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let runs =
        DESIGNS.into_iter().flat_map(|design| ["cache=pages", "cache=direct"].map(|cache| (design, cache)));
    for (design, cache) in runs.filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount(&format!("allow_other,suid,{cache}"));
        for dir in [place.folder.path(), &place.dir()] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let id = place.dir().join("id");
        fs::copy("/usr/bin/id", &id).unwrap();
        let append = format!("printf x >> {0}", id.display());
        let truncate = format!("truncate -s +1 {}", id.display());
        let reserve = format!("fallocate -l 1M {}", id.display());
        for change in [append, truncate, reserve] {
            fs::set_permissions(&id, fs::Permissions::from_mode(0o4757)).unwrap();
            assert_eq!(said_by(65_001, Command::new(&id).arg("-u")), "0", "{design}, {cache}");
            said_by(65_002, Command::new("sh").args(["-c", &change]));
            assert_eq!(said_by(65_001, Command::new(&id).arg("-u")), "65001", "{design}, {cache}: {change}");
        }
        fs::set_permissions(&id, fs::Permissions::from_mode(0o4757)).unwrap();
        std::os::unix::fs::chown(&id, Some(65_003), None).unwrap();
        assert_eq!(said_by(65_001, Command::new(&id).arg("-u")), "65001", "{design}, {cache}: chown");
        let name = "security.capability";
        rustix::fs::setxattr(&id, name, &CAPABILITIES, rustix::fs::XattrFlags::empty()).unwrap();
        said_by(0, Command::new("sh").args(["-c", &format!("printf x >> {0}", id.display())]));
        let gone = rustix::fs::getxattr_query(&id, name);
        assert_eq!(gone, Err(rustix::io::Errno::NODATA), "{design}, {cache}");
        place.umount();
        place.check();
    }
}

#[test]
fn the_user_who_makes_a_pool_owns_its_root() {
    const USER: u32 = 65_534;
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        let folder = place.folder.path();
        std::os::unix::fs::chown(folder, Some(USER), Some(USER)).unwrap();
        // The user may not be able to reach the folder of this build.
        let program = folder.join("weir");
        fs::copy(weir().get_program(), &program).unwrap();
        let mut mkfs = Command::new(program);
        mkfs.args(["mkfs", "--fs", design, "--size", "64MiB"]).arg(place.pool()).uid(USER).gid(USER);
        run(&mut mkfs);
        place.check();
        place.mount("");
        let root = fs::metadata(place.dir()).unwrap();
        assert_eq!((root.uid(), root.gid(), root.mode() & 0o7777), (USER, USER, 0o755), "{design}");
        place.umount();
    }
}

#[test]
fn a_file_without_a_name_stays_until_it_is_closed_and_then_gives_its_space_back() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount("");
        let free = || rustix::fs::statvfs(place.dir()).unwrap().f_bfree;
        fs::write(place.dir().join("first"), "so that the directory has its block").unwrap();
        let before = free();
        let path = place.dir().join("file");
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(&pattern(3, 1 << 20)).unwrap();
        fs::remove_file(&path).unwrap();
        file.write_all_at(b"more", 1 << 20).unwrap();
        let mut read = vec![0; (1 << 20) + 4];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read[..1 << 20] == pattern(3, 1 << 20) && read.ends_with(b"more"));
        assert!(free() + 256 <= before);
        drop(file);
        // The kernel tells of the last close by itself, and soon.
        let give_up = std::time::Instant::now() + std::time::Duration::from_secs(300);
        while free() != before {
            assert!(std::time::Instant::now() < give_up, "{design}: {} of {before}", free());
            thread::sleep(std::time::Duration::from_millis(5));
        }
        place.umount();
        place.check();
    }
}

/// One worker's files: made, grown, renamed over each other, linked, cut and removed.
fn churn(dir: &Path, worker: u64) {
    let path = |n: u64| dir.join(format!("{worker}.{n}"));
    for n in 0..150 {
        fs::write(path(n), pattern(n, (n as usize * 389) % 20_000)).unwrap();
        match n % 5 {
            0 => fs::rename(path(n), dir.join("shared")).unwrap(),
            1 => fs::hard_link(path(n), path(1000 + n)).unwrap(),
            2 => fs::remove_file(path(n)).unwrap(),
            3 => File::options().write(true).open(path(n)).unwrap().set_len(n * 100).unwrap(),
            _ => File::options().append(true).open(path(n)).unwrap().write_all(&pattern(n, 5000)).unwrap(),
        }
    }
}

#[test]
fn several_programs_at_once_do_no_damage() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        for words in ["", "cache=direct,threads=4"] {
            let place = Place::new(design);
            place.mount(words);
            let workers: Vec<_> = (0..4)
                .map(|worker| {
                    let dir = place.dir();
                    thread::spawn(move || churn(&dir, worker))
                })
                .collect();
            for worker in workers {
                worker.join().unwrap();
            }
            for (worker, n) in [(0, 4), (1, 9), (2, 14), (3, 149)] {
                let whole = fs::read(place.dir().join(format!("{worker}.{n}"))).unwrap();
                let expected = [pattern(n, (n as usize * 389) % 20_000), pattern(n, 5000)].concat();
                assert!(whole == expected, "{design}, {words}: {worker}.{n}");
            }
            place.umount();
            place.check();
        }
    }
}

#[test]
fn a_full_pool_refuses_more_loses_nothing_and_takes_its_space_back() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount("");
        let free = || rustix::fs::statvfs(place.dir()).unwrap().f_bfree;
        fs::create_dir(place.dir().join("d")).unwrap();
        fs::write(place.dir().join("d/first"), pattern(0, 50_000)).unwrap();
        let before = free();
        let path = |n: u64| place.dir().join(format!("d/{n}"));
        let mut whole = 0;
        let refused = loop {
            match fs::write(path(whole), pattern(whole, 700_000)) {
                Ok(()) => whole += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::StorageFull, "{design}: {refused}");
        assert!(whole > 50, "{design}: {whole} files in 64 MiB");
        for n in 0..whole {
            assert!(fs::read(path(n)).unwrap() == pattern(n, 700_000), "{design}: file {n}");
        }
        (0..=whole).for_each(|n| fs::remove_file(path(n)).unwrap());
        place.umount();
        place.check();
        place.mount("");
        // The directory may have grown.
        assert!(free() + 4 >= before, "{design}: {} of {before}", free());
        assert!(fs::read(place.dir().join("d/first")).unwrap() == pattern(0, 50_000));
        place.umount();
    }
}

#[test]
fn stores_through_shared_maps_may_fill_as_much_memory_as_on_any_file_system() {
    if !can_mount() {
        return;
    }
    let place = Place::new("pmfs");
    place.mount("");
    let device = fs::metadata(place.dir()).expect("the directory").dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = PathBuf::from(format!("/sys/class/bdi/{major}:{minor}"));
    if OpenOptions::new().write(true).open(device.join("max_ratio")).is_err() {
        return println!("skipped: /sys is read-only here");
    }
    let limit = |name: &str| fs::read_to_string(device.join(name)).ok().map(|value| value.trim().to_owned());
    assert_eq!(limit("max_ratio").as_deref(), Some("100"));
    assert_ne!(limit("strict_limit").as_deref(), Some("1"), "there is none before Linux 6.2");
    place.umount();
}

#[test]
fn reading_moves_the_access_time_once_after_each_change() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount("");
        let path = place.dir().join("file");
        fs::write(&path, "contents").unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let times = fs::FileTimes::new().set_accessed(long_ago).set_modified(long_ago);
        File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().atime(), 1_000_000_000);
        fs::read(&path).unwrap();
        assert!(fs::metadata(&path).unwrap().atime() > 1_000_000_000, "{design}: the first read");
        place.umount();
    }
}

#[test]
fn what_cannot_be_mounted_is_refused_with_the_reason_and_the_remedy() {
    if !can_mount() {
        return;
    }
    let place = Place::new("pmfs");
    place.mount("");
    let (pool, dir) = (place.pool(), place.dir());
    let other = place.folder.path().join("other");
    let full = place.folder.path().join("full");
    fs::create_dir(&other).unwrap();
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "").unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (missing, file) = (place.folder.path().join("missing"), full.join("file"));
    let garbage = place.folder.path().join("garbage");
    fs::write(&garbage, vec![7; 1 << 20]).unwrap();
    let cases: [(&[&str], i32, &str); 15] = [
        (&["pmfs", &text(&pool), &text(&other)], 4, "in use by another process or mount"),
        (&["pmfs", &text(&missing), &text(&other)], 2, "give --size to make it now"),
        (&["pmfs", "memory", &text(&other)], 2, "--size 1GiB"),
        (&["pmsf", &text(&pool), &text(&other)], 2, "did you mean \"pmfs\"?"),
        (&["pmfs", &text(&pool), &text(&other), "-o", "buffer=1MiB"], 2, "buffer"),
        (&["pmfs", "memory", &text(&missing), "--size", "8MiB"], 2, "does not exist: make it first"),
        (&["pmfs", "memory", &text(&file), "--size", "8MiB"], 2, "is not a directory"),
        (&["pmfs", "memory", &text(&full), "--size", "8MiB"], 2, "-o nonempty"),
        (&["pmfs", &text(&garbage), &text(&other)], 2, "not a pmfs image"),
        (&["hinfs", &text(&garbage), &text(&other)], 2, "not a hinfs image"),
        (&["auto", &text(&garbage), &text(&other)], 2, "no design recognises"),
        (&["pmfs", &text(&missing), &text(&other), "--size", "0"], 2, "needs at least"),
        (&["pmfs", &text(&missing), &text(&full), "--size", "64MiB"], 2, "-o nonempty"),
        (&["pmfs", &text(&pool), &text(&other), "-o", "alow_other"], 2, "did you mean \"allow_other\"?"),
        (&["pmfs", &text(&pool), &text(&other), "--mode", "9"], 2, "octal"),
    ];
    for (args, code, phrase) in cases {
        let output = weir().arg("mount").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(phrase), "{args:?}: {}", stderr(&output));
        assert!(!missing.exists(), "{args:?} leaves a pool behind");
    }
    let busy = File::open(dir.join(".")).unwrap();
    let refused = weir().arg("umount").arg(&dir).output().unwrap();
    assert!(refused.status.code() == Some(4) && stderr(&refused).contains("in use"), "{}", stderr(&refused));
    drop(busy);
    place.umount();
    let nothing = weir().arg("umount").arg(&dir).output().unwrap();
    assert!(nothing.status.code() == Some(2) && stderr(&nothing).contains("nothing is mounted"));
}

#[test]
fn a_pool_is_its_makers_alone_knows_its_design_and_is_not_called_damaged_when_it_is_new() {
    let designs = DESIGNS.into_iter().chain(["nova"]);
    for design in designs.filter(|_| can_mount()) {
        let place = Place::new(design);
        let pool = place.pool();
        run(weir().args(["mkfs", design]).arg(&pool).args(["--size", "64MiB"]));
        assert_eq!(fs::metadata(&pool).unwrap().mode() & 0o777, 0o600);
        let said = |command: &str| {
            let output = weir().args([command, "--json"]).arg(&pool).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let told = format!("\"fs\": \"{design}\"");
        assert!(
            said("fsck").contains(&told) && said("df").contains(&told),
            "{} {}",
            said("fsck"),
            said("df")
        );
        assert!(said("fsck").contains("never mounted") && !said("fsck").contains("not unmounted"));
        fs::set_permissions(&pool, fs::Permissions::from_mode(0o644)).unwrap();
        let mount = |more: &[&str]| {
            let output =
                weir().args(["mount", "auto"]).arg(&pool).arg(place.dir()).args(more).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            stderr(&output)
        };
        assert!(mount(&[]).contains("chmod 0600"));
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let here = format!("{} fuse.weir.{design} ", place.dir().display());
        assert!(mounts.contains(&here), "{mounts}");
        place.umount();
        assert!(!mount(&["--mode", "644"]).contains("chmod"));
        place.umount();
        assert!(said("fsck").contains("\"clean\": true"));
    }
}

#[test]
fn what_df_calls_available_can_be_reserved() {
    for design in designs().filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount("");
        let space = rustix::fs::statvfs(place.dir()).unwrap();
        let (free, available) = (space.f_bfree, space.f_bavail);
        // In ext2 and ext4, 5 % of all blocks are for root, who may have them; ext4 keeps 2 % for maps that it has to split.
        // Where no space can be reserved, all of it may be had.
        let all = available == free && !promises(design).reservations;
        assert!((available < free || all) && available * 100 > free * 90, "{design}: {available} of {free}");
        let file = File::create(place.dir().join("file")).unwrap();
        // The name may take a block of the directory.
        let bytes = (space.f_bavail - 1) * space.f_frsize;
        let reserved = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes);
        if promises(design).reservations {
            assert_eq!(reserved, Ok(()), "{design}: {available} of {free}");
        } else {
            assert_eq!(reserved, Err(rustix::io::Errno::OPNOTSUPP), "{design}");
        }
        drop(file);
        place.umount();
        place.check();
    }
}

#[test]
fn a_directory_that_has_changed_is_listed_anew() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount("");
        let dir = place.dir().join("d");
        let list = || {
            let entries = fs::read_dir(&dir).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        fs::create_dir(&dir).unwrap();
        let mut expected = Vec::new();
        for n in 0..300 {
            let name = format!("file {n:03}");
            fs::write(dir.join(&name), "").unwrap();
            expected.push(name);
            if n % 10 == 0 {
                assert_eq!(list(), expected);
                assert_eq!(list(), expected, "from the cache");
            }
        }
        for n in (0..300).step_by(7).rev() {
            fs::remove_file(dir.join(expected.remove(n))).unwrap();
            assert_eq!(list(), expected);
        }
        fs::rename(dir.join(&expected[0]), dir.join("zzz")).unwrap();
        expected.remove(0);
        expected.push("zzz".to_owned());
        assert_eq!(list(), expected);
        place.umount();
        place.check();
    }
}
