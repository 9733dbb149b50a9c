#!/usr/bin/env bash
# A new journal is synced, its folder is not: only where fsync covers no name is anything lost.
case=05-log-new
. "$(dirname "$0")/place.sh"
needs python3 gcc
gcc -O1 -o "$work/log" "$here/log.c" || differs "gcc"
records "$work/log" new sync
breaks "python3 $here/log_check.py" posix=D ext4=– ext4:zeros=no,replace=yes=– xfs=– btrfs=– f2fs=– tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=–
helps "python3 $here/log_check.py" posix 'fsync of the folder "." before the answer'
ok
