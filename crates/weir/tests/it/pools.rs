//! Pools as files of the host: their space, and how they get more.
//!
//! What mounts takes root and `/dev/fuse`; without them it says that it is skipped.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::shared::place::{Place, can_mount, stderr, weir};

const MIB: u64 = 1 << 20;
/// Designs whose pools can grow, and have holes.
const DESIGNS: [&str; 3] = ["pmfs", "hinfs", "nova"];

fn run(arguments: &[&str], path: &Path, more: &[&str]) -> Output {
    weir().args(arguments).arg(path).args(more).output().expect("weir runs")
}

/// Runs it, and complains of a failure.
fn done(arguments: &[&str], path: &Path, more: &[&str]) {
    let output = run(arguments, path, more);
    assert!(output.status.success(), "{arguments:?} {more:?}: {}", stderr(&output));
}

/// What a file takes of the host.
fn taken(path: &Path) -> u64 {
    fs::metadata(path).expect("it is there").blocks() * 512
}

fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 253) as u8).collect()
}

#[test]
fn a_pool_grows_with_its_files_and_is_never_made_smaller() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        place.mount("");
        fs::write(place.dir().join("file"), pattern(3 * MIB)).unwrap();
        let in_use = run(&["resize"], &place.pool(), &["128MiB"]);
        assert!(stderr(&in_use).contains("mounted on"), "{design}: {}", stderr(&in_use));
        place.umount();
        let smaller = run(&["resize"], &place.pool(), &["32MiB"]);
        assert_eq!(smaller.status.code(), Some(2), "{design}");
        assert!(stderr(&smaller).contains("never made smaller"), "{design}: {}", stderr(&smaller));
        assert_eq!(fs::metadata(place.pool()).unwrap().len(), 64 * MIB);
        done(&["resize"], &place.pool(), &["128MiB"]);
        done(&["resize"], &place.pool(), &["128MiB"]);
        place.check();
        place.mount("");
        assert!(fs::read(place.dir().join("file")).unwrap() == pattern(3 * MIB), "{design}");
        fs::write(place.dir().join("large"), pattern(100 * MIB)).unwrap();
        place.umount();
        place.check();
    }
}

#[test]
fn a_pool_of_crest_grows_eightfold_and_shrinks_where_nothing_is_in_the_way() {
    let place = Place::new("crest");
    done(&["mkfs", "crest"], &place.pool(), &["--size", "8MiB"]);
    let size = || fs::metadata(place.pool()).unwrap().len();
    let says = |size: &str, code: i32, parts: &[&str]| {
        let output = run(&["resize"], &place.pool(), &[size]);
        assert_eq!(output.status.code(), Some(code), "{size}: {}", stderr(&output));
        for part in parts {
            assert!(stderr(&output).contains(part), "{size}: {}", stderr(&output));
        }
    };
    says("128MiB", 2, &["eight times", "give a smaller size", "weir mkfs"]);
    assert_eq!(size(), 8 * MIB);
    says("64MiB", 0, &["crest grew from 8 MiB to 64 MiB"]);
    place.check();
    if can_mount() {
        place.mount("");
        fs::write(place.dir().join("file"), pattern(20 * MIB)).unwrap();
        place.umount();
        says("16MiB", 2, &["MiB of files lie behind 16 MiB", "give a larger size"]);
        assert_eq!(size(), 64 * MIB);
        place.mount("");
        assert!(fs::read(place.dir().join("file")).unwrap() == pattern(20 * MIB));
        fs::remove_file(place.dir().join("file")).unwrap();
        place.umount();
    }
    says("16MiB", 0, &["crest shrank from 64 MiB to 16 MiB"]);
    assert_eq!(size(), 16 * MIB);
    says("16MiB", 0, &["nothing was done"]);
    place.check();
}

#[test]
fn a_size_is_rounded_up_to_blocks_and_the_same_size_again_does_nothing() {
    let place = Place::new("pmfs");
    done(&["mkfs", "pmfs"], &place.pool(), &["--size", "64MiB"]);
    let size = || fs::metadata(place.pool()).unwrap().len();
    for told in ["grew from 64 MiB", "already; nothing was done"] {
        let resized = run(&["resize"], &place.pool(), &["100000001"]);
        assert!(resized.status.success() && stderr(&resized).contains(told), "{}", stderr(&resized));
        assert_eq!(size(), 100_003_840);
    }
    let too_large = run(&["resize"], &place.pool(), &["99999TiB"]);
    assert_eq!(too_large.status.code(), Some(4), "{}", stderr(&too_large));
    for part in ["give a smaller size", "still has 95.4 MiB"] {
        assert!(stderr(&too_large).contains(part), "{}", stderr(&too_large));
    }
    assert_eq!(size(), 100_003_840);
    place.check();
}

