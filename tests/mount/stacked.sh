#!/usr/bin/env bash
# Two mounts on one directory: `weir umount` takes away the upper one, and leaves the lower one as it was.
#
#   tests/mount/stacked.sh WEIR [DESIGN…]
#
# As root.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"

mounts() { grep -c " $dir fuse.weir" /proc/self/mounts || true; }

for design in "${designs[@]}"; do
    rm -f "$pool" "$pool.upper"
    "$weir" mount "$design" "$pool" "$dir" --size 64MiB --quiet
    echo lower >"$dir/file"
    "$weir" mount "$design" "$pool.upper" "$dir" --size 64MiB --quiet -o nonempty
    echo upper >"$dir/file"
    [ "$(mounts)" = 2 ] || die "$design: there are $(mounts) mounts, not 2"
    "$weir" umount "$dir"
    [ "$(mounts)" = 1 ] || die "$design: $(mounts) mounts are left, not 1"
    [ "$(cat "$dir/file")" = lower ] || die "$design: the lower mount shows the wrong file"
    "$weir" umount "$dir"
    [ "$(mounts)" = 0 ] || die "$design: a mount is left"
    "$weir" fsck --quiet "$pool" >/dev/null && "$weir" fsck --quiet "$pool.upper" >/dev/null || die "$design: fsck"
    say "$design: one umount takes one mount"
    record mount/stacked --subject "$design" --unit mounts --count 2
done
