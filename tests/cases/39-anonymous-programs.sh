#!/bin/bash
# An anonymous trace has no name of a program, also not in the texts of what was counted or lost, and its results are those of its new
# names: it replays as the trace does.
#   tests/cases/39-anonymous-programs.sh WEIR
case=39-anonymous-programs
. "$(dirname "$0")/traces.sh"
needs_strace
cp "$(command -v sort)" merger-with-acme
printf 'b\na\n' >d/in
records "$work/t.wtrace" --how preload -- sh -c '../merger-with-acme in >sorted-for-acme'
"$weir" trace anonymize t.wtrace -o a.wtrace >log 2>&1 || differs "$(tail -n 1 log)"
left=$("$weir" trace show a.wtrace | grep -i acme)
[ -z "$left" ] || differs "it has the name: $left"
[ "$(missing a.wtrace)" = "$(missing t.wtrace)" ] || differs "it lacks $(missing a.wtrace) calls, the trace $(missing t.wtrace)"
rm -rf d && mkdir -p d/folder && ln -s a-rather-long-name-of-a-file d/link && touch d/folder/one d/folder/a-second-one
records "$work/n.wtrace" -- sh -c 'readlink link; ls folder; ln -s another-name new; readlink new'
"$weir" trace anonymize n.wtrace -o b.wtrace >log 2>&1 || differs "$(tail -n 1 log)"
for trace in n b; do
    "$weir" bench trace:$trace.wtrace --fs nova --medium dram --check --quiet >bench.log 2>&1 || differs "$trace: $(grep -m1 differ bench.log)"
done
ok
