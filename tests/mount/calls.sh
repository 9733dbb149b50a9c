#!/usr/bin/env bash
# Handles of files, O_TMPFILE, access-control lists and flags of inodes on a mount, also across a restart of the server.
#
#   tests/mount/calls.sh WEIR [DESIGN…]
#
# As root, with python3. A design that does not offer a call is named.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
calls=$(dirname "$(realpath "$0")")/calls.py

mount_it() { "$weir" mount "$design" "$pool" "$dir" --size 64MiB --quiet -o "allow_other,cache=$cache$1"; }
umount_it() { "$weir" umount "$dir"; }

for design in "${designs[@]}"; do
    for cache in pages direct; do
        rm -f "$pool"
        mount_it ""
        python3 "$calls" handles-make "$dir" "$work/handles"
        echo 2 >/proc/sys/vm/drop_caches
        python3 "$calls" handles-check "$dir" "$work/handles"
        umount_it
        mount_it ""
        python3 "$calls" handles-check "$dir" "$work/handles"
        mkdir "$dir/tmp"
        python3 "$calls" tmpfile "$dir/tmp"
        mkdir "$dir/flags"
        python3 "$calls" flags "$dir/flags"
        umount_it
        mount_it ",acl"
        mkdir "$dir/lists"
        python3 "$calls" lists "$dir/lists"
        umount_it
        "$weir" fsck --quiet "$pool" >/dev/null || die "$design: fsck"
        say "$design, cache=$cache: handles, nameless files, lists and flags are right"
    done
    record mount/calls --subject "$design" --unit calls --count 11
done
