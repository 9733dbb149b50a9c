#!/bin/bash
# A journal that has a block behind its size, as e2fsprogs before 2008 made it, is sound: e2fsck takes it, and so does weir.
# Usage: 11-old-journal-one-block-longer.sh WEIR
set -u
name=11-old-journal-one-block-longer
weir=$(realpath "${1:?the path of weir}")
command -v debugfs >/dev/null || PATH=$PATH:/usr/sbin:/sbin
command -v debugfs >/dev/null || { echo "$name: skipped: no e2fsprogs"; exit 0; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
differs=0
differ() { echo "$name: $1"; differs=1; }

truncate -s 12M j.img && chmod 600 j.img
mke2fs -q -F -t ext3 -b 1024 -J size=1 j.img || exit 1
debugfs -w -R "fallocate <8> 1024 1024" j.img >/dev/null 2>&1
e2fsck -fn j.img >/dev/null 2>&1 || differ "e2fsck finds the input damaged"
"$weir" fsck j.img >said 2>&1 || differ "weir fsck: $(tail -1 said)"
cp j.img before
"$weir" fsck --repair j.img >said 2>&1 || differ "weir fsck --repair: $(tail -1 said)"
cmp -s j.img before || differ "a repair changed a sound image"
e2fsck -fn j.img >/dev/null 2>&1 || differ "e2fsck -fn after the repair"
[ $differs = 0 ] && echo "$name: ok"
exit $differs
