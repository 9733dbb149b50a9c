#!/usr/bin/env bash
# How long the house takes: CPU seconds (user and system, children included) and wall time of what people wait for, from a fresh clone, and
# the lines of source. On an idle machine; over an hour whole.
#   tests/house/time.sh [PART…]    parts: demo test ci nova crest lines speed (default: all but ci)
#   BASE=COMMIT                    measures `make demo` of that commit as well, side by side
#   KEEP=DIR                       the clone and its target folder stay there, and are used again
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
parts=" ${*:-demo test nova crest lines speed} "
wants() { [[ $parts == *" $1 "* ]]; }
tree=$work/tree
[ -d "$tree" ] || git clone --quiet "$here" "$tree"
export CARGO_INCREMENTAL=0
unset CARGO_TARGET_DIR

# NAME FOLDER COMMAND…
timed() {
    local name=$1 folder=$2 code=0
    shift 2
    TIMEFORMAT='%U %S %R'
    { time (cd "$folder" && "$@" >"$work/log" 2>&1) || code=$?; } 2>"$work/time"
    awk -v name="$name" -v code="$code" '{ printf "%-44s %7.0f s CPU %7.0f s wall%s\n", name, $1 + $2, $3, code == 0 ? "" : "   FAILED" }' "$work/time"
    [ "$code" = 0 ] || { tail -5 "$work/log"; failed=1; }
}
failed=0
(cd "$tree" && cargo fetch --locked --quiet)

if wants demo; then
    timed "make demo" "$tree" make demo
    if [ -n "${BASE:-}" ]; then
        [ -d "$work/base" ] || git clone --quiet "$here" "$work/base"
        git -C "$work/base" checkout --quiet "$BASE"
        timed "make demo at ${BASE:0:8}" "$work/base" make demo
    fi
fi
wants test && timed "make test, with all that it builds" "$tree" make test
wants ci && timed ".ci/run, with dependencies built" "$tree" bash .ci/run
# What an engineer waits for after a change in one design: its tests.
if wants nova; then
    (cd "$tree" && cargo test --locked -p weir-fs --test it --no-run >/dev/null 2>&1)
    echo "// a change" >>"$tree/crates/fs/src/nova/file.rs"
    timed "a change in nova, and its tests" "$tree" cargo test --locked -p weir-fs --test it -- nova::
    git -C "$tree" checkout --quiet crates
fi
if wants crest; then
    (cd "$tree" && cargo test --locked -p weir-fs --test it --no-run >/dev/null 2>&1)
    echo "// a change" >>"$tree/crates/crest/src/calls/file.rs"
    timed "a change in crest, and its tests" "$tree" cargo test --locked -p weir-fs --test it -- crest::
    git -C "$tree" checkout --quiet crates
fi
if wants speed; then
    (cd "$tree" && cargo build --quiet --locked --release -p weir && cargo build --quiet --locked --profile dist -p weir)
    for round in 1 2 3; do
        for profile in release dist; do
            timed "plan quick, $profile, round $round" "$tree" "target/$profile/weir" run quick --quick --jobs 1 --quiet -o "$work/r.json"
            timed "FxMark, 38 cells, $profile, round $round" "$tree" "target/$profile/weir" bench fxmark --fs nova,pmfs --medium dram \
                --threads 8 --jobs 1 --quiet -o "$work/r.json"
        done
    done
fi
if wants lines; then
    # Without test programs and unit tests at the end of files.
    git -C "$tree" ls-files 'crates/*/src/*.rs' | sed "s|^|$tree/|" | xargs awk 'FNR == 1 { skip = 0 } /^#\[cfg\(test\)\]$/ { skip = 1 } !skip { lines++ }
        END { printf "%-44s %7d\n", "lines of source without tests", lines }'
fi
exit "$failed"
