#!/usr/bin/env bash
# WOFS and SquirrelFS against their artifacts: bias and errors of the rows that no price was fitted on, beside a model that knows NOVA
# alone (NOVA as modelled times the mean published ratio), ratios over NOVA, and orders that a right implementation shows.
# usage: tests/answers/rivals.sh WEIR      minutes; exit code 1 where a bar is missed
set -euo pipefail
weir=$(realpath "${1:?usage: rivals.sh WEIR}")
cd "$(dirname "$0")/../.."
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export XDG_DATA_HOME=$home
rows=presets/validation
"$weir" validate $rows/rivals.toml $rows/wofs.toml $rows/squirrelfs.toml --quiet --json --only wofs.fb.fileserver --only wofs.mt.write. \
  --only wofs.write. --only wofs.randread. --only wofs.fx.MRPL --only sqfs.fb.varmail --only sqfs.append_1k --only sqfs.creat. \
  --only sqfs.read_1k >"$home/rows.json" 2>"$home/limits" || [ $? = 1 ] # limits of all rows are not asked here
python3 - "$home/rows.json" $rows/../originals/wofs.toml $rows/../originals/squirrelfs.toml <<'P'
import json, math, sys, tomllib

found = json.load(open(sys.argv[1]))
fitted = {row for file in sys.argv[2:] for row in tomllib.load(open(file, "rb"))["fitted_on"]}
rows = {row["id"]: row for row in found["rows"] if row.get("measured") is not None}
missed = []

def speed(row, value):
    return row[value] if row["better"] == "high" else 1 / row[value]

def nova(row):
    """NOVA's row of the same group; a regulated writer has that of a plain one."""
    name = row["id"].removesuffix("." + row["design"]).removesuffix(".regulated")
    return rows.get(name + ".nova")

def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))

def middle(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2

def bar(holds, says):
    print(f"  {'holds' if holds else 'MISSED'}: {says}")
    if not holds:
        missed.append(says)

for design in ("wofs", "squirrelfs"):
    own = [row for row in rows.values() if row["design"] == design]
    print(f"{design}: {len(own)} rows, {sum(row['id'] in fitted for row in own)} of them fitted")
    print(f"  {'row':34} {'published':>12} {'model':>12} {'model by published':>18} {'by NOVA: published, model':>26}")
    for row in own:
        off = speed(row, "measured") / speed(row, "published")
        other = nova(row)
        ratios = [speed(row, key) / speed(other, key) for key in ("published", "measured")] if other else []
        by = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        mark = " fitted" if row["id"] in fitted else ""
        print(f"  {row['id']:34} {row['published']:12.6g} {row['measured']:12.6g} {off:18.2f} {by:>26}{mark}")
    if design == "squirrelfs":
        print("  no validation: bands of 30 %, the processor is not printed")
        continue
    free = [row for row in own if row["id"] not in fitted and row["compare"].startswith("yes") and nova(row)]
    off = [speed(row, "measured") / speed(row, "published") for row in free]
    ratio = mean(speed(row, "published") / speed(nova(row), "published") for row in free)
    null = [speed(nova(row), "measured") * ratio / speed(row, "published") for row in free]
    error = lambda value: abs(value - 1)
    print(f"  {len(free)} rows are not fitted: bias {mean(off):.2f}, median error {middle(map(error, off)):.1%}")
    print(f"  NOVA as modelled x {ratio:.2f}: bias {mean(null):.2f}, median error {middle(map(error, null)):.1%}")
    bar(0.85 <= mean(off) <= 1.18, "bias from 0.85 to 1.18")
    bar(middle(map(error, off)) <= 0.20, "median error at most 20 %")
    bar(middle(map(error, off)) < middle(map(error, null)), "a smaller median error than the model that knows NOVA alone")
    over = lambda row, key: speed(row, key) / speed(nova(row), key)
    near = sum(error(over(row, "measured") / over(row, "published")) <= 0.25 for row in free)
    bar(near >= 0.8 * len(free), f"the ratio over NOVA is within 25 % in 80 % of the rows ({near} of {len(free)})")
    bar(2 * len(free) >= len(own), "half of the rows, at least, are not fitted")

def at(name):
    return speed(rows[name], "measured")

sizes = ["256", "1k", "4k", "16k", "32k"]
print("orders")
bar(all(at(f"wofs.write.{size}.wofs") > at(f"wofs.write.{size}.nova") for size in sizes), "WOFS writes every size faster than NOVA")
bar(all(at(f"wofs.write.{s}.wofs") > at(f"wofs.write.{s}.ext4-dax") for s in sizes), "WOFS writes every size faster than ext4-dax")
bar(at("wofs.write.256.wofs") > 5 * at("wofs.write.256.nova"), "WOFS's writes of 256 bytes are 5 times NOVA's")
bar(at("wofs.write.4k.wofs") >= 0.85 * 2259, "one writer has 0.85 of the raw medium")
bar(at("wofs.mt.write.16.wofs") < at("wofs.mt.write.4.wofs"), "16 plain writers have less than 4")
bar(at("wofs.mt.write.16.regulated.wofs") >= 1.3 * at("wofs.mt.write.16.wofs"), "16 regulated writers have 1.3 times as much as plain ones")
server = lambda threads, design: at(f"wofs.fb.fileserver.{threads}.{design}")
bar(all(server(n, "wofs") > server(n, "nova") for n in (1, 4)), "fileserver: WOFS before NOVA up to 4 threads")
bar(server(16, "wofs") < server(16, "nova"), "fileserver: NOVA before WOFS with 16")
bar(abs(at("wofs.fx.MRPL.wofs") / at("wofs.fx.MRPL.nova") - 1) <= 0.03, "MRPL: WOFS and NOVA within 3 %")
bar(at("sqfs.append_1k.squirrelfs") > 2 * at("sqfs.append_1k.nova"), "SquirrelFS's first append takes less than half of NOVA's")
bar(abs(at("sqfs.creat.squirrelfs") / at("sqfs.creat.nova") - 1) <= 0.1, "SquirrelFS's creat is within 10 % of NOVA's")
bar(at("sqfs.read_1k.squirrelfs") < at("sqfs.read_1k.nova"), "SquirrelFS reads slower than NOVA")
bar(at("sqfs.fb.varmail.squirrelfs") > at("sqfs.fb.varmail.nova"), "varmail: SquirrelFS before NOVA")
print(f"missed: {len(missed)}")
sys.exit(bool(missed))
P
