#!/bin/bash
# A committed transaction of several blocks is replayed whatever the checksums of the journal are: mount, repair and e2fsck agree.
# Usage: 23-jbd2-checksum-v2.sh WEIR
set -u
name=23-jbd2-checksum-v2
weir=$(realpath "${1:?the path of weir}")
command -v debugfs >/dev/null || PATH=$PATH:/usr/sbin:/sbin
command -v debugfs >/dev/null || { echo "$name: skipped: no e2fsprogs"; exit 0; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
differs=0

# make IMAGE FEATURES BLOCK VERSION: file /f has 8 blocks of `o`, and the log gives them `N`
make() {
    local image=$1 features=$2 block=$3 version=$4 blocks
    truncate -s 16M "$image" && chmod 600 "$image"
    mke2fs -q -F -t ext4 -b "$block" -J size=4 -O "$features" "$image" || return 1
    head -c $((8 * block)) /dev/zero | tr '\0' o >old
    head -c $((8 * block)) /dev/zero | tr '\0' N >new
    debugfs -w -R "write old f" "$image" >/dev/null 2>&1
    blocks=$(debugfs -R "blocks f" "$image" 2>/dev/null | xargs | tr ' ' ,)
    printf 'jo %s\njw -b %s new\njc\n' "$version" "$blocks" | debugfs -w "$image" >/dev/null 2>&1
}

expect() {
    local what=$1 image=$2
    debugfs -R "dump f got" "$image" >/dev/null 2>&1
    cmp -s got new || { echo "$name: $what: the transaction was not replayed"; differs=1; }
}

for features in 64bit,metadata_csum ^64bit,metadata_csum ^64bit,^metadata_csum; do
    for block in 1024 4096; do
        for version in "" "-c -v 2" "-c -v 3"; do
            shown="$features, blocks of $block, jo $version"
            rm -f v.img w.img
            make v.img "$features" "$block" "$version" || exit 1
            cp v.img w.img
            "$weir" fsck v.img >said 2>&1 || { echo "$name: $shown: weir fsck: $(tail -1 said)"; differs=1; }
            grep -q "1 transactions were replayed" said || { echo "$name: $shown: fsck does not tell"; differs=1; }
            "$weir" fsck --repair v.img >said 2>&1
            expect "$shown: weir fsck --repair" v.img
            e2fsck -fy w.img >/dev/null 2>&1
            expect "$shown: e2fsck -fy" w.img
            e2fsck -fn v.img >said 2>&1 || { echo "$name: $shown: e2fsck -fn after the repair"; differs=1; }
        done
    done
done
[ $differs = 0 ] && echo "$name: ok"
exit $differs
