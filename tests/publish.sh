#!/usr/bin/env bash
# The packages that `cargo publish` would upload: each builds from what is in it alone, and the command that `cargo install` makes of them
# knows its presets and the tree's record of checks. Uploads nothing. Ten minutes of two cores where dependencies are not built.
#
#   tests/publish.sh
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '\n== %s\n' "$*"; }

# `cargo publish --dry-run` packages the members in the order of their dependencies and builds each beside the packages of the others.
step "each crate, from its package"
cargo publish --workspace --dry-run --locked --allow-dirty 2>&1 | tee "$work/log" | grep -E '^ *(Packaged|Verifying|error)' || { tail -20 "$work/log"; exit 1; }
[ "$(grep -c '^ *Verifying' "$work/log")" = "$(find crates -mindepth 2 -maxdepth 2 -name Cargo.toml | wc -l)" ]

step "the command of its package"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
mkdir "$work/crates"
# What was verified lies there unpacked.
cp -r "${CARGO_TARGET_DIR:-target}"/package/weir*-"$version" "$work/crates"
# The other packages take the place of the registry.
for folder in "$work"/crates/weir-*/; do
  [ "$(basename "$folder")" != "weir-$version" ] || continue
  name=$(sed -n '/^\[package\]/,/^\[/s/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml")
  printf '%s = { path = "%s" }\n' "$name" "$folder"
done >"$work/patches"
command=$work/crates/weir-$version
{ printf '\n[patch.crates-io]\n'; cat "$work/patches"; } >>"$command/Cargo.toml"
cargo install --quiet --debug --path "$command" --root "$work/root" --target-dir "${CARGO_TARGET_DIR:-target}"
weir=$work/root/bin/weir
export XDG_DATA_HOME=$work/data
"$weir" list plans | grep -q hinfs-7
"$weir" list media | grep -q optane
"$weir" check --evidence | grep -q crash/depth-1
"$weir" bench varmail --fs nova -D nfiles=200 --runtime 1ms >/dev/null
echo "ok: installed from packages, with presets and evidence"
