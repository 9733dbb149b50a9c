#!/usr/bin/env bash
# SQLite's write-ahead log with synchronous=NORMAL: consistent, and the last transfers may be lost; with FULL, which is the fix, none.
case=06-sqlite-wal
. "$(dirname "$0")/place.sh"
needs python3 sqlite3
bank() {
    sqlite3 bank.db "PRAGMA journal_mode=WAL; CREATE TABLE account(id INTEGER PRIMARY KEY, held INT);
        INSERT INTO account VALUES (1,50),(2,50); CREATE TABLE transfer(number INT);" >/dev/null
    records $python "$here/bank.py" "$1" checkpoint
}
bank NORMAL
breaks "$python $here/bank_check.py" posix=D ext4=D ext4:zeros=no,replace=yes=D xfs=D btrfs=D f2fs=D tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=D
anew
bank FULL
breaks "$python $here/bank_check.py" posix=– ext4=– ext4:zeros=no,replace=yes=– xfs=– btrfs=– f2fs=– tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=–
ok
