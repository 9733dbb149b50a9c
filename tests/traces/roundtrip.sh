#!/usr/bin/env bash
# Programs are recorded by strace, by preload where it sees all, and by a mount, and replayed on designs and on a tmpfs of the host: every result must be the
# recorded one, and the tree that is left that of the program.
#
#   tests/traces/roundtrip.sh WEIR [PROGRAM…]      default: cp tar sqlite git cc postmark dbench, as far as they are installed
#
# DESIGNS (nova,ext4) says where; DIR (/dev/shm) is the tmpfs. Recording by a mount takes root and /dev/fuse.
# The tree of `weir trace tree` is compared with the one on the disk; `weir bench --check` compares that of each replay with it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
shift
work=$(mktemp -d)
tmpfs=$(mktemp -d -p "${DIR:-/dev/shm}")
shared=$work/shared
mkdir "$shared"
export XDG_DATA_HOME=$work/data HOME=$work/home GIT_CONFIG_NOSYSTEM=1
mkdir "$HOME"
cleanup() {
    if mountpoint -q "$work/mnt"; then umount --lazy "$work/mnt" || true; fi
    rm -rf "$work" "$tmpfs"
}
trap cleanup EXIT
say() { printf '%s\n' "$*" >&2; }
die() {
    say "FAILED: $*"
    exit 1
}
. "$here/programs.sh"
command -v strace >/dev/null || { say "skipped: strace is not installed"; exit 0; }
designs=${DESIGNS:-nova,ext4}
names=("$@")
[ ${#names[@]} -gt 0 ] || read -ra names <<<"$(programs)"

# What the trace says is left must be there: a name that the program did not touch may be there besides.
same_tree() { # TRACE FOLDER
    "$weir" trace tree "$1" >"$work/said" || die "$1: no tree"
    python3 "$here/tree.py" "$2" | LC_ALL=C sort >"$work/found"
    LC_ALL=C sort "$work/said" | LC_ALL=C comm -23 - "$work/found" >"$work/only"
    [ ! -s "$work/only" ] || die "$1: not on the disk: $(head -5 "$work/only")"
    [ -s "$work/said" ] || die "$1: an empty tree proves nothing"
}

replay() { # TRACE WHAT
    local out
    for where in "--fs $designs --medium dram" "--fs host:$tmpfs --clock real"; do
        # shellcheck disable=SC2086
        out=$("$weir" bench "trace:$1" $where --check --json -D pace=asap 2>"$work/err") ||
            die "$2 on $where: $(cat "$work/err"); $(printf '%s' "$out" | python3 -c "$notes" || true)"
        printf '%s' "$out" | python3 -c "$sums" "$2" || die "$2: what the result says"
    done
}
# shellcheck disable=SC2016
notes='import json,sys
try: document = json.load(sys.stdin)
except ValueError: sys.exit(0)
for result in document.get("results", [document]):
    for sample in result.get("samples", []):
        for note in sample.get("notes", []): print(note)'
sums='import json, sys
document = json.load(sys.stdin)
for result in document.get("results", [document]):
    for sample in result["samples"]:
        calls, differing = sample["ops"], sample["counters"]["replay.differing"]
        assert differing == 0 and calls > 0, sample["notes"]
        left, fs = sample["counters"]["replay.not_made"], sample["axes"]["fs"].split("/")[0]
        print(f"{sys.argv[1]:<16} {fs:<8} {calls:>7} calls, 0 differ, {left} not made", file=sys.stderr)'

# The calls of a trace with their results, in no order and without names and times: a copy of a folder lists them in another order.
# (That calls and their order are equal is a test of crates/trace, on one folder.)
calls() { # TRACE
    "$weir" trace show "$1" | grep -E '^[0-9]+ ' | sed -E 's/^([0-9]+) [^ ]+ [0-9]+ /\1 /; s/"[^"]*"/NAME/g; s/(utimes.*) [0-9]+ [0-9]+ =/\1 =/' | sort
}

# Calls that change or open names, which no program makes inside libc without a function that preload has: so many of each kind and result.
names() { # TRACE
    "$weir" trace show "$1" | grep -E '^[0-9]+ [^ ]+ [0-9]+ (mkdir|rmdir|unlink|rename|link|symlink|chmod|open) ' |
        sed -E 's/^[0-9]+ [^ ]+ [0-9]+ //; s/"[^"]*"/NAME/g; s/ = [0-9@].*/ = ok/' | sort | uniq -c
}

# Where preload sees all, its trace is as good as strace's, and of a program without chance it has the same calls. Where it does not, it
# names each program and what it cannot see of it, and all changes of names are those that strace has seen.
by_preload() { # NAME
    local name=$1 lost
    rm -rf "$work/${name:?}"
    mkdir "$work/$name"
    cp -a "$work/$name.before/." "$work/$name"
    (
        cd "$work/$name"
        "${name}_run"
        "$weir" record --json --how preload -o "$work/$name.preload.wtrace" -- "${command[@]}" >"$work/said.json" 2>"$work/out" ||
            die "$name by preload: $(tail -5 "$work/out")"
    )
    lost=$(python3 -c 'import json, sys
said = json.load(open(sys.argv[1]))
assert (said["lost"] == 0) == (not said["unseen"]), said
print(said["lost"])
for what in said["unseen"]:
    assert ": " in what, f"no program is named: {what}"
    print(f"not seen by preload: {what}", file=sys.stderr)' "$work/said.json") || die "$name: lost without a name"
    if [ "$lost" != 0 ]; then
        ! "$weir" trace compile "$work/$name.preload.wtrace" -o "$work/$name.wprog" 2>/dev/null || die "$name: lost calls are compiled"
        case $name in cp | tar | sqlite | dbench) die "$name: preload has lost $lost calls" ;; esac
        names "$work/$name.wtrace" >"$work/of_strace"
        names "$work/$name.preload.wtrace" >"$work/of_preload"
        [ -s "$work/of_strace" ] || die "$name: no name is opened or changed"
        diff "$work/of_strace" "$work/of_preload" >"$work/differ" || die "$name by preload: other names: $(head -5 "$work/differ")"
        say "$name: preload has lost $lost calls and says so; the names that it opens and changes are strace's"
        return
    fi
    case $name in postmark | git | cc) die "$name uses stdio, of which preload says nothing" ;; esac
    same_tree "$work/$name.preload.wtrace" "$work/$name"
    replay "$work/$name.preload.wtrace" "$name preload"
    if [ "$name" = cp ]; then
        diff <(calls "$work/$name.wtrace") <(calls "$work/$name.preload.wtrace") >"$work/differ" || die "$name: $(head -5 "$work/differ")"
        say "cp: strace and preload agree in $(calls "$work/$name.wtrace" | wc -l) calls"
    fi
}

canary() {
    local calls='1 0 0 open "f" wronly,creat 0600 = 3\n1 0 0 rename "f" "g" - = 0\n1 0 0 stat "f" = 0\n'
    # shellcheck disable=SC2059
    printf "#weir-trace 1\n#root /r\nT 1 1 1 \"\"\n$calls" >"$work/canary.wtrace"
    ! "$weir" bench "trace:$work/canary.wtrace" --fs nova --medium dram --quiet >/dev/null 2>&1 ||
        die "a result that differs is not noticed"
}

canary
for name in "${names[@]}"; do
    mkdir "$work/$name"
    (
        cd "$work/$name"
        "${name}_prepare"
        cp -a . "$work/$name.before"
        "${name}_run"
        "$weir" record --quiet -o "$work/$name.wtrace" -- "${command[@]}" >"$work/out" 2>&1 || die "$name: $(tail -5 "$work/out")"
    )
    same_tree "$work/$name.wtrace" "$work/$name"
    replay "$work/$name.wtrace" "$name strace"
    by_preload "$name"
done

if [ "$(id -u)" != 0 ] || [ ! -w /dev/fuse ]; then
    say "left out: recording by a mount takes root and /dev/fuse"
    exit 0
fi
mkdir "$work/mnt"
for name in "${names[@]}"; do
    rm -f "$work/pool.weir"
    "$weir" mount nova "$work/pool.weir" "$work/mnt" --size 512MiB --quiet
    ( cd "$work/mnt" && "${name}_prepare" )
    "$weir" umount "$work/mnt"
    "$weir" mount nova "$work/pool.weir" "$work/mnt" --quiet -o cache=direct --record "$work/$name.mount.wtrace"
    (
        cd "$work/mnt"
        "${name}_run"
        "${command[@]}" >"$work/out" 2>&1 || die "$name on a mount: $(tail -5 "$work/out")"
    )
    python3 "$here/tree.py" "$work/mnt" >/dev/null
    cp -a "$work/mnt" "$work/$name.left"
    "$weir" umount "$work/mnt"
    same_tree "$work/$name.mount.wtrace" "$work/$name.left"
    replay "$work/$name.mount.wtrace" "$name mount"
done
say "every result was the recorded one, and every tree the program's"
