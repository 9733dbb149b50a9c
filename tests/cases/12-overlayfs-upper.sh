#!/bin/bash
# overlayfs takes a mount as its upper layer: a removed file of the lower layer is hidden by a whiteout, and stays hidden.
# Usage: 12-overlayfs-upper.sh WEIR
case=12-overlayfs-upper
. "$(dirname "$0")/place.sh"
needs_mount
modprobe overlay 2>/dev/null
grep -q overlay /proc/filesystems || skip "the kernel has no overlayfs"

mkdir low merged && echo a >low/a && echo b >low/b
for design in pmfs hinfs nova rcache redo ext2 ext4; do
    mounts "$design" "$design.pool" m --size 64MiB
    mkdir -p m/up m/wk
    mount -t overlay overlay -o lowerdir=low,upperdir=m/up,workdir=m/wk merged 2>overlay.log ||
        differs "$design: overlayfs refuses it: $(head -n 1 overlay.log)"
    mounted+=(merged)
    # Both leave a whiteout; the second one by RENAME_WHITEOUT.
    rm merged/a && mv merged/b merged/c || differs "$design: the merged tree cannot be changed"
    [ "$(ls merged)" = c ] || differs "$design: the merged tree shows $(ls merged | tr '\n' ' ')"
    [ "$(cat merged/c)" = b ] || differs "$design: the moved file has other contents"
    umount merged
    for name in a b; do
        [ "$(stat -c '%F %t:%T %a' "m/up/$name")" = "character special file 0:0 0" ] || differs "$design: $name is no whiteout"
    done
    leaves m
    "$weir" fsck "$design.pool" >weir.log 2>&1 || differs "$design: weir fsck: $(tail -n 1 weir.log)"
    rm -f "$design.pool"
done
ok
