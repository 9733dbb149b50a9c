//! Bonnie, archives and FFSB on designs: what they leave is there after the next mount, and every run is repeatable.

use crate::app::{every_design, is_whole, priced, run};

/// Runs a workload twice on every design; the samples of the first.
fn twice(workload: &str, vars: &str) -> Vec<results::Sample> {
    let once = || run(&priced("end"), &every_design(), workload, vars).samples;
    let (first, second) = (once(), once());
    assert_eq!(first.len(), fs::FILE_SYSTEMS.len());
    for (one, other) in first.iter().zip(&second) {
        is_whole(one);
        let told = |sample: &results::Sample| (sample.ops, sample.elapsed_ns, sample.counters.clone());
        assert_eq!(told(one), told(other), "{workload}: {:?}", one.axes);
    }
    first
}

#[test]
fn every_design_does_the_passes_of_bonnie_in_the_same_time_again() {
    let vars = "size = \"512KiB\", chars = \"8KiB\", seeks = \"100\", files = \"1\", largest = \"2000\", directories = \"2\"";
    for sample in twice("bonnie/bonnie++", vars) {
        assert_eq!(sample.counters["bonnie.seeks.tickets"], 100, "{:?}", sample.axes);
    }
    for sample in twice("bonnie/bonnie", "size = \"256KiB\", seeks = \"100\"") {
        assert!(sample.counters["bonnie.putc.kib_per_s"] > 0, "{:?}", sample.axes);
    }
}

#[test]
fn every_design_packs_and_unpacks_a_tree_and_keeps_each_byte_of_it() {
    for name in ["tar", "untar", "zip", "unzip"] {
        for sample in
            twice(&format!("archive/{name}"), "files = \"40\", largest = \"64KiB\", clients = \"2\"")
        {
            // Half of a directory's twelve entries are files.
            assert_eq!(sample.ops, 2 * (40 + 7), "{name}: {:?}", sample.axes);
        }
    }
}

#[test]
fn every_design_runs_a_profile_of_ffsb() {
    let vars =
        "read = \"50\", write = \"50\", fsync = \"true\", files = \"30\", directories = \"3\", time = \"1\"";
    let file = run(&priced("2000 ops"), &every_design(), "ffsb/mix", vars);
    for sample in &file.samples {
        is_whole(sample);
        assert_eq!(sample.read_bytes + sample.written_bytes, 2000 * 4096, "{:?}", sample.axes);
    }
}

/// Of one task: a read that another task's write comes between copies a page again, and counts again.
#[test]
fn file_data_is_counted_in_the_page_cache_and_in_the_journal_where_it_goes_there() {
    let axes = "[[axis]]\nfs = [\"ext4\", { name = \"ext4\", label = \"journaled\", data = \"journal\" }, \"ext4-dax\"]\n\
                [[axis]]\nmedium = [\"dram\"]\n[[axis]]\nthreads = [1]";
    let file = run("stop = \"2000 ops\"", axes, "ffsb/mix", "read = \"50\", write = \"50\", files = \"30\"");
    for sample in &file.samples {
        is_whole(sample);
        let data = sample.read_bytes + sample.written_bytes;
        let wanted = match sample.axis("fs") {
            Some("ext4") => (data, 0),
            Some("journaled") => (data, sample.written_bytes),
            _ => (0, 0),
        };
        let count = |name: &str| sample.counters[name];
        assert_eq!((count("cache.file_bytes"), count("ext4.journaled_bytes")), wanted, "{:?}", sample.axes);
    }
}
