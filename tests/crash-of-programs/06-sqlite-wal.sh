#!/usr/bin/env bash
# SQLite's write-ahead log with synchronous=NORMAL: consistent, and the last transfers may be lost.
case=06-sqlite-wal
. "$(dirname "$0")/place.sh"
needs python3 sqlite3
sqlite3 bank.db "PRAGMA journal_mode=WAL; CREATE TABLE account(id INTEGER PRIMARY KEY, held INT);
    INSERT INTO account VALUES (1,50),(2,50); CREATE TABLE transfer(number INT);" >/dev/null
records python3 "$here/bank.py" NORMAL checkpoint
breaks "python3 $here/bank_check.py" posix=D ext4=D ext4:zeros=no,replace=yes=D xfs=D btrfs=D f2fs=D tmpfs=D \
    nova=– pmfs=– crest=– redo=– hinfs=D
ok
