#!/usr/bin/env bash
# Campaigns on a real cluster on this host's loopback: munged, slurmctld and two slurmd. A plan, the readings of a paper and a crash
# exploration are submitted; one task, one slurmd with its tasks and the slurmctld are killed; everything ends, and each merge has the
# bytes of one machine. Then the same by GNU parallel over ssh without a shared folder, with a dead host and a killed parallel. Root
# only; what is missing is installed on Debian.
#
#   tests/cluster.sh WEIR          about 6 minutes on two idle cores with a release build; exit code 3: skipped, with the reason
set -euo pipefail

given=$(realpath "${1:?usage: cluster.sh WEIR}")
skip() { echo "skipped: $*"; exit 3; }
[ "$(id -u)" = 0 ] || skip "the daemons of Slurm and ssh take root"
export PATH=$PATH:/usr/sbin
programs="munged slurmctld slurmd sbatch parallel sshd ssh rsync"
missing() { for program in $programs; do command -v $program >/dev/null || echo $program; done; }
if [ -n "$(missing)" ] && command -v apt-get >/dev/null; then
    # With this level no service is started.
    export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null 2>&1 || true
    apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge parallel openssh-server openssh-client \
        rsync >/dev/null 2>&1 || true
fi
[ -z "$(missing)" ] || skip "there is no $(missing | paste -sd' ')"

work=$(mktemp -d)
# Without symbols, which a debug build has many of, it is copied to hosts in little time.
weir=$work/weir
strip -o "$weir" "$given" 2>/dev/null || cp "$given" "$weir"
export XDG_DATA_HOME=$work/data
began=$SECONDS
# Daemons that this script started, by the files that hold their numbers.
pid_of() { cat "$work/$1.pid" 2>/dev/null; }
end() {
    status=$?
    for name in n1 n2 ctld munged sshd; do
        pid=$(pid_of $name) && kill -9 "$pid" 2>/dev/null || true
    done
    for pid in $(tasks); do kill -9 "$pid" 2>/dev/null || true; done
    [ $status = 0 ] || { echo "kept: $work" >&2; exit $status; }
    rm -rf "$work"
}
trap end EXIT
die() { echo "FAILED: $*" >&2; for log in ctld n1 n2; do tail -n 5 "$work/$log.log" 2>/dev/null >&2 || true; done; exit 1; }
step() { echo "$((SECONDS - began)) s: $*"; }