/// A file of 128 KiB that begins as `head` at `at`.
fn file_with(at: usize, head: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 128 << 10];
    bytes[at..at + head.len()].copy_from_slice(head);
    bytes
}

#[test]
fn mkfs_overwrites_no_file_with_data_unless_it_is_forced() {
    let place = Place::new("pmfs");
    let cases: [(&str, Vec<u8>); 9] = [
        ("data", b"a letter".to_vec()),
        ("data", file_with(100_000, &[1])),
        ("an XFS file system", file_with(0, b"XFSB")),
        ("a Btrfs file system", file_with(0x1_0040, b"_BHRfS_M")),
        ("an NTFS file system", file_with(3, b"NTFS    ")),
        ("swap space", file_with(4086, b"SWAPSPACE2")),
        ("a GPT partition table", file_with(512, b"EFI PART")),
        ("an MBR partition table", file_with(510, &[0x55, 0xAA])),
        ("a LUKS volume", file_with(0, b"LUKS\xba\xbe")),
    ];
    for (what, bytes) in cases {
        fs::write(place.pool(), &bytes).unwrap();
        let refused = run(&["mkfs", "pmfs"], &place.pool(), &["--size", "64MiB"]);
        assert_eq!(refused.status.code(), Some(2), "{what}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(&format!("holds {what}")), "{what}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("--force"), "{what}: {}", stderr(&refused));
        assert!(fs::read(place.pool()).unwrap() == bytes, "{what}: the file has changed");
    }
    let journal = place.folder.path().join("journal");
    fs::write(&journal, "a letter").unwrap();
    let pool = place.folder.path().join("new.weir");
    let refused = run(&["mkfs", "ext4", "--size", "64MiB", "--journal"], &journal, &[pool.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("holds data"), "{}", stderr(&refused));
    assert_eq!(fs::read_to_string(&journal).unwrap(), "a letter");
    done(&["mkfs", "pmfs"], &place.pool(), &["--size", "64MiB", "--force"]);
    let refused = run(&["mkfs", "pmfs"], &place.pool(), &["--size", "128MiB"]);
    assert!(stderr(&refused).contains("holds a pmfs file system"), "{}", stderr(&refused));
    assert_eq!(fs::metadata(place.pool()).unwrap().len(), 64 * MIB, "what was refused has changed the file");
    // A file without data needs no --force.
    for empty in [0, 8 * MIB, 64 * MIB] {
        fs::write(place.pool(), vec![0; empty as usize]).unwrap();
        done(&["mkfs", "pmfs"], &place.pool(), &["--size", "64MiB"]);
        place.check();
    }
}

#[test]
fn what_could_not_be_made_takes_nothing_away() {
    let place = Place::new("pmfs");
    std::os::unix::fs::symlink(place.folder.path().join("not there/pool"), place.pool()).unwrap();
    let commands: [&[&str]; 2] =
        [&["mkfs", "pmfs", "--size", "64MiB"], &["mount", "pmfs", "--size", "64MiB"]];
    for command in commands.into_iter().filter(|command| command[0] == "mkfs" || can_mount()) {
        let dir = place.dir();
        let refused =
            run(command, &place.pool(), &[dir.to_str().unwrap()][..usize::from(command[0] == "mount")]);
        assert!(!refused.status.success());
        assert!(place.pool().is_symlink(), "{command:?}: the link has gone: {}", stderr(&refused));
    }
}

#[test]
fn a_pool_of_ext4_is_left_to_its_own_tools() {
    let place = Place::new("ext4-dax");
    done(&["mkfs", "ext4-dax"], &place.pool(), &["--size", "64MiB"]);
    let refused = run(&["resize"], &place.pool(), &["128MiB"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("resize2fs"), "{}", stderr(&refused));
    assert_eq!(fs::metadata(place.pool()).unwrap().len(), 64 * MIB);
    File::options().write(true).open(place.pool()).unwrap().set_len(128 * MIB).unwrap();
    let Ok(grown) = Command::new("resize2fs").arg(place.pool()).output() else {
        return println!("skipped: resize2fs is missing");
    };
    assert!(grown.status.success(), "{}", stderr(&grown));
    place.check();
    let space = run(&["df"], &place.pool(), &["--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&space.stdout).expect("JSON");
    assert!(space.status.success(), "{shown}");
}

#[test]
fn a_sparse_pool_takes_what_it_holds_and_gives_back_what_was_removed() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        done(&["mkfs", design], &place.pool(), &["--size", "256MiB", "--sparse"]);
        let empty = taken(&place.pool());
        assert!(empty < 64 * MIB, "{design}: an empty pool takes {empty}");
        assert_eq!(fs::metadata(place.pool()).unwrap().len(), 256 * MIB);
        place.mount("");
        fs::write(place.dir().join("kept"), pattern(5 * MIB)).unwrap();
        fs::write(place.dir().join("gone"), pattern(64 * MIB)).unwrap();
        assert!(weir().arg("sync").arg(place.dir()).status().unwrap().success());
        assert!(taken(&place.pool()) > 64 * MIB, "{design}");
        fs::remove_file(place.dir().join("gone")).unwrap();
        // The blocks are free when the kernel has forgotten the file, soon after it was removed.
        let trimmed = (0..6000).map(|_| {
            done(&["trim"], &place.dir(), &[]);
            std::thread::sleep(std::time::Duration::from_millis(50));
            taken(&place.pool())
        });
        let most = empty + 32 * MIB;
        assert!(
            trimmed.into_iter().any(|taken| taken < most),
            "{design}: {} after a trim",
            taken(&place.pool())
        );
        fs::write(place.dir().join("again"), pattern(16 * MIB)).unwrap();
        place.umount();
        done(&["trim"], &place.pool(), &[]);
        place.check();
        done(&["resize"], &place.pool(), &["384MiB"]);
        assert!(taken(&place.pool()) < 128 * MIB, "{design}: it grows by a hole");
        place.mount("");
        assert!(fs::read(place.dir().join("kept")).unwrap() == pattern(5 * MIB), "{design}");
        assert!(fs::read(place.dir().join("again")).unwrap() == pattern(16 * MIB), "{design}");
        place.umount();
        place.check();
    }
}

#[test]
fn a_pool_without_holes_has_them_after_a_trim() {
    for design in DESIGNS {
        let place = Place::new(design);
        done(&["mkfs", design], &place.pool(), &["--size", "64MiB"]);
        assert!(taken(&place.pool()) >= 64 * MIB, "{design}");
        done(&["trim"], &place.pool(), &[]);
        assert!(taken(&place.pool()) < 32 * MIB, "{design}: {}", taken(&place.pool()));
        place.check();
    }
}

#[test]
fn a_pool_that_cannot_be_trimmed_is_left_as_it_was() {
    let place = Place::new("ext4-dax");
    done(&["mkfs", "ext4-dax"], &place.pool(), &["--size", "64MiB"]);
    // Of the superblock: the state, and the features that another reader must know.
    let word = |at: usize| fs::read(place.pool()).unwrap()[1024 + at];
    let found = || (word(0x3a), word(0x60));
    let clean = found();
    let refused = run(&["trim"], &place.pool(), &[]);
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("was not returned: ext4 does not"), "{}", stderr(&refused));
    assert_eq!(found(), clean, "it waits for a recovery");
    place.check();
}

/// A small file system of the host, unmounted at the end.
struct SmallHost(tempfile::TempDir);

impl SmallHost {
    fn new(size: &str) -> Self {
        Self::of("tmpfs", &format!("size={size}"))
    }

    fn of(kind: &str, options: &str) -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", kind, "-o", options, "none"]).arg(host.0.path()).status().unwrap();
        assert!(mounted.success());
        host
    }
}

