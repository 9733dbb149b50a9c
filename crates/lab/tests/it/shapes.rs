//! The shapes of the figures of the HiNFS paper at a hundredth of their size: which design is faster, which way a curve goes, where
//! it has its peak. Values are those of the full plans only (`evidence/results`); a change of the model that turns a shape round is
//! seen here on the day it is made.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use lab::{Plan, Runner, Settings, Silent};

/// What the figures share. In each figure `AXES` and `WORKLOADS` are filled in.
const PLAN: &str = r#"
[plan]
name = "shapes"
why = "do the curves have their shapes?"
stop = "400ms"
machine = "hinfs-server"
[[axis]]
fs = ["pmfs", "hinfs"]
[[axis]]
medium = ["hinfs"]
AXES
[fs]
buffer = "21MiB"
WORKLOADS
"#;

const FILESERVER: &str = "[[workload]]\nname = \"filebench/fileserver\"\nvars = { nfiles = 410 }\n";
const WEBPROXY: &str = "[[workload]]\nname = \"filebench/webproxy\"\nvars = { nfiles = 3277 }\n";
const WEBSERVER: &str = "[[workload]]\nname = \"filebench/webserver\"\nvars = { nfiles = 3277 }\n";
const VARMAIL: &str = "[[workload]]\nname = \"filebench/varmail\"\nvars = { nfiles = 3277 }\n";

/// A metric of each cell by workload, design and the value of the figure's own axis.
type Cells = BTreeMap<String, f64>;

/// Runs a figure: by operations a second, or by a counter.
fn run(text: &str, axis: &str, counter: Option<&str>) -> Cells {
    let plan = Plan::parse("shapes.toml", text, false).unwrap_or_else(|error| panic!("{error}"));
    let file = Runner::new(Settings::default(), &Silent).run(&plan).unwrap_or_else(|error| panic!("{error}"));
    let cell = |sample: &results::Sample| {
        let of = |name| sample.axis(name).unwrap_or_default().to_owned();
        let value = counter.map_or(sample.throughput_ops_per_s, |name| sample.counters[name] as f64);
        (format!("{} {} {}", of("workload"), of("fs"), of(axis)), value)
    };
    file.samples.iter().map(cell).collect()
}

fn plan(axes: &str, workloads: &[&str]) -> String {
    PLAN.replace("AXES", axes).replace("WORKLOADS", &workloads.concat())
}

fn at(cells: &Cells, workload: &str, fs: &str, place: &str) -> f64 {
    cells[&format!("filebench/{workload} {fs} {place}")]
}

/// HiNFS over PMFS.
fn gain(cells: &Cells, workload: &str, place: &str) -> f64 {
    at(cells, workload, "hinfs", place) / at(cells, workload, "pmfs", place)
}

/// Figures 7 and 8.
fn by_threads() -> &'static Cells {
    static CELLS: OnceLock<Cells> = OnceLock::new();
    CELLS.get_or_init(|| {
        let axes = "[[axis]]\nthreads = [1, 2, 4, 10]";
        run(&plan(axes, &[FILESERVER, WEBPROXY, VARMAIL]), "threads", None)
    })
}

#[test]
fn the_buffer_pays_on_fileserver_at_every_number_of_threads_and_least_at_ten() {
    let gains = ["1", "2", "4", "10"].map(|threads| gain(by_threads(), "fileserver", threads));
    assert!(gains.iter().all(|gain| *gain > 1.1), "{gains:?}");
    assert!(gains[3] < gains[1] && gains[3] < gains[2], "{gains:?}");
}

#[test]
fn fileserver_on_hinfs_has_its_peak_before_ten_threads_and_pmfs_is_flat_from_four_on() {
    let rates = |fs| ["1", "2", "4", "10"].map(|threads| at(by_threads(), "fileserver", fs, threads));
    let (hinfs, pmfs) = (rates("hinfs"), rates("pmfs"));
    assert!(hinfs[3] < hinfs[1].max(hinfs[2]), "{hinfs:?}");
    assert!(pmfs[2] > 2.0 * pmfs[0], "three writers are admitted at once: {pmfs:?}");
    assert!((pmfs[3] / pmfs[2] - 1.0).abs() < 0.15, "{pmfs:?}");
}

#[test]
fn the_buffer_pays_on_webproxy_and_not_on_varmail() {
    for threads in ["1", "4"] {
        let (webproxy, varmail) =
            (gain(by_threads(), "webproxy", threads), gain(by_threads(), "varmail", threads));
        assert!(webproxy > 1.1, "{threads} threads: {webproxy}");
        assert!((0.85..1.2).contains(&varmail), "{threads} threads: {varmail}");
    }
}

