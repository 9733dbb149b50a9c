//! `weir check`: what it prints, how it exits, and that it finds what was planted.

use std::process::{Command, Output, Stdio};

use crate::shared::{document, told, weir};
use rustix::process::{Pid, Signal};
use serde_json::Value;

fn check(arguments: &str) -> Output {
    let home = tempfile::tempdir().unwrap();
    let arguments = arguments.replace("HERE", &home.path().display().to_string());
    let mut command = weir(home.path());
    command.arg("check");
    // Words in quotes are one.
    for (number, words) in arguments.split('\'').enumerate() {
        if number % 2 == 0 {
            command.args(words.split_whitespace())
        } else {
            command.arg(words)
        };
    }
    let output = command.output().unwrap();
    let left = std::fs::read_dir(home.path()).unwrap().flatten().map(|entry| entry.file_name());
    let left = left.filter(|name| name != "data").collect::<Vec<_>>();
    assert!(left.is_empty(), "the run has left something behind: {left:?}");
    output
}

fn designs(output: &Output) -> Vec<Value> {
    document(output)["designs"].as_array().unwrap().clone()
}

/// With caches that survive there is one order of stores: fewer images than of all sets that may be lost.
#[test]
fn a_crash_can_be_one_where_the_caches_survive() {
    let home = tempfile::tempdir().unwrap();
    let images = |domain: &str| {
        let arguments = ["check", "crash", "--fs", "nova", "--programs", "rename", "--sample", "3", "--json"];
        let output = weir(home.path()).args(arguments).args(["--domain", domain]).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        document(&output)["designs"][0]["images"].as_u64().unwrap()
    };
    let (adr, eadr) = (images("adr"), images("eadr"));
    assert!(0 < eadr && eadr < adr, "{adr} {eadr}");
}

#[test]
fn designs_and_the_host_answer_as_the_model_does() {
    let output = check("model --fs pmfs,hinfs --ops 6000 --seed 5 --host HERE --json");
    assert!(output.status.success(), "{}", told(&output));
    for design in designs(&output) {
        assert_eq!((&design["ops"], &design["differences"]), (&6000.into(), &0.into()), "{design}");
        for count in ["remounts", "out_of_space", "on_host"] {
            assert!(design[count].as_u64().unwrap() > 10, "{count}: {design}");
        }
    }
}

#[test]
fn a_planted_difference_ends_with_a_short_program_and_the_command_that_shows_it_again() {
    let output = check("model --fs pmfs --ops 2000 --fail-store 100 --json");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let failure = &designs(&output)[0]["failure"];
    assert!(failure["program"].as_array().unwrap().len() < 60, "{failure}");
    let again = failure["again"].as_str().unwrap().strip_prefix("weir check ").unwrap();
    let again = check(&format!("{again} --json"));
    assert_eq!(again.status.code(), Some(1), "{}", told(&again));
    assert_eq!(designs(&again)[0]["failure"]["program"], failure["program"]);
}

#[test]
fn crashes_are_counted_and_leave_what_is_allowed() {
    let output = check("crash --fs pmfs,hinfs --programs mkdir --json");
    assert!(output.status.success(), "{}", told(&output));
    for design in designs(&output) {
        assert_eq!((&design["workloads"], &design["violations"]), (&2.into(), &Value::Array(vec![])));
        let counts = ["points", "images", "distinct_images", "distinct_states", "nested_images", "cpu_ns"];
        for count in counts {
            assert!(design[count].as_u64().unwrap() > 1, "{count}: {design}");
        }
    }
}

#[test]
fn two_and_three_programs_are_crashed_one_after_the_other() {
    for depth in 2..=3 {
        let output = check(&format!("crash --fs pmfs --depth {depth} --sample 3 --seed 9 --json"));
        assert!(output.status.success(), "{}", told(&output));
        assert_eq!(designs(&output)[0]["workloads"], 3);
    }
}

