#!/usr/bin/env bash
# A program that stores through a mapping: the file is looked at while an msync has stopped it, so that a right program stays clean, a
# wrong one is found, and in any case the verdict says that the file is mapped. No process stays stopped.
case=mapped
. "$(dirname "$0")/place.sh"
needs gcc python3
gcc -O1 -o "$work/log" "$here/mapped.c" || differs "gcc"
for how in right early once; do
    # On a busy host a look may come too late, which is told; then there is nothing to compare.
    for turn in 1 2 3 4 5; do
        anew
        head -c 16384 /dev/zero >log
        sync
        timeout 60 "$weir" record --quiet --contents -o "$work/it.wtrace" -- "$work/log" $how >"$work/told" 2>"$work/record.log" ||
            differs "recording $how: exit code $?: $(tail -n 1 "$work/record.log")"
        check --check "$python $here/mapped_check.py" --no-fix --states 300 --fs posix,ext4,xfs,btrfs,f2fs,nova
        grep -q 'no look is of that moment' "$work/found.json" || break
    done
    row=$($python "$here/row.py" "$work/found.json" | head -n 1)
    echo "  $how: $row"
    cells=$(tr ' ' '\n' <<<"$row" | sed 's/([0-9]*)//; s/.*=//' | sort -u | paste -sd,)
    case $how in right) expected=– ;; early) expected=D ;; once) expected=A ;; esac
    [ "$cells" = $expected ] || differs "$how: $cells, expected $expected"
    grep -q 'log is mapped' "$work/found.json" || differs "$how: nothing says that log is mapped"
done
said=$("$weir" check crash "trace:$work/it.wtrace" --check true --fs ext4 --no-fix 2>&1)
grep -q 'Nothing was found in what was explored; not judged: log is mapped' <<<"$said" || differs "the verdict: $said"
ok
