#!/usr/bin/env bash
# The new file is synced before the rename: it is whole, and the rename may still be lost after the answer.
case=02-save-synced
. "$(dirname "$0")/place.sh"
needs python3
{ echo "edition 1"; head -c 4500 /dev/zero | tr '\0' w; echo; } >document
records $python "$here/save.py" file
breaks "$python $here/save_check.py" posix=D ext4=D ext4:zeros=no,replace=yes=D xfs=D btrfs=D f2fs=D tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=–
helps "$python $here/save_check.py" posix,ext4,xfs,btrfs,f2fs 'fsync of the folder "." before the answer'
ok
