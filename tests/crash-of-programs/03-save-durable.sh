#!/usr/bin/env bash
# The folder is synced as well before the answer: what the fixes of 01 and 02 say, done by hand. Nothing may be found.
case=03-save-durable
. "$(dirname "$0")/place.sh"
needs python3
{ echo "edition 1"; head -c 4500 /dev/zero | tr '\0' w; echo; } >document
records $python "$here/save.py" file folder
breaks "$python $here/save_check.py" posix=– ext4=– ext4:zeros=no,replace=yes=– xfs=– btrfs=– f2fs=– tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=–
ok
