#!/bin/sh
# A tar archive of a ChampSim trace, and a trace of records that are not 64 bytes, are refused; the trace itself is read.
#   tests/cases/09-champsim-archives.sh WEIR
set -eu
case=09-champsim-archives
weir=$(realpath "${1:?usage: $0 WEIR}")
command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 - <<'PY'
import gzip, lzma, struct, tarfile
def record(number):
    stored = 0x7F0000000000 + 64 * (number % 256) if number % 4 == 0 else 0
    loaded = 0x7F0000200000 + 8 * (number % 1024) if number % 2 else 0
    return struct.pack("<QBB2B4B2Q4Q", 0x401000 + 4 * (number % 97), 0, 0, 1, 0, 2, 0, 0, 0, stored, 0, loaded, 0, 0, 0)
records = [record(number) for number in range(12000)]
with lzma.open("good.xz", "wb") as out:
    out.write(b"".join(records))
with gzip.open("wide.gz", "wb") as out:
    out.write(b"".join(one + bytes(32) for one in records))
open("plain.champsim", "wb").write(b"".join(records))
with tarfile.open("archive.tar.xz", "w:xz") as out:
    out.add("plain.champsim")
PY
replay() { "$weir" sim logging --scheme undo-clwb --ops 500 --transaction 16 --trace "$@" >out 2>err; }
replay good.xz || { echo "$case: the trace itself is refused: $(tail -2 err)"; exit 1; }
for given in "archive.tar.xz" "archive.tar.xz --instructions 10000" "wide.gz" "wide.gz --instructions 10000"; do
    # shellcheck disable=SC2086
    if replay $given; then echo "$case: $given is replayed"; exit 1; fi
done
replay archive.tar.xz || grep -q "tar archive" err || { echo "$case: no reason: $(cat err)"; exit 1; }
replay wide.gz || grep -q "records of another size" err || { echo "$case: no reason: $(cat err)"; exit 1; }
echo "$case: ok"
