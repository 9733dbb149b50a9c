#!/usr/bin/env bash
# The verdict of one question at five lengths of a run: the same winner, or none with the reason.
# usage: tests/answers/lengths.sh WEIR [LENGTH…]
set -euo pipefail
weir=$(realpath "${1:?usage: lengths.sh WEIR [LENGTH...]}")
shift
lengths=("$@")
[ ${#lengths[@]} -gt 0 ] || lengths=(20ms 50ms 200ms 1s 4s)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

winners=()
for length in "${lengths[@]}"; do
  XDG_DATA_HOME=$home "$weir" bench varmail --fs pmfs,hinfs --threads 8 --repeats 6 --runtime "$length" \
    --quiet >"$home/$length.txt"
  # The answer stands below the table.
  verdict=$(sed '1,/^  hinfs/d' "$home/$length.txt" | tr '\n' ' ' | sed 's/^ *//')
  winner=$(sed -nE 's/.*\b([a-z0-9-]+) is (fastest|ahead):.*/\1/p' <<<"$verdict")
  printf '%-6s %-6s %s\n' "$length" "${winner:--}" "$verdict"
  [ -n "$verdict" ] || { echo "no verdict at $length"; exit 1; }
  [ -z "$winner" ] || winners+=("$winner")
done
[ "$(printf '%s\n' "${winners[@]}" | sort -u | wc -l)" -le 1 ] || { echo "two lengths name different winners"; exit 1; }
echo "ok: no two lengths name different winners"
