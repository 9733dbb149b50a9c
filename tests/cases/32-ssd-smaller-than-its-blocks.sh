#!/bin/bash
# The flash of a small SSD is its capacity, also where that is less than a row of pages for each of its blocks: collection works as in a
# device whose blocks fit, and what is simulated is said.
#   tests/cases/32-ssd-smaller-than-its-blocks.sh WEIR
case=32-ssd-smaller-than-its-blocks
. "$(dirname "$0")/place.sh"
needs python3
python3 - >random.fio <<'P'
import random
draw = random.Random(3)
print("fio version 3 iolog\n0 /dev/x add\n0 /dev/x open")
for n in range(300000):
    print(n * 50, "/dev/x write", draw.randrange(60000) * 4096, 4096)
P
amplification() {
    "$weir" sim flash random.fio --device "$1" >"$1.txt" 2>err || differs "$1: $(tail -n 1 err)"
    sed -n 's/.*write amplification \([0-9.]*\):.*/\1/p' "$1.txt"
}
small=$(amplification fast24,capacity=256MiB)
fitting=$(amplification fast24,capacity=256MiB,blocks=1024)
[ -n "$small" ] && [ "$small" = "$fitting" ] || differs "write amplification ${small:-none}, with blocks that fit ${fitting:-none}"
grep -q 'simulated: 256 MiB of flash, 1024 blocks of 32 KiB on each of 8 dies, not 8192' fast24,capacity=256MiB.txt ||
    differs "what is simulated is not said: $(grep simulated fast24,capacity=256MiB.txt)"
ok
