#!/bin/bash
# A file of a campaign that lacks cells of its shard is not done, whatever its name says, and its shard can be run; also in a folder
# whose name has characters that shells and schedulers read.
#   tests/cases/33-cut-shard.sh WEIR
case=33-cut-shard
. "$(dirname "$0")/place.sh"
export XDG_DATA_HOME=$work/data
cat >plan.toml <<'P'
[plan]
name = "p"
why = "which"
stop = "1ms"
repeats = 2
[[axis]]
fs = ["pmfs", "nova"]
[[workload]]
name = "filebench/varmail"
vars = { nfiles = 1000 }
P
folder="it's 100 %j"
"$weir" campaign new "$folder" plan.toml --shards 2 --quiet >log 2>&1 || differs "$(tail -n 1 log)"
for shard in 0 1; do "$weir" campaign run "$folder" --index $shard --quiet >log 2>&1 || differs "shard $shard: $(tail -n 1 log)"; done
file=$(ls "$folder"/out/00001.*.jsonl)
cp "$file" whole
for what in "lacks its last line" "is empty" "ends within a line"; do
    case $what in
        "is empty") : >"$file" ;;
        "ends within a line") head -c -40 whole >"$file" ;;
        *) head -n -1 whole >"$file" ;;
    esac
    "$weir" campaign status "$folder" >status 2>&1
    grep -q '^1 of 2 shards done, 0 running, 1 failed' status || differs "a file that $what: status says $(head -n 1 status)"
    "$weir" campaign run "$folder" --missing --quiet >log 2>&1 || differs "a file that $what: run: $(tail -n 1 log)"
    "$weir" campaign merge "$folder" -o r.json --quiet >log 2>&1 || differs "a file that $what: merge: $(grep -m1 'shard\|error' log)"
    rm -f "$folder"/out/00001.*
    cp whole "$file"
done
"$weir" campaign status "$folder" | grep -qF "campaign merge 'it'\\''s 100 %j' -o" || differs "the command for a merge is not one for a shell: $("$weir" campaign status "$folder" | tail -n 1)"
ok
