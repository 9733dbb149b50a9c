#!/usr/bin/env bash
# Samples are the same bytes wherever they run: here with the processor as it is, with FMA and AVX2 hidden from the C library, whose
# transcendental functions round otherwise then, and by a build for musl, which has another C library.
# usage: tests/hosts.sh WEIR [MUSL_WEIR]      half a minute
set -euo pipefail
weir=$(realpath "${1:?usage: hosts.sh WEIR [MUSL_WEIR]}")
musl=${2:+$(realpath "$2")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Distributions with logarithms and powers, arrivals in time, several designs and media.
cat >drawn.fio <<'J'
[global]
size=1m
bs=4k
[zipf]
rw=randread
random_distribution=zipf:1.2
[pareto]
stonewall
rw=randwrite
random_distribution=pareto:0.3
[normal]
stonewall
rw=randrw
random_distribution=normal:20
J
cat >plan.toml <<'P'
[plan]
name = "hosts"
why = "are its bytes those of every host?"
stop = "20ms"
repeats = 2
[[axis]]
fs = ["pmfs", "hinfs", "nova"]
[[axis]]
threads = [1, 4]
[fs]
buffer = "8MiB"
[[workload]]
name = "filebench/varmail"
vars = { nfiles = 300 }
[[workload]]
name = "filebench/fileserver"
vars = { nfiles = 100, meandirwidth = 20 }
P
# Each run has a data folder of its own, so that no cell is known from another.
run() { # NAME PROGRAM
  local data=$work/data-$1
  XDG_DATA_HOME=$data "$2" run plan.toml --quiet -o "$1-plan.json" >/dev/null
  XDG_DATA_HOME=$data "$2" bench drawn.fio --fs pmfs,hinfs --quiet -o "$1-fio.json" >/dev/null
}
# A result without what is of the host or of the command.
essence() { awk '/^  "/ { drop = /^  "(environment|command|hosts|costs)":/ } /^}/ { drop = 0 } !drop' "$1" | sed 's/,$//'; }
same() { # NAME WHAT
  for part in plan fio; do
    [ "$(essence "plain-$part.json" | wc -l)" -gt 1000 ] || { echo "FAILED: plain-$part.json is hardly a result"; exit 1; }
    cmp <(essence "plain-$part.json") <(essence "$1-$part.json") || { echo "FAILED: the samples of $part differ $2"; exit 1; }
  done
  echo "ok: the same bytes $2"
}

run plain "$weir"
run again "$weir"
same again "in a second run"
hidden=glibc.cpu.hwcaps=-FMA,-AVX2,-FMA_Usable,-AVX2_Usable
linked() { [[ $(ldd "$1" 2>&1) == *"$2"* ]]; }
if linked "$weir" libc.so.6; then
  # Canary: the tunable must change something, else nothing is tested.
  probe='import math; print(hash(tuple(math.exp(n / 3e4) * math.log(n + 1.5) * math.pow(n + 0.5, 0.37) for n in range(200000))))'
  if command -v python3 >/dev/null && [ "$(python3 -c "$probe")" = "$(GLIBC_TUNABLES=$hidden python3 -c "$probe")" ]; then
    echo "note: exp, log and pow of this host's C library are the same with FMA hidden: this part tests little here"
  fi
  export GLIBC_TUNABLES=$hidden
  run hidden "$weir"
  unset GLIBC_TUNABLES
  same hidden "with FMA and AVX2 hidden"
else
  echo "left out: $weir does not take its C library from the host"
fi
if [ -n "$musl" ]; then
  linked "$musl" libc.so.6 && { echo "FAILED: $musl is a build for glibc"; exit 1; }
  run musl "$musl"
  same musl "by the build for musl"
else
  echo "left out: no build for musl was given (packaging/build_static.sh makes one)"
fi
# Canary: the comparison sees one digit.
sed -i '0,/"ops": /s//"ops": 1/' again-plan.json
if cmp -s <(essence plain-plan.json) <(essence again-plan.json); then echo "FAILED: the comparison is blind"; exit 1; fi
