//! A pool and a place to mount it, for the tests that mount.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// Designs on which what the front ends do is tested.
pub(crate) const DESIGNS: [&str; 2] = ["pmfs", "hinfs"];

/// Every design, for what each promises a mount.
pub(crate) fn designs() -> impl Iterator<Item = &'static str> {
    ::fs::FILE_SYSTEMS.iter().map(|design| design.name())
}

/// What a design promises of a crash.
pub(crate) fn promises(name: &str) -> vfs::Promises {
    let design = ::fs::by_name(name).expect("a design");
    design.promises(&design::Options::defaults(design.options()))
}

pub(crate) fn weir() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("weir"))
}

/// Whether this host lets us mount.
pub(crate) fn can_mount() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let can = rustix::process::geteuid().is_root() && device.is_ok();
    if !can {
        println!("skipped: mounting takes root and /dev/fuse");
    }
    can
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A number that the environment gives to a test, to make a campaign of it.
pub(crate) fn wanted(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// A folder with a pool and a place to mount it, cleared away at the end.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) design: &'static str,
}

impl Place {
    pub(crate) fn new(design: &'static str) -> Self {
        let place = Self { folder: tempfile::tempdir().expect("a folder"), design };
        fs::create_dir(place.dir()).expect("the directory");
        place
    }

    pub(crate) fn pool(&self) -> PathBuf {
        self.folder.path().join("pool.weir")
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = weir();
        let buffer = if self.design.starts_with("hinfs") { "buffer=4MiB" } else { "" };
        command.args(["mount", self.design]).arg(self.pool()).arg(self.dir());
        command.args(["--size", "64MiB", "-o", buffer, "-o", words]);
        command
    }

    pub(crate) fn mount(&self, words: &str) {
        let output = self.command(words).output().expect("weir runs");
        assert!(output.status.success(), "{}", stderr(&output));
    }

    pub(crate) fn is_mounted(&self) -> bool {
        let list = fs::read_to_string("/proc/self/mounts").expect("the list of mounts");
        list.contains(&format!(" {} ", self.dir().display()))
    }

    pub(crate) fn umount(&self) {
        let output = weir().arg("umount").arg(self.dir()).output().expect("weir runs");
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(!self.is_mounted());
    }

    /// Nothing is wrong with the pool, which is not mounted.
    pub(crate) fn check(&self) {
        let output = weir().arg("fsck").arg(self.pool()).output().expect("weir runs");
        assert!(output.status.success(), "{}: {}", self.design, stderr(&output));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = weir().args(["umount", "--lazy"]).arg(self.dir()).output();
        }
    }
}

impl Place {
    /// In the foreground: the server is the child.
    pub(crate) fn serve(&self, words: &str) -> Child {
        self.serve_and_listen(words).0
    }

    /// The same, and what it will say on its standard error.
    pub(crate) fn serve_and_listen(&self, words: &str) -> (Child, impl Iterator<Item = String> + use<>) {
        let mut child =
            self.command(words).arg("--foreground").stderr(Stdio::piped()).spawn().expect("weir runs");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let told: Vec<_> = lines.by_ref().take_while(|line| !line.contains("is mounted on")).collect();
        assert!(self.is_mounted(), "{told:?}");
        (child, lines)
    }
}

/// Bytes that tell where they were written.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (1 + (seed * 97 + at * 31 + at / 253) % 255) as u8).collect()
}

/// Runs a program on the tree, if this host has it.
pub(crate) fn run(program: &mut Command) {
    let Ok(output) = program.output() else { return println!("skipped: {program:?}") };
    assert!(output.status.success(), "{program:?}: {}", stderr(&output));
}
