#!/usr/bin/env bash
# README's two commands on a machine that has a Rust toolchain, a C linker and make, and nothing else: `make demo` and `make test` end well.
#   tests/house/bare.sh            in a Debian root that debootstrap makes, as root and as a user; as root; two hours, most of it building
#   tests/house/bare.sh --short    the tests of commands, plans and documents, with an empty PATH and without /usr/share; seconds
#   SUITE=bookworm AS="root user"  the release of Debian (its C library not older than the one of this host), and who runs the commands
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here"

# A program or file that is installed here must not help: programs are found by PATH, files of packages lie under /usr/share.
if [ "${1:-}" = --short ]; then
    # The same selection as that of `make test`, so that nothing is built again.
    tests=$(cargo test --workspace --exclude weir-bench --locked --lib --bins --tests --examples --no-run --message-format=json 2>/dev/null |
        sed -nE 's/.*crates\/weir#.*"executable":"([^"]*\/it-[^"]*)".*/\1/p' | tail -1)
    [ -x "$tests" ] || { echo "the tests of the command are not built" >&2; exit 1; }
    filters="architecture:: command:: presets:: published:: tidy:: bad_input::"
    inside='mount -t tmpfs none /usr/share && cd crates/weir && exec env -i HOME="$HOME" PATH=/none "$0" "$@"'
    namespace="unshare --mount"
    [ "$(id -u)" = 0 ] || namespace="unshare --mount --map-root-user"
    $namespace true 2>/dev/null || { echo "skipped: no mount namespace can be made here"; exit 0; }
    # shellcheck disable=SC2086
    exec $namespace /bin/sh -c "$inside" "$tests" --quiet $filters
fi

skip() { echo "skipped: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "a root folder is made as root"
command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null ||
    skip "debootstrap cannot be installed"
work=$(mktemp -d)
root=$work/root
trap 'for at in proc opt/rust; do umount "$root/$at" 2>/dev/null || true; done; rm -rf "$work"' EXIT
debootstrap --variant=minbase --include=gcc,libc6-dev,make "${SUITE:-bookworm}" "$root" >"$work/log" || skip "debootstrap fails: $(tail -1 "$work/log")"
cargo fetch --locked --quiet
mkdir -p "$root/opt/rust" "$root/opt/cargo"
mount --bind "$(rustc --print sysroot)" "$root/opt/rust"
mount -t proc proc "$root/proc"
cp -a "${CARGO_HOME:-$HOME/.cargo}/registry" "$root/opt/cargo/"
chroot "$root" useradd --create-home user

for who in ${AS:-root user}; do
    home=$(chroot "$root" sh -c "echo ~$who")
    git clone --quiet "$here" "$root$home/weir"
    cp -a "$root/opt/cargo" "$root$home/cargo"
    chroot "$root" chown -R "$who" "$home/weir" "$home/cargo"
    for target in demo test; do
        chroot --userspec="$who" "$root" env -i HOME="$home" CARGO_HOME="$home/cargo" CARGO_NET_OFFLINE=true \
            PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin make --silent -C "$home/weir" $target >"$work/$who-$target" 2>&1 || {
            grep -E '^failed: |^error|panicked' "$work/$who-$target" | head -20
            echo "FAILED: make $target as $who" >&2
            exit 1
        }
        echo "make $target as $who: $(tail -1 "$work/$who-$target")"
    done
    rm -rf "$root$home/weir" "$root$home/cargo"
done
echo "ok: make demo and make test on a bare machine"
