#!/usr/bin/env bash
# Answers on spr-server with memory that is the same at every traffic (before) and with memory under load (after), and which orders of
# designs differ: of README.md, docs/tutorial.md, the plan quick and Crest's plans. Before is the machine with `memory=none`, and
# cxl.flat in the place of cxl.asic. Crest's plans are shortened: fewer files, 2 ms, one run, one price, one number of threads.
# usage: tests/memory/answers.sh WEIR [NAME…]   (names: readme tutorial journal quick crest-filebench crest-fxmark)
set -euo pipefail
weir=$(realpath "${1:?usage: answers.sh WEIR [NAME...]}")
shift
names=" ${*:-readme tutorial journal quick crest-filebench crest-fxmark} "
root=$(dirname "$(realpath "$0")")/../..
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
cd "$work"

machine=([0]=spr-server,memory=none [1]=spr-server)
card=([0]=cxl.flat [1]=cxl.asic)
wanted() { [[ $names == *" $1 "* ]]; }
compare() { # name
  python3 - "$1" <<'PY'
import json, statistics, sys
LEVEL = 1.02  # closer designs have no order
changed = cells = 0
def rates(path):
    places = {}
    for sample in json.load(open(path))["samples"]:
        axes = dict(sample["axes"])
        design = axes.pop("fs")
        axes["medium"] = axes.get("medium", "").replace("cxl.flat", "cxl.asic")
        place = tuple(sorted((k, v) for k, v in axes.items() if k not in ("machine", "prices")))
        # A sample in which no call ended says nothing of a rate.
        if not sample.get("failure") and sample["throughput_ops_per_s"] > 0:
            places.setdefault(place, {}).setdefault(design, []).append(sample["throughput_ops_per_s"])
    return {place: {d: statistics.median(v) for d, v in of.items()} for place, of in places.items()}
name = sys.argv[1]
old, new = rates(f"0-{name}.json"), rates(f"1-{name}.json")
assert old.keys() == new.keys() and old, f"{name}: other cells"
for place in sorted(new):
    one, other = old[place], new[place]
    both = sorted(one.keys() & other.keys(), key=lambda d: -other[d])
    print(f"{name}: {' '.join(v for _, v in place)}")
    for design in both:
        print(f"  {design:14} {one[design]:14.0f} {other[design]:14.0f} /s   x{other[design] / one[design]:.2f}")
    cells += len(both)
    for i, first in enumerate(both):
        for second in both[i + 1:]:
            before, now = one[first] / one[second], other[first] / other[second]
            if (before >= LEVEL) != (now >= LEVEL) or (before <= 1 / LEVEL) != (now <= 1 / LEVEL):
                changed += 1
                print(f"  order: {first} by {second} was {before:.2f} and is {now:.2f}")
print(f"{name}: {cells} cells; {changed} orders of two designs changed (level: within {100 * (LEVEL - 1):.0f} %)")
PY
}
bench() { # name, and the arguments of weir bench, in which CARD is the medium of the card
  local name=$1 at
  shift
  wanted "$name" || return 0
  for at in 0 1; do
    "$weir" bench "${@/CARD/${card[$at]}}" --machine "${machine[$at]}" --quiet -o "$at-$name.json" >/dev/null
  done
  compare "$name"
}
plan() { # name, and a script of sed for both
  local name=$1 at
  wanted "$name" || return 0
  for at in 0 1; do
    sed -e "s/\"spr-server\"/\"${machine[$at]}\"/; s/\"cxl.asic\"/\"${card[$at]}\"/; $2" -e '/^\[quick\]/,$d; /^\[\[figure\]\]/,$d' "$root/presets/plans/$name.toml" \
      >"$at-$name.toml"
    # 4: runs of some cells failed, and are left out.
    "$weir" run "$at-$name.toml" --quiet -o "$at-$name.json" >/dev/null || [ $? = 4 ]
  done
  compare "$name"
}

bench readme varmail --fs crest,nova,pmfs,hinfs,ext4-dax --medium CARD --threads 8 --runtime 20ms --repeats 6
bench tutorial varmail --fs pmfs,hinfs,nova --medium CARD --threads 8 --runtime 100ms --repeats 6
sed -n "/^cat > journal.f/,/^END$/p" "$root/docs/tutorial.md" | sed '1d;$d' >journal.f
bench journal journal.f --fs pmfs,nova,ext4-dax --medium CARD --medium dram --runtime 50ms --repeats 6
plan quick ''
short='s/^prices = .*/prices = "ran"/; s/^threads = .*/threads = [10]/; s/^repeats = .*/repeats = 1/; s/^warm_up = .*/warm_up = "none"/'
plan crest-filebench "$short; s/^stop = \"50ms\"/stop = \"2ms\"/; s/{ nfiles = [0-9]*/{ nfiles = 200/; s/\"optane.100x6\", //"
plan crest-fxmark "$short; s/\"optane.100x6\", //; s/, \"hinfs\", \"dram\"\]/]/"
