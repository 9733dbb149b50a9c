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
        // Below the wall, where a generator reaches what is asked for to the last hundredth.
        for share in ["100", "83", "67"] {
            let of_share: Vec<_> =
                points.iter().filter(|(reads, gb, _)| reads.to_string() == share && *gb > 5.0).collect();
            let below: Vec<_> = of_share[..of_share.len() - 1].iter().collect();
            let traffic: Vec<String> = below.iter().map(|(_, gb, _)| format!("{gb}GB/s")).collect();
            let traffic = traffic.join(",");
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
                "55",
                "--time",
                "400us",
                "--json",
            ];
            let (code, out, err) = run(home, &loaded);
            assert_eq!(code, 0, "{err}");
            let found: Value = serde_json::from_str(&out).unwrap();
            for ((_, gb, ns), one) in below.iter().zip(found["measured"].as_array().unwrap()) {
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
