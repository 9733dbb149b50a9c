#!/usr/bin/env bash
# A build is recorded, compiled and replayed, and stands beside app/make-like, which is generated: calls of an object by class, and
# the time on each design. `make -j1` with the rules of a kernel's tree, its temporary files in the tree, under strace.
#
#   tests/traces/kernel_make.sh WEIR
#
# The tree is made here: OBJECTS (200) sources of C and HEADERS (40) headers, which each source includes. TREE=DIR takes a copy
# of a tree of your own instead, with `make` and MAKE_ARGS (-j1) in it; it must be configured, and its objects are counted by their names.
# DESIGNS (pmfs,hinfs,ext4) on MEDIUM (dram). The trace is kept as KEEP=FILE. It fails where a replay differs from the record.
set -euo pipefail

weir=$(realpath "$1")
for need in strace make cc python3; do
    command -v $need >/dev/null || { echo "skipped: $need is not installed" >&2; exit 0; }
done
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d -p "${DIR:-/dev/shm}")
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
tree=$work/tree
mkdir "$tree"
if [ -n "${TREE:-}" ]; then
    cp -a "$TREE/." "$tree"
else
    python3 "$here/kernel_make.py" tree "$tree" "${OBJECTS:-200}" "${HEADERS:-40}"
    make -s -C "$tree" fixdep
fi
mkdir -p "$tree/tmp"
objects() { find "$tree" -name '*.o' | wc -l; }
before=$(objects)
read -ra args <<<"${MAKE_ARGS:--j1}"

echo "recording make ${args[*]}" >&2
"$weir" record --quiet --root "$tree" -o "$work/make.wtrace" -- \
    make -s -C "$tree" "${args[@]}" TMPDIR="$tree/tmp" >"$work/make.log" 2>&1 ||
    { tail -5 "$work/make.log" >&2; echo "FAILED: make" >&2; exit 1; }
made=$(($(objects) - before))
[ "$made" -gt 0 ] || { echo "FAILED: make has made no object" >&2; exit 1; }
[ -z "${KEEP:-}" ] || cp "$work/make.wtrace" "$KEEP"
"$weir" trace compile "$work/make.wtrace" -o "$work/make.wprog" >&2

# Of a tree that is made here the application has the same headers.
like=(-D "objects=$made" -D passes=1)
[ -n "${TREE:-}" ] || like+=(-D "headers=${HEADERS:-40}")
on=(--fs "${DESIGNS:-pmfs,hinfs,ext4}" --medium "${MEDIUM:-dram}" --quiet --json)
"$weir" bench "trace:$work/make.wprog" "${on[@]}" --check -D pace=think >"$work/recorded.json"
"$weir" bench app/make-like "${on[@]}" "${like[@]}" --runtime end --warm-up none >"$work/generated.json"
python3 "$here/kernel_make.py" compare "$work/recorded.json" "$work/generated.json" "$made"
