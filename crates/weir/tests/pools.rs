//! Pools as files of the host: their space, and how they get more.
//!
//! What mounts takes root and `/dev/fuse`; without them it says that it is skipped.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

#[path = "shared/place.rs"]
mod place;

use place::{Place, can_mount, stderr, weir};

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
        assert!(stderr(&smaller).contains("not made smaller"), "{design}: {}", stderr(&smaller));
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
        let trimmed = (0..100).map(|_| {
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

/// A small file system of the host, unmounted at the end.
struct SmallHost(tempfile::TempDir);

impl SmallHost {
    fn new(size: &str) -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        let mounted =
            mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(host.0.path()).status().unwrap();
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
        let mut tries = (0..100).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            done(&["trim"], &place.dir(), &[]);
            fs::write(place.dir().join("more"), pattern(4 * MIB))
        });
        assert!(tries.any(|written| written.is_ok()), "{design}: the space has not come back");
        place.umount();
        // fsck reads all of the pool through a map, which fills its holes where the host is a tmpfs.
        let copied = Command::new("cp").arg("--sparse=always").args([&pool, &place.pool()]).status().unwrap();
        assert!(copied.success());
        place.check();
    }
}
