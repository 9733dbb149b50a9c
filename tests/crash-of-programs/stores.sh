#!/usr/bin/env bash
# LMDB and LevelDB, each with the sync that is its default or that its documentation names, and without: with it nothing may be found
# but on posix, where a file that was made in the run has no durable name before its folder is synced. LMDB also with its file mapped
# for writing, of which looks at each msync are seen.
case=stores
. "$(dirname "$0")/place.sh"
needs python3
python=${python% *} # with the packages of the site
wrong=""
for store in lmdb leveldb; do
    module=$([ $store = lmdb ] && echo lmdb || echo plyvel)
    $python -c "import $module" 2>/dev/null || { echo "  $store: left out: python3-$module is not installed"; continue; }
    modes=(sync nosync)
    [ $store = leveldb ] || modes+=(mapped)
    for mode in "${modes[@]}"; do
        anew
        $python - $store <<'END'
import sys
if sys.argv[1] == "lmdb":
    import lmdb
    store = lmdb.open("db", map_size=1 << 20)
    with store.begin(write=True) as change:
        change.put(b"0", b"@" * 3000)
else:
    import plyvel
    plyvel.DB("db", create_if_missing=True).put(b"0", b"@" * 3000, sync=True)
END
        sync
        records $python "$here/stores.py" $store $mode
        check --check "$python $here/stores.py $store $mode check" --states "${STATES:-300}" --no-fix \
            --fs posix,ext4,xfs,btrfs,f2fs,null-random,null-unsynced --fs ext4:zeros=no,replace=yes
        # Where a look comes too late, it is told, and there is nothing to compare.
        if grep -q 'no look is of that moment' "$work/found.json"; then
            echo "  $store/$mode: left out: this host is too busy"
            continue
        fi
        right=()
        [ $mode != nosync ] && right=("$store" posix)
        row=$($python "$here/row.py" "$work/found.json" ${right[@]+"${right[@]}"})
        echo "  $store/$mode: $row"
        decided=$(echo "$row" | head -n 1 | tr ' ' '\n' | grep -v '^null\|^posix' | sed 's/([0-9]*)//; s/.*=//' | tr -d '–\n')
        case $mode in
        sync | mapped) [ -z "$decided" ] || wrong="$wrong $store/$mode" ;;
        nosync) [[ $decided == *D* ]] || wrong="$wrong $store/$mode" ;;
        esac
    done
done
[ -z "$wrong" ] || differs "$wrong"
ok
