//! A pool on a disk that refuses writes for a while, as a thin-provisioned one does that has no space left: what the host has
//! dropped
//! then is lost, and no later sync says otherwise.
//!
//! It takes root, `/dev/fuse`, `losetup` and `mkfs.ext4`; without them the test says that it is skipped.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shared::place::{DESIGNS, Place, can_mount, pattern, stderr, weir};

/// A host's file system on a loop device, whose file lies on a small one in memory. Undone at the end.
struct Disk {
    folder: tempfile::TempDir,
    device: String,
}

impl Disk {
    /// None where a tool is missing.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let [memory, top] = ["memory", "top"].map(|name| folder.path().join(name));
        fs::create_dir(&memory).expect("a directory");
        fs::create_dir(&top).expect("a directory");
        said(Command::new("mount").args(["-t", "tmpfs", "-o", "size=40m", "none"]).arg(&memory))?;
        let file = memory.join("disk");
        File::create(&file).and_then(|file| file.set_len(150 << 20)).expect("a file");
        let device = said(Command::new("losetup").args(["--find", "--show"]).arg(&file));
        let disk = Self { folder, device: device?.trim().to_owned() };
        said(Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(&disk.device))?;
        said(Command::new("mount").args(["-o", "errors=continue"]).arg(&disk.device).arg(&top))?;
        Some(disk)
    }

    fn pool(&self) -> PathBuf {
        self.folder.path().join("top/pool.weir")
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("memory/filler")
    }

    /// From here on the disk takes nothing new.
    fn fill(&self) {
        let mut filler = File::create(self.filler()).expect("a file");
        while filler.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path().join("top")).output();
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).output();
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path().join("memory")).output();
    }
}

/// What a tool of the host says; none where there is no such tool, or it cannot do this here.
fn said(tool: &mut Command) -> Option<String> {
    let output = tool.output().ok().filter(|output| output.status.success());
    if output.is_none() {
        println!("skipped: {tool:?}");
    }
    Some(String::from_utf8_lossy(&output?.stdout).into_owned())
}

#[test]
fn after_a_sync_that_failed_no_sync_and_no_unmount_succeeds_until_the_pool_is_mounted_anew() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let (place, Some(disk)) = (Place::new(design), Disk::new()) else { return };
        let umount = |dir: &Path| weir().arg("umount").arg(dir).output().unwrap();
        let mount = || {
            let mut mount = weir();
            mount.args(["mount", design, "--size", "64MiB"]).args([disk.pool(), place.dir()]);
            let mounted = mount.output().unwrap();
            assert!(mounted.status.success(), "{design}: {}", stderr(&mounted));
        };
        mount();
        let file = File::create(place.dir().join("file")).unwrap();
        disk.fill();
        (&file).write_all(&pattern(1, 8 << 20)).unwrap();
        file.sync_all().expect_err("the disk is full");
        fs::remove_file(disk.filler()).unwrap();
        file.sync_all().expect_err("what the host has dropped is lost");
        let synced = weir().arg("sync").arg(place.dir()).output().unwrap();
        assert_eq!(synced.status.code(), Some(4), "{design}: {}", stderr(&synced));
        drop(file);
        let left = umount(&place.dir());
        assert_eq!(left.status.code(), Some(4), "{design}: {}", stderr(&left));
        for part in ["pool.weir", "earlier", "weir fsck"] {
            assert!(stderr(&left).contains(part), "{design}: {}", stderr(&left));
        }
        mount();
        fs::write(place.dir().join("new"), "x").unwrap();
        File::open(place.dir().join("new")).unwrap().sync_all().expect("the disk is well");
        let left = umount(&place.dir());
        assert!(left.status.success(), "{design}: {}", stderr(&left));
    }
}
