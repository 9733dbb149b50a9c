//! What documents say of the structure is held to the source: the walks in `ARCHITECTURE.md` (every file of their tables is there
//! and defines the function, and some file of the walk calls it), the table of roles in the header of `fs`, and that the files of
//! ext4 use each other in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A row of a table: file and function.
type Step = (String, String);

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tables of the section with this heading, each a list of steps.
fn walks(text: &str, heading: &str) -> Vec<Vec<Step>> {
    let section = text.split(heading).nth(1).and_then(|rest| rest.split("\n## ").next());
    let section = section.expect("ARCHITECTURE.md has the section");
    let tables = section.split("\n\n").filter(|part| part.trim_start().starts_with("| step |"));
    tables.map(|table| table.lines().filter_map(step).collect()).collect()
}

/// `| 1 front end | `file` | `function` | what happens |`
fn step(row: &str) -> Option<Step> {
    let mut cells = row.split('|').map(str::trim).skip(2);
    let code = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
    Some((code(cells.next()?)?, code(cells.next()?)?))
}

/// Steps that nothing before them calls: what other tasks do later, and a page, which the table of formats calls.
fn is_called(function: &str) -> bool {
    !["write_back_block", "page_claim"].contains(&function)
}

fn breaks(steps: &[Step]) -> Vec<String> {
    let mut breaks = Vec::new();
    for (at, (file, function)) in steps.iter().enumerate() {
        if !read(file).contains(&format!("fn {function}")) {
            breaks.push(format!("{file} defines no {function}"));
        }
        let mentions = |file: &str| read(file).matches(function.as_str()).count();
        // A function in between, in the same file, may make the call.
        let called = steps[..at].iter().any(|(caller, _)| mentions(caller) > 0) || mentions(file) > 1;
        if at > 0 && is_called(function) && !called {
            breaks.push(format!("no step before mentions {function} of {file}"));
        }
    }
    breaks
}

#[test]
fn the_walk_of_a_write_is_in_the_source() {
    let walks = walks(&read("ARCHITECTURE.md"), "## The walk of a write");
    assert!(walks.len() >= 3, "one table for each design");
    for design in ["/pmfs/", "/hinfs/", "/crest/"] {
        assert!(walks.iter().flatten().any(|(file, _)| file.contains(design)), "{design} has a walk");
    }
    for steps in walks {
        assert!(steps.len() >= 4, "{steps:?}");
        assert_eq!(breaks(&steps), Vec::<String>::new());
    }
}

#[test]
fn the_walk_of_a_plan_to_a_claim_is_in_the_source() {
    let walks = walks(&read("ARCHITECTURE.md"), "## The walk of a plan to a claim");
    let [steps] = &walks[..] else { panic!("one table") };
    assert!(steps.len() >= 10, "{steps:?}");
    assert_eq!(breaks(steps), Vec::<String>::new());
}

/// The files of roles in the header of `fs`, each with the designs that have it.
fn roles() -> BTreeMap<String, BTreeSet<String>> {
    let text = read("crates/fs/src/lib.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.map(|row| {
        let (file, rest) = row.split_once('`').expect("a file");
        let of = rest.trim_end_matches(" |").rsplit('|').next().unwrap_or_default();
        (file.to_owned(), of.split_whitespace().map(str::to_owned).collect())
    })
    .collect()
}

/// The folder of a design: in `fs`, or that of a crate.
fn folder_of(design: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let apart = crates.join(design).join("src");
    if apart.exists() { apart } else { crates.join("fs/src").join(design) }
}

/// The name of a module's file or folder; the root of a crate counts as that of a folder.
fn stem(path: &Path) -> String {
    let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
    if stem == "lib" { "mod".to_owned() } else { stem }
}

/// The files of a design; a folder counts as the file of its name, but for Crest's, whose folders are rooms with files.
fn files_of(design: &str) -> BTreeSet<String> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let all = entries(&folder_of(design));
    let (rooms, mut files): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|path| design == "crest" && path.is_dir());
    files.extend(rooms.iter().flat_map(|room| entries(room)));
    files.iter().map(|path| format!("{}.rs", stem(path))).collect()
}

#[test]
fn every_design_has_the_same_file_for_the_same_role() {
    let designs = ["pmfs", "hinfs", "nova", "rcache", "crest", "squirrelfs", "wofs", "redo", "ext4"];
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for design in designs {
        for file in files_of(design) {
            found.entry(file).or_default().insert(design.to_owned());
        }
    }
    found.retain(|_, of| of.len() > 1);
    let all = |of: BTreeSet<String>| match of.contains("all") {
        true => designs.map(str::to_owned).into(),
        false => of,
    };
    let told: BTreeMap<_, _> = roles().into_iter().map(|(file, of)| (file, all(of))).collect();
    assert_eq!(found, told, "the table in the header of crates/fs/src/lib.rs");
}

/// The modules of `ext4` beside `mod.rs`, each with those that it names: a file, or a folder.
fn modules_of_ext4() -> BTreeMap<String, BTreeSet<String>> {
    let folder = folder_of("ext4");
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut open = vec![(folder, None::<String>)];
    while let Some((folder, module)) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let stem = stem(&path);
            if path.is_dir() {
                open.push((path, Some(stem)));
                continue;
            }
            let is_root = stem == "mod";
            let Some(owner) = module.clone().or_else(|| (!is_root).then(|| stem.clone())) else { continue };
            // Below a folder, `super` is the folder, but for its `mod.rs`.
            let above = if module.is_some() && !is_root { "super::super::" } else { "super::" };
            let text = std::fs::read_to_string(&path).expect("a source file");
            uses.entry(owner).or_default().extend(named_after(&text, &["crate::", above]));
        }
    }
    let modules: BTreeSet<_> = uses.keys().cloned().collect();
    for (owner, uses) in &mut uses {
        uses.retain(|name| modules.contains(name) && name != owner);
    }
    uses
}

/// The first words of all paths behind one of the prefixes, outside of comments and tests.
fn named_after(text: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let word = |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut found = BTreeSet::new();
    for prefix in prefixes {
        for (at, _) in code.match_indices(prefix).filter(|(at, _)| !code[..*at].ends_with("::")) {
            let rest = &code[at + prefix.len()..];
            let Some(list) = rest.strip_prefix('{') else {
                found.insert(word(rest));
                continue;
            };
            let (mut depth, mut begins) = (1, true);
            for (at, c) in list.char_indices() {
                if depth == 1 && begins && !c.is_whitespace() {
                    found.insert(word(&list[at..]));
                    begins = false;
                }
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' => begins = depth == 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
        }
    }
    found
}

/// The modules that are left when those that use none of the rest are taken away, again and again: circles and what is above.
fn in_circles(mut uses: BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    loop {
        let before = uses.len();
        let left: BTreeSet<_> = uses.keys().cloned().collect();
        uses.retain(|_, uses| uses.iter().any(|name| left.contains(name)));
        if uses.len() == before {
            return left;
        }
    }
}

#[test]
fn the_files_of_ext4_use_each_other_in_no_circle() {
    let uses = modules_of_ext4();
    assert!(uses.len() > 30 && uses["fsck"].contains("map"), "{uses:?}");
    let mut circle = uses.clone();
    circle.entry("layout".to_owned()).or_default().insert("fsck".to_owned());
    assert!(in_circles(circle).contains("layout"), "canary");
    assert_eq!(in_circles(uses), BTreeSet::new());
}

#[test]
fn a_walk_that_lies_is_found() {
    let lie = vec![("crates/sim/src/lib.rs".to_owned(), "no_such_function".to_owned())];
    assert_eq!(breaks(&lie).len(), 1);
}
