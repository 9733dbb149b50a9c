//! Files of presets that people write: whatever is wrong in one is told at once, each with file, line, column and the nearest name.

use std::path::Path;

use crate::shared::{told, weir};

/// A kind of file: a built-in one as its beginning, what is changed in it with what must then be told, and commands that read it.
struct Kind {
    preset: &'static str,
    typos: &'static [(&'static str, &'static str, &'static str)],
    commands: &'static [&'static [&'static str]],
}

const KINDS: [Kind; 5] = [
    Kind {
        preset: "plans/quick.toml",
        typos: &[
            ("machine = \"spr-server\"", "machin = \"spr-server\"", "did you mean \"machine\"?"),
            ("stop = \"100ms\"", "stop = \"100mz\"", "neither a time such as 60s"),
            ("threads = [4]", "thread = [4]", "axis \"thread\" needs sets"),
        ],
        commands: &[&["plan", "check"], &["run"], &["show", "plan"]],
    },
    Kind {
        preset: "machines/hinfs-server.toml",
        typos: &[
            ("fitted_on = [", "fited_on = [", "did you mean \"fitted_on\"?"),
            ("cores_per_socket = { count", "cores_per_socket = { cuont", "did you mean \"count\"?"),
            ("syscall = {", "sycall = {", "did you mean \"syscall\"?"),
        ],
        commands: &[&["show", "machine"], &["bench", "varmail", "--fs", "pmfs", "--machine"]],
    },
    Kind {
        preset: "media/optane.100.toml",
        typos: &[
            ("date = ", "dat = ", "did you mean \"date\"?"),
            ("dimms = ", "dims = ", "did you mean \"dimms\"?"),
            ("queue = { value = \"4\", source", "queue = { value = \"4\", sorce", "did you mean \"source\"?"),
        ],
        commands: &[&["bench", "varmail", "--fs", "pmfs", "--medium"], &["sim", "medium"]],
    },
    Kind {
        preset: "flash/fast24.toml",
        typos: &[
            ("summary = ", "sumary = ", "did you mean \"summary\"?"),
            ("planes = ", "plane = ", "\"planes\"?"),
            ("channels = { value = \"4\"", "channels = { value = \"four\"", "four"),
        ],
        commands: &[&["sim", "flash", "trace", "--device"]],
    },
    Kind {
        preset: "archsim/hpca18.toml",
        typos: &[
            ("summary = ", "sumary = ", "did you mean \"summary\"?"),
            ("l1_ways = ", "l1_wasy = ", "did you mean \"l1_ways\"?"),
            ("window = { value = \"128\"", "window = { value = \"1280\"", "window = 1280: from 8 to 224"),
        ],
        commands: &[&["show", "processor"], &["sim", "logging", "--machine"]],
    },
];

#[test]
fn every_typo_in_a_file_is_told_at_once_with_its_place_and_the_nearest_name() {
    let home = tempfile::tempdir().unwrap();
    let presets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets");
    for Kind { preset, typos, commands } in KINDS {
        let mut text = std::fs::read_to_string(presets.join(preset)).unwrap();
        for (right, wrong, _) in typos {
            assert!(text.contains(right), "{preset}: {right}");
            text = text.replacen(right, wrong, 1);
        }
        std::fs::write(home.path().join("mine.toml"), &text).unwrap();
        for command in commands {
            let output = weir(home.path()).args(*command).arg("mine.toml").output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{command:?}, {preset}: {}", told(&output));
            for (_, wrong, near) in typos {
                let line = text.lines().position(|line| line.contains(wrong)).unwrap() + 1;
                let place = format!("mine.toml:{line}:");
                let is_told = told(&output).lines().any(|told| told.contains(&place) && told.contains(near));
                assert!(is_told, "{command:?}, {preset}: {place} {near}: {}", told(&output));
            }
        }
    }
}

#[test]
fn a_processor_of_ones_own_is_shown_listed_and_simulated_alone_and_in_a_plan() {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = weir(home.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let mine = "summary = \"mine\"\nbase = \"tiny\"\n[parameters]\nl1_latency = { value = \"5\", source = \"me\" }\n";
    std::fs::write(home.path().join("mine.toml"), mine).unwrap();
    assert!(
        run(&["show", "mine.toml"]).contains("mine (processor)")
            && run(&["show", "hpca18"]).contains("(processor)")
    );
    let today = run(&["list", "machines"]);
    assert!(
        today.contains("spr-server") && today.contains("--all") && !today.contains("hinfs-server"),
        "{today}"
    );
    let machines = run(&["list", "machines", "--all"]);
    for name in ["hinfs-server", "hpca18", "mcsima"] {
        assert!(machines.contains(name), "{machines}");
    }
    assert!(run(&["list", "machines", "--json"]).contains("`weir sim logging`"));
    assert!(
        run(&["sim", "logging", "--machine", "mine.toml", "--ops", "50", "--scheme", "fwb"])
            .contains("machine mine")
    );
    let plan = "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"50 ops\"\nmachine = \"mine.toml\"\n\
                [[axis]]\nscheme = [\"fwb\", \"hwl\"]\n\
                [[workload]]\nname = \"archsim/hash\"\n";
    std::fs::write(home.path().join("plan.toml"), plan).unwrap();
    let json: serde_json::Value = serde_json::from_str(&run(&["run", "plan.toml", "--json"])).unwrap();
    let text = json.to_string();
    assert!(text.contains("archsim/hash") && text.contains("\"scheme\":\"hwl\""), "{text}");
}
