#!/usr/bin/env bash
# Programs that do their I/O in ways that a recorder may miss (unseen/*.c): each trace is equal to what has happened, or says what it
# lacks. None may be silent.
#
#   tests/traces/unseen.sh WEIR [PROGRAM…]         default: all; SHORT=1: a few, which need less than 20 s of processor time
#
# Each program tells how many bytes it has read from and written to files. A trace is equal if its tree is the folder's, and its calls
# move as many bytes. It says what it lacks by lost calls (`dropped`), or by bytes that have moved without one (`L bytes`).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
shift
for tool in cc python3; do
    command -v $tool >/dev/null || { echo "unseen: skipped: $tool is not installed"; exit 0; }
done
hows="strace preload"
strace -o /dev/null true 2>/dev/null || { echo "unseen: strace is missing, or may not trace here: by preload only"; hows=preload; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ $# -gt 0 ]; then names=("$@")
elif [ -n "${SHORT:-}" ]; then names=(aio uring passed daemon stdio procfd)
else mapfile -t names < <(cd "$here/unseen" && printf '%s\n' *.c | sed 's/\.c$//')
fi

# The files of a folder, and those of a trace, as lines of size and name.
found() { (cd "$1" && find . -type f -printf '%s %P\n' | LC_ALL=C sort); }
told() { "$weir" trace tree "$1" --allow-drops 2>/dev/null | sed -n 's/^f //p' | LC_ALL=C sort; }
# Bytes that the calls of a trace have read and written.
moved() { "$weir" trace stat "$1" --json | python3 -c "$sums"; }
sums='import json, sys
calls = json.load(sys.stdin)["calls"]
bytes_of = lambda names: sum(calls.get(name, {}).get("bytes", 0) for name in names.split())
print("read", bytes_of("read pread sendfile copy"), "written", bytes_of("write pwrite receivefile copy"))'

silent=0 equal=0 says=0 absent=0
for name in "${names[@]}"; do
    flags=()
    [ "$name" != static ] || flags=(-static)
    cc -w -O1 -pthread "${flags[@]}" -o "$work/$name" "$here/unseen/$name.c" 2>"$work/cc.log" ||
        { printf '%-12s skipped: %s\n' "$name" "$(tail -n 1 "$work/cc.log")"; continue; }
    for how in $hows; do
        rm -rf "$work/d" && mkdir "$work/d" && rm -f "$work/t.wtrace"
        printf 'old\n' >"$work/d/log"
        (cd "$work/d" && timeout 120 "$weir" record --how "$how" -o "$work/t.wtrace" -- "$work/$name" 3>"$work/said" 4>>log) >"$work/out" 2>"$work/log" || true
        claim=$(tail -n 1 "$work/said" 2>/dev/null)
        if [ "${claim#absent}" != "$claim" ]; then
            absent=$((absent + 1))
            printf '%-12s %-8s absent: %s\n' "$name" "$how" "${claim#absent }"
            continue
        fi
        if [ ! -s "$work/t.wtrace" ]; then
            says=$((says + 1))
            printf '%-12s %-8s refused: %s\n' "$name" "$how" "$(tail -n 1 "$work/log")"
            continue
        fi
        lacks=$("$weir" trace show "$work/t.wtrace" | sed -n 's/^L \([a-z]*\) \([0-9]*\) "\([^"]*\)".*/\2 \3 (\1)/p' | tr '\n' ';')
        # Of files that the trace does not name it says nothing: only this one was there before.
        found "$work/d" | grep -v '^4 log$' >"$work/found" || true
        told "$work/t.wtrace" | grep -v '^4 log$' >"$work/told" || true
        if [ -n "$lacks" ]; then
            says=$((says + 1))
            printf '%-12s %-8s says: %s\n' "$name" "$how" "$lacks"
        elif cmp -s "$work/found" "$work/told" && [ "$(moved "$work/t.wtrace")" = "$claim" ]; then
            equal=$((equal + 1))
            printf '%-12s %-8s equal: %s\n' "$name" "$how" "$claim"
        else
            silent=$((silent + 1))
            printf '%-12s %-8s SILENT: %s, in the trace %s; files %s, in the trace %s\n' "$name" "$how" "$claim" \
                "$(moved "$work/t.wtrace")" "$(tr '\n' ',' <"$work/found")" "$(tr '\n' ',' <"$work/told")"
        fi
    done
done
echo "unseen: $equal equal, $says say what they lack, $absent absent here, $silent silent"
[ $silent = 0 ]
