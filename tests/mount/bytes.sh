#!/usr/bin/env bash
# What a mount has moved: its result has the bytes of the reads and writes that reached it, and their numbers.
#
#   tests/mount/bytes.sh WEIR [DESIGN…]
#
# As root.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"

command -v python3 >/dev/null || { say "left out: there is no python3"; exit 0; }

# What the mount tells: bytes and counts of the sample, and of its records.
told() {
    "$weir" report "$dir" --json | python3 -c '
import json, sys
sample = json.load(sys.stdin)["samples"][0]
of = {one["kind"]: one for one in sample["operations"]}
none = {"bytes": 0, "count": 0}
read, write = of.get("read", none), of.get("write", none)
assert (read["bytes"], write["bytes"]) == (sample["read_bytes"], sample["written_bytes"]), sample
assert (read["count"], write["count"]) == (sample["read_ops"], sample["write_ops"]), sample
print(read["bytes"], write["bytes"])'
}

for design in "${designs[@]}"; do
    rm -f "$pool"
    "$weir" mount "$design" "$pool" "$dir" --size 64MiB --quiet
    [ "$(told)" = "0 0" ] || die "$design: a new mount has moved $(told) bytes"
    dd if=/dev/urandom of="$dir/file" bs=1M count=3 conv=fsync status=none
    [ "$(told)" = "0 3145728" ] || die "$design: after writing 3 MiB it tells $(told)"
    # Past the page cache, so that the read is a request; the last one is short.
    truncate -s 1M "$dir/file"
    dd if="$dir/file" of=/dev/null bs=300K iflag=direct status=none
    [ "$(told)" = "1048576 3145728" ] || die "$design: after reading 1 MiB it tells $(told)"
    "$weir" umount "$dir"
    say "$design: bytes read and written are counted"
done
