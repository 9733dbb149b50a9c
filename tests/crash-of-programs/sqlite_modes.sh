#!/usr/bin/env bash
# SQLite in its journal modes, on every model: the long form of 06, some minutes. FULL with a rollback journal may lose the removal of
# the journal (SQLite's documentation of EXTRA says so), and never more; EXTRA, and FULL with a write-ahead log, lose nothing. OFF and
# NORMAL with a rollback journal may leave a malformed image, which 600 trees of a model show and 40 do not.
case=sqlite_modes
. "$(dirname "$0")/place.sh"
needs python3 sqlite3

wrong="" states=${STATES:-600}
for mode in DELETE/OFF DELETE/NORMAL DELETE/FULL DELETE/EXTRA WAL/OFF WAL/NORMAL WAL/FULL; do
    anew
    sqlite3 bank.db "PRAGMA journal_mode=${mode%/*}; CREATE TABLE account(id INTEGER PRIMARY KEY, held INT);
        INSERT INTO account VALUES (1,50),(2,50); CREATE TABLE transfer(number INT);" >/dev/null
    records $python "$here/bank.py" "${mode#*/}"
    check --check "$python $here/bank_check.py" --no-fix --states "$states" \
        --fs posix,ext4,xfs,btrfs,f2fs,nova,pmfs,crest,null-random,null-unsynced --fs ext4:zeros=no,replace=yes
    right=()
    case $mode in DELETE/EXTRA | WAL/FULL) right=("sqlite-$mode") ;; esac
    row=$($python "$here/row.py" "$work/found.json" ${right[@]+"${right[@]}"})
    echo "  $mode: $row"
    decided=$(echo "$row" | head -n 1 | tr ' ' '\n' | grep -v '^null' | sed 's/([0-9]*)//; s/.*=//' | tr -d '–\n')
    case $mode in
    DELETE/EXTRA | WAL/FULL) [ -z "$decided" ] || wrong="$wrong $mode" ;;
    DELETE/FULL) [[ $decided != *A* && $decided == *D* ]] || wrong="$wrong $mode" ;;
    DELETE/*) [[ $decided == *D* ]] && { [ "$states" -lt 600 ] || [[ $row == *ext4=AD*btrfs=AD* ]]; } || wrong="$wrong $mode" ;;
    *) [[ $decided == *D* ]] || wrong="$wrong $mode" ;;
    esac
done
[ -z "$wrong" ] || differs "$wrong"
ok
