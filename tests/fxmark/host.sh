#!/usr/bin/env bash
# FxMark on file systems of this host's kernel that Weir makes itself: all nineteen complete, the causes of MWCM and DWOM are named, and
# nothing is left mounted or looped, whichever way Weir ends.
#
#   tests/fxmark/host.sh WEIR
#   FILE_SYSTEMS="ext4 xfs"                              some of them; default: tmpfs ext4 ext4nj xfs btrfs
#   MEDIUM=zram                                          default: loop
#
# As root; else skipped, with exit status 0. A file system that the kernel or its tools lack is left out by Weir, and named.
set -euo pipefail

[ "$(id -u)" = 0 ] || { echo "tests/fxmark/host.sh: skipped: only root can mount a file system of the kernel"; exit 0; }
. "$(realpath "$(dirname "$0")")/../mount/place.sh" "$1"
shift
read -ra kinds <<<"${FILE_SYSTEMS:-tmpfs ext4 ext4nj xfs btrfs}"
medium=${MEDIUM:-loop}
export XDG_DATA_HOME=$work/store TMPDIR=$work/tmp
mkdir "$TMPDIR"
cores=$(nproc)
[ "$cores" -ge 2 ] || { say "skipped: causes need two cores"; exit 0; }

made=(--kernel-fs "$(IFS=, && echo "${kinds[*]}")" --medium "$medium" --clock real --region 2GiB)

# What this host has of Weir's: mounts and files in the folder of temporary files, loop devices, RAM disks, and workers.
state() {
    grep -F " $TMPDIR" /proc/self/mounts || true
    ls -A "$TMPDIR"
    losetup -n -O NAME,BACK-FILE | grep -F /image || true
    (cd /sys/block && ls -d zram* ram* 2>/dev/null) || true
    pgrep -f "weir-device.*$TMPDIR" || true
    for process in $(pgrep -f fxmark-worker); do
        [ "$(readlink "/proc/$process/exe")" != "$weir" ] || echo "worker $process"
    done
}

# Waits until the host is as it was: a namespace goes with its last process, and a loop device with its last user.
is_as_before() {
    for _ in $(seq 100); do
        state >"$work/after"
        if cmp -s "$work/before" "$work/after"; then return; fi
        sleep 0.1
    done
    diff "$work/before" "$work/after" >&2 || true
    die "$1 has left something behind"
}

state >"$work/before"

say "all nineteen on ${kinds[*]}"
status=0
"$weir" bench fxmark "${made[@]}" --threads 1,2 --runtime 1s --repeats 1 --causes --json >"$work/all.json" 2>"$work/said" || status=$?
[ "$status" = 0 ] || [ "$status" = 4 ] || die "exit status $status: $(cat "$work/said")"
is_as_before "the run of all nineteen"

say "whether all completed, and what held MWCM and DWOM back"
python3 - "$work/all.json" "$status" "${kinds[@]}" <<'EOF'
import json, sys

samples = json.load(open(sys.argv[1]))["samples"]
status, kinds = int(sys.argv[2]), sys.argv[3:]
measured = {sample["axes"]["fs"].removeprefix("linux/") for sample in samples}
assert status == 4 or measured == set(kinds), f"left out without being told: {set(kinds) - measured}"
assert measured, "nothing was measured"
assert len(samples) == 19 * 2 * len(measured), f"{len(samples)} samples"
for sample in samples:
    axes = sample["axes"]
    assert not sample.get("failure"), (axes, sample["failure"])
    assert not sample["partial"] and sample["errors"] == 0 and sample["ops"] > 0, (axes, sample.get("notes"))

expected = {"fxmark/MWCM": {"kernel.directory"}, "fxmark/DWOM": {"linux.inode", "linux.xfs_iolock"}}
wrong = []
for sample in samples:
    axes = sample["axes"]
    names = expected.get(axes["workload"])
    if not names or axes["threads"] != "2":
        continue
    known = sample["kernel_locks"]
    assert known["sources"], f"{axes}: this host does not tell what tasks wait for: {known.get('skipped')}"
    first = known["locks"][0] if known["locks"] else {"name": "nothing", "wait_ns": 0}
    share = first["wait_ns"] / known["task_ns"]
    print(f"  {axes['workload'][7:]} {axes['fs']:14} {first['name']:18} {share:5.1%}  lost {known['lost']}")
    if first["name"] not in names:
        wrong.append((axes["workload"], axes["fs"], first["name"]))
assert not wrong, f"another lock is first: {wrong}"
EOF

say "nothing is left after Ctrl-C, and after a kill that nothing can answer"
for signal in INT KILL; do
    for pause in 0.4 1.3 2.9; do
        "$weir" bench fxmark/MWCM fxmark/DWSL "${made[@]}" --threads 2 --runtime 20s --repeats 1 >"$work/out" 2>&1 &
        victim=$!
        sleep "$pause"
        kill -"$signal" "$victim"
        wait "$victim" 2>/dev/null || true
        is_as_before "a run that SIG$signal ended after $pause s"
    done
done

say "a kernel without tracepoints: the profile tells, and what is missing is named"
without='mount --make-rprivate / && mount -t tmpfs none /sys/kernel/tracing && mkdir /sys/kernel/tracing/events && exec "$@"'
unshare -m sh -c "$without" - "$weir" bench fxmark/DWOM --fs "host:$TMPDIR" --clock real --threads 2 --runtime 1s --causes --json \
    >"$work/few.json" 2>"$work/said" || die "$(cat "$work/said")"
python3 - "$work/few.json" <<'EOF'
import json, sys

known = json.load(open(sys.argv[1]))["samples"][0]["kernel_locks"]
assert known["sources"] == ["profile"], known["sources"]
assert [why.split(":")[0] for why in known["skipped"]] == ["lock tracepoints", "off-CPU stacks"], known["skipped"]
print(f"  {[lock['name'] for lock in known['locks'][:3]]}")
EOF

say "what cannot be made is named, and the rest goes on"
status=0
PATH=$work "$weir" bench fxmark/DRBL --kernel-fs tmpfs,f2fs --medium "$medium" --clock real --threads 1,$((cores + 1)) \
    --runtime 100ms --repeats 1 >"$work/out" 2>"$work/said" || status=$?
[ "$status" = 4 ] || die "exit status $status instead of 4: $(cat "$work/said")"
grep -q "$((cores + 1)) threads: this host has $cores cores" "$work/said" || die "not said: $(cat "$work/said")"
status=0
"$weir" bench fxmark/DRBL --kernel-fs tmpfs --clock real --threads $((cores + 1)) >"$work/out" 2>"$work/said" || status=$?
[ "$status" = 3 ] || die "exit status $status instead of 3: $(cat "$work/said")"
is_as_before "the last run"
say "done"
