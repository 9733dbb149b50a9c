#!/bin/sh
# Of blkparse's text, FN is a flush, F behind W is FUA and F before it a flush: on an SSD without capacitor the pages that are padded
# are those of fio's log of the same writes and syncs. A request that the device hands back counts once.
#   tests/cases/28-flush-and-fua.sh WEIR
set -eu
case=28-flush-and-fua
weir=$(realpath "${1:?usage: $0 WEIR}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
{
    printf 'fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n'
    for at in 0 1 2 3 4 5 6 7 8 9; do
        printf '%d000 /dev/x write %d 4096\n%d500 /dev/x sync 0 0\n' $at $((at * 4096)) $at
    done
} >log.fio
for at in 0 1 2 3 4 5 6 7 8 9; do
    printf '  8,0    1 %8d     0.00%d000000   901  D  WS %d + 8 [w]\n' $((2 * at + 1)) $at $((at * 8)) >>flush.txt
    printf '  8,0    1 %8d     0.00%d500000   901  D  FN [kworker/1:1H]\n' $((2 * at + 2)) $at >>flush.txt
    printf '  8,0    1 %8d     0.00%d000000   901  D WFS %d + 8 [w]\n' $((at + 1)) $at $((at * 8)) >>fua.txt
    printf '  8,0    1 %8d     0.00%d000000   901  D  WS %d + 8 [w]\n' $((3 * at + 1)) $at $((at * 8)) >>requeued.txt
    printf '  8,0    1 %8d     0.00%d100000   901  R  WS %d + 8 [0]\n' $((3 * at + 2)) $at $((at * 8)) >>requeued.txt
    printf '  8,0    1 %8d     0.00%d200000   901  D  WS %d + 8 [w]\n' $((3 * at + 3)) $at $((at * 8)) >>requeued.txt
done
value() { "$weir" sim flash "$1" --device fast24,capacitor=no --json | grep -o "\"$2\": *[0-9]*" | grep -o '[0-9]*$' | head -1; }
want=$(value log.fio padded_pages)
[ "$want" -gt 0 ] || { echo "$case: fio's log pads no page"; exit 1; }
for file in flush.txt fua.txt; do
    got=$(value $file padded_pages)
    [ "$got" = "$want" ] || { echo "$case: $file: $got pages are padded in place of $want"; exit 1; }
done
[ "$(value requeued.txt requests)" = 10 ] || { echo "$case: $(value requeued.txt requests) requests in place of 10"; exit 1; }
echo "$case: ok"
