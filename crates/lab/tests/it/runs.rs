//! Running cells: the same bytes from the same seed, however many host threads; whole ledgers; images that check.

use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use lab::{Plan, Progress, Runner, Settings, Silent};
use results::{ResultFile, Sample};

/// A small plan of two workloads, two designs, two thread counts.
const PLAN: &str = r#"
[plan]
name = "small"
why = "does it run?"
stop = "20ms"
seed = 7
machine = "hinfs-server"
[[axis]]
fs = ["pmfs", "hinfs"]
[[axis]]
threads = [1, 3]
[fs]
buffer = "8MiB"
[[workload]]
name = "filebench/fileserver"
vars = { nfiles = 60, meandirwidth = 20 }
[[workload]]
name = "filebench/varmail"
vars = { nfiles = 400 }
[expect]
gain = "hinfs/fileserver > 3 * pmfs/fileserver"
cost = "pmfs/varmail > hinfs/varmail"
bound = "hinfs/varmail > 0.75 * pmfs/varmail"
"#;

fn plan(text: &str) -> Plan {
    Plan::parse("small.toml", text, false).unwrap()
}

fn run(plan: &Plan, settings: Settings) -> ResultFile {
    Runner::new(settings, &Silent).run(plan).unwrap_or_else(|error| panic!("{error}"))
}

fn with_jobs(jobs: usize) -> Settings {
    Settings { jobs, ..Settings::default() }
}

fn samples(file: &ResultFile) -> String {
    serde_json::to_string(&file.samples).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_host_threads() {
    let plan = plan(PLAN);
    let (one, two) = (run(&plan, with_jobs(1)), run(&plan, with_jobs(2)));
    assert_eq!(samples(&one), samples(&two));
    let other = run(&Plan { seed: 8, ..plan }, with_jobs(2));
    assert_ne!(samples(&one), samples(&other));
}

/// The parts of the time of each kind of operation sum to the whole.
fn is_whole(sample: &Sample) {
    for operation in &sample.operations {
        let (axes, kind) = (&sample.axes, &operation.kind);
        assert_eq!(operation.parts_ns(), operation.total_ns, "{axes:?} {kind}");
    }
}

/// Twelve workers and RCache's copier share twelve cores; Filebench's threads have begun when the main task takes its snapshot.
#[test]
fn ledgers_are_whole_where_tasks_share_cores_and_where_the_measured_time_begins_inside_calls() {
    let cell = |fs: &str, threads: u64, stop: &str, workload: &str| {
        let text = format!(
            "[plan]\nname = \"small\"\nwhy = \"is it whole?\"\nstop = \"{stop}\"\n[[axis]]\nfs = [\"{fs}\"]\n\
             [[axis]]\nthreads = [{threads}]\n[[workload]]\n{workload}\n"
        );
        run(&plan(&text), with_jobs(1)).samples.remove(0)
    };
    is_whole(&cell("rcache", 12, "1ms", "name = \"fxmark/DRBM_bg\""));
    is_whole(&cell("hinfs", 4, "20ms", "name = \"filebench/webproxy\"\nvars = { nfiles = 200 }"));
}

#[test]
fn every_cell_has_a_sample_and_every_ledger_is_whole() {
    let file = run(&plan(PLAN), with_jobs(0));
    assert_eq!(file.samples.len(), 8);
    for sample in &file.samples {
        assert!(sample.ops > 0 && sample.throughput_ops_per_s > 0.0, "{:?}", sample.axes);
        assert!(sample.counters["nvmm_written_bytes"] > 0);
        is_whole(sample);
        let write = sample.operation("write").expect("both workloads write");
        assert_eq!(write.latency_ns.count(), write.count, "{:?}", sample.axes);
    }
    // Buffered, fileserver is six to eight times as fast on this medium in four seeds; varmail syncs what it writes.
    assert_eq!(file.hypotheses.len(), 3);
    assert!(file.hypotheses.iter().all(|one| one.holds), "{:?}", file.hypotheses);
}

/// Notes which cells ran.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Progress for Seen {
    fn finished(&self, title: &str, _sample: &Sample) {
        self.0.lock().unwrap().push(title.to_owned());
    }
}

