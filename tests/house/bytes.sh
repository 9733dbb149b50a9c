#!/usr/bin/env bash
# Two commands of Weir give the same results, to the byte, but for the fields that are named below: what ran it, and how long it took.
# usage: tests/house/bytes.sh BEFORE AFTER [NAME…]   (commands of a commit before a change of structure, and after it; names: below)
set -euo pipefail
before=$(realpath "$1") after=$(realpath "$2")
names=" ${*:3} "
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# What differs between two runs of one command, or two builds of one model: never what was measured.
strip() {
    python3 - "$1" <<'P'
import json, sys
RUN = {"command", "environment", "host_seconds", "wall_ns", "host", "presets", "texts", "spec", "origin"}
def without(value):
    if isinstance(value, dict):
        return {key: without(one) for key, one in value.items() if key not in RUN}
    return [without(one) for one in value] if isinstance(value, list) else value
text = open(sys.argv[1]).read()
print(json.dumps(without(json.loads(text)), sort_keys=True, indent=1) if text.lstrip().startswith("{") else text)
P
}

failed=0
compare() {
    local name=$1
    shift
    [ "$names" = "  " ] || [[ $names == *" $name "* ]] || return 0
    for side in before after; do
        local code=0
        "${!side}" "$@" >"$name.$side" 2>"$name.$side.err" || code=$?
        # 0: done; 1: a claim or limit is missed, which is a result as well.
        [ "$code" -le 1 ] || { echo "$name: the command $side ended with $code"; tail -3 "$name.$side.err"; failed=1; return; }
        strip "$name.$side" >"$name.$side.json"
    done
    if cmp -s "$name.before.json" "$name.after.json"; then
        echo "$name: equal, $(wc -c <"$name.after.json") bytes"
    else
        echo "$name: $({ diff "$name.before.json" "$name.after.json" || true; } | grep -c '^[<>]') lines differ"
        diff "$name.before.json" "$name.after.json" | head -20 || true
        failed=1
    fi
}

compare fragmentation reproduce fragmentation --quick --json
compare fxmark-designs reproduce fxmark-designs/12 --quick --json
compare hinfs reproduce hinfs/7 --quick --designs pmfs,hinfs --json
compare logging sim logging --fs pmfs,hinfs,nova,rcache
[ "$failed" = 0 ] && echo "ok: the commands give the same"
exit "$failed"
