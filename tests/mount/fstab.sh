#!/usr/bin/env bash
# Pools in /etc/fstab, mounted and unmounted by mount(8) and umount(8), by root and by an ordinary user.
#
#   tests/mount/fstab.sh WEIR [DESIGN…]
#
# As root, with fuse3 (fusermount3) and util-linux. It works in a mount namespace of its own: /etc/fstab and /sbin are other ones
# there, and nothing of it is seen outside.
set -euo pipefail

if [ "${IN_NAMESPACE:-}" != 1 ]; then
    IN_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
fi
. "$(dirname "$0")/place.sh" "$@"
user=nobody

# mount(8) finds its programs in /sbin.
install_programs() {
    local sbin name
    sbin=$(realpath /sbin)
    mkdir "$work/layer"
    mount -t tmpfs none "$work/layer"
    mkdir "$work/layer/upper" "$work/layer/work"
    mount -t overlay -o "lowerdir=$sbin,upperdir=$work/layer/upper,workdir=$work/layer/work" overlay "$sbin"
    install -m 755 "$weir" "$sbin/weir"
    weir=$sbin/weir # a user cannot reach where it was built
    for name in mount.fuse.weir umount.fuse.weir; do ln -sf weir "$sbin/$name"; done
    # Where udev is at work users may open the device; in a container perhaps not.
    mknod -m 666 "$work/layer/fuse" c 10 229
    mount --bind "$work/layer/fuse" /dev/fuse
}

# A line of /etc/fstab with these words; all others are gone.
fstab() { printf '%s %s %s %s 0 0\n' "$pool" "$dir" "${kind:-fuse.weir.$design}" "$1" >"$work/fstab"; }

