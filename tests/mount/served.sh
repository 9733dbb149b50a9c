#!/usr/bin/env bash
# Tools on a directory that a program serves from its own pool (`Pool::serve`), while it goes on with calls of its own.
#
#   tests/mount/served.sh WEIR [PROGRAM]
#
# As root, with /dev/fuse and Python. PROGRAM is crates/pool/examples/serve.rs; without it, the one built beside WEIR.
set -euo pipefail

program=$(realpath "${2:-$(dirname "$1")/examples/serve}")
[ -x "$program" ] || { echo "$program is not there: cargo build -p weir-pool --example serve" >&2; exit 3; }
. "$(dirname "$0")/place.sh" "$1" crest

begin() {
    mkfifo "$work/lines"
    "$program" "$pool" "$dir" <"$work/lines" >"$work/said" 2>&1 &
    server=$!
    exec 3>"$work/lines"
    rm "$work/lines"
    heard '^served on'
}

# Waits until the program has said something, a hundred seconds at most.
heard() {
    for _ in $(seq 1000); do
        ! grep -q "$1" "$work/said" || return 0
        sleep 0.1
    done
    die "the program has not said \"$1\": $(cat "$work/said")"
}

# The program notes a line by a direct call.
note() {
    : >"$work/said"
    echo "$1" >&3
    heard noted
}

begin
# What a kernel would keep: bytes, attributes, a name that is missing, a listing.
for _ in 1 2; do
    [ "$(cat "$dir/notes")" = "" ] && [ "$(stat -c %s "$dir/notes")" = 0 ] && [ "$(ls "$dir/inbox")" = "" ] || die "it begins empty"
done
note one
[ "$(cat "$dir/notes")" = one ] && [ "$(stat -c %s "$dir/notes")" = 4 ] || die "tools do not see what the program has written"
note two
[ "$(wc -l <"$dir/notes")" = 2 ] || die "the second line is missing"
echo three >>"$dir/notes"
note four
[ "$(tail -n 2 "$dir/notes" | tr '\n' ' ')" = "three four " ] || die "appends of both sides do not follow each other"
python3 - "$dir/notes" 3<&- <<'MAP' || die "a map"
import mmap, sys
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as notes:
    assert notes[:3] == b"one", notes[:3]
MAP
# What tools leave, the program takes.
tar -C "$dir" -cf "$work/notes.tar" notes
cp "$work/notes.tar" "$dir/inbox/a letter"
mv "$dir/inbox/a letter" "$dir/inbox/letter"
printf 'from a tool' >"$dir/inbox/other"
rm "$dir/inbox/letter"
note five
grep -q 'inbox/other: from a tool' "$work/said" || die "the program has not found the file of a tool"
[ "$(ls -A "$dir/inbox")" = "" ] || die "what the program has removed is there"
# One owner.
! "$weir" fsck "$pool" >"$work/err" 2>&1 || die "a second process has opened the pool"
grep -qi 'in use' "$work/err" || die "$(cat "$work/err")"
mkdir "$work/second"
! "$weir" mount crest "$pool" "$work/second" --quiet 2>"$work/err" || die "a second process has mounted the pool"
grep -qi 'in use\|served\|mounted' "$work/err" || die "$(cat "$work/err")"

# A program that is killed leaves a pool that opens, and a directory that can be freed.
kill -9 "$server"
wait "$server" 2>"$work/err" || true
server=
exec 3>&-
! ls "$dir" 2>"$work/err" || die "a mount without a server answers"
if command -v fusermount3 >"$work/err"; then fusermount3 -u "$dir"; else umount "$dir"; fi
"$weir" fsck "$pool" >"$work/err" || die "fsck finds the pool damaged: $(cat "$work/err")"
begin
[ "$(tail -n 1 "$dir/notes")" = five ] || die "a line that was noted is lost"
# The end of the input ends the program, which unmounts.
exec 3>&-
wait "$server" || die "the program has failed: $(cat "$work/said")"
server=
! grep -q " $dir " /proc/self/mounts || die "the directory is still mounted"
"$weir" fsck "$pool" >"$work/err" || die "fsck finds the pool damaged: $(cat "$work/err")"
say "tools and the program that serves them see the same files"
