#!/usr/bin/env bash
# Runs every check at its full size and records what it found in evidence/ledger.jsonl, which the command carries with it:
# `weir check --evidence` prints it. Hours of two cores; ONLY="model faults" runs these steps. SHORT=1 takes an hour and a half: the
# checks that each design must have and its seeded bugs, with a tenth of the operations and of the time. ANEW=1 after it, at full
# size, runs again also what has a row.
#
#   evidence/collect.sh WEIR
#
# The checks take every design of the table, or those of DESIGNS="ext4 ext2". Three kinds of steps take fewer:
#
#   mounts             pmfs and hinfs, or what a script names by itself
#   programs, public   mounts of the designs that are meant for use: redo keeps everything in DRAM and is there to be copied, and
#                      hinfs-nclfw and hinfs-wb are hinfs with one decision left out
#   crash-mapped       designs that map files: all but redo
#   crash-2            all pairs of programs on designs that need memory; on block devices, where a crash may lose or keep every
#                      sector since the last flush, and an image takes ten times as long, pairs that are drawn at random
#
# What has a row of this code, by check and design, is not run again: an interrupted run goes on where it ended, and a change of one
# design costs its own checks. A tree with changes, and a build of another commit, are refused: their rows would be old at once. It
# fails if a design has no row of a check that each has.
#
# As root with /dev/fuse, for the steps that mount. A step that fails ends the run; what it found is recorded all the same. A test
# that says that it is skipped, or that is ignored, fails its step, unless ALLOW_SKIPPED=1: what was not tried is no evidence.
set -euo pipefail

