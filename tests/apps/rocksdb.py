"""Compares app/rocksdb with db_bench: what tests/apps/rocksdb.sh has left in a folder."""

import json
import re
import sys


def log_writes(path):
    """Sizes of the writes to each log, by the log's number, of the last database: on a directory of the host weir bench runs once
    before it measures. A call that was interrupted in the output of strace has two lines."""
    folders, begun = {}, {}
    line_of = re.compile(r"(\d+) +(?:write\(\d+<([^>]*)/(\d+)\.log>|<\.\.\. write resumed>)(.*)")
    for line in open(path, encoding="utf-8", errors="replace"):
        found = line_of.match(line)
        if not found:
            continue
        thread, *log, rest = found.groups()
        if rest.endswith("<unfinished ...>"):
            begun[thread] = log
            continue
        folder, number = log if log[1] else begun.pop(thread, (None, None))
        if number:
            folders.setdefault(folder, {}).setdefault(int(number), []).append(int(rest.rsplit("= ", 1)[1]))
    last = list(folders.values())[-1]
    return [last[number] for number in sorted(last)]


def program(path, puts):
    """Write amplification by the events in RocksDB's LOG, and the tables that were removed."""
    written, made, done = 0, {}, 0
    for line in open(path, encoding="utf-8"):
        if "EVENT_LOG_v1 " not in line:
            continue
        event = json.loads(line.split("EVENT_LOG_v1 ", 1)[1])
        if event["event"] == "table_file_creation":
            made.setdefault(event["job"], []).append(event["file_size"])
        elif event["event"] == "flush_started":
            done += 1
        elif event["event"] == "compaction_finished":
            written += event["total_output_size"]
            made.pop(event["job"], None)
    # What is left are tables of flushes, and of a merge that was given up.
    written += sum(sum(sizes) for sizes in made.values())
    removed = open(path, encoding="utf-8").read().count('"event": "table_file_deletion"')
    return written / (puts * 116), done, removed


def ours(path):
    document = json.load(open(path, encoding="utf-8"))
    for result in document.get("results", [document]):
        for sample in result["samples"]:
            counts = sample["counters"]
            written = counts["rocksdb.flushed_bytes"] + counts["rocksdb.merged_bytes"]
            told = written / (counts["rocksdb.puts"] * 116), counts["rocksdb.flushes"], counts["rocksdb.tables_removed"]
            yield sample["axes"]["fs"], told


def main():
    folder, puts = sys.argv[1], int(sys.argv[2])
    failed = False

    real, own = (log_writes(f"{folder}/{name}.strace") for name in ("real", "ours"))
    compared, differ = 0, 0
    for theirs, mine in zip(real, own):
        for one, other in zip(theirs, mine):
            compared += 1
            differ += one != other
    bytes_each = [sum(map(sum, logs)) / sum(map(len, logs)) for logs in (real, own)]
    print(f"log: {compared} records of {len(real)} logs compared, {differ} differ; bytes an operation: "
          f"db_bench {bytes_each[0]:.3f}, app/rocksdb {bytes_each[1]:.3f}")
    print(f"     entries of each memtable: db_bench {[len(log) for log in real]}, app/rocksdb {[len(log) for log in own]}")
    failed |= compared < 1900 or differ > 0

    wanted, flushes, removed = program(f"{folder}/LOG", puts)
    print(f"tables: db_bench: amplification {wanted:.3f}, {flushes} flushes, {removed} tables removed")
    for where in ("host", "designs"):
        for fs, (found, flushes, removed) in ours(f"{folder}/{where}.json"):
            fs = "host" if fs.startswith("host") else fs
            print(f"tables: {fs}: amplification {found:.3f}, {100 * (found / wanted - 1):+.1f} %, {flushes} flushes, "
                  f"{removed} removed")
            failed |= not 0.8 < found / wanted < 1.2
    print("FAILED" if failed else "ok")
    return failed


sys.exit(main())
