#!/bin/bash
# Processes that the program leaves running are recorded until they end, also those that have made no call yet when it ends.
#   tests/cases/27-daemon.sh WEIR
case=27-daemon
. "$(dirname "$0")/traces.sh"
needs python3
cat >daemon.py <<'P'
import os, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
time.sleep(0.4)
fd = os.open("by-daemon", os.O_WRONLY | os.O_CREAT, 0o644)
os.write(fd, b"x" * 1000)
os.close(fd)
P
records "$work/p.wtrace" --how preload -- "$(python3 -c 'import sys; print(sys.executable)')" ../daemon.py
[ -e d/by-daemon ] || differs "the recording has ended before the process that was left running"
[ "$(told "$work/p.wtrace" by-daemon)" = 1000 ] || differs "its 1000 bytes are not in the trace"
ok
