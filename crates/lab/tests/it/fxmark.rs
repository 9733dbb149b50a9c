//! FxMark on every design: each benchmark completes, and leaves what it must. `crates/weir/tests/it/fxmark.rs` has it on
//! directories of
//! the host, where a worker is a process of the command.

use lab::{Plan, Runner, Settings, Silent};
use results::scaling::{Limit, LimitKind};
use results::{ResultFile, Sample};
use workload::suite;

/// Every benchmark of the suite, small.
fn plan(head: &str, axes: &str, names: &[&str], vars: &str) -> Plan {
    let workload = |name: &&str| format!("[[workload]]\nname = \"fxmark/{name}\"\nvars = {{ {vars} }}\n");
    let workloads: String = names.iter().map(workload).collect();
    let machine = if head.contains("machine") { "" } else { "machine = \"hinfs-server\"" };
    let text = format!("[plan]\nname = \"t\"\nwhy = \"w\"\n{machine}\n{head}\n{axes}\n{workloads}");
    Plan::parse("t.toml", &text, false).unwrap_or_else(|error| panic!("{error}"))
}

fn run(plan: &Plan, check: bool) -> ResultFile {
    let settings = Settings { check, jobs: 1, ..Settings::default() };
    Runner::new(settings, &Silent).run(plan).unwrap_or_else(|error| panic!("{error}"))
}

fn names() -> Vec<&'static str> {
    suite::by_name("fxmark").unwrap().entries().iter().map(|entry| entry.name).collect()
}

const SMALL: &str = "files = 40, blocks = 40, region = \"16KiB\", file = \"64KiB\", room = \"1MiB\"";

fn is_whole(sample: &Sample) {
    let what = &sample.axes;
    assert!(sample.ops > 0 && sample.errors == 0 && !sample.partial, "{what:?}: {:?}", sample.notes);
    let ops: u64 = sample.workers.iter().filter(|worker| !worker.background).map(|worker| worker.ops).sum();
    assert_eq!(ops, sample.ops, "{what:?}: the workers' operations are the sample's");
    assert_eq!(sample.steps[0].latency_ns.count(), sample.ops, "{what:?}: every operation has a latency");
}

#[test]
fn every_benchmark_completes_on_every_design_and_leaves_what_it_must() {
    let designs: Vec<_> = fs::FILE_SYSTEMS.iter().map(|design| format!("{:?}", design.name())).collect();
    let axes = format!(
        "[[axis]]\nfs = [{}]\n[[axis]]\nmedium = [\"dram\"]\n[[axis]]\nthreads = [3]\n[fs]\nbuffer = \"8MiB\"",
        designs.join(", ")
    );
    let head = "stop = \"200us\"\nprices = \"originals\"";
    let file = run(&plan(head, &axes, &names(), SMALL), true);
    assert_eq!(file.samples.len(), names().len() * designs.len());
    file.samples.iter().for_each(is_whole);
}

#[test]
fn the_ledger_of_the_measured_time_has_whole_calls_only() {
    let axes = "[[axis]]\nfs = [\"pmfs\", \"hinfs\", \"nova\"]\n[[axis]]\nmedium = [\"dram\"]\n[[axis]]\nthreads = [3]";
    let names = ["DRBL", "DRBM", "DRBH", "DWOL", "DWAL", "MRPL", "MRPH", "MWCL"];
    let file = run(&plan("stop = \"200us\"", axes, &names, SMALL), false);
    for sample in &file.samples {
        for operation in sample.operations.iter().filter(|operation| operation.count > 0) {
            let (axes, kind) = (&sample.axes, &operation.kind);
            assert_eq!(operation.parts_ns(), operation.total_ns, "{axes:?} {kind}");
        }
    }
}

#[test]
fn every_benchmark_completes_under_the_real_clock() {
    let axes = "[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nthreads = [2]";
    let vars = format!("oversubscribe = true, {SMALL}");
    let direct = |name: &&&str| !name.ends_with("-direct");
    let names: Vec<_> = names().iter().filter(direct).copied().collect();
    let file = run(&plan("clock = \"real\"\nstop = \"20 ops\"", axes, &names, &vars), false);
    file.samples.iter().for_each(is_whole);
}

