#!/bin/sh
# Makes everything that a release consists of, in a folder of its own, with SHA256SUMS:
#
#   weir-VERSION-linux-PROCESSOR.tar.gz   the static command, man pages, completions, licences
#   weir_VERSION-1_ARCHITECTURE.deb       the Debian package
#   weir_lab-VERSION-….whl                the Python wheel
#   weir-VERSION-image.tar                the OCI image
#   weir-VERSION.cdx.json                 the packages that the command is made of (CycloneDX)
#   weir-VERSION-docs.tar.gz              the documentation site
#   weir-VERSION-notes.md                 the newest part of the changelog
#   weir-VERSION-source.tar.gz            the tree
#
#   packaging/release.sh OUT [WEIR]       WEIR: a static command that build_static.sh has made of this tree (default: it is made)
#
# Fetches what is missing where it can: cargo-deb and mdbook by cargo, buildah by apt-get. The same sources and tools give the same bytes.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
out=${1:?usage: release.sh OUT [WEIR]}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
step() { printf '== %s\n' "$*"; }
need() { # COMMAND HOW…
    command=$1
    shift
    command -v "$command" >/dev/null || "$@" >/dev/null ||
        { echo "error: $command is missing, and could not be installed by: $*" >&2; exit 3; }
}
# Names, owners and dates of an archive depend on the sources only.
archive() { # FILE FOLDER NAME…
    file=$1 folder=$2
    shift 2
    tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$@" | gzip -9n >"$file"
}

if [ $# -gt 1 ]; then
    cp "$2" "$work/weir"
else
    step the static command
    packaging/build_static.sh "$work/weir"
fi
processor=$(uname -m)
version=$("$work/weir" --version | cut -d' ' -f2)
name=weir-$version
rm -f "$out"/*

step the archive of the command
packaging/stage.sh "$work/weir" "$work/stage"
tree=$work/tar/$name
mkdir -p "$tree/man"
cp "$work/weir" README.md LICENSE-MIT LICENSE-APACHE SEMANTICS.md "$tree/"
cp -r "$work/stage/man1" "$work/stage/man5" "$tree/man/"
cp "$work"/stage/weir.bash "$work"/stage/weir.zsh "$work"/stage/weir.fish "$work/stage/systemd/weir@.service" "$tree/"
archive "$out/$name-linux-$processor.tar.gz" "$work/tar" "$name"

step the Debian package
need cargo-deb cargo install --quiet --locked cargo-deb
# cargo deb takes the command from where cargo puts it: a tree of its own leaves that of the user alone.
git archive --prefix=tree/ HEAD | tar -x -C "$work"
mkdir -p "$work/tree/target/release"
cp "$work/weir" "$work/tree/target/release/weir"
cp -a "$work/stage" "$work/tree/target/package"
(cd "$work/tree" && env -u CARGO_TARGET_DIR cargo deb --quiet --no-build --no-strip -p weir --output "$out/")

step the Python wheel
python3 python/build_wheel.py "$work/weir" "$out" >/dev/null

step the image
need buildah apt-get install -y -qq --no-install-recommends buildah
cp packaging/Containerfile "$work/weir" "$work/stage/"
# Without a user namespace of its own a build as root needs no daemon.
buildah bud --quiet --isolation chroot --storage-driver vfs --root "$work/images" --timestamp "$SOURCE_DATE_EPOCH" \
    -t "weir:$version" "$work/stage" >/dev/null
buildah --storage-driver vfs --root "$work/images" push --quiet "weir:$version" "oci-archive:$out/$name-image.tar:weir:$version"

step the bill of materials
python3 packaging/sbom.py "$processor-unknown-linux-musl" pdf,parquet >"$out/$name.cdx.json"

step the documentation site
need mdbook cargo install --quiet --locked --no-default-features mdbook
python3 packaging/book.py "$work/site/$name-docs"
archive "$out/$name-docs.tar.gz" "$work/site" "$name-docs"

step notes and sources
awk '/^## /{n++} n==1' docs/changelog.md >"$out/$name-notes.md"
git archive --prefix="$name/" HEAD | gzip -9n >"$out/$name-source.tar.gz"
(cd "$out" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS && cat SHA256SUMS)
