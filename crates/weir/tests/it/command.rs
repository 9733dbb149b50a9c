//! The command as people and scripts meet it: streams, exit codes, messages, JSON.

use std::process::Output;

use crate::shared::{document, told, weir};

fn run(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    weir(home.path()).args(arguments).output().unwrap()
}

#[test]
fn every_error_has_its_code_a_remedy_and_parseable_json() {
    let cases: [(&[&str], i32, &str); 10] = [
        (&["bench", "varmial", "--fs", "pmfs"], 2, "did you mean \"filebench/varmail\"?"),
        (&["bench", "varmail", "--fs", "pmsf"], 2, "did you mean \"pmfs\"?"),
        (&["bench", "varmail", "--fs", "pmfs", "--medium", "hinfs,latncy=1ns"], 2, "latency"),
        (&["bench", "varmail", "--fs", "pmfs", "-O", "bufer=1M"], 2, "no design has the option \"bufer\""),
        (&["bench", "varmail", "--fs", "pmfs", "-D", "nfils=10"], 2, "nfils"),
        (&["bench", "varmail", "--fs", "pmfs", "--free", "pmfs.inod"], 2, "did you mean \"pmfs.inode\"?"),
        (&["bench", "varmail", "--fs", "host:/"], 2, "--clock real"),
        (&["run", "no-such-plan"], 2, "there is no plan called"),
        (&["show", "pmsf"], 2, "did you mean \"pmfs\"?"),
        (&["report", "no-such-result.json"], 2, "there is no result"),
    ];
    for (arguments, code, remedy) in cases {
        let output = run(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains(remedy), "{arguments:?}: {}", told(&output));
        let error = document(&output);
        assert_eq!(error["error"]["exit_code"], code, "{arguments:?}");
        assert!(run(arguments).stdout.is_empty(), "{arguments:?}: errors belong on the standard error");
    }
}

#[test]
fn a_wrong_flag_is_a_usage_error_even_in_json() {
    let output = run(&["list", "--jsno", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(document(&output)["error"]["message"].as_str().unwrap().contains("--jsno"));
}

#[test]
fn a_plan_error_points_at_line_and_column() {
    let home = tempfile::tempdir().unwrap();
    let plan = home.path().join("a.toml");
    let text = "[plan]\nname = \"a\"\nwhy = \"b\"\nstop = \"1s\"\n[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nthread = [1]\n";
    std::fs::write(&plan, text).unwrap();
    let output = weir(home.path()).arg("run").arg(&plan).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("a.toml:8:10: axis \"thread\" needs sets"), "{}", told(&output));
}

#[test]
fn lists_and_shows_everything_there_is() {
    for kind in ["fs", "media", "suites", "workloads", "plans", "papers", "machines"] {
        let list = document(&run(&["list", kind, "--json"]));
        for entry in list[kind].as_array().unwrap() {
            let name = entry["name"].as_str().unwrap();
            let says = |key: &str| entry[key].as_str().is_some_and(|words| !words.is_empty());
            match kind {
                "fs" => assert!(says("needs") && (says("promises") || name == "host:DIR"), "{entry}"),
                "media" => assert!(says("needs") || says("promises"), "{entry}"),
                "machines" => assert!(says("needs") || name == "this-host", "{entry}"),
                _ => {}
            }
            if name.starts_with("host:") || name == "this-host" {
                continue;
            }
            let shown = run(&["show", name]);
            assert!(shown.status.success(), "weir show {name}");
            let text = String::from_utf8(shown.stdout).unwrap();
            let things = document(&run(&["show", name, "--json"]))["things"].clone();
            let lists = ["options", "workloads", "variables", "values", "claims", "parameters", "summary"];
            let thing = |thing: &serde_json::Value| lists.iter().any(|list| thing.get(list).is_some());
            assert!(things.as_array().unwrap().iter().all(thing), "not only text: {things}");
            assert!(kind != "fs" || text.contains("needs:") && text.contains("promises:"), "{text}");
        }
    }
}

#[test]
fn a_count_is_listed_with_its_unit_and_meaning() {
    let list = document(&run(&["list", "counts", "--json"]));
    let counts = list["counts"].as_array().unwrap();
    let hits = counts.iter().find(|count| count["name"] == "rcache.hits").expect("RCache's");
    assert_eq!(hits["unit"], "pages");
    assert!(counts.iter().all(|count| !count["summary"].as_str().unwrap().is_empty()), "{list}");
    let shown = document(&run(&["show", "nova", "--json"]));
    assert_eq!(shown["things"][0]["counts"][0]["name"], "nova.fast_cleanings");
}

#[test]
fn the_nearest_name_is_one_of_the_kind_that_was_asked_for() {
    let told = |words: &[&str]| String::from_utf8(run(words).stderr).unwrap();
    let plan = told(&["show", "plan", "hinfs"]);
    assert!(plan.contains("no plan called \"hinfs\"") && !plan.contains("mean \"hinfs\""), "{plan}");
    let any = told(&["show", "hinsf"]);
    assert!(any.contains("did you mean \"hinfs\""), "{any}");
}

/// A page that the index leaves out is not found.
#[test]
fn the_index_of_the_documents_has_every_page_and_folder() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let index = std::fs::read_to_string(docs.join("README.md")).unwrap();
    for entry in std::fs::read_dir(&docs).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            name == "README.md" || index.contains(&format!("({name}")),
            "docs/README.md does not name {name}"
        );
    }
    for target in index.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
        assert!(docs.join(target).exists(), "docs/README.md names {target}, which is not there");
    }
}

