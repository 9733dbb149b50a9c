#!/usr/bin/env bash
# Public suites on mounted designs (default: pmfs hinfs), which others wrote: pjdfstest (calls, and what each answers) and fsx (the
# contents of one file under reads, writes, maps, truncations, holes and copies in any order). Cargo installs them, at the versions
# below.
#
#   tests/mount/suites.sh WEIR [DESIGN…]
#
# suites/DESIGN.txt beside this file, where it is, names what the format of a design has no room for: `operation NAME` of fsx, and
# tests of pjdfstest, which must fail, each with the reason.
#
# As root with /dev/fuse, and cargo. OPERATIONS (20000) is how much fsx does with each of three seeds. Both suites run on tmpfs
# first: what fails there says nothing about Weir. Then each design must pass all of both, with either cache, and leave a clean pool.
# WEIR_LEDGER names a ledger that what passed goes to (`weir check --evidence`).
set -euo pipefail

. "$(dirname "$0")/place.sh" "$@"
operations=${OPERATIONS:-20000}
tools=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../../target}")/suites
host=$work/host
mkdir "$host"

install_suites() {
    local suite
    [ "$(id -u)" = 0 ] || die "it mounts and changes owners: run it as root"
    for suite in pjdfstest@0.2.2 fsx@0.3.2; do
        CARGO_TARGET_DIR=$tools/build cargo install --quiet --locked --root "$tools" "$suite" 2>"$work/install" ||
            die "cargo install $suite: $(cat "$work/install")"
        # Where nobody in particular may run it.
        install -m 755 "$tools/bin/${suite%@*}" "$work"
    done
    cat >"$work/calls.toml" <<-'END'
		[features]
		posix_fallocate = {}
		rename_ctime = {}
		utime_now = {}
		utimensat = {}
		[settings]
		naptime = 0.01
		[dummy_auth]
		entries = [["nobody", "nogroup"], ["games", "games"]]
	END
    # A host that was not scheduled for a tick stamps two changes alike: such a test runs again with a nap that no host sleeps over.
    sed 's/^naptime.*/naptime = 1/' "$work/calls.toml" >"$work/slowly.toml"
    # A mount is made read-only under those tests, and only theirs: the suite leaves files open in others.
    sed 's/^naptime/allow_remount = true\n&/' "$work/calls.toml" >"$work/read-only.toml"
    cat >"$work/contents.toml" <<-'END'
		flen = 262144
		[weights]
		close_open = 1
		invalidate = 1
		read = 10
		write = 10
		mapread = 10
		mapwrite = 10
		truncate = 5
		fsync = 1
		fdatasync = 1
		posix_fallocate = 2
		posix_fadvise = 1
		punch_hole = 3
		sendfile = 3
		copy_file_range = 3
	END
}

# Runs pjdfstest as a user, in a directory of that user's; sets `passed` and `left_out`.
run_calls() {
    local user=$1 on=$2 config=$3 again=0
    shift 3
    install -d -o "$user" -m 755 "$on/of-$user"
    if ! pjdfstest "$user" "$on" "$config" "$@" >"$work/calls" 2>&1 && ! only_lacks_failed; then
        only_stamps_failed || die "pjdfstest as $user: $(grep -A 3 FAILED "$work/calls" || tail -n 5 "$work/calls")"
        again=$(wc -l <"$work/failed")
        say "  again, with a nap of a second: $(tr '\n' ' ' <"$work/failed")"
        while read -r test; do
            pjdfstest "$user" "$on" slowly "$test" >"$work/slowly" 2>&1 || die "pjdfstest as $user: $(cat "$work/slowly")"
        done <"$work/failed"
    fi
    passed=$(($(sed -n 's/^Summary.* \([0-9]*\) passed.*/\1/p' "$work/calls") + again))
    left_out=$(awk '/ skipped$/ { print $1 }' "$work/calls")
}

pjdfstest() {
    local user=$1 on=$2 config=$3
    shift 3
    NO_COLOR=1 setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups \
        "$work/pjdfstest" -c "$work/$config.toml" -p "$on/of-$user" -s "$other" "$@"
}

