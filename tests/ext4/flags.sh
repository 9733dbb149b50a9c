#!/usr/bin/env bash
# Feature flags that an image gets when it first needs them: neither before, nor without e2fsck finding the image clean after it.
#
#   tests/ext4/flags.sh WEIR
#
# As root, with e2fsprogs, python3 and /dev/fuse. Linux sets these two by itself, and so does weir: `ext_attr`, by the first
# attribute, and `large_file`, by the first file of 2 GiB. The other flags of crates/ext4/src/feature.rs it leaves as they are.
set -euo pipefail

PATH=$PATH:/usr/sbin:/sbin
for tool in mke2fs dumpe2fs e2fsck python3; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 0; }
done
. "$(dirname "$0")/../mount/place.sh" "$1" ext4

mounted() {
    "$weir" mount "$design" "$pool" "$dir" --quiet
    "$@"
    "$weir" umount "$dir"
    e2fsck -fn "$pool" >"$work/e2fsck" 2>&1 || die "$kind, $*: e2fsck: $(cat "$work/e2fsck")"
    "$weir" fsck "$pool" >"$work/fsck" 2>&1 || die "$kind, $*: weir fsck: $(cat "$work/fsck")"
}
features() { dumpe2fs -h "$pool" 2>/dev/null | sed -n 's/^Filesystem features: *//p'; }
# has FLAG, lacks FLAG
has() { [[ " $(features) " = *" $1 "* ]] || die "$kind: $1 is not set: $(features)"; }
lacks() { [[ " $(features) " != *" $1 "* ]] || die "$kind: $1 is set before it is needed"; }

plain() { mkdir "$dir/folder" && echo text >"$dir/folder/file" && truncate -s $(((2 << 30) - 1)) "$dir/folder/file"; }
attribute() { python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.colour", b"green" * 100)' "$dir/folder"; }
large() { truncate -s 3G "$dir/large" && printf end >>"$dir/large"; }

for kind in "-t ext4" "-t ext4 -b 1024 -O ^metadata_csum" "-t ext4 -O ^has_journal" "-t ext3" "-t ext2"; do
    design=ext4
    [ "$kind" != "-t ext2" ] || design=ext2
    rm -f "$pool"
    truncate -s 64M "$pool"
    # shellcheck disable=SC2086 # they are words
    mke2fs -q -F $kind -N 1000 "$pool"
    tune2fs -O ^large_file "$pool" >/dev/null 2>&1 || true
    debugfs -w -R "feature -ext_attr -large_file" "$pool" >/dev/null 2>&1
    e2fsck -fy "$pool" >/dev/null 2>&1 || true
    lacks ext_attr
    lacks large_file
    mounted plain
    lacks ext_attr
    lacks large_file
    mounted attribute
    has ext_attr
    lacks large_file
    mounted large
    has large_file
    say "$kind: $(features)"
done
