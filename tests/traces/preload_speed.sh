#!/usr/bin/env bash
# What a call costs more with the preloaded recorder than without: a program that reads, alone and recorded, in turns. Prints figures,
# decides nothing: the host may be busy. The aim is at most 0.5 us of the calling thread's processor time, which is what a busy host
# leaves comparable; elapsed time holds what the reader of the rings takes of the cores, and waits of a program that is faster than it.
#
#   tests/traces/preload_speed.sh WEIR
#
# CALLS (1000000) preads of BYTES (4096) by THREADS (1) threads on a tmpfs (DIR, a folder of /dev/shm), ROUNDS (7) rounds. The program
# times its own loop, so that starting and ending are not in it.
set -euo pipefail

weir=$(realpath "$1")
command -v cc >/dev/null || { echo "skipped: cc is not installed" >&2; exit 0; }
work=$(mktemp -d -p "${DIR:-/dev/shm}")
trap 'rm -rf "$work"' EXIT
cat >"$work/reads.c" <<'C'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static int file;
static long calls, bytes;
static double cpu;
static void *reads(void *none) {
    char *data = malloc(bytes);
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (long call = 0; call < calls; call++) pread(file, data, bytes, call % 16 * 4096);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    cpu = ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / calls;
    return none;
}
int main(int count, char **args) {
    calls = atol(args[1]), bytes = atol(args[2]);
    int threads = atoi(args[3]);
    pthread_t all[threads];
    static char block[65536];
    file = open("tree/file", O_RDWR | O_CREAT, 0600);
    write(file, block, sizeof block);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int at = 0; at < threads; at++) pthread_create(&all[at], 0, reads, 0);
    for (int at = 0; at < threads; at++) pthread_join(all[at], 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    dprintf(1, "%.1f %.1f\n", cpu, ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / calls);
    return count != 4;
}
C
cd "$work"
mkdir tree
cc -O1 -w -pthread -o reads reads.c
WEIR="$weir" python3 - "${CALLS:-1000000}" "${BYTES:-4096}" "${THREADS:-1}" "${ROUNDS:-7}" <<'PY'
import os, subprocess, sys
calls, size, threads, rounds = sys.argv[1:]
program = ["./reads", calls, size, threads]
recorder = os.environ.get("RECORDER", "").split() or [
    os.environ["WEIR"], "record", "--quiet", "--how", "preload", "--root", "tree", "-o", "reads.wtrace", "--"]
def run(command):
    if os.path.exists("reads.wtrace"):
        os.remove("reads.wtrace")
    return tuple(map(float, subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()))
pairs = [(run(program), run(recorder + program)) for _ in range(int(rounds))]
median = lambda values: sorted(values)[len(values) // 2]
print(f"load {os.getloadavg()[0]:.1f}; {rounds} rounds of {calls} calls of {threads} threads, ns a call")
for what, name in enumerate(["processor time of a thread", "elapsed"]):
    more = sorted(recorded[what] - alone[what] for alone, recorded in pairs)
    alone, recorded = (median([pair[which][what] for pair in pairs]) for which in (0, 1))
    print(f"{name:<27} alone {alone:6.0f}, recorded {recorded:6.0f}, more {median(more):6.0f} (from {more[0]:.0f} to {more[-1]:.0f})")
print("the aim is at most 500 more of processor time")
PY
