//! `weir compare` and `weir baseline` as a gate: what passes, what fails, and with which exit code.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use crate::shared::{document, told, weir};
use results::{Clock, OperationRecord, ResultFile, Sample};

/// A result of two cells, whose repeats spread by a per cent around these rates.
fn result(name: &str, rates: [f64; 2], repeats: u32) -> ResultFile {
    let mut file = ResultFile::new(name, serde_json::Value::Null, 1, Clock::Virtual);
    for (medium, rate) in ["dram", "hinfs"].into_iter().zip(rates) {
        for repeat in 0..repeats {
            let axes = [("fs", "pmfs"), ("medium", medium), ("workload", "w")];
            let axes: BTreeMap<String, String> =
                axes.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into();
            let mut sample = Sample::new(axes, repeat, u64::from(repeat));
            sample.finish(1_000_000, 1_000_000_000);
            sample.throughput_ops_per_s = rate * (1.0 + f64::from(repeat % 3) * 0.005);
            file.samples.push(sample);
        }
    }
    file
}

fn put(home: &Path, file: &str, rates: [f64; 2], repeats: u32) {
    result("plan", rates, repeats).write(home.join(file)).unwrap();
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    weir(home).args(arguments).output().unwrap()
}

fn code(home: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(home, arguments);
    (output.status.code(), told(&output) + &String::from_utf8_lossy(&output.stdout))
}

#[test]
fn exit_codes_of_compare_are_those_that_are_documented() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    put(home, "old.json", [1000.0, 500.0], 6);
    put(home, "same.json", [1001.0, 499.0], 6);
    put(home, "slow.json", [1000.0, 470.0], 6);
    put(home, "once.json", [1000.0, 400.0], 1);
    let mut other = result("plan", [1.0, 1.0], 6);
    other.samples.iter_mut().for_each(|sample| drop(sample.axes.insert("workload".into(), "other".into())));
    other.write(home.join("other.json")).unwrap();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["old.json", "same.json", "--fail-over", "5%"], 0, "no difference of 2 % or more is detectable"),
        (&["old.json", "slow.json"], 0, "slow.json is slower than old.json"),
        (&["old.json", "slow.json", "--fail-over", "5%"], 1, "1 cell is slower by more than 5.0 %"),
        (&["old.json", "slow.json", "--fail-over", "10%"], 0, "slower than"),
        (&["old.json", "once.json", "--fail-over", "5%"], 1, "repeat both to judge"),
        (&["old.json", "other.json"], 1, "nothing was compared"),
        (&["old.json", "lost.json"], 2, "there is no result lost.json"),
        (&["old.json", "--by", "colour"], 2, "no axis \"colour\""),
    ];
    for (arguments, want, says) in cases {
        let (found, text) = code(home, &[&["compare"], arguments].concat());
        assert_eq!(found, Some(want), "{arguments:?}: {text}");
        assert!(text.contains(says), "{arguments:?}: {text}");
    }
}

/// The same rates; of the calls one in fifty takes `tail_ns`.
fn with_tail(tail_ns: u64, calls: u64) -> ResultFile {
    let mut file = result("plan", [1000.0, 500.0], 6);
    for sample in &mut file.samples {
        let mut read = OperationRecord::new("read");
        read.count = calls;
        read.latency_ns.record_n(1_000, calls - calls / 50);
        read.latency_ns.record_n(tail_ns + sample.seed * 100, calls / 50);
        sample.operations.push(read);
    }
    file
}

