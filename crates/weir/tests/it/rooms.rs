//! The rule of rooms, for every crate: the files and folders of a folder use each other in no circle, and a type has at most
//! [`MOST_METHODS`] inherent methods. `rooms.txt` lists what breaks the rule today. It may only shrink: what is not in it
//! fails, and so
//! does a line of which less is left, until the list is written anew (`WEIR_WRITE_TABLES=1`).
//!
//! A file uses another if it names it in a path (`crate::`, `super::`, `self::`), or calls a method that only the other one of the
//! crate defines. Comments and unit tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Inherent methods and functions of one type in one crate.
const MOST_METHODS: usize = 60;

type Module = Vec<String>;
/// What breaks the rule: a circle's members by crate and folder, or a type's methods.
type Broken = BTreeMap<String, BTreeSet<String>>;

/// A source file: the module that it is, and its code.
struct File {
    module: Module,
    code: String,
}

/// The text without comments and unit tests.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The source files below a folder, which is the module `at`.
fn files(folder: &Path, at: &Module) -> Vec<File> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let below = || at.iter().cloned().chain([stem.clone()]).collect::<Module>();
        if path.is_dir() {
            found.extend(files(&path, &below()));
        } else if path.extension().is_some_and(|ending| ending == "rs") && !stem.ends_with("tests") {
            let is_root = ["mod", "lib", "main"].contains(&stem.as_str());
            let module = if is_root { at.clone() } else { below() };
            found.push(File { module, code: code(&std::fs::read_to_string(&path).expect("a source file")) });
        }
    }
    found
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The words of a path at the start of the text, and what follows it.
fn words(mut text: &str) -> (Module, &str) {
    let mut words = Module::new();
    loop {
        let next = word(text);
        if next.is_empty() {
            return (words, text);
        }
        words.push(next.to_owned());
        let rest = &text[next.len()..];
        match rest.strip_prefix("::") {
            Some(rest) => text = rest,
            None => return (words, rest),
        }
    }
}

/// The first words in a list of imports, whose brace is open.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut begins, mut heads) = (1, true, Vec::new());
    for (at, c) in list.char_indices() {
        if depth == 1 && begins && !c.is_whitespace() {
            heads.push(word(&list[at..]).to_owned());
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
    heads
}

/// All paths of the crate that a file names, from the crate's root.
fn paths(file: &File) -> Vec<Module> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in file.code.match_indices(start) {
            if file.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let (mut path, rest) = words(&file.code[at..]);
            let ups = path.iter().take_while(|word| *word == "super").count();
            let base = match path[0].as_str() {
                "crate" => Module::new(),
                _ => file.module[..file.module.len().saturating_sub(ups)].to_vec(),
            };
            path.drain(..ups.max(1));
            let full = |tail: &[String]| base.iter().chain(&path).chain(tail).cloned().collect::<Module>();
            match rest.strip_prefix('{') {
                Some(list) => found.extend(heads(list).iter().map(|head| full(std::slice::from_ref(head)))),
                None => found.push(full(&[])),
            }
        }
    }
    found
}

/// The names of methods that a file calls.
fn calls(file: &File) -> BTreeSet<&str> {
    let after_points = file.code.split('.').skip(1);
    after_points.filter(|rest| rest[word(rest).len()..].starts_with('(')).map(word).collect()
}

/// The names of functions with a receiver.
fn methods(file: &File) -> BTreeSet<&str> {
    let functions = file.code.split("fn ").skip(1);
    let takes_self = |rest: &&str| {
        let first = rest.split_once('(').and_then(|(_, list)| list.split([',', ')']).next());
        first.is_some_and(|first| first.split(|c: char| !c.is_alphanumeric()).any(|word| word == "self"))
    };
    functions.filter(takes_self).map(word).collect()
}

/// Who uses whom among the modules of each folder.
fn uses(files: &[File]) -> BTreeMap<Module, BTreeSet<(String, String)>> {
    let modules: BTreeSet<&Module> = files.iter().map(|file| &file.module).collect();
    let mut defined: BTreeMap<&str, Vec<&Module>> = BTreeMap::new();
    for file in files {
        for name in methods(file) {
            defined.entry(name).or_default().push(&file.module);
        }
    }
    let mut uses: BTreeMap<Module, BTreeSet<(String, String)>> = BTreeMap::new();
    for file in files {
        let only = |name: &&str| {
            defined.get(name).and_then(|by| if let [one] = by[..] { Some(one.clone()) } else { None })
        };
        let called = calls(file).iter().filter_map(only).collect::<Vec<_>>();
        for mut path in paths(file).into_iter().chain(called) {
            while !path.is_empty() && !modules.contains(&path) {
                path.pop();
            }
            let shared = path.iter().zip(&file.module).take_while(|(a, b)| a == b).count();
            if shared < path.len() && shared < file.module.len() {
                let pair = (file.module[shared].clone(), path[shared].clone());
                uses.entry(path[..shared].to_vec()).or_default().insert(pair);
            }
        }
    }
    uses
}

