"""Checks what acceptance.sh has run: acceptance.py WHAT FILES… Each check prints a line, or what is wrong."""

import collections
import json
import math
import pathlib
import random
import sys

# Anscombe, Graphs in statistical analysis, The American Statistician, 1973.
FIRST = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
QUARTET = [
    (FIRST, [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]),
    (FIRST, [9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74]),
    (FIRST, [7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73]),
    ([8] * 7 + [19] + [8] * 3, [6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89]),
]
# Pearson's coefficient of each is 0.816 to three digits; Spearman's, by hand from the ranks.
RANKS = [0.818, 0.691, 0.991, 0.500]
PLANTED, POINTS, SEEDS = -0.9, 150, 100


def sample_of(path):
    document = json.load(open(path))
    return document.get("results", [document])[0]["samples"][0]


def need(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def with_columns(result, columns):
    """A result whose samples have these rates, for 1,000 instructions, and throughputs."""
    samples = []
    for workload, pairs in columns.items():
        for repeat, (rate, throughput) in enumerate(pairs):
            counters = {"sim_instructions": 10**9, "sim_dtlb_misses": round(rate * 10**6), "sim_ops": 1}
            events = {"simulated": "made up", "events": [{"name": name} for name in counters]}
            axes = {"fs": "a", "workload": workload}
            samples.append(
                {"axes": axes, "repeat": repeat, "seed": 1, "elapsed_ns": 10**9, "ops": 1, "throughput_ops_per_s": throughput,
                 "read_ops": 0, "write_ops": 0, "read_bytes": 0, "written_bytes": 0, "errors": 0, "operations": [],
                 "counters": counters, "events": events}
            )
    return {**result, "samples": samples}


def statistics(one, quartet, planted):
    document = json.load(open(one))
    result = document.get("results", [document])[0]
    columns = {f"quartet{at}": list(zip(*pair)) for at, pair in enumerate(QUARTET)}
    json.dump(with_columns(result, columns), open(quartet, "w"))
    columns = {}
    for seed in range(SEEDS):
        source = random.Random(seed)
        xs = [source.gauss(0, 1) for _ in range(POINTS)]
        noise = math.sqrt(1 - PLANTED**2)
        columns[f"seed{seed}"] = [(5 + x / 2, 1000 + 100 * (PLANTED * x + noise * source.gauss(0, 1))) for x in xs]
    json.dump(with_columns(result, columns), open(planted, "w"))


def relations(path):
    """The coefficients for 1,000 instructions by workload."""
    all_of = json.load(open(path))["results"][0]["relations"]
    own = [one for one in all_of if one["per"] == "1,000 instructions" and one["counter"] == "sim_dtlb_misses"]
    return {one["workload"]: one for one in own}


def quartet(path):
    found = relations(path)
    for at, ranks in enumerate(RANKS):
        one = found[f"quartet{at}"]["correlation"]
        r, error = one["r"], one["error"]
        need(abs(r - 0.816) < 0.001, f"r of Anscombe's {at + 1} is {r}, not 0.816")
        need(abs(error - math.sqrt((1 - r * r) / 9)) < 1e-9, f"its error is {error}")
        z = [math.atanh(r) + side * 1.959964 / math.sqrt(8) for side in (-1, 1)]
        need(all(abs(end - math.tanh(by)) < 1e-4 for end, by in zip(one["interval"], z)), f"its interval is {one['interval']}")
        need(abs(one["rank_r"] - ranks) < 0.001, f"its rank coefficient is {one['rank_r']}, not {ranks}")
    chances = sorted((one["correlation"]["chance"], one["corrected_chance"]) for one in found.values())
    least = 0.0
    for at, (chance, corrected) in enumerate(chances):
        least = max(least, min(1.0, chance * (len(chances) - at)))
        need(abs(corrected - least) < 1e-9, f"Holm makes {least} of {chance}, not {corrected}")
    print("1 statistics: Anscombe's quartet has r 0.816, its errors, intervals, ranks, and chances corrected after Holm")


def planted(path):
    found = [one["correlation"] for one in relations(path).values()]
    need(len(found) == SEEDS, f"{len(found)} coefficients of {SEEDS} seeds")
    near = sum(abs(one["r"] - PLANTED) <= 2 * one["error"] for one in found)
    need(near >= 90, f"only {near} of {SEEDS} are within two errors of {PLANTED}")
    worst = max(one["error"] for one in found)
    need(worst <= 0.08, f"an error is {worst:.3f} with {POINTS} points")
    print(f"2 planted: {near} of {SEEDS} seeds find {PLANTED} within two errors, the largest {worst:.3f}")


def events(path):
    states = {event["event"]: event["state"] for event in json.load(open(path))["events"]}
    wrong = sorted(name for name, state in states.items() if state == "implausible")
    need(not wrong, f"implausible: {', '.join(wrong)}")
    need(states["event.page_faults"] == "ok", f"page faults: {states['event.page_faults']}")
    if states.get("event.instructions") != "ok":
        print("3 events: page faults are exact; skipped: self-tests of the processor's events, of which this host shows none")
        return
    print(f"3 events: {sum(state == 'ok' for state in states.values())} of {len(states)} count what is known")


def ffsb(path, folder):
    sample = sample_of(path)
    drawn = {kind: sample["counters"][f"ffsb.drawn.{kind}"] for kind in ("read", "write")}
    count = sum(drawn.values())
    need(count >= 100_000, f"only {count} operations")
    share = 100 * drawn["read"] / count
    need(abs(share - 70) <= 1, f"{share:.2f} % reads, where 70 are asked for")
    for way in ("read", "write"):
        bytes_of = sample["read_bytes" if way == "read" else "written_bytes"]
        need(bytes_of == 4096 * sample[f"{way}_ops"], f"{sample[f'{way}_ops']} blocks of {way} are {bytes_of} bytes")
    sizes = collections.Counter(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file())
    allowed = {size << 10 for size in (4, 8, 16, 32, 64, 128, 256, 512)}
    need(sum(sizes.values()) == 200 and set(sizes) <= allowed, f"files have grown: {sorted(sizes)}")
    print(f"4 ffsb: {share:.2f} % reads of {count} operations, each a block of 4 KiB; no file has grown")


def bonnie(path, size):
    sample, size = sample_of(path), int(size)
    moved = {step["name"]: step["bytes"] for step in sample["steps"]}
    for name in ("putc", "block-write", "rewrite", "getc", "block-read"):
        need(moved[name] == size, f"{name} moved {moved[name]} of {size} bytes")
    tickets, updates = (sample["counters"][f"bonnie.seeks.{name}"] for name in ("tickets", "updates"))
    need(tickets == 4000, f"{tickets} tickets")
    # Of each of three processes the first of ten: the sum of ceil(n / 10) over processes that have taken n.
    need(400 <= updates <= 402, f"{updates} chunks were written back")
    print(f"5 bonnie: each pass moves {size} bytes; {tickets} seeks, {updates} of them write")


def tpcc(path, layer):
    sample = sample_of(path)
    need(sample.get("failure") is None and sample["errors"] == 0, f"{layer}: {sample.get('failure')}")
    counts = {step["name"]: step["count"] for step in sample["steps"]}
    mix = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}
    total = sum(counts.values())
    for name, percent in mix.items():
        share = 100 * counts[name] / total
        need(abs(share - percent) <= 1, f"{layer}: {share:.2f} % {name}, where {percent} are asked for")
    share = sample["counters"]["tpcc.write_share_permille"] / 10
    print(f"7 tpcc, {layer}: the mix of {total} transactions is right to 1 %, conditions 1 to 4 hold, {share:.1f} % writes")


def same(one, other, name):
    rows = [json.load(open(path)) for path in (one, other)]
    rows = [document.get("results", [document])[0]["samples"] for document in rows]
    for sample in (sample for samples in rows for sample in samples):
        sample.pop("host", None)
    need(rows[0] == rows[1], f"two runs of {name} with one seed differ")
    print(f"8 the same: two runs of {name} with one seed, {len(rows[0])} samples")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
