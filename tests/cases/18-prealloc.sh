#!/bin/sh
# A file that no one has made cannot be read: the message names prealloc, and asks for no entries, which a file does not have.
#   tests/cases/18-prealloc.sh WEIR
set -eu
case=18-prealloc
weir=$(realpath "${1:?usage: $0 WEIR}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_DATA_HOME="$work/store"
script() {
    cat <<SCRIPT
define file name=only,path=/data,size=256k,readonly$1
define process name=p
{
  thread name=t,memsize=1m
  {
    flowop readwholefile name=r,filename=only,iosize=16k
  }
}
run 1
SCRIPT
}
script ",reuse,trusttree" >absent.f
script ",prealloc" >there.f
if "$weir" bench absent.f --fs pmfs >out 2>&1; then echo "$case: a file that is not there is read"; exit 1; fi
grep -q prealloc out || { echo "$case: the message does not name prealloc: $(tail -3 out)"; exit 1; }
if grep -q "entries" out; then echo "$case: the message asks for entries"; exit 1; fi
grep -q "trusttree" out || { echo "$case: the message does not say that trusttree makes no file: $(tail -3 out)"; exit 1; }
"$weir" bench there.f --fs pmfs >out 2>&1 || { echo "$case: with prealloc: $(tail -3 out)"; exit 1; }
echo "$case: ok"
