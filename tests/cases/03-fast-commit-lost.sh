#!/bin/bash
# An image whose journal has fast commits: mount and repair show what the kernel recovers, and of a rename and a new file also what
# e2fsck -fy recovers. (Of more, e2fsck 1.47.0 loses names and contents, and both count the links of new directories wrongly.)
# Usage: 03-fast-commit-lost.sh WEIR
set -u
name=03-fast-commit-lost
weir=$(realpath "${1:?the path of weir}")
command -v mke2fs >/dev/null || PATH=$PATH:/usr/sbin:/sbin
command -v mke2fs >/dev/null || { echo "$name: skipped: no e2fsprogs"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "$name: skipped: not root"; exit 0; }
scratch=$(mktemp -d) || exit 1
trap 'umount "$scratch/k" 2>/dev/null; "$weir" umount "$scratch/d" >/dev/null 2>&1; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
differs=0
differ() { echo "$name: $1"; differs=1; }

truncate -s 64M fc.img && chmod 600 fc.img && mkdir k d
mke2fs -q -F -t ext4 -O fast_commit fc.img || exit 1
mount -o loop fc.img k 2>/dev/null || { echo "$name: skipped: no loop mount"; exit 0; }
python3 - <<'P' || exit 1
import os, subprocess
os.mkdir('k/a')
open('k/a/old', 'w').write('old\n')
open('k/a/over', 'w').write('over\n')
open('k/a/gone', 'w').write('gone\n')
os.sync()
os.rename('k/a/old', 'k/a/new')
fd = os.open('k/a/first', os.O_CREAT | os.O_WRONLY)
os.write(fd, b'important\n' * 10)
os.fsync(fd)
os.close(fd)
subprocess.run(['cp', '--sparse=always', 'fc.img', 'first.img'], check=True)
os.unlink('k/a/gone')
os.link('k/a/new', 'k/a/second')
os.mkdir('k/a/dir')
fd = os.open('k/a/data', os.O_CREAT | os.O_WRONLY)
os.write(fd, b'important\n' * 10)
os.fsync(fd)
for block in range(40):
    os.pwrite(fd, b'piece' * 200, 8192 * block)
os.fsync(fd)
os.ftruncate(fd, 100000)
os.fsync(fd)
os.close(fd)
fd = os.open('k/a/dir/inside', os.O_CREAT | os.O_WRONLY)
os.write(fd, b'inside\n')
os.fsync(fd)
P
cp --sparse=always fc.img snap.img && umount k && chmod 600 snap.img
if ! debugfs -R "logdump -a" snap.img 2>/dev/null | grep -q "tag TAIL"; then
    echo "$name: skipped: this kernel writes no fast commits"
    exit 0
fi
# tree DIR: names, sizes, links and contents; of directories the names
tree() {
    (cd "$1" && find . -path ./lost+found -prune -o -printf '%P %y %n %s\n' | sed 's/^\(.* d\) .*/\1/' | sort &&
        find . -type f -exec sha256sum {} + | sort -k 2)
}
chmod 600 first.img
cp first.img e2fsck.img && e2fsck -fy e2fsck.img >/dev/null 2>&1
mount -o loop,ro e2fsck.img k && tree k >by-e2fsck && umount k
"$weir" fsck --repair first.img >said 2>&1
mount -o loop,ro first.img k && tree k >by-repair && umount k
cmp -s by-e2fsck by-repair || differ "e2fsck and weir fsck --repair: $(diff by-e2fsck by-repair)"
cp snap.img kernel.img && mount -o loop kernel.img k && tree k >by-kernel && umount k
cp snap.img repaired.img
"$weir" fsck --repair repaired.img >said 2>&1
[ $? -le 1 ] || differ "weir fsck --repair: $(tail -1 said)"
e2fsck -fn repaired.img >said 2>&1 || differ "e2fsck -fn after the repair: $(grep -v ^Pass said | head -3)"
mount -o loop,ro repaired.img k && tree k >by-repair && umount k
cmp -s by-kernel by-repair || differ "the kernel and weir fsck --repair: $(diff by-kernel by-repair)"
if [ -w /dev/fuse ]; then
    "$weir" mount ext4 snap.img d >said 2>&1 || differ "weir mount: $(tail -1 said)"
    tree d >by-mount
    "$weir" umount d >/dev/null 2>&1
    cmp -s by-kernel by-mount || differ "the kernel and weir mount: $(diff by-kernel by-mount)"
    e2fsck -fn snap.img >said 2>&1 || differ "e2fsck -fn after the mount: $(grep -v ^Pass said | head -3)"
fi
[ $differs = 0 ] && echo "$name: ok"
exit $differs