/// Shares of one check for several hosts.
#[test]
fn ranges_of_a_check_add_up_to_the_whole() {
    let counts = |range: &str| {
        let output = check(&format!("crash --fs pmfs --programs mkdir {range} --json"));
        let design = document(&output)["designs"][0].clone();
        let keys = [
            "workloads",
            "points",
            "images",
            "distinct_images",
            "distinct_states",
            "nested_images",
            "workloads_all",
        ];
        keys.map(|key| design[key].as_u64().unwrap())
    };
    let whole = counts("");
    let (all, middle) = (whole[0], whole[0] / 2);
    assert!(middle > 0);
    let (one, two) = (counts(&format!("--range 0..{middle}")), counts(&format!("--range {middle}..{all}")));
    let sums: Vec<u64> = one.iter().zip(&two).map(|(one, two)| one + two).collect();
    assert_eq!(sums, whole);
    assert_ne!(one, whole, "a share is not the whole");
    let beyond = check(&format!("crash --fs pmfs --programs mkdir --range 0..{}", all + 1));
    assert!(
        beyond.status.code() == Some(2) && told(&beyond).contains(&format!("there are {all} programs")),
        "{}",
        told(&beyond)
    );
    let empty = check("crash --fs pmfs --range 3..3");
    assert!(empty.status.code() == Some(2) && told(&empty).contains("as in 0..100"), "{}", told(&empty));
}

#[test]
fn random_programs_are_crashed_and_made_to_fail_and_one_is_found_again_by_its_name() {
    for check_of in ["crash", "faults"] {
        let output = check(&format!("{check_of} --fs pmfs --random 2 --seed 3 --json"));
        assert!(output.status.success(), "{}", told(&output));
    }
    let output = check("crash --fs pmfs --random 3 --drop-fence 2 --json");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let violation = &designs(&output)[0]["violations"][0];
    let again = violation["again"].as_str().unwrap().strip_prefix("weir check ").unwrap();
    let again = check(&format!("{again} --json"));
    assert_eq!(designs(&again)[0]["violations"][0], *violation);
}

#[test]
fn a_rename_that_changes_nothing_makes_nothing_durable() {
    for programs in ["rename foo bar; noreplace", "write 65 new; rename over itself"] {
        let output = check(&format!("crash --fs hinfs -O sync=false --depth 2 --programs '{programs}'"));
        assert!(output.status.success(), "{}", told(&output));
    }
}

#[test]
fn a_forgotten_fence_is_a_violation_and_the_command_shows_it_again() {
    let output = check("crash --fs pmfs --programs mkdir --drop-fence 2");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("mkdir A: op 0"), "{text}");
    assert!(text.contains("again: weir check crash --fs pmfs --depth 1 --drop-fence 2 --seed 1"), "{text}");
}

#[test]
fn failures_are_counted_and_leave_what_is_allowed() {
    let output = check("faults --fs pmfs,hinfs --programs mkdir --json");
    assert!(output.status.success(), "{}", told(&output));
    for design in designs(&output) {
        assert_eq!((&design["programs"], &design["violations"]), (&3.into(), &Value::Array(vec![])));
        assert!(design["injected"]["store"].as_u64().unwrap() > 10, "{design}");
        assert!(design["outcomes"]["undone"].as_u64().unwrap() > 10, "{design}");
    }
}

#[test]
fn a_rollback_that_is_left_out_is_a_violation_and_the_command_shows_it_again() {
    let output = check("faults --fs pmfs --programs mkdir --canary");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("mkdir A: store "), "{text}");
    assert!(text.contains("again: weir check faults --fs pmfs --canary --seed 1 --size 1024KiB"), "{text}");
}

#[test]
fn seeded_bugs_are_found() {
    let output = check("recall --fs pmfs,hinfs --only links --json");
    assert!(output.status.success(), "{}", told(&output));
    for design in designs(&output) {
        assert_eq!((&design["found"], &design["seeded"]), (&1.into(), &1.into()), "{design}");
        assert_eq!(design["bugs"][0]["found"]["ops"], 1, "{design}");
    }
    let text = check("recall --fs pmfs --only parent-links").stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("log entry lacks a field") && text.contains("pmfs: recall 1/1"), "{text}");
    let output = check("recall --fs ext2 --only fence");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("ext2: recall 0/0"), "no fence can be left out: {text}");
}

#[test]
fn tasks_at_once_are_run_in_many_orders_and_a_torn_append_is_found_again() {
    let output = check(
        "schedules --fs pmfs,hinfs --schedules 12 --scenario create|unlink --scenario append|read --json",
    );
    assert!(output.status.success(), "{}", told(&output));
    for design in designs(&output) {
        assert_eq!((&design["schedules"], &design["failures"]), (&24.into(), &0.into()), "{design}");
        assert!(design["interleavings"].as_u64().unwrap() > 10, "{design}");
    }
    let output = check("schedules --fs pmfs --schedules 100 --torn-append --scenario append|append --json");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let failure = &designs(&output)[0]["scenarios"][0]["failure"];
    let again = failure["again"].as_str().unwrap().strip_prefix("weir check ").unwrap();
    let again = check(&format!("{} --json", again.replace('\'', "")));
    assert_eq!(again.status.code(), Some(1), "{}", told(&again));
    assert_eq!(designs(&again)[0]["scenarios"][0]["failure"]["switches"], failure["switches"]);
}

