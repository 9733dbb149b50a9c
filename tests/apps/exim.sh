#!/usr/bin/env bash
# app/exim beside Exim. The counts of calls a message must be those of the program, where that is: ten messages on a tmpfs, under
# strace. Then messages a second from 1 to 80 cores with spool=second and spool=pid, and what ends the curve.
#
#   tests/apps/exim.sh WEIR
#
# EXIM (exim4) is the program: of Debian's package exim4-daemon-light, installed or unpacked (its libraries by LD_LIBRARY_PATH). It
# takes root, since Exim refuses a configuration that is not root's, and a user Debian-exim: if there is none, one is made in a
# mount namespace of the script's own. CORES (1,10,20,40,80), DESIGNS (ext4,nova,pmfs) and RUNTIME (100ms) are those of the curve.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
work=$(mktemp -d -p "${DIR:-/dev/shm}")
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data
say() { printf '%s\n' "$*" >&2; }

exim=$(command -v "${EXIM:-exim4}" || true)
if [ -z "$exim" ]; then
    say "left out: exim4 is not installed (Debian's package exim4-daemon-light)"
elif [ "$(id -u)" != 0 ] || ! command -v strace >/dev/null; then
    say "left out: the program takes root, and strace"
else
    mkdir -p "$work/spool/log" "$work/spool/db" "$work/mail"
    cp /etc/passwd "$work/passwd"
    cp /etc/group "$work/group"
    grep -q '^Debian-exim:' /etc/passwd || echo 'Debian-exim:x:990:990::/nonexistent:/bin/false' >>"$work/passwd"
    grep -q '^Debian-exim:' /etc/group || echo 'Debian-exim:x:990:' >>"$work/group"
    owner=$(awk -F: '$1 == "Debian-exim" { print $3 ":" $4 }' "$work/passwd")
    cat >"$work/config" <<CONFIG
primary_hostname = mail.example
exim_user = Debian-exim
exim_group = Debian-exim
spool_directory = $work/spool
log_file_path = $work/spool/log/%slog
split_spool_directory
deliver_drop_privilege
host_lookup =
tls_advertise_hosts =
keep_environment =
acl_smtp_rcpt = accepted
begin acl
accepted:
  accept
begin routers
local:
  driver = accept
  transport = mailbox
begin transports
mailbox:
  driver = appendfile
  file = $work/mail/user
  use_lockfile = false
  no_check_owner
  delivery_date_add
  envelope_to_add
  return_path_add
  user = Debian-exim
  group = Debian-exim
CONFIG
    # The first message makes the mailbox and the lock of the retries: it is not counted.
    python3 - >"$work/first" <<'SMTP'
print("HELO client\r\nMAIL FROM:<a@mail.example>\r\nRCPT TO:<b@mail.example>\r\nDATA\r\nFrom: a\r\n\r\nthe body\r\n.\r\nQUIT\r")
SMTP
    python3 - >"$work/ten" <<'SMTP'
message = "MAIL FROM:<a@mail.example>\r\nRCPT TO:<b@mail.example>\r\nDATA\r\nFrom: a\r\nTo: b\r\n\r\nthe body\r\n.\r\n"
print("HELO client\r\n" + 10 * message + "QUIT\r")
SMTP
    # Exim makes the directory of a second when it needs it: no message is to be the first in one.
    for digit in {0..9} {A..Z} {a..z}; do mkdir -p "$work/spool/input/$digit" "$work/spool/msglog/$digit"; done
    chown -R "$owner" "$work/spool" "$work/mail"
    chmod 755 "$work"
    WORK=$work EXIM_FOUND=$exim unshare --mount bash -euc '
        mount --bind "$WORK/passwd" /etc/passwd
        mount --bind "$WORK/group" /etc/group
        cd /
        "$EXIM_FOUND" -C "$WORK/config" -bs <"$WORK/first" >/dev/null
        sleep 3
        strace -f -y -s 0 -o "$WORK/strace" "$EXIM_FOUND" -C "$WORK/config" -bs <"$WORK/ten" >/dev/null
        for wait in $(seq 30); do
            [ -n "$(find "$WORK/spool/input" -type f)" ] || break
            sleep 1
        done'
    delivered=$(grep -c '^From ' "$work/mail/user")
    [ "$delivered" = 11 ] || { say "FAILED: $delivered of 11 messages are in the mailbox"; exit 1; }
    "$weir" bench app/exim --fs "host:$work" --clock real -D clients=1 -D spool=pid --runtime 200ops --warm-up none --quiet --json \
        >"$work/ours.json"
    python3 "$here/exim.py" "$work"
fi

for spool in second pid; do
    "$weir" bench app/exim --fs "${DESIGNS:-ext4,nova,pmfs}" --medium dram --threads "${CORES:-1,10,20,40,80}" \
        --machine fxmark-server --runtime "${RUNTIME:-100ms}" -D clients=0 -D spool=$spool --quiet -o "$work/$spool.json"
    echo "spool=$spool: messages a second, and what the tasks wait for most"
    python3 - "$work/$spool.json" <<'PY'
import collections, json, sys
document = json.load(open(sys.argv[1]))
for result in document.get("results", [document]):
    for sample in result["samples"]:
        waits = collections.Counter()
        for operation in sample["operations"]:
            for name, ns in operation.get("lock_wait_ns", {}).items():
                waits[name] += ns
        # Of the time of a core of each client.
        share = lambda ns: 100 * ns / sample["elapsed_ns"] / int(sample["axes"]["threads"])
        most = ", ".join(f"{name} {share(ns):.0f} % of a core" for name, ns in waits.most_common(2))
        rate = 1e9 * sample["ops"] / sample["elapsed_ns"]
        print(f"{sample['axes']['fs']:<6} {sample['axes']['threads']:>3} cores {rate:>9.0f}   {most}")
PY
done
