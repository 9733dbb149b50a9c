#!/usr/bin/env bash
# Every command that README.md, CONTRIBUTING.md and docs print in a block is started, in a folder with the files that it names, and cut
# after a while: it must end well, say that a check failed or that this host cannot do it, or still run then. What cannot be started
# here is in the list below, each with its reason; a line of that list that no command matches is an error, too.
#
# Blocks are those of ``` and of four blanks. Words such as FILE and DIR stand for files that the script makes. A command that is wrong
# ends with another code: 2 for words that it does not know.
#
# usage: tests/answers/commands.sh WEIR [SECONDS]
#        SECONDS of CPU time for each command (3); SHORT=1: a tenth of a second, 20 s in all
set -euo pipefail
weir=$(realpath "${1:?usage: commands.sh WEIR [SECONDS]}")
command -v python3 >/dev/null || { echo "left out: there is no python3"; exit 0; }
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$weir" "$work/bin/weir"
export XDG_DATA_HOME=$work/data XDG_CONFIG_HOME=$work/config PATH=$work/bin:$PATH
python3 - "$root" "$work" "${SHORT:+0.1}${2:-}" <<'PY'
import os, pathlib, re, shutil, signal, subprocess, sys, time

root, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
seconds = float(sys.argv[3] or 3)

# What is not started here, by a part of the command, and why. All of these words are read by the unit test
# `commands_in_the_documents_are_right`.
NOT_STARTED = [
    (r"^weir (mount|umount|sync|trim) |/mnt/x|--mount DIR", "needs a mount, thus root and /dev/fuse: tests/mount"),
    (r"--kernel-fs", "makes file systems on loop devices as root, and a cut one would leave them: tests/fxmark"),
    (r"--program", "runs a real program that must be installed, on mounts of the reader: tests/apps"),
    (r"^weir campaign", "goes on from a campaign that has run, on Slurm or other hosts: tests/cluster.sh"),
    (r"champsimtrace", "its trace is one of the authors', 100 MB"),
    (r"^weir characterize", "reads a result of `weir bench --counters`, which takes a minute: tests/counters"),
    (r"^weir check crash trace:", "checks a program of the reader: tests/crash-of-programs"),
    (r"--against before.json", "compares with the file that the command before it writes in minutes"),
    (r"^weir compare model.json host.json", "compares with a result of this host's kernel, which needs root"),
    (r"\./(mydb|log)\b|tool\.deb|bank\.py|git add", "records a program or a package of the reader: tests/crash-of-programs"),
    (r"POOL:/PATH", "needs a file in a pool of ext2, which a mount makes: crates/weir/tests/it/flash.rs"),
    (r"parquet", "needs a build with Parquet: tests/formats.sh"),
]
# Commands that end with another code as they should, and which.
ENDS_WITH = {"weir fsck disk.img": 2}  # it names the partitions, and asks for one
FINE = {0: "done", 1: "a check failed", 3: "this host cannot"}

BLOCK = re.compile(r"^(?:    )?(?:\$ )?(weir .*)$")


def commands():
    """The commands of blocks, in the order of the pages; each once for a page."""
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    for page in pages:
        if page.name == "changelog.md":
            continue
        fence, told = False, set()
        # A command goes on behind a \\ at the end of a line.
        for line in re.sub(r" *\\\n *", " ", page.read_text()).splitlines():
            if line.startswith("```"):
                fence = not fence
            found = BLOCK.match(line) if fence or line.startswith("    ") else None
            # What stands behind two blanks or a # is a remark.
            parts = re.split(r"\s{2,}|\s#\s", found[1])[0].split("; ") if found else []
            for command in parts:
                if command.startswith("weir ") and command not in told:
                    told.add(command)
                    yield page.relative_to(root), command


def run(words, **how):
    done = subprocess.run(words, capture_output=True, text=True, **how)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


STRACE = """\
501 1700000000.000000000 execve("/bin/x", ["x"], 0x7ffe /* 1 var */) = 0 <0.000100000>
501 1700000000.000200000 openat(AT_FDCWD</srv/d>, "a", O_RDWR|O_CREAT, 0644) = 3</srv/d/a> <0.000010000>
501 1700000000.000300000 write(3</srv/d/a>, "x"..., 4096) = 4096 <0.000010000>
501 1700000000.000400000 close(3</srv/d/a>) = 0 <0.000010000>
501 1700000000.000500000 +++ exited with 0 +++
"""
SCRIPT = """\
set $nfiles=50
define fileset name=f,path=/tmp,entries=$nfiles,dirwidth=20,size=4k,prealloc
define process name=p,instances=1 { thread name=t,instances=1 { flowop openfile name=o,filename=f,fd=1
flowop readwholefile name=r,fd=1,iosize=1m
flowop closefile name=c,fd=1 } }
run 1
"""
PLAN = """\
[plan]
name = "mine"
why = "an example"
stop = "1ms"
[[axis]]
fs = ["pmfs", "nova"]
[[workload]]
name = "journal.f"
"""
MEDIUM = """\
model = "cxl"
summary = "an expander"
date = "2026-11"
[parameters]
extra = { value = "400ns", source = "[I] an example" }
link = { value = "x8", source = "[I] an example" }
card = { value = "30GB/s", source = "[I] an example" }
"""


