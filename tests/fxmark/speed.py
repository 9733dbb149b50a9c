"""Ratios of operations per second of processor time, from a result of `weir bench fxmark --clock real`.

usage: speed.py RESULT.json      the file system that is a directory of the host is what the others are divided by
"""

import json
import math
import statistics
import sys
from collections import defaultdict


def rate(sample):
    """Operations for each second of processor time of the measured workers."""
    workers = [worker for worker in sample["workers"] if not worker["background"]]
    return sum(worker["ops"] for worker in workers) * 1e9 / sum(worker["cpu_ns"] for worker in workers)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        samples = json.load(file)["samples"]
    rates = defaultdict(dict)
    for sample in samples:
        axes = sample["axes"]
        point = (axes["workload"].removeprefix("fxmark/"), int(axes.get("threads", 1)), sample["repeat"])
        rates[point][axes["fs"]] = rate(sample)
    host = next(fs for fs in next(iter(rates.values())) if fs.startswith("host:"))
    columns = sorted({(fs, point[1]) for point, by_fs in rates.items() for fs in by_fs if fs != host})
    ratios = defaultdict(list)
    for (name, threads, _), by_fs in rates.items():
        for fs in by_fs.keys() - {host}:
            ratios[name, fs, threads].append(by_fs[fs] / by_fs[host])
    print("| |", " | ".join(f"{fs}, {threads} thread{'s' * (threads > 1)}" for fs, threads in columns), "|")
    print("|---|" + "---:|" * len(columns))
    for name in dict.fromkeys(point[0] for point in rates):
        print(f"| {name} |", " | ".join(f"{statistics.median(ratios[name, *c]):.2f}" for c in columns), "|")
    means = []
    for column in columns:
        logs = [math.log(statistics.median(values)) for key, values in ratios.items() if key[1:] == column]
        means.append(f"{math.exp(statistics.fmean(logs)):.2f}")
    print("| geometric mean |", " | ".join(means), "|")


main()
