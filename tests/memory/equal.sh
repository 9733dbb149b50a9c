#!/usr/bin/env bash
# What may not change where no memory has a model under load: loops of the media of papers, and cells of designs on the machines of papers
# and on spr-server,memory=none. Results are compared as JSON to the byte, but for what ran them.
#
# With one build each result is held against its hash in equal.txt; with two against that of the other build. A change of a design or of a
# workload changes hashes of cells, on purpose: --write puts the new ones there, and the change says why. Loops depend on media only.
# Beside them the values of the published rows of Optane, and with --whole those of wofs.toml and squirrelfs.toml (minutes).
# usage: tests/memory/equal.sh WEIR [--write | WEIR_BEFORE] [--whole]
set -euo pipefail
weir=$(realpath "${1:?usage: equal.sh WEIR [--write | WEIR_BEFORE] [--whole]}")
rows=(optane)
[[ " $* " != *" --whole "* ]] || rows+=(wofs squirrelfs)
other=${2:-}
[ "$other" != --whole ] || other=
validation=$(dirname "$(realpath "$0")")/../../presets/validation
kept=$(dirname "$(realpath "$0")")/equal.txt
[ -z "$other" ] || [ "$other" = --write ] || other=$(realpath "$other")
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
cd "$work"

# NAME WORKLOAD MEDIA MACHINE: MEDIA and MACHINE are NOW/BEFORE where a build of before memory under load has other names.
cells() {
  cat <<'CELLS'
rcache varmail optane.100,hinfs rcache-server
rcache-classic fileserver classic,pmep rcache-server
hinfs fileserver hinfs,dram hinfs-server
fxmark varmail nova.pcm fxmark-server
spr varmail dram,hinfs,optane.100 spr-server,memory=none/spr-server
spr-files fileserver dram,pmep spr-server,memory=none/spr-server
spr-flat varmail cxl.flat/cxl.asic spr-server,memory=none/spr-server
CELLS
}

results() { # weir, 0 or 1 (a build of before), folder
  local weir=$1 at=$2 out=$3 medium name workload media machine list
  mkdir -p "$out"
  for medium in hinfs pmep nova.sttram nova.pcm optane.100 optane.100x6 optane.flat classic revised "flat,read_latency=150ns" \
    "$([ "$at" = 1 ] && echo cxl.asic || echo cxl.flat)"; do
    name=loops-${medium/asic/flat}
    "$weir" sim medium "$medium" --op read,nt,clwb,mix11 --size 64,4096 --threads 1,8 --full --machine rcache-server --time 200us --json \
      --quiet >"$out/$name.json" || echo "{\"ended\": $?}" >"$out/$name.json"
  done
  for name in "${rows[@]}"; do
    # 1: a limit is missed, which is a result as well.
    "$weir" validate "$validation/$name.toml" --json --quiet >"$out/rows-$name.json" || [ $? = 1 ]
  done
  while read -r name workload media machine; do
    IFS=/ read -ra media <<<"$media"
    IFS=/ read -ra machine <<<"$machine"
    list=()
    for medium in $(tr , ' ' <<<"${media[$at]:-${media[0]}}"); do list+=(--medium "$medium"); done
    "$weir" bench "$workload" --fs nova,pmfs,hinfs,ext4-dax,crest "${list[@]}" --machine "${machine[$at]:-${machine[0]}}" \
      --runtime 3ms --warm-up none --repeats 1 -D nfiles=200 --threads 1,4 --quiet -o "$out/$name.json" >/dev/null
  done < <(cells)
}
results "$weir" 0 now
[ -z "$other" ] || [ "$other" = --write ] || results "$other" 1 before

python3 - "$other" "$kept" <<'PY'
import glob, hashlib, json, os, sys
other, kept = sys.argv[1:]
def parts(folder):
    """Each loop, row and cell by its name, as text."""
    found = {}
    for path in sorted(glob.glob(f"{folder}/*.json")):
        name, document = os.path.basename(path)[:-5], json.load(open(path))
        for one in document.get("loops", []):
            found[f"{name} {one['access']} {one['size_bytes']} {one['threads']}"] = one
        for one in document.get("rows", []):
            found[f"{name} {one['id']}"] = one.get("measured")
        for one in document.get("samples", []):
            axes = one.pop("axes")
            axes["medium"] = axes.get("medium", "").replace("cxl.asic", "cxl.flat")
            named = " ".join(f"{key}={axes[key]}" for key in sorted(axes) if key != "machine")
            found[f"{name} {named}"] = one
        if "ended" in document:
            found[name] = document
    return {name: json.dumps(one, sort_keys=True) for name, one in found.items()}
now = parts("now")
digest = lambda text: hashlib.sha256(text.encode()).hexdigest()[:16]
if other == "--write":
    with open(kept, "w") as file:
        file.writelines(f"{digest(text)} {name}\n" for name, text in now.items())
    print(f"{len(now)} results written")
    sys.exit()
if other:
    wanted = parts("before")
    same = {name: wanted.get(name) == text for name, text in now.items()}
else:
    wanted = {name: hash for hash, _, name in (line.rstrip("\n").partition(" ") for line in open(kept))}
    same = {name: wanted.get(name) == digest(text) for name, text in now.items()}
differ = [name for name, is_same in same.items() if not is_same] + [
    f"{name} (missing)" for name in wanted.keys() - now.keys() if not name.startswith(("rows-wofs", "rows-squirrelfs"))]
for name in differ:
    print(f"differs: {name}")
print(f"{len(now)} results, {len(differ)} differ")
sys.exit(bool(differ) or not now)
PY
