//! The house rules that a machine can hold: layers, tables against files, lengths, places of `unsafe`, names, headers.
//!
//! Each rule is a function over the tree that answers with what breaks it, and each has a canary: a made-up offence that the
//! rule must find, so that a rule that has gone blind fails too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Layers as `ARCHITECTURE.md` draws them; a crate uses crates of lower layers only.
const LAYERS: [(&str, u8); 23] = [
    ("document", 0),
    ("sim", 0),
    ("media", 1),
    ("vfs", 1),
    ("results", 1),
    ("trace", 1),
    ("design", 2),
    ("workload", 2),
    ("archsim", 2),
    ("report", 2),
    ("fuse", 2),
    ("base", 2),
    ("ext4", 3),
    ("crest", 3),
    ("squirrelfs", 3),
    ("wofs", 3),
    ("linux", 3),
    ("fs", 4),
    ("check", 3),
    ("pool", 5),
    ("lab", 5),
    ("weir", 6),
    ("bench", 6),
];

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;
/// rustfmt holds code to 110 columns; this is for what it leaves alone: comments, tables, long texts.
const LINE_COLUMNS: usize = 132;
const BANNED_WORDS: [&str; 4] = ["manager", "helper", "util", "common"];
const UNSAFE_CRATES: [&str; 2] = ["sim", "media"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Entries of a folder, in order; none if it is not there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|has| has == extension)
}

/// Every file below a folder with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = entries(folder).into_iter().partition(|path| path.is_dir());
    let mut found: Vec<_> = files.into_iter().filter(|path| has_extension(path, extension)).collect();
    for folder in folders.iter().filter(|path| !["target", ".git"].contains(&&*name(path))) {
        found.extend(self::files(folder, extension));
    }
    found
}

/// Every Rust file of the workspace with its text; paths from the root.
fn rust_files() -> Vec<(String, String)> {
    let root = root();
    let relative = |path: &Path| path.strip_prefix(&root).expect("below the root").display().to_string();
    files(&root.join("crates"), "rs").iter().map(|path| (relative(path), read(path))).collect()
}

/// Source files proper: not tests, benches or examples.
fn sources() -> Vec<(String, String)> {
    rust_files().into_iter().filter(|(path, _)| path.contains("/src/")).collect()
}

fn assert_none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

/// Whether a path, read from the folder of a file of a crate (`crates/NAME/…`), leads out of the crate.
fn leaves_its_crate(file: &str, path: &str) -> bool {
    let ups = path.split('/').take_while(|part| *part == "..").count();
    ups + 3 > file.split('/').count()
}

#[test]
fn what_code_includes_is_in_its_crate() {
    assert!(leaves_its_crate("crates/lab/src/machine/a.rs", "../../../x.toml"), "the canary");
    assert!(!leaves_its_crate("crates/lab/src/machine/a.rs", "../../shipped/x.toml"));
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        for call in ["include_str!(", "include_bytes!("] {
            let of = text.split(call).skip(1).filter_map(|rest| rest.split('"').nth(1));
            let out = of.filter(|path| leaves_its_crate(&file, path));
            wrong.extend(out.map(|path| format!("{file}: {path}: link it in the crate's shipped/")));
        }
    }
    assert_none("a package lacks what its code includes", &wrong);
}

// ---- layers ----

/// The workspace's crates that a manifest depends on, tests aside.
fn dependencies(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().expect("cargo reads it, so does toml");
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    let names = table.into_iter().flat_map(|table| table.keys().cloned());
    names.filter(|name| LAYERS.iter().any(|(known, _)| known == name)).collect()
}

fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

fn layer_offences(crate_name: &str, manifest: &str) -> Vec<String> {
    let Some(own) = layer(crate_name) else {
        return vec![format!("{crate_name} has no layer: add it to the table")];
    };
    let upward =
        dependencies(manifest).into_iter().filter(|other| layer(other).is_none_or(|layer| layer >= own));
    upward.map(|other| format!("{crate_name} (layer {own}) uses {other}")).collect()
}

