//! ext4 with its journal in another file.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::shared::place::{Place, can_mount, stderr, weir};

fn run(arguments: &[&str], files: &[&Path]) -> Output {
    weir().args(arguments).args(files).output().expect("weir runs")
}

fn done(arguments: &[&str], files: &[&Path]) {
    let output = run(arguments, files);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
}

fn refused(arguments: &[&str], files: &[&Path], parts: &[&str]) {
    let output = run(arguments, files);
    assert!(!output.status.success(), "{arguments:?}");
    for part in parts {
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
}

/// Makes a pool with a journal, both in `folder`.
fn make(folder: &Path, pool: &Path, journal: &str) {
    let journal = folder.join(journal);
    done(&["mkfs", "ext4", "--size", "64MiB", "--journal"], &[&journal, pool]);
    let mode = fs::metadata(&journal).expect("it was made").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner may read the journal");
}

#[test]
fn a_pool_finds_its_journal_beside_it_or_by_the_name_that_is_given() {
    let home = tempfile::tempdir().expect("a folder");
    let (pool, other) = (home.path().join("pool.img"), home.path().join("other.img"));
    make(home.path(), &pool, "log.img");
    make(home.path(), &other, "log-of-other.img");
    for command in ["fsck", "df"] {
        done(&[command], &[&pool]);
    }
    let away = home.path().join("away");
    fs::create_dir(&away).expect("a folder");
    let journal = away.join("log.img");
    fs::rename(home.path().join("log.img"), &journal).expect("it can be moved");
    refused(&["fsck"], &[&pool], &["not beside it", "UUID", "--journal FILE", "journal_path=FILE"]);
    done(&["fsck", "--journal"], &[&journal, &pool]);
    done(&["fsck", "--repair", "--journal"], &[&journal, &pool]);
    if let Ok(checked) = Command::new("e2fsck").args(["-fn", "-j"]).args([&journal, &pool]).output() {
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
    let wrong = home.path().join("log-of-other.img");
    refused(&["fsck", "--journal"], &[&wrong, &pool], &["log-of-other.img", "not the journal of", "UUID"]);
    let plain = home.path().join("plain.img");
    done(&["mkfs", "ext4", "--size", "64MiB"], &[&plain]);
    refused(&["fsck", "--journal"], &[&journal, &plain], &["in itself"]);
    refused(
        &["mkfs", "pmfs", "--size", "64MiB", "--journal"],
        &[&journal, &home.path().join("pm.img")],
        &["pmfs makes no journal"],
    );
}

#[test]
fn what_a_sync_has_promised_is_recovered_from_the_journal_in_the_other_file() {
    if !can_mount() {
        return;
    }
    let place = Place::new("ext4");
    let (pool, dir) = (place.pool(), place.dir());
    make(place.folder.path(), &pool, "log.img");
    let mut server = weir()
        .args(["mount", "ext4"])
        .args([&pool, &dir])
        .arg("--foreground")
        .stderr(Stdio::null())
        .spawn()
        .expect("weir runs");
    while !place.is_mounted() {
        assert_eq!(server.try_wait().expect("a child"), None, "the server has ended");
        std::thread::yield_now();
    }
    fs::create_dir(dir.join("folder")).expect("mkdir");
    let mut file = File::create(dir.join("folder/file")).expect("create");
    file.write_all(&[7; 9000]).expect("write");
    file.sync_all().expect("sync");
    File::open(dir.join("folder")).and_then(|folder| folder.sync_all()).expect("sync");
    drop(file);
    server.kill().expect("it runs");
    server.wait().expect("a child");
    let _ = run(&["umount"], &[&dir]);
    let journal = place.folder.path().join("log.img");
    let options = format!("journal_path={}", journal.display());
    done(&["mount", "ext4", "-o", &options], &[&pool, &dir]);
    assert_eq!(fs::read(dir.join("folder/file")).expect("it is there"), [7; 9000]);
    place.umount();
    place.check();
}
