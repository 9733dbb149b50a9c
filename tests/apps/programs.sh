#!/usr/bin/env bash
# The programs themselves, by `weir bench app/NAME --program`, on mounts of designs: each must work, pass its own check, and leave
# nothing: no process, no mount, no file.
#
#   tests/apps/programs.sh WEIR [DESIGN…]      default: nova ext4
#
# As root, with /dev/fuse and the Debian packages dbench postmark postgresql exim4-daemon-light; a program that is missing is named,
# and fails the run unless ALLOW_MISSING=1. SECONDS_EACH (5; 60 for a full run) is how long each runs, THREADS (4) its clients,
# ONLY="tpcc exim" runs these. PostgreSQL and Exim must also end at an interrupt, with a Weir that is killed, and, PostgreSQL, on a
# file system that fills up.
set -euo pipefail

weir=$1
shift
[ $# -gt 0 ] || set -- nova ext4
. "$(dirname "$0")/../mount/place.sh" "$weir" "$@"
[ "$(id -u)" = 0 ] && [ -w /dev/fuse ] || { say "skipped: this takes root and /dev/fuse"; exit 0; }
seconds=${SECONDS_EACH:-5}
threads=${THREADS:-4}
export XDG_DATA_HOME=$work/data
mkdir "$work/tmp"
chmod 1777 "$work/tmp"
export TMPDIR=$work/tmp

# Processes other than Weir's whose command or directory names the mount, and the shells that Weir lets watch over programs.
processes_left() { # WHEN
    DIR=$dir WEIR=$weir python3 - "$1" <<'PY'
import os, pathlib, sys, time
found = {}
for _ in range(100):
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            names = command + " " + os.readlink(process / "cwd")
            watches = "read -r target" in command and os.environ["TMPDIR"].encode() in (process / "environ").read_bytes()
        except OSError:
            continue  # it has ended
        if watches or os.environ["DIR"] in names and not command.startswith(os.environ["WEIR"]):
            found[process.name] = command
    if not found:
        sys.exit()
    time.sleep(0.1)
sys.exit(f"FAILED: {sys.argv[1]}: these processes are left: {found}")
PY
}

left() {
    local found
    for _ in $(seq 100); do
        found=$(for of in /proc/[0-9]*; do
            case "$(readlink "$of/cwd" 2>/dev/null) $(tr '\0' ' ' <"$of/cmdline" 2>/dev/null)" in
                *"weir mount"* | *"weir bench"*) ;;
                *"$dir"*) echo "${of#/proc/}: $(tr '\0' ' ' <"$of/cmdline" 2>/dev/null)" ;;
            esac
        done)
        [ -n "$found" ] || return 0
        sleep 0.1
    done
    die "$1: these processes are left: $found"
}

left() {
    local found
    processes_left "$1"
    found=$(find "$dir" -mindepth 1 -not -name lost+found; find "$TMPDIR" -mindepth 1)
    [ -z "$found" ] || die "$1: these files are left: $found"
    found=$(awk -v below="$dir/" 'index($2, below) == 1 || $2 == "/etc/passwd" || $2 == "/etc/group"' /proc/self/mounts)
    [ -z "$found" ] || die "$1: these mounts are left: $found"
}

bench() { "$weir" bench "app/$1" --program --fs "host:$dir" --clock real --quiet "${@:2}"; }

measure() { # NAME OPTION…
    local code=0
    bench "$@" --json >"$work/result.json" 2>"$work/err" || code=$?
    if [ $code = 3 ] && [ "${ALLOW_MISSING:-0}" = 1 ]; then
        say "  $(tail -1 "$work/err")"
        return
    fi
    [ $code = 0 ] || die "$design: $1 ends with $code: $(cat "$work/err")"
    python3 - "$work/result.json" "$1" <<'PY'
import json, sys
document = json.load(open(sys.argv[1]))
sample = document.get("results", [document])[0]["samples"][0]
assert sample["ops"] > 0, sample
more = "".join(f", {name.split('.')[1]} {count}" for name, count in sample["counters"].items() if name.startswith("tpcc."))
print(f"  {sys.argv[2]:9} {1e9 * sample['ops'] / sample['elapsed_ns']:>9.0f} operations a second{more}", file=sys.stderr)
PY
    left "$design: $1"
}

# A signal to Weir while the program works.
signal() { # SIGNAL NAME PATTERN: of a process that is there only then
    local bench code=0
    bench "$2" --threads 2 --runtime 600s >"$work/out" 2>"$work/err" &
    bench=$!
    until grep -qsa "$3" /proc/[0-9]*/cmdline; do
        kill -0 $bench 2>/dev/null || die "$design: $2 does not run: $(cat "$work/err")"
        sleep 0.1
    done
    sleep 1
    kill -"$1" "$(pgrep -P $bench)"
    wait $bench || code=$?
    [ $code != 0 ] || die "$design: $2 goes on after a signal"
    if [ "$1" = KILL ]; then
        # Its folders are left, since it could not remove them.
        processes_left "$design: $2 after the end of Weir"
        rm -rf "$dir"/.weir-* "$TMPDIR"/*
    else
        left "$design: $2 after an interrupt"
    fi
    say "  $2 ends with Weir at SIG$1"
}

steps=${ONLY:-dbench postmark tpcc exim}
for design in "${designs[@]}"; do
    say "$design, $seconds s each"
    rm -f "$pool"
    "$weir" mount "$design" "$pool" "$dir" --size 2GiB -o allow_other,dev,suid --quiet
    for step in $steps; do
        case $step in
            postmark) measure postmark -D number=200 -D transactions=$((seconds * 100)) ;;
            exim) measure exim --runtime "${seconds}s" -D clients="$threads" ;;
            *) measure "$step" --runtime "${seconds}s" --threads "$threads" ;;
        esac
    done
    for signal in INT KILL; do
        case $steps in *tpcc*) signal $signal tpcc new_order.sql@45 ;; esac
        case $steps in *exim*) signal $signal exim "$dir/.*config" ;; esac
    done
    "$weir" umount "$dir"
done

case $steps in *tpcc*)
    design=${designs[0]}
    rm -f "$pool"
    "$weir" mount "$design" "$pool" "$dir" --size 96MiB -o allow_other,dev,suid --quiet
    code=0
    bench tpcc --runtime "${seconds}s" >"$work/out" 2>"$work/err" || code=$?
    [ $code = 4 ] && grep -q 'No space left on device' "$work/err" || die "a full $design: exit code $code: $(cat "$work/err")"
    left "a full $design"
    "$weir" umount "$dir"
    say "a full file system ends the run with exit code 4: $(grep -o 'No space left on device.*' "$work/err" | head -1)"
    ;;
esac
say "every program worked and left nothing"
