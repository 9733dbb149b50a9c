#!/bin/sh
# Builds the command as one static program that runs on any Linux of its processor. Folders of the builder are not in it: two builders
# with the same sources, Rust toolchain and C compiler get the same bytes.
#
#   packaging/build_static.sh OUT [FEATURES]    OUT: the program; FEATURES: of the crate weir (default: pdf,parquet)
#   CARGO_BUILD_TARGET=…                        default: this processor, with musl
#
# rustup fetches the target where it is missing, apt-get the compiler musl-gcc.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
out=${1:?usage: build_static.sh OUT [FEATURES]}
features=${2-pdf,parquet}
target=${CARGO_BUILD_TARGET:-$(uname -m)-unknown-linux-musl}
folder=${CARGO_TARGET_DIR:-$here/target}/static
home=${CARGO_HOME:-$HOME/.cargo}

command -v musl-gcc >/dev/null || apt-get install -y -qq --no-install-recommends musl-tools >/dev/null ||
    { echo "error: musl-gcc is missing: install musl-tools" >&2; exit 3; }
if command -v rustup >/dev/null; then
    rustup target add "$target" >/dev/null 2>&1 || { echo "error: rustup has no target $target" >&2; exit 3; }
fi

sysroot=$(rustc --print sysroot)
names="--remap-path-prefix=$here=/weir --remap-path-prefix=$home=/cargo --remap-path-prefix=$sysroot=/rust"
# The compiler of C writes names of sources where it asserts; zstd and SQLite do.
c_names="-ffile-prefix-map=$home=/cargo -ffile-prefix-map=$folder=/target -g0"
cd "$here"
# Of this target alone: the library that `weir record --how preload` carries is for programs of the host's C library.
export "CC_$(echo "$target" | tr - _)=musl-gcc"
RUSTFLAGS="$names --remap-path-prefix=$folder=/target -Ctarget-feature=+crt-static" \
CFLAGS="$c_names" SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0} CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$folder \
    cargo build --quiet --profile dist --locked -p weir --features "$features" --target "$target"
mkdir -p "$(dirname "$out")"
cp "$folder/$target/dist/weir" "$out"
for name in "$here" "$home" "$sysroot"; do
    # Where no other folder is above it, a name of one letter would be found anywhere.
    if grep -qaF "$name/" "$out"; then
        echo "error: $out holds the folder of its builder, $name" >&2
        exit 1
    fi
done