impl Drop for SmallHost {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_sparse_pool_is_full_when_the_host_is_and_loses_nothing() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let (host, place) = (SmallHost::new("48M"), Place::new(design));
        let pool = host.0.path().join("pool.weir");
        done(&["mkfs", design], &pool, &["--size", "512MiB", "--sparse"]);
        let words: &[&str] = if design == "hinfs" { &["-o", "buffer=4MiB"] } else { &[] };
        let mounted =
            weir().args(["mount", design]).args([&pool, &place.dir()]).args(words).output().unwrap();
        assert!(mounted.status.success(), "{design}: {}", stderr(&mounted));
        fs::write(place.dir().join("kept"), pattern(MIB)).unwrap();
        let mut file = File::create(place.dir().join("much")).unwrap();
        let full = (0..200).find_map(|_| file.write_all(&pattern(MIB)).err()).expect("the host is full");
        assert_eq!(full.raw_os_error(), Some(28), "{design}: {full}");
        drop(file);
        assert!(fs::read(place.dir().join("kept")).unwrap() == pattern(MIB), "{design}");
        fs::remove_file(place.dir().join("much")).unwrap();
        // The blocks are free when the kernel has forgotten the file, which may come after the removal.
        let mut tries = (0..6000).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            done(&["trim"], &place.dir(), &[]);
            fs::write(place.dir().join("more"), pattern(4 * MIB))
        });
        assert!(tries.any(|written| written.is_ok()), "{design}: the space has not come back");
        place.umount();
        done(&["fsck"], &pool, &[]);
    }
}

