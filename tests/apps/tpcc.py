"""Prints and checks what tests/apps/tpcc.sh has left in a folder."""

import json
import os
import re
import sys


def samples(path):
    document = json.load(open(path, encoding="utf-8"))
    for result in document.get("results", [document]):
        yield from result["samples"]


def share(reads, writes):
    return 100 * writes / max(1, reads + writes)


def server(path):
    """Calls of PostgreSQL to files of its data directory; a call that was interrupted in the output has two lines."""
    counts = {"read": 0, "write": 0, "log_writes": 0, "log_syncs": 0, "page_syncs": 0}
    begun = {}
    line_of = re.compile(r"(\d+) +(?:(\w+)\(\d+<([^>]*)>|<\.\.\. (\w+) resumed>)(.*)")
    for line in open(path, encoding="utf-8", errors="replace"):
        found = line_of.match(line)
        if not found:
            continue
        thread, call, target, resumed, rest = found.groups()
        if rest.endswith("<unfinished ...>"):
            begun[thread] = call, target
            continue
        if resumed:
            call, target = begun.pop(thread, (None, None))
        is_log = target and "/pg_wal/" in target
        if not target or not (is_log or "/base/" in target or "/global/" in target):
            continue
        if "read" in call:
            counts["read"] += 1
        elif "write" in call:
            counts["write"] += 1
            counts["log_writes"] += bool(is_log)
        else:
            counts["log_syncs" if is_log else "page_syncs"] += 1
    return counts


def main():
    folder, count = sys.argv[1], int(sys.argv[2])
    failed = False
    for layer in ("innodb", "postgres"):
        for where in ("", ".host"):
            for sample in samples(f"{folder}/{layer}{where}.json"):
                counters = sample["counters"]
                reads, writes = counters["tpcc.read_calls"], counters["tpcc.write_calls"]
                print(f"{layer:9} {sample['axes']['fs']:24.24} write share {share(reads, writes):5.1f} %"
                      f"  tpmC {counters['tpcc.tpmc']:>9}  log syncs {counters['tpcc.log_syncs']}  page syncs {counters['tpcc.page_syncs']}")
                if counters["tpcc.new_orders"] + counters["tpcc.rolled_back"] < count * 0.95:
                    print(f"FAILED: {counters['tpcc.new_orders']} New-Orders of {count}")
                    failed = True
        twice = [[(s["axes"]["fs"], s["elapsed_ns"], s["counters"]) for s in samples(f"{folder}/{layer}{again}.json")]
                 for again in ("", ".again")]
        if twice[0] != twice[1]:
            print(f"FAILED: {layer}: two runs with one seed differ")
            failed = True
    if os.path.exists(f"{folder}/server.strace"):
        real = server(f"{folder}/server.strace")
        ours = [s["counters"] for s in samples(f"{folder}/postgres.json")][0]
        made = re.search(r"actually processed: (\d+)", open(f"{folder}/pgbench.txt", encoding="utf-8").read())
        alone = re.search(r"latency average = ([\d.]+) ms", open(f"{folder}/alone.txt", encoding="utf-8").read())
        print(f"PostgreSQL, {made and made[1]} transactions: write share {share(real['read'], real['write']):.1f} %, {real};"
              f" a transaction of one client without syncs takes {alone and alone[1]} ms")
        print(f"app/tpcc: write share {share(ours['tpcc.read_calls'], ours['tpcc.write_calls']):.1f} %")
    sys.exit(failed)


main()
