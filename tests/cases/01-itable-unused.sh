#!/usr/bin/env bash
# A descriptor that says of inodes in use that they were never used: a repair, and the mount of an unclean image, keep them.
case=01-itable-unused
. "$(dirname "$0")/place.sh"
needs mke2fs debugfs e2fsck

# Eight files, of which the descriptor knows none.
stale() {
    image "$1" 8M -t ext4 -b 1024 -N 256 "${@:2}"
    for number in 1 2 3 4 5 6 7 8; do
        echo "content $number" >"t$number"
        debug "$1" "write t$number file$number"
    done
    debug "$1" "set_bg 0 itable_unused 245" "set_bg 0 checksum calc"
}
same() {
    for number in 1 2 3 4 5 6 7 8; do
        cmp -s "t$number" <(debugfs -R "cat file$number" "$1" 2>/dev/null) || differs "$2: file$number is lost"
    done
}

stale repair.img
debug repair.img "ssv free_inodes_count 200"
"$weir" fsck repair.img >found 2>&1
[ $? = 5 ] || differs "fsck finds nothing: $(tail -n 1 found)"
grep -q "never used" found || differs "fsck does not name the count: $(cat found)"
grep -q "free inodes" found || differs "fsck does not name the free inodes: $(cat found)"
"$weir" fsck --repair repair.img >repaired 2>&1
[ $? = 1 ] || differs "repair: $(tail -n 1 repaired)"
same repair.img repair
clean repair.img "after a repair"

[ "$(id -u)" = 0 ] && [ -w /dev/fuse ] || ok
stale mount.img -O ^has_journal
debug mount.img "ssv state 0"
mounts ext4 mount.img dir
[ "$(ls dir | grep -c '^file')" = 8 ] || differs "a mount shows $(ls dir | wc -l) names"
leaves dir
same mount.img mount
clean mount.img "after a mount"
ok
