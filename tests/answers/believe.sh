#!/usr/bin/env bash
# The table "What may be believed" of docs/validation.md, which result pages carry: it must be what `weir validate` computes.
# usage: tests/answers/believe.sh WEIR [--write] [KEPT.json]
#        --write: puts what is computed into the page
#        KEPT.json: a document of `weir validate -o KEPT.json` instead of a run of some minutes
set -euo pipefail
weir=$(realpath "${1:?usage: believe.sh WEIR [--write] [KEPT.json]}")
shift
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
write=
[ "${1:-}" != --write ] || { write=yes; shift; }
page=$(dirname "$(realpath "$0")")/../../docs/validation.md
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export XDG_DATA_HOME=$home/data
if [ $# -gt 0 ]; then
  cp "$1" "$home/found.json"
else
  # A missed limit fails the command, and is no concern here.
  "$weir" validate --quiet -o "$home/found.json" >/dev/null || [ -s "$home/found.json" ]
fi
python3 - "$home/found.json" "$page" "$write" <<'PY'
import difflib, json, re, sys
found, page, write = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
factor = lambda value: "–" if value is None else f"×{value:.2f}"
percent = lambda value: "–" if value is None else f"{value * 100:.0f} %"
of = lambda by: [one for one in found["summaries"] if one["by"] == by]
others = {one["name"]: one for one in of("part, nothing chosen")}
lines = ["| of the model | rows | bias | half within | nine of ten within | without the rows that chose a constant |", "|---|---:|---:|---:|---:|---|"]
for one in of("part"):
    if not one["compared"]:
        continue
    other = others[one["name"]]
    if other["compared"] == one["compared"]:
        said = "the same: none did"
    elif other["compared"]:
        said = f"{other['compared']}: bias {factor(other['bias'])}, half within {percent(other['median_error'])}, nine of ten within {factor(other['p90_factor'])}"
    else:
        said = "none is left"
    lines.append(f"| {one['name']} | {one['compared']} | {factor(one['bias'])} | {percent(one['median_error'])} | {factor(one['p90_factor'])} | {said} |")
every = next((ranks for ranks in found["ranks"] if ranks["class"] == "all"), None)
if every and (pairs := every["concordant"] + every["inverted"] + every["tied"]):
    lines.append(f"| orders of designs | {pairs} | – | – | – | {every['concordant']} as published, {every['inverted']} inverted, {every['tied']} level |")
text = open(page).read()
begin, end = "<!-- computed by tests/answers/believe.sh -->\n", "<!-- end -->\n"
at = text.index(begin) + len(begin)
was, wanted = text[at : text.index(end, at)], "\n".join(lines) + "\n"
if was == wanted:
    print(f"{len(lines) - 2} parts; the page has them as they are computed")
elif write:
    open(page, "w").write(text[:at] + wanted + text[text.index(end, at) :])
    print(f"{len(lines) - 2} parts written")
else:
    print("\n".join(difflib.unified_diff(was.splitlines(), wanted.splitlines(), "in the page", "computed", lineterm="")))
    sys.exit(1)
PY