/// Figures 7 and 8: reads are the same, and the one append of a loop costs PMFS its data.
#[test]
fn webserver_gains_by_its_log_alone_and_as_much_at_four_threads_as_at_one() {
    let cells = run(&plan("[[axis]]\nthreads = [1, 4]", &[WEBSERVER]), "threads", None);
    let gains = ["1", "4"].map(|threads| gain(&cells, "webserver", threads));
    assert!(gains.iter().all(|gain| (1.1..1.7).contains(gain)), "{gains:?}");
    assert!((gains[0] / gains[1] - 1.0).abs() < 0.15, "{gains:?}");
}

/// Figure 7: what the page cache costs where the medium is as fast as memory.
#[test]
fn block_designs_are_behind_on_fileserver_and_webserver() {
    let text = plan("[[axis]]\nthreads = [4]", &[FILESERVER, WEBSERVER])
        .replace("fs = [\"pmfs\", \"hinfs\"]", "fs = [\"pmfs\", \"ext2\", \"ext4\"]")
        .replace("buffer = \"21MiB\"", "cache = \"30MiB\"");
    let cells = run(&text, "threads", None);
    for workload in ["fileserver", "webserver"] {
        for fs in ["ext2", "ext4"] {
            let ratio = at(&cells, workload, fs, "4") / at(&cells, workload, "pmfs", "4");
            assert!(ratio < 0.9, "{workload}, {fs}: {ratio}");
        }
    }
}

/// Figure 9.
#[test]
fn the_gain_grows_with_the_size_of_writes_and_small_appends_need_not_write_whole_blocks_back() {
    let axes = "[[axis]]\nthreads = [4]\n[[axis]]\niosize = [\"64\", \"1KiB\", \"16KiB\"]\n\
                sets = [\"var.iosize\", \"var.meanappendsize\"]";
    let text = plan(axes, &[FILESERVER])
        .replace("\"hinfs\"]\n[[axis]]\nmedium", "\"hinfs\", \"hinfs-nclfw\"]\n[[axis]]\nmedium");
    let cells = run(&text, "iosize", None);
    let gains = ["64", "1KiB", "16KiB"].map(|size| gain(&cells, "fileserver", size));
    // From 1 KiB on the two are level at this scale.
    assert!(1.3 * gains[0] < gains[1] && 0.95 * gains[1] < gains[2], "{gains:?}");
    let by_lines =
        |size| at(&cells, "fileserver", "hinfs", size) / at(&cells, "fileserver", "hinfs-nclfw", size);
    assert!((0.95..1.08).contains(&by_lines("16KiB")), "{}", by_lines("16KiB"));
    assert!(by_lines("1KiB") > 0.97, "{}", by_lines("1KiB"));
}

/// Figure 10.
#[test]
fn fileserver_grows_with_the_buffer_and_webproxy_much_less() {
    let axes = "[[axis]]\nthreads = [4]\n[[axis]]\nbuffer = [\"5MiB\", \"21MiB\", \"53MiB\"]\n\
                sets = [\"fs.buffer\"]\nunaffected = [\"pmfs\"]";
    let cells = run(&plan(axes, &[FILESERVER, WEBPROXY]), "buffer", None);
    let rates = |workload| ["5MiB", "21MiB", "53MiB"].map(|size| at(&cells, workload, "hinfs", size));
    let (fileserver, webproxy) = (rates("fileserver"), rates("webproxy"));
    assert!(fileserver[0] < fileserver[1] && fileserver[1] < fileserver[2], "{fileserver:?}");
    assert!(fileserver[2] > 1.5 * fileserver[0], "{fileserver:?}");
    assert!(webproxy[2] / webproxy[0] < fileserver[2] / fileserver[0], "{webproxy:?}, {fileserver:?}");
}

/// Figure 11.
#[test]
fn the_gain_grows_with_the_latency_of_the_medium_and_is_no_loss_at_the_least() {
    let axes = "[[axis]]\nthreads = [1]\n[[axis]]\nlatency = [\"50ns\", \"200ns\", \"800ns\"]\nsets = [\"medium.latency\"]";
    let cells = run(&plan(axes, &[FILESERVER, WEBPROXY, VARMAIL]), "latency", None);
    let gains = |workload| ["50ns", "200ns", "800ns"].map(|latency| gain(&cells, workload, latency));
    for workload in ["fileserver", "webproxy"] {
        let gains = gains(workload);
        assert!(gains[0] < gains[1] && gains[1] < gains[2], "{workload}: {gains:?}");
    }
    for workload in ["fileserver", "webproxy", "varmail"] {
        assert!(gains(workload)[0] > 0.95, "{workload}: {:?}", gains(workload));
    }
    let varmail = gains("varmail");
    assert!(varmail.iter().all(|gain| (0.85..1.25).contains(gain)), "{varmail:?}");
}
