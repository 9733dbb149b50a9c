#!/usr/bin/env bash
# run.sh WEIR [MODEL …]: every script here, on every model or on those that are named. With `short`: on ext4 alone, and without
# SQLite, which takes seconds.
weir=${1:?usage: run.sh WEIR [short | MODEL …]}
shift
models=("$@") failed=0
here=$(dirname "$0")
for script in "$here"/[0-9]*.sh; do
    if [ "${1:-}" = short ]; then
        case $script in *sqlite*) continue ;; esac
        models=(ext4)
    fi
    "$script" "$weir" ${models[@]+"${models[@]}"} || failed=1
done
exit $failed