#[test]
fn a_gate_on_the_tail_sees_what_the_throughput_does_not_show() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for (name, tail, calls) in [("old", 20_000, 5_000), ("slow", 30_000, 5_000), ("few", 20_000, 500)] {
        with_tail(tail, calls).write(home.join(format!("{name}.json"))).unwrap();
    }
    let gate = |new: &str, metric: &str| {
        code(home, &["compare", "old.json", new, "--metric", metric, "--fail-over", "5%"])
    };
    assert_eq!(gate("slow.json", "throughput").0, Some(0));
    let (found, text) = gate("slow.json", "p99");
    assert_eq!(found, Some(1), "{text}");
    assert!(text.contains("slow.json is slower than old.json by p99: 0.67x"), "{text}");
    assert_eq!(gate("slow.json", "p50").0, Some(0));
    let (found, text) = gate("few.json", "p99");
    assert_eq!(found, Some(1), "a tail that cannot be told is no success: {text}");
    assert!(text.contains("p99 needs 1000 calls and 500 were counted"), "{text}");
    assert_eq!(gate("few.json", "p98").0, Some(2));
}

#[test]
fn a_cell_that_failed_fails_the_gate() {
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "old.json", [1000.0, 500.0], 6);
    let mut new = result("plan", [1000.0, 500.0], 6);
    new.samples.iter_mut().filter(|sample| sample.axis("medium") == Some("hinfs")).for_each(fail);
    new.write(home.path().join("new.json")).unwrap();
    let (found, text) = code(home.path(), &["compare", "old.json", "new.json", "--fail-over", "5%"]);
    assert_eq!(found, Some(1), "{text}");
    assert!(text.contains("1 cell failed in the new result") && text.contains("it is full"), "{text}");
}

/// Changes a result of the baseline's cells, compares it with the baseline under a limit of 5 %, and gives exit code and words.
fn against(change: impl Fn(&mut ResultFile), arguments: &[&str]) -> (Option<i32>, String) {
    let home = tempfile::tempdir().unwrap();
    let old = result("plan", [1000.0, 500.0], 6);
    old.write(home.path().join("old.json")).unwrap();
    let mut new = old.clone();
    change(&mut new);
    new.write(home.path().join("new.json")).unwrap();
    code(home.path(), &[&["compare", "old.json", "new.json", "--fail-over", "5%"], arguments].concat())
}

fn fail(sample: &mut Sample) {
    let failure = results::SampleFailure { kind: results::FailureKind::Run, what: "it is full".into() };
    *sample = Sample::failed(sample.axes.clone(), sample.repeat, sample.seed, failure);
}

#[test]
fn a_cell_of_which_some_runs_failed_or_that_is_gone_fails_the_gate() {
    let (found, text) = against(|new| new.samples[..5].iter_mut().for_each(fail), &[]);
    assert_eq!(found, Some(1), "{text}");
    assert!(text.contains("5 of 6 runs failed in new.json: it is full"), "{text}");
    assert!(text.contains("1 cell failed in the new result"), "{text}");
    let gone = |new: &mut ResultFile| {
        new.partial = true;
        new.samples.truncate(6);
    };
    let (found, text) = against(gone, &[]);
    assert_eq!(found, Some(1), "{text}");
    assert!(text.contains("1 cell of the baseline is not in the new result"), "{text}");
    assert!(text.contains("the run of new.json was interrupted"), "{text}");
}

#[test]
fn a_limit_below_the_threshold_is_the_threshold() {
    let home = tempfile::tempdir().unwrap();
    for (name, rate) in [("old.json", 1000.0), ("new.json", 985.0)] {
        let mut steady = result("plan", [rate; 2], 6);
        steady.samples.iter_mut().for_each(|sample| sample.throughput_ops_per_s = rate);
        steady.write(home.path().join(name)).unwrap();
    }
    let (found, text) = code(home.path(), &["compare", "old.json", "new.json", "--fail-over", "1%"]);
    assert_eq!(found, Some(1), "{text}");
    assert!(text.contains("2 cells are slower by more than 1.0 %"), "{text}");
    assert_eq!(code(home.path(), &["compare", "old.json", "new.json", "--fail-over", "2%"]).0, Some(0));
}

