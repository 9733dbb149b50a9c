#!/bin/bash
# A descriptor that comes over a socket is the sender's open file, with its position: by strace and by preload.
#   tests/cases/26-passed-descriptors.sh WEIR
case=26-passed-descriptors
. "$(dirname "$0")/traces.sh"
needs python3
needs_strace
cat >pass.py <<'P'
import array, os, socket
a, b = socket.socketpair()
if os.fork() == 0:
    _, about, _, _ = b.recvmsg(1, 64)
    fds = array.array("i")
    fds.frombytes(about[0][2])
    os.write(fds[0], b"x" * 3000)
    os._exit(0)
fd = os.open("shared", os.O_RDWR | os.O_CREAT, 0o644)
os.write(fd, b"a" * 100)
a.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
os.wait()
os.write(fd, b"b" * 20)
P
for how in strace preload; do
    rm -f d/shared
    records "$work/$how.wtrace" --how $how -- "$(python3 -c 'import sys; print(sys.executable)')" ../pass.py
    agrees "$work/$how.wtrace" shared "$how"
    [ "$(told "$work/$how.wtrace" shared)" = 3120 ] || differs "$how: the file has 3120 bytes, in the trace $(told "$work/$how.wtrace" shared)"
done
"$weir" bench trace:strace.wtrace --fs nova --medium dram --check --quiet >bench.log 2>&1 ||
    differs "the replay differs: $(grep -m1 differ bench.log) $(tail -n 1 bench.log)"
ok
