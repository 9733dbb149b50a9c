#!/usr/bin/env bash
# Attributes of an inode with 28 bytes of extra fields, as Linux before 4.5 and mke2fs before 1.43 made them: seen, changed, kept.
case=21-old-inode-attributes
. "$(dirname "$0")/place.sh"
needs mke2fs debugfs e2fsck

image x28.img 16M -t ext4
echo hi >t
debug x28.img "write t f" "sif f extra_isize 28" "ea_set f user.a one" "ea_set f security.selinux system_u:object_r:tmp_t:s0"
listed() { debugfs -R "ea_list f" x28.img 2>/dev/null; }
[[ $(listed) == *user.a* ]] || skip "this debugfs sets no attributes"
clean x28.img "a new image"
debug x28.img "ssv free_blocks_count 7"
"$weir" fsck --repair x28.img >repaired 2>&1
[[ $(listed) == *'user.a (3) = "one"'* && $(listed) == *security.selinux* ]] || differs "a repair leaves: $(listed)"
clean x28.img "after a repair"

needs getfattr setfattr
needs_mount
mounts ext4 x28.img dir
shown=$(getfattr -d -m - dir/f 2>/dev/null)
[[ $shown == *'user.a="one"'* && $shown == *security.selinux=* ]] || differs "a mount shows: $shown"
setfattr -n user.a -v two dir/f || differs "setfattr failed"
setfattr -n user.b -v "$(printf 'x%.0s' {1..300})" dir/f || differs "setfattr failed"
[ "$(getfattr -d -m - dir/f 2>/dev/null | grep -c ^user.a=)" = 1 ] || differs "user.a is there twice"
leaves dir
[ "$(listed | grep -c 'user.a (3)')" = 1 ] || differs "user.a is there twice: $(listed)"
[[ $(listed) == *'user.a (3) = "two"'* ]] || differs "debugfs shows: $(listed)"
clean x28.img "after setfattr"
ok
