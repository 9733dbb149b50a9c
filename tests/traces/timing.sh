#!/usr/bin/env bash
# How long a program of two threads takes, how long its replay with pace=think takes, and the replay without its computing, of a
# recording by strace and of one by preload: the gaps of strace's hold part of the tracer's cost. Prints
# figures, decides nothing: the host may be busy. The aim is a difference of at most 15 %.
#
# Program, recording and replays take turns, and each replay is compared with the program beside it. Processor time says what a busy
# host hides: that of the replay less that of asap should be the program's own, less its calls.
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
def record(how):
    trace = f"{how}.wtrace"
    if os.path.exists(trace):
        os.remove(trace)
    words = [weir, "record", "--quiet", "--how", how, "--root", "tree", "-o", trace, "--", "./two"]
    subprocess.run(words, check=True)
def replay(how, pace):
    command = [weir, "bench", f"trace:{how}.wtrace", "--fs", "host:replay", "--clock", "real", "--json", "--quiet", "-D", f"pace={pace}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    document = json.loads(out)
    sample = document.get("results", [document])[0]["samples"][0]
    assert sample["counters"]["replay.differing"] == 0, sample["notes"]
    return sample["elapsed_ns"] / 1e9, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
HOWS = ["strace", "preload"]
def turn():
    figures = {"program": timed("./two")}
    for how in HOWS:
        record(how)
        for pace in ["think", "asap"]:
            figures[how, pace] = replay(how, pace)
    return figures
rounds = [turn() for _ in range(int(os.environ.get("ROUNDS", 7)))]
median = lambda values: sorted(values)[len(values) // 2]
def medians(which):
    return [median([one[which][what] for one in rounds]) for what in (0, 1)]
print(f"load {os.getloadavg()[0]:.1f}; medians of {len(rounds)} rounds")
program = medians("program")
print(f"program          {program[0]:7.3f} s, {program[1]:.3f} s of processor time")
for how in HOWS:
    think, asap = medians((how, "think")), medians((how, "asap"))
    ratios = sorted(one[how, "think"][0] / one["program"][0] for one in rounds)
    print(f"recorded by {how}")
    print(f"replay, think    {think[0]:7.3f} s, {think[1]:.3f} s of processor time")
    print(f"replay, asap     {asap[0]:7.3f} s, {asap[1]:.3f} s of processor time")
    print(f"think to program {median(ratios):7.3f} (from {ratios[0]:.3f} to {ratios[-1]:.3f}), the aim is 0.85 to 1.15")
    print(f"processor time   {think[1] / program[1]:7.3f}, {(think[1] - asap[1]) / program[1]:.3f} without what asap takes")
PY
