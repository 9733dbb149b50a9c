//! Memory under load by commands: `weir sim medium --loaded …`, and `weir calibrate --from`.

use std::fmt::Write as _;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn weir(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .current_dir(home);
    command
}

/// The exit code, and both outputs.
fn run(home: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = weir(home).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// Points of the rows of a Xeon 8480+: percent of reads, GB/s, ns. Idle is where the row has no traffic.
fn published() -> Vec<(f64, f64, f64)> {
    let text = include_str!("../../../../presets/validation/memory.toml");
    let mut points = Vec::new();
    for row in text
        .split("[[row]]")
        .filter(|row| row.contains("\"mess.spr8480.avx512.rd") && row.contains("load latency at"))
    {
        let of = |key: &str| {
            row.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key} in {row}"))
        };
        let what = of("what = \"load latency at ");
        let (traffic, rest) = what.split_once(" GB/s, ").unwrap();
        let reads = rest.split_once(' ').unwrap().0;
        points.push((reads.parse().unwrap(), traffic.parse().unwrap(), of("published = ").parse().unwrap()));
    }
    points
}

#[test]
fn a_curve_goes_in_as_mess_or_mlc_writes_it_and_each_point_comes_out() {
    let (home, points) = (tempfile::tempdir().unwrap(), published());
    let home = home.path();
    assert_eq!(points.len(), 29);
    let mut mess = "read_pct_rounded,bandwidth_mean,bandwidth_sd,latency_mean\n".to_owned();
    for (reads, gb, ns) in &points {
        writeln!(mess, "{reads},{gb},0.1,{ns}").unwrap();
    }
    std::fs::write(home.join("curves.csv"), mess).unwrap();
    let mlc = |share: f64| {
        let of_share = points.iter().filter(|(reads, ..)| (*reads - share).abs() < 1e-9).enumerate();
        let mut text =
            "Inject\tLatency\tBandwidth\nDelay\t(ns)\tMB/sec\n==========================\n".to_owned();
        for (at, (_, gb, ns)) in of_share {
            writeln!(text, " {:05}\t{ns}\t{}", 20_000 - at, gb * 1e3).unwrap();
        }
        text
    };
    for share in [100.0, 83.0, 67.0] {
        std::fs::write(home.join(format!("mlc{share}.txt")), mlc(share)).unwrap();
    }
    let mess = ["calibrate", "--from", "curves.csv", "-o", "mess.toml"];
    let mlc = "calibrate --from mlc100.txt --from mlc83.txt --from mlc67.txt --reads 100,83,67 -o mlc.toml";
    let mlc: Vec<&str> = mlc.split(' ').collect();
    for (arguments, medium) in [(&mess[..], "mess.toml"), (&mlc, "mlc.toml")] {
        let (code, out, err) = run(home, arguments);
        assert_eq!(code, 0, "{out}{err}");
        assert!(out.contains("83 % reads") && out.contains("each point"), "{out}");
        for share in ["100", "83", "67"] {
            // 48 generators, whose lines under way take no longer than a latency at the wall. A load without traffic is a read
            // itself: its point is that of reads alone, beside a thousandth of the traffic.
            let of_share = points
                .iter()
                .filter(|(reads, gb, _)| reads.to_string() == share && (*gb > 5.0 || share == "100"));
            let of_share: Vec<_> = of_share.collect();
            let traffic = of_share.iter().map(|(_, gb, _)| format!("{}GB/s", gb.max(0.1)));
            let traffic = traffic.collect::<Vec<_>>().join(",");
            let loaded = [
                "sim",
                "medium",
                medium,
                "--loaded",
                "--traffic",
                &traffic,
                "--reads",
                share,
                "--threads",
                "48",
                "--time",
                "400us",
                "--json",
            ];
            let (code, out, err) = run(home, &loaded);
            assert_eq!(code, 0, "{err}");
            let found: Value = serde_json::from_str(&out).unwrap();
            let measured = found["measured"].as_array().unwrap();
            assert_eq!(measured.len(), of_share.len());
            for ((_, gb, ns), one) in of_share.iter().zip(measured) {
                let value = one["value"].as_f64().unwrap();
                assert!(
                    (value / ns - 1.0).abs() < 0.01,
                    "{medium} {share} % at {gb} GB/s: {value} ns for {ns}"
                );
            }
        }
    }
}

