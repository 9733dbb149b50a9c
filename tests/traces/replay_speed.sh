#!/usr/bin/env bash
# Calls of a trace that a replay in this process makes in a second of processor time, on --medium dram under the virtual clock.
# Prints figures, decides nothing. The aim is 500,000.
#
#   tests/traces/replay_speed.sh [CALLS]   default: 1000000
#   WEIR=path/to/weir                      default: target/release/weir
set -eu

here=$(cd "$(dirname "$0")" && pwd)
weir=${WEIR:-$here/../../target/release/weir}
[ -x "$weir" ] || { echo "replay_speed.sh: $weir is not there: build it with cargo build --release, or set WEIR" >&2; exit 2; }
command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
cd "$work"
python3 - "${1:-1000000}" "$weir" <<'PY'
import os, random, resource, subprocess, sys
calls, weir = int(sys.argv[1]), sys.argv[2]
draw = random.Random(42)
def write(name, threads):
    with open(name, "w") as out:
        print("#weir-trace 1\n#root /r", file=out)
        for thread in range(1, threads + 1): print(f'T {thread} 1 {thread} ""', file=out)
        for thread in range(2, threads + 1): print(f"F 1 {thread} 0 thread,files", file=out)
        for n in range(calls // 8):
            thread, fd, name = n % threads + 1, n % threads + 3, f"d{n % 50}/f{draw.randrange(5000)}"
            if n % 10 == 0: name = f"shared/{n % 20}"
            for line in (f'stat "{name}" = 0', f'open "{name}" rdwr 00 = {fd}', f"fstat {fd} = 0", f"read {fd} 4096 = 4096",
                         f"pread {fd} 512 1024 = 512", f"pwrite {fd} 512 2048 = 512", f"lseek {fd} 0 set = 0", f"close {fd} = 0"):
                print(thread, 300, 900, line, file=out)
def took(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([weir, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
with open("empty.wtrace", "w") as out: print('#weir-trace 1\n#root /r\nT 1 1 1 ""\n1 0 0 sync = 0', file=out)
print(f"{calls} calls, load {os.getloadavg()[0]:.1f}; the least processor time of three")
for threads in (1, 8):
    write("t.wtrace", threads)
    subprocess.run([weir, "trace", "compile", "t.wtrace", "-o", "t.wprog", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    load = min(took("trace", "tree", "t.wprog") for _ in range(3)) - min(took("trace", "tree", "empty.wtrace") for _ in range(3))
    for fs in ("pmfs", "nova"):
        # A replay of one call: the command, the design, the report.
        base = load + min(took("bench", "trace:empty.wtrace", "--fs", fs, "--medium", "dram") for _ in range(3))
        for pace in ("asap", "think"):
            command = ("bench", "trace:t.wprog", "--fs", fs, "--medium", "dram", "-D", f"pace={pace}", "--jobs", "1")
            best = min(took(*command) for _ in range(3))
            print(f"{threads} threads  {fs:<5} {pace:<6} {best:6.2f} s, {base:5.2f} s of it to begin, load and report: "
                  f"{calls / (best - base) / 1e6:5.2f} million calls a second")
    os.remove("t.wprog")
PY
