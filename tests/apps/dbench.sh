#!/usr/bin/env bash
# The interpreter of dbench's load files beside the program: one pass of LINES lines (20,000) on a tmpfs, both under strace. Every
# call of a file must be the same, in its order, with its path, size, offset and result. On designs the counts of calls must be the
# program's.
#
#   tests/apps/dbench.sh WEIR
#
# DIR (/dev/shm) is the tmpfs, DESIGNS (nova,ext4,pmfs) says where the counts are compared. It takes strace, and dbench with its
# load file (LOAD, /usr/share/dbench/client.txt).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
load=${LOAD:-/usr/share/dbench/client.txt}
for need in strace dbench python3; do
    command -v $need >/dev/null || { echo "skipped: $need is not installed" >&2; exit 0; }
done
[ -r "$load" ] || { echo "skipped: there is no load file $load" >&2; exit 0; }
work=$(mktemp -d -p "${DIR:-/dev/shm}")
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
mkdir "$work/real" "$work/ours"
head -n "${LINES_OF_LOAD:-20000}" "$load" >"$work/client.txt"

# The program reads the file again until its time is over: the first pass ends where it goes back to the beginning.
seconds=4
until grep -q 'lseek(4, 0, SEEK_SET)' "$work/real.strace" 2>/dev/null; do
    [ $seconds -lt 200 ] || { echo "FAILED: the program does not come to the end of the file" >&2; exit 1; }
    rm -rf "$work/real/clients"
    (cd "$work/real" && strace -f -s 0 -o "$work/real.strace" dbench --loadfile="$work/client.txt" -t $seconds 1 >/dev/null)
    seconds=$((seconds * 3))
done
strace -f -s 0 -o "$work/ours.strace" "$weir" bench app/dbench -D load="$work/client.txt" -D passes=1 --fs "host:$work/ours" \
    --clock real --runtime end --warm-up none --quiet --json >"$work/ours.json"
"$weir" bench app/dbench -D load="$work/client.txt" -D passes=1 --fs "${DESIGNS:-nova,ext4,pmfs}" --medium dram \
    --runtime end --warm-up none --quiet --json >"$work/designs.json"
python3 "$here/dbench.py" "$work"
