#!/bin/bash
# A file of a recorded mount that has got a second name, which was removed again, has the first one.
#   tests/cases/37-link-and-unlink.sh WEIR
case=37-link-and-unlink
. "$(dirname "$0")/traces.sh"
needs_mount
mounts pmfs pool m --size 64MiB --record links.wtrace
(cd m && echo hello >mail && ln mail mail.lock && rm mail.lock && echo more >>mail && ln mail other && rm mail && echo last >>other)
real=$(stat -c %s m/other)
leaves m
[ "$(told links.wtrace other) $(missing links.wtrace)" = "$real 0" ] ||
    differs "the file has $real bytes, in the trace $(told links.wtrace other), $(missing links.wtrace) requests missing"
"$weir" bench trace:links.wtrace --fs nova --medium dram --quiet >bench.log 2>&1 || differs "the replay: $(tail -n 1 bench.log)"
ok
