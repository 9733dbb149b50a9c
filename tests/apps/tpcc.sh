#!/usr/bin/env bash
# app/tpcc: the write share of the storage layers, the consistency conditions after the run and after the next mount, the same
# run twice, and, where PostgreSQL is installed, its write share and syncs beside those of the
# layer `postgres`.
#
#   tests/apps/tpcc.sh WEIR
#
# COUNT (2000) New-Orders are made on DESIGNS (nova,pmfs) and on a directory of DIR (/dev/shm). The comparison takes initdb,
# pgbench, strace and, as root, a user SERVER_USER (postgres), since the server refuses root; SERVER=no leaves it out.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
work=$(mktemp -d -p "${DIR:-/dev/shm}")
stop() { [ ! -f "$work/pg/postmaster.pid" ] || kill -INT "$(head -1 "$work/pg/postmaster.pid")" 2>/dev/null || true; }
trap 'stop; sleep 1; rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
count=${COUNT:-2000}
run() { # LAYER FS OUTPUT, and more options
    local layer=$1 fs=$2 out=$3
    shift 3
    "$weir" bench app/tpcc --fs "$fs" -D layer="$layer" -D warehouses=1 -D new_orders="$count" -D pool=32MiB --runtime end \
        --warm-up none --quiet --json "$@" >"$out"
}
for layer in innodb postgres; do
    run $layer "${DESIGNS:-nova,pmfs}" "$work/$layer.json" --check
    run $layer "${DESIGNS:-nova,pmfs}" "$work/$layer.again.json" --check
    mkdir -p "$work/ours"
    run $layer "host:$work/ours" "$work/$layer.host.json" --clock real -D terminals=2
done

if [ "${SERVER:-yes}" = yes ] && command -v pgbench >/dev/null && command -v strace >/dev/null; then
    bin=$(pg_config --bindir 2>/dev/null || dirname "$(readlink -f "$(command -v initdb)")")
    as=()
    if [ "$(id -u)" = 0 ]; then
        as=(setpriv --reuid "${SERVER_USER:-postgres}" --regid "${SERVER_USER:-postgres}" --clear-groups)
        chown "${SERVER_USER:-postgres}" "$work"
    fi
    "${as[@]}" "$bin/initdb" -D "$work/pg" -U tpcc --auth=trust >/dev/null
    cat >>"$work/pg/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$work'
shared_buffers = 32MB
max_wal_size = 96MB
min_wal_size = 48MB
checkpoint_timeout = 300s
autovacuum = off
CONF
    server() { "${as[@]}" "$@" >"$work/pg.log" 2>&1 & }
    ready() { for _ in $(seq 100); do pg_isready -q -h "$work" -U tpcc && return; sleep 0.2; done; cat "$work/pg.log" >&2; exit 1; }
    server "$bin/postgres" -D "$work/pg"
    ready
    psql -q -h "$work" -U tpcc -d postgres -f "$here/tpcc.sql"
    stop
    while [ -f "$work/pg/postmaster.pid" ]; do sleep 0.2; done
    for name in new_order payment order_status delivery stock_level; do echo "select $name();" >"$work/$name.sql"; done
    scripts=(-f "$work/new_order.sql@45" -f "$work/payment.sql@43" -f "$work/order_status.sql@4" -f "$work/delivery.sql@4"
        -f "$work/stock_level.sql@4")
    load() { pgbench -n -h "$work" -U tpcc -c 8 -j 1 -t "$1" "${scripts[@]}" postgres >"$work/pgbench.txt" 2>&1; }
    # What a transaction computes, without strace and without syncs.
    server "$bin/postgres" -D "$work/pg" -c fsync=off -c shared_buffers=256MB
    ready
    pgbench -n -h "$work" -U tpcc -c 1 -j 1 -t 2000 "${scripts[@]}" postgres >"$work/alone.txt" 2>&1
    # What `weir bench app/tpcc --program` asks for: nothing must break a condition, and each must find the fault that breaks it.
    sql() { psql -X -q -A -t -v ON_ERROR_STOP=1 -h "$work" -U tpcc -d postgres -f -; }
    broken() { printf 'begin;\n%s;\n%s\nrollback;\n' "$1" "$(cat "$here/conditions.sql")" | sql | cut -d'|' -f1 | tr -d '\n'; }
    faults=('select 0 where false' 'update warehouse set w_ytd = w_ytd + 1'
        'update district set d_next_o_id = d_next_o_id + 1 where d_id = 4'
        'delete from new_order where no_d_id = 5 and no_o_id = (select min(no_o_id) + 1 from new_order where no_d_id = 5)'
        'delete from order_line where ol_d_id = 6 and ol_o_id = 17 and ol_number = 1')
    for number in "${!faults[@]}"; do
        found=$(broken "${faults[number]}")
        [ "${found:-0}" = "$number" ] || { echo "FAILED: after '${faults[number]}' condition $found is broken" >&2; exit 1; }
    done
    stop
    while [ -f "$work/pg/postmaster.pid" ]; do sleep 0.2; done
    "${as[@]}" strace -f -y -s 0 -e trace=read,write,pread64,pwrite64,preadv,pwritev,fsync,fdatasync -o "$work/server.strace" \
        "$bin/postgres" -D "$work/pg" >"$work/pg.log" 2>&1 &
    ready
    load $((count * 100 / 45 / 8))
    stop
    while [ -f "$work/pg/postmaster.pid" ]; do sleep 0.2; done
else
    echo "PostgreSQL is not compared: it takes initdb, pgbench and strace" >&2
fi
python3 "$here/tpcc.py" "$work" "$count"
