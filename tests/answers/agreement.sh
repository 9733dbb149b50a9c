#!/usr/bin/env bash
# How far the virtual clock under the prices `ran` agrees with the real one: FxMark's nineteen benchmarks, one task, memory without extra
# cost, on seven designs. Needs a quiet host and `weir calibrate` on it.
# usage: tests/answers/agreement.sh WEIR [RUNTIME] [BENCHMARK…]
#        default: 100ms a measurement, all nineteen; three rounds, in which the designs take turns
#        tests/answers/agreement.sh WEIR 20ms MRPL DRBL DWOL    a short form of three benchmarks
set -euo pipefail
weir=$(realpath "${1:?usage: agreement.sh WEIR [RUNTIME] [BENCHMARK...]}")
runtime=${2:-100ms}
shift $(($# > 2 ? 2 : $#))
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export XDG_DATA_HOME=$home/data
designs=${DESIGNS:-crest,nova,pmfs,hinfs,rcache,redo,ext4}
# Without names of benchmarks, the suite.
names=("${@/#/fxmark/}")
[ $# -gt 0 ] || names=(fxmark)
machine=${MACHINE:-this-host}

bench() { "$weir" bench "${names[@]}" --fs "$designs" --medium dram --threads 1 --quiet --json "$@"; }
bench --clock real --runtime "$runtime" --repeats 3 >"$home/real.json"
bench --machine "$machine" --prices ran --runtime "${VIRTUAL:-5ms}" >"$home/virtual.json"
python3 - "$home" <<'PY'
import itertools, json, math, statistics, sys
from collections import defaultdict

DIFFERS = math.log(1.15)

def read(name, rate):
    """By benchmark, round and design: operations a second."""
    rates = defaultdict(lambda: defaultdict(dict))
    for sample in json.load(open(f"{sys.argv[1]}/{name}.json"))["samples"]:
        if sample.get("failed") or not sample.get("throughput_ops_per_s"):
            continue
        axes = sample["axes"]
        rates[axes["workload"].removeprefix("fxmark/")][sample["repeat"]][axes["fs"]] = rate(sample)
    return rates

def of_cpu(sample):
    """For each second of processor time of the measured workers: what else runs on the host costs nothing."""
    workers = [worker for worker in sample["workers"] if not worker["background"]]
    return sum(worker["ops"] for worker in workers) * 1e9 / sum(worker["cpu_ns"] for worker in workers)

real, virtual = read("real", of_cpu), read("virtual", lambda sample: sample["throughput_ops_per_s"])
rows, marks = {}, defaultdict(list)
for name, rounds in real.items():
    now = next(iter(virtual[name].values()), {})
    fs = [design for design in now if all(design in of for of in rounds.values())]
    rows[name] = {design: ([of[design] for of in rounds.values()], now[design]) for design in fs}
    logs = {design: math.log(statistics.median(rows[name][design][0])) for design in fs}
    mean = statistics.fmean(logs.values()) if logs else 0
    for design, log in logs.items():
        marks[design].append(log - mean)
# The null: the same rank of designs in every row.
rank = {design: statistics.fmean(values) for design, values in marks.items()}

pairs = agree = by_rank = 0
errors, blind, wrong = [], [], []
print(f"{'':6} " + " ".join(f"{design:>16}" for design in rank))
for name, row in rows.items():
    cells = (f"{1e9 / statistics.median(was):7.0f} /{1e9 / now:6.0f}" if design in row else "-"
             for design in rank for was, now in [row.get(design, ([1], 1))])
    print(f"{name:6} " + " ".join(f"{cell:>16}" for cell in cells) + "  ns an operation, real / virtual")
    for one, other in itertools.combinations(row, 2):
        (was, now), (was_other, now_other) = row[one], row[other]
        logs = [math.log(a / b) for a, b in zip(was, was_other)]
        measured, modelled = statistics.median(logs), math.log(now / now_other)
        errors.append(abs(modelled - measured))
        blind.append(abs(measured))
        if min(logs) > DIFFERS or max(logs) < -DIFFERS:
            pairs += 1
            same = (modelled > 0) == (measured > 0)
            agree += same
            by_rank += (rank[one] > rank[other]) == (measured > 0)
            if not same:
                wrong.append((abs(measured), f"{name}: {one} to {other} {math.exp(measured):.2f} real, {math.exp(modelled):.2f} virtual"))
if not pairs:
    sys.exit("no two designs differ by 15 % in each round: is the host busy?")
for _, line in sorted(wrong, reverse=True)[:12]:
    print("other order: ", line)
median, null = statistics.median(errors), statistics.median(blind)
print(f"{len(rows)} benchmarks; {pairs} pairs differ by 15 % in each round")
print(f"in the same order: {agree} ({agree / pairs:.0%}); at least 92 % wanted; one rank for all rows: {by_rank} ({by_rank / pairs:.0%})")
print(f"median |ln(ratio virtual / ratio real)|: {median:.3f}; at most 0.12 and {null / 2:.3f} wanted, half of {null:.3f} with each design at the row's mean")
if agree < 0.92 * pairs or median > 0.12 or median > null / 2:
    sys.exit(1)
PY
