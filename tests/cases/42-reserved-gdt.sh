#!/usr/bin/env bash
# One number of the superblock is wrong (s_reserved_gdt_blocks): a repair keeps every file, as e2fsck does, and a check finds it.
case=42-reserved-gdt
. "$(dirname "$0")/place.sh"
needs mke2fs debugfs e2fsck

head -c 20000 /dev/urandom >source
files=12
filled() {
    image "$1" "$2" "${@:3}"
    (echo mkdir d; for number in $(seq $files); do echo "write source d/f$number"; done) | debugfs -w -f - "$1" >/dev/null 2>&1
    e2fsck -fy "$1" >/dev/null 2>&1
}
# kept IMAGE WHAT: a check finds the damage, and a repair loses nothing.
kept() {
    "$weir" fsck "$1" >found 2>&1
    [ $? = 5 ] || differs "$2: a check says: $(tail -n 1 found)"
    "$weir" fsck --dry-run "$1" >foreseen 2>&1
    grep -q "names lost" foreseen && differs "$2: a repair would lose names: $(tail -n 1 foreseen)"
    "$weir" fsck --repair "$1" >repaired 2>&1
    [ $? = 1 ] || differs "$2: repair: $(tail -n 1 repaired)"
    for number in $(seq $files); do
        cmp -s source <(debugfs -R "cat d/f$number" "$1" 2>/dev/null) || differs "$2: f$number is lost: $(head -n 3 repaired)"
    done
    clean "$1" "$2"
}

for features in "-t ext2" "-t ext3" "-t ext4 -O ^metadata_csum" "-t ext4 -O metadata_csum"; do
    # shellcheck disable=SC2086 # they are words
    filled made.img 12M -b 1024 -N 256 $features
    for value in 4000 1000 512 384 260 0; do
        cp made.img changed.img
        debug changed.img "ssv reserved_gdt_blocks $value"
        # A number that is less than what the resize inode has is found by that alone.
        kept changed.img "$features, reserved_gdt_blocks $value"
    done
done
# One group, which has no backup.
for features in "-t ext2" "-t ext4 -O ^has_journal"; do
    # shellcheck disable=SC2086 # they are words
    filled made.img 7M -b 1024 -N 128 $features
    for request in "reserved_gdt_blocks 4000" "reserved_gdt_blocks 200" "inodes_count 77"; do
        cp made.img changed.img
        debug changed.img "ssv $request"
        kept changed.img "one group, $features, $request"
    done
done
ok