#[test]
fn equal_cells_run_once_within_a_plan_and_across_plans() {
    let axis =
        "[[axis]]\nsize = [\"8MiB\", \"16MiB\"]\nsets = [\"fs.buffer\"]\nunaffected = [\"pmfs\"]\n[fs]";
    let plan = plan(&PLAN.replace("[fs]", axis).replace("threads = [1, 3]", "threads = [1]"));
    let seen = Seen::default();
    let mut runner = Runner::new(with_jobs(2), &seen);
    let first = runner.run(&plan).unwrap();
    assert_eq!((first.samples.len(), seen.0.lock().unwrap().len()), (8, 6));
    let again = runner.run(&Plan { name: "other".to_owned(), ..plan }).unwrap();
    assert_eq!(seen.0.lock().unwrap().len(), 6, "nothing had to run again");
    assert_eq!(samples(&first), samples(&again));
}

#[test]
fn plans_that_run_together_measure_what_each_measures_alone_and_the_longest_cell_begins_first() {
    let first = plan(&PLAN.replace("threads = [1, 3]", "threads = [1]"));
    let second = Plan { name: "second".to_owned(), seed: 9, ..plan(&PLAN.replace("[1, 3]", "[2, 3]")) };
    let seen = Seen::default();
    let together =
        Runner::new(with_jobs(1), &seen).run_all(&[first.clone(), second.clone()]).expect("both run");
    assert_eq!(together.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["small", "second"]);
    for (plan, file) in [first, second].iter().zip(&together) {
        assert_eq!(samples(&run(plan, with_jobs(1))), samples(file));
    }
    let seen = seen.0.lock().unwrap();
    assert!(seen[..4].iter().all(|title| title.contains('3')), "{seen:?}");
}

#[test]
fn plans_of_which_nothing_ran_are_left_out() {
    let settings = with_jobs(1);
    settings.interrupt.store(true, Relaxed);
    let plans = [plan(PLAN), plan(PLAN)];
    let files = Runner::new(settings, &Silent).run_all(&plans).expect("an interrupt is no error");
    assert!(files.len() == 1 && files[0].partial);
}

#[test]
fn an_interrupt_leaves_a_partial_result() {
    let settings = with_jobs(1);
    settings.interrupt.store(true, Relaxed);
    let file = run(&plan(PLAN), settings);
    assert!(file.partial && file.samples.is_empty());
}

#[test]
fn images_are_kept_clean_and_every_file_holds_its_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { save_image: Some(folder.path().to_owned()), check: true, ..with_jobs(2) };
    let media = "[[axis]]\nmedium = [\"hinfs\", \"dram\"]\n[[axis]]\nthreads = [1]";
    run(&plan(&PLAN.replace("[[axis]]\nthreads = [1, 3]", media)), settings);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 8);
}

#[test]
fn an_image_that_cannot_be_written_loses_no_sample() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("file");
    std::fs::write(&taken, "no folder").unwrap();
    let settings = Settings { save_image: Some(taken), ..with_jobs(2) };
    for sample in &run(&plan(PLAN), settings).samples {
        assert!(sample.ops > 0 && sample.counters[lab::cell::IMAGE_LOST] == 1, "{sample:?}");
        assert!(
            sample.notes.last().is_some_and(|note| note.contains("could not be written")),
            "{:?}",
            sample.notes
        );
    }
}

