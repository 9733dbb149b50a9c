#!/usr/bin/env bash
# Blocks that the medium cannot use (inode 1) are in use: a check says so, a repair keeps them, no file gets one.
case=02-bad-blocks
. "$(dirname "$0")/place.sh"
needs mke2fs debugfs e2fsck

printf '3000\n3001\n3002\n' >list
# Inode 1 lists them, the bitmap has them in use, and no other inode has one.
kept() {
    [ "$(debugfs -R "blocks <1>" "$1" 2>/dev/null | xargs)" = "3000 3001 3002" ] || differs "$2: the list is lost"
    for block in 3000 3001 3002; do
        debugfs -R "testb $block" "$1" 2>/dev/null | grep -q "marked in use" || differs "$2: block $block is free"
        debugfs -R "icheck $block" "$1" 2>/dev/null | grep -q "not found" || differs "$2: a file has block $block"
    done
}

image sound.img 16M -t ext4 -b 1024 -l list
clean sound.img "a new image"
debug sound.img "ssv free_blocks_count 7"
"$weir" fsck --repair sound.img >repaired 2>&1
kept sound.img "a repair"
clean sound.img "after a repair"

[ "$(id -u)" = 0 ] && [ -w /dev/fuse ] || ok
image unclean.img 8M -t ext2 -b 1024 -l list
debug unclean.img "ssv state 0"
mounts ext2 unclean.img dir
dd if=/dev/zero of=dir/filler bs=64k status=none 2>/dev/null
leaves dir
kept unclean.img "a full file system"
clean unclean.img "after a mount"
ok
