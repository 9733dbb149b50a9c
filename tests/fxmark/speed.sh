#!/usr/bin/env bash
# FxMark's nineteen benchmarks in process on designs, beside the kernel's tmpfs: operations for each second of the workers' own
# processor time, as ratios (design over tmpfs), and their geometric mean.
#
#   tests/fxmark/speed.sh WEIR [ROUNDS]       default: 5 rounds, in which designs and tmpfs take turns
#   DESIGNS=nova,rcache                       the designs, on memory without extra cost
#   THREADS=1,2   RUNTIME=300ms
#   TMPFS=/dev/shm                            a directory of a tmpfs
#
# A benchmark's ratio is the median of the rounds' ratios: the two sides of a round run one after the other.
set -euo pipefail

. "$(realpath "$(dirname "$0")")/../mount/place.sh" "$1"
here=$(realpath "$(dirname "$0")")
compared=${DESIGNS:-nova,rcache}

TMPFS=${TMPFS:-/dev/shm}
[ "$(stat -f -c %T "$TMPFS")" = tmpfs ] || die "$TMPFS is not on a tmpfs: name one with TMPFS=DIR"
tmpfs=$(mktemp -d "$TMPFS/weir-fxmark.XXXXXX")
trap 'rm -rf "$tmpfs"; cleanup' EXIT

cd "$tmpfs"
XDG_DATA_HOME=$work/store "$weir" bench fxmark --fs "$compared,host:." --medium dram --clock real --threads "${THREADS:-1,2}" \
    --runtime "${RUNTIME:-300ms}" --repeats "${2:-5}" --json >"$work/result.json"
python3 "$here/speed.py" "$work/result.json"
