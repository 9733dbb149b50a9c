"""What strace has printed with -f, as whole calls: for scripts that hold a program beside Weir."""

import re


def calls(path):
    """Thread, name, arguments, result and error of each call, in the order of their ends. A call that another thread came between
    has two lines."""
    halves = {}
    for line in open(path, errors="replace"):
        parts = re.match(r"(\d+) +(.*)", line)
        if not parts:
            continue
        thread, text = parts.groups()
        if text.endswith("<unfinished ...>"):
            halves[thread] = text[: -len("<unfinished ...>")]
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
        if resumed:
            text = halves.pop(thread, "") + resumed.group(1)
        call = re.match(r"(\w+)\((.*)\) += (-?\w+)(?: (E\w+))?", text)
        if call:
            name, args, result, error = call.groups()
            yield thread, name, args.strip(), result, error
