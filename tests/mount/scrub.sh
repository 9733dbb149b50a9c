#!/usr/bin/env bash
# `weir scrub` finds what has changed in a pool behind its back, and names the file; a damaged pool can be read.
#
#   tests/mount/scrub.sh WEIR
#
# As root, with python3 and /dev/fuse. A bit of a file's data and a record of the log are changed in copies of a pool of crest that
# was made with -O checksum=data and filled through a mount.
set -euo pipefail

. "$(dirname "$0")/place.sh" "$1" crest

# Changes a bit of the last place of a pool that holds these bytes.
flip='import sys
with open(sys.argv[1], "r+b") as pool:
    data = pool.read()
    at = data.rfind(sys.argv[2].encode())
    assert at > 0, "not found"
    pool.seek(at)
    pool.write(bytes([data[at] ^ 1]))'

# Scrubs a pool that is damaged; the output must have these words.
finds() {
    local file=$1 code=0 words
    shift
    "$weir" scrub "$file" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" = 1 ] || die "scrub ended with $code: $(cat "$work/out" "$work/err")"
    for words in "$@"; do
        grep -qF -- "$words" "$work/out" || die "not said: $words: $(cat "$work/out")"
    done
}

"$weir" mkfs crest "$pool" --size 64MiB -O checksum=data -O shards=1 --quiet
"$weir" mount crest "$pool" "$dir" --quiet
mkdir "$dir/folder"
{
    head -c 8192 /dev/zero | tr '\0' a
    printf 'the only place with these words'
    head -c 9000 /dev/zero | tr '\0' b
} >"$dir/folder/text"
head -c 30000 /dev/urandom >"$work/plain"
cp "$work/plain" "$dir/plain"
touch "$dir/empty name of a file" "$dir/after"
"$weir" umount "$dir"
"$weir" scrub "$pool" >"$work/out" || die "a whole pool is called damaged: $(cat "$work/out")"
grep -q 'compared with checksums: all' "$work/out" || die "$(cat "$work/out")"

say "a bit of a file's data"
cp --sparse=always "$pool" "$work/data.weir"
python3 -c "$flip" "$work/data.weir" 'the only place with these words'
finds "$work/data.weir" '/folder/text: bytes 8192 to 12287: EIO'
"$weir" scrub --json "$work/data.weir" >"$work/json" 2>/dev/null || true
python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))
assert found["files"] == [{"path": "/folder/text", "offset": 8192, "bytes": 4096, "error": "EIO"}], found' "$work/json"
"$weir" mount crest "$work/data.weir" "$dir" --quiet
! cat "$dir/folder/text" >/dev/null 2>&1 || die "wrong bytes were read"
[ "$(head -c 4096 "$dir/folder/text" | tr -d a | wc -c)" = 0 ] || die "the first block cannot be read"
cmp "$work/plain" "$dir/plain" || die "another file cannot be read"
"$weir" umount "$dir"

say "a record of the log"
cp --sparse=always "$pool" "$work/log.weir"
python3 -c "$flip" "$work/log.weir" 'empty name of a file'
finds "$work/log.weir" 'log_sound' 'holds no record'
sum=$(sha256sum "$work/log.weir")
! "$weir" mount crest "$work/log.weir" "$dir" --quiet 2>"$work/err" || die "a damaged pool was mounted for writing"
grep -q 'zone .* line' "$work/err" || die "zone and line are not said: $(cat "$work/err")"
"$weir" mount crest "$work/log.weir" "$dir" -o ro --quiet
cmp "$work/plain" "$dir/plain" || die "a whole file cannot be read"
! touch "$dir/new" 2>/dev/null || die "a damaged pool was changed"
"$weir" umount "$dir"
[ "$(sha256sum "$work/log.weir")" = "$sum" ] || die "something was stored to a damaged pool"
say "found and named; what is whole can be read"
