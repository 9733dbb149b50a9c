//! Simulators as subjects of plans: their cells are what the simulators say by themselves, and claims are made of them.

use archsim::{Config, Machine};
use lab::{Plan, Runner, Settings, Silent};
use results::{ResultFile, Sample};

fn plan(text: &str) -> Result<Plan, String> {
    let plan = Plan::parse("p.toml", text, false).map_err(|error| error.to_string())?;
    plan.cells().map_err(|error| error.to_string()).map(|_| plan)
}

fn run(text: &str) -> ResultFile {
    let mut runner = Runner::new(Settings::default(), &Silent);
    runner.run(&plan(text).unwrap()).unwrap()
}

fn cell<'a>(file: &'a ResultFile, axes: &[(&str, &str)], repeat: u32) -> &'a Sample {
    let has = |sample: &&Sample| {
        sample.repeat == repeat && axes.iter().all(|(axis, value)| sample.axis(axis) == Some(*value))
    };
    file.samples.iter().find(has).unwrap_or_else(|| panic!("{axes:?}"))
}

const PROCESSOR: &str = "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"60 ops\"\nrepeats = 2\nseed = 3\nmachine = \"tiny\"\n\
                         [[axis]]\nthreads = [1, 2]\n[[axis]]\nscheme = [\"undo-clwb\", \"fwb\"]\n\
                         [[axis]]\nlog_buffer = [8, 15]\nsets = [\"processor.log_buffer\"]\n\
                         [processor]\nwarmup = 20\n[[workload]]\nname = \"archsim/hash\"\n";

#[test]
fn a_cell_of_a_processor_is_the_run_of_the_simulator_with_the_same_seed() {
    let file = run(PROCESSOR);
    assert_eq!((file.machine.as_str(), file.samples.len()), ("tiny", 16));
    for (scheme, threads, log_buffer, repeat) in
        [("fwb", 2, "8", 0), ("undo-clwb", 1, "15", 1), ("fwb", 1, "15", 1)]
    {
        let mut machine = Machine::load("tiny").unwrap();
        machine.set("log_buffer", log_buffer).unwrap();
        machine.set("warmup", "20").unwrap();
        let seed = 3 + u64::from(repeat);
        let config = Config { machine, scheme: scheme.into(), threads, seed, ops: 60, ..Config::default() };
        let alone = archsim::run(&config).unwrap().sample(&config);
        let axes = [("scheme", scheme), ("threads", &threads.to_string()), ("log_buffer", log_buffer)];
        let cell = cell(&file, &axes, repeat);
        assert_eq!((cell.elapsed_ns, cell.ops, cell.seed), (alone.elapsed_ns, 60, seed), "{axes:?}");
        assert_eq!(cell.operations, alone.operations);
        // A scheme that does not read a key runs once for all its values: only the hash of the settings tells them apart.
        let told = |sample: &Sample, name: &str| {
            name == "config_hash" || cell.counters[name] == sample.counters[name]
        };
        assert!(alone.counters.keys().all(|name| told(&alone, name)), "{axes:?}");
        assert_eq!(cell.axis("workload"), Some("archsim/hash"));
    }
}

/// The independent model of the specification gives these throughputs of the device alone, in MiB/s.
#[test]
fn a_file_in_pieces_takes_the_devices_time_of_figure_12() {
    let text = "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"end\"\nmachine = \"fast24-server\"\n[[axis]]\nfs = [\"ssd\"]\n\
                [[axis]]\nmedium = [{ value = \"fast24\", label = \"off\" }, \
                { value = \"fast24,allocation=on\", label = \"on\" }]\n\
                [[axis]]\nwriting = [\"at-once\", \"append\", \"overwrite\"]\nsets = [\"var.writing\"]\n\
                [[axis]]\ndummy = [\"published\", \"224KiB\"]\nsets = [\"var.dummy\"]\n[[workload]]\nname = \"requests/pieces\"\n";
    let file = run(text);
    for (writing, dummy, medium, expected) in [
        ("at-once", "published", "off", 2495.0),
        ("append", "224KiB", "off", 408.0),
        ("append", "224KiB", "on", 2467.0),
        ("append", "published", "off", 1609.0),
        ("append", "published", "on", 2483.0),
        ("overwrite", "224KiB", "off", 408.0),
        ("overwrite", "224KiB", "on", 2467.0),
        ("overwrite", "published", "off", 1609.0),
        ("overwrite", "published", "on", 2483.0),
    ] {
        let sample = cell(&file, &[("writing", writing), ("dummy", dummy), ("medium", medium)], 0);
        let is = 8e9 / sample.counters["device_ns"] as f64;
        assert!((is / expected - 1.0).abs() < 0.03, "{writing} {dummy} {medium}: {is} for {expected}");
        assert!(sample.elapsed_ns > sample.counters["device_ns"], "the host takes its part");
    }
}

