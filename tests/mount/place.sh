# For the scripts beside it, which read it with their own arguments: the command, the designs, and a folder that is cleared away at the
# end, with a pool and a place to mount it. WEIR_LEDGER names a ledger that `record` adds to (`weir check --evidence`).

weir=$(realpath "$1")
shift
designs=("${@:-pmfs hinfs}")
read -ra designs <<<"${designs[*]}"

work=$(mktemp -d)
pool=$work/pool.weir
dir=$work/mnt
server=
mkdir "$dir"
chmod 755 "$work"

say() { printf '%s\n' "$*" >&2; }
die() {
    say "FAILED: $*"
    exit 1
}

# What has passed: CHECK --subject S --unit U --count N.
record() { [ -z "${WEIR_LEDGER:-}" ] || "$weir" check record "$@" --failures 0 --ledger "$WEIR_LEDGER"; }

cleanup() {
    local mounted
    if [ -n "$server" ]; then kill -9 "$server" 2>/dev/null || true; fi
    awk -v below="$work/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | tac |
        while read -r mounted; do umount --lazy "$mounted" || true; done
    rm -rf "$work"
}
trap cleanup EXIT

# The server as a child of this script, to be killed; $options: those of the mount.
serve_it() {
    : >"$work/server"
    "$weir" mount "$design" "$pool" "$dir" -o "$options" --foreground 2>"$work/server" &
    server=$!
    until grep -q 'is mounted on' "$work/server"; do
        kill -0 "$server" 2>/dev/null || die "the server: $(cat "$work/server")"
        sleep 0.02
    done
}
