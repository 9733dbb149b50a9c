#!/usr/bin/env bash
# What cannot be used is refused: a sentence with what to do, and exit code 2 (usage), 3 (it cannot run) or 4 (the checker is at
# fault). What is odd and can be used is used, and nothing outside the scratch folder is touched.
case=bad_input
. "$(dirname "$0")/place.sh"
needs python3
trace=$work/it.wtrace wrong=0
mkdir "$work/outside" "$work/tmp"
export TMPDIR=$work/tmp
echo untouched >"$work/outside/file"
records $python -c 'open("f", "w").write("x" * 100); open("g", "w").write("y"); print("done")'
cp "$trace" "$work/kept.wtrace"
cp "$trace.data" "$work/kept.data"

# refuses CODE WORDS ARGUMENT …: the check ends with CODE, and its last line has WORDS.
refuses() {
    local wanted=$1 words=$2 code
    shift 2
    timeout 100 "$weir" check crash "trace:$trace" --fs posix "$@" >"$work/out" 2>"$work/err"
    code=$?
    if [ "$code" != "$wanted" ] || ! grep -q -- "$words" "$work/err"; then
        echo "$case: $*: exit code $code, expected $wanted with \"$words\": $(tail -n 1 "$work/err")"
        wrong=1
    fi
    cp "$work/kept.wtrace" "$trace"
    cp "$work/kept.data" "$trace.data"
}

# edited SED: the trace with its text edited; a trace need not be compressed.
edited() { zcat "$work/kept.wtrace" | sed "$1" >"$trace"; }

refuses 2 "did you mean" --check true --fs ext5
refuses 2 "zeros=no" --check true --fs ext4:colour=red
refuses 2 "this run has" --check true --show 9 --into "$work/shown"
refuses 2 "already" --check true --show 1 --into "$work/outside"
refuses 2 "512" --check true --tear 7
refuses 2 "durable" --promise for-ever
refuses 2 ".html" --check true -o "$work/page.pdf"
refuses 2 "earlier run" --check true --baseline "$trace"

mv "$trace" "$work/gone"; refuses 3 "No such file" --check true
edited '/^#contents/d'; refuses 3 "weir record --contents" --check true
rm "$trace.data"; refuses 3 "put the file there" --check true
truncate -s -3 "$trace.data"; refuses 3 "before its end" --check true
sed -i '1s/ [^ ]*$/ other/' "$trace.data"; refuses 3 "another trace" --check true
sed -i 's/yy*$/z/' "$trace.data"; refuses 3 "hash" --check true
edited '/^E /s/dropped=0/dropped=3/'; refuses 3 "allow-unseen" --check true
edited '/^E /s/dropped=0/dropped=3/'; refuses 3 "not everything" --check true --allow-unseen
edited '/^E /d'; refuses 3 "allow-unseen" --check true

refuses 4 "cannot be run" --check ./not-there
refuses 4 "without any crash" --check 'echo no; false'
refuses 4 "only 0, 1 and 77" --check 'exit 3'
refuses 4 "signal" --check 'kill -9 $$'
refuses 4 "timeout" --check 'sleep 60' --timeout 1
refuses 4 "MiB" --check 'head -c 1G /dev/zero >big'
refuses 4 "MiB" --check 'head -c 1G /dev/zero'
echo 0 >"$work/runs"
refuses 4 "something else" --check "n=\$(cat $work/runs); echo \$((n + 1)) >$work/runs; echo no; exit \$((n % 2))"

if [ "$(id -u)" = 0 ] && mkdir "$work/small" && mount -t tmpfs -o size=16k none "$work/small" 2>/dev/null; then
    anew
    records $python -c 'open("f", "w").write("x" * 100000); print("done")'
    cp "$trace" "$work/kept.wtrace"; cp "$trace.data" "$work/kept.data"
    TMPDIR=$work/small refuses 3 "TMPDIR" --check true
    umount "$work/small"
fi

# A tree of many files is judged, and what to do is said.
anew
mkdir many
$python -c "
for at in range(${FILES:-10000}): open(f'many/{at}', 'w').close()"
records $python -c 'open("f", "w").write("x"); print("done")'
check --check true --fs ext4 --no-fix --states 2
[ $code = 0 ] && grep -q 'give fewer --states' "$work/found.json" || { echo "$case: many files: exit code $code"; wrong=1; }

# Odd trees: names that are no UTF-8, a link that leads out, a FIFO, a folder without permissions, a checker that repairs.
anew
OUT=$work/outside $python -c 'import os; open(b"\xff old", "w").write("1"); os.mkfifo("fifo"); os.symlink(os.environ["OUT"], "link")'
records $python -c '
import os
os.rename(b"\xff old", b"\xfe new"); os.mkdir("d", 0o700); open("d/f", "w").write("2"); os.chmod("d", 0); print("done")'
check --check 'rm -rf ./* ; echo x >made; exit 0' --fs posix,ext4,nova --no-fix
[ $code = 0 ] || { echo "$case: an odd tree: exit code $code: $(tail -n 1 "$work/found.log")"; wrong=1; }
grep -q fifo "$work/found.json" || { echo "$case: the FIFO is not named"; wrong=1; }
[ "$(cat "$work/outside/file")" = untouched ] && [ "$(ls "$work/outside")" = file ] || { echo "$case: a link was followed"; wrong=1; }
[ -z "$(ls "$work/tmp")" ] || { echo "$case: a scratch folder is left: $(ls "$work/tmp")"; wrong=1; }
[ $wrong = 0 ] || exit 1
ok
