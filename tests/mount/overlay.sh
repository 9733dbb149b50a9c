#!/usr/bin/env bash
# overlayfs with its upper layer on a mount, as containers have their data: upper and work directories, removals and renames over
# files of the lower layer, `rm -r` of a merged tree, opaque and redirected directories, files that are copied up, a bind mount in
# a namespace of its own, and the same tree after the mount was unmounted, checked and mounted again.
#
#   tests/mount/overlay.sh WEIR [DESIGN…]
#
# As root, with overlayfs in the kernel; the designs are hinfs, nova and ext4 where none is named.
set -euo pipefail

[ $# -gt 1 ] || set -- "$1" hinfs nova ext4
. "$(dirname "$0")/place.sh" "$@"

modprobe overlay 2>/dev/null || true
grep -q overlay /proc/filesystems || { say "skipped: the kernel has no overlayfs"; exit 0; }
[ "$(id -u)" = 0 ] || { say "skipped: not root"; exit 0; }

low=$work/low
merged=$work/merged
mkdir "$merged"

# The lower layer: what an image of a container has.
lower() {
    rm -rf "$low" && mkdir -p "$low"/{etc,srv/deep/er,gone,old}
    local n
    for n in 1 2 3 4; do echo "lower $n" >"$low/etc/$n"; done
    head -c 300000 /dev/urandom >"$low/srv/data"
    echo deep >"$low/srv/deep/er/file"
    touch "$low/gone/"{a,b,c} "$low/old/"{x,y}
    ln -s etc/1 "$low/link" && chmod 4755 "$low/etc/4" && mkfifo "$low/fifo"
    setfattr -n user.kept -v yes "$low/etc/2" 2>/dev/null || true
}

union() {
    mkdir -p "$dir/up" "$dir/wk"
    # Without `redirect_dir` a directory of the lower layer cannot be renamed at all (EXDEV).
    mount -t overlay overlay -o "lowerdir=$low,upperdir=$dir/up,workdir=$dir/wk,redirect_dir=on" "$merged"
}

# Names, kinds, modes, links and contents of a tree.
tree() { (cd "$1" && find . -printf '%P %y %m %l\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha256sum); }

change() {
    rm "$merged/etc/1"                                   # a whiteout by mknod
    mv "$merged/etc/2" "$merged/etc/two"                 # copied up; a whiteout by RENAME_WHITEOUT
    mv "$merged/etc/3" "$merged/etc/4"                   # over another file of the lower layer
    echo upper >"$merged/etc/1"                          # in the place of a whiteout
    echo more >>"$merged/srv/data"                       # copied up with its contents
    rm -r "$merged/gone" && mkdir "$merged/gone" && touch "$merged/gone/new"   # opaque
    mv "$merged/srv/deep" "$merged/deep"                 # redirected
    rm -r "$merged/old"                                  # a merged tree
    ln "$merged/srv/data" "$merged/srv/hard"
    chmod 600 "$merged/link" 2>/dev/null || true
}

check() {
    [ "$(cat "$merged/etc/1")" = upper ] || die "$design: $1: etc/1"
    [ "$(cat "$merged/etc/two")" = "lower 2" ] || die "$design: $1: a rename has lost contents"
    [ "$(cat "$merged/etc/4")" = "lower 3" ] || die "$design: $1: a rename over a lower file"
    [ ! -e "$merged/etc/2" ] && [ ! -e "$merged/etc/3" ] || die "$design: $1: an old name is there again"
    [ "$(ls -A "$merged/gone")" = new ] || die "$design: $1: an opaque directory shows the lower one"
    [ "$(cat "$merged/deep/er/file")" = deep ] && [ ! -e "$merged/srv/deep" ] || die "$design: $1: a redirected directory"
    [ ! -e "$merged/old" ] || die "$design: $1: a removed tree is there again"
    [ "$(stat -c %h "$merged/srv/data")" = 2 ] || die "$design: $1: a hard link"
    [ "$(tail -c 5 "$merged/srv/hard")" = more ] || die "$design: $1: what was appended after a copy"
    cmp -s -n 300000 "$low/srv/data" "$merged/srv/data" || die "$design: $1: a file that was copied up"
    [ "$(readlink "$merged/link")" = etc/1 ] && [ -p "$merged/fifo" ] || die "$design: $1: a link or FIFO"
}

# What a container does: a root of its own by pivot_root, the host's programs and a volume bound into it, and none of it seen outside.
container() {
    mkdir -p "$dir/volume" "$merged/vol" "$merged/was"
    unshare --mount --propagation private bash -euc '
        volume=$1 root=$2
        mount --bind "$root" "$root"
        mount --bind "$volume" "$root/vol"
        for place in bin lib lib64 usr dev proc; do
            [ -e "/$place" ] || continue
            if [ -L "/$place" ]; then cp -d "/$place" "$root/$place"; continue; fi
            mkdir -p "$root/$place" && mount --bind "/$place" "$root/$place"
        done
        cd "$root" && pivot_root . was && cd / && umount --lazy /was
        [ ! -e /was/etc ] && [ "$(cat /etc/1)" = upper ]
        echo inside >/vol/file && mv /vol/file /vol/done && echo layer >/etc/container
    ' container "$dir/volume" "$merged" || die "$design: a container"
    [ "$(cat "$dir/volume/done")" = inside ] || die "$design: what a container wrote into its volume is not there"
    [ "$(cat "$merged/etc/container")" = layer ] || die "$design: what a container wrote into its root is not there"
    [ -z "$(ls -A "$merged/vol")" ] || die "$design: a bind mount of the container is seen outside"
    rm -rf "$merged"/{vol,was,usr,bin,lib,lib64,dev,proc}
}

for design in "${designs[@]}"; do
    rm -f "$pool"
    lower
    "$weir" mount "$design" "$pool" "$dir" --size 256MiB --quiet -o dev,suid
    union
    change
    check "at once"
    container
    before=$(tree "$merged/etc"; tree "$merged/srv"; tree "$merged/deep")
    umount "$merged"
    [ "$(find "$dir/up" -type c | wc -l)" -ge 4 ] || die "$design: there are fewer whiteouts than removals"
    "$weir" umount "$dir"
    "$weir" fsck --quiet "$pool" >/dev/null || die "$design: fsck"
    "$weir" mount "$design" "$pool" "$dir" --quiet -o dev,suid
    union
    check "after a remount"
    [ "$before" = "$(tree "$merged/etc"; tree "$merged/srv"; tree "$merged/deep")" ] || die "$design: the tree has changed"
    # First the name that the union has seen last: docs/mount.md, "What is not there".
    rm "$merged/srv/hard"
    rm -r "$merged"/{etc,srv,deep,gone,link,fifo} || die "$design: rm -r of the merged tree"
    [ -z "$(find "$merged/etc" "$merged/srv" 2>/dev/null)" ] || die "$design: rm -r has left names"
    umount "$merged"
    "$weir" umount "$dir"
    "$weir" fsck --quiet "$pool" >/dev/null || die "$design: fsck after rm -r"
    if [ "${design#ext}" != "$design" ] && command -v e2fsck >/dev/null; then e2fsck -fn "$pool" >/dev/null 2>&1 || die "$design: e2fsck"; fi
    say "$design: a union, a container and rm -r of its tree"
    record mount/overlay --subject "$design" --unit trees --count 3
done
