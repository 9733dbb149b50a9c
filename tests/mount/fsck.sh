#!/usr/bin/env bash
# What `weir fsck` takes of memory for a pool with much data.
#
#   tests/mount/fsck.sh WEIR [DESIGN…]
#
# As root, with python3 and /dev/fuse. BYTES (2 GiB) of data, in files of 16 MiB each, are written to a pool through a mount; then
# fsck runs, and its peak of anonymous memory (RssAnon, which the pool's own pages are no part of) is printed. The limit is 64 MiB
# and a byte for each block of the pool.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
[ "$#" -gt 1 ] || designs=(ext4 ext2 pmfs nova)
bytes=${BYTES:-$((2 << 30))}

fill='import os, sys
piece = os.urandom(1 << 20)
for number in range(int(sys.argv[2]) >> 24):
    with open("%s/%04d" % (sys.argv[1], number), "wb") as file:
        for at in range(16): file.write(number.to_bytes(4, "little") + bytes([at]) + piece[5:])'
# Runs a command and prints its exit code and the peak of its anonymous memory, looked at each millisecond.
peak='import subprocess, sys, time
done, peak = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL), 0
while done.poll() is None:
    try:
        lines = open("/proc/%d/status" % done.pid).read().splitlines()
        peak = max([peak] + [int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")])
    except (FileNotFoundError, ProcessLookupError):
        pass
    time.sleep(0.001)
print(done.returncode, peak)'

for design in "${designs[@]}"; do
    rm -f "$pool"
    size=$((bytes + bytes / 4))
    "$weir" mkfs "$design" "$pool" --size "$size" --quiet
    "$weir" mount "$design" "$pool" "$dir" --quiet
    python3 -c "$fill" "$dir" "$bytes"
    "$weir" umount "$dir"
    read -r code used <<<"$(python3 -c "$peak" "$weir" fsck "$pool")"
    limit=$(((64 << 20) + size / 4096))
    say "$design: $((bytes >> 20)) MiB of data, fsck took $((used >> 10)) KiB of memory at most, of $((limit >> 10))"
    [ "$code" = 0 ] || die "$design: fsck ended with $code"
    [ "$used" -le "$limit" ] || die "$design: more than 64 MiB and a byte a block"
done