def disk(folder):
    """A disk with two partitions of pmfs, by a table of the MBR."""
    run(["weir", "mkfs", "pmfs", "part", "--size", "16MiB", "--quiet"], cwd=folder)
    part = (folder / "part").read_bytes()
    first, sectors = 2048, len(part) // 512
    entry = lambda at: bytes(4) + b"\x83" + bytes(3) + at.to_bytes(4, "little") + sectors.to_bytes(4, "little")
    table = bytes(446) + entry(first) + entry(first + sectors) + bytes(32) + b"\x55\xaa"
    (folder / "disk.img").write_bytes(table + bytes(first * 512 - 512) + part + part)


def files(folder):
    """The files that commands name, small."""
    for name in ("web.f", "journal.f"):
        (folder / name).write_text(SCRIPT)
    (folder / "plan.toml").write_text(PLAN)
    (folder / "mine.toml").write_text(MEDIUM)
    (folder / "job.fio").write_text("[global]\nsize=${SIZE}\niodepth=${iodepth}\n[a]\nrw=randwrite\nbs=4k\n")
    (folder / "trace.csv").write_text("".join(f"{n * 1000},srv,0,Write,{n * 4096},4096,100\n" for n in range(64)))
    (folder / "x.csv").write_text("".join(f"{n},{n % 2},W,{n * 8},8\n" for n in range(64)))
    (folder / "strace.txt").write_text(STRACE)
    (folder / "Makefile").write_text("all:\n\ttouch made\n")
    (folder / "rows.toml").write_text((root / "presets/validation/wofs.toml").read_text())
    # The tutorial's lies beside the folder.
    for name in (folder, folder.parent):
        (name / "save.py").write_text("open('settings', 'w').write('version=2')\n")
    for name in ("src", "dir", "host", "tree"):
        (folder / name).mkdir()
    (folder / "src/a").write_text("a")
    (folder / "tree/Makefile").write_text("all:\n\ttouch made\n")
    (folder / "presets").symlink_to(root / "presets")
    for name in ("cp", "make", "program"):
        run(["weir", "trace", "import", "strace", "strace.txt", "--root", "/srv/d", "-o", f"{name}.wtrace", "--quiet"], cwd=folder)
    run(["weir", "trace", "compile", "make.wtrace", "-o", "make.wprog", "--quiet"], cwd=folder)
    run(["weir", "bench", "job.fio", "--fs", "pmfs", "--runtime", "1ms", "--quiet", "-o", "fio.json"], cwd=folder)
    # The last one is `latest`.
    run(["weir", "bench", "journal.f", "--fs", "pmfs,nova", "--runtime", "1ms", "--quiet", "-o", "result.json"], cwd=folder)
    for name in ("host.json", "new.json"):
        shutil.copy(folder / "result.json", folder / name)
    run(["weir", "baseline", "save", "main", "result.json", "--quiet"], cwd=folder)
    run(["weir", "report", "result.json", "--bundle", "r.tar.gz", "--quiet"], cwd=folder)
    run(["weir", "sim", "logging", "--workload", "vacation-like", "--capture", "vacation.trace", "--quiet"], cwd=folder)
    run(["weir", "mkfs", "ext2", "pool.weir", "--size", "32MiB", "--quiet"], cwd=folder)
    machines = work / "config/weir/machines"
    machines.mkdir(parents=True)
    for file in (machines / "this-host.toml", folder / "my.toml"):
        file.write_text(run(["weir", "show", "spr-server", "--toml"]))
    disk(folder)
    curves(folder)


def curves(folder):
    """What Mess and Intel's tool print, which `weir calibrate --from` reads."""
    rows = [f"{share},{gb},{90 + 0.02 * gb * gb}" for share in (100, 50) for gb in (10, 40, 60, 80, 95)]
    (folder / "memory_curves.csv").write_text("read_pct_rounded,bandwidth_mean,latency_mean\n" + "\n".join(rows) + "\n")
    for name, most in (("reads.txt", 230000.5), ("w5.txt", 190000.5)):
        points = [(0, 250.1, most), (100, 150.0, most * 0.8), (500, 125.0, most * 0.3), (20000, 116.0, 3000.0)]
        lines = "".join(f" {delay:05}\t{ns:.2f}\t {mb:.1f}\n" for delay, ns, mb in points)
        (folder / name).write_text("Inject\tLatency\tBandwidth\nDelay\t(ns)\tMB/sec\n==========================\n" + lines)
    (folder / "max.txt").write_text("ALL Reads        :\t240600.0\n3:1 Reads-Writes :\t210000.0\n1:1 Reads-Writes :\t190000.0\n")
    (folder / "idle.txt").write_text("Each iteration took 345.6 base frequency clocks (\t115.2\tns)\n")


