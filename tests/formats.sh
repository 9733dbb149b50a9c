#!/usr/bin/env bash
# Every format that another program reads is opened by that program, and gives it the numbers of the result. What cannot be
# installed is said.
# usage: tests/formats.sh WEIR [python|flames|mount|documents]…      2 minutes with the programs at hand; downloads 300 MB without
#
# | format | opened by | from |
# |---|---|---|
# | fio-json | fio-plot, fio_jsonplus_clat2csv | PyPI, Debian's fio |
# | csv, parquet (tables) | pandas, pyarrow, polars, DuckDB | PyPI |
# | folded | speedscope in Chromium; inferno-flamegraph or flamegraph.pl | npm; where they are on the path |
# | prometheus | promtool, node_exporter's textfile collector | Debian |
# | json | jq | Debian |
set -euo pipefail
weir=$(realpath "${1:?usage: formats.sh WEIR [PART]…}")
shift
[ $# -gt 0 ] || set -- python flames mount documents
work=$(mktemp -d)
opened=0 failed=0
exporter='' mounted=''
end() {
  [ -z "$exporter" ] || kill "$exporter" 2>/dev/null || true
  [ -z "$mounted" ] || "$weir" umount "$mounted" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap end EXIT
export XDG_DATA_HOME=$work/data PIP_DISABLE_PIP_VERSION_CHECK=1 MPLCONFIGDIR=$work/matplotlib
cd "$work"

ok() { opened=$((opened + 1)); echo "ok: $*"; }
left_out() { echo "left out: $*"; }
bad() { failed=$((failed + 1)); echo "FAILED: $*"; }
install() { # PACKAGES… of Debian
  [ "$(id -u)" = 0 ] && command -v apt-get && apt-get update -qq \
    && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
} >/dev/null 2>&1 </dev/null
has() { command -v "$1" >/dev/null || { install "$2" || true; command -v "$1" >/dev/null; }; }

"$weir" bench varmail --fs pmfs,nova --threads 2 --repeats 2 --runtime 5ms -D nfiles=100 --quiet -o result.json >/dev/null

# Programs of PyPI: fio-plot, and the tables as frames.
python_part() {
  if python3 -m venv venv >/dev/null 2>&1 || { install python3-venv && python3 -m venv venv >/dev/null 2>&1; }; then
    python=$work/venv/bin/python
    get() { "$work/venv/bin/pip" install -q "$@" >pip.log 2>&1; }
  else
    python='' ; get() { false; }
  fi

  for depth in 1 2; do
    printf '[job]\nrw=randread\nsize=1m\nbs=4k\niodepth=%s\nnumjobs=1\n' $depth >jobs.fio
    mkdir -p fio
    "$weir" bench jobs.fio --fs pmfs --quiet -o "fio/$depth.fio.json" >/dev/null
    mv "fio/$depth.fio.json" "fio/randread-$depth-1.json"
  done
  if get fio-plot; then
    if venv/bin/fio-plot -i fio -T Weir -l -r randread -d 1 2 -n 1 -o plot.png >plot.log 2>&1 && [ -s plot.png ]; then
      ok "fio-json: fio-plot $(venv/bin/pip show fio-plot | sed -n 's/^Version: //p') draws two depths"
    else
      bad "fio-json: fio-plot: $(tail -n 3 plot.log)"
    fi
  else
    left_out "fio-json: fio-plot cannot be installed"
  fi
  if has fio_jsonplus_clat2csv fio; then
    if fio_jsonplus_clat2csv fio/randread-1-1.json clat.csv >clat.log 2>&1 && [ "$(wc -l <clat_job0.csv)" -gt 1 ]; then
      ok "fio-json: fio_jsonplus_clat2csv"
    else
      bad "fio-json: fio_jsonplus_clat2csv: $(tail -n 3 clat.log)"
    fi
  else
    left_out "fio-json: there is no fio"
  fi

  "$weir" report result.json --tables csv --quiet
  tables="csv"
  if "$weir" report result.json --tables parquet --as parquet --quiet 2>told; then
    tables="csv parquet"
  elif grep -q "built without" told; then
    left_out "parquet: $(sed 's/.*error: //' told)"
  else
    bad "parquet: $(cat told)"
  fi
  for reader in pandas polars duckdb; do
    more='' ; [ $reader != pandas ] || more=pyarrow
    # shellcheck disable=SC2086 # no word where there is none
    get $reader $more || { left_out "tables: $reader cannot be installed"; continue; }
    for format in $tables; do
      if said=$("$python" - $reader $format <<'PY' 2>&1
import importlib, json, sys
reader, form = sys.argv[1:]
module = importlib.import_module(reader)
samples = json.load(open("result.json"))["samples"]
calls = [op for sample in samples for op in sample["operations"]]
def sums(name, column):
    path = f"{form}/{name}.{form}"
    if reader == "duckdb":
        return module.sql(f"select count(*), sum({column}) from '{path}'").fetchall()[0]
    frame = getattr(module, f"read_{form}")(path)
    return len(frame), frame[column].sum()
assert sums("samples", "ops") == (len(samples), sum(sample["ops"] for sample in samples))
assert sums("calls", "time_ns") == (len(calls), sum(op["total_ns"] for op in calls))
print(module.__version__)
PY
      ); then ok "$format: $reader $said"; else bad "$format: $reader: $(tail -n 1 <<<"$said")"; fi
    done
  done
}

# Folded stacks.
flames_part() {
  "$weir" report result.json -o x.folded --quiet
  printf 'no stacks' >broken.folded
  if has npm npm && has chromium chromium && npm install --silent --no-audit --no-fund --prefix "$work/npm" speedscope >npm.log 2>&1; then
    page=$work/npm/node_modules/speedscope/dist/release/index.html
    # Its command opens a browser with such a script; the title has the profile's name once it is read.
    opens() {
      printf 'speedscope.loadFileFromBase64("%s", "%s")' "$1" "$(base64 -w 0 "$1")" >"$1.js"
      timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/chromium" --allow-file-access-from-files \
        --timeout=20000 --dump-dom "file://$page#localProfilePath=$work/$1.js" >"$1.html" 2>/dev/null
      grep -q "<title>$1 - speedscope</title>" "$1.html"
    }
    version=$(sed -n 's/.*"version": "\(.*\)".*/\1/p' "$work/npm/node_modules/speedscope/package.json")
    if opens broken.folded; then
      bad "folded: speedscope opens what is no profile, so that this test says nothing"
    elif opens x.folded; then
      ok "folded: speedscope $version"
    else
      bad "folded: speedscope $version: $(sed -n 's/.*\(<title>.*<\/title>\).*/\1/p' x.folded.html)"
    fi
  else
    left_out "folded: speedscope or a Chromium cannot be installed"
  fi
  flames=$(command -v inferno-flamegraph || command -v flamegraph.pl || true)
  if [ -n "$flames" ]; then
    if "$flames" x.folded >x.svg 2>flames.log && grep -q '<svg' x.svg; then
      ok "folded: $(basename "$flames")"
    else
      bad "folded: $(basename "$flames"): $(tail -n 3 flames.log)"
    fi
  else
    left_out "folded: there is no inferno-flamegraph (cargo install inferno) nor flamegraph.pl on the path"
  fi
}

# What a mount counts, for Prometheus.
mount_part() {
  if [ "$(id -u)" != 0 ] || [ ! -w /dev/fuse ]; then
    left_out "prometheus: a mount needs root and /dev/fuse"
  else
    "$weir" mkfs pmfs pool --size 64MiB --quiet
    mkdir mnt collected
    mounted=$work/mnt
    "$weir" mount pmfs pool mnt --quiet
    dd if=/dev/zero of=mnt/x bs=64k count=16 conv=fsync 2>/dev/null
    "$weir" report mnt -o collected/weir.prom --quiet
    "$weir" report mnt --as prometheus --quiet >again.prom
    if ! grep -q '^weir_operation_bytes_total{.*operation="write"} 1048576$' collected/weir.prom; then
      bad "prometheus: the bytes that were written are not those of the mount"
    fi
    if has promtool prometheus; then
      if promtool check metrics <collected/weir.prom >promtool.log 2>&1 && [ ! -s promtool.log ]; then
        ok "prometheus: promtool check metrics, $(grep -c '^# TYPE' collected/weir.prom) metrics"
      else
        bad "prometheus: promtool: $(head -n 5 promtool.log)"
      fi
      printf 'weir_x{a="b} 1\n' | promtool check metrics >/dev/null 2>&1 && bad "prometheus: promtool takes anything" || true
    else
      left_out "prometheus: there is no promtool"
    fi
    if has prometheus-node-exporter prometheus-node-exporter && has curl curl; then
      port=19100
      prometheus-node-exporter --web.listen-address=127.0.0.1:$port --collector.disable-defaults --collector.textfile \
        --collector.textfile.directory="$work/collected" >exporter.log 2>&1 &
      exporter=$!
      for _ in $(seq 50); do curl -sf http://127.0.0.1:$port/metrics >metrics 2>/dev/null && break; sleep 0.2; done
      if grep -q '^node_textfile_scrape_error 0$' metrics && grep -q '^weir_operation_bytes_total{.*1.048576e+06$' metrics; then
        ok "prometheus: node_exporter's textfile collector gives $(grep -c '^weir_' metrics) values"
      else
        bad "prometheus: node_exporter: $(grep -m 3 textfile metrics exporter.log)"
      fi
    else
      left_out "prometheus: there is no node_exporter"
    fi
    "$weir" umount mnt >/dev/null 2>&1 && mounted=''
  fi
}

# Documents that services take.
documents_part() {
  if has jq jq; then
    if [ "$(jq '[.samples[].ops] | add' result.json)" -gt 0 ]; then ok "json: $(jq --version)"; else bad "json: jq"; fi
  else
    left_out "json: there is no jq"
  fi
}

for part in "$@"; do
  case $part in
    python | flames | mount | documents) "${part}_part" ;;
    *) echo "no part is called $part: python, flames, mount, documents"; exit 2 ;;
  esac
done
echo "$opened formats were opened by other programs, $failed failed"
[ $failed = 0 ]
