#!/usr/bin/env bash
# PostgreSQL in single-user mode, with its default fsync=on and with fsync=off. The checker starts it, which recovers, and compares rows
# and index. With fsync nothing may be found but on posix, where files that are made in the run have no durable name before their
# folder is synced.
case=postgres
. "$(dirname "$0")/place.sh"
needs python3
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
[ -x "$bin/postgres" ] || skip "PostgreSQL is not installed"
if [ "$(id -u)" = 0 ]; then
    # PostgreSQL refuses to run as root.
    as=(unshare --user --map-user=65534 --map-group=65534)
    "${as[@]}" true 2>/dev/null || skip "no user namespaces for a PostgreSQL that is not root"
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${as[*]}" "$weir" >"$work/weir"
    chmod +x "$work/weir"
    weir=$work/weir
fi
alone() { echo "$2" | ${as[@]+"${as[@]}"} "$bin/postgres" --single -F -D "$1" postgres >"$work/alone.log" 2>&1; }
cat >"$work/check.sh" <<END
rm -f data/postmaster.pid
alone() { echo "\$1" | "$bin/postgres" --single -F -D data postgres 2>&1; }
out=\$(alone "select count(*) as rows, coalesce(sum(n), 0) as sum, count(*) filter (where x = repeat('x', 500)) as whole from t")
number() { echo "\$out" | sed -n "s/.* \$1 = \"\\([0-9]*\\)\".*/\\1/p"; }
rows=\$(number rows); told=\$(grep -c '"told' "\$WEIR_ACKED")
[ -n "\$rows" ] || { echo "it does not answer: \$(echo "\$out" | grep -m1 -E 'PANIC|FATAL|ERROR' | sed 's/.*\\(PANIC\\|FATAL\\|ERROR\\)/\\1/')"; exit 1; }
[ "\$(number sum)" = \$((rows * (rows + 1) / 2)) ] && [ "\$(number whole)" = "\$rows" ] || { echo "rows are missing or torn"; exit 1; }
index=\$(alone "select bt_index_check('t_pkey', true)" | grep -m1 ERROR) && { echo "index: \$index" | sed 's/.*ERROR/ERROR/'; exit 1; }
[ "\$rows" -ge "\$told" ] || { echo "\$told rows were told, \$rows are there"; exit 1; }
END
for at in 1 2 3 4; do
    echo "insert into t values ($at, repeat('x', 500))"
    # What an insert returns is printed before its commit; the next statement's answer comes after it.
    echo "select 'told $at' as a"
    [ $at = 2 ] && echo checkpoint
done >"$work/statements"
wrong=""
for mode in on off; do
    anew
    ${as[@]+"${as[@]}"} "$bin/initdb" -D data --wal-segsize=1 -A trust -U p --no-sync >"$work/initdb.log" 2>&1 ||
        differs "initdb: $(tail -n 1 "$work/initdb.log")"
    alone data 'create extension amcheck' && alone data 'create table t(n int primary key, x text)' && alone data checkpoint ||
        differs "set-up: $(tail -n 1 "$work/alone.log")"
    sync
    records stdbuf -oL "$bin/postgres" --single -c fsync=$mode -D "$PWD/data" postgres <"$work/statements"
    check --check "sh $work/check.sh" --states "${STATES:-100}" --no-fix \
        --fs posix,ext4,xfs,btrfs,f2fs,null-random,null-unsynced --fs ext4:zeros=no,replace=yes
    right=()
    [ $mode = on ] && right=(postgres posix)
    row=$($python "$here/row.py" "$work/found.json" ${right[@]+"${right[@]}"})
    echo "  fsync=$mode: $row"
    decided=$(echo "$row" | head -n 1 | tr ' ' '\n' | grep -v '^null\|^posix' | sed 's/([0-9]*)//; s/.*=//' | tr -d '–\n')
    case $mode in
    on) [ -z "$decided" ] || wrong="$wrong fsync=on" ;;
    off) [ -n "$decided" ] || wrong="$wrong fsync=off" ;;
    esac
done
[ -z "$wrong" ] || differs "$wrong"
ok
