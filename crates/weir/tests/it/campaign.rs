//! `weir campaign`, the command: what it prints, takes from its environment and refuses, on the program itself. Merging is tested
//! in `lab`, real engines in `tests/cluster.sh`.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::shared::{document, told, weir};

const PLAN: &str = r#"
[plan]
name = "small"
why = "is it the same?"
stop = "2ms"
repeats = 2
[[axis]]
fs = ["pmfs", "hinfs"]
[[workload]]
name = "small.f"
[expect]
cost = "pmfs/small.f > 0.01 * hinfs/small.f"
"#;

fn script(size: &str) -> String {
    format!(
        "define fileset name=f,path=/tmp,size={size},entries=10,dirwidth=20,prealloc\n\
         define process name=p,instances=1 {{ thread name=t,memsize=1m,instances=1 {{\n\
         flowop openfile name=o,filename=f,fd=1\nflowop readwholefile name=r,fd=1,iosize=1m\n\
         flowop closefile name=c,fd=1\n}} }}\nrun 1\n"
    )
}

/// A home with a plan and its script, and a campaign of it in so many shards.
fn made(shards: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("plan.toml"), PLAN).unwrap();
    std::fs::write(home.path().join("small.f"), script("16k")).unwrap();
    let output = run(home.path(), &["new", "c", "plan.toml", "--shards", shards]);
    assert!(output.status.success(), "{}", told(&output));
    home
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    let mut command = weir(home);
    for name in ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "PARALLEL_SEQ"] {
        command.env_remove(name);
    }
    command.arg("campaign").args(arguments).output().unwrap()
}

fn status(home: &Path) -> [u64; 5] {
    let output = run(home, &["status", "c", "--json"]);
    let document = document(&output);
    ["shards", "done", "failed", "missing", "running"].map(|key| document[key].as_u64().unwrap())
}