/// The sets of modules that use each other, directly or by others.
fn circles(uses: &BTreeSet<(String, String)>) -> Vec<BTreeSet<String>> {
    let names: BTreeSet<&String> = uses.iter().flat_map(|(a, b)| [a, b]).collect();
    let reached = |from: &String| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            let next = uses.iter().filter(|(a, _)| a == at).map(|(_, b)| b);
            open.extend(next.filter(|b| reached.insert((*b).clone())));
        }
        reached
    };
    let all: BTreeMap<&String, BTreeSet<String>> = names.iter().map(|name| (*name, reached(name))).collect();
    let circle =
        |name: &&String| all[*name].iter().filter(|other| all[*other].contains(*name)).cloned().collect();
    let sets: BTreeSet<BTreeSet<String>> = names.iter().map(circle).collect();
    sets.into_iter().filter(|set| set.len() > 1).collect()
}

/// The inherent methods of each type.
fn methods_of_types(files: &[File]) -> BTreeMap<String, usize> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        for block in file.code.split("\nimpl").skip(1) {
            let (head, body) = block.split_once(" {\n").unwrap_or_default();
            let head = if head.starts_with('<') {
                head.split_once("> ").map_or("", |(_, name)| name)
            } else {
                head.trim_start()
            };
            if head.is_empty() || head.contains(" for ") {
                continue;
            }
            let body = body.split("\n}").next().unwrap_or_default();
            let functions = body.lines().filter(|line| line.starts_with("    ") && line.contains("fn "));
            *count.entry(word(head).to_owned()).or_default() += functions.count();
        }
    }
    count
}

/// What breaks the rule in a crate.
fn broken(name: &str, files: &[File]) -> Broken {
    let mut broken = Broken::new();
    for (folder, uses) in uses(files) {
        for (number, circle) in circles(&uses).into_iter().enumerate() {
            let folder = [&[name.to_owned()], &folder[..]].concat().join("/");
            broken.insert(format!("{folder} circle {number}"), circle);
        }
    }
    for (of, count) in methods_of_types(files).into_iter().filter(|(_, count)| *count > MOST_METHODS) {
        broken.insert(format!("{name} methods of {of}"), (1..=count).map(|n| format!("{n:03}")).collect());
    }
    broken
}

/// The same as text: a line each, methods by their number.
fn text(broken: &Broken) -> String {
    let mut text = String::new();
    for (what, members) in broken {
        let methods = what.contains(" methods of ").then(|| members.len().to_string());
        let members = methods.unwrap_or_else(|| members.iter().cloned().collect::<Vec<_>>().join(" "));
        writeln!(text, "{what}: {members}").expect("a string");
    }
    text
}

/// What is found and not listed, line by line: a new circle or a larger one, more methods.
fn grown(found: &Broken, listed: &str) -> Vec<String> {
    let listed: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once(": ")).collect();
    let place = |what: &str| what.split(" circle ").next().unwrap_or_default().to_owned();
    let is_listed = |what: &str, members: &BTreeSet<String>| {
        listed.iter().any(|(other, known)| match known.parse::<usize>() {
            Ok(count) => *other == what && members.len() <= count,
            Err(_) => {
                let known: BTreeSet<&str> = known.split(' ').collect();
                place(other) == place(what) && members.iter().all(|member| known.contains(member.as_str()))
            }
        })
    };
    let grown = found.iter().filter(|(what, members)| !is_listed(what, members));
    grown.map(|(what, members)| format!("{what}: {members:?}")).collect()
}

#[test]
fn circles_and_large_types_only_become_fewer() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Broken::new();
    for entry in std::fs::read_dir(here.join("..")).expect("the crates").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        found.extend(broken(&name, &files(&entry.path().join("src"), &Module::new())));
    }
    let list = here.join("tests/it/rooms.txt");
    let listed = std::fs::read_to_string(&list).unwrap_or_default();
    let grown = grown(&found, &listed);
    assert!(grown.is_empty(), "not in rooms.txt, which may only shrink:\n{}", grown.join("\n"));
    if std::env::var_os("WEIR_WRITE_TABLES").is_some() {
        std::fs::write(&list, text(&found)).expect("the list is written");
    } else {
        assert_eq!(text(&found), listed, "less is left: write the list anew with WEIR_WRITE_TABLES=1");
    }
}

#[test]
fn a_planted_circle_and_a_planted_type_are_found() {
    let file = |module: &str, code: &str| File { module: vec![module.to_owned()], code: code.to_owned() };
    let chain =
        [file("a", "use super::b::B;"), file("b", "use crate::{c, d};"), file("c", ""), file("d", "")];
    assert!(broken("x", &chain).is_empty());
    let circle = [
        file("a", "use super::b::B;"),
        file("b", "use crate::{c, none};"),
        file("c", "fn f() { x.only_in_d(1) }"),
        file("d", "impl D { fn only_in_d(&mut self, n: u8) { super::a::f() } }"),
    ];
    let found = broken("x", &circle);
    assert_eq!(text(&found), "x circle 0: a b c d\n");
    assert!(
        grown(&found, "x circle 0: a b c d e\n").is_empty()
            && !grown(&found, "x circle 0: a b c\n").is_empty()
    );
    let many = format!("\nimpl<T> Large<T> {{\n{}\n}}\n", "    fn f(&self) {}\n".repeat(MOST_METHODS + 1));
    let large = broken("x", &[file("a", &many)]);
    assert_eq!(text(&large), "x methods of Large: 61\n");
    assert!(
        grown(&large, "x methods of Large: 61\n").is_empty()
            && !grown(&large, "x methods of Large: 60\n").is_empty()
    );
}
