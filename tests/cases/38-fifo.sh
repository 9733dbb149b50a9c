#!/bin/bash
# A program that talks through a FIFO is replayed without that, on designs and on a directory of the host, and never waits for ever.
#   tests/cases/38-fifo.sh WEIR
case=38-fifo
. "$(dirname "$0")/traces.sh"
needs_strace
records "$work/f.wtrace" -- sh -c 'mkfifo pipe; (cat pipe >got) & echo hello >pipe; wait'
equal "$work/f.wtrace" got "through a FIFO"
"$weir" bench trace:f.wtrace --fs nova --medium dram --check >bench.log 2>&1 || differs "on a design: $(grep -m1 '^error' bench.log)"
grep -q 'FIFO' bench.log || differs "what is not made is not told"
mkdir host
timeout -k 2 60 "$weir" bench trace:f.wtrace --fs "host:$work/host" --clock real >bench.log 2>&1
[ $? -lt 124 ] || differs "on a directory of the host the replay waits for ever"
ok