# Takes what a design has no room for out of what failed; whether nothing else did. Of that nothing may pass.
only_lacks_failed() {
    local odd
    cp "$work/calls" "$work/others"
    [ -s "$work/lacks" ] || return 1
    awk '$NF == "FAILED" && $1 ~ /::/ { print $1 }' "$work/calls" | sort >"$work/all-failed"
    odd=$(awk '$NF == "ok" && $1 ~ /::/ { print $1 }' "$work/calls" | sort | comm -12 - "$work/lacks")
    [ -z "$odd" ] || die "a test passes that the format should have no room for: $odd"
    comm -23 "$work/all-failed" "$work/lacks" >"$work/failed"
    lacking=$(comm -12 "$work/all-failed" "$work/lacks" | wc -l)
    grep -vFf "$work/lacks" "$work/calls" >"$work/others" || true
    [ ! -s "$work/failed" ]
}

# Reads what the format of a design has no room for.
lacks_of() {
    local list
    list=$(dirname "$0")/suites/$1.txt
    lacking=0
    : >"$work/lacks"
    cp "$work/contents.toml" "$work/own.toml"
    [ -f "$list" ] || return 0
    sed -n 's/^\([a-z_:0-9]*::[^ ]*\) .*/\1/p' "$list" | sort >"$work/lacks"
    sed -n 's/^operation \([a-z_]*\) .*/\1/p' "$list" | while read -r operation; do
        sed -i "/^$operation = /d" "$work/own.toml"
    done
}

# Whether every test that failed did so since a time stamp had not moved; `$work/failed` names them.
only_stamps_failed() {
    awk '$NF == "FAILED" && $1 ~ /::/ { print $1 }' "$work/others" >"$work/failed"
    [ -s "$work/failed" ] && [ "$(wc -l <"$work/failed")" = "$(grep -c 'Timestamps did not change as expected' "$work/others")" ]
}

# All of pjdfstest: as root, the part that makes the mount read-only, and what it can do as an ordinary user. Sets `tests`.
calls() {
    run_calls root "$1" calls
    # The C library knows no greatest link count of tmpfs or FUSE, and so the suite leaves that test out (conformance/pmfs.toml).
    [ "$(grep -v '::erofs_' <<<"$left_out")" = link::link_count_max ] || die "pjdfstest left out: $left_out"
    tests=$passed
    run_calls root "$1" read-only erofs
    [ -z "$left_out" ] || die "pjdfstest left out: $left_out"
    tests=$((tests + passed))
    say "  pjdfstest as root: $tests tests passed, $lacking have no room in the format; link::link_count_max left out by the suite"
    run_calls nobody "$1" calls
    tests=$((tests + passed))
    say "  pjdfstest as nobody: $passed tests passed, $(wc -l <<<"$left_out") need root"
}

contents() {
    local seed
    for seed in 1 2 3; do
        "$work/fsx" -q -f "$work/own.toml" -S "$seed" -N "$operations" -P "$work" "$1/contents" >"$work/contents" 2>&1 ||
            die "fsx with seed $seed: $(tail -n 20 "$work/contents")"
    done
    say "  fsx: $((3 * operations)) operations, nothing differed"
}

# Canaries: a root that may make no devices, and a file that somebody else appends to.
suites_notice() {
    local file=$1/canary appending
    NO_COLOR=1 setpriv --bounding-set=-mknod "$work/pjdfstest" -c "$work/calls.toml" -p "$1" mknod >"$work/calls" 2>&1 &&
        die "pjdfstest does not notice that nobody can make devices"
    grep -q '^mknod::.* FAILED$' "$work/calls" || die "pjdfstest fails otherwise: $(tail -n 5 "$work/calls")"
    while sleep 0.01; do printf x >>"$file"; done &
    appending=$!
    if "$work/fsx" -q -f "$work/contents.toml" -S 1 -N 1000000 -P "$work" "$file" >"$work/contents" 2>&1; then
        die "fsx does not notice that somebody else writes"
    fi
    kill "$appending"
    rm "$file"
    say "  canaries: both suites notice what is wrong"
}

install_suites
say tmpfs
lacks_of tmpfs
mount -t tmpfs none "$host"
other=/dev/shm
calls "$host"
contents "$host"
suites_notice "$host"
other=$host
for design in "${designs[@]}"; do
    for cache in pages direct; do
        subject="$design mounted, cache=$cache"
        say "$subject"
        rm -f "$pool"
        lacks_of "$design"
        "$weir" mount "$design" "$pool" "$dir" --size 256MiB --quiet -o "allow_other,dev,suid,cache=$cache"
        calls "$dir"
        contents "$dir"
        "$weir" umount "$dir"
        "$weir" fsck "$pool" >&2
        record posix --subject "$subject, pjdfstest" --unit tests --count "$tests"
        record mount/contents --subject "$subject, fsx" --unit operations --count $((3 * operations))
    done
done
say "every suite passed, all pools are clean"