weir=$(realpath "$1")
cd "$(dirname "$0")/.."
export WEIR_LEDGER=$PWD/evidence/ledger.jsonl
commit=$(git rev-parse --short=12 HEAD)
git diff --quiet HEAD -- . ':!evidence/ledger.jsonl' || {
    echo "collect.sh: the tree has changes that are not committed; commit them first, then build" >&2
    exit 1
}
# An entry of a ledger says of which commit its build is, with a + for changes.
tried=$(mktemp -u)
"$weir" check model --fs redo --ops 10 --ledger "$tried" --quiet >/dev/null
grep -qF "\"build\":\"$commit " "$tried" || {
    echo "collect.sh: $weir is not of $commit, or of a tree that had changes: $(grep -o '"build":"[^"]*"' "$tried"); build it again" >&2
    exit 1
}
rm "$tried"
# What cargo's suites test: this commit, in the profile that tests are built in.
WEIR_BUILD="$commit debug"
export WEIR_BUILD
steps=${ONLY:-model crash-1 crash-2 crash-3 crash-random crash-together crash-mapped recall faults schedules fuzz posix killed contents suites mounts programs public}
operations=1000000 seconds=300
if [ -n "${SHORT:-}" ]; then
    steps=${ONLY:-model schedules fuzz crash-1 faults recall} operations=100000 seconds=30
fi
# Those with a pool: not the bare device, the host's directories and the models of Linux.
table=$("$weir" list fs --json | python3 -c '
import json, sys
print("\n".join(one["name"] for one in json.load(sys.stdin)["fs"] if one["needs"] in ("memory", "a block device")))')
read -ra all <<<"$(tr '\n' ' ' <<<"${DESIGNS:-$table}")"
designs=$(IFS=,; printf '%s' "${all[*]}")

# Those of the designs whose names match, with commas between them.
of_them() { printf '%s\n' "${all[@]}" | grep -E "$@" | paste -sd, || true; }
on_blocks=$(of_them '^ext[24]$')
in_memory=$(of_them -v '^ext[24]$')
mapping=$(of_them -v '^redo$')
read -ra mounted <<<"$(of_them -v '^(redo|hinfs-.*)$' | tr , ' ')"

check() { "$weir" check "$@" --ledger "$WEIR_LEDGER"; }

# The designs among those named, with commas, that have no row of this code of a check.
without() {
    if [ -n "${ANEW:-}" ]; then echo "$2"; return; fi
    "$weir" check --evidence --ledger "$WEIR_LEDGER" --json | python3 -c '
import json, sys
check, wanted = sys.argv[1], sys.argv[2].split(",")
rows = json.load(sys.stdin)["rows"]
have = {row["subject"].split(" ")[0] for row in rows if row["check"] == check and row["old"] is None}
print(",".join(name for name in wanted if name and name not in have))' "$1" "$2"
}
# Runs a check with its arguments on those of the designs that have no row of it: the name of the row, the designs, the arguments.
missing() {
    local left
    left=$(without "$1" "$2")
    if [ -z "$left" ]; then echo "$1: every design has a row of this code"; else check "${@:3}" --fs "$left"; fi
}

# Lines in which a test says that it did not try what it is there for.
skipped() { grep -E '(^|: |\.\.\. )(skipped|SKIPPED)[:,]|^test .* \.\.\. ignored' "$1"; }

# Runs the tests of these modules, which print all they say into $scratch/suite.
run_tests() {
    local status=0
    cargo test --workspace --locked --test it -- "$@" --nocapture >"$scratch/suite" 2>&1 || status=$?
    grep -E '^(test result|     Running)' "$scratch/suite" || true
    if [ -z "${ALLOW_SKIPPED:-}" ] && skipped "$scratch/suite" >&2; then
        echo "collect.sh: these tests did not run; install what they need, or set ALLOW_SKIPPED=1" >&2
        return 1
    fi
    [ "$status" = 0 ] || { tail -n 40 "$scratch/suite" >&2; return 1; }
}

# What a suite of cargo's printed: how many tests passed and failed.
record_suite() {
    local name=$1 subject=$2 passed failed status=0
    shift 2
    (unset WEIR_LEDGER; run_tests "$@") || status=1
    passed=$(awk '/^test result/ { sum += $4 } END { print sum + 0 }' "$scratch/suite")
    failed=$(awk '/^test result/ { sum += $6 } END { print sum + 0 }' "$scratch/suite")
    [ "$passed" -gt 0 ] || { tail -n 20 "$scratch/suite" >&2; return 1; }
    check record "$name" --subject "$subject" --unit tests --count "$passed" --failures "$failed" --build "$WEIR_BUILD"
    [ "$failed" = 0 ] && [ "$status" = 0 ]
}

step_model() { missing model "$designs" model --ops "$operations" --host "$memory"; }
step_crash-1() { missing crash/depth-1 "$designs" crash; }
step_crash-2() {
    [ -z "$in_memory" ] || missing crash/depth-2 "$in_memory" crash --depth 2
    [ -z "$on_blocks" ] || missing crash/depth-2 "$on_blocks" crash --depth 2 --sample 3000
}
step_crash-3() { missing crash/depth-3 "$designs" crash --depth 3 --sample 3000; }
step_crash-random() { missing crash/random "$designs" crash --random 3000; }
step_crash-together() { missing crash/together "$designs" crash --together --sample 3000; }
step_crash-mapped() {
    [ -z "$mapping" ] || missing crash/mapped "$mapping" crash --mapped
}
step_recall() { missing recall "$designs" recall; }
step_faults() {
    local left
    left=$(without faults "$designs")
    [ -n "$left" ] || return 0
    check faults --fs "$left"
    check faults --fs "$left" --random 100000 --time "${seconds}s"
}
step_schedules() { missing schedules "$designs" schedules --seconds "$seconds"; }
step_fuzz() { missing fuzz "$designs" fuzz --seconds "$seconds"; }
step_posix() { run_tests posix::; }
step_killed() { WEIR_KILL_ROUNDS=200 run_tests mount_server::a_server_that_was_killed; }
step_contents() { WEIR_EXERCISE_STEPS=100000 run_tests exercise::; }
step_suites() {
    record_suite suite/format "designs and their format" smoke:: damage:: formats:: crash:: model:: hinfs:: nova:: ext4:: \
        faults::
    record_suite suite/medium "the recorder and its lints" region:: recorder:: lints::
    record_suite suite/calls "calls by path and descriptor" rules:: differential:: cache:: pool::
    record_suite suite/mount "mounts of each design" mount:: exercise::
}
step_mounts() {
    local script
    for script in calls stacked second_user direct; do tests/mount/$script.sh "$weir"; done
    tests/mount/block.sh "$weir"
    tests/mount/memory.sh "$weir"
}
step_programs() { env -u ONLY tests/mount/run.sh "$weir" "${mounted[@]}"; }
step_public() { tests/mount/suites.sh "$weir" "${mounted[@]}"; }

scratch=$(mktemp -d)
memory=$(mktemp -d /dev/shm/weir.XXXXXX)
trap 'rm -rf "$scratch" "$memory"' EXIT
# Canary: every way in which a test says it, and one in which it does not.
for line in 'skipped: no fuse' 'SKIPPED: no e2fsck' 'pmfs: skipped, no fuse' 'test a ... skipped: no fuse' 'test a ... ignored'; do
    skipped - <<<"$line" >/dev/null || { echo "collect.sh does not notice: $line" >&2; exit 1; }
done
if skipped - <<<'test bad_lines_are_refused_by_number_or_skipped ... ok'; then exit 1; fi
for step in $steps; do
    printf '\n== %s\n' "$step"
    "step_$step"
done
check --evidence
if check --evidence | grep '^no row of this code:' >&2; then exit 1; fi
