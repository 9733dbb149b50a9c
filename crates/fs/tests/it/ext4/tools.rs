//! The kernel's tools, by which images are judged. Where they are missing a test says so and checks less.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use media::nvmm::Region;

/// Finds a tool, also where root has it.
pub(crate) fn tool(name: &str) -> Option<String> {
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .iter()
        .map(|folder| format!("{folder}/{name}"))
        .find(|path| Path::new(path).exists())
}

/// Whether e2fsck is there; complains loudly, once for each test that asks, when it is not.
pub(crate) fn has_e2fsck() -> bool {
    let has = tool("e2fsck").is_some();
    if !has {
        eprintln!("SKIPPED: e2fsck is not installed (package e2fsprogs): images are judged by weir alone");
    }
    has
}

/// A file that goes with its value.
pub(crate) struct Scratch(pub String);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let folder = if Path::new("/dev/shm").exists() { "/dev/shm".into() } else { std::env::temp_dir() };
        let name = format!("weir-ext4-{}-{}.img", std::process::id(), NEXT.fetch_add(1, Relaxed));
        Self(folder.join(name).display().to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a region to a file.
pub(crate) fn save(region: &Arc<Region>) -> Scratch {
    let mut bytes = vec![0; region.len() as usize];
    region.peek(0, &mut bytes).expect("the whole region");
    let scratch = Scratch::new();
    std::fs::write(&scratch.0, bytes).expect("room for an image");
    scratch
}

/// Runs a tool.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Output {
    let path = tool(name).unwrap_or_else(|| panic!("{name} is not installed"));
    Command::new(path).args(arguments).output().expect("the tool runs")
}

/// What e2fsck holds against an image.
pub(crate) fn e2fsck(region: &Arc<Region>) -> Result<(), String> {
    let image = save(region);
    let output = run("e2fsck", &["-fn", &image.0]);
    if output.status.code() == Some(0) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Err(said.lines().filter(|line| !line.starts_with("Pass ")).take(12).collect::<Vec<_>>().join("; "))
}
