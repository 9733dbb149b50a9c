#!/usr/bin/env bash
# What a second user of the machine can read of the first: nothing. Pool, mount, the server's memory, core dumps, descriptors and the
# attributes that command it are tried, each as the user `nobody`, and each first as the owner, so that a refusal means something.
#
#   tests/mount/second_user.sh WEIR [DESIGN…]
#
# As root, with setpriv (util-linux) and python3.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
secret=secret-$RANDOM$RANDOM

as_other() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }

# refused WHAT COMMAND…: works for the owner, and not for the other.
refused() {
    local what=$1
    shift
    "$@" >/dev/null 2>&1 || die "$what: the owner is refused as well, so this shows nothing"
    if as_other "$@" >/dev/null 2>&1; then die "$what: a second user can"; fi
    say "  refused: $what"
}

ask='import os, sys; os.getxattr(sys.argv[1], sys.argv[2])'

for design in "${designs[@]}"; do
    rm -f "$pool"
    say "$design"
    "$weir" mount "$design" "$pool" "$dir" --size 64MiB --quiet
    printf '%s\n' "$secret" >"$dir/file"
    chmod 644 "$dir/file"
    chmod 755 "$dir"
    "$weir" sync "$dir"
    # The process of the server: who has the pool open.
    server_id=$(fuser "$pool" 2>/dev/null | tr -d ' ' || true)
    [ -n "$server_id" ] || server_id=$(pgrep -n -f "mount $design $pool")
    grep -qa "$secret" "$pool" || [ "$design" = hinfs ] || say "  (the secret is not in the pool as it is written)"
    refused "reading the pool" head -c 1 "$pool"
    refused "writing the pool" dd if=/dev/null of="$pool" conv=notrunc status=none
    refused "listing the mount" ls "$dir"
    refused "reading a file of the mount" cat "$dir/file"
    refused "what the mount has done (weir.result)" python3 -c "$ask" "$dir" weir.result
    refused "syncing it (weir.sync)" python3 -c "$ask" "$dir" weir.sync
    refused "the server's memory" head -c 1 "/proc/$server_id/maps"
    refused "the server's environment" head -c 1 "/proc/$server_id/environ"
    refused "the server's descriptors" ls "/proc/$server_id/fd"
    refused "fsck of the pool" test -r "$pool"
    limit=$(awk '/Max core file size/ { print $5 }' "/proc/$server_id/limits")
    [ "$limit" = 0 ] || die "the server may leave a core dump of $limit bytes"
    say "  none: core dumps"
    sockets=$(find "/proc/$server_id/fd" -lname 'socket:*' | wc -l)
    [ "$sockets" = 0 ] || die "the server listens on a socket"
    say "  none: sockets"
    "$weir" umount "$dir"
    [ "$(stat -c %a "$pool")" = 600 ] || die "the pool is wider than its owner"
    record mount/second_user --subject "$design" --unit tries --count 12
done
