#!/usr/bin/env bash
# The server of a mount is killed again and again under load, on a small pool whose log wraps: each time the pool must be clean, and have
# every file that a caller was told of.
#
#   tests/mount/kills.sh WEIR [DESIGN…]     [crest]
#
# As root, with python3. KILLS (20) times: four writers churn, and note each change behind its fsync (a file made, changed, renamed or
# removed); then kill -9, `weir fsck`, another mount, and what lies there against the notes. SIZE (64MiB) of the pool.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
[ "$#" -gt 1 ] || designs=(crest)
kills=${KILLS:-20}
writers=4

# What a writer does until the server is gone. A line before a change says what may be, one behind it what is.
write='import os, random, sys
dir, notes, seed = sys.argv[1], open(sys.argv[2], "a", buffering=1), int(sys.argv[3])
draw = random.Random(seed)
os.makedirs(dir, exist_ok=True)
home = os.open(dir, os.O_RDONLY)
names = {}
try:
    for step in range(1 << 30):
        name = f"{draw.randrange(40)}"
        path = f"{dir}/{name}"
        tag, size = f"{seed}.{step}", draw.choice([0, 100, 4096, 20000])
        if name in names and draw.random() < 0.4:
            print("?", name, "-", file=notes)
            os.unlink(path); os.fsync(home); del names[name]
            print("=", name, "-", file=notes)
            continue
        print("?", name, tag, size, file=notes)
        with open(path + ".new", "wb") as file:
            file.write((tag + "\n").encode() * (size // len(tag) + 1)); file.flush(); os.fsync(file.fileno())
        os.rename(path + ".new", path); os.fsync(home); names[name] = tag
        print("=", name, tag, size, file=notes)
except OSError as error:
    # The server is gone. A full pool would be a fault here.
    sys.exit(0 if error.errno in (107, 103, 5) else f"{path}: {error}")'
# Each name holds what was noted last, or what may have been on the way.
check='import os, sys
dir, last, may, count = sys.argv[1], {}, {}, 0
for line in open(sys.argv[2]):
    what, name, *tag = line.split()
    (last if what == "=" else may)[name] = tag
    if what == "=": may.pop(name, None)
def holds(path, tag):
    if not os.path.exists(path): return tag == ["-"] or not tag
    if len(tag) < 2: return False
    text = (tag[0] + "\n").encode() * (int(tag[1]) // len(tag[0]) + 1)
    return open(path, "rb").read() == text
for name in last.keys() | may.keys():
    path, count = f"{dir}/{name}", count + 1
    if not (holds(path, last.get(name, [])) or name in may and holds(path, may[name])):
        sys.exit(f"{path}: noted {last.get(name)}, on the way {may.get(name)}")
print(count)'

for design in "${designs[@]}"; do
    options=allow_other
    rm -rf "$pool" "$work"/notes.*
    "$weir" mkfs "$design" "$pool" --size "${SIZE:-64MiB}" --quiet
    files=0 changes=0
    for ((kill = 1; kill <= kills; kill++)); do
        serve_it
        pids=()
        for ((writer = 0; writer < writers; writer++)); do
            # What lies there is known from here on.
            rm -rf "${dir:?}/$writer"
            : >"$work/notes.$writer"
            python3 -c "$write" "$dir/$writer" "$work/notes.$writer" $((kill * 100 + writer)) 2>"$work/said.$writer" &
            pids+=($!)
        done
        sleep "0.$((RANDOM % 900 + 100))"
        sleep 1
        kill -9 "$server"
        wait "$server" 2>/dev/null || true
        server=
        for ((writer = 0; writer < writers; writer++)); do
            wait "${pids[writer]}" || die "$design, kill $kill: $(tail -n 1 "$work/said.$writer")"
        done
        umount "$dir" 2>/dev/null || umount --lazy "$dir"
        "$weir" fsck "$pool" >"$work/fsck" 2>&1 || die "$design, kill $kill: $(cat "$work/fsck")"
        serve_it
        for ((writer = 0; writer < writers; writer++)); do
            found=$(python3 -c "$check" "$dir/$writer" "$work/notes.$writer" 2>&1) || die "$design, kill $kill: $found"
            files=$((files + found))
            changes=$((changes + $(grep -c '^=' "$work/notes.$writer")))
        done
        # Canary: a note of what was never stored.
        echo "= 0 never 100" >>"$work/notes.0"
        ! python3 -c "$check" "$dir/0" "$work/notes.0" >/dev/null 2>&1 || die "$design: a file that is missing is not noticed"
        "$weir" umount "$dir" >/dev/null
        wait "$server" 2>/dev/null || true
        server=
    done
    say "$design: $kills kills, $changes changes that were noted, $files names compared: all there, every pool clean"
    record mount/killed --subject "$design" --unit kills --count "$kills"
done
