#!/usr/bin/env bash
# An entry of the ledger is shown as old as soon as it is of other code, or of a tree with changes.
#
#   tests/evidence.sh WEIR
set -euo pipefail

weir=$(realpath "${1:?usage: evidence.sh WEIR}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ledger=$work/ledger.jsonl
evidence() { "$weir" check --evidence --ledger "$ledger" "$@"; }
die() {
    echo "FAILED: $*" >&2
    evidence >&2
    exit 1
}

"$weir" check model --fs redo --ops 100 --ledger "$ledger" --quiet >/dev/null
# The build of a tree with changes says so; here that is not asked.
sed -i 's/+ / /' "$ledger"
cp "$ledger" "$work/new"
! evidence | grep -q 'old:' || die "an entry of this build is shown as old"
evidence --json | grep -q '"old": *null' || die "the JSON shows it as old"

# A design without a row of a check that each has is named, and one with a row is not.
lacks() { evidence | grep '^no row of this code: redo, ' || true; }
lacks | grep -q 'model' && die "redo has a row of model and is said to lack it"
lacks | grep -q 'faults' || die "redo has no row of faults, and nothing says so"
evidence | grep -q '^no row of this code: crest, model' || die "crest has no row at all, and nothing says so"

sed 's/"code":"[0-9a-f]*"/"code":"0123456789abcdef"/' "$work/new" >"$ledger"
evidence | grep -q 'old: the code has changed since' || die "an entry of other code is not shown as old"
sed 's/,"code":"[0-9a-f]*"//' "$work/new" >"$ledger"
evidence | grep -q 'old: the code has changed since' || die "an entry without a code is not shown as old"
sed 's/\("build":"[^ "]*\)/\1+/' "$work/new" >"$ledger"
evidence | grep -q 'old: of a tree with uncommitted changes' || die "an entry of a tree with changes is not shown as old"
evidence --json | grep -q '"old": *"old: of a tree' || die "the JSON does not show it as old"

echo "of this build: $("$weir" check --evidence | tail -n 1)"
echo "an entry of other code, without a code and of a changed tree is old at once"
