//! Compiles the library that `weir record --how preload` loads before a program (`preload/`), for `import::preload` to carry.

use std::env;
use std::path::Path;
use std::process::Command;

/// Position-independent, without any library: symbols are found in whichever libc the program has.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-nostdlib",
    "-fno-stack-protector",
    "-fno-builtin",
    "-ftls-model=initial-exec",
    "-U_FORTIFY_SOURCE",
    "-Wall",
    "-Wno-nonnull-compare",
];
const SOURCES: &[&str] = &["ring.c", "calls.c", "streams.c", "processes.c"];

fn main() {
    let variable = |name: &str| env::var(name).expect("cargo sets it");
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")).join("preload");
    println!("cargo:rerun-if-changed={}", folder.display());
    let out = Path::new(&variable("OUT_DIR")).join("preload.so");
    // A command that is linked with musl records programs of the same host, whose headers are those of its compiler.
    let target = variable("TARGET").replace("musl", "gnu");
    let compiler = cc::Build::new().target(&target).cargo_metadata(false).get_compiler();
    let mut command = Command::new(compiler.path());
    command.args(FLAGS).arg("-o").arg(&out).args(SOURCES.iter().map(|source| folder.join(source)));
    let status = command.status().unwrap_or_else(|error| panic!("{}: {error}", compiler.path().display()));
    assert!(status.success(), "{command:?} has failed");
}
