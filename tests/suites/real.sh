#!/usr/bin/env bash
# Bonnie++, tar, untar, zip and unzip beside the suites: on one tmpfs, all under strace. For each program the counts of calls
# below its directory and the bytes that it reads and writes there must be the suite's to 2 %. What Bonnie++'s seekers write
# back they draw by chance; it differs by some per cent from run to run, and is compared with a tenth of the seeks, which both
# draw.
#
#   tests/suites/real.sh WEIR
#
# DIR (/dev/shm) is the tmpfs. It takes strace, python3, bonnie++, tar, zip and unzip; a program that is not installed is skipped.
# FFSB has no package in Debian: its profiles are only checked against their documentation.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
for need in strace python3; do
    command -v $need >/dev/null || { echo "skipped: $need is not installed" >&2; exit 0; }
done
work=$(mktemp -d -p "${DIR:-/dev/shm}")
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data

trace() { strace -f -y -s 0 -o "$@"; }
# suite NAME WORKLOAD VARIABLES…
suite() {
    local name=$1 workload=$2
    shift 2
    mkdir -p "$work/ours-$name"
    "$weir" bench "$workload" "$@" --fs "host:$work/ours-$name" --clock real --runtime end --warm-up none --quiet --json \
        >"$work/$name.json"
}
judge() { python3 "$here/real.py" "$work" "$1"; }

if command -v bonnie++ >/dev/null; then
    mkdir "$work/bonnie"
    # Debian's 2.00a frees memory twice when all is done and printed.
    (cd "$work/bonnie" && trace "$work/bonnie.strace" bonnie++ -d . -s 4:8k -r 0 -n 1:2000:1000:2:8192 -u root:root -q -f \
        >"$work/bonnie.out" 2>&1) || true
    grep -q '^1\.98,' "$work/bonnie.out" || { tail -n 3 "$work/bonnie.out" >&2; exit 1; }
    suite bonnie bonnie/bonnie++ -D size=4MiB -D chars=1B -D files=1 -D largest=2000 -D smallest=1000 -D directories=2
    judge bonnie
else
    echo "skipped: bonnie++ is not installed" >&2
fi

# One tree for all: it is the suite's, left by tar.
mkdir "$work/tar" "$work/untar" "$work/zip" "$work/unzip"
suite tar archive/tar -D files=400 --keep-files
# A cell that was noisy ran more than once.
trees=("$work"/ours-tar/.weir-*/tree0)
cp -a "${trees[0]}" "$work/tar/"
cp -a "$work/tar/tree0" "$work/zip/"
for program in tar zip; do
    if ! command -v $program >/dev/null; then
        echo "skipped: $program is not installed" >&2
        continue
    fi
    pack=(tar -cf "../$program.archive" tree0)
    [ $program = tar ] || pack=(zip -qr "../$program.archive.zip" tree0)
    (cd "$work/$program" && trace "$work/$program.strace" "${pack[@]}")
done
if [ -e "$work/tar.archive" ]; then
    judge tar
    (cd "$work/untar" && trace "$work/untar.strace" tar -xf ../tar.archive)
    suite untar archive/untar -D from="$work/tar.archive"
    judge untar
fi
if [ -e "$work/zip.archive.zip" ]; then
    suite zip archive/zip -D files=400
    judge zip
    if command -v unzip >/dev/null; then
        (cd "$work/unzip" && trace "$work/unzip.strace" unzip -q ../zip.archive.zip)
        suite unzip archive/unzip -D from="$work/zip.archive.zip"
        judge unzip
    fi
fi
