//! A churn before the workload: every design stores what was asked for, and a plan that cannot have one says why.

use lab::{Plan, Runner, Settings, Silent};
use results::ResultFile;

/// Designs on a region of 32 MiB, in which two workers rename for 50 µs.
fn plan(fs: &str, head: &str) -> Result<Plan, lab::Error> {
    let text = format!(
        "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"50us\"\nprices = \"ran\"\n{head}\n[[axis]]\nfs = [{fs}]\n\
         [[axis]]\nmedium = [\"optane.100\"]\n[[axis]]\nthreads = [2]\n[[workload]]\nname = \"fxmark/MWRL\"\n"
    );
    Plan::parse("t.toml", &text, false)
}

fn run(plan: &Plan) -> ResultFile {
    Runner::new(Settings { jobs: 1, ..Settings::default() }, &Silent)
        .run(plan)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The designs that are made on memory alone, in quotes.
fn on_memory() -> String {
    let fits = fs::FILE_SYSTEMS
        .iter()
        .filter(|design| design.format().needs(&design::Options::defaults(design.options())).fit(false));
    let names: Vec<String> = fits.map(|design| format!("\"{}\"", design.name())).collect();
    names.join(", ")
}

#[test]
fn every_design_for_memory_stores_what_its_churn_asks_for_before_the_measured_time() {
    let head = "region = \"32MiB\"\nchurn = 1";
    let result = run(&plan(&on_memory(), head).unwrap());
    for sample in &result.samples {
        let (fs, counters) = (&sample.axes["fs"], &sample.counters);
        assert!(sample.failure.is_none() && sample.ops > 0, "{fs}: {:?}", sample.failure);
        assert!(counters["churn.stored_bytes"] >= 32 << 20, "{fs}: {counters:?}");
        assert_eq!(counters["churn.refused"], 0, "{fs} refused calls of a churn that fills a quarter");
        let measured = counters["bytes_stored"] + counters["bytes_nt_stored"];
        assert!(measured < counters["churn.stored_bytes"] / 4, "{fs}: the window has {measured} bytes");
        assert!(
            sample.latency_ns().summary().max_ns <= sample.elapsed_ns,
            "{fs}: a call of the churn is in the window"
        );
    }
    let crest = || run(&plan("\"crest\"", head).unwrap()).samples.remove(0);
    let (one, two) = (crest(), crest());
    assert_eq!(one.counters, two.counters, "the same seed gives the same churn");
}

#[test]
fn a_cell_with_a_churn_is_another_one_and_a_cell_without_keeps_its_identity() {
    let identity = |head: &str| plan("\"crest\"", head).unwrap().cells().unwrap()[0].identity();
    let (none, one, two) = (
        identity("region = \"64MiB\""),
        identity("region = \"64MiB\"\nchurn = 1"),
        identity("region = \"64MiB\"\nchurn = 2"),
    );
    assert!(none.get("churn").is_none());
    assert_eq!(two["churn"], 128 << 20);
    assert!(none != one && one != two);
    let churned = plan("\"crest\"", "region = \"64MiB\"\nchurn = 2").unwrap();
    assert_eq!(Plan::from_json(&churned.to_json()).unwrap(), churned);
}

#[test]
fn a_churn_that_a_cell_cannot_have_is_told_before_anything_runs() {
    let error = |fs: &str, head: &str| {
        plan(fs, head).and_then(|plan| plan.cells().map(drop)).expect_err("it cannot be").to_string()
    };
    let of = "region = \"64MiB\"\nchurn = ";
    for wrong in ["0", "101", "\"often\"", "-1"] {
        let told = error("\"crest\"", &format!("{of}{wrong}"));
        assert!(told.contains("from 1 to 100") && told.contains("t.toml:7:"), "{told}");
    }
    let told = error("\"crest\"", "churn = 2");
    assert!(told.contains("--region"), "{told}");
    let told = error("\"redo\"", "region = \"1MiB\"\nchurn = 2");
    assert!(told.contains("region"), "{told}");
    let told = error("\"linux/tmpfs\"", &format!("{of}2"));
    assert!(told.contains("a churn") || told.contains("page cache"), "{told}");
    let large = plan("\"crest\"", &format!("{of}2")).map(|mut plan| {
        plan.workload[0].name = "fxmark/MRPM".to_owned();
        plan.cells().map(drop).expect_err("its tree is too large").to_string()
    });
    let told = large.unwrap();
    assert!(told.contains("quarter of the region") && told.contains("--region 512MiB"), "{told}");
    let text = "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"1ms\"\nregion = \"1GiB\"\nchurn = 2\n[[axis]]\nfs = [\"ext4\"]\n\
                [[axis]]\nmedium = [\"fast24\"]\n[[workload]]\nname = \"filebench/varmail\"\n";
    let told = Plan::parse("t.toml", text, false)
        .and_then(|plan| plan.cells().map(drop))
        .expect_err("a block device");
    assert!(told.to_string().contains("block device"), "{told}");
}
