//! What a new user meets: names, sizes and advice in messages, scripts as they are found, the progress bar.

use std::path::Path;
use std::process::{Command, Output};

use crate::shared::{document, told, weir};

const SIZE: [&str; 2] = ["--size", "64MiB"];

fn run(home: &Path, arguments: &[&str]) -> Output {
    weir(home).args(arguments).output().unwrap()
}

/// What a command that must succeed has printed.
fn printed(home: &Path, arguments: &[&str]) -> String {
    let output = run(home, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// HiNFS's format is PMFS's; the image knows for which of them it was made.
#[test]
fn df_fsck_and_mkfs_call_a_hinfs_image_hinfs() {
    let home = tempfile::tempdir().unwrap();
    for design in ["hinfs", "pmfs"] {
        printed(home.path(), &[&["mkfs", "--force", design, "a.pm"], &SIZE[..]].concat());
        for command in ["df", "fsck"] {
            let found = document(&run(home.path(), &[command, "--json", "a.pm"]));
            assert_eq!(found["fs"], design, "{command}");
        }
        let words = printed(home.path(), &["df", "a.pm"]);
        let other = if design == "pmfs" { "hinfs" } else { "pmfs" };
        assert!(words.contains(design) && !words.contains(other), "{words}");
        let again = told(&run(home.path(), &["mkfs", design, "a.pm"]));
        assert!(again.contains(&format!("holds a {design} file system")), "{again}");
    }
}

#[test]
fn mkfs_takes_the_design_where_mount_takes_it_and_by_its_flag() {
    let home = tempfile::tempdir().unwrap();
    printed(home.path(), &[&["mkfs", "nova", "first.pm"], &SIZE[..]].concat());
    printed(home.path(), &[&["mkfs", "--fs", "nova", "second.pm"], &SIZE[..]].concat());
    for image in ["first.pm", "second.pm"] {
        assert_eq!(document(&run(home.path(), &["df", "--json", image]))["fs"], "nova");
    }
    let both = run(home.path(), &[&["mkfs", "--fs", "nova", "nova", "third.pm"], &SIZE[..]].concat());
    assert_eq!(both.status.code(), Some(2), "{}", told(&both));
}

/// As Filebench's `webproxy.f` and `networkfs.f` end: one defines only, the other also creates the files and says so.
#[test]
fn scripts_without_a_run_statement_run_with_a_warning() {
    let home = tempfile::tempdir().unwrap();
    let script = "set $nfiles=20\n\
        define fileset name=d,path=/d,entries=$nfiles,dirwidth=20,size=4k,prealloc\n\
        define process name=p { thread name=t,memsize=1m { flowop write name=w,filename=d,iosize=1k } }\n";
    for end in
        ["echo \"Web proxy-server personality successfully loaded\"\n", "eventgen rate=1000\ncreate files\n"]
    {
        std::fs::write(home.path().join("own.f"), format!("{script}{end}")).unwrap();
        let result =
            document(&run(home.path(), &["bench", "own.f", "--fs", "pmfs", "--runtime", "1ms", "--json"]));
        let sample = &result["samples"][0];
        assert!(sample["ops"].as_u64() > Some(0), "{end}: {result}");
        let notes = sample["notes"].to_string();
        assert!(
            notes.contains("there is no run statement") && !notes.contains("only checked"),
            "{end}: {notes}"
        );
    }
    let table = printed(home.path(), &["bench", "own.f", "--fs", "pmfs", "--runtime", "1ms"]);
    assert!(table.contains("there is no run statement"), "{table}");
}

/// Ten files are made in microseconds, the warm-up is a tenth of the run.
#[test]
fn a_script_that_ends_within_its_warm_up_is_no_result_of_zero_operations() {
    let home = tempfile::tempdir().unwrap();
    let script = "define fileset name=d,path=/d,entries=20,dirwidth=20,size=4k,prealloc=0\n\
        define process name=p { thread name=t,memsize=1m {\n\
        flowop createfile name=c,filesetname=d,fd=1\nflowop closefile name=e,fd=1\n\
        flowop finishoncount name=f,value=10,target=c } }\nrun 1\n";
    std::fs::write(home.path().join("short.f"), script).unwrap();
    let bench = ["bench", "short.f", "--fs", "pmfs", "--json"];
    let output = run(home.path(), &bench);
    assert_ne!(output.status.code(), Some(0), "{}", told(&output));
    assert!(told(&output).contains("ended within its warm-up"), "{}", told(&output));
    assert!(told(&output).contains("--warm-up 0s"), "{}", told(&output));
    let whole = document(&run(home.path(), &[&bench[..], &["--warm-up", "0s"]].concat()));
    assert!(whole["samples"][0]["ops"].as_u64() > Some(0), "{whole}");
}

#[test]
fn a_measured_time_in_which_nothing_ends_is_no_rate_of_zero() {
    let home = tempfile::tempdir().unwrap();
    let bench = ["bench", "varmail", "--fs", "pmfs", "-D", "nfiles=50", "--threads", "1", "--runtime"];
    let short = printed(home.path(), &[&bench[..], &["1ns"]].concat());
    assert!(short.contains("Nothing ended in the measured time") && short.contains("--runtime"), "{short}");
    let long = printed(home.path(), &[&bench[..], &["1ms"]].concat());
    assert!(!long.contains("Nothing ended"), "{long}");
}

/// A data set that no host holds, in a script with and without a variable for it, and in a plan.
#[test]
fn a_refusal_for_memory_advises_only_what_the_command_or_file_has() {
    let home = tempfile::tempdir().unwrap();
    let script = "define fileset name=d,path=/d,entries=ENTRIES,dirwidth=20,size=1g\n\
        define process name=p { thread name=t,memsize=1m { flowop statfile name=s,filename=d } }\nrun 1\n";
    let with = format!("set $nfiles=99999\n{}", script.replace("ENTRIES", "$nfiles"));
    std::fs::write(home.path().join("fixed.f"), script.replace("ENTRIES", "99999")).unwrap();
    std::fs::write(home.path().join("variable.f"), with).unwrap();
    let refused = |arguments: &[&str]| {
        let output = run(home.path(), arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", told(&output));
        told(&output)
    };
    let fixed = refused(&["bench", "fixed.f", "--fs", "pmfs"]);
    assert!(fixed.contains("change its text") && !fixed.contains("-D "), "{fixed}");
    assert!(!fixed.contains("region"), "no region was given: {fixed}");
    let variable = refused(&["bench", "variable.f", "--fs", "pmfs"]);
    assert!(variable.contains("-D nfiles=") && !variable.contains("filesize"), "{variable}");
    let plan = "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"1s\"\nregion = \"9999TiB\"\n[[axis]]\nfs = [\"pmfs\"]\n\
        [[workload]]\nname = \"filebench/varmail\"\n";
    std::fs::write(home.path().join("p.toml"), plan).unwrap();
    let plan = refused(&["run", "p.toml"]);
    assert!(plan.contains("in a plan: region"), "{plan}");
}

/// The size behind `--region ` in a message.
fn suggested(message: &str) -> Option<String> {
    let rest = message.split("give it --region ").nth(1)?;
    rest.split_whitespace().next().map(str::to_owned)
}

#[test]
fn sizes_that_messages_suggest_are_taken_and_are_enough() {
    let home = tempfile::tempdir().unwrap();
    let mut size = "1MiB".to_owned();
    for _ in 0..6 {
        let arguments =
            ["bench", "varmail", "--fs", "pmfs", "-D", "nfiles=300", "--runtime", "5ms", "--region", &size];
        let output = run(home.path(), &arguments);
        if output.status.success() {
            return;
        }
        size = suggested(&told(&output)).unwrap_or_else(|| panic!("{}", told(&output)));
        assert!(size.parse::<sim::Bytes>().is_ok(), "{size} does not parse");
    }
    panic!("{size} is not enough either");
}

/// On a terminal, which `script` provides.
#[test]
fn the_bar_says_nothing_of_the_time_left_before_a_run_has_ended() {
    let home = tempfile::tempdir().unwrap();
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: there is no script(1)");
        return;
    }
    let weir = weir(home.path()).get_program().to_owned();
    let bench = "bench varmail --fs pmfs,hinfs -D nfiles=50 --threads 1 --clock real --runtime 1500ms";
    let mut script = Command::new("script");
    script
        .args(["-qec", &format!("{} {bench}", weir.to_string_lossy()), "/dev/null"])
        .current_dir(home.path());
    let output = script.env("XDG_DATA_HOME", home.path().join("data")).env("TERM", "xterm").output().unwrap();
    let drawn = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && drawn.contains("0/2"), "{drawn}");
    assert!(!drawn.contains("0/2 left"), "{drawn}");
    assert!(drawn.contains("1/2 left"), "and afterwards it does: {drawn}");
}

#[test]
fn the_released_command_has_no_symbols() {
    let manifest = include_str!("../../../../Cargo.toml");
    let release = manifest.split("[profile.release]").nth(1).and_then(|rest| rest.split("\n[").next());
    assert!(release.is_some_and(|profile| profile.contains("strip = true")), "{release:?}");
}

/// A preset of each kind in a file of the user's own, wherever its name could stand.
#[test]
fn files_of_media_devices_and_machines_are_taken_where_their_names_are() {
    let home = tempfile::tempdir().unwrap();
    let presets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets");
    for (from, to) in [("media/hinfs", "nvm"), ("flash/fast24", "ssd"), ("machines/hinfs-server", "host")] {
        std::fs::copy(presets.join(format!("{from}.toml")), home.path().join(format!("{to}.toml"))).unwrap();
    }
    for name in ["nvm.toml", "ssd.toml", "host.toml"] {
        assert!(!printed(home.path(), &["show", name]).is_empty(), "weir show {name}");
    }
    let small =
        ["-D", "nfiles=60", "--threads", "1", "--runtime", "20 ops", "--json", "--machine", "host.toml"];
    for (fs, medium) in [("pmfs", "nvm.toml,latency=1us"), ("ext4", "ssd.toml")] {
        let bench = [&["bench", "varmail", "--fs", fs, "--medium", medium], &small[..]].concat();
        let result = document(&run(home.path(), &bench));
        assert_eq!(result["samples"][0]["axes"]["medium"], medium, "{result}");
    }
    printed(home.path(), &["report", "latest", "--bundle", "b.tar.gz"]);
    std::fs::remove_file(home.path().join("ssd.toml")).unwrap();
    printed(home.path(), &["run", "--like", "b.tar.gz", "-q"]);
    std::fs::copy(presets.join("flash/fast24.toml"), home.path().join("ssd.toml")).unwrap();
    std::fs::write(home.path().join("trace"), "0 0 8 8 1\n10 0 16 8 0\n").unwrap();
    printed(home.path(), &["sim", "flash", "trace", "--device", "ssd.toml"]);
    let plan = "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"20 ops\"\nmachine = \"host.toml\"\n[[axis]]\nfs = [\"pmfs\"]\n\
        [[axis]]\nmedium = [\"nvm.toml\", \"dram\"]\n[[axis]]\nthreads = [1]\n\
        [[workload]]\nname = \"filebench/varmail\"\nvars = { nfiles = 60 }\n";
    std::fs::write(home.path().join("p.toml"), plan).unwrap();
    printed(home.path(), &["run", "p.toml", "-q"]);
}

#[test]
fn help_is_asked_for_by_a_word_too() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(printed(home.path(), &["help"]), printed(home.path(), &["--help"]));
    assert_eq!(
        printed(home.path(), &["help", "trace", "cut"]),
        printed(home.path(), &["trace", "cut", "--help"])
    );
}