#[test]
fn words_errors_and_exit_codes_are_explained() {
    let names = ["p90", "p95", "p99", "p99.9", "lock_wait", "lock wait", "cache lines", "cell", "region"];
    for word in names.into_iter().chain(["vfs.references", "pmfs.inode", "ENOSPC", "130"]) {
        let output = run(&["explain", word]);
        assert!(output.status.success() && !output.stdout.is_empty(), "{word}");
    }
    let section = run(&["explain", "full"]);
    assert!(
        String::from_utf8_lossy(&section.stdout).starts_with("full: errors with \"is full\"\n\nThe region")
    );
}

#[test]
fn a_scaling_run_is_explained_by_the_line_that_limits_it_and_the_speed_up_without_it() {
    let home = tempfile::tempdir().unwrap();
    let explained = |free: &[&str]| {
        let bench =
            ["bench", "fxmark/MRPH", "--fs", "pmfs", "--medium", "dram", "--machine", "fxmark-server"];
        let how = ["--threads", "1,20", "--runtime", "100us", "-o", "run.json"];
        let output = weir(home.path()).args([&bench[..], &how, free].concat()).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let output = weir(home.path()).args(["explain", "run.json"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (held, advice) = ("line vfs.references", "--free vfs.references");
    let text = explained(&[]);
    let parts = [held, advice, "the reference count of a dentry", "cache lines", "(vfs.references"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    let text = explained(&["--free", "vfs.references"]);
    let row = text.lines().find(|row| row.contains(held)).unwrap();
    let speed_up = row.split(" %").nth(1).and_then(|rest| rest.split('x').next()).unwrap().trim();
    assert!(speed_up.parse::<f64>().unwrap() > 2.0 && !text.contains(advice), "{text}");
}

#[test]
fn every_reader_takes_several_results_from_a_file_and_from_a_folder() {
    let home = tempfile::tempdir().unwrap();
    let weir = |arguments: &[&str]| weir(home.path()).args(arguments).output().unwrap();
    let bench =
        ["bench", "varmail", "--fs", "pmfs", "-D", "nfiles=50", "--runtime", "20 ops", "--threads", "1"];
    let both = weir(&[&bench[..], &["--clock", "both", "-o", "both.json"]].concat());
    assert!(both.status.success(), "{}", told(&both));
    let folders: Vec<_> = std::fs::read_dir(home.path().join("data/weir/runs")).unwrap().collect();
    let folder = folders[0].as_ref().unwrap().path().display().to_string();
    for source in ["both.json", &folder, folder.rsplit('/').next().unwrap()] {
        for command in [&["explain", source][..], &["report", source]] {
            let output = weir(command);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let [modelled, real] = ["bench-virtual   seed", "bench-real   seed"].map(|name| text.find(name));
            assert!(modelled.is_some() && modelled < real, "{command:?}: {}{text}", told(&output));
        }
        let compared = document(&weir(&["compare", "both.json", source, "--json"]));
        assert_eq!(compared["results"].as_array().unwrap().len(), 2, "{source}");
        assert_eq!(compared["results"][1]["cells"][0]["ratio"], 1.0, "{source}");
    }
    std::fs::create_dir(home.path().join("empty")).unwrap();
    for command in [&["explain", "empty"][..], &["report", "empty"], &["compare", "empty", "both.json"]] {
        let output = weir(command);
        assert_eq!(output.status.code(), Some(2));
        assert!(told(&output).contains("the folder empty holds no result"), "{}", told(&output));
    }
}

/// Without a medium, that of the machine, of which the real clock knows nothing.
#[test]
fn both_clocks_measure_on_one_medium_and_are_compared_cell_by_cell() {
    let home = tempfile::tempdir().unwrap();
    let weir = |arguments: &str| weir(home.path()).args(arguments.split(' ')).output().unwrap();
    let both =
        weir("bench varmail --fs pmfs -D nfiles=50 --threads 1 --runtime 1ms --clock both -o both.json");
    assert!(both.status.success(), "{}", told(&both));
    let compared = weir("compare both.json --by clock --json");
    assert!(compared.status.success(), "{}", told(&compared));
    let cells = &document(&compared)["cells"];
    assert_eq!(
        (cells.as_array().unwrap().len(), &cells[0]["axes"]["medium"]),
        (1, &"cxl.asic".into()),
        "{cells}"
    );
}

/// A page shows it, and what is not a plain word is in quotes.
#[test]
fn the_command_of_a_result_runs_in_a_shell() {
    let home = tempfile::tempdir().unwrap();
    let name = "j 'q\" .f";
    let script = "define fileset name=d,path=/d,entries=9,dirwidth=9,size=1k,prealloc\n\
        define process name=p { thread name=t,memsize=1m { flowop statfile name=s,filesetname=d } }\nrun 1\n";
    std::fs::write(home.path().join(name), script).unwrap();
    let result = weir(home.path())
        .args(["bench", name, "--fs", "pmfs", "--runtime", "10 ops", "--json"])
        .output()
        .unwrap();
    let command = document(&result)["command"].as_str().expect("a command").to_owned();
    let printed = std::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(command.replacen("weir ", "printf '%s\\n' ", 1))
        .output();
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    assert_eq!(printed.lines().collect::<Vec<_>>()[..2], ["bench", name], "{command}");
}

/// What is cut is in `weir show` and in the JSON.
#[test]
fn lists_fit_eighty_columns() {
    let text = String::from_utf8(run(&["list", "--all"]).stdout).unwrap();
    assert!(text.lines().count() > 50);
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(wide, [""; 0]);
}

#[test]
fn completions_exist_for_five_shells() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(&["completion", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && script.contains("COMPLETE") && script.contains("weir"),
            "{shell}: {script}"
        );
    }
}

#[test]
fn there_is_a_man_page_for_every_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(&["man", &folder.path().display().to_string()]).status.success());
    let plans = std::fs::read_to_string(folder.path().join("weir.toml.5")).unwrap();
    for key in [".SH [PLAN]", ".B repeats", ".SH [[FIGURE]]", ".B unaffected", ".SH [EXPECT]", ".B sets"] {
        assert!(plans.contains(key), "{key}: {plans}");
    }
    for page in ["weir.1", "weir-bench.1", "weir-reproduce.1", "weir-fsck.1"] {
        assert!(folder.path().join(page).exists(), "{page}");
    }
}

#[test]
fn an_image_is_made_checked_and_measured_and_never_changed_by_looking() {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("a.pm").display().to_string();
    for design in ["pmfs", "hinfs"] {
        let made =
            weir(home.path()).args(["mkfs", "--force", "--fs", design, "--size", "64MiB", &image]).output();
        assert!(made.as_ref().unwrap().status.success(), "{}", told(&made.unwrap()));
        let before = std::fs::read(&image).unwrap();
        let checked = run(&["fsck", &image, "--json"]);
        assert_eq!(document(&checked)["clean"], true, "{}", told(&checked));
        assert!(document(&run(&["df", &image, "--json"]))["free_bytes"].as_u64().unwrap() > 40 << 20);
        assert!(run(&["dump", &image, "superblock"]).status.success());
        assert!(before == std::fs::read(&image).unwrap(), "looking changed the image");
    }
}

#[test]
fn the_doctor_finds_something_to_say() {
    assert!(document(&run(&["doctor", "--json"]))["findings"].as_array().unwrap().len() > 5);
}

#[test]
fn an_error_names_the_section_that_explains_it_and_quiet_leaves_it_out() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("p.toml"), "[plan]\nnaem = \"a\"\n").unwrap();
    let output = weir(home.path()).args(["run", "p.toml"]).output().unwrap();
    assert!(told(&output).contains("more: weir explain key"), "{}", told(&output));
    let explained = weir(home.path()).args(["explain", "key"]).output().unwrap();
    assert!(String::from_utf8_lossy(&explained.stdout).contains("docs/plans.md has all of them"));
    let quiet = weir(home.path()).args(["run", "p.toml", "-q"]).output().unwrap();
    assert!(!told(&quiet).contains("weir explain"), "{}", told(&quiet));
}

