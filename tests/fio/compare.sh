#!/bin/sh
# fio and `weir bench` side by side: each job file on the same directory of the host, in turn, several rounds. Prints the median
# rate of each and their ratio (weir/fio), the ratio of their best rounds, and the median latencies of a call; other work on the
# host disturbs the last two less.
#
#   tests/fio/compare.sh DIR [ROUNDS [JOB.fio …]]      default: 5 rounds of the job files that come with Weir
#   WEIR=path/to/weir                                  default: target/release/weir
#   LOOPS=n                                            passes of each job that ends by its size (default 1)
#
# What makes the two comparable:
# - Both read the same text. Three lines are put before it: thread=1 (both are threads of one process), invalidate=0 (neither
#   empties the page cache), loops=n.
# - Each runs in a session of its own, since the scheduler shares a busy host by sessions; root gives both priority over others.
# - They take turns at being first, and nothing is left to be written back when either begins.
#
# Without fio, and where apt-get cannot install it, it says so and ends with 0: there is nothing to compare with.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: compare.sh DIR [ROUNDS [JOB.fio ...]]}
rounds=${2:-5}
[ $# -ge 2 ] && shift 2 || shift $#
[ $# -gt 0 ] || set -- "$here"/../../crates/workload/src/fio/jobs/*.fio
weir=${WEIR:-$here/../../target/release/weir}

if ! command -v fio >/dev/null; then
    (apt-get update && apt-get install -y fio) >/dev/null 2>&1 || true
fi
if ! command -v fio >/dev/null; then
    echo "skipped: fio is not installed, and apt-get cannot install it"
    exit 0
fi
if ! [ -x "$weir" ]; then
    echo "compare.sh: $weir is not there: build it with cargo build --release, or set WEIR" >&2
    exit 2
fi

work=$(mktemp -d "$dir/compare.XXXXXX")
trap 'rm -rf "$work"' EXIT

# In a session of its own, before the other work of the host where that is allowed.
alone() {
    sync -f "$work"
    setsid -w sh -c 'echo -15 2>/dev/null >/proc/self/autogroup; exec "$@"' alone "$@"
}
run_fio() {
    mkdir -p "$work/fio"
    (cd "$work/fio" && alone fio --output-format=json --output="$work/$name.$round.fio.json" "$work/$name.fio") >/dev/null
    rm -rf "$work/fio"
}
run_weir() {
    mkdir -p "$work/weir"
    XDG_DATA_HOME="$work/store" alone "$weir" bench "$work/$name.fio" --fs "host:$work/weir" --clock real --json \
        >"$work/$name.$round.weir.json" 2>"$work/$name.$round.err" ||
        { cat "$work/$name.$round.err" >&2; exit 1; }
}

echo "$(fio --version), $rounds rounds, load $(cut -d' ' -f1-3 /proc/loadavg), $(stat -f -c %T "$dir")"
for job in "$@"; do
    name=$(basename "$job" .fio)
    { printf '[global]\nthread=1\ninvalidate=0\nloops=%s\n' "${LOOPS:-1}"; cat "$job"; } >"$work/$name.fio"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        if [ $((round % 2)) = 1 ]; then run_fio; run_weir; else run_weir; run_fio; fi
    done
done
python3 "$here/compare.py" "$work" "$rounds" "$@"