#[test]
fn what_differs_besides_the_code_is_noted() {
    type Change = fn(&mut ResultFile);
    let cases: [(Change, &str); 5] = [
        (|new| new.machine = "this-host".into(), "the machine differs"),
        (
            |new| new.plan = serde_json::json!({ "stop": "50ms" }),
            "the plan's \"stop\" differs: none in old.json, 50ms in",
        ),
        (
            |new| new.plan = serde_json::json!({ "quick": true }),
            "the plan's \"quick\" differs: none in old.json, true in",
        ),
        (|new| new.samples.iter_mut().for_each(busy), "the host was busy during 12 of 12 runs of new.json"),
        (|new| new.partial = true, "the run of new.json was interrupted"),
    ];
    for (change, says) in cases {
        let (found, text) = against(change, &[]);
        assert_eq!(found, Some(0), "{text}");
        assert!(text.contains(says), "{says}: {text}");
    }
    assert!(!against(|_| {}, &[]).1.contains("note:"), "equal results have none");
}

fn busy(sample: &mut Sample) {
    let noise = vec!["other processes took 50 % of all processor time".to_owned()];
    sample.host = Some(results::HostRecord { noise, ..Default::default() });
}

#[test]
fn the_two_clocks_are_compared_only_when_asked_for() {
    let real = |new: &mut ResultFile| new.clock = Clock::Real;
    let (found, text) = against(real, &[]);
    assert_eq!(found, Some(2), "{text}");
    assert!(text.contains("give --by clock"), "{text}");
    let (found, text) = against(real, &["--by", "clock"]);
    assert_eq!(found, Some(0), "{text}");
    assert!(text.contains("% or more is detectable: 1.00x"), "{text}");
    let (found, text) = against(|_| {}, &["--by", "clock"]);
    assert!(found == Some(2) && text.contains("no result is of the real clock"), "{text}");
}

#[test]
fn cells_are_compared_across_an_axis_and_written_as_a_page() {
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "r.json", [1000.0, 500.0], 6);
    let arguments = ["compare", "r.json", "--by", "medium", "-o", "diff.html", "-o", "diff.json"];
    let (found, text) = code(home.path(), &arguments);
    assert_eq!(found, Some(0), "{text}");
    assert!(text.contains("hinfs is slower than dram: 0.50x"), "{text}");
    let page = std::fs::read_to_string(home.path().join("diff.html")).unwrap();
    assert!(page.contains("hinfs against dram") && page.contains("role=\"img\""));
    let json = std::fs::read_to_string(home.path().join("diff.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["results"][0]["cells"][0]["verdict"], "slower");
}

#[test]
fn a_baseline_is_saved_compared_with_listed_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    put(home, "old.json", [1000.0, 500.0], 6);
    put(home, "new.json", [900.0, 500.0], 6);
    let ok = |arguments: &[&str]| {
        let (found, text) = code(home, arguments);
        assert_eq!(found, Some(0), "{arguments:?}: {text}");
        text
    };
    ok(&["baseline", "save", "main", "old.json"]);
    assert_eq!(code(home, &["baseline", "save", "main", "new.json"]).0, Some(2), "it is there already");
    assert_eq!(code(home, &["compare", "main", "new.json", "--fail-over", "5%"]).0, Some(1));
    ok(&["baseline", "save", "main", "new.json", "--force"]);
    ok(&["compare", "main", "new.json", "--fail-over", "5%"]);
    let list = document(&run(home, &["baseline", "list", "--json"]));
    assert_eq!(list["baselines"][0]["name"], "main");
    ok(&["baseline", "remove", "main"]);
    let (found, text) = code(home, &["baseline", "remove", "main"]);
    assert!(found == Some(2) && text.contains("there is no baseline main"), "{text}");
    let (found, text) = code(home, &["baseline", "save", "../x", "old.json"]);
    assert!(found == Some(2) && text.contains("cannot be the name"), "{text}");
}

