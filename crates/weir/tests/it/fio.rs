//! `weir bench job.fio`: a job file of a user, on designs and on a directory of the host.

use std::path::Path;

use crate::shared::{document, told, weir};
use results::ResultFile;

const JOB: &str = "; a log beside random reads and writes, as one finds them in fio's own examples\n\
    [global]\n\
    size=1m\n\
    ioengine=psync\n\
    [log]\n\
    rw=write\n\
    bs=8k\n\
    fdatasync=1\n\
    [data]\n\
    rw=randrw\n\
    rwmixread=70\n\
    bs=4k\n\
    numjobs=2\n\
    group_reporting\n";

fn bench(home: &Path, arguments: &[&str]) -> ResultFile {
    let output = weir(home).args([&["bench", "job.fio", "--json"], arguments].concat()).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    serde_json::from_value(document(&output)).unwrap()
}

/// Bytes by job and direction; what is synced has none.
fn bytes(result: &ResultFile, fs: &str) -> Vec<(String, String, u64)> {
    let sample = result.samples.iter().find(|sample| sample.axis("fs") == Some(fs)).unwrap();
    let jobs = sample.jobs.iter().filter(|job| job.bytes > 0 && !job.name.starts_with("group "));
    jobs.map(|job| (job.name.clone(), job.direction.clone(), job.bytes)).collect()
}

#[test]
fn a_job_file_runs_as_it_is_on_designs_and_on_the_host_and_moves_the_same_bytes() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("job.fio"), JOB).unwrap();
    let designs = bench(home.path(), &["--fs", "pmfs,hinfs"]);
    let pmfs = bytes(&designs, "pmfs");
    assert_eq!(pmfs, bytes(&designs, "hinfs"));
    let of = |job: &str, direction: &str| {
        pmfs.iter().find(|(name, other, _)| (name.as_str(), other.as_str()) == (job, direction)).unwrap().2
    };
    assert_eq!(of("log", "write"), 1 << 20);
    let (read, write) = (of("data", "read"), of("data", "write"));
    assert_eq!(read + write, 2 << 20, "two clones of a job");
    assert!((60..80).contains(&(read * 100 / (read + write))), "70 % are reads: {read} of {}", read + write);
    let sample = &designs.samples[0];
    let log = sample.jobs.iter().find(|job| job.name == "log" && job.direction == "sync").unwrap();
    assert_eq!(log.count, 128, "each write of 8 KiB is synced");

    let dir = home.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let fs = format!("host:{}", dir.display());
    let host = bench(home.path(), &["--fs", &fs, "--clock", "real"]);
    assert_eq!(bytes(&host, &fs), pmfs);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "nothing is left on the host");
}

#[test]
fn what_is_wrong_in_a_job_file_is_named_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("job.fio"), JOB.replace("rwmixread", "rwmxread")).unwrap();
    let output = weir(home.path()).args(["bench", "job.fio", "--fs", "pmfs"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = told(&output);
    assert!(told.contains("job.fio:11") && told.contains("did you mean rwmixread?"), "{told}");
}