#[test]
fn the_real_clock_and_the_hosts_kernel_run_the_same_workload() {
    let folder = tempfile::tempdir().unwrap();
    let host = format!("fs = [\"pmfs\", \"host:{}\"]", folder.path().display());
    let text = PLAN.replace("fs = [\"pmfs\", \"hinfs\"]", &host).replace("[fs]\nbuffer = \"8MiB\"\n", "");
    let plan = plan(
        &text
            .replace("why = ", "clock = \"real\"\nwhy = ")
            .replace("[1, 3]", "[1]")
            .replace("20ms", "50 ops"),
    );
    let plan = Plan { expect: Vec::new(), ..plan };
    let file = run(&plan, Settings::default());
    assert_eq!((file.samples.len(), file.machine.as_str()), (4, "host"));
    for sample in &file.samples {
        assert!(sample.ops > 0, "{:?}", sample.axes);
    }
}

/// Why the cells of `workload` have no numbers; every cell of the others has them.
fn failure(file: &ResultFile, workload: &str) -> String {
    let (failed, measured): (Vec<&Sample>, _) =
        file.samples.iter().partition(|sample| sample.axis("workload") == Some(workload));
    assert!(
        measured.iter().all(|sample: &&Sample| sample.is_measured() && sample.ops > 0),
        "the others are kept"
    );
    failed[0].failure.as_ref().expect("it failed").what.clone()
}

#[test]
fn too_few_files_for_the_threads_are_told() {
    let file = run(&plan(&PLAN.replace("nfiles = 400", "nfiles = 2")), with_jobs(1));
    let told = failure(&file, "filebench/varmail");
    assert!(told.contains("-D nfiles="), "{told}");
}

/// Full while the files are made, and full because the log of webserver grows: both name the region and a size that parses.
#[test]
fn a_full_region_fails_its_cells_only_and_says_the_size_to_give() {
    let small = PLAN.replace("stop = \"20ms\"", "stop = \"5s\"\nregion = \"9MiB\"");
    // The other workload fits, whichever begins first.
    let small = small.replace("nfiles = 400", "nfiles = 40").replace("threads = [1, 3]", "threads = [1]");
    let prepared = small.replace("nfiles = 60", "nfiles = 600");
    let grown = small.replace("filebench/fileserver", "filebench/webserver");
    for (text, cell) in [(prepared, "filebench/fileserver"), (grown, "filebench/webserver")] {
        let told = failure(&run(&plan(&text), with_jobs(2)), cell);
        assert!(told.contains("the region of 9 MiB is full"), "{told}");
        let size = told.split("--region ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a size");
        assert!(size.parse::<sim::Bytes>().expect("it parses").0 > 9 << 20, "{told}");
    }
}

#[test]
fn a_plan_of_which_no_cell_was_measured_is_an_error_with_the_cell() {
    let small = PLAN.replace("stop = \"20ms\"", "stop = \"20ms\"\nregion = \"5MiB\"");
    let small = small.replace("nfiles = 400", "nfiles = 4000").replace("nfiles = 60", "nfiles = 600");
    let error = Runner::new(with_jobs(1), &Silent).run(&plan(&small)).unwrap_err().to_string();
    assert!(error.contains("the region of 5 MiB is full"), "{error}");
}

/// The log of webserver grows with time: without a region in the plan it has room.
#[test]
fn a_region_is_sized_for_what_a_workload_appends() {
    let text = PLAN.replace("filebench/fileserver", "filebench/webserver").replace("20ms", "3s");
    let file = run(&plan(&text.replace("threads = [1, 3]", "threads = [3]")), with_jobs(2));
    let grown = file.samples.iter().map(|sample| sample.written_bytes).max().unwrap();
    assert!(file.samples.iter().all(Sample::is_measured), "{:?}", file.samples[0].failure);
    assert!(grown > 256 << 20, "{grown}: too little to have filled the region of before");
}

/// Interrupts some time after a cell has begun.
struct Stops(std::sync::Arc<std::sync::atomic::AtomicBool>, std::time::Duration);

impl Progress for Stops {
    fn started(&self, _title: &str) {
        let (flag, wait) = (std::sync::Arc::clone(&self.0), self.1);
        std::thread::spawn(move || {
            std::thread::sleep(wait);
            flag.store(true, Relaxed);
        });
    }
}

