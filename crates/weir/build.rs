//! Makes the table of the code that checks test (`src/command/check/code.rs`): a hash of each part of the tree.
//!
//! A part is the source of a crate, or a design: a crate of its own, or a folder of `fs`. Empty lines, comments and indentation do
//! not count.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The crate whose folders are designs.
const DESIGNS: &str = "fs";
/// The file that each design has.
const DESIGN: &str = "design.rs";

fn main() {
    let crates = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let mut parts: BTreeMap<String, u64> = BTreeMap::new();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for (name, folder) in of_the_tree(&crates) {
        let source = folder.join("src");
        println!("cargo:rerun-if-changed={}", source.display());
        for file in files(&source) {
            let inside = file.strip_prefix(&source).expect("it was found there");
            let design = inside.components().next().filter(|first| source.join(first).join(DESIGN).exists());
            let part = match design {
                Some(design) if name == DESIGNS => design.as_os_str().display().to_string(),
                _ if name != "design" && source.join(DESIGN).exists() => name.clone(),
                _ => format!("{name}/"),
            };
            let text = fs::read(&file).expect("it was just listed");
            let text = String::from_utf8_lossy(&text).into_owned();
            let hash = parts.entry(part.clone()).or_insert(0xcbf2_9ce4_8422_2325);
            *hash = add(*hash, &inside.display().to_string());
            code(&text).for_each(|line| *hash = add(*hash, line));
            texts.entry(part).or_default().push_str(&text);
        }
    }
    let table = table(&parts, &texts);
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("code.rs");
    fs::write(out, table).expect("cargo made the folder");
}

/// The parts, each with the designs that it names: those it is built on.
fn table(parts: &BTreeMap<String, u64>, texts: &BTreeMap<String, String>) -> String {
    let mut table =
        "/// Every part: a crate with a slash, or a design.\nstatic PARTS: &[Part] = &[\n".to_owned();
    for (part, hash) in parts {
        let is_design = |name: &str| !name.ends_with('/');
        let names = |other: &&String| {
            is_design(part)
                && is_design(other)
                && *other != part
                && texts[part].contains(&format!("crate::{other}::"))
        };
        let on: Vec<_> = parts.keys().filter(names).collect();
        let words = [48, 32, 16, 0].map(|shift| format!("{:04x}", hash >> shift & 0xffff)).join("_");
        writeln!(table, "    Part {{ name: {part:?}, hash: 0x{words}, built_on: &{on:?} }},")
            .expect("a string");
    }
    table + "];\n"
}

/// What counts of a file.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"))
}

/// FNV-1a, over the bytes and an end.
fn add(hash: u64, text: &str) -> u64 {
    text.bytes().chain([0]).fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.display().to_string()).unwrap_or_default()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// The crates of the tree, by the names of their folders there. Packaged ones lie side by side as well, each with the prefix and
/// version of its package, and perhaps among others.
fn of_the_tree(crates: &Path) -> Vec<(String, PathBuf)> {
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let folders = entries(crates).into_iter().filter(|path| path.is_dir());
    if crates.join("sim/Cargo.toml").exists() {
        return folders.map(|folder| (name(&folder), folder)).collect();
    }
    let of_package = |folder: PathBuf| {
        let package = name(&folder).strip_suffix(&format!("-{version}"))?.to_owned();
        let name = if package == "weir" { Some("weir") } else { package.strip_prefix("weir-") };
        Some((name?.to_owned(), folder))
    };
    let mut all: Vec<_> = folders.filter_map(of_package).collect();
    all.sort();
    all
}

/// All files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    entries(folder)
        .into_iter()
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}
