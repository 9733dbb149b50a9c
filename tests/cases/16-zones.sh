#!/bin/sh
# A zone without a size takes what the others leave.
#   tests/cases/16-zones.sh WEIR
set -eu
case=16-zones
weir=$(realpath "${1:?usage: $0 WEIR}")
command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_DATA_HOME="$work/store"
count() { # direction, key
    python3 -c '
import json, sys
def jobs(value):
    if isinstance(value, dict):
        yield from value.get("jobs", []) if "axes" in value else ()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from jobs(inner)
found = [job[sys.argv[2]] for job in jobs(json.load(open("out.json"))) if job["direction"] == sys.argv[1]]
print(found[0] if found else 0)' "$1" "$2"
}
for zones in zoned:50/10:30/20:20/ zoned:50/10:30:20 zoned:70/10:30/20 zoned_abs:50/64k:50/; do
    printf '[job]\nrw=randread\nbs=4k\nsize=512k\nrandom_distribution=%s\n' "$zones" >zones.fio
    "$weir" bench zones.fio --fs pmfs --json >out.json 2>err || { echo "$case: $zones: $(tail -3 err)"; exit 1; }
    found=$(count read count)
    [ "$found" = 128 ] || { echo "$case: $zones: $found I/Os in place of 128"; exit 1; }
done
printf '[job]\nrw=randread\nbs=4k\nsize=512k\nrandom_distribution=zoned:50/10:40/20\n' >zones.fio
if "$weir" bench zones.fio --fs pmfs >out 2>err; then echo "$case: accesses of 90 % are taken"; exit 1; fi
grep -q "sum to 90" err || { echo "$case: no reason: $(cat err)"; exit 1; }
echo "$case: ok"
