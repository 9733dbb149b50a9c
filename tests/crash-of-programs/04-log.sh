#!/usr/bin/env bash
# Entries of a journal are told without a sync; then with the one that is the fix.
case=04-log
. "$(dirname "$0")/place.sh"
needs python3 gcc
gcc -O1 -o "$work/log" "$here/log.c" || differs "gcc"
: >journal
records "$work/log" old
breaks "$python $here/log_check.py" posix=D ext4=D ext4:zeros=no,replace=yes=D xfs=D btrfs=D f2fs=D tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=D
helps "$python $here/log_check.py" ext4 'fsync of journal before the answer'
anew
: >journal
records "$work/log" old sync
breaks "$python $here/log_check.py" posix=– ext4=– ext4:zeros=no,replace=yes=– xfs=– btrfs=– f2fs=– tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=–
ok
