#!/bin/sh
# The Debian package, as a user gets it: built, installed in a bare Debian, used, upgraded, removed, purged. As root.
#
#   tests/package.sh [WORK]            WORK: a folder for the package and the bare Debian (default: a temporary one)
#   WEIR=path/to/weir                  a command that is built already (default: it is built with the profile dist)
#   SUITE=bookworm                     the release of Debian; its C library must not be older than the one of this host
#
# `cargo deb` is installed with cargo where it is missing, debootstrap with apt-get. Without root, or where one of them cannot be had,
# it says so and ends with 0.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
work=${1:-$(mktemp -d)}
suite=${SUITE:-bookworm}
mkdir -p "$work"
work=$(cd "$work" && pwd)
[ $# -gt 0 ] || trap 'rm -rf "$work"' EXIT
PATH=$PATH:$work/cargo/bin
skip() { echo "skipped: $*"; exit 0; }
step() { printf '\n== %s\n' "$*"; }

[ "$(id -u)" = 0 ] || skip "a package is installed as root"
command -v cargo-deb >/dev/null || cargo install --quiet --locked --root "$work/cargo" cargo-deb || skip "cargo deb cannot be installed"
command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null ||
    skip "debootstrap cannot be installed"

step build
cd "$here"
built=${CARGO_TARGET_DIR:-target}/release/weir
[ -n "${WEIR:-}" ] || { cargo build --profile dist --locked -p weir; WEIR=${CARGO_TARGET_DIR:-target}/dist/weir; }
packaging/stage.sh "$WEIR" target/package
# cargo deb takes the command from where cargo puts it.
if [ "$(realpath "$WEIR")" != "$(realpath -m "$built")" ]; then
    mkdir -p "$(dirname "$built")" && cp "$WEIR" "$built"
fi
for revision in 1 2; do
    cargo deb --quiet --no-build --no-strip -p weir --deb-revision "$revision" --output "$work/weir_$revision.deb"
done
ls -l "$work"/*.deb
dpkg-deb --info "$work/weir_1.deb" | sed -n 's/^ \(Package\|Version\|Depends\|Recommends\)/\1/p'

step "a bare Debian ($suite)"
root=$work/root
[ -d "$root/usr" ] || debootstrap --variant=minbase "$suite" "$root" >"$work/debootstrap.log" || skip "debootstrap fails: $work/debootstrap.log"
cp "$work"/weir_*.deb "$root/tmp/"
files() { (cd "$root" && find . -xdev -path ./proc -prune -o -path ./tmp -prune -o -path ./var/lib/dpkg -prune \
    -o -path ./var/log -prune -o -path ./var/cache -prune -o -print | sort); }
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
files >"$work/before"

step install
in_root dpkg --install /tmp/weir_1.deb
in_root weir --version
! readelf --wide --sections "$root/usr/bin/weir" | grep -q ' \.symtab ' || fail "the command has symbols: strip it"
in_root weir bench varmail --fs pmfs -D nfiles=200 --runtime 2ms --quiet | grep -q pmfs || fail "it does not run a workload"
in_root sh -c 'weir mkfs pmfs /root/p.weir --size 64MiB --quiet && weir fsck /root/p.weir --quiet && rm /root/p.weir' ||
    fail "it does not make a file system"
# In mount(8)'s place: the helper is there and knows what it is called.
in_root sh -c 'test -x /sbin/mount.fuse.weir && ! /sbin/mount.fuse.weir 2>/tmp/told && grep -qi usage /tmp/told' ||
    fail "the helper of mount(8) does not answer: $(cat "$root/tmp/told")"
for file in usr/share/man/man1/weir.1.gz usr/share/man/man1/weir-bench.1.gz usr/share/man/man5/weir.toml.5.gz \
    usr/share/bash-completion/completions/weir usr/lib/systemd/system/weir@.service etc/weir; do
    [ -e "$root/$file" ] || fail "$file is missing"
done
grep -q '^ExecStart=/usr/bin/weir ' "$root/usr/lib/systemd/system/weir@.service" || fail "the unit starts another command"

step upgrade
in_root dpkg --install /tmp/weir_2.deb
in_root dpkg-query --show --showformat '${Version} ${db:Status-Status}\n' weir | grep -q -- '-2 installed' || fail "not upgraded"
in_root weir --version

step "remove, install again, purge"
in_root dpkg --remove weir
[ ! -e "$root/usr/bin/weir" ] && [ ! -e "$root/usr/sbin/mount.fuse.weir" ] || fail "the command is left after remove"
in_root dpkg --install /tmp/weir_2.deb >/dev/null
in_root dpkg --purge weir
rm -rf "$root/root/.local" # what the workload above kept for its user
files >"$work/after"
diff "$work/before" "$work/after" || fail "these are left after purge"
if in_root dpkg-query --show weir 2>/dev/null; then fail "dpkg still knows it"; fi
echo "nothing is left"
