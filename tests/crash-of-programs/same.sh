#!/usr/bin/env bash
# The same seed gives the same document, whatever the number of jobs. Where --time cuts a run, that is told instead.
case=same
. "$(dirname "$0")/place.sh"
needs python3 gcc
{ echo "edition 1"; head -c 4500 /dev/zero | tr '\0' w; echo; } >document
records $python "$here/save.py"
for jobs in 1 2; do
    check --check "$python $here/save_check.py" --fs posix,ext4,btrfs,crest --states 120 --jobs $jobs
    cp "$work/found.json" "$work/$jobs.json"
done
cmp "$work/1.json" "$work/2.json" || differs "--jobs 1 and 2 give different documents"
check --check 'sleep 0.2' --fs posix --time 1 --no-fix
grep -q '"cut_by_time": true' "$work/found.json" || differs "a cut by time is not told"
ok
