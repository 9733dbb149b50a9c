#!/bin/bash
# Where counters are refused, the reason is the kernel's, with its remedy: a seccomp profile, also to root, by EPERM or ENOSYS.
#   tests/cases/36-counters-refused.sh WEIR
case=36-counters-refused
. "$(dirname "$0")/place.sh"
export XDG_DATA_HOME=$work/data
needs python3
[ "$(uname -m)" = x86_64 ] || skip "the filter is one for x86-64"
cat >denied.py <<'P'
# Runs a command with perf_event_open(2), number 298, answered by an error, as container engines do.
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
LOAD, JUMP_IF_EQUAL, RETURN, ALLOW, ERRNO = 0x20, 0x15, 0x06, 0x7FFF0000, 0x50000
code = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, 298), (RETURN, 0, 0, ERRNO | int(sys.argv[1])), (RETURN, 0, 0, ALLOW)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
if libc.prctl(22, 2, ctypes.byref(Program(len(code), ctypes.cast(text, ctypes.c_void_p)))):  # PR_SET_SECCOMP, filter
    sys.exit(77)
os.execv(sys.argv[2], sys.argv[2:])
P
for error in 1:EPERM 38:ENOSYS; do
    code=0
    python3 denied.py "${error%:*}" "$weir" doctor >out 2>&1 || code=$?
    [ "$code" != 77 ] || skip "no filter can be set here"
    grep -q "${error#*:}: a seccomp profile of this process forbids perf_event_open" out ||
        differs "${error#*:}: $(grep -m1 "${error#*:}\|perf_event" out || tail -n 1 out)"
    grep -q 'cap-add PERFMON' out || differs "${error#*:}: no remedy is named"
done
ok