#[test]
fn crates_use_lower_layers_only() {
    let crates = entries(&root().join("crates"));
    let offences =
        crates.iter().flat_map(|path| layer_offences(&name(path), &read(&path.join("Cargo.toml"))));
    assert_none("layers", &offences.collect::<Vec<_>>());
    assert!(!layer_offences("media", "[dependencies]\nvfs.workspace = true\n").is_empty(), "canary");
    assert!(layer_offences("fs", "[dependencies]\nvfs.workspace = true\n").is_empty());
}

#[test]
fn the_picture_of_layers_in_architecture_is_the_table() {
    let text = read(&root().join("ARCHITECTURE.md"));
    for level in 0..=6_u8 {
        let line = text.lines().find(|line| line.starts_with(&format!("layer {level} ")));
        let line = line.unwrap_or_else(|| panic!("ARCHITECTURE.md draws no layer {level}"));
        for (name, _) in LAYERS.iter().filter(|(_, layer)| *layer == level) {
            assert!(line.split_whitespace().any(|word| word == *name), "{name} is not in: {line}");
        }
    }
}

// ---- documents ----

/// Words in backquotes that name a path of the tree.
fn named_paths(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let tops = ["crates/", "presets/", "docs/"];
    quoted
        .filter(|word| {
            tops.iter().any(|top| word.starts_with(top))
                && !word.contains(['*', ' ', '<'])
                && !word.contains("NAME")
        })
        .collect()
}

#[test]
fn documents_name_files_that_exist() {
    let mut offences = Vec::new();
    for document in files(&root(), "md") {
        let text = read(&document);
        let missing = named_paths(&text).into_iter().filter(|path| !root().join(path).exists());
        offences.extend(missing.map(|path| format!("{}: {path}", name(&document))));
    }
    assert_none("named and missing", &offences);
    assert_eq!(named_paths("see `crates/none.rs` and `cargo`"), ["crates/none.rs"], "canary");
}

// ---- tables against files ----

/// The tests that the table of cases names, which no document of the code would miss.
fn absent_tests(table: &str, code: &str) -> Vec<String> {
    let named = table.split('`').skip(1).step_by(2).filter_map(|word| word.rsplit_once("::"));
    let tests = named.map(|(_, name)| name).filter(|name| *name != "tests");
    tests.filter(|name| !code.contains(&format!("fn {name}("))).map(str::to_owned).collect()
}

#[test]
fn the_table_of_cases_names_tests_that_are_there() {
    let code: String = rust_files().into_iter().map(|(_, text)| text).collect();
    let table = read(&root().join("tests/cases/README.md"));
    assert!(table.matches("::").count() > 20, "no table");
    assert_none("tests of cases", &absent_tests(&table, &code));
    let canary = absent_tests("`a::is_there`, `b::tests`, `c::is_not`", "fn is_there() {}");
    assert_eq!(canary, ["is_not"]);
}

#[test]
fn every_design_has_its_line() {
    let crates = root().join("crates");
    let table = read(&crates.join("fs/src/lib.rs"));
    let apart = entries(&crates).into_iter().filter(|path| path.join("src/design.rs").exists());
    // The crate of that name says what a design is.
    let apart = apart.filter(|path| name(path) != "design");
    let inside = entries(&crates.join("fs/src")).into_iter().filter(|path| path.join("design.rs").exists());
    let designs: Vec<_> = inside.chain(apart).map(|path| name(&path)).collect();
    assert!(designs.len() > 7 && designs.contains(&"crest".to_owned()), "{designs:?}");
    let missing = designs.into_iter().filter(|name| !table.contains(&format!("&{name}::")));
    assert_none("designs without a line in FILE_SYSTEMS", &missing.collect::<Vec<_>>());
}