#[test]
fn a_directory_of_the_host_is_refused_where_no_program_can_be_a_workers_process() {
    let folder = tempfile::tempdir().unwrap();
    let axes = format!("[[axis]]\nfs = [\"host:{}\"]", folder.path().display());
    let plan = plan("clock = \"real\"\nstop = \"20 ops\"", &axes, &["DWOL"], SMALL);
    let error = Runner::new(Settings::default(), &Silent).run(&plan).unwrap_err().to_string();
    assert!(error.contains("start the process of worker 0"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left");
}

/// The message of a plan with one benchmark that must be refused.
fn refused(name: &str, axes: &str, vars: &str) -> String {
    let axes = format!("[[axis]]\nfs = [\"pmfs\"]\n{axes}");
    let plan = plan("stop = \"1ms\"", &axes, &[name], vars);
    Runner::new(Settings::default(), &Silent).run(&plan).expect_err("it must be refused").to_string()
}

#[test]
fn core_counts_that_cannot_be_are_named_with_the_way_out() {
    let threads = |counts: &str| format!("[[axis]]\nthreads = [{counts}]");
    let many = refused("DRBL", &threads("13"), SMALL);
    assert!(many.contains("13 workers share 12 cores") && many.contains("--machine"), "{many}");
    assert!(refused("DRBL", &threads("0"), SMALL).contains("workers=0 is not a whole number from 1"));
    assert!(refused("DRBL", &threads("\"two\""), SMALL).contains("workers=two is not"));
    assert!(refused("DRBL_bg", &threads("1"), SMALL).contains("give it 2 threads or more"));
    assert!(refused("DRBL", "", "file = \"3KiB\"").contains("whole blocks of 4 KiB"));
    assert!(refused("DRBL", "", "fils = 3").contains("did you mean \"file\" or \"files\"?"));
    let shared = plan(
        "stop = \"50us\"",
        "[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nthreads = [13]",
        &["DRBL"],
        "oversubscribe = true",
    );
    assert_eq!(run(&shared, false).samples[0].notes, ["13 workers share 12 cores"]);
}

#[test]
fn reads_of_another_size_read_so_many_bytes_of_what_was_written() {
    for (name, io) in [("DRBL-64M", 64 << 10), ("DRBL-64M-skewed", 16 << 10)] {
        let vars = format!("file = \"256KiB\", io = \"{}KiB\"", io >> 10);
        let axes = "[[axis]]\nfs = [\"nova\"]\n[[axis]]\nthreads = [2]";
        let sample = run(&plan("stop = \"100 ops\"", axes, &[name], &vars), true).samples[0].clone();
        is_whole(&sample);
        assert_eq!((sample.ops, sample.read_bytes), (100, 100 * io), "{name}");
    }
    assert!(refused("DRBL-64M", "", "file = \"64KiB\", io = \"48KiB\"").contains("is not a multiple of io"));
}

#[test]
fn a_file_that_is_read_before_it_is_overwritten_is_in_the_cache_then() {
    let invalidated = |passes: u32| {
        let vars = format!("file = \"64KiB\", read_first = {passes}");
        let axes = "[[axis]]\nfs = [\"rcache\"]\n[[axis]]\nmedium = [\"dram\"]";
        let file = run(&plan("stop = \"16 ops\"", axes, &["DWOL-64M"], &vars), true);
        is_whole(&file.samples[0]);
        file.samples[0].counters.get("rcache.invalidated").copied().unwrap_or(0)
    };
    assert_eq!(invalidated(0), 0, "nothing has read the file");
    assert!(invalidated(6) > 0, "writes find pages in the cache");
}

#[test]
fn workers_are_placed_socket_by_socket_or_on_the_sockets_in_turn() {
    let cores = |placement: &str| {
        let vars = format!("placement = \"{placement}\"");
        let axes = "[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nthreads = [4]";
        let file = run(&plan("stop = \"50us\"", axes, &["DWOL"], &vars), false);
        file.samples[0].workers.iter().map(|worker| worker.core).collect::<Vec<_>>()
    };
    assert_eq!(cores("seq"), [0, 1, 2, 3].map(Some));
    assert_eq!(cores("rr"), [0, 6, 1, 7].map(Some), "hinfs-server has two sockets of six cores");
    assert_eq!(cores("none"), [None; 4]);
}

fn listed(switches: &str) -> (u64, u64, u64) {
    let mut plan = plan("stop = \"500us\"", "[[axis]]\nfs = [\"pmfs\"]", &["MRDL"], SMALL);
    if !switches.is_empty() {
        plan.workload[0].switches.insert(switches.to_owned(), true);
    }
    let counters = run(&plan, false).samples[0].counters.clone();
    let count = |name: &str| counters[&format!("listing.{name}")];
    (count("entries"), count("getdents"), count("passes"))
}

#[test]
fn a_listing_begins_again_at_the_end_unless_it_is_to_do_as_the_original() {
    let (entries, calls, passes) = listed("");
    assert!(passes > 1 && entries > 42 * (passes - 1), "{entries} entries, {passes} passes");
    assert!(
        calls <= 2 * (passes + 1),
        "{calls} calls in {passes} passes: one finds the end, one begins again"
    );
    let (entries, calls, passes) = listed("empty_getdents");
    assert_eq!(entries, 42, "40 files and the two dots, once");
    assert!(passes + 1 == calls && passes > 10, "each operation after the end is one empty call");
}

#[test]
fn a_run_of_a_number_of_operations_does_so_many() {
    for name in ["DRBL", "DWOM", "MWCL"] {
        let axes = "[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nthreads = [3]";
        let file = run(&plan("stop = \"100 ops\"", axes, &[name], SMALL), true);
        assert_eq!(file.samples[0].ops, 100, "{name}");
    }
}

#[test]
fn workers_that_use_up_their_files_end_the_window_together_or_each_alone() {
    let axes = "[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nthreads = [3]";
    let mut plan = plan("stop = \"1s\"", axes, &["MWUL"], SMALL);
    let together = run(&plan, true).samples[0].clone();
    assert!(together.ops <= 120 && together.workers.iter().any(|worker| worker.ops == 40));
    plan.workload[0].switches.insert("mean_elapsed".to_owned(), true);
    assert_eq!(run(&plan, true).samples[0].ops, 120, "each removes all of its own");
}

/// A benchmark with 1 and 20 workers on FxMark's server, with nothing free and with each of these classes.
fn scaled(designs: &[&str], name: &str, free: &[&str]) -> ResultFile {
    let free = [&["nothing"], free].concat();
    let axes = format!(
        "[[axis]]\nfs = {designs:?}\n[[axis]]\nmedium = [\"dram\"]\n[[axis]]\nthreads = [1, 20]\n[[axis]]\nfree = {free:?}"
    );
    run(&plan("stop = \"200us\"\nmachine = \"fxmark-server\"", &axes, &[name], SMALL), false)
}

/// The sample with so many workers and this class free.
fn with<'f>(file: &'f ResultFile, threads: &str, free: &str) -> &'f Sample {
    let is_it =
        |sample: &&Sample| sample.axis("threads") == Some(threads) && sample.axis("free") == Some(free);
    file.samples.iter().find(is_it).unwrap()
}

