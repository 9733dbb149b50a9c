"""Jobs of unusual options, run by fio and by Weir: unusual.sh says how.

A job is a line of options. Where fio draws the direction of each I/O, only the sums can be equal (`sum`). Percentages of a file are
compared on files that exist with their whole size, because fio takes them of what a file has when the job begins."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from compare import fio_counts, weir_counts

FILE = 1 << 20


def jobs():
    """Every job: its options, whether only sums are compared, and the file that must exist."""
    small = "size=1m bs=4k "
    found = []

    def add(options, total=False, laid=0):
        found.append((options, total, laid))

    # units: k, kb and ki are one unit, kib is the other one
    for base in (1024, 1000):
        for bs in ("1k", "2Ki", "4KiB", "8kb", "512b", "0x800"):
            for rw in ("read", "randwrite"):
                add(f"kb_base={base} rw={rw} size=256k bs={bs}")
        for size in ("1Mi", "1MiB", "700KiB", "2mb"):
            add(f"kb_base={base} rw=write bs=1k size={size}")
    # percentages
    whole = f"filename=x filesize={FILE} bs=4k "
    for size in ("7%", "33%", "40%", "100%"):
        for offset in ("0%", "25%", "33%", "80%"):
            add(whole + f"rw=read offset={offset} size={size}", laid=FILE)
    for step in ("10%", "13%", "96k"):
        add(whole + f"rw=read offset=1% offset_increment={step} numjobs=3 size=20%", laid=FILE)
    for align in ("64k", "512", "4k"):
        add(whole + f"rw=read offset=33% offset_align={align}", laid=FILE)
    for part in ("1%", "30%", "50%", "99%", "100%"):
        for more in ("rw=read", "rw=randread", "rw=write loops=2", "rw=read nrfiles=3"):
            add(small + f"{more} io_size={part}")
    # skips
    for skip in ("4k", "12k", "64k", "-4k", "-8k", "-12k", "-64k"):
        for offset in ("0", "128k"):
            for rw in ("read", "write"):
                add(small + f"rw={rw}:{skip} offset={offset}")
    # zones
    for zones in ("60/10:30/20:10/", "60/10:40/20", "50/5:50", "10/60:20/20:70/20", "100/1"):
        add(small + f"rw=randread random_distribution=zoned:{zones}")
    for zones in ("60/100k:40/900k", "60/100k:40"):
        add(small + f"rw=randwrite random_distribution=zoned_abs:{zones}")
    for zone in ("zonesize=16k zoneskip=48k", "zonesize=64k zonerange=32k zoneskip=32k", "zonesize=20k zoneskip=4k",
                 "zonesize=16k zonerange=32k zoneskip=32k", "zonesize=128k zonerange=64k", "zonesize=32k"):
        # Where the last zone is cut off by the end of the file, a random I/O ends the job when it happens to be beyond it.
        ways = ("read", "write") if "20k" in zone else ("read", "write", "randread norandommap", "randwrite")
        for rw in ways:
            add(small + f"zonemode=strided rw={rw} {zone}")
    add(small + "zonemode=strided rw=randwrite zonesize=64k zonerange=32k zoneskip=32k io_size=4m")
    add(small + "zonemode=strided rw=write zonesize=16k zoneskip=16k loops=3")
    # checksums
    for kind in ("md5", "crc7", "crc16", "crc32", "crc32c", "crc32c-intel", "crc64", "sha1", "sha256", "sha512", "xxhash",
                 "pattern verify_pattern=0xab%o", "null", "meta"):
        add(small + f"rw=write verify={kind}")
    for more in ("rw=randwrite verify=xxhash", "rw=write verify=sha1 verify_backlog=16", "rw=write verify=md5 do_verify=0",
                 "rw=write verify=crc32c verify_interval=1k loops=2", "rw=write verify=xxhash nrfiles=4"):
        add(small + more)
    # rates of one direction
    for rate in ("rate=,1m", "rate_iops=,200", "rate=4m,", "rate_iops=500,"):
        add(small + f"rw=rw rwmixread=80 {rate}", total=True)
    for rate in ("rate=,1m rw=read", "rate=8m, rw=write", "rate_iops=,1 rw=randread", "rate_min=1k rw=write"):
        add(small + rate)
    # ends
    for count in ("number_ios=100", "number_ios=100 loops=2", "number_ios=300 io_size=4m", "number_ios=70 nrfiles=3"):
        add(small + f"rw=write {count}")
    for more in ("rw=write io_size=300k loops=2", "rw=randread io_size=300k loops=2", "rw=randwrite io_size=3m norandommap",
                 "rw=write size=1000001", "rw=randwrite size=1000001", "rw=read bs=3k", "rw=randread:4",
                 "rw=read nrfiles=3 bs=64k", "rw=randread percentage_random=50", "rw=randread ba=16k norandommap",
                 "rw=randrw rwmixread=100", "rw=write nrfiles=4 file_service_type=sequential", "rw=read offset=512k",
                 "rw=write nrfiles=4 file_service_type=random:3", "rw=write filesize=256k nrfiles=4 size=512k"):
        add(small + more)
    for more in ("rw=randrw", "rw=rw rwmixread=25", "rw=randrw:8", "rw=rw:-8k", "rw=randrw verify=crc32c do_verify=0"):
        add(small + more, total=True)
    return found


def text(options):
    return "[global]\ninvalidate=0\n[job]\n" + "\n".join(options.split()) + "\n"


def run(command, cwd, env=None):
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout, (done.stderr or done.stdout).strip()


def one(weir, work, number, job):
    """What differs, or nothing."""
    options, total, laid = job
    place = os.path.join(work, str(number))
    for name in ("fio", "weir"):
        os.makedirs(os.path.join(place, name))
    file = os.path.join(place, "job.fio")
    with open(file, "w") as out:
        out.write(text(options))
    if laid:
        with open(os.path.join(place, "fio", "x"), "wb") as out:
            out.truncate(laid)
    status, printed, told = run(["fio", "--output-format=json", file], os.path.join(place, "fio"))
    if status:
        return f"fio itself fails: {told[-200:]}"
    wanted = fio_counts(printed)
    env = dict(os.environ, XDG_DATA_HOME=os.path.join(place, "store"))
    command = [weir, "bench", file, "--fs", f"host:{place}/weir", "--clock", "real", "--json"]
    status, printed, told = run(command, place, env)
    shutil.rmtree(place)
    if status:
        return f"weir fails: {told[-300:]}"
    got = weir_counts(printed)
    if total:
        wanted, got = ({"all": tuple(map(sum, zip(*side.values())))} for side in (wanted, got))
    return "" if wanted == got else f"fio {wanted}, weir {got}"


def main():
    weir, work, only = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
    chosen = [job for job in jobs() if only in job[0]]
    wrong = 0
    with ThreadPoolExecutor(2) as pool:
        for job, answer in zip(chosen, pool.map(lambda pair: one(weir, work, *pair), enumerate(chosen))):
            if answer:
                wrong += 1
                print(f"{job[0]}: {answer}", flush=True)
    print(f"{len(chosen)} jobs, {len(chosen) - wrong} equal in I/Os and bytes")
    sys.exit(1 if wrong or not chosen else 0)


main()
