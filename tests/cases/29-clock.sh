#!/bin/bash
# Times of strace are those of one clock: over midnight, relative to the line before, after the clock was set. A table of sums is no lost
# call, a call that a kill has ended neither; files of -ff have their order; constants may be spelled in full.
#   tests/cases/29-clock.sh WEIR
case=29-clock
. "$(dirname "$0")/traces.sh"
calls() { # TIME-OF-EACH-LINE…
    printf '501 %s openat(AT_FDCWD</srv/d>, "a", O_RDWR|O_CREAT, 0644) = 3</srv/d/a> <0.000010>\n' "$1"
    printf '501 %s write(3</srv/d/a>, "x"..., 4096) = 4096 <0.000010>\n' "$2" "$3"
    printf '501 %s close(3</srv/d/a>) = 0 <0.000010>\n501 %s +++ exited with 0 +++\n' "$4" "$5"
}
calls 23:59:59.500000 23:59:59.900000 00:00:00.100000 00:00:00.300000 00:00:00.300100 >midnight.txt
calls 0.000000 0.400000 0.200000 0.200000 0.000100 >relative.txt
calls 900.000000 900.400000 300.000000 300.400000 300.400100 >set.txt
printf '%s\n' '% time     seconds  usecs/call     calls    errors syscall' '------ ----------- -----------' '100.00    0.000010           1         4           total' >>midnight.txt
for name in midnight relative set; do
    "$weir" trace import strace $name.txt --root /srv/d -o $name.wtrace >$name.log 2>&1 || differs "$name: $(tail -n 1 $name.log)"
    span=$("$weir" trace show $name.wtrace | sed -n 's/^E at=\([0-9]*\).*/\1/p')
    [ "$span" -gt 700000000 ] && [ "$span" -lt 900000000 ] || differs "$name: the lines span 0.8 s, the trace $span ns"
    [ "$(missing $name.wtrace)" = 0 ] || differs "$name: $(missing $name.wtrace) calls are said to be missing"
done
grep -q 'steps back of the clock' set.log || differs "a clock that was set back is not told"
cat >killed.txt <<'T'
501 1.0 openat(AT_FDCWD</srv/d>, "a", O_RDWR|O_CREAT, 0644) = 3</srv/d/a> <0.000010>
501 1.1 flock(3</srv/d/a>, LOCK_EX <unfinished ...>
501 1.2 <... flock resumed>) = ?
501 1.2 +++ killed by SIGKILL +++
502 1.3 pause( <unfinished ...>
502 1.4 +++ killed by SIGKILL +++
T
"$weir" trace import strace killed.txt --root /srv/d -o killed.wtrace >killed.log 2>&1 || differs "killed: $(tail -n 1 killed.log)"
[ "$(missing killed.wtrace)" = 0 ] || differs "a call that a kill has ended is said to be missing"
cat >each.501 <<'T'
1.000000 openat(-100 /* AT_FDCWD */</srv/d>, "a", 0x41 /* O_WRONLY|O_CREAT */, 0644) = 3</srv/d/a> <0.000010>
1.100000 clone(child_stack=NULL, flags=0x1200011 /* CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD */) = 502 <0.000900>
1.400000 write(3</srv/d/a>, "x"..., 10) = 10 <0.000010>
1.500000 +++ exited with 0 +++
T
cat >each.502 <<'T'
1.100500 write(3</srv/d/a>, "x"..., 4096) = 4096 <0.000010>
1.300000 +++ exited with 0 +++
T
"$weir" trace import strace each.501 each.502 --root /srv/d -o each.wtrace >each.log 2>&1 || differs "-ff: $(tail -n 1 each.log)"
[ "$(told each.wtrace a) $(missing each.wtrace)" = "4106 0" ] || differs "-ff: the file has 4106 bytes, in the trace $(told each.wtrace a)"
"$weir" trace import strace each.501 --root /srv/d -o one.wtrace >one.log 2>&1 || differs "one file of -ff: $(tail -n 1 one.log)"
[ "$(missing one.wtrace)" -gt 0 ] || differs "one file of -ff lacks a process, of which nothing is said"
ok
