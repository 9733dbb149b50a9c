#!/usr/bin/env bash
# Twelve cells (a workload, two designs, a medium) at lengths a tenfold apart: no two lengths name different winners, and at the longest
# at least eight cells have one.
# usage: tests/answers/cells.sh WEIR [LENGTH…]
set -euo pipefail
weir=$(realpath "${1:?usage: cells.sh WEIR [LENGTH...]}")
shift
here=$(dirname "$(realpath "$0")")
lengths=("$@")
[ ${#lengths[@]} -gt 0 ] || lengths=(40ms 120ms 400ms)
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export XDG_DATA_HOME=$home

for length in "${lengths[@]}"; do
  for plan in "$here"/cells/*.toml; do
    sed "s/^stop = .*/stop = \"$length\"/" "$plan" >"$home/plan.toml"
    "$weir" run "$home/plan.toml" --quiet -o "$home/result.json" >/dev/null
    name=$length-$(basename "$plan" .toml)
    "$weir" report "$home/result.json" --tables "$home/$name" --quiet
  done
done
python3 - "$home" "${lengths[@]}" <<'PY'
import csv, sys
home, lengths = sys.argv[1], sys.argv[2:]
seen = {}
for length in lengths:
    for plan in ("buffered", "logged", "metadata"):
        for row in csv.DictReader(open(f"{home}/{length}-{plan}/verdicts.csv")):
            place = (row["axis.workload"], f'{row["best"]} {row["rival"]}'.split(), row["axis.medium"])
            place = (place[0], tuple(sorted(place[1])), place[2])
            winner = row["best"] if row["verdict"] in ("wins", "within error") else None
            seen.setdefault(place, {})[length] = (winner, float(row["ratio"]), row["verdict"])
bad = 0
for (workload, designs, medium), found in sorted(seen.items()):
    named = {winner for winner, _, _ in found.values() if winner}
    bad += len(named) > 1
    shown = "  ".join(f"{length}: {w or '-'} {r:.2f} ({v})" for length, (w, r, v) in found.items())
    print(f'{workload.split("/")[1]:10} {" ".join(designs):14} {medium:11} {shown}')
last = [found[lengths[-1]][0] for found in seen.values()]
print(f"{len(seen)} cells; {bad} with two winners; {sum(map(bool, last))} with a winner at {lengths[-1]}")
if len(seen) != 12 or bad or sum(map(bool, last)) < 8:
    sys.exit(1)
PY
