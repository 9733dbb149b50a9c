# For the scripts beside it, which read it after setting `case` to their name: the command, a scratch folder, and words.
#
#   tests/cases/NN-NAME.sh WEIR
#
# Each makes a small input on which an earlier Weir went wrong, and compares with the right value. It prints one line: `NN-NAME:
# ok`, what differs (exit code 1), or `NN-NAME: skipped: REASON`.
set -u
PATH=$PATH:/usr/sbin:/sbin
weir=$(realpath "${1:?usage: $case.sh WEIR}")
work=$(mktemp -d)
mounted=()

leave() {
    local dir
    for dir in ${mounted[@]+"${mounted[@]}"}; do
        "$weir" umount "$dir" >/dev/null 2>&1 || umount --lazy "$dir" 2>/dev/null
    done
    rm -rf "$work"
}
trap leave EXIT
cd "$work" || exit 1

ok() { echo "$case: ok"; exit 0; }
differs() { echo "$case: $*"; exit 1; }
skip() { echo "$case: skipped: $*"; exit 0; }

needs() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || skip "$tool is not installed"
    done
}
needs_mount() { [ "$(id -u)" = 0 ] && [ -w /dev/fuse ] || skip "a mount needs root and /dev/fuse"; }

# image NAME SIZE OPTION … : a new image of mke2fs.
image() {
    truncate -s "$2" "$1" && mke2fs -q -F "${@:3}" "$1" >/dev/null 2>&1 || differs "mke2fs ${*:3} failed"
    chmod 600 "$1"
}
# debug IMAGE REQUEST … : requests to debugfs.
debug() {
    local request
    for request in "${@:2}"; do debugfs -w -R "$request" "$1" >/dev/null 2>&1; done
}
# mounts DESIGN IMAGE DIR OPTION …
mounts() {
    mkdir -p "$3"
    "$weir" mount "$1" "$2" "$3" --quiet "${@:4}" >mount.log 2>&1 || differs "mount $2: $(tail -n 1 mount.log)"
    mounted+=("$3")
}
leaves() { "$weir" umount "$1" >umount.log 2>&1 || differs "umount: $(tail -n 1 umount.log)"; }
# clean IMAGE: neither e2fsck nor weir finds anything.
clean() {
    e2fsck -fn "$1" >e2fsck.log 2>&1 || differs "$2: e2fsck: $(sed -n 3,6p e2fsck.log | tr '\n' ' ')"
    "$weir" fsck "$1" >weir.log 2>&1 || differs "$2: weir fsck: $(tail -n 1 weir.log)"
}