/// The keys of the reference are those that the reader asks for.
#[test]
fn the_reference_of_plans_has_every_key_and_its_example_is_right() {
    let page = include_str!("../../../../docs/plans.md");
    let reader = include_str!("../../../lab/src/plan/read.rs");
    let asked = ["get(\"", "need(\""].iter().flat_map(|call| reader.split(call).skip(1));
    for key in asked.filter_map(|rest| rest.split('"').next()) {
        assert!(page.contains(&format!("`{key}`")) || page.contains(&format!("[{key}]")), "{key}");
    }
    for key in include_str!("../../../report/src/figure/spec.rs").split("    pub ").skip(2) {
        let key = key.split(':').next().unwrap_or_default();
        let is_key = key.chars().all(|c| c.is_ascii_lowercase() || c == '_') && key != "claim";
        assert!(!is_key || page.contains(key), "{key}");
    }
    let home = tempfile::tempdir().unwrap();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    std::fs::write(home.path().join("p.toml"), example).unwrap();
    let output = weir(home.path()).args(["plan", "check", "p.toml"]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
}

#[test]
fn figures_are_exported_as_svg_and_numbers() {
    let home = tempfile::tempdir().unwrap();
    let bench = [
        "bench",
        "varmail",
        "--fs",
        "pmfs,hinfs",
        "-D",
        "nfiles=60",
        "--runtime",
        "20 ops",
        "--threads",
        "1",
    ];
    let output = weir(home.path()).args(bench).args(["-o", "r.json"]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let output = weir(home.path()).args(["report", "r.json", "--figures", "figs"]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let svg = std::fs::read_to_string(home.path().join("figs/bench-throughput.svg")).unwrap();
    for part in ["xmlns=\"http://www.w3.org/2000/svg\"", "#0072b2", ">pmfs</text>", ">hinfs</text>"] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(!svg.contains("var(--"), "programs for papers know no variables");
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    let csv = std::fs::read_to_string(home.path().join("figs/bench-throughput.csv")).unwrap();
    assert_eq!(csv.lines().count(), 3, "{csv}");
}
