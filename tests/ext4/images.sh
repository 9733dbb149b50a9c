#!/usr/bin/env bash
# `weir fsck` and its repair beside e2fsck, on the damaged images of e2fsprogs' own regression tests.
#
#   tests/ext4/images.sh WEIR [FOLDER [NAME …]]     FOLDER: the tests of e2fsprogs' source, each with its image.gz
#
# Without FOLDER the source package is fetched by apt-get, through a list of sources that is made of the machine's own and thrown
# away. For each image: check, repair of a copy, e2fsck -fy of another, e2fsck -fn of what weir repaired; then both trees are
# compared, by a reader of their own (tree.py). A line for each image that differs says how; none may show:
#
#   missed damage           weir says clean, e2fsck -fn does not
#   not clean for e2fsck    weir says that it repaired the image, e2fsck -fn finds more
#   lost                    a name, contents or attribute that e2fsck -fy keeps; in lost+found it is not lost
#   not repaired            e2fsck mends the image and weir does not
#   panic, hang (a minute), check changed the image
#
# Images of features that weir refuses are listed with the feature.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "${1:?usage: images.sh WEIR [FOLDER [NAME ...]]}")
skip() { echo "skipped: $1"; exit 0; }
command -v e2fsck >/dev/null || PATH=$PATH:/usr/sbin:/sbin
command -v e2fsck >/dev/null || skip "e2fsprogs is not installed"
command -v python3 >/dev/null || skip "python3 is not installed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The package's source, by the machine's own lists of sources.
fetch() {
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/apt/sources" "$work/source"
    cat /etc/apt/sources.list 2>/dev/null | sed -n 's/^deb /deb-src /p' >"$work/apt/sources/own.list" || true
    for list in /etc/apt/sources.list.d/*.list; do
        [ -f "$list" ] && sed -n 's/^deb /deb-src /p' "$list" >>"$work/apt/sources/own.list"
    done
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -f "$list" ] && sed 's/^Types:.*/Types: deb-src/' "$list" >"$work/apt/sources/$(basename "$list")"
    done
    local options=(-o Dir::Etc::sourcelist=- -o "Dir::Etc::sourceparts=$work/apt/sources" -o "Dir::State::lists=$work/apt/lists"
        -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update >"$work/apt.log" 2>&1 || return 1
    (cd "$work/source" && apt-get "${options[@]}" source --download-only e2fsprogs >>"$work/apt.log" 2>&1) || return 1
    tar -xzf "$work"/source/*.orig.tar.gz -C "$work/source"
    folder=$(echo "$work"/source/e2fsprogs-*/tests)
}

folder=${2:-}
shift $(($# < 2 ? $# : 2))
if [ -z "$folder" ]; then
    command -v apt-get >/dev/null || skip "there is no apt-get to fetch e2fsprogs' source; give its tests folder"
    fetch || skip "apt-get cannot fetch e2fsprogs' source: $(tail -n 1 "$work/apt.log"); give its tests folder"
fi
python3 "$here/images.py" "$weir" "$folder" "$work" "$@"
