#!/bin/sh
# Jobs of unusual options, each run by fio and by `weir bench` on the same directory: the number of I/Os and of bytes of each
# direction must be equal. The table of jobs is in unusual.py.
#
#   tests/fio/unusual.sh [DIR]         default: a folder of /dev/shm
#   WEIR=path/to/weir                  default: target/release/weir
#   ONLY=word                          only jobs with this word in their options
#
# Without fio it says so and ends with 0.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
weir=${WEIR:-$here/../../target/release/weir}
command -v fio >/dev/null || { echo "skipped: fio is not installed"; exit 0; }
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 0; }
[ -x "$weir" ] || { echo "unusual.sh: $weir is not there: build it, or set WEIR" >&2; exit 2; }
work=$(mktemp -d "${1:-/dev/shm}/unusual.XXXXXX")
trap 'rm -rf "$work"' EXIT
XDG_DATA_HOME="$work/store" PYTHONDONTWRITEBYTECODE=1 python3 "$here/unusual.py" "$weir" "$work" "${ONLY:-}"
