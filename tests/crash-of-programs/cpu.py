"""CPU seconds of a command with all that it starts, also what leaves its group (strace -D): cpu.py COMMAND …"""
import ctypes, os, resource, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # a subreaper: orphans become ours
subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(round(used.ru_utime + used.ru_stime, 2))
