//! Plans are checked whole before anything runs, and every message says where and what to do.

use lab::Plan;

const HEAD: &str = "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"10ms\"\n";
const FS: &str = "[[axis]]\nfs = [\"pmfs\", \"hinfs\"]\n";
const WORK: &str = "[[workload]]\nname = \"filebench/varmail\"\n";

fn error(parts: &[&str]) -> String {
    let text = [&[HEAD], parts].concat().concat();
    let plan = Plan::parse("t.toml", &text, true);
    plan.and_then(|plan| plan.cells().map(drop)).expect_err("the plan is wrong").to_string()
}

fn cells(parts: &[&str]) -> Vec<lab::CellSpec> {
    let text = [&[HEAD], parts].concat().concat();
    Plan::parse("t.toml", &text, false).unwrap().cells().unwrap()
}

#[test]
fn a_plan_without_its_parts_says_which_is_missing() {
    assert!(error(&[FS]).contains("no [[workload]]"));
    assert!(error(&[WORK]).contains("no [[axis]] with fs"));
}

#[test]
fn unknown_names_are_told_with_the_nearest() {
    assert!(
        error(&["sead = 3\n", FS, WORK])
            .contains("t.toml:5:1: unknown key \"sead\" in [plan]; did you mean \"seed\"?")
    );
    assert!(error(&["[[axis]]\nfs = [\"pmsf\"]\n", WORK]).contains("did you mean \"pmfs\"?"));
    assert!(
        error(&[FS, "[[workload]]\nname = \"filebench/varmial\"\n"])
            .contains("did you mean \"filebench/varmail\"?")
    );
    assert!(error(&["machine = \"hinfs-sever\"\n", FS, WORK]).contains("did you mean \"hinfs-server\"?"));
    assert!(error(&[FS, WORK, "[fs]\nbufer = \"1MiB\"\n"]).contains("did you mean \"buffer\"?"));
    assert!(error(&[FS, WORK, "vars = { nfils = 3 }\n"]).contains("nfils"));
}

#[test]
fn an_axis_that_a_design_cannot_serve_is_refused_with_the_way_out() {
    let axis = "[[axis]]\nbuffer = [\"1MiB\", \"2MiB\"]\nsets = [\"fs.buffer\"]\n";
    let told = error(&[FS, axis, WORK]);
    assert!(told.contains("t.toml:7:") && told.contains("pmfs does not have"), "{told}");
    assert!(told.contains("unaffected = [\"pmfs\"]"), "{told}");
    let served = cells(&[FS, axis, "unaffected = [\"pmfs\"]\n", WORK]);
    assert_eq!(served.len(), 4);
    assert_eq!(served[0].identity(), served[1].identity(), "pmfs is the same cell for both sizes");
    assert_ne!(served[2].identity(), served[3].identity());
    // So does an axis of another kind.
    let sizes =
        "[[axis]]\niosize = [\"64KiB\", \"128KiB\"]\nsets = [\"var.iosize\"]\nunaffected = [\"pmfs\"]\n";
    let served = cells(&[FS, sizes, "[[workload]]\nname = \"filebench/fileserver\"\n"]);
    assert_eq!(served[0].identity(), served[1].identity(), "pmfs has the size of the script");
    assert_ne!(served[2].identity(), served[3].identity());
    let told = error(&[sizes, FS, "[[workload]]\nname = \"filebench/fileserver\"\n"]);
    assert!(told.contains("must come after the axis \"fs\""), "{told}");
    let both = "[[axis]]\nfs = [\"hinfs\", \"ext2\"]\n[[axis]]\nmemory = [\"8MiB\", \"9MiB\"]\nsets = [\"fs.buffer\", \"fs.cache\"]\n";
    let each = cells(&[both, WORK]);
    assert_eq!(each.len(), 4, "each takes the option that it has");
    assert!(each.windows(2).all(|pair| pair[0].identity() != pair[1].identity()));
}

#[test]
fn a_value_that_the_script_has_anyway_makes_no_other_cell() {
    let work = "[[workload]]\nname = \"filebench/fileserver\"\n";
    let sizes = "[[axis]]\niosize = [\"64KiB\", \"1MiB\"]\nsets = [\"var.iosize\"]\n";
    let (plain, sized) = (cells(&[FS, work]), cells(&[FS, sizes, work]));
    assert_eq!(plain[0].identity(), sized[1].identity(), "the script's own size");
    assert_ne!(plain[0].identity(), sized[0].identity());
}

