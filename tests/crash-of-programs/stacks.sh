#!/usr/bin/env bash
# weir record --stack: a finding says where in the program both of its calls are. Without, it says that this was not recorded.
case=stacks
. "$(dirname "$0")/place.sh"
needs python3 gcc
strace -V | grep -q stack-trace= || skip "this strace shows no stacks"
gcc -g -O0 -o "$work/log" "$here/log.c" || differs "gcc"
: >journal
said() { "$weir" check crash "trace:$work/it.wtrace" --check "$python $here/log_check.py" --fs ext4 --no-fix --states 60 2>&1; }
records "$work/log" old
said | grep -q 'weir record --contents --stack' || differs "without stacks nothing says how to have them"
anew
: >journal
"$weir" record --quiet --contents --stack -o "$work/it.wtrace" -- "$work/log" old >/dev/null || differs "recording"
answer=$(said)
write=$(grep -n 'if (write(journal' "$here/log.c" | cut -d: -f1) answers=$(grep -n 'dprintf' "$here/log.c" | cut -d: -f1)
command -v addr2line >/dev/null && place="(log.c:$write)" told="(log.c:$answers)" || place="main+0x" told="main+0x"
grep -qF "at main $place" <<<"$answer" || [ "$place" = main+0x ] || differs "the write has no place: $answer"
grep -qF "$told" <<<"$answer" || differs "the answer has no place: $answer"
ok
