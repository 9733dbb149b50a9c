#!/usr/bin/env bash
# All tests of the workspace, one program after the other whatever the earlier ones ended with, and their sum in the last line. Exits with
# 1 if a test failed or did not build. Arguments go to the programs that hold the tests.
set -uo pipefail
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

ended=0
$cargo test --workspace --exclude weir-bench --locked --no-fail-fast --lib --bins --tests --examples -- "$@" | tee "$log" || ended=1
$cargo test --workspace --exclude weir-bench --locked --no-fail-fast --doc --quiet | tee -a "$log" || ended=1
sed -nE 's/^test (.*) \.\.\. FAILED.*$/failed: \1/p' "$log"
sed -nE 's/^test result: [a-zA-Z]+\. ([0-9]+) passed; ([0-9]+) failed; ([0-9]+) ignored.*/\1 \2 \3/p' "$log" | awk '
  { passed += $1; failed += $2; skipped += $3 }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }'
exit "$ended"
