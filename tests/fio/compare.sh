#!/bin/sh
# fio and `weir bench` side by side: each job file on the same directory of the host, in turn, several rounds. Prints the median
# rate of each and their ratio (weir/fio).
#
#   tests/fio/compare.sh DIR [ROUNDS [JOB.fio …]]      default: 5 rounds of the job files that come with Weir
#   WEIR=path/to/weir                                  default: target/release/weir
#
# Both run as threads of one process in a session of its own: on a busy host the scheduler shares its time by sessions, and fio's
# processes have one each.
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
echo "$(fio --version), $rounds rounds, load $(cut -d' ' -f1-3 /proc/loadavg), $(stat -f -c %T "$dir")"
for job in "$@"; do
    job=$(realpath "$job")
    name=$(basename "$job" .fio)
    { printf '[global]\nthread=1\n'; cat "$job"; } >"$work/$name.fio"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        mkdir -p "$work/fio" "$work/weir"
        (cd "$work/fio" && setsid -w fio --output-format=json --output="$work/$name.$round.fio.json" "$work/$name.fio") >/dev/null
        rm -rf "$work/fio"
        XDG_DATA_HOME="$work/store" setsid -w "$weir" bench "$job" --fs "host:$work/weir" --clock real --json \
            >"$work/$name.$round.weir.json" 2>"$work/$name.$round.err" ||
            { cat "$work/$name.$round.err" >&2; exit 1; }
    done
done
python3 "$here/compare.py" "$work" "$rounds" "$@"
