#!/usr/bin/env bash
# Copies by cp(1) on a mount of crest share blocks with their source.
#
#   tests/mount/clones.sh WEIR
#
# As root, with /dev/fuse and coreutils 9 or later, whose cp asks for FICLONE and then for copy_file_range(2). Linux cannot ask a
# FUSE file system for FICLONE (`remap_file_range` is missing in fs/fuse/file.c), so `cp --reflink=always` is refused by
# the kernel; this script fails when a kernel begins to pass it on.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$1" crest

used() { df --output=used -B1 "$dir" | tail -1; }

"$weir" mkfs crest "$pool" --size 256MiB --quiet
"$weir" mount crest "$pool" "$dir" --quiet
head -c $((64 << 20 | 1234)) /dev/urandom >"$dir/file"
cp "$dir/file" "$work/file"
before=$(used)
for number in 1 2 3 4 5 6 7 8; do cp "$dir/file" "$dir/copy $number"; done
more=$(($(used) - before))
say "eight copies of 64 MiB took $((more >> 10)) KiB of a pool of 256 MiB"
[ "$more" -lt $((16 << 20)) ] || die "the blocks of copies are not shared"
printf changed | dd of="$dir/file" bs=1 seek=1000000 conv=notrunc status=none
printf changed >>"$dir/copy 2"
truncate -s 100000 "$dir/copy 3"
rm "$dir/copy 4"
! cmp -s "$work/file" "$dir/file" || die "the write is lost"
cmp "$work/file" "$dir/copy 1" || die "a write to the source shows in a copy"
cmp <(cat "$work/file"; printf changed) "$dir/copy 2" || die "an append to a copy is lost"
! cp --reflink=always "$dir/file" "$dir/always" 2>"$work/err" || die "FICLONE was passed on: say so in docs/designs/crest-parts.md"
grep -q 'not supported' "$work/err" || die "$(cat "$work/err")"
"$weir" umount "$dir"
"$weir" fsck "$pool" >/dev/null || die "fsck finds the pool damaged"
"$weir" mount crest "$pool" "$dir" --quiet
rm "$dir/file"
for number in 1 5 6 7 8; do cmp "$work/file" "$dir/copy $number" || die "copy $number has changed"; done
"$weir" umount "$dir"
say "copies share blocks, and none shows in another"
