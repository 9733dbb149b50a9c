#!/usr/bin/env bash
# Three programs that nobody tuned for, as Debian has them, each judged by its own verifier: restic (Go), npm's cache (Node), GNU
# recutils (C). Prints a row for each; docs/crash-of-programs.md says what was found and why. Nothing is expected but that it runs.
case=foreign
. "$(dirname "$0")/place.sh"
needs python3
systems=(--fs posix,ext4,xfs,btrfs,f2fs,nova,null-random,null-unsynced --fs ext4:zeros=no,replace=yes)

row() { echo "  $1: $($python "$here/row.py" "$work/found.json")"; }

if command -v recins >/dev/null; then
    anew
    printf '%%rec: Book\n%%mandatory: Title\n\nTitle: one\n' >books.rec
    sync
    # Its temporary files, which it copies within the kernel, must be where they are recorded.
    TMPDIR=$PWD records sh -c 'for title in two three; do recins -t Book -f Title -v $title books.rec && echo added; done'
    cat >"$work/check.sh" <<'END'
out=$(recfix --check books.rec 2>&1) || { echo "recfix: $out" | head -n 1; exit 1; }
there=$(recsel -t Book -c books.rec); told=$(grep -c . "$WEIR_ACKED")
[ "$there" -ge 1 ] || { echo "all records are gone"; exit 1; }
[ "$there" -gt "$told" ] || { echo "$told records were added, $((there - 1)) are there"; exit 1; }
END
    check --check "sh $work/check.sh" --states "${STATES:-200}" "${systems[@]}"
    row recutils
else
    echo "  recutils: left out: recutils is not installed"
fi

if command -v node >/dev/null && [ -d /usr/share/nodejs/cacache ]; then
    anew
    export NODE_PATH=/usr/share/nodejs
    cat >"$work/put.js" <<'END'
const cache = require("cacache");
(async () => {
  for (const key of ["one", "two"]) {
    await cache.put("cache", key, Buffer.alloc(6000, key));
    console.log(key);
  }
})();
END
    cat >"$work/check.js" <<'END'
const cache = require("cacache"), fs = require("fs");
(async () => {
  const told = fs.readFileSync(process.env.WEIR_ACKED, "utf8").split("\n").filter(Boolean);
  const listed = Object.keys(await cache.ls("cache").catch(() => ({})));
  for (const key of listed) {
    const found = await cache.get("cache", key).catch((error) => error);
    if (found instanceof Error) return console.log(`an entry is listed and cannot be read: ${found.code}`) || 1;
    if (!found.data.equals(Buffer.alloc(6000, key))) return console.log("an entry has other bytes") || 1;
  }
  const lost = told.filter((key) => !listed.includes(key));
  if (lost.length) return console.log("an entry was told and is not listed") || 1;
  const verified = await cache.verify("cache").catch((error) => error);
  if (verified instanceof Error && listed.length) return console.log(`verify: ${verified.code}`) || 1;
  return 0;
})().then((code) => process.exit(code));
END
    records node "$work/put.js"
    check --check "node $work/check.js" --states "${STATES:-150}" "${systems[@]}"
    row cacache
else
    echo "  cacache: left out: node-cacache is not installed"
fi

if command -v restic >/dev/null; then
    anew
    export RESTIC_PASSWORD=x RESTIC_REPOSITORY=repo
    restic init --no-cache -q
    mkdir "$work/source"
    seq 3000 >"$work/source/a"; seq 100 >"$work/source/b"
    sync
    records restic backup --no-cache -q "$work/source"
    cat >"$work/check.sh" <<'END'
export RESTIC_PASSWORD=x RESTIC_REPOSITORY=repo
rm -f repo/locks/*
out=$(restic check --no-cache --no-lock --read-data 2>&1) || { echo "$out" | grep -m1 -iE 'error|fatal|not found' | cut -c1-100; exit 1; }
[ ! -s "$WEIR_ACKED" ] || [ -n "$(ls repo/snapshots)" ] || { echo "the backup was told and is gone"; exit 1; }
END
    check --check "sh $work/check.sh" --acknowledge exit --states "${RESTIC_STATES:-40}" --no-fix "${systems[@]}"
    row restic
else
    echo "  restic: left out: restic is not installed"
fi
ok
