//! `weir bench --kernel-fs` and `--kernel-locks`: what is refused, and as root a run on file systems of this host's kernel.

use crate::shared::{document, told, weir};
use results::{KernelLocks, ResultFile, Sample};

const SMALL: [&str; 6] = ["-D", "files=40", "-D", "blocks=40", "-D", "region=16KiB"];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn what_is_said_wrong_of_the_hosts_kernel_is_refused_with_a_remedy() {
    let home = tempfile::tempdir().unwrap();
    let refused = |arguments: &str, parts: &[&str]| {
        let arguments = ["bench", "fxmark/DRBL"].into_iter().chain(arguments.split_ascii_whitespace());
        let output = weir(home.path()).args(arguments.clone()).output().unwrap();
        let message = told(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{arguments:?}: {message}");
    };
    refused("--kernel-fs ext5 --clock real", &["ext5", "did you mean \"ext4\"?"]);
    refused("--kernel-fs ext4,ext4 --clock real", &["--kernel-fs: ext4 is given twice"]);
    refused("--kernel-fs ext4", &["--clock real"]);
    refused("--kernel-fs ext4 --clock both", &["--clock real"]);
    refused("--kernel-fs ext4 --fs pmfs --clock real", &["cannot be used with"]);
    refused("--kernel-fs tmpfs --clock real --medium floppy", &["floppy", "loop"]);
    refused("--kernel-fs tmpfs --clock real --medium loop --medium zram", &["one --medium"]);
    refused("--fs pmfs --kernel-locks", &["--clock real", "host:DIR"]);
    refused("--fs pmfs --kernel-locks --clock real", &["host:DIR", "--kernel-fs"]);
    refused("--fs kernel:ext4@loop", &["kernel:ext4@loop", "--clock real"]);
    refused("--fs kernel:ext5@loop --clock real", &["did you mean \"ext4\"?"]);
    refused("--clock real", &["--fs"]);
}

#[test]
fn without_root_nothing_is_mounted_and_the_host_is_said_to_be_unable() {
    if is_root() {
        eprintln!("skipped: what a user who is not root is told, since root runs this test");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let output = weir(home.path())
        .args(["bench", "fxmark/DRBL", "--kernel-fs", "tmpfs", "--clock", "real"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(told(&output).contains("only root"), "{}", told(&output));
}

fn run(arguments: &[&str]) -> (ResultFile, String) {
    let home = tempfile::tempdir().unwrap();
    let output = weir(home.path()).arg("bench").args(arguments).arg("--json").args(SMALL).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    (serde_json::from_value(document(&output)).unwrap(), told(&output))
}

#[test]
fn a_lock_of_the_kernel_is_explained() {
    let home = tempfile::tempdir().unwrap();
    for (name, part) in
        [("kernel.directory", "i_rwsem of a directory"), ("linux.journal_buffers", "b_state_lock")]
    {
        let output = weir(home.path()).args(["explain", name]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(part) && text.contains("--kernel-locks"), "{text}");
    }
}

/// What a sample says of its waits: they fit into the time of its tasks, each has a name, and no more is claimed of an operation than
/// it took.
fn is_consistent(sample: &Sample, known: &KernelLocks) {
    let sum: u64 = known.locks.iter().map(|lock| lock.wait_ns).sum();
    assert_eq!(sum, known.wait_ns);
    assert!(known.locks.iter().all(|lock| !lock.name.is_empty() && lock.count > 0 && lock.wait_ns > 0));
    assert!(known.locks.is_sorted_by(|a, b| a.wait_ns >= b.wait_ns));
    for operation in &sample.operations {
        assert_eq!(operation.parts_ns(), operation.total_ns, "{}: its parts are its time", operation.kind);
        let waits: u64 = operation.lock_wait_ns.values().sum();
        assert_eq!(waits, operation.time_ns.get("lock_wait").copied().unwrap_or(0), "{}", operation.kind);
    }
}

#[test]
fn a_file_system_of_the_kernel_is_made_measured_and_gone() {
    if !is_root() {
        eprintln!("skipped: only root can mount a file system of the kernel");
        return;
    }
    let mounts = || std::fs::read_to_string("/proc/self/mounts").unwrap();
    let before = mounts();
    let arguments =
        ["fxmark/MWCM", "--kernel-fs", "tmpfs", "--clock", "real", "--runtime", "100ms", "--threads", "1"];
    let (result, _) = run(&[&arguments[..], &["--repeats", "2", "--region", "256MiB"]].concat());
    assert_eq!(mounts(), before);
    assert_eq!(result.samples.len(), 2, "each repeat has a file system of its own");
    for sample in &result.samples {
        assert_eq!((sample.axis("fs"), sample.axis("medium")), (Some("linux/tmpfs"), None));
        assert!(sample.ops > 0 && sample.kernel_locks.is_none());
        assert!(sample.notes.iter().any(|note| note.contains("tmpfs of 256")), "{:?}", sample.notes);
    }
}

#[test]
fn causes_are_recorded_or_the_host_is_said_not_to_tell_them() {
    let folder = tempfile::tempdir().unwrap();
    let fs = format!("host:{}", folder.path().display());
    let usual =
        ["--clock", "real", "--runtime", "200ms", "--threads", "2", "--causes", "-D", "oversubscribe=true"];
    let (result, _) = run(&[&["fxmark/DWOM", "--fs", &fs][..], &usual].concat());
    let sample = &result.samples[0];
    let known = sample.kernel_locks.as_ref().expect("it was asked for");
    assert!(!known.sources.is_empty() || !known.skipped.is_empty(), "what is not used has a reason");
    assert!(!known.sources.is_empty() || known.locks.is_empty(), "no claim without evidence");
    assert!(known.task_ns >= 2 * sample.elapsed_ns);
    is_consistent(sample, known);
}
