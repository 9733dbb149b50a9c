"""The rates in the JSON that compare.sh has collected: medians of fio's and Weir's, by job and direction, their ratio, that of
their best rounds, and the median latencies of a call, which other work on the host disturbs less than the rates."""

import json
import os
import statistics
import sys


def fio_rates(path):
    """IOPS and median latency in microseconds of each job and direction that did anything; clones of one name are put together
    as fio's groups are."""
    rates, latencies = {}, {}
    with open(path) as file:
        text = file.read()
    for job in json.loads(text[text.index("{"):])["jobs"]:
        for direction in ("read", "write"):
            side = job[direction]
            if side["total_ios"]:
                key = (job["jobname"], direction)
                ios, time = rates.get(key, (0, 0))
                rates[key] = (ios + side["total_ios"], max(time, side["runtime"]))
                latencies.setdefault(key, []).append(side["clat_ns"]["percentile"]["50.000000"] / 1000)
    return {key: (ios * 1000 / time, statistics.mean(latencies[key])) for key, (ios, time) in rates.items() if time}


def samples(value):
    """Every sample in a document of Weir's, wherever it is."""
    if isinstance(value, dict):
        if "jobs" in value and "axes" in value:
            yield value
        for inner in value.values():
            yield from samples(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from samples(inner)


def weir_rates(path):
    with open(path) as file:
        (sample,) = list(samples(json.load(file)))
    rates = {}
    for job in sample["jobs"]:
        if job["direction"] in ("read", "write") and not job["name"].startswith("group "):
            key = (job["name"], job["direction"])
            rates[key] = (job["count"] * 1e9 / job["elapsed_ns"], job["clat_ns"]["p50_ns"] / 1000)
    return rates


def fio_counts(text):
    """I/Os and bytes of each direction in fio's JSON, all jobs together."""
    counts = {}
    for job in json.loads(text[text.index("{"):])["jobs"]:
        for direction in ("read", "write"):
            side = job[direction]
            add(counts, direction, side["total_ios"], side["io_bytes"])
    return counts


def weir_counts(text):
    """The same of Weir's; what is read back to be verified counts as read, as at fio."""
    counts = {}
    for sample in samples(json.loads(text)):
        for job in sample["jobs"]:
            direction = "read" if job["direction"] == "verify" else job["direction"]
            if direction in ("read", "write") and not job["name"].startswith("group "):
                add(counts, direction, job["count"], job["bytes"])
    return counts


def add(counts, direction, ios, moved):
    if ios:
        before = counts.get(direction, (0, 0))
        counts[direction] = (before[0] + ios, before[1] + moved)


def main():
    work, rounds, jobs = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    print(f"{'job file':<14} {'job':<10} {'direction':<9} {'fio IOPS':>10} {'weir IOPS':>10} {'weir/fio':>8} {'best/best':>9} {'range of the ratio':>18}   p50 of a call in us: fio, weir, weir/fio")
    for job in jobs:
        name = os.path.splitext(os.path.basename(job))[0]
        pairs = []
        for round_ in range(1, rounds + 1):
            base = os.path.join(work, f"{name}.{round_}")
            pairs.append((fio_rates(base + ".fio.json"), weir_rates(base + ".weir.json")))
        for key in pairs[0][0]:
            # Each round is a pair on the same directory, one right after the other.
            found = [(fio[key], weir[key]) for fio, weir in pairs if key in fio and key in weir]
            if not found:
                print(f"{name:<14} {key[0]:<10} {key[1]:<9} weir counts it apart (verify)")
                continue
            both = [(fio[0], weir[0]) for fio, weir in found]
            fio_us, weir_us = (statistics.median(side[1] for side in sides) for sides in zip(*found))
            latency = f"{fio_us:.2f} {weir_us:.2f} {weir_us / fio_us:.2f}"
            best = max(weir for _, weir in both) / max(fio for fio, _ in both)
            fio, weir = (statistics.median(side) for side in zip(*both))
            ratios = sorted(b / a for a, b in both)
            spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
            ratio = statistics.median(ratios)
            print(f"{name:<14} {key[0]:<10} {key[1]:<9} {fio:>10.0f} {weir:>10.0f} {ratio:>8.2f} {best:>9.2f} {spread:>18}   {latency}")


if __name__ == "__main__":
    main()
