#!/usr/bin/env python3
"""What must hold of memory under load, by the published rows: errors with and without the rows by which constants were chosen, beside
those of an idle latency and a queue; greatest traffic, caches, STREAM, stores past the caches, saturation. Then the errors of fit.py on
what is left out.

usage: tests/memory/bars.py WEIR [ROWS.toml]     (rows: presets/validation/memory.toml). Two minutes with a release build.
"""
import json, os, pathlib, re, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if len(sys.argv) not in (2, 3):
    sys.exit(__doc__.strip().splitlines()[-1])
WEIR = str(pathlib.Path(sys.argv[1]).resolve())
FILE = str(pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else ROOT / "presets/validation/memory.toml").resolve())


def run_only(*words, home=None):
    env = {**os.environ, "XDG_DATA_HOME": home} if home else None
    done = subprocess.run([WEIR, *words], capture_output=True, text=True, env=env)
    # 1: a limit is missed, which is a result as well.
    if done.returncode > 1:
        sys.exit(f"weir {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def run(*words):
    return json.loads(run_only(*words))


def medium(*words):
    return run("sim", "medium", *words, "--json")["measured"]


def value(*words):
    return medium(*words)[0]["value"]


def middle(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


missed = 0


def bar(name, what, holds, known=None):
    """`known`: the cause of a miss, which is printed beside it."""
    global missed
    missed += not holds
    print(f"{name:4} {'holds ' if holds else 'MISSED'} {what}" + ("" if holds or known is None else f"; {known}"))


def errors(rows):
    parts = [row["error"] for row in rows]
    return (f"{len(rows)} rows: mean {100 * sum(parts) / len(parts):.1f} %, median {100 * middle(parts):.1f} %, "
            f"most {100 * max(parts):.1f} %") if rows else "no row"


document = run("validate", FILE, "--json")
rows = document["rows"]
left = [row["id"] for row in rows if row.get("left_out", {}).get("kind") == "command"]
bar("rows", f"{sum(row.get('measured') is not None for row in rows)} of {len(rows)} measured, {len(left)} left out for the command", not left)
for control in document["controls"]:
    if control["name"] == "N7":
        print(f"     {control['what']}: {control['found']}")
        print("".join(f"       {line}\n" for line in control.get("lines", [])), end="")
for fitted, what in ((True, "by which constants were chosen"), (False, "by which none was chosen")):
    counted = [row for row in rows if row.get("measured") and row["compared"] in ("yes", "band") and bool(row.get("fitted_by")) == fitted]
    print(f"     rows {what}: {errors(counted)}")


def named(pattern, ways=("yes", "band")):
    return [row for row in rows if re.search(pattern, row["id"]) and row["compared"] in ways and row.get("measured")]


own = r"^mess\.spr8480\.avx512"
fitted = named(own + r".*\.bw", ("yes",))
mean = sum(row["error"] for row in fitted) / len(fitted)
bar("B1", f"own machine, its fitted shares: {errors(fitted)} (mean at most 1 %)", mean <= 0.01)
most = named(own + r".*\.max")
bar("B3", f"own machine, greatest traffic by share: {errors(most)} (each at most 5 %)", max(row["error"] for row in most) <= 0.05)

idle, over = named(own + r"\.rd100\.idle"), named(r"^dmsim\.over\.cxl-asic")
bar("B7", f"idle: dram {errors(idle)} (3 %); cxl.asic over local {errors(over)} (5 %)",
    all(row["error"] <= 0.03 for row in idle) and all(row["error"] <= 0.05 for row in over))
cold = named(r"\.cold\.|^dmsim\.memo\.")
outside = [row["id"] for row in cold if row["error"] > row["band"]]
bar("B7", f"cold accesses: {errors(cold)}, {len(outside)} outside of their bands {' '.join(outside)}", not outside,
    "known: two runs of one access to local memory had medians of 169 and 231 ns, and a tail that dram has not" if
    all(name.startswith("gnr.dram.") for name in outside) else None)


chase = named(r"^dmsim\.(rand|seq)\.")
# Their files say which rows are at the edge of a cache: 1.5 to 3 MiB and 64 to 192 MiB.
plain = [row for row in chase if row["band"] <= 0.15]
edges = [row for row in chase if row["band"] > 0.15]
outside = [row for row in chase if not re.search(r"--chase (64|96|128|192)MiB", row["command"])]
bar("B8", f"chase outside of 64 to 192 MiB: {errors(outside)} (each at most 15 %, median 6 %)",
    max(row["error"] for row in outside) <= 0.15 and middle([row["error"] for row in outside]) <= 0.06)
print(f"     outside of the edges of both caches: {errors(plain)}")
small = [row for row in edges if re.search(r"--chase [123][.5]*MiB", row["command"])]
edges = [row for row in edges if row not in small]
print(f"     at the edge of L2: {errors(small)}")
worst = max(plain, key=lambda row: row["error"])
print(f"     at the edge of L3: {errors(edges)}; outside of edges the worst is {worst['id']}, {100 * worst['error']:.1f} %")

ratios, values = named(r"^dmsim\.stream\.ratio\."), named(r"^dmsim\.stream\.(copy|add|scale|triad)\.")
bar("B9", "STREAM of one thread, CXL-ASIC by local: " + ", ".join(f"{row['measured']:.2f}" for row in ratios)
    + f" (0.75 to 0.91); values {errors(values)} (each at most 25 %)",
    all(0.75 <= row["measured"] <= 0.91 for row in ratios) and max(row["error"] for row in values) <= 0.25)

def read_ns(where):
    """The mean time of a read of 4 KiB by one thread, on NOVA."""
    with tempfile.TemporaryDirectory() as home:
        out = f"{home}/result.json"
        words = ["bench", "validation/read.fio", "--fs", "nova", "--medium", where, "--machine", "spr-server", "-D", "BS=4k", "-D", "SZ=64m"]
        run_only(*words, "--warm-up", "none", "--repeats", "1", "--quiet", "-o", out, home=home)
        [sample] = json.load(open(out))["samples"]
        [read] = [one for one in sample["operations"] if one["kind"] == "read"]
        return read["total_ns"] / read["count"]


near, far = read_ns("dram"), read_ns("cxl.asic")
bar("B9", f"a read of 4 KiB by one thread on NOVA: {near:.0f} ns on dram, {far:.0f} on cxl.asic, {far / near:.2f} (at most 1.35)",
    far / near <= 1.35)

local = ("dram", "--machine", "spr-server")
card = ("cxl.asic", "--machine", "spr-server")
for name, where, low, high in (("cxl.asic", card, 0.6, 0.8), ("dram", local, 0.8, 1.0)):
    ratio = value(*where, "--cold", "nt") / value(*where, "--cold", "load")
    bar("B10", f"{name}: a cold store past the caches by a load {ratio:.2f} ({low} to {high})", low <= ratio <= high)
tail = value(*card, "--cold", "load", "--stat", "p99") / value(*card, "--cold", "load", "--stat", "p50")
bar("B10", f"cxl.asic: p99 by p50 of a cold load {tail:.2f} (1.45 to 1.75)", 1.45 <= tail <= 1.75)
for name, where, threads, low, high in (("cxl.asic", card, "16", 1.2, 1.5), ("dram", local, "56", 0.72, 0.85)):
    reads, mixed = (one["value"] for one in medium(*where, "--max", "--reads", "100,50", "--threads", threads))
    bar("B10", f"{name}: reads and writes one to one by reads alone {mixed / reads:.2f} ({low} to {high})", low <= mixed / reads <= high)

found = [medium(*local, "--max", "--reads", "100", "--threads", "56", "--time", time)[0] for time in ("2ms", "4ms", "8ms")]
parts = [one["value"] * 1e9 / one["cap_bytes_per_s"] - 1 for one in found]
bar("B11", "56 tasks without a pause, 2, 4, 8 ms: " + ", ".join(f"{100 * part:+.2f} %" for part in parts) + " of the fixed point (2 %)",
    all(abs(part) <= 0.02 for part in parts))
print("     latency of bins: sim's test memory::saturated_tasks_reach_the_greatest_traffic_and_never_pass_it_and_latency_stands_still")

print("\nwhat is left out (tests/memory/fit.py):", flush=True)
missed += subprocess.run([sys.executable, str(HERE / "fit.py"), FILE]).returncode
print(f"{missed} missed" if missed else "ok: all of these hold")
sys.exit(missed > 0)
