//! The shapes of published figures at a hundredth of their size: which design is faster, and where a curve has its peak. Values
//! are those of the full plans only; a change of the model that turns a shape round is seen here on the day it is made.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use lab::{Plan, Runner, Settings, Silent};

const PLAN: &str = r#"
[plan]
name = "shapes"
why = "do the curves have their shapes?"
stop = "400ms"
[[axis]]
fs = ["pmfs", "hinfs"]
[[axis]]
medium = ["hinfs"]
[[axis]]
threads = [1, 2, 4, 10]
[fs]
buffer = "21MiB"
[[workload]]
name = "filebench/fileserver"
vars = { nfiles = 410 }
[[workload]]
name = "filebench/webproxy"
vars = { nfiles = 3277 }
[[workload]]
name = "filebench/varmail"
vars = { nfiles = 3277 }
"#;

/// Operations a second of a cell.
fn rate(workload: &str, fs: &str, threads: u32) -> f64 {
    static RATES: OnceLock<BTreeMap<String, f64>> = OnceLock::new();
    let rates = RATES.get_or_init(|| {
        let plan = Plan::parse("shapes.toml", PLAN, false).unwrap();
        let file =
            Runner::new(Settings::default(), &Silent).run(&plan).unwrap_or_else(|error| panic!("{error}"));
        let name = |sample: &results::Sample| {
            let axis = |name| sample.axis(name).unwrap_or_default().to_owned();
            format!("{} {} {}", axis("workload"), axis("fs"), axis("threads"))
        };
        file.samples.iter().map(|sample| (name(sample), sample.throughput_ops_per_s)).collect()
    });
    rates[&format!("filebench/{workload} {fs} {threads}")]
}

fn gain(workload: &str, threads: u32) -> f64 {
    rate(workload, "hinfs", threads) / rate(workload, "pmfs", threads)
}

#[test]
fn the_buffer_pays_on_fileserver_at_every_number_of_threads_and_least_at_ten() {
    let gains = [1, 2, 4, 10].map(|threads| gain("fileserver", threads));
    assert!(gains.iter().all(|gain| *gain > 1.1), "{gains:?}");
    assert!(gains[3] < gains[1] && gains[3] < gains[2], "{gains:?}");
}

#[test]
fn fileserver_on_hinfs_has_its_peak_before_ten_threads_and_pmfs_is_flat_from_four_on() {
    let hinfs = [1, 2, 4, 10].map(|threads| rate("fileserver", "hinfs", threads));
    assert!(hinfs[3] < hinfs[1].max(hinfs[2]), "{hinfs:?}");
    let pmfs = [1, 4, 10].map(|threads| rate("fileserver", "pmfs", threads));
    assert!(pmfs[1] > 2.0 * pmfs[0], "three writers are admitted at once: {pmfs:?}");
    assert!((pmfs[2] / pmfs[1] - 1.0).abs() < 0.15, "{pmfs:?}");
}

#[test]
fn the_buffer_pays_on_webproxy_and_not_on_varmail() {
    for threads in [1, 4] {
        let (webproxy, varmail) = (gain("webproxy", threads), gain("varmail", threads));
        assert!(webproxy > 1.1, "{threads} threads: {webproxy}");
        assert!((0.85..1.2).contains(&varmail), "{threads} threads: {varmail}");
    }
}