#[test]
fn edited_images_are_examined_and_a_fault_is_found_with_the_edit_that_shows_it() {
    let output = check("fuzz --fs pmfs,hinfs --mutants 200 --json");
    assert!(output.status.success(), "{}", told(&output));
    for design in designs(&output) {
        let sum =
            ["refused", "damaged", "sound"].map(|fate| design[fate].as_u64().unwrap()).iter().sum::<u64>();
        assert_eq!((sum, &design["mutants"]), (200, &200.into()), "{design}");
    }
    for fault in ["panic", "loop"] {
        let home = tempfile::tempdir().unwrap();
        let arguments =
            ["check", "fuzz", "--fs", "pmfs", "--fault", fault, "--mutant", "0 8192:0100000000000000"];
        let output = weir(home.path()).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains(&format!("again: weir check fuzz --fs pmfs --fault {fault} --seed 1 --mutant")),
            "{text}"
        );
    }
}

#[test]
fn a_comparison_with_the_host_leaves_no_file_that_others_may_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let mode = |name: &str| home.path().join(name).metadata().unwrap().permissions().mode();
    std::fs::File::create(home.path().join("own")).unwrap();
    let arguments = ["check", "model", "--fs", "redo", "--ops", "100", "--host", ".", "--ledger", "l"];
    let output = weir(home.path()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(format!("{:o}", mode("l")), format!("{:o}", mode("own")), "the umask is that of the user");
}

#[test]
fn every_run_is_evidence_once_and_a_canary_is_none() {
    let home = tempfile::tempdir().unwrap();
    let run =
        |arguments: &str| weir(home.path()).arg("check").args(arguments.split_whitespace()).output().unwrap();
    let rows = |arguments: &str| document(&run(arguments))["rows"].as_array().unwrap().clone();
    let model = "model --fs pmfs --ops 100 --ledger l";
    for arguments in [model, "model --fs pmfs --ops 100 --seed 2 --ledger l", model] {
        let output = run(arguments);
        assert!(output.status.success(), "{}", told(&output));
    }
    assert!(!run("model --fs pmfs --ops 2000 --fail-store 100 --ledger l").status.success());
    let shown = rows("--evidence --ledger l --json");
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!((&shown[0]["count"], &shown[0]["open_failures"]), (&200.into(), &0.into()));
    assert_eq!(shown[0]["seeds"], Value::from(vec![1, 2]));
    let failed = run("record crash/depth-1 --subject pmfs --unit images --count 5 --failures 2 --ledger l");
    assert!(failed.status.success(), "{}", told(&failed));
    let failures: Vec<_> =
        rows("--evidence --ledger l --json").iter().map(|row| row["open_failures"].clone()).collect();
    assert_eq!(failures, [0, 2]);
    assert_eq!(run("record nonsense --subject x --unit y --count 1 --failures 0").status.code(), Some(2));
}

/// Whether a process has a handler for SIGINT.
fn catches_interrupts(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
}

