#!/bin/sh
# A size in percent is one of the whole file, also behind an offset: two jobs of 40 % of 256 blocks do 102 I/Os each.
#   tests/cases/04-percent-of-size.sh WEIR
set -eu
case=04-percent-of-size
weir=$(realpath "${1:?usage: $0 WEIR}")
command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >halves.fio <<'JOB'
[global]
filename=shared
filesize=1m
bs=4k
rw=write
[first]
size=40%
[second]
offset=40%
size=40%
JOB
export XDG_DATA_HOME="$work/store"
"$weir" bench halves.fio --fs pmfs --json >out.json 2>err || { echo "$case: $(tail -3 err)"; exit 1; }
found=$(python3 - <<'PY'
import json
def samples(value):
    if isinstance(value, dict):
        if "jobs" in value and "axes" in value:
            yield value
        value = value.values()
    elif not isinstance(value, list):
        return
    for inner in value:
        yield from samples(inner)
(sample,) = samples(json.load(open("out.json")))
print(" ".join(f"{job['name']}:{job['count']}" for job in sample["jobs"] if job["direction"] == "write" and " " not in job["name"]))
PY
)
[ "$found" = "first:102 second:102" ] || { echo "$case: \"$found\" in place of first:102 second:102"; exit 1; }
echo "$case: ok"