#[test]
fn every_command_prints_one_json_document_where_it_is_asked_to() {
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "old.json", [1000.0, 500.0], 6);
    let cases: [&[&str]; 7] = [
        &["plan", "new", "mine.toml"],
        &["plan", "check", "mine.toml"],
        &["plan", "check", "mine.toml", "quick"],
        &["baseline", "save", "main", "old.json"],
        &["baseline", "remove", "main"],
        &["reproduce", "hinfs", "--list", "--readings"],
        &["reproduce", "hw-logging", "--list", "--readings"],
    ];
    for arguments in cases {
        let json = document(&run(home.path(), &[arguments, &["--json"]].concat()));
        assert!(
            json["schema"].as_str().is_some_and(|schema| schema.starts_with("weir.")),
            "{arguments:?}: {json}"
        );
    }
}

#[test]
fn a_medium_that_is_a_list_is_told_as_the_flags_that_give_it() {
    let home = tempfile::tempdir().unwrap();
    let (found, text) = code(home.path(), &["bench", "varmail", "--fs", "pmfs", "--medium", "hinfs,dram"]);
    assert!(found == Some(2) && text.contains("--medium hinfs --medium dram"), "{text}");
    let (found, text) = code(home.path(), &["bench", "varmail", "--fs", "pmfs", "-D", "nosuch=3"]);
    assert!(found == Some(2) && text.matches(" filesize").count() == 1, "{text}");
}

const PLAN: &str = r#"[plan]
name = "expects"
why = "does a failed expectation fail the run?"
stop = "20 ops"
[[axis]]
fs = ["pmfs", "hinfs"]
[[axis]]
threads = [1]
[fs]
buffer = "8MiB"
[[workload]]
name = "filebench/varmail"
vars = { nfiles = 60 }
[expect]
"#;

#[test]
fn a_failed_expectation_fails_the_run_and_one_that_holds_does_not() {
    let home = tempfile::tempdir().unwrap();
    for (expect, want) in [("hinfs > 0.001 * pmfs", 0), ("hinfs > 1000 * pmfs", 1)] {
        std::fs::write(home.path().join("p.toml"), format!("{PLAN}it = \"{expect}\"\n")).unwrap();
        let (found, text) = code(home.path(), &["run", "p.toml"]);
        assert_eq!(found, Some(want), "{text}");
        assert!(
            want == 0 || text.contains("the plan expected hinfs > 1000 * pmfs, which does not hold"),
            "{text}"
        );
    }
}

#[test]
fn everything_that_is_wrong_in_figures_expectations_and_several_plans_is_told_before_anything_runs() {
    let home = tempfile::tempdir().unwrap();
    let figure = "[[figure]]\nid = \"1\"\ntitle = \"t\"\nkind = \"bars\"\n";
    let text =
        PLAN.replace("[expect]\n", &format!("{figure}x = \"thread\"\n{figure}colour = \"red\"\n[expect]\n"));
    std::fs::write(home.path().join("a.toml"), format!("{text}it = \"hinfz > pmfs/2\"\n")).unwrap();
    std::fs::write(home.path().join("b.toml"), PLAN.replace("pmfs", "pmsf")).unwrap();
    for (arguments, only_a) in
        [(&["plan", "check", "a.toml", "b.toml", "quick"][..], false), (&["run", "a.toml"], true)]
    {
        let (found, text) = code(home.path(), arguments);
        assert_eq!(found, Some(2), "{text}");
        for part in [
            "a.toml:14:1: figure \"1\" names \"thread\", which is no axis of the plan; did you mean \"threads\"?",
            "a.toml:19:1: the plan's figures cannot be read",
            "a.toml:25:6: [expect] \"hinfz > pmfs/2\": no axis has the value \"hinfz\"; did you mean \"hinfs\"?",
            "no axis has the value \"2\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(only_a || (text.contains("did you mean \"pmfs\"?") && text.contains("quick: ")), "{text}");
    }
}

