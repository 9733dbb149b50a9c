#!/usr/bin/env bash
# What a server keeps in memory of each file of a large directory, while the kernel knows them all.
#
#   tests/mount/memory.sh WEIR [DESIGN…]
#
# As root, with python3; without a design, of all but redo, which keeps everything in memory. FILES (1000000) empty files are made
# in one directory; the private memory of the server (RssAnon, which the pool's own pages are no part of) may grow by BYTES (300)
# for each. Then `ls -l` of all, and the same limit again; then all are removed, and printed is what stays.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
[ "$#" -gt 1 ] || designs=(pmfs hinfs nova rcache ext4-dax ext4 ext2)
files=${FILES:-1000000}
limit=${BYTES:-300}

make='import os, sys
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])
for n in range(int(sys.argv[2])): os.close(os.open("file-%07d" % n, os.O_CREAT | os.O_WRONLY))'
list='import os, sys
assert sum(1 for entry in os.scandir(sys.argv[1]) if entry.stat(follow_symlinks=False).st_size == 0) == int(sys.argv[2])'
remove='import os, sys
os.chdir(sys.argv[1])
for n in range(int(sys.argv[2])): os.unlink("file-%07d" % n)'

anonymous() { awk '/^RssAnon/ { print $2 * 1024 }' "/proc/$server/status"; }
# Inodes and names of a million files take 700 MiB at most; ext2 and ext4 have an inode for each 16 KiB.
size_of() { case $1 in ext*) echo "$((files / 60000 + 2))GiB" ;; *) echo 1536MiB ;; esac; }
# What has been added for each file since the mount.
each() { echo $((($(anonymous) - before) / files)); }

for design in "${designs[@]}"; do
    rm -f "$pool"
    # By another process: what it used is no memory of the server.
    "$weir" mkfs "$design" "$pool" --size "${SIZE:-$(size_of "$design")}" --quiet
    "$weir" mount "$design" "$pool" "$dir" --quiet
    server=$(pgrep -n -f "mount $design $pool")
    before=$(anonymous)
    python3 -c "$make" "$dir/many" "$files"
    made=$(each)
    python3 -c "$list" "$dir/many" "$files"
    listed=$(each)
    python3 -c "$remove" "$dir/many" "$files"
    say "$design: $made bytes a file, $listed after ls -l, $(each) when all have gone ($((before >> 20)) MiB before)"
    [ "$made" -le "$limit" ] && [ "$listed" -le "$limit" ] || die "$design: more than $limit bytes a file"
    server=
    "$weir" umount "$dir"
    record mount/memory --subject "$design" --unit files --count "$files"
done
