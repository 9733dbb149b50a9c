#!/bin/bash
# After posix_fallocate no write to the range fails for lack of space, or nothing can be reserved: then fallocate(2) says so.
#   tests/cases/44-reserved-space.sh WEIR
case=44-reserved-space
. "$(dirname "$0")/place.sh"
needs python3
needs_mount
cat >reserve.py <<'P'
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
LENGTH = 4 << 20
file = os.open(sys.argv[1] + "/reserved", os.O_RDWR | os.O_CREAT)
for mode in (0, 1):  # 1: FALLOC_FL_KEEP_SIZE
    done = libc.fallocate(file, mode, ctypes.c_long(0), ctypes.c_long(LENGTH))
    said = "EOPNOTSUPP" if ctypes.get_errno() == errno.EOPNOTSUPP else errno.errorcode.get(ctypes.get_errno())
    print("fallocate", mode, said if done else "ok")
os.posix_fallocate(file, 0, LENGTH)  # where fallocate(2) does nothing, the C library writes
print("size", os.fstat(file).st_size)
for name, piece in (("fill", 1 << 20), ("rest", 4096)):
    try:
        full = os.open(f"{sys.argv[1]}/{name}", os.O_WRONLY | os.O_CREAT)
        while True:
            os.write(full, b"x" * piece)
            os.fsync(full)
    except OSError as refused:
        assert refused.errno == errno.ENOSPC, refused
failed = 0
for turn in range(3):
    for at in range(0, LENGTH, 4096):
        try:
            os.pwrite(file, bytes([turn + 1]) * 4096, at)
        except OSError:
            failed += 1
    os.fsync(file)
print("failed", failed > 0)
P
for design in pmfs ext4 crest nova squirrelfs wofs; do
    mounts $design $design.pool m --size 64MiB
    python3 reserve.py m >said 2>err || differs "$design: $(tail -n 1 err)"
    leaves m
    case $design in
        crest | nova | wofs) expected="fallocate 0 EOPNOTSUPP fallocate 1 EOPNOTSUPP size 4194304" ;;
        # No mode of fallocate(2), but a page that a file has stays its own.
        squirrelfs) expected="fallocate 0 EOPNOTSUPP fallocate 1 EOPNOTSUPP size 4194304 failed False" ;;
        *) expected="fallocate 0 ok fallocate 1 ok size 4194304 failed False" ;;
    esac
    [[ "$(tr '\n' ' ' <said)" == "$expected"* ]] || differs "$design: $(tr '\n' ' ' <said)in place of $expected"
done
ok
