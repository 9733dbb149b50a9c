#!/usr/bin/env bash
# --show puts the tree of each finding into a folder, and the checker, run there by the command that it prints, says what the finding
# says.
case=shown
. "$(dirname "$0")/place.sh"
needs python3
{ echo "edition 1"; head -c 4500 /dev/zero | tr '\0' w; echo; } >document
records $python "$here/save.py"
checker="$python $here/save_check.py"
check --check "$checker" --fs posix,ext4 --no-fix --states 100
count=$($python -c 'import json,sys; print(len(json.load(open(sys.argv[1]))["findings"]))' "$work/found.json")
[ "$count" -ge 2 ] || differs "$count findings"
for number in $(seq "$count"); do
    "$weir" check crash "trace:$work/it.wtrace" --check "$checker" --fs posix,ext4 --states 100 --show "$number" --into "$work/$number" \
        >/dev/null 2>"$work/shown.log" || differs "--show $number: $(tail -n 1 "$work/shown.log")"
    by_hand=$(sed -n 's/^the checker by hand: //p' "$work/shown.log")
    [ -n "$by_hand" ] || differs "--show $number: no command is printed"
    said=$(eval "$by_hand")
    code=$?
    $python -c 'import json,sys; one = json.load(open(sys.argv[1])); assert one["model"] in one["models"] and one["state"]["at_ns"] > 0' \
        "$work/$number.crash" || differs "--show $number: the crash is not told"
    wanted=$($python -c 'import json,sys; print(json.load(open(sys.argv[1]))["findings"][int(sys.argv[2]) - 1]["message"])' \
        "$work/found.json" "$number")
    [ $code = 1 ] && [ "$said" = "$wanted" ] || differs "finding $number: by hand \"$said\" ($code), expected \"$wanted\""
done
ok