#[test]
fn random_sizes_of_other_files_come_from_the_seed_of_the_run() {
    let text = "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"end\"\nmachine = \"fast24-server\"\nrepeats = 2\n\
                [[axis]]\nfs = [\"ssd\"]\n[[axis]]\nmedium = [\"fast24\"]\n\
                [[axis]]\ndummy = [\"published\", \"random\"]\nsets = [\"var.dummy\"]\n[[workload]]\nname = \"requests/pieces\"\n";
    let file = run(text);
    let took = |dummy: &str, repeat| cell(&file, &[("dummy", dummy)], repeat).elapsed_ns;
    assert_eq!(took("published", 0), took("published", 1));
    assert_ne!(took("random", 0), took("random", 1));
}

#[test]
fn crashes_show_a_mutant_and_break_no_promise() {
    let of = |axis: &str| {
        run(&format!(
            "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"300 ops\"\nmachine = \"tiny\"\n[[axis]]\n{axis}\n\
             [[workload]]\nname = \"archsim/crash\"\n"
        ))
    };
    let promises = of("scheme = [\"fwb\", \"undo-clwb\"]");
    assert!(
        promises.samples.iter().all(|sample| sample.counters["crash_failures"] == 0 && sample.ops >= 300)
    );
    let mutants = of("mutant = [\"no-propagation\", \"early-acknowledge\"]");
    assert!(mutants.samples.iter().all(|sample| sample.axis("scheme") == Some("fwb")));
    assert!(mutants.samples.iter().any(|sample| sample.counters["caught"] == 1), "{:?}", mutants.samples);
}

#[test]
fn a_transaction_is_recorded_span_by_span_where_a_plan_asks_for_it() {
    let file = run(&PROCESSOR
        .replace("name = \"archsim/hash\"\n", "name = \"archsim/hash\"\nvars = { timeline = 30 }\n"));
    assert!(file.samples.iter().all(|sample| !sample.spans.is_empty() && sample.ops == 1));
}

#[test]
fn what_no_simulator_can_run_is_told_with_its_place_and_the_nearest_name() {
    let cases = [
        ("scheme = [\"undo-clwb\", \"fwb\"]", "scheme = [\"fbw\"]", "did you mean \"fwb\"?"),
        ("archsim/hash", "archsim/hsah", "did you mean \"hash\"?"),
        ("archsim/hash", "filebench/varmail", "a processor runs archsim/NAME"),
        ("warmup = 20", "warmpu = 20", "did you mean \"warmup\"?"),
        ("log_buffer = [8, 15]", "log_buffer = [8, 5000]", "log_buffer = 5000: from 0 to 4096"),
        ("threads = [1, 2]", "threads = [1, 9]", "threads = 9: from 1 to 8"),
        ("machine = \"tiny\"", "machine = \"tyni\"", "did you mean \"tiny\"?"),
        ("stop = \"60 ops\"", "stop = \"1s\"", "a processor runs until a count"),
        ("machine = \"tiny\"", "machine = \"tiny\"\nclock = \"real\"", "a simulator has the virtual clock"),
        (
            "scheme = [\"undo-clwb\", \"fwb\"]",
            "mutant = [\"late-superblok\"]",
            "did you mean \"late-superblock\"?",
        ),
    ];
    for (right, wrong, words) in cases {
        let error = plan(&PROCESSOR.replace(right, wrong)).unwrap_err();
        assert!(error.contains(words), "{wrong}: {error}");
    }
    let with_calls = "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"60 ops\"\n[[axis]]\nfs = [\"pmfs\"]\n\
                      [[workload]]\nname = \"archsim/hash\"\n";
    let error = plan(with_calls).unwrap_err();
    assert!(error.starts_with("p.toml:7:1: ") && error.contains("it needs a simulated processor"), "{error}");
    let error = plan(&with_calls.replace("\"pmfs\"", "\"ssd\"")).unwrap_err();
    assert!(error.contains("an SSD by itself takes requests/NAME"), "{error}");
}

