#!/usr/bin/env bash
# --show puts the tree of each finding into a folder, and the checker, run there by hand, says what the finding says.
case=shown
. "$(dirname "$0")/place.sh"
needs python3
{ echo "edition 1"; head -c 4500 /dev/zero | tr '\0' w; echo; } >document
records python3 "$here/save.py"
checker="python3 $here/save_check.py"
check --check "$checker" --fs posix,ext4 --no-fix
count=$(python3 -c 'import json,sys; print(len(json.load(open(sys.argv[1]))["findings"]))' "$work/found.json")
[ "$count" -ge 2 ] || differs "$count findings"
for number in $(seq "$count"); do
    "$weir" check crash "trace:$work/it.wtrace" --check "$checker" --fs posix,ext4 --show "$number" --into "$work/$number" \
        >/dev/null 2>"$work/shown.log" || differs "--show $number: $(tail -n 1 "$work/shown.log")"
    # The last words that it tells are what was acknowledged.
    sed '1,/acknowledged before the crash/d' "$work/shown.log" >"$work/acked"
    said=$(cd "$work/$number" && WEIR_ACKED=$work/acked $checker)
    code=$?
    wanted=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["findings"][int(sys.argv[2]) - 1]["message"])' \
        "$work/found.json" "$number")
    [ $code = 1 ] && [ "$said" = "$wanted" ] || differs "finding $number: by hand \"$said\" ($code), expected \"$wanted\""
done
ok
