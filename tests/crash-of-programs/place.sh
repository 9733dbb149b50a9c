# For the scripts beside it, which read it after setting `case` to their name: the command, a scratch folder, and words.
#
#   tests/crash-of-programs/NAME.sh WEIR [MODEL …]
#
# Each records a small program with its contents, and compares what a power loss breaks on each model with what it must be: A, a
# state that the program never had; D, something that it has told is gone. It prints one line: `NAME: ok`, what differs (exit
# code 1), or `NAME: skipped: REASON`. With SCORES=FILE each cell is added to that file, also those of the null models.
set -u
weir=$(realpath "${1:?usage: $case.sh WEIR [MODEL …]}")
shift
asked=("$@")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
# Without the packages of a site it starts in a tenth of the time, and a search starts it hundreds of times.
python="$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3) -IS"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
cd "$work/tree" || exit 1

ok() { echo "$case: ok"; exit 0; }
differs() { echo "$case: $*"; exit 1; }
skip() { echo "$case: skipped: $*"; exit 0; }
needs() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || skip "$tool is not installed"
    done
    strace -o /dev/null true 2>/dev/null || skip "strace cannot trace here"
}

# anew: an empty tree, and no trace.
anew() {
    rm -rf "$work/tree" "$work"/it.wtrace*
    mkdir "$work/tree"
    cd "$work/tree" || exit 1
}

# records PROGRAM ARGUMENT …
records() {
    "$weir" record --quiet --contents -o "$work/it.wtrace" -- "$@" >"$work/told" 2>"$work/record.log" ||
        differs "recording: $(tail -n 1 "$work/record.log")"
}

# check ARGUMENT …: the check of what was recorded, its document in found.json, its exit code in $code.
check() {
    "$weir" --json check crash "trace:$work/it.wtrace" "$@" >"$work/found.json" 2>"$work/found.log"
    code=$?
}

# breaks CHECKER MODEL=LETTERS …: what each model breaks; `–` is nothing. With models named on the command line, only those.
breaks() {
    local checker=$1 pair model wrong systems=()
    shift
    for pair in "$@"; do
        model=${pair%=*}
        if [ ${#asked[@]} -gt 0 ] && [[ ! " ${asked[*]} " == *" $model "* ]]; then continue; fi
        systems+=(--fs "$model")
    done
    [ ${#asked[@]} -gt 0 ] || systems+=(--fs null-random,null-unsynced)
    check --check "$checker" --states "${STATES:-400}" --no-fix "${systems[@]}"
    wrong=$($python "$here/cells.py" "$case" "$work/found.json" "$@") || differs "$wrong"
}

# helps CHECKER MODELS FIX …: the fixes that are printed, one after the other, and no other finding. With models named on the command
# line, only on those.
helps() {
    local checker=$1 models=$2 model
    shift 2
    if [ ${#asked[@]} -gt 0 ]; then
        model=$(comm -12 <(tr , '\n' <<<"$models" | sort) <(printf '%s\n' "${asked[@]}" | sort) | paste -sd,)
        [ -n "$model" ] || return 0
        models=$model
    fi
    check --check "$checker" --states "${STATES:-400}" --fs "$models"
    local found
    found=$($python -c 'import json,sys
for one in json.load(open(sys.argv[1]))["findings"]:
    print(one["fix"]["what"] if one["fix"] else "none")' "$work/found.json" 2>&1)
    [ "$found" = "$(printf '%s\n' "$@")" ] || differs "fixes on $models: $(echo "$found" | tr '\n' ';') expected: $*"
}