# Variables of the job.
os.environ.update(SIZE="1m", iodepth="1")

# What words of the pages stand for, and sizes that fit this folder.
WORDS = [
    (r"result\.json -o jobs\.fio\.json", "fio.json -o jobs.fio.json"),
    (r"host:/[a-z/]+[a-z]|host:DIR", "host:host"), (r"RESULT\.json|RESULT", "result.json"), (r"trace:FILE", "trace:cp.wtrace"),
    (r"trace stat FILE", "trace stat cp.wtrace"), (r"import strace FILE", "import strace strace.txt"),
    (r"PROGRAM ARGUMENT …", "true"), (r"TREE", "tree"), (r"TRACE", "trace.csv"), (r"POOL:/PATH", "pool.weir:/lost+found"),
    (r"\bFILE\b", "journal.f"), (r"\bDIR\b", "dir"), (r"/tmp/", ""), (r"4GiB|8GiB|100GiB|200GiB", "96MiB"), (r"SIZE=1g", "SIZE=1m"),
]


def made_by(command):
    """The file that a command makes, which must not be there."""
    found = re.match(r"weir mkfs \w+ (\S+)|weir plan new (\S+)|weir (?:record|trace \w+) .*?-o (\S+)", command)
    found = found or re.match(r"weir record -- (\w+)", command)
    name = next((name for name in found.groups() if name), None) if found else None
    return f"{name}.wtrace" if name and "." not in name else name


def cpu_s(process):
    """CPU time that a process has taken; none where it has gone."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return None


def start(command, folder):
    """Starts a command; its exit code, or none where it was cut, and what it said."""
    with open(work / "said", "w+b") as said:
        child = subprocess.Popen(["bash", "-c", "exec " + command], cwd=folder, stdin=subprocess.DEVNULL,
                                 stdout=said, stderr=said, start_new_session=True)
        # A command that waits for something takes no time of the processor.
        until = time.monotonic() + 20 * max(seconds, 0.5)
        while child.poll() is None and (cpu_s(child.pid) or 0) < seconds and time.monotonic() < until:
            time.sleep(0.01)
        cut = child.poll() is None
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        said.seek(0)
        return None if cut else child.returncode, said.read().decode("utf-8", "replace")


def fresh_results():
    """Kept results and baselines are as `files` left them."""
    shutil.rmtree(work / "data", ignore_errors=True)
    shutil.copytree(work / "first", work / "data")


ground = work / "files"
ground.mkdir()
files(ground)
shutil.copytree(work / "data", work / "first")
count, wrong, used, page, folder = {}, 0, set(), None, None
for of, command in commands():
    reason = next((number for number, (part, _) in enumerate(NOT_STARTED) if re.search(part, command)), None)
    if reason is not None:
        used.add(reason)
        count["listed"] = count.get("listed", 0) + 1
        continue
    if of != page:
        # A page begins in a fresh folder; its commands may go on from each other.
        page, folder = of, work / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ground, folder, symlinks=True)
        fresh_results()
    elif "latest" in command:
        # The last result is not that of a command before, which this host may have ended or cut.
        fresh_results()
    real = command
    for word, stands_for in WORDS:
        real = re.sub(word, stands_for, real)
    if real.startswith("weir baseline save "):
        subprocess.run(real.replace(" save ", " remove ", 1), shell=True, cwd=folder, capture_output=True)
    new = made_by(real)
    kept = folder / f"{new}.kept" if new and (folder / new).exists() else None
    if kept:
        (folder / new).rename(kept)
    code, said = start(real, folder)
    if kept and not (folder / new).exists():
        kept.rename(folder / new)
    came = "cut" if code is None else FINE.get(code) or ("as it says" if ENDS_WITH.get(command) == code else None)
    if came is None:
        wrong += 1
        print(f"{of}: {command}\n  run as: {real}\n  exit code {code}: " + "\n  ".join(said.strip().splitlines()[-4:]))
    count[came or "wrong"] = count.get(came or "wrong", 0) + 1
for number, (part, _) in enumerate(NOT_STARTED):
    if number not in used:
        wrong += 1
        print(f"no command of the pages is {part}: take it off the list")
print(", ".join(f"{many} {what}" for what, many in sorted(count.items())))
sys.exit(1 if wrong else 0)
PY
echo "ok: every printed command starts, or is listed with its reason"
