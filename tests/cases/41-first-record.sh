#!/usr/bin/env bash
# The length of the first record of a directory is wrong: the names behind it are kept, as by e2fsck, also in the root and where no
# inode is free.
case=41-first-record
. "$(dirname "$0")/place.sh"
needs mke2fs debugfs e2fsck

# record IMAGE PATH VALUE: the length of the first record.
record() {
    local block
    block=$(debugfs -R "blocks $2" "$1" 2>/dev/null | tr -d ' ')
    # shellcheck disable=SC2059 # it is a format
    printf "\\x$3" | dd of="$1" bs=1 seek=$((block * 1024 + 4)) conv=notrunc status=none
}
names() { debugfs -R "ls -p $2" "$1" 2>/dev/null | cut -d/ -f6 | grep -v '^\.*$' | sort | tr '\n' ' '; }

for inodes in 128 16; do
    image made.img 8M -t ext2 -b 1024 -I 128 -N $inodes
    for name in a b c d; do debug made.img "mkdir dir$name"; done
    echo contents >source
    # Up to the last free inode, or forty.
    number=0
    while [ $number -lt 40 ] && debugfs -w -R "write source dira/file$number" made.img 2>&1 | grep -q Allocated; do
        number=$((number + 1))
    done
    e2fsck -fy made.img >/dev/null 2>&1
    for path in / /dira; do
        before=$(names made.img $path)
        for length in 04 00 08 0d ff; do
            cp made.img changed.img
            record changed.img $path $length
            "$weir" fsck changed.img >found 2>&1
            [ $? = 5 ] || differs "$path, length $length: a check says: $(tail -n 1 found)"
            "$weir" fsck --repair changed.img >repaired 2>&1
            [ $? = 1 ] || differs "$path, length $length, $inodes inodes: repair: $(tail -n 1 repaired)"
            [ "$(names changed.img $path)" = "$before" ] ||
                differs "$path, length $length: $(names changed.img $path) is left of $before"
            clean changed.img "$path, length $length"
        done
    done
done
ok
