"""Compares the calls of dbench with those of Weir's interpreter: the files that dbench.sh has left in a folder."""

import collections
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import strace

FOLDER = pathlib.Path(sys.argv[1])
# What the interpreter's way to the host asks besides: see docs/applications.md.
NOT_COMPARED = {"kill", "brk", "mmap", "munmap", "madvise", "futex", "sched_yield", "clock_nanosleep", "mremap"}


def calls_of(path):
    """Whole calls of each thread in their order."""
    threads = collections.defaultdict(list)
    for thread, *call in strace.calls(path):
        threads[thread].append(tuple(call))
    return threads


def below(path):
    """A path as the load file has it."""
    return re.sub(r"^\./", "", path)


def compared(calls):
    """The calls of one pass, as words that do not depend on who makes them."""
    open_files, out, dropped = {}, [], set()
    for name, args, result, error in calls:
        done = error or ("0" if name not in ("pread64", "pwrite64") else result)
        paths = [below(path) for path in re.findall(r'"((?:[^"\\]|\\.)*)"', args)]
        first = args.split(",")[0].strip()
        if name in NOT_COMPARED:
            continue
        if name == "openat":
            flags = set(re.search(r"O_\w+(?:\|O_\w+)*", args).group(0).split("|"))
            if "O_PATH" in flags:
                # The way to statfs.
                dropped.add(result)
                continue
            if not error:
                open_files[result] = paths[0]
                dropped.discard(result)
            kept = sorted(flags & {"O_RDONLY", "O_RDWR", "O_WRONLY", "O_CREAT", "O_TRUNC", "O_DIRECTORY"})
            out.append(("open", paths[0], *kept, done))
        elif name in ("statfs", "fstatfs"):
            out.append(("statfs", done))
        elif first in dropped and name == "close":
            dropped.discard(first)
        elif name == "close":
            if first in open_files:
                out.append(("close", open_files.pop(first), done))
        elif name in ("newfstatat", "fstat", "statx", "stat"):
            path = paths[0] if paths and paths[0] else None
            out.append(("stat", path, done) if path is not None else ("fstat", open_files.get(first), done))
        elif name == "getdents64":
            # Whether there are more is asked once more; entries of one directory are one listing.
            if not out or out[-1][:2] != ("getdents", open_files.get(first)):
                out.append(("getdents", open_files.get(first)))
        elif name in ("pread64", "pwrite64"):
            numbers = re.findall(r"(\d+), (\d+)$", args)[0]
            out.append((name, open_files.get(first), *numbers, done))
        elif name == "fcntl" and "F_SETLK" in args:
            out.append(("lock", open_files.get(first), re.search(r"F_\w+LCK", args).group(0), done))
        elif name == "fsync":
            out.append((name, open_files.get(first), done))
        elif name in ("mkdir", "mkdirat"):
            out.append(("mkdir", paths[0], args.split(",")[-1].strip(), done))
        elif name in ("unlink", "unlinkat", "rename", "renameat", "renameat2", "rmdir"):
            plain = {"unlinkat": "unlink", "renameat": "rename", "renameat2": "rename"}.get(name, name)
            out.append((plain, *paths, done))
        elif name == "utimensat":
            out.append((name, paths[0], done))
    return out


def one_pass(threads, begins, ends):
    """The calls of the thread that makes the first call of the load file, from that call to the end of the pass."""
    for calls in threads.values():
        starts = [at for at, call in enumerate(calls) if begins(call)]
        if starts:
            rest = calls[starts[0] :]
            end = next((at for at, call in enumerate(rest) if ends(call)), len(rest))
            return rest[:end]
    sys.exit("FAILED: no thread works on clients/client0")


def kinds(calls):
    """Counts of calls in the words of Weir's ledger; a search of names is counted by the program's own calls."""
    words = {"pread64": "read", "pwrite64": "write", "fsync": "fsync", "getdents64": "readdir", "unlink": "unlink"}
    words |= {"rename": "rename", "mkdir": "mkdir", "statfs": "statfs", "utimensat": "setattr", "close": "close"}
    counts = collections.Counter()
    for name, args, _, _ in calls:
        if name == "openat":
            counts["create" if "O_CREAT" in args else "open"] += 1
        elif name == "newfstatat":
            counts["stat"] += 1
        elif name == "fcntl":
            counts["lock"] += "F_SETLK" in args
        elif name in words:
            counts[words[name]] += 1
    return counts


def main():
    # The first line of the load file looks for a tree of an earlier run.
    at_client = lambda call: call[3] == "ENOENT" and re.search(r'"(\./)?clients/client0"', call[1])
    rewinds = lambda call: call[0] == "lseek" and call[1].startswith("4, 0, SEEK_SET")
    real = one_pass(calls_of(FOLDER / "real.strace"), at_client, rewinds)
    ours = one_pass(calls_of(FOLDER / "ours.strace"), at_client, lambda call: False)
    theirs, own = compared(real), compared(ours)
    # What the cut file leaves open the interpreter closes at the end of its pass.
    left = sum(call[0] == "open" and call[-1] == "0" for call in theirs) - sum(call[0] == "close" for call in theirs)
    for _ in range(left):
        if own[-1][0] == "close":
            own.pop()
    for at, (one, other) in enumerate(zip(theirs, own)):
        if one != other:
            print(f"before: {theirs[max(0, at - 3):at]}", file=sys.stderr)
            sys.exit(f"FAILED: call {at}: the program makes {one}, the interpreter {other}")
    if len(theirs) != len(own):
        sys.exit(f"FAILED: the program makes {len(theirs)} calls, the interpreter {len(own)}")
    print(f"{len(own)} calls on a tmpfs, difference 0", file=sys.stderr)
    expected = kinds(real)
    expected["close"] += left
    document = json.load(open(FOLDER / "designs.json"))
    for result in document.get("results", [document]):
        for sample in result["samples"]:
            found = collections.Counter()
            for operation in sample["operations"]:
                found[{"creat": "create"}.get(operation["kind"], operation["kind"])] += operation["count"]
            # The ledger has both kinds of stat in one.
            wrong = {kind: (count, found[kind]) for kind, count in expected.items() if found[kind] != count}
            # Whether an open makes a file is the design's to say: both together.
            if set(wrong) <= {"open", "create"} and sum(expected[k] - found[k] for k in ("open", "create")) == 0:
                wrong = {}
            if wrong:
                sys.exit(f"FAILED: {sample['axes']['fs']}: calls of the program and of the interpreter: {wrong}")
            print(f"{sample['axes']['fs']:<8} {sum(expected.values())} calls by kind, difference 0", file=sys.stderr)


main()
