#!/usr/bin/env bash
# What a second user of the machine can read of the first: nothing. Pool, mount, the server's memory, core dumps, descriptors, the
# attributes that command it, its connection in fusectl and the socket of a block device are tried, each as the user `nobody`, and each
# first as the owner, so that a refusal means something. On a mount with allow_other modes and commands are tried again.
#
#   tests/mount/second_user.sh WEIR [DESIGN…]
#
# As root, with setpriv (util-linux) and python3.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
secret=secret-$RANDOM$RANDOM

as_other() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }

# Programs that the other user can run: a refusal of the program itself would show nothing.
install -m 755 "$weir" "$work/weir"
weir=$work/weir
python=
for candidate in $(type -ap python3); do
    [ -n "$python" ] || ! as_other "$candidate" -c "" 2>/dev/null || python=$candidate
done
[ -n "$python" ] || die "user 65534 can run no python3"

tries=0
none() {
    tries=$((tries + 1))
    say "  none: $*"
}

# refused WHAT COMMAND…: works for the owner, and not for the other.
refused() {
    local what=$1
    shift
    "$@" >/dev/null 2>&1 || die "$what: the owner is refused as well, so this shows nothing"
    if as_other "$@" >/dev/null 2>&1; then die "$what: a second user can"; fi
    tries=$((tries + 1))
    say "  refused: $what"
}

ask='import os, sys; os.getxattr(sys.argv[1], sys.argv[2])'
connect='import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])'
# That the server itself refuses, before it looks at the socket.
not_permitted='import errno, os, sys
try: os.getxattr(sys.argv[1], sys.argv[2])
except OSError as error: sys.exit(error.errno != errno.EPERM)
sys.exit(1)'

# The control files of the mount on $dir. A process of another user could abort it there.
fusectl() {
    local control
    mkdir -p "$work/fusectl"
    mountpoint -q "$work/fusectl" || mount -t fusectl none "$work/fusectl" 2>/dev/null || { say "  skipped: no fusectl"; return; }
    control=$work/fusectl/$(stat -c %Ld "$dir")
    refused "counting the requests that wait (fusectl)" head -c 1 "$control/waiting"
    refused "aborting the connection (fusectl)" test -w "$control/abort"
}

# What all may use is still guarded by modes, and takes commands of its owner only.
allow_other() {
    "$weir" mount "$design" "$pool" "$dir" --quiet -o allow_other
    as_other grep -q "$secret" "$dir/file" || die "allow_other: a second user cannot read a public file"
    chmod 600 "$dir/file"
    refused "allow_other: reading a private file" cat "$dir/file"
    refused "allow_other: making a file" touch "$dir/new"
    # Pools of these need all their space, and are not trimmed for their owner either (docs/mount.md).
    case $design in
    ext2 | ext4 | ext4-dax | crest | redo | squirrelfs | wofs) ;;
    *) refused "allow_other: returning its space (weir.trim)" "$python" -c "$ask" "$dir" weir.trim ;;
    esac
    refused "allow_other: changing access times (weir.remount)" "$python" -c "$ask" "$dir" weir.remount:rw,diratime
    as_other "$python" -c "$not_permitted" "$dir" "weir.end:$work/no-socket" || die "allow_other: a second user hears of its end"
    none "allow_other: reports of its end (weir.end)"
    ! as_other "$weir" umount "$dir" 2>/dev/null || die "allow_other: a second user unmounts it"
    none "allow_other: unmounts by others"
    "$weir" umount "$dir"
}

block_device() {
    rm -f "$work/socket"
    "$weir" serve block --medium ram --size 16MiB --socket "$work/socket" --quiet >/dev/null 2>&1 &
    server=$!
    for _ in $(seq 200); do [ ! -S "$work/socket" ] || break; sleep 0.05; done
    refused "connecting to a block device" "$python" -c "$connect" "$work/socket"
    kill -INT "$server"
    wait "$server" || die "the server of the block device failed"
    server=
}

for design in "${designs[@]}"; do
    rm -f "$pool"
    say "$design"
    tries=0
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
    refused "what the mount has done (weir.result)" "$python" -c "$ask" "$dir" weir.result
    refused "syncing it (weir.sync)" "$python" -c "$ask" "$dir" weir.sync
    refused "the server's memory" head -c 1 "/proc/$server_id/maps"
    refused "the server's environment" head -c 1 "/proc/$server_id/environ"
    refused "the server's descriptors" ls "/proc/$server_id/fd"
    refused "fsck of the pool" test -r "$pool"
    limit=$(awk '/Max core file size/ { print $5 }' "/proc/$server_id/limits")
    [ "$limit" = 0 ] || die "the server may leave a core dump of $limit bytes"
    none core dumps
    sockets=$(find "/proc/$server_id/fd" -lname 'socket:*' | wc -l)
    [ "$sockets" = 0 ] || die "the server listens on a socket"
    none sockets
    fusectl
    "$weir" umount "$dir"
    allow_other
    block_device
    [ "$(stat -c %a "$pool")" = 600 ] || die "the pool is wider than its owner"
    record mount/second_user --subject "$design" --unit tries --count "$tries"
done
