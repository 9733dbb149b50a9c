#!/bin/sh
# Requests of a trace that `weir sim flash` replays in a second of processor time, reading included: a trace of a million requests is
# made (the same each time), as text of MQSim, SPC and MSR and as gzip, and replayed on the SSD of --device fast24. Prints figures,
# decides nothing.
#
#   tests/traces/speed.sh [REQUESTS]   default: 1000000
#   WEIR=path/to/weir                  default: target/release/weir
#   DEVICE=NAME[,KEY=VALUE]            default: fast24
set -eu

here=$(cd "$(dirname "$0")" && pwd)
weir=${WEIR:-$here/../../target/release/weir}
[ -x "$weir" ] || { echo "speed.sh: $weir is not there: build it with cargo build --release, or set WEIR" >&2; exit 2; }
command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - "$work" "${1:-1000000}" "$weir" "${DEVICE:-fast24}" <<'PY'
import gzip, os, random, resource, subprocess, sys
work, count, weir, device = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
draw = random.Random(36)
def requests():
    """Reads of a search engine: 8 to 32 KiB all over 8 GiB, one of a hundred a write, 40 us apart in the mean."""
    clock = 0
    for _ in range(count):
        clock += draw.randrange(80_000)
        yield clock, draw.randrange(1 << 20) * 16, draw.choice((16, 16, 16, 32, 64)), draw.random() > 0.01
all_of_them = list(requests())
forms = {
    "mqsim": lambda t, at, n, read: f"{t} 0 {at} {n} {int(read)}\n",
    "spc": lambda t, at, n, read: f"0,{at},{n * 512},{'R' if read else 'W'},{t / 1e9:.6f}\n",
    "msr": lambda t, at, n, read: f"{128166372000000000 + t // 100},web,0,{'Read' if read else 'Write'},{at * 512},{n * 512},1\n",
}
files = []
for name, form in forms.items():
    text = "".join(form(*one) for one in all_of_them)
    files.append((name, os.path.join(work, name)))
    open(files[-1][1], "w").write(text)
files.append(("msr.gz", os.path.join(work, "msr.gz")))
gzip.open(files[-1][1], "wb", 1).write(text.encode())
def replay(path, *options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([weir, "sim", "flash", path, "--device", device, *options], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(f"{count} requests on {device}, load {os.getloadavg()[0]:.1f}")
for name, path in files:
    for options in ((), ("--fill", "none")):
        best = min(replay(path, *options) for _ in range(3))
        print(f"{name:<8} {' '.join(options):<12} {best:6.2f} s of processor time, {count / best / 1e6:5.2f} million requests a second")
PY
