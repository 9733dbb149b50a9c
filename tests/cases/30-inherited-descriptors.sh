#!/bin/bash
# Descriptors that the program gets from its shell have their flags and positions, and two numbers of one open file share it.
#   tests/cases/30-inherited-descriptors.sh WEIR
case=30-inherited-descriptors
. "$(dirname "$0")/traces.sh"
needs_strace
for how in strace preload; do
    cd "$work/d" || exit 1
    rm -f -- * "$work"/*.wtrace
    printf 'twenty-one-bytes-old\n' >log
    "$weir" record --how $how -o ../append.wtrace -- sh -c 'echo abc; echo def' >>log 2>../record.log
    printf '01234567890123456789' >pos
    (exec 4<>pos; head -c 10 <&4 >/dev/null; "$weir" record --how $how -o ../pos.wtrace -- sh -c 'printf YYYYYYYYYYYYYYYYYYYY >&4' 2>../record.log)
    "$weir" record --how $how -o ../both.wtrace -- sh -c 'echo out; echo err >&2; echo out' >both 2>&1
    cd "$work" || exit 1
    for name in append:log pos:pos; do
        equal "$work/${name%:*}.wtrace" "${name#*:}" "$how, ${name%:*}"
    done
    # The recorder's own lines go to the same place.
    [ "$(told "$work/both.wtrace" both)" = 12 ] || differs "$how, 2>&1: 12 bytes of the program, in the trace $(told "$work/both.wtrace" both)"
done
ok
