#!/usr/bin/env bash
# A copy of the design redo under another name needs its folder and the lines that CONTRIBUTING.md names, nothing else: every test that
# goes over the table of designs passes with it.
# usage: tests/house/copy_design.sh [FILTER…]   tests of crates/fs to run (default: those that go over the table and are short)
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
filters=("$@")
[ ${#filters[@]} -gt 0 ] || filters=(smoke:: formats:: mapped:: resize:: fuzz::mutants)

git -C "$root" ls-files -z | tar -C "$root" --null -T - -cf - | tar -C "$work" -xf -
cd "$work/crates/fs/src"
cp -r redo copied
sed -i 's/"redo"/"copied"/; s/"redo\.volume"/"copied.volume"/; s/WEIRREDO/WEIRCOPY/' copied/*.rs
sed -i 's/^mod redo;/mod copied;\nmod redo;/; s/^    &redo::design::RedoDesign,/    \&copied::design::RedoDesign,\n&/' lib.rs
cd "$work"
git -C "$root" diff --no-index --stat "$root/crates/fs/src/lib.rs" crates/fs/src/lib.rs || true
cargo test -p weir-fs --locked --test it -- "${filters[@]}"
# Building the tests of weir builds the command as well.
cargo test -p weir --locked --test it -- tidy::
"${CARGO_TARGET_DIR:-target}/debug/weir" list fs | grep -q '^ *copied '
echo "ok: a copied design passes"
