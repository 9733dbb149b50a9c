#!/usr/bin/env bash
# git: `add` and `commit` with its defaults and with core.fsync=all, judged by `git fsck` and by what the commit has promised (it has
# ended with exit code 0). Prints a row for each; nothing is expected of posix, where git syncs no folder.
case=git
. "$(dirname "$0")/place.sh"
needs git python3
export GIT_CONFIG_NOSYSTEM=1 HOME=$work GIT_AUTHOR_DATE="2026-01-01T00:00:00Z" GIT_COMMITTER_DATE="2026-01-01T00:00:00Z"
git config --global user.email a@b.invalid
git config --global user.name a
git config --global init.defaultBranch main
git config --global gc.auto 0
cat >"$work/check.sh" <<'END'
export HOME=$GIT_HOME
[ -e .git ] || { echo "no repository"; exit 1; }
rm -f .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock
out=$(git fsck --strict 2>&1) || { echo "$out" | grep -m1 -E 'error|fatal|missing|broken' || echo "$out" | tail -n1; exit 1; }
commits=$(git rev-list --count HEAD 2>/dev/null || echo 0)
[ "$commits" -ge 1 ] || { echo "the first commit is gone"; exit 1; }
[ ! -s "$WEIR_ACKED" ] || [ "$commits" = 2 ] || { echo "the commit was told and is gone"; exit 1; }
END
wrong=""
for setting in default all; do
    anew
    git init -q . && echo one >a && git add a && git commit -q -m one
    git config core.fsync "$setting"
    [ $setting = all ] && git config core.fsyncMethod fsync || git config --unset core.fsync
    echo two >>a; seq 2000 >b
    sync
    records sh -c 'git add a b && git commit -q -m two'
    GIT_HOME=$work check --check "sh $work/check.sh" --acknowledge exit --states "${STATES:-400}" --no-fix \
        --fs posix,ext4,xfs,btrfs,f2fs,nova,null-random,null-unsynced --fs ext4:zeros=no,replace=yes
    row=$($python "$here/row.py" "$work/found.json")
    echo "  $setting: $row"
    [[ $setting = default && $row == *"ext4=A"* || $setting = all && $row != *" ext4=A"* ]] || wrong="$wrong $setting"
done
[ -z "$wrong" ] || differs "$wrong"
ok
