#!/usr/bin/env bash
# A feature that weir does not have is named, by a mount and by fsck, with and without --fs, and is not called damage.
case=14-refused-features
. "$(dirname "$0")/place.sh"
needs mke2fs e2fsck

# The feature, and how mke2fs makes it.
refused() {
    local feature=$1 said code
    image "$feature.img" 64M -t ext4 "${@:2}"
    for how in "fsck" "fsck --fs ext4" "fsck --repair" "df" "df --fs ext4"; do
        cp "$feature.img" copy.img
        # shellcheck disable=SC2086
        said=$("$weir" $how copy.img 2>&1)
        code=$?
        [ $code != 0 ] || differs "$how accepts $feature"
        [ $code != 5 ] || differs "$how calls $feature damage: $said"
        [[ $said == *"$feature"* ]] || differs "$how does not name $feature: $said"
        [[ $said != *damaged* ]] || differs "$how calls $feature damage: $said"
        cmp -s "$feature.img" copy.img || differs "$how changed the image with $feature"
    done
    if [ "$(id -u)" = 0 ] && [ -w /dev/fuse ]; then
        mkdir -p dir
        said=$("$weir" mount ext4 "$feature.img" dir 2>&1) && { "$weir" umount dir; differs "a mount accepts $feature"; }
        [[ $said == *"$feature"* ]] || differs "a mount does not name $feature: $said"
    fi
}

refused quota -O quota
refused project -O quota,project -E quotatype=prjquota
refused encrypt -O encrypt
refused casefold -O casefold -E encoding=utf8
refused bigalloc -O bigalloc
refused verity -O verity
refused inline_data -O inline_data
refused ea_inode -O ea_inode
refused large_dir -O large_dir
refused meta_bg -O meta_bg,^resize_inode
refused mmp -O mmp
image shared.img 64M -t ext4
debugfs -w -R "feature shared_blocks" shared.img >/dev/null 2>&1
said=$("$weir" fsck shared.img 2>&1)
[[ $? = 4 && $said == *shared_blocks* ]] || differs "fsck of shared_blocks: $said"
ok