/// The whole way of the paper, at a size that says nothing about it.
#[test]
fn every_claim_of_hardware_logging_is_made_of_the_cells_of_its_plans() {
    let paper = lab::claims::Paper::load("hw-logging").unwrap();
    let small = |name: &String| {
        let mut plan = Plan::load(name, true).unwrap();
        let count = if name.ends_with("mutants") { 300 } else { 40 };
        (plan.stop, plan.repeats) = (lab::plan::Stop::Operations(count), 2);
        if plan.machine == "hpca18" {
            for (key, value) in
                [("footprint", "128KiB"), ("l2_size", "128KiB"), ("fwb_period", "4000"), ("warmup", "20")]
            {
                plan.processor.insert(key.to_owned(), value.to_owned());
            }
        }
        plan
    };
    let plans: Vec<Plan> = paper.plans_of_claims().iter().map(small).collect();
    let results = Runner::new(Settings::default(), &Silent).run_all(&plans).unwrap();
    let measured: lab::claims::Measured =
        results.into_iter().map(|result| (result.name.clone(), result)).collect();
    let judged = paper.judge(&measured);
    assert_eq!(judged.len(), paper.claims.len());
    for claim in &judged {
        assert!(claim.value.is_some_and(f64::is_finite), "{}: {:?}", claim.id, claim.reason);
    }
    let value = |id: &str| judged.iter().find(|claim| claim.id == id).unwrap().value.unwrap();
    assert_eq!((value("hwlog.registers"), value("hwlog.tag_bit"), value("hwlog.crash")), (17.0, 1.0, 0.0));
    assert_eq!((value("hwlog.no_extra_reads"), value("hwlog.interface")), (0.0, 0.0));
    let by_seed = |id: &str| &judged.iter().find(|claim| claim.id == id).unwrap().by_seed;
    let throughput = by_seed("hwlog.throughput");
    let mean = throughput.iter().sum::<f64>() / 2.0;
    assert!((mean - value("hwlog.throughput")).abs() < 1e-12 && (throughput[0] - throughput[1]).abs() > 0.0);
    for (seed, value) in throughput.iter().enumerate() {
        assert!(
            (value
                - by_hand(&measured["hw-logging"], seed as u32, |sample| 1.0 / sample.throughput_ops_per_s))
            .abs()
                < 1e-9
        );
    }
    let traffic = by_seed("hwlog.traffic");
    let bytes = |sample: &Sample| sample.counters["nvram_bytes"] as f64 / sample.ops as f64;
    assert!((traffic[1] - by_hand(&measured["hw-logging"], 1, bytes)).abs() < 1e-9);
}

/// What the paper's file says in words: the faster software scheme by fwb, geometric mean over the ten, mean over 1 and 8 threads.
fn by_hand(file: &ResultFile, seed: u32, metric: impl Fn(&Sample) -> f64) -> f64 {
    let workloads = file.axis_values("workload");
    assert_eq!(workloads.len(), 10);
    let end = |threads: &str| {
        let logs = workloads.iter().map(|workload| {
            let at = |scheme| {
                cell(file, &[("workload", workload), ("threads", threads), ("scheme", scheme)], seed)
            };
            let (undo, redo) = (at("undo-clwb"), at("redo-clwb"));
            let faster = if undo.throughput_ops_per_s >= redo.throughput_ops_per_s { undo } else { redo };
            sim::math::ln(metric(faster) / metric(at("fwb")))
        });
        sim::math::exp(logs.sum::<f64>() / 10.0)
    };
    f64::midpoint(end("1"), end("8"))
}
