"""Compares the calls of a program with those of its suite: the files that real.sh has left in a folder."""

import collections
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import strace

FOLDER, NAME = sys.argv[1:]
LIMIT = 0.02
# In the words of Weir's ledger.
KINDS = {
    "close": "close", "read": "read", "write": "write", "fsync": "fsync", "newfstatat": "stat", "unlink": "unlink",
    "mkdir": "mkdir", "mkdirat": "mkdir", "rmdir": "rmdir", "rename": "rename", "openat": "open", "creat": "open",
    "lseek": "seek", "getdents64": "readdir", "chmod": "setattr", "fchmod": "setattr", "fchown": "setattr",
    "fchownat": "setattr", "utimensat": "setattr",
}
# Of Bonnie++: each of its processes draws whether it writes a chunk back, so that these writes are compared by themselves.
SEEKS = 8192
# A count below this is of a start or an end, which differ.
FEW = 20


# Of these strace does not print the directory that a path is relative to: it is one of the folder's.
PATHS = {"unlink", "mkdir", "rmdir", "rename", "chmod", "creat"}


def is_below(name, args):
    """Whether a call is of a file of the folder."""
    path = re.search(r'"((?:[^"\\]|\\.)*)"', args)
    if path and path.group(1).startswith("/"):
        return path.group(1).startswith(FOLDER) or path.group(1).startswith("/proc/self/fd/")
    return FOLDER in args or name in PATHS


def theirs():
    """Counts of calls below the folder, bytes that were read and written there, and how many chunks seekers wrote back."""
    counts, bytes_of = collections.Counter(), collections.Counter()
    first, updates = None, 0
    for thread, name, args, result, _ in strace.calls(f"{FOLDER}/{NAME}.strace"):
        first = first or thread
        if name not in KINDS:
            continue
        if not is_below(name, args):
            continue
        kind = KINDS[name]
        if NAME == "bonnie" and kind == "write" and thread != first:
            # A process that seeks: an lseek and a write.
            updates += 1
            counts["seek"] -= 1
            continue
        counts[kind] += 1
        if kind in ("read", "write"):
            bytes_of[kind] += max(int(result), 0)
    return counts, bytes_of, updates


def ours():
    """The same of the suite."""
    document = json.load(open(f"{FOLDER}/{NAME}.json"))
    sample = document.get("results", [document])[0]["samples"][0]
    counts = collections.Counter()
    for operation in sample["operations"]:
        kind = {"create": "open", "lstat": "stat", "fstat": "stat", "chdir": None}.get(operation["kind"], operation["kind"])
        counts[kind] += operation["count"]
    bytes_of = {"read": sample["read_bytes"], "write": sample["written_bytes"]}
    updates = sample["counters"].get("bonnie.seeks.updates", 0)
    for kind in ("seek", "write"):
        counts[kind] -= updates
    bytes_of["write"] -= sample["counters"].get("bonnie.seeks.written", 0)
    return counts, bytes_of, updates


def is_a_tenth(who, updates):
    """Whether so many of all seeks wrote their chunk back: one of ten, by chance, to four standard deviations."""
    mean, deviation = SEEKS / 10, (SEEKS * 0.1 * 0.9) ** 0.5
    same = abs(updates - mean) <= 4 * deviation
    told = f"{updates:>10} of {SEEKS} seeks of the {who} wrote their chunk back, where {mean:.0f} ± {4 * deviation:.0f} do"
    print(f"{NAME:<8} {told}{'' if same else '   DIFFERENT'}")
    return same


(real, real_bytes, real_updates), (own, own_bytes, own_updates) = theirs(), ours()
wrong = False
if NAME == "bonnie":
    wrong = not all([is_a_tenth("program", real_updates), is_a_tenth("suite", own_updates)])
rows = [(kind, real[kind], own[kind]) for kind in sorted(set(KINDS.values()))]
rows += [(f"{way} bytes", real_bytes[way], own_bytes[way]) for way in ("read", "write")]
for kind, one, other in rows:
    same = abs(one - other) <= max(LIMIT * one, FEW if "bytes" not in kind else 0)
    wrong |= not same
    print(f"{NAME:<8} {kind:<12} {one:>10} of the program, {other:>10} of the suite{'' if same else '   DIFFERENT'}")
if wrong:
    sys.exit(f"FAILED: calls of {NAME} differ")