#[test]
fn the_line_that_limits_lookups_of_one_file_has_its_name_its_time_and_a_run_without_it() {
    let file = scaled(&["pmfs"], "MRPH", &["vfs.references", "pmfs.inode"]);
    let limit = |free: &str| Limit::of(with(&file, "1", free), with(&file, "20", free));
    let held = limit("nothing").unwrap();
    assert!(held.name == "vfs.references" && held.kind == LimitKind::Contended, "{held:?}");
    assert!(held.share > 0.5 && file.lines["vfs.references"].contains("reference count"), "{held:?}");
    // Each open and close takes and drops the one reference count, and little else.
    let rate = |free: &str| with(&file, "20", free).throughput_ops_per_s;
    assert!(
        rate("vfs.references") > 2.0 * rate("nothing"),
        "{} and {}",
        rate("vfs.references"),
        rate("nothing")
    );
    assert!(limit("vfs.references").is_none_or(|limit| limit.name != "vfs.references"));
    for sample in &file.samples {
        for operation in sample.operations.iter().filter(|operation| operation.count > 0) {
            let named: u64 = operation.named_ns.values().sum();
            let waits = operation.lock_wait_ns.values().chain(operation.line_wait_ns.values());
            assert_eq!((operation.parts_ns(), named), (operation.total_ns, waits.sum()), "{:?}", sample.axes);
            assert!(
                operation.named_ns.iter().all(|(part, ns)| *ns <= operation.time_ns[part]),
                "{operation:?}"
            );
        }
    }
}

#[test]
fn the_word_of_a_pages_lock_belongs_to_the_lock_that_limits_reads_of_one_block() {
    let file = scaled(&["ext4"], "DRBH", &["cache.page"]);
    let held = Limit::of(with(&file, "1", "nothing"), with(&file, "20", "nothing")).unwrap();
    assert!(held.name == "cache.page" && held.kind == LimitKind::Contended, "{held:?}");
    let read = with(&file, "20", "nothing").operation("read").unwrap();
    assert!(read.lock_wait_ns["cache.page"] > 0 && read.line_wait_ns["cache.page"] > 0, "{read:?}");
    assert!(!file.lines.contains_key("cache.page"), "it is no line of its own");
    let rate = |free: &str| with(&file, "20", free).throughput_ops_per_s;
    assert!(rate("cache.page") > 2.0 * rate("nothing"));
}

#[test]
fn what_no_cell_can_have_is_refused_before_anything_runs_and_what_one_has_not_changes_nothing_there() {
    let text = refused("DRBL", "[[axis]]\nfree = [\"nothing\", \"pmfs.inode+pmfs.inod\"]", SMALL);
    let parts =
        ["\"pmfs.inod\"", "did you mean \"pmfs.inode\"?", "There are: ", "vfs.references", "fxmark.run"];
    assert!(parts.iter().all(|part| text.contains(part)) && !text.contains("nova.inode"), "{text}");
    let file = scaled(&["nova", "pmfs"], "DWOM", &["pmfs.inode"]);
    let done = |design: &str| {
        let of_design = file.samples.iter().filter(|sample| sample.axis("fs") == Some(design));
        let many = of_design.filter(|sample| sample.axis("threads") == Some("20"));
        many.map(|sample| sample.ops).collect::<Vec<_>>()
    };
    let (nova, pmfs) = (done("nova"), done("pmfs"));
    assert!(nova[0] == nova[1] && pmfs[1] > pmfs[0], "{nova:?} {pmfs:?}");
}