#[test]
fn values_that_make_no_sense_are_refused() {
    assert!(error(&["repeats = 0\n", FS, WORK]).contains("between 1 and 1000"));
    assert!(error(&[FS, "[[axis]]\nthreads = []\n", WORK]).contains("has no values"));
    assert!(error(&[FS, "[[axis]]\nthreads = [1, 1]\n", WORK]).contains("twice"));
    assert!(error(&[FS, FS, WORK]).contains("twice"));
    assert!(error(&["[[axis]]\nfs = [\"host:/\"]\n", WORK]).contains("--clock real"));
    assert!(
        error(&[FS, "[[axis]]\nlatency = [\"fast\"]\nsets = [\"medium.latency\"]\n", WORK])
            .contains("latency")
    );
}

#[test]
fn axes_reach_the_design_the_medium_and_the_workload() {
    let axes = "[[axis]]\nmedium = [\"hinfs\"]\n[[axis]]\nlatency = [\"400ns\"]\nsets = [\"medium.latency\"]\n\
                [[axis]]\nthreads = [3]\n";
    let cells =
        cells(&["[[axis]]\nfs = [{ name = \"hinfs\", label = \"small\", buffer = \"1MiB\" }]\n", axes, WORK]);
    let cell = &cells[0];
    assert!(cell.medium.to_string().contains("latency=400ns"));
    assert!(cell.workload.variables().contains(&("nthreads".to_owned(), "3".to_owned())));
    assert_eq!(cell.axes["fs"], "small");
    assert_eq!(cell.identity()["subject"]["options"]["buffer"], "1MiB");
}

#[test]
fn quick_changes_only_what_it_names() {
    let quick = "[quick]\nstop = \"5ms\"\n[quick.axis]\nthreads = [2]\n[quick.fs]\nbuffer = \"1MiB\"\n";
    let parts =
        [HEAD, FS, "[[axis]]\nthreads = [1, 2, 4]\n", WORK, "quick = { nfiles = 7 }\n", quick].concat();
    let full = Plan::parse("t.toml", &parts, false).unwrap();
    let small = Plan::parse("t.toml", &parts, true).unwrap();
    assert_eq!((full.cells().unwrap().len(), small.cells().unwrap().len()), (6, 2));
    assert_eq!((full.stop.to_string(), small.stop.to_string()), ("10ms".to_owned(), "5ms".to_owned()));
    assert!(small.quick && small.workload[0].vars["nfiles"] == "7" && small.fs["buffer"] == "1MiB");
}

#[test]
fn a_hypothesis_that_cannot_be_read_is_placed() {
    let told = error(&[FS, WORK, "[expect]\ngain = \"hinfs\"\n"]);
    assert!(told.contains("t.toml:10:8") && told.contains("compares two sides"), "{told}");
}

#[test]
fn everything_that_is_wrong_in_a_file_is_told_at_once_unknown_keys_first() {
    let told = error(&[
        "repeats = 0\nsead = 3\n",
        "[[axis]]\nfs = [\"pmfs\"]\nsetz = [\"fs.buffer\"]\n",
        "[[workload]]\nnmae = \"filebench/varmail\"\n[[workload]]\nname = \"filebench/varmail\"\nvras = { nfiles = 1 }\n",
        "[figures]\n",
    ]);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines.len() >= 4, "{told}");
    let first = lines.iter().take_while(|line| line.contains("unknown key")).count();
    for (key, near) in [("nmae", "name"), ("vras", "vars"), ("figures", "figure")] {
        let line = lines[..first].iter().find(|line| line.contains(&format!("\"{key}\"")));
        assert!(
            line.is_some_and(|line| line.contains(&format!("did you mean \"{near}\"?"))),
            "{key}: {told}"
        );
    }
    assert!(
        lines[first..].iter().any(|line| line.contains("\"repeats\" must be between 1 and 1000")),
        "{told}"
    );
}

#[test]
fn a_number_of_repeats_that_is_none_is_answered_with_the_range() {
    for wrong in ["0", "-6", "1001", "2.5", "\"many\""] {
        let told = error(&[&format!("repeats = {wrong}\n")]);
        assert!(told.contains("\"repeats\" must be between 1 and 1000"), "{wrong}: {told}");
    }
}

