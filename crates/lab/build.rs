//! Compiles the plugin of qemu that counts what a simulated processor does (`counters/plugin.c`), and makes the tables of embedded
//! presets from the folders under `presets/` (`shipped` links to them): adding a preset is adding a file.

#![allow(clippy::unnecessary_debug_formatting)] // the code that is made needs quotes and escapes

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const KINDS: [(&str, &str); 4] =
    [("machines", "MACHINES"), ("originals", "ORIGINALS"), ("plans", "PLANS"), ("papers", "PAPERS")];

/// Position-independent, with the names that qemu looks for and no others.
const PLUGIN_FLAGS: &[&str] =
    &["-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread"];

fn main() {
    plugin();
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("shipped");
    let mut code = String::new();
    for (folder, table) in KINDS {
        let folder = root.join(folder);
        println!("cargo:rerun-if-changed={}", folder.display());
        writeln!(code, "/// The presets in `presets/{}`.", folder.file_name().unwrap().display()).unwrap();
        writeln!(code, "pub static {table}: &[Preset] = &[").unwrap();
        for file in toml_files(&folder) {
            let name = file.file_stem().expect("it has an extension").display().to_string();
            let path = file.canonicalize().expect("it was just listed");
            writeln!(code, "    Preset {{ name: {name:?}, text: include_str!({path:?}) }},").unwrap();
        }
        writeln!(code, "];").unwrap();
    }
    let validation = root.join("validation");
    println!("cargo:rerun-if-changed={}", validation.display());
    code += &files_of(&validation);
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("presets.rs");
    fs::write(out, code).expect("cargo made the folder");
    println!("cargo:rustc-env=WEIR_COMPILER={}", compiler());
    let profile = env::var("PROFILE").unwrap_or_default();
    println!("cargo:rustc-env=WEIR_PROFILE={profile}");
    // Results worth keeping come from release builds; the others would be rebuilt at every commit for nothing.
    if let Some(commit) = (profile == "release").then(commit).flatten() {
        println!("cargo:rerun-if-changed={}", root.join("../../../.git/logs/HEAD").display());
        println!("cargo:rustc-env=WEIR_COMMIT={commit}");
    }
}

/// qemu loads it on the host, whatever libc the command is linked with.
fn plugin() {
    let variable = |name: &str| env::var(name).expect("cargo sets it");
    let source = Path::new(&variable("CARGO_MANIFEST_DIR")).join("counters/plugin.c");
    println!("cargo:rerun-if-changed={}", source.display());
    let out = Path::new(&variable("OUT_DIR")).join("counters.so");
    let target = variable("TARGET").replace("musl", "gnu");
    let compiler = cc::Build::new().target(&target).cargo_metadata(false).get_compiler();
    let mut command = Command::new(compiler.path());
    command.args(PLUGIN_FLAGS).arg("-o").arg(&out).arg(&source);
    let status = command.status().unwrap_or_else(|error| panic!("{}: {error}", compiler.path().display()));
    assert!(status.success(), "{command:?} has failed");
}

/// The commit that is built, with a mark when the tree has been changed since.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(git(&["rev-parse", "--short=12", "HEAD"])? + if changed.is_empty() { "" } else { "+" })
}

/// The table of all files in `presets/validation`: rows, and the scripts and machines that their commands name.
fn files_of(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e != "md")).collect();
    files.sort();
    let mut code = "/// The files in `presets/validation`, by their whole names.\n".to_owned();
    code += "pub static VALIDATION: &[Preset] = &[\n";
    for file in files {
        let name = file.file_name().expect("it was listed").display().to_string();
        let path = file.canonicalize().expect("it was just listed");
        writeln!(code, "    Preset {{ name: {name:?}, text: include_str!({path:?}) }},").unwrap();
    }
    code + "];\n"
}

fn toml_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    files
}

fn compiler() -> String {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc).arg("--version").output();
    output.map_or_else(|_| "unknown".to_owned(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
