//! Nothing that is measured is lost: cells that fail, reports that cannot be written, disks that are full.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::shared::{document, told, weir};

/// A small run of varmail, with further arguments.
fn bench(home: &Path, arguments: &[&str]) -> Output {
    let small =
        ["bench", "varmail", "--fs", "pmfs", "-D", "nfiles=60", "--runtime", "20 ops", "--threads", "1"];
    weir(home).args(small).args(arguments).output().unwrap()
}

/// The command without `assert_cmd`, to give it streams of its own.
fn plain(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(weir(home).get_program());
    command.current_dir(home).env("XDG_DATA_HOME", home.join("data")).args(arguments);
    command
}

/// Names of the folders of runs, sorted.
fn runs(home: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(home.join("data/weir/runs")).into_iter().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn one_failing_cell_leaves_the_others_their_numbers_a_mark_and_an_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["fileserver", "--region", "9MiB", "-o", "page.html", "--json"];
    let output = bench(home.path(), &arguments);
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    for part in ["1 of 2 runs failed, the others are kept", "fileserver pmfs", "--region "] {
        assert!(told(&output).contains(part), "{part}: {}", told(&output));
    }
    let result = document(&output);
    let samples = result["samples"].as_array().unwrap();
    let (failed, measured): (Vec<_>, Vec<_>) =
        samples.iter().partition(|sample| sample["failure"].is_object());
    assert_eq!((failed.len(), measured.len()), (1, 1), "{result}");
    assert!(measured[0]["ops"].as_u64().unwrap() > 0);
    let page = std::fs::read_to_string(home.path().join("page.html")).unwrap();
    assert!(page.contains("1 of 2 samples failed") && page.contains("the region of 9 MiB is full"));
    let kept = weir(home.path()).args(["report", "latest"]).output().unwrap();
    let table = String::from_utf8_lossy(&kept.stdout).into_owned();
    assert!(table.contains("the region of 9 MiB is full") && table.contains("op/s"), "{table}");
}

#[test]
fn a_workload_that_goes_on_until_the_file_system_is_full_has_not_failed() {
    let home = tempfile::tempdir().unwrap();
    let arguments = "bench fxmark/DWAL --fs nova,pmfs --medium dram --region 16MiB --runtime 50ms --json";
    let output = weir(home.path()).args(arguments.split(' ')).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    for sample in document(&output)["samples"].as_array().unwrap() {
        let write =
            sample["operations"].as_array().unwrap().iter().find(|one| one["kind"] == "write").unwrap();
        assert_eq!((&sample["errors"], write["errors"].as_u64()), (&0.into(), Some(1)), "it was full");
    }
}

#[test]
fn outputs_are_checked_before_anything_runs() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("taken.html")).unwrap();
    for (file, says) in [("nowhere/a.html", "there is no folder nowhere"), ("taken.html", "is a folder")] {
        let output = bench(home.path(), &["-o", file]);
        assert_eq!(output.status.code(), Some(2), "{file}: {}", told(&output));
        assert!(told(&output).contains(says), "{file}: {}", told(&output));
        assert!(runs(home.path()).is_empty(), "{file}: nothing has run");
    }
    let output = plain(home.path(), &["run"]).env("XDG_DATA_HOME", "/proc/weir").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    assert!(told(&output).contains("XDG_DATA_HOME"), "{}", told(&output));
}

#[test]
fn outputs_of_reproduce_are_checked_before_anything_runs() {
    let home = tempfile::tempdir().unwrap();
    for target in [&["hw-logging"][..], &["hinfs/7", "--readings"]] {
        let arguments = [&["reproduce", "--quick", "-o", "nowhere/x.html"], target].concat();
        let output = weir(home.path()).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{target:?}: {}", told(&output));
        assert!(told(&output).contains("there is no folder nowhere"), "{target:?}: {}", told(&output));
    }
}

/// The name is short enough for a folder, and too long for one with the date before it.
#[test]
fn a_result_that_can_be_kept_nowhere_is_printed_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let plan = format!(
        "[plan]\nname = \"{}\"\nwhy = \"is it printed?\"\nstop = \"20 ops\"\n[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nthreads = [1]\n\
         [[workload]]\nname = \"filebench/varmail\"\nvars = {{ nfiles = 60 }}\n",
        "x".repeat(250)
    );
    std::fs::write(home.path().join("p.toml"), plan).unwrap();
    let mut command = plain(home.path(), &["run", "p.toml"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("throughput") && table.contains("op/s"), "{table}");
    assert!(told(&output).contains("cannot make the folder"), "{}", told(&output));
}

/// The name is short enough for the file, and too long for the one that is written beside it first.
#[test]
fn a_report_that_cannot_be_written_leaves_the_table_and_says_where_the_result_is() {
    let home = tempfile::tempdir().unwrap();
    let name = format!("{}.html", "x".repeat(245));
    let output = bench(home.path(), &["-o", &name]);
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("throughput") && table.contains("op/s"), "{table}");
    assert!(told(&output).contains("the result is in ") && told(&output).contains("data/weir/runs/"));
    assert!(home.path().join("data/weir/runs").join(&runs(home.path())[0]).join("result.json").exists());
}

