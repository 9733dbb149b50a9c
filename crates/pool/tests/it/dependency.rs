//! The library in a program of one's own, as the page about it says: its line in `Cargo.toml`, its example as `main.rs`.

use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/embedding.md");

/// The block of code that begins with this line.
fn block(first: &str) -> &'static str {
    let blocks = PAGE
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').map_or(block, |(_, text)| text));
    blocks
        .into_iter()
        .find(|block| block.starts_with(first))
        .unwrap_or_else(|| panic!("no block begins with {first}"))
}

#[test]
fn a_fresh_crate_with_the_documented_line_builds_and_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let dependencies = block("[dependencies]").replace("../weir", root.to_str().unwrap());
    assert!(dependencies.contains("weir-pool"), "{dependencies}");
    write(
        "Cargo.toml",
        &format!("[package]\nname = \"notes\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{dependencies}"),
    );
    std::fs::create_dir(folder.path().join("src")).unwrap();
    write("src/main.rs", block("fn main()"));
    // The versions that the workspace is built with, so that nothing is fetched. All is built anew, since another program asks for
    // other features of what both depend on; unoptimised, which takes a third of the time.
    std::fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    let flags = ["opt-level=0", "debug=0", "incremental=false"];
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dependency");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--offline", "--quiet"]).current_dir(folder.path()).env("CARGO_TARGET_DIR", target);
    cargo.args(flags.map(|flag| format!("--config=profile.dev.{flag}")));
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
