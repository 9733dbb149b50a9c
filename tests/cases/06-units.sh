#!/bin/sh
# Units as fio 3.33 reads them: k, kb and ki are one unit, kib is the other one; kb_base swaps them.
#   tests/cases/06-units.sh WEIR
set -eu
case=06-units
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
check() { # base, block size, bytes that one I/O must have
    printf '[job]\nrw=write\nsize=64m\nnumber_ios=1\nkb_base=%s\nbs=%s\n' "$1" "$2" >unit.fio
    "$weir" bench unit.fio --fs pmfs --json >out.json 2>err || { echo "$case: bs=$2: $(tail -3 err)"; exit 1; }
    found=$(count write bytes)
    [ "$found" = "$3" ] || { echo "$case: kb_base=$1 bs=$2 is $found bytes in place of $3"; exit 1; }
}
for unit in 4k 4K 4kb 4KB 4ki 4Ki 4KI; do
    check 1024 $unit 4096
    check 1000 $unit 4000
done
for unit in 4kib 4KiB; do
    check 1024 $unit 4000
    check 1000 $unit 4096
done
check 1024 2Mi 2097152
check 1024 2MiB 2000000
check 1000 2mi 2000000
echo "$case: ok"