/// No part hides what is wrong in another, nor one value of a part the next.
#[test]
fn every_part_of_a_plan_tells_all_that_is_wrong_with_it() {
    let text = "[plan]\nname = \"x\"\nwhy = \"y\"\nstop = \"1s\"\n[[axis]]\nfs = [\"pmsf\"]\n\
        [[axis]]\nsize = [\"1\", \"1\"]\nsets = [\"vr.x\", \"vr.y\"]\n\
        [[workload]]\nname = \"filebench/varmail\"\nstop = \"soon\"\nlable = \"z\"\n[[workload]]\nname = \"filebench/webproxy\"\n\
        [quick]\nstp = \"1s\"\nrepeats = 0\n[quick.axis]\nsize = [\"2\"]\n\
        [expect]\na = \"hinfs\"\nb = \"pmfs\"\n";
    let told = Plan::parse("t.toml", text, false).expect_err("it is wrong").to_string();
    let first: Vec<&str> = told.lines().take(2).collect();
    assert!(first.iter().all(|line| line.contains("unknown key")), "{told}");
    let parts = [
        "lable",
        "stp",
        "\"1\" twice",
        "vr.x",
        "vr.y",
        "soon",
        "\"repeats\" must be",
        "\"pmfs\"?",
        "\"a\":",
        "\"b\":",
    ];
    for part in parts {
        assert_eq!(told.lines().filter(|line| line.contains(part)).count(), 1, "{part}: {told}");
    }
    assert!(!told.contains("no axis of this plan"), "an axis that is wrong is one all the same: {told}");
    let whole = "repeats = 1\nmachine = \"hinfs-sever\"\n";
    let told = error(&[whole, FS, WORK, "vars = { nfils = 1 }\n", WORK, "[fs]\nbufer = \"1MiB\"\n"]);
    for part in ["hinfs-server", "nfils", "given twice", "bufer"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// A misspelt key of [plan] hides neither the other values of [plan] nor the names of designs and workloads.
#[test]
fn names_that_nothing_has_are_told_beside_wrong_keys_and_values() {
    let text = "[plan]\nnaem = \"x\"\nwhy = \"y\"\nstop = \"1s\"\nrepeats = 0\n[[axis]]\nfs = [\"pmsf\"]\n\
        [[workload]]\nname = \"filebench/varmial\"\n";
    let told = Plan::parse("t.toml", text, false).expect_err("it is wrong").to_string();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].contains("unknown key \"naem\" in [plan]; did you mean \"name\"?"), "{told}");
    for part in ["between 1 and 1000", "did you mean \"pmfs\"?", "did you mean \"filebench/varmail\"?"] {
        assert_eq!(lines.iter().filter(|line| line.contains(part)).count(), 1, "{part}: {told}");
    }
    let names = Plan::parse("t.toml", &text.replace("naem", "name").replace("= 0", "= 1"), false).unwrap();
    let told = names.cells().expect_err("names are wrong").to_string();
    assert!(told.contains("pmfs") && told.contains("filebench/varmail"), "{told}");
}

#[test]
fn a_design_on_a_medium_that_it_cannot_use_is_refused_with_what_fits() {
    let on = |designs: &str, medium: &str| {
        format!("[[axis]]\nfs = [{designs}]\n[[axis]]\nmedium = [\"{medium}\"]\n")
    };
    for design in ["pmfs", "redo", "ext4-dax"] {
        let told = error(&[&on(&format!("\"{design}\""), "fast24"), WORK]);
        assert!(told.contains(&format!("{design} needs memory, and fast24 is a block device")), "{told}");
        assert!(told.contains("hinfs") && told.contains("ext4"), "what fits: {told}");
    }
    let outside = "{ name = \"ext4\", external_journal = \"true\" }";
    let told = error(&[&on(outside, "hinfs"), WORK]);
    assert!(told.contains("ext4 with external_journal=true needs memory and a block device"), "{told}");
    assert!(told.contains("hinfs is memory") && told.contains("fast24"), "what fits: {told}");
    // A block design runs on memory through a RAM disk; beside a block device there is memory for a journal.
    for (designs, medium) in [("\"ext4\", \"ext2\"", "hinfs"), (outside, "fast24"), ("\"ext2\"", "loop")] {
        assert!(!cells(&[&on(designs, medium), WORK]).is_empty(), "{designs} on {medium}");
    }
}
