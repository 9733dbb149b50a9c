//! Bundles: a result with all that its plan names goes elsewhere, is read there, and runs again there.

use std::path::Path;
use std::process::Output;

use crate::shared::{document, told, weir};
use results::{InputKind, ResultFile};

const SCRIPT: &str = "set $nfiles=20\n\
    define fileset name=d,path=/d,entries=$nfiles,dirwidth=20,size=4k,prealloc\n\
    define process name=p { thread name=t,memsize=1m { flowop write name=w,filename=d,iosize=1k } }\n\
    run 1\n";

fn run(home: &Path, arguments: &[&str]) -> Output {
    let output = weir(home).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    output
}

/// A run of a script on a medium and a machine that are files, in `home`, as a bundle there.
fn bundled(home: &Path) -> ResultFile {
    std::fs::write(home.join("own.f"), SCRIPT).unwrap();
    std::fs::write(home.join("slow.toml"), media::Medium::named("hinfs").unwrap().to_toml()).unwrap();
    let machine = lab::MachinePreset::load("hinfs-server").unwrap().to_toml();
    let machine = machine.replacen("\"hinfs-server\"", "\"mine\"", 1);
    std::fs::write(home.join("mine.toml"), machine).unwrap();
    let what = ["bench", "own.f", "--fs", "pmfs", "--medium", "slow.toml,latency=900ns"];
    let how = ["--machine", "mine.toml", "--runtime", "2ms", "--json"];
    run(home, &[&what[..], &how].concat());
    run(home, &["report", "latest", "--bundle", "one.tar.gz"]);
    serde_json::from_value(document(&run(home, &["report", "latest", "--json"]))).unwrap()
}

#[test]
fn a_bundle_runs_again_where_nothing_that_its_plan_names_exists() {
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let there = bundled(home.path());
    let kinds: Vec<InputKind> = there.inputs.iter().map(|input| input.kind).collect();
    assert_eq!(kinds, [InputKind::Workload, InputKind::Machine, InputKind::Medium]);
    std::fs::copy(home.path().join("one.tar.gz"), elsewhere.path().join("b.tar.gz")).unwrap();
    let output = run(elsewhere.path(), &["run", "--like", "b.tar.gz", "--json"]);
    assert!(
        told(&output).contains("workload own.f, machine mine.toml, medium slow.toml"),
        "{}",
        told(&output)
    );
    let here: ResultFile = serde_json::from_value(document(&output)).unwrap();
    assert_eq!(here.samples, there.samples, "the virtual clock repeats a run to the byte");
    assert_eq!((&here.plan, &here.inputs), (&there.plan, &there.inputs), "and so does a bundle of it");
}

#[test]
fn a_script_of_the_same_name_with_another_text_is_not_taken_for_it() {
    let home = tempfile::tempdir().unwrap();
    let there = bundled(home.path());
    std::fs::write(home.path().join("own.f"), SCRIPT.replace("iosize=1k", "iosize=4k")).unwrap();
    let output = run(home.path(), &["run", "--like", "one.tar.gz", "--json"]);
    assert!(told(&output).contains("workload own.f"), "{}", told(&output));
    let here: ResultFile = serde_json::from_value(document(&output)).unwrap();
    assert_eq!(here.samples, there.samples);
}

#[test]
fn every_reader_of_results_reads_a_bundle_and_its_bytes_repeat() {
    let home = tempfile::tempdir().unwrap();
    bundled(home.path());
    run(home.path(), &["report", "one.tar.gz", "--bundle", "two.tar.gz"]);
    let [one, two] = ["one.tar.gz", "two.tar.gz"].map(|name| std::fs::read(home.path().join(name)).unwrap());
    assert!(one == two, "a bundle of a bundle is that bundle");
    let compared = run(home.path(), &["compare", "latest", "one.tar.gz"]);
    assert!(String::from_utf8_lossy(&compared.stdout).contains("exactly the same throughput"));
    run(home.path(), &["explain", "one.tar.gz"]);
    // Cut short, it is refused in words.
    std::fs::write(home.path().join("cut.tar.gz"), &one[..one.len() / 8]).unwrap();
    let output = weir(home.path()).args(["report", "cut.tar.gz"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("`weir report --bundle`"), "{}", told(&output));
}

#[test]
fn a_plan_is_shown_with_every_value_and_where_it_is_said() {
    let home = tempfile::tempdir().unwrap();
    run(home.path(), &["plan", "new", "mine.toml"]);
    for name in ["mine.toml", "quick"] {
        let text = run(home.path(), &["show", "plan", name]).stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains("[[axis]]") && text.contains("default") && text.contains("cells"), "{text}");
        assert!(text.contains("seed"), "{text}");
    }
    for (words, told_) in
        [(&["show", "plan"][..], "give a name"), (&["show", "paln", "quick"], "did you mean \"plan\"?")]
    {
        let output = weir(home.path()).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).contains(told_), "{}", told(&output));
    }
}
