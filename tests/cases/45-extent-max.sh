#!/usr/bin/env bash
# The root of a tree of extents says that it has room for none (eh_max 0), or a mode is no longer that of a directory: a check
# finds either, and a repair loses nothing.
case=45-extent-max
. "$(dirname "$0")/place.sh"
needs mke2fs debugfs e2fsck

image made.img 8M -t ext4 -b 1024 -O ^metadata_csum
head -c 5000 /dev/urandom >t
debug made.img "mkdir dir" "mkdir dir/sub" "write t dir/sub/file"
for path in dir/sub/file dir/sub dir /; do
    for change in "block[1] 0" "mode 0"; do
        [ "$path, $change" != "dir/sub/file, mode 0" ] || continue
        cp made.img changed.img
        # The word of eh_max and eh_depth is the second one of the map.
        debug changed.img "set_inode_field $path $change"
        "$weir" fsck changed.img >found 2>&1
        [ $? = 5 ] || differs "$path, $change: a check says: $(tail -n 1 found)"
        "$weir" fsck --repair changed.img >repaired 2>&1
        [ $? = 1 ] || differs "$path, $change: repair: $(tail -n 1 repaired)"
        cmp -s t <(debugfs -R "cat dir/sub/file" changed.img 2>/dev/null) ||
            differs "$path, $change: the file is lost: $(cat repaired)"
        clean changed.img "$path, $change"
    done
done
ok