fn result(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A result without what is of the host or of the command.
fn essence(path: &Path) -> String {
    let mut result = result(path);
    let parts = result.as_object_mut().unwrap();
    for key in ["environment", "command", "hosts", "costs"] {
        parts.shift_remove(key);
    }
    serde_json::to_string_pretty(&result).unwrap()
}

#[test]
fn a_campaign_merges_to_what_run_writes_although_its_script_has_changed_meanwhile() {
    let home = made("3");
    let whole = weir(home.path()).args(["run", "plan.toml", "-o", "alone.json"]).output().unwrap();
    assert!(whole.status.success(), "{}", told(&whole));
    std::fs::write(home.path().join("small.f"), script("64k")).unwrap();
    assert_eq!(status(home.path()), [3, 0, 0, 3, 0]);
    // As GNU parallel counts, from 1.
    let mut second = weir(home.path());
    let output = second.args(["campaign", "run", "c"]).env("PARALLEL_SEQ", "2").output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(status(home.path()), [3, 1, 0, 2, 0]);
    let twice = run(home.path(), &["run", "c", "--index", "1"]);
    assert!(twice.status.success() && told(&twice).contains("shard 1 is done"), "{}", told(&twice));
    let early = run(home.path(), &["merge", "c", "-o", "early.json"]);
    assert_eq!(early.status.code(), Some(1), "{}", told(&early));
    assert!(
        told(&early).contains("2 of 3 shards are not done: 0,2") && !home.path().join("early.json").exists()
    );
    let part = run(home.path(), &["merge", "c", "-o", "part.json", "--partial"]);
    assert!(part.status.success(), "{}", told(&part));
    assert_eq!(result(&home.path().join("part.json"))["partial"], true);
    assert!(run(home.path(), &["run", "c", "--missing"]).status.success());
    assert_eq!(status(home.path()), [3, 3, 0, 0, 0]);
    let merge = run(home.path(), &["merge", "c", "-o", "merged.json", "--verify", "2"]);
    assert!(merge.status.success() && told(&merge).contains("the same bytes here: "), "{}", told(&merge));
    assert!(
        essence(&home.path().join("merged.json")) == essence(&home.path().join("alone.json")),
        "they differ"
    );
    let merged = result(&home.path().join("merged.json"));
    assert_eq!(merged["costs"].as_array().unwrap().len(), 4);
    assert!(
        merged["costs"][0]["cpu_ns"].as_u64().unwrap() > 0 && merged["hosts"].as_array().unwrap().len() == 1
    );
    // Canary: the comparison sees one digit.
    let text = std::fs::read_to_string(home.path().join("merged.json")).unwrap();
    std::fs::write(home.path().join("merged.json"), text.replacen("\"ops\": ", "\"ops\": 1", 1)).unwrap();
    assert!(essence(&home.path().join("merged.json")) != essence(&home.path().join("alone.json")), "blind");
}

#[test]
fn a_program_of_another_build_is_refused_with_the_one_to_use() {
    let home = made("1");
    let path = home.path().join("c/campaign.json");
    let mut manifest = result(&path);
    manifest["build"] = "0000".into();
    std::fs::write(&path, manifest.to_string()).unwrap();
    for arguments in [&["run", "c", "--index", "0"][..], &["merge", "c", "-o", "r.json"]] {
        let output = run(home.path(), arguments);
        assert_eq!(output.status.code(), Some(3), "{}", told(&output));
        assert!(
            told(&output).contains("of build 0000") && told(&output).contains("c/bin/weir"),
            "{}",
            told(&output)
        );
    }
}

#[test]
fn the_text_of_a_campaign_that_was_changed_is_refused() {
    let home = made("1");
    let path = home.path().join("c/campaign.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("size=16k", "size=32k")).unwrap();
    let output = run(home.path(), &["run", "c", "--index", "0"]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(told(&output).contains("has another key here"), "{}", told(&output));
}

#[test]
fn bad_input_is_refused_with_the_way_out() {
    let home = made("2");
    std::fs::write(home.path().join("real.toml"), PLAN.replace("stop =", "clock = \"real\"\nstop ="))
        .unwrap();
    std::fs::create_dir(home.path().join("full")).unwrap();
    std::fs::write(home.path().join("full/x"), "x").unwrap();
    let cases: [(&[&str], i32, &str); 22] = [
        (&["run", "c"], 2, "which shard? give --index 0, or --missing"),
        (&["run", "c", "--index", "2"], 2, "there is no shard 2: the campaign has 0 to 1"),
        (&["run", "nowhere", "--index", "0"], 2, "weir campaign new"),
        (&["run", "c", "--index", "0", "--attempt", "a/b"], 2, "letters, digits and dashes"),
        (&["new", "c", "plan.toml"], 2, "is a campaign already"),
        (&["new", "full", "plan.toml"], 2, "is not empty (it has x)"),
        (&["new", "d", "plan.toml", "plan.toml"], 2, "is given twice"),
        (&["new", "d", "plan.toml", "--shard-seconds", "5"], 2, "60"),
        (&["new", "d", "nothing"], 2, "there is no plan called \"nothing\""),
        (&["new", "d", "real.toml"], 2, "real-clock cells are not shared among hosts yet"),
        (&["merge", "c", "-o", "r.nothing"], 2, "must end in one of"),
        (&["submit", "c", "--engine", "slurm", "--sshlogin", "n1"], 2, "--sshlogin goes with"),
        (&["status", "full"], 2, "there is no campaign"),
        (&["new", "d"], 2, "required"),
        (
            &["new", "d", "--", "bench", "varmail", "--fs", "pmfs"],
            2,
            "a campaign runs plans, `reproduce PAPER --readings`",
        ),
        (&["new", "d", "--", "reproduce", "hinfs"], 2, "by their names"),
        (&["new", "d", "--", "reproduce", "hinfs", "--readings", "-o", "x.json"], 2, "leave -o out"),
        (&["new", "d", "--", "check", "fuzz", "--fs", "pmfs"], 2, "--range A..B"),
        (&["new", "d", "--", "check", "crash", "--fs", "pmfs", "--time", "9s"], 2, "leave --time out"),
        (&["new", "d", "--", "check", "crash", "--fs", "pmfs", "--jobs", "2"], 2, "leave --jobs out"),
        (&["new", "d", "--", "check", "crash", "--fs", "nothing"], 2, "nothing"),
        (&["new", "d", "--seed", "3", "--", "check", "crash", "--fs", "pmfs"], 2, "behind --"),
    ];
    for (arguments, code, part) in cases {
        let output = run(home.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains(part), "{arguments:?}: {}", told(&output));
    }
    let mut outside = weir(home.path());
    let output = outside.args(["campaign", "run", "c"]).env("SLURM_ARRAY_TASK_ID", "x").output().unwrap();
    assert!(
        output.status.code() == Some(2) && told(&output).contains("SLURM_ARRAY_TASK_ID=x"),
        "{}",
        told(&output)
    );
    assert!(!home.path().join("d").exists(), "nothing was made");
}

#[test]
fn what_an_engine_is_given_is_told_and_nothing_runs() {
    let home = made("2");
    let slurm =
        run(home.path(), &["submit", "c", "--engine", "slurm", "--dry-run", "--", "--partition=short"]);
    assert!(slurm.status.success(), "{}", told(&slurm));
    for part in ["sbatch ", "--array=0-1", "--partition=short", "campaign run ", "SLURM_ARRAY_TASK_ID + $1"] {
        assert!(told(&slurm).contains(part), "{part}: {}", told(&slurm));
    }
    let parallel =
        run(home.path(), &["submit", "c", "--engine", "parallel", "--sshlogin", "n1,n2", "--dry-run"]);
    assert!(
        told(&parallel).contains("--sshlogin n1 --sshlogin n2")
            && told(&parallel).contains("--return 'out/{}.")
    );
    let plain = run(home.path(), &["submit", "c", "--engine", "plain"]);
    let lines = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(plain.status.success() && lines.matches("bin/weir campaign run ").count() == 2, "{lines}");
    for engine in ["kubernetes", "htcondor"] {
        let output = run(home.path(), &["submit", "c", "--engine", engine]);
        assert!(output.status.code() == Some(2) && told(&output).contains("--engine plain"), "{engine}");
    }
    assert_eq!(status(home.path()), [2, 0, 0, 2, 0]);
    assert!(!home.path().join("c/jobs.jsonl").exists() && !home.path().join("c/submit/slurm.sh").exists());
}

/// A document of a check without what depends on the host.
fn timeless(path: &Path) -> String {
    let mut document = result(path);
    for design in document["designs"].as_array_mut().unwrap() {
        for key in ["cpu_ns", "elapsed_ns", "images_per_core_second"] {
            design.as_object_mut().unwrap().shift_remove(key);
        }
    }
    serde_json::to_string_pretty(&document).unwrap()
}

/// A campaign of a command, run in reverse order and merged; what the command itself gives; exit codes of both.
fn beside_one_machine(home: &Path, check: &[&str]) -> (Option<i32>, Option<i32>) {
    let made = run(home, &[&["new", "c", "--shards", "3", "--"], check].concat());
    assert!(made.status.success(), "{}", told(&made));
    assert_eq!(status(home), [3, 0, 0, 3, 0]);
    for shard in ["2", "1", "0"] {
        let output = run(home, &["run", "c", "--index", shard]);
        assert!(output.status.success(), "{}", told(&output));
    }
    let merged = run(home, &["merge", "c", "-o", "merged.json", "--verify", "1"]);
    assert!(told(&merged).contains("the same bytes here: "), "{}", told(&merged));
    let alone = weir(home).args(check).arg("--json").output().unwrap();
    std::fs::write(home.join("alone.json"), &alone.stdout).unwrap();
    assert_eq!(timeless(&home.join("merged.json")), timeless(&home.join("alone.json")));
    (merged.status.code(), alone.status.code())
}

/// The lines of the ledger of evidence.
fn evidence(home: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(home.join("data/weir/evidence.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_crash_exploration_in_shards_is_that_of_one_machine_with_one_line_of_evidence() {
    let home = tempfile::tempdir().unwrap();
    let check = ["check", "crash", "--fs", "pmfs", "--depth", "2", "--sample", "12"];
    assert_eq!(beside_one_machine(home.path(), &check), (Some(0), Some(0)));
    let lines = evidence(home.path());
    assert_eq!(lines.len(), 2, "one of the merge, one of the machine alone");
    for key in ["check", "subject", "unit", "count", "failures", "seeds", "asked"] {
        assert_eq!(lines[0][key], lines[1][key], "{key}");
    }
    // A shard that lacks: nothing is recorded.
    let file = std::fs::read_dir(home.path().join("c/out")).unwrap().flatten().next().unwrap().path();
    std::fs::remove_file(file).unwrap();
    assert_eq!(run(home.path(), &["merge", "c", "-o", "p.json"]).status.code(), Some(1));
    let part = run(home.path(), &["merge", "c", "-o", "p.json", "--partial"]);
    assert!(part.status.success() && told(&part).contains("not recorded as evidence"), "{}", told(&part));
    let document = result(&home.path().join("p.json"));
    let count = |key: &str| document["designs"][0][key].as_u64().unwrap();
    assert!(document["partial"] == true && count("workloads") < count("workloads_all"));
    assert_eq!(evidence(home.path()).len(), 2);
    let other = run(home.path(), &["merge", "c", "-o", "p.html", "--partial"]);
    assert!(other.status.code() == Some(2) && told(&other).contains("ends in .json"), "{}", told(&other));
}

/// Canary: each program without its first fence.
#[test]
fn a_violation_that_a_shard_finds_is_in_the_merge_with_its_command() {
    let home = tempfile::tempdir().unwrap();
    let check = ["check", "crash", "--fs", "pmfs", "--sample", "6", "--drop-fence", "1"];
    assert_eq!(beside_one_machine(home.path(), &check), (Some(1), Some(1)));
    let document = result(&home.path().join("merged.json"));
    let violations = document["designs"][0]["violations"].as_array().unwrap();
    assert!(!violations.is_empty());
    assert!(violations[0]["again"].as_str().unwrap().starts_with("weir check crash --fs pmfs"));
    assert!(evidence(home.path()).is_empty(), "a canary is no evidence");
}

#[test]
fn failures_in_shards_are_those_of_one_machine_and_the_tree_that_is_read_counts_once() {
    let home = tempfile::tempdir().unwrap();
    let check = ["check", "faults", "--fs", "pmfs", "--sample", "4"];
    assert_eq!(beside_one_machine(home.path(), &check), (Some(0), Some(0)));
    assert_eq!(result(&home.path().join("merged.json"))["designs"][0]["programs_all"], 5);
}