/// Files of the host until it has no space left.
fn fill(host: &SmallHost) {
    let mut file = File::create(host.0.path().join("fill")).unwrap();
    for len in [1 << 20, 1 << 12, 1] {
        while file.write_all(&pattern(len)).is_ok() {}
    }
}

#[test]
fn a_new_sparse_pool_on_a_full_host_is_refused_and_leaves_nothing() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let host = SmallHost::new("1M");
        fill(&host);
        let pool = host.0.path().join("pool.weir");
        let refused = run(&["mkfs", design], &pool, &["--size", "512MiB", "--sparse"]);
        assert_eq!(refused.status.code(), Some(4), "{design}: {}", stderr(&refused));
        for part in ["pool.weir", "host is full", "free space on it"] {
            assert!(stderr(&refused).contains(part), "{design}: {}", stderr(&refused));
        }
        assert!(!pool.exists(), "{design}");
    }
}

#[test]
fn on_a_full_host_a_sparse_pool_goes_on_with_the_blocks_that_it_has() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let (host, place) = (SmallHost::new("64M"), Place::new(design));
        let pool = host.0.path().join("pool.weir");
        done(&["mkfs", design], &pool, &["--size", "512MiB", "--sparse"]);
        let words: &[&str] = if design == "hinfs" { &["-o", "buffer=4MiB"] } else { &[] };
        let mount = || {
            let mut mount = weir();
            let mounted =
                mount.args(["mount", design]).args([&pool, &place.dir()]).args(words).output().unwrap();
            assert!(mounted.status.success(), "{design}: {}", stderr(&mounted));
        };
        let file = |name: &str| place.dir().join(name);
        let space = || rustix::fs::statvfs(place.dir()).unwrap().f_bfree;
        // The blocks are free when the kernel has forgotten the file, soon after it was removed.
        let remove = |name: &str| {
            let before = space();
            fs::remove_file(file(name)).unwrap();
            let freed = (0..6000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                space() >= before + 15 * MIB / 4096
            });
            assert!(freed, "{design}: {name} keeps its blocks");
        };
        mount();
        fs::write(file("low"), pattern(16 * MIB)).unwrap();
        fs::write(file("high"), pattern(16 * MIB)).unwrap();
        assert!(weir().arg("sync").arg(place.dir()).status().unwrap().success());
        remove("low");
        done(&["trim"], &place.dir(), &[]);
        fill(&host);
        remove("high");
        fs::write(file("new"), pattern(8 * MIB)).unwrap_or_else(|error| panic!("{design}: {error}"));
        place.umount();
        mount();
        assert!(fs::read(file("new")).unwrap() == pattern(8 * MIB), "{design}");
        fs::write(file("newer"), pattern(4 * MIB)).unwrap_or_else(|error| panic!("{design}, anew: {error}"));
        place.umount();
        // With the host still full: what is looked at takes no space.
        done(&["fsck"], &pool, &[]);
        done(&["trim"], &pool, &[]);
        done(&["resize"], &pool, &["1GiB"]);
        done(&["fsck", "--repair"], &pool, &[]);
    }
}

#[test]
fn a_host_that_cannot_take_space_back_is_named_as_the_reason() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let (host, place) = (SmallHost::of("ramfs", "mode=700"), Place::new(design));
        let pool = host.0.path().join("pool.weir");
        done(&["mkfs", design], &pool, &["--size", "64MiB"]);
        let refused = |path: &Path| {
            let refused = run(&["trim"], path, &[]);
            assert_eq!(refused.status.code(), Some(3), "{design}: {}", stderr(&refused));
            for part in ["was not returned", "not supported", "file system of the host", "move the pool"] {
                assert!(stderr(&refused).contains(part), "{design}: {}", stderr(&refused));
            }
        };
        refused(&pool);
        let mounted = weir().args(["mount", design]).args([&pool, &place.dir()]).output().unwrap();
        assert!(mounted.status.success(), "{design}: {}", stderr(&mounted));
        refused(&place.dir());
        let asked = rustix::fs::getxattr(place.dir(), "weir.trim", &mut [0; 20]);
        assert_eq!(asked, Err(rustix::io::Errno::OPNOTSUPP), "{design}");
        place.umount();
        done(&["fsck"], &pool, &[]);
    }
}