#[test]
fn every_medium_has_its_line() {
    let folder = root().join("crates/media/src");
    let table = read(&folder.join("medium.rs"));
    let models = files(&folder.join("nvmm"), "rs")
        .into_iter()
        .filter(|path| read(path).contains("impl MediumType for"));
    let missing = models.map(|path| stem(&path)).filter(|name| !table.contains(&format!("&{name}::")));
    assert_none("media without a line in MEDIA", &missing.collect::<Vec<_>>());
}

#[test]
fn every_preset_of_a_medium_has_its_line() {
    let presets = files(&root().join("presets/media"), "toml");
    assert!(!presets.is_empty());
    let missing = presets.iter().map(|path| stem(path)).filter(|name| media::Medium::named(name).is_err());
    assert_none("presets of media that are not in the program", &missing.collect::<Vec<_>>());
}

#[test]
fn every_personality_has_its_line() {
    let scripts = files(&root().join("crates/workload/src/filebench/personalities"), "f");
    assert!(!scripts.is_empty());
    let known = |name: &String| workload::filebench::PERSONALITIES.iter().any(|known| known.name == *name);
    let missing = scripts.iter().map(|path| stem(path)).filter(|name| !known(name));
    assert_none("personalities without a line in PERSONALITIES", &missing.collect::<Vec<_>>());
}

#[test]
fn every_subcommand_has_its_line() {
    // A command of several files is a folder.
    let commands = entries(&root().join("crates/weir/src/command"));
    let table = read(&root().join("crates/weir/src/cli.rs"));
    let names = commands.iter().map(|path| stem(path)).filter(|name| name != "mod" && name != "image");
    let missing = names.filter(|name| !table.contains(&format!("(c::{name}::")));
    assert_none("subcommands without a line in Command", &missing.collect::<Vec<_>>());
}

/// Names a load file of dbench where the plan reads that of a package which is not installed.
fn give_load_file(plan: &mut lab::Plan, file: &Path) {
    for workload in plan.workload.iter_mut().filter(|workload| workload.name == "app/dbench") {
        workload.vars.insert("load".to_owned(), file.display().to_string());
    }
}

#[test]
fn every_plan_is_right_in_both_sizes() {
    let plans = files(&root().join("presets/plans"), "toml");
    assert_eq!(plans.len(), lab::presets::PLANS.len());
    let folder = tempfile::tempdir().unwrap();
    let load_file = folder.path().join("client.txt");
    std::fs::write(&load_file, "Mkdir \"\\clients\" NT_STATUS_OK\n").unwrap();
    for plan in plans {
        for quick in [false, true] {
            let mut plan = lab::Plan::load(&stem(&plan), quick).unwrap();
            if plan.lacks().is_some() {
                give_load_file(&mut plan, &load_file);
            }
            let cells = plan.cells().unwrap_or_else(|error| panic!("{}: {error}", plan.name));
            assert!(!cells.is_empty());
            report::FigureSpec::list(&plan.to_json())
                .unwrap_or_else(|error| panic!("{}: {error}", plan.name));
        }
    }
}

/// Classes of locks that no cell of a design has: of checks of an image, of what measures this host, of jobs without a file system,
/// and of workers that are processes of the host.
const NOT_OF_CELLS: [&str; 5] =
    ["calibrate.lock", "device.names", "ext4.fsck_inode", "ext4.repaired_inode", "fxmark.crew"];

/// The names of the classes of locks and cache lines that a text declares.
fn classes(text: &str) -> Vec<&str> {
    let made = text.split("LockClass::new(").skip(1).chain(text.split("LockClass::of_lines(").skip(1));
    made.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next()).collect()
}

