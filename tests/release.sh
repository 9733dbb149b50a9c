#!/usr/bin/env bash
# Everything that packaging/release.sh has made, used: the command in a root without a C library, where it measures what a build with one
# measures; package, wheel, image, bill of materials, site, notes and sources.
#
#   tests/release.sh RELEASE WEIR          RELEASE: the folder that release.sh has filled; WEIR: a command built with the C library
#   tests/release.sh --twice [FEATURES]    builds the static command in two folders with two CARGO_HOMEs: one hash (half an hour)
#
# As root, for chroot and buildah; elsewhere those parts are left out, by name.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '\n== %s\n' "$*"; }

if [ "${1:-}" = --twice ]; then
  home=${CARGO_HOME:-$HOME/.cargo}
  for n in one two; do
    mkdir -p "$work/$n/home"
    git -C "$here" ls-files -z | tar -C "$here" --null -T - -cf - | tar -C "$work/$n" -xf -
    # Sources of packages and settings of registries, in another folder; programs stay where they are.
    for part in registry git config.toml; do [ -e "$home/$part" ] && cp -al "$home/$part" "$work/$n/home/$part"; done
    CARGO_HOME=$work/$n/home CARGO_TARGET_DIR=$work/$n/built "$work/$n/packaging/build_static.sh" "$work/$n/weir" "${2-pdf,parquet}"
    sha256sum "$work/$n/weir"
  done
  cmp "$work/one/weir" "$work/two/weir"
  echo "ok: two builders, one program"
  exit
fi

release=$(realpath "${1:?usage: release.sh RELEASE WEIR}") weir=$(realpath "${2:?usage: release.sh RELEASE WEIR}")
version=$("$weir" --version | cut -d' ' -f2)
name=weir-$version
cd "$work"
samples() { python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["samples"], sort_keys=True))' | sed -E 's/"host_seconds": [^,}]*//g'; }
cell=(bench varmail --fs pmfs,nova --threads 1,4 -D nfiles=200 --runtime 20ms --json)

step "sums of nine files"
(cd "$release" && sha256sum --quiet -c SHA256SUMS && [ "$(ls | wc -l)" = 9 ] && wc -c -- * | tail -1)

step "the command in a root with nothing else"
mkdir tar && tar -xzf "$release/$name-linux-$(uname -m).tar.gz" -C tar
static=$work/tar/$name/weir
"$weir" "${cell[@]}" 2>/dev/null >with.json
if [ "$(id -u)" = 0 ]; then
  mkdir -p root/data && cp "$static" root/weir
  env -i HOME=/data XDG_DATA_HOME=/data "$(command -v chroot)" root /weir "${cell[@]}" 2>/dev/null >without.json
  samples <with.json >with && samples <without.json >without
  cmp with without && echo "the same samples, $(wc -c <with) bytes"
else
  echo "left out: chroot needs root"
fi
[ -s tar/$name/man/man1/weir.1.gz ] && [ -s tar/$name/weir.bash ] && [ -s tar/$name/LICENSE-MIT ]

step "the Debian package"
deb=$(ls "$release"/*.deb)
dpkg-deb --info "$deb" | sed -nE 's/^ (Package|Version|Depends|Recommends)/\1/p'
dpkg-deb -x "$deb" deb && deb/usr/bin/weir list fs | grep -q '^ *nova '

step "the wheel"
python3 -m venv venv && venv/bin/pip install --quiet --no-index "$release"/*.whl
[ "$(venv/bin/python -m weirlab --version)" = "weir $version" ]
venv/bin/python -c 'import weirlab; print(weirlab.bench("varmail", fs="pmfs", runtime="1ms", variables={"nfiles": 200}, progress=False).tables["samples"]["ops"])'

step "the image"
if [ "$(id -u)" = 0 ] && command -v buildah >/dev/null; then
  b() { buildah --storage-driver vfs --root "$work/images" "$@"; }
  container=$(b from --quiet "oci-archive:$release/$name-image.tar")
  b run --isolation chroot "$container" -- /usr/bin/weir --version
  b run --isolation chroot "$container" -- /usr/bin/weir "${cell[@]}" 2>/dev/null >image.json
  samples <image.json | cmp - with && echo "the same samples"
  b run --isolation chroot "$container" -- /usr/bin/weir doctor >doctor || true
  sed -n 1,3p doctor
  b rm "$container" >/dev/null
else
  echo "left out: an image needs root and buildah"
fi

step "the bill of materials, the site, notes, sources"
tar -xzf "$release/$name-source.tar.gz"
python3 - "$release/$name.cdx.json" "$name/Cargo.lock" <<'P'
import json, sys, tomllib
bill, lock = json.load(open(sys.argv[1])), tomllib.load(open(sys.argv[2], "rb"))
locked = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
for one in bill["components"]:
    assert (one["name"], one["version"]) in locked, one["name"]
    assert locked[one["name"], one["version"]] == (one.get("hashes") or [{"content": None}])[0]["content"], one["name"]
refs = {one["ref"] for one in bill["dependencies"]}
assert refs == {one["bom-ref"] for one in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
print(len(bill["components"]), "packages, each with the hash of Cargo.lock")
P
mkdir site && tar -xzf "$release/$name-docs.tar.gz" -C site
python3 - "$here/packaging" "site/$name-docs" <<'P'
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import book
count, wrong = book.follow(Path(sys.argv[2]).resolve())
print(count, "links of the site followed,", len(wrong), "wrong", *wrong)
with open(Path(sys.argv[2], "index.html"), "a") as page:
    page.write('<a href="no-such-page.html">a link that must be found</a>')
assert len(book.follow(Path(sys.argv[2]).resolve())[1]) == 1, "a broken link was not found"
sys.exit(bool(wrong))
P
grep -q "^## $version" "$release/$name-notes.md"
(cd "$name" && cargo metadata --format-version=1 --locked --no-deps >/dev/null && echo "the sources are a tree that cargo reads")
echo "ok: everything of the release was used"
