#!/usr/bin/env bash
# How fast programs are on a mount: uncached 4-KiB random reads and writes, and files that are made and removed, by one program and
# by two, with the CPU time that the server and the programs take for each operation.
#
#   tests/mount/speed.sh WEIR [DESIGN…]
#
# As root, with fio and python3, on a quiet machine. OLD=another weir and MEMFS=libfuse's example memfs_ll are measured beside it:
# each round measures all of them in turn, so that a change of the machine meets all. Printed is the median of ROUNDS (5) rounds of
# SECONDS_EACH (2).
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
[ "$#" -gt 1 ] || designs=(pmfs)
speed=$(dirname "$(realpath "$0")")/speed.py
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-2}

command -v fio >/dev/null || die "fio is missing"

# What is measured: NAME COMMAND.
servers=("weir $weir")
[ -z "${OLD:-}" ] || servers+=("old $(realpath "$OLD")")
[ -z "${MEMFS:-}" ] || servers+=("memfs $(realpath "$MEMFS")")

# Mounts, and says which process serves. $1: name; $2: command; $3: design.
begin() {
    if [ "$1" = memfs ]; then
        "$2" -f "$dir" >/dev/null 2>&1 &
        server=$!
        for _ in $(seq 200); do ! mountpoint -q "$dir" || break; sleep 0.05; done
        mountpoint -q "$dir" || die "$2 has not mounted"
    else
        rm -f "$pool"
        "$2" mount "$3" "$pool" "$dir" --size 512MiB --quiet -o cache=direct
        server=$(pgrep -n -f "mount $3 $pool")
    fi
}

end() {
    umount -i "$dir"
    for _ in $(seq 200); do [ -e "/proc/$server" ] || break; sleep 0.05; done
    wait
    server=
}

median() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

measure() { # ROUND DESIGN
    local name command kind programs
    for one in "${servers[@]}"; do
        read -r name command <<<"$one"
        begin "$name" "$command" "$2"
        for kind in read write files; do
            for programs in 1 2; do
                python3 "$speed" "$kind" "$dir" "$server" "$programs" "$seconds" >>"$work/$2.$kind.$programs.$name"
            done
        done
        end
        say "round $1 of $rounds: $2, $name"
    done
}

for design in "${designs[@]}"; do
    for round in $(seq "$rounds"); do measure "$round" "$design"; done
    printf '\n%-6s %-8s %-6s %12s %14s %14s\n' "$design" programs "" ops/s "server us/op" "programs us/op"
    for kind in read write files; do
        for programs in 1 2; do
            for one in "${servers[@]}"; do
                found=$work/$design.$kind.$programs.${one%% *}
                columns=()
                for column in 1 2 3; do columns+=("$(cut -d' ' -f"$column" "$found" | median)"); done
                printf '%-6s %-8s %-6s %12s %14s %14s\n' "$kind" "$programs" "${one%% *}" "${columns[@]}"
            done
        done
    done
done
