//! fio's job files on every design and on the host's kernel: each of those that come with Weir completes, and leaves what it must.

use lab::{Plan, Runner, Settings, Silent};
use results::{ResultFile, Sample};
use workload::suite;

/// Plans of job files, with variables that make them small.
fn plan(head: &str, axes: &str, workloads: &[(&str, &str)]) -> Plan {
    let workload =
        |(name, vars): &(&str, &str)| format!("[[workload]]\nname = \"{name}\"\nvars = {{ {vars} }}\n");
    let workloads: String = workloads.iter().map(workload).collect();
    let text = format!("[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"end\"\n{head}\n{axes}\n{workloads}");
    Plan::parse("t.toml", &text, false).unwrap_or_else(|error| panic!("{error}"))
}

fn run(plan: &Plan, check: bool) -> ResultFile {
    let settings = Settings { check, jobs: 1, ..Settings::default() };
    Runner::new(settings, &Silent).run(plan).unwrap_or_else(|error| panic!("{error}"))
}

fn names() -> Vec<String> {
    suite::by_name("fio").unwrap().entries().iter().map(|entry| format!("fio/{}", entry.name)).collect()
}

/// A second of each that goes by time would take long where tests are built without the optimizer.
const SHORT: &str = "size = \"1m\", io_size = \"1m\"";
const SHORT_TIMED: &str = "size = \"1m\", runtime = \"20ms\", ramp_time = \"5ms\"";
/// Under the real clock a count ends a job, so that a busy host changes nothing.
const COUNTED: &str = "size = \"1m\", runtime = \"60\", ramp_time = \"0\", number_ios = \"40\"";

fn small<'a>(names: &'a [String], timed_vars: &'static str) -> Vec<(&'a str, &'static str)> {
    let timed = ["fio/mixed", "fio/openloop", "fio/timed"];
    names
        .iter()
        .map(|name| (name.as_str(), if timed.contains(&name.as_str()) { timed_vars } else { SHORT }))
        .collect()
}

fn is_whole(sample: &Sample) {
    let what = &sample.axes;
    assert!(sample.ops > 0 && sample.errors == 0 && !sample.partial, "{what:?}: {:?}", sample.notes);
    let data = |direction: &str| ["read", "write", "trim"].contains(&direction);
    let jobs: u64 = sample
        .jobs
        .iter()
        .filter(|job| data(&job.direction) && !job.name.starts_with("group "))
        .map(|job| job.count)
        .sum();
    assert_eq!(jobs, sample.ops, "{what:?}: the jobs' I/Os are the sample's");
    assert_eq!(sample.latency_ns().count(), sample.ops, "{what:?}: every I/O has a latency");
    assert!(sample.jobs.iter().all(|job| job.elapsed_ns > 0 && job.lat_ns.count() == job.count), "{what:?}");
}

fn quoted(design: &dyn design::Design) -> String {
    format!("{:?}", design.name())
}

/// Whether a design maps files.
fn maps(design: &'static dyn design::Design) -> bool {
    let (setup, options) = (
        sim::Setup::virtual_clock(sim::Machine::unit(), sim::Seed(1)),
        design::Options::defaults(design.options()),
    );
    let maps = sim::run(&setup, move || {
        let null = Box::new(media::nvmm::null::Null);
        let region = media::Region::anonymous(sim::Bytes::mib(64), null).unwrap();
        let storage = media::Storage::of_memory(region.into());
        design.format().mkfs(&storage, &options).unwrap();
        let mounted = design.mount(&storage, &options).unwrap();
        mounted.unmount().unwrap();
        mounted.mapped_files().is_some()
    });
    maps.unwrap()
}

#[test]
fn every_job_file_runs_on_every_design_and_leaves_what_it_must() {
    let (mapping, others): (Vec<_>, Vec<_>) =
        fs::FILE_SYSTEMS.iter().copied().partition(|design| maps(*design));
    let mut names = names();
    for designs in [mapping, others].map(|designs| designs.into_iter().map(quoted).collect::<Vec<_>>()) {
        let listed = designs.join(", ");
        let buffer = if listed.contains("hinfs") { "[fs]\nbuffer = \"8MiB\"" } else { "" };
        let axes = format!("[[axis]]\nfs = [{listed}]\n[[axis]]\nmedium = [\"dram\"]\n{buffer}");
        let file = run(&plan("prices = \"ran\"", &axes, &small(&names, SHORT_TIMED)), true);
        assert_eq!(file.samples.len(), names.len() * designs.len());
        file.samples.iter().for_each(is_whole);
        // The rest of the designs maps no files.
        names.retain(|name| name != "fio/mapped");
    }
}

/// What must be shown: the ten run on pmfs, hinfs and host, and the host is left as it was.
#[test]
fn every_job_file_runs_under_the_real_clock_in_process_and_on_the_hosts_kernel() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(folder.path().join("own"), "of the user").unwrap();
    let axes = format!("[[axis]]\nfs = [\"pmfs\", \"hinfs\", \"host:{}\"]", folder.path().display());
    let names = names();
    let file = run(&plan("clock = \"real\"", &axes, &small(&names, COUNTED)), false);
    assert_eq!(file.samples.len(), 3 * names.len());
    file.samples.iter().for_each(is_whole);
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["own"]);
}

#[test]
fn a_plan_varies_options_of_a_job_file() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("a.fio");
    std::fs::write(&job, "[a]\nrw=randread\nsize=1m\nbs=${BS}\n").unwrap();
    let axes = "[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nbs = [\"4k\", \"64k\"]\nsets = [\"var.BS\"]";
    let file = run(&plan("", axes, &[(job.to_str().unwrap(), "")]), true);
    assert_eq!(file.samples.iter().map(|sample| sample.ops).collect::<Vec<_>>(), [256, 16]);
}

#[test]
fn the_same_seed_gives_the_same_samples() {
    let axes = "[[axis]]\nfs = [\"hinfs\"]\n[fs]\nbuffer = \"8MiB\"";
    let samples =
        || run(&plan("", axes, &[("fio/mixed", SHORT_TIMED), ("fio/phases", SHORT)]), false).samples;
    assert_eq!(samples(), samples());
}

#[test]
fn only_a_workload_that_ends_by_itself_needs_no_time() {
    let plan = plan("", "[[axis]]\nfs = [\"pmfs\"]", &[("filebench/varmail", "")]);
    let error = Runner::new(Settings::default(), &Silent).run(&plan).unwrap_err().to_string();
    assert!(error.contains("does not end by itself: give it a time or a count"), "{error}");
}

#[test]
fn calls_over_time_are_those_of_the_time_that_the_job_took() {
    let mut plan = plan("", "[[axis]]\nfs = [\"pmfs\"]", &[("fio/sequential", SHORT)]);
    let ended = run(&plan, false);
    assert_eq!(ended.samples[0].series, None, "the length of the run is not known beforehand");
    plan.stop = "1s".parse().unwrap();
    let limited = run(&plan, false);
    let series = limited.samples[0].series.as_ref().expect("it has a limit");
    let (covered, elapsed) = (series.step_ns * series.ops.len() as u64, limited.samples[0].elapsed_ns);
    assert!(covered <= elapsed + series.step_ns, "{covered} ns of calls in {elapsed} ns");
}
