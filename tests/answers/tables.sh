#!/usr/bin/env bash
# Tidy tables as pandas reads them: sums do not double, and histograms give the percentiles of the page.
# usage: tests/answers/tables.sh WEIR
set -euo pipefail
weir=$(realpath "${1:?usage: tables.sh WEIR}")
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export XDG_DATA_HOME=$home

python=
look() { for one in python3 /usr/bin/python3; do "$one" -c 'import pandas' 2>/dev/null && python=$one && return; done; false; }
if ! look; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && { apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-pandas; } \
    >/dev/null 2>&1 || true
  look || { echo "left out: there is no pandas"; exit 0; }
fi
"$weir" bench varmail --fs pmfs,nova --threads 2,4 --repeats 2 --runtime 5ms -D nfiles=100 --quiet -o "$home/result.json" >/dev/null
"$weir" report "$home/result.json" --tables "$home/tables" -o "$home/page.md" --quiet
"$python" - "$home" <<'PY'
import json, math, re, sys
import pandas as pd
home = sys.argv[1]
read = lambda name: pd.read_csv(f"{home}/tables/{name}.csv")
samples, calls, times, counters, histograms = map(read, ["samples", "calls", "times", "counters", "histograms"])
result = json.load(open(f"{home}/result.json"))

assert len(samples) == len(result["samples"]) and samples["axis.threads"].dtype.kind in "if"
assert samples.ops.sum() == sum(sample["ops"] for sample in result["samples"])
assert calls.time_ns.sum() == sum(op["total_ns"] for sample in result["samples"] for op in sample["operations"])
activity = times[times.split == "activity"].groupby(["sample", "call"]).time_ns.sum()
assert (activity == calls.set_index(["sample", "call"]).time_ns.reindex(activity.index)).all()
whole = counters.groupby(["sample", "counter"]).value.sum()
for number, sample in enumerate(result["samples"]):
    for counter in whole[number].index:
        assert whole[number][counter] == sample["counters"][counter], counter

def percentile(rows, p):
    rows = rows.groupby("high_ns")["count"].sum().sort_index()
    return rows.index[(rows.cumsum() >= math.ceil(p * rows.sum())).argmax()]

units = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
page, compared = open(f"{home}/page.md").read(), 0
heads = None
for line in page.splitlines():
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    if "p99" in cells and "threads" in cells:
        heads = cells
    elif heads and len(cells) == len(heads) and cells[heads.index("threads")].isdigit():
        row = dict(zip(heads, cells))
        design = next(value for value in cells if value in ("pmfs", "nova"))
        of = histograms[(histograms["axis.fs"] == design) & (histograms["axis.threads"] == int(row["threads"]))]
        of = of[of.grain == "call"]
        for name, p in (("p50", .5), ("p99", .99)):
            number, unit = re.match(r"([\d.]+) (\S+)", row[name]).groups()
            shown, ours = float(number) * units[unit], percentile(of, p)
            assert abs(shown - ours) <= 0.006 * ours, (design, row["threads"], name, shown, ours)
            compared += 1
    elif not line.startswith("|"):
        heads = None
assert compared == 8, compared
print(f"ok: pandas {pd.__version__}: {len(samples)} samples, {len(histograms)} rows of histograms, {compared} percentiles of the page")
PY
