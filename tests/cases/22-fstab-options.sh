#!/bin/bash
# Options of ext4(5) in fstab: those that mean something act, those that do not are accepted, others are refused with the reason.
# Usage: 22-fstab-options.sh WEIR
set -u
name=22-fstab-options
weir=$(realpath "${1:?the path of weir}")
command -v mke2fs >/dev/null || PATH=$PATH:/usr/sbin:/sbin
command -v mke2fs >/dev/null || { echo "$name: skipped: no e2fsprogs"; exit 0; }
[ -w /dev/fuse ] || { echo "$name: skipped: no /dev/fuse"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "$name: skipped: not root"; exit 0; }
scratch=$(mktemp -d) || exit 1
trap '"$weir" umount "$scratch/d" >/dev/null 2>&1; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
differs=0
differ() { echo "$name: $1"; differs=1; }

truncate -s 64M o.img && chmod 600 o.img && mkdir d
mke2fs -q -F -t ext4 o.img || exit 1
for option in errors=remount-ro user_xattr commit=5 commit=5s discard nodelalloc delalloc barrier=1 barrier=0 nobarrier \
    noauto_da_alloc journal_checksum data=ordered data=journal stripe=16 init_itable=0 minixdf acl noquota \
    noatime,nodev,errors=remount-ro,commit=30,data=writeback; do
    "$weir" mount ext4 o.img d -o "$option" >said 2>&1 || { differ "-o $option: $(tail -1 said)"; continue; }
    "$weir" umount d >said 2>&1 || differ "-o $option: unmount: $(tail -1 said)"
done
for option in sb=8193 usrquota errors=panic resuid=100 noload offset=1048577; do
    if "$weir" mount ext4 o.img d -o "$option" >said 2>&1; then
        differ "-o $option is not refused"
        "$weir" umount d >/dev/null 2>&1
    fi
    grep -q "$option\|${option%%=*}\|offset" said || differ "-o $option: the reason does not name it: $(cat said)"
done
# noload: the image without what its journal has.
cp o.img l.img
head -c 4096 /dev/zero | tr '\0' o >old
head -c 4096 /dev/zero | tr '\0' N >new
debugfs -w -R "write old f" l.img >/dev/null 2>&1
block=$(debugfs -R "blocks f" l.img 2>/dev/null | xargs | tr ' ' ,)
printf 'jo\njw -b %s new\njc\n' "$block" | debugfs -w l.img >/dev/null 2>&1
cp l.img before
for pair in ro:N ro,noload:o; do
    "$weir" mount ext4 l.img d -o "${pair%:*}" >said 2>&1 || differ "-o ${pair%:*}: $(tail -1 said)"
    [ "$(head -c 1 d/f)" = "${pair#*:}" ] || differ "-o ${pair%:*} shows $(head -c 1 d/f)"
    "$weir" umount d >/dev/null 2>&1
done
cmp -s l.img before || differ "-o ro changed the image"
# offset: a partition of the image of a disk.
truncate -s 1M disk.img && chmod 600 disk.img && cat o.img >>disk.img
"$weir" mount ext4 disk.img d -o offset=1048576 >said 2>&1 || differ "-o offset: $(tail -1 said)"
echo there >d/file
"$weir" umount d >said 2>&1 || differ "-o offset: unmount: $(tail -1 said)"
tail -c +1048577 disk.img >part.img
e2fsck -fn part.img >/dev/null 2>&1 || differ "-o offset leaves a partition that e2fsck calls damaged"
[ "$(debugfs -R "cat file" part.img 2>/dev/null)" = there ] || differ "-o offset: the file is not in the partition"
cmp -s -n 1048576 disk.img /dev/zero || differ "-o offset wrote before the partition"
# The same by the number of a partition, with every command that reads an image; the table is that of an MBR.
printf '\0\0\0\0\x83\0\0\0\0\x08\0\0\0\0\x02\0' | dd of=disk.img bs=1 seek=446 conv=notrunc status=none
printf '\x55\xaa' | dd of=disk.img bs=1 seek=510 conv=notrunc status=none
"$weir" mount auto disk.img d -o partition=1 >said 2>&1 || differ "-o partition: $(tail -1 said)"
[ "$(cat d/file)" = there ] || differ "-o partition shows another file system"
"$weir" umount d >said 2>&1 || differ "-o partition: unmount: $(tail -1 said)"
for place in "--partition 1" "--offset 1MiB"; do
    for command in fsck "fsck --repair" df; do
        "$weir" $command $place disk.img >said 2>&1 || differ "$command $place: $(tail -1 said)"
    done
    "$weir" dump $place disk.img superblock >said 2>&1 || differ "dump $place: $(tail -1 said)"
done
"$weir" explain fragmentation disk.img:/file --partition 1 >said 2>&1 || differ "explain --partition: $(tail -1 said)"
"$weir" fsck disk.img >said 2>&1 && differ "the image of a disk is taken for a file system"
grep -q "1 (64 MiB" said || differ "the partitions are not listed: $(tail -1 said)"
[ $differs = 0 ] && echo "$name: ok"
exit $differs
