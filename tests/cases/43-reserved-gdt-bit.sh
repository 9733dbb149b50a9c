#!/usr/bin/env bash
# One bit of s_reserved_gdt_blocks is flipped: a repair keeps every file, and so does a mount of an image that was not unmounted, if
# it takes the image at all.
case=43-reserved-gdt-bit
. "$(dirname "$0")/place.sh"
needs mke2fs debugfs e2fsck python3

head -c 20000 /dev/urandom >source
files=12
flip() {
    python3 - "$1" "$2" <<'P'
import sys
image, bit = open(sys.argv[1], "r+b"), int(sys.argv[2])
at = 1024 + 0xCE + bit // 8
image.seek(at)
byte = image.read(1)[0]
image.seek(at)
image.write(bytes([byte ^ 1 << bit % 8]))
P
}
names() { debugfs -R "ls -p /d" "$1" 2>/dev/null | grep -c "/f[0-9]"; }

for features in "-t ext2" "-t ext3" "-t ext4 -O ^metadata_csum"; do
    # shellcheck disable=SC2086 # they are words
    image made.img 40M $features
    (echo mkdir d; for number in $(seq $files); do echo "write source d/f$number"; done) | debugfs -w -f - made.img >/dev/null 2>&1
    e2fsck -fy made.img >/dev/null 2>&1
    for bit in 8 9 10 11; do
        cp made.img changed.img
        flip changed.img "$bit"
        cp changed.img crashed.img
        "$weir" fsck changed.img >found 2>&1
        [ $? = 5 ] || differs "$features, bit $bit: a check says: $(tail -n 1 found)"
        "$weir" fsck --repair changed.img >repaired 2>&1
        [ $? = 1 ] || differs "$features, bit $bit: repair: $(tail -n 1 repaired)"
        for number in $(seq $files); do
            cmp -s source <(debugfs -R "cat d/f$number" changed.img 2>/dev/null) || differs "$features, bit $bit: f$number is lost"
        done
        clean changed.img "$features, bit $bit"
        [ "$(id -u)" = 0 ] && [ -w /dev/fuse ] || continue
        printf '\0' | dd of=crashed.img bs=1 seek=$((1024 + 0x3a)) conv=notrunc status=none
        mkdir -p dir
        if "$weir" mount ext4 crashed.img dir --quiet >mount.log 2>&1; then
            "$weir" umount dir >umount.log 2>&1 || differs "umount: $(tail -n 1 umount.log)"
        fi
        [ "$(names crashed.img)" = $files ] || differs "$features, bit $bit: a mount leaves $(names crashed.img) names of $files"
    done
done
ok
