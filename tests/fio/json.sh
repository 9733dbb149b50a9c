#!/usr/bin/env bash
# The JSON that `weir report --as fio-json` prints beside that of fio for the same job file: it has every key that fio has, the options
# are the same, and programs that were written for fio read it.
# usage: tests/fio/json.sh WEIR
set -euo pipefail
weir=$(realpath "${1:?usage: json.sh WEIR}")
here=$(dirname "$(realpath "$0")")
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
if ! command -v fio >/dev/null; then
  { [ "$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq fio; } >/dev/null 2>&1 || true
  command -v fio >/dev/null || { echo "left out: there is no fio"; exit 0; }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
cd "$work"
cat >jobs.fio <<'JOBS'
[global]
size=256k
bs=4k
[both]
rw=randrw
[synced]
stonewall
rw=write
fsync=4
JOBS
mkdir files
fio --output-format=json+ --directory=files jobs.fio >fio.json 2>/dev/null
"$weir" bench jobs.fio --fs pmfs --quiet -o weir.fio.json >/dev/null
python3 "$here/keys.py" fio.json weir.fio.json
if command -v fio_jsonplus_clat2csv >/dev/null; then
  fio_jsonplus_clat2csv weir.fio.json clat.csv
  for job in 0 1; do [ "$(wc -l <"clat_job$job.csv")" -gt 1 ] || { echo "clat_job$job.csv has no latencies"; exit 1; }; done
  echo "fio_jsonplus_clat2csv reads it"
else
  echo "left out: there is no fio_jsonplus_clat2csv"
fi
