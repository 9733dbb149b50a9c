#!/usr/bin/env bash
# A block of attributes with bad contents and a wrong checksum: a check and a scrub find it, and a repair keeps the attributes
# that are sound and leaves none that cannot be read. (e2fsck makes the checksum right and leaves the rest.)
case=40-xattr-block
. "$(dirname "$0")/place.sh"
needs mke2fs debugfs e2fsck python3

image made.img 8M -t ext4 -b 1024 -O metadata_csum
echo contents >t
head -c 300 /dev/zero | tr '\0' v >value
debug made.img "write t f" "ea_set -f value f user.kept"
block=$(debugfs -R "stat f" made.img 2>/dev/null | sed -n 's/.*File ACL: \([0-9]*\).*/\1/p')
[ "${block:-0}" -gt 0 ] || skip "this debugfs makes no block of attributes"
# Behind the one entry, where the list ends, begins another one with a name of 209 zero bytes.
python3 - made.img "$block" <<'P'
import struct, sys
image, at = open(sys.argv[1], "r+b"), int(sys.argv[2]) * 1024 + 32
image.seek(at)
length = struct.unpack("B", image.read(1))[0]
image.seek(at + 16 + (length + 3) // 4 * 4)
image.write(bytes([0xD1, 0x4C]))
P
"$weir" fsck made.img >found 2>&1
[ $? = 5 ] || differs "a check says: $(tail -n 1 found)"
"$weir" scrub made.img >scrubbed 2>&1 && differs "a scrub says: $(tail -n 1 scrubbed)"
"$weir" fsck --repair made.img >repaired 2>&1
[ $? = 1 ] || differs "repair: $(tail -n 1 repaired)"
debugfs -R "ea_get f user.kept" made.img 2>/dev/null | grep -q vvvv || differs "the sound attribute is lost"
clean made.img "after a repair"
"$weir" scrub made.img >scrubbed 2>&1 || differs "a scrub after the repair: $(tail -n 1 scrubbed)"

needs getfattr
needs_mount
mounts ext4 made.img dir
[ "$(getfattr -d -m - dir/f 2>/dev/null | grep -c ^user.kept=)" = 1 ] || differs "a mount shows: $(getfattr -d -m - dir/f 2>&1)"
leaves dir
ok
