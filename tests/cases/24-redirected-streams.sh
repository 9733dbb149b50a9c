#!/bin/bash
# What programs write through stdio to a standard stream that leads to a file is in a trace by preload, or is said to be missing: also
# where the program has closed the stream, or the shell has put its own back, before it ends.
#   tests/cases/24-redirected-streams.sh WEIR
case=24-redirected-streams
. "$(dirname "$0")/traces.sh"
for program in "/bin/echo hello" "seq 20000" "ls /" "grep -c root /etc/passwd" "date" "wc /etc/passwd"; do
    name=$(basename "${program%% *}")
    records "$work/$name.wtrace" --how preload -- sh -c "$program >$name.out"
    agrees "$work/$name.wtrace" "$name.out" "$program"
done
records "$work/bash.wtrace" --how preload -- bash -c 'echo hello >by-bash; printf more >>by-bash; true'
agrees "$work/bash.wtrace" by-bash "echo of bash"
"$weir" trace stat "$work/seq.wtrace" | grep -q 'write of seq' || differs "the account does not name the program and its calls"
tail -n 1 "$work/record.log" | grep -q 'write' || differs "the last line does not name what is missing: $(tail -n 1 "$work/record.log")"
ok