#[test]
fn an_interrupted_check_prints_what_it_has_done_and_is_no_evidence() {
    let home = tempfile::tempdir().unwrap();
    let long = ["check", "crash", "--fs", "pmfs,hinfs", "--depth", "2", "--jobs", "1", "--ledger", "l"];
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("weir"));
    command.current_dir(home.path()).args(long).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    while !catches_interrupts(child.id()) {
        std::thread::yield_now();
    }
    let id = Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(id, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", told(&output));
    let (table, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(table.contains("workloads") && table.contains(" of "), "{table}");
    assert!(said.contains("not recorded"), "{said}");
    assert!(!home.path().join("l").exists());
}

#[test]
fn what_cannot_be_checked_is_said() {
    for (arguments, code, words) in [
        ("model --fs pmsf", 2, "did you mean \"pmfs\"?"),
        ("model --fs pmfs --size 64KiB", 2, "--size"),
        ("model --fs pmfs --host HERE/none", 3, "cannot make"),
        ("crash --fs pmfs --programs nonsense", 2, "no program has a name that contains"),
        ("crash --fs pmfs -O bufer=1M", 2, "bufer"),
        ("faults --fs pmfs --programs nonsense", 2, "no program has a name that contains"),
        ("faults --fs pmfs -O mutant=two-commits", 2, "unknown option"),
        ("recall --fs pmfs --only nonsense", 2, "there are: tail-not-flushed"),
        ("schedules --fs pmfs --scenario fly", 2, "no action is called \"fly\""),
        ("fuzz --fs pmfs --mutant x", 2, "a mutant is like"),
        ("--evidence --ledger HERE/none", 4, "cannot read"),
        ("crash --fs pmfs --depth 2 --ledger HERE", 4, "cannot append to the ledger"),
        ("", 2, "name a check"),
    ] {
        let output = check(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {}", told(&output));
        assert!(told(&output).contains(words), "{arguments}: {}", told(&output));
    }
}

#[test]
fn help_fits_a_screen() {
    for what in ["model", "crash", "faults", "recall", "schedules", "fuzz"] {
        let help = String::from_utf8(check(&format!("{what} -h")).stdout).unwrap();
        assert!(help.lines().count() <= 24 && help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn a_design_that_can_be_mounted_sync_is_crashed_both_ways() {
    let output = check("crash --fs hinfs --programs fsync --json");
    assert!(output.status.success(), "{}", told(&output));
    let buffered: Vec<_> = designs(&output).iter().map(|design| design["buffered"] == true).collect();
    assert_eq!(buffered, [true, false]);
    let planted = check("crash --fs hinfs -O sync=false --programs 4097 --drop-fence 4");
    assert_eq!(planted.status.code(), Some(1), "{}", told(&planted));
}

#[test]
fn an_external_journal_is_checked_with_memory_beside_the_device() {
    let output = check("crash --fs ext4 -O external_journal=true --programs mkdir --sample 1 --json");
    assert!(output.status.success(), "{}", told(&output));
    let [.., one] = &designs(&output)[..] else { panic!("no design") };
    assert!(
        one["distinct_images"].as_u64().unwrap() > 1 && one["violations"] == Value::Array(vec![]),
        "{one}"
    );
}

#[test]
fn a_check_of_nothing_is_refused() {
    for arguments in
        ["crash --fs pmfs --sample 0", "crash --fs pmfs --random 0", "faults --fs pmfs --sample 0"]
    {
        let output = check(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", told(&output));
        assert!(told(&output).contains("give a number from 1 on"), "{arguments}: {}", told(&output));
    }
    for arguments in ["crash --mapped --fs redo", "model --mapped --fs redo"] {
        let output = check(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", told(&output));
        assert!(told(&output).contains("redo maps no files"), "{arguments}: {}", told(&output));
    }
}

#[test]
fn a_check_whose_time_is_over_before_its_first_program_does_not_pass() {
    let home = tempfile::tempdir().unwrap();
    for check in ["crash", "faults"] {
        let output =
            weir(home.path()).args(["check", check, "--fs", "pmfs", "--time", "0s"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{check}: {}", told(&output));
        assert!(told(&output).contains("no program ran on pmfs in 0 ns"), "{}", told(&output));
    }
}

#[test]
fn shares_by_range_add_up_to_the_whole_check() {
    let sum = |check_of: &str, shares: &[&str], count: &str| {
        let of = |share: &&str| {
            let output = check(&format!("{check_of} --seed 3 {share} --json"));
            assert!(output.status.success(), "{}", told(&output));
            designs(&output)[0][count].as_u64().unwrap()
        };
        shares.iter().map(of).sum::<u64>()
    };
    let model = "model --fs pmfs --ops 15000";
    for count in ["ops", "remounts", "out_of_space"] {
        assert_eq!(sum(model, &["--range 0..1", "--range 1..3"], count), sum(model, &[""], count), "{count}");
    }
    let schedules = "schedules --fs pmfs --scenario 'create | append'";
    assert_eq!(sum(schedules, &["--range 0..20", "--range 20..50"], "schedules"), 50);
    assert_eq!(sum("fuzz --fs pmfs", &["--range 0..10", "--range 10..30"], "mutants"), 30);
    for (check_of, told_of) in [
        ("model --fs pmfs --ops 15000 --range 2..4", "there are 3 rounds of 5,000 operations: end at 3"),
        ("schedules --fs pmfs --range 4..4", "as in 0..100"),
        ("fuzz --fs pmfs --range 1..9 --mutants 7", "cannot be used with"),
    ] {
        let output = check(check_of);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(told(&output).contains(told_of), "{}", told(&output));
    }
}
