#!/usr/bin/env bash
# Ordinary programs on a mounted design: they must work, and leave a clean pool.
#
#   tests/mount/run.sh WEIR [DESIGN…]
#
# As root, on Debian with git sqlite3 tar gcc make fio dbench rsync and PostgreSQL; a program that is missing is named, and fails
# the run unless ALLOW_MISSING=1. SECONDS_EACH (60) is how long fio, dbench and pgbench (half of it) run. ONLY="git sqlite" runs
# these steps. CACHE=direct mounts with that cache; without it the mount has its default, pages. WEIR_LEDGER names a ledger in which
# it is recorded that they worked (`weir check --evidence`).
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
seconds=${SECONDS_EACH:-60}
options=allow_other,dev,suid${CACHE:+,cache=$CACHE}
steps=${ONLY:-git sqlite tar compile fio dbench rsync postgres}
cd "$work" # some programs leave files where they are called

mount_it() { "$weir" mount "$design" "$pool" "$dir" --size 4GiB -o "$options"; }
umount_it() { "$weir" umount "$dir"; }

# Kills it under the program that is given, which then finds nothing to write to any more.
kill_server_under() {
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
    server=
    wait "$1" || true
    umount_it
}

have() {
    local program
    for program in "$@"; do
        if ! command -v "$program" >/dev/null; then
            [ "${ALLOW_MISSING:-0}" = 1 ] || die "$program is missing (ALLOW_MISSING=1 goes on without it)"
            say "  without $program"
            return 1
        fi
    done
}

step_git() {
    have git || return 0
    local tree=$dir/git n
    git init -q "$tree"
    git -C "$tree" config user.name tester
    git -C "$tree" config user.email tester@example.com
    for n in $(seq 50); do mkdir -p "$tree/d$n"; done
    for n in $(seq 5000); do printf 'file %s\n%*s\n' "$n" $((n % 700)) x >"$tree/d$((n % 50 + 1))/f$n"; done
    git -C "$tree" add .
    git -C "$tree" commit -qm 'five thousand files'
    for n in $(seq 1 7 5000); do echo more >>"$tree/d$((n % 50 + 1))/f$n"; done
    git -C "$tree" commit -qam 'some changed'
    git -C "$tree" gc -q
    git -C "$tree" fsck --full 2>&1 | grep -v '^dangling' && die "git fsck complains"
    [ -z "$(git -C "$tree" status --porcelain)" ] || die "git status is not clean"
    git clone -q "$tree" "$dir/clone"
    diff -r --exclude=.git "$tree" "$dir/clone" || die "the clone differs"
}

# Inserts rows one by one; each that was acknowledged is noted outside the mount.
# `extra`: in the mode `delete` a row counts when the name of its journal is gone, which a design may make durable only at a sync of
# the directory (metadata durable on sync, as in the kernel's ext4).
insert_rows() {
    local mode=$1 db=$2 acknowledged=$3 n
    sqlite3 "$db" "pragma journal_mode=$mode; create table if not exists t(n integer primary key, x text);" >/dev/null
    for n in $(seq 100000); do
        sqlite3 -cmd 'pragma synchronous=extra;' "$db" "insert into t values($n, hex(randomblob(300)));" 2>/dev/null || return 0
        echo "$n" >>"$acknowledged"
    done
}

# The writer was killed, and may still be on its way out with its lock.
check_rows() {
    local db=$1 acknowledged=$2 last found
    [ "$(sqlite3 -cmd '.timeout 10000' "$db" 'pragma integrity_check;')" = ok ] || die "$db is corrupt"
    last=$(tail -n 1 "$acknowledged")
    found=$(sqlite3 "$db" "select count(*) from t where n <= $last;")
    [ "$found" = "$last" ] || die "$db has $found of $last acknowledged rows"
    say "  $(basename "$db"): $last rows acknowledged, all there"
}

step_sqlite() {
    have sqlite3 || return 0
    local mode writer
    for mode in wal delete; do
        : >"$work/acknowledged"
        # A process group of its own, so that nothing of it is left.
        set -m
        insert_rows $mode "$dir/$mode-application.db" "$work/acknowledged" &
        writer=$!
        set +m
        sleep 3
        { kill -9 -- -$writer && wait $writer; } 2>/dev/null || true
        check_rows "$dir/$mode-application.db" "$work/acknowledged"
    done
    umount_it
    for mode in wal delete; do
        : >"$work/acknowledged"
        serve_it
        insert_rows $mode "$dir/$mode-server.db" "$work/acknowledged" &
        writer=$!
        sleep 3
        kill_server_under $writer
        mount_it
        check_rows "$dir/$mode-server.db" "$work/acknowledged"
        umount_it
    done
    mount_it
}

