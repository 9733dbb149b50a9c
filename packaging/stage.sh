#!/bin/sh
# Puts what a package holds besides the command itself into a folder: man pages, completions, mount helpers, systemd unit.
#
#   packaging/stage.sh WEIR DIR        WEIR: the command, built; DIR is made anew
set -eu

here=$(cd "$(dirname "$0")" && pwd)
weir=${1:?usage: stage.sh WEIR DIR}
dir=${2:?usage: stage.sh WEIR DIR}

rm -rf "$dir"
mkdir -p "$dir/man1" "$dir/man5" "$dir/sbin" "$dir/systemd"
"$weir" man --quiet "$dir/man1"
mv "$dir/man1/weir.toml.5" "$dir/man5/"
gzip -9n "$dir"/man1/*.1 "$dir"/man5/*.5
for shell in bash zsh fish; do
    "$weir" completion "$shell" >"$dir/weir.$shell"
done
# mount(8) looks for /sbin/mount.TYPE; the command sees by which name it is called.
ln -s ../bin/weir "$dir/sbin/mount.fuse.weir"
ln -s ../bin/weir "$dir/sbin/umount.fuse.weir"
sed 's|/usr/local/bin/weir|/usr/bin/weir|' "$here/weir@.service" >"$dir/systemd/weir@.service"
