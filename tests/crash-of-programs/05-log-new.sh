#!/usr/bin/env bash
# A new journal is synced, its folder is not: only where fsync covers no name is anything lost. Then with the folder, which is the fix.
case=05-log-new
. "$(dirname "$0")/place.sh"
needs python3 gcc
gcc -O1 -o "$work/log" "$here/log.c" || differs "gcc"
records "$work/log" new sync
breaks "$python $here/log_check.py" posix=D ext4=– ext4:zeros=no,replace=yes=– xfs=– btrfs=– f2fs=– tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=–
helps "$python $here/log_check.py" posix 'fsync of the folder "." before the answer'
anew
records "$work/log" new sync folder
breaks "$python $here/log_check.py" posix=– ext4=– ext4:zeros=no,replace=yes=– xfs=– btrfs=– f2fs=– tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=–
ok