/// Only of the whole plan: a scaled-down variant may leave them out.
#[test]
fn a_figure_that_names_a_value_which_no_cell_has_fails_the_check_of_the_plan() {
    let home = tempfile::tempdir().unwrap();
    let figure = "[[figure]]\nid = \"1\"\ntitle = \"t\"\nkind = \"bars\"\nx = \"threads\"\n";
    for (keys, told) in [
        (
            "relative_to = \"pmfz\"\n",
            "a.toml:14:1: figure \"1\": relative_to names \"pmfz\", which no cell of the plan has as fs",
        ),
        (
            "only = { threads = [\"1\", \"3\"] }\n",
            "only names \"3\", which no cell of the plan has as threads",
        ),
        ("relative_to = \"pmfs\"\nonly = { threads = \"1\" }\n", ""),
    ] {
        let text = PLAN.replace("[expect]\n", &format!("{figure}{keys}[expect]\nit = \"hinfs > pmfs\"\n"));
        std::fs::write(home.path().join("a.toml"), text).unwrap();
        let (found, text) = code(home.path(), &["plan", "check", "a.toml"]);
        assert_eq!(found, Some(if told.is_empty() { 0 } else { 2 }), "{keys}: {text}");
        assert!(text.contains(told), "{keys}: {text}");
    }
}

/// The script of the documentation as it stands there.
fn script() -> String {
    let text = include_str!("../../../../docs/ci.md");
    let block = text.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    block.expect("the page has a block of shell").to_owned()
}

fn ci(home: &Path) -> Output {
    let weir = weir(home).get_program().to_owned();
    let folder = Path::new(&weir).parent().unwrap().to_owned();
    let path = std::env::join_paths([folder, "/usr/bin".into(), "/bin".into()]).unwrap();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script()).current_dir(home).env("PATH", path);
    shell.env("XDG_DATA_HOME", home.join("data")).env("XDG_CONFIG_HOME", home.join("config"));
    shell.output().unwrap()
}

/// The baseline is made faster by so much that the same code is a regression of exactly 5 %.
#[test]
fn the_script_for_ci_passes_without_a_regression_and_fails_with_one_of_5_percent() {
    assert!(script().lines().count() <= 5, "{}", script());
    let home = tempfile::tempdir().unwrap();
    for round in ["the first", "the second"] {
        let output = ci(home.path());
        assert!(output.status.success(), "{round}: {}", told(&output));
    }
    let path = home.path().join("data/weir/baselines/main/result.json");
    let mut baseline = ResultFile::read(&path).unwrap();
    baseline.samples.iter_mut().for_each(|sample| sample.throughput_ops_per_s /= 0.95);
    baseline.write(&path).unwrap();
    let output = ci(home.path());
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("slower by more than 4.0 %"), "{}", told(&output));
    assert!(home.path().join("diff.html").exists(), "the page shows it");
}

#[test]
fn a_new_plan_checks_runs_and_is_never_written_over_another() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(code(home.path(), &["plan", "new", "mine.toml"]).0, Some(0));
    let (found, text) = code(home.path(), &["plan", "check", "mine.toml", "quick"]);
    assert!(found == Some(0) && text.contains("mine.toml: 4 cells, 6 repeats each"), "{text}");
    let (found, text) = code(home.path(), &["plan", "new", "mine.toml"]);
    assert!(found == Some(2) && text.contains("exists"), "{text}");
    let (found, text) = code(home.path(), &["run", "mine.toml"]);
    assert_eq!(found, Some(0), "{text}");
    std::fs::write(home.path().join("bad.toml"), "[plan]\nnmae = \"x\"\n[[axes]]\nfs = [\"pmfs\"]\n")
        .unwrap();
    let (found, text) = code(home.path(), &["plan", "check", "bad.toml"]);
    assert_eq!(found, Some(2), "{text}");
    assert!(text.contains("did you mean \"name\"?") && text.contains("did you mean \"axis\"?"), "{text}");
}
