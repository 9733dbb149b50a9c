# For the scripts beside it, which read it after setting `case` to their name: the command, a scratch folder, and words.
#
#   tests/crash-of-programs/NN-NAME.sh WEIR [MODEL …]
#
# Each records a small program with its contents, and compares what a power loss breaks on each model with what it must be: A, a
# state that the program never had; D, something that it has told is gone. It prints one line: `NN-NAME: ok`, what differs (exit
# code 1), or `NN-NAME: skipped: REASON`.
set -u
weir=$(realpath "${1:?usage: $case.sh WEIR [MODEL …]}")
shift
asked=("$@")
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

# records PROGRAM ARGUMENT …
records() {
    "$weir" record --quiet --contents -o "$work/it.wtrace" -- "$@" >"$work/told" 2>"$work/record.log" ||
        differs "recording: $(tail -n 1 "$work/record.log")"
}

# breaks CHECKER MODEL=LETTERS …: what each model breaks; `–` is nothing. With models named on the command line, only those.
breaks() {
    local checker=$1 pair model expected found wrong=""
    shift
    for pair in "$@"; do
        model=${pair%=*} expected=${pair##*=}
        if [ ${#asked[@]} -gt 0 ] && [[ ! " ${asked[*]} " == *" $model "* ]]; then continue; fi
        "$weir" --json check crash "trace:$work/it.wtrace" --check "$checker" --fs "$model" --states 400 --no-fix \
            >"$work/found.json" 2>"$work/found.log"
        found=$(python3 - "$work/found.json" <<'EOF'
import json, sys
found = json.load(open(sys.argv[1]))
print(found["models"][0]["broken"] or "–" if "models" in found else found["error"]["message"])
EOF
        )
        [ "$found" = "$expected" ] || wrong="$wrong $model: $found, expected $expected;"
    done
    [ -z "$wrong" ] || differs "$wrong"
}
