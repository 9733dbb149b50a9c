#!/usr/bin/env bash
# All papers with this build, once, in the background if need be, and the table of their claims before and after: before is what is kept
# in evidence/results. A paper that was measured is not measured again: an interrupted run goes on where it ended.
# usage: tests/answers/papers.sh WEIR FOLDER [PAPER…]
#        FOLDER keeps a result for each paper; nohup tests/answers/papers.sh WEIR FOLDER >FOLDER/log &
set -euo pipefail
weir=$(realpath "${1:?usage: papers.sh WEIR FOLDER [PAPER...]}")
folder=${2:?usage: papers.sh WEIR FOLDER [PAPER...]}
shift 2
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
root=$(realpath "$(dirname "$0")")/../..
mkdir -p "$folder"
# Cells that an interrupted run has measured are in the data folder.
export XDG_DATA_HOME=$(realpath "$folder")/data
# The quick forms first: what takes hours is last.
papers=("$@")
[ $# -gt 0 ] || papers=(rcache fragmentation hw-logging hinfs-macro fxmark-designs fxmark-apps fxmark-kernel hinfs characterization)
for paper in "${papers[@]}"; do
  [ -s "$folder/$paper.json" ] && continue
  echo "== $paper $(date -u +%H:%M)" >&2
  # Missed claims fail the command.
  nice -n 19 "$weir" reproduce "$paper" --quiet -o "$folder/part.json" >"$folder/$paper.txt" 2>&1 || [ -s "$folder/part.json" ] || {
    echo "$paper: $(tail -n 1 "$folder/$paper.txt")" >&2
    continue
  }
  mv "$folder/part.json" "$folder/$paper.json"
done
python3 - "$root/evidence/results" "$folder" "${papers[@]}" <<'PY'
import glob, gzip, json, os, sys
kept, folder, papers = sys.argv[1], sys.argv[2], sys.argv[3:]

def claims(path):
    """The claims of a result, by their ids, with the build that measured them."""
    read = gzip.open if path.endswith(".gz") else open
    with read(path, "rt", encoding="utf-8") as file:
        document = json.load(file)
    results = document.get("results", [document])
    found = {}
    for result in results:
        commit = (result.get("environment") or {}).get("commit")
        found |= {claim["id"]: (claim, commit) for claim in result.get("claims") or []}
    return found

def verdict(claim):
    if claim is None:
        return "-"
    if claim.get("origin") == "construction":
        return "constructed"
    if claim.get("fitted"):
        return "fitted"
    if claim.get("value") is None:
        return "not measured"
    if claim.get("contradicted"):
        return "number only"
    return "holds" if claim["holds"] else "missed"

shown = lambda claim: "–" if claim is None or claim.get("value") is None else f"{claim['value']:.4g}"
# The whole form of a paper stands before its quick form.
order = lambda path: ("quick" in path or "hundredth" in path, "readings" in path)
before = {}
for path in sorted(glob.glob(f"{kept}/*.json.gz"), key=order):
    for name, claim in claims(path).items():
        before.setdefault(name, claim)
print("| paper | claims | held before | hold now | changed |")
print("|---|---:|---:|---:|---|")
changes = []
for paper in papers:
    path = f"{folder}/{paper}.json"
    if not os.path.exists(path):
        print(f"| {paper} | – | – | not run | |")
        continue
    now = claims(path)
    pairs = {name: (before.get(name, (None, None))[0], claim) for name, (claim, _) in now.items()}
    held = lambda at: sum(verdict(pair[at]) == "holds" for pair in pairs.values())
    differ = [(name, was, is_) for name, (was, is_) in pairs.items() if verdict(was) != verdict(is_)]
    changes += differ
    print(f"| {paper} | {len(pairs)} | {held(0)} | {held(1)} | {len(differ)} |")
print("\n| claim | before | now | known of it |\n|---|---|---|---|")
for name, was, is_ in changes:
    print(f"| {name} | {verdict(was)}, {shown(was)} | {verdict(is_)}, {shown(is_)} | {is_.get('reason') or is_.get('contradicted') or ''} |")
PY
