#!/bin/sh
# Commands that are passed through to a device are left out of a trace of blkparse and counted; a trace of a device mapper, which
# issues nothing, is replayed as its requests were queued, and says so.
#   tests/cases/15-blkparse.sh WEIR
set -eu
case=15-blkparse
weir=$(realpath "${1:?usage: $0 WEIR}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >disk.txt <<'TRACE'
  8,16   1        1     0.000000000   901  Q  WS 4096 + 16 [writer]
  8,16   1        2     0.000002000   901  D  WS 4096 + 16 [writer]
  8,16   1        3     0.000090000     0  C  WS 4096 + 16 [0]
  8,16   1        4     0.000120000   902  D   R 252 (12 00 00 00 fc 00 ..) [hdparm]
  8,16   1        5     0.000150000   902  D   R 512 (85 08 0e 00 d0 00 ..) [smartctl]
  8,16   1        6     0.000200000   901  D   R 8192 + 8 [writer]
TRACE
cat >mapper.txt <<'TRACE'
253,3    0        1     0.000000000  77  Q  WS 2048 + 8 [jbd2]
253,3    0        2     0.000100000   0  C  WS 2048 + 8 [0]
253,3    0        3     0.000200000  77  Q  R 4096 + 8 [cat]
253,3    0        4     0.000300000   0  C  R 4096 + 8 [0]
TRACE
value() { grep -o "\"$1\": *[a-z0-9]*" out.json | grep -o '[a-z0-9]*$' | head -1; }
for file in disk mapper; do
    "$weir" sim flash $file.txt --json >out.json 2>err || { echo "$case: $file.txt: $(tail -2 err)"; exit 1; }
    mv out.json $file.json
done
cp disk.json out.json
[ "$(value requests) $(value passed_through_skipped) $(value queued)" = "2 2 false" ] ||
    { echo "$case: $(value requests) requests, $(value passed_through_skipped) passed through, in place of 2 and 2"; exit 1; }
cp mapper.json out.json
[ "$(value requests) $(value queued)" = "2 true" ] || { echo "$case: the mapper's: $(value requests) $(value queued)"; exit 1; }
"$weir" sim flash mapper.txt | grep -q "queued (Q)" || { echo "$case: it does not say that requests are the queued ones"; exit 1; }
echo "$case: ok"
