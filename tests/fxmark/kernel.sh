#!/usr/bin/env bash
# FxMark's nineteen benchmarks on file systems of the host's kernel, in memory: tmpfs, and ext4, xfs and btrfs on loop devices whose
# images lie in a tmpfs.
#
#   tests/fxmark/kernel.sh WEIR [bench's options …]      default: --threads 1,2 --runtime 1s
#   FILE_SYSTEMS="ext4 xfs"                              some of them; default: all four
#   SIZE=3G                                              of each image
#
# As root. On Debian the programs that make the file systems are installed if they are missing; a file system that the kernel does
# not have is named and left out, and the exit status is then 4. Prints the table; all nineteen must complete on each.
set -euo pipefail

. "$(realpath "$(dirname "$0")")/../mount/place.sh" "$1"
shift
read -ra kinds <<<"${FILE_SYSTEMS:-tmpfs ext4 xfs btrfs}"
[ $# -gt 0 ] || set -- --threads 1,2 --runtime 1s

[ "$(id -u)" = 0 ] || die "a file system can be mounted by root only"
(command -v mkfs.ext4 && command -v mkfs.xfs && command -v mkfs.btrfs) >/dev/null ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends e2fsprogs xfsprogs btrfs-progs >/dev/null; }

memory=$work/memory
mkdir "$memory"
mount -t tmpfs -o size=90% none "$memory"

left_out=
targets=()
for kind in "${kinds[@]}"; do
    if ! grep -qw "$kind" /proc/filesystems && ! modprobe "$kind" 2>/dev/null; then
        left_out+=" $kind"
        continue
    fi
    mkdir "$memory/$kind"
    case $kind in
    tmpfs) ;;
    *)
        truncate -s "${SIZE:-3G}" "$memory/$kind.img"
        "mkfs.$kind" -q "$memory/$kind.img" >"$work/mkfs" 2>&1 || die "mkfs.$kind: $(cat "$work/mkfs")"
        mount -t "$kind" -o loop "$memory/$kind.img" "$memory/$kind"
        ;;
    esac
    targets+=("host:$kind")
done

cd "$memory"
XDG_DATA_HOME=$work/store "$weir" bench fxmark --fs "$(IFS=, && echo "${targets[*]}")" --clock real "$@" ||
    die "a benchmark did not complete"
for target in "${targets[@]}"; do
    [ ! -e "${target#host:}/fxmark" ] || die "files are left in ${target#host:}"
done
cd /
say "all nineteen completed on ${#targets[@]} file systems"
[ -z "$left_out" ] || { say "left out, the kernel has none:$left_out"; exit 4; }
