#!/usr/bin/env bash
# Four threads hand files to each other ROUNDS times (10,000): 50 schedules of the replay must give the recorded results, and
# without the order of the trace at least one must differ.
#
#   tests/traces/order.sh WEIR
#
# The program is recorded by strace, if that is there; a trace of the same calls that is written by a script is replayed as well.
set -euo pipefail

weir=$(realpath "$1")
rounds=${ROUNDS:-10000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
say() { printf '%s\n' "$*" >&2; }
die() {
    say "FAILED: $*"
    exit 1
}

# Thread k of four makes, hands on, reads or removes, in turn.
cat >"$work/hand.py" <<'PY'
import os, sys, threading
rounds, ready = int(sys.argv[1]), [threading.Semaphore(0) for _ in range(4)]
def make(n): os.close(os.open("n", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
def hand(n): os.rename("n", "r")
def look(n):
    fd = os.open("r", os.O_RDONLY); os.read(fd, 100); os.close(fd)
def drop(n): os.unlink("r")
acts = [make, hand, look, drop]
def work(own):
    for n in range(rounds):
        place = (own - n) % 4
        ready[place].acquire()
        acts[place](n)
        ready[(place + 1) % 4].release()
threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
for thread in threads: thread.start()
ready[0].release()
for thread in threads: thread.join()
PY
cat >"$work/write.py" <<'PY'
import sys
print("#weir-trace 1\n#root /r")
for thread in range(1, 5): print(f'T {thread} 1 {thread} ""')
for thread in range(2, 5): print(f"F 1 {thread} 0 thread,files")
for n in range(int(sys.argv[1])):
    at = [(place + n) % 4 + 1 for place in range(4)]
    print(f'{at[0]} 0 0 open "n" wronly,creat,excl 0600 = 3\n{at[0]} 0 0 close 3 = 0\n{at[1]} 0 0 rename "n" "r" - = 0')
    print(f'{at[2]} 0 0 open "r" rdonly 00 = 3\n{at[2]} 0 0 read 3 100 = 0\n{at[2]} 0 0 close 3 = 0\n{at[3]} 0 0 unlink "r" = 0')
PY

differing() { # TRACE REPEATS VARIABLES…
    local trace=$1 repeats=$2
    shift 2
    "$weir" bench "trace:$trace" --fs pmfs --medium dram --repeats "$repeats" --json --quiet -D pace=asap -D jitter=20us "$@" \
        2>"$work/err" |
        python3 -c 'import json, sys
document = json.load(sys.stdin)
samples = [sample for result in document.get("results", [document]) for sample in result["samples"]]
times = {sample["elapsed_ns"] for sample in samples}
print(sum(sample["counters"]["replay.differing"] for sample in samples), len(samples), len(times))' || true
}

cd "$work"
mkdir tree
python3 write.py "$rounds" >written.wtrace
traces=(written.wtrace)
if command -v strace >/dev/null; then
    (cd tree && "$weir" record --quiet -o ../recorded.wtrace -- python3 ../hand.py "$rounds")
    traces+=(recorded.wtrace)
else
    say "left out: strace is not installed"
fi
for trace in "${traces[@]}"; do
    read -r wrong samples times <<<"$(differing "$trace" 50)"
    [ "$samples" = 50 ] && [ "$wrong" = 0 ] || die "$trace: $wrong results differ in $samples schedules: $(cat err)"
    [ "$times" -gt 40 ] || die "$trace: the schedules do not differ: $times times"
    read -r wrong samples _ <<<"$(differing "$trace" 1 -D order=thread)"
    [ "$samples" = 1 ] && [ "$wrong" -gt 0 ] || die "$trace: canary: without the order nothing differs"
    say "$trace: $rounds rounds, 50 schedules, 0 results differ; without the order $wrong"
done
