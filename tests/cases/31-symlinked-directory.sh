#!/bin/bash
# A program that was started in a directory by a symbolic link, and uses that name, is recorded whole; so is one that comes by a link
# of its own.
#   tests/cases/31-symlinked-directory.sh WEIR
case=31-symlinked-directory
. "$(dirname "$0")/traces.sh"
needs_strace
mkdir disk && ln -s disk/project home && ln -s disk/project/sub side
script='printf abc >"$PWD/file.tmp"; mv "$PWD/file.tmp" "$PWD/file"; mkdir "$PWD/made" "$PWD/sub"; echo x >"$0/side/there"; mv "$0/side/there" "$0/side/moved"'
for how in strace preload; do
    rm -rf disk/project && mkdir disk/project
    (cd home && "$weir" record --how $how -o "$work/$how.wtrace" -- bash -c "$script" "$work") >record.log 2>&1
    real=$(cd disk/project && find . -mindepth 1 | sed 's,^\./,,' | sort | tr '\n' ' ')
    told=$("$weir" trace tree --allow-drops $how.wtrace | awk '{ print $NF }' | sort | tr '\n' ' ')
    [ "$real" = "$told" ] || differs "$how: the program has left '$real', the trace has '$told'"
done
[ "$(missing strace.wtrace)" = 0 ] || differs "strace: $("$weir" trace show strace.wtrace | grep '^L')"
ok
