# For the scripts beside it: programs to record. Of each there is a function PROGRAM_prepare, which makes what must be there in the
# working directory, and a function PROGRAM_run, which sets `command`. $shared is a folder of files that is not recorded.

programs() {
    local name
    for name in cp tar sqlite git cc postmark dbench; do
        case $name in
            cp) printf 'cp ' ;;
            sqlite) command -v sqlite3 >/dev/null && printf 'sqlite ' || echo "left out: sqlite3 is not installed" >&2 ;;
            *) command -v $name >/dev/null && printf '%s ' $name || echo "left out: $name is not installed" >&2 ;;
        esac
    done
}

# A folder with what trees have: depth, links, a sparse file, odd names, modes.
some_tree() {
    mkdir -p "$1/deep/er/est" "$1/many"
    for n in $(seq 60); do head -c $((n * 379)) /dev/urandom >"$1/many/f$n"; done
    head -c 300000 /dev/urandom >"$1/deep/er/large"
    : >"$1/deep/empty"
    truncate -s 1M "$1/sparse"
    printf x | dd of="$1/sparse" bs=1 seek=500000 conv=notrunc status=none
    ln "$1/deep/er/large" "$1/hard"
    ln -s deep/er/large "$1/soft"
    ln -s nowhere "$1/dangling"
    printf odd >"$1/$(printf 'odd \n "name" \377')"
    chmod 600 "$1/many/f1"
    mkfifo "$1/fifo"
}

cp_prepare() { some_tree src; }
cp_run() { command=(cp -a src dst); }

tar_prepare() { some_tree src; }
tar_run() { command=(sh -c "tar cf a.tar src && mkdir out && tar xf a.tar -C out"); }

sqlite_prepare() { :; }
sqlite_run() {
    cat >"$shared/rows.sql" <<'SQL'
PRAGMA journal_mode=DELETE;
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO t SELECT i, hex(randomblob(40)) FROM n;
CREATE INDEX i ON t(b);
BEGIN; UPDATE t SET b = b || 'x' WHERE a % 7 = 0; COMMIT;
DELETE FROM t WHERE a % 3 = 0;
VACUUM;
SELECT count(*) FROM t;
SQL
    command=(sqlite3 db ".read $shared/rows.sql")
}

git_prepare() {
    git init --quiet origin
    some_tree origin/files
    rm origin/files/fifo
    git -C origin -c user.name=t -c user.email=t@t add -A
    git -C origin -c user.name=t -c user.email=t@t commit --quiet -m one
    date >origin/second
    git -C origin add -A
    git -C origin -c user.name=t -c user.email=t@t commit --quiet -m two
}
git_run() { command=(git clone --quiet --no-hardlinks origin copy); }

cc_prepare() {
    for n in 1 2 3; do
        printf '#include "own.h"\n#include <stdio.h>\nint f%d(void) { return printf("%%d", OWN); }\n' $n >f$n.c
    done
    printf '#define OWN 7\n' >own.h
    printf 'int f1(void), f2(void), f3(void);\nint main(void) { return f1() + f2() + f3() == 0; }\n' >main.c
}
cc_run() { command=(sh -c "cc -O1 -c f1.c f2.c f3.c main.c && ar rcs libf.a f1.o f2.o f3.o && cc -o prog main.o -L. -lf"); }

postmark_prepare() { mkdir mail; }
postmark_run() {
    printf '%s\n' 'set location mail' 'set number 200' 'set transactions 500' 'set subdirectories 5' 'set seed 7' run quit \
        >"$shared/postmark"
    command=(postmark "$shared/postmark")
}

dbench_prepare() { head -3000 /usr/share/dbench/client.txt >"$shared/client.txt"; }
dbench_run() { command=(dbench --loadfile="$shared/client.txt" --timelimit=2 --skip-cleanup 1); }
