#!/usr/bin/env bash
# app/rocksdb beside RocksDB's db_bench, on a tmpfs. Every record of the log must be as long as the program's, one by one, as far as
# both logs go; the write amplification of the tables must be within a fifth of the program's, on the host and on designs.
#
#   tests/apps/rocksdb.sh WEIR
#
# It takes db_bench (Debian's package rocksdb-tools), strace and python3. DIR (/dev/shm) is the tmpfs; PUTS (600000) keys of 100
# bytes are written for the amplification; DESIGNS (nova,ext4,pmfs) says where it is compared, too. So that it does not depend on
# how fast the machine is, writers stop where tables of level 0 are to be merged.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
for need in db_bench strace python3; do
    command -v $need >/dev/null ||
        { echo "skipped: $need is not installed (db_bench: Debian's package rocksdb-tools)" >&2; exit 0; }
done
work=$(mktemp -d -p "${DIR:-/dev/shm}")
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
mkdir "$work/ours"
puts=${PUTS:-600000}

program() { # VALUE NUM WRITES BUFFER: runs db_bench's overwrite in $work/real
    rm -rf "$work/real"
    db_bench --benchmarks=overwrite --threads=1 --compression_type=none --db="$work/real" --value_size="$1" --num="$2" \
        --writes="$3" --write_buffer_size="$4" --target_file_size_base="$4" --max_bytes_for_level_base=$((4 * $4)) \
        --level0_file_num_compaction_trigger=4 --level0_slowdown_writes_trigger=4 --level0_stop_writes_trigger=4 \
        --max_background_jobs=2 >"$work/program.txt" 2>&1 || { cat "$work/program.txt" >&2; exit 1; }
}
settings() { # the same for the application
    echo "-D clients=1 -D value=$1 -D num=$2 --runtime $3ops --warm-up none -D buffer=$4 -D table=$4 -D base=$((4 * $4))
          -D trigger=4 -D slowdown=4 -D stop=4 -D insert_ns=0 -D flush_ns=0 -D merge_ns=0"
}

export -f program
export work
strace -f -y -s 0 -e trace=write -o "$work/real.strace" bash -c 'program 8192 3000 2000 4194304'
# shellcheck disable=SC2046
strace -f -y -s 0 -e trace=write -o "$work/ours.strace" "$weir" bench app/rocksdb --fs "host:$work/ours" --clock real \
    $(settings 8192 3000 2000 4194304) --quiet --json >"$work/log.json"

program 100 100000 "$puts" 1048576
cp "$work/real/LOG" "$work/LOG"
# shellcheck disable=SC2046
"$weir" bench app/rocksdb --fs "host:$work/ours" --clock real $(settings 100 100000 "$puts" 1048576) --quiet --json \
    >"$work/host.json"
# shellcheck disable=SC2046
"$weir" bench app/rocksdb --fs "${DESIGNS:-nova,ext4,pmfs}" --medium dram $(settings 100 100000 "$puts" 1048576) --quiet --json \
    >"$work/designs.json"
python3 "$here/rocksdb.py" "$work" "$puts"
