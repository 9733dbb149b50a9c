#!/usr/bin/env bash
# HiNFS's buffer benefit model on a trace of MobiGen's format: how many of its predictions are right must be what benefit.py, which
# shares no code with Weir, computes from the trace's text, within 1 %; for both rules of new blocks.
#
#   tests/apps/benefit.sh WEIR
#
# The trace is generated. With FACEBOOK=FILE, a copy of your own of MobiBench's trace (shell/mobigen.out.facebook there), the same
# is done with that, and 2,305 of 2,373 predictions must be right, within 1 %; the trace is not a part of Weir, and this is
# skipped without it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
command -v python3 >/dev/null || { echo "skipped: python3 is not installed" >&2; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data

compare() { # NAME TRACE [RIGHT ALL]
    "$weir" trace import mobigen "$2" -o "$work/$1.wtrace" --quiet
    for rule in inherit lazy; do
        "$weir" bench "trace:$work/$1.wtrace" -D pace=asap -D order=total --fs hinfs --medium hinfs \
            --option hinfs.new_blocks=$rule --quiet --json >"$work/$rule.json"
        python3 "$here/benefit.py" compare "$1" "$2" $rule "$work/$rule.json" "${@:3}"
    done
}

python3 "$here/benefit.py" generate >"$work/sample"
compare sample "$work/sample"
if [ -n "${FACEBOOK:-}" ]; then
    compare facebook "$FACEBOOK" 2305 2373
else
    echo "skipped: 2,305 of 2,373 on the Facebook trace of MobiBench: name a copy of yours with FACEBOOK=FILE" >&2
fi
