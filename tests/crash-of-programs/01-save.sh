#!/usr/bin/env bash
# A file is replaced by a rename and nothing is synced: the new one may be empty, and the answer comes too early.
case=01-save
. "$(dirname "$0")/place.sh"
needs python3
{ echo "edition 1"; head -c 4500 /dev/zero | tr '\0' w; echo; } >document
records $python "$here/save.py"
breaks "$python $here/save_check.py" posix=AD ext4=AD ext4:zeros=no,replace=yes=D xfs=AD btrfs=AD f2fs=AD tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=–
helps "$python $here/save_check.py" ext4 'fsync of document.new before the rename document.new → document' \
    'fsync of the folder "." before the answer'
ok