#[test]
fn every_class_of_locks_and_lines_is_listed_where_it_is_declared() {
    let listed: Vec<&str> = lab::contention::all().into_iter().map(sim::LockClass::name).collect();
    let sources = sources();
    let declared: Vec<&str> = sources.iter().flat_map(|(_, text)| classes(without_tests(text))).collect();
    assert!(declared.len() > 60, "{declared:?}");
    let missing = declared.iter().filter(|name| !listed.contains(name) && !NOT_OF_CELLS.contains(name));
    assert_none("classes without a line", &missing.map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let made_up =
        "static A: LockClass =\n    LockClass::of_lines(\n        \"x.y\",\n \"z\"); LockClass::new(\"x.a\")";
    assert_eq!(classes(made_up), ["x.a", "x.y"], "canary");
}

// ---- lengths ----

/// The file without its unit tests, which come last.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text)
}

fn length_offences(path: &str, text: &str) -> Vec<String> {
    let lines = without_tests(text).lines().count();
    let long = (lines > FILE_LINES).then(|| format!("{path} has {lines} lines"));
    let wide = text.lines().enumerate().filter(|(_, line)| line.chars().count() > LINE_COLUMNS);
    long.into_iter().chain(wide.map(|(at, _)| format!("{path}:{} is too wide", at + 1))).collect()
}

/// Functions that are too long: name, first line, lines. A function ends at the first line that closes at its own indent.
fn long_functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = lines.iter().enumerate().filter_map(|(at, line)| Some((at, function_name(line)?)));
    let lengths = starts.filter_map(|(at, name)| Some((name, at + 1, function_lines(&lines[at..])?)));
    lengths.filter(|(_, _, lines)| *lines > FUNCTION_LINES).collect()
}

/// The name of the function that a line begins to define.
fn function_name(line: &str) -> Option<String> {
    const QUALIFIERS: [&str; 9] = [
        "pub ",
        "pub(crate) ",
        "pub(super) ",
        "const ",
        "unsafe ",
        "async ",
        "extern \"C\" ",
        "default ",
        "pub(in ",
    ];
    let mut rest = line.trim_start();
    while let Some(shorter) = QUALIFIERS.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    let rest = rest.strip_prefix("fn ")?;
    Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
}

fn function_lines(lines: &[&str]) -> Option<usize> {
    let indent = lines[0].len() - lines[0].trim_start().len();
    let closing = format!("{}}}", " ".repeat(indent));
    let body = lines.iter().position(|line| line.contains('{') || line.ends_with(';'))?;
    if !lines[body].contains('{') {
        return None; // declared, not defined
    }
    if one_line(lines[0]) {
        return Some(1);
    }
    let end = lines.iter().skip(body).position(|line| *line == closing)?;
    Some(body + end + 1)
}

/// `fn f() -> u8 { 1 }`
fn one_line(line: &str) -> bool {
    function_name(line).is_some() && line.ends_with('}') && line.contains('{')
}

#[test]
fn files_and_lines_are_short() {
    let offences = sources().iter().flat_map(|(path, text)| length_offences(path, text)).collect::<Vec<_>>();
    assert_none("lengths", &offences);
    assert!(!length_offences("canary", &"x\n".repeat(FILE_LINES + 1)).is_empty());
}

#[test]
fn functions_are_short() {
    let all = rust_files();
    let long = all.iter().flat_map(|(path, text)| {
        let long = long_functions(text).into_iter();
        long.map(move |(name, at, lines)| format!("{path}:{at}: {name} has {lines} lines"))
    });
    assert_none("functions", &long.collect::<Vec<_>>());
    let canary = format!("    fn long() {{\n{}    }}\n", "        x();\n".repeat(FUNCTION_LINES));
    assert_eq!(long_functions(&canary).len(), 1, "canary");
    assert!(long_functions(&"    fn short() {\n        x();\n    }\n".repeat(FUNCTION_LINES)).is_empty());
}

#[test]
fn the_median_function_is_short() {
    let mut lengths: Vec<usize> = Vec::new();
    for (_, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        let starts = (0..lines.len()).filter(|at| function_name(lines[*at]).is_some());
        lengths.extend(starts.filter_map(|at| function_lines(&lines[at..])));
    }
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median <= 10, "the median function has {median} lines; the house rule is 8");
}

// ---- unsafe, names, headers ----

