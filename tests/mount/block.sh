#!/usr/bin/env bash
# The kernel's own tools on a modelled block device, by the wall clock: mkfs.ext4, mount, fio with verification, unmount, e2fsck.
#
#   tests/mount/block.sh WEIR [MEDIUM…]        (media: ssd, nvmmbd)
#
# As root, with fio and e2fsprogs. Where the kernel has nbd the device is /dev/nbdN (nbd-client on `weir serve block --socket`),
# else a loop device on the file of `weir serve block --mount`. Everything is read again after a
# second mount. The server says at its end how late each completion was. A canary first: fio must notice a file that changed behind
# its back.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
[ "$#" -gt 1 ] || designs=(ssd hinfs)
size=${SIZE:-512MiB}
data=${DATA:-96M}
device=

[ "$(id -u)" = 0 ] || die "mounting needs root"
for tool in fio mkfs.ext4 e2fsck losetup; do
    command -v "$tool" >/dev/null || die "$tool is missing: apt-get install fio e2fsprogs mount"
done

release() {
    ! mountpoint -q "$dir" || umount "$dir" || umount --lazy "$dir"
    case $device in
    /dev/loop*) losetup --detach "$device" || true ;;
    /dev/nbd*) nbd-client -d "$device" >/dev/null || true ;;
    esac
    device=
}
trap 'release; cleanup' EXIT

# Which of the two ways this kernel and host have.
has_nbd() { [ -e /dev/nbd0 ] && command -v nbd-client >/dev/null; }

attach() {
    if has_nbd; then
        "$weir" serve block --medium "$1" --size "$size" --socket "$work/socket" --json >"$work/lateness" &
        server=$!
        for _ in $(seq 200); do [ ! -S "$work/socket" ] || break; sleep 0.1; done
        device=/dev/nbd0
        nbd-client -unix "$work/socket" "$device" -name weir >/dev/null
    else
        mkdir -p "$work/device"
        "$weir" serve block --medium "$1" --size "$size" --mount "$work/device" --json >"$work/lateness" &
        server=$!
        for _ in $(seq 200); do [ ! -e "$work/device/disk" ] || break; sleep 0.1; done
        device=$(losetup --direct-io=on --find --show "$work/device/disk")
    fi
}

# $1: what fio does besides verifying.
verified() {
    fio --name=v --filename="$dir/file" --size="$data" --bs=4k --ioengine=libaio --direct=1 --iodepth=16 --rw=randwrite \
        --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed=7 --output="$work/fio" "$@"
}

canary() {
    verified --do_verify=0
    printf x | dd of="$dir/file" bs=1 seek=1000000 conv=notrunc status=none
    ! verified --verify_only 2>/dev/null || die "fio notices nothing"
    rm "$dir/file"
}

for medium in "${designs[@]}"; do
    [ "$medium" != nvmmbd ] || medium=hinfs
    attach "$medium"
    say "$medium: $device of $size"
    mkfs.ext4 -q -F "$device"
    mount "$device" "$dir"
    canary
    verified || die "$medium: $(cat "$work/fio")"
    umount "$dir"
    e2fsck -f -n "$device" >"$work/fsck" 2>&1 || die "$medium: e2fsck: $(cat "$work/fsck")"
    mount "$device" "$dir"
    verified --verify_only || die "$medium: after a mount: $(cat "$work/fio")"
    release
    kill -INT "$server"
    wait "$server" || die "$medium: the server failed"
    server=
    say "$medium: fio verified $data twice, e2fsck found nothing; lateness: $(tr -d ' \n' <"$work/lateness")"
    record mount/block --subject "$medium" --unit mounts --count 2
done
