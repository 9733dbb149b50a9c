#!/usr/bin/env bash
# What may not change where memory has no model under load: cells of designs on the machines of papers, and on spr-server,memory=none,
# by two builds of Weir. Samples are compared as JSON, value by value.
# usage: tests/answers/memory.sh WEIR_BEFORE WEIR
set -euo pipefail
before=$(realpath "${1:?usage: memory.sh WEIR_BEFORE WEIR}")
after=$(realpath "${2:?usage: memory.sh WEIR_BEFORE WEIR}")
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export XDG_DATA_HOME=$home

# NAME WORKLOAD MEDIA MACHINE: MEDIA and MACHINE are BEFORE/AFTER where their names have changed.
cells() {
  cat <<'CELLS'
rcache varmail optane.100,hinfs rcache-server
rcache-classic fileserver classic,pmep rcache-server
hinfs fileserver hinfs,dram hinfs-server
fxmark varmail nova.pcm fxmark-server
spr varmail dram,hinfs,optane.100 spr-server/spr-server,memory=none
spr-files fileserver dram,pmep spr-server/spr-server,memory=none
spr-flat varmail cxl.asic/cxl.flat spr-server/spr-server,memory=none
CELLS
}
run() { # weir, 0 (before) or 1 (after), file of results
  local weir=$1 at=$2 name workload media machine list=()
  while read -r name workload media machine; do
    IFS=/ read -ra media <<<"$media"
    IFS=/ read -ra machine <<<"$machine"
    list=()
    for medium in $(tr , ' ' <<<"${media[$at]:-${media[0]}}"); do list+=(--medium "$medium"); done
    "$weir" bench "$workload" --fs nova,pmfs,hinfs,ext4-dax,crest "${list[@]}" --machine "${machine[$at]:-${machine[0]}}" \
      --runtime 3ms --warm-up none --repeats 1 -D nfiles=200 --threads 1,4 --quiet -o "$home/$at-$name.json" >/dev/null
  done < <(cells)
}
run "$before" 0
run "$after" 1
python3 - "$home" <<'PY'
import glob, json, os, sys
home, different, count = sys.argv[1], 0, 0
for path in sorted(glob.glob(f"{home}/0-*.json")):
    name = os.path.basename(path)[2:]
    one, other = (json.load(open(f"{home}/{at}-{name}"))["samples"] for at in (0, 1))
    assert len(one) == len(other) > 0, name
    for first, second in zip(one, other):
        for sample in (first, second):
            sample["axes"].pop("medium", None)
            sample["axes"].pop("machine", None)
        count += 1
        if json.dumps(first, sort_keys=True) != json.dumps(second, sort_keys=True):
            different += 1
            print(f"{name}: {first['axes']}: {first['throughput_ops_per_s']:.0f} and {second['throughput_ops_per_s']:.0f} operations/s")
print(f"{count} cells, {different} differ")
sys.exit(different > 0)
PY