#[test]
fn words_of_pages_are_explained_and_an_importer_offers_what_it_reads() {
    let home = tempfile::tempdir().unwrap();
    for word in ["media", "medium", "machines", "machine", "kernel", "robust", "accuracy", "prices"] {
        let meaning = printed(home.path(), &["explain", word]);
        assert!(meaning.starts_with(word) && meaning.len() > 40, "{meaning}");
    }
    let offered = told(&run(home.path(), &["trace", "import", "ibm", "x", "-o", "y"]));
    assert!(offered.contains("strace, dbench, mobigen, nbw, fio") && !offered.contains("lasr"), "{offered}");
}

/// A machine, a memory and an SSD as files are what they were.
#[test]
fn what_show_prints_as_a_file_is_taken_as_one() {
    let home = tempfile::tempdir().unwrap();
    for (fs, flag, name, file) in [
        ("pmfs", "--machine", "spr-server", "machine.toml"),
        ("pmfs", "--medium", "optane.100", "medium.toml"),
        ("ext4", "--medium", "nvme-a", "ssd.toml"),
    ] {
        let text = printed(home.path(), &["show", name, "--toml"]);
        std::fs::write(home.path().join(file), &text).unwrap();
        let rows = |of: &str| {
            let bench = ["bench", "fxmark/DWAL", "--fs", fs, "--runtime", "1ms", "-q", "--json", flag, of];
            document(&run(home.path(), &bench))["samples"][0]["operations"].clone()
        };
        assert_eq!(rows(file), rows(name), "{name}");
        assert_eq!(printed(home.path(), &["show", file, "--toml"]), text, "{name}");
    }
}

