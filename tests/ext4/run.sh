#!/usr/bin/env bash
# ext2 and ext4 beside the kernel's own tools and its mount, at full size.
#
#   tests/ext4/run.sh WEIR
#
# As root, with e2fsprogs, loop devices and /dev/fuse. Four parts, of which ONLY="random kernel mounts journal" runs some:
#
#   random   OPERATIONS (100000) on each of eight images of mkfs.ext4, e2fsck at every thousandth, the kernel's mount at the end
#   kernel   what the kernel fills, NAMES (300000) in one directory, is read here
#   mounts   images that mkfs.ext4 makes, the kernel fills, weir's mount changes, e2fsck checks, resize2fs makes larger, and
#            weir's mount changes again; after each step the other side must show the same files
#   journal  the same of images with their journal on another device, made by mke2fs and by weir
#
# The first two are tests of crates/fs/tests/it/ext4; PROFILE=release lets cargo build them so.
set -euo pipefail

source=$(realpath "$(dirname "$0")/../..")
. "$source/tests/mount/place.sh" "$1" ext4
parts=${ONLY:-random kernel mounts journal}
host=$work/host
mkdir "$host"

run_tests() {
    (cd "$source" && nice cargo test --workspace ${PROFILE:+--profile "$PROFILE"} --test it -- "$1" --nocapture)
}

part_random() {
    WEIR_EXT4_OPS=${OPERATIONS:-100000} run_tests random_operations_on_an_image_of_mkfs
}

part_kernel() {
    WEIR_EXT4_NAMES=${NAMES:-300000} run_tests what_the_kernel_fills
}

# What a folder shows: kinds, permissions, owners, links, sizes, targets, and a checksum of every file. Sizes of directories differ
# with their history.
shown() {
    (cd "$1" && find . -mindepth 1 -path ./lost+found -prune -o -type d -printf '%y %m %U %G %n %P\n' \
        -o -printf '%y %m %U %G %n %s %P %l\n' && find . -type f -exec sha256sum {} +) | LC_ALL=C sort
}

by_kernel() { mount -t ext4 -o "loop,$1${device:+,journal_path=$device}" "$pool" "$host"; }
by_weir() { "$weir" mount ext4 "$pool" "$dir" --quiet -o allow_other; }

# A journal that is not in the image: its file, and its device.
journal=
device=

# The kernel lets go of the file before weir uses it: a loop device has a cache of its own.
attach() { device=$(losetup --find --show "$journal"); }
detach() { [ -z "$device" ] || losetup --detach "$device" && device=; }
trap 'cleanup; detach' EXIT

must_be_clean() { e2fsck -fn ${journal:+-j "$journal"} "$pool" >"$work/e2fsck" 2>&1 || die "$1: e2fsck: $(cat "$work/e2fsck")"; }

fill() {
    cp -a "$source/crates" "$1/source"
    mkdir "$1/many"
    (cd "$1/many" && seq -f 'name number %g' 2000 | xargs -d '\n' touch && seq -f 'name number %g' 1 7 2000 | xargs -d '\n' rm)
    fallocate -l 3M "$1/reserved" 2>/dev/null || true # not on ext2
    truncate -s 100M "$1/sparse"
    dd if=/dev/urandom of="$1/sparse" bs=4k seek=20000 count=3 conv=notrunc status=none
    mkfifo "$1/fifo"
    ln "$1/many/name number 2" "$1/link"
    ln -s "many/name number 2" "$1/symbolic"
    setfattr -n user.colour -v green "$1/link" 2>/dev/null || true
}

change() {
    tar -C "$source" -cf "$1/of-$2.tar" docs crates/fs
    mkdir "$1/out-$2"
    tar -C "$1/out-$2" -xf "$1/of-$2.tar"
    rm -r "$1/out-$2/docs"
    mv "$1/out-$2/crates" "$1/moved-$2"
    (cd "$1/many" && seq -f "$2 %g" 1000 | xargs -d '\n' touch && seq -f "$2 %g" 1 3 1000 | xargs -d '\n' rm)
    truncate -s 100001 "$1/of-$2.tar"
    printf more >>"$1/link"
}

# Both sides show the same, and e2fsck agrees.
compare() {
    must_be_clean "$1"
    by_kernel ro
    shown "$host" >"$work/kernel"
    umount "$host"
    by_weir
    shown "$dir" >"$work/weir"
    "$weir" umount "$dir"
    diff "$work/kernel" "$work/weir" >"$work/diff" || die "$1: the kernel (<) and weir (>): $(head -n 5 "$work/diff")"
    must_be_clean "$1, after a look"
}

part_mounts() {
    local features
    for features in "-t ext4 -b 4096" "-t ext4 -b 1024" "-t ext4 -b 4096 -O ^has_journal" "-t ext2 -b 4096"; do
        rm -f "$pool"
        truncate -s 300M "$pool"
        # shellcheck disable=SC2086 # they are words
        mke2fs -q -F -N 60000 $features "$pool"
        by_kernel rw
        fill "$host"
        umount "$host"
        compare "$features, filled by the kernel"
        by_weir
        change "$dir" first
        "$weir" umount "$dir"
        compare "$features, changed by weir"
        truncate -s 700M "$pool"
        e2fsck -fy "$pool" >/dev/null 2>&1 || [ $? = 1 ] || die "$features: e2fsck before resize2fs"
        resize2fs "$pool" >"$work/resize" 2>&1 || die "$features: resize2fs: $(cat "$work/resize")"
        by_weir
        change "$dir" second
        "$weir" umount "$dir"
        compare "$features, resized, changed by weir again"
        by_kernel rw
        change "$host" third
        umount "$host"
        compare "$features, changed by the kernel again"
        say "  $features: $(wc -l <"$work/weir") lines of names and checksums agree"
    done
}

part_journal() {
    local by
    for by in mke2fs weir; do
        journal=$work/journal
        rm -f "$pool" "$journal"
        if [ $by = mke2fs ]; then
            truncate -s 300M "$pool"
            truncate -s 32M "$journal"
            attach
            mke2fs -q -F -b 4096 -O journal_dev "$device"
            mke2fs -q -F -t ext4 -b 4096 -N 60000 -J device="$device" "$pool"
        else
            "$weir" mkfs ext4 "$pool" --size 300MiB --journal "$journal" --quiet
            attach
        fi
        by_kernel rw
        fill "$host"
        umount "$host"
        detach
        must_be_clean "$by, filled by the kernel"
        by_weir
        change "$dir" first
        shown "$dir" >"$work/weir"
        "$weir" umount "$dir"
        must_be_clean "$by, changed by weir"
        "$weir" fsck "$pool" >"$work/fsck" || die "$by: weir fsck: $(cat "$work/fsck")"
        attach
        by_kernel ro
        shown "$host" >"$work/kernel"
        umount "$host"
        detach
        diff "$work/kernel" "$work/weir" >"$work/diff" || die "$by: the kernel (<) and weir (>): $(head -n 5 "$work/diff")"
        say "  journal by $by: $(wc -l <"$work/weir") lines of names and checksums agree"
    done
    journal=
}

for part in $parts; do
    say "$part"
    "part_$part"
done
say "weir, the kernel and e2fsck agree"