/// Ten minutes of virtual time take many of the host's.
#[test]
fn a_virtual_cell_ends_between_two_of_its_operations_when_it_is_interrupted() {
    let text = PLAN.replace("20ms", "600s").replace("threads = [1, 3]", "threads = [1]");
    let interrupted = |millis: u64| {
        let settings = with_jobs(1);
        let stops = Stops(settings.interrupt.clone(), std::time::Duration::from_millis(millis));
        Runner::new(settings, &stops).run(&plan(&text)).expect("an interrupt is no error")
    };
    // A busy host takes longer to come to the first operation.
    let file = [700, 7_000, 70_000].into_iter().map(interrupted).find(|file| {
        assert!(file.partial);
        file.samples.iter().any(|sample| sample.ops > 0)
    });
    let file = file.expect("an operation was done before the interrupt");
    assert!(file.samples.iter().all(|sample| sample.partial), "{:?}", file.samples);
}

#[test]
fn the_host_is_left_without_files_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "stays").unwrap();
    let host = format!("fs = [\"host:{}\"]", folder.path().display());
    let text = PLAN.replace("fs = [\"pmfs\", \"hinfs\"]", &host).replace("[fs]\nbuffer = \"8MiB\"\n", "");
    let text =
        text.replace("why = ", "clock = \"real\"\nwhy = ").replace("[1, 3]", "[1]").replace("20ms", "50 ops");
    let file = run(&Plan { expect: Vec::new(), ..plan(&text) }, Settings::default());
    assert!(file.samples.iter().all(|sample| sample.ops > 0 && !sample.axes.contains_key("medium")));
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
}

#[test]
fn a_sample_of_the_real_clock_says_what_the_host_did_and_a_virtual_one_does_not() {
    let text =
        PLAN.replace("why = ", "clock = \"real\"\nwhy = ").replace("[1, 3]", "[1]").replace("20ms", "50 ops");
    let real = run(&Plan { expect: Vec::new(), ..plan(&text) }, Settings::default());
    for sample in &real.samples {
        let host = sample.host.as_ref().expect("it was watched");
        assert!(host.wall_ns > sample.elapsed_ns && host.cpu_ns > 0 && host.attempts > 0, "{host:?}");
    }
    assert!(run(&plan(PLAN), with_jobs(2)).samples.iter().all(|sample| sample.host.is_none()));
}

/// The parts of originals that have prices are mechanisms: more than one of the operations that `presets/originals` names runs each.
#[test]
fn each_priced_part_runs_in_several_of_the_operations_that_it_is_said_to_run_in() {
    let text = r#"
[plan]
name = "parts"
why = "which operations run them?"
stop = "2ms"
machine = "rcache-server"
[[axis]]
fs = ["nova", "pmfs", "ext4-dax", "wofs", "squirrelfs"]
[[workload]]
name = "filebench/varmail"
vars = { nfiles = 200, nthreads = 2 }
[[workload]]
name = "filebench/makedirs"
[[workload]]
name = "filebench/removedirs"
[[workload]]
name = "filebench/createfiles"
vars = { nfiles = 400, nthreads = 1 }
[[workload]]
name = "fxmark/MWRM"
[[workload]]
name = "fxmark/DWTL"
vars = { blocks = 200 }
"#;
    let file = run(&plan(text), with_jobs(0));
    let runs = |part: &str, operation: &str| {
        let all = file.samples.iter().filter_map(|sample| sample.operation(operation));
        all.filter_map(|record| record.parts.get(part)).any(|part| part.count > 0)
    };
    let constants = lab::validation::controls::controls(&[], &[]);
    let constants = constants.iter().find(|control| control.name == "N5").unwrap();
    assert!(constants.lines.len() > 10, "{constants:?}");
    for line in &constants.lines {
        let (part, rest) = line.split_once(": ").unwrap();
        let (_, named) = rest.split_once(" ns, in ").unwrap();
        let found: Vec<&str> = named.split(", ").filter(|operation| runs(part, operation)).collect();
        assert!(found.len() >= 2, "{line}: only {found:?} ran it");
    }
}
