#!/usr/bin/env bash
# What the characterization of workloads must show, each by the command that users have: known answers and a planted
# correlation, the events of this host, FFSB's weights and blocks, Bonnie's bytes and tickets, archives beside the system's
# tools, TPC-C's mix and conditions on its three layers, and the same rows for the same seed. Less than a minute.
#
#   tests/suites/acceptance.sh WEIR
#
# Where the host counts no events of its processor, or has no tar or unzip, what needs them is skipped by name.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
work=$(mktemp -d -p "${DIR:-/dev/shm}")
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
check() { python3 "$here/acceptance.py" "$@"; }
bench() { "$weir" bench "$@" --quiet --json; }
# A workload on a directory of the host whose files stay.
left() { # NAME RUNTIME WORKLOAD VARIABLES…
    local name=$1 runtime=$2 workload=$3
    shift 3
    mkdir "$work/$name"
    bench "$workload" "$@" --fs "host:$work/$name" --clock real --runtime "$runtime" --warm-up none --keep-files >"$work/$name.json"
    # A cell that was noisy ran more than once.
    local folders=("$work/$name"/.weir-*)
    mv "${folders[0]}" "$work/$name/files"
}

bench filebench/varmail --fs nova --medium dram --runtime 1ms >"$work/one.json"
check statistics "$work/one.json" "$work/quartet.json" "$work/planted.json"
for name in quartet planted; do
    "$weir" characterize "$work/$name.json" --json >"$work/$name.out"
    check "$name" "$work/$name.out"
done

"$weir" doctor --json >"$work/doctor.json"
check events "$work/doctor.json"

left ffsb "110000 ops" ffsb/mix -D read=70 -D write=30 -D files=200 --threads 2
check ffsb "$work/ffsb.json" "$work/ffsb/files"

bench bonnie/bonnie --fs nova --medium dram -D size=8MiB --runtime end --warm-up none >"$work/bonnie.json"
check bonnie "$work/bonnie.json" 8388608

# The generated tree, in which tar leaves its archive, is packed by the suite and unpacked by the system's tools.
for tool in tar unzip; do
    command -v $tool >/dev/null || { echo "skipped: archives, $tool is not installed" >&2; continue; }
    kind=${tool/unzip/zip}
    left "$kind" end "archive/$kind" -D files=200
    mkdir "$work/$kind/out"
    archive=$work/$kind/files/c0/archive0.$kind
    if [ $kind = tar ]; then tar -xf "$archive" -C "$work/tar/out"; else unzip -q "$archive" -d "$work/zip/out"; fi
    diff -r "$work/$kind/files/tree0" "$work/$kind/out/tree0"
    count=$(find "$work/$kind/out" -type f | wc -l)
    echo "6 archives: $tool unpacks what archive/$kind has packed, $count files without a difference"
done

for layer in innodb postgres; do
    bench app/tpcc --fs nova --medium dram -D layer=$layer -D new_orders=900 --runtime end --warm-up none >"$work/$layer.json"
    check tpcc "$work/$layer.json" $layer
done

for workload in bonnie/seeks archive/unzip ffsb/mix app/tpcc; do
    variables=(-D size=4MiB)
    case $workload in
        archive/*) variables=(-D files=100) ;;
        ffsb/*) variables=(-D files=100) ;;
        app/*) variables=(-D layer=postgres -D new_orders=100) ;;
    esac
    for run in 1 2; do
        end=(--runtime end)
        [ $workload != ffsb/mix ] || end=(--runtime 20ms)
        bench $workload --fs nova,ext4 --medium dram "${variables[@]}" "${end[@]}" --warm-up none >"$work/run$run.json"
    done
    check same "$work/run1.json" "$work/run2.json" $workload
done
