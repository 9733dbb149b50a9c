#!/bin/bash
# Text of `strace -f` as it goes to the terminal: the first process has no number until there is a second, and what strace says of a new
# one stands within a line.
#   tests/cases/34-pid-form.sh WEIR
case=34-pid-form
. "$(dirname "$0")/traces.sh"
needs python3
needs_strace
python=$(python3 -c 'import sys; print(sys.executable)')
(cd d && strace -f "$python" -c '
import os, threading
fd = os.open("x", os.O_RDWR | os.O_CREAT)
os.write(fd, b"one")
t = threading.Thread(target=lambda: os.write(fd, b"two")); t.start(); t.join()
os.write(fd, b"three"); os.close(fd)' 2>../text >/dev/null) || skip "strace may not trace here"
"$weir" trace import strace text --root "$work/d" -o t.wtrace >log 2>&1 || differs "$(tail -n 1 log)"
[ "$("$weir" trace show t.wtrace | grep -c ' write ')" = 3 ] || differs "3 writes in the text, $("$weir" trace show t.wtrace | grep -c ' write ') in the trace: $(tail -n 2 log)"
[ "$(told t.wtrace x)" = 11 ] || differs "the file has 11 bytes, in the trace $(told t.wtrace x)"
grep -q 'not understood' log && differs "$(grep 'not understood' log)"
ok