/// Lines of code that use `unsafe`, words in comments, texts and attributes aside.
fn unsafe_lines(text: &str) -> usize {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    let words =
        |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
    let outside_texts = |line: &str| line.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    code.filter(|line| words(&outside_texts(line))).count()
}

#[test]
fn unsafe_lives_in_two_crates() {
    let allowed = |path: &str| UNSAFE_CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/")));
    let tidy = |path: &str| path.ends_with("tests/it/tidy.rs");
    let all = rust_files();
    let elsewhere = all.iter().filter(|(path, text)| !allowed(path) && !tidy(path) && unsafe_lines(text) > 0);
    assert_none("unsafe", &elsewhere.map(|(path, _)| path.clone()).collect::<Vec<_>>());
    assert_eq!(unsafe_lines("let x = unsafe { y };\n// unsafe\nf(\"unsafe-undo\");\n"), 1, "canary");
}

#[test]
fn every_other_crate_forbids_unsafe() {
    let roots =
        entries(&root().join("crates")).into_iter().filter(|path| !UNSAFE_CRATES.contains(&&*name(path)));
    let heads = roots.map(|path| (name(&path), [path.join("src/lib.rs"), path.join("src/main.rs")]));
    let lax = heads.filter(|(_, heads)| {
        heads.iter().filter(|head| head.exists()).any(|head| !read(head).contains("#![forbid(unsafe_code)]"))
    });
    assert_none("crates without #![forbid(unsafe_code)]", &lax.map(|(name, _)| name).collect::<Vec<_>>());
}

#[test]
fn files_are_called_by_the_words_of_the_field() {
    let all = rust_files();
    let banned = |path: &str| {
        path.split(['/', '_', '.'])
            .any(|part| BANNED_WORDS.iter().any(|word| part.trim_end_matches('s') == *word))
    };
    let offences = all.iter().map(|(path, _)| path).filter(|path| banned(path)).cloned().collect::<Vec<_>>();
    assert_none("file names", &offences);
    assert!(banned("crates/lab/src/path_utils.rs") && !banned("crates/fs/src/pmfs/map.rs"), "canary");
}

#[test]
fn every_file_has_a_header() {
    let all = rust_files();
    let bare = all.iter().filter(|(_, text)| !text.starts_with("//!"));
    assert_none("files without a //! header", &bare.map(|(path, _)| path.clone()).collect::<Vec<_>>());
}

/// Docs that begin with a question word, by crate: they are noun phrases that a reader must complete. A number may only become
/// smaller.
const QUESTIONS: [(&str, usize); 23] = [
    ("archsim", 57),
    ("base", 15),
    ("bench", 0),
    ("check", 185),
    ("crest", 90),
    ("design", 24),
    ("document", 6),
    ("ext4", 118),
    ("fs", 94),
    ("fuse", 57),
    ("lab", 245),
    ("linux", 18),
    ("media", 138),
    ("pool", 8),
    ("report", 126),
    ("results", 117),
    ("sim", 80),
    ("squirrelfs", 0),
    ("trace", 134),
    ("vfs", 50),
    ("weir", 162),
    ("wofs", 0),
    ("workload", 370),
];

/// The first lines of docs that begin with What, Which or How.
fn questions(text: &str) -> usize {
    let mut before = "";
    let mut found = 0;
    for line in text.lines().map(str::trim_start) {
        let first = line.strip_prefix("/// ").filter(|_| !before.starts_with("///"));
        found += usize::from(
            first.is_some_and(|doc| ["What ", "Which ", "How "].iter().any(|word| doc.starts_with(word))),
        );
        before = line;
    }
    found
}