as_user() { setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"; }
words_of() { findmnt --noheadings --output OPTIONS --mountpoint "$dir"; }
has() { [[ ",$(words_of)," == *",$1,"* ]] || die "$1 is missing: $(words_of)"; }
has_not() { [[ ",$(words_of)," != *",$1,"* ]] || die "$1 is there: $(words_of)"; }
is_mounted() { mountpoint -q "$dir"; }

refused() { # PHRASE COMMAND…
    local phrase=$1
    shift
    ! "$@" >"$work/said" 2>&1 || die "not refused ($phrase): $*"
    grep -q "$phrase" "$work/said" || die "$* says: $(cat "$work/said")"
}

# What root asks for and does not ask for is what the kernel knows.
standard_words() {
    fstab "suid,dev,exec,lazytime,strictatime,nofail,noauto,x-systemd.automount,_netdev,allow_other"
    mount "$dir"
    for word in nosuid nodev noexec relatime; do has_not $word; done
    has lazytime
    install -m 4755 "$(command -v id)" "$dir/id"
    [ "$(as_user "$dir/id" -u)" = 0 ] || die "-o suid: the program runs as its caller"
    umount "$dir"
    fstab "defaults,allow_other"
    mount "$dir"
    [ "$(as_user "$dir/id" -u)" = 0 ] || die "defaults: the program runs as its caller"
    umount "$dir"
    fstab "nosuid,nodev,noexec,nosymfollow,noatime,dirsync,ro,auto"
    mount -a -t "fuse.weir.$design"
    for word in nosuid nodev noexec nosymfollow noatime dirsync ro; do has $word; done
    umount "$dir"
    mount -f "$dir"
    ! is_mounted || die "mount -f has mounted"
    kind=fuse.weir fstab "fs=$design,sync"
    mount "$dir"
    [ "$(findmnt -no FSTYPE "$dir")" = "fuse.weir.$design" ] || die "fs=$design: $(findmnt -no FSTYPE "$dir")"
    umount "$dir"
}

remounts() {
    local before
    fstab "noauto,allow_other"
    mount "$dir"
    echo x >"$dir/file"
    mount -o remount,ro "$dir"
    has ro
    refused 'Read-only' touch "$dir/new"
    before=$(stat -c %X "$dir/file")
    touch -d @1000000000 "$dir/file" 2>/dev/null && die "a read-only mount changes times"
    mount -o remount,rw,nosuid "$dir"
    has rw
    has nosuid
    has allow_other
    touch -d @1000000000 "$dir/file"
    mount -o remount,noexec "$dir"
    has noexec
    mount -o remount,exec "$dir"
    has_not noexec
    mount -o remount,noatime "$dir"
    has noatime
    cat "$dir/file" >/dev/null
    [ "$(stat -c %X "$dir/file")" = 1000000000 ] || die "noatime: reading has moved the time"
    mount -o remount,relatime "$dir"
    cat "$dir/file" >/dev/null
    [ "$(stat -c %X "$dir/file")" != 1000000000 ] || die "relatime: reading has not moved the time (before: $before)"
    exec 9>"$dir/open"
    refused 'open for writing' mount -o remount,ro "$dir"
    exec 9>&-
    umount "$dir"
}

# What umount(8) leaves can be used at once, however much was buffered.
at_once() {
    local round
    fstab "noauto"
    for round in 1 2 3; do
        mount "$dir"
        dd if=/dev/urandom of="$dir/large" bs=1M count=48 conv=notrunc status=none
        umount "$dir"
        "$weir" fsck --quiet "$pool" >/dev/null || die "fsck after umount, round $round"
        mount "$dir"
        dd if=/dev/urandom of="$dir/large" bs=1M count=48 conv=notrunc status=none
        umount -i "$dir" # without our program: the server may be writing back
        mount "$dir"
        umount -i "$dir"
        "$weir" fsck --quiet "$pool" >/dev/null || die "fsck after umount -i, round $round"
    done
}

# Only what is on top goes.
stacked() {
    fstab "noauto"
    mount "$dir"
    "$weir" mount "$design" memory "$dir" --size 16MiB --quiet -o nonempty
    [ "$(grep -c " $dir fuse.weir" /proc/self/mounts)" = 2 ] || die "there are not two mounts"
    "$weir" umount "$dir"
    sleep 0.3 # a server that ends must not unmount once more
    [ "$(findmnt -no SOURCE "$dir")" = "$pool" ] || die "the mount below has gone as well"
    "$weir" umount "$dir"
}

ordinary_user() {
    local pool=$work/of-user/pool.weir
    install -d -o "$user" -m 755 "$work/of-user"
    chown "$user" "$dir"
    rm -f "$pool"
    as_user "$weir" mkfs "$design" "$pool" --size 64MiB --quiet
    fstab "user,noauto"
    as_user mount "$dir"
    for word in nosuid nodev noexec; do has $word; done
    as_user sh -c "echo mine >$dir/mine"
    refused 'ermission denied' cat "$dir/mine" # root, too, without allow_other
    as_user umount "$dir"
    ! is_mounted || die "the user's umount has left it"
    fstab "user,noauto,suid"
    refused 'only root may' as_user mount "$dir"
    fstab "user,noauto,exec,allow_other"
    if ! grep -q '^user_allow_other' /etc/fuse.conf 2>/dev/null; then
        refused 'user_allow_other.*fuse.conf' as_user mount "$dir"
    fi
    fstab "noauto"
    refused 'only that user and root' mounted_by_root as_user "$weir" umount "$dir"
    chown root "$dir"
}

mounted_by_root() {
    local code=0
    mount "$dir"
    "$@" || code=$?
    umount "$dir"
    return "$code"
}

install_programs
touch "$work/fstab"
mount --bind "$work/fstab" /etc/fstab
for design in "${designs[@]}"; do
    say "$design"
    rm -f "$pool"
    "$weir" mkfs "$design" "$pool" --size 256MiB --quiet
    [ "$(stat -c %a "$pool")" = 600 ] || die "others may read the pool: $(stat -c %a "$pool")"
    for step in standard_words remounts at_once stacked ordinary_user; do
        $step
        say "  $step"
    done
done
say "fstab, mount and umount work as for any file system"
