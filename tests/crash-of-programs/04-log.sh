#!/usr/bin/env bash
# Entries of a journal are told without a sync.
case=04-log
here=$(realpath "$(dirname "$0")")
. "$here/place.sh"
needs python3 gcc
: >journal
gcc -O1 -o "$work/log" "$here/log.c" || differs "gcc"
records "$work/log" old
breaks "python3 $here/log_check.py" posix=D ext4=D ext4:zeros=no,replace=yes=D xfs=D btrfs=D f2fs=D tmpfs=D
ok
