#!/usr/bin/env bash
# dpkg unpacks and configures a small package into a root of its own, judged by `dpkg --audit`, by the package's files, and by its exit
# code 0. With its default nothing may be found on ext4, xfs, f2fs and nova; on posix and btrfs the names of files that it has unpacked
# may be lost, as it syncs no folder of theirs. With `unsafe-io`, which images of containers set in /etc/dpkg/dpkg.cfg.d, an
# installed file may be empty: found on every model.
case=dpkg
. "$(dirname "$0")/place.sh"
needs dpkg dpkg-deb python3
mkdir -p "$work/p/DEBIAN" "$work/p/opt/tool"
printf 'Package: tool\nVersion: 2\nArchitecture: all\nMaintainer: a <a@b.invalid>\nDescription: a tool\n' >"$work/p/DEBIAN/control"
seq 2000 >"$work/p/opt/tool/data"; echo two >"$work/p/opt/tool/version"
dpkg-deb -b --root-owner-group "$work/p" "$work/tool.deb" >/dev/null || differs "dpkg-deb"
cat >"$work/check.sh" <<'END'
audit=$(dpkg --root="$PWD" --audit 2>&1)
status=$(dpkg-query --admindir="$PWD/var/lib/dpkg" -W -f '${Status}' tool 2>/dev/null)
case $audit in *rror*) echo "dpkg --audit: $(echo "$audit" | head -n 1)" | sed "s|$PWD||g"; exit 1 ;; esac
case $status in
"install ok installed") cmp -s opt/tool/data "$GIVEN" || { echo "installed, and opt/tool/data is not as it was packed"; exit 1; } ;;
*) [ ! -s "$WEIR_ACKED" ] || { echo "dpkg has ended with 0, and the package is: ${status:-unknown}"; exit 1; } ;;
esac
END
export GIVEN=$work/p/opt/tool/data
for io in no-force-unsafe-io force-unsafe-io; do
    anew
    mkdir -p var/lib/dpkg/{info,updates,triggers,parts} var/log
    touch var/lib/dpkg/status var/lib/dpkg/available
    sync
    records dpkg --root="$work/tree" --$io --force-script-chrootless --force-not-root --log=/dev/null -i "$work/tool.deb"
    check --check "sh $work/check.sh" --acknowledge exit --states "${STATES:-120}" --fs posix,ext4,xfs,btrfs,f2fs,nova
    row=$($python "$here/row.py" "$work/found.json")
    echo "  dpkg --$io: $row"
    case $io in
    no-*) [[ $row == *" ext4=–"*" xfs=–"*" f2fs=–"*" nova=–"* ]] || differs "the default" ;;
    *) [[ $row == *" ext4=A"*" xfs=A"*" btrfs=A"*" f2fs=A"* ]] || differs "unsafe-io" ;;
    esac
done
ok
