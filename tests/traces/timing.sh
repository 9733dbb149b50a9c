#!/usr/bin/env bash
# How long a program of two threads takes, how long its replay with pace=think takes, and the replay without its computing. Prints
# figures, decides nothing: the host may be busy. The aim is a difference of at most 15 %.
#
#   tests/traces/timing.sh WEIR
#
# On a tmpfs (DIR, a folder of /dev/shm), with strace and cc. The program computes, writes, syncs and reads in two threads that hand
# files to each other.
set -euo pipefail

weir=$(realpath "$1")
for need in strace cc; do command -v $need >/dev/null || { echo "skipped: $need is not installed" >&2; exit 0; }; done
work=$(mktemp -d -p "${DIR:-/dev/shm}")
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
cat >"$work/two.c" <<'C'
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>
static sem_t full, empty;
static volatile unsigned long sink;
static char data[65536];
/* About half a millisecond of computing on a processor of 3 GHz. */
static void compute(void) { for (unsigned long n = 0; n < 500000; n++) sink += n * n; }
static void *reader(void *rounds) {
    for (long n = 0; n < (long)rounds; n++) {
        char name[32];
        sem_wait(&full);
        sprintf(name, "tree/f%ld", n);
        int fd = open(name, O_RDONLY);
        while (read(fd, data, sizeof data) > 0) compute();
        close(fd);
        unlink(name);
        sem_post(&empty);
    }
    return 0;
}
int main(void) {
    long rounds = 1000;
    pthread_t thread;
    static char own[65536];
    sem_init(&full, 0, 0);
    sem_init(&empty, 0, 2);
    pthread_create(&thread, 0, reader, (void *)rounds);
    for (long n = 0; n < rounds; n++) {
        char name[32];
        sprintf(name, "tree/f%ld", n);
        sem_wait(&empty);
        compute();
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        for (int part = 0; part < 2; part++) { compute(); write(fd, own, sizeof own); }
        fsync(fd);
        close(fd);
        sem_post(&full);
    }
    pthread_join(thread, 0);
    return 0;
}
C
cd "$work"
cc -O1 -pthread -o two two.c
mkdir tree replay
python3 - "$weir" <<'PY'
import json, os, resource, subprocess, sys, time
weir = sys.argv[1]
def timed(*command):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
native = sorted(timed("./two") for _ in range(5))
subprocess.run([weir, "record", "--quiet", "--root", "tree", "-o", "two.wtrace", "--", "./two"], check=True)
def replay(*settings):
    took = []
    for _ in range(5):
        command = [weir, "bench", "trace:two.wtrace", "--fs", "host:replay", "--clock", "real", "--json", "--quiet", *settings]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        document = json.loads(out)
        sample = document.get("results", [document])[0]["samples"][0]
        assert sample["counters"]["replay.differing"] == 0, sample["notes"]
        took.append(sample["elapsed_ns"] / 1e9)
    return sorted(took)
think, asap = replay("-D", "pace=think"), replay("-D", "pace=asap")
program = native[2][0]
print(f"load {os.getloadavg()[0]:.1f}; medians of five")
print(f"program          {program:7.3f} s, {native[2][1]:.3f} s of processor time, best {native[0][0]:.3f} s")
print(f"replay, think    {think[2]:7.3f} s, best {think[0]:.3f} s: {100 * (think[2] / program - 1):+.1f} % of the program, "
      f"best to best {100 * (think[0] / native[0][0] - 1):+.1f} %")
print(f"replay, asap     {asap[2]:7.3f} s")
PY
