#!/bin/sh
# A rate of writes limits writes alone: reads, nine of ten I/Os of the mix, go on while writes wait.
#   tests/cases/07-rate-of-one-direction.sh WEIR
set -eu
case=07-rate-of-one-direction
weir=$(realpath "${1:?usage: $0 WEIR}")
command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_DATA_HOME="$work/store"
cat >job.fio <<'JOB'
[mix]
rw=randrw
rwmixread=90
bs=4k
size=4m
rate=,1m
time_based
runtime=500ms
norandommap
JOB
"$weir" bench job.fio --fs pmfs --json >out.json 2>err || { echo "$case: $(tail -3 err)"; exit 1; }
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
reads=$(count read count) writes=$(count write count)
# Half a second of 1 MiB/s are 128 writes of 4 KiB; with reads held back to the mix there would be about 1152 of them.
[ "$writes" -ge 127 ] && [ "$writes" -le 129 ] || { echo "$case: $writes writes in place of 128"; exit 1; }
[ "$reads" -gt 20000 ] || { echo "$case: $reads reads: they are held back as the writes are"; exit 1; }
echo "$case: ok"
