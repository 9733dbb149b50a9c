#!/usr/bin/env bash
# run.sh WEIR [short|long]: every numbered script here, then how much of the cells each model and each null model has. `short`: on posix
# and ext4 alone, with fewer trees. `long`: also SQLite's modes, LMDB, LevelDB and PostgreSQL, each right and wrong.
weir=${1:?usage: run.sh WEIR [short|long]}
models=() failed=0
here=$(dirname "$0")
scores=$(mktemp)
trap 'rm -f "$scores"' EXIT
export SCORES=$scores
if [ "${2:-}" = short ]; then
    models=(posix ext4)
    export STATES=${STATES:-60}
fi
for script in "$here"/[0-9]*.sh; do
    bash "$script" "$weir" ${models[@]+"${models[@]}"} || failed=1
done
if [ "${2:-}" = long ]; then
    for script in sqlite_modes stores postgres; do
        bash "$here/$script.sh" "$weir" || failed=1
    done
fi
python3 - "$scores" <<'END'
import collections, sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
scores = collections.defaultdict(lambda: [0, 0, 0, 0, 0, 0])
right = collections.Counter()
for case, model, found, expected, trees, points, states in rows:
    score = scores["null models: " + model if model.startswith("null-") else "models"]
    for letter in "AD":
        score[0] += letter in expected
        score[1] += letter in expected and letter in found
        score[2] += letter not in expected
        score[3] += letter not in expected and letter in found
    if expected == "–" and not model.startswith("null-"):
        right.update(trees=int(trees), states=int(states), cells=1)
    score[4] += int(trees)
    score[5] += int(points)
for name, (there, seen, absent, false, trees, points) in scores.items():
    print(f"  {name}: {seen} of {there} faults, {false} false alarms in {absent} cells; {trees} trees at {points} points")
print(f"  cells without a fault: {right['cells']}, in which {right['trees']} trees of {right['states']} states and images were judged")
END
exit $failed