step_tar() {
    have tar || return 0
    tar -C /usr -cf "$dir/in.tar" include share/doc 2>/dev/null
    mkdir "$dir/out"
    tar -C "$dir/out" -xf "$dir/in.tar"
    diff -r --no-dereference /usr/include "$dir/out/include" || die "the tree differs"
    tar -C "$dir/out" -cf "$work/out.tar" include share/doc
    tar -C "$dir/out" -df "$work/out.tar" || die "tar finds differences"
    rm -rf "$dir/out" "$dir/in.tar" "$work/out.tar"
}

step_compile() {
    have gcc make || return 0
    local tree=$dir/program n
    mkdir "$tree"
    for n in $(seq 200); do
        printf '#include <stdio.h>\nint f%s(int x) { return x * %s + 1; }\n' "$n" "$n" >"$tree/f$n.c"
    done
    {
        for n in $(seq 200); do echo "int f$n(int);"; done
        echo '#include <stdio.h>'
        echo 'int main(void) { long sum = 0;'
        for n in $(seq 200); do echo "sum += f$n($n);"; done
        echo 'printf("%ld\n", sum); return 0; }'
    } >"$tree/main.c"
    printf 'program: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\t$(CC) -o $@ $^\n' >"$tree/Makefile"
    make -s -j2 -C "$tree"
    [ "$("$tree/program")" = 2686900 ] || die "the program computes $("$tree/program")"
    make -C "$tree" >"$work/made"
    grep -q "up to date" "$work/made" || die "make would make it again: $(cat "$work/made")"
}

step_fio() {
    have fio || return 0
    local engine
    for engine in mmap libaio; do
        fio --name=$engine --directory="$dir" --ioengine=$engine --rw=randrw --bs=4k --size=64M --numjobs=2 \
            --verify=crc32c --verify_backlog=512 --verify_fatal=1 --time_based --runtime="$seconds" --iodepth=8 \
            --direct=$([ $engine = libaio ] && echo 1 || echo 0) --output="$work/fio" ||
            die "fio $engine: $(cat "$work/fio")"
        say "  fio $engine: $(grep -o 'IOPS=[^,]*' "$work/fio" | head -n 2 | tr '\n' ' ')"
        rm -f "$dir"/$engine.*
    done
}

step_dbench() {
    have dbench || return 0
    mkdir "$dir/dbench"
    local failed=
    dbench -D "$dir/dbench" -t "$seconds" 2 >"$work/dbench" 2>&1 || failed=yes
    if grep -q 'barrier semaphore' "$work/dbench"; then
        # Nothing that a file system could mend, and it may exit with 0.
        say "  without dbench: this host gave it no System V semaphore"
        return 0
    fi
    [ -z "$failed" ] || die "dbench: $(tail -n 5 "$work/dbench")"
    grep -qi 'error\|failed' "$work/dbench" && die "dbench: $(grep -i 'error\|failed' "$work/dbench" | head -n 3)"
    say "  $(grep Throughput "$work/dbench")"
}

step_rsync() {
    have rsync || return 0
    rsync -a /usr/include/ "$dir/rsync/"
    [ -z "$(rsync -a --itemize-changes /usr/include/ "$dir/rsync/")" ] || die "the second rsync transfers"
    [ -z "$(rsync -a --checksum --itemize-changes /usr/include/ "$dir/rsync/")" ] || die "contents differ"
}

step_postgres() {
    have initdb pgbench || return 0
    local binaries user=nobody
    binaries=$(dirname "$(realpath "$(command -v initdb)")")
    mkdir -p "$dir/postgres" "$work/socket"
    chown "$user" "$dir/postgres" "$work/socket"
    as() { setpriv --reuid="$user" --clear-groups "$@"; }
    as "$binaries/initdb" -D "$dir/postgres" -U tester --no-locale >"$work/initdb" || die "initdb: $(cat "$work/initdb")"
    as "$binaries/pg_ctl" -D "$dir/postgres" -s -w -o "-k $work/socket -h ''" -l "$work/socket/log" start ||
        die "postgres: $(cat "$work/socket/log")"
    pgbench -h "$work/socket" -U tester -q -i postgres 2>"$work/pgbench" || die "pgbench -i: $(cat "$work/pgbench")"
    pgbench -h "$work/socket" -U tester -c 2 -T $((seconds / 2)) postgres >"$work/pgbench" 2>&1 ||
        die "pgbench: $(cat "$work/pgbench")"
    say "  pgbench: $(grep '^tps' "$work/pgbench")"
    as "$binaries/pg_ctl" -D "$dir/postgres" -s -w stop
}

for design in "${designs[@]}"; do
    say "$design"
    rm -f "$pool"
    mount_it
    for step in $steps; do
        began=$(date +%s)
        "step_$step"
        say "  $step: $(($(date +%s) - began)) s"
    done
    umount_it
    "$weir" fsck "$pool" >&2
    record mount/programs --subject "$design" --unit programs --count "$(wc -w <<<"$steps")"
done
say "all programs worked, all pools are clean"
