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
# Where a file does not become smaller, zip writes its header by itself, with two lseek more: docs/workloads/suites.md.
KNOWN = {("zip", "seek"): 0.15, ("zip", "write"): 0.08}
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
    """Counts of calls below the folder, and bytes that were read and written there."""
    counts, bytes_of = collections.Counter(), collections.Counter()
    for _, name, args, result, _ in strace.calls(f"{FOLDER}/{NAME}.strace"):
        if name not in KINDS:
            continue
        if not is_below(name, args):
            continue
        kind = KINDS[name]
        counts[kind] += 1
        if kind in ("read", "write"):
            bytes_of[kind] += max(int(result), 0)
    return counts, bytes_of


def ours():
    """The same of the suite."""
    document = json.load(open(f"{FOLDER}/{NAME}.json"))
    sample = document.get("results", [document])[0]["samples"][0]
    counts = collections.Counter()
    for operation in sample["operations"]:
        kind = {"create": "open", "lstat": "stat", "fstat": "stat", "chdir": None}.get(operation["kind"], operation["kind"])
        counts[kind] += operation["count"]
    return counts, {"read": sample["read_bytes"], "write": sample["written_bytes"]}


(real, real_bytes), (own, own_bytes) = theirs(), ours()
wrong = False
rows = [(kind, real[kind], own[kind]) for kind in sorted(set(KINDS.values()))]
rows += [(f"{way} bytes", real_bytes[way], own_bytes[way]) for way in ("read", "write")]
for kind, one, other in rows:
    limit = KNOWN.get((NAME, kind), LIMIT)
    same = abs(one - other) <= max(limit * one, FEW if "bytes" not in kind else 0)
    wrong |= not same
    print(f"{NAME:<8} {kind:<12} {one:>10} of the program, {other:>10} of the suite{'' if same else '   DIFFERENT'}")
if wrong:
    sys.exit(f"FAILED: calls of {NAME} differ")