#[test]
fn docs_are_sentences_and_no_new_one_begins_with_a_question() {
    assert_eq!(
        questions("/// What is read.\nfn a() {}\n/// Reads it.\n/// How it does is told.\nfn b() {}\n"),
        1
    );
    let mut counts: BTreeMap<&str, usize> = QUESTIONS.iter().map(|(name, _)| (*name, 0)).collect();
    for (path, text) in sources() {
        let name = path.split('/').nth(1).unwrap_or_default();
        let count = QUESTIONS.iter().find(|(known, _)| *known == name);
        *counts.get_mut(count.unwrap_or_else(|| panic!("QUESTIONS has no {name}")).0).unwrap() +=
            questions(without_tests(&text));
    }
    let more = QUESTIONS.iter().filter(|(name, most)| counts[name] > *most);
    let more: Vec<_> = more
        .map(|(name, most)| format!("{name}: {} docs begin with a question, not {most}", counts[name]))
        .collect();
    assert_none("a doc is a sentence with a subject and a verb", &more);
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = read(&root().join("Cargo.toml"));
    let table = manifest.split("[workspace.dependencies]").nth(1).and_then(|rest| rest.split("\n[").next());
    let lines = table.expect("the workspace has dependencies").lines();
    let outside =
        lines.filter(|line| line.contains('=') && !line.contains("path = ") && !line.starts_with('#'));
    let mut reasons: BTreeMap<bool, Vec<String>> = BTreeMap::new();
    outside.for_each(|line| reasons.entry(line.contains(" # ")).or_default().push(line.to_owned()));
    // A line under a comment of its own shares that comment's reason.
    let bare = reasons.remove(&false).unwrap_or_default();
    let shared = |line: &String| {
        let before = manifest.split(line.as_str()).next().unwrap_or_default();
        before
            .trim_end()
            .lines()
            .next_back()
            .is_some_and(|above| above.starts_with('#') || above.contains(" # "))
    };
    assert_none(
        "dependencies without a reason",
        &bare.into_iter().filter(|line| !shared(line)).collect::<Vec<_>>(),
    );
}

/// The dependencies of a table of a manifest.
fn listed<'m>(manifest: &'m toml::Table, table: &str) -> impl Iterator<Item = &'m String> {
    manifest.get(table).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys)
}

/// Dependencies of a manifest that no source (`src`), or no file at all where they are for tests (`all`), names.
fn unused(manifest: &str, src: &str, all: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().expect("cargo reads it, so does toml");
    let library = |name: &str| name.replace("md-5", "md5").replace('-', "_");
    let named = |text: &str, name: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == library(name))
    };
    let in_source = listed(&manifest, "dependencies").filter(|name| !named(src, name));
    let in_tests = listed(&manifest, "dev-dependencies").filter(|name| !named(all, name));
    in_source.chain(in_tests).cloned().collect()
}

#[test]
fn every_dependency_is_used() {
    let code = |texts: Vec<PathBuf>| {
        let code = |text: String| {
            text.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect()
        };
        texts.iter().map(|path| code(read(path))).collect::<Vec<String>>().concat()
    };
    let mut offences = Vec::new();
    let mut taken = Vec::new();
    for path in entries(&root().join("crates")) {
        let manifest = read(&path.join("Cargo.toml"));
        let (src, all) = (code(files(&path.join("src"), "rs")), code(files(&path, "rs")));
        offences.extend(
            unused(&manifest, &src, &all).into_iter().map(|other| format!("{}: {other}", name(&path))),
        );
        let manifest: toml::Table = manifest.parse().expect("cargo reads it, so does toml");
        for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
            taken.extend(listed(&manifest, table).cloned());
        }
    }
    let workspace: toml::Table =
        read(&root().join("Cargo.toml")).parse().expect("cargo reads it, so does toml");
    let offered = workspace["workspace"]["dependencies"].as_table().expect("it has dependencies").keys();
    offences
        .extend(offered.filter(|name| !taken.contains(name)).map(|name| format!("the workspace: {name}")));
    assert_none("dependencies that nothing uses", &offences);
    let manifest = "[dependencies]\nmd-5.workspace = true\nlibc.workspace = true\n";
    assert_eq!(unused(manifest, "use md5::Md5;", ""), ["libc"], "canary");
}
