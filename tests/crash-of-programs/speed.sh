#!/usr/bin/env bash
# Figures, which decide nothing here (a busy host halves them): the rate of checks beside that of the bare checker, the time to the end
# of a default run of 01, the time and memory to open a trace of 100,000 calls, and what --contents adds to the CPU time of recording.
case=speed
. "$(dirname "$0")/place.sh"
needs python3 git sqlite3
[ -x /usr/bin/time ] || skip "/usr/bin/time is not installed"
jobs=$(nproc)

{ echo "edition 1"; head -c 4500 /dev/zero | tr '\0' w; echo; } >document
records $python "$here/save.py"
checker="$python $here/save_check.py"
: >"$work/acked"
export WEIR_ACKED=$work/acked
began=$(date +%s.%N)
seq 60 | xargs -P "$jobs" -I{} sh -c "$checker" >/dev/null
echo "  bare checker: $($python -c "import sys; print(round(60 / ($(date +%s.%N) - $began), 1))") a second, $jobs at once"
"$weir" check crash "trace:$work/it.wtrace" --check "$checker" --fs ext4 --no-fix 2>/dev/null | sed -n '1s/.*; /  by weir: /p'
"$weir" check crash "trace:$work/it.wtrace" --check "$checker" 2>/dev/null | sed -n '1s/.*; /  a default run of 01: /p'

anew
cat >"$work/many.py" <<'END'
import os
files = [os.open(f"f{at}", os.O_RDWR | os.O_CREAT) for at in range(20)]
for at in range(100_000):
    os.pwrite(files[at % 20], b"%8d" % at * 1000, at // 20 * 8000)
    if at % 1000 == 999:
        os.fsync(files[at % 20])
END
records $python "$work/many.py"
# The trace is opened before it turns out that nothing was told in that file.
/usr/bin/time -f '  100,000 calls with 800 MB opened: %e s, %M KiB' "$weir" check crash "trace:$work/it.wtrace" --check true \
    --acknowledge file:none 2>&1 >/dev/null | tail -n 1
/usr/bin/time -f '  and the checker tried on trees of 800 MB: %e s, %M KiB' "$weir" check crash "trace:$work/it.wtrace" --check true \
    --fs ext4 --states 1 --time 1 --no-fix 2>&1 >/dev/null | tail -n 1

# Recording: CPU seconds of weir, strace and the program together; with contents at most 1.5 times those without.
anew
git init -q --bare "$work/from.git"
git init -q . && for at in $(seq 600); do seq "$at" 1400 >"f$at"; done
git add . && git -c user.name=a -c user.email=a@b.invalid commit -q -m one && git push -q "$work/from.git" HEAD:refs/heads/main
for what in git sqlite; do
    case $what in
    git) set -- git clone -q --no-local -b main "$work/from.git" to ;;
    sqlite) set -- sqlite3 load.db "CREATE TABLE t(a, b);
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300000) INSERT INTO t SELECT x, hex(randomblob(20)) FROM n;" ;;
    esac
    for contents in "" --contents; do
        taken=""
        for turn in 1 2 3; do
            anew
            taken="$taken $($python "$here/cpu.py" "$weir" record -q $contents -o "$work/it.wtrace" -- "$@")"
        done
        echo "  recording $what ${contents:-without contents}:$taken s of CPU, three times"
    done
done
ok
