#!/usr/bin/env bash
# One design under two labels that run other seeds, and the second made 5 % faster: how often a page of three workloads names a winner.
# usage: tests/answers/same.sh WEIR [SEEDS]
set -euo pipefail
weir=$(realpath "${1:?usage: same.sh WEIR [SEEDS]}")
seeds=${2:-200}
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export XDG_DATA_HOME=$home

# Small sets of files: a sample takes milliseconds, and its length is random in what it opens and writes.
for seed in $(seq "$seeds"); do
  "$weir" bench varmail webproxy webserver --fs pmfs --threads 2 -D nfiles=100 --runtime 20ms --repeats 12 --seed "$seed" \
    --quiet -o "$home/$seed.json" >/dev/null
done
python3 - "$weir" "$home" "$seeds" <<'PY'
import copy, csv, json, subprocess, sys
weir, home, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3])

def winners(result, faster):
    """The winners that the page of `result` names when its later repeats are another design's, with `faster` times the rate."""
    page = copy.deepcopy(result)
    page["environment"].pop("commit", None)
    # Both are settings of one design: the error of the model's ratios is of different ones.
    page["prices"]["designs"] = {"first": "pmfs", "second": "pmfs"}
    for sample in page["samples"]:
        second = sample["repeat"] >= 6
        sample["axes"]["fs"] = "second" if second else "first"
        sample["repeat"] %= 6
        if second:
            sample["throughput_ops_per_s"] *= faster
    path = f"{home}/page.json"
    json.dump(page, open(path, "w"))
    subprocess.run([weir, "report", path, "--tables", f"{home}/tables", "--quiet"], check=True)
    return [(row["best"], row["verdict"]) for row in csv.DictReader(open(f"{home}/tables/verdicts.csv"))]

pages = places = named = false_pages = planted = found = 0
words = {}
for seed in range(1, seeds + 1):
    result = json.load(open(f"{home}/{seed}.json"))
    same = [verdict == "wins" for _, verdict in winners(result, 1.0)]
    pages, places, named, false_pages = pages + 1, places + len(same), named + sum(same), false_pages + any(same)
    faster = winners(result, 1.05)
    planted += len(faster)
    found += sum(best == "second" and verdict == "wins" for best, verdict in faster)
    for _, verdict in faster:
        words[verdict] = words.get(verdict, 0) + 1
print(f"{pages} pages of one design: {false_pages} name a winner; of {places} places {named}")
print(f"5 % planted: {found} of {planted} places name the faster one ({words})")
if false_pages > 0.05 * pages or found < 0.8 * planted:
    sys.exit(1)
PY
