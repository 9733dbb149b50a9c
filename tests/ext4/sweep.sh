#!/usr/bin/env bash
# Every single fault of what a file system of ext2, ext3 or ext4 cannot do without, and what `weir fsck` makes of it beside e2fsck.
#
#   tests/ext4/sweep.sh [FOLDER [STEP [KIND …]]]     [a new folder, every fault, all kinds]
#
# Eight kinds of small images (crates/fs/examples/ext4_sweep.rs). A fault is each bit of the superblock and of the descriptors, and
# two of each byte of the reserved inodes, of a directory's first block and of the inodes of a directory and a file; where the image
# has checksums, each with a wrong and with a right one. For each: our check and repair, e2fsck -fn and -fy, e2fsck -fn of what our
# repair left, and both trees. A line is printed for each fault where the two differ:
#
#   missed damage           weir says clean, e2fsck does not
#   clean for e2fsck only   the other way round
#   not repaired            e2fsck mends the image and weir does not; stopped: it would lose names, and asks for --force-loss
#   not clean for e2fsck    weir says that it repaired the image, e2fsck -fn finds more
#   lost                    a name, contents or attribute that e2fsck -fy keeps; in lost+found it is not lost
#
# What may differ is in sweep.allowed, with the reason; the exit code is 1 where something else does. All faults take hours; given
# the same FOLDER again it goes on where it was; on a tmpfs it is twice as fast. PROFILE=release lets cargo build it so.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
for tool in mke2fs e2fsck; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 0; }
done
folder=${1:-}
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
shift $(($# < 1 ? $# : 1))
cd "$here/../.." || exit 1
nice cargo run --quiet ${PROFILE:+--profile "$PROFILE"} -p weir-fs --example ext4_sweep -- "$folder" "${@:-1}" >"$folder/said" 2>&1
code=$?
[ $code = 0 ] || [ $code = 1 ] || { cat "$folder/said"; exit 1; }
# A pattern for a fault and what differs, a tab, the reason.
cut -f 1 "$here/sweep.allowed" | grep -v '^#' | grep -v '^$' >"$folder/allowed"
grep -Ev ': (ok|refused)$' "$folder/faults" | grep -Evf "$folder/allowed" >"$folder/differ"
cat "$folder/differ"
tail -n 1 "$folder/said"
[ ! -s "$folder/differ" ]
