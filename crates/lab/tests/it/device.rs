//! The subject `device`: job files on a block device without a file system.

use lab::{Plan, Runner, Settings, Silent};
use results::Sample;
use workload::suite;

/// Runs a job file with variables on `device` and the medium, and compares all blocks afterwards.
fn run(workload: &str, vars: &str, medium: &str) -> Result<Vec<Sample>, String> {
    let text = format!(
        "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"end\"\n[[axis]]\nfs = [\"device\"]\n[[axis]]\nmedium = [{medium:?}]\n\
         [[workload]]\nname = {workload:?}\nvars = {{ {vars} }}\n"
    );
    let plan = Plan::parse("t.toml", &text, false).map_err(|error| error.to_string())?;
    let settings = Settings { check: true, jobs: 1, ..Settings::default() };
    let result = Runner::new(settings, &Silent).run(&plan).map_err(|error| error.to_string())?;
    let failed =
        result.samples.iter().find_map(|sample| sample.failure.as_ref().map(|failure| failure.what.clone()));
    failed.map_or(Ok(result.samples), Err)
}

#[test]
fn every_job_file_that_maps_nothing_runs_on_a_device() {
    let entries = suite::by_name("fio").unwrap().entries();
    for name in entries.iter().map(|entry| entry.name).filter(|name| *name != "mapped") {
        let timed = "size = \"1m\", runtime = \"20ms\", ramp_time = \"5ms\"";
        let counted = "size = \"1m\", io_size = \"1m\"";
        let vars = if ["mixed", "openloop", "timed"].contains(&name) { timed } else { counted };
        for medium in ["fast24", "dram"] {
            println!("{name} on {medium}");
            let samples = run(&format!("fio/{name}"), vars, medium);
            let samples = samples.unwrap_or_else(|error| panic!("{name} on {medium}: {error}"));
            assert!(samples.iter().all(|sample| sample.ops > 0 && sample.errors == 0), "{name} on {medium}");
        }
    }
}

/// NVMMBD: 64 lines of a 4-KiB page at 200 ns each (HiNFS, EuroSys 2016, section 5.1), and the request beside it.
#[test]
fn a_write_takes_the_time_of_the_device_and_of_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.fio");
    std::fs::write(&job, "[j]\nioengine=psync\nrw=randwrite\nbs=4k\nsize=1m\n").unwrap();
    let samples = run(job.to_str().unwrap(), "", "hinfs,latency=200ns").unwrap();
    let mean = samples[0].latency_ns().mean_ns();
    println!("{mean} ns");
    assert!((12_800.0..16_000.0).contains(&mean), "{mean}");
}

#[test]
fn a_request_that_is_not_whole_blocks_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.fio");
    std::fs::write(&job, "[j]\nioengine=psync\nrw=write\nbs=1000\nsize=100000\n").unwrap();
    let samples = run(job.to_str().unwrap(), "", "fast24").unwrap();
    assert_eq!((samples[0].errors, samples[0].write_ops), (1, 0), "{:?}", samples[0].notes);
}