#[test]
fn files_that_are_no_curve_are_refused_with_file_line_and_reason() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let head = "read_pct_rounded,bandwidth_mean,latency_mean\n";
    let share = |reads: u32, by: f64| -> String {
        let mut rows = String::new();
        for step in 0..5 {
            writeln!(rows, "{reads},{},{}", f64::from(step * 20 + 5) * by, 100 + step * step * 5).unwrap();
        }
        rows
    };
    let torn = format!("{head}{}50,20", share(100, 1.0));
    let max = "ALL Reads        :\t240.6\n1:1 Reads-Writes :\t190.1\n";
    let files = [
        ("empty.csv", String::new(), "it is empty"),
        ("page.csv", "<!DOCTYPE html><html><body>404</body></html>".to_owned(), "HTML"),
        ("torn.csv", torn, "line 7"),
        ("one.csv", format!("{head}{}", share(100, 1.0)), "one share"),
        ("few.csv", format!("{head}{}50,1,100\n50,2,101\n", share(100, 1.0)), "2 points"),
        (
            "falling.csv",
            format!("{head}{}50,40,100\n50,30,120\n50,20,140\n50,10,160\n", share(100, 1.0)),
            "50.0 % reads have 1 points",
        ),
        ("ns.csv", format!("{head}{}", share(100, 1.0).replace(",100\n", ",word\n")), "line 2"),
        (
            "units.csv",
            format!("{head}{}{}", share(100, 1e-6), share(50, 1e-6)),
            "neither in GB/s nor in MB/s",
        ),
        ("max.txt", max.to_owned(), "line 1"),
        ("other.txt", "hello\n".to_owned(), "line 1"),
    ];
    for (name, text, word) in files {
        std::fs::write(home.join(name), text).unwrap();
        let (code, _, err) = run(home, &["calibrate", "--from", name, "-o", "mine.toml"]);
        assert!(code == 2 && err.contains(name) && err.contains(word), "{name}: {code} {err}");
        assert!(!home.join("mine.toml").exists(), "nothing is written");
        if name.strip_suffix(".csv").is_some() {
            let (code, _, err) = run(home, &["sim", "medium", &format!("curve,file={name}"), "--max"]);
            assert!(code == 2 && err.contains(name), "curve,file={name}: {code} {err}");
        }
    }
}

#[test]
fn impossible_memory_is_refused_and_too_much_traffic_is_told_and_ends_with_0() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for (medium, word) in [
        ("ddr,width=0", "peak"),
        ("ddr,rate=1000000000", "peak"),
        ("ddr,idle=0ns", "idle"),
        ("cxl,card=0B/s", "peak"),
    ] {
        let (code, _, err) = run(home, &["sim", "medium", medium, "--max"]);
        assert!(code == 2 && err.contains(word), "{medium}: {code} {err}");
    }
    let loaded =
        ["sim", "medium", "ddr", "--loaded", "--traffic", "900GB/s", "--threads", "55", "--time", "200us"];
    let (code, out, err) = run(home, &loaded);
    assert!(code == 0 && out.contains("saturated") && err.contains("AMD"), "{code} {out} {err}");
    let two = run(home, &["sim", "medium", "ddr", "--max", "--cold", "load"]);
    assert_eq!(two.0, 2, "one form at a time: {}", two.2);
    assert_eq!(run(home, &["sim", "medium", "ddr", "--loaded"]).0, 2, "--loaded needs --traffic");
    assert_eq!(run(home, &["sim", "medium", "ddr", "--max", "--full"]).0, 2, "--full is of the loops");
}

#[test]
fn loops_of_dram_end_with_an_error_and_not_with_a_signal() {
    let home = tempfile::tempdir().unwrap();
    let loops = "sim medium dram --machine spr-server --op read,mix11 --size 65536 --threads 1,8 --full";
    for fence in [&["--no-fence"][..], &[]] {
        let arguments: Vec<&str> = loops.split(' ').chain(fence.iter().copied()).collect();
        let (code, _, err) = run(home.path(), &arguments);
        assert!(
            code == 4 && err.contains("accesses take no time") && err.contains("--loaded"),
            "{code} {err}"
        );
    }
    let free = "sim medium flat --size 65536 --threads 8 --no-fence";
    let (code, _, err) = run(home.path(), &free.split(' ').collect::<Vec<_>>());
    assert!(code == 4 && !err.contains("panicked at"), "{code} {err}");
}

