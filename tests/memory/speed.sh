#!/usr/bin/env bash
# What memory under load costs the host: CPU time of plans on spr-server by that of the same with memory=none, in turns, and of ten million
# loads beside a traffic of 50 GB/s. With a release build on a quiet host: at most 1.10 times, and ten seconds.
# usage: tests/memory/speed.sh WEIR [ROUNDS]
set -euo pipefail
weir=$(realpath "${1:?usage: speed.sh WEIR [ROUNDS]}")
rounds=${2:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data TIMEFORMAT='%U %S'
cd "$work"
cpu() { # a command: its seconds of CPU
  { time "$@" >/dev/null 2>&1 </dev/null; } 2>&1 | awk '{ print $1 + $2 }'
}
least() { sort -g "$1" | head -1; }

plan() { # name, workload, arguments
  local name=$1 machine at
  shift
  for _ in $(seq "$rounds"); do
    for machine in spr-server,memory=none spr-server; do
      cpu "$weir" bench "$@" --machine "$machine" --jobs 1 --quiet >>"$name.$machine"
    done
  done
  awk -v name="$name" -v one="$(least "$name.spr-server,memory=none")" -v other="$(least "$name.spr-server")" \
    'BEGIN { printf "%-12s %6.2f s without, %6.2f s with memory under load: %.2f\n", name, one, other, other / one
             exit other / one > 1.10 }' || slow="$slow $name"
}
slow=
plan varmail filebench/varmail --fs pmfs,hinfs,nova,crest --medium hinfs --threads 4 --runtime 20ms --repeats 2
plan fileserver filebench/fileserver --fs pmfs,nova,crest --medium dram --threads 8 --runtime 20ms --repeats 2 -D nfiles=400
loads=$(cpu "$weir" sim medium dram --machine spr-server --loaded --traffic 50GB/s --threads 8 --time 1230ms)
echo "10 million loads beside 50 GB/s: $loads s"
awk -v loads="$loads" 'BEGIN { exit loads > 10 }' || slow="$slow loads"
[ -z "$slow" ] || { echo "too slow:$slow"; exit 1; }