#[test]
fn a_full_disk_behind_the_standard_output_is_an_error_and_a_closed_pipe_is_none() {
    let home = tempfile::tempdir().unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = plain(home.path(), &["list"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    assert!(told(&output).contains("cannot write the standard output: No space left"), "{}", told(&output));
    let mut child =
        plain(home.path(), &["list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && told(&output).is_empty(), "{}", told(&output));
}

#[test]
fn folders_of_results_sort_by_the_time_at_which_they_were_made() {
    let home = tempfile::tempdir().unwrap();
    let mut made = Vec::new();
    for _ in 0..3 {
        assert!(bench(home.path(), &[]).status.success());
        made.push(runs(home.path()).into_iter().find(|name| !made.contains(name)).unwrap());
    }
    assert_eq!(made, runs(home.path()), "each sorts behind those before it");
    assert!(made.iter().all(|name| name.contains("-bench") && !name.contains('.')), "{made:?}");
}

#[test]
fn progress_is_told_where_there_is_no_terminal_and_never_with_quiet() {
    let home = tempfile::tempdir().unwrap();
    let told_all = told(&bench(home.path(), &[]));
    assert!(told_all.contains("bench: 1 run\n") && told_all.contains("1/1 varmail pmfs"), "{told_all}");
    assert!(!told(&bench(home.path(), &["--quiet"])).contains("varmail"));
}

#[test]
fn a_result_is_run_again_from_itself_whole_or_in_part() {
    let home = tempfile::tempdir().unwrap();
    let first = bench(home.path(), &["fileserver", "--seed", "7", "-o", "first.json", "--json"]);
    assert!(first.status.success(), "{}", told(&first));
    let again = |arguments: &[&str]| {
        let output =
            weir(home.path()).args(["run", "--like", "first.json", "--json"]).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", told(&output));
        document(&output)
    };
    let first = document(&first);
    assert_eq!(again(&[])["samples"], first["samples"], "the same plan and seed give the same numbers");
    let part = again(&["--only", "workload=filebench/varmail"]);
    assert_eq!(part["samples"].as_array().unwrap().len(), 1);
    assert!(first["samples"].as_array().unwrap().contains(&part["samples"][0]), "and so does a part");
    let page = weir(home.path()).args(["report", "first.json", "-o", "first.html"]).output().unwrap();
    assert!(page.status.success());
    let page = std::fs::read_to_string(home.path().join("first.html")).unwrap();
    assert!(page.contains("weir run --like first.json --only workload=filebench/varmail"));
    // As an interrupt leaves it: one value of an axis was not measured.
    let mut part = results::ResultFile::read(home.path().join("first.json")).unwrap();
    part.samples.retain(|sample| sample.axis("workload") == Some("filebench/varmail"));
    part.write(home.path().join("part.json")).unwrap();
    let page = weir(home.path()).args(["report", "part.json", "-o", "part.html"]).output().unwrap();
    assert!(page.status.success());
    let page = std::fs::read_to_string(home.path().join("part.html")).unwrap();
    assert!(page.contains("weir run --like part.json --only workload=filebench/varmail"));
}

#[test]
fn cells_of_a_script_that_has_changed_since_are_run_again() {
    let home = tempfile::tempdir().unwrap();
    let script = |name: &str, entries: u32, size: &str| {
        let text = format!(
            "define fileset name=f,path=/tmp,size={size},entries={entries},dirwidth=20,prealloc\n\
             define process name=p,instances=1 {{ thread name=t,memsize=1m,instances=1 {{\n\
             flowop openfile name=o,filename=f,fd=1\nflowop readwholefile name=r,fd=1,iosize=1m\n\
             flowop closefile name=c,fd=1\n}} }}\nrun 1\n"
        );
        std::fs::write(home.path().join(name), text).unwrap();
    };
    let run = || {
        let bench = ["bench", "small.f", "large.f", "--fs", "pmfs", "--region", "32MiB", "--runtime", "1ms"];
        let output = weir(home.path()).args(bench).arg("--json").output().unwrap();
        let rates = document(&output)["samples"].as_array().unwrap().clone();
        (output, rates.into_iter().map(|sample| sample["throughput_ops_per_s"].clone()).collect::<Vec<_>>())
    };
    script("small.f", 10, "64k");
    script("large.f", 10_000, "64k");
    let (failed, first) = run();
    assert_eq!(failed.status.code(), Some(4), "{}", told(&failed));
    script("small.f", 10, "1k");
    script("large.f", 10, "64k");
    let (whole, second) = run();
    assert!(whole.status.success(), "{}", told(&whole));
    assert_ne!(first[0], second[0], "{}", told(&whole));
    assert_eq!(run().1, second);
}

#[test]
fn a_report_that_cannot_be_written_leaves_nothing_of_its_trial() {
    let home = tempfile::tempdir().unwrap();
    // No file may grow: as on a full disk, it is made and stays empty.
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    let mut command = Command::new("sh");
    command.current_dir(home.path()).env("XDG_DATA_HOME", home.path().join("data"));
    command.args(["-c", script, "sh"]).arg(weir(home.path()).get_program());
    command.args(["bench", "varmail", "--fs", "pmfs", "-o", "page.html"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn each_of_several_results_is_run_again_by_the_name_of_its_own_file() {
    let home = tempfile::tempdir().unwrap();
    let output = bench(home.path(), &["--clock", "both", "-o", "both.html"]);
    assert!(output.status.success(), "{}", told(&output));
    let page = std::fs::read_to_string(home.path().join("both.html")).unwrap();
    for file in ["both.bench-virtual.json", "both.bench-real.json"] {
        let is_beside = home.path().join(file).exists();
        assert!(page.contains(&format!("weir run --like {file}")) && is_beside, "{file}");
    }
}
