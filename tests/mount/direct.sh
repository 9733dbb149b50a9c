#!/usr/bin/env bash
# Direct and buffered I/O on one file at once: what the page cache keeps afterwards must be what is in the file.
#
#   tests/mount/direct.sh WEIR [DESIGN…]
#
# As root, with fio (libaio). Asynchronous direct writes, many in flight, run beside buffered readers of the same range; then the quiet
# file is read both ways. ROUNDS (6) says how often. A canary first: a comparison that does not notice a stale page proves nothing.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
rounds=${ROUNDS:-6}

compare() {
    dd if="$1" bs=1M status=none | sha256sum >"$work/buffered"
    dd if="$2" bs=1M iflag=direct status=none | sha256sum >"$work/direct"
    cmp -s "$work/buffered" "$work/direct"
}

canary() {
    head -c 1M /dev/urandom >"$dir/one"
    head -c 1M /dev/urandom >"$dir/two"
    ! compare "$dir/one" "$dir/two" || die "the comparison notices nothing"
    rm "$dir/one" "$dir/two"
}

command -v fio >/dev/null || die "fio is missing"
for design in "${designs[@]}"; do
    for cache in pages direct; do
        rm -f "$pool"
        "$weir" mount "$design" "$pool" "$dir" --size 256MiB --quiet -o "cache=$cache"
        canary
        head -c 40M /dev/zero >"$dir/file"
        for round in $(seq "$rounds"); do
            fio --filename="$dir/file" --size=40M --allow_file_create=0 --output="$work/fio" \
                --name=buffered --ioengine=psync --rw=randread --bs=4k --numjobs=4 --invalidate=0 --time_based --runtime=3 \
                --name=direct --ioengine=libaio --direct=1 --rw=randwrite --bs=640k --iodepth=32 --refill_buffers --loops=4 \
                --startdelay=1 --randseed="$round" || die "fio: $(cat "$work/fio")"
            compare "$dir/file" "$dir/file" || die "$design, cache=$cache, round $round: the page cache is stale"
        done
        "$weir" umount "$dir"
        "$weir" fsck --quiet "$pool" >/dev/null
        say "$design, cache=$cache: $rounds rounds, nothing was stale"
    done
    record mount/direct --subject "$design" --unit rounds --count $((2 * rounds))
done
