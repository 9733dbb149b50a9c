#!/usr/bin/env bash
# The blocks of docs/tutorial.md as they are printed, one after the other, in an empty folder.
# usage: tests/answers/tutorial.sh WEIR
set -euo pipefail
weir=$(realpath "${1:?usage: tutorial.sh WEIR}")
page=$(dirname "$(realpath "$0")")/../../docs/tutorial.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/run"
ln -s "$weir" "$work/bin/weir"
sed -n '/^```sh$/,/^```$/p' "$page" | grep -v '^```' >"$work/blocks.sh"
cd "$work/run"
export XDG_DATA_HOME=$work/data PATH=$work/bin:$PATH
bash -euo pipefail "$work/blocks.sh" >"$work/out.txt" 2>"$work/err.txt" || {
  cat "$work/out.txt" "$work/err.txt"
  echo "a block of docs/tutorial.md failed"
  exit 1
}
for file in page.html tables/verdicts.csv; do
  [ -s "$file" ] || { echo "$file was not written"; exit 1; }
done
grep -q "is fastest\|no winner is named\|is detectable" "$work/out.txt" || { echo "no verdict was printed"; exit 1; }
echo "ok: $(grep -c '^weir' "$work/blocks.sh") commands of the tutorial run as they are printed"
