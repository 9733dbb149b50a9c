//! The study of fragmentation on flash, small: ext4 on the device gives the shapes that the device alone gives.

use lab::{Plan, Runner, Settings, Silent};
use results::Sample;

const PLAN: &str = r#"
[plan]
name = "small"
why = "test"
stop = "60s"
machine = "fast24-server"
[[axis]]
fs = ["ext4"]
[[axis]]
medium = [{ value = "fast24", label = "off" }, { value = "fast24,allocation=on", label = "on" }]
[[workload]]
name = "fragmentation/contiguous"
vars = { reads = 1 }
[[workload]]
name = "fragmentation/append-worst"
vars = { reads = 1 }
[[workload]]
name = "fragmentation/overwrite-worst"
vars = { reads = 1 }
[fs]
cache = "64MiB"
external_journal = true
lazy_itable = true
stream_request = "4000GiB"
writeback = false
"#;

#[test]
fn pieces_on_one_die_are_slow_whatever_the_extents_and_hints_restore_them() {
    let plan = Plan::parse("small.toml", PLAN, false).unwrap();
    // Checked: every byte that is read, and the image.
    let settings = Settings { check: true, jobs: 2, ..Settings::default() };
    let file = Runner::new(settings, &Silent).run(&plan).unwrap();
    let cell = |workload: &str, medium: &str| -> &Sample {
        let name = format!("fragmentation/{workload}");
        let is = |s: &&Sample| s.axis("workload") == Some(&*name) && s.axis("medium") == Some(medium);
        file.samples.iter().find(is).unwrap()
    };
    let rate = |workload, medium| cell(workload, medium).throughput_ops_per_s;
    let extents = |workload| cell(workload, "off").counters["extents"];
    let whole = rate("contiguous", "off");
    for workload in ["append-worst", "overwrite-worst"] {
        assert!(rate(workload, "off") < whole * 0.25, "{workload}");
        assert!(rate(workload, "on") > whole * 0.9, "{workload}");
    }
    assert_eq!((extents("contiguous"), extents("append-worst"), extents("overwrite-worst")), (1, 256, 1));
}

/// SQLite asks for journals that are not there; that is how it works, and no failure of the run.
#[test]
fn files_that_sqlite_looks_for_in_vain_are_no_errors() {
    let plan = PLAN.split("[[workload]]").next().unwrap().to_owned()
        + "[[workload]]\nname = \"fragmentation/sqlite\"\nvars = { rows = 200, reads = 2 }\n[fs]"
        + PLAN.split("[fs]").nth(1).unwrap();
    let plan = Plan::parse("small.toml", &plan, false).unwrap();
    let file = Runner::new(Settings::default(), &Silent).run(&plan).unwrap();
    assert!(file.samples.iter().all(|sample| sample.is_measured() && sample.errors == 0));
}
