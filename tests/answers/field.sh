#!/usr/bin/env bash
# Designs are priced alike or not ranked: one question under three sets of prices, a mixture, a margin below the model's error, results
# of an earlier version.
# usage: tests/answers/field.sh WEIR
set -euo pipefail
weir=$(realpath "${1:?usage: field.sh WEIR}")
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export XDG_DATA_HOME=$home

fail() { echo "FAIL: $1"; sed 's/^/  | /' "$2"; exit 1; }
# What a file says, with the breaks of lines taken out.
says() { tr '\n' ' ' <"$1" | tr -s ' ' | grep -qE "$2"; }
bench() { "$weir" bench varmail --threads 8 --runtime 20ms --repeats 4 --quiet "$@"; }

# 1. One command, three sets side by side; never "fastest" where nothing measured stands behind the medium.
bench --fs crest,nova,pmfs --medium cxl.asic --robust -o "$home/three.json" >"$home/three.txt" 2>&1
for set in ran port:least port:most; do
  says "$home/three.txt" "under $set" || fail "no ratio under $set" "$home/three.txt"
done
says "$home/three.txt" 'Prices: ran, as Weir.s code runs them; port:least,.* port:most' || fail "the sets are not named" "$home/three.txt"
says "$home/three.txt" 'is ahead in [0-9]+ of [0-9]+ settings' || fail "no range over settings" "$home/three.txt"
! says "$home/three.txt" 'is fastest' || fail "fastest on a medium without measurements" "$home/three.txt"
says "$home/three.txt" 'nothing measured stands behind this medium|no winner is named' || fail "no trust sentence" "$home/three.txt"
grep -v '^ *$' "$home/three.txt" | tail -20

# 2. Designs that all have an original, by it.
for where in "--medium cxl.asic" "--medium optane.100 --machine rcache-server"; do
  # shellcheck disable=SC2086
  bench --fs nova,pmfs $where -o "$home/two.json" >"$home/two.txt"
  says "$home/two.txt" 'Prices: originals, what the modules of Linux take' || fail "originals are not named ($where)" "$home/two.txt"
done
tail -8 "$home/two.txt"

# 3. A mixture that is asked for: figures, no ratio, no winner, and what ranks it.
bench --fs crest,nova --prices originals >"$home/mixed.txt" || fail "a mixture fails" "$home/mixed.txt"
says "$home/mixed.txt" 'Prices: mixed .originals.. No winner and no ratio is named' || fail "a mixture is not told" "$home/mixed.txt"
says "$home/mixed.txt" '\-\-prices ran,port:least,port:most' || fail "what ranks a mixture is not told" "$home/mixed.txt"
! grep -qE 'fastest|[0-9]x |vs crest' "$home/mixed.txt" || fail "a mixture has a ratio" "$home/mixed.txt"

# 4. Prices that no compared design can have.
! bench --fs crest,redo --prices originals >"$home/none.txt" 2>&1 || fail "impossible prices are taken" "$home/none.txt"
says "$home/none.txt" 'no compared design .crest, redo. can have the prices originals' || fail "impossible prices are not told" "$home/none.txt"

# 5. Margins planted below and above the model's error; the same without prices, as an earlier version left it.
python3 - "$weir" "$home" <<'PY'
import copy, json, subprocess, sys
weir, home = sys.argv[1:]
result = json.load(open(f"{home}/two.json"))

def page(ratio, change=lambda page: None):
    page = copy.deepcopy(result)
    rates = {s["repeat"]: s["throughput_ops_per_s"] for s in page["samples"] if s["axes"]["fs"] == "pmfs"}
    for sample in page["samples"]:
        if sample["axes"]["fs"] == "nova":
            sample["throughput_ops_per_s"] = ratio * rates[sample["repeat"]]
    change(page)
    json.dump(page, open(f"{home}/page.json", "w"))
    return " ".join(subprocess.run([weir, "report", f"{home}/page.json"], check=True, capture_output=True, text=True).stdout.split())

error = result["prices"]["errors"][0]
if "why" in error:
    print("the error of the model is planted, because", error.pop("why"), "(weir validate --trust measures it)")
    error["factor"] = 1.3
assert error["factor"] > 1.0, error
below, above = page(1 + (error["factor"] - 1) / 2), page(error["factor"] * 1.1)
assert "nova is ahead" in below and "fastest" not in below and "model's error" in below, below
assert "nova is fastest" in above, above
old = page(5.0, lambda page: page.pop("prices"))
assert "Prices: mixed" in old and "fastest" not in old and "5.00x" not in old, old

def borrowed(page):
    page["prices"]["errors"][0]["why"] = "nothing measured stands behind this medium; it is borrowed from optane.100"
told = page(5.0, borrowed)
assert "nothing measured stands behind this medium; ±" in told and "is borrowed from" in told and "fastest" not in told, told

def other_model(page):
    page["prices"]["errors"][0].pop("factor")
    page["prices"]["errors"][0]["why"] = "the file was measured with other presets"
told = page(5.0, other_model)
assert "other presets" in told and "fastest" not in told, told
print("planted: below the error within it, above it fastest, without prices mixed")
PY
python3 - "$home" <<'PY'
import json, sys
page = json.load(open(f"{sys.argv[1]}/two.json"))
page["prices"]["sets"] = ["ran"]
json.dump(page, open(f"{sys.argv[1]}/other.json", "w"))
PY
! "$weir" compare "$home/two.json" "$home/other.json" >"$home/compared.txt" 2>&1 || fail "different prices are compared" "$home/compared.txt"
says "$home/compared.txt" 'results of different prices are not compared' || fail "different prices are not told" "$home/compared.txt"
echo "ok: priced alike or not ranked"