# Numbers of the processes that run shards, from the heads of the files that they write.
tasks() { head -qn 1 "$work"/${1:-*}/out/*.part 2>/dev/null | sed -n 's/.*"process":\([0-9]*\).*/\1/p'; }
# A number of `weir campaign status --json`.
count() { "$weir" campaign status "$1" --json | sed -n "s/^  \"$2\": \([0-9]*\),*$/\1/p"; }
# Waits, at most so many seconds on an idle host and six times that on a busy one, until a command holds.
wait_for() {
    local limit=$((SECONDS + 6 * $1)) what=$2
    shift 2
    until "$@"; do
        [ $SECONDS -lt $limit ] || die "waited too long for $what"
        sleep 0.5
    done
}
# A result without what is of the host or of the command.
essence() { awk '/^  "/ { drop = /^  "(environment|command|hosts|costs)":/ } /^}/ { drop = 0 } !drop' "$1" | sed 's/,$//'; }
same() {
    [ "$(essence "$1" | wc -l)" -gt 300 ] || die "$1 is hardly a result"
    cmp <(essence "$1") <(essence "$2") || die "$1 and $2 differ"
}
# The document of a check without times.
timeless() { grep -vE '^ *"(cpu_ns|elapsed_ns|images_per_core_second)": ' "$1"; }
same_check() {
    grep -q '"distinct_images": [1-9][0-9][0-9][0-9]' "$1" || die "$1 is hardly an exploration"
    cmp <(timeless "$1") <(timeless "$2") || die "$1 and $2 differ"
}

cat >"$work/plan.toml" <<'P'
[plan]
name = "cluster"
why = "are its bytes those of one machine?"
stop = "300ms"
repeats = 2
machine = "hinfs-server"
[[axis]]
fs = ["pmfs", "hinfs", "nova"]
[[axis]]
threads = [1, 2, 4]
[fs]
buffer = "8MiB"
[[workload]]
name = "filebench/varmail"
vars = { nfiles = 300 }
[[workload]]
name = "filebench/fileserver"
vars = { nfiles = 100, meandirwidth = 20 }
[expect]
cost = "pmfs/varmail > 0.01 * hinfs/varmail"
P
readings="reproduce rcache/4 --readings --scale hundredth"
crash="check crash --fs pmfs --depth 2 --sample 120"
"$weir" run "$work/plan.toml" --quiet -o "$work/alone.json" >/dev/null
# shellcheck disable=SC2086 # several words
"$weir" $readings --quiet -o "$work/alone-open.json" >/dev/null
# shellcheck disable=SC2086 # several words
"$weir" $crash --quiet --json >"$work/alone-crash.json"
step "one machine has run the plan, the readings and the crash exploration"

# ---- Slurm ----
host=$(hostname -s)
head -c 1024 /dev/urandom >"$work/key"
chmod 400 "$work/key"
munged --force --key-file "$work/key" --socket "$work/munge" --pid-file "$work/munged.pid" --log-file "$work/munged.log" \
    --seed-file "$work/seed" 2>/dev/null
export SLURM_CONF=$work/slurm.conf
# Credentials that end soon let a task that was lost begin again soon: after two minutes by default.
cat >"$SLURM_CONF" <<C
ClusterName=weir
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=16817
AuthType=auth/munge
AuthInfo=socket=$work/munge,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/ctld.pid
SlurmdPidFile=$work/%n.pid
SlurmctldLogFile=$work/ctld.log
SlurmdLogFile=$work/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
JobRequeue=1
MaxArraySize=6
SchedulerParameters=sched_interval=2,batch_sched_delay=1,defer
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc=$work/jobcomp.txt
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=1 RealMemory=8000
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=1 RealMemory=8000
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
C
mkdir -p "$work/state" "$work/spool-n1" "$work/spool-n2"
controller() { slurmctld -f "$SLURM_CONF" 2>/dev/null; }
node() { slurmd -N "$1" -f "$SLURM_CONF" 2>/dev/null; }
controller
node n1
node n2
are_idle() { [ "$(sinfo -h -N -o '%T' 2>/dev/null | grep -c '^idle$')" = 2 ]; }
wait_for 60 "two idle nodes" are_idle
step "two nodes of Slurm are up"

camp=$work/slurm
"$weir" campaign new "$camp" "$work/plan.toml" --shards 12 --quiet >/dev/null
# shellcheck disable=SC2086 # several words
"$weir" campaign new "$work/crash" --shards 6 --quiet -- $crash >/dev/null
# shellcheck disable=SC2086 # several words
"$weir" campaign new "$work/open" --shards 6 --quiet -- $readings >/dev/null
"$weir" campaign submit "$work/crash" --engine slurm --quiet
"$weir" campaign submit "$camp" --engine slurm 2>"$work/submitted"
[ "$(grep -c '^sbatch ' "$work/submitted")" = 3 ] || die "12 shards are not in three arrays of at most 5: $(cat "$work/submitted")"
"$weir" campaign submit "$work/open" --engine slurm --quiet
step "24 shards of a crash exploration, a plan and readings are submitted"

# A task dies in the middle of a shard.
is_failed() { [ "$(count "$work/crash" failed)" -ge 1 ]; }
kill_a_task() {
    is_failed && return
    for pid in $(tasks crash); do kill -9 "$pid" 2>/dev/null && break; done
    sleep 0.5
    is_failed
}
wait_for 90 "the shard of a killed task to be counted as failed" kill_a_task
step "a task was killed: $("$weir" campaign status "$work/crash" | head -n 1)"
some_done() { [ "$(count "$camp" done)" -ge 1 ]; }
wait_for 90 "the first shard of the plan" some_done

# A node dies with all that runs on it.
on_n1() {
    for pid in $(tasks); do
        if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx SLURMD_NODENAME=n1; then echo "$pid"; fi
    done 2>/dev/null
}
is_on_n1() { [ -n "$(on_n1)" ]; }
wait_for 60 "a task on n1" is_on_n1
for pid in $(on_n1); do
    stepd=$(awk '{ print $4 }' "/proc/$pid/stat") # it has replaced the script, whose parent is slurmstepd
    kill -9 "$(pid_of n1)" "$stepd" "$pid" 2>/dev/null || true
done
step "n1 was killed with its task"

# The controller dies, and comes back; so does the node.
kill -9 "$(pid_of ctld)"
sleep 3
controller
node n1
step "the controller was killed and is back, and so is n1"

# What a user does until all is done: look, follow the remedies that are printed, submit again what has failed.
finish() {
    local limit=$((SECONDS + 900))
    until [ "$(count "$1" done)" = "$2" ]; do
        [ $SECONDS -lt $limit ] || die "the campaign does not end: $("$weir" campaign status "$1")"
        "$weir" campaign status "$1" | sed -n 's/^slurm [^:]*: \(scontrol .*\)/\1/p' | sort -u | while read -r remedy; do
            echo "    $remedy"
            $remedy || true
        done
        "$weir" campaign submit "$1" --engine slurm --missing --quiet || true
        sleep 3
    done
}
finish "$camp" 12
finish "$work/crash" 6
finish "$work/open" 6
step "every shard is done"
"$weir" campaign merge "$camp" -o "$work/slurm.json" --verify 2 --json >/dev/null 2>"$work/told" || die "merge: $(cat "$work/told")"
same "$work/alone.json" "$work/slurm.json"
for name in n1 n2; do grep -q "NodeList=$name " "$work/jobcomp.txt" || die "$name has run nothing"; done
"$weir" campaign merge "$work/open" -o "$work/open.json" --verify 2 --quiet >/dev/null
same "$work/alone-open.json" "$work/open.json"
"$weir" campaign merge "$work/crash" -o "$work/crash.json" --verify 1 --quiet >/dev/null
same_check "$work/alone-crash.json" "$work/crash.json"
lines=$(cut -d, -f1-5 "$work/data/weir/evidence.jsonl" | sort | uniq -c)
[ "$(awk '{ print $1 }' <<<"$lines")" = 2 ] || die "the merge has not the evidence of one machine: $lines"
step "the merges have the bytes of one machine; both nodes have worked"

# Canaries: what is lost, torn or changed is refused, with its exit code.
refused() {
    local code=0
    "$weir" campaign merge "$camp" -o "$work/none.json" >/dev/null 2>"$work/told" || code=$?
    [ $code = "$1" ] && grep -q "$2" "$work/told" || die "merge ends with $code, not $1 and \"$2\": $(cat "$work/told")"
}
file=$(ls "$camp"/out/00003.*.jsonl | head -n 1)
rm -f "$camp"/out/00003.*.part "$camp"/out/00003.*.left
for other in "$camp"/out/00003.*.jsonl; do [ "$other" = "$file" ] || rm "$other"; done
cp "$file" "$work/aside"
rm "$file"
refused 1 "1 of 12 shards are not done: 3"
head -c -20 "$work/aside" >"$file"
refused 5 "$file:.* is torn"
sed '2s/"ops":[0-9]*/"ops":1/' "$work/aside" >"$file"
refused 5 "$file:2: does not have the hash"
sed '1s/"build":"[0-9a-f]*"/"build":"0"/' "$work/aside" >"$file"
refused 3 "is of build 0"
cp "$work/aside" "$file"

# What is queued is taken back, and what is there is merged in part.
part=$work/cancelled
"$weir" campaign new "$part" "$work/plan.toml" --shards 12 --quiet >/dev/null
"$weir" campaign submit "$part" --engine slurm --quiet
part_done() { [ "$(count "$part" done)" -ge 1 ]; }
wait_for 60 "a shard before the cancelling" part_done
"$weir" campaign cancel "$part" --quiet
is_empty() { [ -z "$(squeue -h)" ]; }
is_empty_or_told() { is_empty || { squeue -h -o "%i %T %r %N" >"$work/queue"; false; }; }
wait_for 30 "an empty queue: see $work/queue" is_empty_or_told
"$weir" campaign merge "$part" -o "$work/part.json" --partial --quiet >/dev/null
grep -q '^  "partial": true' "$work/part.json" || die "a partial merge is not marked"
"$weir" campaign run "$part" --missing --quiet
"$weir" campaign merge "$part" -o "$work/whole.json" --quiet >/dev/null
same "$work/alone.json" "$work/whole.json"
step "cancelled, merged in part, and ended here"

# ---- GNU parallel over ssh ----
ssh-keygen -q -t ed25519 -N '' -f "$work/id" && ssh-keygen -q -t ed25519 -N '' -f "$work/hostkey"
mkdir -p /run/sshd
cat >"$work/sshd_config" <<C
ListenAddress 127.0.0.1
Port 17022
HostKey $work/hostkey
PidFile $work/sshd.pid
AuthorizedKeysFile $work/id.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
C
"$(command -v sshd)" -f "$work/sshd_config" -E "$work/sshd.log"
cat >"$work/ssh_config" <<C
Host alive dead
  HostName 127.0.0.1
  Port 17022
  IdentityFile $work/id
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
C
# No server listens there.
sed -i '1i Host dead\n  Port 17023' "$work/ssh_config"
export PARALLEL_SSH="ssh -F $work/ssh_config" PARALLEL_HOME=$work/parallel
mkdir -p "$PARALLEL_HOME"
# Compression costs more than loopback.
export PARALLEL_RSYNC_OPTS=-rlDR
camp=$work/ssh
"$weir" campaign new "$camp" "$work/plan.toml" --shards 8 --quiet >/dev/null
"$weir" campaign submit "$camp" --engine parallel --sshlogin alive,dead -- --jobs 1 >"$work/first" 2>&1 &
submit=$!
over_ssh() { [ "$(count "$camp" done)" -ge 1 ]; }
wait_for 90 "the first shard over ssh" over_ssh
kill -9 "$(sed -n 's/.*"process":\([0-9]*\).*/\1/p' "$camp/jobs.jsonl" | head -n 1)" || die "parallel has ended already"
wait $submit && die "submit does not say that parallel was killed"
step "parallel was killed: $("$weir" campaign status "$camp" | head -n 1)"
"$weir" campaign submit "$camp" --engine parallel --missing --sshlogin alive,dead -- --jobs 2 >"$work/second" 2>&1 \
    || die "the second submission: $(cat "$work/second")"
grep -q "17023: Connection refused" "$work/second" || die "the dead host is not told: $(cat "$work/second")"
"$weir" campaign merge "$camp" -o "$work/ssh.json" --quiet >/dev/null
same "$work/alone.json" "$work/ssh.json"
for what in open crash; do
    command=$readings
    [ $what = open ] || command=$crash
    # shellcheck disable=SC2086 # several words
    "$weir" campaign new "$work/ssh-$what" --shards 4 --quiet -- $command >/dev/null
    "$weir" campaign submit "$work/ssh-$what" --engine parallel --sshlogin alive,dead -- --jobs 2 >"$work/second" 2>&1 \
        || die "$what over ssh: $(cat "$work/second")"
    "$weir" campaign merge "$work/ssh-$what" -o "$work/ssh-$what.json" --quiet >/dev/null
done
same "$work/alone-open.json" "$work/ssh-open.json"
same_check "$work/alone-crash.json" "$work/ssh-crash.json"
step "over ssh, with a dead host, the bytes are those of one machine"
echo "cluster: every part passed in $((SECONDS - began)) s"
