"""Compares the calls that Exim makes for a message with those of app/exim: the files that exim.sh has left in a folder."""

import collections
import json
import pathlib
import re
import sys

FOLDER = sys.argv[1]
MESSAGES = 10
# In the words of Weir's ledger.
KINDS = {
    "close": "close", "read": "read", "write": "write", "fsync": "fsync", "newfstatat": "stat", "unlink": "unlink",
    "rename": "rename", "fchown": "setattr", "fchmod": "setattr", "utimensat": "setattr", "lseek": "seek", "statfs": "statfs",
}


def theirs():
    """Counts of calls below the spool and the mailboxes, a message."""
    counts = collections.Counter()
    for line in open(f"{FOLDER}/strace", errors="replace"):
        call = re.match(r"\d+ +(\w+)\((.*)", line)
        if not call:
            continue
        name, args = call.groups()
        # A path of the call or the file of its descriptor; not the directory to which a path is relative.
        args = re.sub(r"^AT_FDCWD<[^>]*>", "", args)
        # Files of one message, logs, locks and mailboxes: not the directories above, which Exim looks at once a process.
        if not re.search(re.escape(FOLDER) + r"/(spool/(/?(input|msglog)/|db/|log\b)|mail/user)", args) and name != "statfs":
            continue
        if name == "openat":
            counts["open"] += 1
        elif name == "fcntl":
            counts["lock"] += "F_SETLK" in args
        elif name in KINDS and not (name == "statfs" and FOLDER not in args):
            counts[KINDS[name]] += 1
    return {kind: round(count / MESSAGES, 1) for kind, count in counts.items()}


def ours():
    """Counts of calls of the interpreter, a message."""
    document = json.load(open(f"{FOLDER}/ours.json"))
    sample = document.get("results", [document])[0]["samples"][0]
    counts = collections.Counter()
    for operation in sample["operations"]:
        counts[{"create": "open"}.get(operation["kind"], operation["kind"])] += operation["count"]
    return {kind: round(count / sample["ops"], 1) for kind, count in counts.items()}


real, own = theirs(), ours()
wrong = False
for kind in sorted(set(KINDS.values()) | {"open", "lock"}):
    # What is once a process or connection, and messages that were under way at the end, is less than a half.
    same = abs(real.get(kind, 0) - own.get(kind, 0)) < 0.5
    wrong |= not same
    numbers = f"{real.get(kind, 0):>6} of the program, {own.get(kind, 0):>6} of app/exim"
    print(f"{kind:<8} {numbers}{'' if same else '   DIFFERENT'}", file=sys.stderr)
if wrong:
    sys.exit("FAILED: the counts of calls a message differ")
print("the counts of calls a message are the program's", file=sys.stderr)