#[test]
fn all_stands_for_every_design_that_the_medium_is_right_for() {
    let home = tempfile::tempdir().unwrap();
    let bench =
        ["bench", "fxmark/DWAL", "--fs", "all", "--runtime", "1ms", "-q", "--json", "--medium", "dram"];
    let result = document(&run(home.path(), &bench));
    let samples = result["samples"].as_array().unwrap();
    let designs: Vec<&str> = samples.iter().map(|sample| sample["axes"]["fs"].as_str().unwrap()).collect();
    assert!(["pmfs", "nova", "crest", "redo"].iter().all(|name| designs.contains(name)), "{designs:?}");
    assert!(!designs.iter().any(|name| name.contains('/')), "models have to be named: {designs:?}");
}

/// The page names the file with its result, which is there, and which its commands run again.
#[test]
fn beside_a_page_lies_its_result() {
    let home = tempfile::tempdir().unwrap();
    let bench = ["bench", "fxmark/DWAL", "--fs", "pmfs", "--runtime", "1ms", "-q", "-o", "page.html"];
    printed(home.path(), &bench);
    let page = std::fs::read_to_string(home.path().join("page.html")).unwrap();
    assert!(page.contains("<code>page.json</code> is the result beside this page"));
    printed(home.path(), &["run", "--like", "page.json", "-q"]);
    // A file of another program is left alone.
    std::fs::write(home.path().join("other.json"), "{}").unwrap();
    let said = told(&run(home.path(), &["report", "page.json", "-o", "other.html"]));
    assert!(said.contains("other.json is another file"), "{said}");
    assert_eq!(std::fs::read_to_string(home.path().join("other.json")).unwrap(), "{}");
    // So is a result of which no page of that name was there, and the result of one that was is replaced.
    let result = std::fs::read(home.path().join("page.json")).unwrap();
    std::fs::write(home.path().join("first.json"), &result).unwrap();
    let another = ["bench", "fxmark/DWAL", "--fs", "nova", "--runtime", "1ms", "-o"];
    let said = told(&run(home.path(), &[&another[..], &["first.html"]].concat()));
    assert!(said.contains("first.json is another file"), "{said}");
    assert_eq!(std::fs::read(home.path().join("first.json")).unwrap(), result);
    printed(home.path(), &[&another[..], &["page.html"]].concat());
    assert_ne!(std::fs::read(home.path().join("page.json")).unwrap(), result);
}

/// Not even what an unmount has saved for the next mount.
#[test]
fn a_repair_of_a_clean_pool_changes_no_byte_of_it() {
    let home = tempfile::tempdir().unwrap();
    let images = home.path().join("images");
    for design in fs::FILE_SYSTEMS.iter().map(|design| design.name()) {
        let bench =
            ["bench", "varmail", "--fs", design, "--medium", "dram", "--runtime", "1ms", "-D", "nfiles=200"];
        let more = ["-q", "--save-image", "images", "--region", "64MiB", "--prices", "ran"];
        let output = run(home.path(), &[&bench[..], &more[..]].concat());
        assert!(output.status.success(), "{design}: {}", told(&output));
        for image in std::fs::read_dir(&images).unwrap().flatten() {
            let before = std::fs::read(image.path()).unwrap();
            let repaired = run(home.path(), &["fsck", "--repair", image.path().to_str().unwrap()]);
            assert!(repaired.status.success(), "{design}: {}", told(&repaired));
            let same = std::fs::read(image.path()).unwrap() == before;
            assert!(same, "{design}: {}", String::from_utf8_lossy(&repaired.stdout));
            std::fs::remove_file(image.path()).unwrap();
        }
    }
}