#[test]
fn loops_say_whether_a_load_is_all_of_it_or_what_it_takes_beyond_dram() {
    let home = tempfile::tempdir().unwrap();
    for (medium, column, is_whole, ns) in
        [("cxl.asic", "ns in all", true, 254.3), ("cxl.flat", "ns over local", false, 150.0)]
    {
        let words = ["sim", "medium", medium, "--pattern", "rand", "--size", "64"];
        let (code, out, err) = run(home.path(), &words);
        assert!(code == 0 && out.contains(column), "{medium}: {code} {out}{err}");
        let (_, out, _) = run(home.path(), &[&words[..], &["--json"]].concat());
        let found: Value = serde_json::from_str(&out).unwrap();
        let measured = found["loops"][0]["access_ns"].as_f64().unwrap();
        assert_eq!(found["loads_whole"], is_whole);
        assert!((measured / ns - 1.0).abs() < 0.03, "{medium}: {measured} ns, {ns} is its latency");
    }
}

#[test]
fn parts_of_a_nanosecond_count() {
    let home = tempfile::tempdir().unwrap();
    let idle = |medium: &str| {
        let words = ["sim", "medium", medium, "--loaded", "--traffic", "0.1GB/s", "--json"];
        let found: Value = serde_json::from_str(&run(home.path(), &words).1).unwrap();
        found["measured"][0]["value"].as_f64().unwrap()
    };
    let (less, more) = (idle("ddr,idle=110.4ns"), idle("ddr,idle=110.9ns"));
    assert!((more - less - 0.5).abs() < 0.05, "{less} and {more}");
    let (near, far) = (idle("cxl,extra=100ns,tail=none"), idle("cxl,extra=100.4ns,tail=none"));
    assert!((far - near - 0.4).abs() < 0.05, "{near} and {far}");
}

#[test]
fn commands_that_the_page_about_rows_prints_end_well() {
    let home = tempfile::tempdir().unwrap();
    let page = include_str!("../../../../presets/validation/README.md");
    let commands: Vec<&str> =
        page.split('`').filter(|text| text.starts_with("weir bench validation/")).collect();
    assert!(!commands.is_empty());
    for command in commands {
        let words: Vec<&str> = command.split(' ').skip(1).chain(["--runtime", "1s", "--quiet"]).collect();
        let (code, _, err) = run(home.path(), &words);
        assert_eq!(code, 0, "{command}: {err}");
    }
}

#[test]
fn a_card_carries_no_more_of_both_directions_than_its_memory_and_a_flat_medium_twice_as_much() {
    let home = tempfile::tempdir().unwrap();
    let rate = |medium: &str, op: &str| {
        let words = ["sim", "medium", medium, "--op", op, "--size", "4096", "--threads", "16", "--no-fence"];
        let (code, out, err) = run(home.path(), &[&words[..], &["--time", "1ms", "--json"]].concat());
        assert_eq!(code, 0, "{err}");
        let found: Value = serde_json::from_str(&out).unwrap();
        found["loops"][0]["bytes_per_s"].as_f64().unwrap()
    };
    let flat = rate("cxl.flat", "mix11") / rate("cxl.flat", "read");
    assert!((flat - 2.0).abs() < 0.02, "{flat}");
    let card = rate("cxl.asic", "mix11") / rate("cxl.asic", "read");
    assert!((1.2..=1.5).contains(&card), "{card}");
}

#[test]
fn pages_say_what_a_memory_under_load_is_and_explain_tells_its_waits() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for name in ["spr-server", "cxl.asic"] {
        let (code, out, err) = run(home, &["show", name]);
        let said = out.replace('\n', " ");
        for part in ["idle ", "at half", "greatest ", "source: [", "errors: ", "not validated: "] {
            assert!(code == 0 && said.contains(part), "{name}: no \"{part}\" in {out}{err}");
        }
    }
    let (_, out, _) = run(home, &["show", "spr-server,memory=none"]);
    assert!(!out.contains("at half"), "{out}");
    let bench = |machine: &str, medium: &str, page: &str| {
        let words = format!(
            "bench varmail --fs pmfs --medium {medium} --machine {machine} --threads 8 --runtime 2ms --repeats 1 \
             --warm-up none -D nfiles=100 --quiet -o {page}"
        );
        let (code, out, err) = run(home, &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(code, 0, "{out}{err}");
        std::fs::read_to_string(home.join(page)).unwrap()
    };
    let page = bench("spr-server", "cxl.asic", "page.html");
    assert!(page.contains("memory of spr-server: idle") && page.contains("memory of cxl.asic: idle"));
    let (code, out, err) = run(home, &["explain", "latest"]);
    assert!(code == 0 && out.contains("memory latency"), "{out}{err}");
    let page = bench("spr-server,memory=none", "hinfs", "plain.html");
    assert!(!page.contains("memory of spr-server: idle"));
    let (_, out, _) = run(home, &["explain", "latest"]);
    assert!(!out.contains("memory latency") && !out.contains("memory turn"), "{out}");
}
