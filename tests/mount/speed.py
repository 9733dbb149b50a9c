"""One measurement on a mount: speed.py KIND DIR SERVER PROGRAMS SECONDS, where KIND is read, write or files and SERVER the process
that serves. Prints operations in a second, and the CPU time of the server and of the programs for each, in microseconds."""

import json
import os
import resource
import subprocess
import sys
import time

FILE_BYTES = 64 << 20


def cpu_of(process):
    """Seconds of CPU time, proc(5)."""
    with open(f"/proc/{process}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_programs():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def make_files(folder, programs):
    """The files of fio's jobs, by plain writes: how fio makes them differs by file system."""
    for number in range(programs):
        with open(f"{folder}/speed.{number}.0", "wb") as file:
            for _ in range(FILE_BYTES >> 20):
                file.write(bytes(1 << 20))


def random_io(kind, folder, programs, seconds):
    """Operations of fio, all programs together; each has a file of its own, which is there before the time begins."""
    common = ["fio", f"--directory={folder}", f"--size={FILE_BYTES}", f"--numjobs={programs}", "--bs=4k", "--ioengine=psync",
              "--direct=1", "--group_reporting", "--output-format=json", "--name=speed", "--allow_mounted_write=1"]
    timed = [f"--rw=rand{kind}", "--time_based", f"--runtime={seconds}"]
    said = subprocess.run(common + timed, check=True, capture_output=True, text=True).stdout
    return json.loads(said)["jobs"][0][kind]["total_ios"]


FILES = """
import os, sys, time
folder, seconds = sys.argv[1], float(sys.argv[2])
os.mkdir(folder); os.chdir(folder)
end, count = time.monotonic() + seconds, 0
while time.monotonic() < end:
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY)); os.unlink("file"); count += 1
os.rmdir(folder)
print(count)
"""


def files(folder, programs, seconds):
    """Files that were made, closed and removed, all programs together; each has a directory of its own."""
    command = [sys.executable, "-c", FILES]
    running = [subprocess.Popen(command + [f"{folder}/{number}", str(seconds)], stdout=subprocess.PIPE, text=True)
               for number in range(programs)]
    counts = [int(program.communicate()[0]) for program in running]
    if any(program.returncode for program in running):
        sys.exit("a program failed")
    return sum(counts)


def main():
    kind, folder, server, programs, seconds = sys.argv[1:]
    programs, seconds = int(programs), int(seconds)
    if kind != "files":
        make_files(folder, programs)
    began = time.monotonic(), cpu_of(server), cpu_of_programs()
    count = files(folder, programs, seconds) if kind == "files" else random_io(kind, folder, programs, seconds)
    took, served, ran = (now - then for now, then in zip((time.monotonic(), cpu_of(server), cpu_of_programs()), began))
    # Starting fio takes time in which nothing is done.
    print(f"{count / min(took, seconds):.0f} {served / count * 1e6:.2f} {ran / count * 1e6:.2f}")


main()
