#!/usr/bin/env bash
# What a large directory costs: making its files, listing it, ls -l and removing it, beside tmpfs.
#
#   tests/mount/directory.sh WEIR [DESIGN…]
#
# As root, with python3. FILES (500000) empty files. Each listing comes after a new mount (of tmpfs: after its dentries were
# dropped), and again when the kernel knows the files. Prints seconds of wall time, and of the server's CPU in brackets.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
files=${FILES:-500000}

make='import os, sys
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])
for n in range(int(sys.argv[2])): os.close(os.open("file-%07d" % n, os.O_CREAT | os.O_WRONLY))'

ticks() { if [ -n "$server" ]; then awk '{ print $14 + $15 }' "/proc/$server/stat"; else echo 0; fi; }

# timed NAME COMMAND…
timed() {
    local name=$1 began cpu
    shift
    began=$(date +%s.%N) cpu=$(ticks)
    "$@" >/dev/null
    row+=$(awk -v b="$began" -v e="$(date +%s.%N)" -v c="$cpu" -v d="$(ticks)" -v n="$name" \
        'BEGIN { printf "  %s %.1f (%.1f)", n, e - b, (d - c) / 100 }')
}

mount_it() {
    "$weir" mount "$1" "$pool" "$dir" --size "${SIZE:-1GiB}" --quiet
    server=$(pgrep -n -f "mount $1 $pool")
}
umount_it() {
    server=
    "$weir" umount "$dir"
}
again() { # a new mount, or what comes next to it
    case $1 in
    tmpfs) echo 2 >/proc/sys/vm/drop_caches ;;
    *) umount_it && mount_it "$1" ;;
    esac
}

all() {
    row="$1:"
    timed create python3 -c "$make" "$dir/many" "$files"
    again "$1"
    timed readdir ls -f "$dir/many"
    timed "readdir again" ls -f "$dir/many"
    again "$1"
    timed "ls -l" ls -l "$dir/many"
    timed "ls -l again" ls -l "$dir/many"
    timed delete rm -rf "$dir/many"
    say "$row"
}

mount -t tmpfs none "$dir"
all tmpfs
umount "$dir"
for design in "${designs[@]}"; do
    rm -f "$pool"
    mount_it "$design"
    all "$design"
    umount_it
done
