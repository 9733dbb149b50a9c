#!/usr/bin/env bash
# Where the checker runs: its tree is at the path where the program was recorded and live data is not; it has a loopback and no other
# network unless --network is given; and where the host refuses namespaces, that is said, and --root-at puts trees at that path.
case=world
. "$(dirname "$0")/place.sh"
needs python3
echo old >f
records $python -c 'import os; open("f", "w").write("new"); print("done")'
# The file that is there now is of no state of the program.
echo live >f
cat >"$work/check.py" <<END
import os, socket, sys
where, network = sys.argv[1:]
text = open("$work/tree/f" if where == "bound" else "f").read()
def no(what): sys.exit(print(what) or 1)
if text not in ("old\n", "new", "") and text.strip("\0"): no("it sees live data")
if where == "bound" and os.getcwd() != "$work/tree": no("it is in " + os.getcwd())
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
if (socket.if_nameindex() == [(1, "lo")]) != (network == "none"): no("its network: " + str(socket.if_nameindex()))
END

# accepts WHERE NETWORK ARGUMENT …: the check finds nothing, so the checker has seen what it must.
accepts() {
    local where=$1 network=$2
    shift 2
    check --check "$python $work/check.py $where $network" --fs posix,nova --no-fix --jobs 2 "$@"
    [ $code = 0 ] || differs "$where, network $network, $*: exit code $code: $(tail -n 3 "$work/found.log") $(head -c 2000 "$work/found.json")"
}
tells() { grep -q -- "$1" "$work/found.json"; }

# through NAME COMMAND …: weir by way of another command.
through() {
    local name=$1
    shift
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$*" "$given" >"$work/$name"
    chmod +x "$work/$name"
    weir=$work/$name
}
given=$weir
networks=$($python -c 'import socket; print(len(socket.if_nameindex()))')
namespaces() {
    accepts bound none
    ! tells 'where the program was recorded' || differs "a tree at its path is said to be elsewhere"
    [ "$networks" = 1 ] || accepts bound host --network
}
ran=""
if unshare --net --mount true 2>/dev/null; then
    namespaces
    ran="$ran, as root"
fi
if unshare --user --map-user=65534 --map-group=65534 unshare --user --net true 2>/dev/null; then
    [ "$(id -u)" != 0 ] || through user unshare --user --map-user=65534 --map-group=65534
    namespaces
    ran="$ran, in a user namespace"
fi

# A host that refuses: seccomp(2) answers EPERM to unshare(2).
cat >"$work/refused.py" <<'END'
import ctypes, os, struct, sys
unshare = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, unshare), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0): sys.exit("seccomp is not to be had")
os.execv(sys.argv[1], sys.argv[1:])
END
if $python "$work/refused.py" /bin/true 2>/dev/null; then
    through refused $python "$work/refused.py"
    accepts scratch host
    tells 'where the program was recorded' && tells 'not kept from the network' || differs "what is refused is not said"
    mv "$work/tree" "$work/away"
    accepts bound host --root-at "$work/tree"
    [ ! -e "$work/tree" ] || differs "--root-at leaves its folder"
    mv "$work/away" "$work/tree"
    ran="$ran, refused"
fi
check --check true --root-at "$work/tree"
[ $code = 2 ] && [ "$(cat f)" = live ] || differs "--root-at takes a folder that is there: exit code $code"
# Owners are those that the program has set, where it may.
weir=$given
if [ "$(id -u)" = 0 ]; then
    anew
    echo old >f
    records $python -c 'import os; os.chown("f", 7, 8); os.fsync(os.open("f", 0)); print("owned")'
    check --check '[ ! -s "$WEIR_ACKED" ] || [ "$(stat -c %u:%g f)" = 7:8 ]' --fs ext4 --no-fix
    [ $code = 0 ] || differs "owners as root: exit code $code"
fi
[ -n "$ran" ] || skip "neither namespaces nor seccomp"
echo "  ran${ran#,}"
ok
